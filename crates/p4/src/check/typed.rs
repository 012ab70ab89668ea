//! The result of the check. Later stages read it, and resolve nothing themselves.
//!
//! [`Typed`] borrows the syntax tree. It answers questions about expressions by [`ExprId`], and about declarations by
//! [`DeclId`]:
//!
//! | question | answer |
//! |---|---|
//! | Which type does this expression have? | [`Typed::ty`], after the implicit cast that its context needs |
//! | Which type does it have before that cast? | [`Typed::own_ty`] |
//! | Which value does it have, if it is compile-time known? | [`Typed::value`] after that cast, [`Typed::own_value`] before |
//! | What does this name or `.member` refer to? | [`Typed::res`] |
//! | What does this call call, and with which arguments? | [`Typed::call`], arguments in the order of the parameters |
//! | How is this object constructed? | [`Typed::instance`] of its declaration |
//! | Which package is the program? | [`Typed::main`] |
//!
//! Generic functions, parsers, controls and methods are checked once. In their bodies, types contain [`Type::Param`]. A
//! stage that instantiates them replaces type parameters in every type by [`Type::subst`] with the [`Call::type_args`].
//! [`Typed::value`] does not know values that depend on constructor parameters; [`Known`](super::Known) does.
//!
//! Example: in `meta.x = 1`, the expression `1` has the own type `int`. The checker records a cast to `bit<16>`, so that
//! [`Typed::ty`] is `bit<16>` and [`Typed::value`] is a value of that type. An initialiser (`{1, 2}`, `{a = 1}`, `{#}`,
//! `...`) has such a cast to the type that it initialises. Its parts have their own casts where they need them.

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
    /// A member of an enum, of `error` or of `match_kind`.
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
    /// A parameter of a function, method, action, or of `apply`.
    Param,
    /// A parameter of a constructor of a parser, control, package or extern.
    CtorParam,
    Table,
    State,
    ValueSet,
}

/// What the checker knows about a declaration.
#[derive(Clone, Debug, Default)]
pub struct Decl<'a> {
    /// The name in the source.
    pub name: Arc<str>,
    /// The location of the name.
    pub span: Span,
    /// The kind of the declaration.
    pub kind: Kind,
    /// The type of a value, or the type that the declaration introduces (with its own type parameters as arguments), or
    /// the type that a function or method returns.
    pub ty: Type,
    /// The declaration that contains it: the extern of a method, the enum of a member, the control of a table.
    pub parent: Option<DeclId>,
    /// The declarations that it contains, in order: fields, members, methods, states, locals.
    pub members: Vec<DeclId>,
    /// The type parameters.
    pub type_params: Vec<DeclId>,
    /// The parameters; those of `apply` for parsers and controls, and those of the constructor for packages.
    pub params: Vec<DeclId>,
    /// The constructor parameters of a parser or control.
    pub ctor_params: Vec<DeclId>,
    /// The direction of a parameter.
    pub direction: Direction,
    /// Whether an argument for this parameter may be left out. Whether a method is abstract and must be defined.
    pub optional: bool,
    /// The default value of a parameter, or the initialiser of a constant.
    pub default: Option<&'a Expr>,
    /// The value of a constant, or of a member of a serializable enum.
    pub value: Option<Value>,
    /// The syntax of a table.
    pub table: Option<&'a ast::TableDecl>,
}

/// What a name or a `.member` refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum Res {
    /// A declaration: variable, parameter, constant, field, enum or error member, action, table, instance, function …
    Decl(DeclId),
    /// A member that the language defines: `stack.next`, `stack.last`, `stack.lastIndex`, `stack.size`, `result.hit`,
    /// `result.miss`, `result.action_run`.
    Builtin(Builtin),
    /// A type, used as an expression.
    Type(Type),
}

/// The members and methods that the language defines.
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

/// The callee of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Callee {
    /// A function with a body, an extern function or an action.
    Function(DeclId),
    /// A method of an extern, and the declaration of its object (a parameter or an instance) if it is known.
    Method(DeclId, Option<DeclId>),
    /// A method that the language defines. The object is the base of the callee.
    Builtin(Builtin),
    /// The application of a table: `table.apply()`.
    Table(DeclId),
    /// The application of a parser or control: `object.apply()`, or with `None` `Type.apply()`.
    Block(DeclId, Option<DeclId>),
    /// A constructor: the type of the object, and the constructor of an extern.
    Constructor(Type, Option<DeclId>),
}

/// A call whose names, types and arguments are resolved.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What is called: a function, a method, a table, a constructor.
    pub callee: Callee,
    /// The type arguments of the callee's type parameters.
    pub type_args: Vec<(DeclId, Type)>,
    /// One argument for each parameter, in the order of the declaration.
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
    /// The argument in the call.
    Given(&'a Expr),
    /// The default value of the parameter.
    Default(&'a Expr),
    /// No argument: an `@optional` parameter, `_`, or a directionless parameter that the control plane sets.
    Omitted,
}

impl<'a> Arg<'a> {
    /// The expression that is passed.
    pub fn expr(self) -> Option<&'a Expr> {
        match self {
            Arg::Given(e) | Arg::Default(e) => Some(e),
            Arg::Omitted => None,
        }
    }
}

/// The arguments of a call: one for each parameter, in the order of the declaration.
pub type Args<'a> = [(DeclId, Arg<'a>)];

/// A checked program.
#[derive(Debug)]
pub struct Typed<'a> {
    /// The syntax tree.
    pub program: &'a ast::Program,
    /// The declaration of `main`.
    pub main: Option<DeclId>,
    /// The members of `error`, in order.
    pub errors: Vec<DeclId>,
    /// The members of `match_kind`, in order.
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

    /// The type of an expression before its implicit cast.
    pub fn own_ty(&self, e: ExprId) -> &Type {
        self.types.get(e.0 as usize).and_then(Option::as_ref).unwrap_or(&Type::Bad)
    }

    /// The type of an expression after the implicit cast that its context needs.
    pub fn ty(&self, e: ExprId) -> &Type {
        self.casts.get(&e).unwrap_or_else(|| self.own_ty(e))
    }

    /// The value of an expression before its implicit cast.
    pub fn own_value(&self, e: ExprId) -> Option<&Value> {
        self.values.get(&e)
    }

    /// The value of an expression after its implicit cast.
    pub fn value(&self, e: ExprId) -> Option<Value> {
        let value = self.values.get(&e)?;
        Some(match (value, self.casts.get(&e)) {
            (Value::Int(v), Some(to)) => Value::Int(wrap(v, to)),
            (Value::Member(m), Some(_)) => self.decl(*m)?.value.clone()?,
            _ => value.clone(),
        })
    }

    /// What a name or member refers to.
    pub fn res(&self, e: ExprId) -> Option<&Res> {
        self.refs.get(&e)
    }

    /// The declaration that a name or member refers to.
    pub fn resolved(&self, e: ExprId) -> Option<DeclId> {
        match self.res(e)? {
            Res::Decl(id) => Some(*id),
            _ => None,
        }
    }

    /// The call that an expression is.
    pub fn call(&self, e: ExprId) -> Option<&Call<'a>> {
        self.calls.get(&e)
    }

    /// Whether a name refers to this declaration.
    pub fn is_used(&self, d: DeclId) -> bool {
        self.used.contains(&d)
    }

    /// All calls in the order of the source, each with its location.
    pub fn calls_by_place(&self) -> Vec<(Span, &Call<'a>)> {
        let mut all: Vec<_> = self.spans.iter().filter_map(|(e, s)| Some((*s, self.calls.get(e)?))).collect();
        all.sort_by_key(|(s, _)| s.start);
        all
    }

    /// The constructor call of an instance.
    pub fn instance(&self, d: DeclId) -> Option<&Call<'a>> {
        self.instances.get(&d)
    }

    /// What is known about a declaration; `None` if it was not checked.
    pub fn decl(&self, d: DeclId) -> Option<&Decl<'a>> {
        self.decls.get(d.0 as usize)?.as_ref()
    }

    /// The syntax of a declaration. Parameters, fields, members and methods have none.
    pub fn syntax(&self, d: DeclId) -> Option<&'a ast::Decl> {
        self.syntax.get(&d).copied()
    }

    /// The syntax of a field.
    pub fn field(&self, d: DeclId) -> Option<&'a ast::FieldDecl> {
        self.fields.get(&d).copied()
    }

    /// The fields of a struct, header or union type, with its type arguments substituted.
    pub fn fields(&self, ty: &Type) -> Vec<(Arc<str>, Type, DeclId)> {
        let Some(decl) = ty.named().and_then(|n| self.decl(n.decl)) else { return Vec::new() };
        let subst = self.subst_of(ty);
        let fields = decl.members.iter().filter_map(|m| Some((*m, self.decl(*m)?)));
        fields.map(|(id, f)| (f.name.clone(), f.ty.subst(&subst), id)).collect()
    }

    /// The substitution of the type parameters of a named type by its type arguments.
    pub fn subst_of(&self, ty: &Type) -> super::types::Subst {
        let Some(named) = ty.named() else { return Map::default() };
        let Some(decl) = self.decl(named.decl) else { return Map::default() };
        decl.type_params.iter().copied().zip(named.args.iter().cloned()).collect()
    }
}
