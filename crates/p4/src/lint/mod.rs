//! Warnings about correct programs: unused declarations, reads of variables without a value, unreachable code, and
//! surprising defaults. `strait check` shows them. `--allow` silences a warning, and so does `@noWarn("name")` before
//! the declaration.

mod flow;
mod unused;

use crate::map::{Map, Set};

use crate::ast::{self, Annotation, AnnotationBody, Decl, DeclKind, ExprKind, ParserDecl};
use crate::check::Typed;
use crate::diag::{Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span};

/// The warnings: code, and the name that silences it.
pub const NAMES: [(&str, &str); 6] = [
    ("W0601", "unused"),
    ("W0602", "uninitialized_use"),
    ("W0603", "invalid_header"),
    ("W0604", "unreachable"),
    ("W0605", "no_default_action"),
    ("W0606", "no_size"),
];

/// The warnings about a checked program. Includes are not checked.
pub fn lint(typed: &Typed<'_>, map: &SourceMap) -> Diagnostics {
    let mut lint = Lint { typed, map, diags: Diagnostics::default(), quiet: Vec::new() };
    for d in &typed.program.decls {
        if map.file_index(d.span.start) == 0 {
            lint.decl(d);
        }
    }
    lint.unused();
    lint.diags
}

/// Whether a warning has this code or this name.
pub fn is_called(code: &str, name: &str) -> bool {
    name == "all" && code.starts_with('W')
        || code.eq_ignore_ascii_case(name)
        || NAMES.iter().any(|(c, n)| *c == code && *n == name)
}

struct Lint<'t, 'a> {
    typed: &'t Typed<'a>,
    map: &'t SourceMap,
    diags: Diagnostics,
    /// The names in the `@noWarn` annotations of the enclosing declarations.
    quiet: Vec<String>,
}

impl<'a> Lint<'_, 'a> {
    fn say(&mut self, diagnostic: Diagnostic) {
        if !self.quiet.iter().any(|q| is_called(diagnostic.code, q)) {
            self.diags.push(diagnostic);
        }
    }

    /// Runs `f` with the warnings silenced that these annotations name.
    fn silenced(&mut self, annotations: &[Annotation], f: impl FnOnce(&mut Self)) {
        let before = self.quiet.len();
        for a in annotations.iter().filter(|a| a.name.text == "noWarn") {
            if let AnnotationBody::Unstructured(tokens) = &a.body {
                self.quiet.extend(tokens.iter().map(|(t, _)| t.trim_matches('"').to_string()));
            }
        }
        f(self);
        self.quiet.truncate(before);
    }

    fn decl(&mut self, d: &'a Decl) {
        self.silenced(&d.annotations, |l| match &d.kind {
            DeclKind::Control(c) => {
                c.locals.iter().for_each(|local| l.decl(local));
                l.body(&c.head.params, &c.apply.stmts);
            }
            DeclKind::Action { params, body } => l.body(params, &body.stmts),
            DeclKind::Function { prototype, body } => l.body(&prototype.params, &body.stmts),
            DeclKind::Parser(p) => {
                l.unreachable_states(p);
                l.parser(p);
            }
            DeclKind::Table(t) => l.table(d, t),
            _ => {}
        });
    }

    fn table(&mut self, d: &'a Decl, t: &'a ast::TableDecl) {
        let has = |name: &str| t.property(name).is_some();
        let name = &d.name.text;
        if !has("default_action") {
            let text = format!("table `{name}` says nothing of a miss: `NoAction` runs");
            let w = Diagnostic::warning("W0605", d.name.span, text);
            self.say(w.hint("write `default_action = NoAction;` where that is meant"));
        }
        let constant = t.property("entries").is_some_and(|p| p.is_const);
        if has("key") && !has("size") && !constant {
            let text = format!("table `{name}` does not say how many entries it has room for");
            let w = Diagnostic::warning("W0606", d.name.span, text);
            self.say(w.hint("it gets 1024; write `size = …;`"));
        }
    }

    fn unreachable_states(&mut self, p: &'a ParserDecl) {
        let named: Map<&str, &ast::StateDecl> = p.states.iter().map(|s| (s.name.text.as_str(), s)).collect();
        let mut reached: Set<&str> = Set::from_iter(["start"]);
        let mut open = vec!["start"];
        while let Some(name) = open.pop() {
            let targets = named.get(name).into_iter().flat_map(|s| s.targets());
            open.extend(targets.filter(|t| reached.insert(*t)));
        }
        for s in p.states.iter().filter(|s| !reached.contains(s.name.text.as_str())) {
            let text = format!("no way from `start` leads to state `{}`", s.name.text);
            self.silenced(&s.annotations, |l| l.say(Diagnostic::warning("W0604", s.name.span, text)));
        }
    }

    fn never(&mut self, span: Span) {
        self.say(Diagnostic::warning("W0604", span, "this is never reached"));
    }
}

/// Whether an expression has the form of an lvalue.
fn is_place(e: &ast::Expr) -> bool {
    match &e.kind {
        ExprKind::Name { .. } => true,
        ExprKind::Member { base, .. } | ExprKind::Index { base, .. } | ExprKind::Slice { base, .. } => {
            is_place(base)
        }
        _ => false,
    }
}
