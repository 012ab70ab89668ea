//! Resolves types in the source to [`Type`]s, and checks which types may contain which (P4-16 section 7).

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

/// The widest integer, as in p4c.
pub(super) const MAX_WIDTH: u32 = 2048;
/// The widest varbit: the size of the largest packet. P4 and p4c have no limit.
const MAX_VARBIT: u32 = 65_535 * 8;
/// The most parts of a type. Its parts are its fields, the fields of types in it, and the elements of stacks. Without a
/// limit, twenty types that each have two fields of the one before have a million parts, which every later stage would
/// have to hold.
const MAX_PARTS: u64 = 1 << 18;

/// Types whose parts were counted, by the address of their arguments. Each type is kept here, so that no other gets its
/// address.
type Counted = Map<*const Type, (u64, Type)>;

impl<'a> Checker<'a, '_> {
    /// Resolves a type. A generic type must have type arguments.
    pub(super) fn ty(&mut self, t: &'a ast::Type) -> Type {
        let ty = self.nested(t.span, Type::Bad, |c| c.ty_inner(t, false));
        self.bounded(ty, t.span)
    }

    /// Resolves a type in a constructor call or `T.apply()`, where missing type arguments are inferred.
    pub(super) fn ty_open(&mut self, t: &'a ast::Type) -> Type {
        let ty = self.nested(t.span, Type::Bad, |c| c.ty_inner(t, true));
        self.bounded(ty, t.span)
    }

    /// Reports a type with too many parts.
    fn bounded(&mut self, ty: Type, span: Span) -> Type {
        // A part that is too large has been reported already.
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

    /// The number of parts of a type. A type that occurs several times is counted each time, but walked once.
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
                // A type without type arguments was counted when it was declared.
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

    /// Counts the parts of a struct, header or union that has just been declared. Too many are an error.
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
                    // A tuple that is compile-time known may contain types without a width.
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

    /// A width of a type. It must be compile-time known.
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

    /// A compile-time known number that is not negative.
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
            return self.undeclared(name, "type ", is_type);
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
        // A field whose type is a type parameter has a known type now.
        if matches!(decl.kind, Kind::Header | Kind::Union) {
            for (_, ty, _) in self.typed.fields(&made) {
                self.field_allowed(decl.kind, &ty, name.span);
            }
        }
        made
    }

    /// Reports a type that structs, tuples and variables cannot contain.
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

    /// Reports a field type that its struct, header or union cannot contain (section 7.2.8).
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
