//! Declarations.

use super::{Failed, Parsed, Parser};
use crate::ast::*;
use crate::diag::{Diagnostic, did_you_mean};
use crate::lexer::TokenKind;
use crate::source::Span;

/// Words that begin a declaration.
const KEYWORDS: &[&str] = &[
    "header",
    "struct",
    "header_union",
    "enum",
    "typedef",
    "const",
    "parser",
    "control",
    "action",
    "table",
    "extern",
    "package",
    "state",
    "error",
];

impl Parser<'_> {
    /// Any declaration that begins with a keyword, or a function, variable or instance.
    pub(super) fn declaration(&mut self) -> Parsed<Decl> {
        let links = std::mem::take(&mut self.links);
        let result = self.deeper(|p| p.declaration_here());
        self.links = links;
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
        match &*word {
            "const" => self.constant(annotations, start),
            "extern" => self.extern_decl(annotations, start),
            "action" => self.action(annotations, start),
            "parser" => self.parser_decl(annotations, start),
            "control" => self.control(annotations, start),
            "package" => self.package(annotations, start),
            "struct" | "header" | "header_union" => self.aggregate(&word, annotations, start),
            "enum" => self.enumeration(annotations, start),
            "error" if self.ahead_is(1, "{") => self.members_of(annotations, start),
            "match_kind" if self.ahead_is(1, "{") => self.members_of(annotations, start),
            "typedef" => self.typedef(annotations, start, false),
            "type" if !self.ahead_is(1, "(") && !self.ahead_is(1, "<") => {
                self.typedef(annotations, start, true)
            }
            "table" => self.table(annotations, start),
            "value_set" | "valueset" => self.value_set(annotations, start),
            _ => self.function_or_variable(annotations, start),
        }
    }

    fn finish(&mut self, annotations: Vec<Annotation>, name: Name, kind: DeclKind, start: Span) -> Decl {
        Decl { id: self.decl_id(), annotations, kind, name, span: start.to(self.before()) }
    }

    fn constant(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let ty = self.parse_type()?;
        let (ty, name) = self.declarator(ty, "a constant")?;
        self.expect("=")?;
        let value = self.expression()?;
        self.expect(";")?;
        Ok(self.finish(annotations, name, DeclKind::Const { ty, value }, start))
    }

    fn function_or_variable(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        if !self.declaration_follows() || self.misspelt_keyword() {
            return Err(self.not_a_declaration());
        }
        if self.function_follows() {
            let ret = self.parse_type()?;
            let name = self.name("a function")?;
            self.types.push(Default::default());
            let parts = self.function_parts(ret);
            self.types.pop();
            let (prototype, body) = parts?;
            return Ok(self.finish(annotations, name, DeclKind::Function { prototype, body }, start));
        }
        self.variable_or_instance(annotations)
    }

    fn function_parts(&mut self, ret: Type) -> Parsed<(FunctionPrototype, BlockStmt)> {
        let prototype = self.prototype(ret)?;
        Ok((prototype, self.block()?))
    }

    fn prototype(&mut self, ret: Type) -> Parsed<FunctionPrototype> {
        let type_params = self.type_params()?;
        let params = self.parameters()?;
        Ok(FunctionPrototype { ret, type_params, params })
    }

    /// `T f(` or `T f<`: told from a variable by what follows the name.
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

    /// `heder h {`, `contrl c(`: a word that is no type, but nearly begins a declaration.
    fn misspelt_keyword(&self) -> bool {
        let TokenKind::Word(word) = &self.token().kind else { return false };
        let unknown = self.name_at(0) && !self.is_type_name(0) && self.name_at(1);
        unknown
            && (self.ahead_is(2, "{") || self.ahead_is(2, "("))
            && did_you_mean(word, KEYWORDS.iter().copied()).is_some()
    }

    fn not_a_declaration(&mut self) -> Failed {
        let found = &self.token().kind;
        let d = Diagnostic::error("E0120", self.span(), format!("expected a declaration, found {found}"));
        let TokenKind::Word(word) = found else { return self.fail(d) };
        let hint = match (&**word, did_you_mean(word, KEYWORDS.iter().copied())) {
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

    /// `T x;`, `T x = e;`, `T(args) x;`, `T(args) x = { … };`
    pub(super) fn variable_or_instance(&mut self, annotations: Vec<Annotation>) -> Parsed<Decl> {
        let start = annotations.first().map_or(self.span(), |a| a.span);
        let ty = self.parse_type()?;
        if self.is("(") {
            let args = self.arguments()?;
            let (ty, name) = self.declarator(ty, "an instance")?;
            let body = if self.eat("=") { Some(self.instance_body()?) } else { None };
            self.expect(";")?;
            return Ok(self.finish(annotations, name, DeclKind::Instance { ty, args, body }, start));
        }
        let (ty, name) = self.declarator(ty, "a variable")?;
        let init = if self.eat("=") { Some(self.expression()?) } else { None };
        self.expect(";")?;
        Ok(self.finish(annotations, name, DeclKind::Variable { ty, init }, start))
    }

    fn instance_body(&mut self) -> Parsed<Vec<Decl>> {
        self.expect("{")?;
        let mut decls = Vec::new();
        while !self.is("}") && !self.at_end() {
            decls.push(self.declaration()?);
        }
        self.expect("}")?;
        Ok(decls)
    }

    fn extern_decl(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        if self.name_at(0) && (self.ahead_is(1, "{") || self.ahead_is(1, "<") && self.extern_object_follows())
        {
            let name = self.name("an extern")?;
            self.declare_type(&name);
            self.types.push(Default::default());
            let body = self.extern_body(&name);
            self.types.pop();
            let (type_params, methods) = body?;
            return Ok(self.finish(annotations, name, DeclKind::Extern { type_params, methods }, start));
        }
        self.types.push(Default::default());
        let function = self.extern_function();
        self.types.pop();
        let (name, prototype) = function?;
        Ok(self.finish(annotations, name, DeclKind::ExternFunction(prototype), start))
    }

    /// Distinguishes `extern E<T> {` from `extern T f<…>(`.
    fn extern_object_follows(&self) -> bool {
        (2..64).find(|&n| self.ahead_is(n, ">")).is_some_and(|n| self.ahead_is(n + 1, "{"))
    }

    fn extern_function(&mut self) -> Parsed<(Name, FunctionPrototype)> {
        let ret = self.parse_type()?;
        let name = self.name("a function")?;
        let prototype = self.prototype(ret)?;
        self.expect(";")?;
        Ok((name, prototype))
    }

    fn extern_body(&mut self, name: &Name) -> Parsed<(Vec<TypeParam>, Vec<ExternMethod>)> {
        let type_params = self.type_params()?;
        self.expect("{")?;
        let mut methods = Vec::new();
        while !self.is("}") && !self.at_end() {
            self.types.push(Default::default());
            let method = self.extern_method(&name.text);
            self.types.pop();
            methods.push(method?);
        }
        self.expect("}")?;
        Ok((type_params, methods))
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
        Ok(ExternMethod {
            id: self.decl_id(),
            annotations,
            is_abstract,
            is_constructor,
            name,
            prototype,
            span,
        })
    }

    fn action(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let name = self.name("an action")?;
        let params = self.parameters()?;
        let body = self.block()?;
        Ok(self.finish(annotations, name, DeclKind::Action { params, body }, start))
    }

    fn package(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let name = self.name("a package")?;
        self.declare_type(&name);
        self.types.push(Default::default());
        let head = self.generic_head();
        self.types.pop();
        let (type_params, params) = head?;
        self.expect(";")?;
        Ok(self.finish(annotations, name, DeclKind::Package { type_params, params }, start))
    }

    fn generic_head(&mut self) -> Parsed<(Vec<TypeParam>, Vec<Parameter>)> {
        let type_params = self.type_params()?;
        Ok((type_params, self.parameters()?))
    }

    fn parser_decl(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let name = self.name("a parser")?;
        self.declare_type(&name);
        self.types.push(Default::default());
        let kind = self.parser_rest();
        self.types.pop();
        let kind = kind?;
        Ok(self.finish(annotations, name, kind, start))
    }

    fn parser_rest(&mut self) -> Parsed<DeclKind> {
        let (type_params, params) = self.generic_head()?;
        if self.eat(";") {
            return Ok(DeclKind::ParserType { type_params, params });
        }
        let ctor_params = if self.is("(") { self.parameters()? } else { Vec::new() };
        self.expect("{")?;
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        while !self.is("}") && !self.at_end() {
            let at = self.at;
            let failed = if self.state_follows() {
                self.state().map(|s| states.push(s)).is_err()
            } else {
                self.declaration().map(|d| locals.push(d)).is_err()
            };
            self.step_over(failed, at);
        }
        self.expect("}")?;
        Ok(DeclKind::Parser(ParserDecl { type_params, params, ctor_params, locals, states }))
    }

    /// After a mistake in a body: on to something that can be parsed, and never standing still.
    fn step_over(&mut self, failed: bool, at: usize) {
        if failed {
            self.recover(at);
        }
    }

    fn state_follows(&self) -> bool {
        let mut n = 0;
        // Annotations before a state: to the first word at bracket depth 0 that follows no `@`.
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
        self.types.push(Default::default());
        let body = self.statements_until_brace();
        let transition = if self.is_word("transition") { self.transition().map(Some) } else { Ok(None) };
        self.types.pop();
        let transition = transition?;
        if !self.is("}") && transition.is_some() {
            let d = Diagnostic::error("E0121", self.span(), "a statement after `transition`")
                .hint("`transition` is the last statement of a state");
            return Err(self.fail(d));
        }
        self.expect("}")?;
        Ok(StateDecl {
            id: self.decl_id(),
            annotations,
            name,
            body,
            transition,
            span: start.to(self.before()),
        })
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
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.is("}") && !self.at_end() {
            let at = self.span();
            self.links = 0;
            let keyset = self.keyset()?;
            self.expect(":")?;
            let state = self.name("a state")?;
            self.expect(";")?;
            cases.push(SelectCase { keyset, state, span: at.to(self.before()) });
        }
        self.expect("}")?;
        // The specification has no `;` here; many programs write one all the same.
        self.eat(";");
        Ok(Transition::Select { keys, cases, span: start.to(self.before()) })
    }

    fn control(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let name = self.name("a control")?;
        self.declare_type(&name);
        self.types.push(Default::default());
        let kind = self.control_rest(&name);
        self.types.pop();
        let kind = kind?;
        Ok(self.finish(annotations, name, kind, start))
    }

    fn control_rest(&mut self, name: &Name) -> Parsed<DeclKind> {
        let (type_params, params) = self.generic_head()?;
        if self.eat(";") {
            return Ok(DeclKind::ControlType { type_params, params });
        }
        let ctor_params = if self.is("(") { self.parameters()? } else { Vec::new() };
        self.expect("{")?;
        let mut locals = Vec::new();
        let mut apply = None;
        while !self.is("}") && !self.at_end() {
            let at = self.at;
            let failed = if self.is_word("apply") && !self.ahead_is(1, "(") {
                self.bump();
                let block = self.block();
                let failed = block.is_err();
                apply = Some(block.unwrap_or_default());
                failed
            } else {
                self.declaration().map(|d| locals.push(d)).is_err()
            };
            self.step_over(failed, at);
        }
        self.expect("}")?;
        let Some(apply) = apply else {
            let text = format!("control `{}` has no `apply` block", name.text);
            let d = Diagnostic::error("E0122", name.span, text).hint("add `apply { }` at its end");
            return Err(self.fail(d));
        };
        Ok(DeclKind::Control(ControlDecl { type_params, params, ctor_params, locals, apply }))
    }

    fn aggregate(&mut self, word: &str, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let name = self.name(&format!("a {word}"))?;
        self.declare_type(&name);
        self.types.push(Default::default());
        let parts = self.aggregate_body();
        self.types.pop();
        let (type_params, fields) = parts?;
        let kind = match word {
            "struct" => DeclKind::Struct { type_params, fields },
            "header" => DeclKind::Header { type_params, fields },
            _ => DeclKind::HeaderUnion { type_params, fields },
        };
        Ok(self.finish(annotations, name, kind, start))
    }

    fn aggregate_body(&mut self) -> Parsed<(Vec<TypeParam>, Vec<FieldDecl>)> {
        let type_params = self.type_params()?;
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.is("}") && !self.at_end() {
            let at = self.at;
            let failed = self.field().map(|f| fields.push(f)).is_err();
            self.step_over(failed, at);
        }
        self.expect("}")?;
        Ok((type_params, fields))
    }

    fn field(&mut self) -> Parsed<FieldDecl> {
        let annotations = self.annotations()?;
        if !self.declaration_follows() && self.name_at(0) && self.ahead_is(1, ";") {
            let d = Diagnostic::error("E0123", self.span(), "a field without a type")
                .hint("write `bit<8> name;`");
            return Err(self.fail(d));
        }
        let ty = self.parse_type()?;
        let (ty, name) = self.declarator(ty, "a field")?;
        self.expect(";")?;
        Ok(FieldDecl { id: self.decl_id(), annotations, ty, name })
    }

    fn enumeration(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let typed = self.builtin_type_at(0) || self.name_at(0) && self.name_at(1) || self.is(".");
        let ty = if typed { Some(self.parse_type()?) } else { None };
        let name = self.name("an enum")?;
        self.declare_type(&name);
        let members = self.members()?;
        let kind = match ty {
            Some(ty) => DeclKind::SerEnum { ty, members },
            None => DeclKind::Enum { members },
        };
        Ok(self.finish(annotations, name, kind, start))
    }

    fn members_of(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        let is_error = self.is_word("error");
        let span = self.bump().span;
        let members = self.members()?;
        let kind = if is_error { DeclKind::Error { members } } else { DeclKind::MatchKind { members } };
        Ok(self.finish(annotations, Name { text: String::new(), span }, kind, start))
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

    fn typedef(&mut self, annotations: Vec<Annotation>, start: Span, fresh: bool) -> Parsed<Decl> {
        self.bump();
        let ty = self.typedef_source()?;
        let (ty, name) = self.declarator(ty, "a type")?;
        self.declare_type(&name);
        self.expect(";")?;
        let kind = if fresh { DeclKind::NewType(ty) } else { DeclKind::Typedef(ty) };
        Ok(self.finish(annotations, name, kind, start))
    }

    /// The type that a `typedef` names; it may be declared right there.
    fn typedef_source(&mut self) -> Parsed<Type> {
        let start = self.span();
        let word = match &self.token().kind {
            TokenKind::Word(w) => w.clone(),
            _ => return self.parse_type(),
        };
        let decl = match &*word {
            "struct" | "header" | "header_union" => self.aggregate(&word, Vec::new(), start)?,
            "enum" => self.enumeration(Vec::new(), start)?,
            _ => return self.parse_type(),
        };
        let kind = TypeKind::Named { global: false, name: decl.name.clone(), args: Vec::new() };
        self.extra.push(decl);
        Ok(Type { kind, span: start.to(self.before()) })
    }

    /// `extern E;` declares nothing that is not declared again later, but that `E` is a type.
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

    fn value_set(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let mut types = self.type_args()?;
        let (Some(ty), true) = (types.pop(), types.is_empty()) else {
            let d = Diagnostic::error("E0113", start, "`value_set` takes one type")
                .hint("`value_set<bit<16>>(4) name;`");
            return Err(self.fail(d));
        };
        self.expect("(")?;
        let size = self.expression()?;
        self.expect(")")?;
        let name = self.name("a value set")?;
        self.expect(";")?;
        Ok(self.finish(annotations, name, DeclKind::ValueSet { ty, size }, start))
    }

    fn table(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<Decl> {
        self.bump();
        let name = self.name("a table")?;
        self.expect("{")?;
        let mut properties = Vec::new();
        while !self.is("}") && !self.at_end() {
            let at = self.at;
            let failed = self.property().map(|p| properties.push(p)).is_err();
            self.step_over(failed, at);
        }
        self.expect("}")?;
        Ok(self.finish(annotations, name, DeclKind::Table(TableDecl { properties }), start))
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
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.is("}") && !self.at_end() {
            self.links = 0;
            items.push(f(self)?);
        }
        self.expect("}")?;
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
            // The rest of the table can still be read; an empty name says that the kind is missing.
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
