//! `arguments`: a parameter that is copied in from an object and back out to it is that object, where this shows in the text.
//!
//! A control that hands `inout` headers and metadata to fifty others has fifty copies of each field. `bind` would find out with
//! liveness that they can share storage, but its sets have a bit for each cell of each copy: for p4c's switch.p4 (50 000 cells) the
//! passes took four fifths of the time of `strait check`. This pass needs no sets. It looks for a *stretch* of statements in one
//! block that begins with `p = a` and ends with `a = p`, such that
//!
//! * everything that mentions `p` lies in the stretch, or in the actions of tables that are applied only there;
//! * nothing between the two copies mentions `a`;
//! * no jump leaves the stretch.
//!
//! Then `p` holds in the stretch what `a` would hold, and `a` may stand for it. One walk over the program finds the mentions; 97 of
//! 100 copies of switch.p4 go here, and `bind` has the rest, which is where it costs little. Parsers are left to `bind`: they may
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

/// Puts arguments in the place of such parameters.
pub fn run(program: &mut Program) -> bool {
    let fixed = Fixed::of(program);
    let scan = Scan::of(program);
    let changed = scan.parameters(&fixed).apply(program);
    if changed {
        visit_mut::blocks(program, &mut sweep);
    }
    changed
}

/// Leaves out the copies of objects to themselves.
fn sweep(block: &mut Block) {
    block.retain_mut(|stmt| {
        visit_mut::inner_blocks(stmt).into_iter().for_each(sweep);
        !is_identity(&stmt.kind)
    });
}

/// The number of a statement in the order of the text: controls, then actions, then parsers.
type Position = u32;

/// Where everything is mentioned.
struct Scan<'a> {
    program: &'a Program,
    numbers: Numbers,
    /// By the number of a variable, header or stack: the statements that mention it, in their order.
    mentions: Vec<Vec<Position>>,
    /// By position: the copy that a statement is, and the block in which it stands.
    stmts: Vec<(Option<Copy>, u32)>,
    blocks: u32,
    /// The statements of all controls.
    controls: Range<Position>,
    /// By action: its statements.
    actions: Vec<Range<Position>>,
    /// By action: the statements that apply a table which has it.
    applied: Vec<Vec<Position>>,
    /// Where each block or loop that can be left begins.
    labels: HashMap<LabelId, Position>,
    /// Jumps, each with the beginning of what it leaves.
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
        // Positions from here on stand for what is no statement.
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
        match &stmt.kind {
            StmtKind::Block { label, .. } | StmtKind::Loop { label, .. } => {
                self.labels.insert(*label, at);
            }
            StmtKind::Break(label) | StmtKind::Continue(label) => {
                self.jumps.push((at, self.labels.get(label).copied().unwrap_or(0)));
            }
            _ => {}
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

    // ---- what it shows ----

    /// The parameters that are their arguments.
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

    /// The object that a parameter is copied from and back to, where it may stand for the parameter.
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

    /// Whether a jump from within goes to where an outer block or loop begins or ends.
    fn is_left(&self, stretch: &Range<Position>) -> bool {
        let from = self.jumps.partition_point(|(at, _)| *at < stretch.start);
        let jumps = self.jumps[from..].iter().take_while(|(at, _)| *at < stretch.end);
        jumps.into_iter().any(|(_, of)| *of < stretch.start)
    }

    fn action_at(&self, at: Position) -> Option<usize> {
        let action = self.actions.partition_point(|a| a.end <= at);
        self.actions.get(action).filter(|a| a.contains(&at)).map(|_| action)
    }
}

/// One number for each variable, header and stack. The headers of a stack have the stack's.
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
