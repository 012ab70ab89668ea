//! Declarations, in the order of the source.

use crate::map::Map;
use std::sync::Arc;

use super::typed::{Callee, Decl, Kind};
use super::types::{DeclId, Named, Type};
use super::value::{Value, fits};
use super::{Checker, Place};
use crate::ast::{
    self, DeclKind, Direction, EnumMember, Expr, FieldDecl, FunctionPrototype, Parameter, TypeParam,
};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a, '_> {
    /// Checks all declarations, then the rules about the whole program.
    pub(super) fn program(&mut self) {
        let program = self.typed.program;
        for decl in &program.decls {
            self.declared_later.entry(&decl.name.text).or_insert(decl.name.span);
        }
        // Section 7.1.2: errors are known everywhere, wherever they are declared.
        for decl in &program.decls {
            if let DeclKind::Error { members } = &decl.kind {
                self.extend(members, Type::Error);
            }
        }
        for decl in &program.decls {
            self.declared_later.remove(decl.name.text.as_str());
            self.decl_of(decl);
        }
        self.find_main();
        self.architecture();
        // Duplicate declarations have been reported already.
        if !self.diags.has_errors() {
            self.unique_names();
        }
    }

    fn find_main(&mut self) {
        let main = self.find("main", true).first().copied();
        match main.and_then(|m| self.decl(m).map(|d| (m, d.clone()))) {
            Some((id, d)) if d.kind == Kind::Instance => {
                if !matches!(d.ty, Type::Package(_) | Type::Bad) {
                    let text = format!("`main` must be an instance of a package, not of `{}`", d.ty);
                    self.error("E0407", d.span, text);
                }
                self.typed.main = Some(id);
            }
            Some((_, d)) if d.kind != Kind::Function => {
                self.error("E0407", d.span, "`main` must be an instance of a package");
            }
            _ => {
                let decls = &self.typed.program.decls;
                let block = |d: &&ast::Decl| matches!(d.kind, DeclKind::Control(_) | DeclKind::Parser(_));
                let package = decls.iter().find(|d| matches!(d.kind, DeclKind::Package(_)));
                let Some(last) = decls.iter().rfind(block) else { return };
                let Some(package) = package else { return };
                // The program may be a library. To run it is an error.
                let d = Diagnostic::warning("W0407", last.span.after(), "the program has no `main`");
                let hint =
                    format!("end it with the architecture's package: `{}(…) main;`", package.name.text);
                self.report(d.hint(hint).also(package.name.span, "the package"));
            }
        }
    }

    /// Checks a declaration: at the top, in a parser or control, or in a block.
    pub(super) fn decl_of(&mut self, d: &'a ast::Decl) {
        self.rules(d);
        self.typed.syntax.insert(d.id, d);
        match &d.kind {
            DeclKind::Const { ty, value } => self.constant(d, ty, value),
            DeclKind::Variable { ty, init } => self.variable(d, ty, init.as_ref()),
            DeclKind::Instance { ty, args, body } => self.instance(d, ty, args, body.as_deref()),
            DeclKind::ExternFunction(p) => {
                self.push_scope();
                let made = self.callable(&d.name, Kind::ExternFunction, p);
                self.pop_scope();
                self.declare(d.id, &d.name, made);
            }
            DeclKind::Extern { type_params, methods } => self.extern_decl(d, type_params, methods),
            DeclKind::Function { prototype, body } => self.function(d, prototype, body),
            DeclKind::Action { params, body } => self.action(d, params, body),
            DeclKind::ParserType(head) => self.block_type(d, Kind::ParserType, head),
            DeclKind::ControlType(head) => self.block_type(d, Kind::ControlType, head),
            DeclKind::Package(head) => self.block_type(d, Kind::Package, head),
            DeclKind::Parser(p) => {
                self.block_body(d, Kind::Parser, &p.head, Place::ParserLocals, |c| c.states(d, p));
            }
            DeclKind::Control(control) => {
                self.block_body(d, Kind::Control, &control.head, Place::ControlLocals, |c| {
                    c.body(d.id, Place::ControlApply, Type::Void, &control.apply);
                });
            }
            DeclKind::Struct { type_params, fields } => self.fields(d, Kind::Struct, type_params, fields),
            DeclKind::Header { type_params, fields } => self.fields(d, Kind::Header, type_params, fields),
            DeclKind::HeaderUnion { type_params, fields } => self.fields(d, Kind::Union, type_params, fields),
            DeclKind::Enum { ty, members } => self.enumeration(d, ty.as_ref(), members),
            // Errors were declared before everything else.
            DeclKind::Error { .. } => {}
            DeclKind::MatchKind { members } => self.extend(members, Type::MatchKind),
            DeclKind::Typedef(ty) => {
                let ty = self.ty(ty);
                self.declare(d.id, &d.name, Decl::new(&d.name, Kind::Typedef, ty));
            }
            DeclKind::NewType(ty) => self.new_type(d, ty),
            DeclKind::Table(t) => self.table(d, t),
            DeclKind::ValueSet { ty, size } => {
                let item = self.ty(ty);
                self.expr(size);
                self.need_known(size, "the size of a value set");
                let ty = Type::Set(Arc::new(item));
                self.declare(d.id, &d.name, Decl::new(&d.name, Kind::ValueSet, ty));
            }
        }
    }

    fn new_type(&mut self, d: &'a ast::Decl, ty: &'a ast::Type) {
        let under = self.ty(ty);
        if !matches!(under, Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::New(..) | Type::Bad) {
            let text = format!("`type` makes a new type of bit<W>, int<W> or bool, not of `{under}`");
            let d =
                Diagnostic::error("E0308", ty.span, text).hint("use `typedef` for another name of a type");
            self.report(d);
        }
        let made = Type::New(Named::plain(d.id, &d.name.text), Arc::new(under));
        self.declare(d.id, &d.name, Decl::new(&d.name, Kind::NewType, made));
    }

    fn constant(&mut self, d: &'a ast::Decl, ty: &'a ast::Type, value: &'a Expr) {
        let want = self.ty(ty);
        if want.is_block() || matches!(want, Type::Extern(_) | Type::Void) {
            let e = Diagnostic::error("E0308", ty.span, format!("a constant cannot have the type `{want}`"));
            self.report(e.hint("objects are made without `const`: `T(…) name;`"));
        }
        let found = self.expr_to(value, &want);
        if !found.is_bad() && !self.is_known(value) {
            let text = "the value of a constant must be known at compile time";
            let e = Diagnostic::error("E0306", value.span, text);
            self.report(e.hint("for a value that changes, declare a variable without `const`"));
        }
        let made = Decl {
            value: self.known_value(value),
            default: Some(value),
            ..Decl::new(&d.name, Kind::Const, want)
        };
        self.declare(d.id, &d.name, made);
    }

    fn variable(&mut self, d: &'a ast::Decl, ty: &'a ast::Type, init: Option<&'a Expr>) {
        let want = self.ty(ty);
        if self.place == Place::Top {
            let e =
                Diagnostic::error("E0405", d.span, "a variable cannot be declared at the top of a program");
            self.report(e.hint("declare it in a parser, control or function, or make it a `const`"));
        }
        let ok = self.storable(&want, ty.span, "a variable");
        if let Some(init) = init {
            self.expr_to(init, &want);
        }
        let ty = if ok { want } else { Type::Bad };
        self.declare(d.id, &d.name, Decl::new(&d.name, Kind::Variable, ty));
    }

    fn instance(
        &mut self,
        d: &'a ast::Decl,
        ty: &'a ast::Type,
        args: &'a [ast::Argument],
        body: Option<&'a [ast::Decl]>,
    ) {
        let want = self.ty_open(ty);
        let made = match self.construct(&want, args, d.span) {
            Some(call) => {
                let Callee::Constructor(made, _) = &call.callee else { return };
                let made = made.clone();
                self.typed.instances.insert(d.id, call);
                made
            }
            None => Type::Bad,
        };
        if self.place == Place::Top && matches!(made, Type::Parser(_) | Type::Control(_)) {
            let text = format!("`{made}` cannot be instantiated at the top of a program");
            let e = Diagnostic::error("E0405", d.span, text);
            self.report(e.hint(
                "write `T(…)` as an argument of the package, or declare the instance in a parser or control",
            ));
        }
        let open = |t: &Type| t.any(&mut |t| matches!(t, Type::Infer(_)));
        // Arguments that a package leaves out also leave its type arguments unknown.
        let whole = match self.typed.instance(d.id) {
            Some(call) if matches!(made, Type::Package(_)) => {
                let given = call.args.iter().filter(|(_, a)| !matches!(a, super::typed::Arg::Omitted));
                let subst = self.typed.subst_of(&made);
                let types = given.filter_map(|(p, _)| self.decl(*p)).map(|p| p.ty.subst(&subst));
                types.collect::<Vec<_>>().iter().any(open)
            }
            _ => open(&made),
        };
        if whole {
            let text = format!("the type arguments of `{}` cannot be inferred", self.map.text(ty.span));
            let e = Diagnostic::error("E0310", ty.span, text);
            self.report(e.hint("write them: `<bit<32>>`, for example"));
        }
        self.declare(d.id, &d.name, Decl::new(&d.name, Kind::Instance, made.clone()));
        self.abstract_methods(d, &made, body);
    }

    /// The methods that an instance defines for its extern (section 10.3.1).
    fn abstract_methods(&mut self, d: &'a ast::Decl, ty: &Type, body: Option<&'a [ast::Decl]>) {
        let members = ty.named().map_or(Vec::new(), |n| self.members(n.decl));
        let wanted = members.iter().filter_map(|m| self.decl(*m)).filter(|m| m.optional);
        let wanted: Vec<Arc<str>> = wanted.map(|m| m.name.clone()).collect();
        let outer = (self.this.replace(ty.clone()), self.place, self.owner);
        self.push_scope();
        for part in body.into_iter().flatten() {
            self.decl_of(part);
            let function = matches!(part.kind, DeclKind::Function { .. });
            if function {
                self.like_abstract_method(part, &members, ty);
            }
            let spare = members.iter().any(|m| {
                self.optional_methods.contains(m) && self.decl(*m).is_some_and(|x| *x.name == *part.name.text)
            });
            if function && !spare && !ty.is_bad() && !wanted.iter().any(|w| **w == *part.name.text) {
                let text = format!("`{ty}` has no abstract method `{}`", part.name.text);
                self.error("E0406", part.name.span, text);
            }
        }
        self.pop_scope();
        (self.this, self.place, self.owner) = outer;
        let given = |w: &str| body.into_iter().flatten().any(|p| p.name.text == w);
        if let Some(missing) = wanted.iter().find(|w| !given(w)) {
            let text = format!("`{ty}` has the abstract method `{missing}`, which this instance must define");
            let e = Diagnostic::error("E0406", d.span, text);
            let whole = e.clone().hint("write `= { … }` behind the instance's name");
            self.report(if body.is_some() { e } else { whole });
        }
    }

    /// Checks that a method which an instance defines has the parameters and the result of the abstract method.
    fn like_abstract_method(&mut self, part: &'a ast::Decl, members: &[DeclId], ty: &Type) {
        let subst = self.typed.subst_of(ty);
        // The definition may leave optional parameters out.
        let shape = |c: &Self, d: &Decl<'a>| -> Vec<(ast::Direction, Type, bool)> {
            let params = d.params.iter().filter_map(|p| c.decl(*p));
            params.map(|p| (p.direction, p.ty.subst(&subst), p.optional)).collect()
        };
        let Some(mine) = self.decl(part.id).cloned() else { return };
        let has = shape(self, &mine);
        let same = |c: &mut Self, m: &Decl<'a>| {
            let wants = shape(c, m);
            wants.iter().skip(has.len()).all(|w| w.2)
                && wants.len() >= has.len()
                && c.unknowns.unify(&mine.ty, &m.ty.subst(&subst))
                && has.iter().zip(&wants).all(|(a, b)| a.0 == b.0 && c.unknowns.unify(&a.1, &b.1))
        };
        let named: Vec<DeclId> =
            members.iter().copied().filter(|m| self.decl(*m).is_some_and(|d| d.name == mine.name)).collect();
        let fits = named.iter().any(|m| self.decl(*m).cloned().is_some_and(|m| same(self, &m)));
        if let Some(first) = named.first().filter(|_| !fits) {
            let text = format!("`{}` differs from the abstract method of `{ty}`", mine.name);
            let d = Diagnostic::error("E0406", part.name.span, text);
            let at = self.decl(*first).map_or(part.name.span, |d| d.span);
            let d = d.also(at, "declared here").hint(format!("declared as `{}`", self.signature(*first)));
            self.report(d);
        }
    }

    fn type_params(&mut self, params: &'a [TypeParam]) -> (Vec<DeclId>, Arc<[Type]>) {
        let mut types = Vec::new();
        for p in params {
            let ty = Type::Param(Named::plain(p.id, &p.name.text));
            types.push(ty.clone());
            self.declare(p.id, &p.name, Decl::new(&p.name, Kind::TypeParam, ty));
        }
        (params.iter().map(|p| p.id).collect(), types.into())
    }

    fn parameters(&mut self, params: &'a [Parameter], kind: Kind, holder: Kind) -> Vec<DeclId> {
        for p in params {
            self.annotations(&p.annotations);
            let ty = self.ty(&p.ty);
            self.parameter_type(p, &ty, kind, holder);
            let optional = ast::annotation(&p.annotations, "optional").is_some();
            if let Some(default) = &p.default {
                match ty {
                    // A block is compared with the parameter's type when the package is instantiated.
                    _ if ty.is_block() => self.expr(default),
                    _ => self.expr_to(default, &ty),
                };
                if p.direction == Direction::Out {
                    self.error("E0315", default.span, "an `out` parameter cannot have a default value");
                }
            }
            let built = matches!(holder, Kind::Parser | Kind::Control) && kind == Kind::CtorParam;
            if optional && (built || matches!(holder, Kind::Function | Kind::Action)) {
                let text = "only parameters of externs, packages, parsers and controls can be @optional";
                self.error("E0315", p.span, text);
            }
            let mut made = Decl::new(&p.name, kind, ty);
            (made.direction, made.optional, made.default) = (p.direction, optional, p.default.as_ref());
            self.declare(p.id, &p.name, made);
        }
        params.iter().map(|p| p.id).collect()
    }

    fn parameter_type(&mut self, p: &'a Parameter, ty: &Type, kind: Kind, holder: Kind) {
        let directed = p.direction != Direction::None;
        let name = &p.name.text;
        let text = match ty {
            Type::Void | Type::MatchKind => format!("a parameter cannot have the type `{ty}`"),
            Type::Extern(_) | Type::Int | Type::String if directed => {
                format!("parameter `{name}` of type `{ty}` cannot have a direction")
            }
            Type::Int if holder == Kind::Action => {
                format!("parameter `{name}` of an action cannot have the type `int`")
            }
            Type::Extern(_) if matches!(holder, Kind::Action | Kind::Function) => {
                format!("parameter `{name}` cannot have the extern type `{ty}`")
            }
            Type::Package(_) if holder != Kind::Package => format!("parameter `{name}` cannot be a package"),
            Type::Parser(_) | Type::Control(_) if kind == Kind::Param && holder != Kind::Package => {
                format!("parameter `{name}` cannot have the type `{ty}`")
            }
            Type::Control(_) if holder == Kind::Parser || holder == Kind::Extern => {
                format!("parameter `{name}` cannot be a control")
            }
            Type::Parser(_) if holder == Kind::Control || holder == Kind::Extern => {
                format!("parameter `{name}` cannot be a parser")
            }

            Type::Parser(n) | Type::Control(n)
                if kind == Kind::CtorParam
                    && self.decl(n.decl).is_some_and(|d| matches!(d.kind, Kind::Parser | Kind::Control)) =>
            {
                format!("parameter `{name}` needs a type of parsers or controls; `{ty}` is one with a body")
            }
            _ if directed && kind == Kind::CtorParam => {
                format!("parameter `{name}` of a constructor cannot have a direction")
            }
            _ => return,
        };
        self.error("E0315", p.span, text);
    }

    /// The declaration of a function or method. The caller has opened its scope.
    fn callable(&mut self, name: &ast::Name, kind: Kind, p: &'a FunctionPrototype) -> Decl<'a> {
        let (type_params, _) = self.type_params(&p.type_params);
        let ret = self.ty(&p.ret);
        let object = matches!(ret, Type::Extern(_)) && kind != Kind::ExternFunction;
        if object || ret.is_block() || matches!(ret, Type::Int | Type::MatchKind) {
            self.error("E0308", p.ret.span, format!("`{ret}` cannot be returned"));
        }
        let params = match kind {
            Kind::Constructor => self.parameters(&p.params, Kind::CtorParam, Kind::Extern),
            _ => self.parameters(&p.params, Kind::Param, kind),
        };
        Decl { type_params, params, ..Decl::new(name, kind, ret) }
    }

    fn extern_decl(&mut self, d: &'a ast::Decl, params: &'a [TypeParam], methods: &'a [ast::ExternMethod]) {
        self.push_scope();
        let (ids, args) = self.type_params(params);
        let ty = Type::Extern(Named { args, ..Named::plain(d.id, &d.name.text) });
        let made = Decl { type_params: ids, ..Decl::new(&d.name, Kind::Extern, ty) };
        // Declared before its methods, because they may mention it.
        self.declare_outside(d, made.clone());
        let mut members = Vec::new();
        for m in methods {
            self.push_scope();
            let kind = if m.is_constructor { Kind::Constructor } else { Kind::Method };
            let method = self.callable(&m.name, kind, &m.prototype);
            self.pop_scope();
            self.overload_is_new(&members, &method);
            // A method with `@optional` need not be defined.
            let needed = m.is_abstract && ast::annotation(&m.annotations, "optional").is_none();
            if m.is_abstract && !needed {
                self.optional_methods.push(m.id);
            }
            self.record(m.id, Decl { parent: Some(d.id), optional: needed, ..method });
            members.push(m.id);
        }
        self.pop_scope();
        self.record(d.id, Decl { members, ..made });
    }

    /// Declares a name in the scope around the current one.
    fn declare_outside(&mut self, d: &'a ast::Decl, made: Decl<'a>) {
        let inner = self.scopes.pop().unwrap_or_default();
        self.declare(d.id, &d.name, made);
        self.scopes.push(inner);
    }

    /// Reports a method with the name and the parameters of another method.
    fn overload_is_new(&mut self, members: &[DeclId], method: &Decl<'a>) {
        let names = |c: &Self, d: &Decl<'a>| -> Vec<Arc<str>> {
            d.params.iter().filter_map(|p| Some(c.decl(*p)?.name.clone())).collect()
        };
        let mine = names(self, method);
        let same = members
            .iter()
            .filter_map(|m| self.decl(*m))
            .find(|m| m.name == method.name && names(self, m) == mine);
        if let Some(first) = same.map(|m| m.span) {
            let text = format!("method `{}` is declared twice with the same parameters", method.name);
            self.declared_twice(method.span, first, text);
        }
    }

    fn function(&mut self, d: &'a ast::Decl, p: &'a FunctionPrototype, body: &'a ast::BlockStmt) {
        self.push_scope();
        let made = self.callable(&d.name, Kind::Function, p);
        let ret = made.ty.clone();
        self.declare_outside(d, made);
        self.body(d.id, Place::Function, ret.clone(), body);
        self.pop_scope();
        if ret != Type::Void && !ret.is_bad() && !super::stmt::returns(&body.stmts) {
            let text = format!("not every path through `{}` returns a value", d.name.text);
            let d = Diagnostic::error("E0316", d.name.span, text)
                .hint(format!("it must return `{ret}`: add a `return` at the end"));
            self.report(d);
        }
    }

    fn body(&mut self, id: DeclId, place: Place, ret: Type, body: &'a ast::BlockStmt) {
        let outer = (self.place, self.owner, self.ret.take(), self.loops);
        (self.place, self.owner, self.ret, self.loops) = (place, Some(id), Some(ret), 0);
        self.block(body);
        (self.place, self.owner, self.ret, self.loops) = outer;
    }

    fn action(&mut self, d: &'a ast::Decl, params: &'a [Parameter], body: &'a ast::BlockStmt) {
        self.push_scope();
        let ids = self.parameters(params, Kind::Param, Kind::Action);
        let mut free = false;
        for p in params {
            if free && p.direction != Direction::None {
                let name = &p.name.text;
                let text =
                    format!("`{name}` has a direction, so it must stand before the parameters without one");
                self.error("E0315", p.span, text);
            }
            free |= p.direction == Direction::None;
        }
        self.declare_outside(d, Decl { params: ids, ..Decl::new(&d.name, Kind::Action, Type::Void) });
        self.body(d.id, Place::Action, Type::Void, body);
        self.pop_scope();
    }

    /// The declaration of a parser, a control, a package, or a type of these. The caller has opened its scope.
    fn head(&mut self, d: &'a ast::Decl, kind: Kind, head: &'a ast::Head) -> Decl<'a> {
        let (type_params, args) = self.type_params(&head.type_params);
        let named = Named { args, ..Named::plain(d.id, &d.name.text) };
        let (ty, param_kind) = match kind {
            Kind::ParserType | Kind::Parser => (Type::Parser(named), Kind::Param),
            Kind::Package => (Type::Package(named), Kind::CtorParam),
            _ => (Type::Control(named), Kind::Param),
        };
        let ctor_params = self.parameters(&head.ctor_params, Kind::CtorParam, kind);
        let params = self.parameters(&head.params, param_kind, kind);
        Decl { type_params, params, ctor_params, ..Decl::new(&d.name, kind, ty) }
    }

    fn block_type(&mut self, d: &'a ast::Decl, kind: Kind, head: &'a ast::Head) {
        self.push_scope();
        let made = self.head(d, kind, head);
        self.pop_scope();
        self.declare(d.id, &d.name, made);
    }

    /// Checks the local declarations of a parser or control, then `rest`. Its own name is visible in its body, so that
    /// a recursive application is reported as one.
    fn block_body(
        &mut self,
        d: &'a ast::Decl,
        kind: Kind,
        head: &'a ast::Head,
        place: Place,
        rest: impl FnOnce(&mut Self),
    ) {
        self.push_scope();
        let made = self.head(d, kind, head);
        let locals = d.locals();
        self.declare_outside(d, made.clone());
        let outer = (self.place, self.owner);
        (self.place, self.owner) = (place, Some(d.id));
        let later = self.declared_later.clone();
        self.declared_later.extend(locals.iter().map(|l| (l.name.text.as_str(), l.name.span)));
        self.push_scope();
        for local in locals {
            self.declared_later.remove(local.name.text.as_str());
            self.decl_of(local);
        }
        let members = locals.iter().map(|l| l.id).collect();
        self.record(d.id, Decl { members, ..made });
        rest(self);
        self.pop_scope();
        self.pop_scope();
        self.declared_later = later;
        (self.place, self.owner) = outer;
    }

    fn fields(&mut self, d: &'a ast::Decl, kind: Kind, params: &'a [TypeParam], fields: &'a [FieldDecl]) {
        self.push_scope();
        let (ids, args) = self.type_params(params);
        let named = Named { args, ..Named::plain(d.id, &d.name.text) };
        let mut seen: Map<&str, Span> = Map::default();
        for f in fields {
            let ty = self.ty(&f.ty);
            self.typed.fields.insert(f.id, f);
            self.field_allowed(kind, &ty, f.ty.span);
            if let Some(first) = seen.insert(&f.name.text, f.name.span) {
                self.declared_twice(f.name.span, first, format!("field `{}` is declared twice", f.name.text));
            }
            self.record(f.id, Decl { parent: Some(d.id), ..Decl::new(&f.name, Kind::Field, ty) });
        }
        self.pop_scope();
        let ty = match kind {
            Kind::Struct => Type::Struct(named),
            Kind::Header => Type::Header(named),
            _ => Type::Union(named),
        };
        let members = fields.iter().map(|f| f.id).collect();
        let made = Decl { type_params: ids, members, ..Decl::new(&d.name, kind, ty.clone()) };
        self.declare(d.id, &d.name, made.clone());
        let ty = self.count_parts(d.id, &ty, d.name.span);
        self.record(d.id, Decl { ty, ..made });
    }

    fn enumeration(&mut self, d: &'a ast::Decl, under: Option<&'a ast::Type>, members: &'a [EnumMember]) {
        let named = Named::plain(d.id, &d.name.text);
        let under = under.map(|t| (self.ty(t), t.span));
        if let Some((t, span)) = under.as_ref().filter(|(t, _)| !t.is_fixed() && !t.is_bad()) {
            self.error("E0308", *span, format!("an enum is represented by bit<W> or int<W>, not by `{t}`"));
        }
        let (kind, ty) = match &under {
            Some((t, _)) => (Kind::SerEnum, Type::SerEnum(named, Arc::new(t.clone()))),
            None => (Kind::Enum, Type::Enum(named)),
        };
        let mut seen: Map<&str, Span> = Map::default();
        let ids: Vec<DeclId> = members.iter().map(|m| m.id).collect();
        self.declare(d.id, &d.name, Decl { members: ids, ..Decl::new(&d.name, kind, ty.clone()) });
        self.push_scope();
        for m in members {
            let mut made = Decl { parent: Some(d.id), ..Decl::new(&m.name, Kind::Member, ty.clone()) };
            if let (Some(value), Some((t, _))) = (&m.value, &under) {
                made.value = self.member_value(value, t);
            }
            if let Some(first) = seen.insert(&m.name.text, m.name.span) {
                self.declared_twice(m.name.span, first, format!("`{}` is declared twice", m.name.text));
            }
            // The values of later members may use this member.
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(&m.name.text, vec![m.id]);
            }
            self.record(m.id, made);
        }
        self.pop_scope();
    }

    fn member_value(&mut self, value: &'a Expr, under: &Type) -> Option<Value> {
        let own = self.expr(value);
        if let (Type::Int, Some(Value::Int(v))) = (&own, self.typed.own_value(value.id))
            && !fits(v, under)
        {
            let text = format!("{v} does not fit in `{under}`, the representation of this enum");
            self.error("E0305", value.span, text);
            return None;
        }
        self.coerce(value, &own, under);
        self.need_known(value, "the value of an enum's member");
        self.known_value(value)
    }

    /// Adds members to the namespace of `error` or `match_kind`.
    fn extend(&mut self, members: &'a [EnumMember], ty: Type) {
        for m in members {
            let all = if ty == Type::Error { &self.typed.errors } else { &self.typed.match_kinds };
            let first =
                all.iter().filter_map(|i| self.decl(*i)).find(|d| *d.name == *m.name.text).map(|d| d.span);
            if let Some(first) = first {
                self.declared_twice(m.name.span, first, format!("`{}` is declared twice", m.name.text));
                continue;
            }
            self.record(m.id, Decl::new(&m.name, Kind::Member, ty.clone()));
            let all = if ty == Type::Error { &mut self.typed.errors } else { &mut self.typed.match_kinds };
            all.push(m.id);
        }
    }
}
