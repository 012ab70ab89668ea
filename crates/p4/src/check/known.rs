//! Values that are known when the program is instantiated. [`Typed::value`] has those that the source alone determines.
//! Others, such as a size that is a constructor parameter, depend on the instance. They are folded here, from the
//! values of its constructor parameters.

use crate::map::Map;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::fold;
use super::typed::{Builtin, Callee, Kind, Typed};
use super::types::{DeclId, Subst, Type};
use super::value::{Value, cast};
use crate::ast::{Expr, ExprKind};

/// The values that are known in an instance.
pub struct Known<'t, 'a> {
    /// The checked program.
    pub typed: &'t Typed<'a>,
    /// The values of constructor parameters, and of constants that depend on them.
    pub values: &'t Map<DeclId, Value>,
    /// The type arguments of type parameters.
    pub types: &'t Subst,
}

impl<'a> Known<'_, 'a> {
    /// The value of an expression after the implicit cast that its context needs.
    pub fn value(&self, e: &'a Expr) -> Option<Value> {
        if let Some(value) = self.typed.value(e.id) {
            return Some(value);
        }
        let own = self.own(e)?;
        Some(cast(own, &self.ty(e), |m| self.typed.decl(m)?.value.clone()))
    }

    /// The value of a constant or of a constructor parameter.
    pub fn of(&self, id: DeclId) -> Option<Value> {
        if let Some(value) = self.values.get(&id) {
            return Some(value.clone());
        }
        let decl = self.typed.decl(id).filter(|d| d.kind == Kind::Const)?;
        decl.value.clone().or_else(|| self.value(decl.default?))
    }

    fn ty(&self, e: &Expr) -> Type {
        self.typed.ty(e.id).subst(self.types)
    }

    fn own(&self, e: &'a Expr) -> Option<Value> {
        match &e.kind {
            ExprKind::Name { .. } => self.of(self.typed.resolved(e.id)?),
            ExprKind::Member { base, .. } => {
                self.part(base, self.typed.position(self.typed.resolved(e.id)?)?)
            }
            ExprKind::Index { base, index } => self.part(base, self.index(index)?),
            ExprKind::Slice { base, hi, lo } => match self.value(base)? {
                Value::Int(v) => {
                    Some(Value::Int(fold::slice(&v, self.index(hi)? as u32, self.index(lo)? as u32)))
                }
                _ => None,
            },
            ExprKind::Unary { op, operand } => {
                fold::unary(*op, &self.value(operand)?, self.ty(operand).underlying())
            }
            ExprKind::Binary { op, left, right } => {
                let (a, b) = (self.value(left)?, self.value(right)?);
                let (lt, rt) = (self.ty(left), self.ty(right));
                fold::binary(*op, &a, &b, lt.underlying(), rt.underlying()).ok()?
            }
            ExprKind::Ternary { cond, yes, no } => {
                self.value(if self.value(cond)?.as_bool()? { yes } else { no })
            }
            ExprKind::Cast { operand, .. } => {
                let to = self.typed.own_ty(e.id).subst(self.types);
                Some(cast(self.value(operand)?, &to, |m| self.typed.decl(m)?.value.clone()))
            }
            ExprKind::DefaultValue => self.typed.default_value(&self.ty(e)),
            ExprKind::List { items, .. } => {
                let mut values: Vec<Value> = items.iter().map(|i| self.value(i)).collect::<Option<_>>()?;
                for part in self.typed.parts(&self.ty(e)).iter().skip(items.len()) {
                    values.push(self.typed.default_value(part)?);
                }
                Some(Value::Seq(values))
            }
            ExprKind::Struct { fields, .. } => {
                let find = |n: &str| fields.iter().find(|(given, _)| given.text == n).map(|(_, v)| v);
                let all = self.typed.fields(&self.ty(e));
                let values = all.iter().map(|(name, ty, _)| match find(name) {
                    Some(value) => self.value(value),
                    None => self.typed.default_value(ty),
                });
                values.collect::<Option<_>>().map(Value::Seq)
            }
            ExprKind::Call { callee, .. } => self.size(e, callee),
            _ => None,
        }
    }

    fn part(&self, base: &'a Expr, index: usize) -> Option<Value> {
        match self.value(base)? {
            Value::Seq(values) => values.get(index).cloned(),
            _ => None,
        }
    }

    /// The value of a number, a `bool` (0 or 1), or a member of a serializable enum.
    pub fn number(&self, e: &'a Expr) -> Option<BigInt> {
        match self.value(e)? {
            Value::Int(v) => Some(v),
            Value::Bool(b) => Some(BigInt::from(u8::from(b))),
            Value::Member(m) => self.typed.decl(m)?.value.as_ref()?.as_int().cloned(),
            _ => None,
        }
    }

    fn index(&self, e: &'a Expr) -> Option<usize> {
        self.value(e)?.as_int()?.to_usize()
    }

    /// The value of `x.minSizeInBits()` and similar methods if the type of `x` depends on the instance.
    fn size(&self, e: &Expr, callee: &Expr) -> Option<Value> {
        let (Callee::Builtin(builtin), ExprKind::Member { base, .. }) =
            (&self.typed.call(e.id)?.callee, &callee.kind)
        else {
            return None;
        };
        let ty = match self.typed.own_ty(base.id) {
            Type::TypeName(ty) => ty.subst(self.types),
            ty => ty.subst(self.types),
        };
        self.typed.size(*builtin, &ty)
    }
}

impl<'a> Typed<'a> {
    /// The types of the parts of a struct, header, tuple or stack.
    pub fn parts(&self, ty: &Type) -> Vec<Type> {
        match ty {
            Type::Tuple(items) => items.to_vec(),
            Type::Stack(item, n) => vec![(**item).clone(); *n as usize],
            ty => self.fields(ty).into_iter().map(|(_, ty, _)| ty).collect(),
        }
    }

    /// The types of the parts of structs and tuples, recursively. Any other type is one part.
    pub fn leaves(&self, ty: &Type) -> Vec<Type> {
        match ty {
            Type::Tuple(_) | Type::Struct(_) => self.parts(ty).iter().flat_map(|t| self.leaves(t)).collect(),
            ty => vec![ty.clone()],
        }
    }

    /// The default value of a type, which `...` stands for (P4-16 section 7.3).
    pub fn default_value(&self, ty: &Type) -> Option<Value> {
        Some(match ty {
            Type::Bool => Value::Bool(false),
            Type::Int | Type::Bit(_) | Type::Signed(_) | Type::SerEnum(..) => Value::int(0),
            Type::New(_, under) => self.default_value(under)?,
            Type::String => Value::Str("".into()),
            Type::Error => {
                let name = |e: &&DeclId| self.decl(**e).is_some_and(|d| &*d.name == "NoError");
                Value::Member(*self.errors.iter().find(name).or(self.errors.first())?)
            }
            Type::Enum(n) => Value::Member(*self.decl(n.decl)?.members.first()?),
            Type::Header(_) | Type::Union(_) => Value::Invalid,
            Type::Struct(_) | Type::Tuple(_) | Type::Stack(..) => {
                let parts = self.parts(ty);
                Value::Seq(parts.iter().map(|t| self.default_value(t)).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// The value of `x.minSizeInBits()` and similar methods for an `x` of type `ty` (section 9).
    pub fn size(&self, builtin: Builtin, ty: &Type) -> Option<Value> {
        let bits = match builtin {
            Builtin::MinSizeInBits | Builtin::MinSizeInBytes => self.bits_of(ty, false)?,
            Builtin::MaxSizeInBits | Builtin::MaxSizeInBytes => self.bits_of(ty, true)?,
            _ => return None,
        };
        let bytes = matches!(builtin, Builtin::MinSizeInBytes | Builtin::MaxSizeInBytes);
        Some(Value::int(if bytes { bits.div_ceil(8) } else { bits }))
    }

    /// The number of bits of a type in a packet: the greatest if `max`, otherwise the least.
    pub fn bits_of(&self, ty: &Type, max: bool) -> Option<u64> {
        let all =
            |parts: Vec<Type>| -> Option<Vec<u64>> { parts.iter().map(|t| self.bits_of(t, max)).collect() };
        match ty.underlying() {
            Type::Varbit(w) => Some(if max { u64::from(*w) } else { 0 }),
            Type::Stack(t, n) => Some(self.bits_of(t, max)?.saturating_mul(u64::from(*n))),
            t @ Type::Union(_) if max => all(self.parts(t))?.into_iter().max(),
            t @ Type::Union(_) => all(self.parts(t))?.into_iter().min(),
            t if t.has_fields() || matches!(t, Type::Tuple(_)) => Some(all(self.parts(t))?.into_iter().sum()),
            t => t.scalar_width().map(u64::from),
        }
    }

    /// The index of a field or member in its declaration.
    pub fn position(&self, member: DeclId) -> Option<usize> {
        let holder = self.decl(self.decl(member)?.parent?)?;
        holder.members.iter().position(|m| *m == member)
    }
}
