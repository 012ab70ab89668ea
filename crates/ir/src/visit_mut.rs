//! Visitors that can change a program: its blocks, the parts of its statements, the parts of its expressions, and its names.

use abi::text::Name;

use crate::expr::{Expr, ExprKind, Place};
use crate::pipeline::MentionMut;
use crate::program::{HeaderId, Program, StackId, Transition, VarId};
use crate::stmt::{Block, Call, HeaderRef, Stmt, StmtKind};

/// A part of a statement or expression that may be changed in place.
pub enum Part<'a> {
    /// An expression of the statement. [`expr_parts`] visits its sub-expressions.
    Expr(&'a mut Expr),
    /// A place that the statement writes, or whose checksum it verifies.
    Place(&'a mut Place),
    /// A header that is read or written as a whole.
    Header(&'a mut HeaderRef),
    /// A stack that is copied or shifted, or whose next index is read.
    Stack(&'a mut StackId),
    /// A variable that appears by its id and not in a place.
    Var(&'a mut VarId),
    /// A header that appears by its id and not in a reference.
    HeaderId(&'a mut HeaderId),
}

/// Calls `f` for every outermost block of a program.
pub fn blocks(program: &mut Program, f: &mut dyn FnMut(&mut Block)) {
    for parser in &mut program.parsers {
        f(&mut parser.prologue);
        for state in &mut parser.states {
            f(&mut state.body);
            f(&mut state.rejected);
        }
    }
    program.controls.iter_mut().for_each(|c| f(&mut c.body));
    program.actions.iter_mut().for_each(|a| f(&mut a.body));
}

/// Calls `f` for each statement of a block and of its inner blocks, inner ones first.
pub fn stmts(block: &mut Block, f: &mut dyn FnMut(&mut Stmt)) {
    for stmt in block {
        for inner in inner_blocks(stmt) {
            stmts(inner, f);
        }
        f(stmt);
    }
}

/// The blocks inside of a statement.
pub fn inner_blocks(stmt: &mut Stmt) -> Vec<&mut Block> {
    match &mut stmt.kind {
        StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
        StmtKind::Switch { arms, default, .. } => arms.iter_mut().map(|(_, b)| b).chain([default]).collect(),
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

/// Calls `f` for every part of a program: those of all statements, of the keys of selects and tables, of selectors, and of the
/// pipeline. The parts of an
/// expression come before the expression.
pub fn parts(program: &mut Program, f: &mut dyn FnMut(Part<'_>)) {
    blocks(program, &mut |block| stmts(block, &mut |stmt| stmt_parts(stmt, f)));
    for state in program.parsers.iter_mut().flat_map(|p| &mut p.states) {
        if let Transition::Select(select) = &mut state.next {
            select.keys.iter_mut().for_each(|k| whole(k, f));
        }
    }
    for table in &mut program.tables {
        table.keys.iter_mut().for_each(|k| whole(&mut k.expr, f));
        table.selector.iter_mut().for_each(|k| whole(k, f));
    }
    program.pipeline.mentions_mut(&mut |mention| match mention {
        MentionMut::Var(v) => f(Part::Var(v)),
        MentionMut::Header(h) => f(Part::HeaderId(h)),
        MentionMut::Expr(e) => whole(e, f),
    });
}

/// Calls `f` for the parts of an expression, and then for the expression itself.
pub fn whole(e: &mut Expr, f: &mut dyn FnMut(Part<'_>)) {
    expr_parts(e, f);
    f(Part::Expr(e));
}

/// Calls `f` for the parts of an expression, inner ones first.
pub fn expr_parts(e: &mut Expr, f: &mut dyn FnMut(Part<'_>)) {
    match &mut e.kind {
        ExprKind::Const(_) => {}
        ExprKind::Read(place) => place_parts(place, f),
        ExprKind::IsValid(h) => header_parts(h, f),
        ExprKind::NextIndex(s) => f(Part::Stack(s)),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Slice { base: a, hi: _, lo: _ } => whole(a, f),
        ExprKind::Binary(_, a, b) | ExprKind::Concat(a, b) => {
            whole(a, f);
            whole(b, f);
        }
        ExprKind::Mux(c, a, b) => {
            whole(c, f);
            whole(a, f);
            whole(b, f);
        }
    }
}

fn place_parts(place: &mut Place, f: &mut dyn FnMut(Part<'_>)) {
    if let Place::Field(h, _) = place {
        header_parts(h, f);
    }
    f(Part::Place(place));
}

fn header_parts(h: &mut HeaderRef, f: &mut dyn FnMut(Part<'_>)) {
    match h {
        HeaderRef::Header(_) => {}
        HeaderRef::Element(s, index) => {
            f(Part::Stack(s));
            whole(index, f);
        }
        HeaderRef::Next(s) | HeaderRef::Last(s) => f(Part::Stack(s)),
    }
    f(Part::Header(h));
}

/// Calls `f` for the parts of a statement itself, but not for those of its inner blocks.
pub fn stmt_parts(stmt: &mut Stmt, f: &mut dyn FnMut(Part<'_>)) {
    match &mut stmt.kind {
        StmtKind::Assign { dst, src } => {
            place_parts(dst, f);
            whole(src, f);
        }
        StmtKind::CopyHeader { dst, src } => {
            header_parts(dst, f);
            header_parts(src, f);
        }
        StmtKind::CopyStack { dst, src } => {
            f(Part::Stack(dst));
            f(Part::Stack(src));
        }
        StmtKind::SetValid(h) | StmtKind::SetInvalid(h) | StmtKind::Emit(h) => header_parts(h, f),
        StmtKind::PushFront(s, _) | StmtKind::PopFront(s, _) => f(Part::Stack(s)),
        StmtKind::If { cond: e, then: _, otherwise: _ }
        | StmtKind::Switch { on: e, arms: _, default: _ }
        | StmtKind::Verify { cond: e, error: _ }
        | StmtKind::Advance(e) => whole(e, f),
        StmtKind::Block { label: _, body: _ }
        | StmtKind::Atomic(_)
        | StmtKind::Loop { label: _, bound: _, body: _ }
        | StmtKind::Break(_)
        | StmtKind::Continue(_)
        | StmtKind::Drop(_) => {}
        StmtKind::Apply { table: _, hit, action } => {
            hit.iter_mut().chain(action).for_each(|v| f(Part::Var(v)));
        }
        StmtKind::Extract { header, varbit } => {
            header_parts(header, f);
            varbit.iter_mut().for_each(|e| whole(e, f));
        }
        StmtKind::Lookahead { dst } => place_parts(dst, f),
        StmtKind::Call(call) => call_parts(call, f),
    }
}

fn call_parts(call: &mut Call, f: &mut dyn FnMut(Part<'_>)) {
    let all = |es: &mut [&mut Expr], f: &mut dyn FnMut(Part<'_>)| es.iter_mut().for_each(|e| whole(e, f));
    match call {
        Call::Count { counter: _, index } => whole(index, f),
        Call::DirectCount(_) => {}
        Call::RegisterRead { register: _, dst, index } | Call::Meter { meter: _, index, dst } => {
            place_parts(dst, f);
            whole(index, f);
        }
        Call::RegisterWrite { register: _, index, value } => all(&mut [index, value], f),
        Call::DirectRegisterWrite { table: _, value } => whole(value, f),
        Call::DirectMeter { meter: _, dst }
        | Call::DirectRegisterRead { table: _, dst }
        | Call::FlowId(dst) => place_parts(dst, f),
        Call::Digest { name: _, fields: _, data } => data.iter_mut().for_each(|e| whole(e, f)),
        Call::AddEntry { done, table: _, action: _, args, profile } => {
            done.iter_mut().for_each(|p| place_parts(p, f));
            args.iter_mut().for_each(|e| whole(e, f));
            whole(profile, f);
        }
        Call::RestartTimer(profile) => profile.iter_mut().for_each(|e| whole(e, f)),
        Call::Hash { dst, algorithm: _, base, data, max } => {
            place_parts(dst, f);
            data.iter_mut().for_each(|e| whole(e, f));
            all(&mut [base, max], f);
        }
        Call::AddToSum { dst, data, subtract: _ } | Call::UpdateHash { dst, algorithm: _, data } => {
            place_parts(dst, f);
            data.iter_mut().for_each(|e| whole(e, f));
        }
        Call::Random { dst, lo, hi } => {
            place_parts(dst, f);
            all(&mut [lo, hi], f);
        }
        Call::VerifyChecksum { id: _, cond, data, checksum, payload: _ }
        | Call::UpdateChecksum { id: _, cond, data, checksum, payload: _, nonzero: _ } => {
            whole(cond, f);
            data.iter_mut().for_each(|e| whole(e, f));
            place_parts(checksum, f);
        }
        Call::LogMsg { format: _, args } => args.iter_mut().for_each(|e| whole(e, f)),
        Call::Assert { cond, site: _, text: _ } => whole(cond, f),
    }
}

fn names_of_call(call: &mut Call, f: &mut dyn FnMut(&mut Name)) {
    match call {
        Call::LogMsg { format, .. } => f(format),
        Call::Digest { name, fields, .. } => {
            f(name);
            fields.iter_mut().for_each(f);
        }
        Call::Count { .. }
        | Call::DirectCount(_)
        | Call::RegisterRead { .. }
        | Call::RegisterWrite { .. }
        | Call::DirectRegisterRead { .. }
        | Call::DirectRegisterWrite { .. }
        | Call::Meter { .. }
        | Call::DirectMeter { .. }
        | Call::AddEntry { .. }
        | Call::RestartTimer(_)
        | Call::FlowId(_)
        | Call::Hash { .. }
        | Call::AddToSum { .. }
        | Call::UpdateHash { .. }
        | Call::Random { .. }
        | Call::VerifyChecksum { .. }
        | Call::UpdateChecksum { .. }
        | Call::Assert { .. } => {}
    }
}

/// Calls `f` for every name and text that the program's author wrote: all that a back end could print.
pub fn names(program: &mut Program, f: &mut dyn FnMut(&mut Name)) {
    blocks(program, &mut |block| {
        stmts(block, &mut |stmt| {
            if let StmtKind::Call(call) = &mut stmt.kind {
                names_of_call(call, f);
            }
        })
    });
    f(&mut program.name);
    program.errors.iter_mut().for_each(&mut *f);
    for ty in &mut program.header_types {
        f(&mut ty.name);
        ty.fields.iter_mut().for_each(|field| f(&mut field.name));
    }
    for parser in &mut program.parsers {
        f(&mut parser.name);
        parser.states.iter_mut().for_each(|state| f(&mut state.name));
    }
    for action in &mut program.actions {
        f(&mut action.name);
        action.params.iter_mut().for_each(|param| f(&mut param.name));
    }
    for table in &mut program.tables {
        f(&mut table.name);
        table.keys.iter_mut().for_each(|key| f(&mut key.name));
        table.direct_register.iter_mut().for_each(|register| f(&mut register.name));
    }
    for set in &mut program.value_sets {
        f(&mut set.name);
        set.keys.iter_mut().for_each(|key| f(&mut key.name));
    }
    macro_rules! each {
        ($($list:ident)*) => { $(program.$list.iter_mut().for_each(|one| f(&mut one.name));)* };
    }
    each! { sources headers stacks vars controls profiles counters direct_counters registers meters drop_sites }
}
