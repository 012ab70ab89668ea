//! What packets tell the host: digests and messages, through a ring buffer of the kernel (Linux 5.8).

use abi::manifest::EventMaps;

use super::Ebpf;

/// Size of the ring in bytes: a power of two, and a multiple of the size of a page.
const SIZE: u64 = 1 << 20;

/// The host looks into the ring from time to time, so no record wakes it.
pub(super) const RING: &str = r#"
enum { BPF_MAP_TYPE_RINGBUF = 27, BPF_RB_NO_WAKEUP = 1 };

__attribute__((unused)) static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
__attribute__((unused)) static void (*bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;

struct events_state {
    u64 lost;    /* records for which the ring had no room */
    u64 listens; /* whether the host wants messages */
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, EVENTS_SIZE);
} strait_events SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct events_state);
} strait_events_state SEC(".maps");

INLINE struct events_state *events_state(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&strait_events_state, &zero);
}

/* Returns whether the host wants messages. */
INLINE u32 host_listens(void)
{
    struct events_state *state = events_state();
    return state && READ_ONCE(state->listens);
}

/* Reserves a record with room for `bytes` bytes of values, a constant. Returns 0 and counts the record as lost if the ring is full. The
 * caller submits what it reserves: the verifier insists. */
INLINE u32 *reserve_event(u32 number, u32 bytes)
{
    u32 *event = bpf_ringbuf_reserve(&strait_events, 8 + ((u64)(bytes + 7) & ~7ULL), 0);
    if (event) {
        event[0] = number;
        event[1] = bytes;
        return event;
    }
    struct events_state *state = events_state();
    if (state)
        __sync_fetch_and_add(&state->lost, 1);
    return 0;
}
"#;

impl Ebpf<'_> {
    /// The maps of events, if the program sends any.
    pub(super) fn event_maps(&self) -> Option<EventMaps> {
        let manifest = &self.c.manifest;
        let tells = !manifest.digests.is_empty() || !manifest.messages.is_empty();
        let [ring, state] = ["strait_events", "strait_events_state"].map(str::to_string);
        tells.then_some(EventMaps { ring, state })
    }

    /// Declares the ring of events.
    pub(super) fn events(&mut self) {
        if self.event_maps().is_some() {
            self.c.text.raw(&RING.replace("EVENTS_SIZE", &SIZE.to_string()));
        }
    }
}
