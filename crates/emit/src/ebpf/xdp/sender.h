
/* The program at the tc hook. */
__attribute__((unused)) static long (*bpf_clone_redirect)(struct __sk_buff *skb, u32 ifindex, u64 flags) = (void *)13;
__attribute__((unused)) static long (*bpf_skb_change_head)(struct __sk_buff *skb, u32 len, u64 flags) = (void *)43;

struct sending {
    struct __sk_buff *skb;
    struct handover of;
    u32 tagged;          /* 1 if the metadata of the skb have a dummy VLAN tag; BARE if the interface has no Ethernet header, and so no tags */
    u32 leaves, ifindex; /* 1 if the skb itself leaves; where */
};

INLINE void count_lost(struct __sk_buff *skb, u32 reason)
{
    struct count *c = bpf_map_lookup_elem(&strait_drops, &reason);
    if (c)
        count_packet(c, skb->len);
}

/* Makes the EtherType that the kernel knows the one in the packet, and moves the first tag to the metadata. Returns 0 on success. */
INLINE int update_protocol(struct __sk_buff *skb, u32 tagged)
{
    return (!tagged && vlan_tag_to_packet(skb)) || vlan_tag_to_metadata(skb);
}

/* Makes the skb the packet of a copy, with its first tag in the metadata, as packets have it that the kernel sends. Returns 0 on success. */
NOINLINE int make_copy(struct __sk_buff *skb, u32 place, u32 number, u32 tail, u32 tagged)
{
    struct copy *copy = bpf_map_lookup_elem(&strait_kept, &place);
    if (!copy || (u32)READ_ONCE(copy->number) != number || skb->len < tail)
        return 1;
    u32 front = copy->length, in = skb->len - tail, from = bswap16((u16)skb->protocol);
    s32 diff = (s32)front - (s32)in;
    if (front > FRONT || in > FRONT)
        return 1;
    if (diff && tagged != BARE && from != IPV4 && from != IPV6) {
        /* The kernel's helper resizes only IP packets, so the last copy's EtherType is replaced. */
        u16 ip = bswap16(IPV4);
        if (bpf_skb_store_bytes(skb, 12, &ip, 2, 0) || update_protocol(skb, tagged))
            return 1;
        from = IPV4;
        tagged = 0;
    }
    if (diff && resize(skb, from, diff, in, diff < 0 ? 14 - diff : 14))
        return 1;
    u32 type = front < 14 ? from : copy->bytes[12] << 8 | copy->bytes[13];
    if (front) {
        front -= 1;
        asm volatile("" : "+r"(front));
        if (bpf_skb_store_bytes(skb, 0, copy->bytes, (front & (FRONT - 1)) + 1, 0))
            return 1;
    }
    if ((u32)__sync_fetch_and_add(&copy->number, 0) != number)
        return 1; /* another packet has taken the place meanwhile */
    if (tagged == BARE || (!tagged && type == from))
        return 0;
    return update_protocol(skb, tagged);
}

/* Sends a copy: a clone of the skb, or the skb itself if it is the last one. */
static NOINLINE long send_copy(u32 step, void *context)
{
    struct sending *sending = context;
    struct __sk_buff *skb = sending->skb;
    u32 number = sending->of.number + step;
    u32 place = sending->of.cpu * KEPT + (number & (KEPT - 1));
    struct copy *copy = bpf_map_lookup_elem(&strait_kept, &place);
    u32 ifindex = copy ? copy->ifindex : 0;
    if (make_copy(skb, place, number, sending->of.tail, sending->tagged)) {
        count_lost(skb, NO_BUFFER);
        return 0;
    }
    sending->tagged &= BARE;
    if (step + 1 == sending->of.count) {
        sending->leaves = 1;
        sending->ifindex = ifindex;
        return 1;
    }
    if (bpf_clone_redirect(skb, ifindex, 0))
        count_lost(skb, NO_BUFFER);
    if (skb->vlan_present && !sending->tagged)
        sending->tagged = !vlan_tag_to_packet(skb);
    return 0;
}

/* Every packet of a port passes the XDP hook first, which passes to the kernel only what this program is to send. If a packet has no metadata,
 * something on the way has taken them. */
SEC("classifier")
int strait_sender(struct __sk_buff *skb)
{
    u32 ifindex = skb->ifindex;
    struct packet *packet = get_packet();
    struct ingress *port = find_port(ifindex);
    if (!packet || !port)
        return TC_ACT_OK;
    struct sending sending = {};
    u64 data, meta;
    asm volatile("%0 = *(u32 *)(%2 + 140)\n\t%1 = *(u32 *)(%2 + 76)" : "=&r"(meta), "=r"(data) : "r"(skb)); /* skb->data_meta, skb->data */
    if ((u8 *)(long)(meta + METADATA) > (u8 *)(long)data) {
        count_lost(skb, NO_METADATA);
        return TC_ACT_SHOT;
    }
    struct handover *of = (struct handover *)(long)(meta + METADATA) - 1;
    u32 misses_header = 0;
    if (of->magic != HANDOVER_MAGIC) {
        of = (struct handover *)((u8 *)of - ETHERNET);
        misses_header = 1;
    }
    sending.of = *of;
    if (sending.of.magic != HANDOVER_MAGIC || (misses_header && bpf_skb_change_head(skb, ETHERNET, 0))) {
        count_lost(skb, NO_METADATA);
        return TC_ACT_SHOT;
    }
    sending.skb = skb;
    sending.tagged = port->flags & BARE;
    bpf_loop(sending.of.count & (2 * MOST_SENT - 1), send_copy, &sending, 0);
    asm volatile("" ::: "memory");
    packet->scratch.verdict = 3;
    return sending.leaves ? bpf_redirect(sending.ifindex, 0) : TC_ACT_SHOT;
}
