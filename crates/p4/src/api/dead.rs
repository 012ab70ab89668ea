//! Code that is unreachable because of a compile-time known condition. The control plane's view leaves out what is only
//! used there, as p4c does.

use super::Walk;
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::source::Span;

impl<'a> Walk<'_, 'a> {
    /// Collects the unreachable statements. Returns whether the end of the list is reachable.
    pub(super) fn dead(&self, stmts: &'a [Stmt], out: &mut Vec<Span>) -> bool {
        for (i, s) in stmts.iter().enumerate() {
            if !self.dead_in(s, out) {
                out.extend(stmts[i + 1..].iter().map(|s| s.span));
                return false;
            }
        }
        true
    }

    fn dead_in(&self, s: &'a Stmt, out: &mut Vec<Span>) -> bool {
        match &s.kind {
            StmtKind::Exit | StmtKind::Return(_) => false,
            StmtKind::Block(b) => self.dead(&b.stmts, out),
            StmtKind::If { cond, then, otherwise } => {
                let known = self.typed.value(cond.id).and_then(|v| v.as_bool());
                if known == Some(false) {
                    out.push(then.span);
                }
                if let (Some(true), Some(otherwise)) = (known, otherwise) {
                    out.push(otherwise.span);
                }
                let one = self.dead_in(then, out) && known != Some(false);
                let other = otherwise.as_ref().is_none_or(|o| self.dead_in(o, out)) && known != Some(true);
                one || other
            }
            StmtKind::Assign { value, .. } => {
                self.dead_choice(value, out);
                true
            }
            _ => true,
        }
    }

    fn dead_choice(&self, e: &'a Expr, out: &mut Vec<Span>) {
        if let ExprKind::Ternary { cond, yes, no } = &e.kind {
            match self.typed.value(cond.id).and_then(|v| v.as_bool()) {
                Some(true) => out.push(no.span),
                Some(false) => out.push(yes.span),
                None => {}
            }
        }
    }
}
