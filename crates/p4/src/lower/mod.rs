//! Lowering translates the checked program ([`Typed`]) to the IR. It is literal: passes over the IR optimise, lowering
//! does not.
//!
//! Lowering starts at `main` and walks the body of each parser and control of the package. Functions, directly called
//! actions, sub-controls and sub-parsers are inlined: their bodies are walked again at each call. So the IR has no
//! calls between P4 functions and no type parameters.
//!
//! The checker has already resolved names, types and constants, and lowering reads its answers. [`Typed::ty`] is the
//! type of an expression, in which lowering substitutes the type arguments of the current instance. [`Known::value`] is
//! the value of a compile-time known expression. Names and callees are resolved to declarations. `Scope` maps these
//! declarations to their storage, objects, values and types in the current instance.
//!
//! Calls follow section 6.8 of P4-16 (copy-in/copy-out): each argument is copied into a variable for its parameter, the
//! body runs, and `out` and `inout` parameters are copied back at every exit of the body. Operands are evaluated from
//! left to right. If a later operand needs statements, the values of the operands before it are saved in temporaries
//! first.
//!
//! The checker has reported all mistakes of the program. Lowering only reports limits of this release, each with its
//! own code.
//!
//! Read the modules in this order: `storage` and `value` (where values live, and constants), `expr`, `lvalue` (lvalues
//! and assignments), `stmt`, `call`, `block` (instances of parsers and controls), `parser`, `table`, `object` (extern
//! objects), `packet`, `externs`, `methods`. Lowering starts in `arch`; `psa` and `pna` do its work for these two
//! architectures.

mod arch;
mod block;
mod call;
mod expr;
mod externs;
mod lvalue;
mod methods;
mod object;
mod packet;
mod parser;
mod pna;
mod psa;
mod request;
mod stmt;
mod storage;
mod table;
mod v1model;
mod value;

use crate::map::Map;
use std::rc::Rc;

use ir::{LabelId, Loc, Place, Program, Stmt, StmtKind, Ty, Var, VarId, VarKind};

use crate::ast::{self, Expr};
use crate::check::{DeclId, Known, Subst, Type, Typed, Value};
use crate::diag::{Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span};
use object::Object;
use storage::Store;

/// A diagnostic was reported. The statement or declaration that caused it is left out.
struct Failed;

type Res<X> = Result<X, Failed>;

/// How deeply calls may be nested.
const MAX_CALL_DEPTH: usize = 64;
/// The most instances of parsers and controls that a program may have. Each may have two of another one, so that a few lines ask for billions.
const MAX_INSTANCES: u32 = 10_000;
/// The most calls of functions and actions that are inlined. Each body may call another one twice.
const MAX_CALLS: usize = 100_000;
/// The most statements that a program may have after inlining, and the most variables and headers.
const MAX_SIZE: usize = 1_000_000;

/// Lowers a program that the checker has accepted. Returns `None` if a limit was reported.
pub fn lower(typed: &Typed<'_>, map: &SourceMap, diags: &mut Diagnostics) -> Option<Program> {
    let mut lowering = Lower {
        typed,
        map,
        diags,
        out: arch::empty_program(typed, map),
        blocks: Vec::new(),
        loc: Loc::default(),
        scope: Scope::default(),
        returns: Vec::new(),
        loops: Vec::new(),
        exit: Exit::Forbidden,
        role: ir::Role::Parser,
        exit_flag: None,
        copies: Vec::new(),
        drop_name: String::new(),
        path: String::new(),
        kind: VarKind::Local,
        depth: 0,
        statements: 0,
        calls: 0,
        exhausted: false,
        unnamed_digests: 0,
        failed: false,
        names: Map::default(),
        layouts: Vec::new(),
        unions: storage::Unions::default(),
        tables: Map::default(),
        actions: Map::default(),
        learning: None,
        instances: 0,
        instance: 0,
        parser: None,
        origins: Map::default(),
        metadata: None,
        requests: request::Requests::default(),
        v1model: v1model::V1Metadata::default(),
    };
    let done = lowering.program();
    (done.is_ok() && !lowering.failed).then_some(lowering.out)
}

/// What each declaration stands for in the instances that are being walked. P4 has no recursion, so one entry for each
/// declaration is enough: an instance that is walked again overwrites the entries of its declarations.
#[derive(Clone, Default)]
struct Scope<'a> {
    /// The storage of variables and parameters.
    stores: Map<DeclId, Store>,
    /// Extern objects, tables, and instances of parsers and controls.
    objects: Map<DeclId, Object<'a>>,
    /// The values of constructor parameters, and of other parameters that have no storage (`int`, `string`).
    values: Map<DeclId, Value>,
    /// The type arguments of type parameters.
    types: Subst,
}

impl Scope<'_> {
    fn extend(&mut self, other: &Self) {
        self.stores.extend(other.stores.iter().map(|(id, s)| (*id, s.clone())));
        self.objects.extend(other.objects.iter().map(|(id, o)| (*id, o.clone())));
        self.values.extend(other.values.iter().map(|(id, v)| (*id, v.clone())));
        self.types.extend(other.types.iter().map(|(id, t)| (*id, t.clone())));
    }
}

/// The function body that a `return` leaves: the label after the body, and the storage of the returned value.
struct Return {
    label: LabelId,
    used: bool,
    value: Option<Store>,
}

/// The labels of a loop: `break` goes to `leave`, `continue` goes to `next`.
struct LoopLabels {
    leave: LabelId,
    next: LabelId,
}

/// How an `exit` statement is lowered, after the copies out.
#[derive(Clone, Copy)]
enum Exit {
    /// In the body of a control: break out of the outermost block.
    Break(LabelId),
    /// In an action that a table runs: set the exit flag, and leave the action. The flag is tested after the table was
    /// applied.
    Flag(LabelId),
    /// In a parser, where P4 does not allow `exit`.
    Forbidden,
}

/// A table whose actions are being lowered: what `add_entry` in one of them needs to know.
#[derive(Clone)]
struct Learning<'a> {
    id: ir::TableId,
    /// Whether packets may add entries to it.
    learns: bool,
    /// Its actions in the order of the list.
    actions: &'a [ast::ActionRef],
}

/// The IR's action for an action of a table, and whether the action may execute `exit`.
type MadeAction = (ir::ActionId, bool);

struct Lower<'t, 'a> {
    typed: &'t Typed<'a>,
    map: &'t SourceMap,
    diags: &'t mut Diagnostics,
    out: Program,
    /// The blocks that are being built. The innermost is the last.
    blocks: Vec<Vec<Stmt>>,
    loc: Loc,
    scope: Scope<'a>,
    returns: Vec<Return>,
    loops: Vec<LoopLabels>,
    exit: Exit,
    /// The block of the architecture that is being lowered.
    role: ir::Role,
    /// The variable that is set when an action of a table executes `exit`.
    exit_flag: Option<VarId>,
    /// For each call that is being inlined, what it copies out at its end. The outermost call is the first.
    copies: Vec<Vec<lvalue::CopyOut>>,
    /// The full name of the action or control that is being walked. Drop sites are named after it.
    drop_name: String,
    /// The control-plane name of the instance that is being walked: the prefix of the names of its tables and objects.
    path: String,
    /// The kind that new variables get.
    kind: VarKind,
    depth: usize,
    statements: usize,
    /// How many calls of functions and actions were inlined.
    calls: usize,
    /// Whether the program was found to be too large. The rest of it is not lowered.
    exhausted: bool,
    /// How many digests have no name of their own so far.
    unnamed_digests: usize,
    failed: bool,
    names: Map<String, u32>,
    /// For each header type, how its fields map to the IR's fields.
    layouts: Vec<Rc<Vec<storage::Part>>>,
    unions: storage::Unions,
    tables: Map<ir::TableId, table::TableInfo<'a>>,
    /// Actions without bound arguments. The instance is part of the key because actions of two instances can have the
    /// same name.
    actions: Map<(DeclId, u32), MadeAction>,
    /// The table whose actions are being lowered.
    learning: Option<Learning<'a>>,
    /// The number of instances of parsers and controls so far, and the number of the one that is being walked.
    instances: u32,
    instance: u32,
    parser: Option<parser::ParserBuilder>,
    /// For each variable of an `inout` parameter, the variable that it is copied from and back to.
    origins: Map<VarId, VarId>,
    /// v1model's standard metadata.
    v1model: v1model::V1Metadata,
    /// The requests to the architecture.
    requests: request::Requests,
    /// The user metadata of v1model.
    metadata: Option<(Store, Type)>,
}

impl<'a> Lower<'_, 'a> {
    // ---- reporting ----

    fn report<X>(&mut self, diagnostic: Diagnostic) -> Res<X> {
        self.failed = true;
        self.diags.push(diagnostic);
        Err(Failed)
    }

    /// Reports something that P4 allows and this release does not support.
    fn limit<X>(&mut self, code: &'static str, span: Span, what: &str) -> Res<X> {
        self.report(Diagnostic::error(code, span, format!("{what}, which this release cannot run")))
    }

    /// Reports, once, that the program is too large.
    fn too_large<X>(&mut self, span: Span, what: &str) -> Res<X> {
        if std::mem::replace(&mut self.exhausted, true) {
            return Err(Failed);
        }
        self.limit("E0502", span, what)
    }

    /// Reports something that the checker should have refused.
    fn bug<X>(&mut self, span: Span, what: &str) -> Res<X> {
        let message = format!("this is a bug of Strait, not of the program: {what}");
        self.report(Diagnostic::error("E0599", span, message).hint("please report it with the program"))
    }

    fn at(&self, span: Span) -> Loc {
        let p = self.map.position(span);
        Loc { file: p.file_index as u32, line: p.line as u32, col: p.column as u32 }
    }

    // ---- what the checker knows ----

    /// The type of an expression after the implicit cast that its context needs.
    fn ty(&self, e: &Expr) -> Type {
        self.typed.ty(e.id).subst(&self.scope.types)
    }

    /// The type of an expression before that implicit cast.
    fn own_ty(&self, e: &Expr) -> Type {
        self.typed.own_ty(e.id).subst(&self.scope.types)
    }

    /// The type of a declaration.
    fn decl_ty(&self, id: DeclId) -> Type {
        self.typed.decl(id).map_or(Type::Bad, |d| d.ty.subst(&self.scope.types))
    }

    /// The value of an expression, if it is compile-time known in this instance.
    fn known(&self, e: &'a Expr) -> Option<Value> {
        self.known_values().value(e)
    }

    fn known_values(&self) -> Known<'_, 'a> {
        Known { typed: self.typed, values: &self.scope.values, types: &self.scope.types }
    }

    /// The declaration that a name refers to.
    fn resolved(&self, e: &Expr) -> Option<DeclId> {
        self.typed.resolved(e.id)
    }

    /// The name of a declaration in the source.
    fn name_of(&self, id: DeclId) -> String {
        self.typed.decl(id).map_or(String::new(), |d| d.name.to_string())
    }

    /// The control-plane name of a declaration in `path`. `@name` replaces the name; one with a leading dot is not
    /// prefixed with `path`.
    fn full_name(&self, decl: &ast::Decl, path: &str) -> String {
        crate::api::full_name(decl, path)
    }

    // ---- building the IR ----

    fn push(&mut self, kind: StmtKind) {
        self.statements += 1;
        let loc = self.loc;
        if let Some(block) = self.blocks.last_mut() {
            block.push(Stmt::new(kind, loc));
        }
    }

    /// Runs `f` with a new block, and returns that block.
    fn in_block<X>(&mut self, f: impl FnOnce(&mut Self) -> X) -> (Vec<Stmt>, X) {
        self.blocks.push(Vec::new());
        let result = f(self);
        (self.blocks.pop().unwrap_or_default(), result)
    }

    /// The number of statements in the current block.
    fn position(&self) -> usize {
        self.blocks.last().map_or(0, Vec::len)
    }

    fn label(&mut self) -> LabelId {
        self.out.labels += 1;
        LabelId(self.out.labels - 1)
    }

    pub(super) fn checksum_id(&mut self) -> ir::ChecksumId {
        self.out.checksums += 1;
        ir::ChecksumId(self.out.checksums - 1)
    }

    /// A unique name: the second `x` becomes `x_1`.
    fn unique(&mut self, name: &str) -> String {
        let count = self.names.entry(name.to_string()).or_insert(0);
        *count += 1;
        if *count == 1 { name.to_string() } else { format!("{name}_{}", *count - 1) }
    }

    fn var(&mut self, name: &str, ty: Ty, kind: VarKind) -> VarId {
        let name = self.unique(name);
        self.out.vars.push(Var { name: name.into(), ty, kind, loc: self.loc });
        VarId(self.out.vars.len() as u32 - 1)
    }

    /// A new scalar variable that the program does not declare.
    fn temp(&mut self, name: &str, ty: Ty) -> Place {
        Place::Var(self.var(name, ty, VarKind::Local))
    }
}
