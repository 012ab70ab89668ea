//! The cells of a packet's state, their numbers, and sets of cells.
//!
//! A cell is the smallest unit of storage that a statement reads or writes: a variable, a header field, a header's validity, or a stack's
//! next index. [`crate::effects`] and [`crate::liveness`] are defined on cells, so that they agree on which accesses overlap.

use crate::expr::Place;
use crate::program::{HeaderId, Program, StackId, VarId};
use crate::stmt::HeaderRef;

/// A unit of storage in a packet's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// A scalar variable.
    Var(VarId),
    /// The validity of a header.
    Valid(HeaderId),
    /// A field of a header, by its index in the header's type.
    Field(HeaderId, u32),
    /// The next index of a stack that has one of its own.
    Next(StackId),
}

/// The numbering of a program's cells: first the variables, then the validity and the fields of each header, then the next indexes.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The number of each header's validity. The numbers of its fields follow.
    headers: Vec<u32>,
    next: u32,
    count: u32,
}

impl Cells {
    /// Numbers the cells of a program.
    pub fn new(program: &Program) -> Cells {
        let mut at = program.vars.len() as u32;
        let mut headers = Vec::with_capacity(program.headers.len() + 1);
        for header in &program.headers {
            headers.push(at);
            let fields = program.header_types.get(header.ty.index()).map_or(0, |t| t.fields.len());
            at += 1 + fields as u32;
        }
        headers.push(at);
        Cells { headers, next: at, count: at + program.stacks.len() as u32 }
    }

    /// The number of cells.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The number of a cell.
    pub fn number(&self, cell: Cell) -> usize {
        (match cell {
            Cell::Var(v) => v.0,
            Cell::Valid(h) => self.headers[h.index()],
            Cell::Field(h, field) => self.headers[h.index()] + 1 + field,
            Cell::Next(s) => self.next + s.0,
        }) as usize
    }

    /// The numbers of a header's cells: its validity, then its fields.
    pub fn of_header(&self, h: HeaderId) -> std::ops::Range<usize> {
        self.headers[h.index()] as usize..self.headers[h.index() + 1] as usize
    }
}

/// A set of cells as a bitmap of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellSet {
    words: Vec<u64>,
}

impl CellSet {
    /// An empty set with room for the cells of a program.
    pub fn new(cells: &Cells) -> CellSet {
        CellSet { words: vec![0; cells.count().div_ceil(64)] }
    }

    /// Whether the set contains a cell.
    pub fn has(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 != 0
    }

    /// Adds a cell.
    pub fn add(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Removes a cell.
    pub fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Adds all cells of another set. Returns whether this set has grown.
    pub fn union(&mut self, other: &CellSet) -> bool {
        let mut grown = false;
        for (to, from) in self.words.iter_mut().zip(&other.words) {
            grown |= *from & !*to != 0;
            *to |= from;
        }
        grown
    }

    /// Whether the two sets have a cell in common.
    pub fn meets(&self, other: &CellSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }
}

/// The headers that a reference may refer to, and whether this is certain. It is uncertain if the index is computed at run time.
pub fn headers_of(program: &Program, h: &HeaderRef) -> (std::ops::Range<u32>, bool) {
    let stack = |s: StackId| {
        let stack = &program.stacks[s.index()];
        stack.first.0..stack.first.0 + stack.size
    };
    match h {
        HeaderRef::Header(id) => (id.0..id.0 + 1, true),
        HeaderRef::Element(s, index) => match index.as_const().and_then(|v| v.to_u64()) {
            Some(i) if i < u64::from(program.stacks[s.index()].size) => {
                let id = program.stacks[s.index()].first.0 + i as u32;
                (id..id + 1, true)
            }
            Some(_) => (0..0, true),
            None => (stack(*s), false),
        },
        HeaderRef::Next(s) | HeaderRef::Last(s) => (stack(*s), false),
    }
}

/// Calls `f` for the cells that a place may refer to, with whether this is certain.
pub fn cells_of(program: &Program, place: &Place, mut f: impl FnMut(Cell, bool)) {
    match place {
        Place::Var(v) => f(Cell::Var(*v), true),
        Place::Field(h, field) => {
            let (headers, certain) = headers_of(program, h);
            headers.for_each(|h| f(Cell::Field(HeaderId(h), *field), certain));
        }
    }
}
