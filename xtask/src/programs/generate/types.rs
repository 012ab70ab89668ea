//! Generates the types of a program, and the declarations of named types.

use super::Generator;

/// The type of a value or variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    Bool,
    Bit(u32),
    Int(u32),
    /// `E`, an `enum bit<W>`.
    Enum,
    Struct(usize),
    Header(usize),
}

impl Ty {
    /// The width of a number in bits; 1 for `bool`.
    pub fn width(&self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::Bit(w) | Ty::Int(w) => *w,
            Ty::Enum => ENUM_WIDTH,
            Ty::Struct(_) | Ty::Header(_) => 0,
        }
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Ty::Bit(_) | Ty::Int(_))
    }

    pub fn is_scalar(&self) -> bool {
        !matches!(self, Ty::Struct(_) | Ty::Header(_))
    }
}

/// The width of the generated enum in bits. Some of its values have no member.
pub const ENUM_WIDTH: u32 = 3;
pub const MEMBERS: usize = 5;

/// A struct or a header.
#[derive(Clone, Debug)]
pub struct Record {
    pub name: String,
    pub fields: Vec<(String, Ty)>,
    /// The maximum size in bits of the header's varbit, if it has one: after its first two fields.
    pub varbit: Option<u32>,
}

/// A member of `headers`.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub shape: Shape,
}

/// The kind of a member of `headers`.
#[derive(Clone, Debug)]
pub enum Shape {
    One(usize),
    Stack(usize, u32),
    /// A header union with headers of these types, which are called `m0`, `m1` and so on.
    Union(Vec<usize>),
}

/// Widths at which layouts and machine words change.
const WIDTHS: &[u32] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33, 40, 47, 48, 56, 63, 64, 65, 80, 96, 100,
    120, 127, 128,
];

impl Generator {
    /// The widths that a program uses most, so that several variables have the same type.
    pub fn choose_palette(&mut self) {
        let numbers = 3 + self.below(4);
        for _ in 0..numbers {
            let width = self.any_width();
            let ty = if width > 1 && self.chance(30) { Ty::Int(width) } else { Ty::Bit(width) };
            self.palette.push(ty);
        }
        self.palette.push(Ty::Bit(8));
        if self.chance(60) {
            self.palette.push(Ty::Bool);
        }
    }

    fn any_width(&mut self) -> u32 {
        if self.features.wide && self.chance(25) {
            return 129 + self.below(384) as u32;
        }
        let small = WIDTHS.iter().position(|w| *w > 64).unwrap_or(WIDTHS.len());
        match self.below(8) {
            0 => 1 + self.below(128) as u32,
            1 => WIDTHS[self.below(WIDTHS.len())],
            _ => WIDTHS[self.below(small)],
        }
    }

    /// A type of a number.
    pub fn number(&mut self) -> Ty {
        let numbers: Vec<Ty> = self.palette.iter().filter(|t| t.is_number()).cloned().collect();
        numbers[self.below(numbers.len())].clone()
    }

    /// A type of a plain value.
    pub fn scalar(&mut self) -> Ty {
        if self.features.enums && self.chance(5) {
            return Ty::Enum;
        }
        {
            let at = self.below(self.palette.len());
            self.palette[at].clone()
        }
    }

    /// The type of a header without a varbit, which may be written as a list.
    pub fn plain_header(&mut self) -> usize {
        let plain: Vec<usize> =
            (0..self.headers.len()).filter(|h| self.headers[*h].varbit.is_none()).collect();
        plain[self.below(plain.len())]
    }

    /// A type of a parameter or local variable.
    pub fn any_type(&mut self) -> Ty {
        if self.chance(12) && !self.headers.is_empty() {
            return Ty::Header(self.plain_header());
        }
        if self.chance(12) && !self.structs.is_empty() {
            return Ty::Struct(self.below(self.structs.len()));
        }
        self.scalar()
    }

    /// The P4 text of the type.
    pub fn spell(&self, ty: &Ty) -> String {
        match ty {
            Ty::Bool => "bool".into(),
            Ty::Bit(w) => format!("bit<{w}>"),
            Ty::Int(w) => format!("int<{w}>"),
            Ty::Enum => "E".into(),
            Ty::Struct(n) => self.structs[*n].name.clone(),
            Ty::Header(n) => self.headers[*n].name.clone(),
        }
    }

    /// Declares all named types.
    pub fn declare_types(&mut self) {
        if self.features.enums {
            let members: Vec<String> = (0..MEMBERS).map(|n| format!("M{n} = {}", n + 1)).collect();
            self.line(&format!("enum bit<{ENUM_WIDTH}> E {{ {} }}", members.join(", ")));
        }
        self.line("error { Strange, Odd }");
        let headers = 2 + self.below(3);
        for number in 0..headers {
            self.header(number);
        }
        if self.features.varbit {
            self.varbit_header();
        }
        for number in 0..self.below(3) {
            self.structure(format!("s{number}_t"));
        }
        self.choose_members();
        self.declare_members();
    }

    /// Declares a header: fields of any width, padded to whole bytes.
    fn header(&mut self, number: usize) {
        let mut fields = Vec::new();
        let count = 1 + self.below(6);
        for at in 0..count {
            let ty = match self.below(8) {
                0 => Ty::Bit(1 + self.below(40) as u32),
                1 if self.features.enums => Ty::Enum,
                _ => self.scalar(),
            };
            // p4c's back end for BMv2 does not support a bool in a header unless it has a byte of its own.
            let ty = if ty == Ty::Bool { Ty::Bit(1) } else { ty };
            fields.push((format!("f{at}"), ty));
        }
        let bits: u32 = fields.iter().map(|(_, t)| t.width()).sum();
        if !bits.is_multiple_of(8) {
            let at = self.below(fields.len() + 1);
            fields.insert(at, ("pad".into(), Ty::Bit(8 - bits % 8)));
        }
        // Fields of 16 bits are used by checksums and by keys of tables.
        if self.features.sums && self.chance(70) {
            // Most of these fields begin at a whole byte, because compiled targets write a checksum over the payload only there.
            let whole =
                |n: &usize| fields[..*n].iter().map(|(_, t)| t.width()).sum::<u32>().is_multiple_of(8);
            let places: Vec<usize> = (0..=fields.len()).filter(whole).collect();
            let at =
                if self.chance(95) { places[self.below(places.len())] } else { self.below(fields.len() + 1) };
            fields.insert(at, ("sum".into(), Ty::Bit(16)));
        }
        self.add_header(format!("h{number}_t"), fields, None);
    }

    /// Declares a header with a varbit: after a byte with its size, between two fields that may share bytes with it, or at the end.
    fn varbit_header(&mut self) {
        let most = 8 * (1 + self.below(20) as u32);
        let mut fields = vec![("size".into(), Ty::Bit(8))];
        if self.chance(60) {
            let (before, after) = (1 + self.below(40) as u32, 1 + self.below(40) as u32);
            let after = after + (16 - (before + after) % 8) % 8;
            fields.extend([("f0".into(), Ty::Bit(before)), ("f1".into(), Ty::Bit(after))]);
        }
        self.add_header("v_t".into(), fields, Some(most));
    }

    fn add_header(&mut self, name: String, fields: Vec<(String, Ty)>, varbit: Option<u32>) {
        self.open(&format!("header {name} {{"));
        for (at, (field, ty)) in fields.iter().enumerate() {
            if let (2, Some(bits)) = (at, varbit) {
                self.line(&format!("varbit<{bits}> rest;"));
            }
            self.line(&format!("{} {field};", self.spell(ty)));
        }
        if let (0..=2, Some(bits)) = (fields.len(), varbit) {
            self.line(&format!("varbit<{bits}> rest;"));
        }
        self.close("}");
        self.headers.push(Record { name, fields, varbit });
    }

    /// Declares a struct of plain values, of earlier structs, and of headers.
    fn structure(&mut self, name: String) {
        let mut fields = Vec::new();
        for at in 0..1 + self.below(4) {
            let ty = match self.below(10) {
                0 if !self.structs.is_empty() => Ty::Struct(self.below(self.structs.len())),
                1 if self.features.headers_in_structs => Ty::Header(self.plain_header()),
                _ => self.scalar(),
            };
            fields.push((format!("m{at}"), ty));
        }
        self.add_struct(name, fields);
    }

    fn add_struct(&mut self, name: String, fields: Vec<(String, Ty)>) {
        self.open(&format!("struct {name} {{"));
        for (field, ty) in &fields {
            self.line(&format!("{} {field};", self.spell(ty)));
        }
        self.close("}");
        self.structs.push(Record { name, fields, varbit: None });
    }

    fn choose_members(&mut self) {
        let plain: Vec<usize> =
            (0..self.headers.len()).filter(|h| self.headers[*h].varbit.is_none()).collect();
        let count = 2 + self.below(4);
        for number in 0..count {
            let one = plain[self.below(plain.len())];
            let shape = match self.below(10) {
                0 | 1 if self.features.stacks => Shape::Stack(one, 1 + self.below(5) as u32),
                2 if self.features.unions => {
                    let other = plain[self.below(plain.len())];
                    let mut all = vec![one, other];
                    all.dedup();
                    Shape::Union(all)
                }
                _ => Shape::One(one),
            };
            self.members.push(Member { name: format!("a{number}"), shape });
        }
        if let Some(header) = self.headers.iter().position(|h| h.varbit.is_some()) {
            let at = 1 + self.below(self.members.len());
            self.members.insert(at, Member { name: "v".into(), shape: Shape::One(header) });
            if self.chance(60) {
                let at = 1 + self.below(self.members.len());
                self.members.insert(at, Member { name: "u".into(), shape: Shape::One(header) });
            }
        }
    }

    fn declare_members(&mut self) {
        for member in self.members.clone() {
            if let Shape::Union(types) = &member.shape {
                self.open(&format!("header_union {}_t {{", member.name));
                for (n, h) in types.iter().enumerate() {
                    self.line(&format!("{} m{n};", self.headers[*h].name));
                }
                self.close("}");
            }
        }
        self.open("struct headers {");
        for member in self.members.clone() {
            let ty = match &member.shape {
                Shape::One(h) => self.headers[*h].name.clone(),
                Shape::Stack(h, size) => format!("{}[{size}]", self.headers[*h].name),
                Shape::Union(_) => format!("{}_t", member.name),
            };
            self.line(&format!("{ty} {};", member.name));
        }
        self.close("}");
        let mut fields: Vec<(String, Ty)> = Vec::new();
        for at in 0..4 + self.below(5) {
            let ty = self.any_type();
            let is_header = matches!(ty, Ty::Header(_));
            let ty = if is_header && !self.features.headers_in_structs { self.scalar() } else { ty };
            fields.push((format!("x{at}"), ty));
        }
        self.open("struct meta_t {");
        if self.features.again {
            self.line("@field_list(1) bit<8> round;");
        }
        for (field, ty) in &fields {
            let kept =
                if self.features.again && ty.is_number() && self.chance(40) { "@field_list(1) " } else { "" };
            self.line(&format!("{kept}{} {field};", self.spell(ty)));
        }
        self.close("}");
        self.meta = fields;
    }
}
