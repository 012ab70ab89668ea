//! The C of statements that access packets, tables or externs, and of drops.

use abi::manifest::RegisterPlace;
use abi::native::digest::MESSAGE;
use ir::{Call, HashAlgorithm, HeaderId, HeaderRef, Place, Stmt, StmtKind};

use super::emitter::BUFFER;
use super::layout::FlowRow;
use super::{Body, Machine, Unit, c_type, header, layout, mask, stack, sums, table, wide};

impl Body<'_> {
    /// Emits such a statement.
    pub(super) fn special(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
                if self.callback.is_some() =>
            {
                let hint = "a parser state that goes to itself is a loop, too";
                self.unsupported("reading the packet in a loop whose number of iterations is not known", hint)
            }
            StmtKind::Extract { header: HeaderRef::Header(h), varbit: None } => self.extract(*h),
            StmtKind::Extract { header: HeaderRef::Header(h), varbit: Some(bits) } => {
                match (self.program.header_type(*h).varbit(), self.facts.machine()) {
                    (Some(field), Machine::Native) => self.extract_varbit(*h, field, bits),
                    (Some(field), Machine::Bpf) => self.extract_varbit_by_helper(*h, field, bits),
                    (None, _) => {}
                }
                let field =
                    |body: &Self, f| format!("s->{}.{}", body.names.header(*h), body.names.field(*h, f));
                self.extract_parts(*h, field);
            }
            StmtKind::Extract { .. } => {}
            StmtKind::Lookahead { dst } => self.lookahead(dst),
            StmtKind::Advance(e) => self.advance(e),
            StmtKind::Verify { cond, error } => {
                let cond = self.expr(cond);
                self.text.open(format!("if (!{cond})"));
                self.text.line(format!("error = {};", error.0));
                self.text.line(format!("goto {};", self.rejected));
                self.text.close("");
            }
            StmtKind::Drop(site) => self.drop_packet(*site),
            StmtKind::Apply { table, hit, action } => self.apply(*table, *hit, *action),
            StmtKind::Call(call) => self.call(call),
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
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Emit(_) => {}
        }
    }
}

impl Body<'_> {
    /// Emits a rejection with `error.PacketTooShort`.
    pub(super) fn too_short(&mut self) {
        self.reject(1, "PacketTooShort");
    }

    /// Emits a rejection with an error of core.p4: its number and its name.
    pub(super) fn reject(&mut self, number: u32, name: &str) {
        self.text.line(format!("error = {number}; /* {name} */"));
        self.text.line(format!("goto {};", self.rejected));
    }

    fn extract(&mut self, h: HeaderId) {
        let ty = self.program.header_type(h).clone();
        let name = self.names.header(h).to_string();
        let bytes = ty.min_bits() / 8;
        let pkt = self.facts.hook.packet();
        self.text.line(format!("p = packet_at({pkt}, s->cursor, {bytes});"));
        self.text.open("if (!p)");
        self.too_short();
        self.text.close("");
        for (i, field) in ty.fields.iter().enumerate() {
            if self.facts.extracts(h, i as u32) {
                self.text.line(format!("s->{name}.{} = {};", self.names.field(h, i), header::read(field)));
            }
        }
        self.extract_parts(h, |body, field| header::read(&body.program.header_type(h).fields[field]));
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
        if c_type(ty).is_none() && self.facts.machine() == Machine::Bpf {
            return self.unsupported("a lookahead of more than 128 bits", "extract a header");
        }
        let field = ir::Field { name: ir::Name::default(), ty, offset: 0, checksum_nonzero: false };
        let pkt = self.facts.hook.packet();
        self.text.line(format!("p = packet_at({pkt}, s->cursor, {});", ty.width().div_ceil(8)));
        self.text.open("if (!p)");
        self.too_short();
        self.text.close("");
        self.assign(dst, &header::read(&field));
    }

    fn advance(&mut self, e: &ir::Expr) {
        let bits = self.expr(e);
        self.text.open("");
        self.text.line(format!("u32 bits = {bits};"));
        let length = self.facts.hook.length();
        self.text.open("if (bits & 7)");
        self.reject(6, "ParserInvalidArgument");
        self.text.close("");
        self.text.open(format!("if (bits > 0x7ffff || s->cursor + (bits >> 3) > {length})"));
        self.too_short();
        self.text.close("");
        self.text.line("s->cursor += bits >> 3;");
        self.text.close("");
    }

    fn drop_packet(&mut self, site: ir::DropSiteId) {
        self.text.line(format!(
            "s->site = {}; /* {} */",
            site.0 + 1,
            self.program.drop_sites[site.index()].name.comment()
        ));
    }

    fn apply(&mut self, table: ir::TableId, hit: Option<ir::VarId>, action: Option<ir::VarId>) {
        let name = format!("apply_{}", self.names.table(table));
        let call = self.facts.call(&name, Unit::Table(table.0));
        if hit.is_none() && action.is_none() {
            self.text.line(format!("{call};"));
            return self.unless_ended();
        }
        // Bit 16 is set on a hit. The bits below are the number of the action that ran.
        self.text.open("");
        self.text.line(format!("u32 result = {call};"));
        if let Some(var) = hit {
            self.assign(&Place::Var(var), "(result >> 16) & 1");
        }
        if let Some(var) = action {
            self.assign(&Place::Var(var), "result & 0xffff");
        }
        self.text.close("");
        self.unless_ended();
    }

    /// Ends the function if an action has ended the packet.
    fn unless_ended(&mut self) {
        if self.facts.ends {
            self.text.open("if (s->ended)");
            self.return_ended();
            self.text.close("");
        }
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Count { counter, index } => {
                let cell = self.counter_cell(*counter);
                let length = self.program.standard.packet_length;
                let (index, bytes) = (self.narrow(index, "an index"), self.var(length));
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                self.text.line(format!("struct count *c = {cell};"));
                self.text.line("if (c)");
                self.text.line(format!("    count_packet(c, {bytes});"));
                self.text.close("");
            }
            Call::RegisterRead { register, dst, index } => {
                let width = self.program.registers[register.index()].ty.width();
                let cell = self.register_cell(*register);
                let index = self.narrow(index, "an index");
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                self.text.line(format!("u64 *cell = {cell};"));
                let value = match width {
                    65.. => mask("cell ? U128(cell[1], cell[0]) : 0".to_string(), width),
                    _ => mask("cell ? *cell : 0".to_string(), width),
                };
                self.assign(dst, &value);
                self.text.close("");
            }
            Call::RegisterWrite { register, index, value } => {
                let wide = value.ty.width() > 64;
                let cell = self.register_cell(*register);
                let (index, value) = (self.narrow(index, "an index"), self.expr(value));
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                self.text.line(format!("u64 *cell = {cell};"));
                self.text.open("if (cell)");
                if wide {
                    self.text.line(format!("u128 value = {value};"));
                    self.text.line("cell[0] = (u64)value;");
                    self.text.line("cell[1] = (u64)(value >> 64);");
                } else {
                    self.text.line(format!("*cell = {value};"));
                }
                self.text.close("");
                self.text.close("");
            }
            Call::Random { dst, lo, hi } => self.random(dst, lo, hi),
            Call::Hash { dst, algorithm, base, data, max } => self.hash(dst, *algorithm, base, data, max),
            Call::AddToSum { dst, data, subtract } => sums::add(self, dst, data, *subtract),
            Call::UpdateHash { dst, algorithm: HashAlgorithm::Csum16, data } => sums::resume(self, dst, data),
            Call::UpdateHash { dst, algorithm, data } => self.update_hash(dst, *algorithm, data),
            Call::VerifyChecksum { .. } => sums::verify(self, call),
            Call::UpdateChecksum { .. } => sums::update(self, call),
            Call::Assert { cond, site, .. } => {
                let cond = self.expr(cond);
                self.text.open(format!("if (!({cond}))"));
                self.text.line(format!("s->ended = {};", site.0 + 1));
                self.return_ended();
                self.text.close("");
            }
            Call::Meter { meter, index, dst } if self.facts.machine() == Machine::Bpf => {
                let (index, units) = (self.narrow(index, "an index"), self.units_of(*meter));
                self.text.open("");
                self.text.line(format!("u32 index = {index};"));
                let cell = format!("bpf_map_lookup_elem(&strait_meter_{}, &index)", meter.0);
                self.assign(dst, &format!("execute_meter({cell}, {units})"));
                self.text.close("");
            }
            Call::Meter { meter, index, dst } => {
                let (index, units) = (self.narrow(index, "an index"), self.units_of(*meter));
                self.text.open("");
                self.text.line(format!("u64 index = {index};"));
                let call = format!(
                    "meter_colour(pkt->frame.shared, pkt->frame.worker, {}, index, {units})",
                    meter.0
                );
                self.assign(dst, &call);
                self.text.close("");
            }
            Call::DirectRegisterRead { table, dst } => {
                let (found, cell) = self.direct_register(*table);
                self.assign(dst, &format!("({found} ? {cell} : 0)"));
            }
            Call::DirectRegisterWrite { table, value } => {
                let ((found, cell), value) = (self.direct_register(*table), self.expr(value));
                self.text.line(format!("if ({found})"));
                self.text.line(format!("    {cell} = {value};"));
            }
            Call::DirectMeter { meter, dst } => self.assign(dst, &format!("s->colour_{}", meter.0)),
            Call::Digest { data, .. } => self.digest(call, data),
            Call::AddEntry { done, table, action, args, profile }
                if self.facts.hook.machine() == Machine::Bpf =>
            {
                self.bpf_add_entry(done.as_ref(), *table, *action, args, profile)
            }
            Call::RestartTimer(profile) if self.facts.hook.machine() == Machine::Bpf => {
                self.bpf_restart_timer(profile.as_ref())
            }
            Call::AddEntry { done, table, action, args, profile } => {
                self.add_entry(done.as_ref(), *table, *action, args, profile)
            }
            Call::RestartTimer(profile) => self.restart_timer(profile.as_ref()),
            Call::FlowId(dst) if self.facts.hook.machine() == Machine::Bpf => {
                self.text.open("");
                self.text.line("u32 first = 0, flow = 0;");
                self.text.line("u32 *last = bpf_map_lookup_elem(&strait_flow_ids, &first);");
                self.text.line("if (last)");
                self.text.line("    flow = __sync_fetch_and_add(last, 1) + 1;");
                self.assign(dst, "flow");
                self.text.close("");
            }
            Call::FlowId(dst) => {
                let id = "__atomic_add_fetch(pkt->frame.shared->flow_ids, 1, __ATOMIC_RELAXED)";
                self.assign(dst, id);
            }
            Call::LogMsg { args, .. } => self.message(call, args),
            Call::DirectCount(_) => {}
        }
    }

    /// In an action of a table that learns: the C of whether an entry was hit, and of the cell of its direct register.
    fn direct_register(&self, table: ir::TableId) -> (String, String) {
        let definition = &self.program.tables[table.index()];
        let place = layout::register_of(definition).unwrap_or(RegisterPlace { offset: 0, size: 8 });
        let (found, data) = match self.facts.hook.machine() {
            // The verifier knows of `v` that it is a row or 0.
            Machine::Bpf => {
                let layout = layout::learning_layout(self.program, table, self.names);
                ("v", format!("v + {}", layout.map_or(0, |(layout, _)| layout.data_offset)))
            }
            Machine::Native => ("row", format!("(u8 *)row + {}", FlowRow::of(definition).data)),
        };
        let ty = table::register_type(place);
        (found.to_string(), format!("*(volatile {ty} *)({data} + {})", place.offset))
    }

    /// The C of the number of units that a meter counts for this packet: its length in bytes, or 1.
    pub fn units_of(&mut self, meter: ir::MeterId) -> String {
        match self.program.meters[meter.index()].bytes {
            true => self.var(self.program.standard.packet_length),
            false => "1".to_string(),
        }
    }

    /// Emits a digest.
    fn digest(&mut self, call: &Call, data: &[ir::Expr]) {
        let digest = ir::manifest::digest(call);
        let number = digest.and_then(|digest| self.facts.digests.get(&digest).copied()).unwrap_or(0);
        self.tell(number, "a digest", data);
    }

    /// Emits a message for the host's log, if the host listens.
    fn message(&mut self, call: &Call, args: &[ir::Expr]) {
        let message = ir::manifest::message(self.program, call, self.loc);
        let number = message.and_then(|message| self.facts.messages.get(&message).copied()).unwrap_or(0);
        self.text.open(match self.facts.machine() {
            Machine::Bpf => "if (host_listens())",
            Machine::Native => "if (__builtin_expect(pkt->frame.shared->listens, 0))",
        });
        self.tell(MESSAGE | number, "a message", args);
        self.text.close("");
    }

    /// Emits a record for the host with these values (see [`abi::native::digest`]).
    fn tell(&mut self, number: u32, what: &str, data: &[ir::Expr]) {
        let bytes: u32 = data.iter().map(|e| e.ty.width().div_ceil(8)).sum();
        if data.iter().any(|e| e.ty.is_varbit()) {
            return self.unsupported(&format!("{what} with a varbit field"), "send the fields of fixed size");
        }
        let in_kernel = self.facts.machine() == Machine::Bpf;
        self.text.open("");
        if in_kernel {
            self.text.line(format!("u32 *event = reserve_event({number}u, {bytes});"));
            self.text.open("if (event)");
            self.text.line("UNUSED u8 *k = (u8 *)(event + 2);");
        } else {
            self.text.line(format!("u8 *k = add_digest(pkt->frame.worker, {number}u, {bytes});"));
            self.text.open("if (k)");
        }
        let mut at = 0;
        for value in data {
            let text = self.expr(value);
            header::write_key(&text, value.ty.width(), at, self.text);
            at += value.ty.width().div_ceil(8);
        }
        if in_kernel {
            self.text.line("bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);");
        }
        self.text.close("");
        self.text.close("");
    }

    /// The C of a pointer to the cell `index` of a counter; 0 if the index is too large.
    fn counter_cell(&self, counter: ir::CounterId) -> String {
        let counters = &self.program.counters;
        match self.facts.machine() {
            Machine::Bpf => {
                let first: u64 = counters[..counter.index()].iter().map(|c| c.size).sum();
                format!("counter_cell(index, {first}, {})", counters[counter.index()].size)
            }
            Machine::Native => format!("counter_cell(pkt->frame.worker, {}, index)", counter.0),
        }
    }

    /// The C of a pointer to the cell `index` of a register; 0 if the index is too large.
    fn register_cell(&self, register: ir::RegisterId) -> String {
        match self.facts.machine() {
            Machine::Bpf => {
                let name = self.names.register(register);
                format!("bpf_map_lookup_elem(&r_{name}, &index)")
            }
            Machine::Native => format!("register_cell(pkt->frame.shared, {}, index)", register.0),
        }
    }

    fn random(&mut self, dst: &Place, lo: &ir::Expr, hi: &ir::Expr) {
        let width = lo.ty.width();
        if width > 64 {
            return self.unsupported("a random number of more than 64 bits", "concatenate two");
        }
        let (lo, hi) = (self.expr(lo), self.expr(hi));
        self.text.open("");
        self.text.line(match self.facts.machine() {
            Machine::Bpf => "u64 random = ((u64)bpf_get_prandom_u32() << 32) | bpf_get_prandom_u32();",
            Machine::Native => "u64 random = random_u64(pkt->frame.worker);",
        });
        self.text.line(format!("u64 span = (u64){hi} - (u64){lo} + 1;"));
        self.assign(dst, &mask(format!("{lo} + (span ? random % span : random)"), width));
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
        let (summed, native) = (algorithm == HashAlgorithm::Csum16, self.facts.machine() == Machine::Native);
        let (width, wide) = (self.place_width(dst), max.ty.width() > 64);
        if max.ty.width() > 128 {
            let hint = "64 bits are enough for any hash";
            return self.unsupported("a hash with a limit of more than 128 bits", hint);
        }
        if wide && !native {
            return self
                .unsupported("a hash with a limit of more than 64 bits", "64 bits are enough for any hash");
        }
        let ty = c_type(ir::Ty::Bit(width.max(64))).unwrap_or("u128");
        self.text.open("");
        let value = match summed {
            true => format!("(u16)~fold({})", sums::of_list(self, data)),
            false => self.hash_value(algorithm, data),
        };
        let (base, max) = (self.converted(base, width), self.expr(max));
        self.text.line(format!("u64 value = {value};"));
        self.text.line(format!("{} most = {max};", if wide { "u128" } else { "u64" }));
        let sum = match width {
            0..=128 => mask(format!("({ty}){base} + ({ty})(most ? value % most : 0)"), width),
            _ => wide::plus(&base, "most ? value % most : 0", width),
        };
        self.assign(dst, &sum);
        self.text.close("");
    }

    fn place_width(&self, place: &Place) -> u32 {
        match place {
            Place::Var(id) => self.program.var(*id).ty.width(),
            Place::Field(h, field) => {
                let id = stack::elements(self.program, h).first().copied().unwrap_or_default();
                self.program.header_type(id).fields[*field as usize].ty.width()
            }
        }
    }

    /// Emits the continuation of a hash.
    fn update_hash(&mut self, dst: &Place, algorithm: HashAlgorithm, data: &[ir::Expr]) {
        self.text.open("");
        let (size, old) = (self.hash_bytes(data), self.place(dst));
        let function = self.hash_function(algorithm);
        self.assign(dst, &format!("update_{function}({old}, bytes, {size})"));
        self.text.close("");
    }

    /// The C of the hash of data: its bits are concatenated, and the last byte is padded with zeros. Emits the declaration of `bytes`, which
    /// holds them.
    pub fn hash_value(&mut self, algorithm: HashAlgorithm, data: &[ir::Expr]) -> String {
        let size = self.hash_bytes(data);
        format!("hash_{}(bytes, {size})", self.hash_function(algorithm))
    }

    /// Emits the declaration of `bytes`, which holds the data of a hash. Returns the C of their number.
    fn hash_bytes(&mut self, data: &[ir::Expr]) -> String {
        let bits: u32 = data.iter().map(|e| e.ty.width()).sum();
        let size = bits.div_ceil(8);
        let psa = self.program.arch == ir::Arch::Psa;
        let variable = data.iter().any(|e| e.ty.is_varbit());
        if variable && self.facts.machine() == Machine::Bpf {
            self.unsupported("a hash of a varbit field", "hash the fields of fixed size, or run on native");
            return "0".to_string();
        }
        if variable {
            // A varbit is a whole number of bytes.
            let fixed: u32 = data.iter().filter(|e| !e.ty.is_varbit()).map(|e| e.ty.width()).sum();
            return self.gather(data, if psa { fixed.next_multiple_of(8) - fixed } else { 0 });
        }
        match self.facts.machine() {
            Machine::Native => self.text.line(format!("u8 bytes[{}] = {{ 0 }};", size.max(1))),
            // The verifier refuses unaligned stores to the stack, so the bytes are in the packet's scratch.
            Machine::Bpf => {
                if size > BUFFER {
                    self.unsupported("a hash of more than 256 bytes", "hash fewer fields");
                }
                self.text.line("u8 *bytes = (u8 *)t->buffer;");
                self.text.line(format!("__builtin_memset(bytes, 0, {});", size.max(1)));
            }
        }
        // PSA's hashes fill up the first byte, v1model's the last one, as in BMv2.
        let mut at = if psa { size * 8 - bits } else { 0 };
        for field in data {
            let (width, value) = (field.ty.width(), self.expr(field));
            if at.is_multiple_of(8) && width.is_multiple_of(8) {
                self.text.open("");
                self.text.line("u8 *k = bytes;");
                header::write_key(&value, width, at / 8, self.text);
                self.text.close("");
            } else {
                header::write_bits("bytes", &value, width, at, self.text);
            }
            at += width;
        }
        size.to_string()
    }

    /// The name of a hash function in the preludes, without its prefix.
    fn hash_function(&mut self, algorithm: HashAlgorithm) -> &'static str {
        match algorithm {
            // BMv2's custom CRCs equal the standard ones until a controller changes their parameters.
            HashAlgorithm::Crc32 | HashAlgorithm::Crc32Custom => "crc32",
            HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => "crc16",
            HashAlgorithm::Identity => "identity",
            HashAlgorithm::Random => {
                let hint = "`random` draws a number; to spread flows, use crc16 or crc32";
                self.unsupported("HashAlgorithm.random", hint);
                "identity"
            }
            HashAlgorithm::Csum16 => "csum16",
            HashAlgorithm::Xor16 => "xor16",
        }
    }
}
