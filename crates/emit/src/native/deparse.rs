//! The deparser: headers are written in front of the payload, which stays where it is.
//!
//! 1. Where will each header stand? (`*_out`)
//! 2. If any header moves against the payload: those that were not made here are saved as they are, the packet begins earlier or later, and
//!    they are put where they belong. Where there is no room in front of a packet, it is moved towards its end.
//! 3. Headers that were made are written, and fields that were changed; what stands where it stood is left alone.
//! 4. Sums over the payload are brought up to date.

use ir::{HeaderId, HeaderRef, Place, Role};

use crate::c::{Body, Emitter, Unit, header};

impl Emitter<'_> {
    pub(super) fn native_deparser(&mut self) {
        self.text.raw(RESIZE);
        let Some(control) = self.program.control(Role::Deparser) else { return };
        self.function(true, "deparse", Unit::of(Role::Deparser), |body| {
            let order = body.emitted(control);
            body.text.line("u32 out = 0, moved = 0;");
            order.iter().for_each(|h| body.place_header(*h));
            body.text.line("u32 in = s->cursor;");
            body.text.line("s32 diff = (s32)out - (s32)in;");
            body.text.open("if (diff || moved)");
            order.iter().for_each(|h| copy(body, *h, |name| (raw(name), before(name))));
            body.text.line("if (diff && begin_at(pkt, diff))");
            body.text.line("    return 1;");
            order.iter().for_each(|h| copy(body, *h, |name| (after(name), raw(name))));
            body.text.close("");
            body.text.line("UNUSED u8 *p;");
            order.iter().for_each(|h| write(body, *h));
            sums(body);
        });
    }
}

fn raw(header: &str) -> String {
    format!("t->{header}_raw")
}

fn before(header: &str) -> String {
    format!("pkt->frame.data + t->{header}_in")
}

fn after(header: &str) -> String {
    format!("pkt->frame.data + t->{header}_out")
}

/// Copies a header that moves as it arrived, to a place from a place.
fn copy(body: &mut Body<'_>, h: HeaderId, places: impl Fn(&str) -> (String, String)) {
    let name = body.names.header(h).to_string();
    let bytes = body.program.header_type(h).min_bits() / 8;
    if bytes == 0 || body.facts.made.contains(&h) {
        return;
    }
    let (to, from) = places(&name);
    body.text.line(format!("if (s->{name}_valid && t->{name}_in + diff != t->{name}_out)"));
    body.text.line(format!("    __builtin_memcpy({to}, {from}, {bytes});"));
}

/// Writes what was changed of a header, or all of it where it was made.
fn write(body: &mut Body<'_>, h: HeaderId) {
    let name = body.names.header(h).to_string();
    let ty = body.program.header_type(h).clone();
    if ty.min_bits() < 8 || !body.facts.touched.contains(&h) {
        return;
    }
    let made = body.facts.made.contains(&h);
    body.text.open(format!("if (s->{name}_valid)"));
    body.text.line(format!("p = {};", after(&name)));
    for group in header::groups(&ty) {
        if made || group.iter().any(|f| body.facts.changed.contains(&(h, *f as u32))) {
            header::write(&ty, &name, &group, body.text);
        }
    }
    body.text.close("");
}

/// Applies the planned updates of sums over the payload.
fn sums(body: &mut Body<'_>) {
    let plan = body.facts.plan.clone();
    for (i, update) in plan.updates.iter().enumerate() {
        let Place::Field(HeaderRef::Header(h), f) = &update.place else { continue };
        let field = &body.program.header_type(*h).fields[*f as usize];
        let (name, offset, nonzero) =
            (body.names.header(*h).to_string(), field.offset / 8, field.checksum_nonzero);
        let text = &mut *body.text;
        text.open(format!("if (s->update_{i})"));
        text.line(format!("p = pkt->frame.data + t->{name}_out + {offset};"));
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
        text.line(format!(
            "    sum = ~fold(bytes_sum(pkt->frame.data + out, pkt->length - out) + s->leaves_{i}_pseudo +"
        ));
        text.line(format!("                s->leaves_{i}_body + s->leaves_{i}_stable);"));
        text.line(if nonzero { "wr16(p, sum ? sum : 0xffff);" } else { "wr16(p, sum);" });
        text.close("");
        text.close("");
    }
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
