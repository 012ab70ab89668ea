//! Generates parsers: states that go forward, loops over stacks, and selects of every kind.

use super::Generator;
use super::callable::{Block, Body, Direction, Params};
use super::types::{Shape, Ty};

impl Generator {
    /// Declares the parsers that the main one applies.
    pub fn declare_subparsers(&mut self) {
        for _ in 0..self.below(2 + usize::from(self.features.calls)) {
            let name = self.fresh("P");
            let plain: Vec<usize> =
                (0..self.headers.len()).filter(|h| self.headers[*h].varbit.is_none()).collect();
            let header = plain[self.below(plain.len())];
            let (h, v) = (self.fresh("p"), self.fresh("p"));
            let direction = if self.chance(50) { Direction::Out } else { Direction::InOut };
            let ty = self.scalar();
            let params: Params =
                vec![(direction, h.clone(), Ty::Header(header)), (Direction::InOut, v.clone(), ty.clone())];
            let spelled = format!(
                "{} {} {h}, inout {} {v}",
                direction.word(),
                self.headers[header].name,
                self.spell(&ty)
            );
            self.open(&format!("parser {name}(packet_in pkt, {spelled}) {{"));
            self.apart(|g| {
                g.see(&h, &Ty::Header(header), true);
                g.see(&v, &ty, true);
                g.open("state start {");
                g.inside(|g| {
                    g.line(&format!("pkt.extract({h});"));
                    g.statements(Body::Parser, 1, 1);
                    g.transition(&["accept".to_string(), "more".to_string()]);
                });
                g.close("}");
                g.open("state more {");
                g.inside(|g| {
                    g.parser_step();
                    g.statements(Body::Parser, 1, 1);
                });
                let end = if g.chance(25) { "transition reject;" } else { "transition accept;" };
                g.line(end);
                g.close("}");
            });
            self.close("}");
            self.subparsers.push(Block { name, params });
        }
    }

    /// Declares the program's main parser.
    pub fn main_parser(&mut self) {
        self.open(
            "parser Parse(packet_in pkt, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {",
        );
        self.apart(|g| {
            let mut instances = Vec::new();
            for parser in g.subparsers.clone() {
                let name = g.fresh("q");
                g.line(&format!("{}() {name};", parser.name));
                instances.push((name, parser.params));
            }
            let set = (g.features.value_sets && g.chance(50)).then(|| g.fresh("vs"));
            if let Some(set) = &set {
                g.line(&format!("value_set<bit<8>>(4) {set};"));
            }
            g.value_set = set;
            g.see_headers(true);
            g.see_metadata();
            g.declare_locals(2);
            let count = g.members.len();
            for number in 0..count {
                g.state_of(number, &instances);
            }
            g.value_set = None;
        });
        self.close("}");
    }

    fn state_name(number: usize) -> String {
        if number == 0 { "start".into() } else { format!("s{number}") }
    }

    /// Generates the state that extracts the member with this number. The states of later members follow.
    fn state_of(&mut self, number: usize, instances: &[(String, Params)]) {
        self.calls_in_expr = 1;
        let member = self.members[number].clone();
        let text = format!("hdr.{}", member.name);
        let mut following: Vec<String> = (number + 1..self.members.len()).map(Self::state_name).collect();
        following.truncate(3);
        following.push("accept".into());
        if self.chance(10) {
            following.push("reject".into());
        }
        self.open(&format!("state {} {{", Self::state_name(number)));
        self.inside(|g| {
            match &member.shape {
                Shape::One(h) => g.take(&text, *h, instances),
                Shape::Stack(_, size) => {
                    g.line(&format!("pkt.extract({text}.next);"));
                    if g.chance(60) {
                        // The state may continue at itself. The stack or the packet ends the loop.
                        following.insert(0, Self::state_name(number));
                    }
                    if g.chance(40) {
                        g.see(&format!("{text}.last"), &Ty::Header(g.stack_header(number)), true);
                    }
                    let _ = size;
                }
                Shape::Union(types) => {
                    let at = g.below(types.len());
                    g.line(&format!("pkt.extract({text}.m{at});"));
                }
            }
            if g.chance(50) {
                g.parser_step();
            }
            if g.chance(40) {
                g.statements(Body::Parser, 1, 1);
            }
            // At least one transition of the last member's state ends the parser.
            match number + 1 == g.members.len() && following.len() > 1 {
                true => g.last_transition(&following),
                false => g.transition(&following),
            }
        });
        self.close("}");
    }

    fn last_transition(&mut self, following: &[String]) {
        let (key, ty) = self.select_key();
        let set = self.select_set(&ty, true);
        let next = following[0].clone();
        self.line(&format!("transition select({key}) {{ {set}: {next}; default: accept; }}"));
    }

    fn stack_header(&self, number: usize) -> usize {
        match self.members[number].shape {
            Shape::Stack(h, _) | Shape::One(h) => h,
            Shape::Union(_) => 0,
        }
    }

    /// Extracts a header directly, or with another parser.
    fn take(&mut self, text: &str, header: usize, instances: &[(String, Params)]) {
        if let Some(most) = self.headers[header].varbit {
            let bytes = most / 8 + 1;
            let size = format!("(bit<32>)(pkt.lookahead<bit<8>>()) % {bytes} * 8");
            return self.line(&format!("pkt.extract({text}, {size});"));
        }
        let suits = |i: &&(String, Params)| i.1[0].2 == Ty::Header(header);
        let known: Vec<_> = instances.iter().filter(suits).cloned().collect();
        if !known.is_empty() && self.chance(60) {
            let (name, params) = known[self.below(known.len())].clone();
            if let Some(target) = self.target(&params[1].2) {
                return self.line(&format!("{name}.apply(pkt, {text}, {target});"));
            }
        }
        self.line(&format!("pkt.extract({text});"));
    }

    /// Generates a lookahead, an advance or a verify.
    fn parser_step(&mut self) {
        match self.below(5) {
            0 => {
                let ty = self.number();
                if let Some(target) = self.target(&ty) {
                    self.line(&format!("{target} = pkt.lookahead<{}>();", self.spell(&ty)));
                }
            }
            1 => {
                let by = 8 * self.below(5);
                self.line(&format!("pkt.advance({by});"));
            }
            2 => {
                let place = self.place(|p| matches!(p.ty, Ty::Bit(8..=64)));
                if let Some(place) = place {
                    let converted = self.converted(&place.text, &place.ty, &Ty::Bit(2));
                    self.line(&format!("pkt.advance(((bit<32>)({converted})) << 3);"));
                }
            }
            _ => {
                let (condition, error) = (self.expr(&Ty::Bool, 2), self.choose(&["Strange", "Odd"]));
                // The condition is true most of the time.
                let rarely = self.scope.places.iter().any(|p| p.text == "sm.packet_length");
                let or = if rarely { " || sm.packet_length > 40" } else { "" };
                self.line(&format!("verify({condition}{or}, error.{error});"));
            }
        }
    }

    /// Generates `transition …;`.
    fn transition(&mut self, following: &[String]) {
        if self.chance(25) {
            // The first target is excluded, because it may be the state itself.
            let next = following[following.len() - 1 - self.below(following.len().div_ceil(2))].clone();
            return self.line(&format!("transition {next};"));
        }
        let keys: Vec<(String, Ty)> =
            (0..1 + self.below(2) + self.below(2)).map(|_| self.select_key()).collect();
        let texts: Vec<&str> = keys.iter().map(|(text, _)| text.as_str()).collect();
        self.open(&format!("transition select({}) {{", texts.join(", ")));
        for _ in 0..1 + self.below(4) {
            let next = following[self.below(following.len())].clone();
            let sets: Vec<String> = keys.iter().map(|(_, ty)| self.select_set(ty, keys.len() == 1)).collect();
            match sets.len() {
                1 => self.line(&format!("{}: {next};", sets[0])),
                _ => self.line(&format!("({}): {next};", sets.join(", "))),
            }
        }
        // One case continues forward, because the checker rejects a parser that only loops.
        if self.chance(85) || following.len() > 1 {
            let next = following[following.len() - 1 - self.below(following.len().div_ceil(2))].clone();
            let word = if keys.len() == 1 && self.chance(30) { "_" } else { "default" };
            self.line(&format!("{word}: {next};"));
        }
        self.close("}");
    }

    fn select_key(&mut self) -> (String, Ty) {
        match self.below(5) {
            0 => ("pkt.lookahead<bit<8>>()".into(), Ty::Bit(8)),
            1 => {
                let ty = Ty::Bit([1, 4, 8, 12, 16][self.below(5)]);
                (self.expr(&ty, 1), ty)
            }
            _ => match self
                .place(|p| p.ty.is_number() && p.ty.width() <= 128 || p.ty == Ty::Enum || p.ty == Ty::Bool)
            {
                // The key has few bits, so that packets match the cases.
                Some(place) if place.ty.is_number() && place.ty.width() > 8 && self.chance(70) => {
                    (format!("{}[2:0]", place.text), Ty::Bit(3))
                }
                Some(place) => (place.text, place.ty),
                None => ("pkt.lookahead<bit<8>>()".into(), Ty::Bit(8)),
            },
        }
    }

    fn select_set(&mut self, ty: &Ty, alone: bool) -> String {
        match self.below(6) {
            0 if ty.is_number() => self.masked(ty, false),
            1 if ty.is_number() => self.range(ty),
            2 if !alone => "_".into(),
            3 if alone && *ty == Ty::Bit(8) && self.value_set.is_some() => {
                self.value_set.clone().unwrap_or_default()
            }
            _ => self.small(ty),
        }
    }
}
