//! Calls of functions and actions (P4-16 section 6.8). Each parameter is a variable. Arguments are evaluated and copied
//! in, in the order of the source text. Then the body runs. `out` and `inout` parameters are copied out at every exit,
//! in the order of the parameters.

use ir::{Expr, Place, StmtKind as Ir, Ty};

use super::lvalue::{CopyOut, Lvalue};
use super::storage::Store;
use super::value::{Val, read};
use super::{Exit, Lower, MAX_CALL_DEPTH, MAX_CALLS, Res, Return};
use crate::ast::{self, Direction, ExprKind};
use crate::check::{Arg, Args, Builtin, Callee, DeclId, Kind, Subst, Type, Value};
use crate::source::Span;

/// What a parameter stands for in a call.
pub(super) enum Bound {
    Store(Store),
    /// The value of an `int` or `string` parameter, which has no storage.
    Value(Value),
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn call(&mut self, e: &'a ast::Expr) -> Res<Val> {
        if self.depth >= MAX_CALL_DEPTH {
            return self.limit("E0502", e.span, "these calls nest too deeply");
        }
        let Some(call) = self.typed.call(e.id) else { return self.bug(e.span, "a call of nothing") };
        self.depth += 1;
        let result = match &call.callee {
            Callee::Function(id) => match self.typed.decl(*id).map(|d| d.kind) {
                Some(Kind::ExternFunction) => self.extern_function(*id, e),
                _ => self.inlined(*id, &call.args, &call.type_args, e.span),
            },
            Callee::Method(id, _) => self.method(*id, e),
            Callee::Builtin(builtin) => self.builtin(*builtin, e),
            Callee::Table(id) => self.apply_table(*id, false, false, e.span).map(|_| Val::Void),
            Callee::Block(_, object) => match (*object, object.and_then(|o| self.block_of_decl(o))) {
                (Some(_), Some(block)) => self.apply_block(&block, &call.args, e.span).map(|()| Val::Void),
                (None, _) => self.direct_apply(e.id, e.span).map(|()| Val::Void),
                _ => self.bug(e.span, "an application of no parser or control"),
            },
            Callee::Constructor(..) => self.bug(e.span, "an object as a value"),
        };
        self.depth -= 1;
        result
    }

    // ---- functions and actions ----

    /// Inlines the body of a function, or of an action that is called directly.
    fn inlined(&mut self, id: DeclId, args: &Args<'a>, type_args: &[(DeclId, Type)], span: Span) -> Res<Val> {
        let Some(decl) = self.typed.syntax(id) else { return self.bug(span, "a function without a body") };
        let (body, action) = match &decl.kind {
            ast::DeclKind::Function { body, .. } => (body, false),
            ast::DeclKind::Action { body, .. } => (body, true),
            _ => return self.bug(span, "a function without a body"),
        };
        let types: Subst = type_args.iter().map(|(p, t)| (*p, t.subst(&self.scope.types))).collect();
        self.calls += 1;
        if self.calls > MAX_CALLS {
            let what = format!(
                "the program has more than {MAX_CALLS} calls of functions and actions after inlining"
            );
            return self.too_large(span, &what);
        }
        let copies = self.copy_in(args, &types, span)?;
        let value = match self.decl_ty(id) {
            Type::Void => None,
            ty => Some(self.storage(&format!("{}$result", decl.name.text), &ty, span)?),
        };
        let name = if action { self.action_name(decl) } else { self.drop_name.clone() };
        let saved = (self.loc, std::mem::replace(&mut self.drop_name, name));
        self.copies.push(copies);
        let done = self.body(body, value.clone());
        let copies = self.copies.pop().unwrap_or_default();
        (self.loc, self.drop_name) = saved;
        done?;
        self.copy_out(&copies, span)?;
        Ok(value.map_or(Val::Void, |v| v.value()))
    }

    /// Inlines a body. A `return` leaves its block.
    pub(super) fn body(&mut self, body: &'a ast::BlockStmt, value: Option<Store>) -> Res<()> {
        let label = self.label();
        let loops = std::mem::take(&mut self.loops);
        self.returns.push(Return { label, used: false, value });
        let (block, result) = self.in_block(|l| l.block(body));
        let used = self.returns.pop().is_some_and(|r| r.used);
        self.loops = loops;
        if used {
            self.push(Ir::Block { label, body: block });
        } else if let Some(outer) = self.blocks.last_mut() {
            outer.extend(block);
        }
        result
    }

    /// Evaluates the arguments and copies them into new variables for the parameters. Returns the copies to make at the
    /// end of the call. Parameters are bound after all arguments were evaluated, because an argument may call the same
    /// function.
    pub(super) fn copy_in(&mut self, args: &Args<'a>, types: &Subst, span: Span) -> Res<Vec<CopyOut>> {
        let mut bound: Vec<(DeclId, Bound)> = Vec::new();
        let mut copies = vec![None; args.len()];
        for (at, id, arg) in in_text_order(args) {
            let Some(param) = self.typed.decl(id) else { continue };
            let ty = param.ty.subst(types).subst(&self.scope.types);
            if let (Type::Int | Type::String, Some(e)) = (&ty, arg.expr()) {
                match self.known(e) {
                    Some(value) => bound.push((id, Bound::Value(value))),
                    None => return self.bug(e.span, "an argument that is not known"),
                }
                continue;
            }
            let store = self.storage(&param.name, &ty, span)?;
            copies[at] = self.copy_in_one(param.direction, arg, &store, span)?;
            bound.push((id, Bound::Store(store)));
        }
        self.scope.types.extend(types.iter().map(|(id, t)| (*id, t.clone())));
        for (id, bound) in bound {
            match bound {
                Bound::Store(store) => drop(self.scope.stores.insert(id, store)),
                Bound::Value(value) => drop(self.scope.values.insert(id, value)),
            }
        }
        Ok(copies.into_iter().flatten().collect())
    }

    /// Copies one argument into the storage of its parameter.
    pub(super) fn copy_in_one(
        &mut self,
        direction: Direction,
        arg: Arg<'a>,
        store: &Store,
        span: Span,
    ) -> Res<Option<CopyOut>> {
        let directed = matches!(direction, Direction::Out | Direction::InOut);
        let Some(e) = arg.expr().filter(|e| !(directed && matches!(e.kind, ExprKind::DontCare))) else {
            self.invalidate(store);
            return Ok(None);
        };
        if !directed {
            let val = self.expr(e)?;
            self.assign(store, val, e.span)?;
            return Ok(None);
        }
        let target = self.lvalue(e)?;
        if direction == Direction::Out {
            self.invalidate(store);
        } else {
            if let Lvalue::Store(from) = &target {
                self.note_origins(store, from);
            }
            let val = self.load(&target);
            self.assign(store, val, span)?;
        }
        Ok(Some(CopyOut { target, from: store.clone() }))
    }

    /// Records which variables the variables of an `inout` parameter are copied from and back to.
    fn note_origins(&mut self, copy: &Store, of: &Store) {
        match (copy, of) {
            (Store::Scalar(Place::Var(copy), _), Store::Scalar(Place::Var(of), _)) => {
                self.origins.insert(*copy, *of);
            }
            (Store::Struct(copy), Store::Struct(of)) => {
                copy.iter().zip(of.iter()).for_each(|(copy, of)| self.note_origins(copy, of));
            }
            _ => {}
        }
    }

    /// The variable that an `inout` parameter's variable is copied from and back to, through all calls.
    pub(super) fn origin(&self, var: ir::VarId) -> ir::VarId {
        let mut var = var;
        while let Some(of) = self.origins.get(&var) {
            var = *of;
        }
        var
    }

    /// Performs the copies out of one call, in the order of the parameters.
    pub(super) fn copy_out(&mut self, copies: &[CopyOut], span: Span) -> Res<()> {
        copies.iter().try_for_each(|copy| self.store(&copy.target, copy.from.value(), span))
    }

    /// Performs the copies out of all calls that are being inlined. The innermost call is the first.
    pub(super) fn copy_all_out(&mut self, span: Span) -> Res<()> {
        let frames = self.copies.clone();
        frames.iter().rev().try_for_each(|copies| self.copy_out(copies, span))
    }

    /// The `exit` statement (section 12.5).
    pub(super) fn exit(&mut self, span: Span) -> Res<()> {
        self.copy_all_out(span)?;
        match self.exit {
            Exit::Break(label) => self.push(Ir::Break(label)),
            Exit::Flag(label) => {
                let dst = Place::Var(self.exit_flag());
                self.push(Ir::Assign { dst, src: Expr::bool(true) });
                self.push(Ir::Break(label));
            }
            Exit::Forbidden => return self.bug(span, "`exit` in a parser"),
        }
        Ok(())
    }

    /// The variable that is set when an action of a table executes `exit`.
    pub(super) fn exit_flag(&mut self) -> ir::VarId {
        match self.exit_flag {
            Some(flag) => flag,
            None => {
                let flag = self.var("$exit", Ty::Bool, ir::VarKind::Local);
                self.exit_flag = Some(flag);
                flag
            }
        }
    }

    // ---- built-in methods ----

    fn builtin(&mut self, builtin: Builtin, e: &'a ast::Expr) -> Res<Val> {
        let (callee, args) = e.called();
        let ExprKind::Member { base, .. } = &callee.kind else {
            return self.bug(e.span, "a method of nothing");
        };
        let store = match self.expr(base)? {
            Val::Store(store) => store,
            Val::Invalid if builtin == Builtin::IsValid => return Ok(Val::Scalar(Expr::bool(false))),
            Val::Parts(_) if builtin == Builtin::IsValid => return Ok(Val::Scalar(Expr::bool(true))),
            _ => return self.bug(e.span, "a method of what lives nowhere"),
        };
        match (builtin, &store) {
            (Builtin::IsValid, _) => match self.store_is_valid(&store) {
                Some(valid) => return Ok(Val::Scalar(valid)),
                None => return self.bug(e.span, "validity of what has none"),
            },
            (Builtin::SetValid, Store::Header(h, _)) => {
                self.push(Ir::SetValid(h.clone()));
                self.invalidate_others(h, false);
            }
            (Builtin::SetInvalid, Store::Header(h, _)) => self.push(Ir::SetInvalid(h.clone())),
            (Builtin::PushFront | Builtin::PopFront, Store::Stack(..) | Store::UnionStack(..)) => {
                let Some(count) = args.first().and_then(|a| a.value.as_ref()) else {
                    return self.bug(e.span, "an argument is missing");
                };
                let (stacks, size) = match &store {
                    Store::Stack(id, _, size) => (vec![*id], *size),
                    Store::UnionStack(stacks, size) => (stacks.iter().map(|s| s.0).collect(), *size),
                    _ => (Vec::new(), 0),
                };
                let count = (self.size(count, u64::from(u32::MAX))? as u32).min(size);
                for id in stacks {
                    self.push(match builtin {
                        Builtin::PushFront => Ir::PushFront(id, count),
                        _ => Ir::PopFront(id, count),
                    });
                }
            }
            _ => return self.bug(e.span, "a method that is not there"),
        }
        Ok(Val::Void)
    }

    // ---- tables ----

    /// The expression `t.apply().hit`.
    pub(super) fn apply_for_hit(&mut self, e: &'a ast::Expr) -> Res<Expr> {
        let Some(table) = self.applied_table(e) else { return self.bug(e.span, "a hit of no table") };
        match self.apply_table(table, true, false, e.span)? {
            (Some(hit), _) => Ok(read(&Place::Var(hit), Ty::Bool)),
            _ => self.bug(e.span, "a hit of no table"),
        }
    }
}

/// Arguments in the order of the source text, each with the index of its parameter. Default values come last.
pub(super) fn in_text_order<'a>(args: &Args<'a>) -> Vec<(usize, DeclId, Arg<'a>)> {
    let mut all: Vec<_> = args.iter().enumerate().map(|(at, (id, arg))| (at, *id, *arg)).collect();
    all.sort_by_key(|(at, _, arg)| match arg {
        Arg::Given(e) => (0, e.id.0, *at),
        Arg::Default(_) | Arg::Omitted => (1, 0, *at),
    });
    all
}
