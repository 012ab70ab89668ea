
/* The common part of all eBPF programs of Strait. It declares the helpers and structures of Linux 6.1 (include/uapi/linux/bpf.h) itself,
 * so that no kernel header is needed to compile a program. */
#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define equal(a, b) ((a) == (b))

enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };
enum { BPF_ANY = 0 };
enum { BPF_F_MARK_MANGLED_0 = 1 << 5, BPF_F_PSEUDO_HDR = 1 << 4 };
enum { BPF_ADJ_ROOM_MAC = 1, BPF_F_ADJ_ROOM_FIXED_GSO = 1 };
enum {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_LRU_HASH = 9,
    BPF_MAP_TYPE_LPM_TRIE = 11,
    BPF_F_NO_PREALLOC = 1,
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

/* The largest offset of a header in a packet. The verifier accepts a variable offset only with a bound. */
#define MAX_OFFSET 2047u
#define NO_OFFSET 0xffffu

/* An ingress port. If `lane` is not 0, the port is a shortcut past the interface with that index. The program then processes only the
 * packets that the kernel would route into that interface. A packet that the program drops continues unchanged, and is not counted. A
 * packet that it sends is routed by the kernel from here or, with DIRECT, goes to the next hop directly.
 *
 * BARE says that the interface has no Ethernet header. The kernel then leaves VLAN tags in the packet, and its functions for tags would
 * take the first bytes of the packet for such a header. */
struct ingress {
    u32 port;
    u32 lane;
    u32 flags;
    u32 ipv4_mtu; /* the MTU of the route into the lane's interface, which bpf_fib_lookup does not check; or 0 */
};

enum { DIRECT = 1, BARE = 2 };

struct egress {
    u32 ifindex;
    u32 flags;
};

/* The version of a table. strait_versions has one for each table, in the order of the manifest. Only the host writes it, and it writes
 * each member as one word.
 *
 * When a hash element is deleted or replaced, the kernel reuses its memory immediately. A program that still holds a pointer to the
 * element may then read the bytes of another one. Therefore the host changes `writes` before it writes an element into reused memory:
 * what a program reads between two equal values of `writes` belongs to one entry. `writes` is odd while an element is being replaced.
 *
 * Default actions and tuples are in arrays, which the kernel writes in place. The arrays hold several versions, and the host overwrites
 * a version only after a grace period, when no program can still read it. */
struct version {
    u64 writes;
    u32 default_action; /* index of the default action in its array */
    u32 tuples;   /* index of the first tuple in its array */
};

#define READ_ONCE(member) (*(volatile typeof(member) *)&(member))

/* Returns `p`, with an address dependency on `value`: the processor loads from `p` only after it has loaded `value`. */
INLINE void *with_dependency(void *p, u64 value)
{
    asm volatile("%1 &= 0\n\t%0 += %1" : "+r"(p), "+r"(value) : : "memory");
    return p;
}

/* Copies whole words, and returns a value that depends on each of them, for `with_dependency`. */
INLINE u64 copy_words(u64 *to, const u8 *from, u32 bytes)
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

/* Sums and differences of 128 bits. The barriers keep the compiler from making a product of several of them, such as x + x + x: eBPF has
 * no product of 128 bits, and no library with one. */
INLINE u128 add128(u128 a, u128 b)
{
    u64 lo = (u64)a + (u64)b;
    asm volatile("" : "+r"(lo));
    return U128((u64)(a >> 64) + (u64)(b >> 64) + (lo < (u64)a), lo);
}

INLINE u128 sub128(u128 a, u128 b)
{
    u64 lo = (u64)a - (u64)b;
    asm volatile("" : "+r"(lo));
    return U128((u64)(a >> 64) - (u64)(b >> 64) - ((u64)a < (u64)b), lo);
}

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

/* Returns `n`, which is from 1 to 256, in a form whose range the verifier knows: kernels before 6.8 do not conclude from `n != 0` that n
 * is at least 1. */
INLINE u32 one_to_256(u32 n)
{
    n -= 1;
    asm volatile("" : "+r"(n));
    return (n & 255) + 1;
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

/* struct bpf_fib_lookup of the kernel. A lookup reads the query from it and writes the result to it. */
struct route {
    u8 family, protocol;
    u16 source_port, destination_port, length;
    u32 ifindex;
    u32 tos; /* for IPv4 the type of service; for IPv6 the flow information in network order */
    u8 source[16], destination[16];
    u8 vlan[4], macs[12];
};

enum { AF_INET = 2, AF_INET6 = 10, IP_PROTOCOL_TCP = 6, ETHERNET = 14 };
enum { ROUTED = 0, ROUTED_WITHOUT_NEIGHBOUR = 7 };

/* The key of the route cache. */
struct route_key {
    u32 ifindex;
    u8 family, tos, reserved[2];
    u8 source[16], destination[16];
};

/* An entry of the route cache: the result of a recent lookup in the kernel. An IPv6 lookup takes as long as a translation, so results
 * are cached for a tenth of a second. Whether a route applies depends on the packet's length because of MTUs, so an entry holds the
 * largest length that is known to pass and the smallest length that is known to fail. */
struct cached_route {
    u64 until; /* the time when the entry expires, in nanoseconds */
    u32 passes, fails;
    u32 ifindex; /* the egress interface; `hop` is the next hop there */
    struct {
        u32 family;
        u8 address[16];
    } hop;
};

enum { ROUTE_CACHE_NS = 100000000, ROUTE_CACHE_SIZE = 16384 };

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, ROUTE_CACHE_SIZE);
    __type(key, struct route_key);
    __type(value, struct cached_route);
} strait_routes SEC(".maps");

/* Sets the cache key and the next protocol of an IP packet. Returns the length of the packet or, with GSO, of its largest segment; or 0
 * if the kernel would not route the packet. */
INLINE u32 route_key_of(struct __sk_buff *skb, struct route_key *q, u8 *next)
{
    u32 at = ETHERNET, segment = skb->gso_size, protocol = skb->protocol, length;
    u8 *p;
    if (skb->pkt_type || skb->vlan_present)
        return 0; /* the packet is for another host, or for another interface */
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

/* Looks up the route for packets of a length in the kernel, and updates `passes` or `fails` of the cache entry. */
INLINE void look_up_route(struct __sk_buff *skb, struct route_key *of, u32 length, u8 protocol, struct cached_route *a)
{
    struct route q = {};
    q.family = of->family;
    q.protocol = protocol;
    q.length = length;
    q.ifindex = of->ifindex;
    q.tos = of->family == AF_INET ? of->tos : bswap32((u32)of->tos << 20);
    __builtin_memcpy(q.source, of->source, 32);
    long result = bpf_fib_lookup(skb, &q, sizeof q, 0);
    if (result == ROUTED || result == ROUTED_WITHOUT_NEIGHBOUR) {
        a->passes = length;
        a->ifindex = q.ifindex;
        a->hop.family = result == ROUTED ? q.family : 0;
        __builtin_memcpy(a->hop.address, q.destination, 16);
    } else {
        a->fails = length;
    }
    bpf_map_update_elem(&strait_routes, of, a, BPF_ANY);
}

/* Returns the interface that the kernel would route the packet to without fragmenting it, or 0 if there is none. The result comes from
 * the kernel, so that routes, rules, VRFs and MTUs apply to a lane as they apply without one. For a GSO packet the length of a segment
 * counts. */
INLINE u32 routed_ifindex(struct __sk_buff *skb, u32 ipv4_mtu, struct cached_route *a)
{
    struct route_key q = {};
    u8 next = 0;
    u32 length = route_key_of(skb, &q, &next);
    if (!length || (ipv4_mtu && length > ipv4_mtu && q.family == AF_INET))
        return 0;
    u64 now = bpf_ktime_get_coarse_ns();
    struct cached_route *known = bpf_map_lookup_elem(&strait_routes, &q);
    if (known && known->until > now) {
        *a = *known;
        if (length <= a->passes)
            return a->ifindex;
        if (length >= a->fails)
            return 0;
    } else {
        a->until = now + ROUTE_CACHE_NS;
        a->fails = ~0u;
    }
    look_up_route(skb, &q, length, next, a);
    return length <= a->passes ? a->ifindex : 0;
}

/* Returns whether the kernel would route the packet to an interface. */
NOINLINE int is_routed_to(struct __sk_buff *skb, u32 ifindex, u32 ipv4_mtu)
{
    struct cached_route a = {};
    return routed_ifindex(skb, ipv4_mtu, &a) == ifindex;
}

/* Sends the packet to its next hop directly if the kernel knows the neighbour; otherwise the network stack routes the packet. */
NOINLINE int send_to_next_hop(struct __sk_buff *skb)
{
    struct cached_route a = {};
    u32 ifindex = routed_ifindex(skb, 0, &a);
    if (!ifindex || !a.hop.family)
        return TC_ACT_OK;
    return bpf_redirect_neigh(ifindex, &a.hop, sizeof a.hop, 0);
}
