//! Pure expressions, their types, and the places that statements write.

use abi::Bits;

use crate::program::{HeaderId, VarId};
use crate::stmt::HeaderRef;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// `bool`, one bit.
    Bool,
    /// `bit<W>`; enums and errors too.
    Bit(u32),
    /// `int<W>`, two's complement.
    Int(u32),
    /// `varbit<W>`: at most W bits; only a header field has it.
    Varbit(u32),
}

impl Ty {
    /// Width in bits (the greatest one, for a varbit).
    pub fn width(self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::Bit(w) | Ty::Int(w) | Ty::Varbit(w) => w,
        }
    }

    /// Whether comparisons, shifts and widening look at a sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::Int(_))
    }

    /// Whether it is a varbit.
    pub fn is_varbit(self) -> bool {
        matches!(self, Ty::Varbit(_))
    }
}

/// An expression and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What.
    pub kind: ExprKind,
    /// Of which type.
    pub ty: Ty,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant of the expression's width.
    Const(Bits),
    /// The value of a place.
    Read(Place),
    /// `header.isValid()`.
    IsValid(HeaderRef),
    /// The number of the next free element of a stack (`bit<32>`).
    NextIndex(crate::program::StackId),
    /// One operand, of the expression's type (for `Not`: bool).
    Unary(UnOp, Box<Expr>),
    /// Two operands.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// The operand as the expression's type: cut or extended (by the sign of an `int` operand), bool to and from
    /// `bit<1>`, `int<W>` to and from `bit<W>`.
    Cast(Box<Expr>),
    /// `base[hi:lo]`.
    Slice {
        /// Of this.
        base: Box<Expr>,
        /// Most significant bit.
        hi: u32,
        /// Least significant bit.
        lo: u32,
    },
    /// `high ++ low`.
    Concat(Box<Expr>, Box<Expr>),
    /// `cond ? yes : no`.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// What a statement can write and an expression read.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A scalar variable.
    Var(VarId),
    /// A field, by its index in the header's type.
    Field(HeaderRef, u32),
}

impl Place {
    /// A field of a header that is known by id.
    pub fn field(header: HeaderId, field: u32) -> Place {
        Place::Field(HeaderRef::Header(header), field)
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// `!`, on bool.
    Not,
    /// `~`.
    BitNot,
    /// `-`, modulo 2^W.
    Neg,
}

/// Operators with two operands. Signedness comes from the operands' type.
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
    /// Right operand: any `bit<W>`.
    Shl,
    /// Right operand: any `bit<W>`; arithmetic on `int<W>`.
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&&` on bool.
    LogAnd,
    /// `||` on bool.
    LogOr,
}

impl BinOp {
    /// Whether the result is a bool.
    pub fn is_predicate(self) -> bool {
        use BinOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge | LogAnd | LogOr)
    }

    /// The operator as P4 and C both spell it.
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
    /// A constant of type `bit<W>`.
    pub fn bits(width: u32, value: u128) -> Expr {
        Expr { kind: ExprKind::Const(Bits::new(width, value)), ty: Ty::Bit(width) }
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> Expr {
        Expr { kind: ExprKind::Const(Bits::bit(value)), ty: Ty::Bool }
    }

    /// The value of a place of that type.
    pub fn read(place: Place, ty: Ty) -> Expr {
        Expr { kind: ExprKind::Read(place), ty }
    }

    /// The constant, if it is one.
    pub fn as_const(&self) -> Option<&Bits> {
        match &self.kind {
            ExprKind::Const(v) => Some(v),
            _ => None,
        }
    }

    /// `!e`.
    #[allow(clippy::should_implement_trait)]
    pub fn not(e: Expr) -> Expr {
        Expr { kind: ExprKind::Unary(UnOp::Not, Box::new(e)), ty: Ty::Bool }
    }

    /// Two operands; the type follows from operator and operands.
    pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
        let ty = if op.is_predicate() { Ty::Bool } else { a.ty };
        Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty }
    }
}
