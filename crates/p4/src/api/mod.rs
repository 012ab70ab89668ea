//! What the control plane sees of a checked program: a walk over the instances that `main` is made of.
//!
//! Names follow section 18.3 of the specification: the path of instances, `@name` in the place of the last part, and a leading dot
//! for a whole name. What nobody uses is left out, as p4c leaves it out: tables that are not applied, actions that are neither
//! listed nor called. `types` turns types into what a controller needs to know of them, `values` finds the sizes.

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

/// The architecture that a program is written for, by the package that `main` is an instance of; empty if it is none that is known.
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

/// Where the walk is: the path of instances, and what constructor and type parameters stand for.
#[derive(Clone, Default)]
struct Place<'a> {
    path: String,
    /// The values of constructor parameters, and what those of objects were given.
    values: Map<DeclId, Value>,
    given: Map<DeclId, &'a ast::Expr>,
    types: Subst,
}

struct Walk<'t, 'a> {
    typed: &'t Typed<'a>,
    map: &'t SourceMap,
    api: Api,
    /// Tables that somebody applies.
    applied: HashSet<DeclId>,
    /// Actions that a control calls; what an action calls is a part of it.
    called: HashSet<DeclId>,
    /// Actions in the list of such a table.
    listed: HashSet<DeclId>,
    /// What no packet reaches.
    dead: Vec<Span>,
    /// Digests without a name so far.
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
        // What is declared at the top of a program belongs to nobody.
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

    /// The parsers and controls that a package is made of, through packages inside.
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

    /// The place inside an instance of a parser or control.
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
        self.called_here(c, place);
    }

    fn local_instance(&mut self, d: &'a ast::Decl, place: &Place<'a>) {
        let Some(call) = self.typed.instance(d.id) else { return };
        match &call.callee {
            Callee::Constructor(ty @ (Type::Parser(n) | Type::Control(n)), _) => {
                // A constructor's parameter may stand for a block of the caller's.
                let Some(decl) = self.typed.syntax(n.decl) else { return };
                let inner = self.enter(place, &full_name(d, &place.path), ty, call);
                self.block(decl, &inner);
            }
            _ => self.object(d, place),
        }
    }

    /// `C.apply(…)` on a type: an instance that has the type's name.
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

    /// Actions at the top of the program that a control calls.
    fn called_here(&mut self, c: &'a ControlDecl, place: &Place<'a>) {
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

    /// Annotations as the control plane may read them.
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

    /// A name and its annotations.
    fn named(&self, d: &ast::Decl, path: &str) -> api::Object {
        api::Object { name: full_name(d, path), annotations: self.annotations(&d.annotations) }
    }
}

/// What a declaration is called in the control plane.
pub(crate) fn full_name(d: &ast::Decl, path: &str) -> String {
    let own = ast::annotation_string(&d.annotations, "name").unwrap_or_else(|| d.name.text.clone());
    match own.strip_prefix('.') {
        Some(whole) => whole.to_string(),
        None if path.is_empty() => own,
        None => format!("{path}.{own}"),
    }
}
