//! P4-16 text in; IR or diagnostics out.
//!
//! The stages, in the order in which a program flows through them:
//! [`source`] and [`diag`] (files, places, problems), [`lexer`] and [`preproc`] (tokens), [`ast`] and
//! [`parser`] (the tree), [`check`](mod@check) (names, types and rules of the whole language),
//! [`api`] (what the control plane sees), [`lower`] (types, instances, IR).
//! [`render`] shows what they have to say.
#![forbid(unsafe_code)]

pub mod api;
pub mod ast;
pub mod check;
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

/// Text to tree: preprocessor, then parser. `defines` are macros (`-D`).
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

/// Text to what a check found out, which `then` is given; `None` where a mistake was reported. Everything begins here: text,
/// tokens, tree, [`Typed`](check::Typed).
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

/// Text to verified IR; `None` where a mistake or a limit was reported.
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

/// An accepted program to verified IR: lowered literally, verified, and made cheaper by `passes`. `None` where it is beyond this
/// release. A program that becomes malformed IR is a bug of this crate or of a pass, and reported as one.
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
