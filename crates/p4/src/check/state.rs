//! Parser states, transitions and keysets (P4-16 section 13).

use crate::map::Set;

use super::typed::{Decl, Kind};
use super::types::Type;
use super::{Checker, Place};
use crate::ast::{self, Expr, ExprKind, Name, ParserDecl, SelectCase, StateDecl, Transition};
use crate::diag::Diagnostic;

impl<'a> Checker<'a, '_> {
    /// Checks all states of a parser. A state may refer to states that are declared later.
    pub(super) fn states(&mut self, d: &'a ast::Decl, p: &'a ParserDecl) {
        self.push_scope();
        for s in &p.states {
            if matches!(s.name.text.as_str(), "accept" | "reject") {
                let text = format!("state `{}` is built in and cannot be declared", s.name.text);
                self.error("E0411", s.name.span, text);
            }
            let made = Decl { parent: Some(d.id), ..Decl::new(&s.name, Kind::State, Type::State) };
            self.declare(s.id, &s.name, made);
        }
        if !p.states.iter().any(|s| s.name.text == "start") {
            let text = format!("parser `{}` has no state `start`", d.name.text);
            let mut e = Diagnostic::error("E0411", d.name.span, text);
            if let Some(first) = p.states.first() {
                e = e.also(first.name.span, "perhaps this one");
            }
            self.report(e.hint("parsing begins in `state start { … }`"));
        }
        let known: Set<&str> = p.states.iter().map(|s| s.name.text.as_str()).collect();
        self.place = Place::ParserState;
        for s in &p.states {
            self.state(s, &known);
        }
        self.place = Place::ParserLocals;
        self.pop_scope();
        self.terminates(d, p);
    }

    /// Reports a parser with no path from `start` to `accept` or `reject`: it would never end.
    fn terminates(&mut self, d: &'a ast::Decl, p: &'a ParserDecl) {
        let state = |name: &str| p.states.iter().find(|s| s.name.text == name);
        let (mut reached, mut open) = (Set::from_iter(["start"]), vec!["start"]);
        while let Some(name) = open.pop() {
            let Some(s) = state(name) else { return };
            // A `select` without a case that matches every value can reject.
            let all = |c: &SelectCase| matches!(c.keyset.kind, ExprKind::Default | ExprKind::DontCare);
            match &s.transition {
                None => return,
                Some(Transition::Select { cases, .. }) if !cases.iter().any(all) => return,
                Some(_) => {}
            }
            for name in s.targets() {
                if matches!(name, "accept" | "reject") {
                    return;
                }
                if reached.insert(name) {
                    open.push(name);
                }
            }
        }
        let text = format!("parser `{}` never ends: no way leads to `accept` or `reject`", d.name.text);
        self.error("E0421", d.name.span, text);
    }

    fn state(&mut self, s: &'a StateDecl, known: &Set<&'a str>) {
        self.push_scope();
        for stmt in &s.body {
            self.stmt(stmt);
        }
        match &s.transition {
            None => {
                let text = format!("state `{}` has no transition, so it ends in `reject`", s.name.text);
                let e = Diagnostic::warning("W0401", s.name.span, text);
                self.report(e.hint("end it with `transition accept;` or `transition` to another state"));
            }
            Some(Transition::State(name)) => self.target(name, known),
            Some(Transition::Select { keys, cases, .. }) => self.select(keys, cases, known),
        }
        self.pop_scope();
    }

    fn target(&mut self, name: &Name, known: &Set<&'a str>) {
        if known.contains(name.text.as_str()) || matches!(name.text.as_str(), "accept" | "reject") {
            return;
        }
        let mut all: Vec<&str> = known.iter().copied().chain(["accept", "reject"]).collect();
        all.sort_unstable();
        let e = Diagnostic::error("E0411", name.span, format!("there is no state `{}`", name.text));
        self.report(e.one_of(&name.text, "states", &all));
    }

    fn select(&mut self, keys: &'a [Expr], cases: &'a [SelectCase], known: &Set<&'a str>) {
        let types: Vec<Type> = keys.iter().map(|k| self.expr(k)).collect();
        for (key, ty) in keys.iter().zip(&types) {
            let inner = ty.underlying();
            let simple = inner.is_fixed() || matches!(inner, Type::Bool | Type::Enum(_) | Type::Error);
            if !simple && !matches!(inner, Type::Tuple(_) | Type::Bad | Type::Param(_)) {
                let mut e = Diagnostic::error("E0412", key.span, format!("`select` cannot decide by `{ty}`"));
                if *inner == Type::Int {
                    e = e.hint("a number needs a width here");
                } else if ty.has_fields() {
                    e = e.hint(format!("choose a field: {}", self.field_names(ty)));
                }
                self.report(e);
            }
        }
        for case in cases {
            self.keyset(&case.keyset, &types);
            self.target(&case.state, known);
        }
    }

    /// Checks a keyset for these keys: one set for each key, or a set that matches everything.
    pub(super) fn keyset(&mut self, e: &'a Expr, keys: &[Type]) {
        match &e.kind {
            ExprKind::Default | ExprKind::DontCare => drop(self.expr(e)),
            ExprKind::List { items, .. }
                if !(keys.len() == 1 && matches!(keys[0], Type::Tuple(_) | Type::Struct(_))) =>
            {
                if items.len() != keys.len() {
                    let s = |n: usize| if n == 1 { "" } else { "s" };
                    let (n, k) = (items.len(), keys.len());
                    let text = format!("{n} value{} for {k} key{}", s(n), s(k));
                    let d = Diagnostic::error("E0413", e.span, text).hint("give one value a key, or `_`");
                    self.report(d);
                    return;
                }
                for (item, key) in items.iter().zip(keys) {
                    self.simple_keyset(item, key);
                }
                self.note(e, &Type::DontCare);
            }
            _ if keys.len() == 1 => self.simple_keyset(e, &keys[0]),
            _ => {
                let ty = self.expr(e);
                if !matches!(ty, Type::Set(_) | Type::Bad) {
                    let d = Diagnostic::error("E0413", e.span, format!("1 value for {} keys", keys.len()));
                    self.report(d.hint("write a tuple: `(a, b)`; `_` stands for any value"));
                }
            }
        }
    }

    fn simple_keyset(&mut self, e: &'a Expr, key: &Type) {
        let own = self.expr(e);
        // A set of a serializable enum may be written with numbers.
        match (&own, &e.kind) {
            (Type::Set(t), ExprKind::Binary { left, right, .. }) => {
                let want = if t.is_integer() { key.underlying().clone() } else { key.clone() };
                if **t == Type::Int {
                    self.coerce(left, &Type::Int, &want);
                    self.coerce(right, &Type::Int, &want);
                } else if t.underlying() != key.underlying() && !t.is_bad() && !key.is_bad() {
                    self.error("E0301", e.span, format!("expected `{key}`, found `{t}`"));
                }
            }
            (Type::Set(t), _) => {
                if !self.unknowns.unify(t, key) {
                    let fields = if t.has_fields() { self.typed.fields(t) } else { Vec::new() };
                    if !matches!(&fields[..], [only] if only.1 == *key) {
                        self.error("E0301", e.span, format!("expected a set of `{key}`, found `{own}`"));
                    }
                }
            }
            (Type::DontCare | Type::Bad, _) => {}
            _ => {
                self.coerce(e, &own, key);
            }
        }
    }
}
