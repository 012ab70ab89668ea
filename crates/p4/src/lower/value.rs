//! Values as the walk meets them: scalar expressions of the IR, storage, and lists that have no storage. And constants.

use abi::Bits;
use ir::{Expr, ExprKind, Place, Ty};
use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use super::storage::{Store, scalar};
use super::{Lower, Res};
use crate::ast;
use crate::check::{Type, Value};
use crate::source::Span;

/// What an expression comes to.
#[derive(Clone, Debug)]
pub enum Val {
    /// A scalar.
    Scalar(Expr),
    /// A header, struct, tuple, union or stack that lives somewhere.
    Store(Store),
    /// A value of such a type that lives nowhere: its parts in the order of the declaration.
    Parts(Vec<Val>),
    /// `{#}`
    Invalid,
    /// Nothing.
    Void,
}

/// The pattern of a number in `width` bits, two's complement if negative.
pub fn to_bits(value: &BigInt, width: u32) -> Bits {
    let modulus = BigInt::one() << width;
    let low = ((value % &modulus) + &modulus) % &modulus;
    Bits::from_big(width, low.magnitude())
}

/// A constant of that type.
pub fn constant(bits: Bits, ty: Ty) -> Expr {
    Expr { kind: ExprKind::Const(bits), ty }
}

/// The value of a place.
pub fn read(place: &Place, ty: Ty) -> Expr {
    Expr::read(place.clone(), ty)
}

/// An expression as one of another type.
pub fn cast(e: Expr, ty: Ty) -> Expr {
    if e.ty == ty { e } else { Expr { kind: ExprKind::Cast(Box::new(e)), ty } }
}

/// `e[hi:lo]`.
pub fn slice(e: Expr, hi: u32, lo: u32) -> Expr {
    Expr { kind: ExprKind::Slice { base: Box::new(e), hi, lo }, ty: Ty::Bit(hi - lo + 1) }
}

impl Store {
    /// The value that lives there.
    pub fn value(&self) -> Val {
        match self {
            Store::Scalar(place, ty) => Val::Scalar(read(place, *ty)),
            other => Val::Store(other.clone()),
        }
    }
}

impl<'a> Lower<'_, 'a> {
    /// A compile-time value as one of that type.
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

    /// A compile-time value as bits; a number without width in 32 bits, or as many as it has.
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

    /// What `...` stands for.
    pub(super) fn default_of(&mut self, ty: &Type, span: Span) -> Res<Val> {
        match self.typed.default_value(ty) {
            Some(value) => self.constant(&value, ty, span),
            None => self.bug(span, &format!("a default value of type `{ty}`")),
        }
    }

    /// The bits of an expression that is known in this instance.
    pub(super) fn known_bits(&self, e: &'a ast::Expr) -> Option<Bits> {
        self.bits(&self.known(e)?, &self.ty(e))
    }

    /// A number that is known in this instance.
    pub(super) fn known_number(&self, e: &'a ast::Expr) -> Option<BigInt> {
        self.knows().number(e)
    }

    /// A number of cells, entries or bits.
    pub(super) fn size(&mut self, e: &'a ast::Expr, most: u64) -> Res<u64> {
        match self.known_number(e).map(|v| v.to_u64()) {
            Some(Some(size)) if size <= most => Ok(size),
            Some(_) => {
                self.limit("E0514", e.span, &format!("this is more than {most}, or less than nothing"))
            }
            None => self.bug(e.span, "a size that is not known"),
        }
    }

    /// The name of the member that an expression is known to be.
    pub(super) fn known_member(&self, e: &'a ast::Expr) -> Option<String> {
        match self.known(e)? {
            Value::Member(m) => Some(self.name_of(m)),
            _ => None,
        }
    }

    /// A string, known when compiled.
    pub(super) fn known_text(&mut self, e: &'a ast::Expr) -> Res<String> {
        match self.known(e) {
            Some(Value::Str(text)) => Ok(text.to_string()),
            _ => self.limit("E0515", e.span, "this string is not known when the program is compiled"),
        }
    }
}
