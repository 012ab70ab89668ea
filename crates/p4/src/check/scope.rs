//! Names: who is visible where (P4-16 section 6.9).

use std::collections::HashMap;

use super::typed::{Decl, Kind};
use super::types::{DeclId, Type};
use super::{Checker, Place};
use crate::ast::{Direction, Name};
use crate::diag::{Diagnostic, did_you_mean};

impl<'a> Decl<'a> {
    pub(super) fn new(name: &Name, kind: Kind, ty: Type) -> Decl<'a> {
        Decl {
            name: name.text.as_str().into(),
            span: name.span,
            kind,
            ty,
            parent: None,
            members: Vec::new(),
            type_params: Vec::new(),
            params: Vec::new(),
            ctor_params: Vec::new(),
            direction: Direction::None,
            optional: false,
            default: None,
            value: None,
            table: None,
        }
    }
}

impl<'a> Checker<'a, '_> {
    pub(super) fn push_scope(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn pop_scope(&mut self) {
        self.scopes.pop();
    }

    /// Keeps a declaration without making its name visible.
    pub(super) fn record(&mut self, id: DeclId, decl: Decl<'a>) {
        if let Some(slot) = self.typed.decls.get_mut(id.0 as usize) {
            *slot = Some(decl);
        }
    }

    /// Keeps a declaration and makes its name visible in the innermost scope.
    pub(super) fn declare(&mut self, id: DeclId, name: &'a Name, decl: Decl<'a>) {
        let kind = decl.kind;
        self.record(id, decl);
        if name.text.is_empty() {
            return;
        }
        let Some(scope) = self.scopes.last_mut() else { return };
        let same = scope.entry(name.text.as_str()).or_default();
        let first = same.first().copied();
        same.push(id);
        let Some(first) = first else { return };
        let overload = |k: Kind| matches!(k, Kind::Function | Kind::ExternFunction);
        let Some(old) = self.typed.decl(first).cloned() else { return };
        // p4c's corpus repeats forward declarations of block types; equal shapes do no harm.
        let block = |k: Kind| matches!(k, Kind::ParserType | Kind::ControlType | Kind::Package);
        if (overload(kind) && overload(old.kind)) || (block(kind) && old.kind == kind) {
            return;
        }
        let text = format!("`{}` is declared twice", name.text);
        let first = format!("`{}` is already declared here", name.text);
        let d = Diagnostic::error("E0202", name.span, text).label("declared again").also(old.span, first);
        self.report(d.hint("give one of them another name"));
    }

    /// All declarations a name may mean: the innermost scope that has it decides.
    pub(super) fn find(&self, name: &str, global: bool) -> Vec<DeclId> {
        let scopes = if global { &self.scopes[..1] } else { &self.scopes[..] };
        let mut found = scopes.iter().rev().filter_map(|s| s.get(name));
        let Some(first) = found.next() else { return Vec::new() };
        // Inside a body its own name means what it meant before (section 6.9.3); where it meant nothing, it is told as recursion.
        let own = first.as_slice() == self.owner.as_slice();
        found.next().filter(|_| own).unwrap_or(first).clone()
    }

    pub(super) fn decl(&self, id: DeclId) -> Option<&Decl<'a>> {
        self.typed.decl(id)
    }

    pub(super) fn kind(&self, id: DeclId) -> Option<Kind> {
        self.typed.decl(id).map(|d| d.kind)
    }

    /// Visible names whose declarations pass the test.
    pub(super) fn visible(&self, test: impl Fn(Kind) -> bool) -> Vec<&'a str> {
        let all = self.scopes.iter().flat_map(|s| s.iter());
        let fits = |ids: &[DeclId]| ids.iter().any(|i| self.kind(*i).is_some_and(&test));
        let mut names: Vec<&str> = all.filter(|(_, ids)| fits(ids)).map(|(n, _)| *n).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Reports a name that is not there: declared later, misspelt, or unknown.
    pub(super) fn missing(&mut self, name: &Name, what: &str, test: impl Fn(Kind) -> bool) -> Type {
        if let Some(span) = self.later.get(name.text.as_str()).copied() {
            let text = format!("`{}` is used before it is declared", name.text);
            let d = Diagnostic::error("E0203", name.span, text).also(span, "declared here, further down");
            return self.bad(d.hint("move the declaration above its first use: P4 reads from top to bottom"));
        }
        let text = format!("cannot find {what}`{}`", name.text);
        let mut d = Diagnostic::error("E0201", name.span, text).label("not declared");
        let known = self.visible(test);
        if let Some(near) = did_you_mean(&name.text, known.iter().copied()) {
            d = d.hint(format!("did you mean `{near}`?"));
        } else if name.text == "NoAction" {
            d = d.hint("`NoAction` is declared in core.p4: add `#include <core.p4>`");
        } else if what.is_empty() && self.place == Place::Top {
            d = d.hint("names must be declared, or come from an include such as `#include <v1model.p4>`");
        }
        self.bad(d)
    }
}

/// Whether a declaration stands for a type.
pub(super) fn is_type(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        TypeParam
            | Typedef
            | NewType
            | Struct
            | Header
            | Union
            | Enum
            | SerEnum
            | Extern
            | ParserType
            | Parser
            | ControlType
            | Control
            | Package
    )
}
