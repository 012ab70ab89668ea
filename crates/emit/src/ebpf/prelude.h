/* What every eBPF program of Strait begins with. Self-contained: no kernel header is needed to compile it.
 * Helpers and structures are those of Linux 6.1 (include/uapi/linux/bpf.h). */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned __int128 u128;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef __int128 s128;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline, unused))
#define NOINLINE __attribute__((noinline))
#define U128(hi, lo) (((u128)(hi) << 64) | (lo))
#define uint_map(name, value) int (*name)[value]
#define of_type(type, name) type *name

enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };
enum { BPF_ANY = 0 };
enum { BPF_F_MARK_MANGLED_0 = 1 << 5, BPF_F_PSEUDO_HDR = 1 << 4 };
enum { BPF_ADJ_ROOM_MAC = 1, BPF_F_ADJ_ROOM_FIXED_GSO = 1 };
enum {
    MAP_HASH = 1,
    MAP_ARRAY = 2,
    MAP_PERCPU_ARRAY = 6,
    MAP_LPM_TRIE = 11,
    NO_PREALLOC = 1,
};

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

__attribute__((unused)) static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
__attribute__((unused)) static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
__attribute__((unused)) static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
__attribute__((unused)) static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
__attribute__((unused)) static long (*bpf_l4_csum_replace)(struct __sk_buff *skb, u32 offset, u64 from, u64 to, u64 flags) = (void *)11;
__attribute__((unused)) static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
__attribute__((unused)) static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
__attribute__((unused)) static s64 (*bpf_csum_diff)(u32 *from, u32 from_size, u32 *to, u32 to_size, u32 seed) = (void *)28;
__attribute__((unused)) static long (*bpf_skb_change_proto)(struct __sk_buff *skb, u16 proto, u64 flags) = (void *)31;
__attribute__((unused)) static long (*bpf_skb_change_tail)(struct __sk_buff *skb, u32 len, u64 flags) = (void *)38;
__attribute__((unused)) static long (*bpf_skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
__attribute__((unused)) static long (*bpf_skb_adjust_room)(struct __sk_buff *skb, s32 len_diff, u32 mode, u64 flags) = (void *)50;

#define bswap16(x) __builtin_bswap16(x)
#define bswap32(x) __builtin_bswap32(x)
#define bswap64(x) __builtin_bswap64(x)
/* x86 and arm64 read unaligned; the verifier knows. */
#define rd8(p) (*(u8 *)(p))
#define rd16(p) bswap16(*(u16 *)(p))
#define rd32(p) bswap32(*(u32 *)(p))
#define rd64(p) bswap64(*(u64 *)(p))
#define wr8(p, v) (*(u8 *)(p) = (v))
#define wr16(p, v) (*(u16 *)(p) = bswap16(v))
#define wr32(p, v) (*(u32 *)(p) = bswap32(v))
#define wr64(p, v) (*(u64 *)(p) = bswap64(v))

/* Headers lie in the first bytes of a packet; the bound lets the verifier follow a variable offset. */
#define MAX_OFFSET 2047u
#define NO_OFFSET 0xffffu

struct count {
    u64 packets;
    u64 bytes;
};

struct egress {
    u32 ifindex;
    u32 flags;
};

/* The compiler must not compute the address of these members: the verifier wants context pointers unmodified. */
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

/* `len` bytes at `at` that can be read and written, or 0. What is not linear yet is pulled, that much and no more. */
INLINE u8 *packet_at(struct __sk_buff *skb, u32 at, u32 len)
{
    if (at > MAX_OFFSET)
        return 0;
    u8 *p = packet_start(skb) + at;
    asm volatile("" : "+r"(p)); /* one register for the check and the access */
    if (p + len <= packet_end(skb))
        return p;
    if (at + len > skb->len || bpf_skb_pull_data(skb, at + len))
        return 0;
    p = packet_start(skb) + at;
    asm volatile("" : "+r"(p));
    if (p + len <= packet_end(skb))
        return p;
    return 0;
}

/* Shifts of 128 bits by a distance known at run time only; the compiler would call a library. */
INLINE u128 shl128(u128 v, u32 n)
{
    u64 hi = (u64)(v >> 64), lo = (u64)v;
    if (n >= 128)
        return 0;
    if (n >= 64)
        return U128(lo << (n & 63), 0);
    if (!n)
        return v;
    return U128((hi << n) | (lo >> (64 - n)), lo << n);
}

INLINE u128 shr128(u128 v, u32 n)
{
    u64 hi = (u64)(v >> 64), lo = (u64)v;
    if (n >= 128)
        return 0;
    if (n >= 64)
        return hi >> (n & 63);
    if (!n)
        return v;
    return U128(hi >> n, (lo >> n) | (hi << (64 - n)));
}

/* Sums are of 16-bit words in host order, folded (RFC 1071). */
INLINE u32 fold(u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (u32)sum;
}

/* The words of a value whose last bit ends a word. */
INLINE u64 words64(u64 v)
{
    return (v & 0xffffffff) + (v >> 32);
}

INLINE u64 words128(u128 v)
{
    return words64((u64)v) + words64((u64)(v >> 64));
}

INLINE void count_packet(struct count *c, u64 bytes)
{
    c->packets += 1;
    c->bytes += bytes;
}
