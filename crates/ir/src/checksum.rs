//! Checksums are declared; deltas are derived.
//!
//! A program *declares* Internet checksums over its payload: `verify_checksum_with_payload` says which sum a packet
//! arrives with, `update_checksum_with_payload` which sum it shall leave with. Summing the payload twice would be a
//! correct way to obey, and a slow one; where a network card or a later segment fills the sum in (a GSO packet, a
//! partial checksum), it would not even be possible. [`plan`] finds what is enough to remember instead.
//!
//! # The derivation
//! Let `~` be the complement and `+` the one's complement sum of 16-bit words (RFC 1071). A packet whose verified sum was
//! right arrives with `c = ~(Σold + P)`, where `Σold` sums the declared data and `P` the payload. It shall leave with
//! `c' = ~(Σnew + P)`. The payload is the same, hence
//! ```text
//! c' = ~(~c + Σnew − Σold)                                      (RFC 1624, equation 3)
//! ```
//! and `Σold` is all that must be remembered on arrival: one 16-bit number. Three refinements make it cheap and right:
//!
//! * **What never changes cancels.** An element that stands at the same place of *every* list declared for one checksum,
//!   and that nothing writes after the parser, adds the same to `Σold` and `Σnew`. It is summed in neither
//!   ([`List::stable`]). Most of a TCP header goes that way.
//! * **Body and pseudo-header are told apart** ([`Part`]). Behind the first byte of the checksum's own header lies what the
//!   sum covers *in the packet* (body); everything else is pseudo-header. A sum that hardware will finish holds only the
//!   pseudo-header's part so far (Linux: `CHECKSUM_PARTIAL`), so the two differences are applied separately.
//!
//! The difference is applied to `c`, the checksum that arrived. Where the program may write the field, or make its header itself, the
//! field may hold something else by then: a target remembers `c` and restores it first ([`Update::rewritten`]).
//!
//! Where no verified sum held (a UDP checksum of zero, a packet made here), the payload must be summed; a target
//! does that at run time.
//!
//! A 16-bit word is 2^16 ≡ 1 modulo 2^16 − 1, so an element of any width adds its value rotated by its distance to the
//! next 16-bit boundary ([`Term::shift`]); lists need not be made of words. Behind a list of an odd number of bytes each
//! byte of the payload stands in the other half of its word ([`List::aligned`]): a difference can be derived only between
//! two lists that are both odd or both even.

use std::collections::HashSet;

use crate::cells::{Cell, headers_of};
use crate::effects::{self, Effect};
use crate::expr::{BinOp, Expr, ExprKind, Place};
use crate::program::{HeaderId, Program, Role};
use crate::stmt::{Call, Data, HashAlgorithm, HeaderRef, Stmt, StmtKind};
use crate::visit;

/// Whether an element lies in the packet at or behind the header that holds the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In that header, or in one that is emitted after it.
    Body,
    /// Anything else: a header before it, metadata, a constant.
    Pseudo,
}

/// An element of a declared list.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Its value.
    pub value: Expr,
    /// Bits (0 to 15) by which the value is shifted left before it is added.
    pub shift: u32,
    /// Where it lies.
    pub part: Part,
}

/// A declared list, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    /// What must be summed when the declaration is reached.
    pub terms: Vec<Term>,
    /// What stands in every list of the same checksum and never changes after the parser: it cancels there, and may be
    /// summed at any time where it does not.
    pub stable: Vec<Term>,
    /// Whether the list is a whole number of 16-bit words, once zero bits fill its last byte. If not, the payload behind it
    /// begins in the middle of a word.
    pub aligned: bool,
}

/// A verified sum over the payload that some update needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Which `VerifyChecksum` statement of the program it is, in order, counted from 0.
    pub statement: usize,
    /// The checksum.
    pub place: Place,
    /// What it sums.
    pub list: List,
}

/// An updated sum over the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which `UpdateChecksum` statement of the program it is, in order, counted from 0.
    pub statement: usize,
    /// The checksum.
    pub place: Place,
    /// What it sums.
    pub list: List,
    /// [`Plan::sources`] of the same checksum: the first that held decides.
    pub sources: Vec<usize>,
    /// Whether the program itself may write the checksum, so that its field no longer holds what arrived.
    pub rewritten: bool,
}

/// What to remember on arrival and what to sum on leaving.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sums to remember.
    pub sources: Vec<Source>,
    /// Sums to write.
    pub updates: Vec<Update>,
}

impl Plan {
    /// Whether the checksum of a source must be remembered as it arrived: an update that starts from it would find another.
    pub fn remembers(&self, source: usize) -> bool {
        self.updates.iter().any(|u| u.rewritten && u.sources.contains(&source))
    }
}

/// Derives the plan of a program.
pub fn plan(program: &Program) -> Plan {
    let mut lists = Declared::collect(program);
    let writes = Writes::after_parser(program);
    lists.cancel(program, &writes);
    lists.pair(program, &Writes::anywhere(program))
}

/// Counts `VerifyChecksum` and `UpdateChecksum` statements in the order that [`Source::statement`] and
/// [`Update::statement`] mean: outer statements before inner ones, controls in program order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbering {
    /// `VerifyChecksum` statements seen so far.
    pub verifies: usize,
    /// `UpdateChecksum` statements seen so far.
    pub updates: usize,
}

/// One declaration with payload.
struct Declaration {
    statement: usize,
    place: Place,
    /// Headers that are valid wherever it counts.
    valid: Vec<HeaderId>,
    list: List,
}

struct Declared {
    verifies: Vec<Declaration>,
    updates: Vec<Declaration>,
}

impl Declared {
    fn collect(program: &Program) -> Declared {
        let order = emit_order(program);
        let mut declared = Declared { verifies: Vec::new(), updates: Vec::new() };
        let mut count = Numbering::default();
        let declaration = |statement, cond, data: &[Data], checksum: &Place| Declaration {
            statement,
            place: checksum.clone(),
            valid: valid_where(cond),
            list: list(program, &order, data, checksum),
        };
        for control in &program.controls {
            visit::stmts(&control.body, &mut |stmt| match &stmt.kind {
                StmtKind::Call(Call::VerifyChecksum { cond, data, checksum, algorithm, payload }) => {
                    if *payload && *algorithm == HashAlgorithm::Csum16 {
                        declared.verifies.push(declaration(count.verifies, cond, data, checksum));
                    }
                    count.verifies += 1;
                }
                StmtKind::Call(Call::UpdateChecksum { cond, data, checksum, algorithm, payload, .. }) => {
                    if *payload && *algorithm == HashAlgorithm::Csum16 {
                        declared.updates.push(declaration(count.updates, cond, data, checksum));
                    }
                    count.updates += 1;
                }
                _ => {}
            });
        }
        declared
    }

    /// Moves what cancels from `terms` to `stable`, checksum by checksum.
    fn cancel(&mut self, program: &Program, writes: &Writes) {
        let mut places: Vec<Place> = Vec::new();
        for d in &self.verifies {
            if !places.contains(&d.place) {
                places.push(d.place.clone());
            }
        }
        for place in places {
            // A header that is there when the sum is written, and was never made valid after the parser, was there all the time.
            let mut lasting: Option<Vec<HeaderId>> = None;
            for update in self.updates.iter().filter(|d| d.place == place) {
                lasting = Some(match lasting {
                    None => update.valid.clone(),
                    Some(all) => all.into_iter().filter(|h| update.valid.contains(h)).collect(),
                });
            }
            let lasting = lasting.unwrap_or_default();
            let all = self.verifies.iter_mut().chain(&mut self.updates);
            let mut group: Vec<&mut List> = all.filter(|d| d.place == place).map(|d| &mut d.list).collect();
            let Some(first) = group.first() else { continue };
            for term in first.terms.clone() {
                let everywhere = group.iter().all(|l| l.terms.contains(&term));
                if everywhere && writes.leave_alone(program, &term.value, &lasting) {
                    group.iter_mut().for_each(|l| l.retire(&term));
                }
            }
        }
    }

    fn pair(self, program: &Program, writes: &Writes) -> Plan {
        let mut plan = Plan::default();
        for v in self.verifies {
            plan.sources.push(Source { statement: v.statement, place: v.place, list: v.list });
        }
        for u in self.updates {
            let usable = |s: &Source| s.place == u.place && s.list.aligned == u.list.aligned;
            let sources =
                plan.sources.iter().enumerate().filter(|(_, s)| usable(s)).map(|(i, _)| i).collect();
            let rewritten = !writes.keep(program, &u.place);
            plan.updates.push(Update {
                statement: u.statement,
                place: u.place,
                list: u.list,
                sources,
                rewritten,
            });
        }
        plan
    }
}

impl List {
    /// One occurrence of the term needs no summing.
    fn retire(&mut self, term: &Term) {
        if let Some(at) = self.terms.iter().position(|t| t == term) {
            let term = self.terms.remove(at);
            self.stable.push(term);
        }
    }
}

/// Takes a list of data apart. Constants of zero add nothing and are left out. A varbit element counts as a whole number
/// of words, which is what the protocols that have one ask for. Zero bits that fill up the last byte stand behind the list.
pub fn terms(data: &[Data]) -> (Vec<(Expr, u32)>, bool) {
    let width = |value: &Expr| if value.ty.is_varbit() { 0 } else { value.ty.width() };
    let mut at = 0u32;
    let mut terms = Vec::new();
    for value in data {
        at += width(value);
        if !value.as_const().is_some_and(|v| v.is_zero()) {
            terms.push((value.clone(), (16 - at % 16) % 16));
        }
    }
    (terms, at.next_multiple_of(8).is_multiple_of(16))
}

fn list(program: &Program, order: &[HeaderId], data: &[Data], checksum: &Place) -> List {
    let behind = match checksum {
        Place::Field(header, _) => header_id(program, header).map(|h| {
            let from = order.iter().position(|&o| o == h).unwrap_or(order.len());
            let mut behind: HashSet<HeaderId> = order[from..].iter().copied().collect();
            behind.insert(h);
            behind
        }),
        Place::Var(_) => None,
    };
    let part = |value: &Expr| {
        let mut reads = Vec::new();
        visit::exprs(value, &mut |e| {
            if let ExprKind::Read(Place::Field(h, _)) = &e.kind {
                reads.push(header_id(program, h));
            }
        });
        let inside =
            |h: &Option<HeaderId>| h.is_some_and(|h| behind.as_ref().is_some_and(|b| b.contains(&h)));
        if !reads.is_empty() && reads.iter().all(inside) { Part::Body } else { Part::Pseudo }
    };
    let (terms, aligned) = terms(data);
    let terms = terms.into_iter().map(|(value, shift)| Term { part: part(&value), value, shift }).collect();
    List { terms, stable: Vec::new(), aligned }
}

/// Headers in the order in which the deparser emits them.
fn emit_order(program: &Program) -> Vec<HeaderId> {
    let mut order = Vec::new();
    for control in program.controls.iter().filter(|c| c.role == Role::Deparser) {
        visit::stmts(&control.body, &mut |stmt| {
            if let StmtKind::Emit(h) = &stmt.kind {
                order.extend(header_id(program, h));
            }
        });
    }
    order
}

/// The header, where it is known before run time.
fn header_id(program: &Program, header: &HeaderRef) -> Option<HeaderId> {
    match header {
        HeaderRef::Header(id) => Some(*id),
        HeaderRef::Element(stack, index) => {
            let index = index.as_const()?.to_u64()?;
            let stack = &program.stacks[stack.index()];
            (index < stack.size as u64).then(|| HeaderId(stack.first.0 + index as u32))
        }
        HeaderRef::Next(_) | HeaderRef::Last(_) => None,
    }
}

/// What controls and actions may write, that is, what may change after the parser.
#[derive(Default)]
struct Writes {
    cells: HashSet<Cell>,
    /// Headers that may become invalid, and do nothing else as a whole.
    gone: HashSet<HeaderId>,
}

impl Writes {
    fn after_parser(program: &Program) -> Writes {
        let mut writes = Writes::default();
        let bodies = program.controls.iter().map(|c| &c.body).chain(program.actions.iter().map(|a| &a.body));
        for body in bodies {
            visit::stmts(body, &mut |stmt| writes.stmt(program, stmt));
        }
        for action in &program.actions {
            writes.cells.extend(action.params.iter().map(|p| Cell::Var(p.var)));
        }
        // The architecture's own: written between the controls.
        let std = &program.standard;
        let own = [std.egress_spec, std.egress_port, std.mcast_grp, std.checksum_error, std.enq_timestamp]
            .into_iter()
            .chain([std.enq_qdepth, std.deq_timedelta, std.deq_qdepth, std.egress_global_timestamp])
            .chain([std.egress_rid, std.instance_type]);
        writes.cells.extend(own.map(Cell::Var));
        writes
    }

    /// What any statement writes, those of parsers included. Extraction does not count as a write here.
    fn anywhere(program: &Program) -> Writes {
        let mut writes = Writes::default();
        visit::all_stmts(program, &mut |stmt| {
            if !matches!(stmt.kind, StmtKind::Extract { .. }) {
                writes.stmt(program, stmt);
            }
        });
        writes
    }

    fn stmt(&mut self, program: &Program, stmt: &Stmt) {
        match &stmt.kind {
            // A checksum with payload is written after everything else, so it changes nothing that is summed.
            StmtKind::Call(Call::UpdateChecksum { payload: true, .. }) => {}
            StmtKind::SetInvalid(h) => {
                let (headers, _) = headers_of(program, h);
                self.gone.extend(headers.map(HeaderId));
            }
            _ => effects::of(program, stmt, &mut |effect| {
                if let Effect::Write(cell) | Effect::MayWrite(cell) = effect {
                    self.cells.insert(cell);
                }
            }),
        }
    }

    /// Whether the packet holds a checksum as it arrived until the declared updates change it.
    fn keep(&self, program: &Program, checksum: &Place) -> bool {
        let Place::Field(header, field) = checksum else { return false };
        let (mut headers, _) = headers_of(program, header);
        headers.all(|h| {
            let h = HeaderId(h);
            !self.cells.contains(&Cell::Valid(h)) && !self.cells.contains(&Cell::Field(h, *field))
        })
    }

    /// Whether a value is the same at any time after the parser, in packets that keep these headers.
    fn leave_alone(&self, program: &Program, value: &Expr, lasting: &[HeaderId]) -> bool {
        let kept = |h: HeaderId| {
            !self.cells.contains(&Cell::Valid(h)) && (!self.gone.contains(&h) || lasting.contains(&h))
        };
        let mut alone = true;
        effects::reads(program, value, &mut |cell| {
            alone &= !self.cells.contains(&cell)
                && match cell {
                    Cell::Var(_) => true,
                    Cell::Field(h, _) | Cell::Valid(h) => kept(h),
                    Cell::Next(_) => false,
                }
        });
        alone
    }
}

/// Headers without which a condition does not hold.
fn valid_where(cond: &Expr) -> Vec<HeaderId> {
    match &cond.kind {
        ExprKind::IsValid(HeaderRef::Header(h)) => vec![*h],
        ExprKind::Binary(BinOp::LogAnd, a, b) => [valid_where(a), valid_where(b)].concat(),
        _ => Vec::new(),
    }
}
