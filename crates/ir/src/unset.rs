//! Headers that a program may read before they have a value. Their storage must be zero when a packet arrives; the storage of all other
//! headers may hold anything as long as they are invalid.
//!
//! A header is *set* from its extraction, `setValid`, `setInvalid` or a copy to it on: each writes all of its fields. Where a condition has
//! found it valid, it is set, too. Nothing makes it unset again. So one walk forwards over each unit is enough, and a unit begins with no
//! header set.

use std::collections::BTreeSet;

use crate::cells::headers_of;
use crate::expr::{BinOp, Expr, ExprKind, Place, UnOp};
use crate::pipeline::Mention;
use crate::program::{HeaderId, Parser, Program, StackId, TableId, Target, Transition};
use crate::stmt::{Block, Call, HeaderRef, Stmt, StmtKind};
use crate::{liveness, visit};

type Headers = BTreeSet<HeaderId>;

/// The headers of which a field may be read before they are set.
pub fn read_unset(program: &Program) -> Headers {
    let mut walk = Walk { program, found: Headers::new() };
    for parser in &program.parsers {
        walk.parser(parser);
    }
    for control in &program.controls {
        walk.block(&control.body, &mut Headers::new());
    }
    program.pipeline.mentions(&mut |mention| match mention {
        Mention::Expr(e) => walk.expr(e, &Headers::new()),
        Mention::Header(h) => drop(walk.found.insert(*h)),
        Mention::Written(_) | Mention::Read(_) => {}
    });
    walk.found
}

struct Walk<'a> {
    program: &'a Program,
    found: Headers,
}

impl Walk<'_> {
    /// Walks over the states until the headers that are set at the beginning of each of them are known.
    fn parser(&mut self, parser: &Parser) {
        let mut begins: Vec<Option<Headers>> = vec![None; parser.states.len()];
        let mut start = Headers::new();
        self.block(&parser.prologue, &mut start);
        let mut todo = vec![(parser.start.index(), start)];
        while let Some((state, set)) = todo.pop() {
            let common = match &begins[state] {
                Some(known) if known.is_subset(&set) => continue,
                Some(known) => known.intersection(&set).copied().collect(),
                None => set,
            };
            begins[state] = Some(common.clone());
            self.state(parser, state, common, &mut todo);
        }
    }

    fn state(&mut self, parser: &Parser, number: usize, mut set: Headers, todo: &mut Vec<(usize, Headers)>) {
        let state = &parser.states[number];
        // A statement in the middle may reject the packet.
        self.block(&state.rejected, &mut set.clone());
        self.block(&state.body, &mut set);
        let targets: Vec<&Target> = match &state.next {
            Transition::Goto(to) => vec![to],
            Transition::Select(select) => {
                select.keys.iter().for_each(|key| self.expr(key, &set));
                select.cases.iter().map(|case| &case.next).collect()
            }
        };
        for to in targets {
            if let Target::State(next) = to {
                todo.push((next.index(), set.clone()));
            }
        }
    }

    fn block(&mut self, block: &Block, set: &mut Headers) {
        for stmt in block {
            self.stmt(stmt, set);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, set: &mut Headers) {
        match &stmt.kind {
            StmtKind::If { cond, then, otherwise } => {
                self.expr(cond, set);
                let (mut yes, mut no) = (set.clone(), set.clone());
                assume(cond, true, &mut yes);
                assume(cond, false, &mut no);
                self.block(then, &mut yes);
                self.block(otherwise, &mut no);
                *set = match (leaves(then), leaves(otherwise)) {
                    (true, false) => no,
                    (false, true) => yes,
                    _ => yes.intersection(&no).copied().collect(),
                };
            }
            // What a block sets is not known after it: a `Break` may have left it before.
            StmtKind::Switch { .. }
            | StmtKind::Block { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Atomic(_) => {
                visit::operands(stmt, &mut |e| self.expr(e, set));
                for inner in visit::inner_blocks(stmt) {
                    self.block(inner, &mut set.clone());
                }
            }
            StmtKind::Apply { table, .. } => self.apply(*table, set),
            StmtKind::Call(
                Call::VerifyChecksum { cond, data, checksum, .. }
                | Call::UpdateChecksum { cond, data, checksum, .. },
            ) => {
                self.expr(cond, set);
                let mut known = set.clone();
                assume(cond, true, &mut known);
                data.iter().for_each(|e| self.expr(e, &known));
                if let Place::Field(header, _) = checksum {
                    self.reads(header, &known);
                }
            }
            StmtKind::Extract { header, .. } | StmtKind::SetValid(header) | StmtKind::SetInvalid(header) => {
                visit::operands(stmt, &mut |e| self.expr(e, set));
                self.sets(header, set);
            }
            StmtKind::CopyHeader { dst, src } => {
                visit::operands(stmt, &mut |e| self.expr(e, set));
                self.reads(src, set);
                self.sets(dst, set);
            }
            StmtKind::CopyStack { dst, src } => {
                self.reads_stack(*dst);
                self.reads_stack(*src);
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => self.reads_stack(*stack),
            StmtKind::Assign { .. }
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Drop(_)
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Emit(_)
            | StmtKind::Call(_) => visit::operands(stmt, &mut |e| self.expr(e, set)),
        }
    }

    fn apply(&mut self, table: TableId, set: &Headers) {
        let program = self.program;
        let definition = &program.tables[table.index()];
        definition
            .keys
            .iter()
            .map(|key| &key.expr)
            .chain(&definition.selector)
            .for_each(|e| self.expr(e, set));
        for action in liveness::actions(program, table) {
            self.block(&action.body, &mut set.clone());
        }
    }

    fn expr(&mut self, e: &Expr, set: &Headers) {
        match &e.kind {
            ExprKind::Read(Place::Field(header, _)) => {
                visit::children(e).into_iter().for_each(|child| self.expr(child, set));
                self.reads(header, set);
            }
            ExprKind::Binary(op @ (BinOp::LogAnd | BinOp::LogOr), first, second) => {
                self.expr(first, set);
                let mut known = set.clone();
                assume(first, *op == BinOp::LogAnd, &mut known);
                self.expr(second, &known);
            }
            ExprKind::Mux(cond, yes, no) => {
                self.expr(cond, set);
                for (value, truth) in [(yes, true), (no, false)] {
                    let mut known = set.clone();
                    assume(cond, truth, &mut known);
                    self.expr(value, &known);
                }
            }
            ExprKind::Const(_)
            | ExprKind::Read(_)
            | ExprKind::IsValid(_)
            | ExprKind::NextIndex(_)
            | ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Cast(_)
            | ExprKind::Slice { .. }
            | ExprKind::Concat(..) => visit::children(e).into_iter().for_each(|child| self.expr(child, set)),
        }
    }

    /// Finds the headers of a reference that are not set.
    fn reads(&mut self, header: &HeaderRef, set: &Headers) {
        let headers = headers_of(self.program, header).0.map(HeaderId);
        self.found.extend(headers.filter(|h| !set.contains(h)));
    }

    fn reads_stack(&mut self, stack: StackId) {
        let stack = &self.program.stacks[stack.index()];
        self.found.extend((stack.first.0..stack.first.0 + stack.size).map(HeaderId));
    }

    /// Notes that a statement writes all fields of a header. An element that is found at run time is one of several, which are not set.
    fn sets(&mut self, header: &HeaderRef, set: &mut Headers) {
        let (mut headers, certain) = headers_of(self.program, header);
        if certain {
            set.extend(headers.next().map(HeaderId));
        }
    }
}

/// Adds the headers that are valid if a condition has this value.
fn assume(cond: &Expr, truth: bool, set: &mut Headers) {
    match (&cond.kind, truth) {
        (ExprKind::IsValid(HeaderRef::Header(h)), true) => drop(set.insert(*h)),
        (ExprKind::Unary(UnOp::Not, inner), _) => assume(inner, !truth, set),
        (ExprKind::Binary(BinOp::LogAnd, a, b), true) | (ExprKind::Binary(BinOp::LogOr, a, b), false) => {
            assume(a, truth, set);
            assume(b, truth, set);
        }
        _ => {}
    }
}

/// Whether control never comes to the end of a block.
fn leaves(block: &Block) -> bool {
    block.iter().any(|s| matches!(s.kind, StmtKind::Break(_) | StmtKind::Continue(_)))
}
