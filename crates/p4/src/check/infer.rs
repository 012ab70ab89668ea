//! Type inference: unknown types, and their unification (P4-16 section 8.18).

use std::mem::discriminant;
use std::sync::Arc;

use super::Checker;
use super::typed::Callee;
use super::types::{Named, Type};

/// The unknown types of the calls that are being checked.
#[derive(Default)]
pub struct Unknowns {
    found: Vec<Option<Type>>,
}

impl Checker<'_, '_> {
    /// Replaces unknowns in all recorded types by the types that were inferred for them.
    pub(super) fn resolve_unknowns(&mut self) {
        let unknowns = std::mem::take(&mut self.unknowns);
        let settle = |ty: &mut Type| {
            if ty.any(&mut |t| matches!(t, Type::Infer(_))) {
                *ty = unknowns.resolve(ty);
            }
        };
        let typed = &mut self.typed;
        typed.types.iter_mut().flatten().for_each(settle);
        typed.casts.values_mut().for_each(settle);
        for call in typed.calls.values_mut().chain(typed.instances.values_mut()) {
            call.type_args.iter_mut().for_each(|(_, ty)| settle(ty));
            if let Callee::Constructor(ty, _) = &mut call.callee {
                settle(ty);
            }
        }
    }
}

impl Unknowns {
    /// A new unknown type.
    pub fn fresh(&mut self) -> Type {
        self.found.push(None);
        Type::Infer(self.found.len() as u32 - 1)
    }

    /// The type that was inferred for an unknown. Unknowns inside of that type remain.
    pub fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        while let Type::Infer(n) = ty {
            match self.found.get(n as usize).cloned().flatten() {
                Some(next) => ty = next,
                None => break,
            }
        }
        ty
    }

    /// The type with all inferred unknowns replaced.
    pub fn resolve(&self, ty: &Type) -> Type {
        if self.found.is_empty() {
            return ty.clone();
        }
        ty.map(&mut |t| match t {
            Type::Infer(_) => {
                let top = self.shallow(t);
                Some(if let Type::Infer(_) = top { top } else { self.resolve(&top) })
            }
            _ => None,
        })
    }

    /// Makes two types equal by inferring unknowns, if that is possible. `Bad` and `_` are equal to every type.
    pub fn unify(&mut self, a: &Type, b: &Type) -> bool {
        use Type::*;
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            (Infer(x), Infer(y)) if x == y => true,
            (DontCare, _) | (_, DontCare) => true,
            (Infer(x), other) | (other, Infer(x)) => self.bind(*x, other),
            (Bad, _) | (_, Bad) => true,
            (a, b) if a.named().is_some() && discriminant(a) == discriminant(b) => {
                a.named().zip(b.named()).is_some_and(|(x, y)| self.unify_named(x, y))
            }
            (Stack(x, n), Stack(y, m)) => n == m && self.unify(x, y),
            (Tuple(x), Tuple(y)) => self.unify_all(x, y),
            (List(x), List(y)) | (Set(x), Set(y)) => self.unify(x, y),
            (Record(x), Record(y)) => {
                x.len() == y.len()
                    && x.iter().zip(y.iter()).all(|(p, q)| p.0 == q.0 && self.unify(&p.1, &q.1))
            }
            _ => a == b,
        }
    }

    fn unify_named(&mut self, a: &Named, b: &Named) -> bool {
        a.decl == b.decl && self.unify_all(&a.args, &b.args)
    }

    fn unify_all(&mut self, a: &Arc<[Type]>, b: &Arc<[Type]>) -> bool {
        a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| self.unify(x, y))
    }

    fn bind(&mut self, unknown: u32, ty: &Type) -> bool {
        let ty = self.resolve(ty);
        if ty == Type::Infer(unknown) {
            return true;
        }
        // A type cannot contain itself.
        if ty.any(&mut |t| *t == Type::Infer(unknown)) {
            return false;
        }
        self.found[unknown as usize] = Some(ty);
        true
    }
}
