//! Concrete types, values known or not, and where values live, while a program is taken apart.
//!
//! Lowering meets every piece of code with its type arguments known, so there are no type variables here: a type parameter
//! is a name bound to a type.

use std::fmt;
use std::rc::Rc;

use abi::{Bits, MatchKind};
use ir::{Expr, HeaderRef, Place, StackId, Ty};
use num_bigint::{BigInt, Sign};
use num_traits::One;

/// A type without type variables.
#[derive(Clone, Debug, PartialEq)]
pub enum T {
    Void,
    Bool,
    Bit(u32),
    Int(u32),
    Varbit(u32),
    /// `int`, arbitrary precision.
    Integer,
    Str,
    Error,
    /// Members by number.
    Enum(Rc<EnumT>),
    /// With its representation.
    SerEnum(Rc<EnumT>, Rc<T>),
    /// `type`.
    New(Rc<str>, Rc<T>),
    Header(Rc<StructT>),
    /// A header union: its fields are headers.
    Union(Rc<StructT>),
    Struct(Rc<StructT>),
    Stack(Rc<T>, u32),
    Tuple(Rc<Vec<T>>),
    /// An extern object's type: name and arguments.
    Extern(Rc<str>, Rc<Vec<T>>),
    PacketIn,
    PacketOut,
}

/// An enum.
#[derive(Debug, PartialEq)]
pub struct EnumT {
    pub name: String,
    pub members: Vec<String>,
    /// Values of a serializable enum's members.
    pub values: Vec<BigInt>,
}

/// A struct or header.
#[derive(Debug, PartialEq)]
pub struct StructT {
    pub name: String,
    pub fields: Vec<FieldT>,
}

/// A field of a struct or header.
#[derive(Debug, PartialEq)]
pub struct FieldT {
    pub name: String,
    pub ty: T,
    /// `@checksum_nonzero`
    pub checksum_nonzero: bool,
    /// `@field_list(1, 2)`
    pub field_lists: Vec<u64>,
    /// `@match(ternary)`, of members of value sets.
    pub match_kind: Option<MatchKind>,
}

impl StructT {
    /// Index of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }
}

impl StructT {
    /// The scalars of a header's fields, in order; structs inside are spelled out.
    pub fn scalars(&self) -> Vec<(String, &FieldT)> {
        let mut out = Vec::new();
        for field in &self.fields {
            match &field.ty {
                T::Struct(inner) => out.extend(
                    inner.scalars().into_iter().map(|(name, f)| (format!("{}.{name}", field.name), f)),
                ),
                _ => out.push((field.name.clone(), field)),
            }
        }
        out
    }

    /// Where a field of a header lives.
    pub fn place(&self, header: &HeaderRef, index: usize) -> Store {
        let before = |f: &FieldT| match &f.ty {
            T::Struct(inner) => inner.scalars().len(),
            _ => 1,
        };
        let first: usize = self.fields.iter().take(index).map(before).sum();
        field_place(header, &self.fields[index].ty, &mut (first as u32))
    }
}

fn field_place(header: &HeaderRef, ty: &T, next: &mut u32) -> Store {
    match ty {
        T::Struct(s) => {
            let parts = s.fields.iter().map(|f| field_place(header, &f.ty, next)).collect();
            Store::Struct(s.clone(), Rc::new(parts))
        }
        scalar => {
            *next += 1;
            Store::Scalar(Place::Field(header.clone(), *next - 1), scalar.clone())
        }
    }
}

impl T {
    /// The representation in the IR, of what is a scalar there.
    pub fn ir(&self) -> Option<Ty> {
        Some(match self {
            T::Bool => Ty::Bool,
            T::Bit(w) => Ty::Bit(*w),
            T::Int(w) => Ty::Int(*w),
            T::Varbit(w) => Ty::Varbit(*w),
            T::Error | T::Enum(_) => Ty::Bit(32),
            T::SerEnum(_, under) | T::New(_, under) => under.ir()?,
            _ => return None,
        })
    }

    /// Below `type` and serializable enums.
    pub fn underlying(&self) -> &T {
        match self {
            T::SerEnum(_, under) | T::New(_, under) => under.underlying(),
            other => other,
        }
    }
}

impl fmt::Display for T {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            T::Void => f.write_str("void"),
            T::Bool => f.write_str("bool"),
            T::Bit(w) => write!(f, "bit<{w}>"),
            T::Int(w) => write!(f, "int<{w}>"),
            T::Varbit(w) => write!(f, "varbit<{w}>"),
            T::Integer => f.write_str("int"),
            T::Str => f.write_str("string"),
            T::Error => f.write_str("error"),
            T::Enum(e) | T::SerEnum(e, _) => f.write_str(&e.name),
            T::New(name, _) => f.write_str(name),
            T::Header(s) | T::Union(s) | T::Struct(s) => f.write_str(&s.name),
            T::Stack(t, n) => write!(f, "{t}[{n}]"),
            T::Tuple(items) => {
                let items: Vec<_> = items.iter().map(T::to_string).collect();
                write!(f, "tuple<{}>", items.join(", "))
            }
            T::Extern(name, _) => f.write_str(name),
            T::PacketIn => f.write_str("packet_in"),
            T::PacketOut => f.write_str("packet_out"),
        }
    }
}

/// Where a value lives.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    Scalar(Place, T),
    Header(HeaderRef, Rc<StructT>),
    /// A header union: one header a member.
    Union(Rc<StructT>, Rc<Vec<Store>>),
    Struct(Rc<StructT>, Rc<Vec<Store>>),
    Stack(StackId, Rc<T>, u32),
    /// A stack of header unions: one stack a member, all with one next index.
    UnionStack(Rc<Vec<StackId>>, Rc<T>, u32),
    Tuple(Rc<Vec<Store>>),
}

impl Store {
    /// Its type.
    pub fn ty(&self) -> T {
        match self {
            Store::Scalar(_, ty) => ty.clone(),
            Store::Header(_, s) => T::Header(s.clone()),
            Store::Union(s, _) => T::Union(s.clone()),
            Store::Struct(s, _) => T::Struct(s.clone()),
            Store::Stack(_, t, n) | Store::UnionStack(_, t, n) => T::Stack(t.clone(), *n),
            Store::Tuple(items) => T::Tuple(Rc::new(items.iter().map(Store::ty).collect())),
        }
    }
}

/// What an expression comes to.
#[derive(Clone, Debug)]
pub enum Val {
    /// A scalar.
    Scalar(Expr, T),
    /// A number without a width.
    Integer(BigInt),
    /// A string.
    Str(String),
    /// A header, struct, stack or tuple.
    Store(Store),
    /// `{ a, b }`
    List(Vec<Val>),
    /// `{ x = a }`
    Record(Vec<(String, Val)>),
    /// `{#}`
    Invalid,
    /// `...`
    Default,
    /// Nothing.
    Void,
}

impl Val {
    /// Its type, if that is settled.
    pub fn ty(&self) -> Option<T> {
        match self {
            Val::Scalar(_, ty) => Some(ty.clone()),
            Val::Integer(_) => Some(T::Integer),
            Val::Str(_) => Some(T::Str),
            Val::Store(store) => Some(store.ty()),
            Val::List(items) => Some(T::Tuple(Rc::new(items.iter().map(Val::ty).collect::<Option<_>>()?))),
            Val::Void => Some(T::Void),
            Val::Record(_) | Val::Invalid | Val::Default => None,
        }
    }
}

/// The pattern of a number in `width` bits, two's complement if negative, and whether nothing was lost.
pub fn to_bits(value: &BigInt, width: u32, signed: bool) -> (Bits, bool) {
    let modulus = BigInt::one() << width;
    let low = ((value % &modulus) + &modulus) % &modulus;
    let bits = Bits::from_big(width, low.magnitude());
    let fits = match (value.sign(), signed) {
        (Sign::Minus, false) => false,
        (Sign::Minus, true) => *value >= -(BigInt::one() << width.saturating_sub(1)),
        (_, true) => *value < (BigInt::one() << width.saturating_sub(1)),
        (_, false) => *value < modulus,
    };
    (bits, fits)
}

/// The number that a pattern stands for.
pub fn from_bits(bits: &Bits, signed: bool) -> BigInt {
    let value = BigInt::from(bits.to_big());
    if signed && bits.sign() { value - (BigInt::one() << bits.width()) } else { value }
}
