//! Values during lowering: scalar expressions of the IR, storage, and lists without storage. Also constants.

use abi::Bits;
use ir::{Expr, ExprKind, Place, Ty};
use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use super::storage::{Store, scalar};
use super::{Lower, Res};
use crate::ast;
use crate::check::{Type, Value};
use crate::source::Span;

/// The value of an expression.
#[derive(Clone, Debug)]
pub enum Val {
    /// A scalar: a number, a boolean, an enum or an error.
    Scalar(Expr),
    /// A header, struct, tuple, union or stack that has storage.
    Store(Store),
    /// A value of such a type without storage: its parts in the order of the declaration.
    Parts(Vec<Val>),
    /// The invalid header `{#}`.
    Invalid,
    /// No value, as of a call of a `void` function.
    Void,
}

/// A number as `width` bits, in two's complement if it is negative.
pub fn to_bits(value: &BigInt, width: u32) -> Bits {
    let modulus = BigInt::one() << width;
    let low = ((value % &modulus) + &modulus) % &modulus;
    Bits::from_big(width, low.magnitude())
}

/// A constant of type `ty`.
pub fn constant(bits: Bits, ty: Ty) -> Expr {
    Expr { kind: ExprKind::Const(bits), ty }
}

/// A read of a place.
pub fn read(place: &Place, ty: Ty) -> Expr {
    Expr::read(place.clone(), ty)
}

/// An expression cast to another type.
pub fn cast(e: Expr, ty: Ty) -> Expr {
    if e.ty == ty { e } else { Expr { kind: ExprKind::Cast(Box::new(e)), ty } }
}

/// The slice `e[hi:lo]`.
pub fn slice(e: Expr, hi: u32, lo: u32) -> Expr {
    Expr { kind: ExprKind::Slice { base: Box::new(e), hi, lo }, ty: Ty::Bit(hi - lo + 1) }
}

impl Store {
    /// The value that is in the storage.
    pub fn value(&self) -> Val {
        match self {
            Store::Scalar(place, ty) => Val::Scalar(read(place, *ty)),
            other => Val::Store(other.clone()),
        }
    }
}

impl<'a> Lower<'_, 'a> {
    /// A compile-time known value of type `ty`.
    pub(super) fn constant(&mut self, value: &Value, ty: &Type, span: Span) -> Res<Val> {
        if let Some(bits) = self.bits(value, ty) {
            let ty = scalar(ty).unwrap_or(Ty::Bit(bits.width()));
            return Ok(Val::Scalar(constant(bits, ty)));
        }
        match value {
            Value::Seq(values) => {
                let parts = match ty {
                    Type::List(item) => vec![(**item).clone(); values.len()],
                    ty => self.typed.parts(ty),
                };
                let vals = parts.iter().enumerate().map(|(i, ty)| match values.get(i) {
                    Some(value) => self.constant(value, ty, span),
                    None => self.default_of(ty, span),
                });
                vals.collect::<Res<Vec<_>>>().map(Val::Parts)
            }
            Value::Invalid => Ok(Val::Invalid),
            Value::Str(_) | Value::Member(_) => Ok(Val::Void),
            Value::Bool(_) | Value::Int(_) => self.bug(span, &format!("a constant of type `{ty}`")),
        }
    }

    /// A compile-time known value as bits. A number of type `int` gets 32 bits, or more if it needs more.
    pub(super) fn bits(&self, value: &Value, ty: &Type) -> Option<Bits> {
        let width = match (scalar(ty), value) {
            (Some(ty), _) => ty.width(),
            (None, Value::Int(v)) if *ty == Type::Int => 32.max(v.bits() as u32),
            _ => return None,
        };
        match value {
            Value::Bool(b) => Some(Bits::new(width, u128::from(*b))),
            Value::Int(v) => Some(to_bits(v, width)),
            Value::Member(m) => {
                let number = match ty.underlying() {
                    Type::Error => {
                        let name = &self.typed.decl(*m)?.name;
                        self.out.errors.iter().position(|e| **e == **name)
                    }
                    Type::Enum(_) => self.typed.position(*m),
                    _ => return Some(to_bits(self.typed.decl(*m)?.value.as_ref()?.as_int()?, width)),
                };
                Some(Bits::new(width, number? as u128))
            }
            _ => None,
        }
    }

    /// The default value of a type, which `...` stands for (section 7.3).
    pub(super) fn default_of(&mut self, ty: &Type, span: Span) -> Res<Val> {
        match self.typed.default_value(ty) {
            Some(value) => self.constant(&value, ty, span),
            None => self.bug(span, &format!("a default value of type `{ty}`")),
        }
    }

    /// The bits of an expression that is compile-time known in this instance.
    pub(super) fn known_bits(&self, e: &'a ast::Expr) -> Option<Bits> {
        self.bits(&self.known(e)?, &self.ty(e))
    }

    /// The number of an expression that is compile-time known in this instance.
    pub(super) fn known_number(&self, e: &'a ast::Expr) -> Option<BigInt> {
        self.known_values().number(e)
    }

    /// A compile-time known count, of at most `most`.
    pub(super) fn size(&mut self, e: &'a ast::Expr, most: u64) -> Res<u64> {
        match self.known_number(e).map(|v| v.to_u64()) {
            Some(Some(size)) if size <= most => Ok(size),
            Some(_) => self.limit("E0514", e.span, &format!("this is negative or more than {most}")),
            None => self.bug(e.span, "a size that is not known"),
        }
    }

    /// The name of the enum member or error that an expression is known to be.
    pub(super) fn known_member(&self, e: &'a ast::Expr) -> Option<String> {
        match self.known(e)? {
            Value::Member(m) => Some(self.name_of(m)),
            _ => None,
        }
    }

    /// The text of a string that is compile-time known.
    pub(super) fn known_text(&mut self, e: &'a ast::Expr) -> Res<String> {
        match self.known(e) {
            Some(Value::Str(text)) => Ok(text.to_string()),
            _ => self.limit("E0515", e.span, "this string is not compile-time known"),
        }
    }
}
