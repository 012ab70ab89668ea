//! P4-16 text in; IR or diagnostics out.
//!
//! The stages, in the order in which a program flows through them:
//! [`source`] and [`diag`] (files, places, problems), [`lexer`] and [`preproc`] (tokens), [`ast`] and
//! [`parser`] (the tree), [`check`](mod@check) (names, types and rules of the whole language),
//! [`api`] (what the control plane sees), [`lower`] (types, instances, IR).
//! [`render`] shows what they have to say.

pub mod api;
pub mod ast;
pub mod check;
pub mod diag;
pub mod explain;
pub mod lexer;
pub mod lint;
pub mod lower;
pub mod parser;
pub mod preproc;
pub mod render;
pub mod source;

/// See [`mod@check`].
pub use check::check;
pub use diag::{Diagnostic, Diagnostics, Severity};
/// See [`mod@lint`].
pub use lint::lint;
pub use source::{Embedded, SourceMap, SourceProvider, Span};

/// Text to tree: preprocessor, then parser. `defines` are macros (`-D`); the file's index in the map is returned, too.
pub fn parse(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> (ast::Program, preproc::Output) {
    let file = map.add(name, text);
    let output = preproc::preprocess(map, file, defines, provider, diags);
    (parser::parse(&output.tokens, diags), output)
}

/// Text to a tree whose names and types are right; `None` where a mistake was reported.
pub fn accept(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> Option<ast::Program> {
    let (program, _) = parse(map, name, text, defines, provider, diags);
    if !diags.has_errors() {
        diags.extend(check(&program, map).1);
    }
    (!diags.has_errors()).then_some(program)
}

/// Text to verified IR; `None` where a mistake was reported.
pub fn compile(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> Option<ir::Verified> {
    let program = accept(map, name, text, defines, provider, diags)?;
    lower_verified(&program, map, diags)
}

/// A tree that was accepted to verified IR; `None` where it is beyond this release. A program that lowers to malformed IR is a
/// bug of this crate and reported as one.
pub fn lower_verified(
    program: &ast::Program,
    map: &SourceMap,
    diags: &mut Diagnostics,
) -> Option<ir::Verified> {
    match ir::verify(lower::lower(program, map, diags)?) {
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
