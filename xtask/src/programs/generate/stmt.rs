//! Generates statements.

use super::Generator;
use super::callable::Body;
use super::state::State;
use super::types::Ty;

impl Generator {
    /// Generates some statements, with at most `depth` levels of nesting.
    pub fn statements(&mut self, body: Body, count: usize, depth: u32) {
        for _ in 0..count {
            self.statement(body, depth);
        }
    }

    fn statement(&mut self, body: Body, depth: u32) {
        self.calls_in_expr = 3;
        match self.below(24) {
            0..=7 => self.assignment(),
            8 => self.local(),
            9 | 10 if depth > 0 => self.conditional(body, depth),
            11 if depth > 0 && body == Body::Control => self.switch(body, depth),
            12 if depth > 0 && self.features.loops && body != Body::Parser => self.repeat(body, depth),
            13 | 14 => self.validity(body),
            15 => self.call_function(),
            16 | 17 => self.call(body),
            18 if depth < 3 => self.leave(body),
            19 | 20 if matches!(body, Body::Action | Body::Control) => self.use_state(),
            21 if body == Body::Control => self.apply_one(depth),
            22 if depth > 0 => self.block(body, depth),
            _ => self.assignment(),
        }
    }

    fn block(&mut self, body: Body, depth: u32) {
        self.open("{");
        self.nested(body, depth);
        self.close("}");
    }

    fn nested(&mut self, body: Body, depth: u32) {
        self.inside(|g| {
            let count = 1 + g.below(2);
            g.statements(body, count, depth - 1);
        });
    }

    fn assignment(&mut self) {
        let ty = match self.below(8) {
            0 => self.any_type(),
            _ => self.scalar(),
        };
        let ty = match self.place(|p| p.writable) {
            Some(place) if self.chance(50) => place.ty,
            _ => ty,
        };
        let Some(target) = self.target(&ty) else { return };
        let depth = 1 + self.below(3) as u32;
        let value = self.expr(&ty, depth);
        if matches!(ty, Ty::Bit(_)) && self.chance(6) {
            let all = ["+", "-", "&", "|", "^", "*", "|+|", "|-|"];
            let op = self.choose(if ty.width() > 64 { &all[..5] } else { &all });
            return self.line(&format!("{target} {op}= {value};"));
        }
        self.line(&format!("{target} = {value};"));
    }

    fn conditional(&mut self, body: Body, depth: u32) {
        let condition = self.expr(&Ty::Bool, 2);
        self.open(&format!("if ({condition}) {{"));
        self.nested(body, depth);
        if self.chance(40) {
            self.turn("} else {");
            self.nested(body, depth);
        }
        self.close("}");
    }

    /// Generates a switch, with labels that share a block.
    fn switch(&mut self, body: Body, depth: u32) {
        let ty = Ty::Bit(2 + self.below(7) as u32);
        let value = self.expr(&ty, 2);
        self.open(&format!("switch ({value}) {{"));
        let count = 1 + self.below(3);
        for n in 0..count {
            let label = format!("{}w{n}", ty.width());
            if self.chance(25) && n + 1 < count {
                self.line(&format!("{label}:"));
                continue;
            }
            self.open(&format!("{label}: {{"));
            self.nested(body, depth);
            self.close("}");
        }
        if self.chance(60) {
            self.open("default: {");
            self.nested(body, depth);
            self.close("}");
        }
        self.close("}");
    }

    /// Generates a loop that ends.
    fn repeat(&mut self, body: Body, depth: u32) {
        let (name, most) = (self.fresh("i"), 1 + self.below(5));
        // Compiled targets do not know the number of iterations of the first form.
        let head = match self.chance(10) {
            true => format!("for (bit<8> {name} = 0; {name} < {most}; {name} = {name} + 1) {{"),
            false => format!("for (bit<8> {name} in 8w0..8w{most}) {{"),
        };
        self.open(&head);
        self.inside(|g| {
            g.see(&name, &Ty::Bit(8), false);
            let count = 1 + g.below(2);
            g.statements(body, count, depth - 1);
            if g.chance(30) {
                let (condition, word) = (g.expr(&Ty::Bool, 2), g.choose(&["break", "continue"]));
                g.line(&format!("if ({condition}) {{ {word}; }}"));
                g.statements(body, 1, depth - 1);
            }
        });
        self.close("}");
    }

    /// Generates a statement that changes the validity of a header, or shifts a stack.
    fn validity(&mut self, body: Body) {
        let stacks = self.scope.stacks.clone();
        if !stacks.is_empty() && body != Body::Parser && self.chance(35) {
            let stack = &stacks[self.below(stacks.len())];
            let verb = self.choose(&["push_front", "pop_front"]);
            let by = 1 + self.below(stack.size as usize + 1);
            return self.line(&format!("{}.{verb}({by});", stack.text));
        }
        if self.features.varbit
            && self.chance(30)
            && let (Some(to), Some(from)) = (self.varbit(true), self.varbit(false))
        {
            return self.line(&format!("{to} = {from};"));
        }
        let Some(header) = self.place(|p| p.writable && matches!(p.ty, Ty::Header(_))) else { return };
        let target = self.target(&header.ty).unwrap_or(header.text);
        let verb = self.choose(&["setValid", "setInvalid"]);
        self.line(&format!("{target}.{verb}();"));
    }

    /// A varbit field of a header in the scope.
    pub fn varbit(&mut self, writable: bool) -> Option<String> {
        let header = self.headers.iter().position(|h| h.varbit.is_some())?;
        let place = self.place(|p| p.ty == Ty::Header(header) && (p.writable || !writable))?;
        Some(format!("{}.rest", place.text))
    }

    /// Generates a call of a function for its effect on its arguments.
    fn call_function(&mut self) {
        if self.functions.is_empty() {
            return self.assignment();
        }
        let function = {
            let at = self.below(self.functions.len());
            self.functions[at].clone()
        };
        if let Some(arguments) = self.arguments(&function.params) {
            self.line(&format!("{}({arguments});", function.name));
        }
    }

    /// Generates a call of an action or of another control.
    fn call(&mut self, body: Body) {
        let is_control = body == Body::Control && !self.instances.is_empty() && self.chance(60);
        if is_control {
            let (name, params) = {
                let at = self.below(self.instances.len());
                self.instances[at].clone()
            };
            if let Some(arguments) = self.arguments(&params) {
                self.line(&format!("{name}.apply({arguments});"));
            }
        } else if matches!(body, Body::Control | Body::Action) && !self.callable_actions.is_empty() {
            let action = {
                let at = self.below(self.callable_actions.len());
                self.callable_actions[at].clone()
            };
            if let Some(arguments) = self.arguments(&action.params) {
                self.line(&format!("{}({arguments});", action.name));
            }
        }
    }

    /// Generates a conditional `return`, `exit` or drop.
    fn leave(&mut self, body: Body) {
        let condition = self.expr(&Ty::Bool, 2);
        let what = match body {
            Body::Function => match self.returns.clone() {
                Some(ty) => format!("return {};", self.expr(&ty, 1)),
                None => "return;".into(),
            },
            Body::Action | Body::Control if self.pipeline && self.chance(30) => "mark_to_drop(sm);".into(),
            Body::Action | Body::Control => self.choose(&["return;", "exit;"]).into(),
            Body::Parser => return,
        };
        self.line(&format!("if ({condition}) {{ {what} }}"));
    }

    /// Generates a use of a counter, a register or a hash.
    fn use_state(&mut self) {
        if self.features.hash && self.pipeline && self.chance(30) {
            return self.hash();
        }
        if self.state.is_empty() {
            return self.assignment();
        }
        let state = {
            let at = self.below(self.state.len());
            self.state[at].clone()
        };
        let index = self.expr(&Ty::Bit(32), 1);
        let index = match self.chance(80) {
            true => format!("({index}) & {}", state.size() - 1),
            false => index,
        };
        match state {
            State::Counter { name, .. } => self.line(&format!("{name}.count({index});")),
            State::Register { name, ty, .. } => {
                if let Some(target) = self.target(&ty)
                    && self.chance(60)
                {
                    self.line(&format!("{name}.read({target}, {index});"));
                }
                if self.chance(60) {
                    let value = self.expr(&ty, 2);
                    self.line(&format!("{name}.write({index}, {value});"));
                }
            }
        }
    }

    fn hash(&mut self) {
        let width = [16, 32][self.below(2)];
        let ty = Ty::Bit(width);
        let Some(target) = self.place(|p| p.writable && p.ty == ty) else { return };
        let algorithm = self.choose(&["crc16", "crc32", "csum16", "xor16", "identity"]);
        let mut data = Vec::new();
        for _ in 0..1 + self.below(3) {
            let ty = self.number();
            data.push(self.leaf(&ty));
        }
        if self.features.varbit
            && self.chance(60)
            && let Some(rest) = self.varbit(false)
        {
            let at = self.below(data.len() + 1);
            data.insert(at, rest);
        }
        let most = self.value(10);
        let data = data.join(", ");
        let name = target.text;
        self.line(&format!(
            "hash({name}, HashAlgorithm.{algorithm}, {width}w3, {{ {data} }}, {width}w{most});"
        ));
    }
}
