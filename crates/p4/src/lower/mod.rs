//! From the checked program to the IR. Lowering reads [`Typed`] and is literal.
//!
//! Beginning with `main`, each parser and control is instantiated and walked. Functions, directly called actions,
//! sub-controls and sub-parsers are walked again at each call, so the IR is flat and everything generic is concrete.
//! The walk asks no question that the checker has answered: the type of an expression is [`Typed::ty`] with what the type
//! parameters of the instance stand for; a compile-time value is [`Known::value`]; names and callees are declarations.
//! [`Scope`] says what declarations stand for in the instance that is being walked: storage, objects, values, types.
//!
//! A call is what section 6.8 of P4-16 says: each argument is copied into a variable of the parameter, the body runs, and
//! `out` and `inout` parameters are copied back, at every exit. Operands are evaluated from left to right; what was
//! evaluated before a call is saved before it. Nothing is optimised here: passes over the IR do that.
//!
//! The checker has refused what is wrong. What is left to report are limits of this release, each with a code of its own.
//!
//! In reading order: `storage` and `value` (where values live, constants), `expr`, `place` (what can be written, and
//! assignments), `stmt`, `call`, `block` (parsers and controls), `parser`, `table`, `object` (extern objects), `packet`,
//! `externs`, `methods`; `arch` begins everything, with `psa` and `pna` for those architectures.

mod arch;
mod block;
mod call;
mod expr;
mod externs;
mod methods;
mod object;
mod packet;
mod parser;
mod place;
mod pna;
mod psa;
mod stmt;
mod storage;
mod table;
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

/// Something was reported; the statement or declaration is left out.
struct Failed;

type Res<X> = Result<X, Failed>;

/// How deep calls may be inlined.
const DEPTH: usize = 64;
/// Statements, and variables and headers, beyond which a program is no program.
const MOST: usize = 1_000_000;

/// Lowers a program that the checker has accepted. `None` where a limit was reported.
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
        exit: Exit::Nowhere,
        role: ir::Role::Parser,
        exit_flag: None,
        copies: Vec::new(),
        drop_name: String::new(),
        path: String::new(),
        kind: VarKind::Local,
        depth: 0,
        made: 0,
        failed: false,
        names: Map::default(),
        layouts: Vec::new(),
        unions: storage::Unions::default(),
        tables: Map::default(),
        actions: Map::default(),
        instances: 0,
        instance: 0,
        parser: None,
        origins: Map::default(),
        metadata: None,
    };
    let done = lowering.program();
    (done.is_ok() && !lowering.failed).then_some(lowering.out)
}

/// What declarations stand for in the instances that are being walked. P4 has no recursion, so a declaration stands for
/// one thing at a time; an instance that is entered again brings its own along.
#[derive(Clone, Default)]
struct Scope<'a> {
    /// Variables and parameters.
    stores: Map<DeclId, Store>,
    /// Extern objects, tables, parsers and controls.
    objects: Map<DeclId, Object<'a>>,
    /// Constructor parameters, and others that have no storage.
    values: Map<DeclId, Value>,
    /// Type parameters.
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

/// Where a `return` goes, and where its value is put.
struct Return {
    label: LabelId,
    used: bool,
    value: Option<Store>,
}

/// Where a `break` and a `continue` go.
struct LoopLabels {
    leave: LabelId,
    next: LabelId,
}

/// What an `exit` does after the copies out.
#[derive(Clone, Copy)]
enum Exit {
    /// Leaves the outermost block of the control.
    Break(LabelId),
    /// In a table's action: sets the flag that is looked at where the table is applied, and leaves the action.
    Flag(LabelId),
    /// In a parser.
    Nowhere,
}

/// An action made for a table, and whether it may exit.
type MadeAction = (ir::ActionId, bool);

struct Lower<'t, 'a> {
    typed: &'t Typed<'a>,
    map: &'t SourceMap,
    diags: &'t mut Diagnostics,
    out: Program,
    /// Blocks under construction, innermost last.
    blocks: Vec<Vec<Stmt>>,
    loc: Loc,
    scope: Scope<'a>,
    returns: Vec<Return>,
    loops: Vec<LoopLabels>,
    exit: Exit,
    /// Where in the architecture the code stands.
    role: ir::Role,
    /// Set when an action of a table exits.
    exit_flag: Option<VarId>,
    /// What the calls that are being walked copy out when they end, outermost first.
    copies: Vec<Vec<place::CopyOut>>,
    /// Full name of the action or control whose code is met: the name of its drop sites.
    drop_name: String,
    /// Control-plane path of the instance whose code is met.
    path: String,
    /// Kind of the variables that are made.
    kind: VarKind,
    depth: usize,
    made: usize,
    failed: bool,
    names: Map<String, u32>,
    /// What the fields of each header type are made of.
    layouts: Vec<Rc<Vec<storage::Part>>>,
    unions: storage::Unions,
    tables: Map<ir::TableId, table::Made<'a>>,
    /// Actions without bound arguments, by declaration and instance: two instances may have one name.
    actions: Map<(DeclId, u32), MadeAction>,
    /// How many instances of parsers and controls there are, and which of them is walked.
    instances: u32,
    instance: u32,
    parser: Option<parser::Building>,
    /// What the variables of `inout` parameters are copies of.
    origins: Map<VarId, VarId>,
    /// v1model's user metadata.
    metadata: Option<(Store, Type)>,
}

impl<'a> Lower<'_, 'a> {
    // ---- reporting ----

    fn report<X>(&mut self, diagnostic: Diagnostic) -> Res<X> {
        self.failed = true;
        self.diags.push(diagnostic);
        Err(Failed)
    }

    /// What P4 allows and this release does not do.
    fn limit<X>(&mut self, code: &'static str, span: Span, what: &str) -> Res<X> {
        self.report(Diagnostic::error(code, span, format!("{what}, which this release cannot run")))
    }

    /// What the checker should have refused.
    fn bug<X>(&mut self, span: Span, what: &str) -> Res<X> {
        let message = format!("this is a bug of Strait, not of the program: {what}");
        self.report(Diagnostic::error("E0599", span, message).hint("please report it with the program"))
    }

    fn at(&self, span: Span) -> Loc {
        let p = self.map.position(span);
        Loc { file: p.file_index as u32, line: p.line as u32, col: p.column as u32 }
    }

    // ---- asking ----

    /// The type of an expression as its context wants it.
    fn ty(&self, e: &Expr) -> Type {
        self.typed.ty(e.id).subst(&self.scope.types)
    }

    /// The type of an expression before the inserted cast.
    fn own_ty(&self, e: &Expr) -> Type {
        self.typed.own_ty(e.id).subst(&self.scope.types)
    }

    /// The type of what is declared.
    fn decl_ty(&self, id: DeclId) -> Type {
        self.typed.decl(id).map_or(Type::Bad, |d| d.ty.subst(&self.scope.types))
    }

    /// The value of an expression, where it is known in this instance.
    fn known(&self, e: &'a Expr) -> Option<Value> {
        self.knows().value(e)
    }

    fn knows(&self) -> Known<'_, 'a> {
        Known { typed: self.typed, values: &self.scope.values, types: &self.scope.types }
    }

    /// The declaration that a name means.
    fn meant(&self, e: &Expr) -> Option<DeclId> {
        self.typed.meant(e.id)
    }

    /// Name of a declaration, as declared.
    fn name_of(&self, id: DeclId) -> String {
        self.typed.decl(id).map_or(String::new(), |d| d.name.to_string())
    }

    /// The control-plane name of a declaration inside `path`: `@name` gives another, with a leading dot a global one.
    fn full_name(&self, decl: &ast::Decl, path: &str) -> String {
        crate::api::full_name(decl, path)
    }

    // ---- making ----

    fn push(&mut self, kind: StmtKind) {
        self.made += 1;
        let loc = self.loc;
        if let Some(block) = self.blocks.last_mut() {
            block.push(Stmt::new(kind, loc));
        }
    }

    /// Runs `f` with a block of its own, and gives that block back.
    fn in_block<X>(&mut self, f: impl FnOnce(&mut Self) -> X) -> (Vec<Stmt>, X) {
        self.blocks.push(Vec::new());
        let result = f(self);
        (self.blocks.pop().unwrap_or_default(), result)
    }

    /// How long the current block is.
    fn position(&self) -> usize {
        self.blocks.last().map_or(0, Vec::len)
    }

    fn label(&mut self) -> LabelId {
        self.out.labels += 1;
        LabelId(self.out.labels - 1)
    }

    /// A name that no other has: the second `x` is `x_1`.
    fn unique(&mut self, name: &str) -> String {
        let count = self.names.entry(name.to_string()).or_insert(0);
        *count += 1;
        if *count == 1 { name.to_string() } else { format!("{name}_{}", *count - 1) }
    }

    fn var(&mut self, name: &str, ty: Ty, kind: VarKind) -> VarId {
        let name = self.unique(name);
        self.out.vars.push(Var { name, ty, kind, loc: self.loc });
        VarId(self.out.vars.len() as u32 - 1)
    }

    /// A scalar of the compiler's own.
    fn temp(&mut self, name: &str, ty: Ty) -> Place {
        Place::Var(self.var(name, ty, VarKind::Local))
    }
}
