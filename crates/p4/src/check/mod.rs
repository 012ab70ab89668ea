//! Names, types and rules of a whole program, before anything is instantiated.
//!
//! P4 wants names declared before they are used, so one walk in the order of the text does it: `decl` walks declarations,
//! `scope` keeps names, `tyref` turns types as written into [`Type`]s, `expr` and `coerce` check expressions,
//! `call`, `method` and `object` calls (`place` says where they may stand), `stmt`, `state` and `table` what they stand in. A mistake gives [`Type::Bad`], which agrees
//! with everything: one mistake is told once.

mod arch;
mod call;
mod coerce;
mod decl;
mod expr;
mod fold;
mod infer;
mod known;
mod method;
mod object;
mod place;
mod rules;
mod scope;
mod state;
mod stmt;
mod table;
mod typed;
mod types;
mod tyref;
mod value;

pub use known::Known;
pub use typed::{Arg, Args, Builtin, Call, Callee, Decl, Kind, Res, Typed};
pub use types::{DeclId, Named, Subst, Type};
pub use value::Value;

use crate::map::Map;

use crate::ast::{Expr, Program};
use crate::diag::{Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span};
use infer::Unknowns;

/// How deep expressions, statements and types may nest.
const DEPTH: u32 = 200;

/// Checks a program.
pub fn check<'a>(program: &'a Program, map: &SourceMap) -> (Typed<'a>, Diagnostics) {
    let mut checker = Checker {
        typed: Typed::new(program),
        diags: Diagnostics::default(),
        map,
        scopes: vec![Map::default()],
        later: Map::default(),
        unknowns: Unknowns::default(),
        place: Place::Top,
        ret: None,
        loops: 0,
        depth: 0,
        owner: None,
        this: None,
        may_define: Vec::new(),
        made: Vec::new(),
        parts: Map::default(),
        absent: Vec::new(),
    };
    checker.program();
    checker.settle();
    (checker.typed, checker.diags)
}

/// Where code stands; it decides what may be called (P4-16 appendix "Restrictions on compile time and run time calls").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Top,
    ParserLocals,
    ParserState,
    ControlLocals,
    ControlApply,
    Action,
    Function,
}

impl Place {
    fn in_parser(self) -> bool {
        matches!(self, Place::ParserLocals | Place::ParserState)
    }
}

struct Checker<'a, 'm> {
    typed: Typed<'a>,
    diags: Diagnostics,
    map: &'m SourceMap,
    scopes: Vec<Map<&'a str, Vec<DeclId>>>,
    /// Names that are declared later, at the top or in the enclosing control: for the message only.
    later: Map<&'a str, Span>,
    unknowns: Unknowns,
    place: Place,
    ret: Option<Type>,
    loops: u32,
    depth: u32,
    /// The parser, control, function or action whose body is being walked.
    owner: Option<DeclId>,
    /// The extern type of `this`.
    this: Option<Type>,
    /// Abstract methods that an instance may leave out.
    may_define: Vec<DeclId>,
    /// Calls as they were made, for rules that need the whole program.
    made: Vec<arch::Made>,
    /// How many parts each declared struct, header and union has.
    parts: Map<DeclId, u64>,
    /// Includes that the program lacks, and that it was told of.
    absent: Vec<&'static str>,
}

impl<'a> Checker<'a, '_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diags.push(diagnostic);
    }

    fn error(&mut self, code: &'static str, span: Span, text: impl Into<String>) {
        self.report(Diagnostic::error(code, span, text));
    }

    /// Reports an expression that only run time could tell.
    fn need_known(&mut self, e: &Expr, what: &str) {
        if !self.is_known(e) {
            self.error("E0306", e.span, format!("{what} must be known at compile time"));
        }
    }

    /// Reports a second declaration of a name.
    fn twice(&mut self, at: Span, first: Span, text: String) {
        self.report(Diagnostic::error("E0202", at, text).also(first, "declared here first"));
    }

    /// Names of fields, for a hint.
    fn field_names(&self, ty: &Type) -> String {
        let names: Vec<String> = self.typed.fields(ty).iter().map(|f| f.0.to_string()).collect();
        names.join(", ")
    }

    /// Reports an error and gives the type that absorbs what follows from it.
    fn bad(&mut self, diagnostic: Diagnostic) -> Type {
        self.diags.push(diagnostic);
        Type::Bad
    }

    /// Text of an expression, short enough for a message.
    fn text(&self, e: &Expr) -> String {
        let text = self.map.text(e.span);
        let line = text.lines().next().unwrap_or_default();
        if line.chars().count() > 40 || line.len() < text.len() {
            return format!("{}…", line.chars().take(39).collect::<String>());
        }
        line.to_string()
    }

    /// Runs `f` one level deeper; too deep is an error instead of a stack overflow.
    fn nested<R>(&mut self, span: Span, otherwise: R, f: impl FnOnce(&mut Self) -> R) -> R {
        if self.depth >= DEPTH {
            self.error("E0300", span, "this is nested too deeply");
            return otherwise;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }
}
