//! A value of P4's `bit<W>` for any width W. Compiler, interpreter and control plane all use it.
//!
//! Values of up to 128 bits are stored inline and never allocate; that covers addresses and counters. Wider values use `num-bigint`.
//! Signed values (`int<W>`) use the same bits in two's complement. Operations whose result depends on the sign have `signed` in their
//! names.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An unsigned pattern of `width` bits. Invariant: every bit at or above `width` is zero.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bits {
    width: u32,
    repr: Repr,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// A value of at most 128 bits.
    Small(u128),
    /// A value of more than 128 bits.
    Big(Box<BigUint>),
}

const fn mask(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1u128 << width) - 1 }
}

impl Bits {
    /// The low `width` bits of `value`.
    pub fn new(width: u32, value: u128) -> Self {
        if width <= 128 {
            Bits { width, repr: Repr::Small(value & mask(width)) }
        } else {
            Bits { width, repr: Repr::Big(Box::new(BigUint::from(value))) }
        }
    }

    /// The low `width` bits of an arbitrarily large `value`.
    pub fn from_big(width: u32, value: &BigUint) -> Self {
        let low = value & (Self::big_mask(width));
        match low.to_u128() {
            Some(small) if width <= 128 => Bits { width, repr: Repr::Small(small) },
            _ => Bits { width, repr: Repr::Big(Box::new(low)) },
        }
    }

    /// A value whose bits are all zero.
    pub fn zero(width: u32) -> Self {
        Self::new(width, 0)
    }

    /// A value whose bits are all one.
    pub fn ones(width: u32) -> Self {
        if width <= 128 { Self::new(width, u128::MAX) } else { Self::from_big(width, &Self::big_mask(width)) }
    }

    /// A value of one bit.
    pub fn bit(value: bool) -> Self {
        Self::new(1, value as u128)
    }

    /// The low `width` bits of a number in network order (big-endian).
    pub fn from_bytes_be(width: u32, bytes: &[u8]) -> Self {
        if width <= 128 && bytes.len() <= 16 {
            let value = bytes.iter().fold(0u128, |v, &b| v << 8 | b as u128);
            return Self::new(width, value);
        }
        Self::from_big(width, &BigUint::from_bytes_be(bytes))
    }

    /// The value in network order: `ceil(width / 8)` bytes, padded with zero bits at the front.
    pub fn to_bytes_be(&self) -> Vec<u8> {
        let len = self.width.div_ceil(8) as usize;
        match &self.repr {
            Repr::Small(v) => v.to_be_bytes()[16 - len..].to_vec(),
            Repr::Big(v) => {
                let bytes = v.to_bytes_be();
                let mut out = vec![0; len - bytes.len().min(len)];
                out.extend_from_slice(&bytes[bytes.len().saturating_sub(len)..]);
                out
            }
        }
    }

    /// The width in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Whether every bit is zero.
    pub fn is_zero(&self) -> bool {
        match &self.repr {
            Repr::Small(v) => *v == 0,
            Repr::Big(v) => v.is_zero(),
        }
    }

    /// The value, if it fits into 128 bits.
    pub fn to_u128(&self) -> Option<u128> {
        match &self.repr {
            Repr::Small(v) => Some(*v),
            Repr::Big(v) => v.to_u128(),
        }
    }

    /// The value, if it fits into 64 bits.
    pub fn to_u64(&self) -> Option<u64> {
        self.to_u128().and_then(|v| u64::try_from(v).ok())
    }

    /// The low 64 bits.
    pub fn low_u64(&self) -> u64 {
        match &self.repr {
            Repr::Small(v) => *v as u64,
            Repr::Big(v) => v.iter_u64_digits().next().unwrap_or(0),
        }
    }

    /// The value as an unbounded integer.
    pub fn to_big(&self) -> BigUint {
        match &self.repr {
            Repr::Small(v) => BigUint::from(*v),
            Repr::Big(v) => (**v).clone(),
        }
    }

    /// Bit `index`, counted from the least significant.
    pub fn get(&self, index: u32) -> bool {
        match &self.repr {
            Repr::Small(v) => index < 128 && v >> index & 1 == 1,
            Repr::Big(v) => v.bit(index as u64),
        }
    }

    /// The most significant bit: the sign of an `int<W>`.
    pub fn sign(&self) -> bool {
        self.width > 0 && self.get(self.width - 1)
    }

    /// The value with another width: truncated, or extended with zeros.
    pub fn resize(&self, width: u32) -> Self {
        match &self.repr {
            Repr::Small(v) => Self::new(width, *v),
            Repr::Big(v) => Self::from_big(width, v),
        }
    }

    /// The value with another width: truncated, or extended with copies of the sign bit.
    pub fn resize_signed(&self, width: u32) -> Self {
        if width <= self.width || !self.sign() {
            return self.resize(width);
        }
        let high = Self::ones(width - self.width);
        high.concat(self)
    }

    /// `self[hi:lo]`, both ends included (P4-16 section 8.6).
    pub fn slice(&self, hi: u32, lo: u32) -> Self {
        let width = (hi + 1).saturating_sub(lo);
        match &self.repr {
            Repr::Small(v) => Self::new(width, if lo >= 128 { 0 } else { v >> lo }),
            Repr::Big(v) => Self::from_big(width, &(&**v >> lo)),
        }
    }

    /// The concatenation `self ++ low`: `self` gives the high bits.
    pub fn concat(&self, low: &Self) -> Self {
        let width = self.width + low.width;
        match (&self.repr, &low.repr) {
            (Repr::Small(a), Repr::Small(b)) if width <= 128 => {
                let shifted = if low.width >= 128 { 0 } else { a << low.width };
                Self::new(width, shifted | b)
            }
            _ => Self::from_big(width, &((self.to_big() << low.width) | low.to_big())),
        }
    }

    /// Sum modulo 2^width.
    pub fn add(&self, other: &Self) -> Self {
        self.arith(other, u128::wrapping_add, |a, b, _| a + b)
    }

    /// Difference modulo 2^width.
    pub fn sub(&self, other: &Self) -> Self {
        self.arith(other, u128::wrapping_sub, |a, b, width| a + (BigUint::one() << width) - b)
    }

    /// Product modulo 2^width.
    pub fn mul(&self, other: &Self) -> Self {
        self.arith(other, u128::wrapping_mul, |a, b, _| a * b)
    }

    /// Quotient; `None` for a division by zero.
    pub fn div(&self, other: &Self) -> Option<Self> {
        (!other.is_zero()).then(|| self.arith(other, |a, b| a / b, |a, b, _| a / b))
    }

    /// Remainder; `None` for a division by zero.
    pub fn rem(&self, other: &Self) -> Option<Self> {
        (!other.is_zero()).then(|| self.arith(other, |a, b| a % b, |a, b, _| a % b))
    }

    /// The bitwise and of two values of one width.
    pub fn and(&self, other: &Self) -> Self {
        self.arith(other, |a, b| a & b, |a, b, _| a & b)
    }

    /// The bitwise or of two values of one width.
    pub fn or(&self, other: &Self) -> Self {
        self.arith(other, |a, b| a | b, |a, b, _| a | b)
    }

    /// The bitwise exclusive or of two values of one width.
    pub fn xor(&self, other: &Self) -> Self {
        self.arith(other, |a, b| a ^ b, |a, b, _| a ^ b)
    }

    /// The value with every bit inverted.
    pub fn not(&self) -> Self {
        self.xor(&Self::ones(self.width))
    }

    /// The two's complement negation, modulo 2^width.
    pub fn neg(&self) -> Self {
        Self::zero(self.width).sub(self)
    }

    /// Left shift. Bits shifted out are lost, and a shift by the width or more gives zero.
    pub fn shl(&self, amount: u64) -> Self {
        if amount >= self.width as u64 {
            return Self::zero(self.width);
        }
        match &self.repr {
            Repr::Small(v) => Self::new(self.width, v << amount),
            Repr::Big(v) => Self::from_big(self.width, &(&**v << amount)),
        }
    }

    /// Logical right shift (`bit<W>`): zeros are shifted in.
    pub fn shr(&self, amount: u64) -> Self {
        if amount >= self.width as u64 {
            return Self::zero(self.width);
        }
        match &self.repr {
            Repr::Small(v) => Self::new(self.width, v >> amount),
            Repr::Big(v) => Self::from_big(self.width, &(&**v >> amount)),
        }
    }

    /// Arithmetic right shift (`int<W>`): copies of the sign bit are shifted in.
    pub fn shr_signed(&self, amount: u64) -> Self {
        if !self.sign() {
            return self.shr(amount);
        }
        let amount = amount.min(self.width as u64);
        let keep = self.width - amount as u32;
        if keep == 0 {
            Self::ones(self.width)
        } else {
            self.slice(self.width - 1, amount as u32).resize_signed(self.width)
        }
    }

    /// Saturating addition on `bit<W>` (`|+|`).
    pub fn add_sat(&self, other: &Self) -> Self {
        let sum = self.resize(self.width + 1).add(&other.resize(self.width + 1));
        if sum.sign() { Self::ones(self.width) } else { sum.resize(self.width) }
    }

    /// Saturating subtraction on `bit<W>` (`|-|`).
    pub fn sub_sat(&self, other: &Self) -> Self {
        if self.cmp_unsigned(other) == Ordering::Less { Self::zero(self.width) } else { self.sub(other) }
    }

    /// Saturating addition on `int<W>` (`|+|`).
    pub fn add_sat_signed(&self, other: &Self) -> Self {
        let wide = self.width + 1;
        self.clamp_signed(self.resize_signed(wide).add(&other.resize_signed(wide)))
    }

    /// Saturating subtraction on `int<W>` (`|-|`).
    pub fn sub_sat_signed(&self, other: &Self) -> Self {
        let wide = self.width + 1;
        self.clamp_signed(self.resize_signed(wide).sub(&other.resize_signed(wide)))
    }

    /// The order of two values as `bit<W>`.
    pub fn cmp_unsigned(&self, other: &Self) -> Ordering {
        match (&self.repr, &other.repr) {
            (Repr::Small(a), Repr::Small(b)) => a.cmp(b),
            _ => self.to_big().cmp(&other.to_big()),
        }
    }

    /// The order of two values as `int<W>`.
    pub fn cmp_signed(&self, other: &Self) -> Ordering {
        match (self.sign(), other.sign()) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => self.cmp_unsigned(other),
        }
    }

    /// A prefix mask of `width` bits, whose `len` most significant bits are one.
    pub fn prefix_mask(width: u32, len: u32) -> Self {
        Self::ones(width).shl((width - len.min(width)) as u64)
    }

    /// Reduces a signed value of `width + 1` bits to `width` bits. A value out of range becomes the nearest value in range.
    fn clamp_signed(&self, wide: Self) -> Self {
        let fits = wide.sign() == wide.get(self.width - 1);
        match (fits, wide.sign()) {
            (true, _) => wide.resize(self.width),
            (false, true) => Self::ones(1).resize(self.width).shl((self.width - 1) as u64),
            (false, false) => Self::ones(self.width).shr(1),
        }
    }

    fn arith(
        &self,
        other: &Self,
        small: impl Fn(u128, u128) -> u128,
        big: impl Fn(BigUint, BigUint, u32) -> BigUint,
    ) -> Self {
        match (&self.repr, &other.repr) {
            (Repr::Small(a), Repr::Small(b)) => Self::new(self.width, small(*a, *b)),
            _ => Self::from_big(self.width, &big(self.to_big(), other.to_big(), self.width)),
        }
    }

    fn big_mask(width: u32) -> BigUint {
        (BigUint::one() << width) - BigUint::one()
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repr {
            Repr::Small(v) if *v < 10 => write!(f, "{v}"),
            Repr::Small(v) => write!(f, "{v:#x}"),
            Repr::Big(v) => write!(f, "{:#x}", **v),
        }
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}w{}", self.width, self)
    }
}

/// Text form `"<width>w0x<hex>"`, so that a manifest stays readable.
impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}w0x{:x}", self.width, self.to_big()))
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.split_once("w0x").and_then(|(width, hex)| {
            let width: u32 = width.parse().ok()?;
            Some(Bits::from_big(width, &BigUint::parse_bytes(hex.as_bytes(), 16)?))
        });
        parsed.ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a value like 32w0xff")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_both_ways_at_any_width() {
        for width in [1, 7, 8, 9, 31, 32, 33, 64, 127, 128, 129, 200, 256] {
            let v = Bits::ones(width);
            assert_eq!(Bits::from_bytes_be(width, &v.to_bytes_be()), v);
            assert_eq!(v.to_bytes_be().len(), width.div_ceil(8) as usize);
        }
    }

    #[test]
    fn arithmetic_wraps_at_the_width() {
        for width in [1, 8, 65, 128, 130] {
            assert!(Bits::ones(width).add(&Bits::new(width, 1)).is_zero());
            assert_eq!(Bits::zero(width).sub(&Bits::new(width, 1)), Bits::ones(width));
            assert_eq!(Bits::new(width, 1).neg(), Bits::ones(width));
        }
    }

    #[test]
    fn saturation_stops_at_the_ends() {
        let (min, max) = (Bits::new(8, 0x80), Bits::new(8, 0x7f));
        assert_eq!(max.add_sat_signed(&Bits::new(8, 1)), max);
        assert_eq!(min.sub_sat_signed(&Bits::new(8, 1)), min);
        assert_eq!(Bits::new(8, 250).add_sat(&Bits::new(8, 10)), Bits::ones(8));
        assert_eq!(Bits::new(8, 5).sub_sat(&Bits::new(8, 10)), Bits::zero(8));
    }

    #[test]
    fn slices_and_concatenation_are_inverse() {
        let v = Bits::from_bytes_be(160, &[7; 20]);
        assert_eq!(v.slice(159, 64).concat(&v.slice(63, 0)), v);
        assert_eq!(Bits::new(8, 0x80).shr_signed(3), Bits::new(8, 0xf0));
        assert_eq!(Bits::new(4, 0x8).resize_signed(200).resize(8), Bits::new(8, 0xf8));
    }
}
