//! `jumps`: unnecessary labels and jumps are removed.
//!
//! A `Break` at the end of its own block is unnecessary. Statements after a jump never run. A block that no `Break` leaves is replaced by
//! its statements.

use std::collections::HashSet;

use crate::program::{LabelId, Program};
use crate::stmt::{Block, StmtKind};
use crate::visit;
use crate::visit_mut;

/// Simplifies the jumps of a program. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let mut changed = false;
    visit_mut::blocks(program, &mut |block| changed |= simplify(block));
    changed
}

fn simplify(block: &mut Block) -> bool {
    let mut changed = cut(block);
    let mut out = Vec::with_capacity(block.len());
    for mut stmt in block.drain(..) {
        for inner in visit_mut::inner_blocks(&mut stmt) {
            changed |= simplify(inner);
        }
        if let StmtKind::Block { label, body } = &mut stmt.kind {
            changed |= tail(body, *label);
            if !targets(body).contains(label) {
                changed = true;
                out.append(body);
                continue;
            }
        }
        if matches!(&stmt.kind, StmtKind::Atomic(body) if body.is_empty()) {
            changed = true;
            continue;
        }
        out.push(stmt);
    }
    *block = out;
    changed
}

/// Removes the statements after a jump.
fn cut(block: &mut Block) -> bool {
    let jump = block.iter().position(|s| matches!(s.kind, StmtKind::Break(_) | StmtKind::Continue(_)));
    match jump {
        Some(at) if at + 1 < block.len() => {
            block.truncate(at + 1);
            true
        }
        _ => false,
    }
}

/// Removes breaks of `label` at the end of the block with that label.
fn tail(block: &mut Block, label: LabelId) -> bool {
    let mut changed = false;
    while matches!(block.last().map(|s| &s.kind), Some(StmtKind::Break(l)) if *l == label) {
        block.pop();
        changed = true;
    }
    match block.last_mut().map(|s| &mut s.kind) {
        Some(StmtKind::If { then, otherwise, .. }) => {
            changed |= tail(then, label);
            changed |= tail(otherwise, label);
        }
        Some(StmtKind::Switch { arms, default, .. }) => {
            arms.iter_mut().for_each(|(_, arm)| changed |= tail(arm, label));
            changed |= tail(default, label);
        }
        Some(StmtKind::Block { body, .. } | StmtKind::Atomic(body)) => changed |= tail(body, label),
        _ => {}
    }
    changed
}

/// The labels that the breaks in a block name.
fn targets(block: &Block) -> HashSet<LabelId> {
    let mut all = HashSet::new();
    visit::stmts(block, &mut |s| {
        if let StmtKind::Break(label) = s.kind {
            all.insert(label);
        }
    });
    all
}
