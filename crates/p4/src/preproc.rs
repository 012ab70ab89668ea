//! The preprocessor: includes, macros and conditionals, on tokens, so that every place stays known.
//!
//! What a macro produced has the span of its use; [`SourceMap::expansion`] tells which macro that was, so that a diagnostic
//! can name both places.

use std::collections::HashMap;
use std::sync::Arc;

use crate::diag::{Diagnostic, Diagnostics, did_you_mean};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::source::{Expansion, SourceMap, SourceProvider, Span};

/// How deep includes and expansions may nest.
const DEPTH: usize = 64;
/// How many tokens macros may make in a run: more come from one that explodes.
const MOST_MADE: usize = 1_000_000;
/// Tokens beyond which a program is no program: a hundred times the largest that we know.
const MOST_TOKENS: usize = 4_000_000;

/// What the preprocessor hands to the parser.
#[derive(Debug, Default)]
pub struct Output {
    /// All tokens, the last one is the end.
    pub tokens: Vec<Token>,
}

#[derive(Clone, Debug)]
struct Macro {
    params: Option<Vec<Arc<str>>>,
    body: Vec<Token>,
    defined: Option<Span>,
}

/// One `#if` that is open.
struct Conditional {
    span: Span,
    /// This branch is read.
    active: bool,
    /// Some branch was read already.
    taken: bool,
    seen_else: bool,
}

/// Runs the preprocessor over a file that stands in the map already.
pub fn preprocess(
    map: &mut SourceMap,
    file: usize,
    defines: &[(String, String)],
    provider: &dyn SourceProvider,
    diags: &mut Diagnostics,
) -> Output {
    let mut p = Preproc {
        map,
        provider,
        diags,
        macros: HashMap::new(),
        out: Output::default(),
        once: Vec::new(),
        nesting: 0,
        made: 0,
    };
    for (name, value) in defines {
        p.predefine(name, value);
    }
    p.file(file, 0);
    let end = p.map.files().get(file).map_or(0, |f| f.start + f.text.len() as u32);
    let span = Span::new(end, end);
    p.out.tokens.push(Token { kind: TokenKind::Eof, span, first: true, spaced: true });
    p.out
}

struct Preproc<'a> {
    map: &'a mut SourceMap,
    provider: &'a dyn SourceProvider,
    diags: &'a mut Diagnostics,
    macros: HashMap<Arc<str>, Macro>,
    out: Output,
    once: Vec<String>,
    /// How deep [`Preproc::expand`] is in itself.
    nesting: usize,
    /// How many tokens macros made.
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
        let (name, mut lexer) = (file.name.clone(), Lexer::new(file.text.clone(), file.start));
        let mut open: Vec<Conditional> = Vec::new();
        let mut line: Vec<Token> = Vec::new();
        loop {
            let token = lexer.next(self.diags);
            if token.kind == TokenKind::Eof {
                break;
            }
            if token.first && token.kind == TokenKind::Punct("#") {
                self.flush(&mut line);
                self.directive(&mut lexer, token.span, &name, &mut open, depth);
                lexer.at_line_start();
                // An inner condition is never active in one that is not: the innermost says it for all.
                while open.last().is_some_and(|c| !c.active) {
                    if !lexer.skip_to_directive() {
                        break;
                    }
                    let hash = lexer.next(self.diags);
                    self.directive(&mut lexer, hash.span, &name, &mut open, depth);
                    lexer.at_line_start();
                }
            } else {
                if self.out.tokens.len() + line.len() >= MOST_TOKENS {
                    self.error(
                        "E0009",
                        token.span,
                        format!("the program has more than {MOST_TOKENS} tokens"),
                        "",
                    );
                    break;
                }
                line.push(token);
            }
        }
        self.flush(&mut line);
        for c in open {
            self.error("E0003", c.span, "an `#if` without its `#endif`", "close it with `#endif`");
        }
    }

    /// Expands the macros in what has been read since the last directive.
    fn flush(&mut self, line: &mut Vec<Token>) {
        let tokens = std::mem::take(line);
        let expanded = self.expand(tokens, &mut Vec::new(), true);
        self.out.tokens.extend(expanded);
    }

    fn directive(
        &mut self,
        lexer: &mut Lexer,
        hash: Span,
        name: &str,
        open: &mut Vec<Conditional>,
        depth: usize,
    ) {
        let (text, rest) = lexer.rest_of_line();
        let span = hash.to(rest);
        let word_len = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (word, arg) = (&text[..word_len], text[word_len..].trim());
        let active = open.last().is_none_or(|c| c.active);
        match word {
            "if" | "ifdef" | "ifndef" => {
                let holds = active && self.condition(word, arg, span);
                // Inside a branch that is left out, no branch of this one is read.
                open.push(Conditional { span, active: holds, taken: holds || !active, seen_else: false });
            }
            "elif" | "else" | "endif" => self.branch(word, arg, span, open),
            _ if !active => {}
            "include" => self.include(arg, span, name, depth),
            "define" => self.define(arg, rest),
            "undef" => {
                self.macros.remove(arg);
            }
            "error" => self.error("E0005", span, format!("#error {arg}"), ""),
            "warning" => self.diags.push(Diagnostic::warning("W0001", span, format!("#warning {arg}"))),
            "pragma" if arg == "once" => self.once.push(name.to_string()),
            // A line marker of another preprocessor says what we know better; pragmas are other compilers'.
            "line" | "pragma" | "" => {}
            _ if word.chars().all(|c| c.is_ascii_digit()) => {}
            _ => {
                let known =
                    ["include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error"];
                let near =
                    did_you_mean(word, known).map(|n| format!("did you mean `#{n}`?")).unwrap_or_default();
                self.error("E0006", span, format!("unknown directive `#{word}`"), &near);
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
        let holds = outer && !taken && (word == "else" || self.condition("if", arg, span));
        if let Some(top) = open.last_mut() {
            top.active = holds;
            top.taken |= holds;
            top.seen_else = word == "else";
        }
    }

    fn condition(&mut self, word: &str, arg: &str, span: Span) -> bool {
        match word {
            "ifdef" => self.macros.contains_key(arg),
            "ifndef" => !self.macros.contains_key(arg),
            _ => {
                let tokens = lex_text(arg, span, self.diags);
                let tokens = self.replace_defined(tokens);
                let tokens = self.expand(tokens, &mut Vec::new(), false);
                let mut parser = Condition { tokens: &tokens, at: 0, depth: 0 };
                match parser.ternary() {
                    Some(value) if parser.at == tokens.len() => value != 0,
                    _ => {
                        self.error(
                            "E0004",
                            span,
                            "this condition is not an integer expression",
                            "as in C: `#if X > 1`",
                        );
                        false
                    }
                }
            }
        }
    }

    /// `defined(X)` and `defined X` become 0 or 1 before macros are expanded.
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
        // The name may come from a macro: `#include ARCH`.
        let expanded = match arg.starts_with(['"', '<']) {
            true => arg.to_string(),
            false => {
                let tokens = lex_text(arg, span, self.diags);
                self.expand(tokens, &mut Vec::new(), false).iter().map(|t| t.kind.text()).collect()
            }
        };
        let arg = expanded.as_str();
        let quoted = arg.starts_with('"');
        let inner = arg.strip_prefix('"').and_then(|a| a.split_once('"'));
        let Some((name, _)) = inner.or_else(|| arg.strip_prefix('<').and_then(|a| a.split_once('>'))) else {
            self.error(
                "E0001",
                span,
                "this is not an include",
                "write `#include <core.p4>` or `#include \"file.p4\"`",
            );
            return;
        };
        if depth >= DEPTH {
            self.error(
                "E0002",
                span,
                format!("includes nest deeper than {DEPTH}"),
                "does a file include itself?",
            );
            return;
        }
        match self.provider.include(name, from, quoted) {
            Some((found, _)) if self.once.contains(&found) => {}
            Some((found, text)) => {
                let index = self.map.add_included(found, text, span);
                self.file(index, depth + 1);
            }
            None => {
                let near = did_you_mean(name, ["core.p4", "v1model.p4", "psa.p4", "pna.p4"]);
                let hint = match near {
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
                Some((list, body)) => {
                    let names = list.split(',').map(str::trim).filter(|p| !p.is_empty());
                    (Some(names.map(Arc::from).collect()), body)
                }
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

    /// Replaces macros by their bodies. `active` names the macros whose expansion this is: they are not expanded again.
    fn expand(&mut self, tokens: Vec<Token>, active: &mut Vec<Arc<str>>, record: bool) -> Vec<Token> {
        if !tokens.iter().any(|t| matches!(&t.kind, TokenKind::Word(w) if self.is_macro(w))) {
            return tokens;
        }
        // Arguments are expanded before the macro they stand in is: calls in calls nest here too.
        self.nesting += 1;
        let out = if self.nesting <= DEPTH {
            self.expand_all(tokens, active, record)
        } else {
            let span = tokens.first().map_or(Span::default(), |t| t.span);
            self.error("E0009", span, format!("uses of macros nest deeper than {DEPTH}"), "");
            Vec::new()
        };
        self.nesting -= 1;
        out
    }

    fn expand_all(&mut self, tokens: Vec<Token>, active: &mut Vec<Arc<str>>, record: bool) -> Vec<Token> {
        let mut out = Vec::with_capacity(tokens.len());
        let mut rest = tokens.into_iter().peekable();
        while let Some(token) = rest.next() {
            let TokenKind::Word(name) = &token.kind else {
                out.push(token);
                continue;
            };
            if let Some(kind) = self.builtin(name, token.span) {
                out.push(Token { kind, ..token });
                continue;
            }
            let Some(found) = self.macros.get(name).filter(|_| !active.contains(name)).cloned() else {
                out.push(token);
                continue;
            };
            let open = rest.peek().is_some_and(|t| t.kind == TokenKind::Punct("("));
            let (args, used) = match &found.params {
                Some(_) if !open => {
                    out.push(token);
                    continue;
                }
                Some(params) => match arguments(&mut rest, params.len()) {
                    Some((args, end)) => (args, token.span.to(end)),
                    None => {
                        let message = format!(
                            "the arguments of macro `{name}` have no `)` or are not {}",
                            params.len()
                        );
                        self.error("E0008", token.span, message, "");
                        continue;
                    }
                },
                None => (Vec::new(), token.span),
            };
            if self.made > MOST_MADE {
                let message = format!("macros expand to more than {MOST_MADE} tokens");
                self.error("E0009", used, message, "does a macro double what it gets, again and again?");
                return out;
            }
            if record && active.is_empty() {
                self.map.note_expansion(Expansion { used, name: name.clone(), defined: found.defined });
            }
            let args: Vec<_> = args.into_iter().map(|a| (a.clone(), self.expand(a, active, false))).collect();
            let body = self.substitute(&found, &args, used);
            self.made += body.len();
            active.push(name.clone());
            let body = self.expand(body, active, false);
            active.pop();
            out.extend(body);
        }
        out
    }

    fn is_macro(&self, name: &Arc<str>) -> bool {
        self.macros.contains_key(name) || name.starts_with("__")
    }

    fn builtin(&self, name: &str, span: Span) -> Option<TokenKind> {
        let number = |n: usize| TokenKind::Number(Arc::from(n.to_string()));
        match name {
            "__LINE__" => Some(number(self.map.position(span).line)),
            "__FILE__" => Some(TokenKind::String(Arc::from(self.map.position(span).file))),
            _ => None,
        }
    }

    /// A macro's body with its parameters replaced, `#` and `##` done; all tokens stand where the macro is used.
    fn substitute(&mut self, found: &Macro, args: &[(Vec<Token>, Vec<Token>)], used: Span) -> Vec<Token> {
        let params = found.params.as_deref().unwrap_or_default();
        let param = |t: &Token| match &t.kind {
            TokenKind::Word(w) => params.iter().position(|p| p == w),
            _ => None,
        };
        let mut out: Vec<Token> = Vec::new();
        let mut i = 0;
        while let Some(token) = found.body.get(i) {
            let next = found.body.get(i + 1);
            let pastes = next.is_some_and(|t| t.kind == TokenKind::Punct("##"));
            if token.kind == TokenKind::Punct("##") && !out.is_empty() {
                if let (Some(next), Some(left)) = (next, out.pop()) {
                    let right = param(next).map_or(vec![next.clone()], |p| args[p].0.clone());
                    out.extend(paste(left, right, self.diags));
                }
                i += 2;
                continue;
            }
            match (param(token), next.and_then(param)) {
                (_, Some(p)) if token.kind == TokenKind::Punct("#") => {
                    let text: String = args[p].0.iter().map(|t| t.kind.text()).collect::<Vec<_>>().join(" ");
                    out.push(Token { kind: TokenKind::String(Arc::from(text)), ..token.clone() });
                    i += 1;
                }
                (Some(p), _) if pastes => out.extend(args[p].0.iter().cloned()),
                (Some(p), _) => out.extend(args[p].1.iter().cloned()),
                (None, _) => out.push(token.clone()),
            }
            i += 1;
        }
        out.into_iter().map(|t| Token { span: used, first: false, ..t }).collect()
    }
}

/// Joins two tokens into one (`##`).
fn paste(left: Token, right: Vec<Token>, diags: &mut Diagnostics) -> Vec<Token> {
    let mut right = right.into_iter();
    let Some(head) = right.next() else { return vec![left] };
    let text = format!("{}{}", left.kind.text(), head.kind.text());
    lex_text(&text, left.span, diags).into_iter().chain(right).collect()
}

/// Tokens of a text that is no file; they all stand at `span`.
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

/// The arguments of a macro call, and where it ends.
fn arguments(
    rest: &mut std::iter::Peekable<std::vec::IntoIter<Token>>,
    count: usize,
) -> Option<(Vec<Vec<Token>>, Span)> {
    rest.next();
    let mut args = vec![Vec::new()];
    let mut depth = 0;
    loop {
        let token = rest.next()?;
        match token.kind {
            TokenKind::Punct(")") if depth == 0 => {
                let none = count == 0 && args.len() == 1 && args[0].is_empty();
                let args = if none { Vec::new() } else { args };
                return (args.len() == count).then_some((args, token.span));
            }
            TokenKind::Punct(",") if depth == 0 => {
                args.push(Vec::new());
                continue;
            }
            TokenKind::Punct("(" | "{" | "[") => depth += 1,
            TokenKind::Punct(")" | "}" | "]") => depth -= 1,
            _ => {}
        }
        args.last_mut()?.push(token);
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(&token.kind, TokenKind::Word(w) if &**w == word)
}

/// The integer expression of an `#if`, with C's precedences; names that are no macros are 0.
struct Condition<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Condition<'_> {
    fn punct(&mut self, known: &[&'static str]) -> Option<&'static str> {
        match self.tokens.get(self.at).map(|t| &t.kind) {
            // The lexer leaves `>>` as two tokens.
            Some(TokenKind::Punct(">")) if self.shift_right_follows() => {
                self.at += if known.contains(&">>") { 2 } else { 0 };
                known.contains(&">>").then_some(">>")
            }
            Some(TokenKind::Punct(p)) if known.contains(p) => {
                self.at += 1;
                Some(p)
            }
            _ => None,
        }
    }

    fn shift_right_follows(&self) -> bool {
        let next = self.tokens.get(self.at + 1);
        next.is_some_and(|t| t.kind == TokenKind::Punct(">") && !t.spaced)
    }

    fn ternary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let cond = self.level(0)?;
        let mut value = cond;
        if self.punct(&["?"]).is_some() {
            let yes = self.ternary()?;
            self.punct(&[":"])?;
            let no = self.ternary()?;
            value = if cond != 0 { yes } else { no };
        }
        self.depth -= 1;
        Some(value)
    }

    fn level(&mut self, level: usize) -> Option<i64> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        while let Some(op) = self.punct(ops) {
            let right = self.level(level + 1)?;
            left = apply(op, left, right)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let value = match self.punct(&["!", "-", "+", "~", "("]) {
            Some("!") => (self.unary()? == 0) as i64,
            Some("-") => self.unary()?.wrapping_neg(),
            Some("~") => !self.unary()?,
            Some("(") => {
                let inner = self.ternary()?;
                self.punct(&[")"])?;
                inner
            }
            Some(_) => self.unary()?,
            None => {
                let value = match &self.tokens.get(self.at)?.kind {
                    TokenKind::Number(text) => integer(text)?,
                    TokenKind::Word(_) => 0,
                    _ => return None,
                };
                self.at += 1;
                value
            }
        };
        self.depth -= 1;
        Some(value)
    }
}

fn apply(op: &str, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        "||" => (a != 0 || b != 0) as i64,
        "&&" => (a != 0 && b != 0) as i64,
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => (a == b) as i64,
        "!=" => (a != b) as i64,
        "<=" => (a <= b) as i64,
        ">=" => (a >= b) as i64,
        "<" => (a < b) as i64,
        ">" => (a > b) as i64,
        "<<" => a.checked_shl(u32::try_from(b).ok()?)?,
        ">>" => a.checked_shr(u32::try_from(b).ok()?)?,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        _ => a.checked_rem(b)?,
    })
}

fn integer(text: &str) -> Option<i64> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let text = text.trim_end_matches(['u', 'l']);
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => match text.strip_prefix("0b") {
            Some(bits) => i64::from_str_radix(bits, 2).ok(),
            None => text.parse().ok(),
        },
    }
}
