
/* What eBPF programs at the XDP hook need: the packet is a struct xdp_md. */
enum { XDP_ABORTED = 0, XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3, XDP_REDIRECT = 4 };
enum { BPF_MAP_TYPE_DEVMAP = 14 };

struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

__attribute__((unused)) static long (*bpf_xdp_adjust_head)(struct xdp_md *xdp, s32 delta) = (void *)44;
__attribute__((unused)) static long (*bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
__attribute__((unused)) static u64 (*bpf_xdp_get_buff_len)(struct xdp_md *xdp) = (void *)188;
__attribute__((unused)) static long (*bpf_xdp_load_bytes)(struct xdp_md *xdp, u32 offset, void *to, u32 len) = (void *)189;
__attribute__((unused)) static long (*bpf_xdp_store_bytes)(struct xdp_md *xdp, u32 offset, const void *from, u32 len) = (void *)190;

#define CONTEXT struct xdp_md
#define frame_length(xdp) ((u32)bpf_xdp_get_buff_len(xdp)) /* in all its buffers */
#define is_gso(xdp) 0
#define load_bytes bpf_xdp_load_bytes
#define store_bytes bpf_xdp_store_bytes

/* Returns xdp->data. The assembly keeps the compiler from computing the member's address first, because the verifier rejects context
 * pointers that were modified. */
INLINE u8 *packet_start(struct xdp_md *xdp)
{
    u64 p;
    asm volatile("%0 = *(u32 *)(%1 + 0)" : "=r"(p) : "r"(xdp)); /* xdp->data */
    return (u8 *)(long)p;
}

INLINE u8 *packet_end(struct xdp_md *xdp)
{
    u64 p;
    asm volatile("%0 = *(u32 *)(%1 + 4)" : "=r"(p) : "r"(xdp)); /* xdp->data_end */
    return (u8 *)(long)p;
}

/* Returns the address of the `len` bytes at offset `at` for reading and writing, or 0 if the packet is too short. Sets `beyond` to 1 if they are
 * beyond the first buffer. Kernels before 6.8 lose the bound of the offset when the compiler spills it to the stack, so the function
 * masks the offset again. */
INLINE u8 *find_bytes(struct xdp_md *xdp, u32 *beyond, u32 at, u32 len)
{
    if (at > MAX_OFFSET)
        return 0;
    u8 *p = packet_start(xdp);
    if (__builtin_constant_p(at)) {
        p += at;
    } else {
        u32 masked = at;
        asm volatile("" : "+r"(masked)); /* or the compiler removes the mask */
        p += masked & MAX_OFFSET;
    }
    asm volatile("" : "+r"(p)); /* one register for the check and the access */
    if (p + len <= packet_end(xdp))
        return p;
    if (at + len <= frame_length(xdp))
        *beyond = 1;
    return 0;
}
#define packet_at(xdp, at, len) find_bytes(xdp, &t->beyond, at, len)

/* Copies `n` bytes, a constant. */
INLINE void copy_bytes(u8 *to, const u8 *from, u32 n)
{
    u32 i = 0;
#pragma clang loop unroll(full)
    for (; i + 8 <= n; i += 8)
        *(u64 *)(to + i) = *(const u64 *)(from + i);
    if (n & 4) {
        *(u32 *)(to + i) = *(const u32 *)(from + i);
        i += 4;
    }
    if (n & 2) {
        *(u16 *)(to + i) = *(const u16 *)(from + i);
        i += 2;
    }
    if (n & 1)
        to[i] = from[i];
}

/* Moves the start of the frame by `diff` bytes: positive for more headers. Returns 1 if there is no room in front, or if less than an
 * Ethernet header would remain in the first buffer. */
INLINE int move_start(struct xdp_md *xdp, s32 diff)
{
    return bpf_xdp_adjust_head(xdp, -diff) != 0;
}
