//! The control plane's view of a checked program (P4Info): a walk over the instances of `main`.
//!
//! Names follow section 18.3 of the specification: the names of the enclosing instances, separated by dots, then the
//! name, which `@name` replaces; a name with a leading dot is not prefixed. As in p4c, unused objects are left out:
//! tables that are not applied, and actions that are neither listed nor called. `types` has the types for a controller,
//! and `values` the compile-time known values.

mod dead;
mod object;
mod table;
mod types;
mod values;

use std::collections::HashSet;

use ir::api::{self, Api};
use num_traits::ToPrimitive;

use crate::ast::{self, AnnotationBody, ControlDecl, DeclKind, Stmt, StmtKind};
use crate::check::{Arg, Call, Callee, DeclId, Subst, Type, Typed, Value};
use crate::map::Map;
use crate::source::{SourceMap, Span};

/// The control plane's view of a program.
pub fn of(typed: &Typed<'_>, map: &SourceMap) -> Api {
    let mut walk = Walk {
        typed,
        map,
        api: Api::default(),
        applied: HashSet::new(),
        called: HashSet::new(),
        listed: HashSet::new(),
        dead: Vec::new(),
        digests: 0,
    };
    walk.index();
    walk.program();
    walk.api
}

/// The architecture of a program, by the package of `main`. It is empty if the package is unknown.
pub fn architecture(typed: &Typed<'_>) -> &'static str {
    let call = typed.main.and_then(|main| typed.instance(main));
    let Some(Callee::Constructor(ty, _)) = call.map(|c| &c.callee) else { return "" };
    match ty.named().map(|n| &*n.name) {
        Some("V1Switch") => "v1model",
        Some("PSA_Switch") => "psa",
        Some("PNA_NIC") => "pna",
        Some("ubpf") => "ubpf",
        _ => "",
    }
}

/// An instance that is being walked: its name, and its constructor and type arguments.
#[derive(Clone, Default)]
struct Place<'a> {
    path: String,
    /// The values of constructor parameters, and the arguments for constructor parameters that are objects.
    values: Map<DeclId, Value>,
    given: Map<DeclId, &'a ast::Expr>,
    types: Subst,
}

struct Walk<'t, 'a> {
    typed: &'t Typed<'a>,
    map: &'t SourceMap,
    api: Api,
    /// The tables that are applied.
    applied: HashSet<DeclId>,
    /// The actions that a control calls directly. An action that only actions call is not in it.
    called: HashSet<DeclId>,
    /// The actions in the lists of applied tables.
    listed: HashSet<DeclId>,
    /// The unreachable statements.
    dead: Vec<Span>,
    /// How many digests without a name there are so far.
    digests: usize,
}

impl<'a> Walk<'_, 'a> {
    fn index(&mut self) {
        let decls = &self.typed.program.decls;
        let mut inside: Vec<Span> = Vec::new();
        let mut dead = Vec::new();
        for d in decls.iter().flat_map(|d| [d].into_iter().chain(d.locals())) {
            match &d.kind {
                DeclKind::Action { .. } => inside.push(d.span),
                DeclKind::Control(c) => drop(self.dead(&c.apply.stmts, &mut dead)),
                _ => {}
            }
        }
        self.dead = dead;
        let by_an_action = |at: Span| inside.iter().any(|s| s.contains(at));
        for (at, call) in self.typed.calls_by_place() {
            if self.is_dead(at) {
                continue;
            }
            match &call.callee {
                Callee::Table(id) => drop(self.applied.insert(*id)),
                Callee::Function(id) if !by_an_action(at) => drop(self.called.insert(*id)),
                _ => {}
            }
        }
        for table in &self.applied {
            if let Some(d) = self.typed.decl(*table) {
                self.listed.extend(d.members.iter().copied());
            }
        }
    }

    fn program(&mut self) {
        let Some(main) = self.typed.main else { return };
        self.api.has_main = true;
        if let Some(d) = self.typed.syntax(main) {
            self.api.package = self.annotations(&d.annotations);
        }
        // Global declarations are in no instance.
        for d in &self.typed.program.decls {
            if let DeclKind::Instance { .. } = &d.kind {
                self.object(d, &Place::default());
            }
        }
        if let Some(call) = self.typed.instance(main) {
            self.api.arch = architecture(self.typed).to_string();
            self.package(call);
        }
        self.controller_headers();
    }

    /// Walks the parsers and controls of a package, and of packages in it.
    fn package(&mut self, call: &Call<'a>) {
        for (_, arg) in &call.args {
            let (Arg::Given(e) | Arg::Default(e)) = arg else { continue };
            let named = || self.typed.resolved(e.id).and_then(|id| self.typed.instance(id));
            let Some(inner) = self.typed.call(e.id).or_else(named) else { continue };
            match &inner.callee {
                Callee::Constructor(Type::Package(_), _) => self.package(inner),
                Callee::Constructor(ty @ (Type::Parser(n) | Type::Control(n)), _) => {
                    let Some(decl) = self.typed.syntax(n.decl) else { continue };
                    let place = self.enter(&Place::default(), &decl.name.text, ty, inner);
                    self.block(decl, &place);
                }
                _ => {}
            }
        }
    }

    /// The instance of a parser or control in another instance.
    fn enter(&self, from: &Place<'a>, path: &str, ty: &Type, call: &Call<'a>) -> Place<'a> {
        let types = self.typed.subst_of(&ty.subst(&from.types));
        let mut place = Place { path: path.to_string(), types, ..Place::default() };
        for (param, arg) in &call.args {
            if let Arg::Given(e) | Arg::Default(e) = arg {
                place.values.extend(self.value(e, from).map(|v| (*param, v)));
                place.given.insert(*param, e);
            }
        }
        place
    }

    fn block(&mut self, decl: &'a ast::Decl, place: &Place<'a>) {
        match &decl.kind {
            DeclKind::Control(c) => self.control(c, place),
            _ => {
                for local in decl.locals() {
                    match &local.kind {
                        DeclKind::ValueSet { size, .. } => self.value_set(local, size, place),
                        DeclKind::Instance { .. } => self.local_instance(local, place),
                        _ => {}
                    }
                }
            }
        }
    }

    fn control(&mut self, c: &'a ControlDecl, place: &Place<'a>) {
        for local in &c.locals {
            match &local.kind {
                DeclKind::Instance { .. } => self.local_instance(local, place),
                DeclKind::Action { .. } => self.action(local, place),
                DeclKind::Table(t) if self.applied.contains(&local.id) => self.table(local, t, place),
                _ => {}
            }
        }
        self.applied_directly(&c.apply.stmts, place);
        self.digest_calls(c, place);
        self.global_actions(c, place);
    }

    fn local_instance(&mut self, d: &'a ast::Decl, place: &Place<'a>) {
        let Some(call) = self.typed.instance(d.id) else { return };
        match &call.callee {
            Callee::Constructor(ty @ (Type::Parser(n) | Type::Control(n)), _) => {
                // A constructor parameter may be an instance of the caller.
                let Some(decl) = self.typed.syntax(n.decl) else { return };
                let inner = self.enter(place, &full_name(d, &place.path), ty, call);
                self.block(decl, &inner);
            }
            _ => self.object(d, place),
        }
    }

    /// Walks the controls that `C.apply(…)` instantiates. The instance has the name of the type.
    fn applied_directly(&mut self, stmts: &'a [Stmt], place: &Place<'a>) {
        for s in stmts {
            if let StmtKind::DirectApply { id, .. } = &s.kind
                && let ty = self.typed.own_ty(*id)
                && let Some(decl) = ty.named().and_then(|n| self.typed.syntax(n.decl))
            {
                let types = self.typed.subst_of(&ty.subst(&place.types));
                let inner = Place { path: full_name(decl, &place.path), types, ..Place::default() };
                self.block(decl, &inner);
            }
            s.bodies().into_iter().for_each(|b| self.applied_directly(b, place));
        }
    }

    /// Adds the global actions that a control calls.
    fn global_actions(&mut self, c: &'a ControlDecl, place: &Place<'a>) {
        let at = c.apply.span;
        for (span, call) in self.typed.calls_by_place() {
            let Callee::Function(id) = &call.callee else { continue };
            let top = self.typed.program.decls.iter().find(|d| d.id == *id);
            if let Some(d) = top.filter(|_| at.contains(span) && !self.is_dead(span)) {
                self.one_action(d, "", place);
            }
        }
    }

    fn is_dead(&self, at: Span) -> bool {
        self.dead.iter().any(|s| s.contains(at))
    }

    /// Annotations in the form of P4Info.
    fn annotations(&self, list: &[ast::Annotation]) -> Vec<api::Annotation> {
        let literal = |e: &ast::Expr| match self.typed.value(e.id)? {
            Value::Bool(b) => Some(api::Literal::Bool(b)),
            Value::Str(s) => Some(api::Literal::Text(s.to_string())),
            Value::Int(v) => v.to_i64().map(api::Literal::Int),
            _ => None,
        };
        let body = |a: &ast::Annotation| match &a.body {
            AnnotationBody::Empty => api::AnnotationBody::Empty,
            AnnotationBody::Unstructured(tokens) => {
                api::AnnotationBody::Tokens(tokens.iter().map(|(t, _)| t.clone()).collect())
            }
            AnnotationBody::Expressions(list) => {
                api::AnnotationBody::List(list.iter().filter_map(literal).collect())
            }
            AnnotationBody::KeyValues(pairs) => api::AnnotationBody::Pairs(
                pairs.iter().filter_map(|(k, v)| Some((k.text.clone(), literal(v)?))).collect(),
            ),
        };
        list.iter().map(|a| api::Annotation { name: a.name.text.clone(), body: body(a) }).collect()
    }

    /// The name and the annotations of a declaration.
    fn named(&self, d: &ast::Decl, path: &str) -> api::Object {
        api::Object { name: full_name(d, path), annotations: self.annotations(&d.annotations) }
    }
}

/// The control-plane name of a declaration.
pub(crate) fn full_name(d: &ast::Decl, path: &str) -> String {
    let own = ast::annotation_string(&d.annotations, "name").unwrap_or_else(|| d.name.text.clone());
    match own.strip_prefix('.') {
        Some(whole) => whole.to_string(),
        None if path.is_empty() => own,
        None => format!("{path}.{own}"),
    }
}
