//! What is known of a program before a line of it is written.

use std::collections::HashSet;

use ir::cells::Cell;
use ir::checksum::Plan;
use ir::effects::{self, Effect};
use ir::{Call, HeaderId, Place, Program, StmtKind, VarId, visit};

use super::{header, stack};

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
            ways.multicast |= matches!(visit::written(stmt), Some(Place::Var(v)) if *v == group);
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
    pub fn new(program: &Program, dialect: Dialect) -> Facts {
        let plan = ir::checksum::plan(program);
        let mut used = HashSet::new();
        visit::all_exprs(program, &mut |e| {
            if let ir::ExprKind::Read(Place::Field(h, f)) = &e.kind {
                used.extend(stack::elements(program, h).into_iter().map(|h| (h, *f)));
            }
        });
        visit::all_stmts(program, &mut |stmt| {
            if let StmtKind::Call(Call::VerifyChecksum { checksum: Place::Field(h, f), .. }) = &stmt.kind {
                used.extend(stack::elements(program, h).into_iter().map(|h| (h, *f)));
            }
        });
        let changed = changed(program);
        let made = made(program, &changed);
        let touched: HashSet<_> = changed.iter().map(|(h, _)| *h).chain(made.iter().copied()).collect();
        let whole = if dialect == Dialect::Native { &made } else { &touched };
        let raw = (0..program.headers.len() as u32).filter(|h| !whole.contains(&HeaderId(*h))).collect();
        let mut checks = false;
        let error = program.standard.checksum_error;
        visit::all_exprs(program, &mut |e| {
            checks |= matches!(&e.kind, ir::ExprKind::Read(Place::Var(v)) if *v == error);
        });
        let mut applications = vec![0; program.tables.len()];
        visit::all_stmts(program, &mut |stmt| {
            if let StmtKind::Apply { table, .. } = &stmt.kind {
                applications[table.index()] += 1;
            }
        });
        let count = Default::default();
        let ways = Ways::of(program);
        Facts { dialect, plan, used, made, changed, touched, raw, checks, applications, count, ways }
    }

    /// Whether a field is extracted.
    pub fn extracts(&self, h: HeaderId, field: u32) -> bool {
        let whole = if self.dialect == Dialect::Native { &self.made } else { &self.touched };
        whole.contains(&h) || self.changed.contains(&(h, field)) || self.used.contains(&(h, field))
    }
}

/// A sum that is written incrementally changes no field here: it is changed in the packet.
fn changed(program: &Program) -> HashSet<(HeaderId, u32)> {
    let mut changed = HashSet::new();
    visit::all_stmts(program, &mut |stmt| {
        let deferred = matches!(&stmt.kind, StmtKind::Call(Call::UpdateChecksum { payload: true, .. }));
        let (Some(Place::Field(header, field)), false) = (visit::written(stmt), deferred) else { return };
        for h in stack::elements(program, header) {
            let groups = header::groups(program.header_type(h));
            let group = groups.into_iter().find(|group| group.contains(&(*field as usize)));
            changed.extend(group.into_iter().flatten().map(|f| (h, f as u32)));
        }
    });
    changed
}

fn made(program: &Program, changed: &HashSet<(HeaderId, u32)>) -> HashSet<HeaderId> {
    let headers = (0..program.headers.len() as u32).map(HeaderId);
    let every =
        |h: &HeaderId| (0..program.header_type(*h).fields.len() as u32).all(|f| changed.contains(&(*h, f)));
    let mut made: HashSet<HeaderId> = headers.filter(every).collect();
    visit::all_stmts(program, &mut |stmt| match &stmt.kind {
        // What is copied is read as a whole.
        StmtKind::SetValid(_)
        | StmtKind::CopyHeader { .. }
        | StmtKind::CopyStack { .. }
        | StmtKind::PushFront(..)
        | StmtKind::PopFront(..) => effects::of(program, stmt, &mut |effect| {
            if let Effect::Read(Cell::Valid(h))
            | Effect::MayWrite(Cell::Valid(h))
            | Effect::Write(Cell::Valid(h)) = effect
            {
                made.insert(h);
            }
        }),
        _ => {}
    });
    made
}
