//! Evaluates the integer expression of an `#if` with C's precedences. Macros have been expanded, and any other name is
//! 0.

use super::MAX_NESTING;
use crate::lexer::{Token, TokenKind};

/// The value of a condition. `None`: the tokens are no integer expression.
pub fn evaluate(tokens: &[Token]) -> Option<i64> {
    let mut parser = Condition { tokens, at: 0, depth: 0 };
    let value = parser.ternary()?;
    (parser.at == tokens.len()).then_some(value)
}

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
            // `>>` is two tokens.
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
        if self.depth > MAX_NESTING {
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
        if self.depth > MAX_NESTING {
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
    let (radix, digits) = match text.split_at_checked(2) {
        Some(("0x", hex)) => (16, hex),
        Some(("0b", bits)) => (2, bits),
        _ => (10, text),
    };
    i64::from_str_radix(digits, radix).ok()
}
