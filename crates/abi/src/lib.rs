//! The contract between a compiled P4 program and what runs it.
//!
//! A back end writes two things: code, and a [`Manifest`] that says what the code's tables, counters and ports look
//! like from outside. A host (a loader, a controller, a test runner) reads the manifest and never the code.
//!
//! * [`cancel`]: the end of work that nobody wants any more.
//! * [`bits`]: a value of `bit<W>`, any width.
//! * [`id`]: the numbers of a program's objects, and how names become numbers.
//! * [`entry`]: what a controller writes: match values, table entries, action calls.
//! * [`mac`]: link-layer addresses as people write them.
//! * [`manifest`]: what a compiled program has: tables and the byte layout of their keys and action data, counters, drop reasons.
//! * [`layout`]: conversion of entries to the bytes in a compiled target's maps, and back.
//! * [`native`]: the memory that a native program shares with its host.
//! * [`show`]: values for people.
//! * [`text`]: text of strangers, and the forms in which it may leave.
//!
//! Nothing here does I/O, and nothing knows a target.
#![forbid(unsafe_code)]
// A match names what it ignores, so that the compiler shows every place that a new variant concerns.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod bits;
pub mod cancel;
pub mod entry;
pub mod id;
pub mod layout;
pub mod mac;
pub mod manifest;
pub mod native;
pub mod show;
pub mod text;

pub use bits::Bits;
pub use cancel::Cancel;
pub use entry::{ActionCall, Digest, Entry, MatchKind, MatchValue, Message};
pub use manifest::Manifest;

/// Names of the drop reasons that come from the target or the architecture, not from a P4 statement. A manifest lists the ones that its
/// target can produce after the program's own reasons.
pub mod drops {
    /// `egress_spec` was 511 ([`DROP_PORT`](super::DROP_PORT)) at the end of ingress, although no `mark_to_drop` ran.
    pub const EGRESS_SPEC: &str = "egress_spec";
    /// PSA: the program left `drop` set.
    pub const DROP: &str = "psa.drop";
    /// The egress port is not attached to anything.
    pub const NO_SUCH_PORT: &str = "target.no_such_port";
    /// `mcast_grp` named a group that does not exist or has no ports.
    pub const NO_SUCH_GROUP: &str = "target.no_such_group";
    /// A parser or loop ran longer than the target allows.
    pub const STEP_BUDGET: &str = "target.step_budget";
    /// The packet could not be made longer or shorter as the deparser asked.
    pub const BAD_RESIZE: &str = "target.bad_resize";
    /// There was no free buffer for a clone or for a copy of a multicast packet.
    pub const NO_BUFFER: &str = "target.no_buffer";
    /// As many packets waited for the egress port as may (`dataplane::queue`).
    pub const QUEUE_FULL: &str = "target.queue_full";
    /// The packet must leave as fragments, and the target cannot make them.
    pub const CANNOT_FRAGMENT: &str = "target.cannot_fragment";
}

/// The v1model port number that means "drop" (BMv2 simple_switch). `mark_to_drop` sets `egress_spec` to it.
pub const DROP_PORT: u32 = 511;

/// How often a packet and its copies may pass through ingress again, or be cloned from egress to egress, together. Every target drops what
/// is left then for [`drops::STEP_BUDGET`].
pub const ROUNDS: u32 = 99;
