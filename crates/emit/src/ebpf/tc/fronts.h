
__attribute__((unused)) static long (*bpf_clone_redirect)(struct __sk_buff *skb, u32 ifindex, u64 flags) = (void *)13;

INLINE struct jobs *get_jobs(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&strait_jobs, &zero);
}

/* Appends a job. Returns its place in the ring, or RING if the ring is full. */
INLINE u32 add_job(struct jobs *jobs, u32 kind, u32 to)
{
    if (jobs->count >= RING)
        return RING;
    u32 index = (jobs->first + jobs->count++) & (RING - 1);
    struct job *job = &jobs->ring[index];
    job->kind = kind;
    job->to = to;
    job->member = job->in_place = 0;
    return index;
}

/* Ends the first job. */
INLINE int next_job(struct jobs *jobs)
{
    jobs->first++;
    jobs->count--;
    jobs->busy = 0;
    return 0;
}

/* Copies the bytes in front of the tail to the place of a job; or to the place RING, which has no job. `stays` is 1 if the packet itself takes
 * the path: if the job is the next one, its bytes are still there then. Returns 0 on success. */
NOINLINE int store_front(struct __sk_buff *skb, u32 index, u32 front)
{
    struct front *to = bpf_map_lookup_elem(&strait_fronts, &index);
    if (!to || front > FRONT)
        return 1;
    if (!front)
        return 0;
    front -= 1;
    asm volatile("" : "+r"(front));
    return bpf_skb_load_bytes(skb, 0, to->bytes, (front & (FRONT - 1)) + 1) != 0;
}

INLINE int save_front(struct __sk_buff *skb, struct jobs *jobs, u32 index, u32 stays)
{
    u32 front = skb->len - jobs->tail;
    if (skb->len < jobs->tail || front > FRONT)
        return 1;
    struct job *job = index < RING ? &jobs->ring[index & (RING - 1)] : &jobs->entered;
    job->front = front;
    job->protocol = bswap16((u16)skb->protocol);
    job->in_place = stays && jobs->count == jobs->busy + 1;
    return job->in_place ? 0 : store_front(skb, index, front);
}

/* Copies the bytes with which the packet entered the stage to the place of a job. */
INLINE int copy_front(struct jobs *jobs, u32 index)
{
    u32 entered = RING;
    struct front *from = bpf_map_lookup_elem(&strait_fronts, &entered);
    if (!from || bpf_map_update_elem(&strait_fronts, &index, from, 0))
        return 1;
    struct job *job = &jobs->ring[index & (RING - 1)];
    job->front = jobs->entered.front;
    job->protocol = jobs->entered.protocol;
    return 0;
}

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

/* Makes the packet and its state those of a job. The verdict for the host stays. */
INLINE int load_job(struct __sk_buff *skb, struct jobs *jobs, u32 index)
{
    struct job *job = &jobs->ring[index & (RING - 1)];
    u32 only = 0;
    struct packet *saved = bpf_map_lookup_elem(&strait_saved, &index);
    if (!saved || skb->len < jobs->tail || bpf_map_update_elem(&strait_packet, &only, saved, 0))
        return 1;
    if (job->in_place) {
        job->in_place = 0;
        return jobs->more ? store_front(skb, index, job->front) : 0;
    }
    return load_front(skb, index, job->front, skb->len - jobs->tail, job->protocol);
}

/* Finds the next copy for a group, and whether there are more. Returns 0 if the group has no member. */
INLINE int find_copy(struct jobs *jobs, struct job *job, u64 *copy)
{
    if (!job->member) {
        u32 group = job->to;
        u64 *found = bpf_map_lookup_elem(&strait_groups, &group);
        u64 list = found ? READ_ONCE(*found) : 0;
        job->list = (u32)list;
        job->members = list >> 32;
    }
    if (job->member >= job->members)
        return 0;
    u64 key = (u64)job->member << 32 | job->list;
    u64 *found = bpf_map_lookup_elem(&strait_copies, &key);
    if (!found)
        return 0;
    *copy = *found;
    jobs->more = ++job->member < job->members;
    return 1;
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

/* Truncates the packet. The tail becomes what is left of it. */
INLINE int truncate(struct __sk_buff *skb, struct jobs *jobs, u32 length)
{
    u32 front = skb->len - jobs->tail;
    if (skb->len <= length)
        return 0;
    if (!length || bpf_skb_change_tail(skb, length, 0))
        return 1;
    jobs->tail = length > front ? length - front : 0;
    return 0;
}
