//! The deparser: headers are written in front of the payload, which stays where it is.
//!
//! 1. Where will each header stand? (`*_out`)
//! 2. If any header moves against the payload: those that were not made here are saved as they are, the packet begins earlier or later, and
//!    they are put where they belong. Where there is no room in front of a packet, it is moved towards its end.
//! 3. Headers that were made are written, and fields that were changed; what stands where it stood is left alone.
//! 4. Sums over the payload are brought up to date.

use ir::Role;

use crate::c::{Body, Emitted, Emitter, Unit, UpdateAt, header, sums};

impl Emitter<'_> {
    pub(super) fn native_deparser(&mut self) {
        self.text.raw(RESIZE);
        let Some(control) = self.program.control(Role::Deparser) else { return };
        self.function(true, "deparse", Unit::of(Role::Deparser), |body| {
            let order = body.emitted(control);
            body.text.line("u32 out = 0, moved = 0;");
            order.iter().for_each(|h| body.place_header(h));
            body.text.line("u32 in = s->cursor;");
            body.text.line("s32 diff = (s32)out - (s32)in;");
            body.text.open("if (diff || moved)");
            order.iter().for_each(|h| copy(body, h, Copy::Save));
            body.text.line("if (diff && begin_at(pkt, diff))");
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

/// Copies a header that moves as it arrived: out of the packet before the packet changes its length, into it afterwards.
fn copy(body: &mut Body<'_>, h: &Emitted, which: Copy) {
    if body.facts.made.contains(&h.id) {
        return;
    }
    let (name, bytes) = (&h.name, h.bytes);
    body.in_packet(h, &format!("t->{name}_in + diff != t->{name}_out"), |body, at| {
        let Some(arrived) = at.arrived(body) else { return };
        let raw = format!("t->{name}_raw");
        let place = |offset: String| format!("pkt->frame.data + {offset}");
        let (to, from) = match which {
            Copy::Save => (raw, place(arrived)),
            Copy::Restore => (place(at.out(0)), raw),
        };
        body.text.line(format!("__builtin_memcpy({to}, {from}, {bytes});"));
    });
}

/// Writes what was changed of a header, or all of it where it was made.
fn write(body: &mut Body<'_>, h: &Emitted) {
    if !body.facts.touched.contains(&h.id) {
        return;
    }
    body.in_packet(h, "", |body, at| {
        body.point(at, 0, h.bytes);
        let ty = body.program.header_type(h.id);
        let made = body.facts.made.contains(&h.id);
        for group in header::groups(ty) {
            if made || group.iter().any(|f| body.facts.changed.contains(&(h.id, *f as u32))) {
                header::write(body, h.id, &group);
            }
        }
    });
}

/// Applies a planned update of a sum over the payload.
fn sum(body: &mut Body<'_>, at: &UpdateAt<'_>) {
    let (i, update) = (at.number, at.update);
    let stable = sums::stable(body, &update.list);
    let text = &mut *body.text;
    text.line("u16 sum;");
    text.open("if (pkt->frame.flags & PARTIAL)");
    let mut chosen = String::new();
    for source in &update.sources {
        chosen += &format!(
            "s->verified_{source} ? updated_partial(rd16(p), s->arrived_{source}_pseudo, s->leaves_{i}_pseudo) : "
        );
    }
    text.line(format!("wr16(p, ({chosen}(u16)fold(s->leaves_{i}_pseudo)));"));
    text.close(" else {");
    text.indent();
    let mut head = "if";
    for source in &update.sources {
        text.line(format!("{head} (s->verified_{source})"));
        text.line(format!(
            "    sum = updated_sum(rd16(p), s->arrived_{source}_pseudo + s->arrived_{source}_body,"
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
        // A difference cannot tell zeros from ones (RFC 1624, section 3): only where nothing but zeros is summed is the sum 0.
        text.line(format!(
            "if (!sum && !(s->leaves_{i}_pseudo + s->leaves_{i}_body + {stable}) && !{bytes})"
        ));
        text.line("    sum = 0xffff;");
    }
    text.line(if at.nonzero { "wr16(p, sum ? sum : 0xffff);" } else { "wr16(p, sum);" });
    text.close("");
}

const RESIZE: &str = r#"
/* The packet begins `diff` bytes earlier, or later. */
INLINE int begin_at(struct packet *pkt, s32 diff)
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
