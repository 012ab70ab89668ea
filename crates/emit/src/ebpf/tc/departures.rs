//! How packets leave at a tc hook, if jobs may wait. A packet that leaves while jobs wait is cloned by the kernel (`bpf_clone_redirect`); the last one
//! is redirected itself, so that a packet without copies costs little more than in a program that makes none.

use abi::drops;

use super::super::Ebpf;
use super::deparse::REMOVED_END;

/// Members of `struct jobs`.
pub const MEMBERS: &str =
    "u32 tagged; /* 1 if the metadata of the skb have a dummy VLAN tag, and the packet the real one, if any */
    u32 bare;   /* not 0 if the interface has no Ethernet header */
    u32 leaves, ifindex, flags; /* 1 if the packet itself leaves; where */
    u32 reserved;";
pub const FRONTS: &str = include_str!("fronts.h");

impl Ebpf<'_> {
    /// Emits the functions that write fronts and send packets.
    pub(in super::super) fn tc_fronts(&mut self) {
        self.c.text.raw(&FRONTS.replace("REMOVED_END", REMOVED_END.trim()));
    }

    /// Emits the departure of a packet for the interface `to`.
    pub(in super::super) fn tc_leave(&mut self) {
        let [resize, no_buffer] = [drops::BAD_RESIZE, drops::NO_BUFFER].map(|r| self.reason(r));
        let added = self.added_tag().unwrap_or_else(|| "0".to_string());
        let drop = self.drop_call();
        let t = &mut self.c.text;
        t.line(format!("if (!jobs->tagged && !jobs->bare && {added})"));
        t.line("    jobs->tagged = !vlan_tag_to_packet(skb);");
        t.line("if (jobs->tagged && vlan_tag_to_metadata(skb))");
        t.line(format!("    return {drop}, {resize});"));
        t.line(format!("return send(skb, jobs, to) ? {drop}, {no_buffer}) : 0;"));
    }

    /// Emits the run of all stages in the entry point.
    pub(super) fn tc_paths(&mut self) {
        if self.options.lanes {
            self.refuse_lanes_with_paths();
        }
        self.run_paths("TC_ACT_SHOT", |ebpf| {
            ebpf.c.text.line("jobs->tagged = tagged;");
            ebpf.c.text.line("jobs->bare = from->flags & BARE;");
        });
        let t = &mut self.c.text;
        t.line("asm volatile(\"\" ::: \"memory\");");
        t.line("t->verdict = 3; /* the packets that left are counted where they arrive */");
        t.line("return jobs->leaves ? bpf_redirect(jobs->ifindex, jobs->flags) : TC_ACT_SHOT;");
    }
}
