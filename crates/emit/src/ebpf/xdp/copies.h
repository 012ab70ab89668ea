
__attribute__((unused)) static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
__attribute__((unused)) static long (*bpf_xdp_adjust_meta)(struct xdp_md *xdp, s32 delta) = (void *)54;

/* The place of a copy of this processor. */
INLINE struct copy *copy_at(u64 number)
{
    u32 place = bpf_get_smp_processor_id() * KEPT + (number & (KEPT - 1));
    return bpf_map_lookup_elem(&strait_kept, &place);
}

/* Remembers the first bytes of a frame that has no Ethernet header. */
INLINE void save_begin(struct xdp_md *xdp, struct jobs *jobs)
{
    u32 length = frame_length(xdp), last = (length < ETHERNET ? length : ETHERNET) - 1;
    asm volatile("" : "+r"(last));
    bpf_xdp_load_bytes(xdp, 0, jobs->begin, (last & 15) + 1);
}

/* Keeps the packet for tc, which sends it. Returns 0 on success. */
NOINLINE int keep_copy(struct xdp_md *xdp, u32 port, u32 ifindex)
{
    u32 zero = 0, length = bpf_xdp_get_buff_len(xdp);
    struct jobs *jobs = get_jobs();
    u64 *last = bpf_map_lookup_elem(&strait_last, &zero);
    if (!jobs || !last || jobs->sent >= MOST_SENT || length < jobs->tail)
        return 1;
    u64 number = *last + 1;
    struct copy *copy = copy_at(number);
    length -= jobs->tail;
    if (!copy || length > FRONT)
        return 1;
    __sync_lock_test_and_set(&copy->number, 0); /* tc may be reading the copy that was here before */
    copy->port = port;
    copy->ifindex = ifindex;
    copy->length = length;
    if (length) {
        u32 last_byte = length - 1;
        asm volatile("" : "+r"(last_byte));
        if (bpf_xdp_load_bytes(xdp, 0, copy->bytes, (last_byte & (FRONT - 1)) + 1))
            return 1;
    }
    __sync_lock_test_and_set(&copy->number, number);
    *last = number;
    if (!jobs->sent++)
        jobs->first_copy = number;
    return 0;
}

/* Makes the frame the only packet that leaves. */
NOINLINE int take_copy(struct xdp_md *xdp)
{
    struct jobs *jobs = get_jobs();
    if (!jobs)
        return 1;
    struct copy *copy = copy_at(jobs->first_copy);
    u32 length = bpf_xdp_get_buff_len(xdp);
    if (!copy || length < jobs->tail)
        return 1;
    if (put_front(xdp, copy->bytes, copy->length, length - jobs->tail))
        return 1;
    jobs->leaves = 1;
    jobs->out = copy->port;
    return 0;
}

/* Replaces the first bytes of the frame. Returns 0 on success. */
INLINE int put_begin(struct xdp_md *xdp, struct jobs *jobs)
{
    u32 length = frame_length(xdp), last = (length < ETHERNET ? length : ETHERNET) - 1;
    asm volatile("" : "+r"(last));
    return bpf_xdp_store_bytes(xdp, 0, jobs->begin, (last & 15) + 1) != 0;
}

/* Prepares the frame for tc. In front of the tail there are bytes that no packet has: an Ethernet header for no host, so that the kernel does nothing
 * else with the frame, with the EtherType of IPv4, so that the kernel's helpers can resize the packet, and takes no VLAN tag out of it. An interface without
 * Ethernet headers keeps the first bytes that arrived, because the kernel looks for a change there. Returns 1 if the frame cannot be resized, and 2 if
 * it cannot have metadata. */
NOINLINE int hand_over(struct xdp_md *xdp)
{
    struct jobs *jobs = get_jobs();
    u32 length = bpf_xdp_get_buff_len(xdp);
    if (!jobs || length < jobs->tail)
        return 1;
    struct copy *copy = copy_at(jobs->first_copy);
    if (!copy)
        return 1;
    u32 front = copy->length;
    if (!jobs->bare) {
        front = front < ETHERNET ? ETHERNET : front;
        __builtin_memset(jobs->begin, 0, sizeof jobs->begin);
        jobs->begin[12] = 8;
    }
    s32 diff = (s32)front - (s32)(length - jobs->tail);
    if ((diff && bpf_xdp_adjust_head(xdp, -diff)) || put_begin(xdp, jobs))
        return 1;
    if (bpf_xdp_adjust_meta(xdp, -METADATA))
        return 2;
    u64 data, meta;
    asm volatile("%0 = *(u32 *)(%2 + 8)\n\t%1 = *(u32 *)(%2 + 0)" : "=&r"(meta), "=r"(data) : "r"(xdp)); /* xdp->data_meta, xdp->data */
    struct handover *to = (struct handover *)(long)(meta + METADATA) - 1;
    if ((u8 *)(to + 1) > (u8 *)(long)data)
        return 2;
    *to = (struct handover){
        .number = jobs->first_copy,
        .cpu = bpf_get_smp_processor_id(),
        .count = jobs->sent,
        .tail = jobs->tail,
        .magic = HANDOVER_MAGIC,
    };
    return 0;
}
