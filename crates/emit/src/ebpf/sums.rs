//! Planned checksums in a packet of the kernel's, which may be a GSO packet whose sum the network card will finish.

use ir::Place;
use ir::checksum::Plan;

use crate::c::Text;

/// The helper that sums a payload, for the few packets that need it. 64 KiB in steps of 256 bytes.
pub const PAYLOAD: &str = r#"
/* The sum of all bytes from `at` on, in host order and folded; negative if it cannot be computed. */
NOINLINE int payload_sum(struct __sk_buff *skb, u32 at)
{
    struct packet *packet = get_packet();
    if (!packet || skb->gso_size)
        return -1;
    struct scratch *t = &packet->scratch;
    u32 len = skb->len;
    s64 sum = 0;
    for (u32 i = 0; i < 264; i++) {
        if (at + 256 > len)
            break;
        if (bpf_skb_load_bytes(skb, at, t->buffer, 256))
            return -1;
        sum = bpf_csum_diff(0, 0, t->buffer, 256, (u32)sum);
        at += 256;
    }
    if (at < len) {
        u32 rest = len - at;
        if (rest > 255)
            return -1;
        __builtin_memset(t->buffer, 0, 256);
        if (bpf_skb_load_bytes(skb, at, t->buffer, one_to_256(rest)))
            return -1;
        sum = bpf_csum_diff(0, 0, t->buffer, 256, (u32)sum);
    }
    return bswap16(fold((u32)sum));
}
"#;

/// Applies the planned updates to the packet, whose headers stand at their new places.
pub fn apply(plan: &Plan, place: impl Fn(&Place) -> Option<(String, u32, bool)>, text: &mut Text) {
    for (i, update) in plan.updates.iter().enumerate() {
        let Some((header, field, nonzero)) = place(&update.place) else { continue };
        text.open(format!("if (s->update_{i})"));
        text.line(format!("u32 at = t->{header}_out + {field};"));
        let mangled = if nonzero { " | BPF_F_MARK_MANGLED_0" } else { "" };
        for source in &update.sources {
            text.open(format!("if (s->verified_{source})"));
            text.line(format!(
                "u32 pseudo = fold((u64)s->leaves_{i}_pseudo + (u16)~s->arrived_{source}_pseudo);"
            ));
            text.line(format!("u32 body = fold((u64)s->leaves_{i}_body + (u16)~s->arrived_{source}_body);"));
            text.line("/* 0xffff is zero in one's complement: nothing to change. */");
            text.line("if (pseudo != 0xffff && pseudo)");
            text.line(format!(
                "    bpf_l4_csum_replace(skb, at, 0, (u64)bswap16(pseudo), BPF_F_PSEUDO_HDR{mangled});"
            ));
            text.line("if (body != 0xffff && body)");
            text.line(format!("    bpf_l4_csum_replace(skb, at, 0, (u64)bswap16(body), 0{mangled});"));
            text.line(format!("goto summed_{i};"));
            text.close("");
        }
        text.line("int rest = payload_sum(skb, t->payload);");
        text.line("if (rest < 0)");
        text.line("    return 2;");
        text.line(format!(
            "u16 sum = ~fold((u64)rest + s->leaves_{i}_pseudo + s->leaves_{i}_body + s->leaves_{i}_stable);"
        ));
        if nonzero {
            text.line("if (!sum)");
            text.line("    sum = 0xffff;");
        }
        text.line("sum = bswap16(sum);");
        text.line("bpf_skb_store_bytes(skb, at, &sum, 2, 0);");
        text.close("");
        text.margin(format!("summed_{i}:;"));
    }
}
