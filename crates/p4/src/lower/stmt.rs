//! Statements, locals, assignments.

use ir::{Expr, ExprKind as IrKind, HeaderRef, Place, StmtKind as Ir, Ty};

use super::scope::{Binding, Env, Object, Scope};
use super::types::{Store, T, Val};
use super::{Exit, LoopLabels, Lower, Res, fold};
use crate::ast::{self, StmtKind};
use crate::source::Span;

impl<'a> Lower<'a, '_> {
    /// Declarations of a parser or control, in order.
    pub(super) fn locals(&mut self, locals: &'a [ast::Decl], env: &Env<'a>) -> Res<()> {
        let mut failed = false;
        for decl in locals {
            failed |= self.local(decl, env).is_err();
        }
        if failed { Err(super::Failed) } else { Ok(()) }
    }

    pub(super) fn local(&mut self, decl: &'a ast::Decl, env: &Env<'a>) -> Res<()> {
        use ast::DeclKind::*;
        self.loc = self.at(decl.span);
        let binding = match &decl.kind {
            Const { ty, value } => Binding::Value(self.constant(ty, value, env)?),
            Variable { ty, init } => return self.variable(decl, ty, init.as_ref(), env),
            Action { .. } => self.action(decl, env),
            Instance { ty, args, body } => {
                if body.is_some() {
                    return self.not_yet(decl.span, "an instance with methods of its own");
                }
                let path = self.path.clone();
                Binding::Object(self.object(decl, ty, args, env, &path)?)
            }
            Table(table) => Binding::Object(Object::Table(self.table(decl, table, env)?)),
            ValueSet { ty, size } => Binding::Object(self.value_set(decl, ty, size, env)?),
            _ => return self.error("E0503", decl.span, "this cannot be declared here"),
        };
        env.bind(&decl.name.text, binding);
        Ok(())
    }

    fn variable(
        &mut self,
        decl: &'a ast::Decl,
        ty: &'a ast::Type,
        init: Option<&'a ast::Expr>,
        env: &Env<'a>,
    ) -> Res<()> {
        let ty = self.ty(ty, env)?;
        let value = match init {
            Some(e) => {
                let val = self.expr(e, env, Some(&ty))?;
                Some(self.convert(val, &ty, e.span)?)
            }
            None => None,
        };
        let name = if self.path.is_empty() {
            decl.name.text.clone()
        } else {
            format!("{}.{}", self.path, decl.name.text)
        };
        let store = self.storage(&name, &ty, decl.span)?;
        match value {
            Some(value) => self.assign_val(&store, value, decl.span)?,
            None => self.invalidate(&store),
        }
        env.bind(&decl.name.text, Binding::Store(store));
        Ok(())
    }

    /// Headers of a fresh variable are invalid, also in the second round of a loop.
    pub(super) fn invalidate(&mut self, store: &Store) {
        match store {
            Store::Header(h, _) => self.push(Ir::SetInvalid(h.clone())),
            Store::Struct(_, parts) | Store::Tuple(parts) | Store::Union(_, parts) => {
                parts.iter().for_each(|p| self.invalidate(p))
            }
            Store::Stack(..) | Store::UnionStack(..) => {
                for h in self.stack_headers(store) {
                    self.push(Ir::SetInvalid(HeaderRef::Header(h)));
                }
            }
            Store::Scalar(..) => {}
        }
    }

    /// All headers of a stack, element by element.
    pub(super) fn stack_headers(&self, stack: &Store) -> Vec<ir::HeaderId> {
        let (ids, size) = match stack {
            Store::Stack(id, _, size) => (std::slice::from_ref(id), *size),
            Store::UnionStack(ids, _, size) => (ids.as_slice(), *size),
            _ => return Vec::new(),
        };
        let first = |id: &ir::StackId| self.out.stacks[id.index()].first.0;
        (0..size).flat_map(|i| ids.iter().map(move |id| ir::HeaderId(first(id) + i))).collect()
    }

    /// The `apply` block of a control, in a scope of its own.
    pub(super) fn apply_body(&mut self, block: &'a ast::BlockStmt, env: &Env<'a>) -> Res<()> {
        let label = self.label();
        self.returns.push(super::Return { label, used: false, value: None });
        let (body, result) = self.in_block(|l| l.block(block, env));
        let used = self.returns.pop().is_some_and(|r| r.used);
        self.splice(label, body, used);
        result
    }

    /// Appends a block; as a labelled one if something leaves it.
    pub(super) fn splice(&mut self, label: ir::LabelId, body: Vec<ir::Stmt>, labelled: bool) {
        if labelled {
            self.push(Ir::Block { label, body });
        } else if let Some(block) = self.blocks.last_mut() {
            block.extend(body);
        }
    }

    pub(super) fn block(&mut self, block: &'a ast::BlockStmt, env: &Env<'a>) -> Res<()> {
        let env = Scope::new(Some(env.clone()));
        self.stmts(&block.stmts, &env)
    }

    pub(super) fn stmts(&mut self, stmts: &'a [ast::Stmt], env: &Env<'a>) -> Res<()> {
        let mut failed = false;
        for stmt in stmts {
            failed |= self.stmt(stmt, env).is_err();
        }
        if failed { Err(super::Failed) } else { Ok(()) }
    }

    pub(super) fn stmt(&mut self, stmt: &'a ast::Stmt, env: &Env<'a>) -> Res<()> {
        if self.made > super::MOST_STMTS {
            return self.error("E0502", stmt.span, "the program grows beyond all bounds when it is inlined");
        }
        self.loc = self.at(stmt.span);
        match &stmt.kind {
            StmtKind::Empty => Ok(()),
            StmtKind::Decl(decl) => self.local(decl, env),
            StmtKind::Assign { target, op, value } => self.assignment(target, *op, value, env, stmt.span),
            StmtKind::Call(e) => self.expr(e, env, None).map(|_| ()),
            StmtKind::DirectApply { ty, args } => self.direct_apply(ty, args, env, stmt.span),
            StmtKind::If { cond, then, otherwise } => self.if_stmt(cond, then, otherwise.as_deref(), env),
            StmtKind::Switch { on, cases } => self.switch(on, cases, env),
            StmtKind::Block(block) => self.block(block, env),
            StmtKind::For { init, cond, update, body, .. } => self.for_loop(init, cond, update, body, env),
            StmtKind::ForIn { variable, over, body, .. } => self.for_in(variable, over, body, env, stmt.span),
            StmtKind::Break | StmtKind::Continue => self.leave_loop(&stmt.kind, stmt.span),
            StmtKind::Return(value) => self.return_stmt(value.as_ref(), env, stmt.span),
            StmtKind::Exit => self.exit_stmt(stmt.span),
        }
    }

    fn leave_loop(&mut self, kind: &StmtKind, span: Span) -> Res<()> {
        let Some(labels) = self.loops.last() else {
            return self.error("E0503", span, "`break` and `continue` stand in loops");
        };
        let label = if matches!(kind, StmtKind::Break) { labels.leave } else { labels.next };
        self.push(Ir::Break(label));
        Ok(())
    }

    fn return_stmt(&mut self, value: Option<&'a ast::Expr>, env: &Env<'a>, span: Span) -> Res<()> {
        let Some(place) = self.returns.last().map(|r| r.value.clone()) else {
            return self.error("E0503", span, "there is nothing to return from");
        };
        match (value, place) {
            (Some(e), Some(place)) => {
                let ty = place.ty();
                let val = self.expr(e, env, Some(&ty))?;
                let val = self.convert(val, &ty, e.span)?;
                self.assign_val(&place, val, e.span)?;
            }
            (None, None) => {}
            (Some(e), None) => {
                return self.error("E0503", e.span, "a value is returned where none is wanted");
            }
            (None, Some(_)) => {
                return self.error("E0503", span, "this function returns a value: `return …;`");
            }
        }
        if let Some(r) = self.returns.last_mut() {
            r.used = true;
            let label = r.label;
            self.push(Ir::Break(label));
        }
        Ok(())
    }

    fn exit_stmt(&mut self, span: Span) -> Res<()> {
        // Calls that are left write their copies back (section 12.5), innermost first.
        for copies in self.copies.clone().iter().rev() {
            self.copy_out(copies, span)?;
        }
        match self.exit {
            Exit::Break(label) => self.push(Ir::Break(label)),
            Exit::Flag(label) => {
                let flag = self.flag();
                self.push(Ir::Assign { dst: Place::Var(flag), src: Expr::bool(true) });
                self.push(Ir::Break(label));
            }
            Exit::Nowhere => return self.error("E0503", span, "`exit` stands in controls and actions"),
        }
        Ok(())
    }

    /// The variable that says that a table's action has exited.
    pub(super) fn flag(&mut self) -> ir::VarId {
        match self.exit_flag {
            Some(flag) => flag,
            None => {
                let flag = self.var("$exit", Ty::Bool, ir::VarKind::Metadata);
                self.exit_flag = Some(flag);
                flag
            }
        }
    }

    fn if_stmt(
        &mut self,
        cond: &'a ast::Expr,
        then: &'a ast::Stmt,
        otherwise: Option<&'a ast::Stmt>,
        env: &Env<'a>,
    ) -> Res<()> {
        let cond = self.condition(cond, env)?;
        let loc = self.loc;
        let scope = Scope::new(Some(env.clone()));
        let (then, a) = self.in_block(|l| l.stmt(then, &scope));
        let scope = Scope::new(Some(env.clone()));
        let (otherwise, b) = self.in_block(|l| otherwise.map_or(Ok(()), |s| l.stmt(s, &scope)));
        self.loc = loc;
        match cond.as_const().map(|v| !v.is_zero()) {
            Some(known) => {
                if let Some(block) = self.blocks.last_mut() {
                    block.extend(if known { then } else { otherwise });
                }
            }
            None => self.push(Ir::If { cond, then, otherwise }),
        }
        a.and(b)
    }

    fn switch(&mut self, on: &'a ast::Expr, cases: &'a [ast::SwitchCase], env: &Env<'a>) -> Res<()> {
        if let ast::ExprKind::Member { base, member } = &on.kind
            && let (ast::ExprKind::Call { callee, args, .. }, "action_run") =
                (&base.kind, member.text.as_str())
            && let Some(table) = self.applied_table(callee, env)
        {
            return self.switch_action(table, args, cases, env, on.span);
        }
        let (on_expr, ty) = self.scalar(on, env, None)?;
        let mut labels = |l: &mut Self, e: &'a ast::Expr| {
            let (value, _) = l.scalar(e, env, Some(&ty))?;
            match value.as_const() {
                Some(v) => Ok(v.clone()),
                None => l.error("E0503", e.span, "a label of `switch` is a constant"),
            }
        };
        self.arms(on_expr, cases, env, &mut labels)
    }

    fn switch_action(
        &mut self,
        table: ir::TableId,
        args: &'a [ast::Argument],
        cases: &'a [ast::SwitchCase],
        env: &Env<'a>,
        span: Span,
    ) -> Res<()> {
        if !args.is_empty() {
            return self.error("E0503", span, "`apply` of a table takes no arguments");
        }
        let action = self.var("$action", Ty::Bit(32), ir::VarKind::Local);
        self.apply_table(table, None, Some(action));
        let mut labels = |l: &mut Self, e: &'a ast::Expr| {
            let name = match &e.kind {
                ast::ExprKind::Name { name, .. } => name,
                _ => {
                    return l.error(
                        "E0503",
                        e.span,
                        "a label here is the name of one of the table's actions",
                    );
                }
            };
            match l.action_index(table, name, env) {
                Some(i) => Ok(abi::Bits::new(32, i as u128)),
                None => {
                    let message =
                        format!("table `{}` has no action `{}`", l.out.tables[table.index()].name, name.text);
                    l.error_hint(
                        "E0503",
                        name.span,
                        message,
                        "only actions in its `actions` list can have run",
                    )
                }
            }
        };
        self.arms(Expr::read(Place::Var(action), Ty::Bit(32)), cases, env, &mut labels)
    }

    /// Labels without a block share the next one that has it.
    fn arms(
        &mut self,
        on: Expr,
        cases: &'a [ast::SwitchCase],
        env: &Env<'a>,
        value: &mut dyn FnMut(&mut Self, &'a ast::Expr) -> Res<abi::Bits>,
    ) -> Res<()> {
        let loc = self.loc;
        let mut arms: Vec<(Vec<abi::Bits>, Vec<ir::Stmt>)> = Vec::new();
        let (mut values, mut default, mut is_default) = (Vec::new(), Vec::new(), false);
        for case in cases {
            match &case.label {
                Some(e) => {
                    let v = value(self, e)?;
                    if values.contains(&v) || arms.iter().any(|(vs, _)| vs.contains(&v)) {
                        return self.error("E0503", e.span, "this label stands there twice");
                    }
                    values.push(v);
                }
                None => is_default = true,
            }
            let Some(body) = &case.body else { continue };
            let (block, result) = self.in_block(|l| l.block(body, env));
            result?;
            if std::mem::take(&mut is_default) {
                default = block.clone();
            }
            if !values.is_empty() {
                arms.push((std::mem::take(&mut values), block));
            }
        }
        self.loc = loc;
        self.push(Ir::Switch { on, arms, default });
        Ok(())
    }

    fn for_loop(
        &mut self,
        init: &'a [ast::Stmt],
        cond: &'a ast::Expr,
        update: &'a [ast::Stmt],
        body: &'a ast::Stmt,
        env: &Env<'a>,
    ) -> Res<()> {
        let env = Scope::new(Some(env.clone()));
        self.stmts(init, &env)?;
        let (leave, next) = (self.label(), self.label());
        let (round, result) = self.in_block(|l| {
            let cond = l.condition(cond, &env)?;
            let stop = vec![ir::Stmt::new(Ir::Break(leave), l.loc)];
            l.push(Ir::If { cond: fold::unary(ir::UnOp::Not, cond), then: stop, otherwise: Vec::new() });
            l.loop_body(body, &env, leave, next)?;
            l.stmts(update, &env)
        });
        self.push(Ir::Loop { label: leave, bound: None, body: round });
        result
    }

    fn loop_body(
        &mut self,
        body: &'a ast::Stmt,
        env: &Env<'a>,
        leave: ir::LabelId,
        next: ir::LabelId,
    ) -> Res<()> {
        self.loops.push(LoopLabels { leave, next });
        let scope = Scope::new(Some(env.clone()));
        let (inner, result) = self.in_block(|l| l.stmt(body, &scope));
        self.loops.pop();
        self.push(Ir::Block { label: next, body: inner });
        result
    }

    /// `for (T x in a .. b)`: the bounds are read once, both are included.
    fn for_in(
        &mut self,
        variable: &'a ast::ForVariable,
        over: &'a ast::Expr,
        body: &'a ast::Stmt,
        env: &Env<'a>,
        span: Span,
    ) -> Res<()> {
        let ast::ExprKind::Binary { op: ast::BinaryOp::Range, left, right } = &over.kind else {
            return self.not_yet(over.span, "`for … in` over anything but a range `a .. b`");
        };
        let env = Scope::new(Some(env.clone()));
        let ty = self.ty(&variable.ty, &env)?;
        let store = self.storage(&variable.name.text, &ty, span)?;
        env.bind(&variable.name.text, Binding::Store(store.clone()));
        let Store::Scalar(place, _) = store else {
            return self.error("E0503", span, "a loop variable is a number");
        };
        let (from, _) = self.scalar(left, &env, Some(&ty))?;
        let (to, _) = self.scalar(right, &env, Some(&ty))?;
        let Some(Store::Scalar(last, _)) = self.temp("$last", &ty) else { return Err(super::Failed) };
        let bound = match (from.as_const().and_then(|v| v.to_u64()), to.as_const().and_then(|v| v.to_u64())) {
            (Some(a), Some(b)) => Some((b.saturating_sub(a)).saturating_add(1)),
            _ => None,
        };
        let scalar = from.ty;
        let now = || Expr::read(place.clone(), scalar);
        let end = || Expr::read(last.clone(), scalar);
        self.push(Ir::Assign { dst: last.clone(), src: to });
        self.push(Ir::Assign { dst: place.clone(), src: from });
        let (leave, next) = (self.label(), self.label());
        let (round, result) = self.in_block(|l| {
            let stop = |l: &mut Self, op| {
                let then = vec![ir::Stmt::new(Ir::Break(leave), l.loc)];
                l.push(Ir::If { cond: Expr::binary(op, now(), end()), then, otherwise: Vec::new() });
            };
            stop(l, ir::BinOp::Gt);
            l.loop_body(body, &env, leave, next)?;
            // The last value may be the greatest of its type: leaving before the step keeps it from wrapping.
            stop(l, ir::BinOp::Eq);
            let mut one = Expr::bits(scalar.width(), 1);
            one.ty = scalar;
            l.push(Ir::Assign { dst: place.clone(), src: Expr::binary(ir::BinOp::Add, now(), one) });
            Ok(())
        });
        self.push(Ir::Loop { label: leave, bound, body: round });
        result
    }

    fn assignment(
        &mut self,
        target: &'a ast::Expr,
        op: Option<ast::BinaryOp>,
        value: &'a ast::Expr,
        env: &Env<'a>,
        span: Span,
    ) -> Res<()> {
        if let ast::ExprKind::Slice { base, hi, lo } = &target.kind {
            return self.assign_slice(base, hi, lo, op, value, env);
        }
        let store = self.lvalue(target, env)?;
        let ty = store.ty();
        let val = self.expr(value, env, Some(&ty))?;
        let val = match op {
            None => self.convert(val, &ty, value.span)?,
            Some(op) => {
                let old = self.loaded(Val::Store(store.clone()));
                let val = self.loaded(val);
                let new = self.compound(op, old, val, target.span, value.span)?;
                self.convert(new, &ty, span)?
            }
        };
        self.assign_val(&store, val, span)
    }

    fn assign_slice(
        &mut self,
        base: &'a ast::Expr,
        hi: &'a ast::Expr,
        lo: &'a ast::Expr,
        op: Option<ast::BinaryOp>,
        value: &'a ast::Expr,
        env: &Env<'a>,
    ) -> Res<()> {
        let (place, ty, hi, lo) = self.slice_place(base, hi, lo, env)?;
        let (whole, _) = self.read(place.clone(), ty.clone());
        let part = T::Bit(hi - lo + 1);
        let val = self.expr(value, env, Some(&part))?;
        let val = match op {
            None => self.convert(val, &part, value.span)?,
            Some(op) => {
                let old = Val::Scalar(fold::slice(whole.clone(), hi, lo), part.clone());
                let val = self.loaded(val);
                let new = self.compound(op, old, val, base.span, value.span)?;
                self.convert(new, &part, value.span)?
            }
        };
        let Val::Scalar(new, _) = val else { return Err(super::Failed) };
        self.write_slice(place, ty, hi, lo, new);
        Ok(())
    }

    /// The number whose bits a slice is, and which; a slice of a slice is a slice.
    pub(super) fn slice_place(
        &mut self,
        base: &'a ast::Expr,
        hi: &'a ast::Expr,
        lo: &'a ast::Expr,
        env: &Env<'a>,
    ) -> Res<(Place, T, u32, u32)> {
        if let ast::ExprKind::Slice { base, hi: outer_hi, lo: outer_lo } = &base.kind {
            let (place, ty, top, bottom) = self.slice_place(base, outer_hi, outer_lo, env)?;
            let (hi, lo) = self.slice_bounds(hi, lo, top - bottom + 1, env)?;
            return Ok((place, ty, bottom + hi, bottom + lo));
        }
        let Store::Scalar(place, ty) = self.lvalue(base, env)? else {
            return self.error("E0503", base.span, "only bits have slices");
        };
        let width = ty.ir().map_or(0, Ty::width);
        let (hi, lo) = self.slice_bounds(hi, lo, width, env)?;
        Ok((place, ty, hi, lo))
    }

    /// Something that can be written.
    pub(super) fn lvalue(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<Store> {
        match self.expr(e, env, None)? {
            Val::Store(store) => Ok(store),
            _ => self.error_hint(
                "E0503",
                e.span,
                "this cannot be written",
                "constants, `in` parameters and results of operators are read only",
            ),
        }
    }

    /// Storage takes a value of its type.
    pub(super) fn assign_val(&mut self, store: &Store, val: Val, span: Span) -> Res<()> {
        match (store, val) {
            (_, Val::Default) => self.not_yet(span, "`...` as a value"),
            (Store::Scalar(place, ty), val) => match self.convert(val, &ty.clone(), span)? {
                Val::Scalar(src, _) => {
                    self.push(Ir::Assign { dst: place.clone(), src });
                    Ok(())
                }
                _ => self.error("E0503", span, format!("expected {ty}")),
            },
            (Store::Header(dst, _), Val::Store(Store::Header(src, _))) => {
                if *dst != src {
                    self.push(Ir::CopyHeader { dst: dst.clone(), src });
                    self.only_valid_if_copied(dst);
                }
                Ok(())
            }
            (Store::Header(dst, _), Val::Invalid) => {
                self.push(Ir::SetInvalid(dst.clone()));
                Ok(())
            }
            (Store::Header(dst, s), val) => {
                let (fields, names) = self.shape(store, val, span)?;
                // All values are read before the first field is written: they may read this very header.
                let held = self.hold(fields, names.iter().map(|&i| s.fields[i].ty.clone()).collect())?;
                self.push(Ir::SetValid(dst.clone()));
                self.only_valid(dst, false);
                for (i, val) in names.into_iter().zip(held) {
                    self.assign_val(&s.place(dst, i), val, span)?;
                }
                Ok(())
            }
            (store @ Store::Union(..), Val::Invalid) => {
                self.invalidate(store);
                Ok(())
            }
            (Store::Union(_, to), Val::Store(Store::Union(_, from))) => {
                for (to, from) in to.iter().zip(from.iter()) {
                    if let (Store::Header(dst, _), Store::Header(src, _)) = (to, from)
                        && dst != src
                    {
                        self.push(Ir::CopyHeader { dst: dst.clone(), src: src.clone() });
                    }
                }
                Ok(())
            }
            (Store::Struct(_, parts) | Store::Tuple(parts), val) => {
                if val_is(store, &val) {
                    return Ok(());
                }
                let (vals, indexes) = self.shape(store, val, span)?;
                let held = match vals.iter().all(|v| matches!(v, Val::Store(_))) {
                    true => vals,
                    false => self.hold(vals, indexes.iter().map(|&i| parts[i].ty()).collect())?,
                };
                for (i, val) in indexes.into_iter().zip(held) {
                    self.assign_val(&parts[i].clone(), val, span)?;
                }
                Ok(())
            }
            (to @ (Store::Stack(..) | Store::UnionStack(..)), Val::Store(from)) if to.ty() == from.ty() => {
                let pairs: Vec<_> =
                    self.stack_headers(to).into_iter().zip(self.stack_headers(&from)).collect();
                for (a, b) in pairs {
                    self.push(Ir::CopyHeader { dst: HeaderRef::Header(a), src: HeaderRef::Header(b) });
                }
                Ok(())
            }
            (store, _) => self.error("E0503", span, format!("expected {}", store.ty())),
        }
    }

    /// A value's parts and which fields of the storage they are for.
    fn shape(&mut self, store: &Store, val: Val, span: Span) -> Res<(Vec<Val>, Vec<usize>)> {
        if let (Val::Record(fields), T::Struct(s) | T::Header(s)) = (&val, store.ty()) {
            let indexes = fields.iter().map(|(n, _)| s.field(n)).collect::<Option<Vec<_>>>();
            let all = s.fields.len() == fields.len();
            return match indexes {
                Some(indexes) if all => Ok((fields.iter().map(|(_, v)| v.clone()).collect(), indexes)),
                _ => self.error("E0503", span, format!("the fields given are not those of {}", s.name)),
            };
        }
        match super::expr::parts(&val) {
            Some(vals) => {
                let indexes = (0..vals.len()).collect();
                Ok((vals, indexes))
            }
            None => self.error("E0503", span, format!("expected {}", store.ty())),
        }
    }

    /// Values copied into temporaries, but for constants.
    fn hold(&mut self, vals: Vec<Val>, types: Vec<T>) -> Res<Vec<Val>> {
        let mut held = Vec::new();
        for (val, ty) in vals.into_iter().zip(types) {
            held.push(match self.loaded(val) {
                Val::Scalar(e, ty) if e.as_const().is_none() => {
                    let Some(Store::Scalar(place, ty)) = self.temp("$held", &ty) else {
                        return Err(super::Failed);
                    };
                    self.push(Ir::Assign { dst: place.clone(), src: e });
                    let (e, ty) = self.read(place, ty);
                    Val::Scalar(e, ty)
                }
                Val::Integer(n) => self.number(&n, &ty, Span::default())?,
                other => other,
            });
        }
        Ok(held)
    }

    /// `valid` of a header.
    pub(super) fn is_valid(&self, h: &HeaderRef) -> Expr {
        Expr { kind: IrKind::IsValid(h.clone()), ty: Ty::Bool }
    }
}

fn val_is(store: &Store, val: &Val) -> bool {
    matches!(val, Val::Store(other) if other == store)
}
