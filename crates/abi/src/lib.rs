//! The contract between a compiled P4 program and what runs it.
//!
//! A back end writes two things: code, and a [`Manifest`] that says what the code's tables, counters and ports look
//! like from outside. A host (a loader, a controller, a test runner) reads the manifest and never the code.
//!
//! * [`bits`]: a value of `bit<W>`, any width.
//! * [`entry`]: what a controller says: match values, table entries, actions by name.
//! * [`layout`]: entries as bytes of a compiled target's maps.
//! * [`manifest`]: what a compiled program offers: tables and the byte layout of their keys and action data, counters,
//!   drop reasons.
//!
//! Nothing here does I/O, and nothing knows a target.

pub mod bits;
pub mod entry;
pub mod layout;
pub mod manifest;

pub use bits::Bits;
pub use entry::{ActionCall, Entry, MatchKind, MatchValue};
pub use manifest::Manifest;

/// P4 port number that drops a packet in v1model: `egress_spec` holds it after `mark_to_drop` (BMv2 simple_switch).
pub const DROP_PORT: u32 = 511;
