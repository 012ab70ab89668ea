//! Parses declarations.

use super::{Failed, Parsed, Parser};
use crate::ast::*;
use crate::diag::{Diagnostic, did_you_mean};
use crate::lexer::TokenKind;
use crate::source::Span;

/// The words that begin a declaration.
const KEYWORDS: &str = "header struct header_union enum typedef const parser control action table extern
    package state error";

/// A declared name, and the declaration.
type Declared = (Name, DeclKind);

impl Parser<'_> {
    /// Parses a declaration: one that begins with a keyword, or a function, variable or instance.
    pub(super) fn declaration(&mut self) -> Parsed<Decl> {
        let chained = std::mem::take(&mut self.chained);
        let result = self.nested(|p| p.declaration_here());
        self.chained = chained;
        result
    }

    fn declaration_here(&mut self) -> Parsed<Decl> {
        let start = self.span();
        let annotations = self.annotations()?;
        let word = match &self.token().kind {
            TokenKind::Word(w) => w.clone(),
            TokenKind::Punct(".") => "".into(),
            found => {
                let d =
                    Diagnostic::error("E0120", self.span(), format!("expected a declaration, found {found}"));
                return Err(self.fail(d));
            }
        };
        let declared = match &*word {
            "const" => self.constant(),
            "extern" => self.extern_decl(),
            "action" => self.action(),
            "parser" | "control" | "package" => self.block_decl(&word),
            "struct" | "header" | "header_union" => self.aggregate(&word),
            "enum" => self.enumeration(),
            "error" | "match_kind" if self.ahead_is(1, "{") => self.members_of(&word),
            "typedef" => self.typedef(false),
            "type" if !self.ahead_is(1, "(") && !self.ahead_is(1, "<") => self.typedef(true),
            "table" => self.table(),
            "value_set" | "valueset" => self.value_set(),
            _ => self.function_or_variable(),
        };
        Ok(self.finish(annotations, declared?, start))
    }

    pub(super) fn finish(&mut self, annotations: Vec<Annotation>, what: Declared, start: Span) -> Decl {
        let (name, kind) = what;
        Decl { id: self.decl_id(), annotations, kind, name, span: start.to(self.before()) }
    }

    /// Runs `f` in a new scope for names of types.
    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.types.push(Default::default());
        let result = f(self);
        self.types.pop();
        result
    }

    /// Parses `{ … }`: elements that `f` parses.
    fn braced<T>(&mut self, mut f: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.is("}") && !self.at_end() {
            items.push(f(self)?);
        }
        self.expect("}")?;
        Ok(items)
    }

    /// Parses `{ … }`. A mistake in one element does not lose the others.
    fn braced_members<T>(&mut self, mut f: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let members = self.braced(|p| {
            let at = p.at;
            let member = f(p);
            if member.is_err() {
                p.recover(at);
            }
            Ok(member.ok())
        })?;
        Ok(members.into_iter().flatten().collect())
    }

    /// Parses a name. It is the name of a type from here on.
    fn type_name(&mut self, what: &str) -> Parsed<Name> {
        let name = self.name(what)?;
        self.declare_type(&name);
        Ok(name)
    }

    fn constant(&mut self) -> Parsed<Declared> {
        self.bump();
        let ty = self.parse_type()?;
        let (ty, name) = self.declarator(ty, "a constant")?;
        self.expect("=")?;
        let value = self.expression()?;
        self.expect(";")?;
        Ok((name, DeclKind::Const { ty, value }))
    }

    fn function_or_variable(&mut self) -> Parsed<Declared> {
        if !self.declaration_follows() || self.misspelt_keyword() {
            return Err(self.not_a_declaration());
        }
        if !self.function_follows() {
            return self.variable_or_instance();
        }
        let ret = self.parse_type()?;
        let name = self.name("a function")?;
        let kind = self.scoped(|p| {
            let prototype = p.prototype(ret)?;
            Ok(DeclKind::Function { prototype, body: p.block()? })
        })?;
        Ok((name, kind))
    }

    fn prototype(&mut self, ret: Type) -> Parsed<FunctionPrototype> {
        let type_params = self.type_params()?;
        let params = self.parameters()?;
        Ok(FunctionPrototype { ret, type_params, params })
    }

    /// Whether a function follows (`T f(` or `T f<`), and not a variable.
    fn function_follows(&mut self) -> bool {
        let (at, quiet) = (self.at, self.quiet);
        self.quiet = 0;
        let mut scratch = std::mem::take(self.diags);
        let (exprs, decls, depth) = (self.exprs, self.decls, self.depth);
        let found =
            self.parse_type().is_ok() && self.name_at(0) && (self.ahead_is(1, "(") || self.ahead_is(1, "<"));
        std::mem::swap(self.diags, &mut scratch);
        (self.exprs, self.decls, self.depth) = (exprs, decls, depth);
        (self.at, self.quiet) = (at, quiet);
        found
    }

    /// Whether a declaration with a misspelt keyword follows, such as `heder h {` or `contrl c(`.
    fn misspelt_keyword(&self) -> bool {
        let TokenKind::Word(word) = &self.token().kind else { return false };
        let unknown = self.name_at(0) && !self.is_type_name(0) && self.name_at(1);
        unknown
            && (self.ahead_is(2, "{") || self.ahead_is(2, "("))
            && did_you_mean(word, KEYWORDS.split_whitespace()).is_some()
    }

    fn not_a_declaration(&mut self) -> Failed {
        let found = &self.token().kind;
        let d = Diagnostic::error("E0120", self.span(), format!("expected a declaration, found {found}"));
        let TokenKind::Word(word) = found else { return self.fail(d) };
        let hint = match (&**word, did_you_mean(word, KEYWORDS.split_whitespace())) {
            ("apply", _) => "`apply { … }` belongs into a control".to_string(),
            (
                "uint8_t" | "uint16_t" | "uint32_t" | "uint64_t" | "char" | "short" | "long" | "unsigned",
                _,
            ) => "P4 writes integers as `bit<8>`, `bit<32>`, …".to_string(),
            (_, Some(near)) => format!("did you mean `{near}`?"),
            _ => return self.fail(d),
        };
        self.fail(d.hint(hint))
    }

    /// Parses `T x;`, `T x = e;`, `T(args) x;` or `T(args) x = { … };`.
    pub(super) fn variable_or_instance(&mut self) -> Parsed<Declared> {
        let ty = self.parse_type()?;
        if self.is("(") {
            let args = self.arguments()?;
            let (ty, name) = self.declarator(ty, "an instance")?;
            let body = if self.eat("=") { Some(self.braced(|p| p.declaration())?) } else { None };
            self.expect(";")?;
            return Ok((name, DeclKind::Instance { ty, args, body }));
        }
        let variable = self.variable(ty)?;
        self.expect(";")?;
        Ok(variable)
    }

    /// Parses a variable after its type.
    pub(super) fn variable(&mut self, ty: Type) -> Parsed<Declared> {
        let (ty, name) = self.declarator(ty, "a variable")?;
        let init = if self.eat("=") { Some(self.expression()?) } else { None };
        Ok((name, DeclKind::Variable { ty, init }))
    }

    fn extern_decl(&mut self) -> Parsed<Declared> {
        self.bump();
        if self.name_at(0) && (self.ahead_is(1, "{") || self.ahead_is(1, "<") && self.extern_object_follows())
        {
            let name = self.type_name("an extern")?;
            let kind = self.scoped(|p| {
                let type_params = p.type_params()?;
                let methods = p.braced(|p| p.scoped(|p| p.extern_method(&name.text)))?;
                Ok(DeclKind::Extern { type_params, methods })
            })?;
            return Ok((name, kind));
        }
        self.scoped(|p| {
            let ret = p.parse_type()?;
            let name = p.name("a function")?;
            let prototype = p.prototype(ret)?;
            p.expect(";")?;
            Ok((name, DeclKind::ExternFunction(prototype)))
        })
    }

    /// Whether `extern E<T> {` follows, and not `extern T f<…>(`.
    fn extern_object_follows(&self) -> bool {
        (2..64).find(|&n| self.ahead_is(n, ">")).is_some_and(|n| self.ahead_is(n + 1, "{"))
    }

    fn extern_method(&mut self, of: &str) -> Parsed<ExternMethod> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_abstract = self.eat_word("abstract");
        let is_constructor =
            matches!(&self.token().kind, TokenKind::Word(w) if &**w == of) && self.ahead_is(1, "(");
        let ret = match is_constructor {
            true => Type { kind: TypeKind::Void, span: self.span() },
            false => self.parse_type()?,
        };
        let name = self.name("a method")?;
        let prototype = self.prototype(ret)?;
        self.expect(";")?;
        let span = start.to(self.before());
        let id = self.decl_id();
        Ok(ExternMethod { id, annotations, is_abstract, is_constructor, name, prototype, span })
    }

    fn action(&mut self) -> Parsed<Declared> {
        self.bump();
        let name = self.name("an action")?;
        let params = self.parameters()?;
        Ok((name, DeclKind::Action { params, body: self.block()? }))
    }

    /// Parses a parser, control or package, whose name is a type. A parser or control without a body is a parser or
    /// control type.
    fn block_decl(&mut self, word: &str) -> Parsed<Declared> {
        self.bump();
        let name = self.type_name(&format!("a {word}"))?;
        let kind = self.scoped(|p| {
            let (type_params, params) = (p.type_params()?, p.parameters()?);
            let built = word != "package" && p.is("(");
            let ctor_params = if built { p.parameters()? } else { Vec::new() };
            let head = Head { type_params, params, ctor_params };
            match word {
                "package" => p.expect(";").map(|_| DeclKind::Package(head)),
                "parser" if !built && p.eat(";") => Ok(DeclKind::ParserType(head)),
                "parser" => p.parser_body(head),
                _ if !built && p.eat(";") => Ok(DeclKind::ControlType(head)),
                _ => p.control_body(head, &name),
            }
        })?;
        Ok((name, kind))
    }

    fn parser_body(&mut self, head: Head) -> Parsed<DeclKind> {
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        self.braced_members(|p| {
            if p.state_follows() {
                states.push(p.state()?);
            } else {
                locals.push(p.declaration()?);
            }
            Ok(())
        })?;
        Ok(DeclKind::Parser(ParserDecl { head, locals, states }))
    }

    fn state_follows(&self) -> bool {
        let mut n = 0;
        // Annotations may come before a state. Skips to the first word at bracket depth 0 that does not follow an `@`.
        let mut depth = 0;
        while self.ahead_is(n, "@") || depth > 0 {
            n += if self.ahead_is(n, "@") { 2 } else { 1 };
            while self.ahead_is(n, "(") || self.ahead_is(n, "[") || depth > 0 {
                match self.ahead(n).kind {
                    TokenKind::Punct("(" | "[") => depth += 1,
                    TokenKind::Punct(")" | "]") => depth -= 1,
                    TokenKind::Eof => return false,
                    _ => {}
                }
                n += 1;
            }
        }
        matches!(&self.ahead(n).kind, TokenKind::Word(w) if &**w == "state")
    }

    fn state(&mut self) -> Parsed<StateDecl> {
        let start = self.span();
        let annotations = self.annotations()?;
        self.expect_word("state")?;
        let name = self.name("a state")?;
        self.expect("{")?;
        let (body, transition) = self.scoped(|p| {
            let body = p.statements_until_brace();
            let transition = if p.is_word("transition") { Some(p.transition()?) } else { None };
            Ok((body, transition))
        })?;
        if !self.is("}") && transition.is_some() {
            let hint = "`transition` is the last statement of a state";
            return self.wrong("E0121", self.span(), "a statement after `transition`", hint);
        }
        self.expect("}")?;
        let (id, span) = (self.decl_id(), start.to(self.before()));
        Ok(StateDecl { id, annotations, name, body, transition, span })
    }

    fn transition(&mut self) -> Parsed<Transition> {
        let start = self.expect_word("transition")?;
        if !self.is_word("select") {
            let name = self.name("a state")?;
            self.expect(";")?;
            return Ok(Transition::State(name));
        }
        self.bump();
        self.expect("(")?;
        let keys = self.list(")", |p| p.expression())?;
        let cases = self.braced(|p| {
            let at = p.span();
            p.chained = 0;
            let keyset = p.keyset()?;
            p.expect(":")?;
            let state = p.name("a state")?;
            p.expect(";")?;
            Ok(SelectCase { keyset, state, span: at.to(p.before()) })
        })?;
        // The specification has no `;` here, but many programs have one.
        self.eat(";");
        Ok(Transition::Select { keys, cases, span: start.to(self.before()) })
    }

    fn control_body(&mut self, head: Head, name: &Name) -> Parsed<DeclKind> {
        let mut locals = Vec::new();
        let mut apply = None;
        self.braced_members(|p| {
            if p.is_word("apply") && !p.ahead_is(1, "(") {
                p.bump();
                apply = Some(BlockStmt::default());
                apply = Some(p.block()?);
            } else {
                locals.push(p.declaration()?);
            }
            Ok(())
        })?;
        let Some(apply) = apply else {
            let text = format!("control `{}` has no `apply` block", name.text);
            return self.wrong("E0122", name.span, text, "add `apply { }` at its end");
        };
        Ok(DeclKind::Control(ControlDecl { head, locals, apply }))
    }

    fn aggregate(&mut self, word: &str) -> Parsed<Declared> {
        self.bump();
        let name = self.type_name(&format!("a {word}"))?;
        let kind = self.scoped(|p| {
            let type_params = p.type_params()?;
            let fields = p.braced_members(|p| p.field())?;
            Ok(match word {
                "struct" => DeclKind::Struct { type_params, fields },
                "header" => DeclKind::Header { type_params, fields },
                _ => DeclKind::HeaderUnion { type_params, fields },
            })
        })?;
        Ok((name, kind))
    }

    fn field(&mut self) -> Parsed<FieldDecl> {
        let annotations = self.annotations()?;
        if !self.declaration_follows() && self.name_at(0) && self.ahead_is(1, ";") {
            return self.wrong("E0123", self.span(), "a field without a type", "write `bit<8> name;`");
        }
        let ty = self.parse_type()?;
        let (ty, name) = self.declarator(ty, "a field")?;
        self.expect(";")?;
        Ok(FieldDecl { id: self.decl_id(), annotations, ty, name })
    }

    fn enumeration(&mut self) -> Parsed<Declared> {
        self.bump();
        let typed = self.builtin_type_at(0) || self.name_at(0) && self.name_at(1) || self.is(".");
        let ty = if typed { Some(self.parse_type()?) } else { None };
        let name = self.type_name("an enum")?;
        let members = self.members()?;
        Ok((name, DeclKind::Enum { ty, members }))
    }

    fn members_of(&mut self, word: &str) -> Parsed<Declared> {
        let span = self.bump().span;
        let members = self.members()?;
        let kind =
            if word == "error" { DeclKind::Error { members } } else { DeclKind::MatchKind { members } };
        Ok((Name { text: String::new(), span }, kind))
    }

    fn members(&mut self) -> Parsed<Vec<EnumMember>> {
        self.expect("{")?;
        self.list("}", |p| {
            let annotations = p.annotations()?;
            let name = p.name("a member")?;
            let value = if p.eat("=") { Some(p.expression()?) } else { None };
            Ok(EnumMember { id: p.decl_id(), annotations, name, value })
        })
    }

    fn typedef(&mut self, fresh: bool) -> Parsed<Declared> {
        self.bump();
        let ty = self.typedef_source()?;
        let (ty, name) = self.declarator(ty, "a type")?;
        self.declare_type(&name);
        self.expect(";")?;
        Ok((name, if fresh { DeclKind::NewType(ty) } else { DeclKind::Typedef(ty) }))
    }

    /// Parses the type of a `typedef`, which may be a declaration.
    fn typedef_source(&mut self) -> Parsed<Type> {
        let start = self.span();
        let word = match &self.token().kind {
            TokenKind::Word(w) => w.clone(),
            _ => return self.parse_type(),
        };
        let decl = match &*word {
            "struct" | "header" | "header_union" => self.aggregate(&word)?,
            "enum" => self.enumeration()?,
            _ => return self.parse_type(),
        };
        let decl = self.finish(Vec::new(), decl, start);
        let kind = TypeKind::Named { global: false, name: decl.name.clone(), args: Vec::new() };
        self.extra.push(decl);
        Ok(Type { kind, span: start.to(self.before()) })
    }

    /// Parses a forward declaration `extern E;`. It only makes `E` the name of a type.
    pub(super) fn forward_declaration(&mut self) -> bool {
        let found = self.is_word("extern") && self.name_at(1) && self.ahead_is(2, ";");
        if found {
            self.bump();
            if let Ok(name) = self.name("an extern") {
                self.declare_type(&name);
            }
            self.bump();
        }
        found
    }

    fn value_set(&mut self) -> Parsed<Declared> {
        let start = self.bump().span;
        let mut types = self.type_args()?;
        let (Some(ty), true) = (types.pop(), types.is_empty()) else {
            return self.wrong("E0113", start, "`value_set` takes one type", "`value_set<bit<16>>(4) name;`");
        };
        self.expect("(")?;
        let size = self.expression()?;
        self.expect(")")?;
        let name = self.name("a value set")?;
        self.expect(";")?;
        Ok((name, DeclKind::ValueSet { ty, size }))
    }

    fn table(&mut self) -> Parsed<Declared> {
        self.bump();
        let name = self.name("a table")?;
        let properties = self.braced_members(|p| p.property())?;
        Ok((name, DeclKind::Table(TableDecl { properties })))
    }

    fn property(&mut self) -> Parsed<TableProperty> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let name = self.name("a table property")?;
        self.expect("=")?;
        let value = match name.text.as_str() {
            "key" => PropertyValue::Key(self.braced_list(|p| p.key_element())?),
            "actions" => PropertyValue::Actions(self.braced_list(|p| p.action_ref())?),
            "entries" => PropertyValue::Entries(self.braced_list(|p| p.entry())?),
            _ => {
                let value = self.expression()?;
                self.expect(";")?;
                PropertyValue::Expr(value)
            }
        };
        Ok(TableProperty { annotations, is_const, name, value, span: start.to(self.before()) })
    }

    fn braced_list<T>(&mut self, mut f: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let items = self.braced(|p| {
            p.chained = 0;
            f(p)
        })?;
        self.eat(";");
        Ok(items)
    }

    fn key_element(&mut self) -> Parsed<KeyElement> {
        let expr = self.expression()?;
        if !self.is(":") {
            let d = Diagnostic::error("E0124", self.before().after(), "a key without its match kind")
                .hint("write `hdr.ipv4.dstAddr : exact;` (or lpm, ternary, …)");
            let failed = self.fail(d);
            if !self.is(";") {
                return Err(failed);
            }
            // The rest of the table is parsed. An empty name means that the match kind is missing.
            let match_kind = Name { text: String::new(), span: self.before().after() };
            self.bump();
            return Ok(KeyElement { annotations: Vec::new(), expr, match_kind });
        }
        self.bump();
        let match_kind = self.name("a match kind")?;
        let annotations = self.annotations()?;
        self.expect(";")?;
        Ok(KeyElement { annotations, expr, match_kind })
    }

    fn action_ref(&mut self) -> Parsed<ActionRef> {
        let annotations = self.annotations()?;
        let expr = self.expression()?;
        if self.is(",") {
            let d = Diagnostic::error("E0125", self.span(), "actions are separated by `;`")
                .hint("write `actions = { a; b; }`");
            return Err(self.fail(d));
        }
        self.expect(";")?;
        Ok(ActionRef { annotations, expr })
    }

    fn entry(&mut self) -> Parsed<EntryDecl> {
        let start = self.span();
        let mut annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let priority = if self.is_word("priority") && self.ahead_is(1, "=") {
            self.bump();
            self.bump();
            let priority = self.expression()?;
            self.expect(":")?;
            Some(priority)
        } else {
            None
        };
        let keyset = self.keyset()?;
        self.expect(":")?;
        let action = self.expression()?;
        annotations.extend(self.annotations()?);
        self.expect(";")?;
        Ok(EntryDecl { annotations, is_const, priority, keyset, action, span: start.to(self.before()) })
    }
}
