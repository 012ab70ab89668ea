//! A recursive-descent parser for the whole grammar: from tokens to the syntax tree. It continues after a mistake.
//!
//! In casts and before `<`, P4's grammar depends on whether a name is a type. For these, the parser keeps the names of
//! the types that have been declared. Everywhere else the tokens that follow decide.
//!
//! `decl` parses declarations, `stmt` statements, `types` types and annotations, `expr` expressions.

mod decl;
mod expr;
mod stmt;
mod types;

use std::borrow::Cow;
use std::sync::Arc;

use crate::ast::*;
use crate::diag::{Diagnostic, Diagnostics, did_you_mean};
use crate::lexer::{Token, TokenKind};
use crate::map::Set;
use crate::source::Span;

/// How deeply blocks, types and expressions may be nested. A stack of 2 MiB suffices for much more.
const MAX_NESTING: u32 = 128;
/// How many operators, members and indices one statement may chain, as in `a + b + c …`. The tree of a chain is as deep
/// as the chain is long, and later stages walk it recursively.
const MAX_CHAIN: u32 = 2000;

/// A mistake was reported. The caller continues parsing where it can.
#[derive(Debug)]
pub(crate) struct Failed;

type Parsed<T> = Result<T, Failed>;

/// Parses the tokens from the preprocessor.
pub fn parse(tokens: &[Token], diags: &mut Diagnostics) -> Program {
    if let Some(at) = p4_14(tokens) {
        let d = Diagnostic::error("E0127", at, "this is P4-14, another language: Strait reads P4-16");
        diags.push(d.hint("p4c translates it: `p4test --std p4-14 --pp new.p4 old.p4`"));
        return Program { decls: Vec::new(), expr_count: 0, decl_count: 0 };
    }
    let clean = without_strays(tokens, diags);
    let mut parser = Parser {
        tokens: &clean,
        keywords: KEYWORDS.split_whitespace().collect(),
        at: 0,
        diags,
        exprs: 0,
        decls: 0,
        types: vec![Set::default()],
        depth: 0,
        chained: 0,
        no_gt: false,
        quiet: 0,
        failed_attempts: Set::default(),
        extra: Vec::new(),
    };
    let decls = parser.program();
    Program { decls, expr_count: parser.exprs, decl_count: parser.decls }
}

/// The location of the first declaration that only P4-14 has.
fn p4_14(tokens: &[Token]) -> Option<Span> {
    let word = |i: usize| match tokens.get(i).map(|t| &t.kind) {
        Some(TokenKind::Word(w)) => &**w,
        _ => "",
    };
    let is =
        |i: usize, p: &str| matches!(tokens.get(i).map(|t| &t.kind), Some(TokenKind::Punct(q)) if *q == p);
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate() {
        match &token.kind {
            TokenKind::Punct("{") => depth += 1,
            TokenKind::Punct("}") => depth = depth.saturating_sub(1),
            TokenKind::Word(w) if depth == 0 && !word(i + 1).is_empty() => {
                let block = is(i + 2, "{");
                let only = match &**w {
                    "header_type" | "field_list" | "field_list_calculation" => block,
                    "table" => block && word(i + 3) == "reads",
                    "parser" => block && matches!(word(i + 3), "extract" | "return" | "set_metadata"),
                    "header" | "metadata" => {
                        !word(i + 2).is_empty() && (is(i + 3, ";") || is(i + 3, "[") || is(i + 3, "{"))
                    }
                    _ => false,
                };
                if only {
                    return Some(token.span);
                }
            }
            _ => {}
        }
    }
    None
}

/// Removes characters without a meaning, and reports them. Annotations may contain them in parentheses.
fn without_strays<'a>(tokens: &'a [Token], diags: &mut Diagnostics) -> Cow<'a, [Token]> {
    if !tokens.iter().any(|t| matches!(t.kind, TokenKind::Stray(_))) {
        return Cow::Borrowed(tokens);
    }
    let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut depth = 0;
    // The closing quote of `'a'` is not reported again, nor are the further characters of a sequence.
    let mut reported = None;
    for token in tokens {
        let begins =
            || matches!(kept.len().checked_sub(2).map(|i| &kept[i].kind), Some(TokenKind::Punct("@")));
        match token.kind {
            TokenKind::Punct("(") if depth > 0 || begins() => depth += 1,
            TokenKind::Punct(")") if depth > 0 => depth -= 1,
            TokenKind::Stray(c) if depth == 0 => {
                if reported.is_none_or(|at| kept.len() - at > 1) {
                    diags.push(stray(c, token.span));
                }
                reported = Some(kept.len());
                continue;
            }
            _ => {}
        }
        kept.push(token.clone());
    }
    Cow::Owned(kept)
}

pub(crate) struct Parser<'a> {
    tokens: &'a [Token],
    keywords: Set<&'static str>,
    at: usize,
    diags: &'a mut Diagnostics,
    exprs: u32,
    decls: u32,
    /// The names of types. The innermost scope is the last.
    types: Vec<Set<Arc<str>>>,
    depth: u32,
    /// The number of chained operators of the current statement (see [`MAX_CHAIN`]).
    chained: u32,
    /// Whether the parser is between angle brackets, where `>` is the closing bracket.
    no_gt: bool,
    /// Above zero during an [`Parser::attempt`]: diagnostics are not reported.
    quiet: u32,
    /// The attempts that failed, by token and kind. Without them, nested attempts would take exponential time.
    failed_attempts: Set<(usize, Attempt)>,
    /// Declarations inside of another one (`typedef struct S { … } T;`). They are inserted before it.
    extra: Vec<Decl>,
}

/// The kinds of [`Parser::attempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Attempt {
    Cast,
    TypeArgs,
    TypeName,
    KeysetTuple,
    ForIn,
}

const KEYWORDS: &str = "abstract action bit bool break const continue control default else enum error exit
    extern false for header header_union if in inout int match_kind out package parser return select string
    struct switch table this transition true tuple typedef varbit value_set void";

static END: Token =
    Token { kind: TokenKind::Eof, span: Span { start: 0, end: 0 }, first: true, spaced: true };

impl<'a> Parser<'a> {
    // ---- looking ahead ----

    fn token(&self) -> &'a Token {
        self.ahead(0)
    }

    fn ahead(&self, n: usize) -> &'a Token {
        self.tokens.get(self.at + n).or(self.tokens.last()).unwrap_or(&END)
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the previous token.
    fn before(&self) -> Span {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(self.span(), |t| t.span)
    }

    fn is(&self, punct: &str) -> bool {
        matches!(self.token().kind, TokenKind::Punct(p) if p == punct)
    }

    fn ahead_is(&self, n: usize, punct: &str) -> bool {
        matches!(self.ahead(n).kind, TokenKind::Punct(p) if p == punct)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token().kind, TokenKind::Word(w) if &**w == word)
    }

    /// Whether a token is a word that may be a name, and no keyword.
    fn name_at(&self, n: usize) -> bool {
        matches!(&self.ahead(n).kind, TokenKind::Word(w) if !self.keywords.contains(&**w) && &**w != "_")
    }

    fn at_end(&self) -> bool {
        self.token().kind == TokenKind::Eof
    }

    // ---- consuming tokens ----

    fn bump(&mut self) -> &'a Token {
        let token = self.token();
        if !self.at_end() {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, punct: &'static str) -> Parsed<Span> {
        if self.is(punct) {
            return Ok(self.bump().span);
        }
        // A `;` that is missing at the end of a line is reported, and parsing continues as if it were there.
        let forgotten = punct == ";" && self.token().first && self.at > 0 && self.quiet == 0;
        // A missing token is reported behind the previous one, because the next one may be lines away.
        let found = &self.token().kind;
        let at = if self.token().first || punct == ";" { self.before().after() } else { self.span() };
        let mut d = Diagnostic::error("E0110", at, format!("expected `{punct}`, found {found}"));
        d.hint = self.missing_hint(punct);
        if d.hint.is_none() {
            d = d.label(format!("`{punct}` is missing here"));
        }
        if self.quiet == 0
            && self.at_end()
            && let Some(open) = self.unclosed()
        {
            d = d.also(open, "this is not closed");
        }
        let failed = self.fail(d);
        if forgotten { Ok(self.before().after()) } else { Err(failed) }
    }

    /// The location of the innermost open bracket.
    fn unclosed(&self) -> Option<Span> {
        let mut open: Vec<Span> = Vec::new();
        for token in self.tokens.iter().take(self.at) {
            match token.kind {
                TokenKind::Punct("{" | "(" | "[") => open.push(token.span),
                TokenKind::Punct("}" | ")" | "]") => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }

    fn missing_hint(&self, punct: &str) -> Option<String> {
        let text = match (punct, &self.token().kind) {
            (";", TokenKind::Punct("==")) => "`==` compares; an assignment is written `=`",
            (";", TokenKind::Punct("++")) => "`++` concatenates in P4; write `x = x + 1;`",
            (";", TokenKind::Punct("->")) => "P4 has no pointers; a field is `header.field`",
            (")", TokenKind::Punct("=")) => "a comparison is written `==`",
            ("{", _) => "P4 wants braces here, also around a single statement",
            _ => return None,
        };
        Some(text.to_string())
    }

    fn expect_word(&mut self, word: &'static str) -> Parsed<Span> {
        if self.is_word(word) {
            return Ok(self.bump().span);
        }
        let text = format!("expected `{word}`, found {}", self.token().kind);
        let d = Diagnostic::error("E0110", self.span(), text);
        let near = match &self.token().kind {
            TokenKind::Word(w) => did_you_mean(w, [word]).map(|n| format!("did you mean `{n}`?")),
            _ => None,
        };
        Err(self.fail(Diagnostic { hint: near, ..d }))
    }

    /// Parses a name. `what` describes it in the message.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        let token = self.token();
        match &token.kind {
            TokenKind::Word(w) if self.name_at(0) => {
                let name = Name { text: w.to_string(), span: token.span };
                self.bump();
                Ok(name)
            }
            TokenKind::Word(w) => {
                let message = format!("expected the name of {what}, and `{w}` is a keyword");
                self.wrong("E0111", token.span, message, &format!("call it `{w}_` or otherwise"))
            }
            found => {
                let text = format!("expected the name of {what}, found {found}");
                let d = Diagnostic::error("E0111", token.span, text);
                Err(self.fail(d))
            }
        }
    }

    // ---- numbers, scopes, mistakes ----

    fn expr(&mut self, kind: ExprKind, span: Span) -> Expr {
        self.exprs += 1;
        Expr { id: ExprId(self.exprs - 1), kind, span }
    }

    fn decl_id(&mut self) -> DeclId {
        self.decls += 1;
        DeclId(self.decls - 1)
    }

    fn declare_type(&mut self, name: &Name) {
        if let Some(scope) = self.types.last_mut() {
            scope.insert(Arc::from(name.text.as_str()));
        }
    }

    fn is_type_name(&self, n: usize) -> bool {
        match &self.ahead(n).kind {
            TokenKind::Word(w) => self.types.iter().any(|scope| scope.contains(w)),
            _ => false,
        }
    }

    /// Reports a mistake with a hint.
    fn wrong<T>(&mut self, code: &'static str, at: Span, text: impl Into<String>, hint: &str) -> Parsed<T> {
        Err(self.fail(Diagnostic::error(code, at, text).hint(hint)))
    }

    fn fail(&mut self, diagnostic: Diagnostic) -> Failed {
        if self.quiet == 0 {
            self.diags.push(diagnostic);
        }
        Failed
    }

    /// Runs `f` one nesting level deeper. Too many levels are an error.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_NESTING {
            let d = Diagnostic::error(
                "E0112",
                self.span(),
                format!("this nests deeper than {MAX_NESTING} levels"),
            )
            .hint("split it, with a variable or a function for a part of it");
            let failed = self.fail(d);
            // Parsing ends here: the rest would repeat the error.
            self.at = self.tokens.len().saturating_sub(1);
            return Err(failed);
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Runs `f`. If it fails, no token is consumed and nothing is reported.
    fn attempt<T>(&mut self, kind: Attempt, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        if self.failed_attempts.contains(&(self.at, kind)) {
            return None;
        }
        let (at, exprs, decls) = (self.at, self.exprs, self.decls);
        let (depth, chained, no_gt) = (self.depth, self.chained, self.no_gt);
        self.quiet += 1;
        let result = f(self);
        self.quiet -= 1;
        if result.is_err() {
            (self.at, self.exprs, self.decls) = (at, exprs, decls);
            (self.depth, self.chained, self.no_gt) = (depth, chained, no_gt);
            self.failed_attempts.insert((at, kind));
        }
        result.ok()
    }

    /// Runs `f` between brackets, where `>` is an operator again.
    fn bracketed<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let no_gt = std::mem::take(&mut self.no_gt);
        let result = f(self);
        self.no_gt = no_gt;
        result
    }

    /// Counts an operator, member or index of a chain.
    fn count_chained(&mut self) -> Parsed<()> {
        self.chained += 1;
        if self.chained <= MAX_CHAIN {
            return Ok(());
        }
        let text = format!("this chains more than {MAX_CHAIN} operators");
        self.wrong("E0112", self.span(), text, "split it, with a variable for a part of it")
    }

    /// Parses elements separated by commas, and the closing bracket. A trailing comma is always accepted; the grammar
    /// allows it in some places only.
    fn list<T>(&mut self, close: &'static str, mut f: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        // Elements are siblings in the tree, so their chains do not add up.
        let chained = self.chained;
        let mut most = chained;
        while !self.is(close) {
            self.chained = chained;
            items.push(self.bracketed(&mut f)?);
            most = most.max(self.chained);
            if !self.eat(",") {
                break;
            }
        }
        self.chained = most;
        self.expect(close)?;
        Ok(items)
    }

    // ---- error recovery ----

    /// Skips the rest of a construct that began at token `start`: to behind its `;` or closing brace, or to where
    /// something else begins.
    fn recover(&mut self, start: usize) {
        // Braces that were opened since then are closed first.
        let mut depth = 0_usize;
        for token in self.tokens.get(start..self.at).unwrap_or_default() {
            match token.kind {
                TokenKind::Punct("{") => depth += 1,
                TokenKind::Punct("}") => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        while !self.at_end() {
            let token = self.token();
            match &token.kind {
                TokenKind::Punct("{") => depth += 1,
                TokenKind::Punct("}") if depth == 0 => break,
                TokenKind::Punct("}") => {
                    depth -= 1;
                    if depth == 0 {
                        self.bump();
                        break;
                    }
                }
                TokenKind::Punct(";") if depth == 0 => {
                    self.bump();
                    break;
                }
                TokenKind::Word(w) if token.first && self.at > start && resumes(w, depth) => break,
                _ => {}
            }
            self.bump();
        }
        // At least one token is skipped, so that parsing ends. A `}` closes the enclosing construct and is kept.
        if self.at == start && !self.is("}") {
            self.bump();
        }
    }

    fn program(&mut self) -> Vec<Decl> {
        let mut decls = Vec::new();
        while !self.at_end() {
            let start = self.at;
            if self.eat(";") || self.forward_declaration() {
                continue;
            }
            match self.declaration() {
                Ok(decl) => {
                    decls.append(&mut self.extra);
                    decls.push(decl);
                }
                Err(Failed) => {
                    self.recover(start);
                    // At the top, a `}` closes nothing.
                    self.eat("}");
                }
            }
        }
        decls
    }
}

fn stray(c: char, span: Span) -> Diagnostic {
    let message = format!("the character `{}` has no meaning here", c.escape_debug());
    let d = Diagnostic::error("E0103", span, message);
    match c {
        '\'' | '\u{2018}' | '\u{2019}' => {
            d.hint("P4 has no character literals; strings stand in \"double quotes\"")
        }
        '\u{201c}' | '\u{201d}' => d.hint("use straight double quotes"),
        '\\' => d.hint("a backslash only continues a line, as its last character"),
        _ => d.hint("remove it"),
    }
}

/// Whether a word at the start of a line begins a new construct although `depth` braces of the failed one are open.
fn resumes(word: &str, depth: usize) -> bool {
    match word {
        // These words only occur at the top, so closing braces are missing.
        "header" | "header_union" | "struct" | "parser" | "control" | "extern" | "package" | "typedef" => {
            true
        }
        "table" | "action" | "state" => depth <= 1,
        "enum" | "const" | "apply" | "if" | "switch" | "return" | "exit" | "transition" | "for" => depth == 0,
        _ => false,
    }
}
