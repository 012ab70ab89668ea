//! The results of operators, for constant folding and for the interpreter.

use abi::Bits;

use crate::expr::{BinOp, Ty, UnOp};

/// The result of an operator with one operand.
pub fn unary(op: UnOp, v: &Bits) -> Bits {
    match op {
        UnOp::Neg => v.neg(),
        UnOp::Not | UnOp::BitNot => v.not(),
    }
}

/// The result of an operator with two operands, which may be signed.
pub fn binary(op: BinOp, signed: bool, x: &Bits, y: &Bits) -> Bits {
    use BinOp::*;
    let order = || if signed { x.cmp_signed(y) } else { x.cmp_unsigned(y) };
    let amount = || y.to_u64().unwrap_or(u64::MAX);
    match op {
        Add => x.add(y),
        Sub => x.sub(y),
        Mul => x.mul(y),
        Div => x.div(y).unwrap_or_else(|| Bits::zero(x.width())),
        Mod => x.rem(y).unwrap_or_else(|| Bits::zero(x.width())),
        AddSat if signed => x.add_sat_signed(y),
        AddSat => x.add_sat(y),
        SubSat if signed => x.sub_sat_signed(y),
        SubSat => x.sub_sat(y),
        And | LogAnd => x.and(y),
        Or | LogOr => x.or(y),
        Xor => x.xor(y),
        Shl => x.shl(amount()),
        Shr if signed => x.shr_signed(amount()),
        Shr => x.shr(amount()),
        Eq => Bits::bit(x == y),
        Ne => Bits::bit(x != y),
        Lt => Bits::bit(order().is_lt()),
        Le => Bits::bit(order().is_le()),
        Gt => Bits::bit(order().is_gt()),
        Ge => Bits::bit(order().is_ge()),
    }
}

/// The result of a cast: the value is truncated, or extended by its sign if it is signed.
pub fn cast(from: Ty, to: Ty, v: &Bits) -> Bits {
    if from.is_signed() { v.resize_signed(to.width()) } else { v.resize(to.width()) }
}
