//! P4-16 text in; IR or diagnostics out.
//!
//! The stages, in the order in which a program flows through them:
//! [`source`] and [`diag`] (files, places, problems), [`lexer`] and [`preproc`] (tokens), [`ast`] (the tree) and
//! [`parser`].

pub mod ast;
pub mod diag;
pub mod lexer;
pub mod parser;
pub mod preproc;
pub mod source;

pub use diag::{Diagnostic, Diagnostics, Severity};
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
