//! Lvalues, and assignments to them.

use ir::{BinOp, Expr, HeaderRef, Place, StmtKind as Ir, Ty, UnOp};

use super::storage::Store;
use super::value::{Val, cast, read, slice};
use super::{Lower, Res};
use crate::ast::{self, BinaryOp, ExprKind};
use crate::source::Span;

/// An lvalue. Its indices have been evaluated, so later statements do not change which place it is.
#[derive(Clone)]
pub enum Lvalue {
    Store(Store),
    /// Bits `hi` to `lo` of a scalar: `place[hi:lo]`.
    Bits(Place, Ty, u32, u32),
    /// Bits of a scalar from a bit that is only known at run time: place, its type, the lowest bit, and the type of the
    /// slice.
    From(Place, Ty, Expr, Ty),
}

/// An assignment that is due when a call ends.
#[derive(Clone)]
pub struct CopyOut {
    pub target: Lvalue,
    pub from: Store,
}

impl<'a> Lower<'_, 'a> {
    /// Evaluates an expression as an lvalue. Indices are evaluated now, so that statements before the write cannot
    /// change them.
    pub(super) fn lvalue(&mut self, e: &'a ast::Expr) -> Res<Lvalue> {
        if let ExprKind::Slice { base, hi, lo } = &e.kind {
            return self.slice_lvalue(e, [base, hi, lo]);
        }
        match self.named_store(e)? {
            Some(store) => Ok(Lvalue::Store(self.fix_indices(store))),
            None => self.bug(e.span, "this cannot be written"),
        }
    }

    /// The storage that an expression refers to.
    fn named_store(&mut self, e: &'a ast::Expr) -> Res<Option<Store>> {
        // A scalar variable or field is evaluated to a read of its place.
        Ok(match self.expr(e)? {
            Val::Store(store) => Some(store),
            Val::Scalar(Expr { kind: ir::ExprKind::Read(place), ty }) => Some(Store::Scalar(place, ty)),
            _ => None,
        })
    }

    fn slice_lvalue(&mut self, e: &'a ast::Expr, [base, hi, lo]: [&'a ast::Expr; 3]) -> Res<Lvalue> {
        let bounds = self.slice_bounds(hi, lo);
        let (place, ty, first) = match self.lvalue(base)? {
            Lvalue::Store(Store::Scalar(place, ty)) => (place, ty, None),
            Lvalue::Bits(place, ty, _, lo) => (place, ty, Some(lo)),
            _ => {
                return self.limit(
                    "E0519",
                    e.span,
                    "this is a slice of a slice whose bounds are only known at run time",
                );
            }
        };
        if let Some((hi, lo)) = bounds {
            let first = first.unwrap_or(0);
            return Ok(Lvalue::Bits(place, ty, first + hi, first + lo));
        }
        if first.is_some() {
            return self.limit(
                "E0519",
                e.span,
                "this is a slice of a slice whose bounds are only known at run time",
            );
        }
        let low = self.scalar(lo)?;
        let saved = self.temp("$low", low.ty);
        let low_ty = low.ty;
        self.push(Ir::Assign { dst: saved.clone(), src: low });
        let width = super::storage::scalar(&self.own_ty(e)).unwrap_or(Ty::Bit(1));
        Ok(Lvalue::From(place, ty, read(&saved, low_ty), width))
    }

    /// Saves the indices of stack elements in temporaries.
    fn fix_indices(&mut self, store: Store) -> Store {
        match store {
            Store::Scalar(Place::Field(h, field), ty) => {
                Store::Scalar(Place::Field(self.fix_index(h), field), ty)
            }
            Store::Header(h, of) => Store::Header(self.fix_index(h), of),
            Store::Struct(parts) => Store::Struct(self.fix_indices_of(&parts).into()),
            Store::Union(parts) => Store::Union(self.fix_indices_of(&parts).into()),
            other => other,
        }
    }

    fn fix_indices_of(&mut self, parts: &[Store]) -> Vec<Store> {
        parts.iter().map(|p| self.fix_indices(p.clone())).collect()
    }

    fn fix_index(&mut self, h: HeaderRef) -> HeaderRef {
        match h {
            HeaderRef::Element(stack, index) if index.as_const().is_none() => {
                let (ty, place) = (index.ty, self.temp("$index", index.ty));
                self.push(Ir::Assign { dst: place.clone(), src: *index });
                HeaderRef::Element(stack, Box::new(read(&place, ty)))
            }
            other => other,
        }
    }

    /// The current value of an lvalue.
    pub(super) fn load(&self, target: &Lvalue) -> Val {
        match target {
            Lvalue::Store(store) => store.value(),
            Lvalue::Bits(place, ty, hi, lo) => Val::Scalar(slice(read(place, *ty), *hi, *lo)),
            Lvalue::From(place, ty, low, part) => {
                let whole = cast(read(place, *ty), Ty::Bit(ty.width()));
                Val::Scalar(cast(Expr::binary(BinOp::Shr, whole, low.clone()), *part))
            }
        }
    }

    /// Writes a value to an lvalue.
    pub(super) fn store(&mut self, target: &Lvalue, val: Val, span: Span) -> Res<()> {
        match (target, val) {
            (Lvalue::Store(store), val) => self.assign(store, val, span),
            (Lvalue::Bits(place, ty, hi, lo), Val::Scalar(new)) => {
                let src = with_bits(read(place, *ty), *hi, *lo, new);
                self.push_ok(Ir::Assign { dst: place.clone(), src })
            }
            (Lvalue::From(place, ty, low, part), Val::Scalar(new)) => {
                let src = with_bits_from(read(place, *ty), low, *part, new);
                self.push_ok(Ir::Assign { dst: place.clone(), src })
            }
            _ => self.bug(span, "bits that are no number"),
        }
    }

    /// Adds a statement.
    fn push_ok(&mut self, kind: Ir) -> Res<()> {
        self.push(kind);
        Ok(())
    }

    /// `target = value` and `target op= value`.
    pub(super) fn assignment(
        &mut self,
        target: &'a ast::Expr,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        span: Span,
    ) -> Res<()> {
        let to = self.lvalue(target)?;
        let Some(op) = op else {
            let val = self.expr(value)?;
            return self.store(&to, val, span);
        };
        let ty = self.ty(target);
        let position = self.position();
        let new = self.scalar(value)?;
        // The old value is read before the side effects of `value`.
        let old = match (self.position() > position, self.load(&to)) {
            (false, old) => old,
            (true, old) => self.save_before(position, old, span)?,
        };
        let Val::Scalar(old) = old else { return self.bug(span, "an operator on an aggregate") };
        let result = self.operate(op, old, new, &ty, span)?;
        self.store(&to, Val::Scalar(result), span)
    }

    /// Assigns a value to storage of the same type.
    pub(super) fn assign(&mut self, to: &Store, val: Val, span: Span) -> Res<()> {
        match (to, val) {
            (_, Val::Store(from)) if *to == from => Ok(()),
            (Store::Scalar(dst, _), Val::Scalar(src)) => self.push_ok(Ir::Assign { dst: dst.clone(), src }),
            (Store::Header(dst, _), Val::Store(Store::Header(src, _))) => {
                self.push(Ir::CopyHeader { dst: dst.clone(), src });
                self.invalidate_others_if_valid(dst);
                Ok(())
            }
            (Store::Stack(dst, ..), Val::Store(Store::Stack(src, ..))) => {
                self.push_ok(Ir::CopyStack { dst: *dst, src })
            }
            (Store::UnionStack(to, _), Val::Store(Store::UnionStack(from, _))) => {
                for ((dst, _), (src, _)) in to.iter().zip(from.iter()) {
                    self.push(Ir::CopyStack { dst: *dst, src: *src });
                }
                Ok(())
            }
            (Store::Union(to), Val::Store(Store::Union(from))) => {
                for (to, from) in to.iter().zip(from.iter()) {
                    if let (Store::Header(dst, _), Store::Header(src, _)) = (to, from) {
                        self.push(Ir::CopyHeader { dst: dst.clone(), src: src.clone() });
                    }
                }
                Ok(())
            }
            (Store::Struct(to), Val::Store(Store::Struct(from))) => {
                let mut pairs = to.iter().zip(from.iter());
                pairs.try_for_each(|(to, from)| self.assign(to, from.value(), span))
            }
            (store @ (Store::Header(..) | Store::Union(_)), Val::Invalid) => {
                self.invalidate(store);
                Ok(())
            }
            (store, Val::Parts(vals)) => self.assign_parts(store, vals, span),
            _ => self.bug(span, "a value that does not fit its place"),
        }
    }

    /// Assigns the parts of a list. All are saved before the first is written, because they may read the storage that
    /// is written.
    fn assign_parts(&mut self, to: &Store, vals: Vec<Val>, span: Span) -> Res<()> {
        let parts = self.parts_of(to);
        let held = vals.into_iter().map(|v| self.save(v, span)).collect::<Res<Vec<_>>>()?;
        if let Store::Header(h, _) = to {
            self.push(Ir::SetValid(h.clone()));
            self.invalidate_others(h, false);
        }
        for (part, val) in parts.iter().zip(held) {
            self.assign(part, val, span)?;
        }
        Ok(())
    }
}

/// `whole` with bits `hi` to `lo` replaced by `new`.
fn with_bits(whole: Expr, hi: u32, lo: u32, new: Expr) -> Expr {
    let (ty, width) = (whole.ty, whole.ty.width());
    let concat = |a: Expr, b: Expr| {
        let ty = Ty::Bit(a.ty.width() + b.ty.width());
        Expr { kind: ir::ExprKind::Concat(Box::new(a), Box::new(b)), ty }
    };
    let mut new = new;
    if hi + 1 < width {
        new = concat(slice(whole.clone(), width - 1, hi + 1), new);
    }
    if lo > 0 {
        new = concat(new, slice(whole, lo - 1, 0));
    }
    cast(new, ty)
}

/// `whole` with the bits from `low` on replaced by `new`, which has the type `part`.
fn with_bits_from(whole: Expr, low: &Expr, part: Ty, new: Expr) -> Expr {
    let ty = whole.ty;
    let bits = Ty::Bit(ty.width());
    let shifted = |e: Expr| Expr::binary(BinOp::Shl, cast(e, bits), low.clone());
    let ones = super::value::constant(abi::Bits::ones(part.width()), part);
    let mask = Expr { kind: ir::ExprKind::Unary(UnOp::BitNot, Box::new(shifted(ones))), ty: bits };
    let kept = Expr::binary(BinOp::And, cast(whole, bits), mask);
    cast(Expr::binary(BinOp::Or, kept, shifted(new)), ty)
}
