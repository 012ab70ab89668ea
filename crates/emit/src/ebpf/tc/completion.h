
/* An incomplete TCP or UDP checksum in a further round. The kernel or the network card completes it when the packet leaves, wherever it is then: inside
 * the packet that an ICMP error quotes, too. A sum that such an error has over the quoted packet must already count the complete checksum. */

/* Computes how the sum of the packet changes when the checksum is completed, and where the header with the checksum begins, counted from the end. */
NOINLINE int find_completion(struct __sk_buff *skb)
{
    struct packet *packet = get_packet();
    if (!packet)
        return 1;
    struct scratch *t = &packet->scratch;
    u8 ip[20];
    u16 type = 0, field = 0;
    u32 at = 14, next;
    t->completion = 0;
    bpf_skb_load_bytes(skb, 12, &type, 2);
    if (bswap16(type) == VLAN) {
        at += 4;
        bpf_skb_load_bytes(skb, 16, &type, 2);
    }
    if (bpf_skb_load_bytes(skb, at, ip, sizeof ip))
        return 0;
    if (bswap16(type) == IPV4) {
        next = ip[9];
        at += (ip[0] & 15) * 4;
    } else if (bswap16(type) == IPV6) {
        next = ip[6];
        at += 40;
    } else {
        return 0;
    }
    u32 place = next == 6 ? at + 16 : at + 6;
    if ((next != 6 && next != 17) || bpf_skb_load_bytes(skb, place, &field, 2))
        return 0;
    /* A change of the sum's body has no effect on an incomplete checksum. */
    u16 changed = field;
    if (bpf_l4_csum_replace(skb, place, 0, bswap16(1), 2) || bpf_skb_load_bytes(skb, place, &changed, 2))
        return 0;
    if (changed != field) {
        bpf_skb_store_bytes(skb, place, &field, 2, 0);
        return 0;
    }
    int sum = payload_sum(skb, at);
    if (sum < 0)
        return 0;
    t->completion = fold((u64)(u16)~(u16)sum + (u16)~bswap16(field));
    t->from_end = skb->len - at;
    return 0;
}

/* Returns what a sum must count in addition, if it is that of a header at `at` in front of the incomplete checksum. */
INLINE u32 completion_behind(struct __sk_buff *skb, struct scratch *t, u32 at)
{
    u32 start = skb->len - t->from_end;
    if (!t->completion || start <= at)
        return 0;
    return (start ^ at) & 1 ? bswap16((u16)t->completion) : t->completion;
}
