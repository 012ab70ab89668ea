//! Finds the sums of `InternetChecksum` that update the checksum of a packet, so that a target can update a partial checksum, too.
//!
//! PSA and PNA have no checksum over the payload. A program updates one incrementally (RFC 1624): it subtracts the checksum that arrived and
//! the old values of fields, adds the new values, and writes the complement of the sum to the checksum's field. That is arithmetic, and
//! right for a packet whose checksum is complete. If hardware or a later segmentation completes the checksum, the field has the sum of the
//! pseudo-header instead, which is not complemented (Linux: `CHECKSUM_PARTIAL`). It must be changed by what the program adds for the
//! pseudo-header, and by nothing else.
//!
//! # The derivation
//! Every value of a sum is, in one's complement,
//! ```text
//! sum = n * ~c + pseudo + body
//! ```
//! where `c` is the checksum that arrived, `pseudo` is what was added from outside of the checksum's body (see [`crate::checksum::Part`]), and
//! `body` what was added from the body. If `n` is 1, the program updates `c`: a target that remembers `~c` and `body` beside the sum knows
//! `pseudo`, and applies both differences in the way of the packet. If `n` is 0, the sum is one of a header alone, such as that of IPv4, and
//! nothing is to be done. So a target keeps the two numbers for each *tracked* cell, and changes them where the cell changes: in `add` and
//! `subtract`, where a cell is copied ([`Value::Copy`]) and where a header is extracted or copied.
//!
//! # What is tracked
//! The analysis does not follow the order of statements. A cell is tracked if it may hold a sum that contains an arriving checksum, or a
//! part of one, and if it may reach the field of a checksum. A field counts as a checksum if the complement of a sum is written to it, or to
//! a field at the same place of an equally long header. The checksum of an IPv4 header is none of them: it covers no payload, and is
//! never partial.
//!
//! The program must let the analysis see where values come from. Everything else is a [`Problem`]: a compiled target would leave the checksum
//! of some packets wrong.

mod class;
mod flow;

use std::collections::BTreeSet;

use crate::cells::{self, Cell};
use crate::checksum::{self, Part};
use crate::effects;
use crate::expr::{Expr, Place};
use crate::program::{HeaderId, Loc, Program};
use crate::stmt::{Call, Data, Stmt, StmtKind};
use crate::visit;

use class::Classes;
use flow::{Flow, Flows, source};

/// The cells to track, and what is wrong with the program.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    cells: Vec<Cell>,
    /// The tracked fields of checksums: they are at the same places as the ones that the program writes.
    checksums: BTreeSet<Cell>,
    /// Whether a tracked cell holds checksums, which are complements of sums.
    complements: BTreeSet<Cell>,
    /// The parts of the terms, by what their sum may become.
    classes: Classes,
    /// What prevents the update of partial checksums.
    pub problems: Vec<Problem>,
}

/// A reason why partial checksums cannot be updated.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The location in the P4 source.
    pub loc: Loc,
    /// What cannot be done.
    pub what: &'static str,
    /// What the programmer can do instead.
    pub hint: &'static str,
}

/// What a term adds to the numbers of a tracked sum.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// The numbers of this tracked cell, or their complements.
    Cell(usize, bool),
    /// The value itself, to the body.
    Body,
    /// The value belongs to the pseudo-header, so it adds nothing.
    Pseudo,
}

/// What a tracked cell receives by an assignment.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The numbers of this tracked cell.
    Copy(usize),
    /// Nothing: the value contains no arriving checksum.
    Nothing,
    /// Nothing, unless the cell is 0 and the value, ffff, is the other zero of one's complement.
    OtherZero,
    /// One of two, by a condition.
    Either(Expr, Box<Value>, Box<Value>),
}

impl Tracked {
    /// Analyses a program.
    pub fn new(program: &Program) -> Tracked {
        let flows = Flows::of(program);
        if flows.sums.is_empty() {
            return Tracked::default();
        }
        let reach = flow::Reach::of(program, &flows);
        let mut tracked = Tracked {
            cells: reach.tracked.iter().copied().collect(),
            checksums: reach.checksums.clone(),
            complements: reach.complements.clone(),
            ..Tracked::default()
        };
        if tracked.cells.is_empty() {
            return tracked;
        }
        let sums = tracked.cells.iter().filter(|c| flows.sums.contains(c));
        let headers = sums.map(|c| (*c, flows.headers_of(*c, &reach))).collect();
        tracked.classes = Classes::new(program, headers);
        let both: Vec<Cell> = reach.both.iter().copied().filter(|c| tracked.number(*c).is_some()).collect();
        for cell in both {
            let loc = flows
                .list
                .iter()
                .find(|f| f.to == cell && f.loc != Loc::default())
                .map_or(Loc::default(), |f| f.loc);
            tracked.problem(loc, "a variable that holds both checksums and sums", "use two variables");
        }
        tracked.check(program, &flows);
        tracked
    }

    /// The number of tracked cells.
    pub fn count(&self) -> usize {
        self.cells.len()
    }

    /// The cells that are tracked. Their numbers are the indexes.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The number of a cell, if it is tracked.
    pub fn number(&self, cell: Cell) -> Option<usize> {
        self.cells.binary_search(&cell).ok()
    }

    /// The number of a place, if it is tracked. Its header must not be found at run time.
    pub fn place(&self, place: &Place) -> Option<usize> {
        self.number(flow::cell(place)?)
    }

    /// The tracked fields of a header with their numbers, and whether each is a checksum on arrival.
    pub fn fields(&self, header: HeaderId) -> impl Iterator<Item = (usize, u32, bool)> {
        let of = move |(number, cell): (usize, &Cell)| {
            let Cell::Field(h, field) = cell else { return None };
            (*h == header).then(|| (number, *field, self.checksums.contains(cell)))
        };
        self.cells.iter().enumerate().filter_map(of)
    }

    /// The terms of a list that is added to a tracked sum, with their shifts and with what they add to its numbers; `None` if that is
    /// not known.
    pub fn terms(&self, program: &Program, sum: usize, data: &[Data]) -> Option<Vec<(Expr, u32, Term)>> {
        let (terms, _) = checksum::terms(data);
        let cell = |value: &Expr, shift: u32| match source(value)?.cells[..] {
            // The numbers are those of a sum. A checksum is the complement of one.
            [(cell, flipped)] if shift == 0 => {
                Some(Term::Cell(self.number(cell)?, flipped != self.complements.contains(&cell)))
            }
            _ => None,
        };
        let rest: Vec<Expr> =
            terms.iter().filter(|(e, shift)| cell(e, *shift).is_none()).map(|(e, _)| e.clone()).collect();
        if rest.iter().any(|e| self.reads(program, e)) {
            return None;
        }
        let mut parts = self.classes.of_list(program, self.cells[sum], &rest).into_iter();
        let with_term = |(value, shift): (Expr, u32)| {
            let term = match cell(&value, shift) {
                Some(term) => term,
                None => match parts.next()?? {
                    Part::Body => Term::Body,
                    Part::Pseudo => Term::Pseudo,
                },
            };
            Some((value, shift, term))
        };
        terms.into_iter().map(with_term).collect()
    }

    /// What a tracked cell receives if it becomes `value`; `None` if it is not known.
    pub fn value(&self, program: &Program, to: usize, value: &Expr) -> Option<Value> {
        let complement = self.complements.contains(&self.cells[to]);
        let Some(from) = source(value) else {
            // A checksum may be replaced by any other value, but a sum continues.
            return (complement && !self.reads(program, value)).then_some(Value::Nothing);
        };
        if let Some((cond, a, b)) = from.choice {
            // `c == 0 ? 0xffff : c` chooses between the zeros of one's complement.
            if let Some(kept) = flow::other_zero(cond, a, b) {
                return self.value(program, to, kept);
            }
            let (a, b) = (self.value(program, to, a)?, self.value(program, to, b)?);
            return Some(Value::Either(cond.clone(), Box::new(a), Box::new(b)));
        }
        match from.cells.first() {
            Some((cell, flipped)) => match self.number(*cell) {
                Some(number) => {
                    let same = *flipped == (complement != self.complements.contains(cell));
                    same.then_some(Value::Copy(number))
                }
                None => complement.then_some(Value::Nothing),
            },
            None => match value.as_const()?.to_u64()? {
                0xffff if complement => Some(Value::OtherZero),
                number => (complement || matches!(number, 0 | 0xffff)).then_some(Value::Nothing),
            },
        }
    }

    /// Whether an expression reads a tracked cell.
    fn reads(&self, program: &Program, value: &Expr) -> bool {
        let mut found = false;
        effects::reads(program, value, &mut |cell| found |= self.number(cell).is_some());
        found
    }

    fn problem(&mut self, loc: Loc, what: &'static str, hint: &'static str) {
        let problem = Problem { loc, what, hint };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Looks for what prevents the update of partial checksums.
    fn check(&mut self, program: &Program, flows: &Flows) {
        let tainted = flows.tainted(|cell| self.number(cell).is_some());
        visit::all_stmts(program, &mut |stmt| self.statement(program, stmt, &tainted));
        for var in flow::written_by_architecture(program) {
            if self.number(Cell::Var(var)).is_some() {
                let hint = "keep sums in variables of their own";
                self.problem(program.var(var).loc, "a sum in a variable that the architecture writes", hint);
            }
        }
        // A change within one header alone does not tell whether the checksum covers the payload.
        for (cell, loc) in flows.first_outputs(&self.cells) {
            if !is_of_transport(program, cell) && !self.has_pseudo_header(program, flows, cell) {
                let what = "an incremental checksum of which it is not clear whether it covers the payload";
                let hint = "it is not at the place of that of IPv4, TCP, UDP or ICMP, and nothing of a header before it is added to it";
                self.problem(loc, what, hint);
            }
        }
    }

    /// Whether something of a pseudo-header is added to a sum that the checksum may receive.
    fn has_pseudo_header(&self, program: &Program, flows: &Flows, checksum: Cell) -> bool {
        let sums = flows.backward([checksum].into());
        let mut found = false;
        visit::all_stmts(program, &mut |stmt| {
            let StmtKind::Call(Call::AddToSum { dst, data, .. }) = &stmt.kind else { return };
            let Some(sum) = self.place(dst).filter(|n| sums.contains(&self.cells[*n])) else { return };
            let terms = self.terms(program, sum, data).unwrap_or_default();
            found |= terms.iter().any(|(e, _, term)| *term == Term::Pseudo && e.as_const().is_none());
        });
        found
    }

    fn statement(&mut self, program: &Program, stmt: &Stmt, tainted: &BTreeSet<Cell>) {
        let is_tainted = |value: &Expr| {
            let mut found = false;
            effects::reads(program, value, &mut |cell| found |= tainted.contains(&cell));
            found
        };
        match &stmt.kind {
            StmtKind::Call(Call::AddToSum { dst, data, .. }) => {
                let Some(sum) = self.place(dst) else { return };
                if data.iter().any(is_tainted) {
                    self.computed(stmt.loc);
                } else if self.terms(program, sum, data).is_none() {
                    let what = "an incremental checksum with a value that may be in the pseudo-header or not";
                    let hint = "add fields of headers, or variables that hold such fields, and use an InternetChecksum of its own for each checksum";
                    self.problem(stmt.loc, what, hint);
                }
            }
            StmtKind::Assign { dst, src } => {
                let mut to = Vec::new();
                cells::cells_of(program, dst, |cell, _| to.extend(self.number(cell)));
                if to.iter().any(|to| is_tainted(src) || self.value(program, *to, src).is_none()) {
                    self.computed(stmt.loc);
                }
            }
            StmtKind::Extract { header, .. } => {
                let (headers, _) = cells::headers_of(program, header);
                if headers.flat_map(|h| self.fields(HeaderId(h))).any(|(_, _, checksum)| !checksum) {
                    let hint = "pass it as metadata";
                    self.problem(stmt.loc, "a sum that arrives in a header of the packet", hint);
                }
            }
            // The flows describe copies. Where a header is created or removed, nothing is left.
            StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_) => {}
            StmtKind::PushFront(..)
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
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Emit(_)
            | StmtKind::Call(_) => {
                let mut written = false;
                effects::writes(program, stmt, &mut |cell| written |= self.number(cell).is_some());
                if written {
                    self.computed(stmt.loc);
                }
            }
        }
    }

    fn computed(&mut self, loc: Loc) {
        let what = "an incremental checksum that is computed by more than the methods of InternetChecksum";
        let hint = "use add, subtract, get, get_state and set_state, and copy their results; a register, a table or arithmetic hides what a sum contains";
        self.problem(loc, what, hint);
    }
}

/// Whether a checksum is at the place of that of TCP, UDP or ICMP. They cover the payload.
fn is_of_transport(program: &Program, cell: Cell) -> bool {
    matches!(flow::layout(program, cell), Some((128, 160..) | (48, 64) | (16, 32..=64)))
}

impl Flow {
    fn new(from: Cell, to: Cell, flipped: bool, loc: Loc) -> Flow {
        Flow { from, to, flipped, loc }
    }
}
