//! The XDP hook. The packet is a buffer of the driver that no other part of the kernel has seen.
//!
//! * `deparse` writes the headers in front of the payload, which stays where it is. The frame begins earlier or later.
//! * `departures` lets packets leave several times, with the help of a program at a tc hook.
//! * `xdp.h` is the common part of all programs at this hook.
//!
//! A frame may consist of several buffers. All headers must be in the first one; the payload may be anywhere. A packet never has a checksum
//! that a card would complete: the host makes sure of it before it attaches the program.

mod deparse;
pub(super) mod departures;

use abi::drops;

use super::{Ebpf, FRAGMENTED_HEADER};

pub(super) const FRAGMENT: &str = include_str!("fragment.h");
pub(super) const XDP: &str = include_str!("xdp.h");

/// The truncation of a frame.
pub(super) const TRUNCATE: &str = r#"
__attribute__((unused)) static long (*bpf_xdp_adjust_tail)(struct xdp_md *xdp, s32 delta) = (void *)65;

/* Truncates the frame. Returns 0 on success: the kernel leaves at least an Ethernet header. */
INLINE int truncate(struct xdp_md *xdp, u32 length)
{
    u32 arrived = frame_length(xdp);
    if (arrived <= length)
        return 0;
    return bpf_xdp_adjust_tail(xdp, (s32)length - (s32)arrived) != 0;
}
"#;

impl Ebpf<'_> {
    /// Emits the deparsers and the entry point.
    pub(super) fn xdp(&mut self) {
        self.xdp_deparsers();
        self.drops("XDP_DROP");
        if self.options.lanes {
            self.drop_unchanged("XDP_PASS");
            self.refuse_lanes_with_paths();
        } else if self.fragment_request().is_some() {
            self.c.text.raw(FRAGMENT);
        }
        if self.truncates() {
            self.c.text.raw(TRUNCATE);
        }
        if self.paths {
            self.paths();
        }
        self.again_functions("XDP_ABORTED");
        self.arrive("xdp.frags", "ingress_ifindex", ["XDP_ABORTED", "XDP_PASS"]);
        self.c.text.line("t->beyond = 0;");
        if self.paths {
            self.xdp_paths();
        } else if self.options.lanes {
            self.enter_lane("XDP_PASS");
            let (unchanged, drop) = (self.unless_in_lane("xdp"), self.drop_call());
            self.stages(&unchanged, drop);
            self.depart();
            self.c.text.line("return asked ? leave_lane(xdp, t, from, asked) : XDP_PASS;");
        } else {
            let drop = self.drop_call();
            self.stages(drop, drop);
            self.leave_as_fragments();
            self.depart();
            self.c.text.line("return XDP_REDIRECT;");
        }
        self.c.text.close("");
        self.rounds("xdp.frags");
        if self.has_sender() {
            self.sender();
        }
    }

    /// Emits the drop of a packet whose headers the parser could not reach.
    pub(super) fn xdp_beyond(&mut self, drop: &str) {
        let reason = self.reason(FRAGMENTED_HEADER);
        self.c.text.line("if (t->beyond)");
        self.c.text.line(format!("    return {drop}, {reason});"));
    }

    /// Emits the declaration of `out`, the port where packets leave, and tells the kernel where that is. The kernel remembers it until the
    /// program returns XDP_REDIRECT. A lane asks the kernel where packets leave.
    pub(super) fn xdp_destination(&mut self, drop: &str) {
        let missing = self.reason(drops::NO_SUCH_PORT);
        let port = self.port_of_departure().unwrap_or_else(|| "0".to_string());
        let t = &mut self.c.text;
        t.line(format!("u32 out = {port};"));
        if self.options.lanes {
            return;
        }
        t.line("if (bpf_redirect_map(&strait_egress, out, XDP_DROP) != XDP_REDIRECT)");
        t.line(format!("    return {drop}, {missing});"));
    }
}
