//! Generates expressions of a type. Every operand is in parentheses, so that precedence does not matter.

use super::Generator;
use super::callable::Direction;
use super::types::{MEMBERS, Ty};

impl Generator {
    /// An expression of a type.
    pub fn expr(&mut self, ty: &Ty, depth: u32) -> String {
        if depth == 0 || self.chance(15) {
            return self.leaf(ty);
        }
        if self.chance(12)
            && let Some(call) = self.function_call(ty)
        {
            return call;
        }
        match ty {
            Ty::Bool => self.truth(depth - 1),
            Ty::Bit(width) => self.bits(*width, depth - 1),
            Ty::Int(width) => self.signed(*width, depth - 1),
            Ty::Enum => match self.below(4) {
                0 => format!("((E){})", self.expr(&Ty::Bit(ty.width()), depth - 1)),
                1 => self.mux(ty, depth - 1),
                _ => self.leaf(ty),
            },
            Ty::Struct(n) if self.chance(50) => {
                let fields = self.structs[*n].fields.clone();
                self.record(&fields, depth - 1)
            }
            Ty::Struct(_) | Ty::Header(_) => self.leaf(ty),
        }
    }

    /// A place, a cast of a place, or a literal.
    pub fn leaf(&mut self, ty: &Ty) -> String {
        if let Ty::Header(header) = ty
            && self.chance(20)
            && let Some(element) = self.element(*header)
        {
            return element;
        }
        if !self.constant
            && self.chance(70)
            && let Some(place) = self.place(|p| p.ty == *ty)
        {
            return place.text;
        }
        if !self.constant
            && ty.is_scalar()
            && *ty != Ty::Enum
            && self.chance(60)
            && let Some(place) = self.place(|p| p.ty.is_scalar() && p.ty != Ty::Enum)
        {
            return self.converted(&place.text, &place.ty, ty);
        }
        self.literal(ty)
    }

    /// A cast of a value to another type.
    pub fn converted(&mut self, text: &str, from: &Ty, to: &Ty) -> String {
        if from == to {
            return text.to_string();
        }
        let bits = match from {
            Ty::Bit(_) => text.to_string(),
            _ => format!("(bit<{}>){text}", from.width()),
        };
        match (from, to) {
            (Ty::Bit(w), Ty::Bool) if self.chance(50) => format!("({text} != {w}w0)"),
            (_, Ty::Bool) if from.width() == 1 => format!("((bool)({bits}))"),
            (_, Ty::Bool) => {
                let at = self.below(from.width() as usize);
                format!("((bool)({bits})[{at}:{at}])")
            }
            (Ty::Int(_), Ty::Int(w)) => format!("((int<{w}>){text})"),
            (_, Ty::Int(w)) if from.width() == *w => format!("((int<{w}>)({bits}))"),
            (_, Ty::Int(w)) => match self.chance(50) {
                true => format!("((int<{w}>)(bit<{w}>)({bits}))"),
                false => format!("((int<{w}>)(int<{}>)({bits}))", from.width()),
            },
            (_, Ty::Bit(w)) if from.width() == *w => format!("({bits})"),
            (_, Ty::Bit(w)) if from.width() > *w && self.chance(50) => {
                let low = self.below((from.width() - w + 1) as usize) as u32;
                format!("({bits})[{}:{low}]", low + w - 1)
            }
            (Ty::Int(_), Ty::Bit(w)) if self.chance(50) => format!("((bit<{w}>)(int<{w}>){text})"),
            (_, Ty::Bit(w)) => format!("((bit<{w}>)({bits}))"),
            _ => self.literal(to),
        }
    }

    /// A constant of a type.
    pub fn literal(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Bool => if self.chance(50) { "true" } else { "false" }.into(),
            Ty::Bit(w) => format!("{w}w{}", self.value(*w)),
            Ty::Int(1) => "1s0".into(),
            Ty::Int(w) => match self.chance(40) {
                true => format!("(-{w}s{})", self.value(w - 1)),
                false => format!("{w}s{}", self.value(w - 1)),
            },
            Ty::Enum => format!("E.M{}", self.below(MEMBERS)),
            Ty::Struct(n) => {
                let fields = self.structs[*n].fields.clone();
                self.record(&fields, 0)
            }
            // A varbit has no literal, so another header of this type is used. There is at least one.
            Ty::Header(n) if self.headers[*n].varbit.is_some() => {
                self.place(|p| p.ty == *ty).map_or("hdr.v".into(), |p| p.text)
            }
            Ty::Header(n) => {
                let fields = self.headers[*n].fields.clone();
                self.record(&fields, 0)
            }
        }
    }

    /// A number of this width. Values at the limits of the type are more frequent.
    pub fn value(&mut self, width: u32) -> String {
        let width = width.min(128);
        let all = if width == 0 { 0 } else { u128::MAX >> (128 - width) };
        let value = match self.below(8) {
            0 => 0,
            1 => 1,
            2 => all,
            3 => all >> 1,
            4 => all - (all >> 1),
            5 => 1 << self.below(width.max(1) as usize),
            _ => self.rng.bits(),
        };
        match value & all {
            value if self.chance(40) => value.to_string(),
            value => format!("{value:#x}"),
        }
    }

    /// `{ … }` with a value for each field, by position or by name.
    fn record(&mut self, fields: &[(String, Ty)], depth: u32) -> String {
        let named = self.chance(40);
        let values: Vec<String> = fields
            .iter()
            .map(|(name, ty)| {
                let value = self.expr(ty, depth);
                if named { format!("{name} = {value}") } else { value }
            })
            .collect();
        format!("{{ {} }}", values.join(", "))
    }

    fn mux(&mut self, ty: &Ty, depth: u32) -> String {
        let condition = self.expr(&Ty::Bool, depth);
        format!("(({condition}) ? {} : {})", self.expr(ty, depth), self.expr(ty, depth))
    }

    fn truth(&mut self, depth: u32) -> String {
        match self.below(9) {
            0 => format!("(!{})", self.expr(&Ty::Bool, depth)),
            1 | 2 => {
                let op = self.choose(&["&&", "||"]);
                format!("({} {op} {})", self.expr(&Ty::Bool, depth), self.expr(&Ty::Bool, depth))
            }
            3 => match self.place(|p| matches!(p.ty, Ty::Header(_))) {
                Some(header) if !self.constant => format!("{}.isValid()", header.text),
                _ => self.leaf(&Ty::Bool),
            },
            4 => self.records_equal(),
            5 => self.mux(&Ty::Bool, depth),
            _ => {
                let ty = self.number();
                let op = self.choose(&["==", "!=", "<", "<=", ">", ">="]);
                format!("({} {op} {})", self.expr(&ty, depth), self.expr(&ty, depth))
            }
        }
    }

    /// A comparison of whole headers or structs.
    fn records_equal(&mut self) -> String {
        let first = self.place(|p| matches!(p.ty, Ty::Header(_) | Ty::Struct(_)));
        if self.constant {
            return self.literal(&Ty::Bool);
        }
        let Some(first) = first else { return self.leaf(&Ty::Bool) };
        let ty = first.ty.clone();
        let second = self.place(|p| p.ty == ty).unwrap_or(first.clone());
        format!("({} {} {})", first.text, self.choose(&["==", "!="]), second.text)
    }

    fn bits(&mut self, width: u32, depth: u32) -> String {
        let ty = Ty::Bit(width);
        match self.below(14) {
            n @ 0..=4 => self.operation(n, &ty, depth),
            5 | 6 if width > 1 => {
                let high = 1 + self.below(width as usize - 1) as u32;
                let (high, low) = (Ty::Bit(high), self.maybe_signed(width - high));
                format!("({} ++ {})", self.expr(&high, depth), self.expr(&low, depth))
            }
            7 | 8 => self.slice(width, depth),
            9 | 10 => {
                let from = self.number();
                let inner = self.expr(&from, depth);
                self.converted(&format!("({inner})"), &from, &ty)
            }
            11 if !self.constant && (width <= 64 || self.features.wide) => {
                let divisor = self.divisor(width);
                format!("({} {} {divisor})", self.dividend(width), self.choose(&["/", "%"]))
            }
            _ => self.mux(&ty, depth),
        }
    }

    /// One of the operations, numbered from 0 to 4, whose operands have the type of the result.
    fn operation(&mut self, number: usize, ty: &Ty, depth: u32) -> String {
        match number {
            0 | 1 => self.arithmetic(ty, depth),
            2 => {
                let op = self.choose(&["&", "|", "^"]);
                format!("({} {op} {})", self.expr(ty, depth), self.expr(ty, depth))
            }
            3 => self.shift(ty, depth),
            _ => format!("({}{})", self.choose(&["~", "-"]), self.expr(ty, depth)),
        }
    }

    fn signed(&mut self, width: u32, depth: u32) -> String {
        let ty = Ty::Int(width);
        match self.below(9) {
            n @ 0..=4 => self.operation(n, &ty, depth),
            5 if width > 2 => {
                let high = 1 + self.below(width as usize - 1) as u32;
                let low = self.maybe_signed(width - high);
                format!("({} ++ {})", self.expr(&Ty::Int(high), depth), self.expr(&low, depth))
            }
            6 | 7 => {
                let from = self.number();
                let inner = self.expr(&from, depth);
                self.converted(&format!("({inner})"), &from, &ty)
            }
            _ => self.mux(&ty, depth),
        }
    }

    fn maybe_signed(&mut self, width: u32) -> Ty {
        if width > 1 && self.chance(25) { Ty::Int(width) } else { Ty::Bit(width) }
    }

    fn arithmetic(&mut self, ty: &Ty, depth: u32) -> String {
        // Compiled targets support products and saturating arithmetic of at most 64 bits.
        let all = ["+", "-", "*", "|+|", "|-|"];
        let op = if ty.width() <= 64 || self.chance(2) { self.choose(&all) } else { self.choose(&all[..2]) };
        format!("({} {op} {})", self.expr(ty, depth), self.expr(ty, depth))
    }

    /// A dividend. p4c accepts neither a minus before it nor a negative literal.
    fn dividend(&mut self, width: u32) -> String {
        match self.place(|p| p.ty == Ty::Bit(width)) {
            Some(place) => place.text,
            None => format!("({width}w1 + {})", self.leaf(&Ty::Bit(width))),
        }
    }

    /// A number that is not 0, because programs do not divide by zero intentionally.
    fn divisor(&mut self, width: u32) -> String {
        let most = if width >= 16 { 1000 } else { (1 << width) - 1 };
        format!("{width}w{}", 1 + self.below(most))
    }

    fn shift(&mut self, ty: &Ty, depth: u32) -> String {
        let op = self.choose(&["<<", ">>"]);
        let left = self.expr(ty, depth);
        let amount = match self.below(3) {
            0 => self.below(ty.width() as usize + 2).to_string(),
            1 => self.expr(&Ty::Bit(8), depth),
            _ => {
                let width = self.number().width();
                self.expr(&Ty::Bit(width), depth)
            }
        };
        // `8s1 >> 3` with a literal on the left is a constant, for which p4c requires a width.
        format!("({left} {op} {amount})")
    }

    fn slice(&mut self, width: u32, depth: u32) -> String {
        let from = match self.place(|p| p.ty.is_number() && p.ty.width() > width) {
            Some(place) if !self.constant => (place.text, place.ty.width()),
            _ => {
                let wider = width + 1 + self.below(9) as u32;
                (format!("({})", self.expr(&Ty::Bit(wider), depth)), wider)
            }
        };
        let low = self.below((from.1 - width + 1) as usize) as u32;
        format!("{}[{}:{low}]", from.0, low + width - 1)
    }

    /// A call of a function that returns a type.
    fn function_call(&mut self, ty: &Ty) -> Option<String> {
        if self.constant || self.calls_in_expr == 0 {
            return None;
        }
        let known: Vec<usize> =
            (0..self.functions.len()).filter(|f| self.functions[*f].returns.as_ref() == Some(ty)).collect();
        if known.is_empty() {
            return None;
        }
        let at = known[self.below(known.len())];
        let function = self.functions[at].clone();
        self.calls_in_expr -= 1;
        let arguments = self.arguments(&function.params)?;
        Some(format!("{}({arguments})", function.name))
    }

    /// Arguments for parameters. Several may be the same variable. `None` if there is no place that can be written.
    pub fn arguments(&mut self, params: &[(Direction, String, Ty)]) -> Option<String> {
        let mut all: Vec<(String, Ty)> = Vec::new();
        for (direction, _, ty) in params {
            let again =
                all.iter().find(|(_, t)| t == ty).map(|(text, _)| text.clone()).filter(|_| self.chance(40));
            let is_written = *direction != Direction::In;
            let again = again.filter(|text| {
                !is_written || self.scope.places.iter().any(|p| p.writable && p.text == *text)
            });
            let text = match again {
                Some(text) => text,
                None if is_written => self.target(ty)?,
                None => {
                    let depth = 1 + self.below(2) as u32;
                    self.expr(ty, depth)
                }
            };
            all.push((text, ty.clone()));
        }
        Some(all.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(", "))
    }
}
