
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
NOINLINE int store_front(CONTEXT *context, u32 index, u32 front)
{
    struct front *to = bpf_map_lookup_elem(&strait_fronts, &index);
    if (!to || front > FRONT)
        return 1;
    if (!front)
        return 0;
    front -= 1;
    asm volatile("" : "+r"(front));
    return load_bytes(context, 0, to->bytes, (front & (FRONT - 1)) + 1) != 0;
}

INLINE int save_front(CONTEXT *context, struct jobs *jobs, u32 index, u32 stays)
{
    u32 length = frame_length(context), front = length - jobs->tail;
    if (length < jobs->tail || front > FRONT)
        return 1;
    struct job *job = index < RING ? &jobs->ring[index & (RING - 1)] : &jobs->entered;
    job->front = front;
    job->protocol = PROTOCOL;
    job->in_place = stays && jobs->count == jobs->busy + 1;
    return job->in_place ? 0 : store_front(context, index, front);
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
int load_front(CONTEXT *context, u32 index, u32 front, u32 arrived, u32 protocol);

/* Makes the packet and its state those of a job. The verdict for the host stays. */
INLINE int load_job(CONTEXT *context, struct jobs *jobs, u32 index)
{
    struct job *job = &jobs->ring[index & (RING - 1)];
    u32 only = 0, length = frame_length(context);
    struct packet *saved = bpf_map_lookup_elem(&strait_saved, &index);
    if (!saved || length < jobs->tail || bpf_map_update_elem(&strait_packet, &only, saved, 0))
        return 1;
    if (job->in_place) {
        job->in_place = 0;
        return jobs->more ? store_front(context, index, job->front) : 0;
    }
    return load_front(context, index, job->front, length - jobs->tail, job->protocol);
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
