//! What is known of a program before a line of it is written.

use std::collections::{BTreeSet, HashSet};

use ir::cells::Cell;
use ir::checksum::Plan;
use ir::effects::{self, Effect};
use ir::{Call, HeaderId, Program, Stmt, StmtKind, Transition, VarId, VarKind, Verified, visit};

use super::header;

/// For which machine the C is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The kernel's traffic control: no stack to speak of, maps, helpers, a verifier that follows every way.
    Tc,
    /// A processor: plain memory.
    Native,
}

impl Dialect {
    /// What functions call the packet.
    pub fn packet(self) -> &'static str {
        match self {
            Dialect::Tc => "skb",
            Dialect::Native => "pkt",
        }
    }

    /// The packet's length.
    pub fn length(self) -> &'static str {
        match self {
            Dialect::Tc => "skb->len",
            Dialect::Native => "pkt->length",
        }
    }

    /// Rounds that a loop may have at most: the kernel's verifier walks each of them.
    pub fn loop_bound(self) -> u64 {
        match self {
            Dialect::Tc => 256,
            // The counter has 32 bits and passes its bound by one.
            Dialect::Native => u64::from(u32::MAX) - 1,
        }
    }
}

/// What an emitter keeps beside the text.
pub struct Facts {
    /// For which machine.
    pub dialect: Dialect,
    /// Checksums to derive.
    pub plan: Plan,
    /// Variables that must be zero when a packet arrives. To clear what need not be is a cost on every packet (docs/device-mode.md).
    pub cleared: BTreeSet<VarId>,
    /// Fields that something reads after extraction.
    pub used: HashSet<(HeaderId, u32)>,
    /// Headers that the program makes: it sets them valid, copies them, or changes every byte. All their fields are extracted and written.
    pub made: HashSet<HeaderId>,
    /// Fields that anything but extraction writes, with those that share bytes with them.
    pub changed: HashSet<(HeaderId, u32)>,
    /// Headers that the program changes or makes.
    pub touched: HashSet<HeaderId>,
    /// Headers that are not written as a whole, and may have to be moved as they are.
    pub raw: Vec<u32>,
    /// Whether the program looks at `checksum_error`.
    pub checks: bool,
    /// How many statements apply each table.
    pub applications: Vec<u32>,
    /// Statements with checksums met so far.
    pub count: ir::checksum::Numbering,
    /// What packets may do besides leaving once.
    pub ways: Ways,
}

/// What packets may do besides leaving once.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // Whether the program does what the name says.
pub struct Ways {
    pub multicast: bool,
    pub clone: bool,
    pub resubmit: bool,
    pub recirculate: bool,
    pub truncate: bool,
    /// Lists of variables that a copy or a further round takes along, each once.
    pub keeps: Vec<Vec<VarId>>,
}

impl Ways {
    fn of(program: &Program) -> Ways {
        let mut ways = Ways::default();
        let group = program.standard.mcast_grp;
        visit::all_stmts(program, &mut |stmt| {
            if !matches!(stmt.kind, StmtKind::Drop(_)) {
                writes(program, stmt, &mut |cell| ways.multicast |= cell == Cell::Var(group));
            }
            let StmtKind::Call(call) = &stmt.kind else { return };
            ways.truncate |= matches!(call, Call::Truncate(_));
            let (asked, keep) = match call {
                Call::Clone { keep, .. } => (&mut ways.clone, keep),
                Call::Resubmit { keep } => (&mut ways.resubmit, keep),
                Call::Recirculate { keep } => (&mut ways.recirculate, keep),
                _ => return,
            };
            *asked = true;
            if !ways.keeps.contains(keep) {
                ways.keeps.push(keep.clone());
            }
        });
        ways
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.multicast || self.clone || self.resubmit || self.recirculate || self.truncate
    }

    /// What stands in the packet's state for a list that is kept: 0 is nothing asked.
    pub fn number(&self, keep: &Vec<VarId>) -> usize {
        self.keeps.iter().position(|k| k == keep).map_or(0, |at| at + 1)
    }
}

impl Facts {
    /// Looks a program over.
    pub fn new(program: &Verified, dialect: Dialect) -> Facts {
        let plan = ir::checksum::plan(program);
        let (mut used, mut checks) = (HashSet::new(), false);
        let error = program.standard.checksum_error;
        all_needs(program, &mut |cell| match cell {
            Cell::Field(h, f) => drop(used.insert((h, f))),
            cell => checks |= cell == Cell::Var(error),
        });
        let metadata = |(i, v): (usize, &ir::Var)| (v.kind == VarKind::Metadata).then_some(VarId(i as u32));
        let mut cleared = program.liveness().read_first(program);
        cleared.extend(program.vars.iter().enumerate().filter_map(metadata));
        let changed = changed(program);
        let made = made(program, &changed);
        let touched: HashSet<_> = changed.iter().map(|(h, _)| *h).chain(made.iter().copied()).collect();
        let whole = if dialect == Dialect::Native { &made } else { &touched };
        let raw = (0..program.headers.len() as u32).filter(|h| !whole.contains(&HeaderId(*h))).collect();
        let mut applications = vec![0; program.tables.len()];
        visit::all_stmts(program, &mut |stmt| {
            if let StmtKind::Apply { table, .. } = &stmt.kind {
                applications[table.index()] += 1;
            }
        });
        let count = Default::default();
        let ways = Ways::of(program);
        Facts { dialect, plan, cleared, used, made, changed, touched, raw, checks, applications, count, ways }
    }

    /// Whether a field is extracted.
    pub fn extracts(&self, h: HeaderId, field: u32) -> bool {
        let whole = if self.dialect == Dialect::Native { &self.made } else { &self.touched };
        whole.contains(&h) || self.changed.contains(&(h, field)) || self.used.contains(&(h, field))
    }
}

/// Calls `f` for each cell that a statement writes, if it may or must.
fn writes(program: &Program, stmt: &Stmt, f: &mut dyn FnMut(Cell)) {
    effects::of(program, stmt, &mut |effect| {
        if let Effect::Write(cell) | Effect::MayWrite(cell) = effect {
            f(cell);
        }
    });
}

/// Whether a statement writes a sum over the payload: it changes the packet when that leaves, and no field here.
fn is_deferred(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::Call(Call::UpdateChecksum { payload: true, .. }))
}

/// Calls `f` for each cell whose value a statement works with. What is emitted as it stands in the packet is not among them.
pub fn needs(program: &Program, stmt: &Stmt, f: &mut dyn FnMut(Cell)) {
    match &stmt.kind {
        StmtKind::Emit(_) => {}
        StmtKind::Call(Call::UpdateChecksum { payload: true, cond, data, .. }) => {
            data.iter().chain([cond]).for_each(|e| effects::reads(program, e, f));
        }
        _ => effects::of(program, stmt, &mut |effect| {
            if let Effect::Read(cell) = effect {
                f(cell);
            }
        }),
    }
}

/// As [`needs`], of all statements and of what parsers select by.
fn all_needs(program: &Program, f: &mut dyn FnMut(Cell)) {
    visit::all_stmts(program, &mut |stmt| needs(program, stmt, f));
    for state in program.parsers.iter().flat_map(|p| &p.states) {
        if let Transition::Select(select) = &state.next {
            select.keys.iter().for_each(|k| effects::reads(program, k, f));
        }
    }
}

/// Fields that a statement writes by themselves, with those that share bytes with them. Headers as a whole are [`made`].
fn changed(program: &Program) -> HashSet<(HeaderId, u32)> {
    let mut changed = HashSet::new();
    visit::all_stmts(program, &mut |stmt| {
        if is_deferred(stmt) || is_whole(stmt) {
            return;
        }
        writes(program, stmt, &mut |cell| {
            let Cell::Field(h, field) = cell else { return };
            let groups = header::groups(program.header_type(h));
            let group = groups.into_iter().find(|group| group.contains(&(field as usize)));
            changed.extend(group.into_iter().flatten().map(|f| (h, f as u32)));
        });
    });
    changed
}

/// Whether a statement writes whole headers.
fn is_whole(stmt: &Stmt) -> bool {
    matches!(
        stmt.kind,
        StmtKind::Extract { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
    )
}

fn made(program: &Program, changed: &HashSet<(HeaderId, u32)>) -> HashSet<HeaderId> {
    let headers = (0..program.headers.len() as u32).map(HeaderId);
    let every =
        |h: &HeaderId| (0..program.header_type(*h).fields.len() as u32).all(|f| changed.contains(&(*h, f)));
    let mut made: HashSet<HeaderId> = headers.filter(every).collect();
    visit::all_stmts(program, &mut |stmt| {
        if !is_whole(stmt) || matches!(stmt.kind, StmtKind::Extract { .. } | StmtKind::SetInvalid(_)) {
            return;
        }
        // What is copied is read as a whole.
        effects::of(program, stmt, &mut |effect| {
            if let Effect::Read(Cell::Valid(h))
            | Effect::MayWrite(Cell::Valid(h))
            | Effect::Write(Cell::Valid(h)) = effect
            {
                made.insert(h);
            }
        });
    });
    made
}
