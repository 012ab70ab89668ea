//! The deparser at the XDP hook: [`Emitter::front_deparsers`] with checksums over frames of several buffers.
//!
//! [`Emitter::front_deparsers`]: crate::c::Emitter::front_deparsers

use super::super::Ebpf;
use crate::c::{Body, UpdateAt, sums};

impl Ebpf<'_> {
    /// Emits a function for each deparser. It returns also 2, if a checksum cannot be computed.
    pub(super) fn xdp_deparsers(&mut self) {
        // No partial checksum arrives here.
        self.c.front_deparsers("move_start(xdp, diff)", sum, |_, _, _, _| {});
    }
}

/// Emits the update of a checksum over the payload.
fn sum(body: &mut Body<'_>, at: &UpdateAt<'_>) {
    let i = at.number;
    let stable = sums::stable(body, at.sum);
    let arrived = sums::arrived(i, at.sum);
    let text = &mut *body.text;
    let leaves = format!("s->leaves_{i}_pseudo + s->leaves_{i}_body");
    text.line("u16 sum;");
    if let Some(arrived) = &arrived {
        text.open(format!("if ({arrived})"));
        text.line(format!(
            "sum = update_checksum(rd16(p), s->arrived_{i}_pseudo + s->arrived_{i}_body, {leaves});"
        ));
        // An incremental update cannot distinguish the two zeros of one's complement (RFC 1624, section 3). The sum is 0, and the checksum
        // 0xffff, only if all summed words are 0.
        text.line(format!("if (!sum && !({leaves} + {stable}) && !payload_sum(xdp, out))"));
        text.line("    sum = 0xffff;");
        text.close("");
    }
    text.open(if arrived.is_some() { "else" } else { "" });
    text.line("int rest = payload_sum(xdp, out);");
    text.line("if (rest < 0)");
    text.line("    return 2;");
    let rest = if at.sum.aligned { "rest" } else { "bswap16((u16)rest)" };
    text.line(format!("sum = ~fold((u64){rest} + {leaves} + s->leaves_{i}_stable);"));
    if arrived.is_some() {
        text.line(format!("if (!sum && !({leaves} + {stable}) && !rest)"));
        text.line("    sum = 0xffff;");
    }
    text.close("");
    text.line(if at.nonzero { "wr16(p, sum ? sum : 0xffff);" } else { "wr16(p, sum);" });
}
