//! Instances of parsers and controls. The storage of their parameters and variables, and their tables and actions, are
//! created at the first application. Each application copies the arguments in, initialises the variables, runs the body
//! and copies out.

use std::cell::RefCell;
use std::rc::Rc;

use super::lvalue::CopyOut;
use super::object::Object;
use super::value::constant;
use super::{Lower, MAX_INSTANCES, Res, Scope};
use crate::ast::{self, DeclKind};
use crate::check::{Arg, Args, Callee, DeclId, Kind, Type};
use crate::source::Span;

/// An instance of a parser or control.
pub struct Block<'a> {
    pub decl: &'a ast::Decl,
    /// The full control-plane name.
    pub path: String,
    /// Numbers start at 1.
    pub number: u32,
    /// What its declarations stand for: at first constructor and type parameters, after the first application also all
    /// others.
    scope: RefCell<Scope<'a>>,
    /// Whether the storage of its variables, its tables and its actions were created.
    locals_made: RefCell<bool>,
}

/// Two instances are equal if they have the same number.
impl PartialEq for Block<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<'a> Lower<'_, 'a> {
    // ---- instantiation ----

    /// The instance that a constructor call creates.
    pub(super) fn make_block(
        &mut self,
        ty: &Type,
        args: &Args<'a>,
        path: String,
        span: Span,
    ) -> Res<Rc<Block<'a>>> {
        if self.exhausted || self.instances >= MAX_INSTANCES {
            let what = format!("the program has more than {MAX_INSTANCES} instances of parsers and controls");
            return self.too_large(span, &what);
        }
        let ty = ty.subst(&self.scope.types);
        let Some(decl) = ty.named().and_then(|n| self.typed.syntax(n.decl)) else {
            return self.bug(span, "an instance of nothing");
        };
        let mut scope = Scope { types: self.typed.subst_of(&ty), ..Scope::default() };
        for (param, arg) in args {
            let Some(e) = arg.expr() else { continue };
            match self.typed.decl(*param).map(|p| &p.ty) {
                Some(Type::Parser(_) | Type::Control(_)) => {
                    let block = self.block_of(e)?;
                    scope.objects.insert(*param, Object::Block(block));
                }
                Some(Type::Extern(_)) => {
                    let object = self.object_of(e)?;
                    scope.objects.insert(*param, object);
                }
                _ => match self.known(e) {
                    Some(value) => drop(scope.values.insert(*param, value)),
                    None => return self.bug(e.span, "a constructor's argument that is not known"),
                },
            }
        }
        self.instances += 1;
        let number = self.instances;
        Ok(Rc::new(Block {
            decl,
            path,
            number,
            scope: RefCell::new(scope),
            locals_made: RefCell::new(false),
        }))
    }

    /// The instance of a constructor call (`MyParser()`), or the one that a name refers to.
    pub(super) fn block_of(&mut self, e: &'a ast::Expr) -> Res<Rc<Block<'a>>> {
        if let Some(call) = self.typed.call(e.id)
            && let Callee::Constructor(ty, _) = &call.callee
        {
            // P4Info names the blocks of `main` by their types, whatever `@name` says.
            let name = ty.named().map_or(String::new(), |n| n.name.to_string());
            return self.make_block(ty, &call.args, name, e.span);
        }
        match self.resolved(e).and_then(|id| self.block_of_decl(id)) {
            Some(block) => Ok(block),
            None => self.bug(e.span, "this is no parser or control"),
        }
    }

    pub(super) fn block_of_decl(&self, id: DeclId) -> Option<Rc<Block<'a>>> {
        match self.scope.objects.get(&id) {
            Some(Object::Block(block)) => Some(block.clone()),
            _ => None,
        }
    }

    /// The instantiation `T(args) name;`.
    pub(super) fn instance(&mut self, decl: &'a ast::Decl, path: &str) -> Res<()> {
        let Some(call) = self.typed.instance(decl.id) else {
            return self.bug(decl.span, "an instance of nothing");
        };
        let name = self.full_name(decl, path);
        let object = match &call.callee {
            Callee::Constructor(ty @ (Type::Parser(_) | Type::Control(_)), _) => {
                Object::Block(self.make_block(ty, &call.args, name, decl.span)?)
            }
            Callee::Constructor(Type::Package(_), _) => return Ok(()),
            Callee::Constructor(ty, _) => {
                if matches!(&decl.kind, DeclKind::Instance { body: Some(_), .. }) {
                    return self.limit("E0518", decl.span, "this instance has methods of its own");
                }
                let ty = ty.subst(&self.scope.types);
                self.extern_object(name, &ty, &call.args, decl.span)?
            }
            _ => return self.bug(decl.span, "an instance of nothing"),
        };
        self.scope.objects.insert(decl.id, object);
        Ok(())
    }

    // ---- application ----

    /// Adds what the declarations of an instance stand for to the scope.
    pub(super) fn enter(&mut self, block: &Block<'a>) {
        self.scope.extend(&block.scope.borrow());
    }

    /// Saves what the declarations of an instance stand for, for its next application.
    fn keep(&self, block: &Block<'a>) {
        let mut scope = block.scope.borrow_mut();
        let known = self.typed.decl(block.decl.id).into_iter();
        for id in known.flat_map(|d| d.members.iter().chain(&d.params)) {
            scope.stores.extend(self.scope.stores.get(id).map(|s| (*id, s.clone())));
            scope.objects.extend(self.scope.objects.get(id).map(|o| (*id, o.clone())));
        }
        *block.locals_made.borrow_mut() = true;
    }

    /// Lowers the local declarations of a parser or control. Variables get storage but no values.
    pub(super) fn make_locals(&mut self, locals: &'a [ast::Decl]) -> Res<()> {
        let mut failed = false;
        for decl in locals {
            self.loc = self.at(decl.span);
            let path = self.path.clone();
            failed |= match &decl.kind {
                DeclKind::Variable { .. } => self.variable(decl),
                DeclKind::Instance { .. } => self.instance(decl, &path),
                DeclKind::Table(table) => self.table(decl, table),
                DeclKind::ValueSet { ty, size } => self.value_set(decl, ty.span, size),
                _ => Ok(()),
            }
            .is_err();
        }
        if failed { Err(super::Failed) } else { Ok(()) }
    }

    /// Initialises the local variables, and the checksums: they are cleared whenever the parser or control is applied.
    pub(super) fn initialise_locals(&mut self, locals: &'a [ast::Decl]) -> Res<()> {
        locals.iter().try_for_each(|decl| match &decl.kind {
            DeclKind::Variable { init, .. } => self.initialise(decl, init.as_ref()),
            DeclKind::Instance { .. } => {
                self.clear_checksum(decl);
                Ok(())
            }
            _ => Ok(()),
        })
    }

    /// Clears the state of a checksum, if the declaration makes one.
    fn clear_checksum(&mut self, decl: &ast::Decl) {
        if let Some(Object::InternetChecksum(var) | Object::Checksum(var, ..)) =
            self.scope.objects.get(&decl.id)
        {
            let (dst, ty) = (ir::Place::Var(*var), self.out.vars[var.index()].ty);
            self.loc = self.at(decl.span);
            self.push(ir::StmtKind::Assign { dst, src: constant(abi::Bits::zero(ty.width()), ty) });
        }
    }

    /// `T.apply(args)`: creates an instance and applies it.
    pub(super) fn direct_apply(&mut self, id: ast::ExprId, span: Span) -> Res<()> {
        let (Some(call), ty) = (self.typed.call(id), self.typed.own_ty(id).clone()) else {
            return self.bug(span, "an application of nothing");
        };
        let Some(decl) = ty.named().and_then(|n| self.typed.syntax(n.decl)) else {
            return self.bug(span, "an application of nothing");
        };
        let path = self.full_name(decl, &self.path.clone());
        let params = self.typed.decl(decl.id).map(|d| d.ctor_params.clone()).unwrap_or_default();
        let defaults =
            params.into_iter().filter_map(|p| Some((p, Arg::Default(self.typed.decl(p)?.default?))));
        let defaults: Vec<_> = defaults.collect();
        let block = self.make_block(&ty, &defaults, path, span)?;
        self.apply_block(&block, &call.args, span)
    }

    /// `sub.apply(args)`.
    pub(super) fn apply_block(&mut self, block: &Rc<Block<'a>>, args: &Args<'a>, span: Span) -> Res<()> {
        // The parameters' names may be those of a `control` or `parser` type. They stand in the same order as the
        // declaration's.
        let params = self.typed.decl(block.decl.id).map(|d| d.params.clone()).unwrap_or_default();
        let given = |i: usize| args.get(i).map_or(Arg::Omitted, |(_, arg)| *arg);
        let args: Vec<_> = params.into_iter().enumerate().map(|(i, p)| (p, given(i))).collect();
        let copies = self.block_arguments(block, &args, span)?;
        let saved = (
            std::mem::replace(&mut self.path, block.path.clone()),
            std::mem::replace(&mut self.drop_name, block.path.clone()),
            std::mem::replace(&mut self.instance, block.number),
            self.loc,
        );
        let result = self.run_block(block, copies, span);
        (self.path, self.drop_name, self.instance, self.loc) = saved;
        result
    }

    fn run_block(&mut self, block: &Rc<Block<'a>>, copies: Vec<CopyOut>, span: Span) -> Res<()> {
        let locals = block.decl.locals();
        if !*block.locals_made.borrow() {
            // An `exit` in an action leaves the action only, not the calls that are being inlined here.
            let outer = std::mem::take(&mut self.copies);
            let made = self.make_locals(locals);
            self.copies = outer;
            made?;
            self.keep(block);
        }
        match &block.decl.kind {
            DeclKind::Control(control) => {
                self.copies.push(copies);
                let done = self.initialise_locals(locals).and_then(|()| self.body(&control.apply, None));
                let copies = self.copies.pop().unwrap_or_default();
                done?;
                self.copy_out(&copies, span)
            }
            DeclKind::Parser(parser) => self.sub_parser(block, parser, copies, span),
            _ => self.bug(span, "an application of no parser or control"),
        }
    }

    /// Copies the arguments of an application into the instance's parameters.
    fn block_arguments(&mut self, block: &Block<'a>, args: &Args<'a>, span: Span) -> Res<Vec<CopyOut>> {
        let mut inner = block.scope.borrow().clone();
        let mut copies = vec![None; args.len()];
        for (at, id, arg) in super::call::in_text_order(args) {
            let Some(param) = self.typed.decl(id).filter(|p| p.kind == Kind::Param) else { continue };
            let ty = param.ty.subst(&inner.types);
            if let Type::Extern(n) = &ty {
                if let Some(e) = arg.expr().filter(|_| !matches!(&*n.name, "packet_in" | "packet_out")) {
                    let object = self.object_of(e)?;
                    let before = inner.objects.insert(id, object.clone());
                    // Tables and actions of an instance are created once, so an extern parameter must be the same
                    // object at each application.
                    if *block.locals_made.borrow() && before.is_some_and(|before| before != object) {
                        let what = "one instance is applied to several extern objects";
                        return self.limit("E0517", span, what);
                    }
                }
                continue;
            }
            if let (Type::Int | Type::String, Some(e)) = (&ty, arg.expr()) {
                inner.values.extend(self.known(e).map(|v| (id, v)));
                continue;
            }
            let store = match inner.stores.get(&id) {
                Some(store) => store.clone(),
                None => {
                    let store = self.storage(&format!("{}.{}", block.path, param.name), &ty, span)?;
                    inner.stores.insert(id, store.clone());
                    store
                }
            };
            copies[at] = self.copy_in_one(param.direction, arg, &store, span)?;
        }
        self.scope.extend(&inner);
        Ok(copies.into_iter().flatten().collect())
    }
}
