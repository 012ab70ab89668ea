//! Expressions of constants become constants, as they are made.

use abi::Bits;
use ir::{BinOp, Expr, ExprKind, Ty, UnOp};

fn constant(bits: Bits, ty: Ty) -> Expr {
    Expr { kind: ExprKind::Const(bits), ty }
}

/// `a op b`. `None`: a division by zero.
pub fn binary(op: BinOp, a: Expr, b: Expr) -> Option<Expr> {
    let ty = if op.is_predicate() { Ty::Bool } else { a.ty };
    if let (Some(x), Some(y)) = (a.as_const(), b.as_const()) {
        return Some(constant(compute(op, x, y, a.ty.is_signed())?, ty));
    }
    if let Some(shorter) = shorten(op, &a, &b) {
        return Some(shorter);
    }
    Some(Expr::binary(op, a, b))
}

/// `true && e` is `e`, and the like.
fn shorten(op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let (known, other) = match (a.as_const(), b.as_const()) {
        (Some(x), None) => (!x.is_zero(), b),
        (None, Some(y)) => (!y.is_zero(), a),
        _ => return None,
    };
    match (op, known) {
        (BinOp::LogAnd, true) | (BinOp::LogOr, false) => Some(other.clone()),
        (BinOp::LogAnd, false) => Some(Expr::bool(false)),
        (BinOp::LogOr, true) => Some(Expr::bool(true)),
        _ => None,
    }
}

fn compute(op: BinOp, x: &Bits, y: &Bits, signed: bool) -> Option<Bits> {
    use BinOp::*;
    let order = || if signed { x.cmp_signed(y) } else { x.cmp_unsigned(y) };
    let shift = || y.to_u64().unwrap_or(u64::MAX);
    Some(match op {
        Add => x.add(y),
        Sub => x.sub(y),
        Mul => x.mul(y),
        Div => x.div(y)?,
        Mod => x.rem(y)?,
        AddSat if signed => x.add_sat_signed(y),
        AddSat => x.add_sat(y),
        SubSat if signed => x.sub_sat_signed(y),
        SubSat => x.sub_sat(y),
        And | LogAnd => x.and(y),
        Or | LogOr => x.or(y),
        Xor => x.xor(y),
        Shl => x.shl(shift()),
        Shr if signed => x.shr_signed(shift()),
        Shr => x.shr(shift()),
        Eq => Bits::bit(x == y),
        Ne => Bits::bit(x != y),
        Lt => Bits::bit(order().is_lt()),
        Le => Bits::bit(order().is_le()),
        Gt => Bits::bit(order().is_gt()),
        Ge => Bits::bit(order().is_ge()),
    })
}

/// `op a`.
pub fn unary(op: UnOp, a: Expr) -> Expr {
    let ty = a.ty;
    match a.as_const() {
        Some(v) => constant(if op == UnOp::Neg { v.neg() } else { v.not() }, ty),
        None => Expr { kind: ExprKind::Unary(op, Box::new(a)), ty },
    }
}

/// `(ty) a`.
pub fn cast(a: Expr, ty: Ty) -> Expr {
    if a.ty == ty {
        return a;
    }
    match a.as_const() {
        Some(v) if a.ty.is_signed() => constant(v.resize_signed(ty.width()), ty),
        Some(v) => constant(v.resize(ty.width()), ty),
        None => Expr { kind: ExprKind::Cast(Box::new(a)), ty },
    }
}

/// `a[hi:lo]`.
pub fn slice(a: Expr, hi: u32, lo: u32) -> Expr {
    let ty = Ty::Bit(hi - lo + 1);
    if lo == 0 && hi + 1 == a.ty.width() {
        return cast(a, ty);
    }
    match a.as_const() {
        Some(v) => constant(v.slice(hi, lo), ty),
        None => Expr { kind: ExprKind::Slice { base: Box::new(a), hi, lo }, ty },
    }
}

/// `a ++ b`.
pub fn concat(a: Expr, b: Expr) -> Expr {
    let width = a.ty.width() + b.ty.width();
    let ty = if a.ty.is_signed() { Ty::Int(width) } else { Ty::Bit(width) };
    match (a.as_const(), b.as_const()) {
        (Some(x), Some(y)) => constant(x.concat(y), ty),
        _ => Expr { kind: ExprKind::Concat(Box::new(a), Box::new(b)), ty },
    }
}

/// `c ? a : b`.
pub fn mux(c: Expr, a: Expr, b: Expr) -> Expr {
    match c.as_const() {
        Some(v) => {
            if v.is_zero() {
                b
            } else {
                a
            }
        }
        None => {
            let ty = a.ty;
            Expr { kind: ExprKind::Mux(Box::new(c), Box::new(a), Box::new(b)), ty }
        }
    }
}
