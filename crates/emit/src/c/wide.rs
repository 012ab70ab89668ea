//! Values of more than 128 bits, which only the native target has, and its varbit fields; those of the kernel are in `varbit`.
//!
//! A value of more than 128 bits has the type `struct wide_N`: N words of 64 bits, the lowest first. A varbit field has the type
//! `struct varbit_N`: a length, and room for N bytes. `wide.h` has their functions, of which a program gets those for its own N.

use std::collections::BTreeSet;

use abi::Bits;
use ir::cells::Cell;
use ir::{BinOp, Expr, ExprKind, HeaderRef, Place, Program, Ty, UnOp, effects, visit};

use super::{Body, Machine, Text, c_type, constant, mask, varbit};

/// The functions of wide values and varbit fields.
pub const WIDE: &str = include_str!("wide.h");

/// Whether values of a type are structures of words.
pub fn is_wide(ty: Ty) -> bool {
    !ty.is_varbit() && ty.width() > 128
}

/// The number of words of a wide value.
fn words(width: u32) -> u32 {
    width.div_ceil(64)
}

/// The number of bytes for which a varbit field has room. Its length is always a whole number of bytes.
pub fn room(ty: Ty) -> u32 {
    ty.width() / 8
}

/// The C type of a field or variable.
pub fn storage(ty: Ty) -> String {
    match c_type(ty) {
        Some(ty) => ty.to_string(),
        None if ty.is_varbit() => format!("struct varbit_{}", room(ty)),
        None => format!("struct wide_{}", words(ty.width())),
    }
}

/// An upper bound of the size of a field or variable in bytes, with its padding.
pub fn storage_bytes(ty: Ty) -> u64 {
    match c_type(ty) {
        Some(_) => 2 * u64::from(abi::manifest::Param::size_of(ty.width())),
        None => u64::from(ty.width() / 8) + 24,
    }
}

/// Emits the types and functions for all wide values and varbit fields of a program.
pub fn declare(program: &Program, text: &mut Text) {
    let (mut numbers, mut varbits) = (BTreeSet::new(), BTreeSet::new());
    let mut note = |ty: Ty| match ty {
        Ty::Varbit(_) => drop(varbits.insert(room(ty))),
        Ty::Bool | Ty::Bit(_) | Ty::Int(_) => {
            if is_wide(ty) {
                numbers.insert(words(ty.width()));
            }
        }
    };
    program.header_types.iter().flat_map(|t| &t.fields).for_each(|f| note(f.ty));
    program.vars.iter().for_each(|v| note(v.ty));
    visit::all_exprs(program, &mut |e| note(e.ty));
    if numbers.is_empty() && varbits.is_empty() {
        return;
    }
    text.raw(WIDE);
    varbits.iter().for_each(|n| text.line(format!("VARBIT({n})")));
    numbers.iter().for_each(|n| text.line(format!("WIDE({n})")));
}

/// The C of a wide constant.
pub fn wide_constant(value: &Bits) -> String {
    let n = words(value.width());
    let word = |i: u32| format!("{:#x}ULL", value.shr(u64::from(i) * 64).low_u64());
    let words: Vec<_> = (0..n).map(word).collect();
    format!("((struct wide_{n}){{ {{ {} }} }})", words.join(", "))
}

/// The C of `x == y` for wide values.
pub fn wide_equal(x: &str, y: &str, width: u32) -> String {
    format!("words_equal({x}.word, {y}.word, {})", words(width))
}

/// The C of a call of a function of wide values of this width.
pub fn call(width: u32, name: &str, args: &[&str]) -> String {
    format!("wide_{}_{name}({})", words(width), args.join(", "))
}

/// The C of a wide value with the bits above its width set to zero.
fn keep(value: String, width: u32) -> String {
    if width.is_multiple_of(64) { value } else { call(width, "keep", &[&value, &width.to_string()]) }
}

/// The C of a wide value plus a number, without the bits above its width.
pub fn plus(value: &str, number: &str, width: u32) -> String {
    let number = call(width, "low", &[number]);
    keep(call(width, "add", &[value, &number]), width)
}

/// The C of the 64 bits of a wide value above its `lo` lowest.
pub fn word_at(value: &str, width: u32, lo: u32) -> String {
    format!("words_bits({value}.word, {}, {lo})", words(width))
}

/// The C of a value as words of 64 bits, the lowest first: a pointer.
pub fn as_words(value: &str, width: u32) -> String {
    match width {
        0..=64 => format!("(u64[]){{ {value} }}"),
        65..=128 => format!("(u64[]){{ (u64)({value}), (u64)({value} >> 64) }}"),
        _ => format!("{value}.word"),
    }
}

/// The C of `lo <= key && key <= hi` for wide values.
pub fn between(key: &str, lo: &Bits, hi: &Bits, is_signed: bool) -> String {
    let (width, n) = (lo.width(), words(lo.width()));
    let (name, last) =
        if is_signed { ("words_less_signed", format!(", {width}")) } else { ("words_less", String::new()) };
    let (lo, hi) = (constant(lo), constant(hi));
    format!("!{name}({key}.word, {lo}.word, {n}{last}) && !{name}({hi}.word, {key}.word, {n}{last})")
}

/// The C that reads a wide field from the packet: the bits `at..at + width` of what `p` points to.
pub fn read(at: u32, width: u32) -> String {
    let (first, end) = (at / 8, (at + width).div_ceil(8));
    let place = format!("p + {first}");
    keep(
        call(width, "read", &[&place, &(end - first).to_string(), &(8 * end - at - width).to_string()]),
        width,
    )
}

impl Body<'_> {
    /// Whether this expression must be refused, because it is wide or a varbit and the target has neither. Reports it if so.
    pub fn refuses(&mut self, ty: Ty) -> bool {
        let refused = c_type(ty).is_none() && self.facts.machine() == Machine::Bpf && !varbit::has(ty);
        if refused {
            self.unsupported("a value of more than 128 bits", "split it into parts of at most 128 bits");
        }
        refused
    }

    /// The C of an expression that must have at most 128 bits here. Reports `what` otherwise.
    pub fn narrow(&mut self, e: &Expr, what: &str) -> String {
        if c_type(e.ty).is_none() {
            self.unsupported(&format!("{what} of more than 128 bits"), "cast it to a narrower type");
            return "0".to_string();
        }
        self.expr(e)
    }

    /// The C of a number's bits. They are as wide as a place of `width` bits if that is wide.
    pub(super) fn converted(&mut self, e: &Expr, width: u32) -> String {
        match width > 128 || c_type(e.ty).is_none() {
            true => self.expr(&Expr { kind: ExprKind::Cast(Box::new(e.clone())), ty: Ty::Bit(width) }),
            false => self.expr(e),
        }
    }

    /// The C of the value zero, or of an empty varbit.
    pub fn zero(&self, ty: Ty) -> String {
        match c_type(ty) {
            Some(_) => "0".to_string(),
            None if ty.is_varbit() => format!("((struct varbit_{}){{ 0 }})", room(ty)),
            None => wide_constant(&Bits::zero(ty.width())),
        }
    }

    /// The C of an expression that is wide, or a varbit.
    pub(super) fn wide(&mut self, e: &Expr) -> String {
        let width = e.ty.width();
        match &e.kind {
            ExprKind::Const(v) => constant(v),
            ExprKind::Read(Place::Field(h, field)) if !matches!(h, HeaderRef::Header(_)) => {
                let zero = self.zero(e.ty);
                self.of_element(h, &zero, |body, h| body.place(&Place::Field(h, *field)))
            }
            ExprKind::Read(place) => self.place(place),
            ExprKind::Unary(UnOp::Neg, a) => {
                let (zero, a) = (self.zero(e.ty), self.expr(a));
                keep(call(width, "sub", &[&zero, &a]), width)
            }
            ExprKind::Unary(_, a) => {
                let a = self.expr(a);
                keep(call(width, "not", &[&a]), width)
            }
            ExprKind::Binary(op, a, b) => self.wide_operator(*op, a, b, width),
            ExprKind::Cast(a) => self.widened(a, width),
            ExprKind::Slice { base, lo, .. } => {
                let value = self.expr(base);
                let (value, n, lo) = (format!("{value}.word"), words(base.ty.width()), lo.to_string());
                keep(call(width, "of", &[&value, &n.to_string(), &lo]), width)
            }
            ExprKind::Concat(a, b) => {
                let [high, low] = [a, b].map(|e| self.unsigned(e, width));
                let high = call(width, "shl", &[&high, &b.ty.width().to_string()]);
                call(width, "or", &[&high, &low])
            }
            ExprKind::Mux(c, a, b) => format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b)),
            ExprKind::IsValid(_) | ExprKind::NextIndex(_) => self.zero(e.ty),
        }
    }

    /// The C of a value's bits as a wide value of at least the same width.
    fn unsigned(&mut self, a: &Expr, width: u32) -> String {
        let value = self.expr(a);
        match is_wide(a.ty) {
            true => call(width, "of", &[&format!("{value}.word"), &words(a.ty.width()).to_string(), "0"]),
            false => call(width, "low", &[&value]),
        }
    }

    /// The C of a cast to a wide value. A signed operand is sign-extended.
    fn widened(&mut self, a: &Expr, width: u32) -> String {
        let value = self.unsigned(a, width);
        let from = a.ty.width();
        match () {
            () if a.ty.is_signed() && from > 0 && from < width => {
                keep(call(width, "extend", &[&value, &from.to_string()]), width)
            }
            () if from > width => keep(value, width),
            () => value,
        }
    }

    /// The C of a cast of a wide value to one of at most 128 bits.
    pub(super) fn narrowed(&mut self, a: &Expr, lo: u32, width: u32) -> String {
        let (value, n) = (self.expr(a), words(a.ty.width()));
        let bits = if width > 64 { "words_bits128" } else { "words_bits" };
        mask(format!("{bits}({value}.word, {n}, {lo})"), width)
    }

    /// The C of the distance of a shift. That of a wide one has 64 bits, and is large if the distance is.
    pub(super) fn distance(&mut self, b: &Expr) -> String {
        match b.as_const() {
            _ if !is_wide(b.ty) => self.expr(b),
            Some(v) => constant(&Bits::new(64, u128::from(v.to_u64().unwrap_or(u64::MAX)))),
            None => {
                let value = self.expr(b);
                format!("words_amount({value}.word, {})", words(b.ty.width()))
            }
        }
    }

    /// The C of a comparison of wide values or varbits.
    pub(super) fn compare(&mut self, op: BinOp, a: &Expr, b: &Expr) -> String {
        let (x, y) = (self.expr(a), self.expr(b));
        if a.ty.is_varbit() {
            let plain = |e: &Expr| {
                matches!(e.kind, ExprKind::Read(Place::Var(_) | Place::Field(HeaderRef::Header(_), _)))
            };
            if self.facts.machine() == Machine::Bpf && !(plain(a) && plain(b)) {
                self.unsupported("comparing a varbit that is no field", "compare the fields themselves");
            }
            let equal = match self.facts.machine() {
                Machine::Bpf => format!("varbit_{}_equal(&{x}, &{y})", room(a.ty)),
                Machine::Native => format!("bytes_equal({x}.bytes, {x}.length, {y}.bytes, {y}.length)"),
            };
            return if op == BinOp::Eq { equal } else { format!("!{equal}") };
        }
        let (n, width) = (words(a.ty.width()), a.ty.width());
        let less = |x: &str, y: &str| match a.ty.is_signed() {
            true => format!("words_less_signed({x}.word, {y}.word, {n}, {width})"),
            false => format!("words_less({x}.word, {y}.word, {n})"),
        };
        use BinOp::*;
        match op {
            Eq => wide_equal(&x, &y, width),
            Ne => format!("!{}", wide_equal(&x, &y, width)),
            Lt => less(&x, &y),
            Gt => less(&y, &x),
            Le => format!("!{}", less(&y, &x)),
            Add | Sub | Mul | Div | Mod | AddSat | SubSat | And | Or | Xor | Shl | Shr | Ge | LogAnd
            | LogOr => format!("!{}", less(&x, &y)),
        }
    }

    fn wide_operator(&mut self, op: BinOp, a: &Expr, b: &Expr, width: u32) -> String {
        use BinOp::*;
        let (x, bits) = (self.expr(a), width.to_string());
        let is_signed = a.ty.is_signed();
        if matches!(op, Shl | Shr) {
            let distance = self.distance(b);
            // A distance of more than 64 bits is larger than any value is wide.
            let distance = match b.ty.width() {
                65..=128 => format!("({distance} > ~0ULL ? ~0ULL : (u64){distance})"),
                _ => distance,
            };
            return if op == Shl {
                keep(call(width, "shl", &[&x, &distance]), width)
            } else if is_signed {
                keep(call(width, "sar", &[&x, &distance, &bits]), width)
            } else {
                call(width, "shr", &[&x, &distance])
            };
        }
        let y = self.expr(b);
        match op {
            And => call(width, "and", &[&x, &y]),
            Or => call(width, "or", &[&x, &y]),
            Xor => call(width, "xor", &[&x, &y]),
            Add => keep(call(width, "add", &[&x, &y]), width),
            Sub => keep(call(width, "sub", &[&x, &y]), width),
            Mul => keep(call(width, "mul", &[&x, &y]), width),
            AddSat if is_signed => call(width, "add_sat_signed", &[&x, &y, &bits]),
            AddSat => call(width, "add_sat", &[&x, &y, &bits]),
            SubSat if is_signed => call(width, "sub_sat_signed", &[&x, &y, &bits]),
            SubSat => call(width, "sub_sat", &[&x, &y, &bits]),
            Div | Mod if is_signed => {
                self.unsupported("a division of signed values", "divide unsigned values");
                x
            }
            Div => call(width, "div", &[&x, &y]),
            Mod => call(width, "mod", &[&x, &y]),
            // A comparison is a bool, and not wide.
            Shl | Shr | Eq | Ne | Lt | Le | Gt | Ge | LogAnd | LogOr => x,
        }
    }

    /// Emits the extraction of a header with a varbit field of `bits` bits. The order of the checks is that of P4-16 section 12.8.2: the
    /// packet's length is checked before the field's.
    pub(super) fn extract_varbit(&mut self, h: ir::HeaderId, varbit: usize, bits: &Expr) {
        let ty = self.program.header_type(h).clone();
        let (name, bytes, most) =
            (self.names.header(h).to_string(), ty.min_bits() / 8, ty.fields[varbit].ty.width());
        let field = format!("s->{name}.{}", self.names.field(h, varbit));
        let bits = self.expr(bits);
        self.text.open("");
        self.text.line(format!("u32 bits = {bits};"));
        self.text.open("if (bits & 7)");
        self.reject(6, "ParserInvalidArgument");
        self.text.close("");
        self.text.line(format!("p = packet_at(pkt, s->cursor, {bytes} + bits / 8);"));
        self.text.open("if (!p)");
        self.too_short();
        self.text.close("");
        self.text.open(format!("if (bits > {most})"));
        self.reject(4, "HeaderTooShort");
        self.text.close("");
        let at = ty.fields[varbit].offset;
        for (i, f) in ty.fields.iter().enumerate() {
            if i == varbit {
                self.text.line(format!("{field}.length = bits / 8;"));
                self.text.line(format!(
                    "bytes_read_bits({field}.bytes, p + {}, {}, {field}.length);",
                    at / 8,
                    at % 8
                ));
                // The offsets of the fields that follow do not include the varbit field.
                self.text.line(format!("p += {field}.length;"));
                continue;
            }
            self.text.line(format!("s->{name}.{} = {};", self.names.field(h, i), super::header::read(f)));
        }
        self.text.line(format!("s->{name}_valid = 1;"));
        self.text.line(format!("t->{name}_in = s->cursor;"));
        self.text.line(format!("s->cursor += {bytes} + {field}.length;"));
        self.text.close("");
    }

    /// Emits a copy of data whose length varies to `bytes`, from bit `first` on and without gaps. Zero bits fill up the last byte. Returns
    /// the C of the length in bytes.
    pub(super) fn gather(&mut self, data: &[Expr], first: u32) -> String {
        let most = first + data.iter().map(|e| e.ty.width()).sum::<u32>();
        self.text.line(format!("u8 bytes[{}] = {{ 0 }};", most.div_ceil(8).max(1)));
        self.text.line(format!("u32 at = {first};"));
        for e in data {
            let (value, width) = (self.expr(e), e.ty.width());
            if e.ty.is_varbit() {
                self.text.line(format!("bytes_write_bits(bytes, at, {value}.bytes, {value}.length);"));
                self.text.line(format!("at += 8 * {value}.length;"));
            } else if width > 0 {
                let words = as_words(&value, width);
                self.text.line(format!("words_write_bits(bytes, at, {words}, {width});"));
                self.text.line(format!("at += {width};"));
            }
        }
        "(at + 7) / 8".to_string()
    }
}

/// The C of the sum of the 16-bit words of a wide value or a varbit, folded.
pub fn sum(value: &str, ty: Ty) -> String {
    match ty.is_varbit() {
        true => format!("bytes_sum({value}.bytes, {value}.length)"),
        false => format!("words_sum({value}.word, {})", words(ty.width())),
    }
}

/// Whether the length of each varbit field of this type is a whole number of 16-bit words, as far as the program shows it: each
/// extraction gives a length whose last bits are zero, because it is a product or a shift.
pub fn is_whole_words(program: &Program, ty: Ty) -> bool {
    let mut whole = true;
    visit::all_stmts(program, &mut |stmt| {
        let ir::StmtKind::Extract { header, varbit: Some(bits) } = &stmt.kind else { return };
        let header = super::stack::elements(program, header).first().copied().unwrap_or_default();
        let of = program.header_type(header);
        if of.varbit().is_some_and(|i| of.fields[i].ty == ty) {
            whole &= zero_bits(program, bits, 4) >= 4;
        }
    });
    whole
}

/// A number of bits at the end of a value that are zero. It follows variables `depth` times.
fn zero_bits(program: &Program, e: &Expr, depth: u32) -> u32 {
    let zeros = |e: &Expr| zero_bits(program, e, depth);
    match &e.kind {
        ExprKind::Const(v) => (0..v.width()).find(|i| v.get(*i)).unwrap_or(v.width()),
        ExprKind::Read(Place::Var(var)) if depth > 0 => zero_bits_of(program, *var, depth - 1),
        ExprKind::Binary(BinOp::Mul, a, b) => (zeros(a) + zeros(b)).min(e.ty.width()),
        ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor, a, b) => zeros(a).min(zeros(b)),
        ExprKind::Binary(BinOp::And, a, b) => zeros(a).max(zeros(b)),
        ExprKind::Binary(BinOp::Shl, a, b) => match b.as_const().and_then(Bits::to_u64) {
            Some(n) => n.saturating_add(zeros(a).into()).min(e.ty.width().into()) as u32,
            None => zeros(a),
        },
        ExprKind::Mux(_, a, b) => zeros(a).min(zeros(b)),
        ExprKind::Cast(a) => zeros(a).min(e.ty.width()),
        ExprKind::Concat(a, b) if zeros(b) == b.ty.width() => b.ty.width() + zeros(a),
        ExprKind::Concat(_, b) => zeros(b),
        ExprKind::Slice { base, lo, .. } => zeros(base).saturating_sub(*lo).min(e.ty.width()),
        ExprKind::Read(_)
        | ExprKind::IsValid(_)
        | ExprKind::NextIndex(_)
        | ExprKind::Unary(..)
        | ExprKind::Binary(..) => 0,
    }
}

/// The same for a variable: for every value that the program assigns to it. It is zero before. A variable that the architecture writes may
/// have any value.
fn zero_bits_of(program: &Program, var: ir::VarId, depth: u32) -> u32 {
    let mut bits = program.var(var).ty.width();
    let param = matches!(program.var(var).kind, ir::VarKind::Param(_));
    visit::all_stmts(program, &mut |stmt| {
        if let ir::StmtKind::Assign { dst: Place::Var(to), src } = &stmt.kind
            && *to == var
        {
            bits = bits.min(zero_bits(program, src, depth));
            return;
        }
        effects::writes(program, stmt, &mut |cell| {
            if cell == Cell::Var(var) {
                bits = 0;
            }
        });
    });
    let known = program.pipeline.writes(var) || program.standard.vars().contains(&var);
    if param || known { 0 } else { bits }
}
