//! The rules for expressions and places.

use super::{Check, Context, Rule};
use crate::expr::{BinOp, Expr, ExprKind, Place, Ty, UnOp};
use crate::program::HeaderTypeId;
use crate::stmt::HeaderRef;
use crate::visit;

impl Check<'_> {
    /// The type of a header, if the reference is valid.
    pub(super) fn header_type(&self, header: &HeaderRef) -> Option<HeaderTypeId> {
        let id = match header {
            HeaderRef::Header(id) => *id,
            HeaderRef::Element(s, _) | HeaderRef::Next(s) | HeaderRef::Last(s) => {
                self.p.stacks.get(s.index())?.first
            }
        };
        let ty = self.p.headers.get(id.index())?.ty;
        (ty.index() < self.p.header_types.len()).then_some(ty)
    }

    /// The type of a place, if it exists.
    pub(super) fn place_type(&self, place: &Place) -> Option<Ty> {
        match place {
            Place::Var(id) => self.p.vars.get(id.index()).map(|v| v.ty),
            Place::Field(header, field) => {
                let ty = self.p.header_types.get(self.header_type(header)?.index())?;
                ty.fields.get(*field as usize).map(|f| f.ty)
            }
        }
    }

    /// Checks a header that a statement or expression refers to.
    pub(super) fn header(&mut self, header: &HeaderRef) {
        let known = self.header_type(header).is_some();
        self.require(known, Rule::KnownHeader);
        match header {
            HeaderRef::Header(_) => {}
            HeaderRef::Element(_, index) => self.require(matches!(index.ty, Ty::Bit(_)), Rule::IndexType),
            HeaderRef::Next(_) | HeaderRef::Last(_) => {
                self.require(self.context == Context::Parser, Rule::ParserReference);
            }
        }
    }

    /// Checks a place that is written or summed, and returns its type.
    pub(super) fn place(&mut self, place: &Place) -> Option<Ty> {
        let ty = self.place_type(place);
        self.require(ty.is_some(), Rule::KnownPlace);
        if let Place::Field(h, _) = place {
            self.header(h);
        }
        ty
    }

    /// Checks an expression that must be a bool.
    pub(super) fn condition(&mut self, e: &Expr) {
        self.require(e.ty == Ty::Bool, Rule::BoolType);
    }

    /// Checks an expression and all its sub-expressions.
    pub(super) fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Const(v) => {
                self.require(v.width() == e.ty.width() && !e.ty.is_varbit(), Rule::ConstantWidth)
            }
            ExprKind::Read(place) => {
                if let Some(ty) = self.place(place) {
                    self.require(ty == e.ty, Rule::PlaceType);
                }
            }
            ExprKind::IsValid(h) => {
                self.header(h);
                self.require(e.ty == Ty::Bool, Rule::BoolType);
            }
            ExprKind::NextIndex(s) => {
                self.require(s.index() < self.p.stacks.len(), Rule::KnownHeader);
                self.require(e.ty == Ty::Bit(32), Rule::BitCount);
            }
            ExprKind::Unary(op, a) => self.require(unary_fits(*op, a.ty, e.ty), Rule::OperandTypes),
            ExprKind::Binary(op, a, b) => {
                self.require(binary_fits(*op, a.ty, b.ty, e.ty), Rule::OperandTypes)
            }
            ExprKind::Cast(a) => self.require(cast_fits(a.ty, e.ty), Rule::CastTypes),
            ExprKind::Slice { base, hi, lo } => {
                let inside = lo <= hi && *hi < base.ty.width() && !base.ty.is_varbit();
                self.require(inside && e.ty == Ty::Bit(hi - lo + 1), Rule::SliceBounds);
            }
            ExprKind::Concat(a, b) => {
                let fits = a.ty.width() + b.ty.width() == e.ty.width();
                self.require(fits && !a.ty.is_varbit() && !b.ty.is_varbit(), Rule::ConcatWidth);
            }
            ExprKind::Mux(c, a, b) => {
                self.condition(c);
                self.require(a.ty == b.ty && a.ty == e.ty, Rule::OperandTypes);
            }
        }
        visit::children(e).into_iter().for_each(|child| self.expr(child));
    }
}

fn unary_fits(op: UnOp, operand: Ty, result: Ty) -> bool {
    match op {
        UnOp::Not => operand == Ty::Bool && result == Ty::Bool,
        UnOp::BitNot | UnOp::Neg => operand == result && is_number(operand),
    }
}

fn binary_fits(op: BinOp, a: Ty, b: Ty, result: Ty) -> bool {
    match op {
        BinOp::LogAnd | BinOp::LogOr => a == Ty::Bool && b == Ty::Bool && result == Ty::Bool,
        BinOp::Shl | BinOp::Shr => a == result && is_number(a) && matches!(b, Ty::Bit(_)),
        BinOp::Eq | BinOp::Ne => a == b && result == Ty::Bool,
        BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => a == b && is_number(a) && result == Ty::Bool,
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Mod => {
            a == b && a == result && is_number(a)
        }
        BinOp::AddSat | BinOp::SubSat | BinOp::And | BinOp::Or | BinOp::Xor => {
            a == b && a == result && is_number(a)
        }
    }
}

fn cast_fits(from: Ty, to: Ty) -> bool {
    match (from, to) {
        (Ty::Varbit(_), _) | (_, Ty::Varbit(_)) => false,
        (Ty::Bool, other) | (other, Ty::Bool) => other.width() == 1,
        (Ty::Bit(_) | Ty::Int(_), Ty::Bit(_) | Ty::Int(_)) => true,
    }
}

fn is_number(ty: Ty) -> bool {
    matches!(ty, Ty::Bit(_) | Ty::Int(_))
}
