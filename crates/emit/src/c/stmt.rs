//! The C of statements.

use abi::text::Comment;
use ir::{Block, Call, HeaderRef, LabelId, Loc, Place, Program, Stmt, StmtKind, VarId};

use super::loops::Jump;
use super::{Facts, Home, Names, Text, Unit, Units, c_type};
use crate::unsupported::Unsupported;

/// The emission of the body of one function.
pub struct Body<'a> {
    /// The program that is emitted.
    pub program: &'a Program,
    /// The C names of the program.
    pub names: &'a Names,
    /// The storage of the program's variables.
    pub units: &'a Units,
    /// The function that is emitted.
    pub unit: Unit,
    /// The text that lines are appended to.
    pub text: &'a mut Text,
    /// The limits of the target that the program exceeds.
    pub problems: &'a mut Vec<Unsupported>,
    /// The facts about the program.
    pub facts: &'a mut Facts,
    /// The location in the P4 source of the code that is emitted now.
    pub loc: Loc,
    /// The label that the parser jumps to when it rejects a packet.
    pub rejected: String,
    /// Whether an emit statement records that it ran.
    pub emits: bool,
    /// The labels of the enclosing blocks and loops that are in the same C function.
    pub(super) labels: Vec<LabelId>,
    /// The loop whose body is the C function that is emitted.
    pub(super) callback: Option<LabelId>,
    /// The text of the functions of loops, which come before the function that is emitted.
    pub(super) functions: String,
    /// File and line of the last P4 line that was emitted as a comment.
    last_line: (u32, u32),
}

impl<'a> Body<'a> {
    /// Starts the body of a function.
    pub fn new(
        program: &'a Program,
        names: &'a Names,
        units: &'a Units,
        unit: Unit,
        text: &'a mut Text,
        problems: &'a mut Vec<Unsupported>,
        facts: &'a mut Facts,
    ) -> Body<'a> {
        Body {
            program,
            names,
            units,
            unit,
            text,
            problems,
            facts,
            loc: Loc::default(),
            rejected: "rejected".into(),
            emits: false,
            labels: Vec::new(),
            callback: None,
            functions: String::new(),
            last_line: (0, 0),
        }
    }

    /// Reports that the target does not support `what`, at the current location.
    pub fn unsupported(&mut self, what: &str, hint: &str) {
        let problem = Unsupported::new(self.loc, format!("{what} is not supported by this target"), hint);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Reports that the target does not support an element of a header stack with an index that is computed at run time here.
    pub fn stack_unsupported(&mut self) {
        self.unsupported(
            "a header stack's element that is found at run time",
            "use separate headers, or constant indexes",
        );
    }

    /// Declares the function's locals.
    pub fn declare_locals(&mut self) {
        for var in self.units.locals(self.unit) {
            if let Some(ty) = c_type(self.program.var(var).ty) {
                self.text.line(format!("{ty} {} = 0;", self.names.var(var)));
            }
        }
    }

    /// The C of a variable.
    pub fn var(&mut self, id: VarId) -> String {
        match self.units.home(id) {
            Home::Local(_) => self.names.var(id).to_string(),
            Home::State | Home::Nowhere => format!("s->{}", self.names.var(id)),
        }
    }

    /// Emits the P4 line that the next lines come from as a comment, unless it was the last one.
    pub fn comment(&mut self, loc: Loc) {
        self.loc = loc;
        if loc.line == 0 || self.last_line == (loc.file, loc.line) {
            return;
        }
        self.last_line = (loc.file, loc.line);
        if let (Some(place), Some(line)) = (self.program.place(loc), self.program.line(loc)) {
            let place = Comment::of(place.rsplit('/').next().unwrap_or(&place));
            self.text.line(format!("/* {place}: {} */", line.comment()));
        }
    }

    /// Emits the statements of a block.
    pub fn block(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    /// Emits a statement.
    pub fn stmt(&mut self, stmt: &Stmt) {
        self.comment(stmt.loc);
        if self.stack_statement(stmt) {
            return;
        }
        match &stmt.kind {
            StmtKind::Assign { dst, src } => {
                self.assign_parts(dst, src);
                let value = self.expr(src);
                self.assign(dst, &value);
            }
            StmtKind::If { cond, then, otherwise } => {
                let cond = self.expr(cond);
                self.text.open(format!("if ({cond})"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.text.close(" else {");
                    self.text.indent();
                    self.block(otherwise);
                }
                self.text.close("");
            }
            StmtKind::Switch { on, arms, default } => self.switch(on, arms, default),
            StmtKind::Block { label, body } => {
                self.labels.push(*label);
                self.block(body);
                self.labels.pop();
                if leaves(body, *label) {
                    self.text.line(format!("out_{}:;", label.0));
                }
            }
            StmtKind::Loop { label, bound, body } => self.repeat(*label, *bound, body),
            StmtKind::Break(label) => self.jump(Jump::Break(*label)),
            StmtKind::Continue(label) => self.jump(Jump::Continue(*label)),
            StmtKind::SetValid(h) => self.set_valid(h),
            StmtKind::SetInvalid(h) => self.set_invalid(h),
            StmtKind::CopyHeader { dst, src } => self.copy_header(dst, src),
            StmtKind::CopyStack { dst, src } => self.copy_stack(*dst, *src),
            StmtKind::Atomic(body) => self.atomic(body),
            StmtKind::PushFront(stack, count) => self.shift_stack(*stack, *count, true),
            StmtKind::PopFront(stack, count) => self.shift_stack(*stack, *count, false),
            StmtKind::Call(Call::DirectCount(_)) => {}
            StmtKind::Emit(HeaderRef::Header(h)) if self.emits => {
                let name = self.names.header(*h);
                self.text.line(format!("emits_{name} = s->{name}_valid;"));
            }
            StmtKind::Apply { .. }
            | StmtKind::Drop(_)
            | StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Emit(_)
            | StmtKind::Call(_) => self.special(stmt),
        }
    }

    /// Emits `place = value;`, or nothing for a variable without storage.
    pub fn assign(&mut self, place: &Place, value: &str) {
        if matches!(place, Place::Var(v) if self.units.home(*v) == Home::Nowhere) {
            return;
        }
        let place = self.place(place);
        self.text.line(format!("{place} = {value};"));
    }

    /// Emits a switch as a chain of `if` and `else`.
    fn switch(&mut self, on: &ir::Expr, arms: &[(Vec<abi::Bits>, Block)], default: &Block) {
        let value = self.expr(on);
        for (i, (values, body)) in arms.iter().enumerate() {
            let tests: Vec<_> =
                values.iter().map(|v| super::equal(&value, &super::constant(v), v.width())).collect();
            let head = format!("if ({})", tests.join(" || "));
            if i == 0 {
                self.text.open(head);
            } else {
                self.text.close(&format!(" else {head} {{"));
                self.text.indent();
            }
            self.block(body);
        }
        if arms.is_empty() {
            self.block(default);
            return;
        }
        if !default.is_empty() {
            self.text.close(" else {");
            self.text.indent();
            self.block(default);
        }
        self.text.close("");
    }

    fn header_name(&mut self, h: &HeaderRef) -> Option<(ir::HeaderId, String)> {
        let HeaderRef::Header(id) = h else {
            self.stack_unsupported();
            return None;
        };
        Some((*id, self.names.header(*id).to_string()))
    }

    fn set_valid(&mut self, h: &HeaderRef) {
        let Some((id, name)) = self.header_name(h) else { return };
        self.text.open(format!("if (!s->{name}_valid)"));
        self.text.line(format!("s->{name}_valid = 1;"));
        self.text.line(format!("__builtin_memset(&s->{name}, 0, sizeof(s->{name}));"));
        self.clear_parts(id);
        self.text.close("");
    }

    fn set_invalid(&mut self, h: &HeaderRef) {
        let Some((id, name)) = self.header_name(h) else { return };
        self.text.line(format!("s->{name}_valid = 0;"));
        self.text.line(format!("__builtin_memset(&s->{name}, 0, sizeof(s->{name}));"));
        self.clear_parts(id);
    }

    fn copy_header(&mut self, dst: &HeaderRef, src: &HeaderRef) {
        let (Some((dst, to)), Some((src, from))) = (self.header_name(dst), self.header_name(src)) else {
            return;
        };
        self.copy_parts(dst, src);
        self.text.line(format!("s->{to} = s->{from};"));
        self.text.line(format!("s->{to}_valid = s->{from}_valid;"));
    }

    /// Emits an `@atomic` block. Both targets process packets in parallel and have no lock for such a block, so it may access registers at
    /// most once.
    fn atomic(&mut self, body: &Block) {
        let mut accesses = 0;
        ir::visit::stmts(body, &mut |s| {
            use Call::{DirectRegisterRead, DirectRegisterWrite, RegisterRead, RegisterWrite};
            let StmtKind::Call(call) = &s.kind else { return };
            let own = matches!(call, RegisterRead { .. } | RegisterWrite { .. });
            let direct = matches!(call, DirectRegisterRead { .. } | DirectRegisterWrite { .. });
            accesses += u32::from(own || direct);
        });
        if accesses > 1 {
            self.unsupported(
                "an `@atomic` block that uses registers more than once",
                "the interpreter runs it; a counter, a meter or a single read or write needs no `@atomic`",
            );
        }
        self.block(body);
    }
}

/// Whether the block contains a `break` to the label.
fn leaves(block: &Block, label: LabelId) -> bool {
    let mut found = false;
    ir::visit::stmts(block, &mut |s| found |= matches!(s.kind, StmtKind::Break(l) if l == label));
    found
}
