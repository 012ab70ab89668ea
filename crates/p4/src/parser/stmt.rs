//! Parses statements.

use super::{Attempt, Failed, Parsed, Parser};
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::lexer::TokenKind;
use crate::source::Span;

impl Parser<'_> {
    /// Parses a block `{ … }`. A mistake in one statement does not lose the others.
    pub(super) fn block(&mut self) -> Parsed<BlockStmt> {
        self.nested(|p| {
            let annotations = p.annotations()?;
            let start = p.expect("{")?;
            let stmts = p.scoped(|p| p.statements_until_brace());
            let end = if p.member_begins() { p.not_closed(start) } else { p.expect("}")? };
            Ok(BlockStmt { annotations, stmts, span: start.to(end) })
        })
    }

    pub(super) fn statements_until_brace(&mut self) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        while !self.is("}") && !self.at_end() && !self.is_word("transition") && !self.member_begins() {
            let start = self.at;
            match self.statement() {
                Ok(stmt) => stmts.push(stmt),
                Err(Failed) => self.recover(start),
            }
        }
        stmts
    }

    /// Whether a member of a control begins here, which cannot be inside of a statement.
    fn member_begins(&self) -> bool {
        let word = |w: &str| self.is_word(w) && self.token().first;
        (word("table") && self.name_at(1) && self.ahead_is(2, "{"))
            || (word("action") && self.name_at(1) && self.ahead_is(2, "("))
            || (word("apply") && self.ahead_is(1, "{"))
    }

    /// Reports a block without its `}`. Parsing continues with the next member of the control.
    fn not_closed(&mut self, open: Span) -> Span {
        let end = self.before().after();
        let text = format!("expected `}}`, found {}, which cannot stand in a block", self.token().kind);
        let d = Diagnostic::error("E0110", end, text).label("`}` is missing here");
        let _ = self.fail(d.also(open, "this is not closed"));
        end
    }

    pub(super) fn statement(&mut self) -> Parsed<Stmt> {
        // Statements are siblings in the tree, so their chains do not add up.
        let chained = std::mem::take(&mut self.chained);
        let result = self.nested(|p| p.statement_here());
        self.chained = chained;
        result
    }

    fn statement_here(&mut self) -> Parsed<Stmt> {
        let start = self.span();
        let word = match &self.token().kind {
            TokenKind::Word(w) => w.clone(),
            TokenKind::Punct("{") => {
                let block = self.block()?;
                return Ok(Stmt { span: block.span, kind: StmtKind::Block(block) });
            }
            TokenKind::Punct("@") => return self.annotated(start),
            TokenKind::Punct(";") => {
                self.bump();
                return Ok(Stmt { kind: StmtKind::Empty, span: start });
            }
            TokenKind::Punct("." | "(") => "".into(),
            other => {
                let d = Diagnostic::error("E0118", start, format!("expected a statement, found {other}"));
                return Err(self.fail(d));
            }
        };
        let kind = match &*word {
            "if" => self.if_statement()?,
            "switch" => self.switch()?,
            "for" => self.for_loop(Vec::new())?,
            "break" => self.keyword(StmtKind::Break)?,
            "continue" => self.keyword(StmtKind::Continue)?,
            "exit" => self.keyword(StmtKind::Exit)?,
            "return" => {
                self.bump();
                let value = if self.is(";") { None } else { Some(self.expression()?) };
                self.expect(";")?;
                StmtKind::Return(value)
            }
            "const" => StmtKind::Decl(Box::new(self.declaration()?)),
            "while" | "do" | "goto" if self.c_statement_follows() => {
                let hint = "`for (bit<8> i in 0 .. 9) { … }` repeats a known number of times";
                return self.wrong("E0119", start, format!("P4 has no `{word}`"), hint);
            }
            "elif" | "elsif" | "elseif" if self.ahead_is(1, "(") => {
                let d = Diagnostic::error("E0119", start, format!("P4 has no `{word}`"));
                let _ = self.fail(d.hint("write `else if (…) { … }`"));
                self.if_statement()?
            }
            "else" => {
                let hint = "is there a `;` or a `}` too many before it?";
                return self.wrong("E0119", start, "`else` without an `if` before it", hint);
            }
            _ if self.declaration_follows() => self.local(Vec::new(), start)?,
            _ => self.assignment_or_call()?,
        };
        Ok(Stmt { kind, span: start.to(self.before()) })
    }

    /// Whether a statement of C follows: `while (`, `do {`, `goto x`. These words are names in P4, but no name is used
    /// so.
    fn c_statement_follows(&self) -> bool {
        match self.ahead(1).kind {
            TokenKind::Punct("(") => self.is_word("while"),
            TokenKind::Punct("{") => self.is_word("do"),
            _ => self.is_word("goto") && self.name_at(1),
        }
    }

    fn keyword(&mut self, kind: StmtKind) -> Parsed<StmtKind> {
        self.bump();
        self.expect(";")?;
        Ok(kind)
    }

    fn annotated(&mut self, start: Span) -> Parsed<Stmt> {
        let annotations = self.annotations()?;
        let kind = match () {
            () if self.is("{") => StmtKind::Block(BlockStmt { annotations, ..self.block()? }),
            () if self.is_word("for") => self.for_loop(annotations)?,
            () if self.is_word("const") => {
                let mut decl = self.declaration()?;
                decl.annotations.splice(0..0, annotations);
                StmtKind::Decl(Box::new(decl))
            }
            () if self.declaration_follows() => self.local(annotations, start)?,
            () => return self.statement(),
        };
        Ok(Stmt { kind, span: start.to(self.before()) })
    }

    fn local(&mut self, annotations: Vec<Annotation>, start: Span) -> Parsed<StmtKind> {
        let declared = self.variable_or_instance()?;
        Ok(StmtKind::Decl(Box::new(self.finish(annotations, declared, start))))
    }

    /// Whether a declaration `T x` follows. `T` may have type arguments, sizes and constructor arguments; the name
    /// behind them decides.
    pub(super) fn declaration_follows(&self) -> bool {
        let mut n = usize::from(self.ahead_is(0, "."));
        let builtin = self.builtin_type_at(n) && !(self.ahead_is(n + 1, "."));
        if !builtin
            && !self.name_at(n)
            && !matches!(&self.ahead(n).kind, TokenKind::Word(w) if &**w == "list")
        {
            return false;
        }
        n += 1;
        for (open, close) in [("<", ">"), ("[", "]")] {
            while self.ahead_is(n, open) {
                let Some(end) = self.matching(n, open, close) else { return false };
                n = end + 1;
            }
        }
        if self.ahead_is(n, "(") {
            return self.matching(n, "(", ")").is_some_and(|end| self.name_at(end + 1));
        }
        matches!(self.ahead(n).kind, TokenKind::Word(_)) && !self.ahead(n).first || builtin
    }

    /// The index of the bracket that closes the one at index `n`. There is no `;` or brace between them.
    fn matching(&self, n: usize, open: &str, close: &str) -> Option<usize> {
        let mut depth = 0;
        for i in n..n + 4096 {
            match &self.ahead(i).kind {
                TokenKind::Punct(p) if *p == open => depth += 1,
                TokenKind::Punct(p) if *p == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                TokenKind::Punct(";") | TokenKind::Eof => return None,
                TokenKind::Punct("{" | "}" | "&&" | "||" | "==" | "=") if open == "<" => return None,
                _ => {}
            }
        }
        None
    }

    fn assignment_or_call(&mut self) -> Parsed<StmtKind> {
        let start = self.span();
        // `a < b` is no statement, so `<` after an lvalue begins type arguments or is a mistake.
        let target = self.additive()?;
        if self.eat(";") {
            return match target.kind {
                ExprKind::Call { callee, args, .. } if is_type_apply(&callee, self) => {
                    Ok(direct_apply(*callee, args))
                }
                ExprKind::Call { .. } => Ok(StmtKind::Call(target)),
                _ => {
                    let d = Diagnostic::error("E0118", start, "this statement does nothing")
                        .hint("a statement is an assignment or a call; a call has parentheses: `f();`");
                    let _ = self.fail(d);
                    Ok(StmtKind::Empty)
                }
            };
        }
        let Some(op) = self.assignment_operator() else {
            self.expect(";")?;
            return Ok(StmtKind::Empty);
        };
        let value = self.expression()?;
        self.expect(";")?;
        Ok(StmtKind::Assign { target, op, value })
    }

    /// The operator of an assignment: `Some(None)` for `=`, `Some(Some(op))` for `+=` and others, `None` if there is no
    /// assignment.
    fn assignment_operator(&mut self) -> Option<Option<BinaryOp>> {
        let TokenKind::Punct(punct) = self.token().kind else { return None };
        let op = match punct {
            "=" => None,
            ">" if self.ahead_is(1, ">=") && !self.ahead(1).spaced => {
                self.bump();
                Some(BinaryOp::Shr)
            }
            // Comparisons end with `=` too.
            _ => {
                let mut arithmetic = BinaryOp::LEVELS[4..].iter().copied().flatten();
                let text = punct.strip_suffix('=')?;
                Some(arithmetic.find(|(op, _)| *op == text)?.1)
            }
        };
        self.bump();
        Some(op)
    }

    fn if_statement(&mut self) -> Parsed<StmtKind> {
        self.bump();
        self.expect("(")?;
        let cond = self.expression()?;
        self.expect(")")?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.eat_word("else") { Some(Box::new(self.statement()?)) } else { None };
        Ok(StmtKind::If { cond, then, otherwise })
    }

    fn switch(&mut self) -> Parsed<StmtKind> {
        self.bump();
        self.expect("(")?;
        let on = self.expression()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.is("}") && !self.at_end() {
            let start = self.span();
            let label = if self.eat_word("default") { None } else { Some(self.simple_label()?) };
            self.expect(":")?;
            let body = if self.is("{") || self.is("@") { Some(self.block()?) } else { None };
            cases.push(SwitchCase { label, body, span: start.to(self.before()) });
        }
        self.expect("}")?;
        Ok(StmtKind::Switch { on, cases })
    }

    fn simple_label(&mut self) -> Parsed<Expr> {
        if self.is_word("case") {
            let hint = "write the label alone: `my_action: { … }`";
            return self.wrong("E0119", self.span(), "P4 has no `case`", hint);
        }
        self.expression()
    }

    fn for_loop(&mut self, annotations: Vec<Annotation>) -> Parsed<StmtKind> {
        self.bump();
        self.expect("(")?;
        if self.name_at(0) && matches!(&self.ahead(1).kind, TokenKind::Word(w) if &**w == "in") {
            let text = "the variable of a `for … in` is declared in it";
            let name = self.token().kind.text();
            let d = Diagnostic::error("E0118", self.token().span, text);
            return Err(self.fail(d.hint(format!("write its type: `for (bit<8> {name} in …)`"))));
        }
        self.scoped(|p| match p.attempt(Attempt::ForIn, |p| p.for_in_head()) {
            Some(variable) => p.for_in(annotations, variable),
            None => p.for_classic(annotations),
        })
    }

    /// Parses `T x in`.
    fn for_in_head(&mut self) -> Parsed<ForVariable> {
        self.annotations()?;
        if !self.declaration_follows() {
            return Err(Failed);
        }
        let quiet = std::mem::take(&mut self.quiet);
        let ty = self.parse_type();
        self.quiet = quiet;
        let name = self.name("a variable")?;
        let variable = ForVariable { id: self.decl_id(), ty: ty?, name };
        self.expect_word("in")?;
        Ok(variable)
    }

    fn for_in(&mut self, annotations: Vec<Annotation>, variable: ForVariable) -> Parsed<StmtKind> {
        let mut over = self.expression()?;
        if self.eat("..") {
            let right = self.expression()?;
            over = self.joined(BinaryOp::Range, over, right);
        }
        self.expect(")")?;
        let body = Box::new(self.statement()?);
        Ok(StmtKind::ForIn { annotations, variable: Box::new(variable), over, body })
    }

    fn for_classic(&mut self, annotations: Vec<Annotation>) -> Parsed<StmtKind> {
        let init = self.for_statements(";", true)?;
        let cond = self.expression()?;
        self.expect(";")?;
        let update = self.for_statements(")", false)?;
        let body = Box::new(self.statement()?);
        Ok(StmtKind::For { annotations, init, cond, update, body })
    }

    /// Parses the statements of a `for` loop, separated by commas: assignments, calls, and first also declarations.
    fn for_statements(&mut self, close: &'static str, declarations: bool) -> Parsed<Vec<Stmt>> {
        self.list(close, |p| {
            let start = p.span();
            if declarations && p.declaration_follows() {
                let annotations = p.annotations()?;
                let ty = p.parse_type()?;
                let declared = p.variable(ty)?;
                let decl = p.finish(annotations, declared, start);
                return Ok(Stmt { span: decl.span, kind: StmtKind::Decl(Box::new(decl)) });
            }
            let target = p.additive()?;
            let kind = match p.assignment_operator() {
                Some(op) => StmtKind::Assign { target, op, value: p.expression()? },
                None => StmtKind::Call(target),
            };
            Ok(Stmt { kind, span: start.to(p.before()) })
        })
    }
}

/// Whether a callee is `T.apply`, where T is a type.
fn is_type_apply(callee: &Expr, parser: &Parser<'_>) -> bool {
    let ExprKind::Member { base, member } = &callee.kind else { return false };
    let typed = match &base.kind {
        ExprKind::Type(_) => true,
        ExprKind::Name { name, .. } => parser.types.iter().any(|s| s.contains(name.text.as_str())),
        _ => false,
    };
    typed && member.text == "apply"
}

fn direct_apply(callee: Expr, args: Vec<Argument>) -> StmtKind {
    let id = callee.id;
    let ty = match callee.kind {
        ExprKind::Member { base, .. } => match base.kind {
            ExprKind::Type(ty) => ty,
            ExprKind::Name { global, name } => {
                Type { span: name.span, kind: TypeKind::Named { global, name, args: Vec::new() } }
            }
            _ => Type { kind: TypeKind::Void, span: base.span },
        },
        _ => Type { kind: TypeKind::Void, span: callee.span },
    };
    StmtKind::DirectApply { id, ty, args }
}
