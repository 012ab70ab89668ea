
/* What all eBPF programs of Strait need at any hook. It declares the helpers and structures of Linux 6.1 (include/uapi/linux/bpf.h) itself, so
 * that no kernel header is needed to compile a program. */
#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define equal(a, b) ((a) == (b))

enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_LPM_TRIE = 11,
    BPF_MAP_TYPE_QUEUE = 22,
    BPF_F_NO_PREALLOC = 1,
    BPF_F_MMAPABLE = 1024,
    LIBBPF_PIN_BY_NAME = 1,
};

__attribute__((unused)) static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
__attribute__((unused)) static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
__attribute__((unused)) static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
__attribute__((unused)) static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
__attribute__((unused)) static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
__attribute__((unused)) static long (*bpf_loop)(u32 iterations, void *function, void *context, u64 flags) = (void *)181;
__attribute__((unused)) static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
__attribute__((unused)) static s64 (*bpf_csum_diff)(u32 *from, u32 from_size, u32 *to, u32 to_size, u32 seed) = (void *)28;

/* The time that packets see, in microseconds: the kernel's monotonic clock. In tests, the host sets it. RARELY is how old the time of a hit becomes
 * before it is written again. */
#ifdef STRAIT_TEST_CLOCK
struct {
    int (*type)[BPF_MAP_TYPE_ARRAY];
    int (*max_entries)[1];
    u32 *key;
    u64 *value;
} strait_clock SEC(".maps");

INLINE u64 micros(void)
{
    u32 zero = 0;
    u64 *clock = bpf_map_lookup_elem(&strait_clock, &zero);
    return clock ? *clock : 0;
}
#define RARELY(micros) 0
#else
#define RARELY(micros) micros
INLINE u64 micros(void)
{
    return bpf_ktime_get_ns() / 1000;
}
#endif

/* The largest offset of a header in a packet. The verifier accepts a variable offset only with a bound. */
#define MAX_OFFSET 2047u
#define NO_OFFSET 0xffffu

/* An ingress port. If `lane` is not 0, the port is a shortcut past the interface with that index. The program then processes only the
 * packets that the kernel would route into that interface. A packet that the program drops continues unchanged, and is not counted. A
 * packet that it sends is routed by the kernel from here or, with DIRECT, goes to the next hop directly. A program takes one hop from packets of
 * a port with DIRECT: they get it back if the kernel routes them nevertheless.
 *
 * BARE says that the interface has no Ethernet header. The kernel then leaves VLAN tags in the packet, and its functions for tags would
 * take the first bytes of the packet for such a header. DEFER says that a packet that is to leave as fragments goes on unchanged. PORT says that an element of an array is a port.
 * SOURCE says that what the interface receives comes out of a program of Strait. A packet that arrived there, and now leaves by the interface of a port
 * whose `again` is not 0, has that ingress port instead. `again` has the port in its lower half, and the mark of what the program has sent in its upper half. */
struct ingress {
    u32 port;
    u32 lane;
    u32 flags;
    u8 mac[6];    /* the interface's MAC address, for lanes at the XDP hook */
    u16 number;   /* the number of the lane, from 0 */
    u32 again;
};

enum { DIRECT = 1, BARE = 2, PORT = 4, DEFER = 8, SOURCE = 16 };

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

/* The timer of an entry that a packet added or hit: bit 63 says that it runs, bit 62 that the row is an entry, the bits from 8 on are the
 * time in microseconds when it was started, and the bits below the number of the expire time profile. abi::native::flow is the same. */
#define FLOW_TIMED (1ULL << 63)
#define FLOW_ENTRY (1ULL << 62)

INLINE u64 flow_timer(u64 profile)
{
    return FLOW_TIMED | FLOW_ENTRY | (micros() << 8 & ~(FLOW_TIMED | FLOW_ENTRY)) | (profile & 0xff);
}

/* A cell of a register of more than 64 bits. */
struct cell128 {
    u64 word[2];
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

/* Returns `n`, which is from 1 to 256, in a form whose range the verifier knows: kernels before 6.8 do not conclude from `n != 0` that n
 * is at least 1. */
INLINE u32 one_to_256(u32 n)
{
    n -= 1;
    asm volatile("" : "+r"(n));
    return (n & 255) + 1;
}
