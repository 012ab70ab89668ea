//! What every statement reads and writes. This is the only place that says so: whoever asks what may change, what is used or
//! what may be left out asks here.
//!
//! [`of`] tells the effects of a statement itself, without those of the blocks in it ([`crate::visit::inner_blocks`]) and, for
//! [`StmtKind::Apply`], without those of the actions that may run. The matches name every statement, call and field, so a new
//! one without effects does not compile.

use crate::cells::{Cell, cells_of, headers_of};
use crate::expr::{Expr, ExprKind, Place};
use crate::program::{HeaderId, LabelId, Program, StackId, TableId, VarId};
use crate::stmt::{Call, HeaderRef, Stmt, StmtKind};

/// What a statement does to a cell, or to what lies outside of the packet's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It may read the cell.
    Read(Cell),
    /// It may write the cell: the statement may leave it as it is.
    MayWrite(Cell),
    /// It writes the cell, whatever it held before.
    Write(Cell),
    /// It does something that no cell shows.
    Outside(Outside),
}

/// Effects beyond the cells of the packet. A statement that has one must stay, even where nothing reads what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// It moves the parser's cursor, or reads the packet at the cursor.
    Cursor,
    /// It may end the parser with an error.
    Reject,
    /// It looks a table up: counters and ages of the entry change, and an action runs.
    Table(TableId),
    /// It reads or changes the state of an extern: a counter, meter, register, a random number.
    Extern,
    /// It changes what happens to the packet when the control ends: dropped, copied, sent, truncated, resubmitted, recirculated.
    Fate,
    /// It tells the control plane or the user something, or appends to the packet.
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

/// Where a statement may go other than to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// It always goes on to the next statement.
    None,
    /// It always goes to the end of that block or loop.
    Break(LabelId),
    /// It always goes to the next round of that loop.
    Continue(LabelId),
    /// It may end the parser.
    Reject,
}

/// Where a statement itself may go, without what the blocks in it do.
pub fn jump(program: &Program, stmt: &Stmt) -> Jump {
    match &stmt.kind {
        StmtKind::Break(label) => Jump::Break(*label),
        StmtKind::Continue(label) => Jump::Continue(*label),
        _ => {
            let mut rejects = false;
            of(program, stmt, &mut |e| rejects |= e == Effect::Outside(Outside::Reject));
            if rejects { Jump::Reject } else { Jump::None }
        }
    }
}

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

    // ---- what is read ----

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

    // ---- what is written ----

    fn write_place(&mut self, place: &Place) {
        cells_of(self.program, place, |cell, certain| {
            (self.f)(if certain { Effect::Write(cell) } else { Effect::MayWrite(cell) })
        });
    }

    fn write_fields(&mut self, h: HeaderId, certain: bool) {
        (0..self.fields(h)).for_each(|i| self.write(Cell::Field(h, i), certain));
    }

    /// Validity and all fields.
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

    /// A stack whose elements move: all are read, all are written, and its own next index with them.
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

    // ---- statements ----

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
            // A header that is valid already keeps its fields.
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
            StmtKind::Drop(_) => {
                let standard = self.program.standard;
                self.outside(Outside::Fate);
                self.write(Cell::Var(standard.egress_spec), true);
                self.write(Cell::Var(standard.mcast_grp), true);
            }
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
        self.read(Cell::Var(self.program.standard.packet_length));
        self.outside(Outside::Table(table));
        hit.iter().for_each(|v| self.write(Cell::Var(*v), true));
        // An empty group is a hit after which no action runs, and the variable keeps what it held.
        let runs = definition.selector.is_empty();
        action.iter().for_each(|v| self.write(Cell::Var(*v), runs));
    }

    // ---- externs ----

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
            Call::DirectMeter { meter: _, dst } => self.result(dst, Outside::Extern),
            Call::Digest { name: _, fields: _, data } => {
                self.exprs(data);
                self.outside(Outside::Output);
            }
            Call::Clone { egress: _, session, keep } => {
                self.expr(session);
                self.keep(keep);
            }
            Call::Resubmit { keep } | Call::Recirculate { keep } => self.keep(keep),
            Call::SendToPort(port) => {
                self.expr(port);
                self.outside(Outside::Fate);
            }
            Call::MirrorPacket { slot, session } => {
                self.exprs([slot, session]);
                self.outside(Outside::Fate);
            }
            Call::AddEntry { done, action: _, args, profile } => {
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
            Call::Truncate(length) => {
                self.expr(length);
                self.outside(Outside::Fate);
            }
            Call::Hash { dst, algorithm: _, base, data, max } => {
                self.exprs([base, max]);
                self.exprs(data);
                self.locate_place(dst);
                self.write_place(dst);
            }
            Call::Random { dst, lo, hi } => {
                self.exprs([lo, hi]);
                self.result(dst, Outside::Extern);
            }
            Call::VerifyChecksum { cond, data, checksum, algorithm: _, payload: _ } => {
                self.expr(cond);
                self.exprs(data);
                self.read_place(checksum);
                self.outside(Outside::Cursor);
                self.write(Cell::Var(self.program.standard.checksum_error), false);
            }
            Call::UpdateChecksum { cond, data, checksum, algorithm: _, payload, nonzero: _ } => {
                self.expr(cond);
                self.exprs(data);
                self.locate_place(checksum);
                if *payload {
                    // A target that derives the sum starts from what the field holds.
                    self.read_place(checksum);
                    self.outside(Outside::Cursor);
                }
                cells_of(self.program, checksum, |cell, _| (self.f)(Effect::MayWrite(cell)));
            }
            Call::LogMsg { format: _, args } => {
                self.exprs(args);
                self.outside(Outside::Output);
            }
            Call::Assert { cond, text: _ } => {
                self.expr(cond);
                self.outside(Outside::Output);
            }
        }
    }

    /// Counters and meters of bytes look at the packet's length.
    fn length(&mut self) {
        self.read(Cell::Var(self.program.standard.packet_length));
    }

    /// A call whose result is written and that does something else as well.
    fn result(&mut self, dst: &Place, what: Outside) {
        self.locate_place(dst);
        self.outside(what);
        self.write_place(dst);
    }

    /// The variables are read when the control ends; they are named here so that nobody thinks them unused.
    fn keep(&mut self, keep: &[VarId]) {
        keep.iter().for_each(|v| self.read(Cell::Var(*v)));
        self.outside(Outside::Fate);
    }
}
