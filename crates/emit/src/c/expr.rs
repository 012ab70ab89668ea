//! The C of expressions.

use abi::{Bits, MatchKind};
use ir::{BinOp, Expr, ExprKind, HeaderRef, Place, Ty, UnOp};

use super::stmt::Body;
use super::{Machine, c_type, container, wide};

/// The C of a constant.
pub fn constant(value: &Bits) -> String {
    let width = value.width();
    if width > 128 {
        return wide::wide_constant(value);
    }
    match value.to_u128() {
        Some(v) if width <= 64 => format!(
            "({}){v:#x}{}",
            c_type(Ty::Bit(width)).unwrap_or("u64"),
            if width > 32 { "ULL" } else { "" }
        ),
        Some(v) => format!("U128({:#x}ULL, {:#x}ULL)", (v >> 64) as u64, v as u64),
        None => "0".to_string(),
    }
}

/// The C of `value` truncated to `width` bits.
pub fn mask(value: String, width: u32) -> String {
    let ty = c_type(Ty::Bit(width)).unwrap_or("u128");
    if width == container(width) {
        return format!("({ty})({value})");
    }
    let ones = Bits::ones(width);
    format!("({ty})(({value}) & {})", constant(&ones.resize(container(width))))
}

impl Body<'_> {
    /// The C of an expression.
    pub fn expr(&mut self, e: &Expr) -> String {
        if self.refuses(e.ty) {
            return "0".to_string();
        }
        let Some(ty) = c_type(e.ty) else { return self.wide(e) };
        match &e.kind {
            ExprKind::Const(v) => constant(v),
            ExprKind::Read(Place::Field(h, field)) if !matches!(h, HeaderRef::Header(_)) => {
                self.of_element(h, "0", |body, h| body.place(&Place::Field(h, *field)))
            }
            ExprKind::Read(place) => self.place(place),
            ExprKind::IsValid(HeaderRef::Header(h)) => format!("s->{}_valid", self.names.header(*h)),
            ExprKind::IsValid(h) => self.of_element(h, "0", |body, h| match h {
                HeaderRef::Header(id) => format!("s->{}_valid", body.names.header(id)),
                HeaderRef::Element(..) | HeaderRef::Next(_) | HeaderRef::Last(_) => "0".to_string(),
            }),
            ExprKind::NextIndex(stack) => self.next_of(*stack),
            ExprKind::Unary(UnOp::Not, a) => format!("!{}", self.expr(a)),
            ExprKind::Unary(UnOp::BitNot, a) => mask(format!("~{}", self.expr(a)), e.ty.width()),
            ExprKind::Unary(UnOp::Neg, a) => mask(format!("-{}", self.expr(a)), e.ty.width()),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, e.ty),
            ExprKind::Cast(a) => self.cast(a, e.ty),
            ExprKind::Slice { base, hi, lo } => {
                let width = hi - lo + 1;
                if c_type(base.ty).is_none() && !self.refuses(base.ty) {
                    return self.narrowed(base, *lo, width);
                }
                let base = self.expr(base);
                let shifted = if *lo == 0 { base } else { format!("{base} >> {lo}") };
                mask(shifted, width)
            }
            ExprKind::Concat(a, b) => {
                let (high, low) = (self.expr(a), self.expr(b));
                if b.ty.width() == 0 {
                    return high;
                }
                if a.ty.width() == 0 {
                    return low;
                }
                format!("(({ty})(({ty}){high} << {}) | {low})", b.ty.width())
            }
            ExprKind::Mux(c, a, b) => format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b)),
        }
    }

    /// The C of a place, for reading and writing.
    pub fn place(&mut self, place: &Place) -> String {
        match place {
            Place::Var(id) => self.var(*id),
            Place::Field(HeaderRef::Header(h), field) => {
                format!("s->{}.{}", self.names.header(*h), self.names.field(*h, *field as usize))
            }
            Place::Field(..) => {
                self.stack_unsupported();
                "s->nothing".to_string()
            }
        }
    }

    /// The C of a cast. A signed operand is sign-extended; any other one is zero-extended or truncated.
    fn cast(&mut self, a: &Expr, to: Ty) -> String {
        if c_type(a.ty).is_none() && !self.refuses(a.ty) {
            return self.narrowed(a, 0, to.width());
        }
        let value = self.expr(a);
        let (from, width) = (a.ty.width(), to.width());
        if a.ty.is_signed() && width > from {
            return mask(signed(&value, from, container(width)), width);
        }
        if width < from { mask(value, width) } else { format!("({}){value}", c_type(to).unwrap_or("u128")) }
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, ty: Ty) -> String {
        use BinOp::*;
        if c_type(a.ty).is_none() && !self.refuses(a.ty) {
            return self.compare(op, a, b);
        }
        let x = self.expr(a);
        let y = if matches!(op, Shl | Shr) { self.distance(b) } else { self.expr(b) };
        let width = a.ty.width();
        let symbol = op.symbol();
        match op {
            Eq => equal(&x, &y, width),
            Ne if width <= 64 => format!("!{}", equal(&x, &y, width)),
            Ne | LogAnd | LogOr => format!("({x} {symbol} {y})"),
            Lt | Le | Gt | Ge if a.ty.is_signed() => {
                let size = container(width);
                format!("({} {symbol} {})", signed(&x, width, size), signed(&y, width, size))
            }
            Lt | Le | Gt | Ge => format!("({x} {symbol} {y})"),
            And | Or | Xor => format!("({x} {symbol} {y})"),
            Shl | Shr => self.shift(op, a, b, &x, &y, ty),
            AddSat | SubSat => {
                let name = if op == AddSat { "add" } else { "sub" };
                let c = c_type(ty).unwrap_or("u64");
                let bits = if width > 64 { 128 } else { 64 };
                match a.ty.is_signed() {
                    true => {
                        let [x, y] = [x, y].map(|v| signed(&v, width, container(width)));
                        let most = constant(&Bits::ones(width.saturating_sub(1)).resize(bits));
                        mask(format!("({c})saturating_{name}_s{bits}({x}, {y}, {most})"), width)
                    }
                    false => {
                        let most = constant(&Bits::ones(width).resize(bits));
                        format!("({c})saturating_{name}_u{bits}({x}, {y}, {most})")
                    }
                }
            }
            Div | Mod if a.ty.is_signed() => {
                self.unsupported("a division of signed values", "divide unsigned values");
                x
            }
            Add | Sub if width > 64 && self.facts.machine() == Machine::Bpf => {
                let name = if op == Add { "add128" } else { "sub128" };
                mask(format!("{name}({x}, {y})"), width)
            }
            // eBPF has no instructions for them, and no library.
            Mul | Div | Mod if width > 64 && self.facts.machine() == Machine::Bpf => {
                self.unsupported(
                    "a product or quotient of more than 64 bits",
                    "multiply or divide narrower values",
                );
                x
            }
            // C promotes small operands to `int`. The cast to `u32` keeps them unsigned, and the mask restores the width.
            Add | Sub | Mul | Div | Mod => {
                let wide = c_type(ty).unwrap_or("u128");
                let wide = if container(width) < 32 { "u32" } else { wide };
                let value = mask(format!("({wide}){x} {symbol} ({wide}){y}"), width);
                match (op, b.as_const().filter(|v| !v.is_zero())) {
                    (Div | Mod, None) => format!("({y} ? {value} : 0)"),
                    _ => value,
                }
            }
        }
    }

    /// Whether shifts of values of this width are emitted as shifts of their halves, also by a constant. clang merges shifts of two branches into
    /// one by a variable distance, for which eBPF has no library.
    fn shifts_by_halves(&self, width: u32) -> bool {
        self.facts.machine() == Machine::Bpf && width > 64
    }

    fn shift(&mut self, op: BinOp, a: &Expr, b: &Expr, x: &str, y: &str, ty: Ty) -> String {
        let width = a.ty.width();
        if op == BinOp::Shr && a.ty.is_signed() {
            let bits = container(width);
            if width > 64 && (b.as_const().is_none() || self.shifts_by_halves(width)) {
                let amount = format!("({y} > 128 ? 128 : (u32){y})");
                return mask(format!("sar128((u128){}, {amount})", signed(x, width, bits)), width);
            }
            let most = format!("({y} >= {width} ? {} : {y})", width.saturating_sub(1));
            return mask(format!("{} >> {most}", signed(x, width, bits)), width);
        }
        let wide = if container(width) < 32 { "u32" } else { c_type(ty).unwrap_or("u128") };
        if width > 64 && (b.as_const().is_none() || self.shifts_by_halves(width)) {
            let amount = format!("({y} > 128 ? 128 : (u32){y})");
            let name = if op == BinOp::Shl { "shl128" } else { "shr128" };
            let shifted = mask(format!("{name}({x}, {amount})"), width);
            return format!("({y} >= {width} ? (u128)0 : {shifted})");
        }
        let shifted = if op == BinOp::Shl {
            mask(format!("({wide}){x} << {y}"), width)
        } else {
            format!("({x} >> {y})")
        };
        match b.as_const().map(|v| v.to_u64().unwrap_or(u64::MAX)) {
            Some(n) if n < width as u64 => shifted,
            Some(_) => format!("({})0", c_type(ty).unwrap_or("u128")),
            None => format!("({y} >= {width} ? ({})0 : {shifted})", c_type(ty).unwrap_or("u128")),
        }
    }
}

/// The C of `x == y`. For up to 64 bits it calls `is`, which keeps gcc from merging the loads of adjacent fields.
pub fn equal(x: &str, y: &str, width: u32) -> String {
    match width {
        0..=64 => format!("equal({x}, {y})"),
        65..=128 => format!("({x} == {y})"),
        _ => wide::wide_equal(x, y, width),
    }
}

/// The C of `x ^ y` for a constant `y`.
pub fn flipped(x: &str, y: &Bits) -> String {
    match y.width() {
        0..=128 => format!("{x} ^ {}", constant(y)),
        width => wide::call(width, "xor", &[x, &constant(y)]),
    }
}

/// The C of a value of `width` bits, sign-extended to a signed number of `bits` bits. For more than 64 bits it uses no shifts: clang merges
/// the shifts of two branches into one with a variable distance, which eBPF does not support.
pub fn signed(value: &str, width: u32, bits: u32) -> String {
    let up = bits - width;
    let (unsigned, signed) = (format!("u{bits}"), format!("s{bits}"));
    match (up, width) {
        (0, _) => format!("({signed}){value}"),
        (_, 0..=64) if bits == 128 => format!("((s128){})", self::signed(value, width, 64)),
        _ if bits == 128 => {
            let sign = format!("U128({:#x}ULL, 0)", 1u64 << (width - 65));
            format!("((s128)(((u128){value} ^ {sign}) - {sign}))")
        }
        _ => format!("((({signed})(({unsigned}){value} << {up})) >> {up})"),
    }
}

/// The sign bit of a key that is matched by ranges of signed numbers; otherwise `None`.
pub fn signed_range(kind: MatchKind, ty: Ty) -> Option<Bits> {
    let width = ty.width();
    let signed = kind == MatchKind::Range && ty.is_signed() && width > 0;
    signed.then(|| Bits::new(1, 1).resize(width).shl(u64::from(width) - 1))
}
