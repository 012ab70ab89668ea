//! Scopes, and the resolution of names (P4-16 section 6.9).

use crate::map::Map;

use super::typed::{Decl, Kind};
use super::types::{DeclId, Type};
use super::{Checker, Place};
use crate::ast::Name;
use crate::diag::{Diagnostic, Diagnostics, did_you_mean};
use crate::lexer::{Lexer, TokenKind};
use crate::source::{Embedded, SourceProvider as _};

impl<'a> Decl<'a> {
    pub(super) fn new(name: &Name, kind: Kind, ty: Type) -> Decl<'a> {
        Decl { name: name.text.as_str().into(), span: name.span, kind, ty, ..Decl::default() }
    }
}

impl<'a> Checker<'a, '_> {
    pub(super) fn push_scope(&mut self) {
        self.scopes.push(Map::default());
    }

    pub(super) fn pop_scope(&mut self) {
        self.scopes.pop();
    }

    /// Records a declaration without making its name visible.
    pub(super) fn record(&mut self, id: DeclId, decl: Decl<'a>) {
        if let Some(slot) = self.typed.decls.get_mut(id.0 as usize) {
            *slot = Some(decl);
        }
    }

    /// Records a declaration, and makes its name visible in the innermost scope.
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
        // Forward declarations of block types may be repeated, as in p4c's corpus.
        let block = |k: Kind| matches!(k, Kind::ParserType | Kind::ControlType | Kind::Package);
        if (overload(kind) && overload(old.kind)) || (block(kind) && old.kind == kind) {
            return;
        }
        let text = format!("`{}` is declared twice", name.text);
        let first = format!("`{}` is already declared here", name.text);
        let d = Diagnostic::error("E0202", name.span, text).label("declared again").also(old.span, first);
        self.report(d.hint("give one of them another name"));
    }

    /// All declarations that a name can refer to. The innermost scope that declares the name decides.
    pub(super) fn find(&self, name: &str, global: bool) -> Vec<DeclId> {
        let scopes = if global { &self.scopes[..1] } else { &self.scopes[..] };
        let mut found = scopes.iter().rev().filter_map(|s| s.get(name));
        let Some(first) = found.next() else { return Vec::new() };
        // In a body, the own name refers to an earlier declaration of this name (section 6.9.3). If there is none, it
        // is a recursion.
        let own = first.as_slice() == self.owner.as_slice();
        found.next().filter(|_| own).unwrap_or(first).clone()
    }

    pub(super) fn decl(&self, id: DeclId) -> Option<&Decl<'a>> {
        self.typed.decl(id)
    }

    /// The members of a declaration.
    pub(super) fn members(&self, id: DeclId) -> Vec<DeclId> {
        self.decl(id).map_or(Vec::new(), |d| d.members.clone())
    }

    pub(super) fn kind(&self, id: DeclId) -> Option<Kind> {
        self.typed.decl(id).map(|d| d.kind)
    }

    /// The visible names that have a declaration which passes the test.
    pub(super) fn visible(&self, test: impl Fn(Kind) -> bool) -> Vec<&'a str> {
        let all = self.scopes.iter().flat_map(|s| s.iter());
        let fits = |ids: &[DeclId]| ids.iter().any(|i| self.kind(*i).is_some_and(&test));
        let mut names: Vec<&str> = all.filter(|(_, ids)| fits(ids)).map(|(n, _)| *n).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Reports a name that is declared later, misspelt or unknown.
    pub(super) fn undeclared(&mut self, name: &Name, what: &str, test: impl Fn(Kind) -> bool) -> Type {
        if let Some(span) = self.declared_later.get(name.text.as_str()).copied() {
            let text = format!("`{}` is used before it is declared", name.text);
            let d = Diagnostic::error("E0203", name.span, text).also(span, "declared here, further down");
            let hint = match self.place {
                Place::Action => {
                    "move the declaration above its first use: P4 reads from top to bottom (and a table is applied in the control's `apply { }`, not in an action)"
                }
                _ => "move the declaration above its first use: P4 reads from top to bottom",
            };
            return self.bad(d.hint(hint));
        }
        if let Some(file) = self.include_with(&name.text) {
            return self.missing_include(file, what, name);
        }
        let text = format!("cannot find {what}`{}`", name.text);
        let mut d = Diagnostic::error("E0201", name.span, text).label("not declared");
        let known = self.visible(test);
        if let Some(near) = did_you_mean(&name.text, known.iter().copied()) {
            d = d.hint(format!("did you mean `{near}`?"));
        } else if what.is_empty() && self.place == Place::Top {
            d = d.hint("names must be declared, or come from an include such as `#include <v1model.p4>`");
        }
        self.bad(d)
    }
}

/// The architectures' includes, each with the name of its package.
const ARCHITECTURES: [(&str, &str); 3] =
    [("v1model.p4", "V1Switch"), ("psa.p4", "PSA_Switch"), ("pna.p4", "PNA_NIC")];

impl Checker<'_, '_> {
    /// The built-in include that declares a name and that the program lacks.
    fn include_with(&self, name: &str) -> Option<&'static str> {
        let files = self.map.files();
        let has = |file: &str| files.iter().any(|f| f.name.ends_with(file));
        let lacks_core = !has("core.p4");
        if ARCHITECTURES.iter().any(|(file, _)| has(file)) {
            return (lacks_core && declares("core.p4", name)).then_some("core.p4");
        }
        // The architecture's include contains core.p4: only one include is missing, not two.
        let meant = ARCHITECTURES.iter().find(|(_, package)| files.iter().any(|f| f.text.contains(package)));
        if let Some((file, _)) = meant
            && (declares(file, name) || (lacks_core && declares("core.p4", name)))
        {
            return Some(file);
        }
        if lacks_core && declares("core.p4", name) {
            return Some("core.p4");
        }
        ARCHITECTURES.iter().map(|(file, _)| *file).find(|file| declares(file, name))
    }

    /// Reports a missing include, once for each include.
    pub(super) fn missing_include(&mut self, file: &'static str, what: &str, name: &Name) -> Type {
        if self.missing_includes.contains(&file) {
            return Type::Bad;
        }
        self.missing_includes.push(file);
        let text = format!("cannot find {what}`{}`", name.text);
        let d = Diagnostic::error("E0201", name.span, text).label("not declared");
        let hint =
            format!("`{}` is declared in {file}: add `#include <{file}>`, which is built in", name.text);
        self.bad(d.hint(hint))
    }
}

/// Whether a built-in include has a global declaration of a name.
fn declares(file: &str, name: &str) -> bool {
    let Some((_, text)) = Embedded.include(file, "", false) else { return false };
    let mut lexer = Lexer::new(text.into(), 0);
    let mut scratch = Diagnostics::default();
    let mut depth = 0_usize;
    loop {
        let token = lexer.next(&mut scratch);
        match &token.kind {
            TokenKind::Eof => return false,
            TokenKind::Punct("{" | "(") => depth += 1,
            TokenKind::Punct("}" | ")") => depth = depth.saturating_sub(1),
            // A name of one letter is a type parameter.
            TokenKind::Word(word) if depth == 0 && **word == *name && name.len() > 1 => return true,
            _ => {}
        }
    }
}

/// Whether a declaration of this kind is a type.
pub(super) fn is_type(kind: Kind) -> bool {
    use Kind::*;
    let block = matches!(kind, ParserType | Parser | ControlType | Control | Package);
    let fields = matches!(kind, Struct | Header | Union);
    block || fields || matches!(kind, TypeParam | Typedef | NewType | Enum | SerEnum | Extern)
}
