//! The effects of statements: which cells a statement reads and writes, and what else it does. All analyses of the program use this module.
//!
//! [`of`] returns the effects of a statement itself. It does not include the effects of inner blocks ([`crate::visit::inner_blocks`]) or, for
//! [`StmtKind::Apply`], of the actions that may run. The matches name every statement, call and field, so a new one does not compile until
//! its effects are declared.

use crate::cells::{Cell, cells_of, headers_of};
use crate::expr::{Expr, ExprKind, Place};
use crate::program::{HeaderId, LabelId, Program, StackId, TableId, VarId};
use crate::stmt::{Call, HeaderRef, Stmt, StmtKind};

/// An effect of a statement on a cell, or on something outside of the packet's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The statement may read the cell.
    Read(Cell),
    /// The statement may write the cell, or may leave it unchanged.
    MayWrite(Cell),
    /// The statement always writes the cell.
    Write(Cell),
    /// The statement has an effect outside of the cells.
    Outside(Outside),
}

/// Effects outside of the packet's cells. A statement with such an effect must not be removed, even if no cell that it writes is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The statement moves the parser's cursor, or reads the packet at the cursor.
    Cursor,
    /// The statement may reject the packet, which ends the parser.
    Reject,
    /// The statement applies a table: it changes the counters and ages of the entry, and runs an action.
    Table(TableId),
    /// The statement reads or changes the state of an extern: a counter, a meter, a register or the random number generator.
    Extern,
    /// The statement changes why the packet is dropped.
    Fate,
    /// The statement reports something to the control plane or the user, or appends to the packet.
    Output,
}

/// Calls `f` for each effect of the statement itself: first all reads, then all writes.
pub fn of(program: &Program, stmt: &Stmt, f: &mut dyn FnMut(Effect)) {
    let mut e = Effects { program, f };
    e.stmt(&stmt.kind);
}

/// Calls `f` for each cell that an expression reads.
pub fn reads(program: &Program, expr: &Expr, f: &mut dyn FnMut(Cell)) {
    let mut only_reads = |effect| {
        if let Effect::Read(cell) = effect {
            f(cell)
        }
    };
    Effects { program, f: &mut only_reads }.expr(expr);
}

/// Calls `f` for each cell that a statement itself writes or may write.
pub fn writes(program: &Program, stmt: &Stmt, f: &mut dyn FnMut(Cell)) {
    of(program, stmt, &mut |effect| {
        if let Effect::Write(cell) | Effect::MayWrite(cell) = effect {
            f(cell);
        }
    });
}

/// Calls `f` for each cell that a statement itself reads or writes.
pub fn cells(program: &Program, stmt: &Stmt, f: &mut dyn FnMut(Cell)) {
    of(program, stmt, &mut |effect| match effect {
        Effect::Read(cell) | Effect::MayWrite(cell) | Effect::Write(cell) => f(cell),
        Effect::Outside(_) => {}
    });
}

/// The ways in which control may continue at another statement than the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// Control always continues at the next statement.
    None,
    /// Control always continues after the block or loop with this label.
    Break(LabelId),
    /// Control always continues with the next iteration of the loop with this label.
    Continue(LabelId),
    /// The statement may reject the packet, which ends the parser.
    Reject,
}

/// The jump of a statement itself, without those of inner blocks.
pub fn jump(program: &Program, stmt: &Stmt) -> Jump {
    match &stmt.kind {
        StmtKind::Break(label) => Jump::Break(*label),
        StmtKind::Continue(label) => Jump::Continue(*label),
        StmtKind::Assign { .. }
        | StmtKind::CopyHeader { .. }
        | StmtKind::CopyStack { .. }
        | StmtKind::SetValid(_)
        | StmtKind::SetInvalid(_)
        | StmtKind::PushFront(..)
        | StmtKind::PopFront(..)
        | StmtKind::If { .. }
        | StmtKind::Switch { .. }
        | StmtKind::Block { .. }
        | StmtKind::Atomic(_)
        | StmtKind::Loop { .. }
        | StmtKind::Apply { .. }
        | StmtKind::Drop(_)
        | StmtKind::Extract { .. }
        | StmtKind::Lookahead { .. }
        | StmtKind::Advance(_)
        | StmtKind::Verify { .. }
        | StmtKind::Emit(_)
        | StmtKind::Call(_) => {
            let mut rejects = false;
            of(program, stmt, &mut |e| rejects |= e == Effect::Outside(Outside::Reject));
            if rejects { Jump::Reject } else { Jump::None }
        }
    }
}

/// The enumeration of the effects of one statement.
struct Effects<'a, 'f> {
    program: &'a Program,
    f: &'f mut dyn FnMut(Effect),
}

impl Effects<'_, '_> {
    fn outside(&mut self, what: Outside) {
        (self.f)(Effect::Outside(what));
    }

    fn read(&mut self, cell: Cell) {
        (self.f)(Effect::Read(cell));
    }

    fn write(&mut self, cell: Cell, certain: bool) {
        (self.f)(if certain { Effect::Write(cell) } else { Effect::MayWrite(cell) });
    }

    // ---- Reads ----

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Const(_) => {}
            ExprKind::Read(place) => self.read_place(place),
            ExprKind::IsValid(h) => self.read_header(h, |e, h| e.read(Cell::Valid(h))),
            ExprKind::NextIndex(s) => self.read_next(*s),
            ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Slice { base: a, hi: _, lo: _ } => {
                self.expr(a)
            }
            ExprKind::Binary(_, a, b) | ExprKind::Concat(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Mux(c, a, b) => {
                self.expr(c);
                self.expr(a);
                self.expr(b);
            }
        }
    }

    fn exprs<'e>(&mut self, all: impl IntoIterator<Item = &'e Expr>) {
        all.into_iter().for_each(|e| self.expr(e));
    }

    fn read_next(&mut self, stack: StackId) {
        self.read(Cell::Next(self.program.stacks[stack.index()].index));
    }

    /// What is read to find out which header a reference means.
    fn locate(&mut self, h: &HeaderRef) {
        match h {
            HeaderRef::Header(_) => {}
            HeaderRef::Element(_, index) => self.expr(index),
            HeaderRef::Next(s) | HeaderRef::Last(s) => self.read_next(*s),
        }
    }

    fn locate_place(&mut self, place: &Place) {
        match place {
            Place::Var(_) => {}
            Place::Field(h, _) => self.locate(h),
        }
    }

    fn read_header(&mut self, h: &HeaderRef, f: impl Fn(&mut Self, HeaderId)) {
        self.locate(h);
        let (headers, _) = headers_of(self.program, h);
        headers.for_each(|h| f(self, HeaderId(h)));
    }

    fn read_place(&mut self, place: &Place) {
        self.locate_place(place);
        cells_of(self.program, place, |cell, _| (self.f)(Effect::Read(cell)));
    }

    fn read_all_of(&mut self, h: HeaderId) {
        self.read(Cell::Valid(h));
        (0..self.fields(h)).for_each(|i| self.read(Cell::Field(h, i)));
    }

    fn fields(&self, h: HeaderId) -> u32 {
        self.program.header_type(h).fields.len() as u32
    }

    // ---- Writes ----

    fn write_place(&mut self, place: &Place) {
        cells_of(self.program, place, |cell, certain| {
            (self.f)(if certain { Effect::Write(cell) } else { Effect::MayWrite(cell) })
        });
    }

    fn write_fields(&mut self, h: HeaderId, certain: bool) {
        (0..self.fields(h)).for_each(|i| self.write(Cell::Field(h, i), certain));
    }

    /// A write of a header's validity and all its fields.
    fn write_header(&mut self, h: &HeaderRef) {
        let (headers, certain) = headers_of(self.program, h);
        for h in headers.map(HeaderId) {
            self.write(Cell::Valid(h), certain);
            self.write_fields(h, certain);
        }
    }

    fn elements(&self, stack: StackId) -> impl Iterator<Item = HeaderId> + use<> {
        let stack = &self.program.stacks[stack.index()];
        (stack.first.0..stack.first.0 + stack.size).map(HeaderId)
    }

    /// A shift of a stack's elements. It reads and writes all elements, and the next index if the stack has one of its own.
    fn shift(&mut self, stack: StackId) {
        let own = self.program.stacks[stack.index()].index == stack;
        self.elements(stack).for_each(|h| self.read_all_of(h));
        if own {
            self.read(Cell::Next(stack));
        }
        self.elements(stack).for_each(|h| self.write_header(&HeaderRef::Header(h)));
        if own {
            self.write(Cell::Next(stack), true);
        }
    }

    // ---- Statements ----

    fn stmt(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Assign { dst, src } => {
                self.expr(src);
                self.locate_place(dst);
                self.write_place(dst);
            }
            StmtKind::CopyHeader { dst, src } => {
                self.read_header(src, Self::read_all_of);
                self.locate(dst);
                self.write_header(dst);
            }
            StmtKind::CopyStack { dst, src } => {
                self.elements(*src).for_each(|h| self.read_all_of(h));
                self.read_next(*src);
                self.elements(*dst).for_each(|h| self.write_header(&HeaderRef::Header(h)));
                self.write(Cell::Next(self.program.stacks[dst.index()].index), true);
            }
            // A header that is already valid keeps its fields, so the write of the fields is not certain.
            StmtKind::SetValid(h) => {
                self.read_header(h, |e, h| e.read(Cell::Valid(h)));
                let (headers, certain) = headers_of(self.program, h);
                for h in headers.map(HeaderId) {
                    self.write(Cell::Valid(h), certain);
                    self.write_fields(h, false);
                }
            }
            StmtKind::SetInvalid(h) => {
                self.locate(h);
                self.write_header(h);
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => self.shift(*stack),
            StmtKind::If { cond, then: _, otherwise: _ } => self.expr(cond),
            StmtKind::Switch { on, arms: _, default: _ } => self.expr(on),
            StmtKind::Block { label: _, body: _ }
            | StmtKind::Atomic(_)
            | StmtKind::Loop { label: _, bound: _, body: _ }
            | StmtKind::Break(_)
            | StmtKind::Continue(_) => {}
            StmtKind::Apply { table, hit, action } => self.apply(*table, *hit, *action),
            StmtKind::Drop(_) => self.outside(Outside::Fate),
            StmtKind::Extract { header, varbit } => self.extract(header, varbit.as_ref()),
            StmtKind::Lookahead { dst } => {
                self.locate_place(dst);
                self.outside(Outside::Cursor);
                self.outside(Outside::Reject);
                self.write_place(dst);
            }
            StmtKind::Advance(bits) => {
                self.expr(bits);
                self.outside(Outside::Cursor);
                self.outside(Outside::Reject);
            }
            StmtKind::Verify { cond, error: _ } => {
                self.expr(cond);
                self.outside(Outside::Reject);
            }
            StmtKind::Emit(h) => {
                self.read_header(h, Self::read_all_of);
                self.outside(Outside::Output);
            }
            StmtKind::Call(call) => self.call(call),
        }
    }

    fn extract(&mut self, header: &HeaderRef, varbit: Option<&Expr>) {
        self.exprs(varbit);
        self.locate(header);
        self.outside(Outside::Cursor);
        self.outside(Outside::Reject);
        self.write_header(header);
        if let HeaderRef::Next(stack) = header {
            self.write(Cell::Next(self.program.stacks[stack.index()].index), true);
        }
    }

    fn apply(&mut self, table: TableId, hit: Option<VarId>, action: Option<VarId>) {
        let definition = &self.program.tables[table.index()];
        self.exprs(definition.keys.iter().map(|k| &k.expr).chain(&definition.selector));
        if definition.direct_counter.is_some() || definition.direct_meter.is_some() {
            self.length();
        }
        self.outside(Outside::Table(table));
        hit.iter().for_each(|v| self.write(Cell::Var(*v), true));
        // On a hit with an empty group no action runs, and the variable keeps its value.
        let runs = definition.selector.is_empty();
        action.iter().for_each(|v| self.write(Cell::Var(*v), runs));
    }

    // ---- Externs ----

    fn call(&mut self, call: &Call) {
        match call {
            Call::Count { counter: _, index } => {
                self.expr(index);
                self.length();
                self.outside(Outside::Extern);
            }
            Call::DirectCount(_) => self.outside(Outside::Extern),
            Call::RegisterRead { register: _, dst, index } => {
                self.expr(index);
                self.result(dst, Outside::Extern);
            }
            Call::RegisterWrite { register: _, index, value } => {
                self.exprs([index, value]);
                self.outside(Outside::Extern);
            }
            Call::Meter { meter: _, index, dst } => {
                self.expr(index);
                self.length();
                self.result(dst, Outside::Extern);
            }
            Call::DirectMeter { meter: _, dst } | Call::DirectRegisterRead { table: _, dst } => {
                self.result(dst, Outside::Extern)
            }
            Call::DirectRegisterWrite { table: _, value } => {
                self.expr(value);
                self.outside(Outside::Extern);
            }
            Call::Digest { name: _, fields: _, data } => {
                self.exprs(data);
                self.outside(Outside::Output);
            }
            Call::AddEntry { done, table: _, action: _, args, profile } => {
                self.exprs(args);
                self.expr(profile);
                match done {
                    Some(done) => self.result(done, Outside::Extern),
                    None => self.outside(Outside::Extern),
                }
            }
            Call::RestartTimer(profile) => {
                self.exprs(profile);
                self.outside(Outside::Extern);
            }
            Call::FlowId(dst) => self.result(dst, Outside::Extern),
            Call::Hash { dst, algorithm: _, base, data, max } => {
                self.exprs([base, max]);
                self.exprs(data);
                self.locate_place(dst);
                self.write_place(dst);
            }
            Call::AddToSum { dst, data, subtract: _ } | Call::UpdateHash { dst, algorithm: _, data } => {
                self.exprs(data);
                self.read_place(dst);
                self.write_place(dst);
            }
            Call::Random { dst, lo, hi } => {
                self.exprs([lo, hi]);
                self.result(dst, Outside::Extern);
            }
            Call::VerifyChecksum { id: _, cond, data, checksum, payload: _ } => {
                self.expr(cond);
                self.exprs(data);
                self.read_place(checksum);
                self.outside(Outside::Cursor);
                self.write(Cell::Var(self.program.standard.checksum_error), false);
            }
            Call::UpdateChecksum { id: _, cond, data, checksum, payload, nonzero: _ } => {
                self.expr(cond);
                self.exprs(data);
                self.locate_place(checksum);
                if *payload {
                    // A target that derives the checksum reads the field.
                    self.read_place(checksum);
                    self.outside(Outside::Cursor);
                }
                cells_of(self.program, checksum, |cell, _| (self.f)(Effect::MayWrite(cell)));
            }
            Call::LogMsg { format: _, args } => {
                self.exprs(args);
                self.outside(Outside::Output);
            }
            Call::Assert { cond, site: _, text: _ } => {
                self.expr(cond);
                self.outside(Outside::Fate);
                self.outside(Outside::Output);
            }
        }
    }

    /// A read of the packet's length, by counters and meters.
    fn length(&mut self) {
        self.read(Cell::Var(self.program.standard.packet_length));
    }

    /// A call that writes its result and has another effect.
    fn result(&mut self, dst: &Place, what: Outside) {
        self.locate_place(dst);
        self.outside(what);
        self.write_place(dst);
    }
}
