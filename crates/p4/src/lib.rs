//! P4-16 text in; IR or diagnostics out.
//!
//! The stages, in the order in which a program flows through them:
//! [`source`] and [`diag`] (files, places, problems), [`lexer`] and [`preproc`] (tokens), [`ast`] (the tree).

pub mod ast;
pub mod diag;
pub mod lexer;
pub mod preproc;
pub mod source;
