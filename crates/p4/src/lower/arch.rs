//! The start of lowering: `main`, and the storage that the architecture shares between its blocks.

use crate::map::Map;
use std::rc::Rc;

use ir::{Place, Program, Role, Stmt, StmtKind, VarId, VarKind};

use super::block::Block;
use super::storage::Store;
use super::{Exit, Lower, Res};
use crate::ast;
use crate::check::{Arg, Call, Callee, Type, Typed};
use crate::source::{SourceMap, Span};

/// Storage that several blocks share, with its type. The key is its letter in the parameter list of a block (see
/// [`super::v1model`]).
pub(super) type Shared = Map<char, (Store, Type)>;

impl<'a> Lower<'_, 'a> {
    /// Lowers the global instances, then the package that `main` instantiates.
    pub(super) fn program(&mut self) -> Res<()> {
        let Some(main) = self.typed.main else {
            let at = self.typed.program.decls.last().map_or(Span::default(), |d| d.span.after());
            return self.limit("E0511", at, "a program without `main` is a library");
        };
        for decl in &self.typed.program.decls {
            if let ast::DeclKind::Instance { .. } = &decl.kind {
                self.instance(decl, "")?;
            }
        }
        let span = self.typed.decl(main).map_or(Span::default(), |d| d.span);
        let Some(call) = self.typed.instance(main) else { return self.bug(span, "`main` is nothing") };
        match crate::api::architecture(self.typed) {
            "v1model" => self.v1model(call, span),
            "psa" => self.psa(call, span),
            "pna" => self.pna(call, span),
            _ => {
                let package = match &call.callee {
                    Callee::Constructor(ty, _) => ty.named().map(|n| n.name.to_string()),
                    _ => None,
                };
                let what = format!("`main` is a `{}`", package.unwrap_or_default());
                self.limit("E0511", span, &what)
            }
        }
    }

    /// The block that is the `at`th argument of a package.
    pub(super) fn package_block(&mut self, call: &Call<'a>, at: usize, span: Span) -> Res<Rc<Block<'a>>> {
        match call.args.get(at) {
            Some((_, Arg::Given(e) | Arg::Default(e))) => self.block_of(e),
            _ => self.limit("E0511", span, "a block of the architecture is left out"),
        }
    }

    pub(super) fn top_level(
        &mut self,
        block: &Rc<Block<'a>>,
        role: Role,
        shape: &str,
        shared: &mut Shared,
    ) -> Res<()> {
        let decl = block.decl;
        self.enter(block);
        let params = self.typed.decl(decl.id).map(|d| d.params.clone()).unwrap_or_default();
        if params.len() != shape.len() {
            let what = format!("`{}` leaves parameters of its architecture out", decl.name.text);
            return self.limit("E0511", decl.name.span, &what);
        }
        self.kind = VarKind::Metadata;
        let bound =
            params.iter().zip(shape.chars()).try_for_each(|(id, what)| self.top_param(*id, what, shared));
        self.kind = VarKind::Local;
        bound?;
        (self.path, self.drop_name, self.role) = (block.path.clone(), block.path.clone(), role);
        self.instance = block.number;
        match &decl.kind {
            ast::DeclKind::Parser(p) => self.top_parser(decl, p, role),
            ast::DeclKind::Control(c) => self.top_control(decl, c, role),
            _ => self.bug(decl.span, "this is no parser or control"),
        }
    }

    /// Binds a parameter of a block to the storage that the letter `what` stands for. The first block that has it
    /// creates the storage.
    fn top_param(&mut self, id: crate::check::DeclId, what: char, shared: &mut Shared) -> Res<()> {
        if what == 'p' {
            return Ok(());
        }
        let (name, ty) = (self.name_of(id), self.decl_ty(id));
        let span = self.typed.decl(id).map_or(Span::default(), |d| d.span);
        if let Some((store, known)) = shared.get(&what) {
            if *known != ty {
                return self.bug(span, "blocks that disagree about a type");
            }
            self.scope.stores.insert(id, store.clone());
            return Ok(());
        }
        self.loc = self.at(span);
        let store = self.storage(&name, &ty, span)?;
        match what {
            's' => self.v1model_metadata(&store, &ty, span)?,
            'm' => self.metadata = Some((store.clone(), ty.clone())),
            _ => {}
        }
        self.scope.stores.insert(id, store.clone());
        shared.insert(what, (store, ty));
        Ok(())
    }

    /// The variable of a field of a struct.
    pub(super) fn field_var(&self, store: &Store, ty: &Type, name: &str) -> Option<VarId> {
        let Store::Struct(parts) = store else { return None };
        let at = self.typed.fields(ty).iter().position(|(n, ..)| **n == *name)?;
        match parts.get(at)? {
            Store::Scalar(Place::Var(var), _) => Some(*var),
            _ => None,
        }
    }

    fn top_control(&mut self, decl: &'a ast::Decl, control: &'a ast::ControlDecl, role: Role) -> Res<()> {
        let label = self.label();
        self.exit = Exit::Break(label);
        let (body, result) = self.in_block(|l| {
            l.make_locals(&control.locals)?;
            l.initialise_locals(&control.locals)?;
            l.body(&control.apply, None)
        });
        self.exit = Exit::Forbidden;
        result?;
        let loc = self.at(decl.name.span);
        let body = vec![Stmt::new(StmtKind::Block { label, body }, loc)];
        self.out.controls.push(ir::Control { name: decl.name.text.clone().into(), role, loc, body });
        Ok(())
    }
}

/// An empty program with the names of its files and errors.
pub(super) fn empty_program(typed: &Typed<'_>, map: &SourceMap) -> Program {
    let sources = map.files().iter().map(|f| ir::Source::new(f.name.clone(), f.text.to_string()));
    let name = map.files().first().map_or("", |f| f.name.as_str());
    let name = name.rsplit('/').next().unwrap_or(name);
    // core.p4's errors have the same numbers in every program, even if the program declares errors of its own before
    // them.
    let declared = typed.errors.iter().filter_map(|e| typed.decl(*e)).map(|d| &*d.name);
    let own = declared.filter(|name| !ir::CORE_ERRORS.contains(name));
    Program {
        name: abi::text::shown(name.strip_suffix(".p4").unwrap_or(name)).into(),
        sources: sources.collect(),
        errors: ir::CORE_ERRORS.into_iter().chain(own).map(ir::Name::from).collect(),
        ..Program::default()
    }
}
