//! Meters: token buckets in arrays whose cells have a spin lock each.

use super::Ebpf;

/// eBPF has no floating point, so rates and tokens are fixed-point numbers. `io::ebpf` writes the same format.
pub(super) const METERS: &str = r#"
__attribute__((unused)) static long (*bpf_spin_lock)(void *lock) = (void *)93;
__attribute__((unused)) static long (*bpf_spin_unlock)(void *lock) = (void *)94;

struct bpf_spin_lock {
    u32 val;
};

/* A token bucket of a meter with two rates and three colours (RFC 2698). Tokens have 32 bits of fraction. */
struct token_bucket {
    u64 per_microsecond, tokens, burst;
    u64 filled; /* the time of the last refill in microseconds */
    u64 fills;  /* the time after which an empty bucket is full again, in microseconds */
};

/* A cell of a meter. The host sets the rates. */
struct meter {
    struct bpf_spin_lock lock;
    u32 rates;
    struct token_bucket buckets[2];
};

INLINE void refill(struct token_bucket *b, u64 now)
{
    u64 waited = now > b->filled ? now - b->filled : 0;
    u64 tokens = waited >= b->fills ? b->burst : b->tokens + waited * b->per_microsecond;
    b->tokens = tokens < b->burst ? tokens : b->burst;
    b->filled += waited;
}

/* Returns the colour of a packet of `units` units. */
INLINE u8 execute_meter(struct meter *m, u64 units)
{
    u64 now = micros();
    u8 colour = 0;
    if (!m || !m->rates)
        return 0;
    units <<= 32;
    bpf_spin_lock(&m->lock);
    u32 rates = m->rates;
    refill(&m->buckets[0], now);
    refill(&m->buckets[1], now);
    if (rates > 1 && m->buckets[1].tokens < units) {
        colour = 2;
    } else {
        if (rates > 1)
            m->buckets[1].tokens -= units;
        if (m->buckets[0].tokens < units)
            colour = 1;
        else
            m->buckets[0].tokens -= units;
    }
    bpf_spin_unlock(&m->lock);
    return colour;
}
"#;

impl Ebpf<'_> {
    /// Declares the maps of meters. A direct meter has a cell for each entry that its table may have, and for each row of a table that learns, whose
    /// first cell has the rates of new entries.
    pub(super) fn meter_maps(&mut self) {
        let program = self.c.program;
        if program.meters.is_empty() {
            return;
        }
        self.c.text.raw(METERS);
        for (i, meter) in self.c.manifest.meters.clone().iter().enumerate() {
            let table = program.tables.iter().position(|t| t.direct_meter == Some(ir::MeterId(i as u32)));
            let table = table.map(|at| &self.c.manifest.tables[at]);
            let of_entries = table.map(|t| match t.layout.as_ref().and_then(|l| l.learning.as_ref()) {
                Some(learning) => u64::from(learning.count) + 1,
                None => t.size,
            });
            let cells = meter.size.or(of_entries).unwrap_or(1).max(1);
            if let Some(map) = &meter.map {
                self.map(map, "BPF_MAP_TYPE_ARRAY", cells, "u32", "struct meter", false);
            }
        }
    }
}
