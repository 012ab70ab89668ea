//! Types as written to types as meant, with the rules about which type may hold which (P4-16 section 7).

use crate::map::Map;
use std::sync::Arc;

use num_traits::ToPrimitive;

use super::Checker;
use super::scope::is_type;
use super::typed::Kind;
use super::types::{DeclId, Type};
use super::value::Value;
use crate::ast::{self, Expr, Name, TypeKind};
use crate::diag::Diagnostic;
use crate::source::Span;

/// The widest integer: p4c stops at the same width.
pub(super) const MAX_WIDTH: u32 = 2048;
/// The widest varbit: the bits of the largest packet. P4 and p4c set no bound.
const MAX_VARBIT: u32 = 65_535 * 8;
/// The most parts of a type: fields, those of types inside and of all elements of stacks included. Twenty types that each have two of
/// the one before are a million parts; whoever instantiates them has to hold them all.
const MAX_PARTS: u64 = 1 << 18;

/// Types that were counted, by the place of their arguments; each is kept, so that its place is nobody else's.
type Counted = Map<*const Type, (u64, Type)>;

impl<'a> Checker<'a, '_> {
    /// The type that a piece of syntax means; a generic type needs its arguments.
    pub(super) fn ty(&mut self, t: &'a ast::Type) -> Type {
        let ty = self.nested(t.span, Type::Bad, |c| c.ty_inner(t, false));
        self.bounded(ty, t.span)
    }

    /// The same where missing type arguments may be inferred: constructors, `T.apply()`.
    pub(super) fn ty_open(&mut self, t: &'a ast::Type) -> Type {
        let ty = self.nested(t.span, Type::Bad, |c| c.ty_inner(t, true));
        self.bounded(ty, t.span)
    }

    /// The type, if it is of a size that can be worked with.
    fn bounded(&mut self, ty: Type, span: Span) -> Type {
        // What has a part that is too large was told of already.
        let parts: &[Type] =
            if let Type::Tuple(items) = &ty { items } else { ty.named().map_or(&[][..], |n| &n.args) };
        if parts.iter().any(Type::is_bad) {
            return Type::Bad;
        }
        let simple = ty.named().is_none() && !matches!(ty, Type::Tuple(_) | Type::Stack(..));
        if simple || self.parts_of(&ty, &mut Counted::default()) <= MAX_PARTS {
            return ty;
        }
        let d = Diagnostic::error("E0318", span, format!("this type has more than {MAX_PARTS} parts"));
        self.bad(d.hint("fields of types inside count, and so does each element of a stack"))
    }

    /// How many parts a type has. A type that is shared is counted by its number of uses, but walked once.
    fn parts_of(&self, ty: &Type, known: &mut Counted) -> u64 {
        match ty {
            Type::Stack(item, n) => self.parts_of(item, known).saturating_mul(u64::from(*n)),
            Type::List(item) | Type::Set(item) => self.parts_of(item, known),
            Type::Tuple(items) => {
                if let Some((parts, _)) = known.get(&items.as_ptr()) {
                    return *parts;
                }
                let parts = items.iter().map(|t| self.parts_of(t, known)).fold(0, u64::saturating_add);
                known.insert(items.as_ptr(), (parts, ty.clone()));
                parts
            }
            _ => {
                let Some(named) = ty.named() else { return 1 };
                // What has no arguments was counted when it was declared.
                if named.args.is_empty() {
                    return self.parts.get(&named.decl).copied().unwrap_or(1);
                }
                if let Some((parts, _)) = known.get(&named.args.as_ptr()) {
                    return *parts;
                }
                let args = named.args.iter().map(|t| self.parts_of(t, known)).fold(0, u64::saturating_add);
                let fields = if ty.has_fields() { self.field_parts(ty, known) } else { 0 };
                let parts = args.max(fields).saturating_add(1);
                known.insert(named.args.as_ptr(), (parts, ty.clone()));
                parts
            }
        }
    }

    fn field_parts(&self, ty: &Type, known: &mut Counted) -> u64 {
        let fields = self.typed.fields(ty);
        fields.iter().map(|(_, t, _)| self.parts_of(t, known)).fold(0, u64::saturating_add)
    }

    /// Counts the parts of a struct, header or union that was just declared; too many are an error.
    pub(super) fn count_parts(&mut self, id: DeclId, ty: &Type, span: Span) -> Type {
        let parts = self.field_parts(ty, &mut Counted::default());
        self.parts.insert(id, parts);
        self.bounded(ty.clone(), span)
    }

    fn ty_inner(&mut self, t: &'a ast::Type, open: bool) -> Type {
        match &t.kind {
            TypeKind::Bool => Type::Bool,
            TypeKind::Error => Type::Error,
            TypeKind::MatchKind => Type::MatchKind,
            TypeKind::String => Type::String,
            TypeKind::Void => Type::Void,
            TypeKind::Int => Type::Int,
            TypeKind::DontCare => Type::DontCare,
            TypeKind::Bit(None) => Type::Bit(1),
            TypeKind::Bit(Some(w)) => self.width(w, 0, MAX_WIDTH).map_or(Type::Bad, Type::Bit),
            TypeKind::SignedInt(w) => self.width(w, 1, MAX_WIDTH).map_or(Type::Bad, Type::Signed),
            TypeKind::Varbit(w) => self.width(w, 0, MAX_VARBIT).map_or(Type::Bad, Type::Varbit),
            TypeKind::Tuple(items) => {
                let parts: Vec<Type> = items.iter().map(|i| self.ty(i)).collect();
                for (part, item) in parts.iter().zip(items) {
                    // Numbers without width and the like may stand in tuples that are known at compile time.
                    if !matches!(part, Type::Int | Type::String | Type::MatchKind | Type::List(_)) {
                        self.storable(part, item.span, "a tuple");
                    }
                }
                Type::tuple(parts)
            }
            TypeKind::List(item) => Type::List(Arc::new(self.ty(item))),
            TypeKind::Stack { element, size } => {
                let item = Arc::new(self.ty(element));
                let size = self.size(size, "the size of a header stack");
                size.map_or(Type::Bad, |n| Type::Stack(item, n))
            }
            TypeKind::Named { global, name, args } => self.named_ty(*global, name, args, open),
        }
    }

    /// A width that is known here and now.
    fn width(&mut self, e: &'a Expr, least: u32, most: u32) -> Option<u32> {
        let w = self.size(e, "the width of a type")?;
        if w < least || w > most {
            let text = format!("a width of {w} bits is not possible");
            let hint = format!("widths go from {least} to {most}");
            self.report(Diagnostic::error("E0305", e.span, text).hint(hint));
            return None;
        }
        Some(w)
    }

    /// A number, not negative, that is known when the program is compiled.
    pub(super) fn size(&mut self, e: &'a Expr, what: &str) -> Option<u32> {
        let ty = self.expr(e);
        if ty.is_bad() {
            return None;
        }
        match self.known_value(e) {
            Some(Value::Int(v)) => match v.to_u32() {
                Some(n) => Some(n),
                None => {
                    self.error("E0305", e.span, format!("{what} cannot be {v}"));
                    None
                }
            },
            _ => {
                let text = format!("{what} must be a number that is known at compile time");
                let d = Diagnostic::error("E0306", e.span, text).label("not known at compile time");
                self.report(d.hint("use a literal or a `const`"));
                None
            }
        }
    }

    fn named_ty(&mut self, global: bool, name: &'a Name, args: &'a [ast::Type], open: bool) -> Type {
        let args: Vec<Type> = args.iter().map(|a| self.ty(a)).collect();
        let Some(id) = self.find(&name.text, global).first().copied() else {
            return self.missing(name, "type ", is_type);
        };
        self.typed.used.insert(id);
        let Some(decl) = self.decl(id).cloned() else { return Type::Bad };
        if !is_type(decl.kind) {
            let text = format!("`{}` is not a type", name.text);
            let d = Diagnostic::error("E0204", name.span, text).also(decl.span, "declared here");
            return self.bad(d);
        }
        let wanted = decl.type_params.len();
        if args.is_empty() && wanted > 0 && (open || self.owner == Some(id)) {
            let fresh: Vec<Type> = (0..wanted).map(|_| self.unknowns.fresh()).collect();
            return decl.ty.with_args(fresh.into());
        }
        if args.len() != wanted {
            let text = format!("`{}` takes {wanted} type arguments, {} given", name.text, args.len());
            return self.bad(Diagnostic::error("E0307", name.span, text).also(decl.span, "declared here"));
        }
        for arg in &args {
            if arg.is_block() {
                let text = format!("`{arg}` cannot be a type argument");
                return self.bad(Diagnostic::error("E0308", name.span, text));
            }
        }
        if wanted == 0 {
            return decl.ty;
        }
        let made = decl.ty.with_args(args.into());
        // What was a type parameter when the fields were declared is known now.
        if matches!(decl.kind, Kind::Header | Kind::Union) {
            for (_, ty, _) in self.typed.fields(&made) {
                self.field_allowed(decl.kind, &ty, name.span);
            }
        }
        made
    }

    /// Reports what cannot be part of a struct, tuple or variable.
    pub(super) fn storable(&mut self, ty: &Type, span: crate::source::Span, holder: &str) -> bool {
        use Type::*;
        let valueless = ty.is_block() || ty.is_only_named();
        let wrong = valueless || matches!(ty, Int | String | MatchKind | Extern(_) | Set(_) | List(_));
        if wrong {
            let mut d = Diagnostic::error("E0308", span, format!("{holder} cannot have the type `{ty}`"));
            if *ty == Int {
                d = d.hint("give it a width, such as `bit<32>`");
            }
            self.report(d);
        }
        !wrong
    }

    /// Reports a field type that its container does not allow (section 7.2.8).
    pub(super) fn field_allowed(&mut self, holder: Kind, ty: &Type, span: crate::source::Span) {
        use Type::*;
        let ok = match holder {
            Kind::Header if matches!(ty, Stack(t, _) if !t.is_header_like()) => true,
            Kind::Header if matches!(ty, Struct(_)) => {
                !self.holds(ty, &|t| t.is_header_like() || matches!(t, String | Int))
            }
            Kind::Header => matches!(
                ty,
                Bit(_) | Signed(_) | Varbit(_) | Bool | SerEnum(..) | New(..) | Struct(_) | Param(_) | Bad
            ),
            Kind::Union => matches!(ty, Header(_) | Param(_) | Bad),
            _ => {
                self.storable(ty, span, "a field of a struct");
                return;
            }
        };
        if !ok {
            let (what, hint) = match holder {
                Kind::Union => ("a header union", "a header union holds headers only"),
                _ => ("a header", "headers hold bit<W>, int<W>, varbit<W>, bool and serializable enums"),
            };
            let d = Diagnostic::error("E0308", span, format!("{what} cannot have a field of type `{ty}`"));
            self.report(d.hint(hint));
        }
    }
}
