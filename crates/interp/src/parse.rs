//! Runs the parser: states, `select` expressions, and the statements that read the packet.

use abi::{Bits, MatchValue, drops};
use ir::{HeaderId, HeaderRef, Parser, Select, Target, Transition};

use crate::eval::{eval, header};
use crate::event::Event;
use crate::exec::Flow;
use crate::machine::{Dropped, Run};
use crate::packet::read_bits;

/// The numbers of the errors that core.p4 declares ([`ir::CORE_ERRORS`]).
pub mod errors {
    pub const PACKET_TOO_SHORT: u32 = 1;
    pub const NO_MATCH: u32 = 2;
    pub const STACK_OUT_OF_BOUNDS: u32 = 3;
    pub const HEADER_TOO_SHORT: u32 = 4;
    pub const PARSER_TIMEOUT: u32 = 5;
    pub const PARSER_INVALID_ARGUMENT: u32 = 6;
}

impl Run<'_, '_> {
    /// Runs a parser. The result is in `parser_error`.
    pub fn parse(&mut self, parser: &Parser) -> Result<(), Dropped> {
        let flow = self.states(parser);
        let error = match flow {
            Flow::Reject(error) => error,
            Flow::Drop(_) => errors::PARSER_TIMEOUT,
            Flow::Next | Flow::Break(_) | Flow::Continue(_) => 0,
        };
        self.set(self.program.standard.parser_error, error as u128);
        if self.watched {
            let error = self.program.errors.get(error as usize).map_or("?", |e| e.as_str());
            let consumed = self.s.cursor.div_ceil(8);
            self.observer.event(Event::Parsed { error, consumed });
        }
        Dropped::unless_ended(flow)
    }

    fn states(&mut self, parser: &Parser) -> Flow {
        let flow = self.block(&parser.prologue);
        if flow != Flow::Next {
            return flow;
        }
        let mut at = parser.start;
        loop {
            if self.steps == 0 {
                return Flow::Drop(self.reason(drops::STEP_BUDGET));
            }
            self.steps -= 1;
            let state = &parser.states[at.index()];
            if self.watched {
                self.observer.event(Event::State { name: &state.name, loc: state.loc });
            }
            let rejection = match self.state(state, &parser.states) {
                Ok(Target::State(id)) => {
                    at = id;
                    continue;
                }
                Ok(Target::Accept) => return Flow::Next,
                Ok(Target::Reject) => Flow::Reject(0),
                Err(flow) => flow,
            };
            self.block(&state.rejected);
            return rejection;
        }
    }

    /// Runs a state. Returns the next state, or how parsing ended.
    fn state(&mut self, state: &ir::State, states: &[ir::State]) -> Result<Target, Flow> {
        let flow = self.block(&state.body);
        if flow != Flow::Next {
            return Err(flow);
        }
        match &state.next {
            Transition::Goto(target) => Ok(*target),
            Transition::Select(select) => {
                let keys: Vec<Bits> = select.keys.iter().map(|k| eval(self.program, &self.s, k)).collect();
                let next = self.select(select, &keys);
                if self.watched {
                    let names = select.keys.iter().map(|k| ir::text::expr(self.program, k));
                    let next = match next {
                        Some(Target::State(id)) => &states[id.index()].name,
                        Some(Target::Accept) => "accept",
                        Some(Target::Reject) => "reject",
                        None => "no case matches",
                    };
                    self.observer.event(Event::Selected { keys: names.zip(keys).collect(), next });
                }
                next.ok_or(Flow::Reject(errors::NO_MATCH))
            }
        }
    }

    fn select(&self, select: &Select, keys: &[Bits]) -> Option<Target> {
        let case = select.cases.iter().find(|case| match case.value_set {
            Some(set) => self.is_member(set, select, keys),
            None => case.sets.iter().zip(keys).all(|(set, key)| set.contains(key)),
        })?;
        Some(case.next)
    }

    fn is_member(&self, set: ir::ValueSetId, select: &Select, keys: &[Bits]) -> bool {
        let fits = |part: &MatchValue, of: &ir::Expr, key: &Bits| {
            if let MatchValue::Range(lo, hi) = part
                && of.ty.is_signed()
            {
                lo.cmp_signed(key).is_le() && key.cmp_signed(hi).is_le()
            } else {
                part.matches(key)
            }
        };
        let members = &self.state.value_sets[set.index()];
        members.iter().any(|member| {
            let mut parts = member.iter().zip(&select.keys).zip(keys);
            parts.all(|((part, of), key)| fits(part, of, key))
        })
    }

    /// Reads bits at the cursor, which stays where it is.
    pub fn lookahead(&mut self, dst: &ir::Place, loc: ir::Loc) -> Flow {
        let p = self.program;
        let width = match dst {
            ir::Place::Var(id) => p.var(*id).ty.width(),
            ir::Place::Field(HeaderRef::Header(id), f) => p.header_type(*id).fields[*f as usize].ty.width(),
            ir::Place::Field(..) => return Flow::Reject(errors::STACK_OUT_OF_BOUNDS),
        };
        if self.s.left() < width as usize {
            return Flow::Reject(errors::PACKET_TOO_SHORT);
        }
        let value = read_bits(&self.s.data, self.s.cursor, width);
        self.write(dst, value, loc);
        Flow::Next
    }

    /// Moves the cursor.
    pub fn advance(&mut self, bits: &ir::Expr) -> Flow {
        let bits = eval(self.program, &self.s, bits).to_u64().unwrap_or(u64::MAX);
        if !bits.is_multiple_of(8) {
            return Flow::Reject(errors::PARSER_INVALID_ARGUMENT);
        }
        if bits > self.s.left() as u64 {
            return Flow::Reject(errors::PACKET_TOO_SHORT);
        }
        self.s.cursor += bits as usize;
        Flow::Next
    }

    /// Extracts a header, with this number of bits in its varbit field.
    pub fn extract(&mut self, h: &HeaderRef, varbit: Option<u64>, loc: ir::Loc) -> Flow {
        let p = self.program;
        let Some(id) = header(p, &self.s, h) else { return Flow::Reject(errors::STACK_OUT_OF_BOUNDS) };
        let ty = p.header_type(id);
        let greatest = ty.varbit().map_or(0, |i| ty.fields[i].ty.width() as u64);
        let variable = varbit.unwrap_or(0);
        if !variable.is_multiple_of(8) {
            return Flow::Reject(errors::PARSER_INVALID_ARGUMENT);
        }
        // The order is that of P4-16 section 12.8.2: the packet's length is checked first. A length that overflows is longer than every
        // packet.
        if (self.s.left() as u64) < u64::from(ty.min_bits()).saturating_add(variable) {
            return Flow::Reject(errors::PACKET_TOO_SHORT);
        }
        if variable > greatest {
            return Flow::Reject(errors::HEADER_TOO_SHORT);
        }
        let mut at = self.s.cursor;
        for (i, field) in ty.fields.iter().enumerate() {
            let width = if field.ty.is_varbit() { variable as u32 } else { field.ty.width() };
            self.s.headers[id.index()].fields[i] = read_bits(&self.s.data, at, width);
            at += width as usize;
        }
        self.s.headers[id.index()].valid = true;
        self.s.cursor = at;
        if let HeaderRef::Next(stack) = h {
            self.s.next[p.stacks[stack.index()].index.index()] += 1;
        }
        if self.watched {
            self.tell_extracted(id, loc);
        }
        Flow::Next
    }

    fn tell_extracted(&mut self, id: HeaderId, loc: ir::Loc) {
        let ty = self.program.header_type(id);
        let values = self.s.headers[id.index()].fields.iter().cloned();
        let fields = ty.fields.iter().map(|f| f.name.as_str()).zip(values).collect();
        self.observer.event(Event::Extracted { header: &self.program.header(id).name, loc, fields });
    }
}
