//! Compile-time known values, and casts of them.

use std::sync::Arc;

use num_bigint::{BigInt, Sign};
use num_traits::{One, Zero};

use super::types::{DeclId, Type};

/// A compile-time known value (P4-16 section 18.1). [`Typed`](super::typed::Typed) has its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The value of a `bool`.
    Bool(bool),
    /// An `int`, a `bit<W>` (never negative) or an `int<W>` (within its range): the number, not its bit pattern.
    Int(BigInt),
    /// The text of a `string`, without quotes and escapes.
    Str(Arc<str>),
    /// A member of an enum (serializable or not), of `error` or of `match_kind`: its declaration.
    Member(DeclId),
    /// The elements of a tuple, list or array, or the fields of a struct or valid header in the order of the
    /// declaration.
    Seq(Vec<Value>),
    /// The invalid header `{#}`.
    Invalid,
}

impl Value {
    /// The value of a small number.
    pub fn int(value: impl Into<BigInt>) -> Value {
        Value::Int(value.into())
    }

    /// The number, or `None` if the value is no number.
    pub fn as_int(&self) -> Option<&BigInt> {
        match self {
            Value::Int(v) => Some(v),
            _ => None,
        }
    }

    /// The boolean, or `None` if the value is no boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

/// A value cast to another type (P4-16 section 8.11.1). `number` returns the representation of a serializable enum's
/// member.
pub fn cast(value: Value, to: &Type, number: impl Fn(DeclId) -> Option<Value>) -> Value {
    let value = match (value, to) {
        (Value::Member(m), Type::Enum(_) | Type::Error | Type::MatchKind) => Value::Member(m),
        (Value::Member(m), _) => number(m).unwrap_or(Value::Member(m)),
        (other, _) => other,
    };
    match (value, to.underlying()) {
        (Value::Bool(b), Type::Bit(_) | Type::Int) => Value::int(u8::from(b)),
        (Value::Int(v), Type::Bool) => Value::Bool(!v.is_zero()),
        (Value::Int(v), t) => Value::Int(wrap(&v, t)),
        (other, _) => other,
    }
}

/// Whether a number is in the range of a type. Every number is in the range of `int`.
pub fn fits(value: &BigInt, ty: &Type) -> bool {
    wrap(value, ty) == *value
}

/// The number modulo 2^W, in the range of the type. Casts never fail (P4-16 section 8.11.1).
pub fn wrap(value: &BigInt, ty: &Type) -> BigInt {
    match ty {
        Type::Bit(w) | Type::Varbit(w) => low_bits(value, *w),
        Type::Signed(w) => {
            let low = low_bits(value, *w);
            if *w > 0 && low.bit(u64::from(*w) - 1) { low - (BigInt::one() << *w) } else { low }
        }
        _ => value.clone(),
    }
}

/// The low `width` bits, as a number that is not negative.
fn low_bits(value: &BigInt, width: u32) -> BigInt {
    let modulus = BigInt::one() << width;
    let rest = value % &modulus;
    if rest.sign() == Sign::Minus { rest + modulus } else { rest }
}

/// The least and the greatest number of a fixed-width type.
pub fn range(ty: &Type) -> Option<(BigInt, BigInt)> {
    match ty {
        Type::Bit(w) => Some((BigInt::from(0), (BigInt::one() << *w) - 1)),
        Type::Signed(0) => Some((BigInt::from(0), BigInt::from(0))),
        Type::Signed(w) => {
            let half = BigInt::one() << (w - 1);
            Some((-half.clone(), half - 1))
        }
        _ => None,
    }
}
