//! Evaluates expressions. Expressions are pure: they have no effect besides their value.

use abi::Bits;
use ir::{BinOp, Expr, ExprKind, HeaderRef, Place, Program, Ty, compute};

use crate::packet::{PacketState, zero};

/// Evaluates an expression.
pub fn eval(p: &Program, s: &PacketState, e: &Expr) -> Bits {
    match &e.kind {
        ExprKind::Const(v) => v.clone(),
        ExprKind::Read(place) => read(p, s, place, e.ty),
        ExprKind::IsValid(h) => Bits::bit(header(p, s, h).is_some_and(|id| s.headers[id.index()].valid)),
        ExprKind::NextIndex(stack) => Bits::new(32, s.next[p.stacks[stack.index()].index.index()] as u128),
        ExprKind::Unary(op, a) => compute::unary(*op, &eval(p, s, a)),
        ExprKind::Binary(op, a, b) => binary(p, s, *op, a, b),
        ExprKind::Cast(a) => compute::cast(a.ty, e.ty, &eval(p, s, a)),
        ExprKind::Slice { base, hi, lo } => eval(p, s, base).slice(*hi, *lo),
        ExprKind::Concat(a, b) => eval(p, s, a).concat(&eval(p, s, b)),
        ExprKind::Mux(c, a, b) => eval(p, s, if truth(p, s, c) { a } else { b }),
    }
}

/// Evaluates a condition.
pub fn truth(p: &Program, s: &PacketState, e: &Expr) -> bool {
    !eval(p, s, e).is_zero()
}

/// The header that a reference denotes now; `None` if its index is out of the stack's range.
pub fn header(p: &Program, s: &PacketState, h: &HeaderRef) -> Option<ir::HeaderId> {
    s.resolve(p, h, || match h {
        HeaderRef::Element(_, index) => eval(p, s, index).to_u64().unwrap_or(u64::MAX),
        HeaderRef::Header(_) | HeaderRef::Next(_) | HeaderRef::Last(_) => 0,
    })
}

/// The value of a variable or field. An element outside its stack's range reads as zero.
pub fn read(p: &Program, s: &PacketState, place: &Place, ty: Ty) -> Bits {
    match place {
        Place::Var(id) => s.vars[id.index()].clone(),
        Place::Field(h, field) => match header(p, s, h) {
            Some(id) => s.headers[id.index()].fields[*field as usize].clone(),
            None => zero(ty),
        },
    }
}

fn binary(p: &Program, s: &PacketState, op: BinOp, a: &Expr, b: &Expr) -> Bits {
    let x = eval(p, s, a);
    if op == BinOp::LogAnd && x.is_zero() || op == BinOp::LogOr && !x.is_zero() {
        return x;
    }
    let y = eval(p, s, b);
    compute::binary(op, a.ty.is_signed(), &x, &y)
}
