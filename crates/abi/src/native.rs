//! The memory that a native program shares with its host: the host's side of `crates/emit/src/native/prelude.h`.
//!
//! The host writes, a program only reads (but for what a worker has for itself). A writer makes what is new, then publishes it with one
//! release store of a pointer or a tag; a program loads that with acquire, so that no packet ever sees half an entry. What is
//! replaced is freed when no burst that began before is still at work.
//!
//! An entry (`struct row`) and a list of tuples (`struct index`) are arrays of words; [`row`] and [`tuple`] give the places.

use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32};

/// Words of an entry.
pub mod row {
    /// The larger wins, …
    pub const RANK: usize = 0;
    /// … then the smaller.
    pub const AGE: usize = 1;
    /// Its cell of the direct counter.
    pub const COUNTER: usize = 2;
    /// Here begins the key: masked, then for tables with ranges the lower ends and the upper ends; then, at a multiple of 16
    /// bytes from here, the action's number and parameters.
    pub const KEY: usize = 4;
}

/// Words of a list of tuples: their number, then [`SIZE`](tuple::SIZE) words each.
pub mod tuple {
    /// No entry has a larger rank.
    pub const BEST: usize = 0;
    /// Pointer to the mask.
    pub const MASK: usize = 1;
    /// Pointer to the buckets.
    pub const BUCKETS: usize = 2;
    /// Pointer to the buckets that go on with full ones.
    pub const OVERFLOW: usize = 3;
    /// Number of buckets - 1.
    pub const LAST: usize = 4;
    /// How many words.
    pub const SIZE: usize = 5;
}

/// Entries of a bucket.
pub const WAYS: usize = 6;

/// One cache line of a hash table. A tag of 0 is a free place.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Bucket {
    /// Tags of the hashes.
    pub tags: [AtomicU16; WAYS],
    /// 1 + the bucket that goes on with this one, or 0.
    pub overflow: AtomicU32,
    /// Entries.
    pub rows: [AtomicPtr<u64>; WAYS],
}

/// A table.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Table {
    /// The list of tuples, best rank first.
    pub index: AtomicPtr<u64>,
    /// The default action's number and parameters.
    pub miss: AtomicPtr<u8>,
}

/// An array.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cells {
    /// Where.
    pub cells: AtomicPtr<u64>,
    /// How many: of words in a register, of pairs of words (packets, bytes) in a counter.
    pub size: u64,
}

/// What all workers share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Shared {
    /// In the order of the manifest.
    pub tables: AtomicPtr<Table>,
    /// In the order of the manifest.
    pub registers: AtomicPtr<Cells>,
}

/// What one thread has for itself.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Worker {
    /// In the order of the manifest.
    pub counters: AtomicPtr<Cells>,
    /// Direct counters, by the number of their table.
    pub direct: AtomicPtr<Cells>,
    /// Packets and bytes, by reason.
    pub drops: AtomicPtr<u64>,
    /// For random numbers; not 0.
    pub seed: u64,
    /// What packets take for the time, in microseconds.
    pub clock: u64,
}

/// A packet.
#[derive(Debug)]
#[repr(C)]
pub struct Packet {
    /// Its first byte.
    pub data: *mut u8,
    /// Its bytes.
    pub length: u32,
    /// Bytes in front of it that may be written.
    pub headroom: u32,
    /// Bytes behind it that may be written.
    pub tailroom: u32,
    /// Where it came in; then where it goes out.
    pub port: u32,
    /// [`SENT`] or [`DROPPED`].
    pub verdict: u32,
    /// Of a drop: its number in the manifest.
    pub reason: u32,
}

/// Where the action data of a row begins, in bytes from its key.
pub const fn data_offset(key_size: u32, ranges: bool) -> u32 {
    let key = key_size.next_multiple_of(8);
    (if ranges { 3 * key } else { key }).next_multiple_of(16)
}

/// Goes out.
pub const SENT: u32 = 1;
/// Does not.
pub const DROPPED: u32 = 2;

/// The entry point of a program. Its number of packets is any.
pub type Burst = unsafe extern "C" fn(*const Shared, *mut Worker, *mut *mut Packet, u32);
