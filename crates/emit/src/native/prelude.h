
/* What every native program of Strait has: the memory that it shares with its host, and look-ups in it. The host's side of these
 * structures is crates/abi/src/native.rs. The host is the only writer; a reader takes no lock. */
#define UNUSED __attribute__((unused))
/* In tests, what nobody has written yet is a pattern: reading it makes a difference, and as an offset it leads far away. */
#ifdef STRAIT_CHECKED
#define UNSET(p, size) __builtin_memset(p, 0xa5, size)
#else
#define UNSET(p, size)
#endif
#define ACQUIRE(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/* Whether two values are equal. In a function of its own, because gcc reads neighbouring fields that are compared side by side in
 * one load, which then waits for the store of each to reach the cache. */
INLINE int is(u64 a, u64 b)
{
    return a == b;
}

/* An entry, which nobody changes once it can be found. Behind it: the key (masked), for tables with ranges their lower and upper
 * ends, then the action's number and parameters. */
struct row {
    s64 rank;    /* the larger wins, */
    u64 age;     /* then the smaller */
    u64 counter; /* its cell of the direct counter */
    u64 none;
    u8 bytes[];
};

/* One cache line of a hash table. A tag of 0 is a free place. */
struct bucket {
    u16 tags[6];
    u32 overflow; /* 1 + the bucket that goes on with this one, or 0 */
    const struct row *rows[6];
};

/* All entries with equal masks. */
struct tuple {
    s64 best; /* no entry has a larger rank */
    const u64 *mask;
    const struct bucket *buckets;
    const struct bucket *overflow;
    u64 last; /* number of buckets - 1, a power of two - 1 */
};

/* Best rank first. */
struct index {
    u64 count;
    struct tuple tuples[];
};

struct table {
    const struct index *index;
    const u8 *miss; /* the default action's number and parameters */
};

struct cells {
    void *cells;
    u64 size;
};

struct shared {
    const struct table *tables;
    const struct cells *registers; /* u64 */
    const struct cells *meters;    /* struct meter */
    /* Directories: the number of ids; then each id, ascending, and a pointer to its words: their number, and they. */
    const u64 *groups;     /* for each copy its egress_rid (upper half) and port */
    const u64 *mirrors;    /* one word: a port, or a group */
    const u64 *value_sets; /* for each member and each part of it value and mask, or lowest and highest, two words each */
};

#define MIRROR_GROUP (1ULL << 32)

/* What one thread has for itself. */
struct worker {
    const struct cells *counters; /* struct count */
    const struct cells *direct;   /* struct count, of each table; no cells where it does not count */
    const struct cells *hits;     /* u64, of each table: when its entries were hit last; no cells where nobody asks */
    struct count *drops;
    u64 seed;
    u64 clock;   /* microseconds */
    u8 *digests; /* messages: number and bytes (u32 each), values, zeros up to a multiple of 8 */
    u64 digests_used, digests_room;
    u64 digests_lost;             /* messages that found no room */
    struct strait_packet **spare; /* buffers for copies, taken from the end */
    u64 spares;
    struct strait_packet **sent; /* what leaves, in order */
    u64 sents;
};

/* A packet of the host's. Before and behind its bytes there is room that may be written. */
struct strait_packet {
    u8 *data;
    u32 length;
    u32 headroom;
    u32 tailroom;
    u32 port;    /* where it came in; then where it goes out */
    u32 verdict; /* SENT, DROPPED */
    u32 reason;  /* of a drop */
    u32 capacity; /* bytes of its buffer, room before and behind included */
    u32 flags;    /* PARTIAL: its TCP or UDP checksum is the sum of the pseudo-header alone, not complemented */
    u32 token;    /* the host's; a copy has its original's */
};

enum { PARTIAL = 1 };

enum { SENT = 1, DROPPED = 2 };

/* A packet at work. */
struct frame {
    u8 *data;
    u32 headroom, tailroom;
    u32 flags;
    const struct shared *shared;
    struct worker *worker;
};

/* The next random number (xorshift64*, Vigna 2016). */
INLINE u64 dice(struct worker *w)
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

/* All workers share registers; two that write one cell race, as on any multi-core switch without locks. */
INLINE u64 *register_cell(const struct shared *shared, u32 number, u64 index)
{
    const struct cells *r = &shared->registers[number];
    return index < r->size ? (u64 *)r->cells + index : 0;
}

/* The words of an id in a directory, their number first; 0 if it is not there. */
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

/* Whether keys are together a member of a value set; `ranges` has a bit for each part that is a range. */
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

/* Two rates, three colours (RFC 2698); dataplane::meter has the same in Rust. */
struct bucket_of_tokens {
    double per_microsecond, tokens;
    u64 burst, filled;
};

struct meter {
    u64 lock, rates;
    struct bucket_of_tokens buckets[2];
};

/* All workers share a meter: one at a time, and only for what stands here. */
static UNUSED u8 execute_meter(struct meter *m, u64 now, u64 units)
{
    u8 colour = 0;
    if (!__atomic_load_n(&m->rates, __ATOMIC_RELAXED))
        return 0;
    while (__atomic_exchange_n(&m->lock, 1, __ATOMIC_ACQUIRE))
        ;
    for (u64 i = 0; i < m->rates; i++) {
        struct bucket_of_tokens *b = &m->buckets[i];
        double waited = now > b->filled ? (double)(now - b->filled) : 0, most = (double)b->burst;
        double tokens = b->tokens + waited * b->per_microsecond;
        b->tokens = tokens < most ? tokens : most;
        b->filled = now > b->filled ? now : b->filled;
    }
    for (u64 i = m->rates; i-- > 0;) {
        struct bucket_of_tokens *b = &m->buckets[i];
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

/* Room for a message of so many bytes, zeroed, or 0. */
INLINE u8 *message(struct worker *w, u32 number, u32 bytes)
{
    u64 whole = 8 + ((u64)(bytes + 7) & ~7ULL);
    if (w->digests_room - w->digests_used < whole) {
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

/* Where the entries of a table lead to members: those that it may run, `count` of them. */
struct choices {
    u64 count;
    const u8 *data[];
};

/* Bits of a value, most significant first, from bit `at` of zeroed bytes on. */
INLINE void put_bits(u8 *bytes, u32 at, u32 width, u128 value)
{
    while (width) {
        u32 room = 8 - at % 8, part = width < room ? width : room;
        bytes[at / 8] |= (u8)(((value >> (width - part)) & ((1u << part) - 1)) << (room - part));
        at += part;
        width -= part;
    }
}

/* Hash functions as dataplane::hash has them: reflected polynomials, four bits at a time. */
static UNUSED u64 hash_crc32(const u8 *p, u32 n)
{
    static const u32 table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    u32 crc = ~0u;
    for (; n; n--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static UNUSED u64 hash_crc16(const u8 *p, u32 n)
{
    static const u16 table[16] = {
        0x0000, 0xcc01, 0xd801, 0x1400, 0xf001, 0x3c00, 0x2800, 0xe401,
        0xa001, 0x6c00, 0x7800, 0xb401, 0x5000, 0x9c01, 0x8801, 0x4400,
    };
    u16 crc = 0;
    for (; n; n--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

static UNUSED u64 hash_identity(const u8 *p, u32 n)
{
    u64 value = 0;
    for (u32 i = 0; i < n && i < 8; i++)
        value = value << 8 | p[i];
    return value;
}

static UNUSED u64 hash_xor16(const u8 *p, u32 n)
{
    u16 value = 0;
    for (; n >= 2; p += 2, n -= 2)
        value ^= rd16(p);
    return n ? (u16)(value ^ *p << 8) : value;
}

/* dataplane::memory has the same in Rust. */
INLINE u64 hash_key(const u64 *key, u32 words)
{
    u64 h = 0x9e3779b97f4a7c15ULL;
    for (u32 i = 0; i < words; i++) {
        h = (h ^ key[i]) * 0xff51afd7ed558ccdULL;
        h ^= h >> 32;
    }
    return h;
}

INLINE u16 tag_of(u64 hash)
{
    return (u16)(hash >> 48) | 1;
}

typedef int (*row_test)(const struct row *row, const u8 *key);

INLINE int better(const struct row *a, const struct row *b)
{
    return !b || a->rank > b->rank || (a->rank == b->rank && a->age < b->age);
}

typedef u16 tags_of_bucket __attribute__((vector_size(16), aligned(4)));
typedef char bytes_of_tags __attribute__((vector_size(16)));

/* Two bits for each of the six tags that equals this one. All at once: docs/native.md has what one by one costs. */
INLINE u32 tags_equal(const struct bucket *b, u16 tag)
{
#ifdef __SSE2__
    tags_of_bucket equal = (tags_of_bucket)(*(const volatile tags_of_bucket *)b->tags == tag);
    return __builtin_ia32_pmovmskb128((bytes_of_tags)equal) & 0x555;
#else
    u32 hits = 0;
    for (u32 i = 0; i < 6; i++)
        hits |= (u32)(__atomic_load_n(&b->tags[i], __ATOMIC_ACQUIRE) == tag) << 2 * i;
    return hits;
#endif
}

/* The row of a key, from the bucket on where its tag would be. */
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

/* Whether a row with a mask of its own matches a key. */
INLINE int covers(const struct row *row, const u64 *key, u32 words)
{
    const u64 *value = (const u64 *)row->bytes, *mask = value + words;
    u64 differs = 0;
    for (u32 i = 0; i < words; i++)
        differs |= (key[i] & mask[i]) ^ value[i];
    return !differs;
}

/* The better of `best` and a tuple's best row for a key. A tuple's mask is part of its rows' masks. */
INLINE const struct row *best_in(const struct tuple *t, const u64 *key, u32 words, row_test test, const struct row *best)
{
    u64 masked[words];
    for (u32 i = 0; i < words; i++)
        masked[i] = key[i] & t->mask[i];
    u64 hash = hash_key(masked, words);
    const struct bucket *b = &t->buckets[hash & t->last];
    for (;;) {
        for (u32 hits = tags_equal(b, tag_of(hash)); hits; hits &= hits - 1) {
            const struct row *row = ACQUIRE(b->rows[__builtin_ctz(hits) / 2]);
            if (row && better(row, best) && covers(row, key, words) && (!test || test(row, (const u8 *)key)))
                best = row;
        }
        u32 more = __atomic_load_n(&b->overflow, __ATOMIC_ACQUIRE);
        if (!more)
            return best;
        b = &t->overflow[more - 1];
    }
}

/* Tables whose keys have two bytes at most: the index is an array of rows. */
INLINE const struct row *find_indexed(const struct table *table, u32 at)
{
    return ACQUIRE(((const struct row *const *)table->index)[at]);
}

/* Tables whose entries all have one mask: all bits. */
INLINE const struct row *find_exact(const struct table *table, const u64 *key, u32 words)
{
    const struct index *index = ACQUIRE(table->index);
    if (!index->count)
        return 0;
    const struct tuple *t = &index->tuples[0];
    u64 hash = hash_key(key, words);
    return find_from(&t->buckets[hash & t->last], tag_of(hash), t, key, words);
}

/* Tuple-space search (Srinivasan, Suri, Varghese 1999): the search ends as soon as no tuple can hold a better entry. */
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

/* Packets that are worked on together. */
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

/* As find_exact for each key: one packet's wait for memory is another one's work. */
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
        at[i] = &t->buckets[hash & t->last];
        PREFETCH(at[i]);
    }
    for (u32 i = 0; i < count; i++)
        for (u32 hits = tags_equal(at[i], tags[i]); hits; hits &= hits - 1)
            PREFETCH(ACQUIRE(at[i]->rows[__builtin_ctz(hits) / 2]));
    for (u32 i = 0; i < count; i++)
        rows[i] = find_from(at[i], tags[i], t, keys[i], words);
}

/* Longest-prefix match. The host's side, and what it is: dataplane::memory::trie. */
struct lpm {
    const u32 *root;  /* by a key's first 24 bits: a value, shifted left by one; or a hook, likewise, and 1 */
    const u64 *hooks; /* two words each: a value, and what hangs below: an address, and 1 more for a list */
    u64 fallback;
    const struct row *const *rows; /* by value */
};

struct lpm_group {
    u64 runs; /* of 64 bytes, where runs of equal values begin */
    u64 kids; /* which have a child */
    u32 runs_before, kids_before;
    u64 pointers; /* to children, in bytes from the node's beginning */
};

struct lpm_node {
    struct lpm_group groups[4];
    u32 values[];
};

struct lpm_list {
    u64 bits[4];   /* longest prefix first */
    u32 values[4];
    u8 shifts[8];  /* bits that do not count */
    u64 used;      /* a bit each */
};

/* The value of the longest prefix in a list, or `best`. */
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

/* The group of a byte in a node. */
INLINE const struct lpm_group *lpm_group(u64 pointer, u8 byte)
{
    /* As a number: what is prefetched may be the group of no node at all. */
    return (const struct lpm_group *)(pointer + (byte >> 6) * sizeof(struct lpm_group));
}

/* Where a byte's value and child stand in a node; no child is `none`. */
INLINE const u32 *lpm_step(u64 pointer, u8 byte, const u64 *none, const u64 **kid)
{
    const struct lpm_group *g = lpm_group(pointer, byte);
    u64 upto = ~0ULL >> (63 - (byte & 63));
    const u64 *kids = (const u64 *)(pointer + g->pointers) + g->kids_before + __builtin_popcountll(g->kids & upto) - 1;
    *kid = g->kids >> (byte & 63) & 1 ? kids : none;
    return &((const struct lpm_node *)pointer)->values[g->runs_before + __builtin_popcountll(g->runs & upto) - 1];
}

INLINE u32 lpm_slot(const u64 *key)
{
    return (u32)(bswap64(key[0]) >> 40);
}

/* The number of the row that a key leads to, or 0. */
INLINE u32 lpm_value(const struct lpm *l, const u64 *key)
{
    static const u64 none = 0;
    u32 slot = lpm_slot(key);
    u32 entry = ACQUIRE(l->root[slot]);
    u32 best = entry >> 1;
    u64 at = 0;
    if (entry & 1) {
        const u64 *hook = &l->hooks[entry & ~1u];
        at = ACQUIRE(hook[1]);
        best = (u32)ACQUIRE(hook[0]);
    }
    const u8 *byte = (const u8 *)key + 3;
    for (; at && !(at & 1); byte++) {
        const u64 *kid;
        u32 value = *lpm_step(at, *byte, &none, &kid);
        best = value ? value : best;
        at = ACQUIRE(*kid);
    }
    if (at)
        best = lpm_in_list(lpm_list(at), rd64(byte), best);
    return best ? best : (u32)l->fallback;
}

static UNUSED const struct row *find_lpm(const struct table *table, const u64 *key)
{
    const struct lpm *l = (const struct lpm *)ACQUIRE(table->index);
    u32 best = lpm_value(l, key);
    return best ? ACQUIRE(l->rows[best]) : 0;
}

/* As lpm_value for each key: a level at a time, so that one key's wait for memory is another one's work. What lists
 * hold is looked at last, for all keys. */
INLINE void lpm_values(const struct lpm *l, const u64 *const *keys, u32 *best, u32 count)
{
    static const u64 none = 0;
    u32 slots[BURST], next = 0, live, lists = 0;
    u64 at[BURST], list[BURST];
    u8 who[BURST], whose[BURST], depth[BURST];
    for (u32 i = 0; i < count; i++) {
        slots[i] = lpm_slot(keys[i]);
        PREFETCH(&l->root[slots[i]]);
    }
    for (u32 i = 0; i < count; i++) {
        u32 entry = ACQUIRE(l->root[slots[i]]);
        best[i] = entry >> 1;
        at[next] = entry & ~1u;
        who[next] = i;
        next += entry & 1;
    }
    for (u32 j = 0; j < next; j++)
        PREFETCH(&l->hooks[at[j]]);
    live = next;
    next = 0;
    for (u32 j = 0; j < live; j++) {
        u32 i = who[j];
        const u64 *hook = &l->hooks[at[j]];
        u64 pointer = ACQUIRE(hook[1]);
        best[i] = (u32)ACQUIRE(hook[0]);
        u32 is_list = pointer & 1, is_node = pointer && !is_list;
        PREFETCH(is_list ? (const void *)lpm_list(pointer) : lpm_group(pointer, ((const u8 *)keys[i])[3]));
        at[next] = pointer;
        who[next] = i;
        next += is_node;
        list[lists] = pointer;
        whose[lists] = i;
        depth[lists] = 3;
        lists += is_list;
    }
    for (u32 d = 3; (live = next); d++) {
        const u32 *value[BURST];
        const u64 *kid[BURST];
        for (u32 j = 0; j < live; j++) {
            value[j] = lpm_step(at[j], ((const u8 *)keys[who[j]])[d], &none, &kid[j]);
            PREFETCH(value[j]);
            PREFETCH(kid[j]);
        }
        next = 0;
        for (u32 j = 0; j < live; j++) {
            u32 i = who[j];
            best[i] = *value[j] ? *value[j] : best[i];
            u64 pointer = ACQUIRE(*kid[j]);
            u32 is_list = pointer & 1, is_node = pointer && !is_list;
            PREFETCH(is_list ? (const void *)lpm_list(pointer) : lpm_group(pointer, ((const u8 *)keys[i])[d + 1]));
            at[next] = pointer;
            who[next] = i;
            next += is_node;
            list[lists] = pointer;
            whose[lists] = i;
            depth[lists] = d + 1;
            lists += is_list;
        }
    }
    for (u32 j = 0; j < lists; j++) {
        u32 i = whose[j];
        best[i] = lpm_in_list(lpm_list(list[j]), rd64((const u8 *)keys[i] + depth[j]), best[i]);
    }
    for (u32 i = 0; i < count; i++)
        best[i] = best[i] ? best[i] : (u32)l->fallback;
}

/* As find_lpm for each key. */
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

/* `len` bytes at `at`, or 0. */
#define packet_at(pkt, at, len) ((at) + (u64)(len) <= (pkt)->length ? (pkt)->frame.data + (at) : 0)

/* The sum of bytes, in host order and folded. */
INLINE u64 bytes_sum(const u8 *p, u64 length)
{
    u64 sum = 0;
    for (; length >= 8; p += 8, length -= 8)
        sum += words64(rd64(p));
    for (; length >= 2; p += 2, length -= 2)
        sum += rd16(p);
    return fold(length ? sum + (u32)(*p << 8) : sum);
}

static UNUSED u64 hash_csum16(const u8 *p, u32 n)
{
    return (u16)~bytes_sum(p, n);
}

/* Less a sum, which is of headers' words and not folded: multiples of 0xffff are zero, and this one is larger than any such sum. */
#define WITHOUT(sum) ((0xffffULL << 32) - (sum))

/* A sum of the pseudo-header alone, which is not complemented. */
INLINE u16 updated_partial(u16 old, u64 removed, u64 added)
{
    return fold(old + WITHOUT(removed) + added);
}

/* An updated sum (RFC 1624): `removed` leaves it, `added` comes. Never the other zero: a sum over anything is not 0. */
INLINE u16 updated_sum(u16 old, u64 removed, u64 added)
{
    return ~fold((u16)~old + WITHOUT(removed) + added);
}
