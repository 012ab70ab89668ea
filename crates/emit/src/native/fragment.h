
/* Lets all fragments of an IPv6 packet but the last one leave, and makes the packet the last one (RFC 8200 section 4.5), if it has more than
 * `size` bytes: see fragment_ipv6 in p4include/strait.p4. Segments of a GSO packet, whose checksum is partial, are left alone. Returns 1, and
 * changes nothing, if there are too few buffers. */
static int fragment(struct packet *pkt, const struct strait_packet *p, u32 size, u32 identification, u32 port)
{
    enum { IPV6_END = 54, HEADER_END = 62, NEXT_FRAGMENT = 44 };
    struct worker *w = pkt->frame.worker;
    u8 *data = pkt->frame.data;
    if (size < 56 || p->flags & PARTIAL || pkt->length < IPV6_END || rd16(data + 12) != 0x86dd)
        return 0;
    u32 payload = rd16(data + 18), known = data[20] == NEXT_FRAGMENT, head = known ? HEADER_END : IPV6_END;
    if (pkt->length < IPV6_END + payload || 40 + payload <= size)
        return 0;
    u32 body = IPV6_END + payload - head, room = (size - 48) & ~7u, last = (body - 1) / room;
    u32 first = known ? rd16(data + 56) : 0, next = data[known ? IPV6_END : 20];
    if ((first & 0xfff8) + last * room > 0xfff8)
        return 0;
    if (w->free_count < last || w->free_packets[w->free_count - last]->capacity < HEADER_END + room)
        return 1;
    if (known)
        identification = rd32(data + 58);
    for (u32 i = 0; i <= last; i++) {
        u32 bytes = i < last ? room : body - last * room, offset = (first & 0xfff8) + i * room;
        u8 *to = data;
        if (i < last) {
            struct strait_packet *q = w->free_packets[--w->free_count];
            u8 *start = q->data - q->headroom;
            u32 spare = q->capacity - HEADER_END - bytes;
            q->headroom = pkt->frame.headroom < spare ? pkt->frame.headroom : spare;
            q->tailroom = spare - q->headroom;
            q->data = to = start + q->headroom;
            q->length = HEADER_END + bytes;
            q->flags = p->flags;
            q->token = p->token;
            q->reason = 0;
            q->port = port;
            q->verdict = SENT;
            w->sent[w->sent_count++] = q;
            __builtin_memcpy(to, data, IPV6_END);
        } else {
            pkt->length = HEADER_END + bytes;
        }
        __builtin_memmove(to + HEADER_END, data + head + i * room, bytes);
        wr16(to + 18, bytes + 8);
        to[20] = NEXT_FRAGMENT;
        to[54] = next;
        to[55] = 0;
        wr16(to + 56, offset | (i < last ? 1 : first & 1));
        wr32(to + 58, identification);
    }
    return 0;
}
