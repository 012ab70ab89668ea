//! Checksums as [`ir::checksum`] plans them: remembered on arrival, applied as differences on leaving.

use ir::checksum::{Part, Plan, Term};
use ir::{Call, Expr, HashAlgorithm, Place};

use super::special::Ebpf;
use crate::c::{Body, Text, mask};

/// Members of the state that say which of the others hold something.
pub fn cleared_members(plan: &Plan, text: &mut Text) {
    (0..plan.sources.len()).for_each(|i| text.line(format!("u8 verified_{i};")));
    (0..plan.updates.len()).for_each(|i| text.line(format!("u8 update_{i};")));
}

/// Members of the state: what arrived, and what shall leave.
pub fn members(plan: &Plan, text: &mut Text) {
    for i in 0..plan.sources.len() {
        text.line(format!("u32 arrived_{i}_pseudo, arrived_{i}_body;"));
    }
    for i in 0..plan.updates.len() {
        text.line(format!("u32 leaves_{i}_pseudo, leaves_{i}_body, leaves_{i}_stable;"));
    }
}

/// The C of a sum over values, each at its place within a 16-bit word; not folded.
pub fn total<'e>(body: &mut Body<'_, Ebpf>, terms: impl Iterator<Item = (&'e Expr, u32)>) -> String {
    let mut parts = Vec::new();
    for (e, shift) in terms {
        let value = body.expr(e);
        let width = e.ty.width() + shift;
        parts.push(match width {
            0..=16 if shift == 0 => format!("(u64){value}"),
            0..=32 => format!("((u64){value} << {shift})"),
            33..=64 => format!("words64((u64){value} << {shift})"),
            _ => format!("words128((u128){value} << {shift})"),
        });
    }
    if parts.is_empty() { "0".to_string() } else { parts.join(" + ") }
}

fn part(body: &mut Body<'_, Ebpf>, terms: &[Term], part: Part) -> String {
    total(body, terms.iter().filter(|t| t.part == part).map(|t| (&t.value, t.shift)))
}

/// `verify_checksum*`.
pub fn verify(body: &mut Body<'_, Ebpf>, call: &Call) {
    let Call::VerifyChecksum { cond, data, checksum, algorithm, payload } = call else { return };
    let number = body.target.count.verifies;
    body.target.count.verifies += 1;
    if *algorithm != HashAlgorithm::Csum16 {
        return body.unsupported("this checksum algorithm", "csum16 is supported");
    }
    if body.target.checks {
        return match payload {
            true => body.unsupported(
                "looking at checksum_error in a program that verifies sums over the payload",
                "the receiver verifies them; drop the test, or the payload's verification",
            ),
            false => verify_header(body, cond, data, checksum),
        };
    }
    let source = body.target.plan.sources.iter().position(|s| s.statement == number);
    let (Some(i), true) = (source, *payload) else { return };
    let terms = body.target.plan.sources[i].list.terms.clone();
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    let (pseudo, inner) = (part(body, &terms, Part::Pseudo), part(body, &terms, Part::Body));
    body.text.line(format!("s->verified_{i} = 1;"));
    body.text.line(format!("s->arrived_{i}_pseudo = fold({pseudo});"));
    body.text.line(format!("s->arrived_{i}_body = fold({inner});"));
    body.text.close("");
}

fn verify_header(body: &mut Body<'_, Ebpf>, cond: &Expr, data: &[Expr], checksum: &Place) {
    let (terms, _) = ir::checksum::terms(data);
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    let sum = total(body, terms.iter().map(|(e, shift)| (e, *shift)));
    let found = body.place(checksum);
    let error = body.program.standard.checksum_error;
    body.text.open(format!("if ((u16)~fold({sum}) != {found})"));
    body.assign(&Place::Var(error), "1");
    body.text.close("");
    body.text.close("");
}

/// `update_checksum*`.
pub fn update(body: &mut Body<'_, Ebpf>, call: &Call) {
    let Call::UpdateChecksum { cond, data, checksum, algorithm, payload, nonzero } = call else { return };
    let number = body.target.count.updates;
    body.target.count.updates += 1;
    if *algorithm != HashAlgorithm::Csum16 {
        return body.unsupported("this checksum algorithm", "csum16 is supported");
    }
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    match body.target.plan.updates.iter().position(|u| u.statement == number) {
        Some(i) if *payload => {
            let list = body.target.plan.updates[i].list.clone();
            let (pseudo, inner) =
                (part(body, &list.terms, Part::Pseudo), part(body, &list.terms, Part::Body));
            let stable = total(body, list.stable.iter().map(|t| (&t.value, t.shift)));
            body.text.line(format!("s->update_{i} = 1;"));
            body.text.line(format!("s->leaves_{i}_pseudo = fold({pseudo});"));
            body.text.line(format!("s->leaves_{i}_body = fold({inner});"));
            body.text.line(format!("s->leaves_{i}_stable = fold({stable});"));
        }
        _ => {
            let (terms, _) = ir::checksum::terms(data);
            let sum = total(body, terms.iter().map(|(e, shift)| (e, *shift)));
            let value = mask(format!("~fold({sum})"), 16);
            let value = if *nonzero { format!("({value} ? {value} : 0xffff)") } else { value };
            body.assign(checksum, &value);
        }
    }
    body.text.close("");
}

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
