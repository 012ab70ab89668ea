//! Statements.

use ir::{Block, Call, HeaderRef, LabelId, Loc, Place, Program, Stmt, StmtKind, VarId};

use super::{Facts, Home, Names, Text, Unit, Units, c_type};
use crate::unsupported::Unsupported;

/// The body of one function under construction.
pub struct Body<'a> {
    /// The program.
    pub program: &'a Program,
    /// C names.
    pub names: &'a Names,
    /// Homes of variables.
    pub units: &'a Units,
    /// Which function this is.
    pub unit: Unit,
    /// Its text.
    pub text: &'a mut Text,
    /// Limits that were met.
    pub problems: &'a mut Vec<Unsupported>,
    /// What is known of the program.
    pub facts: &'a mut Facts,
    /// Where the code being written came from.
    pub loc: Loc,
    /// The label where a rejection of the parser leads.
    pub rejected: String,
    last_line: (u32, u32),
}

impl<'a> Body<'a> {
    /// An empty body.
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
            last_line: (0, 0),
        }
    }

    /// The target cannot do this.
    pub fn unsupported(&mut self, what: &str, hint: &str) {
        let problem = Unsupported::new(self.loc, format!("{what} is not supported by this target"), hint);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Header stacks are found at run time.
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

    /// A variable as C names it.
    pub fn var(&mut self, id: VarId) -> String {
        match self.units.home(id) {
            Home::Local(_) => self.names.var(id).to_string(),
            Home::State | Home::Nowhere => format!("s->{}", self.names.var(id)),
        }
    }

    /// The P4 line that the next lines come from, once for each.
    pub fn comment(&mut self, loc: Loc) {
        self.loc = loc;
        if loc.line == 0 || self.last_line == (loc.file, loc.line) {
            return;
        }
        self.last_line = (loc.file, loc.line);
        if let (Some(place), Some(line)) = (self.program.place(loc), self.program.line(loc)) {
            let line = line.replace("*/", "* /").replace("/*", "/ *");
            let place = place.rsplit('/').next().unwrap_or(&place).to_string();
            self.text.line(format!("/* {place}: {line} */"));
        }
    }

    /// Statements in order.
    pub fn block(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    /// One statement.
    pub fn stmt(&mut self, stmt: &Stmt) {
        self.comment(stmt.loc);
        if self.stack_statement(stmt) {
            return;
        }
        match &stmt.kind {
            StmtKind::Assign { dst, src } => {
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
                self.block(body);
                if leaves(body, *label) {
                    self.text.line(format!("out_{}:;", label.0));
                }
            }
            StmtKind::Loop { label, bound, body } => self.repeat(*label, *bound, body),
            StmtKind::Break(label) => self.text.line(format!("goto out_{};", label.0)),
            StmtKind::Continue(label) => self.text.line(format!("goto next_{};", label.0)),
            StmtKind::SetValid(h) => self.set_valid(h),
            StmtKind::SetInvalid(h) => self.set_invalid(h),
            StmtKind::CopyHeader { dst, src } => self.copy_header(dst, src),
            StmtKind::CopyStack { dst, src } => self.copy_stack(*dst, *src),
            StmtKind::Atomic(body) => self.atomic(body),
            StmtKind::PushFront(stack, count) => self.shift_stack(*stack, *count, true),
            StmtKind::PopFront(stack, count) => self.shift_stack(*stack, *count, false),
            StmtKind::Call(Call::LogMsg { .. }) => {}
            StmtKind::Call(Call::DirectCount(_)) => {}
            _ => self.special(stmt),
        }
    }

    /// `place = value;`
    pub fn assign(&mut self, place: &Place, value: &str) {
        if matches!(place, Place::Var(v) if self.units.home(*v) == Home::Nowhere) {
            return;
        }
        let place = self.place(place);
        self.text.line(format!("{place} = {value};"));
    }

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

    fn repeat(&mut self, label: LabelId, bound: Option<u64>, body: &Block) {
        match bound {
            Some(bound) if bound <= self.facts.dialect.loop_bound() => {
                let i = format!("round_{}", label.0);
                self.text.open(format!("for (u32 {i} = 0; {i} <= {bound}; {i}++)"));
                self.block(body);
                self.text.line(format!("next_{}: __attribute__((unused));", label.0));
                self.text.close("");
                self.text.line(format!("out_{}: __attribute__((unused));", label.0));
            }
            _ => self.unsupported(
                "a loop whose number of rounds is not known and small",
                "`for (bit<8> i in 0 .. 9)` has a bound that the compiler knows",
            ),
        }
    }

    fn header_name(&mut self, h: &HeaderRef) -> Option<(ir::HeaderId, String)> {
        match h {
            HeaderRef::Header(id) => Some((*id, self.names.header(*id).to_string())),
            _ => {
                self.stack_unsupported();
                None
            }
        }
    }

    fn set_valid(&mut self, h: &HeaderRef) {
        let Some((_, name)) = self.header_name(h) else { return };
        self.text.open(format!("if (!s->{name}_valid)"));
        self.text.line(format!("s->{name}_valid = 1;"));
        self.text.line(format!("__builtin_memset(&s->{name}, 0, sizeof(s->{name}));"));
        self.text.close("");
    }

    fn set_invalid(&mut self, h: &HeaderRef) {
        let Some((_, name)) = self.header_name(h) else { return };
        self.text.line(format!("s->{name}_valid = 0;"));
        self.text.line(format!("__builtin_memset(&s->{name}, 0, sizeof(s->{name}));"));
    }

    fn copy_header(&mut self, dst: &HeaderRef, src: &HeaderRef) {
        let (Some((_, to)), Some((_, from))) = (self.header_name(dst), self.header_name(src)) else { return };
        self.text.line(format!("s->{to} = s->{from};"));
        self.text.line(format!("s->{to}_valid = s->{from}_valid;"));
    }

    /// Other packets run at the same time on both machines, and there is no lock that a block could hold.
    fn atomic(&mut self, body: &Block) {
        let mut accesses = 0;
        ir::visit::stmts(body, &mut |s| {
            let register =
                matches!(s.kind, StmtKind::Call(Call::RegisterRead { .. } | Call::RegisterWrite { .. }));
            accesses += u32::from(register);
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

/// Whether something in the block leaves the block of that label.
fn leaves(block: &Block, label: LabelId) -> bool {
    let mut found = false;
    ir::visit::stmts(block, &mut |s| found |= matches!(s.kind, StmtKind::Break(l) if l == label));
    found
}
