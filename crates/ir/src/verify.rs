//! The rules of a well-formed program, checked. Only [`verify`] makes a [`Verified`].
//!
//! A fault here is a bug of the front end, never of the P4 programmer: what a programmer can get wrong has a diagnostic.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

use crate::expr::{BinOp, Expr, ExprKind, Place, Ty, UnOp};
use crate::program::{LabelId, Loc, Program, Role, Target, Transition};
use crate::stmt::{Block, Call, HeaderRef, Stmt, StmtKind};
use crate::visit;

/// A program that keeps every rule of the crate's page.
#[derive(Clone, Debug)]
pub struct Verified(Program);

impl Deref for Verified {
    type Target = Program;
    fn deref(&self) -> &Program {
        &self.0
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Where in the P4 source the faulty piece came from.
    pub loc: Loc,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed IR from line {}: {}", self.loc.line, self.what)
    }
}

/// Checks every rule; all faults are reported.
pub fn verify(program: Program) -> Result<Verified, Vec<Fault>> {
    let mut check = Check { p: &program, faults: Vec::new(), loc: Loc::default(), labels: HashSet::new() };
    check.program();
    let faults = check.faults;
    if faults.is_empty() { Ok(Verified(program)) } else { Err(faults) }
}

/// Where a statement stands decides what it may be.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    Parser,
    Match,
    Verify,
    Compute,
    Deparser,
}

struct Check<'a> {
    p: &'a Program,
    faults: Vec<Fault>,
    loc: Loc,
    labels: HashSet<LabelId>,
}

impl Check<'_> {
    fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(Fault { loc: self.loc, what: what.into() });
    }

    fn require(&mut self, holds: bool, what: &str) {
        if !holds {
            self.fault(what);
        }
    }

    fn program(&mut self) {
        self.storage();
        for parser in &self.p.parsers {
            self.block(&parser.prologue, Context::Parser, &mut Vec::new());
            self.target(Target::State(parser.start), parser.states.len());
            for state in &parser.states {
                self.loc = state.loc;
                self.block(&state.body, Context::Parser, &mut Vec::new());
                self.transition(&state.next, parser.states.len());
            }
        }
        for control in &self.p.controls {
            let context = match control.role {
                Role::VerifyChecksum => Context::Verify,
                Role::ComputeChecksum => Context::Compute,
                Role::Deparser | Role::IngressDeparser => Context::Deparser,
                Role::Ingress | Role::PreControl | Role::Egress | Role::Parser | Role::EgressParser => {
                    Context::Match
                }
            };
            self.block(&control.body, context, &mut Vec::new());
        }
        for action in &self.p.actions {
            self.block(&action.body, Context::Match, &mut Vec::new());
        }
        self.tables();
    }

    fn storage(&mut self) {
        for ty in &self.p.header_types {
            let varbits = ty.fields.iter().filter(|f| f.ty.is_varbit()).count();
            self.require(varbits <= 1, "a header type with two varbit fields");
            self.require(ty.min_bits() % 8 == 0, "a header that is not a whole number of bytes");
        }
        for stack in &self.p.stacks {
            let end = stack.first.index() + stack.size as usize;
            self.require(stack.index.index() < self.p.stacks.len(), "a next index of an unknown stack");
            self.require(end <= self.p.headers.len(), "a header stack beyond the headers");
        }
        for header in &self.p.headers {
            self.require(header.ty.index() < self.p.header_types.len(), "a header of an unknown type");
        }
        for var in &self.p.vars {
            self.loc = var.loc;
            self.require(!var.ty.is_varbit(), "a varbit variable");
        }
    }

    fn tables(&mut self) {
        for table in &self.p.tables {
            self.loc = table.loc;
            for key in &table.keys {
                self.expr(&key.expr);
            }
            table.selector.iter().for_each(|key| self.expr(key));
            let profile = table.profile.is_none_or(|id| id.index() < self.p.profiles.len());
            self.require(profile, "a table with an unknown action profile");
            let known = table.actions.iter().all(|a| a.action.index() < self.p.actions.len());
            self.require(known, "a table with an unknown action");
            let calls = table.entries.iter().map(|e| (e.action, &e.args));
            for (index, args) in calls.chain([(table.default.0, &table.default.1)]) {
                let action =
                    table.actions.get(index as usize).and_then(|a| self.p.actions.get(a.action.index()));
                let fits = action.is_some_and(|a| a.params.len() == args.len());
                self.require(fits, "an entry or default action whose arguments do not fit");
            }
            let lens = table.entries.iter().all(|e| e.matches.len() == table.keys.len());
            self.require(lens, "an entry whose key does not fit");
        }
    }

    fn target(&mut self, target: Target, states: usize) {
        if let Target::State(id) = target {
            self.require(id.index() < states, "a transition to an unknown state");
        }
    }

    fn transition(&mut self, next: &Transition, states: usize) {
        match next {
            Transition::Goto(target) => self.target(*target, states),
            Transition::Select(select) => {
                select.keys.iter().for_each(|k| self.expr(k));
                for case in &select.cases {
                    self.target(case.next, states);
                    let fits = match case.value_set {
                        Some(set) => case.sets.is_empty() && set.index() < self.p.value_sets.len(),
                        None => case.sets.len() == select.keys.len(),
                    };
                    self.require(fits, "a select case of another length");
                }
            }
        }
    }

    fn block(&mut self, block: &Block, context: Context, scopes: &mut Vec<LabelId>) {
        for stmt in block {
            self.loc = stmt.loc;
            self.stmt(stmt, context, scopes);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, context: Context, scopes: &mut Vec<LabelId>) {
        visit::operands(stmt, &mut |e| self.expr(e));
        self.allowed(&stmt.kind, context);
        match &stmt.kind {
            StmtKind::Assign { dst, src } => match self.place(dst) {
                Some(ty) => self.require(ty == src.ty, "an assignment between types"),
                None => self.fault("an assignment to nowhere"),
            },
            StmtKind::If { cond, .. } | StmtKind::Verify { cond, .. } => {
                self.require(cond.ty == Ty::Bool, "a condition that is not a bool")
            }
            StmtKind::Break(label) | StmtKind::Continue(label) => {
                self.require(scopes.contains(label), "a break out of a block that does not enclose it")
            }
            StmtKind::Apply { table, .. } => {
                self.require(table.index() < self.p.tables.len(), "an unknown table is applied")
            }
            StmtKind::Drop(site) => {
                self.require(site.index() < self.p.drop_sites.len(), "an unknown drop site")
            }
            StmtKind::Extract { header, varbit } => {
                let has = self.header_type(header).is_some_and(|t| self.p.header_types[t].varbit().is_some());
                self.require(
                    has == varbit.is_some(),
                    "an extraction whose varbit length does not fit its header",
                );
            }
            StmtKind::Call(call) => self.call(call),
            _ => {}
        }
        let label = match &stmt.kind {
            StmtKind::Block { label, .. } | StmtKind::Loop { label, .. } => Some(*label),
            _ => None,
        };
        if let Some(label) = label {
            let fresh = self.labels.insert(label);
            self.require(fresh, "a label that is used twice");
            scopes.push(label);
        }
        for inner in visit::inner_blocks(stmt) {
            self.block(inner, context, scopes);
        }
        if label.is_some() {
            scopes.pop();
        }
    }

    fn allowed(&mut self, kind: &StmtKind, context: Context) {
        let fits = match kind {
            StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. } => context == Context::Parser,
            StmtKind::Emit(_) => context == Context::Deparser,
            StmtKind::Apply { .. } | StmtKind::Drop(_) => context == Context::Match,
            StmtKind::Call(Call::VerifyChecksum { .. }) => context == Context::Verify,
            StmtKind::Call(Call::UpdateChecksum { .. }) => context == Context::Compute,
            _ => true,
        };
        self.require(fits, "a statement in a parser, control or deparser where it has no meaning");
    }

    fn call(&mut self, call: &Call) {
        let known = match call {
            Call::Count { counter, .. } => counter.index() < self.p.counters.len(),
            Call::DirectCount(counter) => counter.index() < self.p.direct_counters.len(),
            Call::RegisterRead { register, .. } | Call::RegisterWrite { register, .. } => {
                register.index() < self.p.registers.len()
            }
            Call::VerifyChecksum { checksum: place, .. } | Call::UpdateChecksum { checksum: place, .. } => {
                self.place(place).is_some()
            }
            Call::Meter { meter, .. } => self.p.meters.get(meter.index()).is_some_and(|m| m.size.is_some()),
            Call::DirectMeter { meter, .. } => {
                self.p.meters.get(meter.index()).is_some_and(|m| m.size.is_none())
            }
            Call::Clone { keep, .. } | Call::Resubmit { keep } | Call::Recirculate { keep } => {
                keep.iter().all(|v| v.index() < self.p.vars.len())
            }
            Call::Digest { fields, data, .. } => fields.len() == data.len(),
            Call::Hash { .. }
            | Call::Random { .. }
            | Call::LogMsg { .. }
            | Call::Assert { .. }
            | Call::SendToPort(_)
            | Call::MirrorPacket { .. }
            | Call::AddEntry { .. }
            | Call::RestartTimer(_)
            | Call::FlowId(_)
            | Call::Truncate(_) => true,
        };
        self.require(known, "a call of an extern that does not exist");
    }

    /// The index of the header's type, if the reference is good.
    fn header_type(&self, header: &HeaderRef) -> Option<usize> {
        let id = match header {
            HeaderRef::Header(id) => *id,
            HeaderRef::Element(s, _) | HeaderRef::Next(s) | HeaderRef::Last(s) => {
                self.p.stacks.get(s.index())?.first
            }
        };
        self.p.headers.get(id.index()).map(|h| h.ty.index())
    }

    fn place(&self, place: &Place) -> Option<Ty> {
        match place {
            Place::Var(id) => self.p.vars.get(id.index()).map(|v| v.ty),
            Place::Field(header, field) => {
                let ty = &self.p.header_types[self.header_type(header)?];
                ty.fields.get(*field as usize).map(|f| f.ty)
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if let Some(problem) = self.expr_problem(expr) {
            self.fault(problem);
        }
        for child in visit::children(expr) {
            self.expr(child);
        }
    }

    fn expr_problem(&self, expr: &Expr) -> Option<&'static str> {
        let bad = match &expr.kind {
            ExprKind::Const(v) => v.width() != expr.ty.width(),
            ExprKind::Read(place) => self.place(place) != Some(expr.ty),
            ExprKind::IsValid(h) => self.header_type(h).is_none() || expr.ty != Ty::Bool,
            ExprKind::NextIndex(s) => s.index() >= self.p.stacks.len() || expr.ty != Ty::Bit(32),
            ExprKind::Unary(UnOp::Not, a) => a.ty != Ty::Bool || expr.ty != Ty::Bool,
            ExprKind::Unary(_, a) => a.ty != expr.ty,
            ExprKind::Binary(op, a, b) => !binary_fits(*op, a.ty, b.ty, expr.ty),
            ExprKind::Cast(a) => a.ty.is_varbit() || expr.ty.is_varbit(),
            ExprKind::Slice { base, hi, lo } => {
                hi < lo || *hi >= base.ty.width() || expr.ty != Ty::Bit(hi - lo + 1)
            }
            ExprKind::Concat(a, b) => a.ty.width() + b.ty.width() != expr.ty.width(),
            ExprKind::Mux(c, a, b) => c.ty != Ty::Bool || a.ty != b.ty || a.ty != expr.ty,
        };
        bad.then_some("an expression whose operands and type do not fit")
    }
}

fn binary_fits(op: BinOp, a: Ty, b: Ty, result: Ty) -> bool {
    match op {
        BinOp::LogAnd | BinOp::LogOr => a == Ty::Bool && b == Ty::Bool && result == Ty::Bool,
        BinOp::Shl | BinOp::Shr => a == result && !b.is_signed(),
        _ if op.is_predicate() => a == b && result == Ty::Bool,
        _ => a == b && a == result,
    }
}
