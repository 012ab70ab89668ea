//! Numbers that are known where a program is instantiated: literals, constants, and what constructors were given.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{Place, Walk};
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::check::{DeclId, Res, Value};
use crate::map::Map;

/// What the parameters of a constructor stand for.
#[derive(Clone, Default)]
pub(super) struct Values<'a> {
    known: Map<DeclId, Value>,
    given: Map<DeclId, &'a Expr>,
}

impl<'a> Values<'a> {
    pub(super) fn bind(&mut self, param: DeclId, value: Option<Value>, e: &'a Expr) {
        if let Some(value) = value {
            self.known.insert(param, value);
        }
        self.given.insert(param, e);
    }

    /// The expression that a parameter was given.
    pub(super) fn expr(&self, param: DeclId) -> Option<&'a Expr> {
        self.given.get(&param).copied()
    }
}

impl<'a> Walk<'_, 'a> {
    /// The value of an expression in an instance.
    pub(super) fn value(&self, e: &'a Expr, place: &Place<'a>) -> Option<Value> {
        if let Some(value) = self.typed.value(e.id) {
            return Some(value);
        }
        match &e.kind {
            ExprKind::Name { .. } => match self.typed.res(e.id)? {
                Res::Decl(id) => place.values.known.get(id).cloned(),
                _ => None,
            },
            ExprKind::Cast { operand, .. } => self.value(operand, place),
            ExprKind::Unary { op: UnaryOp::Minus, operand } => Some(Value::Int(-self.int(operand, place)?)),
            ExprKind::Binary { op, left, right } => {
                let (a, b) = (self.int(left, place)?, self.int(right, place)?);
                Some(Value::Int(match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div if b != BigInt::from(0) => a / b,
                    BinaryOp::Shl => a << b.to_u16()?,
                    BinaryOp::Shr => a >> b.to_u16()?,
                    _ => return None,
                }))
            }
            _ => None,
        }
    }

    /// A number, an enum's member with a representation among them.
    pub(super) fn int(&self, e: &'a Expr, place: &Place<'a>) -> Option<BigInt> {
        match self.value(e, place)? {
            Value::Int(v) => Some(v),
            Value::Bool(b) => Some(BigInt::from(u8::from(b))),
            Value::Member(m) => self.typed.decl(m)?.value.as_ref()?.as_int().cloned(),
            _ => None,
        }
    }

    /// A number of cells or entries.
    pub(super) fn size(&self, e: &'a Expr, place: &Place<'a>) -> i64 {
        self.int(e, place).and_then(|v| v.to_i64()).unwrap_or(0)
    }
}

/// A number as bytes, most significant first, as many as its width needs.
pub(super) fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let (_, short) = value.to_bytes_be();
    let len = width.div_ceil(8) as usize;
    let mut out = vec![0; len.saturating_sub(short.len())];
    out.extend(&short[short.len().saturating_sub(len)..]);
    out
}
