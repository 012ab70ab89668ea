
/* What every eBPF program of Strait has. Self-contained: no kernel header is needed to compile it.
 * Helpers and structures are those of Linux 6.1 (include/uapi/linux/bpf.h). */
#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
#define uint_map(name, value) int (*name)[value]
#define of_type(type, name) type *name
#define is(a, b) ((a) == (b))

enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };
enum { BPF_ANY = 0 };
enum { BPF_F_MARK_MANGLED_0 = 1 << 5, BPF_F_PSEUDO_HDR = 1 << 4 };
enum { BPF_ADJ_ROOM_MAC = 1, BPF_F_ADJ_ROOM_FIXED_GSO = 1 };
enum {
    MAP_HASH = 1,
    MAP_ARRAY = 2,
    MAP_PERCPU_ARRAY = 6,
    MAP_LRU_HASH = 9,
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
__attribute__((unused)) static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
__attribute__((unused)) static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
__attribute__((unused)) static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
__attribute__((unused)) static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
__attribute__((unused)) static long (*bpf_l4_csum_replace)(struct __sk_buff *skb, u32 offset, u64 from, u64 to, u64 flags) = (void *)11;
__attribute__((unused)) static long (*bpf_skb_vlan_push)(struct __sk_buff *skb, u16 protocol, u16 tci) = (void *)18;
__attribute__((unused)) static long (*bpf_skb_vlan_pop)(struct __sk_buff *skb) = (void *)19;
__attribute__((unused)) static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
__attribute__((unused)) static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
__attribute__((unused)) static s64 (*bpf_csum_diff)(u32 *from, u32 from_size, u32 *to, u32 to_size, u32 seed) = (void *)28;
__attribute__((unused)) static long (*bpf_skb_change_proto)(struct __sk_buff *skb, u16 proto, u64 flags) = (void *)31;
__attribute__((unused)) static long (*bpf_skb_change_tail)(struct __sk_buff *skb, u32 len, u64 flags) = (void *)38;
__attribute__((unused)) static long (*bpf_skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
__attribute__((unused)) static long (*bpf_fib_lookup)(void *skb, void *query, s32 size, u32 flags) = (void *)69;
__attribute__((unused)) static long (*bpf_skb_adjust_room)(struct __sk_buff *skb, s32 len_diff, u32 mode, u64 flags) = (void *)50;
__attribute__((unused)) static long (*bpf_redirect_neigh)(u32 ifindex, void *hop, s32 size, u64 flags) = (void *)152;
__attribute__((unused)) static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;

/* Headers lie in the first bytes of a packet; the bound lets the verifier follow a variable offset. */
#define MAX_OFFSET 2047u
#define NO_OFFSET 0xffffu

/* What a port is on arrival. A lane (an interface index, or 0) makes it a short cut past that interface: only packets that
 * the kernel would route into it are ours, what the program drops goes on untouched and uncounted, what it sends stays
 * here for the kernel to route, or goes straight to the next hop (DIRECT). */
struct ingress {
    u32 port;
    u32 lane;
    u32 flags;
    u32 ipv4_mtu; /* of the route into the lane's interface, which bpf_fib_lookup does not look at; or 0 */
};

enum { DIRECT = 1 };

struct egress {
    u32 ifindex;
    u32 flags;
};

/* What the host says of a table, one for each, in the manifest's order. Only the host writes it, each member as one word.
 *
 * The kernel reuses the memory of a hash element at once when it is deleted or replaced, so a packet that holds a pointer to
 * one may read the next one's bytes. Therefore `writes` changes before an element is written whose memory was in use before:
 * what a packet has read between two equal values of `writes` is one entry. It is odd while an element is being replaced.
 *
 * Default actions and tuples are in arrays, which the kernel writes in place. There are several versions of them, and the
 * host writes one only after a grace period, when no packet can read it any more. */
struct version {
    u64 writes;
    u32 fallback; /* index of the default action in its array */
    u32 tuples;   /* index of the first tuple in its array */
};

#define READ(member) (*(volatile typeof(member) *)&(member))

/* `p`, but not before `value` was read: the processor keeps loads in order whose addresses depend on each other. */
INLINE void *after(void *p, u64 value)
{
    asm volatile("%1 &= 0\n\t%0 += %1" : "+r"(p), "+r"(value) : : "memory");
    return p;
}

/* Copies whole words; returns something that depends on each. */
INLINE u64 copy(u64 *to, const u8 *from, u32 bytes)
{
    u64 read = 0;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < bytes / 8; i++) {
        u64 word = *(volatile u64 *)(from + i * 8);
        to[i] = word;
        read |= word;
    }
    return read;
}

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

/* The packet at an offset of at most MAX_OFFSET. Kernels before 6.8 forget that bound when the offset has been on the stack
 * meanwhile, so it is said once more where it is used, behind a barrier that keeps the compiler from knowing better. */
INLINE u8 *packet_from(struct __sk_buff *skb, u32 at)
{
    u8 *p = packet_start(skb);
    if (__builtin_constant_p(at))
        return p + at;
    asm volatile("" : "+r"(at));
    return p + (at & MAX_OFFSET);
}

/* A length from 1 to 256 as a length from 1 to 256: kernels before 6.8 do not conclude from `n != 0` that n is 1 or more. */
INLINE u32 one_to_256(u32 n)
{
    n -= 1;
    asm volatile("" : "+r"(n));
    return (n & 255) + 1;
}

/* `len` bytes at `at` that can be read and written, or 0. What is not linear yet is pulled, that much and no more. */
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

/* The kernel takes the outer VLAN tag off a packet before tc sees it, and keeps it beside the bytes. A program must see it
 * where the wire had it: pushing another tag writes the kept one back, and what is kept now is a dummy. */
INLINE int show_tag(struct __sk_buff *skb)
{
    return bpf_skb_vlan_push(skb, bswap16(VLAN), 0);
}

/* Takes the dummy away, and lets the kernel keep the tag that the packet now begins with, if any, which is how it knows
 * what follows. The kernel's idea of the EtherType, which may be from before the program, is read anew on the way: as the
 * one behind a second dummy. A tag that is not whole makes the last call fail, and stays in the packet. */
INLINE int hide_tag(struct __sk_buff *skb)
{
    if (bpf_skb_vlan_push(skb, bswap16(VLAN), 0) || bpf_skb_vlan_pop(skb))
        return 1;
    return bpf_skb_vlan_pop(skb) && skb->len >= VLAN_HEADERS;
}

/* struct bpf_fib_lookup, of which the kernel reads the question and writes the answer. */
struct route {
    u8 family, protocol;
    u16 source_port, destination_port, length;
    u32 ifindex;
    u32 tos; /* of IPv4; of IPv6 the flow information, in network order */
    u8 source[16], destination[16];
    u8 vlan[4], macs[12];
};

enum { AF_INET = 2, AF_INET6 = 10, IP_PROTOCOL_TCP = 6, ETHERNET = 14 };
enum { ROUTED = 0, ROUTED_WITHOUT_NEIGHBOUR = 7 };

struct question {
    u32 ifindex;
    u8 family, tos, none[2];
    u8 source[16], destination[16];
};

/* What the kernel said lately. An IPv6 look-up costs as much as a translation, so answers are remembered for a tenth of a
 * second: up to which length packets go where, and from which length on they do not. */
struct answer {
    u64 until; /* nanoseconds */
    u32 passes, fails;
    u32 ifindex; /* of the interface to leave by, and the next hop there */
    struct {
        u32 family;
        u8 address[16];
    } hop;
};

enum { REMEMBERED_NS = 100000000, QUESTIONS = 16384 };

struct {
    uint_map(type, MAP_LRU_HASH);
    uint_map(max_entries, QUESTIONS);
    of_type(struct question, key);
    of_type(struct answer, value);
} strait_routes SEC(".maps");

/* Makes the question of an IP packet. Returns the length of its largest segment, or 0: not for the kernel's routing. */
INLINE u32 question(struct __sk_buff *skb, struct question *q, u8 *next)
{
    u32 at = ETHERNET, segment = skb->gso_size, protocol = skb->protocol, length;
    u8 *p;
    if (skb->pkt_type || skb->vlan_present)
        return 0; /* for another host, or for another interface */
    q->ifindex = skb->ifindex;
    if (protocol == bswap16(0x0800)) {
        p = packet_at(skb, ETHERNET, 20);
        if (!p || p[0] >> 4 != 4)
            return 0;
        q->family = AF_INET;
        q->tos = p[1];
        length = rd16(p + 2);
        *next = p[9];
        *(u32 *)q->source = *(u32 *)(p + 12);
        *(u32 *)q->destination = *(u32 *)(p + 16);
        at += (p[0] & 15) * 4;
    } else if (protocol == bswap16(0x86dd)) {
        p = packet_at(skb, ETHERNET, 40);
        if (!p || p[0] >> 4 != 6)
            return 0;
        q->family = AF_INET6;
        q->tos = rd16(p) >> 4;
        length = rd16(p + 4) + 40;
        *next = p[6];
        __builtin_memcpy(q->source, p + 8, 32);
        at += 40;
    } else {
        return 0;
    }
    if (!segment)
        return length;
    if (*next != IP_PROTOCOL_TCP || !(p = packet_at(skb, at, 20)))
        return 0;
    return at - ETHERNET + (p[12] >> 4) * 4 + segment;
}

/* Asks the kernel where packets of a length go; an answer that is still good is kept, and one of its bounds moves. */
INLINE void ask(struct __sk_buff *skb, struct question *of, u32 length, u8 protocol, struct answer *a)
{
    struct route q = {};
    q.family = of->family;
    q.protocol = protocol;
    q.length = length;
    q.ifindex = of->ifindex;
    q.tos = of->family == AF_INET ? of->tos : bswap32((u32)of->tos << 20);
    __builtin_memcpy(q.source, of->source, 32);
    long said = bpf_fib_lookup(skb, &q, sizeof q, 0);
    if (said == ROUTED || said == ROUTED_WITHOUT_NEIGHBOUR) {
        a->passes = length;
        a->ifindex = q.ifindex;
        a->hop.family = said == ROUTED ? q.family : 0;
        __builtin_memcpy(a->hop.address, q.destination, 16);
    } else {
        a->fails = length;
    }
    bpf_map_update_elem(&strait_routes, of, a, BPF_ANY);
}

/* The interface that the kernel would route the packet to, whole; 0 if to none. It is the kernel's own answer, so that
 * routes, rules, VRFs and MTUs hold in a lane as they hold without one. A GSO packet counts by its segments. */
INLINE u32 routed_to(struct __sk_buff *skb, u32 ipv4_mtu, struct answer *a)
{
    struct question q = {};
    u8 next = 0;
    u32 length = question(skb, &q, &next);
    if (!length || (ipv4_mtu && length > ipv4_mtu && q.family == AF_INET))
        return 0;
    u64 now = bpf_ktime_get_coarse_ns();
    struct answer *known = bpf_map_lookup_elem(&strait_routes, &q);
    if (known && known->until > now) {
        *a = *known;
        if (length <= a->passes)
            return a->ifindex;
        if (length >= a->fails)
            return 0;
    } else {
        a->until = now + REMEMBERED_NS;
        a->fails = ~0u;
    }
    ask(skb, &q, length, next, a);
    return length <= a->passes ? a->ifindex : 0;
}

NOINLINE int bound_for(struct __sk_buff *skb, u32 ifindex, u32 ipv4_mtu)
{
    struct answer a = {};
    return routed_to(skb, ipv4_mtu, &a) == ifindex;
}

/* Sends the packet to its next hop without the stack, if the kernel has a neighbour there; else the stack routes it. */
NOINLINE int send_on(struct __sk_buff *skb)
{
    struct answer a = {};
    u32 ifindex = routed_to(skb, 0, &a);
    if (!ifindex || !a.hop.family)
        return TC_ACT_OK;
    return bpf_redirect_neigh(ifindex, &a.hop, sizeof a.hop, 0);
}
