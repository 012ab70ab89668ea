
/* What eBPF programs at a tc hook need: the packet is a struct __sk_buff. */
enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };
enum { BPF_F_MARK_MANGLED_0 = 1 << 5, BPF_F_PSEUDO_HDR = 1 << 4 };
enum { BPF_ADJ_ROOM_MAC = 1, BPF_F_ADJ_ROOM_FIXED_GSO = 1 };

struct __sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id, family;
    u32 remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, data_meta;
    u64 flow_keys;
    u64 tstamp;
    u32 wire_len, gso_segs;
    u64 sk;
    u32 gso_size;
    u8 tstamp_type;
    u32 : 24;
    u64 hwtstamp;
};

__attribute__((unused)) static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
__attribute__((unused)) static long (*bpf_l4_csum_replace)(struct __sk_buff *skb, u32 offset, u64 from, u64 to, u64 flags) = (void *)11;
__attribute__((unused)) static long (*bpf_skb_vlan_push)(struct __sk_buff *skb, u16 protocol, u16 tci) = (void *)18;
__attribute__((unused)) static long (*bpf_skb_vlan_pop)(struct __sk_buff *skb) = (void *)19;
__attribute__((unused)) static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
__attribute__((unused)) static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
__attribute__((unused)) static long (*bpf_skb_change_proto)(struct __sk_buff *skb, u16 proto, u64 flags) = (void *)31;
__attribute__((unused)) static long (*bpf_skb_change_tail)(struct __sk_buff *skb, u32 len, u64 flags) = (void *)38;
__attribute__((unused)) static long (*bpf_skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
__attribute__((unused)) static long (*bpf_skb_adjust_room)(struct __sk_buff *skb, s32 len_diff, u32 mode, u64 flags) = (void *)50;

#define CONTEXT struct __sk_buff
#define frame_length(skb) ((skb)->len)
#define is_gso(skb) ((skb)->gso_size)
#define load_bytes bpf_skb_load_bytes

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

enum { VLAN = 0x8100, SERVICE_VLAN = 0x88a8, VLAN_HEADERS = 18 };

/* Puts the outer VLAN tag back into the packet, where P4 programs expect it. The kernel removes that tag before tc runs, and keeps it in
 * the metadata of the skb. Pushing a second tag writes the first one into the packet; the second one, now in the metadata, is a
 * dummy. Returns 0 on success. */
INLINE int vlan_tag_to_packet(struct __sk_buff *skb)
{
    return bpf_skb_vlan_push(skb, bswap16(VLAN), 0);
}

/* Removes the dummy tag, and moves the tag that the packet now begins with, if any, to the metadata of the skb. This also updates
 * skb->protocol, which may still have the EtherType from before the program: the kernel reads it from the packet when it pops the second
 * dummy. The last call fails if the packet ends within its tag; the tag then stays in the packet. Returns 0 on success. */
INLINE int vlan_tag_to_metadata(struct __sk_buff *skb)
{
    if (bpf_skb_vlan_push(skb, bswap16(VLAN), 0) || bpf_skb_vlan_pop(skb))
        return 1;
    return bpf_skb_vlan_pop(skb) && skb->len >= VLAN_HEADERS;
}
