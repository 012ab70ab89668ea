
/* Lanes: shortcuts past an interface, for packets that the kernel would route into it. See `struct ingress`. */
enum { BPF_MAP_TYPE_LRU_HASH = 9 };

__attribute__((unused)) static long (*bpf_fib_lookup)(void *skb, void *query, s32 size, u32 flags) = (void *)69;
__attribute__((unused)) static long (*bpf_redirect_neigh)(u32 ifindex, void *hop, s32 size, u64 flags) = (void *)152;
__attribute__((unused)) static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;

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
