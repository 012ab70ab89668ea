
/* Lanes: shortcuts past an interface, for packets that the kernel would route into it. See `struct ingress`. This part is the same at all hooks. */
__attribute__((unused)) static long (*bpf_fib_lookup)(void *packet, void *query, s32 size, u32 flags) = (void *)69;
__attribute__((unused)) static u64 (*bpf_jiffies64)(void) = (void *)118;

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

/* The key of a route: the index of the interface, the family and the class in the first word, then both addresses, those of IPv4 in one word. */
struct route_key {
    u64 word[5];
};

/* An entry of the route cache: the results of recent lookups in the kernel. An IPv6 lookup takes as long as a translation, so results are kept for ten
 * ticks of the kernel's clock: 10 to 100 ms. Whether a route applies depends on the packet's length because of MTUs, so an entry holds the largest
 * length that is known to pass and the smallest length that is known to fail. */
struct cached_route {
    struct route_key key;
    u64 until;    /* the tick when the entry expires */
    u32 passes, fails;
    u32 ifindex;  /* where the packets that arrive are routed */
    u32 length;   /* that of the last packet */
    struct {
        struct route_key key;
        u32 passes; /* 0 if nothing is known */
        u32 ifindex;
        u8 macs[12];
        u32 family; /* `hop` in the form of bpf_redirect_neigh */
        u8 address[16];
    } leaving; /* where they can be sent directly after translation */
    u32 place;    /* where the entry is */
};

/* Each processor has a cache of its own, so entries need no lock. A place has one entry, the last one. */
enum { ROUTE_TICKS = 10, ROUTE_PLACES_LOG = 12 };

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1 << ROUTE_PLACES_LOG);
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
INLINE u32 is_for_the_stack(void);

/* Sets the key and the next protocol of an IP packet with an Ethernet header. Returns the length of the packet or, with GSO, of its largest segment;
 * or 0 if that is unknown. */
INLINE u32 route_key_of(CONTEXT *packet, UNUSED struct scratch *t, u32 type, struct route_key *q, u8 *next)
{
    u32 at = ETHERNET, length;
    u64 about = ingress_of(packet);
    u8 *p;
    if (type == TYPE_IPV4) {
        p = packet_at(packet, ETHERNET, 20);
        if (!p || p[0] >> 4 != 4)
            return 0;
        q->word[0] = about | (u64)AF_INET << 32 | (u64)p[1] << 40;
        length = rd16(p + 2);
        *next = p[9];
        q->word[1] = *(u64 *)(p + 12);
        q->word[2] = q->word[3] = q->word[4] = 0;
        at += (p[0] & 15) * 4;
    } else if (type == TYPE_IPV6) {
        p = packet_at(packet, ETHERNET, 40);
        if (!p || p[0] >> 4 != 6)
            return 0;
        q->word[0] = about | (u64)AF_INET6 << 32 | (u64)(rd16(p) >> 4 & 0xff) << 40;
        length = rd16(p + 4) + 40;
        *next = p[6];
        q->word[1] = *(u64 *)(p + 8);
        q->word[2] = *(u64 *)(p + 16);
        q->word[3] = *(u64 *)(p + 24);
        q->word[4] = *(u64 *)(p + 32);
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

INLINE u32 is_same_route(struct route_key *a, struct route_key *b)
{
    u64 differ = 0;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < 5; i++)
        differ |= a->word[i] ^ b->word[i];
    return !differ;
}

/* Asks the kernel for the route of packets of a length. */
INLINE long look_up_route(CONTEXT *packet, struct route *q, struct route_key *key, u32 length, u32 protocol)
{
    u32 tos = key->word[0] >> 40 & 0xff, family = key->word[0] >> 32 & 0xff;
    u64 *source = (u64 *)q->source, *destination = (u64 *)q->destination;
    q->family = family;
    q->protocol = protocol;
    q->length = length;
    q->ifindex = (u32)key->word[0];
    q->tos = family == AF_INET ? tos : bswap32(tos << 20);
    if (family == AF_INET) {
        *(u32 *)source = (u32)key->word[1];
        *(u32 *)destination = (u32)(key->word[1] >> 32);
    } else {
        source[0] = key->word[1];
        source[1] = key->word[2];
        destination[0] = key->word[3];
        destination[1] = key->word[4];
    }
    return bpf_fib_lookup(packet, q, sizeof *q, 0);
}

/* Updates an entry for packets of a length that arrive. Returns 1 if they go where the entry says, and the lane may take this one. */
NOINLINE static int find_route(CONTEXT *packet, struct cached_route *a, struct route_key *key, u32 length, u32 protocol)
{
    struct route q = {};
    if (!is_same_route(&a->key, key) || a->until <= bpf_jiffies64()) {
        a->key = *key;
        a->until = bpf_jiffies64() + ROUTE_TICKS;
        a->passes = 0;
        a->fails = ~0u;
        a->leaving.passes = 0;
    }
    if (length >= a->fails)
        return 0;
    long result = look_up_route(packet, &q, key, length, protocol);
    if (result != ROUTED && result != ROUTED_WITHOUT_NEIGHBOUR) {
        a->fails = length;
        return 0;
    }
    a->passes = length;
    a->ifindex = q.ifindex;
    return !is_for_the_stack();
}

/* Returns where the kernel would route the packet that has arrived, without fragmenting it, if that is the interface that the lane goes past; otherwise 0.
 * The result comes from the kernel, so that routes, rules, VRFs and MTUs apply to a lane as they apply without one. For a GSO packet the length of
 * a segment counts. */
INLINE struct cached_route *enter_lane(CONTEXT *packet, struct scratch *t, struct ingress *from)
{
    struct route_key key;
    u8 next = 0;
    u32 type = type_for_lane(packet, t, from), length = route_key_of(packet, t, type, &key, &next);
    if (!length || !is_whole(packet, length))
        return 0;
    /* Products of odd constants: 2^64 over the golden ratio, and primes. */
    u64 hash = key.word[0] * 0x9e3779b97f4a7c15ULL ^ key.word[1] * 0xc2b2ae3d27d4eb4fULL ^ key.word[2] * 0x165667b19e3779f9ULL ^
               key.word[3] * 0x85ebca77c2b2ae63ULL ^ key.word[4] * 0x27d4eb2f165667c5ULL;
    u32 place = (u32)((hash ^ hash << 32) >> (64 - ROUTE_PLACES_LOG));
    struct cached_route *a = bpf_map_lookup_elem(&strait_routes, &place);
    if (!a)
        return 0;
    if (!is_same_route(&a->key, &key) || a->until <= bpf_jiffies64() || length > a->passes) {
        a->place = place;
        if (!find_route(packet, a, &key, length, next))
            return 0;
    }
    a->length = length;
    return a->ifindex == from->lane ? a : 0;
}

/* Counts a packet of a lane. */
INLINE void count_in_lane(struct ingress *from, u32 bytes)
{
    u32 number = from->number;
    struct count *c = bpf_map_lookup_elem(&strait_lanes, &number);
    if (c)
        count_packet(c, bytes);
}

/* Asks the kernel for the next hop of packets of a length that leave. Returns 0 if there is none to which they can be sent directly. */
NOINLINE static int find_next_hop(CONTEXT *packet, struct cached_route *a, struct route_key *key, u32 length, u32 protocol)
{
    struct route q = {};
    long result = look_up_route(packet, &q, key, length, protocol);
    if (result == ROUTED && takes_packets(q.ifindex)) {
        a->leaving.key = *key;
        a->leaving.passes = length;
        a->leaving.ifindex = q.ifindex;
        a->leaving.family = q.family;
        __builtin_memcpy(a->leaving.address, q.destination, 16);
        __builtin_memcpy(a->leaving.macs, q.macs, 12);
        return 1;
    }
    /* The kernel gets this packet as it is now. Those after it that are as long are not translated here, but take the way past which the lane goes,
     * until the entry expires; without a next hop that is soon, because the kernel looks for the neighbour then. */
    a->fails = a->length;
    if (result == ROUTED || result == ROUTED_WITHOUT_NEIGHBOUR) {
        a->until = bpf_jiffies64() + 1;
        a->fails = 1;
    }
    a->passes = a->fails - 1;
    return 0;
}

/* Returns whether the packet that leaves can be sent directly, to `leaving` of `a`, which is the result of `enter_lane`. */
INLINE u32 has_next_hop(CONTEXT *packet, struct scratch *t, u32 type, struct cached_route *a)
{
    struct route_key key;
    u8 next = 0;
    u32 length = route_key_of(packet, t, type, &key, &next);
    if (!length)
        return 0;
    return (length <= a->leaving.passes && is_same_route(&a->leaving.key, &key)) || find_next_hop(packet, a, &key, length, next);
}

/* Gives the packet the hop back that the program took from it, because the kernel routes the packet now and takes one. */
NOINLINE static void give_back_hop(CONTEXT *packet, UNUSED struct scratch *t, u32 type)
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
