//! Copy-in and copy-out (section 6.8), where it can be told from handing over the argument itself.
//!
//! An `out` or `inout` parameter is a variable of its own: written back when the call ends, so that nobody else sees it
//! change before. Targets copy less where the argument itself stands for it, and that is so unless the callee can reach the
//! argument by another way: through another argument, or (an action) by a name that it sees.

use std::collections::HashSet;

use ir::{Expr, HeaderRef, Place, StmtKind as Ir};

use super::scope::{Binding, Env};
use super::types::{Store, T, Val};
use super::{Lower, Res};
use crate::ast::{self, Direction, ExprKind, StmtKind};
use crate::source::Span;

/// What is written when a call ends.
#[derive(Clone)]
pub struct CopyOut {
    target: Target,
    from: Store,
}

/// What an `out` argument is.
#[derive(Clone)]
enum Target {
    Store(Store),
    /// Bits `hi` to `lo` of a number.
    Slice(Place, T, u32, u32),
}

impl<'a> Lower<'a, '_> {
    /// Binds an `out` or `inout` parameter: to the argument, or to a copy that is to be written back.
    pub(super) fn out_param(
        &mut self,
        param: &'a ast::Parameter,
        e: &'a ast::Expr,
        ty: &T,
        env: &Env<'a>,
        reachable: bool,
    ) -> Res<(Store, Option<CopyOut>)> {
        if let ExprKind::Slice { base, hi, lo } = &e.kind {
            let (place, whole, hi, lo) = self.slice_place(base, hi, lo, env)?;
            return self.copied(param, Target::Slice(place, whole, hi, lo), ty, e.span);
        }
        let store = self.lvalue(e, env)?;
        let store = self.pinned(store);
        if store.ty() != *ty {
            let message = format!("expected {ty}, found {}", store.ty());
            let d = crate::diag::Diagnostic::error("E0503", e.span, message);
            return self.report(d.also(param.span, "the parameter"));
        }
        if reachable {
            return self.copied(param, Target::Store(store), ty, e.span);
        }
        if param.direction == Direction::Out {
            // A header that comes out was invalid when it went in (section 6.8).
            self.invalidate(&store);
        }
        Ok((store, None))
    }

    fn copied(
        &mut self,
        param: &ast::Parameter,
        target: Target,
        ty: &T,
        span: Span,
    ) -> Res<(Store, Option<CopyOut>)> {
        let copy = self.storage(&param.name.text, ty, span)?;
        match (&target, param.direction) {
            (_, Direction::Out) => self.invalidate(&copy),
            (Target::Store(store), _) => self.assign_val(&copy, Val::Store(store.clone()), span)?,
            (Target::Slice(place, whole, hi, lo), _) => {
                let (e, _) = self.read(place.clone(), whole.clone());
                let val = Val::Scalar(super::fold::slice(e, *hi, *lo), ty.clone());
                self.assign_val(&copy, val, span)?;
            }
        }
        Ok((copy.clone(), Some(CopyOut { target, from: copy })))
    }

    /// An instance whose parameter is bound to `first`, its first argument, is applied to another one: `first` stands in for it,
    /// and gets its own value again in the end.
    pub(super) fn stand_in(
        &mut self,
        param: &ast::Parameter,
        first: &Store,
        other: &Store,
        span: Span,
    ) -> Res<[CopyOut; 2]> {
        let saved = self.storage("$saved", &first.ty(), span)?;
        self.assign_val(&saved, Val::Store(first.clone()), span)?;
        match param.direction {
            Direction::Out => self.invalidate(first),
            _ => self.assign_val(first, Val::Store(other.clone()), span)?,
        }
        let back = CopyOut { target: Target::Store(other.clone()), from: first.clone() };
        Ok([back, CopyOut { target: Target::Store(first.clone()), from: saved }])
    }

    /// Writes copies back, in the order of the parameters.
    pub(super) fn copy_out(&mut self, copies: &[CopyOut], span: Span) -> Res<()> {
        for copy in copies {
            match &copy.target {
                Target::Store(store) => self.assign_val(store, Val::Store(copy.from.clone()), span)?,
                Target::Slice(place, ty, hi, lo) => {
                    let Val::Scalar(new, _) = self.loaded(Val::Store(copy.from.clone())) else {
                        return Err(super::Failed);
                    };
                    self.write_slice(place.clone(), ty.clone(), *hi, *lo, new);
                }
            }
        }
        Ok(())
    }

    /// An element of a stack keeps the index that it was named with, whatever happens to the index's variables.
    pub(super) fn pinned(&mut self, store: Store) -> Store {
        let pin = |l: &mut Self, h: HeaderRef| match h {
            HeaderRef::Element(stack, index) if index.as_const().is_none() => {
                let var = l.var("$index", index.ty, ir::VarKind::Local);
                let ty = index.ty;
                l.push(Ir::Assign { dst: Place::Var(var), src: *index });
                HeaderRef::Element(stack, Box::new(Expr::read(Place::Var(var), ty)))
            }
            other => other,
        };
        match store {
            Store::Scalar(Place::Field(h, field), ty) => Store::Scalar(Place::Field(pin(self, h), field), ty),
            Store::Header(h, s) => Store::Header(pin(self, h), s),
            other => other,
        }
    }

    /// A value that was met before the statements from `position` of the current block on: they may change what it
    /// reads, so it is read before them.
    pub(super) fn read_before(&mut self, position: usize, val: Val, span: Span) -> Res<Val> {
        let behind = match self.blocks.last_mut() {
            Some(block) if block.get(position..).is_some_and(|b| disturbs(b, &val)) => {
                block.split_off(position)
            }
            _ => return Ok(val),
        };
        let held = match (val.ty(), &val) {
            (Some(_), Val::Scalar(e, _)) if e.as_const().is_some() => Ok(val),
            (Some(ty), Val::Scalar(..) | Val::Store(_)) => {
                self.storage("$before", &ty, span).and_then(|copy| {
                    self.assign_val(&copy, val, span)?;
                    Ok(self.loaded(Val::Store(copy)))
                })
            }
            _ => Ok(val),
        };
        if let Some(block) = self.blocks.last_mut() {
            block.extend(behind);
        }
        held
    }

    /// How long the current block is, for [`Lower::read_before`].
    pub(super) fn position(&self) -> usize {
        self.blocks.last().map_or(0, Vec::len)
    }

    /// For each parameter, whether its `out` or `inout` argument can be reached by another way in the callee: by another such
    /// argument, or by a name that `body` mentions.
    pub(super) fn reachable(
        &mut self,
        params: &[ast::Parameter],
        args: &[Option<&'a ast::Argument>],
        body: Option<(&'a ast::BlockStmt, &Env<'a>)>,
    ) -> Vec<bool> {
        let out = |p: &ast::Parameter| matches!(p.direction, Direction::Out | Direction::InOut);
        let path = |a: &Option<&'a ast::Argument>| a.and_then(|a| a.value.as_ref()).and_then(path);
        let paths: Vec<_> = params.iter().zip(args).map(|(p, a)| out(p).then(|| path(a)).flatten()).collect();
        let mentioned = body.map(|(body, home)| self.mentioned(body, home)).unwrap_or_default();
        let overlap = |i: usize| {
            let Some(one) = &paths[i] else { return false };
            paths.iter().enumerate().any(|(j, other)| {
                j != i && other.as_ref().is_some_and(|o| one.iter().zip(o).all(|(a, b)| a == b))
            }) || mentioned.contains(one[0])
        };
        (0..params.len()).map(overlap).collect()
    }

    /// All names in the body of an action, and in those of actions that it calls.
    fn mentioned(&self, body: &'a ast::BlockStmt, home: &Env<'a>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        let mut bodies = vec![(body, home.clone())];
        while let Some((body, home)) = bodies.pop() {
            let mut fresh = HashSet::new();
            body.stmts.iter().for_each(|s| stmt_names(s, &mut fresh));
            for name in fresh {
                if names.insert(name)
                    && let Some(Binding::Action(decl, home)) = home.get(name)
                    && let ast::DeclKind::Action { body, .. } = &decl.kind
                {
                    bodies.push((body, home));
                }
            }
        }
        names
    }

    /// Replaces bits of a number.
    pub(super) fn write_slice(&mut self, place: Place, ty: T, hi: u32, lo: u32, new: Expr) {
        use super::fold;
        let (whole, _) = self.read(place.clone(), ty);
        let width = whole.ty.width();
        let mut new = new;
        if hi + 1 < width {
            new = fold::concat(fold::slice(whole.clone(), width - 1, hi + 1), new);
        }
        if lo > 0 {
            new = fold::concat(new, fold::slice(whole.clone(), lo - 1, 0));
        }
        self.push(Ir::Assign { dst: place, src: fold::cast(new, whole.ty) });
    }
}

/// Whether statements may write what a value reads.
fn disturbs(behind: &[ir::Stmt], val: &Val) -> bool {
    let mut reads = Vec::new();
    match val {
        Val::Scalar(e, _) => ir::visit::exprs(e, &mut |e| match &e.kind {
            ir::ExprKind::Read(place) => reads.push(root(place)),
            ir::ExprKind::IsValid(h) => reads.push(root_of_header(h)),
            ir::ExprKind::NextIndex(_) => reads.push(Root::Any),
            _ => {}
        }),
        Val::Store(store) => roots(store, &mut reads),
        _ => return false,
    }
    let hit = |writes: Root| reads.iter().any(|r| *r == writes || *r == Root::Any || writes == Root::Any);
    let mut found = false;
    for stmt in behind {
        found |= match &stmt.kind {
            Ir::Assign { dst, .. } => hit(root(dst)),
            Ir::CopyHeader { dst: h, .. } | Ir::SetValid(h) | Ir::SetInvalid(h) => hit(root_of_header(h)),
            // Others are rare enough to be all alike.
            _ => true,
        };
    }
    found
}

/// What a place belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Root {
    Var(ir::VarId),
    Header(ir::HeaderId),
    Any,
}

fn root(place: &Place) -> Root {
    match place {
        Place::Var(var) => Root::Var(*var),
        Place::Field(h, _) => root_of_header(h),
    }
}

fn root_of_header(h: &HeaderRef) -> Root {
    match h {
        HeaderRef::Header(id) => Root::Header(*id),
        _ => Root::Any,
    }
}

fn roots(store: &Store, out: &mut Vec<Root>) {
    match store {
        Store::Scalar(place, _) => out.push(root(place)),
        Store::Header(h, _) => out.push(root_of_header(h)),
        Store::Struct(_, parts) | Store::Tuple(parts) | Store::Union(_, parts) => {
            parts.iter().for_each(|p| roots(p, out));
        }
        Store::Stack(..) | Store::UnionStack(..) => out.push(Root::Any),
    }
}

/// `a.b.c` as its names; what is behind an index is left out, since any element may be meant.
fn path(e: &ast::Expr) -> Option<Vec<&str>> {
    match &e.kind {
        ExprKind::Name { name, .. } => Some(vec![&name.text]),
        ExprKind::Member { base, member } => {
            let mut names = path(base)?;
            if !matches!(base.kind, ExprKind::Index { .. }) && !names.contains(&"[]") {
                names.push(&member.text);
            }
            Some(names)
        }
        ExprKind::Index { base, .. } => {
            let mut names = path(base)?;
            names.push("[]");
            Some(names)
        }
        ExprKind::Slice { base, .. } => path(base),
        _ => None,
    }
}

fn stmt_names<'a>(stmt: &'a ast::Stmt, out: &mut HashSet<&'a str>) {
    let block = |b: &'a ast::BlockStmt, out: &mut HashSet<&'a str>| {
        b.stmts.iter().for_each(|s| stmt_names(s, out));
    };
    match &stmt.kind {
        StmtKind::Empty | StmtKind::Break | StmtKind::Continue | StmtKind::Exit | StmtKind::Return(None) => {}
        StmtKind::Decl(d) => match &d.kind {
            ast::DeclKind::Const { value, .. } => expr_names(value, out),
            ast::DeclKind::Variable { init, .. } => init.iter().for_each(|e| expr_names(e, out)),
            _ => {}
        },
        StmtKind::Assign { target, value, .. } => {
            expr_names(target, out);
            expr_names(value, out);
        }
        StmtKind::Call(e) | StmtKind::Return(Some(e)) => expr_names(e, out),
        StmtKind::DirectApply { args, .. } => arg_names(args, out),
        StmtKind::If { cond, then, otherwise } => {
            expr_names(cond, out);
            stmt_names(then, out);
            otherwise.iter().for_each(|s| stmt_names(s, out));
        }
        StmtKind::Switch { on, cases } => {
            expr_names(on, out);
            for case in cases {
                case.label.iter().for_each(|e| expr_names(e, out));
                case.body.iter().for_each(|b| block(b, out));
            }
        }
        StmtKind::Block(b) => block(b, out),
        StmtKind::For { init, cond, update, body, .. } => {
            init.iter().chain(update).for_each(|s| stmt_names(s, out));
            expr_names(cond, out);
            stmt_names(body, out);
        }
        StmtKind::ForIn { over, body, .. } => {
            expr_names(over, out);
            stmt_names(body, out);
        }
    }
}

fn arg_names<'a>(args: &'a [ast::Argument], out: &mut HashSet<&'a str>) {
    args.iter().filter_map(|a| a.value.as_ref()).for_each(|e| expr_names(e, out));
}

fn expr_names<'a>(e: &'a ast::Expr, out: &mut HashSet<&'a str>) {
    match &e.kind {
        ExprKind::Name { name, .. } => drop(out.insert(&name.text)),
        ExprKind::Member { base, .. } => expr_names(base, out),
        ExprKind::Index { base, index } => {
            expr_names(base, out);
            expr_names(index, out);
        }
        ExprKind::Slice { base, hi, lo } => [base, hi, lo].into_iter().for_each(|e| expr_names(e, out)),
        ExprKind::Call { callee, args, .. } => {
            expr_names(callee, out);
            arg_names(args, out);
        }
        ExprKind::Unary { operand, .. } | ExprKind::Cast { operand, .. } => expr_names(operand, out),
        ExprKind::Binary { left, right, .. } => {
            expr_names(left, out);
            expr_names(right, out);
        }
        ExprKind::Ternary { cond, yes, no } => [cond, yes, no].into_iter().for_each(|e| expr_names(e, out)),
        ExprKind::List { items, .. } => items.iter().for_each(|e| expr_names(e, out)),
        ExprKind::Struct { fields, .. } => fields.iter().for_each(|(_, e)| expr_names(e, out)),
        ExprKind::Number { .. }
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
