
/* What every native program of Strait has: the memory that it shares with its host, and look-ups in it. The host's side of these
 * structures is crates/abi/src/native.rs. The host is the only writer; a reader takes no lock. */
#define UNUSED __attribute__((unused))
#define ACQUIRE(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

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
};

/* What one thread has for itself. */
struct worker {
    const struct cells *counters; /* struct count */
    const struct cells *direct;   /* struct count, of each table; no cells where it does not count */
    struct count *drops;
    u64 seed;
    u64 clock; /* microseconds */
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
};

enum { SENT = 1, DROPPED = 2 };

/* A packet at work. */
struct frame {
    u8 *data;
    u32 headroom, tailroom;
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

/* The best row of a tuple for a masked key. `whole` is the key without the mask, for the test that tables with ranges have.
 * `unique`: no two entries of a tuple have one masked key. */
INLINE const struct row *find_in(const struct tuple *t, const u64 *masked, const u8 *whole, u32 words, row_test test, int unique)
{
    u64 hash = hash_key(masked, words);
    u16 tag = tag_of(hash);
    const struct row *best = 0;
    const struct bucket *b = &t->buckets[hash & t->last];
    for (;;) {
        for (u32 i = 0; i < 6; i++) {
            if (__atomic_load_n(&b->tags[i], __ATOMIC_ACQUIRE) != tag)
                continue;
            const struct row *row = ACQUIRE(b->rows[i]);
            if (!row || __builtin_memcmp(row->bytes, masked, words * 8) || (test && !test(row, whole)))
                continue;
            if (unique)
                return row;
            if (better(row, best))
                best = row;
        }
        u32 more = __atomic_load_n(&b->overflow, __ATOMIC_ACQUIRE);
        if (!more)
            return best;
        b = &t->overflow[more - 1];
    }
}

/* Tables whose entries all have one mask: all bits. */
INLINE const struct row *find_exact(const struct table *table, const u64 *key, u32 words)
{
    const struct index *index = ACQUIRE(table->index);
    return index->count ? find_in(&index->tuples[0], key, 0, words, 0, 1) : 0;
}

/* Tuple-space search (Srinivasan, Suri, Varghese 1999): the search ends as soon as no tuple can hold a better entry. */
INLINE const struct row *find_best(const struct table *table, const u64 *key, u32 words, row_test test, int unique)
{
    const struct index *index = ACQUIRE(table->index);
    const struct row *best = 0;
    u64 masked[words];
    for (u64 n = 0; n < index->count; n++) {
        const struct tuple *t = &index->tuples[n];
        if (best && t->best < best->rank)
            break;
        for (u32 i = 0; i < words; i++)
            masked[i] = key[i] & t->mask[i];
        const struct row *row = find_in(t, masked, (const u8 *)key, words, test, unique);
        if (row && better(row, best))
            best = row;
    }
    return best;
}

/* `len` bytes at `at`, or 0. */
#define packet_at(pkt, at, len) ((at) + (u64)(len) <= (pkt)->length ? (pkt)->frame.data + (at) : 0)

/* The sum of bytes, in host order and folded. */
INLINE u32 bytes_sum(const u8 *p, u64 length)
{
    u64 sum = 0;
    for (; length >= 8; p += 8, length -= 8)
        sum += words64(rd64(p));
    for (; length >= 2; p += 2, length -= 2)
        sum += rd16(p);
    return fold(length ? sum + (u32)(*p << 8) : sum);
}

/* An updated sum (RFC 1624): `removed` leaves it, `added` comes. Never the other zero: a sum over anything is not 0. */
INLINE u16 updated_sum(u16 old, u32 removed, u32 added)
{
    u32 sum = fold((u64)(u16)~old + (u16)~removed + added);
    return ~(sum ? sum : 0xffff);
}
