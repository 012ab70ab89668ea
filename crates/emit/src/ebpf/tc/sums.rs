//! Planned checksum updates on tc. The packet may be a GSO packet, whose checksum the network card completes.

use crate::c::{Body, UpdateAt, sums};

/// The function that updates a checksum. `bpf_l4_csum_replace` handles packets whose checksum the network card completes. It refuses odd
/// offsets, but no such packet has its checksum at one.
pub const CHANGE: &str = r#"
/* Adds to the sum of the checksum at `at` the differences of its pseudo-header and of its body. */
INLINE void change_sum(struct __sk_buff *skb, u32 at, u32 pseudo, u32 body, u64 flags)
{
    if (at & 1) {
        u16 sum = 0;
        if (bpf_skb_load_bytes(skb, at, &sum, 2))
            return;
        sum = ~fold((u64)(u16)~bswap16(sum) + pseudo + body);
        sum = bswap16(!sum && flags ? 0xffff : sum);
        bpf_skb_store_bytes(skb, at, &sum, 2, 0);
        return;
    }
    /* In one's complement 0xffff is zero too, so there is nothing to add. */
    if (pseudo != 0xffff && pseudo)
        bpf_l4_csum_replace(skb, at, 0, (u64)bswap16(pseudo), BPF_F_PSEUDO_HDR | flags);
    if (body != 0xffff && body)
        bpf_l4_csum_replace(skb, at, 0, (u64)bswap16(body), flags);
}
"#;

/// The function that updates a checksum by what the program computed. The header is written already, with that value.
pub const CONTINUE: &str = r#"
/* Writes the checksum at `at`, which the program has computed from the one that arrived: as it is if that was complete, and with the
 * difference of the pseudo-header alone if it was partial. */
INLINE void continue_checksum(struct __sk_buff *skb, u32 at, u16 checksum, struct parts parts)
{
    u16 arrived = ~parts.arrived, found = 1;
    if (checksum == arrived && (!parts.body || parts.body == 0xffff))
        return;
    u32 pseudo = pseudo_part(checksum, parts);
    arrived = bswap16(arrived);
    bpf_skb_store_bytes(skb, at, &arrived, 2, 0);
    change_sum(skb, at, pseudo, parts.body, 0);
    /* Of the two zeros of one's complement, the program's is right. */
    if (checksum && checksum != 0xffff)
        return;
    if (!bpf_skb_load_bytes(skb, at, &found, 2) && (!found || found == 0xffff))
        bpf_skb_store_bytes(skb, at, &checksum, 2, 0);
}
"#;

/// Emits the update of a checksum that the program has computed from the one that arrived.
pub fn continue_checksum(body: &mut Body<'_>, at: &str, checksum: &str, parts: &str) {
    body.text.line(format!("continue_checksum(skb, {at}, {checksum}, {parts});"));
}

/// Emits the update of a checksum in the packet. All headers are at their new offsets.
pub fn apply(body: &mut Body<'_>, at: &UpdateAt<'_>) {
    let i = at.number;
    let stable = sums::stable(body, at.sum);
    let arrived = sums::arrived(i, at.sum);
    let later = body.facts.rounds;
    let text = &mut *body.text;
    text.line(format!("u32 at = {};", at.place));
    if let Some(arrived) = &arrived {
        let mangled = if at.nonzero { "BPF_F_MARK_MANGLED_0" } else { "0" };
        text.open(format!("if ({arrived})"));
        for part in ["pseudo", "body"] {
            text.line(format!("u32 {part} = fold((u64)s->leaves_{i}_{part} + (u16)~s->arrived_{i}_{part});"));
        }
        text.line(format!("change_sum(skb, at, pseudo, body, {mangled});"));
        // An incremental update cannot distinguish the two zeros of one's complement (RFC 1624, section 3). The checksum is 0xffff only if
        // all summed words are 0. If the checksum was wrong on arrival, it is not 0 in that case, and it keeps its error.
        let listed = format!("s->leaves_{i}_pseudo + s->leaves_{i}_body + {stable}");
        text.line("u16 sum = 1;");
        text.open(format!("if (!({listed}) && !bpf_skb_load_bytes(skb, at, &sum, 2) && !sum && !payload_sum(skb, t->payload))"));
        text.line("sum = 0xffff;");
        text.line("bpf_skb_store_bytes(skb, at, &sum, 2, 0);");
        text.close("");
        text.close("");
    }
    text.open(if arrived.is_some() { "else" } else { "" });
    text.line("int rest = payload_sum(skb, t->payload);");
    text.line("if (rest < 0)");
    text.line("    return 2;");
    let later = if later { " + completion_behind(skb, t, at)" } else { "" };
    let rest = if at.sum.aligned { "rest" } else { "bswap16((u16)rest)" };
    text.line(format!(
        "u16 sum = ~fold((u64){rest} + s->leaves_{i}_pseudo + s->leaves_{i}_body + s->leaves_{i}_stable{later});"
    ));
    if at.nonzero {
        text.line("if (!sum)");
        text.line("    sum = 0xffff;");
    }
    text.line("sum = bswap16(sum);");
    text.line("bpf_skb_store_bytes(skb, at, &sum, 2, 0);");
    text.close("");
}
