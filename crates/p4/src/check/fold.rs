//! Constant folding: operators on [`Value`]s (P4-16 sections 8.5 to 8.10).

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

use super::types::Type;
use super::value::{Value, range, wrap};
use crate::ast::{BinaryOp, UnaryOp};

/// Why a constant expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Division or modulo by zero.
    DivideByZero,
    /// Division or modulo of negative numbers.
    NegativeDivision,
    /// A shift by a negative amount.
    NegativeShift,
    /// A number or a string that is larger than [`MAX_BITS`]. Without this limit, `1 << 1000000000` would exhaust the
    /// memory.
    TooLarge,
}

/// The most bits of a compile-time known number, and the most bytes of a string.
pub const MAX_BITS: u64 = 1 << 16;

/// The unary operation `op value`. The operand has type `ty`.
pub fn unary(op: UnaryOp, value: &Value, ty: &Type) -> Option<Value> {
    Some(match (op, value) {
        (UnaryOp::Not, Value::Bool(b)) => Value::Bool(!b),
        (UnaryOp::Minus, Value::Int(v)) => Value::Int(wrap(&-v, ty)),
        (UnaryOp::Complement, Value::Int(v)) => Value::Int(wrap(&(-v - 1), ty)),
        (UnaryOp::Plus, Value::Int(v)) => Value::Int(v.clone()),
        _ => return None,
    })
}

/// The binary operation `a op b`. The left operand has type `ty`, the right one type `right`. `Ok(None)`: the operator
/// is not defined for these values.
pub fn binary(op: BinaryOp, a: &Value, b: &Value, ty: &Type, right: &Type) -> Result<Option<Value>, Fault> {
    use BinaryOp::*;
    Ok(Some(match (op, a, b) {
        (And, Value::Bool(x), Value::Bool(y)) => Value::Bool(*x && *y),
        (Or, Value::Bool(x), Value::Bool(y)) => Value::Bool(*x || *y),
        (Eq, x, y) => Value::Bool(x == y),
        (Ne, x, y) => Value::Bool(x != y),
        (Concat, Value::Str(x), Value::Str(y)) => {
            bounded((x.len() + y.len()) as u64)?;
            Value::Str(format!("{x}{y}").into())
        }
        (Concat, Value::Int(x), Value::Int(y)) => match (ty.scalar_width(), right.scalar_width()) {
            (Some(w), Some(v)) => {
                let high = wrap(x, &Type::Bit(w)) << v;
                let whole = high + wrap(y, &Type::Bit(v));
                let result = if let Type::Signed(_) = ty { Type::Signed(w + v) } else { Type::Bit(w + v) };
                Value::Int(wrap(&whole, &result))
            }
            _ => return Ok(None),
        },
        (Shl | Shr, Value::Int(x), Value::Int(y)) => Value::Int(shift(op, x, y, ty)?),
        (_, Value::Int(x), Value::Int(y)) => return number(op, x, y, ty),
        _ => return Ok(None),
    }))
}

fn number(op: BinaryOp, x: &BigInt, y: &BigInt, ty: &Type) -> Result<Option<Value>, Fault> {
    use BinaryOp::*;
    let value = match op {
        Add => x + y,
        Sub => x - y,
        Mul => bounded(x.bits() + y.bits()).map(|()| x * y)?,
        Div | Mod => {
            if y.is_zero() {
                return Err(Fault::DivideByZero);
            }
            if x.is_negative() || y.is_negative() {
                return Err(Fault::NegativeDivision);
            }
            if op == Div { x / y } else { x % y }
        }
        AddSat => clamp(x + y, ty),
        SubSat => clamp(x - y, ty),
        BitAnd => x & y,
        BitOr => x | y,
        BitXor => x ^ y,
        Lt => return Ok(Some(Value::Bool(x.cmp(y) == Ordering::Less))),
        Le => return Ok(Some(Value::Bool(x <= y))),
        Gt => return Ok(Some(Value::Bool(x > y))),
        Ge => return Ok(Some(Value::Bool(x >= y))),
        _ => return Ok(None),
    };
    Ok(Some(Value::Int(wrap(&value, ty))))
}

/// A shift. If the amount is the width or more, wrapping the result gives zero, or copies of the sign.
fn shift(op: BinaryOp, x: &BigInt, y: &BigInt, ty: &Type) -> Result<BigInt, Fault> {
    if y.is_negative() {
        return Err(Fault::NegativeShift);
    }
    let limit = ty.scalar_width().map(u64::from);
    let amount = match (y.to_u64(), limit) {
        (Some(n), Some(w)) => n.min(w),
        (None, Some(w)) => w,
        (Some(n), None) if op == BinaryOp::Shr => n.min(x.bits() + 1),
        (None, None) if op == BinaryOp::Shr => x.bits() + 1,
        (Some(n), None) => n,
        (None, None) => return Err(Fault::TooLarge),
    };
    if op == BinaryOp::Shl {
        bounded(x.bits().saturating_add(amount))?;
        return Ok(wrap(&(x << amount), ty));
    }
    Ok(x >> amount)
}

fn bounded(bits: u64) -> Result<(), Fault> {
    if bits > MAX_BITS { Err(Fault::TooLarge) } else { Ok(()) }
}

fn clamp(value: BigInt, ty: &Type) -> BigInt {
    match range(ty) {
        Some((low, high)) => value.max(low).min(high),
        None => value,
    }
}

/// `value[hi:lo]`.
pub fn slice(value: &BigInt, hi: u32, lo: u32) -> BigInt {
    wrap(&(value >> lo), &Type::Bit(hi - lo + 1))
}
