//! Early lookups: a table whose key is known after the parser is looked up for a whole burst at once, between the parser and the controls.
//! The waits for memory of the packets then overlap. When the program applies the table, the row has already been found.
//!
//! This makes programs faster only if a table is larger than the caches. Small tables are looked up when they are applied.
//!
//! A table that learns, is applied at several places and has the property `strait_early_lookup` is looked up early with a guess: the key that the variables of the parser give, and those that
//! an action of another early lookup would set. Where the table is applied, the guess counts if it is the key. Sessions need it: the key of the second
//! lookup of a packet is in the row of the first one, and both rows are in none of the caches.

use std::collections::HashSet;

use abi::manifest::Structure;
use ir::cells::Cell;
use ir::effects;
use ir::{Block, ExprKind, HeaderId, HeaderRef, Place, Program, Role, StmtKind, TableId, VarId, visit};

use crate::c::layout::{FlowRow, offsets};
use crate::c::table::load;
use crate::c::{Body, Home, Unit, Units, c_type};

use super::Native;
use super::table::{cell_of, write_keys};

/// Smallest size in entries of a table that is looked up early.
const LARGE: u64 = 4096;

/// A table that is looked up early, and the headers that its key reads. The lookup is skipped for packets without them.
#[derive(Clone, Debug)]
pub struct Early {
    pub table: TableId,
    pub headers: Vec<HeaderId>,
    /// What is supposed for the key; `None` if the key is known.
    pub guess: Option<Vec<Supposed>>,
}

/// Variables that an action sets to its parameters, if it is that of the row of an earlier lookup.
#[derive(Clone, Debug)]
pub struct Supposed {
    table: TableId,
    /// The number of the action in the table.
    action: u32,
    /// The variables, and the numbers of the parameters.
    sets: Vec<(VarId, usize)>,
}

/// The storage cells that the statements before some point may write.
type Written = HashSet<Cell>;

/// The tables of a program that are looked up early: large tables that ingress applies exactly once, outside of loops, and whose keys
/// nothing writes before.
pub fn tables(
    program: &Program,
    units: &Units,
    structures: &[Option<Structure>],
    applications: &[u32],
) -> Vec<Early> {
    let Some(ingress) = program.control(Role::Ingress) else { return Vec::new() };
    let mut found = Vec::new();
    let parsed = parsed(program);
    // The lookups come before PNA's pre control.
    let mut written = Written::default();
    if let Some(pre) = program.control(Role::PreControl) {
        walk(program, &pre.body, &mut written, &mut |_, _| {});
    }
    walk(program, &ingress.body, &mut written, &mut |table, written| {
        let definition = &program.tables[table.index()];
        let structure = structures[table.index()];
        let large = matches!(structure, Some(Structure::Hash | Structure::Flow | Structure::LpmTrie))
            && definition.size >= LARGE;
        if large && applications[table.index()] == 1 {
            found.extend(settled(program, units, table, written));
        } else if large
            && definition.early_lookup
            && structure == Some(Structure::Flow)
            && !found.iter().any(|early: &Early| early.table == table)
        {
            found.extend(guessed(program, units, table, &parsed, &found));
        }
    });
    found
}

/// The cells that parsers write.
fn parsed(program: &Program) -> Written {
    let mut written = Written::default();
    for parser in &program.parsers {
        let blocks = std::iter::once(&parser.prologue).chain(parser.states.iter().map(|state| &state.body));
        blocks.for_each(|block| walk(program, block, &mut written, &mut |_, _| {}));
    }
    written
}

/// The early lookup of a table by a guess of its key, or `None` if some variable of it has no value behind the parser.
fn guessed(
    program: &Program,
    units: &Units,
    table: TableId,
    parsed: &Written,
    before: &[Early],
) -> Option<Early> {
    let supposed: Vec<Supposed> =
        before.iter().flat_map(|early| suppose(program, units, early.table)).collect();
    let set = |v: &VarId| supposed.iter().any(|s| s.sets.iter().any(|(var, _)| var == v));
    let (mut headers, mut known) = (Vec::new(), true);
    for key in &program.tables[table.index()].keys {
        visit::exprs(&key.expr, &mut |e| match &e.kind {
            ExprKind::Read(Place::Var(v)) => {
                known &= units.home(*v) == Home::State && (parsed.contains(&Cell::Var(*v)) || set(v));
            }
            ExprKind::Read(Place::Field(HeaderRef::Header(h), _)) if !headers.contains(h) => headers.push(*h),
            ExprKind::Read(Place::Field(HeaderRef::Header(_), _))
            | ExprKind::IsValid(HeaderRef::Header(_)) => {}
            ExprKind::Read(_) | ExprKind::IsValid(_) | ExprKind::NextIndex(_) => known = false,
            ExprKind::Const(_)
            | ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Cast(_)
            | ExprKind::Slice { .. }
            | ExprKind::Concat(..)
            | ExprKind::Mux(..) => {}
        });
    }
    known.then_some(Early { table, headers, guess: Some(supposed) })
}

/// What the actions of a table that is looked up early set to their parameters.
fn suppose(program: &Program, units: &Units, table: TableId) -> Vec<Supposed> {
    let action = |(number, listed): (usize, &ir::TableAction)| {
        let action = &program.actions[listed.action.index()];
        let mut sets = Vec::new();
        for stmt in &action.body {
            let StmtKind::Assign { dst: Place::Var(to), src } = &stmt.kind else { continue };
            let ExprKind::Read(Place::Var(from)) = &src.kind else { continue };
            let param = action.params.iter().position(|param| param.var == *from);
            let narrow = c_type(program.var(*to).ty).is_some();
            sets.extend(param.filter(|_| narrow && units.home(*to) == Home::State).map(|param| (*to, param)));
        }
        (!sets.is_empty()).then_some(Supposed { table, action: number as u32, sets })
    };
    program.tables[table.index()].actions.iter().enumerate().filter_map(action).collect()
}

/// Calls `f` for each table that a block applies, with the cells that may have been written before. It does not call `f` for tables that
/// are applied in loops.
fn walk(program: &Program, block: &Block, written: &mut Written, f: &mut dyn FnMut(TableId, &Written)) {
    for stmt in block {
        if let StmtKind::Apply { table, .. } = &stmt.kind {
            f(*table, written);
        }
        if let StmtKind::Loop { body, .. } = &stmt.kind {
            walk(program, body, written, &mut |_, _| {});
        } else {
            visit::inner_blocks(stmt).into_iter().for_each(|b| walk(program, b, written, f));
        }
        note(program, stmt, written);
    }
}

/// Adds the cells that a statement and, for a table, its actions may write.
fn note(program: &Program, stmt: &ir::Stmt, written: &mut Written) {
    effects::writes(program, stmt, &mut |cell| written.extend([cell]));
    if let StmtKind::Apply { table, .. } = &stmt.kind {
        for listed in &program.tables[table.index()].actions {
            let action = &program.actions[listed.action.index()];
            written.extend(action.params.iter().map(|p| Cell::Var(p.var)));
            visit::stmts(&action.body, &mut |stmt| note(program, stmt, written));
        }
    }
}

/// The early lookup of a table, or `None` if something in its key may have been written.
fn settled(program: &Program, units: &Units, table: TableId, written: &Written) -> Option<Early> {
    let mut headers = Vec::new();
    let mut settled = true;
    for key in &program.tables[table.index()].keys {
        visit::exprs(&key.expr, &mut |e| match &e.kind {
            ExprKind::Read(Place::Var(v)) => {
                settled &= !written.contains(&Cell::Var(*v)) && units.home(*v) == Home::State;
            }
            ExprKind::Read(Place::Field(HeaderRef::Header(h), field)) => {
                settled &= !written.contains(&Cell::Valid(*h)) && !written.contains(&Cell::Field(*h, *field));
                if !headers.contains(h) {
                    headers.push(*h);
                }
            }
            ExprKind::IsValid(HeaderRef::Header(h)) => settled &= !written.contains(&Cell::Valid(*h)),
            ExprKind::Read(_) | ExprKind::IsValid(_) | ExprKind::NextIndex(_) => settled = false,
            ExprKind::Const(_)
            | ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Cast(_)
            | ExprKind::Slice { .. }
            | ExprKind::Concat(..)
            | ExprKind::Mux(..) => {}
        });
    }
    settled.then_some(Early { table, headers, guess: None })
}

/// Emits what an action of an earlier lookup would do to variables, if that has found a row with this action.
fn set(body: &mut Body<'_>, supposed: &Supposed) {
    let definition = &body.program.tables[supposed.table.index()];
    let name = body.names.table(supposed.table).to_string();
    let action = definition.actions[supposed.action as usize].action;
    let (offsets, at) = (offsets(body.program, supposed.table, action), FlowRow::of(definition).data);
    body.text.open(format!("if (t->{name}_early && t->{name}_row)"));
    body.text.line(format!("const u8 *d = (const u8 *)t->{name}_row + {at};"));
    body.text.open(format!("if (*(u16 *)d == {})", supposed.action));
    for (var, param) in &supposed.sets {
        let ty = c_type(body.program.var(*var).ty).unwrap_or("u64");
        let place = body.var(*var);
        body.text.line(format!("{place} = {};", load(ty, "d", offsets[*param])));
    }
    body.text.close("");
    body.text.close("");
}

impl Native<'_> {
    /// Emits `early_lookups(work, count)`: all early lookups of a burst.
    pub(super) fn early_lookups(&mut self) {
        let tables = self.early.clone();
        for early in &tables {
            self.early_key(early);
            self.early_table(early);
        }
        self.c.text.line("");
        self.c.text.line("/* Looks up the tables whose keys are known after the parser. */");
        self.c.text.open("INLINE void early_lookups(UNUSED struct packet *work, UNUSED u32 count)");
        for early in &tables {
            let name = self.c.names.table(early.table);
            self.c.text.line(format!("early_{name}(work, count);"));
        }
        self.c.text.close("");
    }

    /// Emits `key_T(pkt)`: writes the key of table T, or returns 1 if the packet lacks a header of the key.
    fn early_key(&mut self, early: &Early) {
        let name = self.c.names.table(early.table).to_string();
        let index = early.table.index();
        let Some(layout) = self.c.manifest.tables[index].layout.clone() else { return };
        let definition = &self.c.program.tables[index];
        self.c.function(&format!("key_{name}"), Unit::Table(index as u32), |body: &mut Body<'_>| {
            for h in &early.headers {
                let header = body.names.header(*h).to_string();
                body.text.line(format!("if (!s->{header}_valid)"));
                body.text.line("    return 1;");
            }
            body.text.line(format!("u64 *words = t->{name}_key;"));
            let supposed = early.guess.iter().flatten();
            let vars: Vec<VarId> =
                supposed.clone().flat_map(|s| s.sets.iter().map(|(var, _)| *var)).collect();
            // The program has not set them yet, so they get their values back.
            for (at, var) in vars.iter().enumerate() {
                let ty = c_type(body.program.var(*var).ty).unwrap_or("u64");
                let value = body.var(*var);
                body.text.line(format!("{ty} kept_{at} = {value};"));
            }
            supposed.for_each(|supposed| set(body, supposed));
            write_keys(body, definition, &layout);
            for (at, var) in vars.iter().enumerate() {
                let place = body.var(*var);
                body.text.line(format!("{place} = kept_{at};"));
            }
        });
    }

    /// Emits `early_T(work, count)`: looks up table T for all packets of a burst that have its key.
    fn early_table(&mut self, early: &Early) {
        let name = self.c.names.table(early.table).to_string();
        let index = early.table.index();
        let Some(layout) = self.c.manifest.tables[index].layout.clone() else { return };
        let bulk = match layout.structure {
            Structure::LpmTrie => "find_lpm_bulk(table, keys, rows, m)".to_string(),
            Structure::Flow => {
                let at = FlowRow::of(&self.c.program.tables[index]).key;
                format!("find_flow_bulk(table, keys, rows, m, {}, {at})", layout.key_size.div_ceil(8))
            }
            Structure::Keyless
            | Structure::Array
            | Structure::Hash
            | Structure::TupleSpace
            | Structure::Code => {
                format!("find_exact_bulk(table, keys, rows, m, {})", layout.key_size.div_ceil(8))
            }
        };
        // The cells that a hit writes are prefetched too, because they are not in the row. With a million sessions, the cache misses on
        // their last hits cost as much time as the lookups.
        let (mut cells, cell) = (Vec::new(), cell_of(layout.structure, "rows[i]"));
        if layout.counter_offset.is_some() {
            cells.push(format!("(struct count *)work->frame.worker->direct[{index}].cells + {cell}"));
        }
        if self.c.program.tables[index].notifies_idle {
            cells.push(format!("(u64 *)work->frame.worker->hits[{index}].cells + {cell}"));
        }
        let t = &mut self.c.text;
        t.line("");
        t.open(format!("static void early_{name}(struct packet *work, u32 count)"));
        t.line(format!("const struct table *table = &work->frame.shared->tables[{index}];"));
        if layout.structure == Structure::Hash {
            t.open("if (is_empty(table))");
            t.open("for (u32 i = 0; i < count; i++)");
            t.line(format!("work[i].scratch.{name}_early = 1;"));
            t.line(format!("work[i].scratch.{name}_row = 0;"));
            t.close("");
            t.line("return;");
            t.close("");
        }
        t.line("const u64 *keys[BURST];");
        t.line("const struct row *rows[BURST];");
        t.line("struct scratch *of[BURST];");
        t.line("u32 m = 0;");
        t.open("for (u32 i = 0; i < count; i++)");
        t.line("struct scratch *t = &work[i].scratch;");
        t.line("of[m] = t;");
        t.line(format!("keys[m] = t->{name}_key;"));
        t.line(format!("t->{name}_early = !key_{name}(&work[i]);"));
        t.line(format!("m += t->{name}_early;"));
        t.close("");
        t.line(format!("{bulk};"));
        t.open("for (u32 i = 0; i < m; i++)");
        t.line(format!("of[i]->{name}_row = rows[i];"));
        for cell in cells {
            t.line("if (rows[i])");
            t.line(format!("    PREFETCH_WRITE({cell});"));
        }
        t.close("");
        t.close("");
    }
}
