//! Data-flow analysis: warnings about variables that are read before they are assigned, and about headers that cannot
//! be valid.
//!
//! It only reports what is certain: where paths join, only facts that hold on all of them remain. The body of a loop is
//! walked twice, so that the facts at its end are known at its start.

use std::rc::Rc;

use crate::map::{Map, Set};

use super::{Lint, is_place};
use crate::ast::{
    self, BlockStmt, DeclKind, Direction, Expr, ExprKind, Parameter, ParserDecl, Stmt, StmtKind, Transition,
};
use crate::check::{Arg, Builtin, Callee, DeclId, Kind, Res, Type};
use crate::diag::Diagnostic;

/// The facts at a point of a body. `Option<Known>` is `None` if no path leads there.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Known {
    /// The variables without a value.
    empty: Set<DeclId>,
    /// The headers that are invalid, as `#declaration.member`.
    invalid: Set<Rc<str>>,
}

impl Known {
    fn meet(mut self, other: &Known) -> Known {
        self.empty.retain(|id| other.empty.contains(id));
        self.invalid.retain(|path| other.invalid.contains(path));
        self
    }

    /// Removes the facts about an lvalue and its parts, because it is written.
    fn touch(&mut self, path: &str) {
        let under = |p: &str, q: &str| p.strip_prefix(q).is_some_and(|r| r.is_empty() || r.starts_with('.'));
        self.invalid.retain(|p| !under(p, path) && !under(path, p));
        if let Some(id) =
            path.strip_prefix('#').and_then(|p| p.split('.').next()).and_then(|n| n.parse().ok())
        {
            self.empty.remove(&DeclId(id));
        }
    }
}

fn join(a: Option<Known>, b: Option<Known>) -> Option<Known> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.meet(&b)),
        (a, b) => a.or(b),
    }
}

impl<'a> Lint<'_, 'a> {
    /// Analyses the body of a control, action or function.
    pub(super) fn body(&mut self, params: &'a [Parameter], stmts: &'a [Stmt]) {
        let known = Some(self.at_start(params, false));
        self.block(stmts, known);
    }

    /// Analyses a parser. The states are walked until the facts at their starts do not change; then they are walked
    /// again, with reports.
    pub(super) fn parser(&mut self, p: &'a ParserDecl) {
        let mut entry: Map<&str, Known> = Map::from_iter([("start", self.at_start(&p.head.params, true))]);
        let diags = std::mem::take(&mut self.diags);
        let mut open = vec!["start"];
        while let Some(name) = open.pop() {
            let Some(s) = p.states.iter().find(|s| s.name.text == name) else { continue };
            let Some(out) = self.state(s, entry[name].clone()) else { continue };
            for to in s.targets() {
                let new = match entry.get(to) {
                    Some(old) => old.clone().meet(&out),
                    None => out.clone(),
                };
                if entry.get(to) != Some(&new) {
                    entry.insert(to, new);
                    open.extend(Some(to).filter(|to| !open.contains(to)));
                }
            }
        }
        self.diags = diags;
        for s in &p.states {
            if let Some(known) = entry.get(s.name.text.as_str()) {
                self.state(s, known.clone());
            }
        }
    }

    fn state(&mut self, s: &'a ast::StateDecl, known: Known) -> Option<Known> {
        let mut out = self.block(&s.body, Some(known));
        if let (Some(Transition::Select { keys, .. }), Some(known)) = (&s.transition, &mut out) {
            keys.iter().for_each(|k| self.read(k, known));
        }
        out
    }

    /// The facts at the start of a body: `out` parameters have no value, and their headers are invalid (section 6.8).
    fn at_start(&self, params: &'a [Parameter], headers: bool) -> Known {
        let mut known = Known::default();
        for p in params.iter().filter(|p| p.direction == Direction::Out) {
            let Some(d) = self.typed.decl(p.id) else { continue };
            match &d.ty {
                t if t.scalar_width().is_some() || *t == Type::Bool => drop(known.empty.insert(p.id)),
                t if headers => self.headers(&format!("#{}", p.id.0), t, &mut known.invalid),
                _ => {}
            }
        }
        known
    }

    /// Collects the headers in a value.
    fn headers(&self, path: &str, ty: &Type, out: &mut Set<Rc<str>>) {
        match ty {
            Type::Header(_) | Type::Union(_) => drop(out.insert(path.into())),
            Type::Struct(_) => {
                for (name, ty, _) in self.typed.fields(ty) {
                    self.headers(&format!("{path}.{name}"), &ty, out);
                }
            }
            _ => {}
        }
    }

    fn block(&mut self, stmts: &'a [Stmt], mut known: Option<Known>) -> Option<Known> {
        for s in stmts {
            known = match known {
                Some(known) => self.stmt(s, known),
                None => {
                    self.never(s.span);
                    return None;
                }
            };
        }
        known
    }

    fn stmt(&mut self, s: &'a Stmt, mut known: Known) -> Option<Known> {
        match &s.kind {
            StmtKind::Decl(d) => self.variable(d, &mut known),
            StmtKind::Assign { target, op, value } => {
                self.read(value, &mut known);
                if op.is_some() {
                    self.read(target, &mut known);
                }
                self.write(target, value, &mut known);
            }
            StmtKind::Call(e) => self.read(e, &mut known),
            StmtKind::DirectApply { args, .. } => {
                args.iter()
                    .filter_map(|a| a.value.as_ref())
                    .for_each(|v| self.pass(v, true, true, &mut known));
            }
            StmtKind::If { cond, then, otherwise } => {
                self.read(cond, &mut known);
                let mut yes = known.clone();
                self.asked(cond, &mut yes);
                let yes = self.stmt(then, yes);
                let no = match otherwise {
                    Some(o) => self.stmt(o, known),
                    None => Some(known),
                };
                return join(yes, no);
            }
            StmtKind::Switch { on, cases } => {
                self.read(on, &mut known);
                let mut out = None;
                for body in cases.iter().filter_map(|c| c.body.as_ref()) {
                    out = join(out, self.block(&body.stmts, Some(known.clone())));
                }
                let all = cases.iter().any(|c| c.is_default());
                return if all { out } else { join(out, Some(known)) };
            }
            StmtKind::Block(BlockStmt { stmts, .. }) => return self.block(stmts, Some(known)),
            StmtKind::For { init, cond, update, body, .. } => {
                let mut known = self.block(init, Some(known))?;
                self.read(cond, &mut known);
                let steps: Vec<&'a Stmt> = [&**body].into_iter().chain(update).collect();
                return self.looped(&steps, known);
            }
            StmtKind::ForIn { over, body, .. } => {
                self.read(over, &mut known);
                return self.looped(&[body], known);
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.read(value, &mut known);
                }
                return None;
            }
            StmtKind::Exit | StmtKind::Break | StmtKind::Continue => return None,
            StmtKind::Empty => {}
        }
        Some(known)
    }

    fn looped(&mut self, steps: &[&'a Stmt], known: Known) -> Option<Known> {
        let diags = std::mem::take(&mut self.diags);
        let mut first = Some(known.clone());
        for s in steps {
            first = first.and_then(|k| self.stmt(s, k));
        }
        self.diags = diags;
        let mut round = join(Some(known.clone()), first);
        for s in steps {
            round = round.and_then(|k| self.stmt(s, k));
        }
        join(Some(known), round)
    }

    fn variable(&mut self, d: &'a ast::Decl, known: &mut Known) {
        let DeclKind::Variable { init, .. } = &d.kind else { return };
        let Some(ty) = self.typed.decl(d.id).map(|d| d.ty.clone()) else { return };
        let path = format!("#{}", d.id.0);
        match init {
            Some(value) => {
                self.read(value, known);
                if matches!(value.kind, ExprKind::InvalidHeader) {
                    self.headers(&path, &ty, &mut known.invalid);
                }
            }
            None if ty.scalar_width().is_some() || ty == Type::Bool => drop(known.empty.insert(d.id)),
            None => self.headers(&path, &ty, &mut known.invalid),
        }
    }

    fn write(&mut self, target: &'a Expr, value: &'a Expr, known: &mut Known) {
        let Some(path) = self.path(target) else { return };
        // Writing a field of an invalid header leaves the header invalid.
        let header = match &target.kind {
            ExprKind::Member { base, .. } => self.typed.own_ty(base.id).is_header_like(),
            _ => false,
        };
        if header && !self.typed.own_ty(target.id).is_header_like() {
            return;
        }
        known.touch(&path);
        if matches!(value.kind, ExprKind::InvalidHeader) {
            known.invalid.insert(path.into());
        }
    }

    /// Removes facts in the branch of a condition that tests the validity of a header.
    fn asked(&self, cond: &'a Expr, known: &mut Known) {
        match &cond.kind {
            ExprKind::Call { callee, .. } => {
                if let ExprKind::Member { base, member } = &callee.kind
                    && member.text == "isValid"
                    && let Some(path) = self.path(base)
                {
                    known.touch(&path);
                }
            }
            ExprKind::Binary { left, right, .. } => {
                self.asked(left, known);
                self.asked(right, known);
            }
            ExprKind::Unary { operand, .. } => self.asked(operand, known),
            _ => {}
        }
    }

    /// Analyses the evaluation of an expression.
    fn read(&mut self, e: &'a Expr, known: &mut Known) {
        match &e.kind {
            ExprKind::Name { name, .. }
                if self.typed.resolved(e.id).is_some_and(|id| known.empty.contains(&id)) =>
            {
                let text = format!("`{}` is read before it has a value", name.text);
                let w = Diagnostic::warning("W0602", e.span, text);
                let hint = "its value is undefined here (section 6.7); initialise it where it is declared";
                self.say(w.hint(hint));
            }
            ExprKind::Member { base, .. } => {
                let header = matches!(self.typed.own_ty(base.id), Type::Header(_));
                if header && self.path(base).is_some_and(|path| known.invalid.contains(&*path)) {
                    let text = format!("`{}` is not valid here", self.map.text(base.span));
                    let w = Diagnostic::warning("W0603", e.span, text);
                    self.say(w.hint("a field of an invalid header has no value (section 8.17)"));
                }
                if !is_place(base) {
                    self.read(base, known);
                }
            }
            ExprKind::Index { base, index } => {
                self.read(index, known);
                self.read(base, known);
            }
            ExprKind::Slice { base, .. } => self.read(base, known),
            ExprKind::Unary { operand, .. } | ExprKind::Cast { operand, .. } => self.read(operand, known),
            ExprKind::Binary { op, left, right } => {
                self.read(left, known);
                let mut inner = known.clone();
                if matches!(op, ast::BinaryOp::And) {
                    self.asked(left, &mut inner);
                }
                self.read(right, &mut inner);
            }
            ExprKind::Ternary { cond, yes, no } => {
                self.read(cond, known);
                let mut inner = known.clone();
                self.asked(cond, &mut inner);
                self.read(yes, &mut inner);
                self.read(no, known);
            }
            ExprKind::List { items, .. } => items.iter().for_each(|i| self.read(i, known)),
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|(_, v)| self.read(v, known)),
            ExprKind::Call { callee, .. } => self.call(e, callee, known),
            ExprKind::Name { .. }
            | ExprKind::Number { .. }
            | ExprKind::String(_)
            | ExprKind::Bool(_)
            | ExprKind::This
            | ExprKind::DefaultValue
            | ExprKind::DontCare
            | ExprKind::Default
            | ExprKind::Type(_)
            | ExprKind::InvalidHeader
            | ExprKind::Error => {}
        }
    }

    fn call(&mut self, e: &'a Expr, callee: &'a Expr, known: &mut Known) {
        let Some(call) = self.typed.call(e.id).cloned() else { return };
        if let (Callee::Builtin(builtin), ExprKind::Member { base, .. }) = (&call.callee, &callee.kind)
            && let Some(path) = self.path(base)
        {
            match builtin {
                Builtin::SetInvalid => {
                    known.touch(&path);
                    known.invalid.insert(path.into());
                }
                Builtin::SetValid
                | Builtin::PushFront
                | Builtin::PopFront
                | Builtin::Next
                | Builtin::Last => {
                    known.touch(&path);
                }
                Builtin::IsValid
                | Builtin::LastIndex
                | Builtin::Size
                | Builtin::Hit
                | Builtin::Miss
                | Builtin::ActionRun
                | Builtin::MinSizeInBits
                | Builtin::MinSizeInBytes
                | Builtin::MaxSizeInBits
                | Builtin::MaxSizeInBytes => {}
            }
            return;
        }
        for (param, arg) in &call.args {
            let Arg::Given(value) = arg else { continue };
            let direction = self.typed.decl(*param).map_or(Direction::In, |p| p.direction);
            let (reads, writes) = match direction {
                Direction::Out => (false, true),
                Direction::InOut => (true, true),
                Direction::In | Direction::None => (true, false),
            };
            self.pass(value, reads, writes, known);
        }
        // The side effects of the program's own actions and methods are not analysed.
        if matches!(call.callee, Callee::Function(f) if self.typed.decl(f).is_some_and(|d| d.kind == Kind::Action))
        {
            known.empty.clear();
            known.invalid.clear();
        }
    }

    fn pass(&mut self, value: &'a Expr, reads: bool, writes: bool, known: &mut Known) {
        // A struct or header may be passed although it has no value.
        let whole = self.typed.own_ty(value.id).has_fields();
        if reads && !whole {
            self.read(value, known);
        }
        if let Some(path) = self.path(value).filter(|_| writes) {
            known.touch(&path);
        }
    }

    /// The path of an lvalue. All elements of a stack have the same path.
    fn path(&self, e: &'a Expr) -> Option<String> {
        match &e.kind {
            ExprKind::Name { .. } => Some(format!("#{}", self.typed.resolved(e.id)?.0)),
            ExprKind::Member { base, member } => match self.typed.res(e.id) {
                Some(Res::Builtin(_)) => self.path(base),
                _ => Some(format!("{}.{}", self.path(base)?, member.text)),
            },
            ExprKind::Index { base, .. } | ExprKind::Slice { base, .. } => self.path(base),
            _ => None,
        }
    }
}
