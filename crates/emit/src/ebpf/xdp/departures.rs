//! How packets leave at the XDP hook, if jobs may wait.
//!
//! XDP can send a frame once. If one packet leaves, it is the frame, whatever jobs ran before. If several leave, the program keeps their fronts in a
//! map, writes into the frame's metadata where they are, and passes the frame to the kernel. A second program of the same object, at the tc hook
//! of the same interface, makes and sends the packets (`copies.h`, `sender.h`). It knows nothing of the P4 program: all stages run at the
//! XDP hook.

use abi::drops;
use abi::manifest::Sender;

use super::super::paths::has_copies;
use super::super::{Ebpf, NO_METADATA, tc};

/// Members of `struct jobs`.
pub const MEMBERS: &str = "u32 leaves, out; /* 1 if the frame leaves; through which port */
    u32 bare;   /* not 0 if the interface has no Ethernet header */
    u32 sent;   /* number of packets that tc is to send */
    u64 first_copy; /* the number of the first of them */
    u8 begin[16]; /* the first 14 bytes of the frame that is passed to the kernel */";
pub const FRONTS: &str = include_str!("fronts.h");
pub const COPY: &str = include_str!("copy.h");
pub const COPIES: &str = include_str!("copies.h");
pub const SENDER: &str = include_str!("sender.h");

/// The program that sends copies.
const PROGRAM: &str = "strait_sender";
const KEPT: &str = "strait_kept";
/// The number of copies that are kept for each processor: `KEPT` in copy.h.
const KEPT_EACH: u32 = 2048;

/// What the host must know about the program that sends copies.
pub fn sender() -> Sender {
    Sender { program: PROGRAM.to_string(), kept: KEPT.to_string(), each: KEPT_EACH }
}

impl Ebpf<'_> {
    /// Whether a program at a tc hook sends the packet's copies.
    pub(in super::super) fn has_sender(&self) -> bool {
        self.c.facts.hook == crate::c::Hook::Xdp && self.paths && has_copies(self.c.program)
    }

    /// Emits the maps of copies that tc is to send. The host makes room for those of each processor.
    pub(in super::super) fn sender_maps(&mut self) {
        self.c.text.raw(COPY);
        self.map(KEPT, "BPF_MAP_TYPE_ARRAY", KEPT_EACH.into(), "u32", "struct copy", false);
        self.map("strait_last", "BPF_MAP_TYPE_PERCPU_ARRAY", 1, "u32", "u64", false);
    }

    /// Emits the functions that write fronts and keep copies.
    pub(in super::super) fn xdp_fronts(&mut self) {
        self.c.text.raw(FRONTS);
        if self.has_sender() {
            self.c.text.raw(COPIES);
        }
    }

    /// Emits the departure of a packet for the interface `to`.
    pub(in super::super) fn xdp_leave(&mut self) {
        let no_buffer = self.reason(drops::NO_BUFFER);
        let (drop, sends) = (self.drop_call(), self.has_sender());
        let t = &mut self.c.text;
        if sends {
            t.line("if (jobs->count > jobs->busy || jobs->more || jobs->sent)");
            t.line(format!("    return keep_copy(xdp, out, to->ifindex) ? {drop}, {no_buffer}) : 0;"));
        }
        t.line("jobs->leaves = 1;");
        t.line("jobs->out = out;");
        t.line("return 0;");
    }

    /// Emits the run of all stages in the entry point, and the end of the frame.
    pub(super) fn xdp_paths(&mut self) {
        let sends = self.has_sender();
        self.run_paths("XDP_ABORTED", |ebpf| {
            if sends {
                ebpf.c.text.line("jobs->bare = from->flags & BARE;");
                ebpf.c.text.line("if (jobs->bare)");
                ebpf.c.text.line("    save_begin(xdp, jobs);");
            }
        });
        let drop = self.drop_call();
        let [missing, resize, metadata] =
            [drops::NO_SUCH_PORT, drops::BAD_RESIZE, NO_METADATA].map(|r| self.reason(r));
        let t = &mut self.c.text;
        if sends {
            t.open("if (jobs->sent > 1)");
            t.line("int failed = hand_over(xdp);");
            t.line("if (!failed)");
            t.line("    return XDP_PASS; /* to strait_sender */");
            t.line(format!("{drop}, failed == 2 ? {metadata} : {resize});"));
            t.close("");
            t.line("else if (jobs->sent && take_copy(xdp))");
            t.line(format!("    {drop}, {resize});"));
        }
        t.line("u32 verdict = XDP_DROP;");
        t.open("if (jobs->leaves)");
        t.line("verdict = bpf_redirect_map(&strait_egress, jobs->out, XDP_DROP);");
        t.line("if (verdict != XDP_REDIRECT)");
        t.line(format!("    {drop}, {missing});"));
        t.close("");
        t.line("asm volatile(\"\" ::: \"memory\");");
        t.line("t->verdict = 3; /* the packets that left are counted where they arrive */");
        t.line("return verdict;");
    }

    /// Emits the program that sends copies.
    pub(super) fn sender(&mut self) {
        let numbers = [drops::NO_BUFFER, NO_METADATA].map(|r| self.reason(r));
        let t = &mut self.c.text;
        t.raw("\n");
        for text in [tc::CONTEXT, tc::VLAN, tc::deparse::RESIZE] {
            t.raw(text);
        }
        t.line(format!("enum {{ NO_BUFFER = {}, NO_METADATA = {} }};", numbers[0], numbers[1]));
        t.raw(SENDER);
    }
}
