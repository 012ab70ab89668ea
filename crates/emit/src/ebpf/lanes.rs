//! Lanes: shortcuts past an interface, see [`super::Options`].
//!
//! * `lanes.h` asks the kernel where packets are routed, and caches its answers.
//! * `tc/lanes.h` and `xdp/lanes.h` say which packets may enter a lane, and how they leave it.

use super::Ebpf;
use crate::c::Hook;

pub(super) const LANES: &str = include_str!("lanes.h");
pub(super) const TC: &str = include_str!("tc/lanes.h");
pub(super) const XDP: &str = include_str!("xdp/lanes.h");

impl Ebpf<'_> {
    /// Whether the maps are those of the object for tc, except for the state of a packet.
    pub(super) fn has_maps_of_tc(&self) -> bool {
        self.options.lanes && self.c.facts.hook == Hook::Xdp
    }

    /// Whether the program can tell packets that come out of a program of Strait from others. Only an skb knows where it arrived.
    pub(super) fn tells_again(&self) -> bool {
        self.options.lanes && self.c.facts.hook == Hook::Tc && self.c.program.arch != ir::Arch::Pna
    }

    /// Emits the functions of lanes.
    pub(super) fn lanes(&mut self) {
        let texts = match self.c.facts.hook {
            Hook::Xdp => [LANES, XDP],
            Hook::Tc | Hook::Frame => [LANES, TC],
        };
        for text in texts {
            self.c.text.raw(text);
        }
    }

    /// Emits `drop_unchanged`. `verdict` lets a packet continue.
    pub(super) fn drop_unchanged(&mut self, verdict: &str) {
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        let t = &mut self.c.text;
        t.line("");
        t.line("/* Drops a packet. If it is an unchanged one in a lane, it continues instead. */");
        t.open(format!("INLINE int drop_unchanged({ty} *{packet}, struct scratch *t, u32 lane, u32 reason)"));
        t.line("if (lane)");
        t.line(format!("    return {verdict};"));
        t.line(format!("return count_and_drop({packet}, t, reason);"));
        t.close("");
    }

    /// The beginning of the call that drops a packet which has not been deparsed in this round.
    pub(super) fn unless_in_lane(&self, packet: &str) -> String {
        let unchanged = if self.c.facts.rounds { " && !(again && t->changed)" } else { "" };
        format!("drop_unchanged({packet}, t, from->lane{unchanged}")
    }

    /// Emits the question to the kernel whether the packet is a lane's, and the declaration of `asked`, the answer. `verdict` lets a packet continue. The
    /// packet of a further round is a lane's already.
    pub(super) fn enter_lane(&mut self, verdict: &str) {
        let (packet, rounds) = (self.c.facts.hook.packet(), self.c.facts.rounds);
        let t = &mut self.c.text;
        t.line("struct cached_route *asked = 0;");
        let first = if rounds { "!again && " } else { "" };
        t.line(format!("if ({first}from->lane && !(asked = enter_lane({packet}, t, from)))"));
        t.line(format!("    return {verdict};"));
        if rounds {
            t.line("if (asked)");
            t.line("    t->place = asked->place;");
            t.line("else if (from->lane)");
            t.line("    asked = bpf_map_lookup_elem(&strait_routes, &t->place);");
        }
    }

    /// Refuses lanes in a program whose packets leave several times.
    pub(super) fn refuse_lanes_with_paths(&mut self) {
        if self.paths {
            let loc = self.c.program.controls.first().map(|c| c.loc).unwrap_or_default();
            let what = "a program with lanes whose packets leave several times";
            self.c.refuse(loc, what, "attach it as a device");
        }
    }
}
