//! Statements, and local declarations.

use ir::{Expr, Place, StmtKind as Ir, Ty, UnOp};
use num_traits::ToPrimitive;

use super::storage::{Store, scalar};
use super::value::{cast, constant, read};
use super::{LoopLabels, Lower, MAX_SIZE, Res};
use crate::ast::{self, StmtKind};
use crate::check::DeclId;
use crate::source::Span;

impl<'a> Lower<'_, 'a> {
    pub(super) fn block(&mut self, block: &'a ast::BlockStmt) -> Res<()> {
        if ast::annotation(&block.annotations, "atomic").is_none() {
            return self.stmts(&block.stmts);
        }
        let (body, result) = self.in_block(|l| l.stmts(&block.stmts));
        self.push(Ir::Atomic(body));
        result
    }

    /// Lowers all statements. A limit that is reported in one does not hide the limits in the next.
    pub(super) fn stmts(&mut self, stmts: &'a [ast::Stmt]) -> Res<()> {
        let mut failed = false;
        for stmt in stmts {
            failed |= self.stmt(stmt).is_err();
        }
        if failed { Err(super::Failed) } else { Ok(()) }
    }

    fn stmt(&mut self, stmt: &'a ast::Stmt) -> Res<()> {
        if self.exhausted || self.statements > MAX_SIZE {
            let what = "the program has more than a million statements after inlining";
            return self.too_large(stmt.span, what);
        }
        self.loc = self.at(stmt.span);
        match &stmt.kind {
            StmtKind::Empty => Ok(()),
            StmtKind::Decl(decl) => self.local(decl),
            StmtKind::Assign { target, op, value } => self.assignment(target, *op, value, stmt.span),
            StmtKind::Call(e) => self.expr(e).map(|_| ()),
            StmtKind::DirectApply { id, .. } => self.direct_apply(*id, stmt.span),
            StmtKind::If { cond, then, otherwise } => self.if_stmt(cond, then, otherwise.as_deref()),
            StmtKind::Switch { on, cases } => self.switch(on, cases),
            StmtKind::Block(block) => self.block(block),
            StmtKind::For { init, cond, update, body, .. } => self.for_loop(init, cond, update, body),
            StmtKind::ForIn { variable, over, body, .. } => self.for_in(variable.id, over, body, stmt.span),
            StmtKind::Break | StmtKind::Continue => self.leave_loop(&stmt.kind, stmt.span),
            StmtKind::Return(value) => self.return_stmt(value.as_ref(), stmt.span),
            StmtKind::Exit => self.exit(stmt.span),
        }
    }

    /// A local declaration. Constants are evaluated where they are used.
    fn local(&mut self, decl: &'a ast::Decl) -> Res<()> {
        match &decl.kind {
            ast::DeclKind::Variable { init, .. } => {
                self.variable(decl)?;
                self.initialise(decl, init.as_ref())
            }
            ast::DeclKind::Instance { .. } => self.instance(decl, &self.path.clone()),
            _ => Ok(()),
        }
    }

    /// Creates the storage of a variable.
    pub(super) fn variable(&mut self, decl: &'a ast::Decl) -> Res<()> {
        self.loc = self.at(decl.span);
        let path = if self.path.is_empty() { String::new() } else { format!("{}.", self.path) };
        let ty = self.decl_ty(decl.id);
        let store = self.storage(&format!("{path}{}", decl.name.text), &ty, decl.span)?;
        self.scope.stores.insert(decl.id, store);
        Ok(())
    }

    /// Assigns a variable its initial value. Without one, its headers become invalid; in a loop, in each iteration.
    pub(super) fn initialise(&mut self, decl: &'a ast::Decl, init: Option<&'a ast::Expr>) -> Res<()> {
        self.loc = self.at(decl.span);
        let Some(store) = self.scope.stores.get(&decl.id).cloned() else {
            return self.bug(decl.span, "a variable without storage");
        };
        match init {
            Some(e) => {
                let val = self.expr(e)?;
                self.assign(&store, val, e.span)
            }
            None => {
                self.invalidate(&store);
                Ok(())
            }
        }
    }

    fn return_stmt(&mut self, value: Option<&'a ast::Expr>, span: Span) -> Res<()> {
        let Some((label, place)) = self.returns.last().map(|r| (r.label, r.value.clone())) else {
            return self.bug(span, "there is nothing to return from");
        };
        if let (Some(e), Some(place)) = (value, place) {
            let val = self.expr(e)?;
            self.assign(&place, val, e.span)?;
        }
        if let Some(r) = self.returns.last_mut() {
            r.used = true;
        }
        self.push(Ir::Break(label));
        Ok(())
    }

    fn if_stmt(
        &mut self,
        cond: &'a ast::Expr,
        then: &'a ast::Stmt,
        otherwise: Option<&'a ast::Stmt>,
    ) -> Res<()> {
        let cond = self.scalar(cond)?;
        let loc = self.loc;
        let (then, a) = self.in_block(|l| l.stmt(then));
        let (otherwise, b) = self.in_block(|l| otherwise.map_or(Ok(()), |s| l.stmt(s)));
        self.loc = loc;
        self.push(Ir::If { cond, then, otherwise });
        a.and(b)
    }

    // ---- switch ----

    fn switch(&mut self, on: &'a ast::Expr, cases: &'a [ast::SwitchCase]) -> Res<()> {
        if let ast::ExprKind::Member { base, .. } = &on.kind
            && let Some(table) = self.applied_table(base)
            && scalar(&self.ty(on)).is_none()
        {
            let (_, action) = self.apply_table(table, false, true, on.span)?;
            let Some(action) = action else { return self.bug(on.span, "a table that runs no action") };
            let actions = self.typed.decl(table).map(|d| d.members.clone()).unwrap_or_default();
            let value = |l: &mut Self, e: &'a ast::Expr| {
                let at = l.resolved(e).and_then(|id| actions.iter().position(|a| *a == id));
                at.map(|i| abi::Bits::new(32, i as u128))
            };
            return self.arms(read(&Place::Var(action), Ty::Bit(32)), cases, &value);
        }
        let on = self.scalar(on)?;
        // The IR's `Switch` compares numbers.
        let on = if on.ty == Ty::Bool { cast(on, Ty::Bit(1)) } else { on };
        let width = on.ty.width();
        let value = |l: &mut Self, e: &'a ast::Expr| l.known_bits(e).filter(|v| v.width() == width);
        self.arms(on, cases, &value)
    }

    /// The cases of a `switch`. A label without a body shares the body of the next label that has one.
    fn arms(
        &mut self,
        on: Expr,
        cases: &'a [ast::SwitchCase],
        value: &dyn Fn(&mut Self, &'a ast::Expr) -> Option<abi::Bits>,
    ) -> Res<()> {
        let loc = self.loc;
        let mut arms: Vec<(Vec<abi::Bits>, Vec<ir::Stmt>)> = Vec::new();
        let (mut values, mut default, mut is_default) = (Vec::new(), Vec::new(), false);
        for case in cases {
            match case.label.as_ref().filter(|e| !matches!(e.kind, ast::ExprKind::Default)) {
                Some(e) => match value(self, e) {
                    Some(v) if values.contains(&v) || arms.iter().any(|(vs, _)| vs.contains(&v)) => {}
                    Some(v) => values.push(v),
                    None => return self.bug(e.span, "a label that is not known"),
                },
                None => is_default = true,
            }
            let Some(body) = &case.body else { continue };
            let (block, result) = self.in_block(|l| l.block(body));
            result?;
            // Labels that share their body with `default` need no arm of their own.
            let values = std::mem::take(&mut values);
            match std::mem::take(&mut is_default) {
                true => default = block,
                false if values.is_empty() => {}
                false => arms.push((values, block)),
            }
        }
        self.loc = loc;
        self.push(Ir::Switch { on, arms, default });
        Ok(())
    }

    // ---- loops ----

    fn leave_loop(&mut self, kind: &StmtKind, span: Span) -> Res<()> {
        let Some(labels) = self.loops.last() else { return self.bug(span, "there is no loop to leave") };
        let label = if matches!(kind, StmtKind::Break) { labels.leave } else { labels.next };
        self.push(Ir::Break(label));
        Ok(())
    }

    fn leave_if(&mut self, cond: Expr, leave: ir::LabelId) {
        let then = vec![ir::Stmt::new(Ir::Break(leave), self.loc)];
        self.push(Ir::If { cond, then, otherwise: Vec::new() });
    }

    fn for_loop(
        &mut self,
        init: &'a [ast::Stmt],
        cond: &'a ast::Expr,
        update: &'a [ast::Stmt],
        body: &'a ast::Stmt,
    ) -> Res<()> {
        self.stmts(init)?;
        let leave = self.label();
        let (round, result) = self.in_block(|l| {
            let cond = l.scalar(cond)?;
            l.leave_if(Expr { kind: ir::ExprKind::Unary(UnOp::Not, Box::new(cond)), ty: Ty::Bool }, leave);
            l.loop_body(body, leave)?;
            l.stmts(update)
        });
        self.push(Ir::Loop { label: leave, bound: None, body: round });
        result
    }

    fn loop_body(&mut self, body: &'a ast::Stmt, leave: ir::LabelId) -> Res<()> {
        let next = self.label();
        self.loops.push(LoopLabels { leave, next });
        let (inner, result) = self.in_block(|l| l.stmt(body));
        self.loops.pop();
        self.push(Ir::Block { label: next, body: inner });
        result
    }

    fn for_in(&mut self, id: DeclId, over: &'a ast::Expr, body: &'a ast::Stmt, span: Span) -> Res<()> {
        let (name, ty) = (self.name_of(id), self.decl_ty(id));
        let store = self.storage(&name, &ty, span)?;
        self.scope.stores.insert(id, store.clone());
        if let ast::ExprKind::Binary { op: ast::BinaryOp::Range, left, right } = &over.kind {
            return self.for_range(&store, left, right, body, span);
        }
        // A loop over a list or stack is unrolled.
        let val = self.expr(over)?;
        let val = self.save(val, over.span)?;
        let Some(items) = self.parts_of_val(&val) else {
            return self.limit("E0520", over.span, "this loop runs over a set that is no range");
        };
        let leave = self.label();
        let (rounds, result) = self.in_block(|l| {
            for item in items {
                l.assign(&store, item, over.span)?;
                l.loop_body(body, leave)?;
            }
            Ok(())
        });
        self.push(Ir::Block { label: leave, body: rounds });
        result
    }

    /// `for (T x in a .. b)`: both bounds are evaluated once, and are included.
    fn for_range(
        &mut self,
        store: &Store,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        body: &'a ast::Stmt,
        span: Span,
    ) -> Res<()> {
        let Store::Scalar(place, ty) = store else { return self.bug(span, "a loop over what is no number") };
        let (place, ty) = (place.clone(), *ty);
        let [from, to] = self.scalars([left, right])?;
        let bound = match (self.known_number(left), self.known_number(right)) {
            (Some(a), Some(b)) => Some((b - a + 1u8).to_u64().unwrap_or(0)),
            _ => None,
        };
        let last = self.temp("$last", ty);
        self.push(Ir::Assign { dst: last.clone(), src: to });
        self.push(Ir::Assign { dst: place.clone(), src: from });
        let leave = self.label();
        let now = || read(&place, ty);
        let (round, result) = self.in_block(|l| {
            l.leave_if(Expr::binary(ir::BinOp::Gt, now(), read(&last, ty)), leave);
            l.loop_body(body, leave)?;
            // The last value may be the greatest of its type. The loop is left before the increment, which would wrap.
            l.leave_if(Expr::binary(ir::BinOp::Eq, now(), read(&last, ty)), leave);
            let one = constant(abi::Bits::new(ty.width(), 1), ty);
            l.push(Ir::Assign { dst: place.clone(), src: Expr::binary(ir::BinOp::Add, now(), one) });
            Ok(())
        });
        self.push(Ir::Loop { label: leave, bound, body: round });
        result
    }

    /// The value of an expression that is a scalar, or that is a number of type `int`, which then gets `width` bits.
    pub(super) fn number_of(&mut self, e: &'a ast::Expr, width: u32) -> Res<Expr> {
        match (scalar(&self.ty(e)), self.known_number(e)) {
            (None, Some(n)) => Ok(constant(super::value::to_bits(&n, width), Ty::Bit(width))),
            _ => self.scalar(e),
        }
    }
}
