//! Parses expressions and keysets.

use num_bigint::BigInt;

use super::{Attempt, Failed, Parsed, Parser};
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::lexer::TokenKind;
use crate::source::Span;

/// The index of the shifts in [`BinaryOp::LEVELS`]. Assignments cannot be mistaken for operators above this level.
const SHIFTS: usize = 7;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.nested(|p| {
            let cond = p.binary(0)?;
            if !p.eat("?") {
                return Ok(cond);
            }
            let yes = Box::new(p.expression()?);
            p.expect(":")?;
            let no = Box::new(p.expression()?);
            let span = cond.span.to(no.span);
            Ok(p.expr(ExprKind::Ternary { cond: Box::new(cond), yes, no }, span))
        })
    }

    /// Parses an expression without comparisons and shifts, such as the left side of an assignment.
    pub(super) fn additive(&mut self) -> Parsed<Expr> {
        self.nested(|p| p.binary(SHIFTS + 1))
    }

    /// Parses operators of a level and of the tighter ones by precedence climbing. With one function for each level,
    /// every parenthesis would cost ten stack frames.
    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((found, op)) = self.operator(level) {
            self.count_chained()?;
            let right = self.binary(found + 1)?;
            left = self.joined(op, left, right);
        }
        Ok(left)
    }

    /// The expression `left op right`.
    pub(super) fn joined(&mut self, op: BinaryOp, left: Expr, right: Expr) -> Expr {
        let span = left.span.to(right.span);
        self.expr(ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) }, span)
    }

    /// Consumes an operator of a level or of a tighter one, if one is next.
    fn operator(&mut self, lowest: usize) -> Option<(usize, BinaryOp)> {
        let TokenKind::Punct(next) = self.token().kind else { return None };
        if self.no_gt && next.starts_with('>') {
            return None;
        }
        if next == ">" && !self.ahead(1).spaced {
            // `>>` is two adjacent tokens. `x >>= 1` is an assignment.
            let assigns = self.ahead_is(1, ">=") || self.ahead_is(1, ">") && self.ahead_is(2, "=");
            if assigns {
                return None;
            }
            if self.ahead_is(1, ">") {
                if lowest > SHIFTS {
                    return None;
                }
                self.bump();
                self.bump();
                return Some((SHIFTS, BinaryOp::Shr));
            }
        }
        let mut levels = BinaryOp::LEVELS.iter().enumerate().skip(lowest);
        let found =
            levels.find_map(|(n, ops)| ops.iter().find(|(text, _)| *text == next).map(|(_, op)| (n, *op)));
        if found.is_some() {
            self.bump();
        }
        found
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let op = match self.token().kind {
            TokenKind::Punct("!") => UnaryOp::Not,
            TokenKind::Punct("~") => UnaryOp::Complement,
            TokenKind::Punct("-") => UnaryOp::Minus,
            TokenKind::Punct("+") => UnaryOp::Plus,
            TokenKind::Punct("(") => return self.cast_or_parenthesis(),
            _ => return self.postfix(),
        };
        self.nested(|p| {
            p.bump();
            let operand = Box::new(p.unary()?);
            let span = start.to(operand.span);
            Ok(p.expr(ExprKind::Unary { op, operand }, span))
        })
    }

    fn cast_or_parenthesis(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let typed = self.builtin_type_at(1) || self.is_type_name(1) || self.ahead_is(1, ".");
        let ty = if typed { self.attempt(Attempt::Cast, |p| p.cast_type()) } else { None };
        match ty {
            Some(ty) => self.nested(|p| {
                let operand = Box::new(p.unary()?);
                let span = start.to(operand.span);
                Ok(p.expr(ExprKind::Cast { ty, operand }, span))
            }),
            None => self.postfix(),
        }
    }

    /// Parses `(T)` if an operand of a cast follows.
    fn cast_type(&mut self) -> Parsed<Type> {
        self.expect("(")?;
        let ty = self.parse_type()?;
        self.expect(")")?;
        let operand = match self.token().kind {
            TokenKind::Punct(p) => ["(", "{", "!", "~", "-", "+"].contains(&p),
            TokenKind::Eof => false,
            _ => true,
        };
        if operand { Ok(ty) } else { Err(Failed) }
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut e = self.primary()?;
        loop {
            if matches!(self.token().kind, TokenKind::Punct("." | "[" | "(")) {
                self.count_chained()?;
            }
            e = match self.token().kind {
                TokenKind::Punct(".") => self.member(e)?,
                TokenKind::Punct("[") => self.index(e)?,
                TokenKind::Punct("(") => self.call(e, Vec::new())?,
                TokenKind::Punct("<") => match self.attempt(Attempt::TypeArgs, |p| p.call_type_args()) {
                    Some(types) => self.call(e, types)?,
                    None => return Ok(e),
                },
                TokenKind::Punct("->") => {
                    return self.wrong("E0115", self.span(), "P4 has no `->`", "write `.`");
                }
                _ => return Ok(e),
            };
        }
    }

    fn call_type_args(&mut self) -> Parsed<Vec<Type>> {
        let types = self.type_args()?;
        if self.is("(") { Ok(types) } else { Err(Failed) }
    }

    fn member(&mut self, base: Expr) -> Parsed<Expr> {
        self.expect(".")?;
        // `apply` and others are names here. Keywords are accepted too, so that the checker can report an unknown
        // member.
        let member = self.name("a field or method")?;
        let span = base.span.to(member.span);
        Ok(self.expr(ExprKind::Member { base: Box::new(base), member }, span))
    }

    fn index(&mut self, base: Expr) -> Parsed<Expr> {
        self.expect("[")?;
        let kind = self.bracketed(|p| p.index_or_slice(base))?;
        let end = self.expect("]")?;
        let start = match &kind {
            ExprKind::Slice { base, .. } | ExprKind::Index { base, .. } => base.span,
            _ => end,
        };
        Ok(self.expr(kind, start.to(end)))
    }

    fn index_or_slice(&mut self, base: Expr) -> Parsed<ExprKind> {
        let from = self.at;
        let first = Box::new(self.expression()?);
        if self.eat(":") {
            return Ok(ExprKind::Slice { base: Box::new(base), hi: first, lo: Box::new(self.expression()?) });
        }
        if self.eat("+:") {
            let hi = Box::new(self.top_of_plus_slice(from)?);
            return Ok(ExprKind::Slice { base: Box::new(base), hi, lo: first });
        }
        Ok(ExprKind::Index { base: Box::new(base), index: first })
    }

    /// p4c's `x[low +: width]` becomes `x[low + width - 1 : low]`. `low` is parsed a second time, because each
    /// expression in the tree has its own id.
    fn top_of_plus_slice(&mut self, from: usize) -> Parsed<Expr> {
        let behind = self.at;
        let nested = self.tokens.get(from..behind.saturating_sub(1)).unwrap_or_default();
        if nested.iter().any(|t| t.kind == TokenKind::Punct("+:")) {
            let hint = "use a variable or constant for the inner one";
            return self.wrong(
                "E0126",
                self.before(),
                "a slice with `+:` inside the low end of another",
                hint,
            );
        }
        self.at = from;
        let low = self.expression()?;
        self.at = behind;
        let width = self.expression()?;
        let span = low.span.to(width.span);
        let one = self.expr(ExprKind::Number { value: 1.into(), width: None }, span);
        let sum = self.joined(BinaryOp::Add, low, width);
        Ok(self.joined(BinaryOp::Sub, sum, one))
    }

    fn call(&mut self, callee: Expr, type_args: Vec<Type>) -> Parsed<Expr> {
        let args = self.arguments()?;
        let span = callee.span.to(self.before());
        Ok(self.expr(ExprKind::Call { callee: Box::new(callee), type_args, args }, span))
    }

    /// Parses arguments `(a, b, name = c, _)`.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        self.expect("(")?;
        self.list(")", |p| {
            let start = p.span();
            let name = if p.name_at(0) && p.ahead_is(1, "=") {
                let name = p.name("an argument")?;
                p.bump();
                Some(name)
            } else {
                None
            };
            let value = if p.eat_word("_") { None } else { Some(p.expression()?) };
            Ok(Argument { name, value, span: start.to(p.before()) })
        })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let span = token.span;
        let kind = match &token.kind {
            TokenKind::Number(text) => {
                self.bump();
                self.number(text, span)
            }
            TokenKind::String(_) => self.strings(),
            TokenKind::Word(w) => return self.word(w, span),
            TokenKind::Punct("{") => return self.braces(),
            TokenKind::Punct("(") => return self.parenthesis(),
            TokenKind::Punct("...") => {
                self.bump();
                ExprKind::DefaultValue
            }
            TokenKind::Punct(".") if self.name_at(1) => {
                self.bump();
                ExprKind::Name { global: true, name: self.name("a declaration")? }
            }
            other => {
                let d = Diagnostic::error("E0116", span, format!("expected an expression, found {other}"));
                return Err(self.fail(match self.step_by_one() {
                    Some(hint) => d.hint(hint),
                    None => d,
                }));
            }
        };
        let span = span.to(self.before());
        Ok(self.expr(kind, span))
    }

    /// What to write instead of C's `x++` or `x--`, if that is what comes before.
    fn step_by_one(&self) -> Option<&'static str> {
        let back = |n: usize| self.at.checked_sub(n).and_then(|i| self.tokens.get(i)).map(|t| &t.kind);
        match (back(2), back(1)) {
            (_, Some(TokenKind::Punct("++"))) => Some("`++` concatenates in P4; write `x = x + 1;`"),
            (Some(TokenKind::Punct("-")), Some(TokenKind::Punct("-"))) => {
                Some("P4 has no `--`; write `x = x - 1;`")
            }
            _ => None,
        }
    }

    fn word(&mut self, word: &str, span: Span) -> Parsed<Expr> {
        let kind = match word {
            "true" | "false" => ExprKind::Bool(word == "true"),
            "this" => ExprKind::This,
            "_" => ExprKind::DontCare,
            "default" => ExprKind::Default,
            _ if self.builtin_type_at(0) => ExprKind::Type(self.parse_type()?),
            _ if self.is_type_name(0) && self.ahead_is(1, "<") => {
                // The constructor of a generic type, or a specialised type as the base of a member.
                match self.attempt(Attempt::TypeName, |p| p.parse_type()) {
                    Some(ty) => ExprKind::Type(ty),
                    None => ExprKind::Name { global: false, name: self.name("a declaration")? },
                }
            }
            _ => ExprKind::Name { global: false, name: self.name("a declaration")? },
        };
        if matches!(kind, ExprKind::Bool(_) | ExprKind::This | ExprKind::DontCare | ExprKind::Default) {
            self.bump();
        }
        let span = span.to(self.before());
        Ok(self.expr(kind, span))
    }

    /// Parses string literals. Adjacent ones are joined.
    fn strings(&mut self) -> ExprKind {
        let mut text = String::new();
        while let TokenKind::String(part) = &self.token().kind {
            text.push_str(&unescape(part));
            self.bump();
        }
        ExprKind::String(text)
    }

    fn parenthesis(&mut self) -> Parsed<Expr> {
        let start = self.expect("(")?;
        let inner = self.bracketed(|p| p.expression())?;
        let end = self.expect(")")?;
        Ok(Expr { span: start.to(end), ..inner })
    }

    /// Section 8.26: `...` must be the last element of a list.
    fn nothing_behind(&mut self, dots: bool) {
        if dots {
            let d = Diagnostic::error("E0117", self.span(), "nothing can stand behind `...`");
            let d = d.hint("`...` gives the default value to all fields that are not named");
            // The list is parsed further.
            let _reported = self.fail(d);
        }
    }

    /// Parses `{a, b}`, `{x = a}`, `{#}` or `{}`.
    fn braces(&mut self) -> Parsed<Expr> {
        let start = self.expect("{")?;
        let kind = if self.is("#") && !self.token().spaced && self.ahead_is(1, "}") && !self.ahead(1).spaced {
            self.bump();
            self.expect("}")?;
            ExprKind::InvalidHeader
        } else if self.name_at(0) && self.ahead_is(1, "=") {
            let mut more = false;
            let fields = self.list("}", |p| {
                if p.eat("...") {
                    more = true;
                    return Ok(None);
                }
                p.nothing_behind(more);
                let name = p.name("a field")?;
                p.expect("=")?;
                Ok(Some((name, p.expression()?)))
            })?;
            ExprKind::Struct { fields: fields.into_iter().flatten().collect(), more }
        } else {
            let mut more = false;
            let items = self.list("}", |p| {
                if p.is("...") && (p.ahead_is(1, "}") || p.ahead_is(1, ",")) {
                    p.bump();
                    more = true;
                    return Ok(None);
                }
                p.nothing_behind(more);
                Ok(Some(p.expression()?))
            })?;
            ExprKind::List { items: items.into_iter().flatten().collect(), more }
        };
        let span = start.to(self.before());
        Ok(self.expr(kind, span))
    }

    /// Parses a keyset: `e`, `a &&& b`, `a .. b`, `_`, `default`, or a tuple of these in parentheses.
    pub(super) fn keyset(&mut self) -> Parsed<Expr> {
        if self.is("(")
            && let Some(tuple) = self.attempt(Attempt::KeysetTuple, |p| p.keyset_tuple())
        {
            return Ok(tuple);
        }
        self.simple_keyset()
    }

    fn keyset_tuple(&mut self) -> Parsed<Expr> {
        let start = self.expect("(")?;
        let mut items = self.list(")", |p| p.simple_keyset())?;
        // The token that follows distinguishes `(a, b): state` from `(a) + 1: state`.
        if !self.is(":") {
            return Err(Failed);
        }
        let span = start.to(self.before());
        match items.pop() {
            Some(only) if items.is_empty() => Ok(only),
            Some(last) => {
                items.push(last);
                Ok(self.expr(ExprKind::List { items, more: false }, span))
            }
            None => Err(Failed),
        }
    }

    fn simple_keyset(&mut self) -> Parsed<Expr> {
        let left = self.expression()?;
        let op = match self.token().kind {
            TokenKind::Punct("&&&") => BinaryOp::Mask,
            TokenKind::Punct("..") => BinaryOp::Range,
            _ => return Ok(left),
        };
        self.bump();
        let right = self.expression()?;
        Ok(self.joined(op, left, right))
    }

    fn number(&mut self, text: &str, span: Span) -> ExprKind {
        let text = text.replace('_', "");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (width, rest) = match text[digits..].chars().next() {
            Some(mark @ ('w' | 's')) if digits > 0 => {
                (Some((&text[..digits], mark == 's')), &text[digits + 1..])
            }
            _ => (None, &text[..]),
        };
        let lower = rest.to_ascii_lowercase();
        let (radix, digits) = match lower.get(..2) {
            Some("0x") => (16, &lower[2..]),
            Some("0b") => (2, &lower[2..]),
            Some("0o") => (8, &lower[2..]),
            Some("0d") => (10, &lower[2..]),
            _ => (10, &lower[..]),
        };
        let Some(value) = BigInt::parse_bytes(digits.as_bytes(), radix) else {
            let d = Diagnostic::error("E0117", span, format!("`{text}` is not a number"))
                .hint("numbers are 10, 0xff, 0b1010, 0o17, and 8w10 or 4s7 with a width");
            let _ = self.fail(d);
            return ExprKind::Error;
        };
        let width = match width.map(|(w, signed)| (w.parse::<u32>(), signed)) {
            None => None,
            Some((Ok(w), signed)) if w <= 1 << 20 => Some((w, signed)),
            Some(_) => {
                let d = Diagnostic::error("E0117", span, format!("`{text}` has a width beyond reason"));
                let _ = self.fail(d);
                return ExprKind::Error;
            }
        };
        ExprKind::Number { value, width }
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                // A backslash continues the line.
                Some('\n') => {}
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}
