//! The parts of the deparser that the targets share: the headers that leave, their new offsets, and the checksum updates.

use ir::cells::Cell;
use ir::effects;
use ir::{Control, HeaderId, HeaderRef, Place, Role, StmtKind, visit};

use super::access::Emitted;
use super::{Body, Emitter, Machine, Unit, header, stage_name, sums};

impl Emitter<'_> {
    /// Emits a function for each deparser of a target that leaves the payload where it is. The function returns 1 if there is no room for the
    /// new headers. `move_start` is the C of the call that moves the start of the packet by `diff` bytes, and `sum` emits an update of a checksum.
    /// `partial` emits the update of one that the program has computed, if it is partial.
    ///
    /// 1. It computes the new offset of each header (`*_out`).
    /// 2. If a header moves relative to the payload, it saves the bytes of the headers that move, moves the start of the packet, and copies the
    ///    saved bytes to the new offsets.
    /// 3. It writes the headers that the program created, and the fields that the program changed. It does not write anything else.
    /// 4. It updates the checksums over the payload.
    pub fn front_deparsers(
        &mut self,
        move_start: &str,
        sum: fn(&mut Body<'_>, &UpdateAt<'_>),
        partial: fn(&mut Body<'_>, &str, &str, &str),
    ) {
        for role in [Role::IngressDeparser, Role::Deparser] {
            let Some(control) = self.program.control(role) else { continue };
            self.function(stage_name(role), Unit::Role(role), |body| {
                let order = body.emitted(control);
                body.text.line("u32 out = 0, moved = 0;");
                body.place_headers(&order);
                body.text.line("u32 in = s->cursor;");
                body.text.line("s32 diff = (s32)out - (s32)in;");
                body.text.line("UNUSED u8 *p;");
                body.text.open("if (diff || moved)");
                body.each_header(&order, |body, h| body.copy_header_bytes(h, Copy::Save));
                body.text.line(format!("if (diff && {move_start})"));
                body.text.line("    return 1;");
                body.each_header(&order, |body, h| body.copy_header_bytes(h, Copy::Restore));
                body.text.close("");
                body.each_header(&order, |body, h| body.write_header(h));
                body.updates(&order, sum);
                body.continue_checksums(&order, partial);
            });
        }
    }
}

/// The number of headers whose validity one load reads.
pub const GROUP: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Copy {
    Save,
    Restore,
}

impl Body<'_> {
    /// The headers that a deparser emits, in order. If the deparser does more than emit headers, this emits its statements. A header then
    /// stays valid only if it was emitted.
    pub fn emitted(&mut self, control: &Control) -> Vec<Emitted> {
        let mut found = Emits { order: Vec::new(), simple: true, problems: Vec::new() };
        found.block(self.program, &control.body, false);
        for (loc, what, hint) in std::mem::take(&mut found.problems) {
            self.loc = loc;
            self.unsupported(what, hint);
        }
        self.loc = control.loc;
        let order: Vec<Emitted> = found.order.iter().map(|h| Emitted::new(self, *h)).collect();
        if !found.simple {
            for h in &order {
                self.text.line(format!("u8 emits_{} = 0;", h.name));
            }
            self.emits = true;
            self.block(&control.body);
            self.emits = false;
            for h in &order {
                self.text.line(format!("s->{0}_valid = emits_{0};", h.name));
            }
        }
        order
    }

    /// Calls `f` for each header in order. Headers that follow each other in a group are skipped with one test if all of the group are
    /// invalid: most packets have few of a program's headers, and each test of one costs about a nanosecond.
    pub fn each_header(&mut self, order: &[Emitted], mut f: impl FnMut(&mut Self, &Emitted)) {
        self.each_group(order, |body, group, _| group.iter().for_each(|h| f(body, h)));
    }

    /// The same for each group. `f` also learns whether it is skipped in most packets.
    fn each_group(&mut self, order: &[Emitted], mut f: impl FnMut(&mut Self, &[Emitted], bool)) {
        for (number, run) in order.chunk_by(|a, b| a.id.index() / GROUP == b.id.index() / GROUP).enumerate() {
            // The first headers are in most packets.
            let skip = number > 0 && run.len() >= GROUP / 2;
            if skip {
                let first = ir::HeaderId((run[0].id.index() / GROUP * GROUP) as u32);
                let first = self.names.header(first).to_string();
                self.text.open(format!("if (any_valid(&s->{first}_valid))"));
            }
            f(self, run, skip);
            if skip {
                self.text.close("");
            }
        }
    }

    /// Emits the computation of all new offsets, and of `out`, the length of the headers that leave.
    ///
    /// The kernel's verifier knows the value of `out` on every path, so it would follow each combination of valid headers to the end. What it
    /// loads from a map it does not know: after each group, all paths are one.
    pub fn place_headers(&mut self, order: &[Emitted]) {
        let bits = |h: &Emitted| -> u32 {
            self.program.header_type(h.id).fields.iter().map(|field| field.ty.width()).sum()
        };
        let most: u32 = order.iter().map(|h| bits(h).div_ceil(8)).sum();
        let forgets = self.facts.machine() == Machine::Bpf;
        self.each_group(order, |body, group, skipped| {
            group.iter().for_each(|h| body.place_header(h));
            if forgets && skipped {
                let mask = (most + 1).next_power_of_two() - 1;
                body.text.line("*(volatile u32 *)&t->leaving = out;");
                body.text.line(format!("out = *(volatile u32 *)&t->leaving & {mask};"));
            }
        });
    }

    /// Emits the computation of a header's new offset (`*_out`), and adds the header's length to `out`. Unless the target writes whole headers, it also makes `moved`
    /// non-zero if the header arrived at another offset.
    fn place_header(&mut self, h: &Emitted) {
        let (name, bytes) = (&h.name, h.bytes);
        self.text.open(format!("if (s->{name}_valid)"));
        self.text.line(format!("t->{name}_out = out;"));
        if !self.facts.hook.writes_whole_headers() && bytes > 0 && !self.facts.created.contains(&h.id) {
            self.text.line(format!("moved |= t->{name}_in ^ out;"));
        }
        match &h.varbit {
            Some((length, _)) => self.text.line(format!("out += {bytes} + {length};")),
            None => self.text.line(format!("out += {bytes};")),
        }
        self.text.close("");
    }

    /// Emits a copy of the bytes of a header that arrived and that moves: from the packet before the packet changes its length, or into the
    /// packet afterwards.
    fn copy_header_bytes(&mut self, h: &Emitted, which: Copy) {
        if self.facts.created.contains(&h.id) {
            return;
        }
        let (name, bytes) = (&h.name, h.bytes);
        self.in_packet(h, &format!("t->{name}_in + diff != t->{name}_out"), |body, at| {
            let Some(arrived) = at.arrived(body) else { return };
            let raw = format!("t->{name}_raw");
            let (offset, to, from) = match which {
                Copy::Save => (arrived, raw.as_str(), "p"),
                Copy::Restore => (at.out(), "p", raw.as_str()),
            };
            body.point(at, &offset, bytes);
            body.text.line(format!("copy_bytes({to}, {from}, {bytes});"));
        });
    }

    /// Emits stores for the changed fields of a header, or for all fields if the program created it.
    fn write_header(&mut self, h: &Emitted) {
        if !self.facts.touched.contains(&h.id) {
            return;
        }
        self.in_packet(h, "", |body, at| {
            if let (Some((length, field)), Machine::Bpf) = (&h.varbit, body.facts.machine()) {
                return body.write_with_varbit(at, h, length, *field);
            }
            body.point(at, &at.out(), h.bytes);
            body.write_changed(h);
            let ty = body.program.header_type(h.id);
            if let Some(field) = ty.varbit() {
                let value = format!("s->{}.{}", h.name, body.names.field(h.id, field));
                let (first, bits) = (ty.fields[field].offset / 8, ty.fields[field].offset % 8);
                let rest = h.bytes - first;
                body.text.line(format!(
                    "bytes_insert(p + {first}, {rest}, {bits}, {value}.bytes, {value}.length);"
                ));
            }
        });
    }

    /// Emits stores to the header at `p`: the changed fields, with those that share bytes with them, or all fields if the program created the
    /// header.
    fn write_changed(&mut self, h: &Emitted) {
        let created = self.facts.created.contains(&h.id);
        for group in header::groups(self.program.header_type(h.id)) {
            if created || group.iter().any(|f| self.facts.changed.contains(&(h.id, *f as u32))) {
                header::write(self, h.id, &group);
            }
        }
    }

    /// Emits the update of each checksum over the payload, with `write`. An update has no effect on a packet if the checksum's header does not
    /// leave.
    pub fn updates(&mut self, order: &[Emitted], write: impl Fn(&mut Self, &UpdateAt<'_>)) {
        let plan = self.facts.plan.clone();
        for (number, sum) in plan.sums.iter().enumerate() {
            let Place::Field(HeaderRef::Header(h), field) = &sum.place else { continue };
            let Some(header) = order.iter().find(|e| e.id == *h) else { continue };
            let field = *field as usize;
            let nonzero = self.program.header_type(*h).fields[field].checksum_nonzero;
            self.in_packet(header, &sums::is_updated(&plan, number), |body, at| {
                let place = at.field(body, field);
                body.point(at, &place, 2);
                write(body, &UpdateAt { number, sum, place, nonzero });
            });
        }
    }
}

/// The emit statements of a deparser.
struct Emits {
    /// The emitted headers, in the order of the statements.
    order: Vec<HeaderId>,
    /// Whether there are only emit statements, all of which run.
    simple: bool,
    /// Limits of the compiled targets, with a hint.
    problems: Vec<(ir::Loc, &'static str, &'static str)>,
}

impl Emits {
    fn block(&mut self, program: &ir::Program, block: &ir::Block, in_loop: bool) {
        for stmt in block {
            self.stmt(program, stmt, in_loop);
        }
    }

    fn stmt(&mut self, program: &ir::Program, stmt: &ir::Stmt, in_loop: bool) {
        match &stmt.kind {
            StmtKind::Emit(_) if in_loop => {
                self.problems.push((
                    stmt.loc,
                    "a header that is emitted in a loop",
                    "write one `emit` for each",
                ));
            }
            StmtKind::Emit(HeaderRef::Header(h)) if self.order.contains(h) => {
                self.problems.push((
                    stmt.loc,
                    "a header that is emitted twice",
                    "copy it to a second header",
                ));
            }
            StmtKind::Emit(HeaderRef::Header(h)) => self.order.push(*h),
            StmtKind::Emit(_) => {
                let what = "emitting a header stack's element that is found at run time";
                self.problems.push((stmt.loc, what, "use constant indexes"));
            }
            StmtKind::Block { body, .. } => self.block(program, body, in_loop),
            StmtKind::Assign { .. }
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
            | StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::Atomic(_)
            | StmtKind::Loop { .. }
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Apply { .. }
            | StmtKind::Drop(_)
            | StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Call(_) => {
                self.simple = false;
                effects::writes(program, stmt, &mut |cell| {
                    if let Cell::Field(h, _) | Cell::Valid(h) = cell
                        && self.order.contains(&h)
                    {
                        let what = "a header that is changed after it was emitted";
                        self.problems.push((stmt.loc, what, "change it before"));
                    }
                });
                let in_loop = in_loop || matches!(stmt.kind, StmtKind::Loop { .. });
                visit::inner_blocks(stmt).into_iter().for_each(|b| self.block(program, b, in_loop));
            }
        }
    }
}

/// The update of a checksum whose header is in the packet. The C variable `p` points to the checksum.
pub struct UpdateAt<'p> {
    /// The number of the sum in the plan.
    pub number: usize,
    /// The sum in the plan.
    pub sum: &'p ir::checksum::Sum,
    /// The C of the checksum's offset in the packet.
    pub place: String,
    /// Whether a checksum of 0 is written as ffff, as UDP requires.
    pub nonzero: bool,
}
