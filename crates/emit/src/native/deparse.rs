//! The deparser of native programs: [`Emitter::front_deparsers`] with machine code's checksums. If the headroom is too small, it moves the whole
//! packet towards the end of the buffer.
//!
//! [`Emitter::front_deparsers`]: crate::c::Emitter::front_deparsers

use super::Native;
use crate::c::{Body, UpdateAt, sums};

impl Native<'_> {
    /// Emits a function for each deparser.
    pub(super) fn native_deparsers(&mut self) {
        self.c.text.raw(RESIZE);
        self.c.front_deparsers("move_start(pkt, diff)", sum, partial);
    }
}

/// Emits the update of a checksum that the program has computed, if it is partial. If it is complete, it is in the packet already.
fn partial(body: &mut Body<'_>, _at: &str, checksum: &str, parts: &str) {
    body.text.line("if (pkt->frame.flags & PARTIAL)");
    body.text
        .line(format!("    wr16(p, fold((u64)(u16)~{parts}.arrived + pseudo_part({checksum}, {parts})));"));
}

/// Emits the update of a checksum over the payload.
fn sum(body: &mut Body<'_>, at: &UpdateAt<'_>) {
    let i = at.number;
    let stable = sums::stable(body, at.sum);
    let arrived = sums::arrived(i, at.sum);
    let text = &mut *body.text;
    let leaves = format!("s->leaves_{i}_pseudo + s->leaves_{i}_body");
    text.line("u16 sum;");
    text.open("if (pkt->frame.flags & PARTIAL)");
    let full = format!("(u16)fold(s->leaves_{i}_pseudo)");
    text.line(match &arrived {
        Some(arrived) => format!(
            "wr16(p, ({arrived} ? update_partial_checksum(rd16(p), s->arrived_{i}_pseudo, s->leaves_{i}_pseudo) : {full}));"
        ),
        None => format!("wr16(p, {full});"),
    });
    text.close(" else {");
    text.indent();
    if let Some(arrived) = &arrived {
        text.line(format!("if ({arrived})"));
        text.line(format!(
            "    sum = update_checksum(rd16(p), s->arrived_{i}_pseudo + s->arrived_{i}_body, {leaves});"
        ));
        text.line("else");
    }
    let bytes = "bytes_sum(pkt->frame.data + out, pkt->length - out)";
    let payload = if at.sum.aligned { bytes.to_string() } else { format!("bswap16((u16){bytes})") };
    text.line(format!("    sum = ~fold({payload} + {leaves} + s->leaves_{i}_stable);"));
    if arrived.is_some() {
        // An incremental update cannot distinguish the two zeros of one's complement (RFC 1624, section 3). The sum is 0, and the checksum
        // 0xffff, only if all summed words are 0.
        text.line(format!("if (!sum && !({leaves} + {stable}) && !{bytes})"));
        text.line("    sum = 0xffff;");
    }
    text.line(if at.nonzero { "wr16(p, sum ? sum : 0xffff);" } else { "wr16(p, sum);" });
    text.close("");
}

pub(super) const RESIZE: &str = r#"
#define copy_bytes __builtin_memcpy

/* Moves the start of the packet by `diff` bytes: positive for more headers. Returns 1 if the buffer has no room. */
INLINE int move_start(struct packet *pkt, s32 diff)
{
    struct frame *f = &pkt->frame;
    if (diff > 0 && (u32)diff > f->headroom) {
        if ((u32)diff > f->tailroom)
            return 1;
        __builtin_memmove(f->data + diff, f->data, pkt->length);
        f->tailroom -= diff;
    } else {
        f->data -= diff;
        f->headroom -= diff;
    }
    pkt->length += diff;
    return 0;
}
"#;
