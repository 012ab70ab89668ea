//! The preprocessor: includes, macros (`expand`) and conditionals (`condition`). It works on tokens, so that each keeps
//! its location.
//!
//! A token that a macro produced has the span of the macro's use. [`SourceMap::expansion`] finds the macro of a span,
//! so that a diagnostic can show the definition, too.

mod condition;
mod expand;

use crate::map::Map;
use std::sync::Arc;

use crate::diag::{Diagnostic, Diagnostics, did_you_mean};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::source::{SourceMap, SourceProvider, Span};
use expand::{Macro, Params};

/// How deeply includes and expansions may be nested.
const MAX_NESTING: usize = 64;
/// The most tokens that macros may produce in a run. Only a macro that explodes produces more.
const MAX_EXPANDED: usize = 1_000_000;
/// The most tokens of a program: a hundred times the number of the largest known program.
const MAX_TOKENS: usize = 4_000_000;

/// The names of the architectures of Tofino's compiler.
const TOFINO: [&str; 7] =
    ["tna.p4", "t2na.p4", "t3na.p4", "tofino.p4", "tofino2.p4", "tofino1arch.p4", "tofino2arch.p4"];

/// An open `#if`.
struct Conditional {
    span: Span,
    /// Whether this branch is compiled.
    active: bool,
    /// Whether a branch has been compiled already.
    taken: bool,
    seen_else: bool,
}

/// A file that is being read.
struct File {
    name: String,
    lexer: Lexer,
    /// The open conditionals. The innermost is the last.
    open: Vec<Conditional>,
    /// The number of includes around it.
    depth: usize,
}

impl File {
    fn is_active(&self) -> bool {
        self.open.last().is_none_or(|c| c.active)
    }
}

/// Runs the preprocessor on a file of the source map. The last token is the end of the file.
pub fn preprocess(
    map: &mut SourceMap,
    file: usize,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> Vec<Token> {
    let mut p = Preproc {
        map,
        provider,
        diags,
        macros: Map::default(),
        out: Vec::new(),
        once: Vec::new(),
        pending: Vec::new(),
        nesting: 0,
        made: 0,
    };
    p.predefine("__STRAIT__", "1");
    for (name, value) in defines {
        p.predefine(name, value);
    }
    p.file(file, 0);
    let end = p.map.files().get(file).map_or(0, |f| f.start + f.text.len() as u32);
    let span = Span::new(end, end);
    p.out.push(Token { kind: TokenKind::Eof, span, first: true, spaced: true });
    p.out
}

struct Preproc<'a> {
    map: &'a mut SourceMap,
    provider: &'a dyn SourceProvider,
    diags: &'a mut Diagnostics,
    macros: Map<Arc<str>, Macro>,
    out: Vec<Token>,
    once: Vec<String>,
    /// The tokens in which macros are not expanded yet. Conditionals do not end it, because a use of a macro may
    /// contain them.
    pending: Vec<Token>,
    /// How many calls of [`Preproc::expand`] are active.
    nesting: usize,
    /// How many tokens macros have produced.
    made: usize,
}

impl Preproc<'_> {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, hint: &str) {
        let d = Diagnostic::error(code, span, message);
        self.diags.push(if hint.is_empty() { d } else { d.hint(hint) });
    }

    fn predefine(&mut self, name: &str, value: &str) {
        let body = lex_text(value, Span::default(), self.diags);
        self.macros.insert(Arc::from(name), Macro { params: None, body, defined: None });
    }

    fn file(&mut self, index: usize, depth: usize) {
        let file = &self.map.files()[index];
        let (name, lexer) = (file.name.clone(), Lexer::new(file.text.clone(), file.start));
        let mut file = File { name, lexer, open: Vec::new(), depth };
        loop {
            let token = file.lexer.next(self.diags);
            if token.kind == TokenKind::Eof {
                break;
            }
            if token.first && matches!(token.kind, TokenKind::Punct("#" | "##")) {
                self.hash_line(&mut file, token);
                // A conditional in an inactive branch is inactive, so only the innermost must be tested.
                while !file.is_active() && file.lexer.skip_to_directive() {
                    let hash = file.lexer.next(self.diags);
                    self.hash_line(&mut file, hash);
                }
                continue;
            }
            if self.out.len() + self.pending.len() >= MAX_TOKENS {
                let text = format!("the program has more than {MAX_TOKENS} tokens");
                self.error("E0009", token.span, text, "");
                break;
            }
            let token = self.directives_in_string(token, &file);
            self.pending.push(token);
        }
        self.flush();
        self.all_closed(file.open);
    }

    fn all_closed(&mut self, open: Vec<Conditional>) {
        for c in open {
            self.error("E0003", c.span, "an `#if` without its `#endif`", "close it with `#endif`");
        }
    }

    /// Expands the macros in the pending tokens.
    fn flush(&mut self) {
        let tokens = std::mem::take(&mut self.pending);
        let expanded = self.expand(tokens, true);
        self.out.extend(expanded);
    }

    /// Processes the directives in a string of several lines, as C's preprocessor does for p4c. SONiC's models choose
    /// lines of their `@entry_restriction` so. Each directive becomes an empty line.
    fn directives_in_string(&mut self, token: Token, file: &File) -> Token {
        let TokenKind::String(text) = &token.kind else { return token };
        let has_directive = |line: &str| line.trim_start_matches([' ', '\t']).starts_with('#');
        if !text.lines().skip(1).any(has_directive) {
            return token;
        }
        let lexer = Lexer::new(text.clone(), token.span.start + 1);
        let mut inner = File { name: file.name.clone(), lexer, open: Vec::new(), depth: file.depth };
        let mut kept = inner.lexer.line();
        while !inner.lexer.at_end() {
            match inner.lexer.directive_word() {
                Some("if" | "ifdef" | "ifndef" | "elif" | "elifdef" | "elifndef" | "else" | "endif") => {
                    let hash = inner.lexer.next(self.diags);
                    self.directive(&mut inner, hash.span);
                    kept += &inner.lexer.line();
                }
                _ => {
                    let line = inner.lexer.line();
                    kept += if inner.is_active() { &line } else { "\n" };
                }
            }
        }
        self.all_closed(inner.open);
        Token { kind: TokenKind::String(Arc::from(kept)), ..token }
    }

    /// Processes a line that begins with `#`.
    fn hash_line(&mut self, file: &mut File, hash: Token) {
        if hash.kind == TokenKind::Punct("#") {
            self.directive(file, hash.span);
        } else {
            let (_, rest) = file.lexer.rest_of_line();
            if file.is_active() {
                self.no_directive("", hash.span.to(rest));
            }
        }
        file.lexer.at_line_start();
    }

    fn directive(&mut self, file: &mut File, hash: Span) {
        let (text, rest) = file.lexer.rest_of_line();
        let span = hash.to(rest);
        let word_len = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (word, arg) = (&text[..word_len], text[word_len..].trim());
        let active = file.is_active();
        match word {
            "if" | "ifdef" | "ifndef" => {
                let holds = active && self.condition(word, arg, span);
                // In a branch that is not compiled, no branch of this conditional is.
                file.open.push(Conditional {
                    span,
                    active: holds,
                    taken: holds || !active,
                    seen_else: false,
                });
            }
            "elif" | "elifdef" | "elifndef" | "else" | "endif" => {
                self.branch(word, arg, span, &mut file.open)
            }
            _ if !active => {}
            "include" => {
                self.flush();
                self.include(arg, span, &file.name, file.depth);
            }
            "define" => {
                self.flush();
                self.define(arg, rest);
            }
            "undef" => {
                self.flush();
                self.macros.remove(first_word(arg));
            }
            "error" => self.error("E0005", span, format!("#error {arg}"), ""),
            "warning" => self.diags.push(Diagnostic::warning("W0001", span, format!("#warning {arg}"))),
            "pragma" if arg == "once" => self.once.push(file.name.clone()),
            // Line markers of another preprocessor and pragmas of other compilers are ignored.
            "line" | "pragma" | "" => {}
            _ if word.chars().all(|c| c.is_ascii_digit()) => {}
            _ => self.no_directive(word, span),
        }
    }

    /// Reports a line that begins with `#` and is no directive: a warning, because p4c ignores such a line, or an error
    /// if a directive is misspelt.
    fn no_directive(&mut self, word: &str, span: Span) {
        let known = "include define undef if ifdef ifndef elif else endif error warning".split(' ');
        let attached = self.map.text(span).starts_with(&format!("#{word}"));
        match did_you_mean(word, known).filter(|_| attached) {
            Some(near) => {
                let hint = format!("did you mean `#{near}`?");
                self.error("E0006", span, format!("unknown directive `#{word}`"), &hint);
            }
            None => {
                let d = Diagnostic::warning("W0002", span, "this line is no directive, and is passed over");
                self.diags.push(d.hint("a comment begins with `//`"));
            }
        }
    }

    fn branch(&mut self, word: &str, arg: &str, span: Span, open: &mut Vec<Conditional>) {
        let outer = open.len() < 2 || open[open.len() - 2].active;
        let Some(top) = open.last_mut() else {
            self.error("E0003", span, format!("`#{word}` without an `#if`"), "");
            return;
        };
        let (taken, seen_else) = (top.taken, top.seen_else);
        if word == "endif" {
            open.pop();
            return;
        }
        if seen_else {
            self.error("E0003", span, format!("`#{word}` after `#else`"), "");
            return;
        }
        let test = word.strip_prefix("el").unwrap_or(word);
        let holds = outer && !taken && (word == "else" || self.condition(test, arg, span));
        if let Some(top) = open.last_mut() {
            top.active = holds;
            top.taken |= holds;
            top.seen_else = word == "else";
        }
    }

    fn condition(&mut self, word: &str, arg: &str, span: Span) -> bool {
        match word {
            "ifdef" => self.macros.contains_key(first_word(arg)),
            "ifndef" => !self.macros.contains_key(first_word(arg)),
            _ => {
                let tokens = lex_text(arg, span, self.diags);
                let tokens = self.replace_defined(tokens);
                let tokens = self.expand(tokens, false);
                match condition::evaluate(&tokens) {
                    Some(value) => value != 0,
                    None => {
                        let text = "this condition is not an integer expression";
                        self.error("E0004", span, text, "as in C: `#if X > 1`");
                        false
                    }
                }
            }
        }
    }

    /// Replaces `defined(X)` and `defined X` by 0 or 1, before macros are expanded.
    fn replace_defined(&self, tokens: Vec<Token>) -> Vec<Token> {
        let mut out = Vec::new();
        let mut rest = tokens.into_iter().peekable();
        while let Some(mut token) = rest.next() {
            if is_word(&token, "defined") {
                let paren = rest.next_if(|t| t.kind == TokenKind::Punct("(")).is_some();
                let known = match rest.next().map(|t| t.kind) {
                    Some(TokenKind::Word(name)) => self.macros.contains_key(&name),
                    _ => false,
                };
                if paren {
                    rest.next_if(|t| t.kind == TokenKind::Punct(")"));
                }
                token.kind = TokenKind::Number(Arc::from(if known { "1" } else { "0" }));
            }
            out.push(token);
        }
        out
    }

    fn include(&mut self, arg: &str, span: Span, from: &str, depth: usize) {
        // The name may be the result of a macro: `#include ARCH`.
        let expanded = match arg.starts_with(['"', '<']) {
            true => arg.to_string(),
            false => {
                let tokens = lex_text(arg, span, self.diags);
                self.expand(tokens, false).iter().map(|t| t.kind.text()).collect()
            }
        };
        let arg = expanded.as_str();
        let quoted = arg.starts_with('"');
        let inner = arg.strip_prefix('"').and_then(|a| a.split_once('"'));
        let Some((name, _)) = inner.or_else(|| arg.strip_prefix('<').and_then(|a| a.split_once('>'))) else {
            let text = "this is not an include";
            self.error("E0001", span, text, "write `#include <core.p4>` or `#include \"file.p4\"`");
            return;
        };
        if depth >= MAX_NESTING {
            let text = format!("includes nest deeper than {MAX_NESTING}");
            self.error("E0002", span, text, "does a file include itself?");
            return;
        }
        match self.provider.include(name, from, quoted) {
            Some((found, _)) if self.once.contains(&found) => {}
            Some((found, text)) => {
                let index = self.map.add_included(found, text, span);
                self.file(index, depth + 1);
            }
            None => {
                let tofino = name.rsplit('/').next().is_some_and(|n| TOFINO.contains(&n));
                let near = did_you_mean(name, ["core.p4", "v1model.p4", "psa.p4", "pna.p4"]);
                let hint = match near {
                    _ if tofino => "this is the architecture of Tofino, which comes with its own compiler: `-I DIR` finds it for \
                                    `strait check`; what runs here is written for v1model, psa or pna"
                        .to_string(),
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "give its directory with `-I DIR`".to_string(),
                };
                self.error("E0001", span, format!("the include `{name}` is not found"), &hint);
            }
        }
    }

    fn define(&mut self, arg: &str, span: Span) {
        let len = arg.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(arg.len());
        let (name, rest) = arg.split_at(len);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.error("E0007", span, "`#define` without a name", "write `#define NAME value`");
            return;
        }
        let (params, text) = match rest.strip_prefix('(') {
            Some(list) => match list.split_once(')') {
                Some((list, body)) => (Some(Params::parse(list)), body),
                None => {
                    self.error("E0007", span, "the parameter list of this macro has no `)`", "");
                    return;
                }
            },
            None => (None, rest),
        };
        let body = lex_text(text, span, self.diags);
        self.macros.insert(Arc::from(name), Macro { params, body, defined: Some(span) });
    }
}

/// The tokens of a text that is not in a file. All have the location `span`.
fn lex_text(text: &str, span: Span, diags: &mut Diagnostics) -> Vec<Token> {
    let mut lexer = Lexer::new(Arc::from(text), 0);
    let mut scratch = Diagnostics::default();
    let mut out = Vec::new();
    loop {
        let token = lexer.next(&mut scratch);
        if token.kind == TokenKind::Eof {
            break;
        }
        out.push(Token { span, first: false, ..token });
    }
    for mut problem in scratch.list().iter().cloned() {
        problem.primary.span = span;
        diags.push(problem);
    }
    out
}

/// The name in an `#ifdef` or `#undef`. The rest of the line is ignored, as in C.
fn first_word(arg: &str) -> &str {
    arg.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default()
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(&token.kind, TokenKind::Word(w) if &**w == word)
}
