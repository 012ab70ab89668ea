//! The rules for statements, except for calls of externs.

use std::collections::HashSet;

use super::{Check, Context, Rule, Scope};
use crate::expr::{Place, Ty};
use crate::program::{LabelId, StackId, TableId, VarId};
use crate::stmt::{Block, Call, Stmt, StmtKind};
use crate::visit;

impl Check<'_> {
    pub(super) fn block(&mut self, block: &Block, scopes: &mut Vec<Scope>) {
        for stmt in block {
            self.loc = stmt.loc;
            self.stmt(stmt, scopes);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, scopes: &mut Vec<Scope>) {
        visit::operands(stmt, &mut |e| self.expr(e));
        self.right_block(&stmt.kind);
        let mut scope = None;
        match &stmt.kind {
            StmtKind::Assign { dst, src } => {
                if let Some(ty) = self.place(dst) {
                    self.require(ty == src.ty, Rule::AssignTypes);
                }
            }
            StmtKind::CopyHeader { dst, src } => {
                self.header(dst);
                self.header(src);
                let same = self.header_type(dst) == self.header_type(src);
                self.require(same, Rule::CopyTypes);
            }
            StmtKind::CopyStack { dst, src } => self.copy_stack(*dst, *src),
            StmtKind::SetValid(h) | StmtKind::SetInvalid(h) | StmtKind::Emit(h) => self.header(h),
            StmtKind::PushFront(s, _) | StmtKind::PopFront(s, _) => {
                self.require(s.index() < self.p.stacks.len(), Rule::KnownHeader);
            }
            StmtKind::If { cond, then: _, otherwise: _ } => self.condition(cond),
            StmtKind::Switch { on, arms, default: _ } => self.switch(on.ty, arms),
            StmtKind::Block { label, body: _ } => scope = Some(Scope { label: *label, is_loop: false }),
            StmtKind::Loop { label, bound: _, body: _ } => {
                scope = Some(Scope { label: *label, is_loop: true })
            }
            StmtKind::Atomic(_) => {}
            StmtKind::Break(label) => {
                self.require(scopes.iter().any(|s| s.label == *label), Rule::EnclosingLabel)
            }
            StmtKind::Continue(label) => {
                let target = Scope { label: *label, is_loop: true };
                self.require(scopes.contains(&target), Rule::EnclosingLabel);
            }
            StmtKind::Apply { table, hit, action } => self.apply(*table, *hit, *action),
            StmtKind::Drop(site) => self.require(site.index() < self.p.drop_sites.len(), Rule::KnownDropSite),
            StmtKind::Extract { header, varbit } => {
                self.header(header);
                let ty = self.header_type(header).map(|t| &self.p.header_types[t.index()]);
                let fits = ty.is_none_or(|t| t.varbit().is_some() == varbit.is_some());
                self.require(fits, Rule::VarbitLength);
                self.require(varbit.iter().all(|e| e.ty == Ty::Bit(32)), Rule::BitCount);
            }
            StmtKind::Lookahead { dst } => {
                let ty = self.place(dst);
                self.require(ty.is_none_or(|t| !t.is_varbit()), Rule::LookaheadType);
            }
            StmtKind::Advance(bits) => self.require(bits.ty == Ty::Bit(32), Rule::BitCount),
            StmtKind::Verify { cond, error } => {
                self.condition(cond);
                self.require(error.index() < self.p.errors.len(), Rule::KnownError);
            }
            StmtKind::Call(call) => self.call(call),
        }
        if let Some(Scope { label, .. }) = scope {
            let fresh = self.labels.insert(label) && label < LabelId(self.p.labels);
            self.require(fresh, Rule::FreshLabel);
        }
        scopes.extend(scope);
        for inner in visit::inner_blocks(stmt) {
            self.block(inner, scopes);
        }
        if scope.is_some() {
            scopes.pop();
        }
    }

    fn copy_stack(&mut self, dst: StackId, src: StackId) {
        let shape = |s: StackId| {
            let stack = self.p.stacks.get(s.index())?;
            Some((stack.size, self.p.headers.get(stack.first.index())?.ty))
        };
        let (to, from) = (shape(dst), shape(src));
        self.require(to.is_some() && from.is_some(), Rule::KnownHeader);
        self.require(to == from, Rule::CopyTypes);
    }

    fn switch(&mut self, on: Ty, arms: &[(Vec<abi::Bits>, Block)]) {
        let mut seen = HashSet::new();
        let labels = arms.iter().flat_map(|(values, _)| values);
        let fit = labels.fold(true, |fit, v| (v.width() == on.width()) & seen.insert(v) & fit);
        self.require(fit, Rule::SwitchLabels);
    }

    fn apply(&mut self, table: TableId, hit: Option<VarId>, action: Option<VarId>) {
        self.require(table.index() < self.p.tables.len(), Rule::KnownTable);
        self.require(!matches!(self.context, Context::Action(_)), Rule::NoApplyInAction);
        let is = |v: VarId, ty: Ty| self.place_type(&Place::Var(v)) == Some(ty);
        let fit = hit.is_none_or(|v| is(v, Ty::Bool)) && action.is_none_or(|v| is(v, Ty::Bit(32)));
        self.require(fit, Rule::ApplyResults);
    }

    fn right_block(&mut self, kind: &StmtKind) {
        let fits = match kind {
            StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. } => self.context == Context::Parser,
            StmtKind::Emit(_) => self.context == Context::Deparser,
            StmtKind::Apply { .. } => matches!(self.context, Context::Match | Context::Action(_)),
            StmtKind::Call(Call::VerifyChecksum { .. }) => self.context == Context::Verify,
            StmtKind::Call(Call::UpdateChecksum { .. }) => self.context == Context::Compute,
            StmtKind::Assign { .. }
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
            | StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::Block { .. }
            | StmtKind::Atomic(_)
            | StmtKind::Loop { .. }
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Drop(_)
            | StmtKind::Call(_) => true,
        };
        self.require(fits, Rule::RightBlock);
    }
}
