//! Warnings about unused declarations: tables, actions, instances, variables, constants, functions, parsers and
//! controls.

use super::Lint;
use crate::ast::{Decl, DeclKind, Stmt, StmtKind};
use crate::check::Kind;
use crate::diag::Diagnostic;

impl<'a> Lint<'_, 'a> {
    pub(super) fn unused(&mut self) {
        for d in &self.typed.program.decls {
            if self.map.file_index(d.span.start) == 0 {
                self.unused_decl(d);
            }
        }
    }

    fn unused_decl(&mut self, d: &'a Decl) {
        self.silenced(&d.annotations, |l| {
            l.unused_name(d);
            d.locals().iter().for_each(|local| l.unused_decl(local));
            match &d.kind {
                DeclKind::Control(c) => l.unused_in(&c.apply.stmts),
                DeclKind::Parser(p) => p.states.iter().for_each(|s| l.unused_in(&s.body)),
                DeclKind::Action { body, .. } | DeclKind::Function { body, .. } => l.unused_in(&body.stmts),
                _ => {}
            }
        });
    }

    fn unused_in(&mut self, stmts: &'a [Stmt]) {
        for s in stmts {
            if let StmtKind::Decl(d) = &s.kind {
                self.unused_decl(d);
            }
            s.bodies().into_iter().for_each(|b| self.unused_in(b));
        }
    }

    fn unused_name(&mut self, d: &'a Decl) {
        let Some(kind) = self.typed.decl(d.id).map(|d| d.kind) else { return };
        let what = match kind {
            Kind::Table => "table",
            Kind::Action => "action",
            Kind::Instance => "instance",
            Kind::Variable => "variable",
            Kind::Const => "constant",
            Kind::Function => "function",
            Kind::Parser => "parser",
            Kind::Control => "control",
            Kind::ValueSet => "value set",
            _ => return,
        };
        let library = self.typed.main.is_none()
            && matches!(kind, Kind::Parser | Kind::Control | Kind::Const | Kind::Function);
        let own = d.name.text == "main" || d.name.text.starts_with('_') || library;
        if own || self.typed.is_used(d.id) {
            return;
        }
        let name = &d.name.text;
        let verb = if what == "table" { "applied" } else { "used" };
        let w = Diagnostic::warning("W0601", d.name.span, format!("{what} `{name}` is never {verb}"));
        self.say(
            w.hint(format!("remove it, or write `@noWarn(\"unused\")` before it, or call it `_{name}`")),
        );
    }
}
