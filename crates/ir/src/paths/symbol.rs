//! Symbolic values: each bit is known, is a bit of the packet, or is unknown.

use std::collections::{BTreeMap, BTreeSet};

use abi::Bits;

use crate::cells::Cell;
use crate::effects;
use crate::{BinOp, Expr, ExprKind, HeaderId, HeaderRef, Place, Program, StackId, Ty, UnOp, VarId};

/// A bit of a symbolic value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// The bit has this value.
    Is(bool),
    /// The bit is the bit of the packet with this number. Bit 0 is the most significant bit of the first byte.
    Packet(u32),
    /// Nothing is known about the bit.
    Unknown,
}

use Symbol::{Is, Packet, Unknown};

/// A symbolic value, least significant bit first.
pub type Symbols = Vec<Symbol>;

/// The values that are known on a path through a parser.
#[derive(Clone, Debug, Default)]
pub struct Known {
    vars: BTreeMap<VarId, Symbols>,
    fields: BTreeMap<(HeaderId, u32), Symbols>,
    valid: BTreeSet<HeaderId>,
    next: BTreeMap<StackId, u32>,
    /// The bits of the packet that must have a value.
    bits: Vec<Option<bool>>,
}

/// The value of `width` bits of the packet from bit `at` on. The first one is the most significant.
pub fn of_packet(at: u32, width: u32) -> Symbols {
    (at..at + width).rev().map(Packet).collect()
}

fn of_bits(bits: &Bits) -> Symbols {
    (0..bits.width()).map(|n| Is(bits.get(n))).collect()
}

fn unknown(ty: Ty) -> Symbols {
    vec![Unknown; ty.width() as usize]
}

/// The value of a symbolic value, if all its bits are known.
fn constant(symbols: &Symbols) -> Option<Bits> {
    let bit = |s: &Symbol| if let Is(bit) = s { Some(Bits::bit(*bit)) } else { None };
    let bits: Option<Vec<Bits>> = symbols.iter().rev().map(bit).collect();
    bits?.into_iter().reduce(|high, low| high.concat(&low))
}

impl Known {
    /// The bits of the packet that the parser has read so far, and the values that they must have.
    pub fn bits(&self) -> &[Option<bool>] {
        &self.bits
    }

    /// Makes the packet at least this many bits long.
    pub fn reach(&mut self, bits: u32) {
        let bits = self.bits.len().max(bits as usize);
        self.bits.resize(bits, None);
    }

    /// Requires that a bit of the packet has a value. Returns false if it must have the other value.
    pub fn fix(&mut self, at: u32, value: bool) -> bool {
        self.reach(at + 1);
        *self.bits[at as usize].get_or_insert(value) == value
    }

    /// Replaces the bits of the packet that must have a value by that value.
    pub fn settled(&self, symbols: &Symbols) -> Symbols {
        let settle = |s: &Symbol| match s {
            Packet(at) => self.bits.get(*at as usize).copied().flatten().map_or(*s, Is),
            Is(_) | Unknown => *s,
        };
        symbols.iter().map(settle).collect()
    }

    /// The value, if it is known after [`Known::settled`].
    pub fn value(&self, symbols: &Symbols) -> Option<Bits> {
        constant(&self.settled(symbols))
    }

    /// Records that the packet has a header at bit `at`. `sizes` are the widths of its fields. Returns false if the header was extracted
    /// before.
    pub fn extract(&mut self, header: HeaderId, mut at: u32, sizes: &[u32]) -> bool {
        for (number, size) in sizes.iter().enumerate() {
            self.fields.insert((header, number as u32), of_packet(at, *size));
            at += size;
        }
        self.valid.insert(header)
    }

    /// Increments the next index of a stack.
    pub fn advance(&mut self, program: &Program, stack: StackId) {
        *self.next.entry(program.stacks[stack.index()].index).or_default() += 1;
    }

    /// The header that a reference refers to, if its index is known.
    pub fn resolve(&self, program: &Program, header: &HeaderRef) -> Option<HeaderId> {
        let next = |stack: &StackId| self.next.get(&program.stacks[stack.index()].index).copied();
        let (stack, at) = match header {
            HeaderRef::Header(id) => return Some(*id),
            HeaderRef::Element(stack, index) => {
                (stack, self.value(&self.eval(program, index))?.to_u64()? as u32)
            }
            HeaderRef::Next(stack) => (stack, next(stack).unwrap_or(0)),
            HeaderRef::Last(stack) => (stack, next(stack)?.checked_sub(1)?),
        };
        let stack = &program.stacks[stack.index()];
        (at < stack.size).then(|| HeaderId(stack.first.0 + at))
    }

    /// Sets the value of a place.
    pub fn set(&mut self, program: &Program, place: &Place, value: Symbols) {
        match place {
            Place::Var(var) => drop(self.vars.insert(*var, value)),
            Place::Field(header, field) => {
                if let Some(id) = self.resolve(program, header) {
                    self.fields.insert((id, *field), value);
                }
            }
        }
    }

    /// Makes everything unknown that these statements may write.
    pub fn forget(&mut self, program: &Program, block: &[crate::Stmt]) {
        crate::visit::stmts(block, &mut |stmt| {
            effects::writes(program, stmt, &mut |cell| self.forget_cell(cell));
        });
    }

    fn forget_cell(&mut self, cell: Cell) {
        match cell {
            Cell::Var(var) => drop(self.vars.remove(&var)),
            Cell::Field(header, field) => drop(self.fields.remove(&(header, field))),
            Cell::Valid(header) => drop(self.valid.remove(&header)),
            // A stack that a branch may fill is assumed to keep its next index.
            Cell::Next(_) => {}
        }
    }

    /// The symbolic value of an expression.
    pub fn eval(&self, p: &Program, e: &Expr) -> Symbols {
        match &e.kind {
            ExprKind::Const(bits) => of_bits(bits),
            ExprKind::Read(Place::Var(var)) => self.vars.get(var).cloned().unwrap_or_else(|| unknown(e.ty)),
            ExprKind::Read(Place::Field(header, field)) => self
                .resolve(p, header)
                .and_then(|id| self.fields.get(&(id, *field)).cloned())
                .unwrap_or_else(|| unknown(e.ty)),
            ExprKind::IsValid(header) => match self.resolve(p, header) {
                Some(id) => vec![Is(self.valid.contains(&id))],
                None => vec![Unknown],
            },
            ExprKind::NextIndex(stack) => {
                let next = self.next.get(&p.stacks[stack.index()].index).copied().unwrap_or(0);
                of_bits(&Bits::new(32, next.into()))
            }
            ExprKind::Unary(op, value) => self.unary(p, *op, value),
            ExprKind::Binary(op, a, b) => {
                self.binary(*op, self.eval(p, a), self.eval(p, b), e.ty, a.ty.is_signed())
            }
            ExprKind::Cast(value) => {
                let mut symbols = self.eval(p, value);
                let fill = if value.ty.is_signed() { symbols.last().copied() } else { None };
                symbols.resize(e.ty.width() as usize, fill.unwrap_or(Is(false)));
                symbols
            }
            ExprKind::Slice { base, hi, lo } => self
                .eval(p, base)
                .get(*lo as usize..=*hi as usize)
                .map_or_else(|| unknown(e.ty), <[_]>::to_vec),
            ExprKind::Concat(high, low) => {
                let mut symbols = self.eval(p, low);
                symbols.extend(self.eval(p, high));
                symbols
            }
            ExprKind::Mux(cond, yes, no) => match self.settled(&self.eval(p, cond))[..] {
                [Is(true)] => self.eval(p, yes),
                [Is(false)] => self.eval(p, no),
                _ => unknown(e.ty),
            },
        }
    }

    fn unary(&self, p: &Program, op: UnOp, value: &Expr) -> Symbols {
        let symbols = self.eval(p, value);
        match op {
            UnOp::Not | UnOp::BitNot => {
                let not = |s| if let Is(bit) = s { Is(!bit) } else { Unknown };
                symbols.into_iter().map(not).collect()
            }
            UnOp::Neg => vec![Unknown; symbols.len()],
        }
    }

    fn binary(&self, op: BinOp, a: Symbols, b: Symbols, ty: Ty, signed: bool) -> Symbols {
        use BinOp::*;
        let each = |one: fn(Symbol, Symbol) -> Symbol| a.iter().zip(&b).map(|(a, b)| one(*a, *b)).collect();
        match op {
            And | LogAnd => each(|a, b| match (a, b) {
                (Is(false), _) | (_, Is(false)) => Is(false),
                (Is(true), other) | (other, Is(true)) => other,
                _ => Unknown,
            }),
            Or | LogOr => each(|a, b| match (a, b) {
                (Is(true), _) | (_, Is(true)) => Is(true),
                (Is(false), other) | (other, Is(false)) => other,
                _ => Unknown,
            }),
            Shl | Shr => {
                let Some(by) = self.value(&b).and_then(|by| by.to_u64()) else { return unknown(ty) };
                shifted(&a, by as usize, op == Shl)
            }
            Eq | Ne if a.len() == 1 => {
                // A comparison of a single bit with 1 is that bit.
                let same = match (a[0], b[0]) {
                    (Is(true), other) | (other, Is(true)) => other,
                    (Is(false), Is(false)) => Is(true),
                    _ => Unknown,
                };
                vec![if op == Eq { same } else { Unknown }]
            }
            Add | Sub | Mul | Div | Mod | AddSat | SubSat | Xor | Eq | Ne | Lt | Le | Gt | Ge => {
                match (self.value(&a), self.value(&b)) {
                    (Some(a), Some(b)) if !signed => {
                        folded(op, &a, &b).map_or_else(|| unknown(ty), |bits| of_bits(&bits))
                    }
                    _ => unknown(ty),
                }
            }
        }
    }
}

/// A value shifted by a known distance. Zeros are shifted in.
fn shifted(value: &Symbols, by: usize, left: bool) -> Symbols {
    let from = |n: usize| if left { n.checked_sub(by) } else { n.checked_add(by) };
    let bit = |n| from(n).and_then(|at| value.get(at).copied()).unwrap_or(Is(false));
    (0..value.len()).map(bit).collect()
}

/// The result of an operation on two known unsigned values, for the operators that loops and lengths need.
fn folded(op: BinOp, a: &Bits, b: &Bits) -> Option<Bits> {
    use BinOp::*;
    Some(match op {
        Add => a.add(b),
        Sub => a.sub(b),
        Mul => a.mul(b),
        Eq => Bits::bit(a == b),
        Ne => Bits::bit(a != b),
        Lt => Bits::bit(a.cmp_unsigned(b).is_lt()),
        Le => Bits::bit(a.cmp_unsigned(b).is_le()),
        Gt => Bits::bit(a.cmp_unsigned(b).is_gt()),
        Ge => Bits::bit(a.cmp_unsigned(b).is_ge()),
        Div | Mod | AddSat | SubSat | And | Or | Xor | Shl | Shr | LogAnd | LogOr => return None,
    })
}
