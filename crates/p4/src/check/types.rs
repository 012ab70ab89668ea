//! The types of P4-16 expressions.
//!
//! A [`Type`] is small and cheap to clone. Typedefs are resolved, declarations are identified by [`DeclId`], and a
//! generic type contains its type arguments. Generic bodies are checked once: in them a type parameter is a
//! [`Type::Param`], which a [`Subst`] replaces when the body is instantiated.

use crate::map::Map;
use std::fmt;
use std::sync::Arc;

pub use crate::ast::DeclId;

/// A type that a declaration introduces, with its type arguments. Equality compares the declaration, not the name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The declaration.
    pub decl: DeclId,
    /// Its name, so that the type can be printed without the declarations.
    pub name: Arc<str>,
    /// The type arguments: one for each type parameter of the declaration.
    pub args: Arc<[Type]>,
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.decl == other.decl && self.args == other.args
    }
}

impl Eq for Named {}

/// A type (P4-16 section 7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// The type of an expression with a reported mistake. It is compatible with every type, so that each mistake is
    /// reported once.
    #[default]
    Bad,
    /// `void`: no value.
    Void,
    /// `bool`.
    Bool,
    /// `string`, which is compile-time known.
    String,
    /// `int`: a number of arbitrary precision, which is compile-time known.
    Int,
    /// `bit<W>`.
    Bit(u32),
    /// `int<W>`.
    Signed(u32),
    /// `varbit<W>`.
    Varbit(u32),
    /// `error`.
    Error,
    /// `match_kind`.
    MatchKind,
    /// An `enum` without representation.
    Enum(Named),
    /// A serializable enum, and its representation `bit<W>` or `int<W>`.
    SerEnum(Named, Arc<Type>),
    /// `type T name`: a distinct type, which can be cast to and from T.
    New(Named, Arc<Type>),
    /// `struct`.
    Struct(Named),
    /// `header`.
    Header(Named),
    /// `header_union`.
    Union(Named),
    /// `T[N]`: a header stack, or an array.
    Stack(Arc<Type>, u32),
    /// `tuple<...>`, or the type of `{ a, b }` if no type is expected.
    Tuple(Arc<[Type]>),
    /// `list<T>`, which is compile-time known.
    List(Arc<Type>),
    /// A set of T: the type of keyset expressions and value sets.
    Set(Arc<Type>),
    /// The type of `{ f = a, g = b }` if no type is expected.
    Record(Arc<[(Arc<str>, Type)]>),
    /// The type of `{#}` until the header type is known.
    Invalid,
    /// The type of `...` in an initialiser until the type is known.
    Default,
    /// The type of `_`: a type argument to be inferred, or an argument to be ignored.
    DontCare,
    /// An extern object.
    Extern(Named),
    /// A parser object, or a declared parser type.
    Parser(Named),
    /// A control object, or a declared control type.
    Control(Named),
    /// A package object.
    Package(Named),
    /// A table.
    Table(Named),
    /// The result of `table.apply()`, with the members `hit`, `miss` and `action_run`.
    ApplyResult(Named),
    /// The type of `action_run`: an enumeration of a table's actions.
    ActionList(Named),
    /// The type of an action's name.
    Action(Named),
    /// The type of a function's, constructor's or method's name. Only calls use it.
    Function,
    /// The type of a parser state's name.
    State,
    /// The type of a type's name that is used as an expression, such as `E` in `E.member`.
    TypeName(Arc<Type>),
    /// A type parameter, inside of its generic declaration.
    Param(Named),
    /// An unknown of the type inference. A checked program contains none.
    Infer(u32),
}

/// A substitution of type parameters by types.
pub type Subst = Map<DeclId, Type>;

impl Named {
    /// A named type without type arguments.
    pub fn plain(decl: DeclId, name: &str) -> Named {
        Named { decl, name: name.into(), args: Arc::new([]) }
    }

    fn map(&self, f: &mut dyn FnMut(&Type) -> Option<Type>) -> Named {
        if self.args.is_empty() {
            return self.clone();
        }
        Named { args: self.args.iter().map(|t| t.map(f)).collect(), ..self.clone() }
    }
}

impl Type {
    /// The type `tuple<...>` of these elements.
    pub fn tuple(items: Vec<Type>) -> Type {
        Type::Tuple(items.into())
    }

    /// Whether it is the type of a reported mistake.
    pub fn is_bad(&self) -> bool {
        matches!(self, Type::Bad)
    }

    /// Whether it is `bit<W>` or `int<W>`.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Type::Bit(_) | Type::Signed(_))
    }

    /// Whether it is `bit<W>`, `int<W>` or `int`.
    pub fn is_integer(&self) -> bool {
        self.is_fixed() || *self == Type::Int
    }

    /// The width of `bit<W>`, `int<W>`, `varbit<W>` (its maximum) and `bool` (1).
    pub fn scalar_width(&self) -> Option<u32> {
        match self {
            Type::Bit(w) | Type::Signed(w) | Type::Varbit(w) => Some(*w),
            Type::Bool => Some(1),
            _ => None,
        }
    }

    /// The declaration of a named type, with its type arguments.
    pub fn named(&self) -> Option<&Named> {
        use Type::*;
        match self {
            Enum(n)
            | SerEnum(n, _)
            | New(n, _)
            | Struct(n)
            | Header(n)
            | Union(n)
            | Extern(n)
            | Parser(n)
            | Control(n)
            | Package(n)
            | Table(n)
            | ApplyResult(n)
            | ActionList(n)
            | Action(n)
            | Param(n) => Some(n),
            _ => None,
        }
    }

    /// The representation of a `type` declaration or serializable enum. Any other type is returned as it is.
    pub fn underlying(&self) -> &Type {
        match self {
            Type::SerEnum(_, under) | Type::New(_, under) => under.underlying(),
            other => other,
        }
    }

    /// Whether it is a parser, control or package.
    pub fn is_block(&self) -> bool {
        matches!(self, Type::Parser(_) | Type::Control(_) | Type::Package(_))
    }

    /// Whether it is the type of a name without a value: the name can only be called, applied or asked for a member.
    pub fn is_only_named(&self) -> bool {
        use Type::*;
        matches!(self, Table(_) | Action(_) | Function | TypeName(_) | State | Void)
    }

    /// Whether it is a `header` or `header_union`.
    pub fn is_header_like(&self) -> bool {
        matches!(self, Type::Header(_) | Type::Union(_))
    }

    /// Whether it is a `struct`, `header` or `header_union`.
    pub fn has_fields(&self) -> bool {
        matches!(self, Type::Struct(_) | Type::Header(_) | Type::Union(_))
    }

    /// The type with each part replaced for which `f` returns a type. Replaced parts are not visited.
    pub fn map(&self, f: &mut dyn FnMut(&Type) -> Option<Type>) -> Type {
        if let Some(new) = f(self) {
            return new;
        }
        use Type::*;
        match self {
            SerEnum(n, u) => SerEnum(n.map(f), Arc::new(u.map(f))),
            New(n, u) => New(n.map(f), Arc::new(u.map(f))),
            Stack(t, size) => Stack(Arc::new(t.map(f)), *size),
            Tuple(items) => Tuple(items.iter().map(|t| t.map(f)).collect()),
            List(t) => List(Arc::new(t.map(f))),
            Set(t) => Set(Arc::new(t.map(f))),
            Record(fields) => Record(fields.iter().map(|(n, t)| (n.clone(), t.map(f))).collect()),
            TypeName(t) => TypeName(Arc::new(t.map(f))),
            other => other.with_named(|n| n.map(f)),
        }
    }

    /// The type with another name and other type arguments.
    fn with_named(&self, new: impl FnOnce(&Named) -> Named) -> Type {
        use Type::*;
        match self {
            Enum(n) => Enum(new(n)),
            Struct(n) => Struct(new(n)),
            Header(n) => Header(new(n)),
            Union(n) => Union(new(n)),
            Extern(n) => Extern(new(n)),
            Parser(n) => Parser(new(n)),
            Control(n) => Control(new(n)),
            Package(n) => Package(new(n)),
            other => other.clone(),
        }
    }

    /// The type with these type arguments.
    pub fn with_args(&self, args: Arc<[Type]>) -> Type {
        self.with_named(|n| Named { args, ..n.clone() })
    }

    /// The type with its type parameters substituted.
    pub fn subst(&self, subst: &Subst) -> Type {
        if subst.is_empty() {
            return self.clone();
        }
        self.map(&mut |t| match t {
            Type::Param(n) => Some(subst.get(&n.decl).cloned().unwrap_or_else(|| t.clone())),
            _ => None,
        })
    }

    /// Whether some part passes the test.
    pub fn any(&self, test: &mut dyn FnMut(&Type) -> bool) -> bool {
        let mut found = false;
        self.map(&mut |t| {
            found |= test(t);
            found.then(|| t.clone())
        });
        found
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[Type]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if !self.args.is_empty() {
            write!(f, "<")?;
            list(f, &self.args)?;
            write!(f, ">")?;
        }
        Ok(())
    }
}

/// The type as a P4 programmer writes it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Type::*;
        match self {
            Bad => write!(f, "<unknown>"),
            Void => write!(f, "void"),
            Bool => write!(f, "bool"),
            String => write!(f, "string"),
            Int => write!(f, "int"),
            Bit(w) => write!(f, "bit<{w}>"),
            Signed(w) => write!(f, "int<{w}>"),
            Varbit(w) => write!(f, "varbit<{w}>"),
            Error => write!(f, "error"),
            MatchKind => write!(f, "match_kind"),
            Stack(t, size) => write!(f, "{t}[{size}]"),
            Tuple(items) => {
                write!(f, "tuple<")?;
                list(f, items)?;
                write!(f, ">")
            }
            List(t) => write!(f, "list<{t}>"),
            Set(t) => write!(f, "set of {t}"),
            Record(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, ty)| format!("{ty} {name}")).collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
            Invalid => write!(f, "{{#}}"),
            Default => write!(f, "..."),
            DontCare => write!(f, "_"),
            Table(n) => write!(f, "table {n}"),
            ApplyResult(n) => write!(f, "the result of {n}.apply()"),
            ActionList(n) => write!(f, "the actions of {n}"),
            Action(n) => write!(f, "action {n}"),
            Function => write!(f, "function"),
            State => write!(f, "parser state"),
            TypeName(t) => write!(f, "type {t}"),
            Infer(_) => write!(f, "_"),
            other => other.named().map_or(Ok(()), |n| write!(f, "{n}")),
        }
    }
}
