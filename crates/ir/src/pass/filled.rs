//! `filled`: checks of a stack's next index that always succeed are removed.
//!
//! Evaluating `stack.last` rejects if the stack is empty, and evaluating `stack.next` if it is full (P4-16 section 8.18). Programs mostly
//! read the element that they have just extracted, and an extraction into `next` rejects by itself.

use std::collections::HashSet;

use crate::cells::Cell;
use crate::effects::{self, Effect};
use crate::expr::{BinOp, Expr, ExprKind};
use crate::program::{Program, StackId};
use crate::stmt::{Block, HeaderRef, Stmt, StmtKind};
use crate::{visit, visit_mut};

/// Removes such checks from all parsers. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let mut checks = false;
    visit::all_stmts(program, &mut |stmt| checks |= asked(program, stmt).is_some());
    if !checks {
        return false;
    }
    let known = program.clone();
    let mut changed = false;
    visit_mut::blocks(program, &mut |block| changed |= sweep(&known, block, HashSet::new()));
    changed
}

/// Removes checks from a block. `filled` has the stacks that have an element where the block begins; a stack is named by the owner of its
/// next index.
fn sweep(program: &Program, block: &mut Block, mut filled: HashSet<StackId>) -> bool {
    let mut changed = false;
    let mut out = Vec::with_capacity(block.len());
    let mut rest = std::mem::take(block).into_iter().peekable();
    while let Some(mut stmt) = rest.next() {
        match asked(program, &stmt) {
            Some(Asked::HasLast(stack)) if !filled.insert(stack) => {
                changed = true;
                continue;
            }
            Some(Asked::HasNext(stack)) if rest.peek().and_then(|s| extracted(program, s)) == Some(stack) => {
                changed = true;
                continue;
            }
            Some(_) => {}
            None => {
                moved(program, &stmt, &mut filled);
                for inner in visit_mut::inner_blocks(&mut stmt) {
                    changed |= sweep(program, inner, filled.clone());
                }
                filled.extend(extracted(program, &stmt));
            }
        }
        out.push(stmt);
    }
    *block = out;
    changed
}

enum Asked {
    HasLast(StackId),
    HasNext(StackId),
}

/// The kind of check that a statement makes, if it checks a next index.
fn asked(program: &Program, stmt: &Stmt) -> Option<Asked> {
    let StmtKind::Verify { cond: Expr { kind: ExprKind::Binary(op, index, bound), .. }, error } = &stmt.kind
    else {
        return None;
    };
    let (ExprKind::NextIndex(stack), Some(bound)) = (&index.kind, bound.as_const()) else { return None };
    let stack = &program.stacks[stack.index()];
    let out_of_bounds = program.errors.get(error.index()).is_some_and(|e| e == "StackOutOfBounds");
    let is_size = bound.to_u64() == Some(stack.size.into());
    if *op == BinOp::Ne && bound.is_zero() {
        Some(Asked::HasLast(stack.index))
    } else if *op == BinOp::Lt && is_size && out_of_bounds {
        Some(Asked::HasNext(stack.index))
    } else {
        None
    }
}

/// The stack whose next element a statement extracts.
fn extracted(program: &Program, stmt: &Stmt) -> Option<StackId> {
    let StmtKind::Extract { header: HeaderRef::Next(stack), .. } = &stmt.kind else { return None };
    Some(program.stacks[stack.index()].index)
}

/// Removes the stacks from `filled` whose next index a statement may change.
fn moved(program: &Program, stmt: &Stmt, filled: &mut HashSet<StackId>) {
    effects::of(program, stmt, &mut |effect| {
        if let Effect::Write(Cell::Next(stack)) | Effect::MayWrite(Cell::Next(stack)) = effect {
            filled.remove(&stack);
        }
    });
    for block in visit::inner_blocks(stmt) {
        block.iter().for_each(|s| moved(program, s, filled));
    }
}
