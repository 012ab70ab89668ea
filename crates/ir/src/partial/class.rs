//! Which terms of a sum belong to the pseudo-header of a checksum, and which to its body.
//!
//! A header belongs to the body if it is the checksum's own or comes after it in the packet. A variable belongs where the fields belong that
//! are copied to it; if none is (an action's parameter), where the fields belong that it is copied to. A constant in a list belongs where its
//! neighbours belong. The length of a UDP header is summed twice: if a list names a field of the body twice, the first one is the
//! pseudo-header's.

use std::collections::{BTreeMap, BTreeSet};

use crate::cells::{self, Cell};
use crate::checksum::Part;
use crate::effects;
use crate::expr::{Expr, ExprKind};
use crate::pipeline::{Mention, Passed};
use crate::program::{HeaderId, Parser, Program, Target, Transition};
use crate::stmt::{HeaderRef, StmtKind};
use crate::visit;

/// What is needed to classify terms.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// The headers whose checksums a sum may become.
    headers: BTreeMap<Cell, BTreeSet<HeaderId>>,
    /// The pairs of headers that a packet may have, in this order. Each header of a packet is a pair with itself, too.
    order: BTreeSet<(HeaderId, HeaderId)>,
    /// The cells that each cell receives values from, and the reverse.
    from: BTreeMap<Cell, Vec<Cell>>,
    to: BTreeMap<Cell, Vec<Cell>>,
    /// The cells that something writes. The others are zero, and add nothing.
    written: BTreeSet<Cell>,
}

/// What is known about where a value belongs.
#[derive(Default)]
struct Found {
    parts: Vec<Part>,
    /// Whether a header belongs to neither, or to both.
    unknown: bool,
}

impl Classes {
    /// `headers` are those whose checksums each sum may become.
    pub fn new(program: &Program, headers: BTreeMap<Cell, BTreeSet<HeaderId>>) -> Classes {
        let order = order(program);
        let mut classes = Classes { headers, order, ..Classes::default() };
        visit::all_stmts(program, &mut |stmt| {
            effects::writes(program, stmt, &mut |c| classes.written.extend([c]))
        });
        let params = program.actions.iter().flat_map(|a| &a.params).map(|p| p.var);
        classes.written.extend(params.map(Cell::Var));
        program.pipeline.mentions(&mut |mention| match mention {
            Mention::Written(var) => classes.written.extend([Cell::Var(*var)]),
            Mention::Header(h) => {
                let fields = 0..program.header_type(*h).fields.len() as u32;
                classes.written.extend(fields.map(|i| Cell::Field(*h, i)));
            }
            Mention::Read(_) | Mention::Expr(_) => {}
        });
        visit::all_stmts(program, &mut |stmt| match &stmt.kind {
            StmtKind::Assign { dst, src } => {
                let mut to = Vec::new();
                cells::cells_of(program, dst, |cell, _| to.push(cell));
                effects::reads(program, src, &mut |from| to.iter().for_each(|to| classes.copy(from, *to)));
            }
            StmtKind::CopyHeader { dst: HeaderRef::Header(to), src: HeaderRef::Header(from) } => {
                classes.header(program, *from, *to);
            }
            StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
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
            | StmtKind::Emit(_)
            | StmtKind::Call(_) => {}
        });
        for path in program.pipeline.decisions().filter_map(|d| d.then.path()) {
            for passed in path.passed() {
                match *passed {
                    Passed::Var { from, to } => classes.copy(Cell::Var(from), Cell::Var(to)),
                    Passed::Header { from, to } => classes.header(program, from, to),
                }
            }
        }
        classes
    }

    fn copy(&mut self, from: Cell, to: Cell) {
        self.from.entry(to).or_default().push(from);
        self.to.entry(from).or_default().push(to);
    }

    fn header(&mut self, program: &Program, from: HeaderId, to: HeaderId) {
        for i in 0..program.header_type(from).fields.len() as u32 {
            self.copy(Cell::Field(from, i), Cell::Field(to, i));
        }
    }

    /// The parts of the terms of a list that is added to a sum. `None` stands for what is not known.
    pub fn of_list(&self, program: &Program, sum: Cell, terms: &[Expr]) -> Vec<Option<Part>> {
        let mut parts: Vec<Option<Part>> = terms.iter().map(|e| self.of_value(program, sum, e)).collect();
        for i in 0..terms.len() {
            if parts[i] == Some(Part::Body) && terms[i + 1..].contains(&terms[i]) {
                parts[i] = Some(Part::Pseudo);
            }
        }
        let known = parts.clone();
        for i in (0..terms.len()).filter(|i| terms[*i].as_const().is_some()) {
            let before = known[..i].iter().rev().find_map(|p| *p);
            let after = known[i..].iter().find_map(|p| *p);
            parts[i] = match (before, after) {
                (Some(a), Some(b)) if a != b => None,
                (a, b) => a.or(b),
            };
        }
        parts
    }

    fn of_value(&self, program: &Program, sum: Cell, value: &Expr) -> Option<Part> {
        let mut read = Vec::new();
        effects::reads(program, value, &mut |cell| read.push(cell));
        if matches!(value.kind, ExprKind::Read(_)) && !read.iter().any(|cell| self.written.contains(cell)) {
            return Some(Part::Pseudo);
        }
        let around = |next: fn(&Classes) -> &BTreeMap<Cell, Vec<Cell>>| {
            let (mut found, mut seen) = (Found::default(), BTreeSet::new());
            read.iter().for_each(|cell| self.find(*cell, sum, next(self), &mut seen, &mut found));
            found
        };
        let mut found = around(|c| &c.from);
        if found.parts.is_empty() && !found.unknown {
            found = around(|c| &c.to);
        }
        let first = *found.parts.first()?;
        (!found.unknown && found.parts.iter().all(|p| *p == first)).then_some(first)
    }

    /// Adds what is known about a cell, or about its neighbours if it is not in a header of a packet.
    fn find(
        &self,
        cell: Cell,
        sum: Cell,
        next: &BTreeMap<Cell, Vec<Cell>>,
        seen: &mut BTreeSet<Cell>,
        found: &mut Found,
    ) {
        if !seen.insert(cell) || matches!(cell, Cell::Valid(_) | Cell::Next(_)) {
            return;
        }
        if let Cell::Field(h, _) = cell
            && self.order.contains(&(h, h))
        {
            match self.of_header(h, sum) {
                Some(part) => found.parts.push(part),
                None => found.unknown = true,
            }
            return;
        }
        next.get(&cell).into_iter().flatten().for_each(|c| self.find(*c, sum, next, seen, found));
    }

    /// The part to which a header belongs.
    fn of_header(&self, header: HeaderId, sum: Cell) -> Option<Part> {
        let of = self.headers.get(&sum)?;
        if of.contains(&header) {
            return Some(Part::Body);
        }
        let mut parts = Vec::new();
        for own in of {
            match (self.order.contains(&(header, *own)), self.order.contains(&(*own, header))) {
                (true, true) => return None,
                (true, false) => parts.push(Part::Pseudo),
                (false, true) => parts.push(Part::Body),
                (false, false) => {}
            }
        }
        let first = *parts.first()?;
        parts.iter().all(|p| *p == first).then_some(first)
    }
}

/// The pairs of headers that a packet may have, in this order: as parsers extract them, and for other pairs as deparsers emit them.
fn order(program: &Program) -> BTreeSet<(HeaderId, HeaderId)> {
    let mut order = BTreeSet::new();
    program.parsers.iter().for_each(|p| extracted(program, p, &mut order));
    let parsed = order.clone();
    for control in &program.controls {
        let mut emitted: Vec<HeaderId> = Vec::new();
        visit::stmts(&control.body, &mut |stmt| {
            let StmtKind::Emit(h) = &stmt.kind else { return };
            for h in cells::headers_of(program, h).0.map(HeaderId) {
                for before in &emitted {
                    let (pair, reverse) = ((*before, h), (h, *before));
                    // Headers that are never parsed together may be alternatives, such as TCP and UDP, unless one is never parsed.
                    let both = [h, *before].iter().all(|h| parsed.iter().any(|(a, b)| a == h || b == h));
                    if !both && !parsed.contains(&reverse) {
                        order.insert(pair);
                    }
                }
                emitted.push(h);
            }
        });
    }
    // A header that is alone is in a packet, too.
    visit::all_stmts(program, &mut |stmt| {
        if let StmtKind::Extract { header, .. } | StmtKind::Emit(header) = &stmt.kind {
            let headers = cells::headers_of(program, header).0.map(HeaderId);
            order.extend(headers.map(|h| (h, h)));
        }
    });
    order
}

/// Adds the pairs of headers that a parser may extract one after the other.
fn extracted(program: &Program, parser: &Parser, order: &mut BTreeSet<(HeaderId, HeaderId)>) {
    let mut own: Vec<Vec<HeaderId>> = vec![Vec::new(); parser.states.len()];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); parser.states.len()];
    for (i, state) in parser.states.iter().enumerate() {
        visit::stmts(&state.body, &mut |stmt| {
            if let StmtKind::Extract { header, .. } = &stmt.kind {
                own[i].extend(cells::headers_of(program, header).0.map(HeaderId));
            }
        });
        let mut goes = |target: &Target| {
            if let Target::State(to) = target {
                next[i].push(to.index());
            }
        };
        match &state.next {
            Transition::Goto(target) => goes(target),
            Transition::Select(select) => select.cases.iter().for_each(|case| goes(&case.next)),
        }
    }
    for (i, first) in own.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
        for (at, h) in first.iter().enumerate() {
            order.extend(first[at + 1..].iter().map(|later| (*h, *later)));
        }
        let (mut seen, mut waiting) = (BTreeSet::new(), next[i].clone());
        while let Some(state) = waiting.pop() {
            if seen.insert(state) {
                order.extend(first.iter().flat_map(|h| own[state].iter().map(move |later| (*h, *later))));
                waiting.extend(&next[state]);
            }
        }
    }
}
