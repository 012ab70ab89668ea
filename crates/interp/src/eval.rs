//! Expressions: pure, so nothing but a value comes out.

use abi::Bits;
use ir::{BinOp, Expr, ExprKind, HeaderRef, Place, Program, Ty, UnOp};

use crate::packet::PacketState;

/// The value of an expression.
pub fn eval(p: &Program, s: &PacketState, e: &Expr) -> Bits {
    match &e.kind {
        ExprKind::Const(v) => v.clone(),
        ExprKind::Read(place) => read(p, s, place, e.ty),
        ExprKind::IsValid(h) => Bits::bit(header(p, s, h).is_some_and(|id| s.headers[id.index()].valid)),
        ExprKind::NextIndex(stack) => Bits::new(32, s.next[p.stacks[stack.index()].index.index()] as u128),
        ExprKind::Unary(op, a) => {
            let v = eval(p, s, a);
            if *op == UnOp::Neg { v.neg() } else { v.not() }
        }
        ExprKind::Binary(op, a, b) => binary(p, s, *op, a, b),
        ExprKind::Cast(a) => {
            let v = eval(p, s, a);
            if a.ty.is_signed() { v.resize_signed(e.ty.width()) } else { v.resize(e.ty.width()) }
        }
        ExprKind::Slice { base, hi, lo } => eval(p, s, base).slice(*hi, *lo),
        ExprKind::Concat(a, b) => eval(p, s, a).concat(&eval(p, s, b)),
        ExprKind::Mux(c, a, b) => eval(p, s, if truth(p, s, c) { a } else { b }),
    }
}

/// The value of a condition.
pub fn truth(p: &Program, s: &PacketState, e: &Expr) -> bool {
    !eval(p, s, e).is_zero()
}

/// The header that a reference names now.
pub fn header(p: &Program, s: &PacketState, h: &HeaderRef) -> Option<ir::HeaderId> {
    s.resolve(p, h, || match h {
        HeaderRef::Element(_, index) => eval(p, s, index).to_u64().unwrap_or(u64::MAX),
        _ => 0,
    })
}

/// The value of a place; out of range of a stack it is zero.
pub fn read(p: &Program, s: &PacketState, place: &Place, ty: Ty) -> Bits {
    match place {
        Place::Var(id) => s.vars[id.index()].clone(),
        Place::Field(h, field) => match header(p, s, h) {
            Some(id) => s.headers[id.index()].fields[*field as usize].clone(),
            None => Bits::zero(ty.width()),
        },
    }
}

fn binary(p: &Program, s: &PacketState, op: BinOp, a: &Expr, b: &Expr) -> Bits {
    use BinOp::*;
    let x = eval(p, s, a);
    match op {
        LogAnd if x.is_zero() => return x,
        LogOr if !x.is_zero() => return x,
        _ => {}
    }
    let y = eval(p, s, b);
    let signed = a.ty.is_signed();
    let order = || if signed { x.cmp_signed(&y) } else { x.cmp_unsigned(&y) };
    let shift = || y.to_u64().unwrap_or(u64::MAX);
    match op {
        Add => x.add(&y),
        Sub => x.sub(&y),
        Mul => x.mul(&y),
        Div => x.div(&y).unwrap_or_else(|| Bits::zero(x.width())),
        Mod => x.rem(&y).unwrap_or_else(|| Bits::zero(x.width())),
        AddSat if signed => x.add_sat_signed(&y),
        AddSat => x.add_sat(&y),
        SubSat if signed => x.sub_sat_signed(&y),
        SubSat => x.sub_sat(&y),
        And => x.and(&y),
        Or => x.or(&y),
        Xor => x.xor(&y),
        Shl => x.shl(shift()),
        Shr if signed => x.shr_signed(shift()),
        Shr => x.shr(shift()),
        Eq => Bits::bit(x == y),
        Ne => Bits::bit(x != y),
        Lt => Bits::bit(order().is_lt()),
        Le => Bits::bit(order().is_le()),
        Gt => Bits::bit(order().is_gt()),
        Ge => Bits::bit(order().is_ge()),
        LogAnd | LogOr => y,
    }
}
