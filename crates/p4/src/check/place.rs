//! Where calls and instantiations are allowed (P4-16 appendix "Restrictions on compile time and run time calls").

use super::typed::{Decl, Kind};
use super::types::{DeclId, Type};
use super::{Checker, Place};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a, '_> {
    pub(super) fn place_of_block(&mut self, ty: &Type, span: Span) {
        let (ok, hint) = match ty {
            Type::Parser(_) => (self.place == Place::ParserState, "parsers are applied in parser states"),
            _ => {
                (self.place == Place::ControlApply, "controls are applied in `apply { }` blocks of controls")
            }
        };
        if !ok {
            let d = Diagnostic::error("E0402", span, format!("`{ty}` cannot be applied here")).hint(hint);
            self.report(d);
        }
    }

    /// Reports a recursive call: the callee is the declaration that is being walked.
    pub(super) fn is_recursion(&mut self, id: DeclId, name: &str, span: Span) -> bool {
        let recurs = self.owner == Some(id);
        if recurs {
            self.error("E0403", span, format!("`{name}` calls itself; P4 has no recursion"));
        }
        recurs
    }

    pub(super) fn place_of_function(&mut self, id: DeclId, span: Span) {
        let Some(d) = self.decl(id).cloned() else { return };
        self.is_recursion(id, &d.name, span);
        let text = match (d.kind, self.place, &*d.name) {
            (Kind::Action, Place::ControlApply | Place::Action, _) => return,
            (Kind::Action, ..) => {
                format!("an action such as `{}` can only be called in a control or an action", d.name)
            }
            (_, _, "verify") if d.kind == Kind::ExternFunction && !self.place.in_parser() => {
                "`verify` can only be called in a parser".to_string()
            }
            (_, Place::Top, "static_assert") => return,
            (Kind::ExternFunction, Place::Top, _) if matches!(d.ty, Type::Extern(_)) => return,
            (_, Place::Top, _) => {
                "functions cannot be called here: the value must be known at compile time".to_string()
            }
            _ => return,
        };
        self.error("E0402", span, text);
    }

    /// Checks that an instantiation is allowed here (the second table of the appendix).
    pub(super) fn place_of_object(&mut self, decl: &Decl<'a>, span: Span) {
        let allowed = match decl.kind {
            Kind::Extern => !matches!(self.place, Place::Function | Place::Action),
            Kind::Parser => matches!(self.place, Place::Top | Place::ParserLocals | Place::ParserState),
            Kind::Control => matches!(self.place, Place::Top | Place::ControlLocals | Place::ControlApply),
            Kind::Package => self.place == Place::Top,
            _ => true,
        };
        if !allowed {
            let text = format!("`{}` cannot be instantiated here", decl.name);
            let hint = "controls are instantiated in controls, parsers in parsers, packages at the top, nothing in actions and functions";
            self.report(Diagnostic::error("E0405", span, text).hint(hint));
        }
    }
}
