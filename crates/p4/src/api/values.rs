//! Compile-time known values in an instance.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{Place, Walk};
use crate::ast::Expr;
use crate::check::{Known, Value};

impl<'a> Walk<'_, 'a> {
    /// The value of an expression in an instance.
    pub(super) fn value(&self, e: &'a Expr, place: &Place<'a>) -> Option<Value> {
        self.known(place).value(e)
    }

    /// The value of a number, or of a member of a serializable enum.
    pub(super) fn int(&self, e: &'a Expr, place: &Place<'a>) -> Option<BigInt> {
        self.known(place).number(e)
    }

    fn known<'p>(&'p self, place: &'p Place<'a>) -> Known<'p, 'a> {
        Known { typed: self.typed, values: &place.values, types: &place.types }
    }

    /// A number of cells or entries.
    pub(super) fn size(&self, e: &'a Expr, place: &Place<'a>) -> i64 {
        self.int(e, place).and_then(|v| v.to_i64()).unwrap_or(0)
    }
}

/// A number as bytes, the most significant first. The width determines how many.
pub(super) fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let (_, short) = value.to_bytes_be();
    let len = width.div_ceil(8) as usize;
    let mut out = vec![0; len.saturating_sub(short.len())];
    out.extend(&short[short.len().saturating_sub(len)..]);
    out
}
