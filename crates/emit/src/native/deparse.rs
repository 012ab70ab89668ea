//! The deparser of native programs. It writes the headers in front of the payload, which stays where it is.
//!
//! 1. It computes the new offset of each header (`*_out`).
//! 2. If a header moves relative to the payload, it saves the bytes of the headers that arrived, moves the start of the packet, and copies
//!    the saved bytes to the new offsets. If the headroom is too small, it moves the whole packet towards the end of the buffer.
//! 3. It writes the headers that the program created, and the fields that the program changed. It does not write anything else.
//! 4. It updates the checksums over the payload.

use ir::Role;

use super::Native;
use crate::c::{Body, Emitted, Unit, UpdateAt, stage_name, sums};

impl Native<'_> {
    /// Emits a function for each deparser. It returns 1 if the buffer has no room for the new headers.
    pub(super) fn native_deparsers(&mut self) {
        self.c.text.raw(RESIZE);
        for role in [Role::IngressDeparser, Role::Deparser] {
            self.native_deparser(role);
        }
    }

    fn native_deparser(&mut self, role: Role) {
        let Some(control) = self.c.program.control(role) else { return };
        self.c.function(true, stage_name(role), Unit::Role(role), |body| {
            let order = body.emitted(control);
            body.text.line("u32 out = 0, moved = 0;");
            order.iter().for_each(|h| body.place_header(h));
            body.text.line("u32 in = s->cursor;");
            body.text.line("s32 diff = (s32)out - (s32)in;");
            body.text.open("if (diff || moved)");
            order.iter().for_each(|h| copy(body, h, Copy::Save));
            body.text.line("if (diff && move_start(pkt, diff))");
            body.text.line("    return 1;");
            order.iter().for_each(|h| copy(body, h, Copy::Restore));
            body.text.close("");
            body.text.line("UNUSED u8 *p;");
            order.iter().for_each(|h| write(body, h));
            body.updates(&order, sum);
        });
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Copy {
    Save,
    Restore,
}

/// Emits a copy of the bytes of a header that arrived and that moves: from the packet before the packet changes its length, or into the
/// packet afterwards.
fn copy(body: &mut Body<'_>, h: &Emitted, which: Copy) {
    if body.facts.created.contains(&h.id) {
        return;
    }
    let (name, bytes) = (&h.name, h.bytes);
    body.in_packet(h, &format!("t->{name}_in + diff != t->{name}_out"), |body, at| {
        let Some(arrived) = at.arrived(body) else { return };
        let raw = format!("t->{name}_raw");
        let place = |offset: String| format!("pkt->frame.data + {offset}");
        let (to, from) = match which {
            Copy::Save => (raw, place(arrived)),
            Copy::Restore => (place(at.out()), raw),
        };
        body.text.line(format!("__builtin_memcpy({to}, {from}, {bytes});"));
    });
}

/// Emits stores for the changed fields of a header, or for all fields if the program created it.
fn write(body: &mut Body<'_>, h: &Emitted) {
    if !body.facts.touched.contains(&h.id) {
        return;
    }
    body.in_packet(h, "", |body, at| {
        body.point(at, &at.out(), h.bytes);
        body.write_changed(h);
        let ty = body.program.header_type(h.id);
        if let Some(field) = ty.varbit() {
            let value = format!("s->{}.{}", h.name, body.names.field(h.id, field));
            let (first, bits) = (ty.fields[field].offset / 8, ty.fields[field].offset % 8);
            let rest = h.bytes - first;
            body.text
                .line(format!("bytes_insert(p + {first}, {rest}, {bits}, {value}.bytes, {value}.length);"));
        }
    });
}

/// Emits a planned update of a checksum over the payload.
fn sum(body: &mut Body<'_>, at: &UpdateAt<'_>) {
    let (i, update) = (at.number, at.update);
    let stable = sums::stable(body, &update.list);
    let text = &mut *body.text;
    text.line("u16 sum;");
    text.open("if (pkt->frame.flags & PARTIAL)");
    let mut chosen = String::new();
    for source in &update.sources {
        chosen += &format!(
            "s->verified_{source} ? update_partial_checksum(rd16(p), s->arrived_{source}_pseudo, s->leaves_{i}_pseudo) : "
        );
    }
    text.line(format!("wr16(p, ({chosen}(u16)fold(s->leaves_{i}_pseudo)));"));
    text.close(" else {");
    text.indent();
    let mut head = "if";
    for source in &update.sources {
        text.line(format!("{head} (s->verified_{source})"));
        text.line(format!(
            "    sum = update_checksum(rd16(p), s->arrived_{source}_pseudo + s->arrived_{source}_body,"
        ));
        text.line(format!("                      s->leaves_{i}_pseudo + s->leaves_{i}_body);"));
        head = "else if";
    }
    if !update.sources.is_empty() {
        text.line("else");
    }
    let bytes = "bytes_sum(pkt->frame.data + out, pkt->length - out)";
    let payload = if update.list.aligned { bytes.to_string() } else { format!("bswap16((u16){bytes})") };
    text.line(format!("    sum = ~fold({payload} + s->leaves_{i}_pseudo +"));
    text.line(format!("                s->leaves_{i}_body + s->leaves_{i}_stable);"));
    if !update.sources.is_empty() {
        // An incremental update cannot distinguish the two zeros of one's complement (RFC 1624, section 3). The sum is 0, and the checksum
        // 0xffff, only if all summed words are 0.
        text.line(format!(
            "if (!sum && !(s->leaves_{i}_pseudo + s->leaves_{i}_body + {stable}) && !{bytes})"
        ));
        text.line("    sum = 0xffff;");
    }
    text.line(if at.nonzero { "wr16(p, sum ? sum : 0xffff);" } else { "wr16(p, sum);" });
    text.close("");
}

pub(super) const RESIZE: &str = r#"
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
