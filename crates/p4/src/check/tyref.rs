//! Types as written to types as meant, with the rules about which type may hold which (P4-16 section 7).

use std::sync::Arc;

use num_traits::ToPrimitive;

use super::Checker;
use super::scope::is_type;
use super::typed::Kind;
use super::types::{Named, Type};
use super::value::Value;
use crate::ast::{self, Expr, Name, TypeKind};
use crate::diag::Diagnostic;

/// The widest integer: p4c stops at the same width.
pub(super) const MAX_WIDTH: u32 = 2048;

impl<'a> Checker<'a, '_> {
    /// The type that a piece of syntax means; a generic type needs its arguments.
    pub(super) fn ty(&mut self, t: &'a ast::Type) -> Type {
        self.nested(t.span, Type::Bad, |c| c.ty_inner(t, false))
    }

    /// The same where missing type arguments may be inferred: constructors, `T.apply()`.
    pub(super) fn ty_open(&mut self, t: &'a ast::Type) -> Type {
        self.nested(t.span, Type::Bad, |c| c.ty_inner(t, true))
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
            TypeKind::Bit(Some(w)) => self.width(w, 0).map_or(Type::Bad, Type::Bit),
            TypeKind::SignedInt(w) => self.width(w, 1).map_or(Type::Bad, Type::Signed),
            TypeKind::Varbit(w) => self.width(w, 0).map_or(Type::Bad, Type::Varbit),
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
            TypeKind::Stack { element, size } => self.stack(element, size),
            TypeKind::Named { global, name, args } => self.named_ty(*global, name, args, open),
        }
    }

    fn stack(&mut self, element: &'a ast::Type, size: &'a Expr) -> Type {
        let item = self.ty(element);
        let Some(n) = self.size(size, "the size of a header stack") else { return Type::Bad };
        Type::Stack(Arc::new(item), n)
    }

    /// A width that is known here and now.
    fn width(&mut self, e: &'a Expr, least: u32) -> Option<u32> {
        let w = self.size(e, "the width of a type")?;
        if w < least || w > MAX_WIDTH {
            let text = format!("a width of {w} bits is not possible");
            let hint = format!("widths go from {least} to {MAX_WIDTH}");
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
                    let text = format!("{what} cannot be {v}");
                    self.report(Diagnostic::error("E0305", e.span, text));
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
            return with_args(&decl.ty, fresh.into());
        }
        if args.len() != wanted {
            let text = format!("`{}` takes {wanted} type arguments, {} given", name.text, args.len());
            return self.bad(Diagnostic::error("E0307", name.span, text).also(decl.span, "declared here"));
        }
        for arg in &args {
            if matches!(arg, Type::Parser(_) | Type::Control(_) | Type::Package(_)) {
                let text = format!("`{arg}` cannot be a type argument");
                return self.bad(Diagnostic::error("E0308", name.span, text));
            }
        }
        if wanted == 0 {
            return decl.ty;
        }
        let made = with_args(&decl.ty, args.into());
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
        let wrong = matches!(
            ty,
            Void | Int
                | String
                | MatchKind
                | Extern(_)
                | Parser(_)
                | Control(_)
                | Package(_)
                | Function
                | Set(_)
                | List(_)
                | Table(_)
                | Action(_)
        );
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

/// A named type with other arguments.
pub(super) fn with_args(ty: &Type, args: Arc<[Type]>) -> Type {
    let new = |n: &Named| Named { args: args.clone(), ..n.clone() };
    match ty {
        Type::Struct(n) => Type::Struct(new(n)),
        Type::Header(n) => Type::Header(new(n)),
        Type::Union(n) => Type::Union(new(n)),
        Type::Extern(n) => Type::Extern(new(n)),
        Type::Parser(n) => Type::Parser(new(n)),
        Type::Control(n) => Type::Control(new(n)),
        Type::Package(n) => Type::Package(new(n)),
        other => other.clone(),
    }
}
