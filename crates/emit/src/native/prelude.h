
/* The common part of all native programs of Strait: the structures in the memory that a program shares with its host, and the
 * functions that look up entries in them. crates/abi/src/native.rs defines the same structures for the host. Only the host writes
 * tables; a program reads them without a lock. */
/* In tests, uninitialised memory is filled with a pattern. A program that reads it gives a wrong result, and a program that uses it
 * as an offset leaves its bounds, which the sanitizer reports. */
#ifdef STRAIT_CHECKED
#define POISON(p, size) __builtin_memset(p, 0xa5, size)
#else
#define POISON(p, size)
#endif
#define ACQUIRE(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/* Returns whether two values are equal. This is a function because gcc merges the comparisons of adjacent fields into one load, and
 * that load waits until the store of each field has reached the cache. */
INLINE int equal(u64 a, u64 b)
{
    return a == b;
}

/* Clears memory of a constant size. For some hundred bytes gcc takes `rep stos`, which needs 30 cycles to begin; these are vector stores. */
INLINE void clear(void *p, u64 size)
{
    u8 *at = p;
#pragma GCC unroll 16
    for (; size >= 64 && size <= 1024; size -= 64, at += 64)
        __builtin_memset(at, 0, 64);
    __builtin_memset(at, 0, size);
}

/* A row: an entry as the program reads it. It does not change after it is published. Its bytes are the masked key, in a tuple space
 * the mask, for range keys the lowest and the highest values, and then the action data: the action's number and parameters. */
struct row {
    s64 rank;    /* of several matching rows, the one with the largest rank wins */
    u64 age;     /* of several rows with equal rank, the one with the smallest age wins */
    u64 counter; /* the entry's cell in the table's direct counter, direct meter and last hits */
    u64 reserved;
    u8 bytes[];
};

/* A bucket of a hash table: one cache line with six slots. A slot with tag 0 is free. */
struct bucket {
    u16 tags[6];
    u32 overflow; /* the next bucket of the overflow chain: its index in the overflow array + 1, or 0 at the end */
    const struct row *rows[6];
};

/* A tuple: a hash table for the entries that share one mask. */
struct tuple {
    s64 best; /* an upper bound of the rows' ranks */
    const u64 *mask;
    const struct bucket *buckets;
    const struct bucket *overflow;
    u64 bucket_mask; /* number of buckets - 1; the number is a power of two, so this is the mask of a bucket number */
};

/* The tuples of a table, sorted by their best rank in descending order. */
struct index {
    u64 count;
    struct tuple tuples[];
};

struct table {
    const struct index *index;
    const u8 *miss; /* the action data of the default action, which runs on a miss */
};

struct cells {
    void *cells;
    u64 size;
};

/* The state that all workers share. */
struct shared {
    const struct table *tables;
    const struct cells *registers; /* a cell is a u64 */
    const struct cells *meters;    /* a cell is a struct meter */
    /* The next three are directories. A directory is the number of its ids, and then for each id, in ascending order, the id and a
     * pointer to its words. The first of those words is their number. */
    const u64 *groups;     /* multicast groups: a word for each copy, with the egress_rid (high 32 bits) and the port */
    const u64 *mirrors;    /* mirroring sessions: one word, a port or MIRROR_GROUP plus a group */
    const u64 *value_sets; /* for each field of each member value and mask, or lowest and highest value; two words each */
    const u64 *host_ports; /* another directory, without words: the ports to the host (PNA) */
    u32 *flow_ids;         /* the last flow id that a packet got (PNA) */
    u64 listens;           /* whether the host wants the messages that the program logs */
};

#define MIRROR_GROUP (1ULL << 32)

/* The state of one thread. */
struct worker {
    const struct cells *counters; /* a cell is a struct count */
    const struct cells *direct;   /* the direct counter of each table (struct count); without cells if the table does not count */
    const struct cells *hits;     /* the time of each entry's last hit (u64) for each table; without cells if it has no timeouts */
    struct count *drops;
    u64 seed;
    u64 clock;   /* the time that packets see, in microseconds */
    u8 *digests; /* digests and messages: each is its number and size (u32 each), its values, and zeros up to a multiple of 8 bytes */
    u64 digests_used, digests_capacity; /* bytes in use, and the size of the buffer in bytes */
    u64 digests_lost;             /* number of digests lost because the buffer was full */
    struct strait_packet **free_packets; /* a stack of free packet buffers for clones */
    u64 free_count;
    struct strait_packet **sent; /* the packets to send, in order */
    u64 sent_count;
    struct flow_cache *flows; /* for each table the free rows that the worker keeps at hand; 0 if no table learns */
    const u64 *queued;        /* a bit for each port that has a queue. This and the next two are for programs with queues */
    void *waiting;            /* the packets for the queues of their ports, in order */
    u64 waiting_count;
};

/* A packet and its buffer, which belong to the host. The program may write the packet, its headroom and its tailroom. */
struct strait_packet {
    u8 *data;
    u32 length;
    u32 headroom;
    u32 tailroom;
    u32 port;    /* on entry the ingress port; for a sent packet the egress port */
    u32 verdict; /* SENT or DROPPED */
    u32 reason;  /* the drop reason of a dropped packet */
    u32 capacity; /* size of the buffer in bytes, including headroom and tailroom */
    u32 flags;    /* PARTIAL: the TCP or UDP checksum field holds the sum over the pseudo-header, not complemented */
    u32 token;    /* a number that the host chooses; a copy has the number of its original */
};

enum { PARTIAL = 1 };

enum { SENT = 1, DROPPED = 2 };

/* The part of a packet's state that does not depend on the program: where its bytes are, and the memory that it uses. */
struct frame {
    u8 *data;
    u32 headroom, tailroom;
    u32 flags;
    const struct shared *shared;
    struct worker *worker;
};

/* Returns the next random number (xorshift64*, Vigna 2016). */
INLINE u64 random_u64(struct worker *w)
{
    w->seed ^= w->seed >> 12;
    w->seed ^= w->seed << 25;
    w->seed ^= w->seed >> 27;
    return w->seed * 0x2545f4914f6cdd1dULL;
}

INLINE struct count *counter_cell(const struct worker *w, u32 counter, u64 index)
{
    const struct cells *c = &w->counters[counter];
    return index < c->size ? (struct count *)c->cells + index : 0;
}

/* Returns a register's cell, or 0 if the index is too large. All workers share the registers. If two workers write one cell at the
 * same time, one write is lost, as on any multi-core switch without locks. */
INLINE u64 *register_cell(const struct shared *shared, u32 number, u64 index)
{
    const struct cells *r = &shared->registers[number];
    return index < r->size ? (u64 *)r->cells + index : 0;
}

/* Returns the words of an id in a directory, of which the first is their number; or 0 if the directory lacks the id. */
INLINE const u64 *find_id(const u64 *directory, u64 id)
{
    u64 low = 0, high = directory ? directory[0] : 0;
    while (low < high) {
        u64 middle = (low + high) / 2;
        const u64 *entry = &directory[1 + 2 * middle];
        if (entry[0] == id)
            return (const u64 *)entry[1];
        if (entry[0] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* Returns whether a port leads to the host (PNA). Other ports lead to the network. */
INLINE u32 is_host_port(const struct shared *shared, u32 port)
{
    return find_id(ACQUIRE(shared->host_ports), port) != 0;
}

/* Returns whether a member of a value set matches `keys`. `ranges` has a bit for each field that is matched as a range. */
static UNUSED int is_member(const struct shared *shared, u32 set, const u128 *keys, u32 parts, u64 ranges)
{
    const u64 *words = find_id(ACQUIRE(shared->value_sets), set);
    u64 left = words ? words[0] : 0;
    for (const u64 *m = words + 1; left; left -= 4 * parts, m += 4 * parts) {
        u32 i = 0;
        for (; i < parts; i++) {
            u128 a = U128(m[4 * i + 1], m[4 * i]), b = U128(m[4 * i + 3], m[4 * i + 2]);
            if (ranges >> i & 1 ? keys[i] < a || keys[i] > b : (keys[i] & b) != a)
                break;
        }
        if (i == parts)
            return 1;
    }
    return 0;
}

/* A token bucket of a meter with two rates and three colours (RFC 2698). dataplane::meter is the same in Rust. */
struct token_bucket {
    double per_microsecond, tokens;
    u64 burst, filled; /* the largest number of tokens, and the time of the last refill in microseconds */
};

struct meter {
    u64 lock, rates;
    struct token_bucket buckets[2];
};

/* Returns the colour of a packet of `units` units at the time `now`. All workers share a meter, so its spin lock is held, but only
 * within this function. */
static UNUSED u8 execute_meter(struct meter *m, u64 now, u64 units)
{
    u8 colour = 0;
    if (!__atomic_load_n(&m->rates, __ATOMIC_RELAXED))
        return 0;
    while (__atomic_exchange_n(&m->lock, 1, __ATOMIC_ACQUIRE))
        ;
    for (u64 i = 0; i < m->rates; i++) {
        struct token_bucket *b = &m->buckets[i];
        double waited = now > b->filled ? (double)(now - b->filled) : 0, most = (double)b->burst;
        double tokens = b->tokens + waited * b->per_microsecond;
        b->tokens = tokens < most ? tokens : most;
        b->filled = now > b->filled ? now : b->filled;
    }
    for (u64 i = m->rates; i-- > 0;) {
        struct token_bucket *b = &m->buckets[i];
        if (b->tokens < (double)units) {
            colour = i + 1;
            break;
        }
        b->tokens -= (double)units;
    }
    __atomic_store_n(&m->lock, 0, __ATOMIC_RELEASE);
    return colour;
}

INLINE u8 meter_colour(const struct shared *shared, const struct worker *w, u32 number, u64 index, u64 units)
{
    const struct cells *c = &shared->meters[number];
    return index < c->size ? execute_meter((struct meter *)c->cells + index, w->clock, units) : 0;
}

/* Allocates a digest or a message with `bytes` bytes of values, and returns the zeroed values; or 0 if the buffer is full. */
INLINE u8 *add_digest(struct worker *w, u32 number, u32 bytes)
{
    u64 whole = 8 + ((u64)(bytes + 7) & ~7ULL);
    if (w->digests_capacity - w->digests_used < whole) {
        w->digests_lost++;
        return 0;
    }
    u8 *at = w->digests + w->digests_used;
    w->digests_used += whole;
    ((u32 *)at)[0] = number;
    ((u32 *)at)[1] = bytes;
    __builtin_memset(at + 8, 0, whole - 8);
    return at + 8;
}

/* The action data of the `count` members that an entry with an action profile may run. */
struct members {
    u64 count;
    const u8 *data[];
};

/* The next functions compute the same hashes as dataplane::hash. The CRCs have reflected polynomials, and take four bits a step. */
static UNUSED u32 update_crc32(u32 crc, const u8 *p, u32 n)
{
    static const u32 table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    for (crc = ~crc; n; n--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static UNUSED u64 hash_crc32(const u8 *p, u32 n)
{
    return update_crc32(0, p, n);
}

static UNUSED u16 update_crc16(u16 crc, const u8 *p, u32 n)
{
    static const u16 table[16] = {
        0x0000, 0xcc01, 0xd801, 0x1400, 0xf001, 0x3c00, 0x2800, 0xe401,
        0xa001, 0x6c00, 0x7800, 0xb401, 0x5000, 0x9c01, 0x8801, 0x4400,
    };
    for (; n; n--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

static UNUSED u64 hash_crc16(const u8 *p, u32 n)
{
    return update_crc16(0, p, n);
}

/* Returns the hash of a key. dataplane::memory is the same in Rust. */
INLINE u64 hash_key(const u64 *key, u32 words)
{
    u64 h = 0x9e3779b97f4a7c15ULL;
    for (u32 i = 0; i < words; i++) {
        h = (h ^ key[i]) * 0xff51afd7ed558ccdULL;
        h ^= h >> 32;
    }
    return h;
}

/* Returns the tag for a hash. Its lowest bit is set, so it is never 0, the tag of a free slot. */
INLINE u16 tag_of(u64 hash)
{
    return (u16)(hash >> 48) | 1;
}

typedef int (*row_test)(const struct row *row, const u8 *key);

/* Returns whether row `a` wins over row `b`. `b` may be 0. */
INLINE int better(const struct row *a, const struct row *b)
{
    return !b || a->rank > b->rank || (a->rank == b->rank && a->age < b->age);
}

typedef u16 tags_of_bucket __attribute__((vector_size(16), aligned(4)));
typedef char bytes_of_tags __attribute__((vector_size(16)));

/* Compares all six tags of a bucket with `tag`, and returns a set of bits: bit 2 * i if tag i is equal. The vector instructions
 * compare them at once; docs/native.md states how much slower single comparisons are. */
INLINE u32 tags_equal(const struct bucket *b, u16 tag)
{
#ifdef __SSE2__
    tags_of_bucket same = (tags_of_bucket)(*(const volatile tags_of_bucket *)b->tags == tag);
    return __builtin_ia32_pmovmskb128((bytes_of_tags)same) & 0x555;
#else
    u32 hits = 0;
    for (u32 i = 0; i < 6; i++)
        hits |= (u32)(__atomic_load_n(&b->tags[i], __ATOMIC_ACQUIRE) == tag) << 2 * i;
    return hits;
#endif
}

/* Returns the row with a key, or 0. The search begins at bucket `b` and follows its overflow chain. */
INLINE const struct row *find_from(const struct bucket *b, u16 tag, const struct tuple *t, const u64 *key, u32 words)
{
    for (;;) {
        for (u32 hits = tags_equal(b, tag); hits; hits &= hits - 1) {
            const struct row *row = ACQUIRE(b->rows[__builtin_ctz(hits) / 2]);
            if (row && !__builtin_memcmp(row->bytes, key, words * 8))
                return row;
        }
        u32 more = __atomic_load_n(&b->overflow, __ATOMIC_ACQUIRE);
        if (!more)
            return 0;
        b = &t->overflow[more - 1];
    }
}

/* Returns whether a row matches a key under the row's own mask. */
INLINE int row_matches(const struct row *row, const u64 *key, u32 words)
{
    const u64 *value = (const u64 *)row->bytes, *mask = value + words;
    u64 differs = 0;
    for (u32 i = 0; i < words; i++)
        differs |= (key[i] & mask[i]) ^ value[i];
    return !differs;
}

/* Returns the better of `best` and the best row for a key in tuple `t`. The tuple's mask has a subset of the bits of each row's
 * mask, so each candidate is compared under its own mask. */
INLINE const struct row *best_in(const struct tuple *t, const u64 *key, u32 words, row_test test, const struct row *best)
{
    u64 masked[words];
    for (u32 i = 0; i < words; i++)
        masked[i] = key[i] & t->mask[i];
    u64 hash = hash_key(masked, words);
    const struct bucket *b = &t->buckets[hash & t->bucket_mask];
    for (;;) {
        for (u32 hits = tags_equal(b, tag_of(hash)); hits; hits &= hits - 1) {
            const struct row *row = ACQUIRE(b->rows[__builtin_ctz(hits) / 2]);
            if (row && better(row, best) && row_matches(row, key, words) && (!test || test(row, (const u8 *)key)))
                best = row;
        }
        u32 more = __atomic_load_n(&b->overflow, __ATOMIC_ACQUIRE);
        if (!more)
            return best;
        b = &t->overflow[more - 1];
    }
}

/* Looks up a key of at most two bytes. The table's index is an array of rows, one for each key. */
INLINE const struct row *find_indexed(const struct table *table, u32 at)
{
    return ACQUIRE(((const struct row *const *)table->index)[at]);
}

/* Looks up a key in a table of exact entries, which has at most one tuple. Its mask has all bits set. */
INLINE const struct row *find_exact(const struct table *table, const u64 *key, u32 words)
{
    const struct index *index = ACQUIRE(table->index);
    if (!index->count)
        return 0;
    const struct tuple *t = &index->tuples[0];
    u64 hash = hash_key(key, words);
    return find_from(&t->buckets[hash & t->bucket_mask], tag_of(hash), t, key, words);
}

/* Looks up a key by tuple-space search (Srinivasan, Suri, Varghese 1999). The search ends when no further tuple can hold a better
 * entry. */
INLINE const struct row *find_best(const struct table *table, const u64 *key, u32 words, row_test test)
{
    const struct index *index = ACQUIRE(table->index);
    const struct row *best = 0;
    for (u64 n = 0; n < index->count; n++) {
        const struct tuple *t = &index->tuples[n];
        if (best && t->best < best->rank)
            break;
        best = best_in(t, key, words, test, best);
    }
    return best;
}

/* The number of packets that are processed together. */
#ifndef BURST
#define BURST 32
#endif

#define PREFETCH(p) __builtin_prefetch(p)
#define PREFETCH_WRITE(p) __builtin_prefetch(p, 1)

INLINE int is_empty(const struct table *table)
{
    const struct index *index = ACQUIRE(table->index);
    return !index->count;
}

/* Calls find_exact for each key. The loads of all keys are prefetched together, so that the waits for memory overlap. */
static UNUSED void find_exact_bulk(const struct table *table, const u64 *const *keys, const struct row **rows, u32 count, u32 words)
{
    const struct index *index = ACQUIRE(table->index);
    const struct bucket *at[BURST];
    u16 tags[BURST];
    if (!index->count) {
        for (u32 i = 0; i < count; i++)
            rows[i] = 0;
        return;
    }
    const struct tuple *t = &index->tuples[0];
    for (u32 i = 0; i < count; i++) {
        u64 hash = hash_key(keys[i], words);
        tags[i] = tag_of(hash);
        at[i] = &t->buckets[hash & t->bucket_mask];
        PREFETCH(at[i]);
    }
    for (u32 i = 0; i < count; i++)
        for (u32 hits = tags_equal(at[i], tags[i]); hits; hits &= hits - 1)
            PREFETCH(ACQUIRE(at[i]->rows[__builtin_ctz(hits) / 2]));
    for (u32 i = 0; i < count; i++)
        rows[i] = find_from(at[i], tags[i], t, keys[i], words);
}

/* A trie for longest-prefix match. dataplane::memory::trie builds it and explains its design. A value is the index of a row; 0 means
 * that no prefix matches. */
struct lpm {
    const u32 *root;  /* indexed by a key's first 24 bits: a value times 2, or the first word of a link plus 1 */
    const u64 *links; /* the links, two words each: a value, and the address of the subtree, plus 1 if that is a list */
    u64 empty_prefix; /* the value of the empty prefix, or 0 */
    const struct row *const *rows; /* indexed by value */
};

/* A quarter of a node, for 64 values of the node's byte. A run is a range of byte values in one group that have the same value. */
struct lpm_group {
    u64 runs; /* bitmap of the byte values where a run begins */
    u64 children; /* bitmap of the byte values that have a child */
    u32 runs_before, children_before; /* the number of runs and children in the groups before this one */
    u64 pointers; /* the offset in bytes from the node to its array of child addresses */
};

/* A node, which consumes one byte of a key. */
struct lpm_node {
    struct lpm_group groups[4];
    u32 values[]; /* the value of each run */
};

/* A list of up to four prefixes, which ends a lookup. */
struct lpm_list {
    u64 bits[4];   /* the prefixes' bits below the list, left-aligned, longest prefix first */
    u32 values[4];
    u8 shifts[8];  /* for each prefix the number of bits that it does not compare */
    u64 used;      /* one bit for each prefix that is in use */
};

/* Returns the value of the longest prefix in a list that matches `bits`, or `best` if none does. */
INLINE u32 lpm_in_list(const struct lpm_list *l, u64 bits, u32 best)
{
    u32 hits = 0, used = (u32)ACQUIRE(l->used);
    for (u32 i = 0; i < 4; i++)
        hits |= (u32)((bits ^ l->bits[i]) >> l->shifts[i] == 0) << i;
    hits &= used;
    u32 value = l->values[__builtin_ctz(hits | 16) & 3];
    return hits ? value : best;
}

INLINE const struct lpm_list *lpm_list(u64 pointer)
{
    return (const struct lpm_list *)(pointer - 1);
}

/* Returns the group of a node that covers a byte value. */
INLINE const struct lpm_group *lpm_group(u64 pointer, u8 byte)
{
    /* This computes with integers, because callers also prefetch the group where `pointer` is no node. */
    return (const struct lpm_group *)(pointer + (byte >> 6) * sizeof(struct lpm_group));
}

/* Returns the address of a byte's value in a node, and sets `child` to the address of its child pointer, or to `none`. */
INLINE const u32 *lpm_step(u64 pointer, u8 byte, const u64 *none, const u64 **child)
{
    const struct lpm_group *g = lpm_group(pointer, byte);
    u64 upto = ~0ULL >> (63 - (byte & 63));
    const u64 *children = (const u64 *)(pointer + g->pointers) + g->children_before + __builtin_popcountll(g->children & upto) - 1;
    *child = g->children >> (byte & 63) & 1 ? children : none;
    return &((const struct lpm_node *)pointer)->values[g->runs_before + __builtin_popcountll(g->runs & upto) - 1];
}

/* Returns a key's index in the root: its first 24 bits. */
INLINE u32 lpm_root_index(const u64 *key)
{
    return (u32)(bswap64(key[0]) >> 40);
}

/* Returns the value of the longest prefix that matches a key, or 0 if none does. */
INLINE u32 lpm_value(const struct lpm *l, const u64 *key)
{
    static const u64 none = 0;
    u32 slot = lpm_root_index(key);
    u32 entry = ACQUIRE(l->root[slot]);
    u32 best = entry >> 1;
    u64 at = 0;
    if (entry & 1) {
        const u64 *link = &l->links[entry & ~1u];
        at = ACQUIRE(link[1]);
        best = (u32)ACQUIRE(link[0]);
    }
    const u8 *byte = (const u8 *)key + 3;
    for (; at && !(at & 1); byte++) {
        const u64 *child;
        u32 value = *lpm_step(at, *byte, &none, &child);
        best = value ? value : best;
        at = ACQUIRE(*child);
    }
    if (at)
        best = lpm_in_list(lpm_list(at), rd64(byte), best);
    return best ? best : (u32)l->empty_prefix;
}

static UNUSED const struct row *find_lpm(const struct table *table, const u64 *key)
{
    const struct lpm *l = (const struct lpm *)ACQUIRE(table->index);
    u32 best = lpm_value(l, key);
    return best ? ACQUIRE(l->rows[best]) : 0;
}

/* Computes lpm_value for each key. All keys go down the trie together, one level at a time, with prefetches, so that the waits for
 * memory overlap. The lists are searched at the end, for all keys. */
INLINE void lpm_values(const struct lpm *l, const u64 *const *keys, u32 *best, u32 count)
{
    static const u64 none = 0;
    u32 slots[BURST], next = 0, live, lists = 0;
    u64 at[BURST], list[BURST];
    u8 key_of[BURST], list_key[BURST], depth[BURST];
    for (u32 i = 0; i < count; i++) {
        slots[i] = lpm_root_index(keys[i]);
        PREFETCH(&l->root[slots[i]]);
    }
    for (u32 i = 0; i < count; i++) {
        u32 entry = ACQUIRE(l->root[slots[i]]);
        best[i] = entry >> 1;
        at[next] = entry & ~1u;
        key_of[next] = i;
        next += entry & 1;
    }
    for (u32 j = 0; j < next; j++)
        PREFETCH(&l->links[at[j]]);
    live = next;
    next = 0;
    for (u32 j = 0; j < live; j++) {
        u32 i = key_of[j];
        const u64 *link = &l->links[at[j]];
        u64 pointer = ACQUIRE(link[1]);
        best[i] = (u32)ACQUIRE(link[0]);
        u32 is_list = pointer & 1, is_node = pointer && !is_list;
        PREFETCH(is_list ? (const void *)lpm_list(pointer) : lpm_group(pointer, ((const u8 *)keys[i])[3]));
        at[next] = pointer;
        key_of[next] = i;
        next += is_node;
        list[lists] = pointer;
        list_key[lists] = i;
        depth[lists] = 3;
        lists += is_list;
    }
    for (u32 d = 3; (live = next); d++) {
        const u32 *value[BURST];
        const u64 *child[BURST];
        for (u32 j = 0; j < live; j++) {
            value[j] = lpm_step(at[j], ((const u8 *)keys[key_of[j]])[d], &none, &child[j]);
            PREFETCH(value[j]);
            PREFETCH(child[j]);
        }
        next = 0;
        for (u32 j = 0; j < live; j++) {
            u32 i = key_of[j];
            best[i] = *value[j] ? *value[j] : best[i];
            u64 pointer = ACQUIRE(*child[j]);
            u32 is_list = pointer & 1, is_node = pointer && !is_list;
            PREFETCH(is_list ? (const void *)lpm_list(pointer) : lpm_group(pointer, ((const u8 *)keys[i])[d + 1]));
            at[next] = pointer;
            key_of[next] = i;
            next += is_node;
            list[lists] = pointer;
            list_key[lists] = i;
            depth[lists] = d + 1;
            lists += is_list;
        }
    }
    for (u32 j = 0; j < lists; j++) {
        u32 i = list_key[j];
        best[i] = lpm_in_list(lpm_list(list[j]), rd64((const u8 *)keys[i] + depth[j]), best[i]);
    }
    for (u32 i = 0; i < count; i++)
        best[i] = best[i] ? best[i] : (u32)l->empty_prefix;
}

/* Calls find_lpm for each key, with prefetches. */
static UNUSED void find_lpm_bulk(const struct table *table, const u64 *const *keys, const struct row **rows, u32 count)
{
    const struct lpm *l = (const struct lpm *)ACQUIRE(table->index);
    u32 best[BURST];
    lpm_values(l, keys, best, count);
    for (u32 i = 0; i < count; i++)
        PREFETCH(&l->rows[best[i]]);
    for (u32 i = 0; i < count; i++) {
        rows[i] = best[i] ? ACQUIRE(l->rows[best[i]]) : 0;
        PREFETCH(rows[i]);
    }
}

/* Returns the address of the `len` bytes at offset `at`, or 0 if the packet is too short. */
#define packet_at(pkt, at, len) ((at) + (u64)(len) <= (pkt)->length ? (pkt)->frame.data + (at) : 0)

/* Returns the sum of the 16-bit words of `length` bytes, in host order and folded. An odd last byte is padded with zero. */
INLINE u64 bytes_sum(const u8 *p, u64 length)
{
    u64 sum = 0;
    for (; length >= 8; p += 8, length -= 8)
        sum += word_sum64(rd64(p));
    for (; length >= 2; p += 2, length -= 2)
        sum += rd16(p);
    return fold(length ? sum + (u32)(*p << 8) : sum);
}

static UNUSED u64 hash_csum16(const u8 *p, u32 n)
{
    return (u16)~bytes_sum(p, n);
}

/* Updates a checksum field that holds only the sum over the pseudo-header, not complemented. */
INLINE u16 update_partial_checksum(u16 old, u64 removed, u64 added)
{
    return fold(old + NEGATED(removed) + added);
}
