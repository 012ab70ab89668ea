//! Types, type parameters, parameters and annotations.

use abi::text::is_hidden;

use super::{Failed, Parsed, Parser};
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::lexer::TokenKind;

/// The most characters of a name that an annotation says.
const LONGEST_NAME: usize = 1000;

impl Parser<'_> {
    /// Whether a token is a keyword that begins a type.
    pub(super) fn builtin_type_at(&self, n: usize) -> bool {
        let words = ["bool", "error", "match_kind", "string", "void", "int", "bit", "varbit", "tuple"];
        let TokenKind::Word(w) = &self.ahead(n).kind else { return false };
        words.contains(&&**w) || &**w == "list" && self.ahead_is(n + 1, "<")
    }

    pub(super) fn parse_type(&mut self) -> Parsed<Type> {
        self.nested(|p| {
            let mut ty = p.base_type()?;
            while p.is("[") {
                ty = p.sized(ty)?;
            }
            Ok(ty)
        })
    }

    /// Parses `[n]` behind a type, or as in p4c behind a declared name.
    fn sized(&mut self, element: Type) -> Parsed<Type> {
        self.count_chained()?;
        self.expect("[")?;
        let size = Box::new(self.bracketed(|p| p.expression())?);
        let span = element.span.to(self.expect("]")?);
        Ok(Type { kind: TypeKind::Stack { element: Box::new(element), size }, span })
    }

    /// Parses a declared name, which sizes such as `[n]` may follow. Returns the type with these sizes.
    pub(super) fn declarator(&mut self, mut ty: Type, what: &str) -> Parsed<(Type, Name)> {
        let name = self.name(what)?;
        while self.is("[") {
            ty = self.sized(ty)?;
        }
        Ok((ty, name))
    }

    fn base_type(&mut self) -> Parsed<Type> {
        let start = self.span();
        let word = match &self.token().kind {
            TokenKind::Word(w) => w.clone(),
            _ => "".into(),
        };
        let kind = match &*word {
            "bool" => self.simple(TypeKind::Bool),
            "error" => self.simple(TypeKind::Error),
            "match_kind" => self.simple(TypeKind::MatchKind),
            "string" => self.simple(TypeKind::String),
            "void" => self.simple(TypeKind::Void),
            "_" => self.simple(TypeKind::DontCare),
            "bit" => {
                self.bump();
                TypeKind::Bit(if self.is("<") { Some(self.width()?) } else { None })
            }
            "int" => {
                self.bump();
                if self.is("<") { TypeKind::SignedInt(self.width()?) } else { TypeKind::Int }
            }
            "varbit" => {
                self.bump();
                TypeKind::Varbit(self.width()?)
            }
            "tuple" => {
                self.bump();
                TypeKind::Tuple(self.type_args()?)
            }
            "list" if self.ahead_is(1, "<") => {
                self.bump();
                let mut args = self.type_args()?;
                match args.pop() {
                    Some(element) if args.is_empty() => TypeKind::List(Box::new(element)),
                    _ => return Err(self.fail(Diagnostic::error("E0113", start, "`list` takes one type"))),
                }
            }
            _ => self.named_type()?,
        };
        Ok(Type { kind, span: start.to(self.before()) })
    }

    fn simple(&mut self, kind: TypeKind) -> TypeKind {
        self.bump();
        kind
    }

    fn named_type(&mut self) -> Parsed<TypeKind> {
        if !(self.name_at(0) || self.is(".") && self.name_at(1)) {
            let text = format!("expected a type, found {}", self.token().kind);
            let d = Diagnostic::error("E0113", self.span(), text);
            return Err(self.fail(d));
        }
        if self.quiet > 0 && !self.is(".") && !self.is_type_name(0) {
            return Err(Failed);
        }
        let global = self.eat(".");
        let name = self.name("a type")?;
        let args = if self.is("<") { self.type_args()? } else { Vec::new() };
        Ok(TypeKind::Named { global, name, args })
    }

    /// Parses a width `<W>`: a number, or an expression in parentheses.
    fn width(&mut self) -> Parsed<Box<Expr>> {
        self.expect("<")?;
        // The width ends at the next `>` outside of brackets.
        let no_gt = std::mem::replace(&mut self.no_gt, true);
        let width = self.expression();
        self.no_gt = no_gt;
        let width = width?;
        self.expect(">")?;
        Ok(Box::new(width))
    }

    /// Parses type arguments `<T, U>`.
    pub(super) fn type_args(&mut self) -> Parsed<Vec<Type>> {
        self.expect("<")?;
        self.list(">", |p| p.parse_type())
    }

    /// Parses the type parameters `<T, U>` of a declaration, if there are any. Their names are types from here on.
    pub(super) fn type_params(&mut self) -> Parsed<Vec<TypeParam>> {
        if !self.eat("<") {
            return Ok(Vec::new());
        }
        self.list(">", |p| {
            let name = p.name("a type parameter")?;
            p.declare_type(&name);
            Ok(TypeParam { id: p.decl_id(), name })
        })
    }

    /// Parses parameters `(…)`.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
        self.expect("(")?;
        self.list(")", |p| p.parameter())
    }

    fn parameter(&mut self) -> Parsed<Parameter> {
        let start = self.span();
        let annotations = self.annotations()?;
        let direction = match () {
            () if self.eat_word("in") => Direction::In,
            () if self.eat_word("out") => Direction::Out,
            () if self.eat_word("inout") => Direction::InOut,
            () => Direction::None,
        };
        let ty = self.parse_type()?;
        let (ty, name) = self.declarator(ty, "a parameter")?;
        let default = if self.eat("=") { Some(self.expression()?) } else { None };
        let span = start.to(self.before());
        Ok(Parameter { id: self.decl_id(), annotations, direction, ty, name, default, span })
    }

    pub(super) fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut all = Vec::new();
        while self.is("@") {
            all.push(self.annotation()?);
        }
        Ok(all)
    }

    fn annotation(&mut self) -> Parsed<Annotation> {
        let start = self.expect("@")?;
        // An annotation may be named like a keyword.
        let TokenKind::Word(word) = &self.token().kind else {
            return self.wrong("E0114", self.span(), "an annotation without a name", "write `@name(\"x\")`");
        };
        let name = Name { text: word.to_string(), span: self.bump().span };
        let body = match () {
            () if name.text == "pragma" => AnnotationBody::Unstructured(self.rest_of_line()),
            () if self.eat("(") => AnnotationBody::Unstructured(self.annotation_tokens()?),
            () if self.eat("[") => self.annotation_list()?,
            () => AnnotationBody::Empty,
        };
        if matches!(name.text.as_str(), "name" | "controller_header") {
            self.check_said_name(&body);
        }
        Ok(Annotation { name, body, span: start.to(self.before()) })
    }

    /// Refuses a name that controllers and people could not see as it is: it would be a command for their terminals.
    fn check_said_name<'b>(&mut self, body: &'b AnnotationBody) {
        let said: Vec<(&'b str, crate::source::Span)> = match body {
            AnnotationBody::Unstructured(tokens) => {
                tokens.iter().map(|(text, at)| (text.as_str(), *at)).collect()
            }
            AnnotationBody::Expressions(all) => {
                let text = |e: &'b Expr| match &e.kind {
                    ExprKind::String(text) => Some((text.as_str(), e.span)),
                    _ => None,
                };
                all.iter().filter_map(text).collect()
            }
            _ => return,
        };
        let hidden = said.iter().find_map(|(text, at)| Some((text.chars().find(|c| is_hidden(*c))?, *at)));
        let long = said.iter().find(|(text, _)| text.len() > LONGEST_NAME);
        let problem = match (hidden, long) {
            (Some((c, at)), _) => (at, format!("a name with the character `{}`", c.escape_unicode())),
            (None, Some((_, at))) => (*at, format!("a name of more than {LONGEST_NAME} characters")),
            (None, None) => return,
        };
        let hint = "names are shown to people and sent to controllers: use visible characters on one line";
        self.diags.push(Diagnostic::error("E0104", problem.0, problem.1).hint(hint));
    }

    /// The tokens of a `@pragma`, which ends with the line.
    fn rest_of_line(&mut self) -> Vec<(String, crate::source::Span)> {
        let mut tokens = Vec::new();
        while !self.token().first && !self.at_end() {
            let token = self.bump();
            tokens.push((token.kind.text(), token.span));
        }
        tokens
    }

    fn annotation_tokens(&mut self) -> Parsed<Vec<(String, crate::source::Span)>> {
        let mut depth = 0;
        let mut tokens = Vec::new();
        loop {
            match &self.token().kind {
                TokenKind::Punct(")") if depth == 0 => {
                    self.bump();
                    return Ok(tokens);
                }
                TokenKind::Eof => {
                    self.expect(")")?;
                }
                TokenKind::Punct("(") => depth += 1,
                TokenKind::Punct(")") => depth -= 1,
                _ => {}
            }
            let token = self.bump();
            tokens.push((token.kind.text(), token.span));
        }
    }

    fn annotation_list(&mut self) -> Parsed<AnnotationBody> {
        if self.name_at(0) && self.ahead_is(1, "=") {
            let pairs = self.list("]", |p| {
                let name = p.name("a key")?;
                p.expect("=")?;
                Ok((name, p.expression()?))
            })?;
            return Ok(AnnotationBody::KeyValues(pairs));
        }
        Ok(AnnotationBody::Expressions(self.list("]", |p| p.expression())?))
    }
}
