
/* The fronts of jobs at the XDP hook, where the bytes in front of the tail are moved with the start of the frame. */

/* Makes the bytes in front of the tail, of which there are `arrived`, the `front` bytes at `bytes`. */
INLINE int put_front(struct xdp_md *xdp, const u8 *bytes, u32 front, u32 arrived)
{
    if (front > FRONT || arrived > FRONT)
        return 1;
    if (front != arrived && bpf_xdp_adjust_head(xdp, (s32)arrived - (s32)front))
        return 1;
    if (!front)
        return 0;
    front -= 1;
    asm volatile("" : "+r"(front));
    return bpf_xdp_store_bytes(xdp, 0, bytes, (front & (FRONT - 1)) + 1) != 0;
}

/* Makes the bytes in front of the tail those of a job. */
NOINLINE int load_front(struct xdp_md *xdp, u32 index, u32 front, u32 arrived, u32 protocol)
{
    asm volatile("" : : "r"(protocol)); /* the verifier requires every argument */
    struct front *bytes = bpf_map_lookup_elem(&strait_fronts, &index);
    return bytes ? put_front(xdp, bytes->bytes, front, arrived) : 1;
}
