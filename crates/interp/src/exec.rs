//! Executes statements.

use abi::{ActionCall, Bits, Digest, MatchValue, Message, drops, show};
use dataplane::device::Event as Reported;
use dataplane::meter::GREEN;
use dataplane::table::Mismatch;
use ir::{Block, Call, Expr, HeaderId, HeaderRef, LabelId, Loc, Place, Stmt, StmtKind, TableId, VarId};

use crate::eval::{eval, header, read, truth};
use crate::event::Event;
use crate::machine::Run;
use crate::packet::PacketState;
use crate::pna::Applying;
use crate::sums;

/// How the execution of a block ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flow {
    /// The block ran to its end.
    Next,
    /// A `Break` leaves the block or loop with this label.
    Break(LabelId),
    /// A `Continue` goes to the next iteration of the loop with this label.
    Continue(LabelId),
    /// The parser rejected the packet with this error.
    Reject(u32),
    /// The packet is dropped at once, for the reason with this number.
    Drop(usize),
}

impl Run<'_, '_> {
    /// Runs a block.
    pub fn block(&mut self, block: &Block) -> Flow {
        for stmt in block {
            let flow = self.stmt(stmt);
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn stmt(&mut self, stmt: &Stmt) -> Flow {
        let p = self.program;
        match &stmt.kind {
            StmtKind::Assign { dst, src } => {
                let value = eval(p, &self.s, src);
                self.write(dst, value, stmt.loc);
            }
            StmtKind::CopyHeader { dst, src } => self.copy_header(dst, src),
            StmtKind::CopyStack { dst, src } => self.copy_stack(*dst, *src),
            StmtKind::SetValid(h) => self.set_validity(h, true, stmt.loc),
            StmtKind::SetInvalid(h) => self.set_validity(h, false, stmt.loc),
            StmtKind::PushFront(stack, n) => self.shift_stack(*stack, *n, true),
            StmtKind::PopFront(stack, n) => self.shift_stack(*stack, *n, false),
            StmtKind::If { cond, then, otherwise } => {
                let holds = truth(p, &self.s, cond);
                self.tell_decided("if", cond, Bits::bit(holds), stmt.loc);
                return self.block(if holds { then } else { otherwise });
            }
            StmtKind::Switch { on, arms, default } => {
                let value = eval(p, &self.s, on);
                self.tell_decided("switch", on, value.clone(), stmt.loc);
                let arm = arms.iter().find(|(values, _)| values.contains(&value)).map_or(default, |(_, b)| b);
                return self.block(arm);
            }
            StmtKind::Block { label, body } => {
                let flow = self.block(body);
                return if flow == Flow::Break(*label) { Flow::Next } else { flow };
            }
            // The interpreter runs one packet at a time, so every block is atomic.
            StmtKind::Atomic(body) => return self.block(body),
            StmtKind::Loop { label, body, .. } => return self.repeat(*label, body),
            StmtKind::Break(label) => return Flow::Break(*label),
            StmtKind::Continue(label) => return Flow::Continue(*label),
            StmtKind::Apply { table, hit, action } => return self.apply(*table, *hit, *action, stmt.loc),
            StmtKind::Drop(site) => self.mark_to_drop(*site),
            StmtKind::Extract { header, varbit } => {
                let bits = varbit.as_ref().map(|e| eval(p, &self.s, e).to_u64().unwrap_or(u64::MAX));
                return self.extract(header, bits, stmt.loc);
            }
            StmtKind::Lookahead { dst } => return self.lookahead(dst, stmt.loc),
            StmtKind::Advance(e) => return self.advance(e),
            StmtKind::Verify { cond, error } => {
                if !truth(p, &self.s, cond) {
                    return Flow::Reject(error.0);
                }
            }
            StmtKind::Emit(h) => self.emit(h),
            StmtKind::Call(Call::Assert { cond, site, text }) => {
                if !truth(p, &self.s, cond) {
                    self.observer
                        .event(Event::Message { text: format!("does not hold: {text}"), loc: stmt.loc });
                    return Flow::Drop(site.index());
                }
            }
            StmtKind::Call(call) => self.call(call, stmt.loc),
        }
        Flow::Next
    }

    fn repeat(&mut self, label: LabelId, body: &Block) -> Flow {
        loop {
            if self.steps == 0 {
                return Flow::Drop(self.reason(drops::STEP_BUDGET));
            }
            self.steps -= 1;
            match self.block(body) {
                Flow::Next => {}
                Flow::Continue(l) if l == label => {}
                Flow::Break(l) if l == label => return Flow::Next,
                other @ (Flow::Break(_) | Flow::Continue(_) | Flow::Reject(_) | Flow::Drop(_)) => {
                    return other;
                }
            }
        }
    }

    /// Writes a variable or a field. A write to an element outside its stack's range does nothing.
    pub fn write(&mut self, place: &Place, value: Bits, loc: Loc) {
        if self.watched {
            let place = ir::text::place(self.program, place);
            self.observer.event(Event::Assigned { place, value: value.clone(), loc });
        }
        match place {
            Place::Var(id) => self.s.vars[id.index()] = value,
            Place::Field(h, field) => {
                if let Some(id) = header(self.program, &self.s, h) {
                    self.s.headers[id.index()].fields[*field as usize] = value;
                }
            }
        }
    }

    fn copy_header(&mut self, dst: &HeaderRef, src: &HeaderRef) {
        let from = header(self.program, &self.s, src);
        let to = header(self.program, &self.s, dst);
        match (to, from) {
            (Some(to), Some(from)) => self.s.headers[to.index()] = self.s.headers[from.index()].clone(),
            (Some(to), None) => self.s.invalidate(self.program, to),
            (None, _) => {}
        }
    }

    fn copy_stack(&mut self, dst: ir::StackId, src: ir::StackId) {
        let p = self.program;
        let (to, from) = (&p.stacks[dst.index()], &p.stacks[src.index()]);
        for i in 0..to.size.min(from.size) as usize {
            self.s.headers[to.first.index() + i] = self.s.headers[from.first.index() + i].clone();
        }
        self.s.next[to.index.index()] = self.s.next[from.index.index()];
    }

    fn set_validity(&mut self, h: &HeaderRef, valid: bool, loc: Loc) {
        let Some(id) = header(self.program, &self.s, h) else { return };
        match valid {
            true if self.s.headers[id.index()].valid => {}
            true => {
                self.s.invalidate(self.program, id);
                self.s.headers[id.index()].valid = true;
            }
            false => self.s.invalidate(self.program, id),
        }
        if self.watched {
            let header = &self.program.header(id).name;
            self.observer.event(Event::Validity { header, valid, loc });
        }
    }

    /// Shifts the elements of a stack by `count` (P4-16 section 8.20). New elements are invalid.
    fn shift_stack(&mut self, stack: ir::StackId, count: u32, push: bool) {
        let ir::Stack { first, size, index, .. } = self.program.stacks[stack.index()];
        let (first, size, count) = (first.index(), size as usize, (count as usize).min(size as usize));
        let elements = &mut self.s.headers[first..first + size];
        if push {
            elements.rotate_right(count)
        } else {
            elements.rotate_left(count)
        }
        let fresh = if push { 0..count } else { size - count..size };
        for i in fresh {
            self.s.invalidate(self.program, HeaderId((first + i) as u32));
        }
        if index != stack {
            return; // moved by the stack whose index it is
        }
        let next = &mut self.s.next[stack.index()];
        *next =
            if push { (*next + count as u32).min(size as u32) } else { next.saturating_sub(count as u32) };
    }

    fn mark_to_drop(&mut self, site: ir::DropSiteId) {
        self.s.site = Some(site.index());
        if self.watched {
            let site = &self.program.drop_sites[site.index()];
            self.observer.event(Event::Marked { site: &site.name, loc: site.loc });
        }
    }

    /// Sets a variable to a number.
    pub fn set(&mut self, var: VarId, value: u128) {
        let width = self.program.var(var).ty.width();
        self.s.vars[var.index()] = Bits::new(width, value);
    }

    fn emit(&mut self, h: &HeaderRef) {
        let Some(id) = header(self.program, &self.s, h) else { return };
        let state = &self.s.headers[id.index()];
        if state.valid {
            state.fields.iter().for_each(|f| self.emitted.push(f));
        }
    }

    // ---- tables ----

    fn apply(&mut self, id: TableId, hit: Option<VarId>, action: Option<VarId>, loc: Loc) -> Flow {
        let p = self.program;
        let definition = &p.tables[id.index()];
        let key: Vec<Bits> = definition.keys.iter().map(|k| eval(p, &self.s, &k.expr)).collect();
        let bytes = self.s.vars[p.standard.packet_length.index()].low_u64();
        let table = &mut self.state.tables[id.index()];
        let mut entry = None;
        let (found, call) = match table.lookup_and_count(&key, bytes, self.clock) {
            Some(row) => {
                entry = Some(row.handle);
                if let Some(meter) = definition.direct_meter {
                    let units = if p.meters[meter.index()].bytes { bytes } else { 1 };
                    let meter_of_entry = self.state.meters[meter.index()].of_entry(row.handle);
                    self.s.colours[meter.index()] = meter_of_entry.execute(self.clock, units);
                }
                match &row.members {
                    None => (true, row.entry.action.clone()),
                    Some(members) => match select_member(p, &self.s, definition, members) {
                        Some(call) => (true, call.clone()),
                        // The group is empty: the lookup is a hit, and no action runs.
                        None => {
                            if let Some(var) = hit {
                                self.s.vars[var.index()] = Bits::bit(true);
                            }
                            return Flow::Next;
                        }
                    },
                }
            }
            None => (false, table.default().call.clone().unwrap_or_default()),
        };
        let ActionCall { action: number, args } = call;
        let chosen = &p.actions[definition.actions[number.index()].action.index()];
        if self.watched {
            self.tell_applied(id, loc, &key, found, chosen, &args);
        }
        for (param, arg) in chosen.params.iter().zip(args) {
            self.s.vars[param.var.index()] = arg;
        }
        if definition.learns() {
            self.applying = Some(Applying { table: id, key, hit: entry });
        }
        let flow = self.block(&chosen.body);
        self.applying = None;
        if let Some(var) = hit {
            self.s.vars[var.index()] = Bits::bit(found);
        }
        if let Some(var) = action {
            self.set(var, number.0.into());
        }
        flow
    }

    fn tell_applied(
        &mut self,
        id: TableId,
        loc: Loc,
        key: &[Bits],
        hit: bool,
        action: &ir::Action,
        args: &[Bits],
    ) {
        let definition = &self.program.tables[id.index()];
        let table = &self.state.tables[id.index()];
        let winner = if hit { table.lookup(key).map(|row| row.handle) } else { None };
        let mut missed = Vec::new();
        let mut text = None;
        for row in table.rows() {
            let shown = entry_text(definition, &row.entry.matches);
            if Some(row.handle) == winner {
                text = Some(shown);
            } else if missed.len() < 16 {
                missed.push(match table.mismatch(row, key) {
                    Mismatch::Field(i) => format!("{shown}: {} differs", definition.keys[i].name.shown()),
                    Mismatch::Outranked => format!("{shown}: another entry is better"),
                });
            }
        }
        self.observer.event(Event::Applied {
            table: &definition.name,
            loc,
            key: definition.keys.iter().map(|k| k.name.as_str()).zip(key.iter().cloned()).collect(),
            hit: text,
            missed,
            action: &action.name,
            args: action.params.iter().map(|q| q.name.as_str()).zip(args.iter().cloned()).collect(),
        });
    }

    fn tell_decided(&mut self, what: &'static str, on: &Expr, result: Bits, loc: Loc) {
        if !self.watched {
            return;
        }
        let mut read = Vec::new();
        ir::visit::exprs(on, &mut |e| {
            if let ir::ExprKind::Read(_) = e.kind {
                let one = (ir::text::expr(self.program, e), eval(self.program, &self.s, e));
                if !read.contains(&one) {
                    read.push(one);
                }
            }
        });
        self.observer.event(Event::Decided { what, on, read, result, loc });
    }

    // ---- externs ----

    fn call(&mut self, call: &Call, loc: Loc) {
        let p = self.program;
        match call {
            Call::Count { counter, index } => {
                let index = eval(p, &self.s, index).to_u64().unwrap_or(u64::MAX);
                let bytes = self.s.vars[p.standard.packet_length.index()].low_u64();
                if let Some(cell) = self.state.counters[counter.index()].get_mut(index) {
                    cell.add(bytes);
                }
            }
            // The lookup has already counted the hit.
            Call::DirectCount(_) => {}
            Call::RegisterRead { register, dst, index } => {
                let index = eval(p, &self.s, index).to_u64().unwrap_or(u64::MAX);
                let width = p.registers[register.index()].ty.width();
                let cell = self.state.registers[register.index()].get(index).cloned();
                self.write(dst, cell.unwrap_or_else(|| Bits::zero(width)), loc);
            }
            Call::RegisterWrite { register, index, value } => {
                let index = eval(p, &self.s, index).to_u64().unwrap_or(u64::MAX);
                let value = eval(p, &self.s, value);
                if let Some(cell) = self.state.registers[register.index()].get_mut(index) {
                    *cell = value;
                }
            }
            Call::DirectRegisterRead { table: _, dst } => {
                let width = self.place_width(dst);
                let cell = self.direct_register().cloned();
                self.write(dst, cell.unwrap_or_else(|| Bits::zero(width)), loc);
            }
            Call::DirectRegisterWrite { table: _, value } => {
                let value = eval(p, &self.s, value);
                self.set_direct_register(value);
            }
            Call::Meter { meter, index, dst } => {
                let index = eval(p, &self.s, index).to_u64().unwrap_or(u64::MAX);
                let bytes = self.s.vars[p.standard.packet_length.index()].low_u64();
                let units = if p.meters[meter.index()].bytes { bytes } else { 1 };
                let cell = self.state.meters[meter.index()].cells.get_mut(index);
                let colour = cell.map_or(GREEN, |cell| cell.execute(self.clock, units));
                self.write(dst, Bits::new(self.place_width(dst), colour.into()), loc);
            }
            Call::DirectMeter { meter, dst } => {
                let colour = self.s.colours[meter.index()];
                self.write(dst, Bits::new(self.place_width(dst), colour.into()), loc);
            }
            Call::Digest { name, fields, data } => {
                let values: Vec<Bits> = data.iter().map(|e| eval(p, &self.s, e)).collect();
                if self.watched {
                    let fields = fields.iter().zip(&values);
                    let shown: Vec<_> =
                        fields.map(|(field, value)| format!("{} = {value}", field.shown())).collect();
                    let text = format!("digest {}: {}", name.shown(), shown.join(", "));
                    self.observer.event(Event::Message { text, loc });
                }
                let kind = ir::manifest::digest(call);
                if let Some(at) = self.manifest.digests.iter().position(|known| Some(known) == kind.as_ref())
                {
                    self.state.reported.push(Reported::Digest(Digest { digest: at.into(), values }));
                }
            }
            Call::AddEntry { done, table, action, args, profile } => {
                let args: Vec<Bits> = args.iter().map(|e| eval(p, &self.s, e)).collect();
                let profile = eval(p, &self.s, profile).low_u64() as u32;
                let added = self.add_entry(*table, *action, args, profile);
                if let Some(done) = done {
                    self.write(done, Bits::bit(added), loc);
                }
            }
            Call::RestartTimer(profile) => {
                let profile = profile.as_ref().map(|e| eval(p, &self.s, e).low_u64() as u32);
                self.restart_timer(profile);
            }
            Call::FlowId(dst) => {
                let flow = self.flow_id();
                self.write(dst, Bits::new(32, u128::from(flow)), loc);
            }
            Call::Hash { dst, algorithm, base, data, max } => {
                let width = self.place_width(dst);
                let value = sums::hash(p, &self.s, *algorithm, base, data, max, width);
                self.write(dst, value, loc);
            }
            Call::AddToSum { dst, data, subtract } => {
                let checksum = sums::checksum(p, &self.s, data, false);
                let part = if *subtract { checksum } else { !checksum };
                let old = eval(p, &self.s, &ir::Expr::read(dst.clone(), ir::Ty::Bit(16))).low_u64() as u16;
                self.write(dst, Bits::new(16, ir::add_sums(old, part).into()), loc);
            }
            Call::UpdateHash { dst, algorithm, data } => {
                let ty = algorithm.running().unwrap_or(ir::Ty::Bit(0));
                let old = eval(p, &self.s, &ir::Expr::read(dst.clone(), ty));
                let state =
                    sums::update(*algorithm, old.to_u128().unwrap_or(0), &sums::bytes(p, &self.s, data));
                self.write(dst, Bits::new(ty.width(), state), loc);
            }
            Call::Random { dst, lo, hi } => self.random(dst, lo, hi, loc),
            Call::VerifyChecksum { .. } | Call::UpdateChecksum { .. } => self.checksum(call, loc),
            Call::LogMsg { .. } => self.log(call, loc),
            // It may end the packet, so `stmt` runs it.
            Call::Assert { .. } => {}
        }
    }

    fn place_width(&self, place: &Place) -> u32 {
        match place {
            Place::Var(id) => self.program.var(*id).ty.width(),
            Place::Field(h, field) => {
                let id = match h {
                    HeaderRef::Header(id) => *id,
                    HeaderRef::Element(s, _) | HeaderRef::Next(s) | HeaderRef::Last(s) => {
                        self.program.stacks[s.index()].first
                    }
                };
                self.program.header_type(id).fields[*field as usize].ty.width()
            }
        }
    }

    /// Writes a random value between `lo` and `hi`, both included. An empty range gives `lo`.
    fn random(&mut self, dst: &Place, lo: &ir::Expr, hi: &ir::Expr, loc: Loc) {
        let (lo, hi) = (eval(self.program, &self.s, lo), eval(self.program, &self.s, hi));
        let span = hi.sub(&lo).add(&Bits::new(lo.width(), 1));
        let random = self.state.random_u64();
        let draw = Bits::new(64.max(lo.width()), random as u128);
        let offset = draw.rem(&span.resize(draw.width())).unwrap_or(draw).resize(lo.width());
        self.write(dst, lo.add(&offset), loc);
    }

    fn checksum(&mut self, call: &Call, loc: Loc) {
        let p = self.program;
        if let Call::VerifyChecksum { id, cond, data, checksum, payload } = call
            && truth(p, &self.s, cond)
        {
            let value = sums::checksum(p, &self.s, data, *payload);
            let found = read(p, &self.s, checksum, ir::Ty::Bit(16)).low_u64();
            let right = found == value as u64;
            if let Some(carry) = self.carry.filter(|_| self.arrived(checksum)) {
                carry.verified(*id, found as u16, value, &mut self.s.wrong_by);
            }
            if !right {
                self.set(p.standard.checksum_error, 1);
            }
            self.tell_sum(checksum, value, Some(right), loc);
        }
        if let Call::UpdateChecksum { id, cond, data, checksum, payload, nonzero } = call
            && truth(p, &self.s, cond)
        {
            let mut value = sums::checksum(p, &self.s, data, *payload);
            if let Some(carry) = self.carry {
                value = carry.updated(*id, value, &self.s.wrong_by);
            }
            if *nonzero && value == 0 {
                value = 0xffff;
            }
            self.tell_sum(checksum, value, None, loc);
            self.write(checksum, Bits::new(16, value as u128), loc);
        }
    }

    /// Whether the field of a checksum arrived: a packet without its header has no checksum from which another could be derived.
    fn arrived(&self, checksum: &Place) -> bool {
        match checksum {
            Place::Field(h, _) => {
                header(self.program, &self.s, h).is_some_and(|id| self.s.headers[id.index()].valid)
            }
            Place::Var(_) => false,
        }
    }

    fn tell_sum(&mut self, place: &Place, value: u16, right: Option<bool>, loc: Loc) {
        if self.watched {
            let place = ir::text::place(self.program, place);
            self.observer.event(Event::Checksum { place, value, right, loc });
        }
    }

    fn log(&mut self, call: &Call, loc: Loc) {
        let Call::LogMsg { args, .. } = call else { return };
        if !self.watched && !self.state.listens {
            return;
        }
        let Some(kind) = ir::manifest::message(self.program, call, loc) else { return };
        let values: Vec<Bits> = args.iter().map(|arg| eval(self.program, &self.s, arg)).collect();
        if self.watched {
            self.observer.event(Event::Message { text: kind.text(&values), loc });
        }
        let number = self.manifest.messages.iter().position(|known| *known == kind);
        if let (true, Some(at)) = (self.state.listens, number) {
            self.state.reported.push(Reported::Message(Message { message: at.into(), values }));
        }
    }
}

fn entry_text(table: &ir::Table, matches: &[MatchValue]) -> String {
    let field = |(m, key): (&MatchValue, &ir::TableKey)| {
        let shown = |v: &Bits| show::value(&key.name, v);
        match m {
            MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => shown(v),
            MatchValue::Optional(None) => "_".to_string(),
            MatchValue::Lpm(v, len) => format!("{}/{len}", shown(v)),
            MatchValue::Ternary(v, m) => format!("{} &&& {}", shown(v), shown(m)),
            MatchValue::Range(lo, hi) => format!("{}..{}", shown(lo), shown(hi)),
        }
    };
    matches.iter().zip(&table.keys).map(field).collect::<Vec<_>>().join(", ")
}

/// Selects a group's member for a packet: the selector's hash, truncated to the selector's width, modulo the number of members.
fn select_member<'c>(
    p: &ir::Program,
    s: &PacketState,
    table: &ir::Table,
    members: &'c [ActionCall],
) -> Option<&'c ActionCall> {
    let selector = table.profile.and_then(|id| p.profiles[id.index()].selector);
    let Some((algorithm, bits)) = selector.filter(|_| members.len() > 1) else { return members.first() };
    let hash = sums::hash_of(algorithm, &sums::bytes(p, s, &table.selector));
    let hash = if bits < 64 { hash & ((1 << bits) - 1) } else { hash };
    members.get((hash % members.len() as u64) as usize)
}
