//! Tokens to tree: a recursive-descent parser for the whole grammar, which goes on after a mistake.
//!
//! P4's grammar asks in a few places whether a name is a type: in casts, and before `<`. The parser keeps the set of
//! type names declared so far for these; everywhere else the shape of what follows decides.
//!
//! * `decl`: declarations; `stmt`: statements; `types`: types and annotations; `expr`: expressions.

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

/// How deep blocks, types and expressions may nest: far below what the stack of a 2 MiB thread holds.
const DEPTH: u32 = 128;
/// How many operators, members and indexes one statement may chain, as in `a + b + c …`: the tree of a chain is as deep as the
/// chain is long, and later stages walk it recursively.
const LINKS: u32 = 2000;

/// A mistake was reported; the caller finds a place to go on.
#[derive(Debug)]
pub(crate) struct Failed;

type Parsed<T> = Result<T, Failed>;

/// Parses what the preprocessor made.
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
        links: 0,
        no_gt: false,
        quiet: 0,
        refuted: Set::default(),
        extra: Vec::new(),
    };
    let decls = parser.program();
    Program { decls, expr_count: parser.exprs, decl_count: parser.decls }
}

/// The first declaration that only P4-14 has.
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

/// Reports characters that mean nothing and takes them out; only an annotation's free text may contain them.
fn without_strays<'a>(tokens: &'a [Token], diags: &mut Diagnostics) -> Cow<'a, [Token]> {
    if !tokens.iter().any(|t| matches!(t.kind, TokenKind::Stray(_))) {
        return Cow::Borrowed(tokens);
    }
    let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut depth = 0;
    // The closing quote of `'a'` says nothing new, nor does a whole line of strays.
    let mut told = None;
    for token in tokens {
        let begins =
            || matches!(kept.len().checked_sub(2).map(|i| &kept[i].kind), Some(TokenKind::Punct("@")));
        match token.kind {
            TokenKind::Punct("(") if depth > 0 || begins() => depth += 1,
            TokenKind::Punct(")") if depth > 0 => depth -= 1,
            TokenKind::Stray(c) if depth == 0 => {
                if told.is_none_or(|at| kept.len() - at > 1) {
                    diags.push(stray(c, token.span));
                }
                told = Some(kept.len());
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
    /// Names of types, innermost scope last.
    types: Vec<Set<Arc<str>>>,
    depth: u32,
    /// Chained operators of the statement so far; see [`LINKS`].
    links: u32,
    /// Between angle brackets, where `>` closes.
    no_gt: bool,
    /// Above zero while the parser only tries something.
    quiet: u32,
    /// Trials that failed, by place and kind: nested ones would otherwise be repeated exponentially often.
    refuted: Set<(usize, Trial)>,
    /// Declarations that came inside another one (`typedef struct S { … } T;`): they go before it.
    extra: Vec<Decl>,
}

/// What [`Parser::attempt`] tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Trial {
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
    // ---- looking ----

    fn token(&self) -> &'a Token {
        self.ahead(0)
    }

    fn ahead(&self, n: usize) -> &'a Token {
        self.tokens.get(self.at + n).or(self.tokens.last()).unwrap_or(&END)
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the token before.
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

    /// A word that may be a name: no keyword.
    fn name_at(&self, n: usize) -> bool {
        matches!(&self.ahead(n).kind, TokenKind::Word(w) if !self.keywords.contains(&**w) && &**w != "_")
    }

    fn at_end(&self) -> bool {
        self.token().kind == TokenKind::Eof
    }

    // ---- taking ----

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
        // A `;` forgotten at the end of a line is reported, and taken as written: what follows is all right.
        let forgotten = punct == ";" && self.token().first && self.at > 0 && self.quiet == 0;
        // What is missing is missing behind the last token, not before the next one, perhaps lines away.
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

    /// The innermost bracket before here that is still open.
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

    /// A name; `what` says of what, for the message.
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

    // ---- numbering, scopes, failing ----

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

    /// Reports a mistake, and what to do about it.
    fn wrong<T>(&mut self, code: &'static str, at: Span, text: impl Into<String>, hint: &str) -> Parsed<T> {
        Err(self.fail(Diagnostic::error(code, at, text).hint(hint)))
    }

    fn fail(&mut self, diagnostic: Diagnostic) -> Failed {
        if self.quiet == 0 {
            self.diags.push(diagnostic);
        }
        Failed
    }

    /// Runs `f` one level deeper, unless that is too deep.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH {
            let d = Diagnostic::error("E0112", self.span(), format!("this nests deeper than {DEPTH} levels"))
                .hint("split it, with a variable or a function for a part of it");
            let failed = self.fail(d);
            // Nothing good follows: the rest of the input would say the same again and again.
            self.at = self.tokens.len().saturating_sub(1);
            return Err(failed);
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Tries `f`; on failure nothing is taken and nothing reported.
    fn attempt<T>(&mut self, trial: Trial, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        if self.refuted.contains(&(self.at, trial)) {
            return None;
        }
        let (at, exprs, decls) = (self.at, self.exprs, self.decls);
        let (depth, links, no_gt) = (self.depth, self.links, self.no_gt);
        self.quiet += 1;
        let result = f(self);
        self.quiet -= 1;
        if result.is_err() {
            (self.at, self.exprs, self.decls) = (at, exprs, decls);
            (self.depth, self.links, self.no_gt) = (depth, links, no_gt);
            self.refuted.insert((at, trial));
        }
        result.ok()
    }

    /// Inside brackets `>` is an operator again.
    fn bracketed<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let no_gt = std::mem::take(&mut self.no_gt);
        let result = f(self);
        self.no_gt = no_gt;
        result
    }

    /// Counts a link of a chain.
    fn link(&mut self) -> Parsed<()> {
        self.links += 1;
        if self.links <= LINKS {
            return Ok(());
        }
        let text = format!("this chains more than {LINKS} operators");
        self.wrong("E0112", self.span(), text, "split it, with a variable for a part of it")
    }

    /// Elements separated by commas up to a closing bracket, which is taken. A comma before it is allowed where the
    /// grammar has an optional trailing one; it is harmless elsewhere.
    fn list<T>(&mut self, close: &'static str, mut f: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        // Elements stand side by side: the tree is as deep as the deepest of them.
        let links = self.links;
        let mut most = links;
        while !self.is(close) {
            self.links = links;
            items.push(self.bracketed(&mut f)?);
            most = most.max(self.links);
            if !self.eat(",") {
                break;
            }
        }
        self.links = most;
        self.expect(close)?;
        Ok(items)
    }

    // ---- going on after a mistake ----

    /// Leaves what began at token `start`: to behind its `;` or closing brace, or to what encloses it or comes next.
    fn recover(&mut self, start: usize) {
        // Braces that were opened since it began are closed first.
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
        // A token on which nothing begins must not stop the parser for ever; a brace closes what encloses this.
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
                    // Nothing encloses this.
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

/// Whether a word that begins a line begins something new, though `depth` braces of what failed are open.
fn resumes(word: &str, depth: usize) -> bool {
    match word {
        // These stand at the top only: the braces are not closed because one is missing.
        "header" | "header_union" | "struct" | "parser" | "control" | "extern" | "package" | "typedef" => {
            true
        }
        "table" | "action" | "state" => depth <= 1,
        "enum" | "const" | "apply" | "if" | "switch" | "return" | "exit" | "transition" | "for" => depth == 0,
        _ => false,
    }
}
