//! Liveness: which cells may be read before they are written again. Passes and back ends use it to remove copies, stores and initial zeros.
//!
//! The analysis walks backwards over each *unit*: a parser with its states, or a control with its tables and their actions. At the end of a
//! unit, every cell is live that another unit or the architecture may read. The other cells are *private* to the unit. They are live at its
//! end only if they are live at its beginning, because a copy of the packet may pass the unit again with the storage as the unit left it.

use std::collections::{BTreeSet, HashMap};

use crate::cells::{Cell, CellSet, Cells};
use crate::effects::{self, Effect, Outside};
use crate::pipeline::Mention;
use crate::program::{
    Action, HeaderId, LabelId, Parser, Program, StateId, TableId, Target, Transition, VarId, VarKind,
};
use crate::stmt::{Block, Stmt, StmtKind};
use crate::visit;

/// The points that a walk visits, from the end of a unit to its beginning. Each comes with the cells that are live *after* it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A statement runs.
    Stmt(&'a Stmt),
    /// The parameters of an action receive the values of an entry.
    Params(&'a Action),
    /// The unit begins. Every cell has its value from before the unit.
    Entry,
}

/// A parser or control, by its index in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The index is that of [`Program::parsers`].
    Parser(usize),
    /// The index is that of [`Program::controls`].
    Control(usize),
}

/// All units of a program, in the order in which a packet passes them.
pub fn units(program: &Program) -> impl Iterator<Item = Unit> + use<> {
    (0..program.parsers.len()).map(Unit::Parser).chain((0..program.controls.len()).map(Unit::Control))
}

/// The liveness of a program's cells.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// The numbers of the cells.
    pub cells: Cells,
    /// The cells that more than one unit, or the architecture, may access.
    pub(crate) shared: CellSet,
    units: Vec<Unit>,
    /// For each unit, in the order of [`units`]: the cells that are live at its end, and those that are live at its beginning.
    bounds: Vec<(CellSet, CellSet)>,
}

impl Liveness {
    /// Analyses a program.
    pub fn new(program: &Program) -> Liveness {
        let cells = Cells::new(program);
        let shared = shared(program, &cells);
        let mut live = Liveness { units: units(program).collect(), cells, shared, bounds: Vec::new() };
        for unit in units(program) {
            // The cells that are live at the beginning become live at the end, too. This makes no further cells live at the beginning,
            // because the result of a walk for a union is the union of the results. So one more walk is enough.
            let mut end = live.shared.clone();
            let begin = live.pass(program, unit, &end, None);
            end.union(&begin);
            live.bounds.push((end, begin));
        }
        live
    }

    /// Calls `f` for every point of a unit, from its end to its beginning, with the cells that are live after it.
    pub fn walk(&self, program: &Program, unit: Unit, f: &mut dyn FnMut(Event<'_>, &CellSet)) {
        let at = self.units.iter().position(|u| *u == unit);
        let Some((end, begin)) = at.and_then(|at| self.bounds.get(at)) else { return };
        self.pass(program, unit, end, Some(f));
        f(Event::Entry, begin);
    }

    /// The cells that are live at the beginning of a unit: those whose initial value it may read.
    pub fn at_entry(&self, unit: Unit) -> Option<&CellSet> {
        let at = self.units.iter().position(|u| *u == unit)?;
        self.bounds.get(at).map(|(_, begin)| begin)
    }

    /// The variables that some unit may read before it writes them. They must be zero when a packet arrives.
    pub fn read_first(&self, program: &Program) -> BTreeSet<VarId> {
        let mut found = BTreeSet::new();
        for (unit, (_, begin)) in self.units.iter().zip(&self.bounds) {
            mentions(program, *unit, &mut |cell| {
                if let Cell::Var(v) = cell
                    && begin.has(self.cells.number(cell))
                {
                    found.insert(v);
                }
            });
        }
        found
    }

    /// Walks over a unit once. Returns the cells that are live at its beginning.
    fn pass(&self, program: &Program, unit: Unit, end: &CellSet, f: Option<Visitor<'_>>) -> CellSet {
        let mut walk = Walk {
            program,
            cells: &self.cells,
            leave: HashMap::new(),
            head: HashMap::new(),
            reject: end.clone(),
            read: Vec::new(),
            visitor: f,
        };
        match unit {
            Unit::Parser(i) => walk.parser(&program.parsers[i], end),
            Unit::Control(i) => {
                let mut live = end.clone();
                walk.block(&program.controls[i].body, &mut live);
                live
            }
        }
    }
}

/// The cells that more than one unit, or the architecture, may access.
fn shared(program: &Program, cells: &Cells) -> CellSet {
    let mut seen = CellSet::new(cells);
    let mut shared = CellSet::new(cells);
    for unit in units(program) {
        let mut own = CellSet::new(cells);
        mentions(program, unit, &mut |cell| own.add(cells.number(cell)));
        for number in (0..cells.count()).filter(|n| own.has(*n)) {
            if seen.has(number) {
                shared.add(number);
            }
            seen.add(number);
        }
    }
    for (i, var) in program.vars.iter().enumerate() {
        if var.kind == VarKind::Metadata {
            shared.add(cells.number(Cell::Var(VarId(i as u32))));
        }
    }
    architecture(program, &mut |cell| shared.add(cells.number(cell)));
    // The cells of a header are treated together: if one is shared, all are.
    for h in (0..program.headers.len() as u32).map(HeaderId) {
        if cells.of_header(h).any(|n| shared.has(n)) {
            cells.of_header(h).for_each(|n| shared.add(n));
        }
    }
    shared
}

/// Calls `f` for every cell that a unit mentions, including its tables and their actions.
pub fn mentions(program: &Program, unit: Unit, f: &mut dyn FnMut(Cell)) {
    let mut applied = vec![false; program.tables.len()];
    let mut todo: Vec<&Block> = Vec::new();
    match unit {
        Unit::Parser(i) => {
            let parser = &program.parsers[i];
            todo.push(&parser.prologue);
            for state in &parser.states {
                todo.extend([&state.body, &state.rejected]);
                if let Transition::Select(select) = &state.next {
                    select.keys.iter().for_each(|k| effects::reads(program, k, f));
                }
            }
        }
        Unit::Control(i) => todo.push(&program.controls[i].body),
    }
    while let Some(block) = todo.pop() {
        visit::stmts(block, &mut |stmt| {
            effects::of(program, stmt, &mut |effect| match effect {
                Effect::Read(cell) | Effect::MayWrite(cell) | Effect::Write(cell) => f(cell),
                Effect::Outside(Outside::Table(table)) => {
                    if !std::mem::replace(&mut applied[table.index()], true) {
                        for action in actions(program, table) {
                            action.params.iter().for_each(|p| f(Cell::Var(p.var)));
                            todo.push(&action.body);
                        }
                    }
                }
                Effect::Outside(_) => {}
            });
        });
    }
}

/// The actions that a table lists.
pub fn actions(program: &Program, table: TableId) -> impl Iterator<Item = &Action> {
    program.tables[table.index()].actions.iter().map(|a| &program.actions[a.action.index()])
}

/// Calls `f` for the cells that the architecture reads or writes.
pub(crate) fn architecture(program: &Program, f: &mut dyn FnMut(Cell)) {
    program.standard.vars().into_iter().for_each(|v| f(Cell::Var(v)));
    program.pipeline.mentions(&mut |mention| match mention {
        Mention::Written(v) | Mention::Read(v) => f(Cell::Var(*v)),
        Mention::Header(h) => f(Cell::Valid(*h)),
        Mention::Expr(e) => effects::reads(program, e, f),
    });
}

type Visitor<'v> = &'v mut dyn FnMut(Event<'_>, &CellSet);

struct Walk<'a, 'v> {
    program: &'a Program,
    cells: &'a Cells,
    /// The cells that are live after each enclosing block or loop.
    leave: HashMap<LabelId, CellSet>,
    /// The cells that are live where an iteration of each enclosing loop begins.
    head: HashMap<LabelId, CellSet>,
    /// The cells that are live where the parser rejects.
    reject: CellSet,
    /// The cells that the current statement reads.
    read: Vec<usize>,
    visitor: Option<Visitor<'v>>,
}

impl Walk<'_, '_> {
    fn tell(&mut self, event: Event<'_>, live: &CellSet) {
        if let Some(f) = &mut self.visitor {
            f(event, live);
        }
    }

    // ---- Parsers ----

    fn parser(&mut self, parser: &Parser, end: &CellSet) -> CellSet {
        let visitor = self.visitor.take();
        let mut begins = vec![CellSet::new(self.cells); parser.states.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for i in (0..parser.states.len()).rev() {
                let live = self.state(parser, i, &begins, end);
                changed |= begins[i].union(&live);
            }
        }
        self.visitor = visitor;
        if self.visitor.is_some() {
            for i in (0..parser.states.len()).rev() {
                self.state(parser, i, &begins, end);
            }
        }
        let StateId(start) = parser.start;
        let mut live = begins.get(start as usize).cloned().unwrap_or_else(|| end.clone());
        self.reject = end.clone();
        self.block(&parser.prologue, &mut live);
        live
    }

    fn state(&mut self, parser: &Parser, i: usize, begins: &[CellSet], end: &CellSet) -> CellSet {
        let state = &parser.states[i];
        let mut rejected = end.clone();
        self.block(&state.rejected, &mut rejected);
        self.reject = rejected;
        let mut live = CellSet::new(self.cells);
        let mut target = |target: &Target, reject: &CellSet| {
            live.union(match target {
                Target::State(id) => &begins[id.index()],
                Target::Accept => end,
                Target::Reject => reject,
            });
        };
        match &state.next {
            Transition::Goto(to) => target(to, &self.reject),
            Transition::Select(select) => {
                select.cases.iter().for_each(|case| target(&case.next, &self.reject));
                live.union(&self.reject);
                select.keys.iter().for_each(|k| self.reads(k, &mut live));
            }
        }
        self.block(&state.body, &mut live);
        live
    }

    fn reads(&self, e: &crate::Expr, live: &mut CellSet) {
        effects::reads(self.program, e, &mut |cell| live.add(self.cells.number(cell)));
    }

    // ---- Statements ----

    fn block(&mut self, block: &Block, live: &mut CellSet) {
        for stmt in block.iter().rev() {
            self.stmt(stmt, live);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, live: &mut CellSet) {
        self.tell(Event::Stmt(stmt), live);
        match &stmt.kind {
            StmtKind::If { then, otherwise, .. } => {
                let mut other = live.clone();
                self.block(then, live);
                self.block(otherwise, &mut other);
                live.union(&other);
                self.own(stmt, live);
            }
            StmtKind::Switch { arms, default, .. } => {
                let after = live.clone();
                self.block(default, live);
                for (_, arm) in arms {
                    let mut other = after.clone();
                    self.block(arm, &mut other);
                    live.union(&other);
                }
                self.own(stmt, live);
            }
            StmtKind::Block { label, body } => {
                self.leave.insert(*label, live.clone());
                self.block(body, live);
            }
            StmtKind::Atomic(body) => self.block(body, live),
            StmtKind::Loop { label, body, .. } => *live = self.repeat(*label, body, live),
            StmtKind::Break(label) => *live = self.leave.get(label).unwrap_or(live).clone(),
            StmtKind::Continue(label) => *live = self.head.get(label).unwrap_or(live).clone(),
            StmtKind::Apply { table, .. } => self.apply(*table, stmt, live),
            StmtKind::Assign { .. }
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
            | StmtKind::Drop(_)
            | StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Emit(_)
            | StmtKind::Call(_) => self.own(stmt, live),
        }
    }

    /// Applies the effects of a statement itself: the cells that it writes become dead before it, and those that it reads become live.
    fn own(&mut self, stmt: &Stmt, live: &mut CellSet) {
        let mut rejects = false;
        let (cells, read) = (self.cells, &mut self.read);
        read.clear();
        effects::of(self.program, stmt, &mut |effect| match effect {
            Effect::Write(cell) => live.remove(cells.number(cell)),
            Effect::Read(cell) => read.push(cells.number(cell)),
            Effect::Outside(Outside::Reject) => rejects = true,
            Effect::Outside(_) | Effect::MayWrite(_) => {}
        });
        if rejects {
            live.union(&self.reject);
        }
        self.read.iter().for_each(|number| live.add(*number));
    }

    /// Walks over a loop until nothing changes. Returns the cells that are live where the first iteration begins.
    fn repeat(&mut self, label: LabelId, body: &Block, after: &CellSet) -> CellSet {
        self.leave.insert(label, after.clone());
        let visitor = self.visitor.take();
        let mut head = CellSet::new(self.cells);
        loop {
            self.head.insert(label, head.clone());
            let mut live = head.clone();
            self.block(body, &mut live);
            if !head.union(&live) {
                break;
            }
        }
        self.visitor = visitor;
        if self.visitor.is_some() {
            self.block(body, &mut head.clone());
        }
        head
    }

    /// Walks over the application of a table: the key is read, the parameters are written, one of the actions or none runs, and the results
    /// are written.
    fn apply(&mut self, table: TableId, stmt: &Stmt, live: &mut CellSet) {
        let (program, cells) = (self.program, self.cells);
        effects::of(program, stmt, &mut |effect| {
            if let Effect::Write(cell) = effect {
                live.remove(cells.number(cell));
            }
        });
        let after = live.clone();
        for action in actions(program, table) {
            let mut inside = after.clone();
            self.block(&action.body, &mut inside);
            self.tell(Event::Params(action), &inside);
            action.params.iter().for_each(|p| inside.remove(cells.number(Cell::Var(p.var))));
            live.union(&inside);
        }
        effects::of(program, stmt, &mut |effect| {
            if let Effect::Read(cell) = effect {
                live.add(cells.number(cell));
            }
        });
    }
}
