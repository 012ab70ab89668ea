//! `fold`: expressions of constants become constants, and branches with a constant condition are replaced by the statements that run.

use abi::Bits;

use crate::compute::{binary, cast, unary};
use crate::expr::{BinOp, Expr, ExprKind};
use crate::program::Program;
use crate::stmt::{Block, Stmt, StmtKind};
use crate::visit_mut::{self, Part};

/// Folds all expressions and branches of a program. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let mut changed = false;
    visit_mut::parts(program, &mut |part| {
        if let Part::Expr(e) = part
            && let Some(simpler) = simpler(e)
        {
            *e = simpler;
            changed = true;
        }
    });
    visit_mut::blocks(program, &mut |block| changed |= branches(block));
    changed
}

/// Replaces each decided branch by its statements.
fn branches(block: &mut Block) -> bool {
    let mut changed = false;
    let mut out = Vec::with_capacity(block.len());
    for mut stmt in block.drain(..) {
        for inner in visit_mut::inner_blocks(&mut stmt) {
            changed |= branches(inner);
        }
        if is_decided(&stmt) {
            changed = true;
            out.extend(taken(stmt));
        } else {
            out.push(stmt);
        }
    }
    *block = out;
    changed
}

/// Whether it is known which branch the statement takes, or all its branches are empty.
fn is_decided(stmt: &Stmt) -> bool {
    if let StmtKind::If { cond, then, otherwise } = &stmt.kind {
        cond.as_const().is_some() || (then.is_empty() && otherwise.is_empty())
    } else {
        matches!(&stmt.kind, StmtKind::Switch { on, .. } if on.as_const().is_some())
    }
}

/// The branch that a decided statement takes.
fn taken(stmt: Stmt) -> Block {
    if let StmtKind::If { cond, then, otherwise } = stmt.kind {
        if cond.as_const().is_some_and(|v| !v.is_zero()) { then } else { otherwise }
    } else if let StmtKind::Switch { on, arms, default } = stmt.kind {
        let arm = arms.into_iter().find(|(values, _)| on.as_const().is_some_and(|v| values.contains(v)));
        arm.map_or(default, |(_, body)| body)
    } else {
        vec![stmt]
    }
}

/// A simpler expression with the same value and type, if there is one.
fn simpler(e: &Expr) -> Option<Expr> {
    let constant = |v: Bits| Some(Expr { kind: ExprKind::Const(v), ty: e.ty });
    match &e.kind {
        ExprKind::Const(_) | ExprKind::Read(_) | ExprKind::IsValid(_) | ExprKind::NextIndex(_) => None,
        ExprKind::Unary(op, a) => match (&a.kind, a.as_const()) {
            (_, Some(v)) => constant(unary(*op, v)),
            (ExprKind::Unary(inner, b), _) if op == inner => Some((**b).clone()),
            _ => None,
        },
        ExprKind::Binary(op, a, b) => match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) => constant(binary(*op, a.ty.is_signed(), x, y)),
            (Some(x), None) => short(*op, !x.is_zero(), b),
            (None, Some(y)) => short(*op, !y.is_zero(), a),
            (None, None) => None,
        },
        ExprKind::Cast(a) if a.ty == e.ty => Some((**a).clone()),
        ExprKind::Cast(a) => constant(cast(a.ty, e.ty, a.as_const()?)),
        ExprKind::Slice { base, hi, lo } => match base.as_const() {
            Some(v) => constant(v.slice(*hi, *lo)),
            None if *lo == 0 && hi + 1 == base.ty.width() && base.ty == e.ty => Some((**base).clone()),
            None => None,
        },
        ExprKind::Concat(a, b) => constant(a.as_const()?.concat(b.as_const()?)),
        ExprKind::Mux(c, a, b) => match c.as_const() {
            Some(v) if v.is_zero() => Some((**b).clone()),
            Some(_) => Some((**a).clone()),
            None => None,
        },
    }
}

/// The result of a logical operator with one known operand: `true && e` is `e`, for example.
fn short(op: BinOp, known: bool, other: &Expr) -> Option<Expr> {
    match (op, known) {
        (BinOp::LogAnd, true) | (BinOp::LogOr, false) => Some(other.clone()),
        (BinOp::LogAnd, false) => Some(Expr::bool(false)),
        (BinOp::LogOr, true) => Some(Expr::bool(true)),
        _ => None,
    }
}
