//! Derives incremental checksum updates from declared checksums.
//!
//! A program *declares* Internet checksums over its payload. `verify_checksum_with_payload` declares the checksum with which a packet
//! arrives, and `update_checksum_with_payload` the one with which it leaves. A target could sum the payload twice, which is correct but
//! slow. If a network card or a later segmentation completes the checksum (a GSO packet, a partial checksum), that is not even possible.
//! [`plan`] finds the sums that a target must remember on arrival instead.
//!
//! # The derivation
//! Let `~` be the complement, and `+` the one's complement sum of 16-bit words (RFC 1071). A packet whose verified checksum is correct
//! arrives with `c = ~(Σold + P)`, where `Σold` is the sum of the declared data and `P` the sum of the payload. It must leave with
//! `c' = ~(Σnew + P)`. The payload is equal, hence
//! ```text
//! c' = ~(~c + Σnew − Σold)                                      (RFC 1624, equation 3)
//! ```
//! So a target must remember only `Σold` on arrival, which is one 16-bit number. Two refinements make this fast and correct:
//!
//! * **Data that never changes cancels.** Consider a term that is at the same position in *every* list declared for one checksum, and that
//!   nothing writes after the parser. It adds the same value to `Σold` and `Σnew`, so neither sum includes it ([`Sum::stable`]). This
//!   applies to most of a TCP header.
//! * **The body and the pseudo-header are separate** ([`Part`]). The body is what the checksum covers *in the packet*: the checksum's own
//!   header and what follows. All other terms are the pseudo-header. If hardware completes the checksum, the field holds only the sum of the
//!   pseudo-header (Linux: `CHECKSUM_PARTIAL`). So the two differences are applied separately.
//!
//! The difference is applied to `c`, the checksum that arrived. If the program may write the field or create its header, the field may hold
//! another value by then. In that case a target remembers `c`, and restores it first ([`Sum::rewritten`]).
//!
//! If no verify statement ran for the packet (a UDP checksum of zero, a packet that the program created), the payload must be summed. A
//! target decides this at run time.
//!
//! Because 2^16 ≡ 1 modulo 2^16 − 1, a term of any width adds its value, shifted left to the next 16-bit boundary ([`Term::shift`]). So
//! lists need not consist of 16-bit words. After a list with an odd number of bytes, each byte of the payload is in the other half of its
//! word ([`Sum::aligned`]). A difference can be derived only between two lists that are both odd or both even.

use std::collections::HashSet;

use crate::cells::{Cell, headers_of};
use crate::effects;
use crate::expr::{BinOp, Expr, ExprKind, Place};
use crate::program::{ChecksumId, HeaderId, Program, Role};
use crate::stmt::{Call, Data, HeaderRef, Stmt, StmtKind};
use crate::visit;

/// Whether a term is covered by the checksum in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All that the term reads is in the header of the checksum, or in headers that are emitted after it.
    Body,
    /// The term is anything else: a header before that of the checksum, metadata, or a constant.
    Pseudo,
}

/// A term of a sum: an element of a declared list.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The value of the term.
    pub value: Expr,
    /// The number of bits (0 to 15) by which the value is shifted left before it is added.
    pub shift: u32,
    /// The part to which the term belongs.
    pub part: Part,
}

/// A statement that verifies or updates a checksum.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The number of the `VerifyChecksum` or `UpdateChecksum` statement.
    pub statement: ChecksumId,
    /// The terms that must be summed when the statement is reached.
    pub terms: Vec<Term>,
}

/// A checksum over the payload that the program updates, with all statements that declare its lists. At most one verification counts for a
/// packet, the first, and at most one update, the last. So a target keeps one sum of each kind, whatever the number of lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// The place of the checksum.
    pub place: Place,
    /// Whether the lists are a whole number of 16-bit words, after zero bits have padded their last byte. If they are not, the payload after
    /// them begins in the middle of a word. A checksum with lists of both kinds is two sums.
    pub aligned: bool,
    /// The `VerifyChecksum` statements, in order.
    pub verifies: Vec<Declared>,
    /// The `UpdateChecksum` statements, in order. There is at least one.
    pub updates: Vec<Declared>,
    /// The terms that are in every list of the checksum and never change after the parser. They cancel in a difference. A sum that is
    /// computed in full may include them at any time.
    pub stable: Vec<Term>,
    /// Whether the program may write the checksum, so that its field may no longer hold the value that arrived. A target must then remember
    /// that value.
    pub rewritten: bool,
}

/// The sums to remember on arrival, and to update on departure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The updated checksums, in the order of their first updates.
    pub sums: Vec<Sum>,
}

impl Plan {
    /// The sum to which a verification belongs, and the statement with its terms.
    pub fn verified(&self, id: ChecksumId) -> Option<(usize, &Declared)> {
        self.find(id, |sum| &sum.verifies)
    }

    /// The sum to which an update belongs, and the statement with its terms.
    pub fn updated(&self, id: ChecksumId) -> Option<(usize, &Declared)> {
        self.find(id, |sum| &sum.updates)
    }

    fn find(&self, id: ChecksumId, list: fn(&Sum) -> &Vec<Declared>) -> Option<(usize, &Declared)> {
        let in_sum = |(i, sum)| list(sum).iter().find(|d| d.statement == id).map(|d| (i, d));
        self.sums.iter().enumerate().find_map(in_sum)
    }

    /// The other sums of the checksum of a sum.
    pub fn siblings(&self, sum: usize) -> impl Iterator<Item = usize> {
        let same = move |i: &usize| *i != sum && self.sums[*i].place == self.sums[sum].place;
        (0..self.sums.len()).filter(same)
    }
}

/// Derives the plan for a program.
pub fn plan(program: &Program) -> Plan {
    let mut lists = Lists::collect(program);
    let writes = Writes::after_parser(program);
    lists.cancel(program, &writes);
    lists.join(program, &Writes::anywhere(program))
}

/// The terms of a declared list.
struct List {
    terms: Vec<Term>,
    stable: Vec<Term>,
    aligned: bool,
}

/// A declaration of a checksum over the payload.
struct Declaration {
    statement: ChecksumId,
    place: Place,
    /// The headers that are valid whenever the declaration's condition holds.
    valid: Vec<HeaderId>,
    list: List,
}

struct Lists {
    verifies: Vec<Declaration>,
    updates: Vec<Declaration>,
}

impl Lists {
    fn collect(program: &Program) -> Lists {
        let order = emit_order(program);
        let mut declared = Lists { verifies: Vec::new(), updates: Vec::new() };
        let declaration = |statement, cond, data: &[Data], checksum: &Place| Declaration {
            statement,
            place: checksum.clone(),
            valid: valid_where(cond),
            list: list(program, &order, data, checksum),
        };
        for control in &program.controls {
            visit::stmts(&control.body, &mut |stmt| {
                let StmtKind::Call(call) = &stmt.kind else { return };
                if let Call::VerifyChecksum { id, cond, data, checksum, payload: true } = call {
                    declared.verifies.push(declaration(*id, cond, data, checksum));
                } else if let Call::UpdateChecksum { id, cond, data, checksum, payload: true, .. } = call {
                    declared.updates.push(declaration(*id, cond, data, checksum));
                }
            });
        }
        declared
    }

    /// For each checksum, moves the terms that cancel from `terms` to `stable`.
    fn cancel(&mut self, program: &Program, writes: &Writes) {
        let mut places: Vec<Place> = Vec::new();
        for d in &self.verifies {
            if !places.contains(&d.place) {
                places.push(d.place.clone());
            }
        }
        for place in places {
            // If a header is valid when the checksum is written, and nothing makes it valid after the parser, it was valid on arrival.
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

    /// Puts the lists of each checksum together.
    fn join(self, program: &Program, writes: &Writes) -> Plan {
        let mut sums: Vec<Sum> = Vec::new();
        let number = |sums: &[Sum], d: &Declaration| {
            sums.iter().position(|s| s.place == d.place && s.aligned == d.list.aligned)
        };
        for d in self.updates {
            let i = number(&sums, &d).unwrap_or_else(|| {
                sums.push(Sum {
                    rewritten: !writes.keep(program, &d.place),
                    place: d.place.clone(),
                    aligned: d.list.aligned,
                    verifies: Vec::new(),
                    updates: Vec::new(),
                    stable: d.list.stable.clone(),
                });
                sums.len() - 1
            });
            sums[i].updates.push(Declared { statement: d.statement, terms: d.list.terms });
        }
        for d in self.verifies {
            if let Some(i) = number(&sums, &d) {
                sums[i].verifies.push(Declared { statement: d.statement, terms: d.list.terms });
            }
        }
        Plan { sums }
    }
}

impl List {
    /// Moves one occurrence of a term to `stable`.
    fn retire(&mut self, term: &Term) {
        if let Some(at) = self.terms.iter().position(|t| t == term) {
            let term = self.terms.remove(at);
            self.stable.push(term);
        }
    }
}

/// The terms of a list with their shifts, and whether the list is a whole number of words. Zero constants are omitted because they add
/// nothing. A varbit element counts as a whole number of words, as in all protocols that have one. Zero bits pad the last byte.
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

/// The headers in the order in which the deparser emits them.
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

/// The header, if the reference needs no index that is computed at run time.
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

/// What controls and actions may write; that is, what may change after the parser.
#[derive(Default)]
struct Writes {
    cells: HashSet<Cell>,
    /// The headers that may become invalid, but are not written as a whole otherwise.
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
        // The architecture writes these variables between the controls.
        writes.cells.extend(program.pipeline.written_later().into_iter().map(Cell::Var));
        writes.cells.insert(Cell::Var(program.standard.checksum_error));
        writes
    }

    /// What any statement may write, including those of parsers. Extraction does not count as a write here.
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
        if let StmtKind::Call(Call::UpdateChecksum { payload: true, .. }) = &stmt.kind {
            // The deparser writes a checksum over the payload, after everything else. So it changes nothing that is summed.
        } else if let StmtKind::SetInvalid(h) = &stmt.kind {
            let (headers, _) = headers_of(program, h);
            self.gone.extend(headers.map(HeaderId));
        } else {
            effects::writes(program, stmt, &mut |cell| self.cells.extend([cell]));
        }
    }

    /// Whether the field of a checksum keeps the value that arrived until the declared updates change it.
    fn keep(&self, program: &Program, checksum: &Place) -> bool {
        let Place::Field(header, field) = checksum else { return false };
        let (mut headers, _) = headers_of(program, header);
        headers.all(|h| {
            let h = HeaderId(h);
            !self.cells.contains(&Cell::Valid(h)) && !self.cells.contains(&Cell::Field(h, *field))
        })
    }

    /// Whether a value is equal at all times after the parser, in packets that have these headers.
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

/// The headers that must be valid for a condition to hold.
pub fn valid_where(cond: &Expr) -> Vec<HeaderId> {
    if let ExprKind::IsValid(HeaderRef::Header(h)) = &cond.kind {
        vec![*h]
    } else if let ExprKind::Binary(BinOp::LogAnd, a, b) = &cond.kind {
        [valid_where(a), valid_where(b)].concat()
    } else {
        Vec::new()
    }
}
