//! The storage of variables. A variable that only one function uses is a local of that function. All others are in the packet's state.

use std::collections::{HashMap, HashSet};

use ir::cells::Cell;
use ir::effects;
use ir::pipeline::Mention;
use ir::{Block, Program, Role, StmtKind, Transition, Var, VarId, VarKind, visit};

use super::{Facts, facts::Machine};

/// An emitted function, or a group of functions that cannot have locals of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// The function of a parser or control.
    Role(Role),
    /// The function of the table with this number, with its actions.
    Table(u32),
    /// The functions that call the others: the entry point and what it consists of.
    Frame,
}

/// The storage of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The variable is a local of this function.
    Local(Unit),
    /// The variable is a member of the state.
    State,
    /// The variable has no storage, because nothing uses it.
    Nowhere,
}

/// The storage of all variables.
#[derive(Debug)]
pub struct Units {
    homes: Vec<Home>,
}

impl Units {
    /// Finds a home for each variable. On eBPF, values of more than 64 bits always live in the state: a few addresses would fill the stack, which
    /// has 512 bytes. On native, they live in registers, because a copy of 16 bytes waits until stores of 8 bytes have reached the cache.
    pub fn new(program: &Program, facts: &Facts) -> Units {
        let mut users: HashMap<VarId, HashSet<Unit>> = HashMap::new();
        let mut note = |var: VarId, unit: Unit| {
            // The emitted code writes it only if the program reads it.
            if facts.checks || var != program.standard.checksum_error {
                users.entry(var).or_default().insert(unit);
            }
        };
        for parser in &program.parsers {
            let bodies = parser.states.iter().flat_map(|s| [&s.body, &s.rejected]);
            let blocks = [&parser.prologue].into_iter().chain(bodies);
            blocks.for_each(|b| vars_of(program, b, &mut |v| note(v, Unit::Role(parser.role))));
            for state in &parser.states {
                if let Transition::Select(select) = &state.next {
                    select
                        .keys
                        .iter()
                        .for_each(|k| vars_of_expr(program, k, &mut |v| note(v, Unit::Role(parser.role))));
                }
            }
        }
        for control in &program.controls {
            vars_of(program, &control.body, &mut |v| note(v, Unit::Role(control.role)));
        }
        for (i, table) in program.tables.iter().enumerate() {
            let unit = Unit::Table(i as u32);
            let keys = table.keys.iter().map(|k| &k.expr).chain(&table.selector);
            keys.for_each(|e| vars_of_expr(program, e, &mut |v| note(v, unit)));
            for listed in &table.actions {
                let action = &program.actions[listed.action.index()];
                vars_of(program, &action.body, &mut |v| note(v, unit));
                action.params.iter().for_each(|p| note(p.var, unit));
            }
        }
        for var in architecture(program) {
            note(var, Unit::Frame);
        }
        if facts.machine() == Machine::Bpf {
            visit::all_stmts(program, &mut |stmt| {
                // The body becomes a function, which cannot use the locals of another one.
                if let StmtKind::Loop { bound, body, .. } = &stmt.kind
                    && !Machine::Bpf.ends(*bound)
                {
                    vars_of(program, body, &mut |v| note(v, Unit::Frame));
                }
            });
        }
        let widest = if facts.machine() == Machine::Bpf { 64 } else { 128 };
        let home = |(i, var): (usize, &Var)| {
            let id = VarId(i as u32);
            home(var, widest, users.get(&id), facts.cleared.contains(&id))
        };
        Units { homes: program.vars.iter().enumerate().map(home).collect() }
    }

    /// The storage of a variable.
    pub fn home(&self, var: VarId) -> Home {
        self.homes[var.index()]
    }

    /// The locals of a function, in the order of their numbers.
    pub fn locals(&self, unit: Unit) -> Vec<VarId> {
        let own = |(i, h): (usize, &Home)| (*h == Home::Local(unit)).then_some(VarId(i as u32));
        self.homes.iter().enumerate().filter_map(own).collect()
    }
}

/// Chooses the storage of a variable from the functions that use it. A table may be applied several times. If its actions read the variable
/// before they write it, they read the value from the previous application, and a local would not keep that value.
fn home(var: &Var, widest: u32, users: Option<&HashSet<Unit>>, read_early: bool) -> Home {
    let Some(users) = users else { return Home::Nowhere };
    let forgets = |unit: &Unit| read_early && matches!(unit, Unit::Table(_));
    let only = users.iter().next().filter(|unit| users.len() == 1 && !forgets(unit));
    match only {
        Some(unit) if var.kind != VarKind::Metadata && var.ty.width() <= widest && *unit != Unit::Frame => {
            Home::Local(*unit)
        }
        _ => Home::State,
    }
}

/// The variables that the functions around the controls read: those that the pipeline reads, and the parser's error.
fn architecture(program: &Program) -> Vec<VarId> {
    let mut found = vec![program.standard.parser_error];
    program.pipeline.mentions(&mut |mention| match mention {
        Mention::Read(v) => found.push(*v),
        Mention::Expr(e) => vars_of_expr(program, e, &mut |v| found.push(v)),
        Mention::Written(_) | Mention::Header(_) => {}
    });
    found
}

/// Calls `f` for the variables that a block reads or writes, including the keys and results of the tables that it applies.
fn vars_of(program: &Program, block: &Block, f: &mut impl FnMut(VarId)) {
    visit::stmts(block, &mut |stmt| {
        effects::cells(program, stmt, &mut |cell| {
            if let Cell::Var(v) = cell {
                f(v);
            }
        });
    });
}

fn vars_of_expr(program: &Program, e: &ir::Expr, f: &mut impl FnMut(VarId)) {
    effects::reads(program, e, &mut |cell| {
        if let Cell::Var(v) = cell {
            f(v);
        }
    });
}
