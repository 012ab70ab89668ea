//! `dead`: stores that nothing reads are removed.
//!
//! A statement is removed if it has no effect outside of the packet's cells and no cell that it writes is live after it. It is also removed
//! if it stores a value that is already there: the place's own value, or a value that a drop has just stored.

use std::collections::HashSet;

use crate::effects::{self, Effect};
use crate::expr::{ExprKind, Place};
use crate::liveness::{self, Event, Liveness};
use crate::program::Program;
use crate::stmt::{Block, HeaderRef, Stmt, StmtKind};
use crate::{visit, visit_mut};

/// Removes dead stores. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let mut needed: HashSet<*const Stmt> = HashSet::new();
    let mut useless: HashSet<*const Stmt> = HashSet::new();
    {
        let live = Liveness::new(program);
        for unit in liveness::units(program) {
            live.walk(program, unit, &mut |event, after| {
                let Event::Stmt(stmt) = event else { return };
                if has_blocks(stmt) || !is_useless(program, stmt, |cell| after.has(live.cells.number(cell))) {
                    needed.insert(stmt as *const Stmt);
                } else {
                    useless.insert(stmt as *const Stmt);
                }
            });
        }
    }
    // The walk visits the statements of an action once for each application of its table. If one of these needs a statement, it stays.
    useless.retain(|stmt| !needed.contains(stmt));
    if useless.is_empty() {
        return false;
    }
    visit_mut::blocks(program, &mut |block| sweep(block, &useless));
    true
}

fn has_blocks(stmt: &Stmt) -> bool {
    !visit::inner_blocks(stmt).is_empty() || matches!(stmt.kind, StmtKind::Break(_) | StmtKind::Continue(_))
}

fn is_useless(program: &Program, stmt: &Stmt, live: impl Fn(crate::cells::Cell) -> bool) -> bool {
    let mut useless = true;
    effects::of(program, stmt, &mut |effect| match effect {
        Effect::Read(_) => {}
        Effect::Write(cell) | Effect::MayWrite(cell) => useless &= !live(cell),
        Effect::Outside(_) => useless = false,
    });
    useless || is_identity(&stmt.kind)
}

/// Whether a statement copies something to itself.
pub(super) fn is_identity(kind: &StmtKind) -> bool {
    if let StmtKind::Assign { dst, src } = kind {
        matches!(&src.kind, ExprKind::Read(place) if place == dst && fixed(place))
    } else if let StmtKind::CopyHeader { dst: HeaderRef::Header(a), src: HeaderRef::Header(b) } = kind {
        a == b
    } else {
        matches!(kind, StmtKind::CopyStack { dst, src } if dst == src)
    }
}

fn fixed(place: &Place) -> bool {
    !matches!(place, Place::Field(HeaderRef::Element(..) | HeaderRef::Next(_) | HeaderRef::Last(_), _))
}

fn sweep(block: &mut Block, useless: &HashSet<*const Stmt>) {
    block.retain_mut(|stmt| {
        if useless.contains(&(stmt as *const Stmt)) {
            return false;
        }
        visit_mut::inner_blocks(stmt).into_iter().for_each(|b| sweep(b, useless));
        true
    });
}
