//! Visitors for the statements of a block and the expressions of a statement.

use crate::expr::{Expr, ExprKind, Place};
use crate::program::{Program, Transition};
use crate::stmt::{Block, Call, HeaderRef, Stmt, StmtKind};

/// Calls `f` for each statement of a block and of the blocks in it, outer ones first.
pub fn stmts<'a>(block: &'a [Stmt], f: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in inner_blocks(stmt) {
            stmts(inner, f);
        }
    }
}

/// The blocks inside of a statement.
pub fn inner_blocks(stmt: &Stmt) -> Vec<&Block> {
    match &stmt.kind {
        StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
        StmtKind::Switch { arms, default, .. } => arms.iter().map(|(_, b)| b).chain([default]).collect(),
        StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Atomic(body) => vec![body],
        StmtKind::Assign { .. }
        | StmtKind::CopyHeader { .. }
        | StmtKind::CopyStack { .. }
        | StmtKind::SetValid(_)
        | StmtKind::SetInvalid(_)
        | StmtKind::PushFront(..)
        | StmtKind::PopFront(..)
        | StmtKind::Break(_)
        | StmtKind::Continue(_)
        | StmtKind::Apply { .. }
        | StmtKind::Drop(_)
        | StmtKind::Extract { .. }
        | StmtKind::Lookahead { .. }
        | StmtKind::Advance(_)
        | StmtKind::Verify { .. }
        | StmtKind::Emit(_)
        | StmtKind::Call(_) => Vec::new(),
    }
}

/// Calls `f` for each expression of the statement itself, including the indexes in its places, but not for those of inner blocks. It does
/// not visit sub-expressions; [`exprs`] does.
pub fn operands<'a>(stmt: &'a Stmt, f: &mut impl FnMut(&'a Expr)) {
    match &stmt.kind {
        StmtKind::Assign { dst, src } => {
            place_operands(dst, f);
            f(src);
        }
        StmtKind::CopyHeader { dst, src } => {
            header_operands(dst, f);
            header_operands(src, f);
        }
        StmtKind::SetValid(h) | StmtKind::SetInvalid(h) | StmtKind::Emit(h) => header_operands(h, f),
        StmtKind::If { cond, .. } | StmtKind::Verify { cond, .. } => f(cond),
        StmtKind::Switch { on, .. } => f(on),
        StmtKind::Extract { header, varbit } => {
            header_operands(header, f);
            varbit.iter().for_each(f);
        }
        StmtKind::Lookahead { dst } => place_operands(dst, f),
        StmtKind::Advance(e) => f(e),
        StmtKind::Call(call) => call_operands(call, f),
        StmtKind::PushFront(..)
        | StmtKind::PopFront(..)
        | StmtKind::CopyStack { .. }
        | StmtKind::Atomic(_)
        | StmtKind::Block { .. }
        | StmtKind::Loop { .. }
        | StmtKind::Break(_)
        | StmtKind::Continue(_)
        | StmtKind::Apply { .. }
        | StmtKind::Drop(_) => {}
    }
}

fn call_operands<'a>(call: &'a Call, f: &mut impl FnMut(&'a Expr)) {
    match call {
        Call::Count { index, .. } => f(index),
        Call::DirectCount(_) => {}
        Call::Meter { index, dst, .. } => {
            place_operands(dst, f);
            f(index);
        }
        Call::DirectRegisterWrite { value, .. } => f(value),
        Call::DirectMeter { dst, .. } | Call::DirectRegisterRead { dst, .. } => place_operands(dst, f),
        Call::Digest { data, .. } => data.iter().for_each(f),
        Call::AddEntry { done, args, profile, .. } => {
            if let Some(done) = done {
                place_operands(done, f);
            }
            args.iter().for_each(&mut *f);
            f(profile);
        }
        Call::RestartTimer(profile) => profile.iter().for_each(f),
        Call::FlowId(dst) => place_operands(dst, f),
        Call::RegisterRead { dst, index, .. } => {
            place_operands(dst, f);
            f(index);
        }
        Call::RegisterWrite { index, value, .. } => {
            f(index);
            f(value);
        }
        Call::Hash { dst, base, data, max, .. } => {
            place_operands(dst, f);
            f(base);
            data.iter().for_each(&mut *f);
            f(max);
        }
        Call::AddToSum { dst, data, subtract: _ } | Call::UpdateHash { dst, algorithm: _, data } => {
            place_operands(dst, f);
            data.iter().for_each(f);
        }
        Call::Random { dst, lo, hi } => {
            place_operands(dst, f);
            f(lo);
            f(hi);
        }
        Call::VerifyChecksum { cond, data, checksum, .. }
        | Call::UpdateChecksum { cond, data, checksum, .. } => {
            f(cond);
            data.iter().for_each(&mut *f);
            place_operands(checksum, f);
        }
        Call::LogMsg { args, .. } => args.iter().for_each(f),
        Call::Assert { cond, .. } => f(cond),
    }
}

fn place_operands<'a>(place: &'a Place, f: &mut impl FnMut(&'a Expr)) {
    if let Place::Field(h, _) = place {
        header_operands(h, f);
    }
}

fn header_operands<'a>(header: &'a HeaderRef, f: &mut impl FnMut(&'a Expr)) {
    if let HeaderRef::Element(_, index) = header {
        f(index);
    }
}

/// Calls `f` for an expression and all its sub-expressions.
pub fn exprs<'a>(expr: &'a Expr, f: &mut impl FnMut(&'a Expr)) {
    f(expr);
    for child in children(expr) {
        exprs(child, f);
    }
}

/// The direct operands of an expression.
pub fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::NextIndex(_) => Vec::new(),
        ExprKind::Read(Place::Field(HeaderRef::Element(_, index), _))
        | ExprKind::IsValid(HeaderRef::Element(_, index)) => vec![index],
        ExprKind::Read(_) | ExprKind::IsValid(_) => Vec::new(),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Slice { base: a, .. } => vec![a],
        ExprKind::Binary(_, a, b) | ExprKind::Concat(a, b) => vec![a, b],
        ExprKind::Mux(a, b, c) => vec![a, b, c],
    }
}

/// All blocks of a program: prologues, states, controls and actions.
pub fn blocks(program: &Program) -> Vec<&Block> {
    let parsers = program
        .parsers
        .iter()
        .flat_map(|p| [&p.prologue].into_iter().chain(p.states.iter().flat_map(|s| [&s.body, &s.rejected])));
    let controls = program.controls.iter().map(|c| &c.body);
    parsers.chain(controls).chain(program.actions.iter().map(|a| &a.body)).collect()
}

/// Calls `f` for every statement of a program.
pub fn all_stmts<'a>(program: &'a Program, f: &mut impl FnMut(&'a Stmt)) {
    for block in blocks(program) {
        stmts(block, f);
    }
}

/// Calls `f` for every expression of a program with all sub-expressions: those of statements, of selects, of table keys and
/// of the pipeline.
pub fn all_exprs<'a>(program: &'a Program, f: &mut impl FnMut(&'a Expr)) {
    all_stmts(program, &mut |s| operands(s, &mut |e| exprs(e, f)));
    for state in program.parsers.iter().flat_map(|p| &p.states) {
        if let Transition::Select(select) = &state.next {
            select.keys.iter().for_each(|k| exprs(k, f));
        }
    }
    for table in &program.tables {
        table.keys.iter().for_each(|key| exprs(&key.expr, f));
        table.selector.iter().for_each(|key| exprs(key, f));
    }
    program.pipeline.exprs(&mut |e| exprs(e, f));
}
