//! The tc back end: it emits C for an eBPF program that runs in the kernel's traffic control.
//!
//! The headers, metadata and offsets of a packet are in the *state*, a value of a per-CPU array map, because the stack of an eBPF program
//! has only 512 bytes. The parser, the controls and most tables are global functions. The kernel verifies each of these once, so the
//! cost of verification is a sum and not a product.
//!
//! * `table` emits tables as maps, and their lookups.
//! * `deparse` and `sums` emit the deparser and the checksum updates.
//! * `hash` emits the CRCs.
//! * `prelude.h` is the common part of all eBPF programs.
//!
//! [`crate::c`] has the parts that this back end shares with the native back end.

mod deparse;
mod hash;
mod sums;
mod table;

use abi::drops;
use ir::{Role, Verified};

use crate::Output;
use crate::c::{self, Dialect, Emitter, Home, stage_name};
use crate::unsupported::Unsupported;

/// Name of the entry point. The manifest tells it to the host.
const ENTRY: &str = "strait";
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
];

const PRELUDE: &str = include_str!("prelude.h");
/// All texts in C of this back end. The C names of a program must differ from theirs.
const TEXTS: &[&str] =
    &[PRELUDE, hash::CRC, sums::PAYLOAD, sums::CHANGE, deparse::REMOVED_END, deparse::RESIZE];

/// Emits a program for tc. Returns every limit of the target that the program exceeds.
pub fn tc(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    let mut emitter = Emitter::new(program, Dialect::Tc, "tc", ENTRY, REASONS, TEXTS);
    emitter.tc();
    emitter.output()
}

impl Emitter<'_> {
    fn tc(&mut self) {
        self.text.line(format!(
            "/* {}.p4 as an eBPF program for tc. Made by Strait; edit the P4 instead. */",
            self.program.name
        ));
        self.text.raw(c::PRELUDE);
        self.text.raw(PRELUDE);
        self.state();
        self.maps();
        if !self.problems.is_empty() {
            return;
        }
        self.hashes();
        for i in 0..self.program.tables.len() {
            self.table(i);
        }
        self.parser();
        self.controls();
        self.deparser();
        self.entry();
        self.text.line("");
        self.text.line("char _license[] SEC(\"license\") = \"Dual MIT/GPL\";");
    }

    /// Declares all maps, and `get_packet()`, which returns the state.
    fn maps(&mut self) {
        self.text.line("");
        self.map("strait_packet", "BPF_MAP_TYPE_PERCPU_ARRAY", 1, "u32", "struct packet", false);
        self.map("strait_ports", "BPF_MAP_TYPE_HASH", 256, "u32", "struct ingress", false);
        self.map("strait_egress", "BPF_MAP_TYPE_ARRAY", 512, "u32", "struct egress", false);
        let reasons = self.manifest.drops.len().max(1);
        self.map("strait_drops", "BPF_MAP_TYPE_PERCPU_ARRAY", reasons as u64, "u32", "struct count", false);
        for counter in self.manifest.counters.clone() {
            if let Some(map) = &counter.map {
                self.map(map, "BPF_MAP_TYPE_PERCPU_ARRAY", counter.size.max(1), "u32", "struct count", false);
            }
        }
        for register in self.manifest.registers.clone() {
            if let Some(map) = &register.map {
                self.map(map, "BPF_MAP_TYPE_ARRAY", register.size.max(1), "u32", "u64", false);
            }
        }
        let tables = self.manifest.tables.clone();
        self.map(
            "strait_versions",
            "BPF_MAP_TYPE_ARRAY",
            tables.len().max(1) as u64,
            "u32",
            "struct version",
            false,
        );
        for (index, table) in tables.iter().enumerate() {
            self.table_maps(ir::TableId(index as u32), table);
        }
        self.text.line("");
        self.text.open("INLINE struct packet *get_packet(void)");
        self.text.line("u32 zero = 0;");
        self.text.line("return bpf_map_lookup_elem(&strait_packet, &zero);");
        self.text.close("");
    }

    /// Declares a map in the form that loaders read from BTF. `lazy` maps allocate their elements when they are added.
    fn map(&mut self, name: &str, kind: &str, entries: u64, key: &str, value: &str, lazy: bool) {
        let flags = if lazy { " __uint(map_flags, BPF_F_NO_PREALLOC);" } else { "" };
        self.text.line(format!(
            "struct {{ __uint(type, {kind}); __uint(max_entries, {entries});{flags} __type(key, {key}); __type(value, {value}); }} {name} SEC(\".maps\");"
        ));
    }

    /// Emits the entry point, which processes one packet.
    fn entry(&mut self) {
        let std = self.program.standard;
        let v = |id| format!("s->{}", self.names.var(id));
        let (ingress, spec, egress) = (v(std.ingress_port), v(std.egress_spec), v(std.egress_port));
        let (length, group) = (v(std.packet_length), v(std.mcast_grp));
        let clock = [std.ingress_global_timestamp, std.egress_global_timestamp];
        let clock: Vec<_> = clock.into_iter().filter(|c| self.units.home(*c) == Home::State).map(v).collect();
        let normal = self.normal_in_egress();
        let sites = self.program.drop_sites.len();
        let added_tag = self.ether_type().map(|(header, field)| {
            format!(
                "s->{header}_valid && (s->{header}.{field} == VLAN || s->{header}.{field} == SERVICE_VLAN)"
            )
        });
        let can_be_busy = self.hashed_data() > 0;
        let reason = |name: &str| sites + REASONS.iter().position(|r| r.0 == name).unwrap_or(0);
        let t = &mut self.text;
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
        t.line("");
        t.line("/* Drops a packet that is unchanged. In a lane, the packet continues instead. */");
        t.open(
            "INLINE int drop_unchanged(struct __sk_buff *skb, struct scratch *t, struct ingress *from, u32 reason)",
        );
        t.line("if (from->lane)");
        t.line("    return TC_ACT_OK;");
        t.line("return count_and_drop(skb, t, reason);");
        t.close("");
        t.line("");
        t.line("SEC(\"classifier\")");
        t.open(format!("int {ENTRY}(struct __sk_buff *skb)"));
        self.get_state("TC_ACT_SHOT");
        let t = &mut self.text;
        t.line("t->verdict = 0;");
        t.line("t->tag = 0;");
        if can_be_busy {
            t.line("t->busy = 0;");
        }
        t.line("u32 ifindex = skb->ifindex;");
        t.line("struct ingress *from = bpf_map_lookup_elem(&strait_ports, &ifindex);");
        t.line("if (!from)");
        t.line("    return TC_ACT_OK; /* the interface is not a port of the program */");
        t.line("if (from->lane && !is_routed_to(skb, from->lane, from->ipv4_mtu))");
        t.line("    return TC_ACT_OK;");
        t.line("u32 tagged = skb->vlan_present;");
        t.line("if (tagged && vlan_tag_to_packet(skb))");
        t.line(format!("    return count_and_drop(skb, t, {});", reason(drops::BAD_RESIZE)));
        t.line("zero_state(s);");
        t.line(format!("{ingress} = from->port & 0x1ff;"));
        t.line(format!("{length} = skb->len;"));
        for c in clock {
            t.line(format!("{c} = (bpf_ktime_get_ns() / 1000) & 0xffffffffffffULL;"));
        }
        t.line("parse(skb);");
        t.line("if (s->timeout)");
        t.line(format!("    return drop_unchanged(skb, t, from, {});", reason(drops::STEP_BUDGET)));
        for role in [Role::VerifyChecksum, Role::Ingress] {
            if self.program.control(role).is_some() {
                t.line(format!("{}(skb);", stage_name(role)));
            }
        }
        let busy = format!("    return drop_unchanged(skb, t, from, {});", reason(BUSY));
        if can_be_busy {
            t.line("if (t->busy)");
            t.line(&busy);
        }
        t.line(format!("if ({group})"));
        t.line(format!("    return drop_unchanged(skb, t, from, {});", reason(drops::NO_SUCH_GROUP)));
        t.line(format!("if ({spec} == {})", abi::DROP_PORT));
        t.line(format!(
            "    return drop_unchanged(skb, t, from, s->site ? s->site - 1 : {});",
            reason(drops::EGRESS_SPEC)
        ));
        t.line(format!("{egress} = {spec};"));
        normal.into_iter().for_each(|line| t.line(line));
        if self.program.control(Role::Egress).is_some() {
            t.line("egress(skb);");
            if can_be_busy {
                t.line("if (t->busy)");
                t.line(&busy);
            }
            t.line(format!("if ({spec} == {})", abi::DROP_PORT));
            t.line(format!(
                "    return drop_unchanged(skb, t, from, s->site ? s->site - 1 : {});",
                reason(drops::EGRESS_SPEC)
            ));
        }
        if self.program.control(Role::ComputeChecksum).is_some() {
            t.line("compute_checksum(skb);");
        }
        t.line(format!("u32 out = {egress};"));
        t.line("struct egress *to = bpf_map_lookup_elem(&strait_egress, &out);");
        t.line("if (!to || !to->ifindex)");
        t.line(format!("    return drop_unchanged(skb, t, from, {});", reason(drops::NO_SUCH_PORT)));
        t.line("int failed = deparse(skb);");
        t.line("if (failed)");
        t.line(format!(
            "    return count_and_drop(skb, t, failed == 2 ? {} : {});",
            reason("target.gso_checksum"),
            reason(drops::BAD_RESIZE)
        ));
        if let Some(added) = added_tag {
            t.line(format!("if (!tagged && {added} && !(from->flags & BARE))"));
            t.line("    tagged = !vlan_tag_to_packet(skb);");
        }
        t.open("if (tagged)");
        t.line("if (vlan_tag_to_metadata(skb))");
        t.line(format!("    return count_and_drop(skb, t, {});", reason(drops::BAD_RESIZE)));
        t.line("if (skb->vlan_present)");
        t.line("    t->tag = bswap16((u16)skb->vlan_proto) << 16 | skb->vlan_tci;");
        t.close("");
        t.line("t->port = out;");
        t.line("asm volatile(\"\" ::: \"memory\");");
        t.line("t->verdict = 1;");
        t.line("if (from->lane)");
        t.line(
            "    return from->flags & DIRECT ? send_to_next_hop(skb) : TC_ACT_OK; /* the kernel routes the packet */",
        );
        t.line("return bpf_redirect(to->ifindex, to->flags);");
        t.close("");
    }
}
