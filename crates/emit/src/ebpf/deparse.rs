//! The deparser: what leaves is made from what arrived, with as little writing as possible.
//!
//! 1. Where will each header stand? (`*_out`)
//! 2. Headers that nothing changed but that move against their surroundings are saved as they are.
//! 3. The packet grows or shrinks right behind its first 14 bytes. When the EtherType goes from one IP version to the
//!    other, the kernel changes the protocol, which keeps GSO whole; the rest is `bpf_skb_adjust_room`. Where neither works
//!    (no IP packet), the bytes behind the headers are moved by hand.
//! 4. Headers that are new or changed are written; those that stand where they stood are left alone.
//! 5. Sums over the payload are brought up to date ([`super::sums`]).

use ir::{HeaderRef, Role, StmtKind, visit};

use super::sums;
use crate::c::{Body, Emitted, Emitter, Unit, header};

/// Bytes that never move: an Ethernet header.
const FRONT: u32 = 14;

impl Emitter<'_> {
    pub(super) fn deparser(&mut self) {
        if !self.facts.plan.updates.is_empty() {
            self.text.raw(sums::PAYLOAD);
            self.text.raw(sums::CHANGE);
        }
        self.text.raw(RESIZE);
        let Some(control) = self.program.control(Role::Deparser) else { return };
        let ether_type = self.ether_type();
        self.function(true, "deparse", Unit::of(Role::Deparser), |body| {
            let order = body.emitted(control);
            body.text.line("u32 out = 0;");
            order.iter().for_each(|h| body.place_header(h));
            body.text.line("u32 in = s->cursor;");
            body.text.line("t->payload = out;");
            body.text.line("s32 diff = (s32)out - (s32)in;");
            let to = ether_type
                .map_or("0".to_string(), |(name, field)| format!("s->{name}_valid ? s->{name}.{field} : 0"));
            body.text.line(format!("u32 protocol = {to};"));
            body.text.line("u32 from = bswap16((u16)skb->protocol);");
            body.text.raw(GONE);
            order.iter().for_each(|h| save(body, h));
            body.text.open("if (resized)");
            body.text.line("if (resize(skb, from | protocol << 16, diff, in, gone))");
            body.text.line("    return 1;");
            body.text.close("");
            body.text.line("u8 *p;");
            order.iter().for_each(|h| write(body, h));
            body.updates(&order, sums::apply);
        });
        self.zero();
    }

    /// The first header's field that is an EtherType, if the program writes it: 16 bits at the end of its 14 bytes.
    pub(super) fn ether_type(&self) -> Option<(String, String)> {
        let mut first = None;
        visit::stmts(&self.program.control(Role::Deparser)?.body, &mut |s| {
            if let (StmtKind::Emit(HeaderRef::Header(h)), None) = (&s.kind, first) {
                first = Some(*h);
            }
        });
        let first = first.filter(|h| self.facts.touched.contains(h))?;
        let fields = &self.program.header_type(first).fields;
        let field = fields.iter().position(|f| f.offset == 96 && f.ty.width() == 16)?;
        Some((self.names.header(first).to_string(), self.names.field(first, field).to_string()))
    }

    /// Clears what must be clear; eBPF has no memset to call, and the stores of a loop unrolled take half its time.
    fn zero(&mut self) {
        self.text.line("");
        self.text.open("INLINE void zero_state(struct state *s)");
        self.text.line("u64 *word = (u64 *)s;");
        self.text.line("#pragma clang loop unroll(full)");
        self.text.open("for (u32 i = 0; i < __builtin_offsetof(struct state, rest) / 8; i++)");
        self.text.line("word[i] = 0;");
        self.text.line("asm volatile(\"\" ::: \"memory\"); /* or it becomes a call of memset */");
        self.text.close("");
        self.text.close("");
    }
}

/// Whether a header ends up where the resized packet has it anyway.
fn stays(arrived: &str, out: &str, bytes: u32) -> String {
    format!(
        "(({arrived} == {out} && (!resized || {arrived} + {bytes} <= {FRONT})) || \
         ({arrived} >= gone && {out} == {arrived} + diff))"
    )
}

/// Copies a header that nothing changed between the packet and its room in the scratch area, where it moves against its surroundings.
fn copy(body: &mut Body<'_>, h: &Emitted, helper: impl Fn(&str, &str) -> String) {
    let test = stays(&format!("t->{}_in", h.name), &format!("t->{}_out", h.name), h.bytes);
    body.in_packet(h, &format!("!{test}"), |body, at| {
        let Some(arrived) = at.arrived(body) else { return };
        let call = helper(&arrived, &at.out(0));
        body.text.line(format!("if ({call})"));
        body.text.line("    return 1;");
    });
}

fn save(body: &mut Body<'_>, h: &Emitted) {
    if !body.facts.touched.contains(&h.id) {
        let (name, bytes) = (&h.name, h.bytes);
        copy(body, h, |arrived, _| format!("bpf_skb_load_bytes(skb, {arrived}, t->{name}_raw, {bytes})"));
    }
}

fn write(body: &mut Body<'_>, h: &Emitted) {
    if !body.facts.touched.contains(&h.id) {
        let (name, bytes) = (&h.name, h.bytes);
        copy(body, h, |_, out| format!("bpf_skb_store_bytes(skb, {out}, t->{name}_raw, {bytes}, 0)"));
        return;
    }
    body.in_packet(h, "", |body, at| {
        body.point(at, 0, h.bytes);
        for group in header::groups(body.program.header_type(h.id)) {
            header::write(body, h.id, &group);
        }
    });
}

/// What changes the packet's length takes away bytes behind its first 14, and puts others there. What begins at `gone` or later moves as
/// one. Where less was parsed than that, the kernel's helpers would take bytes of the payload.
const GONE: &str = r#"
    u32 gone = diff < 0 ? 14 - diff : 14;
    u32 translated = (from == IPV6 && protocol == IPV4) || (from == IPV4 && protocol == IPV6);
    if (from == IPV6 && translated && gone < 34)
        gone = 34;
    if (in < gone)
        protocol = 0;
    u32 resized = diff || (protocol && translated);
"#;

const RESIZE: &str = r#"
enum { IPV4 = 0x0800, IPV6 = 0x86dd };

/* Bytes from `in` on move to `out`; for packets that are no IP packets, up to 10 KB. */
NOINLINE int shift_payload(struct __sk_buff *skb, u32 in, u32 out)
{
    struct packet *packet = get_packet();
    u32 len = skb->len;
    if (!packet || skb->gso_size || in > len || in > MAX_OFFSET || out > MAX_OFFSET)
        return 1;
    struct scratch *t = &packet->scratch;
    u32 rest = len - in;
    u32 to = out + rest;
    if (to > len && bpf_skb_change_tail(skb, to, 0))
        return 1;
    for (u32 i = 0; i < 40; i++) {
        if (!rest)
            break;
        u32 n = rest > 256 ? 256 : rest;
        /* Growing goes from the end, shrinking from the front: neither writes what is still to be read. */
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

/* Makes room for `diff` more bytes of headers. `protocols` holds the EtherType before, and behind it the one after; or 0 where the kernel
 * shall not hear of it. */
INLINE int resize(struct __sk_buff *skb, u32 protocols, s32 diff, u32 in, u32 gone)
{
    u32 from = protocols & 0xffff, to = protocols >> 16;
    if ((from == IPV6 && to == IPV4) || (from == IPV4 && to == IPV6)) {
        if (bpf_skb_change_proto(skb, bswap16(to), 0))
            return 1;
        diff += to == IPV4 ? 20 : -20;
        in += to == IPV4 ? -20 : 20;
        gone += to == IPV4 ? -20 : 20;
        from = to;
    }
    if (!diff)
        return 0;
    if ((from == IPV4 || from == IPV6) && in >= gone) {
        if (!bpf_skb_adjust_room(skb, diff, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
            return 0;
    }
    u32 start = in < gone ? in : gone;
    return shift_payload(skb, start, start + diff);
}
"#;
