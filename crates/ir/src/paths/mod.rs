//! Paths through a parser: the headers of a packet that takes a path, and the bits that the packet must have.
//!
//! The search follows a path with the packet's bits as unknowns. A `select` case determines some of these bits, if the key consists of
//! moved bits (fields, slices, casts, concatenations, masks, lookahead). If the key is computed in another path, the path is marked as
//! unsure: a caller that makes a packet for it must parse the packet to see whether it takes the path.

mod symbol;

use std::collections::VecDeque;

use abi::Bits;

use symbol::of_packet;
pub use symbol::{Known, Symbol, Symbols};

use crate::program::{KeySet, Loc, Parser, Program, Role, Select, StateId, Target, Transition};
use crate::{BinOp, Expr, ExprKind, HeaderId, HeaderRef, Stmt, StmtKind};

/// The largest number of partial paths that the search examines.
const MOST: usize = 100_000;
/// The number of values that the search tries for a key, in addition to the number of other cases.
const TRIED: u128 = 64;
/// The largest number of visits of one state on a path to a goal.
const ROUNDS: usize = 16;

/// The paths to look for. The name of a header may omit everything up to the last dot, and the index in a stack.
#[derive(Clone, Debug)]
pub enum Goal {
    /// Every path that visits no state twice.
    All,
    /// The paths with exactly these headers, in order. A name also stands for the header whose name has the prefix `inner_`.
    Headers(Vec<String>),
    /// The shortest path that visits these states in this order.
    States(Vec<String>),
}

/// A path to `accept`.
#[derive(Clone, Debug)]
pub struct ParserPath {
    /// The states of the path, in order.
    pub states: Vec<StateId>,
    /// The headers of the packet, each with the offset of its first bit.
    pub headers: Vec<(HeaderId, u32)>,
    /// The known values of variables, fields and bits of the packet.
    pub known: Known,
    /// The location of a decision that the search could not follow, if there is one.
    pub unsure: Option<Loc>,
    /// Conditions that must hold once the values that they compare are known.
    conditions: Vec<Condition>,
    /// The position of the cursor in bits.
    at: u32,
    /// The number of steps of the goal that the path has reached.
    reached: usize,
}

/// A comparison of unsigned numbers.
#[derive(Clone, Debug)]
struct Condition {
    op: BinOp,
    left: Symbols,
    right: Symbols,
}

/// The result of a request for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The packet has the value.
    Given,
    /// The packet cannot have the value.
    Impossible,
    /// A part of the value is computed, and the packet has the rest.
    Unsure,
}

impl Asked {
    /// The result of two requests together.
    fn and(self, other: Asked) -> Asked {
        match (self, other) {
            (Asked::Impossible, _) | (_, Asked::Impossible) => Asked::Impossible,
            (Asked::Given, Asked::Given) => Asked::Given,
            _ => Asked::Unsure,
        }
    }
}

impl ParserPath {
    /// Requires that bits of the packet have a value where the mask is set.
    pub fn ask(&mut self, symbols: &Symbols, value: &Bits, mask: &Bits) -> Asked {
        let mut asked = Asked::Given;
        let before = self.known.clone();
        for (number, symbol) in symbols.iter().enumerate().filter(|(n, _)| mask.get(*n as u32)) {
            let wanted = value.get(number as u32);
            let possible = match symbol {
                Symbol::Is(bit) => *bit == wanted,
                Symbol::Packet(at) => self.known.fix(*at, wanted),
                Symbol::Unknown => {
                    asked = Asked::Unsure;
                    true
                }
            };
            if !possible {
                self.known = before;
                return Asked::Impossible;
            }
        }
        asked
    }

    /// Requires that a condition holds.
    pub fn ask_true(&mut self, program: &Program, cond: &Expr) -> Asked {
        match &cond.kind {
            ExprKind::Binary(BinOp::LogAnd, a, b) => self.ask_true(program, a).and(self.ask_true(program, b)),
            ExprKind::Binary(BinOp::LogOr, a, b) => match self.ask_true(program, a) {
                Asked::Given => Asked::Given,
                Asked::Impossible | Asked::Unsure => self.ask_true(program, b),
            },
            ExprKind::Binary(BinOp::Eq, a, b) => {
                let (a, b) = (self.known.eval(program, a), self.known.eval(program, b));
                let (value, asked) = match (self.known.value(&a), self.known.value(&b)) {
                    (_, Some(value)) => (value, a),
                    (Some(value), None) => (value, b),
                    (None, None) => return Asked::Unsure,
                };
                let ones = Bits::ones(value.width());
                self.ask(&asked, &value, &ones)
            }
            ExprKind::Binary(op @ (BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge), a, b)
                if !a.ty.is_signed() =>
            {
                let (left, right) = (self.known.eval(program, a), self.known.eval(program, b));
                let settled = self.known.value(&left).is_some() && self.known.value(&right).is_some();
                self.conditions.push(Condition { op: *op, left, right });
                match self.holds() {
                    false => Asked::Impossible,
                    true if settled => Asked::Given,
                    true => Asked::Unsure,
                }
            }
            ExprKind::Const(_)
            | ExprKind::Read(_)
            | ExprKind::IsValid(_)
            | ExprKind::NextIndex(_)
            | ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Cast(_)
            | ExprKind::Slice { .. }
            | ExprKind::Concat(..)
            | ExprKind::Mux(..) => {
                let value = self.known.eval(program, cond);
                self.ask(&value, &Bits::bit(true), &Bits::bit(true))
            }
        }
    }

    /// Whether no condition is violated so far.
    fn holds(&self) -> bool {
        use BinOp::*;
        self.conditions.iter().all(|c| match (self.known.value(&c.left), self.known.value(&c.right)) {
            (Some(left), Some(right)) => match c.op {
                Lt => left.cmp_unsigned(&right).is_lt(),
                Le => left.cmp_unsigned(&right).is_le(),
                Gt => left.cmp_unsigned(&right).is_gt(),
                Ge => left.cmp_unsigned(&right).is_ge(),
                Add | Sub | Mul | Div | Mod | AddSat | SubSat | And | Or | Xor | Shl | Shr | Eq | Ne
                | LogAnd | LogOr => left != right,
            },
            _ => true,
        })
    }
}

/// The paths through the program's parser, shortest first.
pub fn paths(program: &Program, goal: &Goal, most: usize) -> Vec<ParserPath> {
    let Some(parser) = program.parsers.iter().find(|p| p.role == Role::Parser) else { return Vec::new() };
    let search = Search { program, parser, goal };
    let (mut open, mut done) = (VecDeque::from([(parser.start, search.begin())]), Vec::new());
    for _ in 0..MOST {
        let Some((state, path)) = open.pop_front() else { break };
        for (next, path) in search.step(state, path) {
            match next {
                Target::State(id) => open.push_back((id, path)),
                Target::Accept if search.complete(&path) => done.push(path),
                Target::Accept | Target::Reject => {}
            }
        }
        let enough = if matches!(goal, Goal::States(_)) { 1 } else { most };
        if done.len() >= enough {
            done.truncate(enough);
            break;
        }
    }
    done
}

/// Whether a name refers to a header or state with this full name: `ipv4` and `hdr.ipv4` refer to `hdr.ipv4`, and `vlan` also to
/// `hdr.vlan[1]`.
pub fn means(full: &str, name: &str) -> bool {
    let plain = full.split('[').next().unwrap_or(full);
    let ends = |full: &str| full == name || full.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    ends(full) || ends(plain)
}

struct Search<'s> {
    program: &'s Program,
    parser: &'s Parser,
    goal: &'s Goal,
}

impl Search<'_> {
    fn begin(&self) -> ParserPath {
        let mut path = ParserPath {
            states: Vec::new(),
            headers: Vec::new(),
            known: Known::default(),
            unsure: None,
            conditions: Vec::new(),
            at: 0,
            reached: 0,
        };
        self.block(&mut path, &self.parser.prologue);
        path
    }

    fn complete(&self, path: &ParserPath) -> bool {
        match self.goal {
            Goal::All => true,
            Goal::Headers(names) | Goal::States(names) => path.reached == names.len(),
        }
    }

    /// The continuations of a path after a state. There are none if the goal cannot be reached.
    fn step(&self, id: StateId, mut path: ParserPath) -> Vec<(Target, ParserPath)> {
        let rounds = if matches!(self.goal, Goal::All) { 1 } else { ROUNDS };
        if path.states.iter().filter(|s| **s == id).count() >= rounds {
            return Vec::new();
        }
        path.states.push(id);
        let state = &self.parser.states[id.index()];
        if let Goal::States(names) = self.goal
            && names.get(path.reached).is_some_and(|name| means(&state.name, name))
        {
            path.reached += 1;
        }
        if !self.block(&mut path, &state.body) {
            return Vec::new();
        }
        match &state.next {
            Transition::Goto(target) => vec![(*target, path)],
            Transition::Select(select) => {
                (0..select.cases.len()).filter_map(|case| choose(self.program, select, case, &path)).collect()
            }
        }
    }

    fn block(&self, path: &mut ParserPath, block: &[Stmt]) -> bool {
        block.iter().all(|stmt| self.stmt(path, stmt))
    }

    /// Follows a statement. Returns false if no packet passes it, or if the path cannot reach the goal.
    fn stmt(&self, path: &mut ParserPath, stmt: &Stmt) -> bool {
        let p = self.program;
        match &stmt.kind {
            StmtKind::Extract { header, varbit } => {
                return self.extract(path, header, varbit.as_ref(), stmt.loc);
            }
            StmtKind::Assign { dst, src } => {
                let value = path.known.eval(p, src);
                path.known.set(p, dst, value);
            }
            StmtKind::Lookahead { dst: crate::Place::Var(var) } => {
                let value = of_packet(path.at, p.var(*var).ty.width());
                path.known.set(p, &crate::Place::Var(*var), value);
            }
            StmtKind::Advance(bits) => {
                match path.known.value(&path.known.eval(p, bits)).and_then(|b| b.to_u64()) {
                    Some(bits) => {
                        path.at += bits as u32;
                        path.known.reach(path.at);
                    }
                    None => path.unsure = Some(stmt.loc),
                }
            }
            StmtKind::Verify { cond, .. } => match path.ask_true(p, cond) {
                Asked::Given => {}
                Asked::Impossible => return false,
                Asked::Unsure => path.unsure = Some(stmt.loc),
            },
            StmtKind::If { cond, then, otherwise } => match path.known.settled(&path.known.eval(p, cond))[..]
            {
                [Symbol::Is(true)] => return self.block(path, then),
                [Symbol::Is(false)] => return self.block(path, otherwise),
                _ => path.known.forget(p, std::slice::from_ref(stmt)),
            },
            StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
            | StmtKind::Switch { .. }
            | StmtKind::Block { .. }
            | StmtKind::Atomic(_)
            | StmtKind::Loop { .. }
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Apply { .. }
            | StmtKind::Drop(_)
            | StmtKind::Lookahead { .. }
            | StmtKind::Emit(_)
            | StmtKind::Call(_) => path.known.forget(p, std::slice::from_ref(stmt)),
        }
        true
    }

    fn extract(&self, path: &mut ParserPath, header: &HeaderRef, varbit: Option<&Expr>, loc: Loc) -> bool {
        let p = self.program;
        let Some(id) = path.known.resolve(p, header) else { return false };
        // The packet determines the length of a varbit field. The search makes it empty where it can.
        let mut varied = 0;
        if let Some(bits) = varbit {
            let length = path.known.eval(p, bits);
            let _ = path.ask(&length, &Bits::zero(length.len() as u32), &Bits::ones(length.len() as u32));
            match path.known.value(&length).and_then(|b| b.to_u64()) {
                Some(bits) => varied = bits as u32,
                None => path.unsure = Some(loc),
            }
        }
        let fields = &p.header_type(id).fields;
        let sizes: Vec<u32> =
            fields.iter().map(|f| if f.ty.is_varbit() { varied } else { f.ty.width() }).collect();
        if !path.known.extract(id, path.at, &sizes) || !self.wanted(path, id) {
            return false;
        }
        if let HeaderRef::Next(stack) = header {
            path.known.advance(p, *stack);
        }
        path.headers.push((id, path.at));
        path.at += sizes.iter().sum::<u32>();
        path.known.reach(path.at);
        true
    }

    /// Whether the goal allows this header as the next one.
    fn wanted(&self, path: &mut ParserPath, id: HeaderId) -> bool {
        let Goal::Headers(names) = self.goal else { return true };
        let Some(name) = names.get(path.reached) else { return false };
        let full = &self.program.header(id).name;
        path.reached += 1;
        means(full, name) || means(full, &format!("inner_{name}"))
    }
}

/// The path that takes a case of a `select`, if there is one: the keys match the case and no earlier case.
fn choose(p: &Program, select: &Select, chosen: usize, path: &ParserPath) -> Option<(Target, ParserPath)> {
    let case = &select.cases[chosen];
    if case.value_set.is_some() {
        // Only the control plane knows the members of a value set.
        return None;
    }
    let mut path = path.clone();
    let keys: Vec<Symbols> = select.keys.iter().map(|key| path.known.eval(p, key)).collect();
    for (key, set) in keys.iter().zip(&case.sets) {
        let (value, mask) = asked_for(set, key.len() as u32);
        match path.ask(key, &value, &mask) {
            Asked::Given => {}
            Asked::Impossible => return None,
            Asked::Unsure => path.unsure = Some(select.loc),
        }
    }
    if !path.holds() {
        return None;
    }
    let earlier = select.cases[..chosen].iter().filter(|c| c.value_set.is_none());
    let rivals: Vec<&Vec<KeySet>> =
        earlier.map(|c| &c.sets).filter(|sets| fits(&path, &keys, sets)).collect();
    avoid(&mut path, &keys, &case.sets, &rivals, select.loc).then_some((case.next, path))
}

/// The value and mask that a set requires of a key. For a range, the value is its lower end.
fn asked_for(set: &KeySet, width: u32) -> (Bits, Bits) {
    match set {
        KeySet::Any => (Bits::zero(width), Bits::zero(width)),
        KeySet::Value(value) => (value.clone(), Bits::ones(width)),
        KeySet::Mask(value, mask) => (value.clone(), mask.clone()),
        KeySet::Range { lo, .. } => (lo.clone(), Bits::ones(width)),
    }
}

/// Whether a packet of this path may match these sets.
fn fits(path: &ParserPath, keys: &[Symbols], sets: &[KeySet]) -> bool {
    keys.iter().zip(sets).all(|(key, set)| match path.known.value(key) {
        Some(value) => set.contains(&value),
        None => {
            let (value, mask) = asked_for(set, key.len() as u32);
            matches!(set, KeySet::Range { .. }) || path.clone().ask(key, &value, &mask) != Asked::Impossible
        }
    })
}

/// Chooses a value for one key that none of the rivals matches. Returns false if there is none.
fn avoid(path: &mut ParserPath, keys: &[Symbols], own: &[KeySet], rivals: &[&Vec<KeySet>], loc: Loc) -> bool {
    if rivals.is_empty() {
        return true;
    }
    for (number, key) in keys.iter().enumerate() {
        let width = key.len() as u32;
        let taken = |value: &Bits| rivals.iter().any(|sets| sets[number].contains(value));
        let free = |value: &Bits| own[number].contains(value) && !taken(value);
        // Of one value more than there are rivals, at least one is free, if the key has that many values. Large values are tried because of
        // masks.
        let few = (0..rivals.len() as u128 + TRIED).map(|n| Bits::new(width, n));
        let bits = (0..width).map(|n| Bits::ones(width).shl(n.into()));
        for value in few.chain(bits).filter(free) {
            let mut tried = path.clone();
            let asked = tried.ask(key, &value, &Bits::ones(width));
            if asked == Asked::Impossible || !tried.holds() {
                continue;
            }
            if asked == Asked::Unsure {
                tried.unsure = Some(loc);
            }
            *path = tried;
            return true;
        }
    }
    false
}
