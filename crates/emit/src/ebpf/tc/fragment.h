
__attribute__((unused)) static long (*bpf_clone_redirect)(struct __sk_buff *skb, u32 ifindex, u64 flags) = (void *)13;

/* The payload of a packet that is fragmented. An element holds whole fragments, and the next one begins with the next fragment. A value of
 * a per-CPU map has at most 32 KiB. */
enum { BODIES = 3, BODY = 32768, LARGEST_ROOM = 9216, LAST_START = BODY - LARGEST_ROOM, MOST_FRAGMENTS = 64 };
struct body {
    u8 bytes[BODY];
};
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, BODIES);
    __type(key, u32);
    __type(value, struct body);
} strait_bodies SEC(".maps");

/* Copies the payload from `at` on to the elements of strait_bodies. `step` is the number of bytes of an element. */
NOINLINE int keep_body(struct __sk_buff *skb, u32 at, u32 length, u32 step)
{
    for (u32 i = 0; i < BODIES; i++) {
        u32 index = i;
        struct body *body = bpf_map_lookup_elem(&strait_bodies, &index);
        if (!body || !length)
            return length != 0;
        u32 bytes = length < step ? length : step, more = bytes - 1;
        asm volatile("" : "+r"(more)); /* the verifier of Linux 6.1 learns nothing from a comparison with 0 */
        if (more >= BODY || bpf_skb_load_bytes(skb, at, body->bytes, more + 1))
            return 1;
        at += bytes;
        length -= bytes;
    }
    return length != 0;
}

/* Writes bytes of the payload behind the fragment header. */
NOINLINE int put_body(struct __sk_buff *skb, u32 index, u32 from, u32 bytes)
{
    struct body *body = bpf_map_lookup_elem(&strait_bodies, &index);
    if (!body)
        return 1;
    u32 more = bytes - 1;
    asm volatile("" : "+r"(from), "+r"(more));
    if (from > LAST_START || more >= LARGEST_ROOM)
        return 1;
    return bpf_skb_store_bytes(skb, 62, body->bytes + from, more + 1, 0) != 0;
}

/* Returns whether the checksum of the packet is incomplete: then the kernel leaves a sum over the body of a packet to the network card, and
 * a change of the body without effect. */
INLINE int is_incomplete(struct __sk_buff *skb)
{
    u16 before = 0, after = 0;
    if (bpf_skb_load_bytes(skb, 18, &before, 2) || bpf_l4_csum_replace(skb, 18, 0, bswap16(1), 2))
        return 1;
    if (bpf_skb_load_bytes(skb, 18, &after, 2) || before == after)
        return 1;
    return bpf_skb_store_bytes(skb, 18, &before, 2, 0) != 0;
}

/* Lets all fragments of an IPv6 packet but the last one leave, and makes the packet the last one (RFC 8200 section 4.5), if it has more than
 * `size` bytes: see fragment_ipv6 in p4include/strait.p4. `to` is the interface and, in its upper half, the flags of a redirect. Segments
 * of a GSO packet are left alone. Returns 1 if the packet cannot be fragmented. */
NOINLINE int fragment(struct __sk_buff *skb, u64 to, u32 size, u32 identification)
{
    struct {
        u8 next, reserved;
        u16 offset;
        u32 identification;
    } header = {};
    u8 ip[42], next = 44;
    if (size < 56 || skb->gso_size || bpf_skb_load_bytes(skb, 12, ip, sizeof ip) || rd16(ip) != 0x86dd)
        return 0;
    u32 payload = rd16(ip + 6), body = payload, at = 54;
    if (skb->len < 54 + payload || 40 + payload <= size)
        return 0;
    header.next = ip[8];
    header.identification = bswap32(identification);
    if (header.next == next) {
        if (bpf_skb_load_bytes(skb, at, &header, sizeof header))
            return 0;
        at += 8;
        body -= 8;
    }
    u32 first = bswap16(header.offset), room = (size - 48) & ~7u, last = (body - 1) / room;
    if ((first & 0xfff8) + last * room > 0xfff8)
        return 0;
    if (room > LARGEST_ROOM || last >= MOST_FRAGMENTS || is_incomplete(skb))
        return 1;
    u32 each = LAST_START / room + 1; /* fragments in an element of strait_bodies */
    if (keep_body(skb, at, body, each * room) || bpf_skb_change_tail(skb, 62 + room, 0))
        return 1;
    bpf_skb_store_bytes(skb, 20, &next, 1, 0);
    for (u32 i = 0; i < MOST_FRAGMENTS; i++) {
        u32 bytes = i < last ? room : body - last * room;
        u16 length = bswap16(bytes + 8);
        header.reserved = 0;
        header.offset = bswap16(((first & 0xfff8) + i * room) | (i < last ? 1 : first & 1));
        if (i == last && bpf_skb_change_tail(skb, 62 + bytes, 0))
            return 1;
        bpf_skb_store_bytes(skb, 18, &length, 2, 0);
        bpf_skb_store_bytes(skb, 54, &header, sizeof header, 0);
        if (put_body(skb, i / each, i % each * room, bytes))
            return 1;
        if (i == last)
            return 0;
        bpf_clone_redirect(skb, (u32)to, to >> 32);
    }
    return 1;
}
