//! Pure expressions, their types, and the places that statements write.

use abi::Bits;

use crate::program::{HeaderId, VarId};
use crate::stmt::HeaderRef;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// `bool`, stored as one bit.
    Bool,
    /// `bit<W>`, which also represents enums and errors.
    Bit(u32),
    /// `int<W>`, in two's complement.
    Int(u32),
    /// `varbit<W>`, which has at most W bits. Only header fields have this type.
    Varbit(u32),
}

impl Ty {
    /// The width in bits; for a varbit the largest one.
    pub fn width(self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::Bit(w) | Ty::Int(w) | Ty::Varbit(w) => w,
        }
    }

    /// Whether values have a sign, which matters to comparisons, right shifts and widening casts.
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::Int(_))
    }

    /// Whether the type is `varbit<W>`.
    pub fn is_varbit(self) -> bool {
        matches!(self, Ty::Varbit(_))
    }
}

/// An expression with its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The expression itself.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: Ty,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant of the expression's width.
    Const(Bits),
    /// The value of a place.
    Read(Place),
    /// `header.isValid()`, a bool.
    IsValid(HeaderRef),
    /// The next index of a stack (`bit<32>`): the number of elements that the parser has extracted.
    NextIndex(crate::program::StackId),
    /// An operator with one operand, which has the type of the expression.
    Unary(UnOp, Box<Expr>),
    /// An operator with two operands.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// The operand converted to the type of the expression. It is truncated or extended, by the sign for an `int` operand. Casts between bool
    /// and `bit<1>`, and between `int<W>` and `bit<W>`, keep the bits.
    Cast(Box<Expr>),
    /// `base[hi:lo]`.
    Slice {
        /// The value of which bits are taken.
        base: Box<Expr>,
        /// The number of the most significant bit.
        hi: u32,
        /// The number of the least significant bit.
        lo: u32,
    },
    /// `high ++ low`, the concatenation of both.
    Concat(Box<Expr>, Box<Expr>),
    /// `cond ? yes : no`.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// A place, which a statement can write and an expression can read.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A scalar variable.
    Var(VarId),
    /// A field of a header, by its index in the header's type.
    Field(HeaderRef, u32),
}

impl Place {
    /// A field of the header with this id.
    pub fn field(header: HeaderId, field: u32) -> Place {
        Place::Field(HeaderRef::Header(header), field)
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// `!`, the negation of a bool.
    Not,
    /// `~`, the complement of all bits.
    BitNot,
    /// `-`, the negative modulo 2^W.
    Neg,
}

/// Operators with two operands. The type of the operands determines whether the operation is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Each is the P4 operator of that name (P4-16 section 8).
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    AddSat,
    SubSat,
    And,
    Or,
    Xor,
    /// The right operand is a `bit<W>` of any width.
    Shl,
    /// The right operand is a `bit<W>` of any width. The shift is arithmetic if the left operand is an `int<W>`.
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The P4 operator `&&` on bool.
    LogAnd,
    /// The P4 operator `||` on bool.
    LogOr,
}

impl BinOp {
    /// Whether the result of the operator is a bool.
    pub fn is_predicate(self) -> bool {
        use BinOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge | LogAnd | LogOr)
    }

    /// The operator in P4. C has the same operators, except for the saturating ones.
    pub fn symbol(self) -> &'static str {
        use BinOp::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Mod => "%",
            AddSat => "|+|",
            SubSat => "|-|",
            And => "&",
            Or => "|",
            Xor => "^",
            Shl => "<<",
            Shr => ">>",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            LogAnd => "&&",
            LogOr => "||",
        }
    }
}

impl Expr {
    /// Makes a constant of type `bit<W>`.
    pub fn bits(width: u32, value: u128) -> Expr {
        Expr { kind: ExprKind::Const(Bits::new(width, value)), ty: Ty::Bit(width) }
    }

    /// Makes the constant `true` or `false`.
    pub fn bool(value: bool) -> Expr {
        Expr { kind: ExprKind::Const(Bits::bit(value)), ty: Ty::Bool }
    }

    /// Makes a read of a place with this type.
    pub fn read(place: Place, ty: Ty) -> Expr {
        Expr { kind: ExprKind::Read(place), ty }
    }

    /// The value of a constant; `None` for any other expression.
    pub fn as_const(&self) -> Option<&Bits> {
        let ExprKind::Const(value) = &self.kind else { return None };
        Some(value)
    }

    /// Makes the negation of a bool expression.
    #[allow(clippy::should_implement_trait)]
    pub fn not(e: Expr) -> Expr {
        Expr { kind: ExprKind::Unary(UnOp::Not, Box::new(e)), ty: Ty::Bool }
    }

    /// Makes an operation with two operands. The operator and the left operand determine its type.
    pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
        let ty = if op.is_predicate() { Ty::Bool } else { a.ty };
        Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty }
    }
}
