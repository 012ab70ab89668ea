//! The checker resolves names, checks types and applies the language's rules to a whole program, before anything is
//! instantiated.
//!
//! P4 requires that names are declared before they are used, so one walk in the order of the source is enough. `decl`
//! walks the declarations, `scope` resolves names, `tyref` resolves types to [`Type`]s, `expr` and `coerce` check
//! expressions, `call`, `method` and `object` check calls, `place` checks where calls are allowed, and `stmt`, `state`
//! and `table` check statements, parser states and tables. An expression with a mistake has the type [`Type::Bad`],
//! which is compatible with every type: so each mistake is reported once.

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

/// How deeply expressions, statements and types may be nested.
const MAX_NESTING: u32 = 200;

/// Checks a program. Returns what it found out, and the diagnostics.
pub fn check<'a>(program: &'a Program, map: &SourceMap) -> (Typed<'a>, Diagnostics) {
    let mut checker = Checker {
        typed: Typed::new(program),
        diags: Diagnostics::default(),
        map,
        scopes: vec![Map::default()],
        declared_later: Map::default(),
        unknowns: Unknowns::default(),
        place: Place::Top,
        ret: None,
        loops: 0,
        depth: 0,
        owner: None,
        this: None,
        optional_methods: Vec::new(),
        call_sites: Vec::new(),
        parts: Map::default(),
        missing_includes: Vec::new(),
    };
    checker.program();
    checker.resolve_unknowns();
    (checker.typed, checker.diags)
}

/// Where an expression or declaration is in the program. It decides which calls and instantiations are allowed (P4-16
/// appendix "Restrictions on compile time and run time calls").
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
    /// Names that are declared later, at the top or in the enclosing control. Only diagnostics use them.
    declared_later: Map<&'a str, Span>,
    unknowns: Unknowns,
    place: Place,
    ret: Option<Type>,
    loops: u32,
    depth: u32,
    /// The parser, control, function or action whose body is being walked.
    owner: Option<DeclId>,
    /// The extern type of `this`, in abstract methods.
    this: Option<Type>,
    /// Abstract methods that an instance need not define.
    optional_methods: Vec<DeclId>,
    /// All calls, for rules that need the whole program.
    call_sites: Vec<arch::CallSite>,
    /// The number of parts of each declared struct, header and union (see `tyref`).
    parts: Map<DeclId, u64>,
    /// Includes that the program lacks, and that a diagnostic was reported for.
    missing_includes: Vec<&'static str>,
}

impl<'a> Checker<'a, '_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diags.push(diagnostic);
    }

    fn error(&mut self, code: &'static str, span: Span, text: impl Into<String>) {
        self.report(Diagnostic::error(code, span, text));
    }

    /// Reports an expression that is not compile-time known.
    fn need_known(&mut self, e: &Expr, what: &str) {
        if !self.is_known(e) {
            self.error("E0306", e.span, format!("{what} must be known at compile time"));
        }
    }

    /// Reports the second declaration of a name.
    fn declared_twice(&mut self, at: Span, first: Span, text: String) {
        self.report(Diagnostic::error("E0202", at, text).also(first, "declared here first"));
    }

    /// The names of a type's fields, for a hint.
    fn field_names(&self, ty: &Type) -> String {
        let names: Vec<String> = self.typed.fields(ty).iter().map(|f| f.0.to_string()).collect();
        names.join(", ")
    }

    /// Reports an error. Returns the type that suppresses further errors.
    fn bad(&mut self, diagnostic: Diagnostic) -> Type {
        self.diags.push(diagnostic);
        Type::Bad
    }

    /// The source text of an expression, shortened for a message.
    fn text(&self, e: &Expr) -> String {
        let text = self.map.text(e.span);
        let line = text.lines().next().unwrap_or_default();
        if line.chars().count() > 40 || line.len() < text.len() {
            return format!("{}…", line.chars().take(39).collect::<String>());
        }
        line.to_string()
    }

    /// Runs `f` one nesting level deeper. Too many levels are an error, and no stack overflow.
    fn nested<R>(&mut self, span: Span, otherwise: R, f: impl FnOnce(&mut Self) -> R) -> R {
        if self.depth >= MAX_NESTING {
            self.error("E0300", span, "this is nested too deeply");
            return otherwise;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }
}
