
/* Lookups without a program, for `strait bench lpm`. This text follows the prelude of native programs. */
#include <sched.h>
#include <time.h>
#include <unistd.h>

struct timing {
    u64 sum;         /* the sum of the results */
    double nanoseconds, cycles; /* the duration of one lookup */
};

static u64 stamp(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void finish_timing(struct timing *t, double begun, u64 from, u64 count)
{
    t->cycles = (double)(stamp() - from) / count;
    t->nanoseconds = (seconds() - begun) * 1e9 / count;
}

/* The action data of a route: the action's number, then the next hop. */
static u64 next_hop(const struct row *row)
{
    return row ? *(const u16 *)(row->bytes + 4) : 0;
}

/* Keys follow each other without padding, as rte_fib expects them. */
static const u64 *key_at(const u8 *keys, u64 at)
{
    return (const u64 *)(keys + at);
}

/* Returns the sum of the next hops of all keys, for a comparison of results. It is not measured. */
__attribute__((visibility("default"))) u64 strait_sum(const struct shared *shared, u32 table, const u8 *keys, u32 size, u64 count)
{
    u64 sum = 0;
    for (u64 i = 0; i < count; i++)
        sum += next_hop(find_lpm(&shared->tables[table], key_at(keys, i * size)));
    return sum;
}

/* Measures lookups of keys with `size` bytes each. The number of keys is a power of two, and some bytes follow the last one. The lookups
 * are in bursts, or one after the other, where the next key depends on the previous result. A lookup returns the number of a row, as
 * rte_fib's returns the number of a next hop. */
__attribute__((visibility("default"))) void strait_look_up(const struct shared *shared, u32 table, const u8 *keys, u32 size,
                                                           u64 count, u32 dependent, struct timing *timing)
{
    const struct lpm *l = (const struct lpm *)ACQUIRE(shared->tables[table].index);
    u64 sum = 0, from = stamp();
    double begun = seconds();
    if (dependent) {
        for (u64 i = 0; i < count; i++) {
            sum += lpm_value(l, key_at(keys, ((i + (sum & 1)) & (count - 1)) * size));
        }
    } else {
        for (u64 i = 0; i < count; i += BURST) {
            const u64 *at[BURST];
            u32 values[BURST];
            for (u32 j = 0; j < BURST; j++)
                at[j] = key_at(keys, (i + j) * size);
            lpm_values(l, at, values, BURST);
            for (u32 j = 0; j < BURST; j++)
                sum += values[j];
        }
    }
    finish_timing(timing, begun, from, count);
    timing->sum = sum;
}

#ifdef WITH_DPDK
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>

static struct rte_fib *fib;
static struct rte_fib6 *fib6;

/* Fills DPDK's structures with the same routes. Returns 0, or the reason of the failure. Each prefix has 16 bytes in network order. */
__attribute__((visibility("default"))) int peer_begin(const u8 *prefixes, const u8 *lengths, const u16 *values, u64 count, u32 v6,
                                                      u32 groups, double *took)
{
    static int ready;
    char *arguments[] = { "strait", "--in-memory", "--no-pci", "--no-telemetry", "--log-level=lib.eal:1",
                          "--force-max-simd-bitwidth=512", "-l", "0" };
    if (!ready) {
        /* DPDK pins the thread that starts it to one processor. */
        cpu_set_t own;
        int known = !sched_getaffinity(0, sizeof own, &own);
        if (rte_eal_init(8, arguments) < 0)
            return 1;
        if (known)
            sched_setaffinity(0, sizeof own, &own);
        /* DPDK created a directory for secondary processes, which is not needed. */
        rmdir(rte_eal_get_runtime_dir());
        ready = 1;
    }
    double begun = seconds();
    if (v6) {
        struct rte_fib6_conf conf = { .type = RTE_FIB6_TRIE, .max_routes = 2 * count + 1024 };
        conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
        conf.trie.num_tbl8 = groups;
        fib6 = rte_fib6_create("strait6", 0, &conf);
        if (!fib6)
            return 2;
        for (u64 i = 0; i < count; i++)
            if (rte_fib6_add(fib6, prefixes + 16 * i, lengths[i], values[i]))
                return 3;
        rte_fib6_select_lookup(fib6, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512);
    } else {
        struct rte_fib_conf conf = { .type = RTE_FIB_DIR24_8, .max_routes = 2 * count + 1024 };
        conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
        conf.dir24_8.num_tbl8 = groups;
        fib = rte_fib_create("strait4", 0, &conf);
        if (!fib)
            return 2;
        for (u64 i = 0; i < count; i++)
            if (rte_fib_add(fib, rd32(prefixes + 16 * i), lengths[i], values[i]))
                return 3;
        rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
    }
    *took = seconds() - begun;
    return 0;
}

__attribute__((visibility("default"))) void peer_look_up(const u8 *addresses, const u32 *host_order, u64 count, u32 v6, u32 dependent,
                                                         struct timing *timing)
{
    u64 sum = 0, values[BURST], from = stamp(), step = dependent ? 1 : BURST;
    double begun = seconds();
    for (u64 i = 0; i < count; i += step) {
        u64 at = dependent ? (i + (sum & 1)) & (count - 1) : i;
        if (v6)
            rte_fib6_lookup_bulk(fib6, (u8(*)[16])(addresses + 16 * at), values, step);
        else
            rte_fib_lookup_bulk(fib, (u32 *)host_order + at, values, step);
        for (u32 j = 0; j < step; j++)
            sum += values[j];
    }
    finish_timing(timing, begun, from, count);
    timing->sum = sum;
}

__attribute__((visibility("default"))) void peer_end(void)
{
    rte_fib_free(fib);
    rte_fib6_free(fib6);
    fib = 0;
    fib6 = 0;
}
#endif
