//! How sums and checksums move between the cells of a program.

use std::collections::{BTreeMap, BTreeSet};

use crate::cells::{self, Cell};
use crate::effects;
use crate::expr::{BinOp, Expr, ExprKind, Place, Ty, UnOp};
use crate::pipeline::{Input, Passed};
use crate::program::{HeaderId, Loc, Program, StackId, VarId};
use crate::stmt::{Call, HeaderRef, Stmt, StmtKind};
use crate::visit;

/// Where an expression takes its value of 16 bits from.
pub struct Source<'e> {
    /// The cells from which the value may be copied, and whether its complement is taken.
    pub cells: Vec<(Cell, bool)>,
    /// The condition and the two values, if the expression chooses between values.
    pub choice: Option<(&'e Expr, &'e Expr, &'e Expr)>,
}

/// The source of an expression; `None` if it computes more than a complement. A constant has no cells.
pub fn source(e: &Expr) -> Option<Source<'_>> {
    if e.ty != Ty::Bit(16) {
        return None;
    }
    let plain = |cells| Source { cells, choice: None };
    match &e.kind {
        ExprKind::Const(_) => Some(plain(Vec::new())),
        ExprKind::Read(place) => Some(plain(vec![(cell(place)?, false)])),
        ExprKind::Cast(a) => source(a),
        ExprKind::Unary(UnOp::BitNot, a) => {
            let from = source(a).filter(|from| from.choice.is_none() && !from.cells.is_empty())?;
            Some(plain(from.cells.into_iter().map(|(cell, flipped)| (cell, !flipped)).collect()))
        }
        ExprKind::Mux(cond, a, b) => {
            let cells = [source(a)?.cells, source(b)?.cells].concat();
            Some(Source { cells, choice: Some((cond, a, b)) })
        }
        ExprKind::IsValid(_)
        | ExprKind::NextIndex(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Slice { .. }
        | ExprKind::Concat(..) => None,
    }
}

/// The cell of a place, unless it is found at run time.
pub fn cell(place: &Place) -> Option<Cell> {
    match place {
        Place::Var(v) => Some(Cell::Var(*v)),
        Place::Field(HeaderRef::Header(h), field) => Some(Cell::Field(*h, *field)),
        Place::Field(..) => None,
    }
}

/// The value `x` of `x == 0 ? 0xffff : x`, and of `x != 0 ? x : 0xffff`.
pub fn other_zero<'e>(cond: &Expr, a: &'e Expr, b: &'e Expr) -> Option<&'e Expr> {
    let ExprKind::Binary(op, l, r) = &cond.kind else { return None };
    if !matches!(op, BinOp::Eq | BinOp::Ne) {
        return None;
    }
    let (kept, other) = if *op == BinOp::Eq { (b, a) } else { (a, b) };
    let ones = other.as_const()?.to_u64() == Some(0xffff);
    let zero = |e: &Expr| e.as_const().is_some_and(|v| v.is_zero());
    (ones && (**l == *kept && zero(r) || **r == *kept && zero(l))).then_some(kept)
}

/// The offset in its header and the length of the header in bits, for a field of 16 bits.
pub fn layout(program: &Program, cell: Cell) -> Option<(u32, u32)> {
    let Cell::Field(h, field) = cell else { return None };
    let ty = program.header_type(h);
    let field = ty.fields.get(field as usize).filter(|f| f.ty == Ty::Bit(16))?;
    Some((field.offset, ty.min_bits()))
}

/// Whether a checksum is at the place of that of IPv4, which covers its header alone.
fn is_ipv4(layout: (u32, u32)) -> bool {
    matches!(layout, (80, 160..))
}

/// A copy of a value of 16 bits.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The cell that is read.
    pub from: Cell,
    /// The cell that is written.
    pub to: Cell,
    /// Whether the complement is written.
    pub flipped: bool,
    /// The location of the statement.
    pub loc: Loc,
}

/// Something that a value passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Cell(Cell),
    /// A register, which may return the value to another packet.
    Register(u32),
    /// The direct register of a table.
    DirectRegister(u32),
}

/// How values move in a program.
#[derive(Default)]
pub struct Flows {
    /// The copies of values of 16 bits.
    pub list: Vec<Flow>,
    /// The cells to which `add` and `subtract` add.
    pub sums: BTreeSet<Cell>,
    /// What is added to a sum as it is, as pairs of a cell and the sum.
    terms: Vec<(Cell, Cell)>,
    /// What a value depends on: from, to, and whether it is a copy or a term.
    uses: Vec<(Node, Node, bool)>,
}

impl Flows {
    pub fn of(program: &Program) -> Flows {
        let mut flows = Flows::default();
        visit::all_stmts(program, &mut |stmt| {
            if let StmtKind::Call(Call::AddToSum { dst, .. }) = &stmt.kind {
                cells::cells_of(program, dst, |cell, _| flows.sums.extend([cell]));
            }
        });
        if !flows.sums.is_empty() {
            visit::all_stmts(program, &mut |stmt| flows.stmt(program, stmt));
            flows.pipeline(program);
        }
        flows
    }

    fn stmt(&mut self, program: &Program, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { dst, src } => {
                let mut to = Vec::new();
                cells::cells_of(program, dst, |cell, _| to.push(cell));
                let from = source(src);
                for to in to {
                    for (from, flipped) in from.iter().flat_map(|s| &s.cells) {
                        self.copy(*from, to, *flipped, stmt.loc);
                    }
                    if from.is_none() {
                        self.computes(program, [src], Node::Cell(to));
                    }
                }
            }
            StmtKind::CopyHeader { dst, src } => {
                let [to, from] = [dst, src].map(|h| cells::headers_of(program, h).0);
                for from in from.map(HeaderId) {
                    to.clone().for_each(|to| self.header(program, from, HeaderId(to), stmt.loc));
                }
            }
            StmtKind::CopyStack { dst, src } => {
                let first = |s: StackId| program.stacks[s.index()].first.0;
                for i in 0..program.stacks[dst.index()].size {
                    self.header(program, HeaderId(first(*src) + i), HeaderId(first(*dst) + i), stmt.loc);
                }
            }
            StmtKind::Call(call) => self.call(program, call),
            StmtKind::SetValid(_)
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
            | StmtKind::Apply { .. }
            | StmtKind::Drop(_)
            | StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Emit(_) => {}
        }
    }

    fn call(&mut self, program: &Program, call: &Call) {
        let of_place = |place: &Place| {
            let mut all = Vec::new();
            cells::cells_of(program, place, |cell, _| all.push(Node::Cell(cell)));
            all
        };
        match call {
            Call::AddToSum { dst, data, subtract: _ } => {
                for to in of_place(dst) {
                    for (value, shift) in crate::checksum::terms(data).0 {
                        match source(&value).map(|from| from.cells) {
                            Some(from) if from.len() == 1 && shift == 0 => self.add(from[0].0, to),
                            _ => self.computes(program, [&value], to),
                        }
                    }
                }
            }
            Call::Hash { dst, data, base, max, .. } => {
                for to in of_place(dst) {
                    self.computes(program, data.iter().chain([base, max]), to);
                }
            }
            Call::UpdateHash { dst, data, .. } => {
                of_place(dst).into_iter().for_each(|to| self.computes(program, data, to));
            }
            Call::RegisterWrite { register, value, .. } => {
                self.computes(program, [value], Node::Register(register.0));
            }
            Call::RegisterRead { register, dst, .. } => {
                for to in of_place(dst) {
                    self.uses.push((Node::Register(register.0), to, false));
                }
            }
            Call::DirectRegisterWrite { table, value } => {
                self.computes(program, [value], Node::DirectRegister(table.0));
            }
            Call::DirectRegisterRead { table, dst } => {
                for to in of_place(dst) {
                    self.uses.push((Node::DirectRegister(table.0), to, false));
                }
            }
            Call::AddEntry { table, action, args, .. } => {
                let listed = &program.tables[table.index()].actions[*action as usize];
                let params = &program.actions[listed.action.index()].params;
                for (param, arg) in params.iter().zip(args) {
                    self.computes(program, [arg], Node::Cell(Cell::Var(param.var)));
                }
            }
            Call::Count { .. }
            | Call::DirectCount(_)
            | Call::Meter { .. }
            | Call::DirectMeter { .. }
            | Call::Digest { .. }
            | Call::RestartTimer(_)
            | Call::FlowId(_)
            | Call::Random { .. }
            | Call::VerifyChecksum { .. }
            | Call::UpdateChecksum { .. }
            | Call::LogMsg { .. }
            | Call::Assert { .. } => {}
        }
    }

    fn pipeline(&mut self, program: &Program) {
        for path in program.pipeline.decisions().filter_map(|d| d.then.path()) {
            for passed in path.passed() {
                match *passed {
                    Passed::Var { from, to } if program.var(from).ty == Ty::Bit(16) => {
                        self.copy(Cell::Var(from), Cell::Var(to), false, Loc::default());
                    }
                    Passed::Var { from, to } => {
                        self.uses.push((Node::Cell(Cell::Var(from)), Node::Cell(Cell::Var(to)), false));
                    }
                    Passed::Header { from, to } => self.header(program, from, to, Loc::default()),
                }
            }
        }
    }

    /// Records that a header is copied field by field.
    fn header(&mut self, program: &Program, from: HeaderId, to: HeaderId, loc: Loc) {
        for (i, field) in program.header_type(from).fields.iter().enumerate() {
            let (from, to) = (Cell::Field(from, i as u32), Cell::Field(to, i as u32));
            if field.ty == Ty::Bit(16) {
                self.copy(from, to, false, loc);
            } else {
                self.uses.push((Node::Cell(from), Node::Cell(to), false));
            }
        }
    }

    fn copy(&mut self, from: Cell, to: Cell, flipped: bool, loc: Loc) {
        if from != to {
            self.list.push(Flow::new(from, to, flipped, loc));
            self.uses.push((Node::Cell(from), Node::Cell(to), true));
        }
    }

    fn add(&mut self, from: Cell, to: Node) {
        if let Node::Cell(to) = to {
            self.terms.push((from, to));
        }
        self.uses.push((Node::Cell(from), to, true));
    }

    fn computes<'e>(&mut self, program: &Program, values: impl IntoIterator<Item = &'e Expr>, to: Node) {
        for value in values {
            effects::reads(program, value, &mut |cell| {
                if matches!(cell, Cell::Var(_) | Cell::Field(..)) {
                    self.uses.push((Node::Cell(cell), to, false));
                }
            });
        }
    }

    /// The pairs of cells between which values are copied or added.
    fn exact(&self) -> impl Iterator<Item = (Cell, Cell)> {
        self.list.iter().map(|f| (f.from, f.to)).chain(self.terms.iter().copied())
    }

    /// The cells that copies and sums of these cells may reach, and these.
    pub fn forward(&self, from: BTreeSet<Cell>) -> BTreeSet<Cell> {
        closure(from, self.exact())
    }

    /// The cells whose copies and sums may reach these cells, and these.
    pub fn backward(&self, to: BTreeSet<Cell>) -> BTreeSet<Cell> {
        closure(to, self.exact().map(|(from, to)| (to, from)))
    }

    /// The headers of the checksums that a sum may become, and of those that such a checksum is computed from.
    pub fn headers_of(&self, sum: Cell, reach: &Reach) -> BTreeSet<HeaderId> {
        let becomes = self.forward([sum].into());
        let outputs = becomes.intersection(&reach.outputs).copied().collect();
        let header = |cell: &Cell| if let Cell::Field(h, _) = cell { Some(*h) } else { None };
        self.backward(outputs).intersection(&reach.checksums).filter_map(header).collect()
    }

    /// The fields of headers among these cells to which a complement is written, each with the location of the first such statement.
    pub fn first_outputs(&self, among: &[Cell]) -> BTreeMap<Cell, Loc> {
        let mut found = BTreeMap::new();
        let fields = self.list.iter().filter(|f| matches!(f.to, Cell::Field(..)) && f.loc != Loc::default());
        for flow in fields.filter(|f| among.contains(&f.to) && among.contains(&f.from)) {
            found.entry(flow.to).or_insert(flow.loc);
        }
        found
    }

    /// The cells whose values depend on a tracked cell in another way than by copies and sums.
    pub fn tainted(&self, tracked: impl Fn(Cell) -> bool) -> BTreeSet<Cell> {
        let is = |node: Node| matches!(node, Node::Cell(cell) if tracked(cell));
        let first = self.uses.iter().filter(|(from, to, exact)| !exact && is(*from) && !is(*to));
        let further = self.uses.iter().filter(|(from, to, _)| !is(*from) && !is(*to));
        cells_among(closure(first.map(|(_, to, _)| *to).collect(), further.map(|(from, to, _)| (*from, *to))))
    }
}

fn cells_among(nodes: BTreeSet<Node>) -> BTreeSet<Cell> {
    let cell = |node| match node {
        Node::Cell(cell) => Some(cell),
        Node::Register(_) | Node::DirectRegister(_) => None,
    };
    nodes.into_iter().filter_map(cell).collect()
}

/// The nodes that can be reached from these, and these.
fn closure<N: Copy + Ord>(mut reached: BTreeSet<N>, steps: impl Iterator<Item = (N, N)>) -> BTreeSet<N> {
    let mut next: BTreeMap<N, Vec<N>> = BTreeMap::new();
    steps.for_each(|(from, to)| next.entry(from).or_default().push(to));
    let mut waiting: Vec<N> = reached.iter().copied().collect();
    while let Some(node) = waiting.pop() {
        for to in next.get(&node).into_iter().flatten() {
            if reached.insert(*to) {
                waiting.push(*to);
            }
        }
    }
    reached
}

/// The variables that the architecture writes on its own.
pub fn written_by_architecture(program: &Program) -> Vec<VarId> {
    let mut all = Vec::new();
    let inputs = |list: &[Input], all: &mut Vec<VarId>| all.extend(list.iter().map(|i| i.var));
    for stage in &program.pipeline.stages {
        inputs(&stage.inputs, &mut all);
    }
    for path in program.pipeline.decisions().filter_map(|d| d.then.path()) {
        all.extend(path.inputs().map(|i| i.var));
        inputs(&path.sets, &mut all);
    }
    all
}

/// What the analysis finds out about cells.
#[derive(Default)]
pub struct Reach {
    pub tracked: BTreeSet<Cell>,
    /// The tracked cells that hold checksums, and not sums.
    pub complements: BTreeSet<Cell>,
    /// The cells that may hold both.
    pub both: BTreeSet<Cell>,
    /// The fields of checksums that cover more than their header.
    pub checksums: BTreeSet<Cell>,
    /// Those to which the complement of a sum may be written.
    pub outputs: BTreeSet<Cell>,
}

impl Reach {
    pub fn of(program: &Program, flows: &Flows) -> Reach {
        let steps = || {
            let copies = flows.list.iter();
            copies.flat_map(|f| [false, true].map(|held| ((f.from, held), (f.to, held != f.flipped))))
        };
        // A cell, and whether it holds the complement of a sum.
        let sums: BTreeSet<(Cell, bool)> = flows.sums.iter().map(|c| (*c, false)).collect();
        let covers = |cell: Cell| layout(program, cell).filter(|l| !is_ipv4(*l));
        let written = closure(sums.clone(), steps());
        let outputs: BTreeSet<Cell> =
            written.iter().filter(|(c, held)| *held && covers(*c).is_some()).map(|(c, _)| *c).collect();
        let layouts: BTreeSet<_> = outputs.iter().filter_map(|c| covers(*c)).collect();
        let fields = (0..program.headers.len() as u32).map(HeaderId).flat_map(|h| {
            (0..program.header_type(h).fields.len() as u32).map(move |field| Cell::Field(h, field))
        });
        let checksums: BTreeSet<Cell> =
            fields.filter(|c| covers(*c).is_some_and(|l| layouts.contains(&l))).collect();
        let holds = closure(sums.into_iter().chain(checksums.iter().map(|c| (*c, true))).collect(), steps());
        let complements = holds.iter().filter(|(_, held)| *held).map(|(c, _)| *c).collect::<BTreeSet<_>>();
        let both = complements.iter().filter(|c| holds.contains(&(**c, false))).copied().collect();
        let held: BTreeSet<Cell> = holds.into_iter().map(|(c, _)| c).collect();

        let every = flows.uses.iter().map(|(from, to, _)| (*from, *to));
        let depends = cells_among(closure(checksums.iter().map(|c| Node::Cell(*c)).collect(), every));
        let towards = flows.backward(outputs.clone());
        let updating = flows.sums.iter().filter(|c| depends.contains(c) && towards.contains(c));
        let updating: BTreeSet<Cell> = updating.copied().collect();
        let before = flows.backward(updating.clone());
        let after = flows.forward(updating);
        let on_the_way = |c: &&Cell| before.contains(c) || after.contains(c) && towards.contains(c);
        let tracked = held.iter().filter(on_the_way).copied().collect();
        Reach { tracked, complements, both, checksums, outputs }
    }
}
