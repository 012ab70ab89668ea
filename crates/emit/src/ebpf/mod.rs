//! The tc back end: it emits C for an eBPF program that runs in the kernel's traffic control.
//!
//! The headers, metadata and offsets of a packet are in the *state*, a value of a per-CPU array map, because the stack of an eBPF program
//! has only 512 bytes. The parser, the controls and most tables are global functions. The kernel verifies each of these once, so the
//! cost of verification is a sum and not a product.
//!
//! * `table` emits tables as maps, and their lookups.
//! * `deparse` and `sums` emit the deparser and the checksum updates.
//! * `hash` emits the CRCs.
//! * `prelude.h` is the common part of all eBPF programs, `skb.h` that of programs at a tc hook, and `lanes.h` has the lanes of [`Options`].
//!
//! [`crate::c`] has the parts that this back end shares with the native back end.

mod deparse;
mod hash;
mod sums;
mod table;

use abi::drops;
use abi::manifest::KernelMaps;
use ir::pipeline::{Carry, Decision, Fate, Passed, Path, PathKind, Step, To, When};
use ir::{Role, StageId, Verified, visit};

use crate::Output;
use crate::c::{self, BUFFER, Emitter, Hook, Known, Which, stage_name};
use crate::unsupported::Unsupported;

/// Name of the entry point. The manifest tells it to the host.
const ENTRY: &str = "strait";
/// Names of the maps that every program has. The manifest tells them to the host.
const PACKET: &str = "strait_packet";
const PORTS: &str = "strait_ports";
const EGRESS: &str = "strait_egress";
const DROPS: &str = "strait_drops";
const VERSIONS: &str = "strait_versions";
/// The number of ports that packets may leave through.
const EGRESS_PORTS: u32 = 512;
/// The drop reason of a packet that could not read a table.
const BUSY: &str = "target.busy";
/// The drop reasons of this target with their descriptions. They are numbered after the program's own.
const REASONS: &[(&str, &str)] = &[
    (drops::EGRESS_SPEC, "the program set egress_spec to the drop port"),
    (drops::NO_SUCH_GROUP, "multicast groups are not supported by this target"),
    (drops::STEP_BUDGET, "the parser did not come to an end"),
    (drops::NO_SUCH_PORT, "the egress port is not attached to an interface"),
    (drops::BAD_RESIZE, "the kernel could not make the packet longer or shorter"),
    ("target.gso_checksum", "a checksum over the payload of a GSO packet cannot be computed"),
    ("target.internal", "the program's state is missing"),
    (BUSY, "a table was being written whenever the packet read it"),
    c::DROPPED,
];

const PRELUDE: &str = include_str!("prelude.h");
const SKB: &str = include_str!("skb.h");
const LANES: &str = include_str!("lanes.h");
/// All texts in C of this back end. The C names of a program must differ from theirs.
const TEXTS: &[&str] =
    &[PRELUDE, SKB, LANES, hash::CRC, sums::PAYLOAD, sums::CHANGE, deparse::REMOVED_END, deparse::RESIZE];

/// The stage where packets arrive.
const FIRST: StageId = StageId(0);

/// The number of bytes that ingress of PSA may pass to egress. They are on the stack of 512 bytes meanwhile.
const MOST_PASSED: u32 = 128;

/// What a packet on the way to the port `to` knows.
const AT_STAGE: Known<'_> =
    Known { port: "to", replica: "0", length: "skb->len", clock: "(bpf_ktime_get_ns() / 1000)" };

/// What a program needs beyond its P4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Interfaces may be *lanes*: shortcuts past another interface, for the packets that the kernel would route into it. Programs without lanes
    /// have no code for them.
    pub lanes: bool,
}

/// Emits a program for tc. Returns every limit of the target that the program exceeds.
pub fn tc(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    tc_with(program, Options::default())
}

/// Like [`tc`], with options.
pub fn tc_with(program: &Verified, options: Options) -> Result<Output, Vec<Unsupported>> {
    let c = Emitter::new(program, Hook::Tc, "tc", ENTRY, REASONS, TEXTS);
    let mut ebpf = Ebpf { c, options };
    ebpf.program();
    ebpf.c.output()
}

/// The emission of one program for the kernel.
struct Ebpf<'p> {
    /// What the targets share.
    c: Emitter<'p>,
    options: Options,
}

impl Ebpf<'_> {
    fn program(&mut self) {
        self.c.manifest.kernel = Some(KernelMaps {
            ingress: PORTS.to_string(),
            egress: EGRESS.to_string(),
            egress_ports: EGRESS_PORTS,
            drops: DROPS.to_string(),
            versions: VERSIONS.to_string(),
            packet: PACKET.to_string(),
            lanes: self.options.lanes,
        });
        self.c.text.line(format!(
            "/* {}.p4 as an eBPF program for tc. Made by Strait; edit the P4 instead. */",
            self.c.program.name
        ));
        self.c.text.raw(c::PRELUDE);
        self.c.text.raw(PRELUDE);
        self.c.text.raw(SKB);
        if self.options.lanes {
            self.c.text.raw(LANES);
        }
        let (first, last) = self.scratch();
        self.c.state(&first, &last);
        self.maps();
        if !self.c.problems.is_empty() {
            return;
        }
        self.hashes();
        for i in 0..self.c.program.tables.len() {
            self.table(i);
        }
        self.c.parsers();
        self.c.controls();
        self.deparsers();
        self.entry();
        self.c.text.line("");
        self.c.text.line("char _license[] SEC(\"license\") = \"Dual MIT/GPL\";");
    }

    /// The members of `struct scratch` before and after those that the targets share: the verdict for the host, and buffers.
    fn scratch(&self) -> (Vec<String>, Vec<String>) {
        let first = [
            "/* The host reads the first four. */",
            "u32 verdict;      /* 0 not processed, 1 sent, 2 dropped; for test runs, which cannot see a redirect */",
            "u32 port;",
            "u32 reason;",
            "u32 tag;          /* the VLAN tag in the metadata of the skb that is sent, or 0 */",
            "u32 payload;      /* the offset of the payload in the packet that leaves */",
            "u32 leave;        /* the jump that left a loop, or 0 */",
        ];
        let layouts = self.c.manifest.tables.iter().filter_map(|t| t.layout.as_ref());
        let key = (layouts.map(|l| l.key_size).max().unwrap_or(0) + 8).div_ceil(8) * 8;
        let mut last = vec![
            format!("u8 key[{key}] __attribute__((aligned(8)));"),
            format!("u8 masked[{key}] __attribute__((aligned(8)));"),
            format!("u32 buffer[{}];", BUFFER / 4),
        ];
        let data = self.hashed_data();
        if data > 0 {
            last.push(
                "u32 busy;         /* 1 if a table was being written whenever it was read */".to_string(),
            );
            last.push(format!("u64 data[{data}];      /* the action data of the entry that was found */"));
            last.push(format!("u64 candidate[{data}];"));
        }
        (first.map(str::to_string).into(), last)
    }

    /// Declares all maps, and `get_packet()`, which returns the state.
    fn maps(&mut self) {
        self.c.text.line("");
        self.map(PACKET, "BPF_MAP_TYPE_PERCPU_ARRAY", 1, "u32", "struct packet", false);
        self.map(PORTS, "BPF_MAP_TYPE_HASH", 256, "u32", "struct ingress", false);
        self.map(EGRESS, "BPF_MAP_TYPE_ARRAY", EGRESS_PORTS.into(), "u32", "struct egress", false);
        let reasons = self.c.manifest.drops.len().max(1);
        self.map(DROPS, "BPF_MAP_TYPE_PERCPU_ARRAY", reasons as u64, "u32", "struct count", false);
        for counter in self.c.manifest.counters.clone() {
            if let Some(map) = &counter.map {
                self.map(map, "BPF_MAP_TYPE_PERCPU_ARRAY", counter.size.max(1), "u32", "struct count", false);
            }
        }
        for register in self.c.manifest.registers.clone() {
            if let Some(map) = &register.map {
                self.map(map, "BPF_MAP_TYPE_ARRAY", register.size.max(1), "u32", "u64", false);
            }
        }
        let tables = self.c.manifest.tables.clone();
        self.map(VERSIONS, "BPF_MAP_TYPE_ARRAY", tables.len().max(1) as u64, "u32", "struct version", false);
        for (index, table) in tables.iter().enumerate() {
            self.table_maps(ir::TableId(index as u32), table);
        }
        self.c.text.line("");
        self.c.text.open("INLINE struct packet *get_packet(void)");
        self.c.text.line("u32 zero = 0;");
        self.c.text.line("return bpf_map_lookup_elem(&strait_packet, &zero);");
        self.c.text.close("");
    }

    /// Declares a map in the form that loaders read from BTF. `lazy` maps allocate their elements when they are added.
    fn map(&mut self, name: &str, kind: &str, entries: u64, key: &str, value: &str, lazy: bool) {
        let flags = if lazy { " __uint(map_flags, BPF_F_NO_PREALLOC);" } else { "" };
        self.c.text.line(format!(
            "struct {{ __uint(type, {kind}); __uint(max_entries, {entries});{flags} __type(key, {key}); __type(value, {value}); }} {name} SEC(\".maps\");"
        ));
    }

    /// Emits the entry point, which processes one packet.
    fn entry(&mut self) {
        self.drops();
        let program = self.c.program;
        let added_tag = self.ether_type(Role::Deparser).map(|(header, field)| {
            format!(
                "s->{header}_valid && (s->{header}.{field} == VLAN || s->{header}.{field} == SERVICE_VLAN)"
            )
        });
        let resize = self.tc_reason(drops::BAD_RESIZE);
        let can_be_busy = self.hashed_data() > 0;
        let t = &mut self.c.text;
        t.line("");
        t.line("SEC(\"classifier\")");
        t.open(format!("int {ENTRY}(struct __sk_buff *skb)"));
        self.c.get_state("TC_ACT_SHOT");
        let t = &mut self.c.text;
        t.line("t->verdict = 0;");
        t.line("t->tag = 0;");
        if can_be_busy {
            t.line("t->busy = 0;");
        }
        t.line("u32 ifindex = skb->ifindex;");
        t.line("struct ingress *from = bpf_map_lookup_elem(&strait_ports, &ifindex);");
        t.line("if (!from)");
        t.line("    return TC_ACT_OK; /* the interface is not a port of the program */");
        if self.options.lanes {
            t.line("if (from->lane && !is_routed_to(skb, from->lane, from->ipv4_mtu))");
            t.line("    return TC_ACT_OK;");
        }
        t.line("u32 tagged = skb->vlan_present;");
        t.line("if (tagged && vlan_tag_to_packet(skb))");
        t.line(format!("    return count_and_drop(skb, t, {resize});"));
        t.line("zero_state(s);");
        if let Some(first) = program.pipeline.stages.first() {
            let known = Known { port: "from->port", ..AT_STAGE };
            self.c.write_inputs("s", &first.inputs, &known, Which::All);
        }
        let mut drop =
            if self.options.lanes { "drop_unchanged(skb, t, from" } else { "count_and_drop(skb, t" };
        for stage in &program.pipeline.stages {
            for step in &stage.steps {
                self.tc_step(step, drop);
                if matches!(step, Step::Deparse(_)) {
                    drop = "count_and_drop(skb, t";
                }
            }
        }
        let t = &mut self.c.text;
        if let Some(added) = added_tag {
            t.line(format!("if (!tagged && {added} && !(from->flags & BARE))"));
            t.line("    tagged = !vlan_tag_to_packet(skb);");
        }
        t.open("if (tagged)");
        t.line("if (vlan_tag_to_metadata(skb))");
        t.line(format!("    return count_and_drop(skb, t, {resize});"));
        t.line("if (skb->vlan_present)");
        t.line("    t->tag = bswap16((u16)skb->vlan_proto) << 16 | skb->vlan_tci;");
        t.close("");
        t.line("t->port = out;");
        t.line("asm volatile(\"\" ::: \"memory\");");
        t.line("t->verdict = 1;");
        if self.options.lanes {
            t.line("if (from->lane)");
            t.line(
                "    return from->flags & DIRECT ? send_to_next_hop(skb) : TC_ACT_OK; /* the kernel routes the packet */",
            );
        }
        t.line("return bpf_redirect(to->ifindex, to->flags);");
        t.close("");
    }

    /// The number of one of this target's drop reasons.
    fn tc_reason(&self, name: &str) -> usize {
        self.c.program.drop_sites.len() + REASONS.iter().position(|r| r.0 == name).unwrap_or(0)
    }

    /// Emits `count_and_drop` and, in a program with lanes, `drop_unchanged`, which drop a packet.
    fn drops(&mut self) {
        let t = &mut self.c.text;
        t.line("");
        t.line("/* Counts a drop, and drops the packet. */");
        t.open("INLINE int count_and_drop(struct __sk_buff *skb, struct scratch *t, u32 reason)");
        t.line("struct count *c = bpf_map_lookup_elem(&strait_drops, &reason);");
        t.line("if (c)");
        t.line("    count_packet(c, skb->len);");
        t.line("t->reason = reason;");
        t.line("asm volatile(\"\" ::: \"memory\"); /* the verdict is written last */");
        t.line("t->verdict = 2;");
        t.line("return TC_ACT_SHOT;");
        t.close("");
        if self.options.lanes {
            t.line("");
            t.line("/* Drops a packet that is unchanged. In a lane, the packet continues instead. */");
            t.open(
                "INLINE int drop_unchanged(struct __sk_buff *skb, struct scratch *t, struct ingress *from, u32 reason)",
            );
            t.line("if (from->lane)");
            t.line("    return TC_ACT_OK;");
            t.line("return count_and_drop(skb, t, reason);");
            t.close("");
        }
    }

    /// Emits the drop of a packet that was ended by a parser or an assertion.
    fn tc_unless_ended(&mut self, drop: &str) {
        self.c.text.line("if (s->ended)");
        self.c.text.line(format!("    return {drop}, s->ended - 1);"));
    }

    /// Emits a step of a stage. `drop` is the beginning of the call that drops the packet.
    fn tc_step(&mut self, step: &Step, drop: &str) {
        match step {
            Step::Parse(role, errors) => {
                self.c.text.line(format!("{}(skb);", stage_name(*role)));
                self.tc_unless_ended(drop);
                self.c.write_errors(errors);
            }
            Step::Control(role) if self.c.program.control(*role).is_none() => {}
            Step::Control(role) => {
                self.c.text.line(format!("{}(skb);", stage_name(*role)));
                if self.c.facts.ends {
                    self.tc_unless_ended(drop);
                }
                let applies = matches!(role, Role::Ingress | Role::Egress);
                if applies && self.hashed_data() > 0 {
                    let busy = self.tc_reason(BUSY);
                    self.c.text.line("if (t->busy)");
                    self.c.text.line(format!("    return {drop}, {busy});"));
                }
            }
            Step::Deparse(role) => {
                // The last deparser runs only for a packet whose port is attached.
                if *role == Role::Deparser {
                    self.tc_destination(drop);
                }
                let [sum, resize] = ["target.gso_checksum", drops::BAD_RESIZE].map(|r| self.tc_reason(r));
                self.c.text.open("");
                self.c.text.line(format!("int failed = {}(skb);", stage_name(*role)));
                self.c.text.line("if (failed)");
                self.c
                    .text
                    .line(format!("    return count_and_drop(skb, t, failed == 2 ? {sum} : {resize});"));
                self.c.text.close("");
                if self.c.facts.ends {
                    self.tc_unless_ended("count_and_drop(skb, t");
                }
            }
            Step::Truncate(_, loc) => self.c.refuse(*loc, "`truncate`", "the native target can"),
            Step::Decide(decision) => self.tc_decision(decision, drop),
        }
    }

    /// Emits the declarations of `out`, the port where packets leave, and of `to`, its interface.
    fn tc_destination(&mut self, drop: &str) {
        let missing = self.tc_reason(drops::NO_SUCH_PORT);
        let mut decisions = self.c.program.pipeline.decisions();
        let leaves = decisions.find_map(|d| match d.then.path()? {
            Path { stage: None, to: To::Port(port), .. } => Some(port.clone()),
            _ => None,
        });
        let Some(port) = leaves else { return };
        let port = self.c.frame_expr(&port);
        let t = &mut self.c.text;
        t.line(format!("u32 out = {port};"));
        t.line("struct egress *to = bpf_map_lookup_elem(&strait_egress, &out);");
        t.line("if (!to || !to->ifindex)");
        t.line(format!("    return {drop}, {missing});"));
    }

    /// Emits a decision. A packet can be dropped, go on to the next stage, or leave.
    fn tc_decision(&mut self, decision: &Decision, drop: &str) {
        let hint = "a packet leaves this target once, or not at all; the native target does more";
        match &decision.then {
            Fate::Drop(name) => {
                let condition = self.c.condition(&decision.when);
                let reason = self.tc_reason(name);
                self.c.text.line(format!("if ({})", condition.as_deref().unwrap_or("1")));
                self.c.text.line(format!("    return {drop}, s->site ? s->site - 1 : {reason});"));
            }
            Fate::Go(path) if matches!(path.to, To::Group(_)) => {
                let condition = self.c.condition(&decision.when);
                let reason = self.tc_reason(drops::NO_SUCH_GROUP);
                self.c.text.line(format!("if ({})", condition.as_deref().unwrap_or("1")));
                self.c.text.line(format!("    return {drop}, {reason});"));
            }
            Fate::Go(path) if decision.when == When::Always && path.stage != Some(FIRST) => {
                if let Carry::New { passed, .. } = &path.carry {
                    let bytes: u32 = passed.iter().map(|p| self.passed_bytes(p)).sum();
                    if bytes > MOST_PASSED {
                        let what = "more than 128 bytes of metadata and headers from ingress to egress";
                        let loc = self.c.program.controls.first().map(|c| c.loc).unwrap_or_default();
                        self.c.refuse(loc, what, "pass less, or run it on the native target");
                    }
                }
                self.c.go_on(path, &AT_STAGE, |emitter| emitter.text.line("zero_state(s);"));
            }
            // PSA: no interface is attached to the port of recirculation. A program that names it is refused.
            Fate::Go(path) if path.kind == PathKind::Recirculate && decision.loc.line == 0 => {
                if let Some(loc) = self.named(&path.to) {
                    self.c.refuse(loc, "recirculation", hint);
                }
                let condition = self.c.condition(&decision.when);
                let reason = self.tc_reason(drops::NO_SUCH_PORT);
                self.c.text.line(format!("if ({})", condition.as_deref().unwrap_or("1")));
                self.c.text.line(format!("    return {drop}, {reason});"));
            }
            Fate::Go(_) | Fate::Copy(_) => {
                let first = self.c.program.controls.first().map(|c| c.loc).unwrap_or_default();
                let loc = if decision.loc.line == 0 { first } else { decision.loc };
                self.c.refuse(loc, "a clone or another round of the packet", hint);
            }
        }
    }

    /// The location of a statement that names a port, if the port is a constant.
    fn named(&self, to: &To) -> Option<ir::Loc> {
        let To::Port(ir::Expr { kind: ir::ExprKind::Const(port), .. }) = to else { return None };
        let mut found = None;
        visit::all_stmts(self.c.program, &mut |stmt| {
            visit::operands(stmt, &mut |e| {
                visit::exprs(e, &mut |e| {
                    if e.as_const() == Some(port) {
                        found = Some(stmt.loc);
                    }
                });
            });
        });
        found
    }

    fn passed_bytes(&self, passed: &Passed) -> u32 {
        match passed {
            Passed::Var { from, .. } => self.c.program.var(*from).ty.width().div_ceil(8).next_power_of_two(),
            Passed::Header { from, .. } => {
                let fields = &self.c.program.header_type(*from).fields;
                fields.iter().map(|f| f.ty.width().div_ceil(8).next_power_of_two()).sum::<u32>() + 1
            }
        }
    }
}
