
__attribute__((unused)) static long (*bpf_clone_redirect)(struct __sk_buff *skb, u32 ifindex, u64 flags) = (void *)13;

/* Makes the bytes in front of the tail those of a job. */
NOINLINE int load_front(struct __sk_buff *skb, u32 index, u32 front, u32 arrived, u32 protocol)
{
    struct front *bytes = bpf_map_lookup_elem(&strait_fronts, &index);
    if (!bytes || front > FRONT || arrived > FRONT)
        return 1;
    s32 diff = (s32)front - (s32)arrived;
    u32 in = arrived, from = bswap16((u16)skb->protocol);
    REMOVED_END
    if (resized && resize(skb, from | protocol << 16, diff, in, removed_end))
        return 1;
    if (!front)
        return 0;
    front -= 1;
    asm volatile("" : "+r"(front));
    return bpf_skb_store_bytes(skb, 0, bytes->bytes, (front & (FRONT - 1)) + 1, 0) != 0;
}

/* Sends the packet: a clone of it while jobs wait, otherwise itself. Returns 0 on success. */
INLINE int send(struct __sk_buff *skb, struct jobs *jobs, struct egress *to)
{
    if (jobs->count <= jobs->busy && !jobs->more) {
        jobs->leaves = 1;
        jobs->ifindex = to->ifindex;
        jobs->flags = to->flags;
        return 0;
    }
    long failed = bpf_clone_redirect(skb, to->ifindex, to->flags);
    jobs->tagged = skb->vlan_present && !vlan_tag_to_packet(skb);
    return failed != 0;
}
