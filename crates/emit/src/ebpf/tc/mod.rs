//! The tc hooks. The packet is a `struct __sk_buff`, possibly a GSO packet whose segments and checksums the network card completes.
//!
//! * `deparse` changes the packet by the kernel's helpers, which keep such a packet intact, and `sums` its checksums.
//! * `departures` lets packets leave while jobs wait.
//! * `context.h`, `skb.h` and `vlan.h` are the common part of all programs at a tc hook, `fragment.h` makes IPv6 fragments, and
//!   [`super::lanes`] has `lanes.h`.

pub(super) mod deparse;
pub(super) mod departures;
pub(super) mod sums;

use abi::drops;
use ir::Role;

use super::Ebpf;

pub(super) const CONTEXT: &str = include_str!("context.h");
pub(super) const SKB: &str = include_str!("skb.h");
pub(super) const VLAN: &str = include_str!("vlan.h");
pub(super) const FRAGMENT: &str = include_str!("fragment.h");

/// The truncation of a packet.
pub(super) const TRUNCATE: &str = r#"
/* Truncates the packet. Returns 0 on success: the kernel has no packet without bytes. */
INLINE int truncate(struct __sk_buff *skb, u32 length)
{
    if (skb->len <= length)
        return 0;
    return !length || bpf_skb_change_tail(skb, length, 0);
}
"#;

/// What further rounds must know of an incomplete checksum.
pub(super) const COMPLETION: &str = include_str!("completion.h");

impl Ebpf<'_> {
    /// Emits the common texts of programs at a tc hook.
    pub(super) fn tc_texts(&mut self) {
        for text in [CONTEXT, SKB, VLAN] {
            self.c.text.raw(text);
        }
    }

    /// Emits the deparsers and the entry point.
    pub(super) fn tc(&mut self) {
        self.tc_deparsers();
        self.drops("TC_ACT_SHOT");
        if self.options.lanes {
            self.drop_unchanged("TC_ACT_OK");
        }
        if self.truncates() {
            self.c.text.raw(TRUNCATE);
        }
        if self.paths {
            self.paths();
        } else if self.fragment_request().is_some() {
            self.c.text.raw(FRAGMENT);
        }
        self.again_functions("TC_ACT_SHOT");
        self.tc_process();
        self.rounds("classifier");
    }

    /// Emits the function that processes one packet: the entry point, or what it calls in each round.
    fn tc_process(&mut self) {
        let resize = self.reason(drops::BAD_RESIZE);
        self.arrive("classifier", "ifindex", ["TC_ACT_SHOT", "TC_ACT_OK"]);
        let rounds = self.c.facts.rounds;
        // The packet of a further round is a lane's already, and has its VLAN tag.
        let first = if rounds { "!again && " } else { "" };
        if self.options.lanes {
            self.enter_lane("TC_ACT_OK");
        }
        let t = &mut self.c.text;
        t.line(if rounds {
            "u32 tagged = again ? t->tagged : has_vlan_tag(skb);"
        } else {
            "u32 tagged = has_vlan_tag(skb);"
        });
        t.line(format!("if ({first}tagged && vlan_tag_to_packet(skb))"));
        t.line(format!("    return count_and_drop(skb, t, {resize});"));
        let drop = "count_and_drop(skb, t";
        if self.paths {
            self.tc_paths();
            return self.c.text.close("");
        }
        let unchanged = if self.options.lanes { self.unless_in_lane("skb") } else { drop.to_string() };
        self.stages(&unchanged, drop);
        let added_tag = self.added_tag();
        let t = &mut self.c.text;
        if let Some(added) = added_tag {
            t.line(format!("if (!tagged && {added} && !(from->flags & BARE))"));
            t.line("    tagged = !vlan_tag_to_packet(skb);");
        }
        t.open("if (tagged)");
        t.line("if (vlan_tag_to_metadata(skb))");
        t.line(format!("    return count_and_drop(skb, t, {resize});"));
        t.line("if (has_vlan_tag(skb))");
        t.line("    t->tag = bswap16((u16)skb->vlan_proto) << 16 | skb->vlan_tci;");
        t.close("");
        if self.tells_again() {
            self.c.text.line("mark_sent(skb, from);");
        }
        self.leave_as_fragments();
        self.depart();
        let t = &mut self.c.text;
        if self.options.lanes {
            t.line("if (asked)");
            t.line("    return leave_lane(skb, t, from, asked);");
        }
        t.line("return bpf_redirect(to->ifindex, to->flags);");
        t.close("");
    }

    /// The C of the condition that the packet begins with a VLAN tag that the program may have added; `None` if it adds none.
    pub(super) fn added_tag(&self) -> Option<String> {
        let (header, field) = self.ether_type(Role::Deparser)?;
        let ty = format!("s->{header}.{field}");
        Some(format!("s->{header}_valid && ({ty} == VLAN || {ty} == SERVICE_VLAN)"))
    }

    /// Emits the declarations of `out`, the port where packets leave, and of `to`, its interface.
    pub(super) fn tc_destination(&mut self, drop: &str) {
        let missing = self.reason(drops::NO_SUCH_PORT);
        let port = self.port_of_departure().unwrap_or_else(|| "0".to_string());
        let t = &mut self.c.text;
        t.line(format!("u32 out = {port};"));
        t.line("struct egress *to = bpf_map_lookup_elem(&strait_egress, &out);");
        t.line("if (!to || !to->ifindex)");
        t.line(format!("    return {drop}, {missing});"));
    }
}
