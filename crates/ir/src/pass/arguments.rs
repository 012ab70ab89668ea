//! `arguments`: a parameter that is copied in from a variable and back out to it is replaced by that variable, where this is visible in the
//! text.
//!
//! If a control passes `inout` headers and metadata to fifty others, there are fifty copies of each field. `bind` could find out by
//! liveness that they can share storage, but its sets have a bit for each cell of each copy: for p4c's switch.p4 (50 000 cells), the passes
//! took four fifths of the time of `strait check`. This pass needs no sets. It looks for a *stretch* of statements in one block that begins
//! with `p = a` and ends with `a = p`, such that
//!
//! * everything that mentions `p` is in the stretch, or in the actions of tables that are applied only there;
//! * nothing between the two copies mentions `a`;
//! * no jump leaves the stretch.
//!
//! Then `p` has the same value in the stretch as `a` would have, so `a` can replace it. One walk over the program finds the mentions. The
//! pass removes 97 of 100 copies in switch.p4, and `bind` then has little work with the others. This pass skips parsers, because they may
//! reject inside of a stretch.

use std::collections::HashMap;
use std::ops::Range;

use super::bind::{Copy, Fixed, Object, copied};
use super::dead::is_identity;
use super::rename::Rename;
use crate::cells::Cell;
use crate::effects::{self, Effect, Outside};
use crate::liveness;
use crate::program::{HeaderId, LabelId, Parser, Program, StackId, TableId, Transition, VarId};
use crate::stmt::{Block, Stmt, StmtKind};
use crate::{visit, visit_mut};

/// Replaces such parameters by their arguments. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let fixed = Fixed::of(program);
    let scan = Scan::of(program);
    let changed = scan.parameters(&fixed).apply(program);
    if changed {
        visit_mut::blocks(program, &mut sweep);
    }
    changed
}

/// Removes copies of a variable, header or stack to itself.
fn sweep(block: &mut Block) {
    block.retain_mut(|stmt| {
        visit_mut::inner_blocks(stmt).into_iter().for_each(sweep);
        !is_identity(&stmt.kind)
    });
}

/// The number of a statement in the order of the text: controls, then actions, then parsers.
type Position = u32;

/// The positions of everything that the program mentions.
struct Scan<'a> {
    program: &'a Program,
    numbers: Numbers,
    /// For each number of a variable, header or stack: the positions of the statements that mention it, in ascending order.
    mentions: Vec<Vec<Position>>,
    /// For each position: the copy that the statement makes, if it is one, and the number of its block.
    stmts: Vec<(Option<Copy>, u32)>,
    blocks: u32,
    /// The positions of the statements of all controls.
    controls: Range<Position>,
    /// For each action: the positions of its statements.
    actions: Vec<Range<Position>>,
    /// For each action: the positions of the statements that apply a table with it.
    applied: Vec<Vec<Position>>,
    /// The position of the first statement of each block or loop with a label.
    labels: HashMap<LabelId, Position>,
    /// The positions of the jumps, each with the first position of the block that it leaves.
    jumps: Vec<(Position, Position)>,
}

impl<'a> Scan<'a> {
    fn of(program: &'a Program) -> Scan<'a> {
        let numbers = Numbers::of(program);
        let mut scan = Scan {
            program,
            mentions: vec![Vec::new(); numbers.count],
            numbers,
            stmts: Vec::new(),
            blocks: 0,
            controls: 0..0,
            actions: Vec::new(),
            applied: vec![Vec::new(); program.actions.len()],
            labels: HashMap::new(),
            jumps: Vec::new(),
        };
        program.controls.iter().for_each(|c| scan.block(&c.body));
        scan.controls = 0..scan.here();
        for action in &program.actions {
            let start = scan.here();
            scan.block(&action.body);
            scan.actions.push(start..scan.here());
        }
        program.parsers.iter().for_each(|p| scan.parser(p));
        // The following positions stand for mentions outside of statements.
        let end = scan.here();
        liveness::architecture(program, &mut |cell| scan.mention(cell, end));
        scan
    }

    fn here(&self) -> Position {
        self.stmts.len() as Position
    }

    fn mention(&mut self, cell: Cell, at: Position) {
        let positions = &mut self.mentions[self.numbers.of_cell(cell)];
        if positions.last() != Some(&at) {
            positions.push(at);
        }
    }

    fn parser(&mut self, parser: &Parser) {
        self.block(&parser.prologue);
        for state in &parser.states {
            self.block(&state.body);
            self.block(&state.rejected);
            let at = self.here();
            if let Transition::Select(select) = &state.next {
                select
                    .keys
                    .iter()
                    .for_each(|k| effects::reads(self.program, k, &mut |c| self.mention(c, at)));
            }
            self.stmts.push((None, self.blocks));
        }
    }

    fn block(&mut self, block: &Block) {
        self.blocks += 1;
        let number = self.blocks;
        for stmt in block {
            self.stmt(stmt, number);
            visit::inner_blocks(stmt).into_iter().for_each(|b| self.block(b));
        }
    }

    fn stmt(&mut self, stmt: &Stmt, block: u32) {
        let at = self.here();
        self.stmts.push((copied(self.program, stmt), block));
        if let StmtKind::Block { label, .. } | StmtKind::Loop { label, .. } = &stmt.kind {
            self.labels.insert(*label, at);
        }
        if let StmtKind::Break(label) | StmtKind::Continue(label) = &stmt.kind {
            self.jumps.push((at, self.labels.get(label).copied().unwrap_or(0)));
        }
        effects::of(self.program, stmt, &mut |effect| match effect {
            Effect::Read(cell) | Effect::Write(cell) | Effect::MayWrite(cell) => self.mention(cell, at),
            Effect::Outside(Outside::Table(table)) => self.apply(table, at),
            Effect::Outside(_) => {}
        });
    }

    fn apply(&mut self, table: TableId, at: Position) {
        for action in &self.program.tables[table.index()].actions {
            self.applied[action.action.index()].push(at);
        }
    }

    // ---- The parameters to replace ----

    /// The parameters that can be replaced by their arguments.
    fn parameters(&self, fixed: &Fixed) -> Rename {
        let program = self.program;
        let vars = (0..program.vars.len() as u32).map(|i| Object::Var(VarId(i)));
        let headers = (0..program.headers.len() as u32).map(|i| Object::Header(HeaderId(i)));
        let stacks = (0..program.stacks.len() as u32).map(|i| Object::Stack(StackId(i)));
        let mut rename = Rename::new(program);
        for parameter in vars.chain(headers).chain(stacks).filter(|o| fixed.may_go(program, *o)) {
            if let Some(argument) = self.argument(parameter) {
                fixed.stand_for(program, parameter, argument, &mut rename);
            }
        }
        rename
    }

    /// The argument that a parameter is copied from and back to, if it can replace the parameter.
    fn argument(&self, parameter: Object) -> Option<Object> {
        let mentions = &self.mentions[self.numbers.of_object(parameter)];
        let first = *mentions.first()?;
        let unit = match self.controls.contains(&first) {
            true => &self.controls,
            false => &self.actions[self.action_at(first)?],
        };
        let last = mentions[mentions.partition_point(|m| *m < unit.end) - 1];
        let ((Some((to, from)), block), (Some((back, of)), other)) =
            (&self.stmts[first as usize], &self.stmts[last as usize])
        else {
            return None;
        };
        let pair = block == other && (*to, *of) == (parameter, parameter) && from == back;
        let stretch = first..last + 1;
        let holds = pair
            && mentions.iter().all(|m| self.lies_in(*m, &stretch))
            && !self.is_mentioned_between(*from, &stretch)
            && !self.is_left(&stretch);
        holds.then_some(*from)
    }

    /// Whether a statement runs only as part of a stretch.
    fn lies_in(&self, at: Position, stretch: &Range<Position>) -> bool {
        stretch.contains(&at)
            || self.action_at(at).is_some_and(|a| self.applied[a].iter().all(|at| stretch.contains(at)))
    }

    fn is_mentioned_between(&self, object: Object, stretch: &Range<Position>) -> bool {
        let inside = stretch.start + 1..stretch.end - 1;
        let mentions = &self.mentions[self.numbers.of_object(object)];
        let next = mentions.partition_point(|m| *m < inside.start);
        let mut elsewhere = mentions[mentions.partition_point(|m| *m < self.controls.end)..].iter();
        mentions.get(next).is_some_and(|m| inside.contains(m))
            || elsewhere.any(|m| {
                let action = self.action_at(*m);
                action.is_some_and(|a| self.applied[a].iter().any(|at| inside.contains(at)))
            })
    }

    /// Whether a jump inside of a stretch leaves it.
    fn is_left(&self, stretch: &Range<Position>) -> bool {
        let from = self.jumps.partition_point(|(at, _)| *at < stretch.start);
        let mut jumps = self.jumps[from..].iter().take_while(|(at, _)| *at < stretch.end);
        jumps.any(|(_, of)| *of < stretch.start)
    }

    fn action_at(&self, at: Position) -> Option<usize> {
        let action = self.actions.partition_point(|a| a.end <= at);
        self.actions.get(action).filter(|a| a.contains(&at)).map(|_| action)
    }
}

/// The numbering of variables, headers and stacks. The headers of a stack have the number of the stack.
struct Numbers {
    headers: Vec<usize>,
    stacks: usize,
    count: usize,
}

impl Numbers {
    fn of(program: &Program) -> Numbers {
        let vars = program.vars.len();
        let stacks = vars + program.headers.len();
        let mut headers: Vec<usize> = (vars..stacks).collect();
        for (i, stack) in program.stacks.iter().enumerate() {
            let first = stack.first.index();
            headers[first..first + stack.size as usize].fill(stacks + i);
        }
        Numbers { headers, stacks, count: stacks + program.stacks.len() }
    }

    fn of_cell(&self, cell: Cell) -> usize {
        match cell {
            Cell::Var(v) => v.index(),
            Cell::Valid(h) | Cell::Field(h, _) => self.headers[h.index()],
            Cell::Next(s) => self.stacks + s.index(),
        }
    }

    fn of_object(&self, object: Object) -> usize {
        match object {
            Object::Var(v) => v.index(),
            Object::Header(h) | Object::Field(h, _) => self.headers[h.index()],
            Object::Stack(s) => self.stacks + s.index(),
        }
    }
}
