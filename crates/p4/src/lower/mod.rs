//! Tree to IR: the program is instantiated from `main`, inlined and flattened, and what it means is checked on the way.
//!
//! Starting at `V1Switch(…) main`, each parser and control is walked with its parameters bound to storage; functions,
//! sub-controls, sub-parsers and actions that are called directly are walked again at each call. So every type, width
//! and constructor argument is known wherever code is met.
//!
//! Parameters of direction `out` and `inout` are bound to their arguments, not copied, where no program can tell (`alias`):
//! targets copy less.
//!
//! * `types`, `scope`, `fold`: what the walk computes with; `resolve`: types as written to types as meant;
//! * `expr`, `stmt`, `call`, `extern_call`: code; `union`: header unions, which the IR does not know; `parser`, `table`, `object`: what a program is made of.

#![allow(missing_docs)] // Internal but for `lower`; the fields are named after the P4 constructs they hold.

mod alias;
mod call;
mod expr;
mod extern_call;
mod fold;
mod object;
mod parser;
mod pna;
mod psa;
mod resolve;
mod scope;
mod stmt;
mod table;
mod types;
mod union;

use std::collections::HashMap;
use std::rc::Rc;

use ir::{LabelId, Loc, Place, Program, Stmt, StmtKind, Ty, Var, VarId, VarKind};

use crate::ast;
use crate::diag::{Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span};
use scope::{Binding, BlockInstance, Env, Scope};
use types::{FieldT, Store, StructT, T};

/// A mistake was reported; the statement or declaration is left out.
pub(crate) struct Failed;

type Res<X> = Result<X, Failed>;

/// How deep calls may be inlined. P4 has no recursion, so only a mistake gets there.
const DEPTH: usize = 64;
/// Statements beyond which a program is no program.
const MOST_STMTS: usize = 1_000_000;

/// Lowers a v1model program. `None` where a mistake was reported.
pub fn lower(program: &ast::Program, map: &SourceMap, diags: &mut Diagnostics) -> Option<Program> {
    let before = diags.has_errors();
    let mut lowering = Lower::new(map, diags);
    let done = lowering.program(program);
    lowering.cyclic.drain(..).for_each(|scope| scope.clear());
    let out = lowering.out;
    (done.is_ok() && !before && !diags.has_errors()).then_some(out)
}

/// Where a `return` goes.
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

/// What an `exit` does.
#[derive(Clone, Copy)]
enum Exit {
    /// Leaves the outermost block of the control.
    Break(LabelId),
    /// In a table's action: sets the flag that the table's control looks at, and leaves the action.
    Flag(LabelId),
    /// In a function or parser: not allowed.
    Nowhere,
}

struct Lower<'a, 'd> {
    map: &'d SourceMap,
    diags: &'d mut Diagnostics,
    out: Program,
    /// Blocks under construction, innermost last.
    blocks: Vec<Vec<Stmt>>,
    loc: Loc,
    returns: Vec<Return>,
    loops: Vec<LoopLabels>,
    exit: Exit,
    /// Set when an action of a table exits.
    exit_flag: Option<VarId>,
    /// Full name of the action or control whose code is met: the name of its drop sites.
    drop_name: String,
    /// Control-plane path of the control whose code is met.
    path: String,
    kind: VarKind,
    depth: usize,
    made: usize,
    names: HashMap<String, u32>,
    struct_cache: HashMap<(*const ast::Decl, String), T>,
    actions: HashMap<(*const ast::Decl, *const Scope<'a>), (ir::ActionId, bool)>,
    unions: union::Unions,
    /// What calls that are being walked will write back, outermost first: `exit` does so, too.
    copies: Vec<Vec<alias::CopyOut>>,
    /// Tables whose actions may exit.
    exiting: Vec<ir::TableId>,
    /// What must run before a table is applied: calls in its key.
    key_statements: HashMap<ir::TableId, Vec<Stmt>>,
    /// Direct counters that a table has taken.
    parser: Option<parser::Building>,
    standard: Option<Store>,
    /// The program's own metadata.
    metadata: Option<Store>,
    global: Env<'a>,
    /// Scopes that hold actions of their own.
    cyclic: Vec<Env<'a>>,
}

impl<'a, 'd> Lower<'a, 'd> {
    fn new(map: &'d SourceMap, diags: &'d mut Diagnostics) -> Self {
        Lower {
            map,
            diags,
            out: empty_program(map),
            blocks: Vec::new(),
            loc: Loc::default(),
            returns: Vec::new(),
            loops: Vec::new(),
            exit: Exit::Nowhere,
            exit_flag: None,
            drop_name: String::new(),
            path: String::new(),
            kind: VarKind::Local,
            depth: 0,
            made: 0,
            names: HashMap::new(),
            struct_cache: HashMap::new(),
            actions: HashMap::new(),
            unions: union::Unions::default(),
            copies: Vec::new(),
            key_statements: HashMap::new(),
            exiting: Vec::new(),
            parser: None,
            standard: None,
            metadata: None,
            global: Scope::new(None),
            cyclic: Vec::new(),
        }
    }

    /// An action, which sees the scope that it is declared in.
    fn action(&mut self, decl: &'a ast::Decl, env: &Env<'a>) -> Binding<'a> {
        self.cyclic.push(env.clone());
        Binding::Action(decl, env.clone())
    }

    // ---- reporting ----

    fn error<X>(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Res<X> {
        self.report(Diagnostic::error(code, span, message))
    }

    fn error_hint<X>(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Res<X> {
        self.report(Diagnostic::error(code, span, message).hint(hint))
    }

    fn report<X>(&mut self, diagnostic: Diagnostic) -> Res<X> {
        self.diags.push(diagnostic);
        Err(Failed)
    }

    /// What P4 allows and this release does not do yet.
    fn not_yet<X>(&mut self, span: Span, what: &str) -> Res<X> {
        self.error_hint(
            "E0501",
            span,
            format!("{what} is not in this release"),
            "the CHANGELOG and `README.md` list what is supported",
        )
    }

    fn at(&self, span: Span) -> Loc {
        let p = self.map.position(span);
        Loc { file: p.file_index as u32, line: p.line as u32, col: p.column as u32 }
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
    fn temp(&mut self, name: &str, ty: &T) -> Option<Store> {
        let var = self.var(name, ty.ir()?, VarKind::Local);
        Some(Store::Scalar(Place::Var(var), ty.clone()))
    }

    /// Storage for a value of that type.
    fn storage(&mut self, name: &str, ty: &T, span: Span) -> Res<Store> {
        if let Some(scalar) = ty.ir() {
            if scalar.is_varbit() {
                // The IR has varbits in headers only.
                let value = FieldT {
                    name: "value".into(),
                    ty: ty.clone(),
                    checksum_nonzero: false,
                    field_lists: Vec::new(),
                    match_kind: None,
                };
                let home =
                    Rc::new(StructT { name: format!("$varbit{}", scalar.width()), fields: vec![value] });
                let header = ir::HeaderRef::Header(self.header(name, &home));
                return Ok(home.place(&header, 0));
            }
            let kind = self.kind;
            return Ok(Store::Scalar(Place::Var(self.var(name, scalar, kind)), ty.clone()));
        }
        match ty {
            T::Header(s) => {
                let id = self.header(name, s);
                Ok(Store::Header(ir::HeaderRef::Header(id), s.clone()))
            }
            T::Struct(s) => {
                let fields =
                    s.fields.iter().map(|f| self.storage(&format!("{name}.{}", f.name), &f.ty, span));
                let fields = fields.collect::<Res<Vec<_>>>()?;
                Ok(Store::Struct(s.clone(), Rc::new(fields)))
            }
            T::Tuple(items) => {
                let parts =
                    items.iter().enumerate().map(|(i, t)| self.storage(&format!("{name}.{i}"), t, span));
                Ok(Store::Tuple(Rc::new(parts.collect::<Res<Vec<_>>>()?)))
            }
            T::Stack(element, _) if matches!(**element, T::Header(_) | T::Union(_)) => {
                self.stack(name, ty, span)
            }
            T::Union(s) => self.union(name, s, span),
            other => {
                let message = format!("there are no variables of type {other}");
                self.error("E0503", span, message)
            }
        }
    }

    fn header(&mut self, name: &str, s: &Rc<StructT>) -> ir::HeaderId {
        let ty = match self.out.header_types.iter().position(|t| t.name == s.name) {
            Some(known) => known,
            None => {
                let mut offset = 0;
                let fields = s.scalars().into_iter().filter_map(|(name, f)| {
                    let ty = f.ty.ir()?;
                    let field = ir::Field { name, ty, offset, checksum_nonzero: f.checksum_nonzero };
                    offset += if ty.is_varbit() { 0 } else { ty.width() };
                    Some(field)
                });
                let fields = fields.collect();
                self.out.header_types.push(ir::HeaderType { name: s.name.clone(), fields });
                self.out.header_types.len() - 1
            }
        };
        let name = self.unique(name);
        self.out.headers.push(ir::Header { name, ty: ir::HeaderTypeId(ty as u32) });
        ir::HeaderId(self.out.headers.len() as u32 - 1)
    }

    // ---- the program ----

    fn program(&mut self, program: &'a ast::Program) -> Res<()> {
        let mut main = None;
        self.out.errors = Vec::new();
        for decl in &program.decls {
            if let ast::DeclKind::Error { members } = &decl.kind {
                self.out.errors.extend(members.iter().map(|m| m.name.text.clone()));
            }
        }
        for decl in &program.decls {
            match &decl.kind {
                ast::DeclKind::Instance { args, ty, .. } if decl.name.text == "main" => {
                    main = Some((decl, ty, args))
                }
                _ => {
                    let global = self.global.clone();
                    // A mistake in one declaration is reported, and the others are looked at all the same.
                    let _ = self.declare_global(decl, &global);
                }
            }
        }
        let Some((decl, ty, args)) = main else {
            let at = program.decls.last().map_or(Span::default(), |d| d.span.after());
            return self.error_hint(
                "E0503",
                at,
                "the program has no `main`",
                "a v1model program ends with `V1Switch(MyParser(), MyVerifyChecksum(), …) main;`",
            );
        };
        self.architecture(decl, ty, args)
    }

    fn declare_global(&mut self, decl: &'a ast::Decl, env: &Env<'a>) -> Res<()> {
        use ast::DeclKind::*;
        let name = decl.name.text.as_str();
        let binding = match &decl.kind {
            Const { ty, value } => {
                let value = self.constant(ty, value, env)?;
                Binding::Value(value)
            }
            ExternFunction(prototype) => {
                let known = match env.get(name) {
                    Some(Binding::Extern(known)) => known.to_vec(),
                    _ => Vec::new(),
                };
                Binding::Extern(Rc::new(known.into_iter().chain([prototype]).collect()))
            }
            Function { .. } => Binding::Function(decl),
            Action { .. } => self.action(decl, env),
            Instance { ty, args, .. } => Binding::Object(self.object(decl, ty, args, env, "")?),
            Error { .. } | MatchKind { .. } => return Ok(()),
            Extern { .. }
            | ParserType { .. }
            | Parser(_)
            | ControlType { .. }
            | Control(_)
            | Package { .. }
            | Struct { .. }
            | Header { .. }
            | HeaderUnion { .. }
            | Enum { .. }
            | SerEnum { .. }
            | Typedef(_)
            | NewType(_) => Binding::Type(decl),
            Variable { .. } => {
                return self.error_hint(
                    "E0503",
                    decl.span,
                    "there are no variables outside parsers and controls",
                    "write `const` for a constant, or put it into a metadata struct",
                );
            }
            Table(_) | ValueSet { .. } => {
                return self.error("E0503", decl.span, "this belongs into a control or parser");
            }
        };
        let overload = matches!(decl.kind, ExternFunction(_) | Extern { .. });
        if !overload && matches!(env.get(name), Some(ref b) if !matches!(b, Binding::Extern(_))) {
            return self.error("E0503", decl.name.span, format!("`{name}` is declared twice"));
        }
        env.bind(&decl.name.text, binding);
        Ok(())
    }

    fn architecture(&mut self, main: &'a ast::Decl, ty: &'a ast::Type, args: &'a [ast::Argument]) -> Res<()> {
        let package = match &ty.kind {
            ast::TypeKind::Named { name, .. } => name.text.as_str(),
            _ => "",
        };
        if package == "PSA_Switch" {
            return self.psa(args, main.span);
        }
        if package == "PNA_NIC" {
            return self.pna(args, main.span);
        }
        if package != "V1Switch" {
            return self.error_hint(
                "E0503",
                ty.span,
                format!("`main` is a `{package}`, which is no architecture that runs here"),
                "v1model, PSA and PNA do: include <v1model.p4>, <psa.p4> or <pna.p4>",
            );
        }
        if args.len() != 6 {
            let message = format!("V1Switch takes 6 blocks, not {}", args.len());
            let hint = "parser, verify checksum, ingress, egress, compute checksum, deparser";
            return self.error_hint("E0503", main.span, message, hint);
        }
        let global = self.global.clone();
        let names = ["p", "vr", "ig", "eg", "ck", "dep"];
        let mut blocks = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let named = args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.text == *name));
            match named.or(args.get(i)) {
                Some(arg) => blocks.push(self.block_argument(arg, &global)?),
                None => return Err(Failed),
            }
        }
        self.pipeline(&blocks)
    }

    /// `MyParser()` as an argument of the package, or the name of an instance.
    fn block_argument(&mut self, arg: &'a ast::Argument, env: &Env<'a>) -> Res<Rc<BlockInstance<'a>>> {
        match &arg.value {
            Some(e) => self.block_value(e, env),
            None => self.error("E0503", arg.span, "a parser or control stands here"),
        }
    }

    fn pipeline(&mut self, blocks: &[Rc<BlockInstance<'a>>]) -> Res<()> {
        use ir::Role::*;
        let roles = [Parser, VerifyChecksum, Ingress, Egress, ComputeChecksum, Deparser];
        // Which of the architecture's arguments each block takes: packet, headers, metadata, standard metadata.
        let shapes = ["phms", "hm", "hms", "hms", "hm", "ph"];
        let mut shared: HashMap<char, Store> = HashMap::new();
        let mut failed = false;
        for ((block, role), shape) in blocks.iter().zip(roles).zip(shapes) {
            failed |= self.top_level(block, role, shape, &mut shared).is_err();
        }
        if failed { Err(Failed) } else { Ok(()) }
    }

    fn top_level(
        &mut self,
        block: &Rc<BlockInstance<'a>>,
        role: ir::Role,
        shape: &str,
        shared: &mut HashMap<char, Store>,
    ) -> Res<()> {
        let decl = block.decl;
        let (params, is_parser) = match &decl.kind {
            ast::DeclKind::Parser(p) => (&p.params, true),
            ast::DeclKind::Control(c) => (&c.params, false),
            _ => return self.error("E0503", decl.span, "this is no parser or control"),
        };
        let wants_parser = matches!(role, ir::Role::Parser | ir::Role::EgressParser);
        if is_parser != wants_parser || params.len() != shape.len() {
            let message = format!("`{}` cannot stand here: another signature is wanted", decl.name.text);
            let hint = format!("{role:?} takes {} parameters; see the architecture's include", shape.len());
            return self.error_hint("E0503", decl.name.span, message, hint);
        }
        let env = Scope::new(Some(self.global.clone()));
        self.bind_ctor(block, &env)?;
        self.kind = VarKind::Metadata;
        for (param, what) in params.iter().zip(shape.chars()) {
            let binding = self.top_param(param, what, &env, shared)?;
            env.bind(&param.name.text, binding);
        }
        self.kind = VarKind::Local;
        self.path = block.path.clone();
        self.drop_name = block.path.clone();
        match &decl.kind {
            ast::DeclKind::Parser(p) => self.top_parser(decl, p, &env, role),
            ast::DeclKind::Control(c) => self.top_control(decl, c, &env, role),
            _ => Err(Failed),
        }
    }

    fn top_param(
        &mut self,
        param: &'a ast::Parameter,
        what: char,
        env: &Env<'a>,
        shared: &mut HashMap<char, Store>,
    ) -> Res<Binding<'a>> {
        let ty = self.ty(&param.ty, env)?;
        if what == 'p' {
            return match ty {
                T::PacketIn | T::PacketOut => Ok(Binding::Packet),
                _ => self.error("E0503", param.span, "the packet stands here"),
            };
        }
        if let Some(store) = shared.get(&what) {
            if store.ty() != ty {
                let message =
                    format!("`{}` is of type {ty}, and it was {} before", param.name.text, store.ty());
                return self.error_hint("E0503", param.span, message, "all blocks share one type here");
            }
            return Ok(Binding::Store(store.clone()));
        }
        self.loc = self.at(param.span);
        let store = self.storage(&param.name.text, &ty, param.span)?;
        match what {
            's' => self.standard(&store, param.span)?,
            'm' => self.metadata = Some(store.clone()),
            _ => {}
        }
        shared.insert(what, store.clone());
        Ok(Binding::Store(store))
    }

    fn standard(&mut self, store: &Store, span: Span) -> Res<()> {
        let Store::Struct(ty, fields) = store else {
            return self.error("E0503", span, "the standard metadata stands here");
        };
        let find = |name: &str| match ty.field(name).map(|i| &fields[i]) {
            Some(Store::Scalar(Place::Var(id), _)) => Some(*id),
            _ => None,
        };
        let all = (|| {
            Some(ir::StandardMetadata {
                ingress_port: find("ingress_port")?,
                egress_spec: find("egress_spec")?,
                egress_port: find("egress_port")?,
                instance_type: find("instance_type")?,
                packet_length: find("packet_length")?,
                enq_timestamp: find("enq_timestamp")?,
                enq_qdepth: find("enq_qdepth")?,
                deq_timedelta: find("deq_timedelta")?,
                deq_qdepth: find("deq_qdepth")?,
                ingress_global_timestamp: find("ingress_global_timestamp")?,
                egress_global_timestamp: find("egress_global_timestamp")?,
                mcast_grp: find("mcast_grp")?,
                egress_rid: find("egress_rid")?,
                checksum_error: find("checksum_error")?,
                parser_error: find("parser_error")?,
                priority: find("priority")?,
            })
        })();
        match all {
            Some(standard) => {
                self.out.standard = standard;
                self.standard = Some(store.clone());
                Ok(())
            }
            None => self.error("E0503", span, "this struct is not v1model's standard_metadata_t"),
        }
    }

    fn top_control(
        &mut self,
        decl: &'a ast::Decl,
        control: &'a ast::ControlDecl,
        env: &Env<'a>,
        role: ir::Role,
    ) -> Res<()> {
        let label = self.label();
        self.exit = Exit::Break(label);
        let (body, result) = self.in_block(|l| {
            l.locals(&control.locals, env)?;
            l.apply_body(&control.apply, env)
        });
        self.exit = Exit::Nowhere;
        result?;
        let loc = self.at(decl.name.span);
        let body = vec![Stmt::new(StmtKind::Block { label, body }, loc)];
        self.out.controls.push(ir::Control { name: decl.name.text.clone(), role, loc, body });
        Ok(())
    }
}

fn empty_program(map: &SourceMap) -> Program {
    let sources = map.files().iter().map(|f| ir::Source { name: f.name.clone(), text: f.text.to_string() });
    let name = map.files().first().map_or("", |f| f.name.as_str());
    let name = name.rsplit('/').next().unwrap_or(name);
    let none = VarId(0);
    Program {
        name: name.strip_suffix(".p4").unwrap_or(name).to_string(),
        arch: ir::Arch::V1Model,
        sources: sources.collect(),
        header_types: Vec::new(),
        headers: Vec::new(),
        stacks: Vec::new(),
        vars: Vec::new(),
        standard: ir::StandardMetadata {
            ingress_port: none,
            egress_spec: none,
            egress_port: none,
            instance_type: none,
            packet_length: none,
            enq_timestamp: none,
            enq_qdepth: none,
            deq_timedelta: none,
            deq_qdepth: none,
            ingress_global_timestamp: none,
            egress_global_timestamp: none,
            mcast_grp: none,
            egress_rid: none,
            checksum_error: none,
            parser_error: none,
            priority: none,
        },
        psa: None,
        pna: None,
        errors: Vec::new(),
        parsers: Vec::new(),
        controls: Vec::new(),
        actions: Vec::new(),
        tables: Vec::new(),
        profiles: Vec::new(),
        counters: Vec::new(),
        direct_counters: Vec::new(),
        registers: Vec::new(),
        meters: Vec::new(),
        value_sets: Vec::new(),
        drop_sites: Vec::new(),
        labels: 0,
    }
}
