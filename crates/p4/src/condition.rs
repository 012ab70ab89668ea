//! A condition about packets that somebody states while a program runs, in the scope of one of the program's controls.
//!
//! The program is compiled once more, with a control that only evaluates the condition. So names, types, constants and
//! macros are the program's own, and a mistake in the condition is reported at its place like any other.

use std::sync::Arc;

use ir::{VarId, Verified};

use crate::ast::{DeclKind, Program};
use crate::lexer::{Token, TokenKind};
use crate::source::{SourceMap, SourceProvider, Span};
use crate::{Diagnostics, Passes, check, lower_verified, parser, preproc};

/// The name of the file that diagnostics show for the condition.
pub const FILE: &str = "filter";
/// The variable that gets the value of the condition.
const VARIABLE: &str = "strait_condition";
/// The file that includes the program and the condition.
const ROOT: &str = "strait capture";
/// The name by which it includes the program.
const PROGRAM: &str = "program";

/// A program, and a condition in the scope of its control `control`.
pub struct Question<'a> {
    /// The name of the program's file.
    pub name: &'a str,
    /// The text of the program.
    pub text: &'a str,
    /// Macros (`-D`).
    pub defines: &'a [(String, String)],
    /// The name of the control, which need not be unique in its role: it is that of the declaration.
    pub control: &'a str,
    /// An expression of type bool.
    pub condition: &'a str,
}

/// The files of a question. Other includes are the program's.
struct Files<'a>(&'a Question<'a>, &'a dyn SourceProvider);

impl SourceProvider for Files<'_> {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        match name {
            PROGRAM if from == ROOT => Some((self.0.name.to_string(), self.0.text.to_string())),
            FILE if from == ROOT => Some((FILE.to_string(), self.0.condition.to_string())),
            _ => self.1.include(name, from, quoted),
        }
    }
}

/// Compiles the program with the condition instead of what the control applies. The variable has the condition's value when the
/// control ends. Returns `None` if a mistake was reported.
pub fn compile(
    map: &mut SourceMap,
    question: &Question<'_>,
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> Option<(Verified, VarId)> {
    let root = map.add(ROOT, format!("#include \"{PROGRAM}\"\n#include \"{FILE}\"\n"));
    let files = Files(question, provider);
    let tokens = preproc::preprocess(map, root, question.defines, &files, diags);
    // The program and the condition.
    let mine = |at: &usize| map.files()[*at].included_at.is_some_and(|at| map.file_index(at.start) == root);
    let included: Vec<usize> = (root + 1..map.files().len()).filter(mine).collect();
    included.into_iter().for_each(|file| map.forget_include(file));
    let spliced = splice(map, &tokens, question.control, diags)?;
    let program = parser::parse(&spliced, diags);
    if diags.has_errors() {
        return None;
    }
    let (typed, found) = check(&program, map);
    diags.extend(found);
    if diags.has_errors() {
        return None;
    }
    // Passes would remove a variable that nobody reads.
    let verified = lower_verified(&typed, map, &Passes::none(), diags)?;
    let variable = verified.vars.iter().position(|var| var.name.contains(VARIABLE))?;
    Some((verified, VarId(variable as u32)))
}

/// The tokens of the program, with the condition's tokens in the control.
fn splice(map: &SourceMap, tokens: &[Token], control: &str, diags: &mut Diagnostics) -> Option<Vec<Token>> {
    // The condition's file was read last, so that its tokens are the last ones in front of the end.
    let file = map.files().iter().rfind(|file| file.name == FILE)?;
    let whole = Span::new(file.start, file.start + file.text.len() as u32);
    let (end, tokens) = tokens.split_last()?;
    let begin = tokens.iter().position(|token| whole.contains(token.span)).unwrap_or(tokens.len());
    let (program, condition) = tokens.split_at(begin);
    let tree = parser::parse(&[program, std::slice::from_ref(end)].concat(), diags);
    let block = applied(&tree, control)?;
    let inside = |token: &Token| block.contains(token.span);
    let first = program.iter().position(inside)?;
    let last = program.iter().rposition(inside)?;
    let made = |kind| Token { kind, span: whole, first: false, spaced: true };
    let word = |text: &str| made(TokenKind::Word(Arc::from(text)));
    let punct = |text| made(TokenKind::Punct(text));
    let before = [word("bool"), word(VARIABLE), punct("="), punct("(")];
    let after = [punct(")"), punct(";")];
    let end = std::slice::from_ref(end);
    Some([&program[..=first], &before, condition, &after, &program[last..], end].concat())
}

/// The location of the block that a control applies, with its braces.
fn applied(program: &Program, control: &str) -> Option<Span> {
    program.decls.iter().find_map(|decl| match &decl.kind {
        DeclKind::Control(found) if decl.name.text == control => Some(found.apply.span),
        _ => None,
    })
}
