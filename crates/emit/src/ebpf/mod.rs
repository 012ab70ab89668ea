//! The eBPF back end: it emits C for a program that runs in the kernel, at a tc hook or at the XDP hook.
//!
//! The headers, metadata and offsets of a packet are in the *state*, a value of a per-CPU array map, because the stack of an eBPF program
//! has only 512 bytes. The parser, the controls and most tables are global functions. The kernel verifies each of these once, so the
//! cost of verification is a sum and not a product. Small programs are one function, because calls cost time.
//!
//! * `table` emits tables as maps, and their lookups.
//! * `stages` emits the stages of the pipeline, `rounds` what lets a packet pass them again, and `paths` those of programs that
//!   copy packets.
//! * `mod@tc` and `mod@xdp` have what differs between the hooks: the entry point, the deparser, and the updates of checksums.
//! * `value_sets` emits the value sets of parsers.
//! * `events` declares the ring buffer of digests and messages.
//! * `hash` emits the CRCs, and `payload` sums over the payload.
//! * `lanes` emits shortcuts past an interface.
//! * `prelude.h` is the common part of all eBPF programs.
//!
//! [`crate::c`] has the parts that this back end shares with the native back end.

mod events;
mod hash;
mod lanes;
mod meters;
mod paths;
mod payload;
mod rounds;
mod stages;
mod table;
mod tc;
mod value_sets;
mod xdp;

use abi::drops;
use abi::manifest::KernelMaps;
use ir::Verified;

use crate::Output;
use crate::c::{self, BUFFER, Emitter, Hook};
use crate::unsupported::Unsupported;

/// Name of the entry point. The manifest tells it to the host.
const ENTRY: &str = "strait";
/// Names of the maps that every program has. The manifest tells them to the host.
const PACKET: &str = "strait_packet";
const PORTS: &str = "strait_ports";
const NEAR_PORTS: &str = "strait_near_ports";
const EGRESS: &str = "strait_egress";
const DROPS: &str = "strait_drops";
const COUNTERS: &str = "strait_counters";
/// The cell of a counter whose cells begin at `first`; 0 if the index is too large.
const COUNTER_CELL: &str = "static inline struct count *counter_cell(u32 index, u32 first, u32 size)\n{\n    u32 at = first + index;\n    return index < size ? bpf_map_lookup_elem(&strait_counters, &at) : 0;\n}";
/// The map of the ports to the host (PNA).
const HOST_PORTS: &str = "strait_host_ports";
/// The map with the last flow id (PNA).
const FLOW_IDS: &str = "strait_flow_ids";
const VERSIONS: &str = "strait_versions";
/// The map with the number of packets of each lane, and the number of lanes that it has room for.
const LANES: &str = "strait_lanes";
const MOST_LANES: u64 = 256;
/// The interfaces with a smaller index are in an array, which a packet reads without a call. A lookup in the hash takes 20 ns.
const NEAR: u64 = 1024;
/// The number of ports that packets may leave through.
const EGRESS_PORTS: u32 = 512;
/// The drop reason of a packet that could not read a table.
const BUSY: &str = "target.busy";
/// The drop reason of a packet with a checksum over the payload that the program cannot compute.
const GSO_CHECKSUM: &str = "target.gso_checksum";
const LONG_CHECKSUM: &str = "target.long_checksum";
/// The drop reason of a frame whose headers are not all in its first buffer.
const FRAGMENTED_HEADER: &str = "target.fragmented_header";
/// The drop reason of a frame whose copies tc cannot send, because it could not tell tc about them.
const NO_METADATA: &str = "target.no_metadata";
/// The drop reasons of these targets with their descriptions. They are numbered after the program's own.
const REASONS: &[(&str, &str)] = &[
    (drops::EGRESS_SPEC, "the program set egress_spec to the drop port"),
    (drops::NO_SUCH_GROUP, "the multicast group has no members"),
    (drops::STEP_BUDGET, "the parser or a loop did not come to an end"),
    (drops::NO_SUCH_PORT, "the egress port is not attached to an interface"),
    (drops::BAD_RESIZE, "the kernel could not make the packet longer or shorter"),
    (GSO_CHECKSUM, "a checksum over the payload of a GSO packet cannot be computed"),
    (LONG_CHECKSUM, "a checksum over the payload of a packet of more than 66 KiB cannot be computed"),
    (FRAGMENTED_HEADER, "the driver put only a part of the headers into the frame's first buffer"),
    (
        drops::NO_BUFFER,
        "a copy of a packet could not be made, or a deparser changes bytes that are too far behind",
    ),
    (
        drops::CANNOT_FRAGMENT,
        "a packet that must leave as IPv6 fragments is too long for that, its checksum is incomplete, or XDP has it",
    ),
    (NO_METADATA, "the driver keeps no metadata of frames, so the copies of a packet cannot be sent"),
    ("target.internal", "the program's state is missing"),
    (BUSY, "a table was being written whenever the packet read it"),
    c::DROPPED,
];

/// The drop reasons at a hook. `paths` says whether packets may leave several times or pass stages again, and `copies` whether they may leave
/// several times. `fragments` says whether they may leave as fragments. Programs with lanes number them alike at both hooks, which
/// share the maps of counts.
fn reasons(
    hook: Hook,
    options: Options,
    paths: bool,
    copies: bool,
    fragments: bool,
) -> Vec<(&'static str, &'static str)> {
    let mut absent = match hook {
        _ if options.lanes => Vec::new(),
        Hook::Xdp => vec![GSO_CHECKSUM],
        Hook::Tc | Hook::Frame => vec![LONG_CHECKSUM, FRAGMENTED_HEADER],
    };
    absent.extend((!paths).then_some(drops::NO_BUFFER));
    absent.extend((hook != Hook::Xdp || !copies).then_some(NO_METADATA));
    absent.extend((!fragments).then_some(drops::CANNOT_FRAGMENT));
    REASONS.iter().filter(|(name, _)| !absent.contains(name)).copied().collect()
}

const PRELUDE: &str = include_str!("prelude.h");
/// All texts in C of this back end. The C names of a program must differ from theirs.
const TEXTS: &[&str] = &[
    PRELUDE,
    paths::JOBS,
    paths::RING_TEXT,
    paths::MIRROR,
    tc::CONTEXT,
    tc::SKB,
    tc::VLAN,
    tc::departures::MEMBERS,
    tc::departures::FRONTS,
    tc::FRAGMENT,
    tc::TRUNCATE,
    tc::COMPLETION,
    xdp::TRUNCATE,
    rounds::NAMES,
    lanes::LANES,
    lanes::TC,
    lanes::XDP,
    xdp::XDP,
    xdp::FRAGMENT,
    xdp::departures::MEMBERS,
    xdp::departures::FRONTS,
    xdp::departures::COPY,
    xdp::departures::COPIES,
    xdp::departures::SENDER,
    c::varbit::VARBIT,
    events::RING,
    hash::CRC,
    meters::METERS,
    payload::SUM,
    tc::sums::CHANGE,
    tc::sums::CONTINUE,
    tc::deparse::REMOVED_END,
    tc::deparse::RESIZE,
];

/// What a program needs beyond its P4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Interfaces may be *lanes*: shortcuts past another interface, for the packets that the kernel would route into it. Programs without lanes
    /// have no code for them. Of such a program, the object for XDP is loaded beside that for tc, and uses its maps.
    pub lanes: bool,
}

/// Emits a program for tc. Returns every limit of the target that the program exceeds.
pub fn tc(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    tc_with(program, Options::default())
}

/// Like [`tc`], with options.
pub fn tc_with(program: &Verified, options: Options) -> Result<Output, Vec<Unsupported>> {
    emit(program, Hook::Tc, options)
}

/// Emits a program for XDP. Returns every limit of the target that the program exceeds.
pub fn xdp(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    xdp_with(program, Options::default())
}

/// Like [`xdp`], with options.
pub fn xdp_with(program: &Verified, options: Options) -> Result<Output, Vec<Unsupported>> {
    emit(program, Hook::Xdp, options)
}

fn emit(program: &Verified, hook: Hook, options: Options) -> Result<Output, Vec<Unsupported>> {
    let target = if hook == Hook::Xdp { "xdp" } else { "tc" };
    let paths = !c::is_straight(program, hook);
    let fragments = program.pipeline.fragment().is_some();
    let reasons = reasons(hook, options, paths, paths::has_copies(program), fragments);
    let c = Emitter::new(program, hook, target, ENTRY, &reasons, TEXTS);
    let mut ebpf = Ebpf { c, options, paths };
    ebpf.program();
    ebpf.c.output()
}

/// The emission of one program for the kernel.
struct Ebpf<'p> {
    /// What the targets share.
    c: Emitter<'p>,
    options: Options,
    /// Whether packets may leave more than once, or enter a stage again.
    paths: bool,
}

impl Ebpf<'_> {
    fn program(&mut self) {
        self.c.manifest.kernel = Some(KernelMaps {
            ingress: PORTS.to_string(),
            near_ingress: Some(NEAR_PORTS.to_string()),
            egress: EGRESS.to_string(),
            egress_ports: EGRESS_PORTS,
            drops: DROPS.to_string(),
            counters: (self.counter_cells() > 0).then(|| COUNTERS.to_string()),
            versions: VERSIONS.to_string(),
            packet: PACKET.to_string(),
            copies: self.paths.then(|| paths::copy_maps(self.has_sender())),
            host_ports: (self.c.program.arch == ir::Arch::Pna).then(|| HOST_PORTS.to_string()),
            events: self.event_maps(),
            lanes: self.options.lanes.then(|| LANES.to_string()),
            fragments: self.c.program.pipeline.fragment().is_some(),
        });
        self.c.text.line(format!(
            "/* {}.p4 as an eBPF program for {}. Made by Strait; edit the P4 instead. */",
            self.c.program.name.comment(),
            self.c.manifest.target
        ));
        self.c.text.raw(c::PRELUDE);
        self.c.text.raw(PRELUDE);
        match self.c.facts.hook {
            Hook::Xdp => self.c.text.raw(xdp::XDP),
            Hook::Tc | Hook::Frame => self.tc_texts(),
        }
        let (first, last) = self.scratch();
        self.c.state(&first, &last);
        self.maps();
        if self.options.lanes {
            self.lanes();
        }
        if !self.c.problems.is_empty() {
            return;
        }
        self.hashes();
        self.value_sets();
        for i in 0..self.c.program.tables.len() {
            self.table(i);
        }
        self.c.parsers();
        self.c.controls();
        if !self.c.facts.plan.sums.is_empty() {
            self.c.text.raw(payload::SUM);
        }
        self.zero();
        match self.c.facts.hook {
            Hook::Xdp => self.xdp(),
            Hook::Tc | Hook::Frame => self.tc(),
        }
        self.c.text.line("");
        self.c.text.line("char _license[] SEC(\"license\") = \"Dual MIT/GPL\";");
    }

    /// The members of `struct scratch` before and after those that the targets share: the verdict for the host, and buffers.
    fn scratch(&self) -> (Vec<String>, Vec<String>) {
        let mut first = vec![
            "/* The host reads the first four. */",
            "u32 verdict;      /* 0 not processed, 1 sent, 2 dropped; for test runs, which cannot see a redirect */",
            "u32 port;",
            "u32 reason;",
            "u32 tag;          /* the VLAN tag in the metadata of the skb that is sent, or 0 */",
        ];
        first.push("u32 leave;        /* the jump that left a loop, or 0 */");
        first.push(match self.c.facts.hook {
            Hook::Xdp => {
                "u32 beyond;       /* 1 if the program tried to read a header beyond the first buffer */"
            }
            Hook::Tc | Hook::Frame => {
                "u32 payload;      /* the offset of the payload in the packet that leaves */"
            }
        });
        if self.c.facts.rounds && self.c.facts.hook == Hook::Tc {
            if self.completes() {
                first.push("u32 completion, from_end; /* see find_completion */");
            }
            first.push("u32 tagged;       /* in a further round: whether the metadata of the skb have a dummy VLAN tag */");
        }
        if self.c.facts.rounds && self.options.lanes {
            first.push("u32 changed;      /* in a further round: whether the packet has been deparsed */");
            first.push(
                "u32 place;        /* in a further round: the place of the packet's route in the cache */",
            );
        }
        let layouts = self.c.manifest.tables.iter().filter_map(|t| t.layout.as_ref());
        let key = (layouts.map(|l| l.key_size).max().unwrap_or(0) + 8).div_ceil(8) * 8;
        let mut last = vec![
            format!("u8 key[{key}] __attribute__((aligned(8)));"),
            format!("u8 masked[{key}] __attribute__((aligned(8)));"),
            format!("u32 buffer[{}];", BUFFER / 4),
        ];
        let parts = self.c.manifest.value_sets.iter().map(|s| s.keys.len()).max().unwrap_or(0);
        if parts > 0 {
            last.push(format!(
                "u64 member[{}];     /* the keys that are looked up in a value set */",
                2 * parts
            ));
        }
        let data = self.copied_data();
        if self.can_be_busy() {
            last.push(
                "u32 busy;         /* 1 if a table was being written whenever it was read */".to_string(),
            );
        }
        if data > 0 {
            last.push(format!("u64 data[{data}];      /* the action data of the entry that was found */"));
            last.push(format!("u64 candidate[{data}];"));
        }
        (first.into_iter().map(str::to_string).collect(), last)
    }

    /// The number of cells of all indexed counters.
    fn counter_cells(&self) -> u64 {
        self.c.manifest.counters.iter().map(|counter| counter.size).sum()
    }

    /// Declares all maps, `get_packet()`, which returns the state, and `find_port(ifindex)`.
    fn maps(&mut self) {
        self.c.text.line("");
        self.map(PACKET, "BPF_MAP_TYPE_PERCPU_ARRAY", 1, "u32", "struct packet", false);
        self.map(PORTS, "BPF_MAP_TYPE_HASH", 256, "u32", "struct ingress", false);
        self.map(NEAR_PORTS, "BPF_MAP_TYPE_ARRAY", NEAR, "u32", "struct ingress", false);
        match self.c.facts.hook {
            // Frames leave where the kernel's routes say.
            Hook::Xdp if self.options.lanes => {}
            Hook::Xdp => {
                self.map(EGRESS, "BPF_MAP_TYPE_DEVMAP", EGRESS_PORTS.into(), "u32", "struct egress", false)
            }
            Hook::Tc | Hook::Frame => {
                self.map(EGRESS, "BPF_MAP_TYPE_ARRAY", EGRESS_PORTS.into(), "u32", "struct egress", false)
            }
        }
        if self.options.lanes {
            self.map(LANES, "BPF_MAP_TYPE_PERCPU_ARRAY", MOST_LANES, "u32", "struct count", false);
        }
        let reasons = self.c.manifest.drops.len().max(1);
        self.map(DROPS, "BPF_MAP_TYPE_PERCPU_ARRAY", reasons as u64, "u32", "struct count", false);
        let cells = self.counter_cells();
        if cells > 0 {
            self.map(COUNTERS, "BPF_MAP_TYPE_PERCPU_ARRAY", cells, "u32", "struct count", false);
            self.c.text.line(COUNTER_CELL);
        }
        for register in self.c.manifest.registers.clone() {
            if let Some(map) = &register.map {
                let cell = if register.width > 64 { "struct cell128" } else { "u64" };
                self.map(map, "BPF_MAP_TYPE_ARRAY", register.size.max(1), "u32", cell, false);
            }
        }
        let tables = self.c.manifest.tables.clone();
        self.map(VERSIONS, "BPF_MAP_TYPE_ARRAY", tables.len().max(1) as u64, "u32", "struct version", false);
        for (index, table) in tables.iter().enumerate() {
            self.table_maps(ir::TableId(index as u32), table);
        }
        if self.paths {
            self.job_maps();
        }
        self.meter_maps();
        self.events();
        self.pna_maps();
        self.c.text.line("");
        self.c.text.open("INLINE struct packet *get_packet(void)");
        self.c.text.line("u32 zero = 0;");
        self.c.text.line("return bpf_map_lookup_elem(&strait_packet, &zero);");
        self.c.text.close("");
        self.find_port();
    }

    /// Emits `find_port(ifindex)`, which returns the port of an interface, or 0. What the host writes to an element of an array, packets may see half
    /// written, so an element is no port while it is written. A lane that changes leaves its packets to the other interface meanwhile.
    fn find_port(&mut self) {
        let t = &mut self.c.text;
        t.line("");
        t.open("INLINE struct ingress *find_port(u32 ifindex)");
        t.line(format!("struct ingress *near = bpf_map_lookup_elem(&{NEAR_PORTS}, &ifindex);"));
        t.line("if (near)");
        t.line("    return near->flags & PORT ? near : 0;");
        t.line(format!("return bpf_map_lookup_elem(&{PORTS}, &ifindex);"));
        t.close("");
    }

    /// Declares the maps of PNA programs, and `is_host_port(port)`.
    fn pna_maps(&mut self) {
        if self.c.program.arch != ir::Arch::Pna {
            return;
        }
        self.map(HOST_PORTS, "BPF_MAP_TYPE_HASH", EGRESS_PORTS.into(), "u32", "u32", false);
        self.map(FLOW_IDS, "BPF_MAP_TYPE_ARRAY", 1, "u32", "u32", false);
        self.c.text.line("");
        self.c.text.line("/* Returns whether a port leads to the host. Other ports lead to the network. */");
        self.c.text.open("INLINE u32 is_host_port(u32 port)");
        self.c.text.line(format!("return bpf_map_lookup_elem(&{HOST_PORTS}, &port) != 0;"));
        self.c.text.close("");
    }

    /// Declares a map in the form that loaders read from BTF. `lazy` maps allocate their elements when they are added.
    fn map(&mut self, name: &str, kind: &str, entries: u64, key: &str, value: &str, lazy: bool) {
        let flags = if lazy { " __uint(map_flags, BPF_F_NO_PREALLOC);" } else { "" };
        // The loader then takes the map of this name that is there.
        let pinning = match self.has_maps_of_tc() && name != PACKET {
            true => " __uint(pinning, LIBBPF_PIN_BY_NAME);",
            false => "",
        };
        self.c.text.line(format!(
            "struct {{ __uint(type, {kind}); __uint(max_entries, {entries});{flags}{pinning} __type(key, {key}); __type(value, {value}); }} {name} SEC(\".maps\");"
        ));
    }

    /// Emits `zero_state(s)`, which clears the first part of the state. eBPF has no memset. Unrolled stores take half the time of a loop.
    fn zero(&mut self) {
        self.c.text.line("");
        self.c.text.open("INLINE void zero_state(struct state *s)");
        self.c.text.line("u64 *word = (u64 *)s;");
        self.c.text.line("#pragma clang loop unroll(full)");
        self.c.text.open("for (u32 i = 0; i < __builtin_offsetof(struct state, rest) / 8; i++)");
        self.c.text.line("word[i] = 0;");
        self.c
            .text
            .line("asm volatile(\"\" ::: \"memory\"); /* without it, the compiler would call memset */");
        self.c.text.close("");
        self.c.clear_varbits();
        self.c.text.close("");
    }

    /// The number of one of this target's drop reasons.
    fn reason(&self, name: &str) -> usize {
        let own = self.c.program.drop_sites.len();
        own + self.c.manifest.drops.iter().skip(own).position(|d| d.name == name).unwrap_or(0)
    }

    /// Emits the beginning of the entry point, up to the port where the packet arrived. `verdicts` are those of a packet that cannot be
    /// processed, and of one that is not the program's.
    fn arrive(&mut self, section: &str, ifindex: &str, verdicts: [&str; 2]) {
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        let can_be_busy = self.can_be_busy();
        let t = &mut self.c.text;
        t.line("");
        if self.c.facts.rounds {
            self.open_process();
        } else {
            t.line(format!("SEC(\"{section}\")"));
            t.open(format!("int {ENTRY}({ty} *{packet})"));
        }
        self.c.get_state(verdicts[0]);
        let t = &mut self.c.text;
        t.line("t->verdict = 0;");
        t.line("t->tag = 0;");
        if can_be_busy {
            t.line("t->busy = 0;");
        }
        t.line(format!("u32 ifindex = {packet}->{ifindex};"));
        t.line("struct ingress *from = find_port(ifindex);");
        t.line("if (!from)");
        t.line(format!("    return {}; /* the interface is not a port of the program */", verdicts[1]));
    }

    /// Emits the result of a packet that is sent, for test runs.
    fn depart(&mut self) {
        let t = &mut self.c.text;
        t.line("t->port = out;");
        t.line("asm volatile(\"\" ::: \"memory\");");
        t.line("t->verdict = 1;");
    }

    /// Emits `count_and_drop`, which drops a packet. `verdict` tells the kernel to do so. It is a function of its own, because its code between
    /// that of the packets that pass would take up lines of the instruction cache.
    fn drops(&mut self, verdict: &str) {
        let (hook, t) = (self.c.facts.hook, &mut self.c.text);
        t.line("");
        t.line("/* Counts a drop, and drops the packet. */");
        t.open(format!(
            "NOINLINE static int count_and_drop(UNUSED {} *{}, struct scratch *t, u32 reason)",
            hook.packet_type(),
            hook.packet()
        ));
        t.line("struct count *c = bpf_map_lookup_elem(&strait_drops, &reason);");
        t.line("if (c)");
        t.line(format!("    count_packet(c, {});", hook.length()));
        t.line("t->reason = reason;");
        t.line("asm volatile(\"\" ::: \"memory\"); /* the verdict is written last */");
        t.line("t->verdict = 2;");
        t.line(format!("return {verdict};"));
        t.close("");
    }
}
