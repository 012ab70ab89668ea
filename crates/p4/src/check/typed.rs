//! What a check found out: the manual of whoever lowers a program.
//!
//! [`Typed`] borrows the syntax tree and says about its nodes, by [`ExprId`] and by [`DeclId`]:
//!
//! | question | answer |
//! |---|---|
//! | of which type is this expression, as its context wants it? | [`Typed::ty`] (casts that the language inserts are done) |
//! | … and before the inserted cast? | [`Typed::own_ty`] |
//! | is its value known? | [`Typed::value`] (after the inserted cast), [`Typed::own_value`] |
//! | what does this name or `.member` mean? | [`Typed::res`] |
//! | what does this call call, with what? | [`Typed::call`], arguments in the order of the parameters |
//! | how is this object built? | [`Typed::instance`] of its declaration |
//! | which package is the program? | [`Typed::main`] |
//!
//! Generic functions, parsers, controls and methods are checked once. Inside them types mention [`Type::Param`]; a stage
//! that instantiates passes every type through [`Type::subst`] with the [`Call::type_args`]. Values that depend on a
//! constructor's parameters are not in [`Typed::value`].
//!
//! `meta.x = 1` has `1` of own type `int`; a cast to `bit<16>` is noted beside it, so [`Typed::ty`] is `bit<16>` and
//! [`Typed::value`] is already cut to it. Initialisers (`{1, 2}`, `{a = 1}`, `{#}`, `...`) get the type they initialise as
//! such a cast; their parts carry casts of their own where they need them.

use crate::map::{Map, Set};
use std::sync::Arc;

use super::types::{DeclId, Type};
use super::value::{Value, wrap};
use crate::ast::{self, Direction, Expr, ExprId};
use crate::source::Span;

/// What kind of thing a declaration declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The grammar's words.
pub enum Kind {
    #[default]
    TypeParam,
    Typedef,
    NewType,
    Struct,
    Header,
    Union,
    Enum,
    SerEnum,
    /// Of an enum, of `error` or of `match_kind`.
    Member,
    Field,
    Extern,
    Method,
    Constructor,
    ExternFunction,
    Function,
    Action,
    ParserType,
    Parser,
    ControlType,
    Control,
    Package,
    Const,
    Variable,
    Instance,
    /// Of `apply`, of a function, method or action.
    Param,
    /// Of a parser's, control's or package's constructor, or of an extern's.
    CtorParam,
    Table,
    State,
    ValueSet,
}

/// What is known of a declaration.
#[derive(Clone, Debug, Default)]
pub struct Decl<'a> {
    /// As declared.
    pub name: Arc<str>,
    /// Where the name stands.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
    /// Of a value: its type. Of a type: the type itself, its own parameters as arguments. Of what is called: the result.
    pub ty: Type,
    /// What it belongs to: the extern of a method, the enum of a member, the control of a table.
    pub parent: Option<DeclId>,
    /// Fields, members, methods, states, locals: what is declared directly inside, in order.
    pub members: Vec<DeclId>,
    /// Type parameters.
    pub type_params: Vec<DeclId>,
    /// Parameters: of `apply` for parsers and controls, of the constructor for packages.
    pub params: Vec<DeclId>,
    /// Parameters of a parser's or control's constructor.
    pub ctor_params: Vec<DeclId>,
    /// Of a parameter.
    pub direction: Direction,
    /// Of a parameter: may be left out.
    pub optional: bool,
    /// Of a parameter: its default; of a constant: its initialiser.
    pub default: Option<&'a Expr>,
    /// Of a constant, or of an enum's member with a representation.
    pub value: Option<Value>,
    /// Of a table: its syntax.
    pub table: Option<&'a ast::TableDecl>,
}

/// What a name or a `.member` means.
#[derive(Clone, Debug, PartialEq)]
pub enum Res {
    /// A declaration: variable, parameter, constant, field, enum or error member, action, table, instance, function …
    Decl(DeclId),
    /// `stack.next`, `stack.last`, `stack.lastIndex`, `stack.size`, `result.hit`, `result.miss`, `result.action_run`.
    Builtin(Builtin),
    /// A type where an expression stands.
    Type(Type),
}

/// Members and methods that the language itself has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as in P4.
pub enum Builtin {
    Next,
    Last,
    LastIndex,
    Size,
    Hit,
    Miss,
    ActionRun,
    IsValid,
    SetValid,
    SetInvalid,
    PushFront,
    PopFront,
    MinSizeInBits,
    MinSizeInBytes,
    MaxSizeInBits,
    MaxSizeInBytes,
}

/// What a call calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Callee {
    /// A function with a body, an extern function or an action.
    Function(DeclId),
    /// A method of an extern, and the declaration of the object where it is known (a parameter, an instance).
    Method(DeclId, Option<DeclId>),
    /// A method of the language; the object is the callee's base.
    Builtin(Builtin),
    /// `table.apply()`.
    Table(DeclId),
    /// `object.apply()` on a parser or control; with `None`, `Type.apply()`.
    Block(DeclId, Option<DeclId>),
    /// A constructor: the type that is made, and which constructor of an extern.
    Constructor(Type, Option<DeclId>),
}

/// A call, all its questions answered.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What is called.
    pub callee: Callee,
    /// What its type parameters stand for.
    pub type_args: Vec<(DeclId, Type)>,
    /// One a parameter, in the order of the declaration.
    pub args: Vec<(DeclId, Arg<'a>)>,
}

impl Call<'_> {
    /// A call without arguments.
    pub(super) fn plain(callee: Callee) -> Self {
        Call { callee, type_args: Vec::new(), args: Vec::new() }
    }
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Written at the call.
    Given(&'a Expr),
    /// The default of the parameter.
    Default(&'a Expr),
    /// Left out (`@optional`), `_`, or filled by the control plane.
    Omitted,
}

impl<'a> Arg<'a> {
    /// What is passed.
    pub fn expr(self) -> Option<&'a Expr> {
        match self {
            Arg::Given(e) | Arg::Default(e) => Some(e),
            Arg::Omitted => None,
        }
    }
}

/// Arguments of a call, one a parameter, in the order of the declaration.
pub type Args<'a> = [(DeclId, Arg<'a>)];

/// A checked program.
#[derive(Debug)]
pub struct Typed<'a> {
    /// Its tree.
    pub program: &'a ast::Program,
    /// The declaration of `main`.
    pub main: Option<DeclId>,
    /// Members of `error`, in order.
    pub errors: Vec<DeclId>,
    /// Members of `match_kind`, in order.
    pub match_kinds: Vec<DeclId>,
    pub(super) types: Vec<Option<Type>>,
    pub(super) casts: Map<ExprId, Type>,
    pub(super) values: Map<ExprId, Value>,
    pub(super) refs: Map<ExprId, Res>,
    pub(super) calls: Map<ExprId, Call<'a>>,
    pub(super) spans: Map<ExprId, Span>,
    pub(super) used: Set<DeclId>,
    pub(super) instances: Map<DeclId, Call<'a>>,
    pub(super) decls: Vec<Option<Decl<'a>>>,
    pub(super) syntax: Map<DeclId, &'a ast::Decl>,
    pub(super) fields: Map<DeclId, &'a ast::FieldDecl>,
}

impl<'a> Typed<'a> {
    pub(super) fn new(program: &'a ast::Program) -> Self {
        Typed {
            program,
            main: None,
            errors: Vec::new(),
            match_kinds: Vec::new(),
            types: vec![None; program.expr_count as usize],
            casts: Map::default(),
            values: Map::default(),
            refs: Map::default(),
            calls: Map::default(),
            spans: Map::default(),
            used: Set::default(),
            instances: Map::default(),
            decls: vec![None; program.decl_count as usize],
            syntax: Map::default(),
            fields: Map::default(),
        }
    }

    /// Type of an expression before any inserted cast.
    pub fn own_ty(&self, e: ExprId) -> &Type {
        self.types.get(e.0 as usize).and_then(Option::as_ref).unwrap_or(&Type::Bad)
    }

    /// Type of an expression as its context wants it.
    pub fn ty(&self, e: ExprId) -> &Type {
        self.casts.get(&e).unwrap_or_else(|| self.own_ty(e))
    }

    /// Value of an expression before any inserted cast.
    pub fn own_value(&self, e: ExprId) -> Option<&Value> {
        self.values.get(&e)
    }

    /// Value of an expression after the inserted cast.
    pub fn value(&self, e: ExprId) -> Option<Value> {
        let value = self.values.get(&e)?;
        Some(match (value, self.casts.get(&e)) {
            (Value::Int(v), Some(to)) => Value::Int(wrap(v, to)),
            (Value::Member(m), Some(_)) => self.decl(*m)?.value.clone()?,
            _ => value.clone(),
        })
    }

    /// What a name or member means.
    pub fn res(&self, e: ExprId) -> Option<&Res> {
        self.refs.get(&e)
    }

    /// The declaration that a name or member means.
    pub fn resolved(&self, e: ExprId) -> Option<DeclId> {
        match self.res(e)? {
            Res::Decl(id) => Some(*id),
            _ => None,
        }
    }

    /// What a call calls.
    pub fn call(&self, e: ExprId) -> Option<&Call<'a>> {
        self.calls.get(&e)
    }

    /// Whether something mentions a declaration.
    pub fn is_used(&self, d: DeclId) -> bool {
        self.used.contains(&d)
    }

    /// All calls in the order of the text, each with its place.
    pub fn calls_by_place(&self) -> Vec<(Span, &Call<'a>)> {
        let mut all: Vec<_> = self.spans.iter().filter_map(|(e, s)| Some((*s, self.calls.get(e)?))).collect();
        all.sort_by_key(|(s, _)| s.start);
        all
    }

    /// How a declared object is built.
    pub fn instance(&self, d: DeclId) -> Option<&Call<'a>> {
        self.instances.get(&d)
    }

    /// What is known of a declaration.
    pub fn decl(&self, d: DeclId) -> Option<&Decl<'a>> {
        self.decls.get(d.0 as usize)?.as_ref()
    }

    /// The syntax of a declaration: of all but parameters, fields, members and methods.
    pub fn syntax(&self, d: DeclId) -> Option<&'a ast::Decl> {
        self.syntax.get(&d).copied()
    }

    /// The syntax of a field.
    pub fn field(&self, d: DeclId) -> Option<&'a ast::FieldDecl> {
        self.fields.get(&d).copied()
    }

    /// Fields of a struct, header or union type, its type arguments put in.
    pub fn fields(&self, ty: &Type) -> Vec<(Arc<str>, Type, DeclId)> {
        let Some(decl) = ty.named().and_then(|n| self.decl(n.decl)) else { return Vec::new() };
        let subst = self.subst_of(ty);
        let fields = decl.members.iter().filter_map(|m| Some((*m, self.decl(*m)?)));
        fields.map(|(id, f)| (f.name.clone(), f.ty.subst(&subst), id)).collect()
    }

    /// What the type parameters of a named type stand for.
    pub fn subst_of(&self, ty: &Type) -> super::types::Subst {
        let Some(named) = ty.named() else { return Map::default() };
        let Some(decl) = self.decl(named.decl) else { return Map::default() };
        decl.type_params.iter().copied().zip(named.args.iter().cloned()).collect()
    }
}
