//! The deparser at the XDP hook. It writes the headers in front of the payload, which stays where it is.
//!
//! 1. It computes the new offset of each header (`*_out`).
//! 2. If a header moves relative to the payload, it saves the bytes of the headers that move, moves the start of the frame, and copies the
//!    saved bytes to the new offsets.
//! 3. It writes the headers that the program created, and the fields that the program changed. It does not write anything else.
//! 4. It updates the checksums over the payload.

use ir::Role;

use super::super::Ebpf;
use crate::c::{Body, Emitted, Unit, UpdateAt, stage_name, sums};

impl Ebpf<'_> {
    /// Emits a function for each deparser. It returns 1 if the frame has no room for the new headers, and 2 if a checksum cannot be computed.
    pub(super) fn xdp_deparsers(&mut self) {
        for role in [Role::IngressDeparser, Role::Deparser] {
            let Some(control) = self.c.program.control(role) else { continue };
            self.c.function(true, stage_name(role), Unit::Role(role), |body| {
                let order = body.emitted(control);
                body.text.line("u32 out = 0, moved = 0;");
                order.iter().for_each(|h| body.place_header(h));
                body.text.line("u32 in = s->cursor;");
                body.text.line("s32 diff = (s32)out - (s32)in;");
                body.text.line("UNUSED u8 *p;");
                body.text.open("if (diff || moved)");
                order.iter().for_each(|h| copy(body, h, Copy::Save));
                body.text.line("if (diff && move_start(xdp, &t->frame, diff))");
                body.text.line("    return 1;");
                order.iter().for_each(|h| copy(body, h, Copy::Restore));
                body.text.close("");
                order.iter().for_each(|h| write(body, h));
                body.updates(&order, sum);
            });
        }
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
        match which {
            Copy::Save => {
                body.point(at, &arrived, bytes);
                body.text.line(format!("copy_bytes(t->{name}_raw, p, {bytes});"));
            }
            Copy::Restore => {
                body.point(at, &at.out(), bytes);
                body.text.line(format!("copy_bytes(p, t->{name}_raw, {bytes});"));
            }
        }
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
    });
}

/// Emits a planned update of a checksum over the payload.
fn sum(body: &mut Body<'_>, at: &UpdateAt<'_>) {
    let (i, update) = (at.number, at.update);
    let stable = sums::stable(body, &update.list);
    let text = &mut *body.text;
    text.line("u16 sum;");
    let mut head = "if";
    for source in &update.sources {
        text.open(format!("{head} (s->verified_{source})"));
        text.line(format!(
            "sum = update_checksum(rd16(p), s->arrived_{source}_pseudo + s->arrived_{source}_body,"
        ));
        text.line(format!("                      s->leaves_{i}_pseudo + s->leaves_{i}_body);"));
        // An incremental update cannot distinguish the two zeros of one's complement (RFC 1624, section 3). The sum is 0, and the checksum
        // 0xffff, only if all summed words are 0.
        let listed = format!("s->leaves_{i}_pseudo + s->leaves_{i}_body + {stable}");
        text.line(format!("if (!sum && !({listed}) && !payload_sum(xdp, out))"));
        text.line("    sum = 0xffff;");
        text.close("");
        head = "else if";
    }
    text.open(if update.sources.is_empty() { "" } else { "else" });
    text.line("int rest = payload_sum(xdp, out);");
    text.line("if (rest < 0)");
    text.line("    return 2;");
    let rest = if update.list.aligned { "rest" } else { "bswap16((u16)rest)" };
    text.line(format!(
        "sum = ~fold((u64){rest} + s->leaves_{i}_pseudo + s->leaves_{i}_body + s->leaves_{i}_stable);"
    ));
    if !update.sources.is_empty() {
        text.line(format!("if (!sum && !(s->leaves_{i}_pseudo + s->leaves_{i}_body + {stable}) && !rest)"));
        text.line("    sum = 0xffff;");
    }
    text.close("");
    text.line(if at.nonzero { "wr16(p, sum ? sum : 0xffff);" } else { "wr16(p, sum);" });
}
