
#define CONTEXT struct __sk_buff
#define frame_length(skb) ((skb)->len)
#define is_gso(skb) ((skb)->gso_size)
#define load_bytes bpf_skb_load_bytes
#define store_bytes(skb, at, from, n) bpf_skb_store_bytes(skb, at, from, n, 0)

/* Returns skb->data. The assembly keeps the compiler from computing the member's address first, because the verifier rejects context
 * pointers that were modified. */
INLINE u8 *packet_start(struct __sk_buff *skb)
{
    u64 p;
    asm volatile("%0 = *(u32 *)(%1 + 76)" : "=r"(p) : "r"(skb)); /* skb->data */
    return (u8 *)(long)p;
}

INLINE u8 *packet_end(struct __sk_buff *skb)
{
    u64 p;
    asm volatile("%0 = *(u32 *)(%1 + 80)" : "=r"(p) : "r"(skb)); /* skb->data_end */
    return (u8 *)(long)p;
}

/* Returns the address of an offset of at most MAX_OFFSET. Kernels before 6.8 lose that bound when the compiler spills the offset to the
 * stack, so the function masks the offset again. The barrier keeps the compiler from removing the mask. */
INLINE u8 *packet_from(struct __sk_buff *skb, u32 at)
{
    u8 *p = packet_start(skb);
    if (__builtin_constant_p(at))
        return p + at;
    asm volatile("" : "+r"(at));
    return p + (at & MAX_OFFSET);
}

/* Returns the address of the `len` bytes at offset `at` for reading and writing, or 0 if the packet is too short. If they are not in the
 * linear part of the packet, the function pulls the packet up to their end and no further. */
INLINE u8 *packet_at(struct __sk_buff *skb, u32 at, u32 len)
{
    if (at > MAX_OFFSET)
        return 0;
    u8 *p = packet_from(skb, at);
    asm volatile("" : "+r"(p)); /* one register for the check and the access */
    if (p + len <= packet_end(skb))
        return p;
    if (at + len > skb->len || bpf_skb_pull_data(skb, at + len))
        return 0;
    p = packet_from(skb, at);
    asm volatile("" : "+r"(p));
    if (p + len <= packet_end(skb))
        return p;
    return 0;
}
