//! Methods of `packet_in` and `packet_out`: how parsers read a packet and deparsers write one.

use ir::{Expr, HeaderRef, Place, StmtKind as Ir, Ty};
use num_traits::ToPrimitive;

use super::lvalue::Lvalue;
use super::object::given;
use super::storage::Store;
use super::value::{Val, cast, read, slice};
use super::{Lower, Res};
use crate::ast::{self, ExprKind};
use crate::check::{Call, Type};
use crate::source::Span;

impl<'a> Lower<'_, 'a> {
    /// A method of `packet_in` or `packet_out`.
    pub(super) fn packet_method(&mut self, name: &str, e: &'a ast::Expr, call: &Call<'a>) -> Res<Val> {
        let args = given(&call.args);
        match (name, args.as_slice()) {
            ("extract", rest @ [] | rest @ [_] | rest @ [_, _]) => self.extract(rest, call, e.span)?,
            ("lookahead", []) => return self.lookahead(e),
            ("advance", [bits]) => {
                let bits = self.scalar(bits)?;
                self.push(Ir::Advance(bits));
            }
            ("length", []) if self.out.arch == ir::Arch::V1Model => {
                let length = Place::Var(self.out.standard.packet_length);
                return Ok(Val::Scalar(read(&length, Ty::Bit(32))));
            }
            ("length", []) => {
                return self.limit("E0510", e.span, "`length` of a packet is only known to v1model");
            }
            ("emit", [data]) => {
                let val = self.expr(data)?;
                self.emit(val, data.span)?;
            }
            _ => return self.bug(e.span, "an unknown method of a packet"),
        }
        Ok(Val::Void)
    }

    fn extract(&mut self, args: &[&'a ast::Expr], call: &Call<'a>, span: Span) -> Res<()> {
        // `extract<T>(_)` reads a header and discards it.
        let skipped = args.first().is_none_or(|e| matches!(e.kind, ExprKind::DontCare));
        let store = match (skipped, args.first(), call.type_args.last()) {
            (false, Some(e), _) => match self.lvalue(e)? {
                Lvalue::Store(store) => store,
                _ => return self.bug(e.span, "bits of a number are extracted"),
            },
            (_, _, Some((_, ty))) => {
                let ty = ty.subst(&self.scope.types);
                self.storage("$skipped", &ty, span)?
            }
            _ => return self.bug(span, "an argument is missing"),
        };
        let Store::Header(header, of) = store else {
            return self.limit("E0523", span, "what is extracted is no header");
        };
        let varbit = match args.get(1) {
            Some(e) => Some(cast(self.scalar(e)?, Ty::Bit(32))),
            None => None,
        };
        let has = self.out.header_types[of.index()].varbit().is_some();
        if has != varbit.is_some() {
            return self.limit("E0523", span, "a header with a varbit field is extracted without its size");
        }
        self.push(Ir::Extract { header: header.clone(), varbit });
        self.invalidate_others(&header, true);
        Ok(())
    }

    fn lookahead(&mut self, e: &'a ast::Expr) -> Res<Val> {
        let ty = self.own_ty(e);
        let store = self.storage("$lookahead", &ty, e.span)?;
        if let Store::Scalar(place, _) = &store {
            self.push(Ir::Lookahead { dst: place.clone() });
            return Ok(store.value());
        }
        let fixed = self.typed.bits_of(&ty, false).filter(|b| self.typed.bits_of(&ty, true) == Some(*b));
        let Some(bits) = fixed.and_then(|b| b.to_u32()).filter(|_| !matches!(ty, Type::Union(_))) else {
            return self.limit("E0523", e.span, &format!("`lookahead` reads a `{ty}`"));
        };
        let whole = self.temp("$lookahead", Ty::Bit(bits));
        self.push(Ir::Lookahead { dst: whole.clone() });
        self.unpack(&store, &read(&whole, Ty::Bit(bits)), &mut { bits });
        Ok(store.value())
    }

    /// Assigns `bits` to the scalars of a storage. The first scalar gets the most significant bits.
    fn unpack(&mut self, store: &Store, bits: &Expr, left: &mut u32) {
        match store {
            Store::Scalar(place, ty) => {
                *left -= ty.width();
                let part = slice(bits.clone(), *left + ty.width() - 1, *left);
                self.push(Ir::Assign { dst: place.clone(), src: cast(part, *ty) });
            }
            other => {
                if let Store::Header(h, _) = other {
                    self.push(Ir::SetValid(h.clone()));
                }
                self.parts_of(other).iter().for_each(|p| self.unpack(p, bits, left));
            }
        }
    }

    fn emit(&mut self, val: Val, span: Span) -> Res<()> {
        match val {
            Val::Store(Store::Header(h, _)) => {
                self.push(Ir::Emit(h));
                Ok(())
            }
            // A list of scalars is a header without storage.
            Val::Parts(parts) if parts.iter().all(|p| matches!(p, Val::Scalar(_))) => {
                self.limit("E0523", span, "what is emitted is a list, not a header")
            }
            Val::Invalid => Ok(()),
            val => match self.parts_of_val(&val) {
                Some(parts) => parts.into_iter().try_for_each(|p| self.emit(p, span)),
                None => self.limit("E0523", span, "what is emitted is no header"),
            },
        }
    }

    /// Whether a place is a field with the annotation `@checksum_nonzero`.
    pub(super) fn is_nonzero(&self, place: &Place) -> bool {
        let Place::Field(HeaderRef::Header(h), field) = place else { return false };
        self.out.header_type(*h).fields.get(*field as usize).is_some_and(|f| f.checksum_nonzero)
    }
}
