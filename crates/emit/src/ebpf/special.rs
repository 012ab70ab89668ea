//! The statements that only this target can write: packet access, drops, externs.

use std::collections::HashSet;

use ir::checksum::Plan;
use ir::{Call, HashAlgorithm, HeaderId, HeaderRef, Place, Program, Stmt, StmtKind, visit};

use super::{header, sums};
use crate::c::{Body, Target, c_name, c_type, mask};

/// What the emitter of eBPF keeps beside the text.
pub struct Ebpf {
    /// Checksums to derive.
    pub plan: Plan,
    /// Fields that something reads after extraction.
    pub used: HashSet<(HeaderId, u32)>,
    /// Headers that the program changes or makes.
    pub touched: HashSet<HeaderId>,
    /// Headers that are never changed and may have to be moved as they are.
    pub raw: Vec<u32>,
    /// Whether the program looks at `checksum_error`.
    pub checks: bool,
    /// How many statements apply each table.
    pub applications: Vec<u32>,
    /// Statements with checksums met so far.
    pub count: ir::checksum::Numbering,
}

impl Ebpf {
    /// Looks a program over.
    pub fn new(program: &Program) -> Ebpf {
        let plan = ir::checksum::plan(program);
        let mut used = HashSet::new();
        visit::all_exprs(program, &mut |e| {
            if let ir::ExprKind::Read(Place::Field(HeaderRef::Header(h), f)) = &e.kind {
                used.insert((*h, *f));
            }
        });
        let touched = touched(program);
        let emitted = |h: &u32| !touched.contains(&HeaderId(*h));
        let raw = (0..program.headers.len() as u32).filter(emitted).collect();
        let mut checks = false;
        let error = program.standard.checksum_error;
        visit::all_exprs(program, &mut |e| {
            checks |= matches!(&e.kind, ir::ExprKind::Read(Place::Var(v)) if *v == error);
        });
        let mut applications = vec![0; program.tables.len()];
        visit::all_stmts(program, &mut |stmt| {
            if let StmtKind::Apply { table, .. } = &stmt.kind {
                applications[table.index()] += 1;
            }
        });
        Ebpf { plan, used, touched, raw, checks, applications, count: Default::default() }
    }

    /// Whether a field is extracted.
    pub fn extracts(&self, h: HeaderId, field: u32) -> bool {
        self.touched.contains(&h) || self.used.contains(&(h, field))
    }
}

/// Headers with a field, or their validity, that anything but extraction writes. A sum that is written incrementally
/// touches nothing: it is changed in the packet.
fn touched(program: &Program) -> HashSet<HeaderId> {
    let mut touched = HashSet::new();
    visit::all_stmts(program, &mut |stmt| {
        let deferred = matches!(&stmt.kind, StmtKind::Call(Call::UpdateChecksum { payload: true, .. }));
        if let (Some(Place::Field(HeaderRef::Header(h), _)), false) = (visit::written(stmt), deferred) {
            touched.insert(*h);
        }
        match &stmt.kind {
            StmtKind::SetValid(HeaderRef::Header(h))
            | StmtKind::CopyHeader { dst: HeaderRef::Header(h), .. } => {
                touched.insert(*h);
            }
            _ => {}
        }
    });
    touched
}

impl Target for Ebpf {
    const LOOP_BOUND: u64 = 256;

    fn special(body: &mut Body<'_, Self>, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Extract { header: HeaderRef::Header(h), varbit: None } => body.extract(*h),
            StmtKind::Extract { varbit: Some(_), .. } => body.unsupported(
                "a varbit field",
                "read the options with `lookahead` and `advance`, or run on the interpreter",
            ),
            StmtKind::Extract { .. } => body.stack_unsupported(),
            StmtKind::Lookahead { dst } => body.lookahead(dst),
            StmtKind::Advance(e) => body.advance(e),
            StmtKind::Verify { cond, error } => {
                let cond = body.expr(cond);
                body.text.open(format!("if (!{cond})"));
                body.text.line(format!("error = {};", error.0));
                body.text.line("goto rejected;");
                body.text.close("");
            }
            StmtKind::Drop(site) => body.drop_packet(*site),
            StmtKind::Apply { table, hit, action } => body.apply(*table, *hit, *action),
            StmtKind::Call(call) => body.call(call),
            _ => {}
        }
    }
}

impl Body<'_, Ebpf> {
    fn too_short(&mut self) {
        self.text.line("error = 1; /* PacketTooShort */");
        self.text.line("goto rejected;");
    }

    fn extract(&mut self, h: HeaderId) {
        let ty = self.program.header_type(h).clone();
        let name = self.names.header(h).to_string();
        let bytes = ty.min_bits() / 8;
        self.text.line(format!("p = packet_at(skb, s->cursor, {bytes});"));
        self.text.open("if (!p)");
        self.too_short();
        self.text.close("");
        for (i, field) in ty.fields.iter().enumerate() {
            if self.target.extracts(h, i as u32) {
                self.text.line(format!("s->{name}.{} = {};", c_name(&field.name), header::read(field)));
            }
        }
        self.text.line(format!("s->{name}_valid = 1;"));
        self.text.line(format!("t->{name}_in = s->cursor;"));
        self.text.line(format!("s->cursor += {bytes};"));
    }

    fn lookahead(&mut self, dst: &Place) {
        let ty = match dst {
            Place::Var(id) => self.program.var(*id).ty,
            Place::Field(HeaderRef::Header(h), f) => self.program.header_type(*h).fields[*f as usize].ty,
            Place::Field(..) => return self.stack_unsupported(),
        };
        if c_type(ty).is_none() {
            return self.unsupported("a lookahead of more than 128 bits", "extract a header");
        }
        let field = ir::Field { name: String::new(), ty, offset: 0, checksum_nonzero: false };
        self.text.line(format!("p = packet_at(skb, s->cursor, {});", ty.width().div_ceil(8)));
        self.text.open("if (!p)");
        self.too_short();
        self.text.close("");
        self.assign(dst, &header::read(&field));
    }

    fn advance(&mut self, e: &ir::Expr) {
        let bits = self.expr(e);
        self.text.open("");
        self.text.line(format!("u32 bits = {bits};"));
        self.text.open("if (bits > 0x7ffff || s->cursor + ((bits + 7) >> 3) > skb->len)");
        self.too_short();
        self.text.close("");
        self.text.open("if (bits & 7)");
        self.text.line("error = 6; /* ParserInvalidArgument: this target moves by whole bytes */");
        self.text.line("goto rejected;");
        self.text.close("");
        self.text.line("s->cursor += bits >> 3;");
        self.text.close("");
    }

    fn drop_packet(&mut self, site: ir::DropSiteId) {
        let std = self.program.standard;
        let (spec, group) = (self.var(std.egress_spec), self.var(std.mcast_grp));
        self.text.line(format!("{spec} = {};", abi::DROP_PORT));
        self.text.line(format!("{group} = 0;"));
        self.text.line(format!(
            "s->site = {}; /* {} */",
            site.0 + 1,
            self.program.drop_sites[site.index()].name
        ));
    }

    fn apply(&mut self, table: ir::TableId, hit: Option<ir::VarId>, action: Option<ir::VarId>) {
        let name = self.names.table(table).to_string();
        if hit.is_none() && action.is_none() {
            self.text.line(format!("apply_{name}(skb);"));
            return;
        }
        // Bit 16 tells a hit, the bits below it which action ran.
        self.text.open("");
        self.text.line(format!("u32 result = apply_{name}(skb);"));
        if let Some(var) = hit {
            self.assign(&Place::Var(var), "(result >> 16) & 1");
        }
        if let Some(var) = action {
            self.assign(&Place::Var(var), "result & 0xffff");
        }
        self.text.close("");
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Count { counter, index } => {
                let map = format!("c_{}", c_name(&self.program.counters[counter.index()].name));
                let length = self.program.standard.packet_length;
                let (index, bytes) = (self.expr(index), self.var(length));
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                self.text.line(format!("struct count *c = bpf_map_lookup_elem(&{map}, &index);"));
                self.text.line("if (c)");
                self.text.line(format!("    count_packet(c, {bytes});"));
                self.text.close("");
            }
            Call::RegisterRead { register, dst, index } => {
                let cell = &self.program.registers[register.index()];
                let (map, width) = (format!("r_{}", c_name(&cell.name)), cell.ty.width());
                let index = self.expr(index);
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                self.text.line(format!("u64 *cell = bpf_map_lookup_elem(&{map}, &index);"));
                let value = mask("cell ? *cell : 0".to_string(), width);
                self.assign(dst, &value);
                self.text.close("");
            }
            Call::RegisterWrite { register, index, value } => {
                let map = format!("r_{}", c_name(&self.program.registers[register.index()].name));
                let (index, value) = (self.expr(index), self.expr(value));
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                self.text.line(format!("u64 *cell = bpf_map_lookup_elem(&{map}, &index);"));
                self.text.line("if (cell)");
                self.text.line(format!("    *cell = {value};"));
                self.text.close("");
            }
            Call::Random { dst, lo, hi } => self.random(dst, lo, hi),
            Call::Hash { dst, algorithm, base, data, max } => self.hash(dst, *algorithm, base, data, max),
            Call::VerifyChecksum { .. } => sums::verify(self, call),
            Call::UpdateChecksum { .. } => sums::update(self, call),
            Call::Assert { .. } => {
                self.unsupported("`assert`", "test the condition with `if` and mark_to_drop")
            }
            Call::Meter { .. } | Call::DirectMeter { .. } => {
                self.unsupported("a meter", "meters run on the interpreter for now")
            }
            Call::Digest { .. } => {
                self.unsupported("`digest`", "count the packets, or keep them in a register")
            }
            Call::Clone { .. } | Call::Resubmit { .. } | Call::Recirculate { .. } => {
                let hint = "a packet leaves this target once, or not at all; the interpreter does more";
                self.unsupported("a clone or another round of the packet", hint)
            }
            Call::Truncate(_) => self.unsupported("`truncate`", "the interpreter can"),
            Call::SendToPort(_)
            | Call::MirrorPacket { .. }
            | Call::AddEntry { .. }
            | Call::RestartTimer(_)
            | Call::FlowId(_) => self.unsupported("PNA", "the interpreter can"),
            Call::DirectCount(_) | Call::LogMsg { .. } => {}
        }
    }

    fn random(&mut self, dst: &Place, lo: &ir::Expr, hi: &ir::Expr) {
        let width = lo.ty.width();
        if width > 64 {
            return self.unsupported("a random number of more than 64 bits", "concatenate two");
        }
        let (lo, hi) = (self.expr(lo), self.expr(hi));
        self.text.open("");
        self.text.line("u64 draw = ((u64)bpf_get_prandom_u32() << 32) | bpf_get_prandom_u32();");
        self.text.line(format!("u64 span = (u64){hi} - (u64){lo} + 1;"));
        self.assign(dst, &mask(format!("{lo} + (span ? draw % span : draw)"), width));
        self.text.close("");
    }

    fn hash(
        &mut self,
        dst: &Place,
        algorithm: HashAlgorithm,
        base: &ir::Expr,
        data: &[ir::Expr],
        max: &ir::Expr,
    ) {
        if algorithm != HashAlgorithm::Csum16 {
            let hint = "HashAlgorithm.csum16 is, for now";
            return self.unsupported("this hash algorithm", hint);
        }
        let width = base.ty.width();
        let (terms, aligned) = ir::checksum::terms(data);
        if !aligned {
            return self.unsupported(
                "a hash over a list that is no whole number of 16-bit words",
                "pad it with zeros",
            );
        }
        let sum = sums::total(self, terms.iter().map(|(e, shift)| (e, *shift)));
        let (base, max) = (self.expr(base), self.expr(max));
        self.text.open("");
        self.text.line(format!("u64 value = (u16)~fold({sum});"));
        self.text.line(format!("u64 most = {max};"));
        self.assign(dst, &mask(format!("{base} + (most ? value % most : 0)"), width));
        self.text.close("");
    }
}
