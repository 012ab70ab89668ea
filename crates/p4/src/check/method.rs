//! Calls `base.member(args)`: methods of externs, headers and stacks, and `apply` of tables, parsers and controls.

use std::sync::Arc;

use super::typed::{Arg, Builtin, Call, Callee, Kind, Res};
use super::types::{DeclId, Named, Type};
use super::{Checker, Place};
use crate::ast::{Argument, Expr, ExprId, Name};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

impl<'a> Checker<'a, '_> {
    /// Checks a call `base.member(args)`.
    pub(super) fn method_call(
        &mut self,
        e: &'a Expr,
        callee: &'a Expr,
        (base, member): (&'a Expr, &'a Name),
        types: &[Type],
        args: &'a [Argument],
    ) -> Type {
        let ty = self.expr(base);
        self.note(callee, &Type::Function);
        if let Some((builtin, ret)) = self.builtin(&ty, base, member, args) {
            let call = Call::plain(Callee::Builtin(builtin));
            self.typed.refs.insert(callee.id, Res::Builtin(builtin));
            self.size_value(e, builtin, &ty);
            return self.finish(e, call, ret);
        }
        let object = self.typed.resolved(base.id);
        match &ty {
            Type::Extern(n) => self.extern_call(e, callee, (n, &ty, object), member, types, args),
            Type::Table(n) if member.text == "apply" => self.table_apply(e, n, args),
            Type::Parser(n) | Type::Control(n) if member.text == "apply" => {
                match self.applied(&ty, n, object, args, e.span) {
                    Some(call) => self.finish(e, call, Type::Void),
                    None => Type::Bad,
                }
            }
            Type::TypeName(t) if member.text == "apply" => {
                let made = self.with_type_args(t, types, base.span);
                self.direct_apply(e.id, e.span, &made, args);
                Type::Void
            }
            Type::Bad => {
                self.check_unmatched(args);
                Type::Bad
            }
            _ => {
                self.check_unmatched(args);
                let text = format!("`{ty}` has no method `{}`", member.text);
                let mut d = Diagnostic::error("E0206", member.span, text);
                let known = "isValid setValid setInvalid push_front pop_front apply minSizeInBits".split(' ');
                if let Some(near) = did_you_mean(&member.text, known) {
                    d = d.hint(format!("did you mean `{near}`?"));
                } else if ty.is_header_like() {
                    d = d.hint("methods of a header: isValid(), setValid(), setInvalid()");
                }
                self.bad(d)
            }
        }
    }

    fn size_value(&mut self, e: &'a Expr, builtin: Builtin, ty: &Type) {
        let ty = if let Type::TypeName(t) = ty { t } else { ty };
        if let Some(value) = self.typed.size(builtin, ty) {
            self.set_value(e, value);
        }
    }

    /// The method if the language defines it, and the type of its result.
    fn builtin(
        &mut self,
        ty: &Type,
        base: &'a Expr,
        member: &Name,
        args: &'a [Argument],
    ) -> Option<(Builtin, Type)> {
        use Builtin::*;
        let header = ty.is_header_like();
        let stack = matches!(ty, Type::Stack(t, _) if t.is_header_like());
        let sized =
            !matches!(ty, Type::Extern(_) | Type::Bad | Type::Table(_) | Type::Parser(_) | Type::Control(_));
        let (builtin, ret, params) = match member.text.as_str() {
            "isValid" if header => (IsValid, Type::Bool, 0),
            "setValid" if matches!(ty, Type::Header(_)) => (SetValid, Type::Void, 0),
            "setInvalid" if matches!(ty, Type::Header(_)) => (SetInvalid, Type::Void, 0),
            "push_front" if stack => (PushFront, Type::Void, 1),
            "pop_front" if stack => (PopFront, Type::Void, 1),
            "minSizeInBits" if sized => (MinSizeInBits, Type::Int, 0),
            "minSizeInBytes" if sized => (MinSizeInBytes, Type::Int, 0),
            "maxSizeInBits" if sized => (MaxSizeInBits, Type::Int, 0),
            "maxSizeInBytes" if sized => (MaxSizeInBytes, Type::Int, 0),
            _ => return None,
        };
        self.check_unmatched(args);
        if args.len() != params {
            let text = format!("`{}` takes {params} arguments, {} given", member.text, args.len());
            self.error("E0313", member.span, text);
        }
        if matches!(builtin, SetValid | SetInvalid | PushFront | PopFront) {
            self.need_lvalue(base, "");
        }
        if matches!(builtin, PushFront | PopFront)
            && let Some(count) = args.first().and_then(|a| a.value.as_ref())
        {
            self.size(count, "the count of push_front and pop_front");
        }
        Some((builtin, ret))
    }

    fn extern_call(
        &mut self,
        e: &'a Expr,
        callee: &'a Expr,
        (named, ty, object): (&Named, &Type, Option<DeclId>),
        member: &'a Name,
        types: &[Type],
        args: &'a [Argument],
    ) -> Type {
        let members = self.members(named.decl);
        let of_name = |c: &Self, m: &DeclId| {
            c.decl(*m).is_some_and(|d| d.kind == Kind::Method && *d.name == *member.text)
        };
        let candidates: Vec<DeclId> = members.iter().copied().filter(|m| of_name(self, m)).collect();
        if candidates.is_empty() {
            self.check_unmatched(args);
            let names: Vec<Arc<str>> =
                members.iter().filter_map(|m| Some(self.decl(*m)?.name.clone())).collect();
            let d =
                Diagnostic::error("E0206", member.span, format!("`{ty}` has no method `{}`", member.text));
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            return self.bad(d.one_of(&member.text, "methods", &names));
        }
        let full = format!("{}.{}", named.name, member.text);
        let Some((id, matched)) = self.choose(&full, &candidates, args, e.span) else { return Type::Bad };
        if &*named.name == "packet_in" && !self.place.in_parser() && self.place != Place::Function {
            let text = format!("`{}` can only be called in a parser", member.text);
            let d = Diagnostic::error("E0402", e.span, text);
            self.report(d.hint("headers are read in parser states; here they are there already"));
        } else if self.place == Place::Top {
            self.error("E0402", e.span, "nothing can be called here");
        }
        self.typed.refs.insert(callee.id, Res::Decl(id));
        let subst = self.typed.subst_of(ty);
        let (ret, call) = self.apply(id, Callee::Method(id, object), subst, types, matched, e.span);
        if &*named.name == "packet_in" && member.text == "extract" {
            self.extract_rules(&call, e.span);
        }
        if &*named.name == "packet_in"
            && member.text == "lookahead"
            && self.holds(&ret, &|t| matches!(t, Type::Varbit(_)))
        {
            self.error("E0404", e.span, format!("`{ret}` has no fixed size: lookahead cannot read it"));
        }
        self.finish(e, call, ret)
    }

    /// Checks that `extract` has a header, and a size if the header has a varbit field (section 13.8).
    fn extract_rules(&mut self, call: &Call<'a>, span: Span) {
        let Some((_, Arg::Given(header))) = call.args.first() else { return };
        let ty = self.typed.ty(header.id).clone();
        let varbit = self.holds(&ty, &|t| matches!(t, Type::Varbit(_)));
        match &ty {
            Type::Header(_) if self.varbits(&ty) > 1 => {
                let text = format!("`{ty}` has more than one varbit field: it cannot be extracted");
                self.error("E0404", span, text);
            }
            Type::Header(_) if varbit && call.args.len() == 1 => {
                let text = format!("`{ty}` has a varbit field: its size in bits must be given");
                let d = Diagnostic::error("E0404", span, text);
                self.report(d.hint(format!("`extract({}, size_in_bits)`", self.text(header))));
            }
            Type::Header(_) if !varbit && call.args.len() == 2 => {
                let text = format!("`{ty}` has no varbit field: `extract` takes only the header");
                self.error("E0404", span, text);
            }
            Type::Header(_) | Type::Param(_) | Type::Bad | Type::DontCare => {}
            _ => {
                let d =
                    Diagnostic::error("E0404", header.span, format!("`extract` reads a header, not `{ty}`"));
                let d =
                    d.hint("extract the headers inside one by one; an element of a stack is `stack.next`");
                self.report(d);
            }
        }
    }

    fn varbits(&self, ty: &Type) -> usize {
        self.typed.fields(ty).iter().filter(|f| matches!(f.1, Type::Varbit(_))).count()
    }

    pub(super) fn holds(&self, ty: &Type, test: &dyn Fn(&Type) -> bool) -> bool {
        test(ty)
            || match ty {
                Type::Stack(t, _) => self.holds(t, test),
                Type::Tuple(items) => items.iter().any(|t| self.holds(t, test)),
                t if t.has_fields() => self.typed.fields(t).iter().any(|f| self.holds(&f.1, test)),
                _ => false,
            }
    }

    fn table_apply(&mut self, e: &'a Expr, table: &Named, args: &'a [Argument]) -> Type {
        self.check_unmatched(args);
        if !args.is_empty() {
            self.error("E0313", e.span, format!("`{}.apply` takes no arguments", table.name));
        }
        if self.place != Place::ControlApply {
            let place = if self.place == Place::Action { "an action" } else { "this place" };
            let d = Diagnostic::error("E0402", e.span, format!("a table cannot be applied in {place}"));
            return self.bad(d.hint("apply it in the control's `apply { }` block"));
        }
        self.finish(e, Call::plain(Callee::Table(table.decl)), Type::ApplyResult(table.clone()))
    }

    /// An application of a parser or control; `object` is its instance, if it is known.
    fn applied(
        &mut self,
        ty: &Type,
        n: &Named,
        object: Option<DeclId>,
        args: &'a [Argument],
        span: Span,
    ) -> Option<Call<'a>> {
        self.place_of_block(ty, span);
        if self.is_recursion(n.decl, &n.name, span) {
            return None;
        }
        let (id, matched) = self.choose(&format!("{}.apply", n.name), &[n.decl], args, span)?;
        let subst = self.typed.subst_of(ty);
        Some(self.apply(id, Callee::Block(id, object), subst, &[], matched, span).1)
    }

    /// Checks `Type.apply(args);`, which instantiates and applies a type.
    pub(super) fn direct_apply(&mut self, at: ExprId, span: Span, ty: &Type, args: &'a [Argument]) {
        let Some(n) = ty.named().filter(|_| matches!(ty, Type::Parser(_) | Type::Control(_))).cloned() else {
            if !ty.is_bad() {
                self.error("E0206", span, format!("`{ty}` has no `apply`"));
            }
            self.check_unmatched(args);
            return;
        };
        self.construct(ty, &[], span);
        if let Some(call) = self.applied(ty, &n, None, args, span) {
            self.typed.calls.insert(at, call);
            self.note_type(at, ty);
        }
    }
}
