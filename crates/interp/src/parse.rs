//! The parser: states, selects, and the statements that read the packet.

use abi::Bits;
use ir::{HeaderId, HeaderRef, Parser, Select, Stmt, StmtKind, Target, Transition};

use crate::eval::{eval, header, truth};
use crate::event::Event;
use crate::exec::Flow;
use crate::machine::Run;
use crate::packet::read_bits;

/// Numbers of core.p4's errors, which every program begins with.
pub mod errors {
    pub const PACKET_TOO_SHORT: u32 = 1;
    pub const NO_MATCH: u32 = 2;
    pub const STACK_OUT_OF_BOUNDS: u32 = 3;
    pub const HEADER_TOO_SHORT: u32 = 4;
    pub const PARSER_TIMEOUT: u32 = 5;
    pub const PARSER_INVALID_ARGUMENT: u32 = 6;
}

impl Run<'_, '_> {
    /// Runs a parser to its end; `parser_error` says how that was.
    pub fn parse(&mut self, parser: &Parser) {
        let error = match self.states(parser) {
            Flow::Reject(error) => error,
            Flow::Exhausted => errors::PARSER_TIMEOUT,
            _ => 0,
        };
        self.set(self.program.standard.parser_error, error as u128);
        if self.watched {
            let error = self.program.errors.get(error as usize).map_or("?", |e| e.as_str());
            let consumed = self.s.cursor.div_ceil(8);
            self.observer.event(Event::Parsed { error, consumed });
        }
    }

    fn states(&mut self, parser: &Parser) -> Flow {
        match self.block(&parser.prologue) {
            Flow::Next => {}
            other => return other,
        }
        let mut at = parser.start;
        loop {
            if self.steps == 0 {
                return Flow::Exhausted;
            }
            self.steps -= 1;
            let state = &parser.states[at.index()];
            if self.watched {
                self.observer.event(Event::State { name: &state.name, loc: state.loc });
            }
            match self.block(&state.body) {
                Flow::Next => {}
                other => return other,
            }
            let next = match &state.next {
                Transition::Goto(target) => *target,
                Transition::Select(select) => match self.select(select) {
                    Some(target) => target,
                    None => return Flow::Reject(errors::NO_MATCH),
                },
            };
            match next {
                Target::State(id) => at = id,
                Target::Accept => return Flow::Next,
                Target::Reject => return Flow::Reject(0),
            }
        }
    }

    fn select(&self, select: &Select) -> Option<Target> {
        let keys: Vec<Bits> = select.keys.iter().map(|k| eval(self.program, &self.s, k)).collect();
        let case = select.cases.iter().find(|case| match case.value_set {
            Some(set) => self.is_member(set, &keys),
            None => case.sets.iter().zip(&keys).all(|(set, key)| set.contains(key)),
        })?;
        Some(case.next)
    }

    fn is_member(&self, set: ir::ValueSetId, keys: &[Bits]) -> bool {
        let members = &self.state.value_sets[set.index()];
        members.iter().any(|member| member.iter().zip(keys).all(|(part, key)| part.matches(key)))
    }

    /// A statement that only parsers have.
    pub fn parser_stmt(&mut self, stmt: &Stmt) -> Flow {
        let p = self.program;
        match &stmt.kind {
            StmtKind::Extract { header, varbit } => {
                let bits = varbit.as_ref().map(|e| eval(p, &self.s, e).to_u64().unwrap_or(u64::MAX));
                self.extract(header, bits, stmt.loc)
            }
            StmtKind::Lookahead { dst } => {
                let width = match dst {
                    ir::Place::Var(id) => p.var(*id).ty.width(),
                    ir::Place::Field(HeaderRef::Header(id), f) => {
                        p.header_type(*id).fields[*f as usize].ty.width()
                    }
                    ir::Place::Field(..) => return Flow::Reject(errors::STACK_OUT_OF_BOUNDS),
                };
                if self.s.left() < width as usize {
                    return Flow::Reject(errors::PACKET_TOO_SHORT);
                }
                let value = read_bits(&self.s.data, self.s.cursor, width);
                self.write(dst, value, stmt.loc);
                Flow::Next
            }
            StmtKind::Advance(e) => {
                let bits = eval(p, &self.s, e).to_u64().unwrap_or(u64::MAX);
                if !bits.is_multiple_of(8) {
                    return Flow::Reject(errors::PARSER_INVALID_ARGUMENT);
                }
                if bits > self.s.left() as u64 {
                    return Flow::Reject(errors::PACKET_TOO_SHORT);
                }
                self.s.cursor += bits as usize;
                Flow::Next
            }
            StmtKind::Verify { cond, error } if !truth(p, &self.s, cond) => Flow::Reject(error.0),
            _ => Flow::Next,
        }
    }

    fn extract(&mut self, h: &HeaderRef, varbit: Option<u64>, loc: ir::Loc) -> Flow {
        let p = self.program;
        let Some(id) = header(p, &self.s, h) else { return Flow::Reject(errors::STACK_OUT_OF_BOUNDS) };
        let ty = p.header_type(id);
        let greatest = ty.varbit().map_or(0, |i| ty.fields[i].ty.width() as u64);
        let variable = varbit.unwrap_or(0);
        if !variable.is_multiple_of(8) {
            return Flow::Reject(errors::PARSER_INVALID_ARGUMENT);
        }
        if variable > greatest {
            return Flow::Reject(errors::HEADER_TOO_SHORT);
        }
        let bits = ty.min_bits() as usize + variable as usize;
        if self.s.left() < bits {
            return Flow::Reject(errors::PACKET_TOO_SHORT);
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
