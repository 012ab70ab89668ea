//! What a P4 program uses but does not contain: tables, checksums, hash functions, counters, meters, ports.
//!
//! The interpreter uses these implementations directly:
//! * [`table`]: match-action tables over [`abi::Entry`], for every match kind and width.
//! * [`checksum`]: the Internet checksum (RFC 1071).
//! * [`hash`]: v1model's hash functions, as BMv2 defines them.
//! * [`fragment`]: IPv6 fragmentation (RFC 8200 section 4.5).
//! * [`cells`]: arrays of counters and registers.
//! * [`device`]: the one interface to a running program, for whoever controls it.
//! * [`profile`]: action profiles and selectors with their members and groups.
//! * [`queue`]: the queue in front of a port that has a rate.
//! * [`meter`]: meters with two rates and three colours (RFC 2698).
//!
//! A native program has its own code for packets, and shares with the host:
//! * [`memory`]: the program's memory, with tables that workers read without locks while the host writes them.
//! * [`port`]: the interface through which the host receives and sends packets.
//!
//! Invariants: no I/O, no clock, no panic on any packet or table state; iteration follows insertion order, so that two
//! runs of one case are equal to the byte.
#![forbid(unsafe_code)]
// A match names what it ignores, so that the compiler shows every place that a new variant concerns.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod cells;
pub mod checksum;
pub mod device;
pub mod fragment;
pub mod hash;
pub mod memory;
pub mod meter;
pub mod port;
pub mod profile;
pub mod queue;
pub mod table;

pub use cells::{Cells, Count};
pub use device::{Device, Mirror};
pub use memory::Memory;
pub use meter::{Meter, Rate};
pub use profile::{Indirect, Profile};
pub use queue::{Queue, QueueCounts, Wait};
pub use table::{Handle, Mismatch, Row, Table, TableError};
