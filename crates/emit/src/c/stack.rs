//! Elements of header stacks whose index is computed at run time. The emitted code has a case for each element.

use ir::{Expr, ExprKind, HeaderId, HeaderRef, Place, StackId, Stmt, StmtKind};

use super::Body;

/// The headers that a reference may refer to at run time.
pub fn elements(program: &ir::Program, h: &HeaderRef) -> Vec<HeaderId> {
    match h {
        HeaderRef::Header(id) => vec![*id],
        HeaderRef::Element(s, _) | HeaderRef::Next(s) | HeaderRef::Last(s) => of(program, *s),
    }
}

/// The headers that are the elements of a stack, in order.
pub fn of(program: &ir::Program, stack: StackId) -> Vec<HeaderId> {
    let stack = &program.stacks[stack.index()];
    (0..stack.size).map(|i| HeaderId(stack.first.0 + i)).collect()
}

/// A header reference in the statement whose index is computed at run time, if there is one.
fn found_later(stmt: &mut Stmt) -> Option<&mut HeaderRef> {
    let later = |h: &&mut HeaderRef| !matches!(**h, HeaderRef::Header(_));
    match &mut stmt.kind {
        StmtKind::SetValid(h) | StmtKind::SetInvalid(h) | StmtKind::Extract { header: h, .. } => {
            Some(h).filter(later)
        }
        StmtKind::CopyHeader { dst, src } => [dst, src].into_iter().find(later),
        StmtKind::Assign { dst: Place::Field(h, _), .. } => Some(h).filter(later),
        StmtKind::Assign { .. }
        | StmtKind::CopyStack { .. }
        | StmtKind::PushFront(..)
        | StmtKind::PopFront(..)
        | StmtKind::If { .. }
        | StmtKind::Switch { .. }
        | StmtKind::Block { .. }
        | StmtKind::Atomic(_)
        | StmtKind::Loop { .. }
        | StmtKind::Break(_)
        | StmtKind::Continue(_)
        | StmtKind::Apply { .. }
        | StmtKind::Drop(_)
        | StmtKind::Lookahead { .. }
        | StmtKind::Advance(_)
        | StmtKind::Verify { .. }
        | StmtKind::Emit(_)
        | StmtKind::Call(_) => None,
    }
}

impl Body<'_> {
    /// The C of a stack's next index. Stacks that are always copied together share one.
    pub fn next_of(&self, stack: StackId) -> String {
        format!("s->next_{}", self.program.stacks[stack.index()].index.0)
    }

    /// The C of the index of a reference.
    fn index(&mut self, h: &HeaderRef) -> String {
        match h {
            HeaderRef::Header(_) => "0".to_string(),
            HeaderRef::Element(_, index) => self.expr(index),
            HeaderRef::Next(s) => self.next_of(*s),
            HeaderRef::Last(s) => format!("(u32)({} - 1)", self.next_of(*s)),
        }
    }

    /// The C of an expression over an element, where `value` returns it for each one. It is `zero` if the index is out of range.
    pub fn of_element(
        &mut self,
        h: &HeaderRef,
        zero: &str,
        value: impl Fn(&mut Self, HeaderRef) -> String,
    ) -> String {
        let index = self.index(h);
        let cases = elements(self.program, h).into_iter().enumerate().map(|(i, id)| {
            let value = value(self, HeaderRef::Header(id));
            format!("{index} == {i} ? {value} : ")
        });
        let cases: String = cases.collect();
        format!("({cases}{zero})")
    }

    /// Emits a statement over an element whose index is computed at run time, as a switch with a case for each element. Returns false if
    /// the statement is of another kind. With an index out of range, `extract` rejects the packet, a copy from the element makes the
    /// destination invalid, and other statements have no effect.
    pub fn stack_statement(&mut self, stmt: &Stmt) -> bool {
        let Some(h) = found_later(&mut stmt.clone()).cloned() else { return false };
        let index = self.index(&h);
        self.text.open(format!("switch ({index})"));
        for (i, id) in elements(self.program, &h).into_iter().enumerate() {
            let mut one = stmt.clone();
            if let Some(found) = found_later(&mut one) {
                *found = HeaderRef::Header(id);
            }
            self.text.margin(format!("case {i}:"));
            self.stmt(&one);
            self.text.line("break;");
        }
        self.text.margin("default:;");
        if let StmtKind::Extract { .. } = &stmt.kind {
            self.reject(3, "StackOutOfBounds");
        }
        if let StmtKind::CopyHeader { dst: dst @ HeaderRef::Header(_), .. } = &stmt.kind {
            self.stmt(&Stmt::new(StmtKind::SetInvalid(dst.clone()), stmt.loc));
        }
        self.text.close("");
        if let (StmtKind::Extract { .. }, HeaderRef::Next(stack)) = (&stmt.kind, &h) {
            let next = self.next_of(*stack);
            self.text.line(format!("{next}++;"));
        }
        true
    }

    /// Emits a copy of all elements of a stack and of its next index.
    pub fn copy_stack(&mut self, dst: StackId, src: StackId) {
        for (to, from) in of(self.program, dst).into_iter().zip(of(self.program, src)) {
            self.copy_parts(to, from);
            let (to, from) = (self.names.header(to).to_string(), self.names.header(from).to_string());
            self.text.line(format!("s->{to} = s->{from};"));
            self.text.line(format!("s->{to}_valid = s->{from}_valid;"));
        }
        if counted(self.program) {
            let (to, from) = (self.next_of(dst), self.next_of(src));
            self.text.line(format!("{to} = {from};"));
        }
    }

    /// Emits `push_front` or `pop_front` (P4-16 section 8.20).
    pub fn shift_stack(&mut self, stack: StackId, count: u32, push: bool) {
        let elements = of(self.program, stack);
        let size = elements.len();
        let count = (count as usize).min(size);
        let names: Vec<String> = elements.iter().map(|h| self.names.header(*h).to_string()).collect();
        let moves: Vec<(usize, usize)> = match push {
            true => (count..size).rev().map(|i| (i, i - count)).collect(),
            false => (0..size - count).map(|i| (i, i + count)).collect(),
        };
        for (to, from) in moves {
            self.text.line(format!("s->{} = s->{};", names[to], names[from]));
            self.text.line(format!("s->{}_valid = s->{}_valid;", names[to], names[from]));
        }
        let fresh = if push { 0..count } else { size - count..size };
        for name in &names[fresh] {
            self.text.line(format!("s->{name}_valid = 0;"));
            self.text.line(format!("__builtin_memset(&s->{name}, 0, sizeof(s->{name}));"));
        }
        // If several stacks share a next index, only its owner changes it.
        if self.program.stacks[stack.index()].index != stack {
            return;
        }
        let next = self.next_of(stack);
        self.text.line(match push {
            true => format!("{next} = {next} + {count} < {size} ? {next} + {count} : {size};"),
            false => format!("{next} = {next} > {count} ? {next} - {count} : 0;"),
        });
    }
}

/// Whether the program needs the next index of a stack at run time.
pub fn counted(program: &ir::Program) -> bool {
    let mut found = false;
    ir::visit::all_stmts(program, &mut |stmt| {
        found |= matches!(stmt.kind, StmtKind::PushFront(..) | StmtKind::PopFront(..))
            || found_later(&mut stmt.clone()).is_some();
    });
    ir::visit::all_exprs(program, &mut |e: &Expr| {
        found |= matches!(
            &e.kind,
            ExprKind::NextIndex(_)
                | ExprKind::IsValid(HeaderRef::Next(_) | HeaderRef::Last(_))
                | ExprKind::Read(Place::Field(HeaderRef::Next(_) | HeaderRef::Last(_), _))
        );
    });
    found
}
