
/* Tables that learn: packets add entries to them. dataplane::memory::flows is the host's part, and explains the design. */

/* A bucket: one cache line with eight slots. A slot with tag 0 is free. A row is a number, and 0 is no row. */
struct flow_bucket {
    u16 tags[8];
    u32 rows[8];
    u32 chain; /* the first of the rows for which no slot was free */
    u32 lock;  /* 1 while somebody adds or removes an entry */
    u64 reserved;
};

/* A row. A table's functions return it as a struct row, and know that it is none. */
struct flow_row {
    u64 timer;  /* FLOW_TIMED, when the timer was started in microseconds, the number of the profile; or 0 */
    u64 link;   /* FLOW_LIVE while the row is an entry, the next row of the chain, and in the low 32 bits the hash */
    u64 rest[]; /* the cell, if the table's entries have cells; the key; the action data */
};

#define FLOW_TIMED (1ULL << 63)
#define FLOW_LIVE (1ULL << 63)
enum { FLOW_PROFILE_BITS = 8, FLOW_CACHE = 15, FLOW_NEXT = 32 };
/* The indexes of words in the list of free rows. */
enum { FREE_USED = 0, FREE_LOCK = 16, FREE_COUNT = 17, FREE_UNUSED = 18, FREE_TOTAL = 19, FREE_ROWS = 32 };

struct flows {
    struct flow_bucket *buckets;
    u8 *rows;
    u64 count;  /* the number of buckets */
    u64 stride; /* bytes of a row */
    u64 size;   /* the largest number of entries */
    u32 *free;  /* the number of entries, and the list of free rows */
    u64 secrets[];
};

/* The free rows that a worker keeps at hand. */
struct flow_cache {
    u32 count;
    u32 rows[FLOW_CACHE];
};

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE()
#endif

/* Tests of two workers let time pass between a lookup that misses and the entry that is added, so that both miss. */
#ifdef STRAIT_RACES
#define RACE()                                          \
    for (volatile u32 turn = 0; turn < 20000; turn++) { \
    }
#else
#define RACE()
#endif

/* Takes a lock, which others hold for some nanoseconds only. */
INLINE void take_lock(u32 *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(lock, __ATOMIC_RELAXED))
            PAUSE();
}

INLINE void release_lock(u32 *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* Returns the hash of a key (multiply-shift with a random factor for each half of a word). */
INLINE u32 hash_flow(const struct flows *f, const u64 *key, u32 words)
{
    u64 h = f->secrets[0];
    for (u32 i = 0; i < words; i++)
        h += (u64)(u32)key[i] * f->secrets[1 + 2 * i] + (key[i] >> 32) * f->secrets[2 + 2 * i];
    return (u32)(h >> 32);
}

INLINE u16 flow_tag(u32 hash)
{
    return (u16)hash | 1;
}

/* Returns the bucket of a hash. Their number is no power of two, so that they are as full as they should be. */
INLINE struct flow_bucket *flow_bucket(const struct flows *f, u32 hash)
{
    return &f->buckets[hash * f->count >> 32];
}

INLINE struct flow_row *flow_row(const struct flows *f, u32 row)
{
    return (struct flow_row *)(f->rows + row * f->stride);
}

typedef u16 tags_of_flows __attribute__((vector_size(16)));

/* Compares all tags of a bucket with `tag`, and returns a set of bits: bit 2 * i if tag i is equal. */
INLINE u32 flow_tags_equal(const struct flow_bucket *b, u16 tag)
{
#ifdef __SSE2__
    tags_of_flows same = (tags_of_flows)(*(const volatile tags_of_flows *)b->tags == tag);
    return __builtin_ia32_pmovmskb128((bytes_of_tags)same) & 0x5555;
#else
    u32 hits = 0;
    for (u32 i = 0; i < 8; i++)
        hits |= (u32)(__atomic_load_n(&b->tags[i], __ATOMIC_ACQUIRE) == tag) << 2 * i;
    return hits;
#endif
}

/* Returns whether a row has a key, which begins at byte `at` of it. */
INLINE int is_key_of(const struct flow_row *row, const u64 *key, u32 words, u32 at)
{
    return !__builtin_memcmp((const u8 *)row + at, key, words * 8);
}

/* Returns the row with a key in a bucket, or 0. */
INLINE const struct row *find_flow_in(const struct flows *f, const struct flow_bucket *b, u16 tag, const u64 *key, u32 words, u32 at)
{
    for (u32 hits = flow_tags_equal(b, tag); hits; hits &= hits - 1) {
        u32 number = ACQUIRE(b->rows[__builtin_ctz(hits) / 2]);
        const struct flow_row *row = flow_row(f, number);
        if (number && is_key_of(row, key, words, at))
            return (const struct row *)row;
    }
    for (u32 number = ACQUIRE(b->chain); number;) {
        const struct flow_row *row = flow_row(f, number);
        if (is_key_of(row, key, words, at))
            return (const struct row *)row;
        number = (ACQUIRE(row->link) & ~FLOW_LIVE) >> FLOW_NEXT;
    }
    return 0;
}

/* Looks up a key. */
INLINE const struct row *find_flow(const struct table *table, const u64 *key, u32 words, u32 at)
{
    const struct flows *f = (const struct flows *)ACQUIRE(table->index);
    u32 hash = hash_flow(f, key, words);
    return find_flow_in(f, flow_bucket(f, hash), flow_tag(hash), key, words, at);
}

/* Calls find_flow for each key, with prefetches. */
static UNUSED void find_flow_bulk(const struct table *table, const u64 *const *keys, const struct row **rows, u32 count, u32 words, u32 at)
{
    const struct flows *f = (const struct flows *)ACQUIRE(table->index);
    const struct flow_bucket *buckets[BURST];
    u16 tags[BURST];
    for (u32 i = 0; i < count; i++) {
        u32 hash = hash_flow(f, keys[i], words);
        tags[i] = flow_tag(hash);
        buckets[i] = flow_bucket(f, hash);
        PREFETCH(buckets[i]);
    }
    for (u32 i = 0; i < count; i++)
        for (u32 hits = flow_tags_equal(buckets[i], tags[i]); hits; hits &= hits - 1) {
            const u8 *row = (const u8 *)flow_row(f, ACQUIRE(buckets[i]->rows[__builtin_ctz(hits) / 2]));
            PREFETCH(row);
            PREFETCH(row + f->stride - 1);
        }
    for (u32 i = 0; i < count; i++)
        rows[i] = find_flow_in(f, buckets[i], tags[i], keys[i], words, at);
}

/* Fills a worker's cache from the common list. */
static UNUSED void fill_flow_cache(const struct flows *f, struct flow_cache *cache)
{
    u32 *list = f->free;
    take_lock(&list[FREE_LOCK]);
    u32 count = list[FREE_COUNT], unused = list[FREE_UNUSED], n = 0;
    while (n < FLOW_CACHE && count)
        cache->rows[n++] = list[FREE_ROWS + --count];
    u32 room = FLOW_CACHE - n, left = list[FREE_TOTAL] - unused, fresh = left < room ? left : room;
    for (u32 i = fresh; i; i--)
        cache->rows[n++] = unused + i;
    list[FREE_COUNT] = count;
    __atomic_store_n(&list[FREE_UNUSED], unused + fresh, __ATOMIC_RELEASE);
    cache->count = n;
    release_lock(&list[FREE_LOCK]);
}

/* Takes a row for a new entry with a key, and copies the key. Returns 0 if the table is full. */
INLINE struct flow_row *new_flow(const struct table *table, struct flow_cache *cache, const u64 *key, u32 words, u32 at)
{
    const struct flows *f = (const struct flows *)ACQUIRE(table->index);
    RACE();
    if (__atomic_load_n(&f->free[FREE_USED], __ATOMIC_RELAXED) >= f->size)
        return 0;
    if (!cache->count)
        fill_flow_cache(f, cache);
    if (!cache->count)
        return 0;
    if (__atomic_fetch_add(&f->free[FREE_USED], 1, __ATOMIC_RELAXED) >= f->size) {
        __atomic_fetch_sub(&f->free[FREE_USED], 1, __ATOMIC_RELAXED);
        return 0;
    }
    struct flow_row *row = flow_row(f, cache->rows[cache->count - 1]);
    __builtin_memcpy((u8 *)row + at, key, words * 8);
    return row;
}

/* Publishes the row that new_flow returned, whose action data the caller has written, unless there is an entry with its key. Returns
 * whether it was added. The caller's next call of new_flow takes the row again if it was not. */
INLINE u32 add_flow(const struct table *table, struct flow_cache *cache, struct flow_row *row, const u64 *key, u32 words, u32 at, u64 timer)
{
    const struct flows *f = (const struct flows *)ACQUIRE(table->index);
    u32 number = cache->rows[cache->count - 1], hash = hash_flow(f, key, words);
    struct flow_bucket *b = flow_bucket(f, hash);
    __atomic_store_n(&row->timer, timer, __ATOMIC_RELAXED);
    if (at > sizeof *row && !row->rest[0])
        row->rest[0] = number;
    take_lock(&b->lock);
    if (find_flow_in(f, b, flow_tag(hash), key, words, at)) {
        release_lock(&b->lock);
        __atomic_fetch_sub(&f->free[FREE_USED], 1, __ATOMIC_RELAXED);
        return 0;
    }
    u32 slots = flow_tags_equal(b, 0);
    if (slots) {
        u32 slot = __builtin_ctz(slots) / 2;
        __atomic_store_n(&row->link, FLOW_LIVE | hash, __ATOMIC_RELEASE);
        __atomic_store_n(&b->rows[slot], number, __ATOMIC_RELEASE);
        __atomic_store_n(&b->tags[slot], flow_tag(hash), __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&row->link, FLOW_LIVE | (u64)b->chain << FLOW_NEXT | hash, __ATOMIC_RELEASE);
        __atomic_store_n(&b->chain, number, __ATOMIC_RELEASE);
    }
    release_lock(&b->lock);
    cache->count--;
    return 1;
}

/* The timer of an entry that is added or hit now. */
INLINE u64 flow_timer(u64 clock, u64 profile)
{
    return FLOW_TIMED | (clock << FLOW_PROFILE_BITS & ~FLOW_TIMED) | (profile & ((1 << FLOW_PROFILE_BITS) - 1));
}

/* Restarts the timer of an entry that a packet added. `profile` is its new profile, or negative to keep the old one. */
INLINE void restart_flow(const struct row *row, u64 clock, s32 profile)
{
    u64 *timer = &((struct flow_row *)row)->timer, old = __atomic_load_n(timer, __ATOMIC_RELAXED);
    u64 new = flow_timer(clock, profile < 0 ? old : (u64)profile);
    if (old & FLOW_TIMED && new != old)
        __atomic_store_n(timer, new, __ATOMIC_RELAXED);
}
