//! The P4-16 front end: from the text of a program to verified IR, or to diagnostics.
//!
//! A program passes these stages in this order: [`preproc`] and [`lexer`] make tokens, [`parser`] makes the syntax tree
//! ([`ast`]), [`check`](mod@check) resolves names and types and checks the rules of the language, [`lower`] translates
//! to the IR. From a checked program, [`api`] derives the control plane's view and [`mod@lint`] the warnings. All
//! stages report diagnostics ([`diag`]) at locations in [`source`] files; [`render`] formats them. [`condition`] compiles a
//! condition about packets in the scope of a program.
#![forbid(unsafe_code)]

pub mod api;
pub mod ast;
pub mod check;
pub mod condition;
pub mod diag;
pub mod explain;
pub mod lexer;
pub mod limits;
pub mod lint;
pub mod lower;
pub mod map;
pub mod parser;
pub mod preproc;
pub mod render;
pub mod source;

/// See [`mod@check`].
pub use check::check;
pub use ir::pass::Passes;

pub use diag::{Diagnostic, Diagnostics, Severity};
/// See [`mod@lint`].
pub use lint::lint;
pub use source::{Embedded, SourceMap, SourceProvider, Span};

/// Preprocesses and parses a program. `defines` are macros (`-D`).
pub fn parse(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> ast::Program {
    let file = map.add(name, text);
    let tokens = preproc::preprocess(map, file, defines, provider, diags);
    parser::parse(&tokens, diags)
}

/// Preprocesses, parses and checks a program, and passes the result ([`Typed`](check::Typed)) to `then`. Returns `None`
/// if a mistake was reported. All commands that read a program start here.
pub fn accept<R>(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
    then: impl FnOnce(&check::Typed<'_>, &SourceMap, &mut Diagnostics) -> R,
) -> Option<R> {
    let program = parse(map, name, text, defines, provider, diags);
    if diags.has_errors() {
        return None;
    }
    let (typed, found) = check(&program, map);
    diags.extend(found);
    (!diags.has_errors()).then(|| then(&typed, map, diags))
}

/// Compiles a program to verified IR. Returns `None` if a mistake or a limit was reported.
pub fn compile(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> Option<ir::Verified> {
    let lower = |typed: &check::Typed<'_>, map: &SourceMap, diags: &mut Diagnostics| {
        lower_verified(typed, map, &Passes::default(), diags)
    };
    accept(map, name, text, defines, provider, diags, lower).flatten()
}

/// Lowers an accepted program, verifies the IR, and runs the passes `passes` over it. Returns `None` if a limit of this
/// release was reported. IR that the verifier rejects is a bug of this crate or of a pass, and reported as one.
pub fn lower_verified(
    typed: &check::Typed<'_>,
    map: &SourceMap,
    passes: &Passes,
    diags: &mut Diagnostics,
) -> Option<ir::Verified> {
    let literal = lower::lower(typed, map, diags)?;
    match ir::verify(literal).and_then(|literal| passes.run(literal)) {
        Ok(verified) => Some(verified),
        Err(faults) => {
            for fault in faults {
                let message = format!("this is a bug of Strait, not of the program: {fault}");
                diags.push(Diagnostic::error("E0599", Span::default(), message));
            }
            None
        }
    }
}
