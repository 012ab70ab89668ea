//! The deparser at a tc hook. It changes the packet that arrived into the packet that leaves, with as few writes as possible.
//!
//! 1. It computes the new offset of each header (`*_out`).
//! 2. It saves the bytes of the unchanged headers that will not be at their new offset once the packet is resized.
//! 3. It resizes the packet after the first 14 bytes. If the EtherType changes from one IP version to the other, it calls
//!    `bpf_skb_change_proto`, which keeps GSO packets intact. For the remaining difference it calls `bpf_skb_adjust_room`. If that fails
//!    (the packet is not an IP packet), the program moves the payload itself.
//! 4. It writes the new and changed headers, and the saved ones. It does not write a header that is already in place.
//! 5. It updates the checksums over the payload ([`super::sums`]).

use ir::{HeaderRef, Role, StmtKind, visit};

use super::super::Ebpf;
use super::sums;
use crate::c::{Body, Emitted, Unit, header, stage_name};

/// The number of bytes at the start of a packet that a resize does not move: an Ethernet header.
const FRONT: u32 = 14;

impl Ebpf<'_> {
    /// Emits a function for each deparser. It returns 1 if the packet cannot be written, and 2 if a checksum cannot be computed.
    pub(super) fn tc_deparsers(&mut self) {
        let continued = self.c.facts.partial.count() > 0;
        if continued || !self.c.facts.plan.sums.is_empty() {
            self.c.text.raw(sums::CHANGE);
        }
        if continued {
            self.c.text.raw(sums::CONTINUE);
        }
        self.c.text.raw(RESIZE);
        if self.completes() {
            self.c.text.raw(super::COMPLETION);
        }
        for role in [Role::IngressDeparser, Role::Deparser] {
            self.tc_deparser(role);
        }
    }

    fn tc_deparser(&mut self, role: Role) {
        let Some(control) = self.c.program.control(role) else { return };
        let ether_type = self.ether_type(role);
        self.c.function(stage_name(role), Unit::Role(role), |body| {
            let order = body.emitted(control);
            body.text.line("u32 out = 0;");
            body.place_headers(&order);
            body.text.line("u32 in = s->cursor;");
            body.text.line("t->payload = out;");
            body.text.line("s32 diff = (s32)out - (s32)in;");
            let to = ether_type
                .map_or("0".to_string(), |(name, field)| format!("s->{name}_valid ? s->{name}.{field} : 0"));
            body.text.line(format!("u32 protocol = {to};"));
            body.text.line("u32 from = bswap16((u16)skb->protocol);");
            body.text.raw(REMOVED_END);
            body.each_header(&order, save);
            body.text.open("if (resized)");
            body.text.line("if (resize(skb, from | protocol << 16, diff, in, removed_end))");
            body.text.line("    return 1;");
            body.text.close("");
            body.text.line("u8 *p;");
            body.each_header(&order, write);
            body.updates(&order, sums::apply);
            body.continue_checksums(&order, sums::continue_checksum);
        });
    }

    /// The names of the first emitted header and of its EtherType: a field of 16 bits at byte 12. `None` if there is no such field, or if
    /// the program does not change that header.
    pub(super) fn ether_type(&self, role: Role) -> Option<(String, String)> {
        let mut first = None;
        visit::stmts(&self.c.program.control(role)?.body, &mut |s| {
            if let (StmtKind::Emit(HeaderRef::Header(h)), None) = (&s.kind, first) {
                first = Some(*h);
            }
        });
        let first = first.filter(|h| self.c.facts.touched.contains(h))?;
        let fields = &self.c.program.header_type(first).fields;
        let field = fields.iter().position(|f| f.offset == 96 && f.ty.width() == 16)?;
        Some((self.c.names.header(first).to_string(), self.c.names.field(first, field).to_string()))
    }
}

/// The C test whether an unchanged header is at its new offset after the resize.
fn stays(arrived: &str, out: &str, bytes: u32) -> String {
    format!(
        "(({arrived} == {out} && (!resized || {arrived} + {bytes} <= {FRONT})) || \
         ({arrived} >= removed_end && {out} == {arrived} + diff))"
    )
}

/// Emits a copy between the packet and the scratch area, for an unchanged header that the resize does not bring to its new offset. `helper`
/// gets the old and the new offset, and returns the helper call.
fn copy(body: &mut Body<'_>, h: &Emitted, helper: impl Fn(&str, &str) -> String) {
    let test = stays(&format!("t->{}_in", h.name), &format!("t->{}_out", h.name), h.bytes);
    body.in_packet(h, &format!("!{test}"), |body, at| {
        let Some(arrived) = at.arrived(body) else { return };
        let call = helper(&arrived, &at.out());
        body.text.line(format!("if ({call})"));
        body.text.line("    return 1;");
    });
}

/// Emits step 2 for a header: saves its bytes.
fn save(body: &mut Body<'_>, h: &Emitted) {
    if !body.facts.touched.contains(&h.id) {
        let (name, bytes) = (&h.name, h.bytes);
        copy(body, h, |arrived, _| format!("bpf_skb_load_bytes(skb, {arrived}, t->{name}_raw, {bytes})"));
    }
}

/// Emits step 4 for a header: writes its fields, or its saved bytes.
fn write(body: &mut Body<'_>, h: &Emitted) {
    if !body.facts.touched.contains(&h.id) {
        let (name, bytes) = (&h.name, h.bytes);
        copy(body, h, |_, out| format!("bpf_skb_store_bytes(skb, {out}, t->{name}_raw, {bytes}, 0)"));
        return;
    }
    body.in_packet(h, "", |body, at| {
        if let Some((length, field)) = &h.varbit {
            return body.write_with_varbit(at, h, length, *field);
        }
        body.point(at, &at.out(), h.bytes);
        for group in header::groups(body.program.header_type(h.id)) {
            header::write(body, h.id, &group);
        }
    });
}

/// Computes how the packet is resized. A resize removes and inserts bytes after the first 14. The bytes from offset `removed_end` on move together.
/// If the parser has consumed fewer bytes than `removed_end`, the kernel's helpers would remove bytes of the payload, so `protocol` is set to 0.
pub const REMOVED_END: &str = r#"
    u32 removed_end = diff < 0 ? 14 - diff : 14;
    u32 translated = (from == IPV6 && protocol == IPV4) || (from == IPV4 && protocol == IPV6);
    if (from == IPV6 && translated && removed_end < 34)
        removed_end = 34;
    if (in < removed_end)
        protocol = 0;
    u32 resized = diff || (protocol && translated);
"#;

pub const RESIZE: &str = r#"
enum { IPV4 = 0x0800, IPV6 = 0x86dd };

/* Moves the bytes from offset `in` on to offset `out`, for packets that are not IP packets. It moves up to 10 KB. */
NOINLINE int shift_payload(struct __sk_buff *skb, u32 in, u32 out)
{
    struct packet *packet = get_packet();
    u32 len = skb->len;
    if (!packet || skb->gso_size || in > len || in > MAX_OFFSET || out > MAX_OFFSET)
        return 1;
    struct scratch *t = &packet->scratch;
    u32 rest = len - in;
    u32 to = out + rest;
    if (!to)
        return 1; /* the kernel sends no empty packet, and does not say so */
    if (to > len && bpf_skb_change_tail(skb, to, 0))
        return 1;
    for (u32 i = 0; i < 40; i++) {
        if (!rest)
            break;
        u32 n = rest > 256 ? 256 : rest;
        /* A packet that grows is copied from the end, a packet that shrinks from the start, so that no byte is overwritten before
         * it was read. */
        u32 at = out > in ? rest - n : len - in - rest;
        n = one_to_256(n);
        if (bpf_skb_load_bytes(skb, in + at, t->buffer, n) ||
            bpf_skb_store_bytes(skb, out + at, t->buffer, n, 0))
            return 1;
        rest -= n;
    }
    if (rest)
        return 1;
    if (to < len && bpf_skb_change_tail(skb, to, 0))
        return 1;
    return 0;
}

/* Resizes the packet by `diff` bytes of headers. The low half of `protocols` is the EtherType on arrival. The high half is the new one, or
 * 0 if the kernel's helpers must not be told of it. */
INLINE int resize(struct __sk_buff *skb, u32 protocols, s32 diff, u32 in, u32 removed_end)
{
    u32 from = protocols & 0xffff, to = protocols >> 16;
    if ((from == IPV6 && to == IPV4) || (from == IPV4 && to == IPV6)) {
        if (bpf_skb_change_proto(skb, bswap16(to), 0))
            return 1;
        diff += to == IPV4 ? 20 : -20;
        in += to == IPV4 ? -20 : 20;
        removed_end += to == IPV4 ? -20 : 20;
        from = to;
    }
    if (!diff)
        return 0;
    if ((from == IPV4 || from == IPV6) && in >= removed_end) {
        if (!bpf_skb_adjust_room(skb, diff, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
            return 0;
    }
    u32 start = in < removed_end ? in : removed_end;
    return shift_payload(skb, start, start + diff);
}
"#;
