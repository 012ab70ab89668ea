//! The lexer: from characters to tokens, for one file. The preprocessor calls it for each token or line.

use std::fmt;
use std::sync::Arc;

use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Span;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The kind of token, with its text.
    pub kind: TokenKind,
    /// The location. A token that a macro produced has the location of the macro's use.
    pub span: Span,
    /// Whether it is the first token of its line.
    pub first: bool,
    /// Whether white space or a comment comes before it.
    pub spaced: bool,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// An identifier or keyword.
    Word(Arc<str>),
    /// A number as it is written, such as `8w0xff`.
    Number(Arc<str>),
    /// A string without its quotes. Escapes are as they are written.
    String(Arc<str>),
    /// An operator or bracket.
    Punct(&'static str),
    /// A character without a meaning. Only annotations may contain it, in parentheses.
    Stray(char),
    /// The end of the file.
    Eof,
}

impl TokenKind {
    /// The token as it is written.
    pub fn text(&self) -> String {
        match self {
            TokenKind::Word(t) | TokenKind::Number(t) => t.to_string(),
            TokenKind::String(t) => format!("\"{t}\""),
            TokenKind::Punct(p) => p.to_string(),
            TokenKind::Stray(c) => c.to_string(),
            TokenKind::Eof => String::new(),
        }
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenKind::Eof => f.write_str("the end of the file"),
            other => write!(f, "`{}`", other.text()),
        }
    }
}

/// Operators and brackets; the longest come first. `>>` is two tokens because of `bit<bit<8>>`; the expression parser
/// joins them.
const PUNCTS: &[&str] = &[
    "|+|=", "|-|=", "<<=", "...", "&&&", "|+|", "|-|", "++", "<<", "<=", ">=", "==", "!=", "&&", "||", "..",
    "+:", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->", "##", "(", ")", "{", "}", "[", "]", "<", ">",
    ";", ":", ",", ".", "=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "?", "@", "#",
];

/// The most characters of a word or a number.
const MAX_WORD: usize = 16_384;

/// The lexer of one file.
pub struct Lexer {
    text: Arc<str>,
    base: u32,
    at: usize,
    /// Whether there was only white space since the line began.
    line_start: bool,
}

impl Lexer {
    /// A lexer at the start of a file whose first byte has the offset `base`.
    pub fn new(text: Arc<str>, base: u32) -> Lexer {
        Lexer { text, base, at: 0, line_start: true }
    }

    fn span(&self, start: usize) -> Span {
        Span::new(self.base.saturating_add(start as u32), self.base.saturating_add(self.at as u32))
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// The next token. Problems are reported and skipped.
    pub fn next(&mut self, diags: &mut Diagnostics) -> Token {
        let spaced = self.skip_blank(diags);
        let first = std::mem::take(&mut self.line_start);
        let start = self.at;
        let Some(c) = self.rest().chars().next() else {
            self.line_start = true;
            return Token { kind: TokenKind::Eof, span: self.span(start), first: true, spaced };
        };
        let kind = match c {
            'a'..='z' | 'A'..='Z' | '_' | '$' => self.word(diags),
            '0'..='9' => self.number(diags),
            '"' => self.string(diags),
            _ => self.punct(),
        };
        let kind = kind.unwrap_or_else(|| {
            self.at = start + c.len_utf8();
            TokenKind::Stray(c)
        });
        Token { kind, span: self.span(start), first, spaced }
    }

    /// Skips white space, comments and continued lines. Returns whether there were any.
    fn skip_blank(&mut self, diags: &mut Diagnostics) -> bool {
        let from = self.at;
        loop {
            let rest = self.rest();
            let bytes = rest.as_bytes();
            match bytes.first() {
                Some(b'\n') => {
                    self.at += 1;
                    self.line_start = true;
                }
                Some(b' ' | b'\t' | b'\r' | 0x0c) => self.at += 1,
                Some(b'\\') if rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                    self.at += rest.find('\n').map_or(rest.len(), |n| n + 1);
                }
                Some(b'/') if bytes.get(1) == Some(&b'/') => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some(b'/') if bytes.get(1) == Some(&b'*') => self.block_comment(diags),
                _ if rest.starts_with('\u{feff}') => self.at += '\u{feff}'.len_utf8(),
                _ => return self.at > from,
            }
        }
    }

    fn block_comment(&mut self, diags: &mut Diagnostics) {
        let start = self.at;
        match self.rest()[2..].find("*/") {
            Some(n) => self.at += n + 4,
            None => {
                self.at += 2;
                let span = self.span(start);
                self.at = self.text.len();
                let d = Diagnostic::error("E0101", span, "a comment without an end").label("it begins here");
                diags.push(d.hint("close it with `*/`"));
            }
        }
    }

    fn take_while(&mut self, good: impl Fn(char) -> bool) -> Arc<str> {
        let len = self.rest().find(|c| !good(c)).unwrap_or(self.rest().len());
        self.at += len;
        Arc::from(&self.text[self.at - len..self.at])
    }

    fn word(&mut self, diags: &mut Diagnostics) -> Option<TokenKind> {
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        Some(TokenKind::Word(self.bounded(text, "a word", diags)))
    }

    fn number(&mut self, diags: &mut Diagnostics) -> Option<TokenKind> {
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        Some(TokenKind::Number(self.bounded(text, "a number", diags)))
    }

    /// The text of a token, or the beginning of one that is too long: nothing else of it is looked at.
    fn bounded(&mut self, text: Arc<str>, what: &str, diags: &mut Diagnostics) -> Arc<str> {
        const SHOWN: usize = 32;
        if text.len() <= MAX_WORD {
            return text;
        }
        let start = self.base.saturating_add((self.at - text.len()) as u32);
        let message = format!("{what} of {} characters", text.len());
        let d = Diagnostic::error("E0105", Span::new(start, start.saturating_add(SHOWN as u32)), message);
        diags.push(d.label("it begins here").hint(format!("at most {MAX_WORD} are taken")));
        Arc::from(&text[..SHOWN])
    }

    fn string(&mut self, diags: &mut Diagnostics) -> Option<TokenKind> {
        let start = self.at;
        let mut escaped = false;
        for (i, c) in self.text[start + 1..].char_indices() {
            match c {
                '"' if !escaped => {
                    self.at = start + 1 + i + 1;
                    return Some(TokenKind::String(Arc::from(&self.text[start + 1..start + 1 + i])));
                }
                _ => escaped = c == '\\' && !escaped,
            }
        }
        // Only this line is skipped: a comment without its end would contain the rest of the file.
        let line = &self.rest()[..self.rest().find('\n').unwrap_or(self.rest().len())];
        self.at += line.rfind(';').unwrap_or(line.len());
        let text = Arc::from(&self.text[start + 1..self.at]);
        let d = Diagnostic::error("E0102", self.span(start), "a string without an end");
        diags.push(d.hint("close it with `\"`"));
        Some(TokenKind::String(text))
    }

    fn punct(&mut self) -> Option<TokenKind> {
        let rest = self.rest().as_bytes();
        let found = PUNCTS.iter().find(|p| p.as_bytes()[0] == rest[0] && rest.starts_with(p.as_bytes()))?;
        self.at += found.len();
        Some(TokenKind::Punct(found))
    }

    /// The rest of the line, with continued lines joined and comments removed. The lexer is at the next line then.
    pub fn rest_of_line(&mut self) -> (String, Span) {
        let start = self.at;
        let mut line = String::new();
        while let Some(c) = self.rest().chars().next() {
            let rest = self.rest();
            match c {
                '\n' => break,
                '\\' if rest[1..].trim_start_matches('\r').starts_with('\n') => {
                    self.at += rest.find('\n').map_or(rest.len(), |n| n + 1);
                    continue;
                }
                '/' if rest.starts_with("//") => {
                    self.at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                '/' if rest.starts_with("/*") => {
                    self.at += rest[2..].find("*/").map_or(rest.len(), |n| n + 4);
                    line.push(' ');
                    continue;
                }
                _ => line.push(c),
            }
            self.at += c.len_utf8();
        }
        (line.trim().to_string(), self.span(start))
    }

    /// In a branch that is not compiled: skips to the next line that begins with `#`. Returns false at the end of the
    /// file.
    pub fn skip_to_directive(&mut self) -> bool {
        loop {
            let line = self.rest();
            if line.is_empty() {
                return false;
            }
            let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
            if self.line_start && line[blank..].starts_with('#') {
                self.at += blank;
                return true;
            }
            self.at += skipped_line(line);
            self.line_start = true;
        }
    }

    /// Whether the lexer is at the end of the file.
    pub fn at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// The rest of the line as it is written, with its line end.
    pub fn line(&mut self) -> String {
        let len = self.rest().find('\n').map_or(self.rest().len(), |n| n + 1);
        self.at += len;
        self.line_start = true;
        self.text[self.at - len..self.at].to_string()
    }

    /// The word behind the `#` that begins this line.
    pub fn directive_word(&self) -> Option<&str> {
        let word =
            self.rest().trim_start_matches([' ', '\t']).strip_prefix('#')?.trim_start_matches([' ', '\t']);
        word.split(|c: char| !c.is_ascii_alphanumeric()).next()
    }

    /// Called after a directive: the lexer is at the start of a line.
    pub fn at_line_start(&mut self) {
        self.line_start = true;
    }
}

/// The length of a line that is not compiled, with a block comment that begins in it: the comment's lines are no
/// directives.
fn skipped_line(rest: &str) -> usize {
    let end = rest.find('\n').map_or(rest.len(), |n| n + 1);
    let line = &rest[..end];
    let mut at = 0;
    while let Some(begin) = line[at..].find("/*").map(|n| at + n) {
        if line[at..begin].contains("//") {
            break;
        }
        match rest[begin + 2..].find("*/").map(|n| begin + n + 4) {
            Some(close) if close < end => at = close,
            Some(close) => return close + rest[close..].find('\n').map_or(rest.len() - close, |n| n + 1),
            None => return rest.len(),
        }
    }
    end
}
