//! Statements (P4-16 section 12).

use std::sync::Arc;

use super::typed::{Callee, Decl, Kind, Res};
use super::types::Type;
use super::{Checker, Place};
use crate::ast::{BinaryOp, BlockStmt, DeclKind, Expr, ExprKind, ForVariable, Stmt, StmtKind, SwitchCase};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a, '_> {
    /// Checks a block, which has its own scope.
    pub(super) fn block(&mut self, b: &'a BlockStmt) {
        self.push_scope();
        for s in &b.stmts {
            self.stmt(s);
        }
        self.pop_scope();
    }

    pub(super) fn stmt(&mut self, s: &'a Stmt) {
        self.nested(s.span, (), |c| c.stmt_inner(s));
    }

    fn stmt_inner(&mut self, s: &'a Stmt) {
        match &s.kind {
            StmtKind::Empty => {}
            StmtKind::Decl(d) => {
                if let (DeclKind::Instance { .. }, Place::ControlApply) = (&d.kind, self.place) {
                    let e =
                        Diagnostic::error("E0405", d.span, "nothing can be instantiated in an apply block");
                    self.report(e.hint("move the instance above `apply`"));
                }
                self.decl_of(d);
            }
            StmtKind::Assign { target, op, value } => self.assign(s.span, target, *op, value),
            StmtKind::Call(e) => drop(self.expr(e)),
            StmtKind::DirectApply { id, ty, args } => {
                let ty = self.ty_open(ty);
                self.direct_apply(*id, s.span, &ty, args);
            }
            StmtKind::If { cond, then, otherwise } => {
                self.expr_to(cond, &Type::Bool);
                self.stmt_in_scope(then);
                if let Some(otherwise) = otherwise {
                    self.stmt_in_scope(otherwise);
                }
            }
            StmtKind::Switch { on, cases } => self.switch(on, cases),
            StmtKind::Block(b) => self.block(b),
            StmtKind::For { init, cond, update, body, .. } => {
                self.push_scope();
                init.iter().for_each(|i| self.stmt(i));
                self.expr_to(cond, &Type::Bool);
                update.iter().for_each(|u| self.stmt(u));
                self.loop_body(body);
                self.pop_scope();
            }
            StmtKind::ForIn { variable, over, body, .. } => self.for_in(variable, over, body),
            StmtKind::Break | StmtKind::Continue => {
                if self.loops == 0 {
                    let what = if matches!(s.kind, StmtKind::Break) { "break" } else { "continue" };
                    let e = Diagnostic::error("E0409", s.span, format!("`{what}` stands outside a loop"));
                    self.report(e.hint("a case of a `switch` needs none: it ends with its block"));
                }
            }
            StmtKind::Return(value) => self.return_stmt(s.span, value.as_ref()),
            StmtKind::Exit => {
                if self.place == Place::Function || self.place.in_parser() {
                    let place = if self.place == Place::Function { "a function" } else { "a parser" };
                    self.error("E0409", s.span, format!("`exit` cannot be used in {place}"));
                }
            }
        }
    }

    fn stmt_in_scope(&mut self, s: &'a Stmt) {
        self.push_scope();
        self.stmt(s);
        self.pop_scope();
    }

    fn loop_body(&mut self, s: &'a Stmt) {
        self.loops += 1;
        self.stmt_in_scope(s);
        self.loops -= 1;
    }

    fn assign(&mut self, span: Span, target: &'a Expr, op: Option<BinaryOp>, value: &'a Expr) {
        let want = self.expr(target);
        self.need_lvalue(target, "");
        if matches!(
            want,
            Type::Extern(_) | Type::Table(_) | Type::Parser(_) | Type::Control(_) | Type::TypeName(_)
        ) {
            self.expr(value);
            self.error("E0303", span, format!("`{want}` cannot be assigned"));
            return;
        }
        match op {
            None => drop(self.expr_to(value, &want)),
            Some(BinaryOp::Shl | BinaryOp::Shr) => drop(self.expr(value)),
            Some(op) => {
                let own = self.expr_to(value, &want);
                if !own.is_bad() && !want.underlying().is_fixed() {
                    self.error("E0302", span, format!("`{}=` cannot be applied to `{want}`", op.symbol()));
                }
            }
        }
    }

    fn for_in(&mut self, variable: &'a ForVariable, over: &'a Expr, body: &'a Stmt) {
        let items = self.expr(over);
        self.push_scope();
        let name = &variable.name;
        let (ty, span) = (self.ty(&variable.ty), name.span);
        self.declare(variable.id, name, Decl::new(name, Kind::Variable, ty.clone()));
        let item = match (&items, &over.kind) {
            (Type::Set(t) | Type::List(t) | Type::Stack(t, _), _) => (**t).clone(),
            (Type::Tuple(_), ExprKind::List { .. }) => {
                self.coerce(over, &items, &Type::List(Arc::new(ty.clone())));
                ty.clone()
            }
            _ => Type::Bad,
        };
        if let (Type::Int, ExprKind::Binary { left, right, .. }) = (&item, &over.kind) {
            self.coerce(left, &Type::Int, &ty);
            self.coerce(right, &Type::Int, &ty);
        } else if !matches!(item, Type::Int) && !self.unknowns.unify(&item, &ty) {
            self.error("E0301", span, format!("expected `{item}`, found `{ty}`"));
        }
        self.loop_body(body);
        self.pop_scope();
    }

    fn return_stmt(&mut self, span: Span, value: Option<&'a Expr>) {
        let Some(ret) = self.ret.clone() else {
            if let Some(value) = value {
                self.expr(value);
            }
            let e = Diagnostic::error("E0409", span, "`return` cannot be used in a parser");
            self.report(e.hint("a state ends with `transition`"));
            return;
        };
        match value {
            Some(value) if ret == Type::Void => {
                self.expr(value);
                let e = Diagnostic::error("E0316", value.span, "there is nothing to return a value to");
                self.report(e.hint("write `return;`"));
            }
            Some(value) => drop(self.expr_to(value, &ret)),
            None if ret != Type::Void => self.error("E0316", span, format!("this must return a `{ret}`")),
            None => {}
        }
    }

    /// `switch` on an `action_run` or on a value (section 12.7).
    fn switch(&mut self, on: &'a Expr, cases: &'a [SwitchCase]) {
        let ty = self.expr(on);
        if !matches!(
            ty,
            Type::ActionList(_) | Type::Enum(_) | Type::SerEnum(..) | Type::Error | Type::Bad | Type::New(..)
        ) && !ty.is_fixed()
            && ty != Type::Bool
        {
            let e = Diagnostic::error("E0410", on.span, format!("`switch` cannot decide by `{ty}`"));
            let e = match &ty {
                Type::ApplyResult(n) => e.hint(format!("switch on `{n}.apply().action_run`")),
                _ => e.hint("it takes bit<W>, int<W>, enums, errors, and `table.apply().action_run`"),
            };
            self.report(e);
        }
        let mut seen: Vec<(String, Span)> = Vec::new();
        let mut default: Option<Span> = None;
        for case in cases {
            let is_default = case.is_default();
            if let Some(first) = default {
                self.error("E0410", first, "`default` must be the last case");
            }
            if is_default {
                default = Some(case.span);
            }
            if let Some(label) = case.label.as_ref().filter(|_| !is_default) {
                self.label(label, &ty);
                let key = match self.known_value(label) {
                    Some(value) => format!("{value:?}"),
                    None => self.text(label),
                };
                if let Some((_, first)) = seen.iter().find(|(k, _)| *k == key) {
                    let e = Diagnostic::error("E0410", label.span, "this case stands here twice");
                    self.report(e.also(*first, "here first"));
                }
                seen.push((key, label.span));
            }
            if let Some(body) = &case.body {
                self.block(body);
            }
        }
    }

    fn label(&mut self, label: &'a Expr, on: &Type) {
        let Type::ActionList(table) = on else {
            let own = self.expr_to(label, on);
            if !own.is_bad() && !on.is_bad() {
                self.need_known(label, "the value of a case");
            }
            return;
        };
        let ExprKind::Name { name, .. } = &label.kind else {
            self.error("E0410", label.span, "a case of action_run is the name of an action");
            return;
        };
        let actions = self.actions_of(table.decl);
        let Some((_, id)) = actions.iter().find(|(n, _)| *n == name.text) else {
            let text = format!("`{}` is not an action of table `{}`", name.text, table.name);
            let known: Vec<&str> = actions.iter().map(|(n, _)| n.as_str()).collect();
            let d = Diagnostic::error("E0410", label.span, text)
                .hint(format!("its actions: {}", known.join(", ")));
            self.report(d);
            return;
        };
        self.typed.refs.insert(label.id, Res::Decl(*id));
    }

    /// Whether an expression is a call whose callee passes the test.
    pub(super) fn calls(&self, e: &Expr, test: impl Fn(&Callee) -> bool) -> bool {
        self.typed.call(e.id).is_some_and(|c| test(&c.callee))
    }
}

/// Whether every path through these statements executes a `return` or an `exit`.
pub(super) fn returns(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|s| match &s.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(b) => returns(&b.stmts),
        StmtKind::If { then, otherwise: Some(otherwise), .. } => {
            returns(std::slice::from_ref(then)) && returns(std::slice::from_ref(otherwise))
        }
        StmtKind::Switch { cases, .. } => {
            let default = cases.iter().any(|c| c.is_default());
            default && cases.iter().all(|c| c.body.as_ref().is_none_or(|b| returns(&b.stmts)))
        }
        _ => false,
    })
}
