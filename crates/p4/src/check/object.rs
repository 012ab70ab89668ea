//! Constructor calls, and whether a parser or control has the type that a package requires (P4-16 sections 8.21 and
//! 11.3).

use super::Checker;
use super::call::{Misfit, parameter};
use super::typed::{Call, Callee, Decl, Kind};
use super::types::{DeclId, Type};
use crate::ast::{Argument, Expr};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a, '_> {
    /// Checks that a parser or control has the parameters of the required type.
    pub(super) fn conform(&mut self, value: &'a Expr, ty: &Type, want: &Type, param: &str) {
        let side = |c: &Self, t: &Type| -> Vec<(Decl<'a>, Type)> {
            let subst = c.typed.subst_of(t);
            let params = t.named().map(|n| c.params(n.decl)).unwrap_or_default();
            params.into_iter().map(|(_, p)| (p.clone(), p.ty.subst(&subst))).collect()
        };
        let (has, wants) = (side(self, ty), side(self, want));
        let name = want.named().map(|n| n.name.to_string()).unwrap_or_default();
        let shape = want.named().map(|n| self.signature(n.decl)).unwrap_or_default();
        let needed = wants.iter().filter(|(p, _)| !p.optional && p.default.is_none()).count();
        let mut problem = None;
        if has.len() > wants.len() || has.len() < needed {
            problem = Some(format!("it has {} parameters, `{name}` has {}", has.len(), wants.len()));
        }
        for ((p, a), (w, b)) in has.iter().zip(&wants) {
            if problem.is_some() {
                break;
            }
            if p.direction != w.direction {
                problem = Some(format!("`{}` must be `{}`", p.name, parameter(w)));
            } else if !self.unknowns.unify(a, b) {
                let b = self.unknowns.resolve(b);
                problem = Some(format!("`{}` has type `{a}`, but `{b}` is wanted here", p.name));
            }
        }
        if let Some(problem) = problem {
            let text = format!("argument `{param}` cannot be `{}`: {problem}", self.text(value));
            let mut d =
                Diagnostic::error("E0408", value.span, text).hint(format!("it must look like `{shape}`"));
            if let Some(at) = ty.named().and_then(|n| self.decl(n.decl)) {
                d = d.also(at.span, "declared here");
            }
            self.report(d);
        }
    }

    /// A constructor call of an extern, parser, control or package.
    pub(super) fn construct(&mut self, ty: &Type, args: &'a [Argument], span: Span) -> Option<Call<'a>> {
        let named = match ty {
            Type::Extern(n) | Type::Parser(n) | Type::Control(n) | Type::Package(n) => n.clone(),
            Type::Bad => {
                self.check_unmatched(args);
                return None;
            }
            _ => {
                let d = Diagnostic::error("E0314", span, format!("`{ty}` has no constructor"));
                let hint =
                    "only externs, parsers, controls and packages are instantiated; for a value write a cast";
                self.report(d.hint(hint));
                return None;
            }
        };
        let decl = self.decl(named.decl)?.clone();
        self.place_of_object(&decl, span);
        let subst = self.typed.subst_of(ty);
        if let Type::Extern(_) = ty {
            let is_ctor = |c: &Self, m: DeclId| c.kind(m) == Some(Kind::Constructor);
            let ctors: Vec<DeclId> = decl.members.iter().copied().filter(|m| is_ctor(self, *m)).collect();
            if ctors.is_empty() {
                if !args.is_empty() {
                    self.error("E0313", span, format!("`{ty}` has no constructor with arguments"));
                }
                return Some(Call::plain(Callee::Constructor(ty.clone(), None)));
            }
            let (id, matched) = self.choose(&decl.name, &ctors, args, span)?;
            let callee = Callee::Constructor(ty.clone(), Some(id));
            let (_, mut call) = self.apply(id, callee, subst, &[], matched, span);
            call.callee = Callee::Constructor(self.unknowns.resolve(ty), Some(id));
            return Some(call);
        }
        if matches!(decl.kind, Kind::ParserType | Kind::ControlType) {
            let what = if decl.kind == Kind::ParserType { "parsers" } else { "controls" };
            let text = format!("`{}` is only a type of {what}: it has no body", decl.name);
            self.error("E0314", span, text);
            return None;
        }
        // Arguments for a parser or control are matched with its constructor parameters.
        let params = if decl.kind == Kind::Package { &decl.params } else { &decl.ctor_params };
        let list = self.with_decls(params);
        let matched = match self.fit(&list, args) {
            Ok(matched) => matched,
            Err(misfit) => {
                self.check_unmatched(args);
                let shape: Vec<String> = list.iter().map(|(_, p)| parameter(p)).collect();
                let misfit = match misfit {
                    Misfit::Missing(p) => format!("needs an argument for `{p}`"),
                    _ => format!("takes {} arguments, {} given", list.len(), args.len()),
                };
                let text = format!("the constructor of `{}` {misfit}", decl.name);
                let d = Diagnostic::error("E0313", span, text).also(decl.span, "declared here");
                self.report(d.hint(format!("its parameters: ({})", shape.join(", "))));
                return None;
            }
        };
        let (_, mut call) =
            self.apply(named.decl, Callee::Constructor(ty.clone(), None), subst, &[], matched, span);
        call.callee = Callee::Constructor(self.unknowns.resolve(ty), None);
        Some(call)
    }
}
