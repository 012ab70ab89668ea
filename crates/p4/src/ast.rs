//! The syntax tree of P4-16 v1.2.5 with `for` loops, as the parser builds it: no name is resolved, and no type is
//! known.
//!
//! Every expression has an [`ExprId`] and every declaration a [`DeclId`], which are unique in the program. Later stages
//! keep their results in tables with these keys. The nodes have the names of the specification's grammar (appendix A).
//! In each node, `span` is its location and `id` its number. Comments show the syntax of a node, with the fields'
//! names.

#![allow(missing_docs)] // Fields of the node kinds: the comment beside each shows the syntax that names them.

use num_bigint::BigInt;

use crate::source::Span;

/// The number of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

/// The number of a declaration, which is anything that introduces a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeclId(pub u32);

/// A name, and its location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The top-level declarations in order, with those of includes.
    pub decls: Vec<Decl>,
    /// The number of expressions. All ids are less.
    pub expr_count: u32,
    /// The number of declarations. All ids are less.
    pub decl_count: u32,
}

/// An annotation such as `@name("x")`.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The name without the `@`.
    pub name: Name,
    /// What is in the parentheses or brackets.
    pub body: AnnotationBody,
    pub span: Span,
}

/// What follows the name of an annotation.
#[derive(Clone, Debug)]
pub enum AnnotationBody {
    /// Nothing.
    Empty,
    /// `( … )`: tokens that are not parsed. String literals keep their quotes.
    Unstructured(Vec<(String, Span)>),
    /// `[ expressions ]`.
    Expressions(Vec<Expr>),
    /// `[ key = expression, … ]`.
    KeyValues(Vec<(Name, Expr)>),
}

#[derive(Clone, Debug)]
pub struct Decl {
    pub id: DeclId,
    /// The annotations before it.
    pub annotations: Vec<Annotation>,
    pub kind: DeclKind,
    /// The name. It is empty for `error` and `match_kind` declarations.
    pub name: Name,
    pub span: Span,
}

impl Decl {
    /// The local declarations of a parser or control.
    pub fn locals(&self) -> &[Decl] {
        match &self.kind {
            DeclKind::Control(c) => &c.locals,
            DeclKind::Parser(p) => &p.locals,
            _ => &[],
        }
    }
}

/// The kinds of declarations.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T name = value;`
    Const { ty: Type, value: Expr },
    /// `T name;`, `T name = value;` in parsers, controls and blocks.
    Variable { ty: Type, init: Option<Expr> },
    /// `T(args) name;`, `T(args) name = { … };`
    Instance { ty: Type, args: Vec<Argument>, body: Option<Vec<Decl>> },
    /// `extern T f<…>(…);`
    ExternFunction(FunctionPrototype),
    /// `extern E<…> { … }`
    Extern { type_params: Vec<TypeParam>, methods: Vec<ExternMethod> },
    /// `T f<…>(…) { … }`
    Function { prototype: FunctionPrototype, body: BlockStmt },
    /// `action a(…) { … }`
    Action { params: Vec<Parameter>, body: BlockStmt },
    /// `parser P<…>(…);`, a parser type.
    ParserType(Head),
    /// `parser P<…>(…)(…) { … }`
    Parser(ParserDecl),
    /// `control C<…>(…);`, a control type.
    ControlType(Head),
    /// `control C<…>(…)(…) { … apply { … } }`
    Control(ControlDecl),
    /// `package K<…>(…);`
    Package(Head),
    /// `struct S<…> { … }`
    Struct { type_params: Vec<TypeParam>, fields: Vec<FieldDecl> },
    /// `header H<…> { … }`
    Header { type_params: Vec<TypeParam>, fields: Vec<FieldDecl> },
    /// `header_union U<…> { … }`
    HeaderUnion { type_params: Vec<TypeParam>, fields: Vec<FieldDecl> },
    /// `enum E { A, B }`, `enum bit<W> E { A = 1, B = 2 }`
    Enum { ty: Option<Type>, members: Vec<EnumMember> },
    /// `error { A, B }`
    Error { members: Vec<EnumMember> },
    /// `match_kind { a, b }`
    MatchKind { members: Vec<EnumMember> },
    /// `typedef T name;`
    Typedef(Type),
    /// `type T name;`
    NewType(Type),
    /// `table t { … }`
    Table(TableDecl),
    /// `value_set<T>(size) name;`
    ValueSet { ty: Type, size: Expr },
}

/// A type parameter of a generic declaration.
#[derive(Clone, Debug)]
pub struct TypeParam {
    pub id: DeclId,
    pub name: Name,
}

/// `T f<X>(…)`.
#[derive(Clone, Debug)]
pub struct FunctionPrototype {
    /// The type of the result.
    pub ret: Type,
    pub type_params: Vec<TypeParam>,
    pub params: Vec<Parameter>,
}

/// A method of an extern.
#[derive(Clone, Debug)]
pub struct ExternMethod {
    pub id: DeclId,
    pub annotations: Vec<Annotation>,
    /// Whether an instance must define the method.
    pub is_abstract: bool,
    /// Whether it is a constructor, which has the name of its extern. Its `ret` is `void` then.
    pub is_constructor: bool,
    pub name: Name,
    /// The type parameters, parameters and result.
    pub prototype: FunctionPrototype,
    pub span: Span,
}

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Directionless: the argument is compile-time known, or the control plane sets it.
    #[default]
    None,
    /// `in`: the parameter is read only.
    In,
    /// `out`: the parameter has no value at first, and is copied out.
    Out,
    /// `inout`: the parameter is copied in and out.
    InOut,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub id: DeclId,
    /// The annotations, such as `@optional`.
    pub annotations: Vec<Annotation>,
    pub direction: Direction,
    pub ty: Type,
    pub name: Name,
    /// The default value, `= value`.
    pub default: Option<Expr>,
    pub span: Span,
}

/// A field of a struct, header or union.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    pub id: DeclId,
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub name: Name,
}

/// A member of an enum, `error` or `match_kind`.
#[derive(Clone, Debug)]
pub struct EnumMember {
    pub id: DeclId,
    pub annotations: Vec<Annotation>,
    pub name: Name,
    /// The value of a member of a serializable enum, `= value`.
    pub value: Option<Expr>,
}

/// The type parameters, parameters and constructor parameters of a parser, control or package: `<…>(…)(…)`.
#[derive(Clone, Debug)]
pub struct Head {
    pub type_params: Vec<TypeParam>,
    pub params: Vec<Parameter>,
    pub ctor_params: Vec<Parameter>,
}

#[derive(Clone, Debug)]
pub struct ParserDecl {
    pub head: Head,
    /// The constants, variables, instances and value sets.
    pub locals: Vec<Decl>,
    pub states: Vec<StateDecl>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct StateDecl {
    pub id: DeclId,
    pub annotations: Vec<Annotation>,
    pub name: Name,
    pub body: Vec<Stmt>,
    /// The transition. A state without one rejects.
    pub transition: Option<Transition>,
    pub span: Span,
}

impl StateDecl {
    /// The names of the states that the transition may go to.
    pub fn targets(&self) -> Vec<&str> {
        match &self.transition {
            None => Vec::new(),
            Some(Transition::State(name)) => vec![&name.text],
            Some(Transition::Select { cases, .. }) => cases.iter().map(|c| c.state.text.as_str()).collect(),
        }
    }
}

/// A `transition` statement.
#[derive(Clone, Debug)]
pub enum Transition {
    /// `transition name;`
    State(Name),
    /// `transition select(keys) { … }`
    Select {
        /// The expressions that the cases are compared with.
        keys: Vec<Expr>,
        cases: Vec<SelectCase>,
        span: Span,
    },
}

/// A case of a `select`.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// A keyset: one expression, or a tuple of them as [`ExprKind::List`].
    pub keyset: Expr,
    /// The next state.
    pub state: Name,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct ControlDecl {
    pub head: Head,
    /// The constants, variables, instances, actions and tables.
    pub locals: Vec<Decl>,
    /// The statements of the `apply` block.
    pub apply: BlockStmt,
}

#[derive(Clone, Debug)]
pub struct TableDecl {
    pub properties: Vec<TableProperty>,
}

impl TableDecl {
    /// The property with this name.
    pub fn property(&self, name: &str) -> Option<&TableProperty> {
        self.properties.iter().find(|p| p.name.text == name)
    }

    /// The value of the property with this name, if it is an expression.
    pub fn value(&self, name: &str) -> Option<&Expr> {
        match &self.property(name)?.value {
            PropertyValue::Expr(e) => Some(e),
            _ => None,
        }
    }
}

/// A property of a table.
#[derive(Clone, Debug)]
pub struct TableProperty {
    pub annotations: Vec<Annotation>,
    pub is_const: bool,
    /// The name: `key`, `actions`, `entries`, `default_action`, `size` or another.
    pub name: Name,
    pub value: PropertyValue,
    pub span: Span,
}

/// The value of a table property.
#[derive(Clone, Debug)]
pub enum PropertyValue {
    /// `key = { e : kind; … }`
    Key(Vec<KeyElement>),
    /// `actions = { a; b(x); … }`
    Actions(Vec<ActionRef>),
    /// `entries = { k : a(); … }`
    Entries(Vec<EntryDecl>),
    /// `name = e;` for any other property.
    Expr(Expr),
}

/// An element of a table's key.
#[derive(Clone, Debug)]
pub struct KeyElement {
    pub annotations: Vec<Annotation>,
    pub expr: Expr,
    pub match_kind: Name,
}

/// An action in a table's list.
#[derive(Clone, Debug)]
pub struct ActionRef {
    pub annotations: Vec<Annotation>,
    /// A name, or a call with arguments for the parameters with a direction.
    pub expr: Expr,
}

/// An entry of a table in the program.
#[derive(Clone, Debug)]
pub struct EntryDecl {
    pub annotations: Vec<Annotation>,
    pub is_const: bool,
    /// The priority, `priority = e :`.
    pub priority: Option<Expr>,
    /// A keyset: one expression, or a tuple of them as [`ExprKind::List`].
    pub keyset: Expr,
    /// The action: a name or a call.
    pub action: Expr,
    pub span: Span,
}

/// A block `{ … }`.
#[derive(Clone, Debug, Default)]
pub struct BlockStmt {
    pub annotations: Vec<Annotation>,
    pub stmts: Vec<Stmt>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

impl Stmt {
    /// The statement lists of blocks, branches, cases and loops in this statement.
    pub fn bodies(&self) -> Vec<&[Stmt]> {
        use std::slice::from_ref;
        match &self.kind {
            StmtKind::Block(b) => vec![&b.stmts],
            StmtKind::If { then, otherwise: None, .. } => vec![from_ref(then)],
            StmtKind::If { then, otherwise: Some(otherwise), .. } => {
                vec![from_ref(then), from_ref(otherwise)]
            }
            StmtKind::Switch { cases, .. } => {
                cases.iter().filter_map(|c| Some(&c.body.as_ref()?.stmts[..])).collect()
            }
            StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => vec![from_ref(body)],
            _ => Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// A constant, variable or instance.
    Decl(Box<Decl>),
    /// `a = b;`, and `a += b;` with its operator.
    Assign { target: Expr, op: Option<BinaryOp>, value: Expr },
    /// `f(x);`; always an [`ExprKind::Call`].
    Call(Expr),
    /// `T.apply(x);` where T is a type: instantiates and applies it.
    DirectApply { id: ExprId, ty: Type, args: Vec<Argument> },
    /// `if (cond) then else otherwise`
    If { cond: Expr, then: Box<Stmt>, otherwise: Option<Box<Stmt>> },
    /// `switch (on) { … }`
    Switch { on: Expr, cases: Vec<SwitchCase> },
    /// `{ … }`
    Block(BlockStmt),
    /// `for (init; cond; update) body`
    For { annotations: Vec<Annotation>, init: Vec<Stmt>, cond: Expr, update: Vec<Stmt>, body: Box<Stmt> },
    /// `for (T x in e) body`
    ForIn { annotations: Vec<Annotation>, variable: Box<ForVariable>, over: Expr, body: Box<Stmt> },
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `return;`, `return e;`
    Return(Option<Expr>),
    /// `exit;`
    Exit,
}

/// The variable of a `for … in` loop.
#[derive(Clone, Debug)]
pub struct ForVariable {
    pub id: DeclId,
    pub ty: Type,
    pub name: Name,
}

/// A case of a `switch`.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// The label. `None` is `default`.
    pub label: Option<Expr>,
    /// The block. Without one, the case shares the block of the next.
    pub body: Option<BlockStmt>,
    pub span: Span,
}

impl SwitchCase {
    /// Whether it is the `default` case.
    pub fn is_default(&self) -> bool {
        self.label.as_ref().is_none_or(|l| matches!(l.kind, ExprKind::Default))
    }
}

/// A type as it is written.
#[derive(Clone, Debug)]
pub struct Type {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// `string`
    String,
    /// `void`
    Void,
    /// `int`, arbitrary precision.
    Int,
    /// `bit<W>`; `bit` alone is `bit<1>`.
    Bit(Option<Box<Expr>>),
    /// `int<W>`
    SignedInt(Box<Expr>),
    /// `varbit<W>`
    Varbit(Box<Expr>),
    /// `tuple<…>`
    Tuple(Vec<Type>),
    /// `list<T>`
    List(Box<Type>),
    /// A name, which may have a leading dot (`global`) and type arguments.
    Named { global: bool, name: Name, args: Vec<Type> },
    /// `T[n]`
    Stack { element: Box<Type>, size: Box<Expr> },
    /// `_` as a type argument.
    DontCare,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The parameter's name in `name = value`.
    pub name: Option<Name>,
    /// The value. `None` is `_`.
    pub value: Option<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub id: ExprId,
    pub kind: ExprKind,
    pub span: Span,
}

impl Expr {
    /// The items of a list. Any other expression is its own only item.
    pub fn items(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::List { items, .. } => items.iter().collect(),
            _ => vec![self],
        }
    }

    /// The callee and the arguments of `a(x)`, or of `a` without arguments.
    pub fn called(&self) -> (&Expr, &[Argument]) {
        match &self.kind {
            ExprKind::Call { callee, args, .. } => (callee, args),
            _ => (self, &[]),
        }
    }
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A number. `width` is the one in `8w255` or `4s1`, and whether it is signed.
    Number { value: BigInt, width: Option<(u32, bool)> },
    /// A string without its quotes, with escapes resolved.
    String(String),
    /// `true`, `false`
    Bool(bool),
    /// `this`
    This,
    /// `...`, the default value.
    DefaultValue,
    /// `_` in a keyset.
    DontCare,
    /// `default` in a keyset or a `switch`.
    Default,
    /// A name, which may have a leading dot (`global`).
    Name { global: bool, name: Name },
    /// A type that is used as an expression: `bit<8>` as the base of a member or as a constructor.
    Type(Type),
    /// `base.member`; for members of `error` the base is an [`ExprKind::Type`].
    Member { base: Box<Expr>, member: Name },
    /// `base[index]`
    Index { base: Box<Expr>, index: Box<Expr> },
    /// `base[hi:lo]`
    Slice { base: Box<Expr>, hi: Box<Expr>, lo: Box<Expr> },
    /// `callee<types>(args)`. The callee of a constructor call is the name of a type, or an [`ExprKind::Type`].
    Call { callee: Box<Expr>, type_args: Vec<Type>, args: Vec<Argument> },
    /// `!e`, `~e`, `-e`, `+e`
    Unary { op: UnaryOp, operand: Box<Expr> },
    /// `a op b`
    Binary { op: BinaryOp, left: Box<Expr>, right: Box<Expr> },
    /// `c ? a : b`
    Ternary { cond: Box<Expr>, yes: Box<Expr>, no: Box<Expr> },
    /// `(T) e`
    Cast { ty: Type, operand: Box<Expr> },
    /// `{ a, b }`, or `( a, b )` in keysets. `more` is true if `...` ends the list.
    List { items: Vec<Expr>, more: bool },
    /// `{ x = a, y = b }`. `more` is true if `...` ends the list.
    Struct { fields: Vec<(Name, Expr)>, more: bool },
    /// `{#}`
    InvalidHeader,
    /// A mistake in the syntax, which has been reported.
    Error,
}

/// The unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The P4 operators of those names.
pub enum UnaryOp {
    Not,
    Complement,
    Minus,
    Plus,
}

/// The binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The P4 operators of those names.
pub enum BinaryOp {
    Mul,
    Div,
    Mod,
    Add,
    Sub,
    AddSat,
    SubSat,
    Shl,
    Shr,
    Le,
    Ge,
    Lt,
    Gt,
    Ne,
    Eq,
    BitAnd,
    BitXor,
    BitOr,
    Concat,
    And,
    Or,
    /// `&&&` in keysets.
    Mask,
    /// `..` in keysets.
    Range,
}

impl BinaryOp {
    /// The operators of expressions; the level that binds least comes first. Unlike in C, `&`, `^` and `|` bind tighter
    /// than comparisons.
    pub const LEVELS: [&[(&str, BinaryOp)]; 10] = {
        use BinaryOp::*;
        [
            &[("||", Or)],
            &[("&&", And)],
            &[("==", Eq), ("!=", Ne)],
            &[("<=", Le), (">=", Ge), ("<", Lt), (">", Gt)],
            &[("|", BitOr)],
            &[("^", BitXor)],
            &[("&", BitAnd)],
            &[("<<", Shl), (">>", Shr)],
            &[("++", Concat), ("+", Add), ("-", Sub), ("|+|", AddSat), ("|-|", SubSat)],
            &[("*", Mul), ("/", Div), ("%", Mod)],
        ]
    };

    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        let keysets: &[_] = &[("&&&", BinaryOp::Mask), ("..", BinaryOp::Range)];
        let mut all = Self::LEVELS.iter().copied().flatten().chain(keysets);
        all.find(|(_, op)| *op == self).map_or("", |(text, _)| text)
    }
}

/// The annotation with this name.
pub fn annotation<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|a| a.name.text == name)
}

/// The string in `@name("x")` or `@name["x"]`, without its quotes.
pub fn annotation_string(annotations: &[Annotation], name: &str) -> Option<String> {
    match &annotation(annotations, name)?.body {
        AnnotationBody::Unstructured(tokens) => {
            let (text, _) = tokens.first()?;
            Some(text.strip_prefix('"')?.strip_suffix('"')?.to_string())
        }
        AnnotationBody::Expressions(list) => match &list.first()?.kind {
            ExprKind::String(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
