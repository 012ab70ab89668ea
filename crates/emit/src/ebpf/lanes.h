
/* Lanes: shortcuts past an interface, for packets that the kernel would route into it. See `struct ingress`. This part is the same at all hooks. */
__attribute__((unused)) static long (*bpf_fib_lookup)(void *packet, void *query, s32 size, u32 flags) = (void *)69;
__attribute__((unused)) static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;

/* struct bpf_fib_lookup of the kernel. A lookup reads the query from it and writes the result to it. */
struct route {
    u8 family, protocol;
    u16 source_port, destination_port, length;
    u32 ifindex;
    u32 tos; /* for IPv4 the type of service; for IPv6 the flow information in network order */
    u8 source[16], destination[16];
    u8 vlan[4], macs[12]; /* the MAC address of the egress interface, and that of the neighbour */
};

enum { AF_INET = 2, AF_INET6 = 10, IP_PROTOCOL_TCP = 6, ETHERNET = 14, TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd };
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
    struct route_key key;
    u64 until;    /* the time when the entry expires, in nanoseconds */
    u32 passes, fails;
    u32 length;   /* that of the last packet */
    u32 place;    /* where the entry is */
    u32 ifindex;  /* the egress interface */
    u32 direct;   /* 1 if packets can be sent to the next hop directly: `hop` at a tc hook, `macs` at the XDP hook */
    struct {
        u32 family;
        u8 address[16];
    } hop;
    u8 macs[12];
};

/* Each processor has a cache of its own, so entries need no lock. A place has one entry, the last one. The packets that arrive and those that leave
 * have a half each, so that the two entries of a packet never are at the same place. */
enum { ROUTE_CACHE_NS = 100000000, NO_HOP_NS = 5000000, ROUTE_PLACES_LOG = 12, ARRIVING = 0, LEAVING = 1 << ROUTE_PLACES_LOG };

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2 << ROUTE_PLACES_LOG);
    __type(key, u32);
    __type(value, struct cached_route);
} strait_routes SEC(".maps");

/* What differs between the hooks: the index of the interface where the packet arrived; the EtherType of a packet that may enter a lane, or 0; whether
 * the lane can take a packet of this length whole; whether packets may be sent through an interface; and whether the network stack is to get a
 * packet although the lane could take it. */
INLINE u32 ingress_of(CONTEXT *packet);
INLINE u32 type_for_lane(CONTEXT *packet, UNUSED struct scratch *t, UNUSED struct ingress *from);
INLINE u32 is_whole(UNUSED CONTEXT *packet, UNUSED u32 length);
INLINE u32 takes_packets(UNUSED u32 ifindex);
INLINE u32 is_for_the_stack(UNUSED u32 half);

/* Sets the cache key and the next protocol of an IP packet with an Ethernet header. Returns the length of the packet or, with GSO, of its largest
 * segment; or 0 if that is unknown. */
INLINE u32 route_key_of(CONTEXT *packet, UNUSED struct scratch *t, u32 type, struct route_key *q, u8 *next)
{
    u32 at = ETHERNET, length;
    u8 *p;
    if (type == TYPE_IPV4) {
        p = packet_at(packet, ETHERNET, 20);
        if (!p || p[0] >> 4 != 4)
            return 0;
        q->family = AF_INET;
        q->tos = p[1];
        length = rd16(p + 2);
        *next = p[9];
        *(u32 *)q->source = *(u32 *)(p + 12);
        *(u32 *)q->destination = *(u32 *)(p + 16);
        at += (p[0] & 15) * 4;
    } else if (type == TYPE_IPV6) {
        p = packet_at(packet, ETHERNET, 40);
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
    u32 segment = is_gso(packet);
    if (!segment)
        return length;
    if (*next != IP_PROTOCOL_TCP || !(p = packet_at(packet, at, 20)))
        return 0;
    return at - ETHERNET + (p[12] >> 4) * 4 + segment;
}

/* Looks up the route for packets of a length in the kernel, and updates `passes` or `fails` of the cache entry. */
INLINE void look_up_route(CONTEXT *packet, struct cached_route *a, u32 length, u32 protocol)
{
    struct route q = {};
    q.family = a->key.family;
    q.protocol = protocol;
    q.length = length;
    q.ifindex = a->key.ifindex;
    q.tos = a->key.family == AF_INET ? a->key.tos : bswap32((u32)a->key.tos << 20);
    __builtin_memcpy(q.source, a->key.source, 32);
    long result = bpf_fib_lookup(packet, &q, sizeof q, 0);
    if (result == ROUTED || result == ROUTED_WITHOUT_NEIGHBOUR) {
        a->passes = length;
        a->ifindex = q.ifindex;
        a->direct = result == ROUTED && takes_packets(q.ifindex);
        a->hop.family = q.family;
        __builtin_memcpy(a->hop.address, q.destination, 16);
        __builtin_memcpy(a->macs, q.macs, 12);
    } else {
        a->fails = length;
    }
}

/* Returns where the kernel would route a packet of a length without fragmenting it; or 0 if it would not. The result comes from the kernel, so that
 * routes, rules, VRFs and MTUs apply to a lane as they apply without one. For a GSO packet the length of a segment counts. */
NOINLINE static struct cached_route *find_route(CONTEXT *packet, struct route_key *q, u32 length, u32 protocol, u32 half)
{
    u64 hash = 0, differ = 0, *of = (u64 *)q;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < sizeof *q / 8; i++)
        hash = (hash ^ of[i]) * 0x9e3779b97f4a7c15ULL; /* 2^64 over the golden ratio */
    u32 place = (u32)(hash >> (64 - ROUTE_PLACES_LOG)) | half;
    struct cached_route *a = bpf_map_lookup_elem(&strait_routes, &place);
    if (!a)
        return 0;
    u64 now = bpf_ktime_get_coarse_ns(), *known = (u64 *)&a->key;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < sizeof *q / 8; i++)
        differ |= of[i] ^ known[i];
    if (differ || a->until <= now) {
        a->key = *q;
        a->until = now + ROUTE_CACHE_NS;
        a->place = place;
        a->passes = 0;
        a->fails = ~0u;
    }
    a->length = length;
    if (length <= a->passes)
        return a;
    if (length >= a->fails)
        return 0;
    look_up_route(packet, a, length, protocol);
    return length <= a->passes && !is_for_the_stack(half) ? a : 0;
}

/* Returns where the kernel would route the packet that has arrived, if that is the interface that the lane goes past, and 0 otherwise. */
NOINLINE static struct cached_route *enter_lane(CONTEXT *packet, struct scratch *t, struct ingress *from)
{
    struct route_key q = {};
    u8 next = 0;
    q.ifindex = ingress_of(packet);
    u32 length = route_key_of(packet, t, type_for_lane(packet, t, from), &q, &next);
    if (!length || !is_whole(packet, length))
        return 0;
    struct cached_route *a = find_route(packet, &q, length, next, ARRIVING);
    return a && a->ifindex == from->lane ? a : 0;
}

/* Counts a packet of a lane. */
INLINE void count_in_lane(struct ingress *from, u32 bytes)
{
    u32 number = from->number;
    struct count *c = bpf_map_lookup_elem(&strait_lanes, &number);
    if (c)
        count_packet(c, bytes);
}

/* Returns where the packet that leaves goes directly, or 0 if it cannot. `asked` is the result of `enter_lane`. The kernel then gets this packet as it is
 * now. Those after it that are as long are not translated here, but take the way past which the lane goes, until the result expires; without a
 * next hop that is soon, because the kernel looks for the neighbour then. */
INLINE struct cached_route *next_hop(CONTEXT *packet, struct scratch *t, u32 type, struct cached_route *asked)
{
    struct route_key q = {};
    u8 next = 0;
    q.ifindex = ingress_of(packet);
    u32 length = route_key_of(packet, t, type, &q, &next);
    struct cached_route *a = length ? find_route(packet, &q, length, next, LEAVING) : 0;
    if (a && a->direct)
        return a;
    asked->fails = asked->length;
    if (a) {
        a->until = asked->until = bpf_ktime_get_coarse_ns() + NO_HOP_NS;
        asked->fails = 1;
    }
    asked->passes = asked->fails - 1;
    return 0;
}

/* Gives the packet the hop back that the program took from it, because the kernel routes the packet now and takes one. */
INLINE void give_back_hop(CONTEXT *packet, UNUSED struct scratch *t, u32 type)
{
    u8 *p = packet_at(packet, ETHERNET, 20);
    if (!p)
        return;
    if (type == TYPE_IPV6 && p[7] < 255)
        p[7]++;
    if (type == TYPE_IPV4 && p[8] < 255) {
        p[8]++;
        wr16(p + 10, update_checksum(rd16(p + 10), 0, 0x0100));
    }
}
