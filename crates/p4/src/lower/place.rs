//! What can be written: storage, or bits of a number. And assignments, also those that end a call.

use ir::{BinOp, Expr, HeaderRef, Place, StmtKind as Ir, Ty, UnOp};

use super::storage::Store;
use super::value::{Val, cast, read, slice};
use super::{Lower, Res};
use crate::ast::{self, BinaryOp, ExprKind};
use crate::source::Span;

/// Something that can be written, its indices settled.
#[derive(Clone)]
pub enum Target {
    Store(Store),
    /// Bits `hi` to `lo` of a number.
    Bits(Place, Ty, u32, u32),
    /// So many bits of a number, from a bit that is known at run time.
    From(Place, Ty, Expr, Ty),
}

/// What is written when a call ends.
#[derive(Clone)]
pub struct CopyOut {
    pub target: Target,
    pub from: Store,
}

impl<'a> Lower<'_, 'a> {
    /// What an expression names, to be written. An index is evaluated now: what happens until the write does not change it.
    pub(super) fn target(&mut self, e: &'a ast::Expr) -> Res<Target> {
        if let ExprKind::Slice { base, hi, lo } = &e.kind {
            return self.bits_target(e, [base, hi, lo]);
        }
        match self.lvalue(e)? {
            Some(store) => Ok(Target::Store(self.pinned(store))),
            None => self.bug(e.span, "this cannot be written"),
        }
    }

    /// The storage that an expression names.
    fn lvalue(&mut self, e: &'a ast::Expr) -> Res<Option<Store>> {
        // A scalar variable reads as an expression, which is its place.
        Ok(match self.expr(e)? {
            Val::Store(store) => Some(store),
            Val::Scalar(Expr { kind: ir::ExprKind::Read(place), ty }) => Some(Store::Scalar(place, ty)),
            _ => None,
        })
    }

    fn bits_target(&mut self, e: &'a ast::Expr, [base, hi, lo]: [&'a ast::Expr; 3]) -> Res<Target> {
        let bounds = self.slice_bounds(hi, lo);
        let (place, ty, first) = match self.target(base)? {
            Target::Store(Store::Scalar(place, ty)) => (place, ty, None),
            Target::Bits(place, ty, _, lo) => (place, ty, Some(lo)),
            _ => return self.limit("E0519", e.span, "these are bits of bits that are found at run time"),
        };
        if let Some((hi, lo)) = bounds {
            let first = first.unwrap_or(0);
            return Ok(Target::Bits(place, ty, first + hi, first + lo));
        }
        if first.is_some() {
            return self.limit("E0519", e.span, "these are bits of bits that are found at run time");
        }
        let low = self.scalar(lo)?;
        let saved = self.temp("$low", low.ty);
        let low_ty = low.ty;
        self.push(Ir::Assign { dst: saved.clone(), src: low });
        let width = super::storage::scalar(&self.own_ty(e)).unwrap_or(Ty::Bit(1));
        Ok(Target::From(place, ty, read(&saved, low_ty), width))
    }

    /// An element of a stack keeps the index that it was named with.
    fn pinned(&mut self, store: Store) -> Store {
        match store {
            Store::Scalar(Place::Field(h, field), ty) => Store::Scalar(Place::Field(self.pin(h), field), ty),
            Store::Header(h, of) => Store::Header(self.pin(h), of),
            Store::Struct(parts) => Store::Struct(self.pinned_parts(&parts).into()),
            Store::Union(parts) => Store::Union(self.pinned_parts(&parts).into()),
            other => other,
        }
    }

    fn pinned_parts(&mut self, parts: &[Store]) -> Vec<Store> {
        parts.iter().map(|p| self.pinned(p.clone())).collect()
    }

    fn pin(&mut self, h: HeaderRef) -> HeaderRef {
        match h {
            HeaderRef::Element(stack, index) if index.as_const().is_none() => {
                let (ty, place) = (index.ty, self.temp("$index", index.ty));
                self.push(Ir::Assign { dst: place.clone(), src: *index });
                HeaderRef::Element(stack, Box::new(read(&place, ty)))
            }
            other => other,
        }
    }

    /// The value that a target has now.
    pub(super) fn load(&self, target: &Target) -> Val {
        match target {
            Target::Store(store) => store.value(),
            Target::Bits(place, ty, hi, lo) => Val::Scalar(slice(read(place, *ty), *hi, *lo)),
            Target::From(place, ty, low, part) => {
                let whole = cast(read(place, *ty), Ty::Bit(ty.width()));
                Val::Scalar(cast(Expr::binary(BinOp::Shr, whole, low.clone()), *part))
            }
        }
    }

    /// Writes a value.
    pub(super) fn store(&mut self, target: &Target, val: Val, span: Span) -> Res<()> {
        match (target, val) {
            (Target::Store(store), val) => self.assign(store, val, span),
            (Target::Bits(place, ty, hi, lo), Val::Scalar(new)) => {
                let src = with_bits(read(place, *ty), *hi, *lo, new);
                self.done(Ir::Assign { dst: place.clone(), src })
            }
            (Target::From(place, ty, low, part), Val::Scalar(new)) => {
                let src = with_bits_from(read(place, *ty), low, *part, new);
                self.done(Ir::Assign { dst: place.clone(), src })
            }
            _ => self.bug(span, "bits that are no number"),
        }
    }

    /// A statement, with which something is done.
    fn done(&mut self, kind: Ir) -> Res<()> {
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
        let to = self.target(target)?;
        let Some(op) = op else {
            let val = self.expr(value)?;
            return self.store(&to, val, span);
        };
        let ty = self.ty(target);
        let position = self.position();
        let new = self.scalar(value)?;
        // What `value` does happens after the target has been read.
        let old = match (self.position() > position, self.load(&to)) {
            (false, old) => old,
            (true, old) => self.save_before(position, old, span)?,
        };
        let Val::Scalar(old) = old else { return self.bug(span, "an operator on an aggregate") };
        let result = self.operate(op, old, new, &ty, span)?;
        self.store(&to, Val::Scalar(result), span)
    }

    /// Storage takes a value of its type.
    pub(super) fn assign(&mut self, to: &Store, val: Val, span: Span) -> Res<()> {
        match (to, val) {
            (_, Val::Store(from)) if *to == from => Ok(()),
            (Store::Scalar(dst, _), Val::Scalar(src)) => self.done(Ir::Assign { dst: dst.clone(), src }),
            (Store::Header(dst, _), Val::Store(Store::Header(src, _))) => {
                self.push(Ir::CopyHeader { dst: dst.clone(), src });
                self.only_valid_if_copied(dst);
                Ok(())
            }
            (Store::Stack(dst, ..), Val::Store(Store::Stack(src, ..))) => {
                self.done(Ir::CopyStack { dst: *dst, src })
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

    /// All parts of a list are saved before the first is written: they may be read from the place itself.
    fn assign_parts(&mut self, to: &Store, vals: Vec<Val>, span: Span) -> Res<()> {
        let parts = self.parts_of(to);
        let held = vals.into_iter().map(|v| self.save(v, span)).collect::<Res<Vec<_>>>()?;
        if let Store::Header(h, _) = to {
            self.push(Ir::SetValid(h.clone()));
            self.only_valid(h, false);
        }
        for (part, val) in parts.iter().zip(held) {
            self.assign(part, val, span)?;
        }
        Ok(())
    }
}

/// A number with bits `hi` to `lo` replaced.
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

/// A number with the bits from `low` on replaced.
fn with_bits_from(whole: Expr, low: &Expr, part: Ty, new: Expr) -> Expr {
    let ty = whole.ty;
    let bits = Ty::Bit(ty.width());
    let shifted = |e: Expr| Expr::binary(BinOp::Shl, cast(e, bits), low.clone());
    let ones = super::value::constant(abi::Bits::ones(part.width()), part);
    let mask = Expr { kind: ir::ExprKind::Unary(UnOp::BitNot, Box::new(shifted(ones))), ty: bits };
    let kept = Expr::binary(BinOp::And, cast(whole, bits), mask);
    cast(Expr::binary(BinOp::Or, kept, shifted(new)), ty)
}
