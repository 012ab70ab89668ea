//! Machine code: C for cc, which a host loads as a shared object.
//!
//! One function works on a burst of packets in two rounds: all are parsed, then all run through the controls and leave. A packet
//! never moves: what is behind its headers stays where it is, and the headers are written in front of it.
//!
//! * `table`: look-ups; `deparse`: what leaves; `prelude.h`: the memory shared with the host.
//!
//! The rest is of the shared dialect, [`crate::c`].

mod deparse;
mod table;

use abi::drops;
use ir::{Role, Verified};

use crate::Output;
use crate::c::{self, Dialect, Emitter, Home, stage_name};
use crate::unsupported::Unsupported;

/// Name of the function that works on a burst.
pub const ENTRY: &str = "strait_burst";

/// Reasons of this target, behind the program's own.
const REASONS: &[(&str, &str)] = &[
    (drops::EGRESS_SPEC, "the program set egress_spec to the drop port"),
    (drops::NO_SUCH_GROUP, "multicast groups are not supported by this target"),
    (drops::STEP_BUDGET, "the parser did not come to an end"),
    (drops::NO_SUCH_PORT, "the egress port is not attached to anything"),
    (drops::BAD_RESIZE, "there is no room in front of the packet for its new headers"),
];

/// Emits a program for a processor; every limit that it meets is reported.
pub fn native(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    let mut emitter = Emitter::new(program, Dialect::Native, "native", ENTRY, REASONS);
    emitter.native();
    emitter.output()
}

impl Emitter<'_> {
    fn native(&mut self) {
        self.text.line(format!("/* {}.p4 in C. Made by Strait; edit the P4 instead. */", self.program.name));
        self.text.raw(c::PRELUDE);
        self.text.raw(include_str!("prelude.h"));
        self.state();
        if !self.problems.is_empty() {
            return;
        }
        for i in 0..self.program.tables.len() {
            self.native_table(i);
        }
        self.parser();
        self.controls();
        self.native_deparser();
        self.begin();
        self.finish();
        self.text.raw(BURST);
    }

    /// The first round of a packet: cleared, parsed, its sums verified.
    fn begin(&mut self) {
        let std = self.program.standard;
        let v = |id| format!("s->{}", self.names.var(id));
        let (port, length) = (v(std.ingress_port), v(std.packet_length));
        let clock = [std.ingress_global_timestamp, std.egress_global_timestamp];
        let clock: Vec<_> = clock.into_iter().filter(|c| self.units.home(*c) == Home::State).map(v).collect();
        let t = &mut self.text;
        t.line("");
        t.open(
            "static void begin(struct packet *pkt, const struct shared *shared, struct worker *worker, const struct strait_packet *p)",
        );
        t.line("struct state *s = &pkt->state;");
        t.line("__builtin_memset(s, 0, __builtin_offsetof(struct state, rest));");
        t.line("pkt->frame = (struct frame){ p->data, p->headroom, p->tailroom, shared, worker };");
        t.line("pkt->length = p->length;");
        t.line(format!("{port} = p->port & 0x1ff;"));
        t.line(format!("{length} = p->length;"));
        for c in clock {
            t.line(format!("{c} = worker->clock & 0xffffffffffffULL;"));
        }
        t.line("parse(pkt);");
        if self.program.control(Role::VerifyChecksum).is_some() {
            t.line("if (!s->timeout)");
            t.line(format!("    {}(pkt);", stage_name(Role::VerifyChecksum)));
        }
        t.close("");
    }

    /// The second round: 0, or 1 + the reason of its drop.
    fn finish(&mut self) {
        let std = self.program.standard;
        let v = |id| format!("s->{}", self.names.var(id));
        let (spec, egress, group) = (v(std.egress_spec), v(std.egress_port), v(std.mcast_grp));
        let sites = self.program.drop_sites.len();
        let reason = |name: &str| 1 + sites + REASONS.iter().position(|r| r.0 == name).unwrap_or(0);
        let dropped = format!("    return s->site ? s->site : {};", reason(drops::EGRESS_SPEC));
        let t = &mut self.text;
        t.line("");
        t.open("static u32 finish(struct packet *pkt, u32 *port)");
        t.line("struct state *s = &pkt->state;");
        t.line("if (s->timeout)");
        t.line(format!("    return {};", reason(drops::STEP_BUDGET)));
        if self.program.control(Role::Ingress).is_some() {
            t.line("ingress(pkt);");
        }
        t.line(format!("if ({group})"));
        t.line(format!("    return {};", reason(drops::NO_SUCH_GROUP)));
        t.line(format!("if ({spec} == {})", abi::DROP_PORT));
        t.line(&dropped);
        t.line(format!("{egress} = {spec};"));
        if self.program.control(Role::Egress).is_some() {
            t.line("egress(pkt);");
            t.line(format!("if ({spec} == {})", abi::DROP_PORT));
            t.line(&dropped);
        }
        if self.program.control(Role::ComputeChecksum).is_some() {
            t.line("compute_checksum(pkt);");
        }
        t.line("if (deparse(pkt))");
        t.line(format!("    return {};", reason(drops::BAD_RESIZE)));
        t.line(format!("*port = {egress};"));
        t.line("return 0;");
        t.close("");
    }
}

const BURST: &str = r#"
enum { BURST = 32 };

/* Every packet gets its verdict; a drop is counted here, and what is sent is for the host to send. */
__attribute__((visibility("default"))) void strait_burst(const struct shared *shared, struct worker *worker,
                                                         struct strait_packet **packets, u32 count)
{
    struct packet work[BURST];
    for (u32 at = 0; at < count; at += BURST) {
        u32 n = count - at < BURST ? count - at : BURST;
        for (u32 i = 0; i < n; i++)
            begin(&work[i], shared, worker, packets[at + i]);
        for (u32 i = 0; i < n; i++) {
            struct strait_packet *p = packets[at + i];
            u32 dropped = finish(&work[i], &p->port);
            if (dropped) {
                p->verdict = DROPPED;
                p->reason = dropped - 1;
                count_packet(&worker->drops[p->reason], p->length);
                continue;
            }
            p->verdict = SENT;
            p->data = work[i].frame.data;
            p->length = work[i].length;
            p->headroom = work[i].frame.headroom;
        }
    }
}
"#;
