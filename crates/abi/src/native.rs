//! The memory that a native program shares with its host: the host's side of `crates/emit/src/native/prelude.h`.
//!
//! The host writes, a program only reads (but for what a worker has for itself). A writer makes what is new, then publishes it with one
//! release store of a pointer or a tag; a program loads that with acquire, so that no packet ever sees half an entry. What is
//! replaced is freed when no burst that began before is still at work.
//!
//! An entry (`struct row`) and a list of tuples (`struct index`) are arrays of words; [`row`] and [`tuple`] give the places.

use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32};

use crate::manifest::Structure;

/// Words of an entry.
pub mod row {
    /// The larger wins, …
    pub const RANK: usize = 0;
    /// … then the smaller.
    pub const AGE: usize = 1;
    /// Its cell of the direct counter.
    pub const COUNTER: usize = 2;
    /// Here begins the key, with what [`key_parts`](super::key_parts) says; then, at a multiple of 16 bytes from here, the action's number
    /// and parameters.
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

/// Longest-prefix match: what a table's list of tuples is where its structure is a trie.
pub mod lpm {
    use std::sync::atomic::AtomicU64;

    /// Words: for each value of a key's first 24 bits (as many bytes as it has, zeros behind) a `u32`: the value of the longest prefix of
    /// at most 24 bits, or 0, shifted left by one; or the number of a hook, shifted left by one, and 1.
    pub const ROOT: usize = 0;
    /// Hooks, two words each: that value, and a pointer to what hangs below or 0.
    pub const HOOKS: usize = 1;
    /// The value of the empty prefix, or 0.
    pub const FALLBACK: usize = 2;
    /// Pointer to the rows, by value; none for 0.
    pub const ROWS: usize = 3;
    /// How many words.
    pub const SIZE: usize = 4;

    /// Added to a pointer to a list.
    pub const IS_LIST: u64 = 1;

    /// A cache line of a block.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct Line(pub [AtomicU64; 8]);

    /// A node begins with four groups, each for 64 values of a byte of the key …
    pub const GROUP: usize = 4;
    /// … of these words: where runs of equal values begin, …
    pub const RUNS: usize = 0;
    /// … which of them have a child, …
    pub const KIDS: usize = 1;
    /// … how many runs (lower half) and children (upper half) there are in the groups before, …
    pub const BEFORE: usize = 2;
    /// … and where the pointers to children are, in bytes from the node's beginning.
    pub const POINTERS: usize = 3;
    /// Behind the groups stand the values of the runs, a `u32` each.
    pub const NODE_HEAD: usize = 4 * GROUP;

    /// Prefixes in a list: first their 64 bits behind the bytes that led there, longest prefix first …
    pub const LIST: usize = 4;
    /// … then their values, a `u32` each, …
    pub const LIST_VALUES: usize = 4;
    /// … how many of the 64 bits do not count, a byte each, …
    pub const LIST_SHIFTS: usize = 6;
    /// … and a bit for each that is in use.
    pub const LIST_USED: usize = 7;
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
    /// The list of tuples, best rank first; of a table whose keys index an array, that array.
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
    /// In the order of the manifest; cells of [`meter::SIZE`] words. A direct meter's are numbered as its table's entries are.
    pub meters: AtomicPtr<Cells>,
    /// A [directory](mod@directory) of multicast groups: for each copy its `egress_rid` (upper half) and port.
    pub groups: AtomicPtr<u64>,
    /// A directory of mirroring sessions: one word, a port, or behind the bit [`MIRROR_GROUP`] a multicast group.
    pub mirrors: AtomicPtr<u64>,
    /// A directory of value sets, by their number in the manifest: for each member and each part of it, value and mask (or lowest
    /// and highest), two words each, the lower first.
    pub value_sets: AtomicPtr<u64>,
}

/// Set in a mirroring session that leads to a multicast group.
pub const MIRROR_GROUP: u64 = 1 << 32;

/// Words of a directory: the number of ids, then for each, in ascending order, the id and a pointer to what it stands for: the number
/// of words, and these.
pub mod directory {
    /// How many words an id takes.
    pub const SIZE: usize = 2;
}

/// Words of a meter's cell.
pub mod meter {
    /// Not 0 while somebody is at it.
    pub const LOCK: usize = 0;
    /// How many of its buckets are in use.
    pub const RATES: usize = 1;
    /// Here the buckets begin: units a microsecond and tokens (both `f64`), burst, and when it was filled last.
    pub const BUCKETS: usize = 2;
    /// Words of a bucket.
    pub const BUCKET: usize = 4;
    /// Two rates make three colours.
    pub const MOST: usize = 2;
    /// Words of a cell.
    pub const SIZE: usize = BUCKETS + MOST * BUCKET;
}

/// What one thread has for itself.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Worker {
    /// In the order of the manifest.
    pub counters: AtomicPtr<Cells>,
    /// Direct counters, by the number of their table.
    pub direct: AtomicPtr<Cells>,
    /// When each entry was hit last, by the number of their table; none where nobody asks.
    pub hits: AtomicPtr<Cells>,
    /// Packets and bytes, by reason.
    pub drops: AtomicPtr<u64>,
    /// For random numbers; not 0.
    pub seed: u64,
    /// What packets take for the time, in microseconds.
    pub clock: u64,
    /// Messages to the control plane: each [`digest::HEAD`] bytes, its values, and zeros up to a multiple of 8 bytes.
    pub digests: AtomicPtr<u8>,
    /// Bytes of them.
    pub digests_used: u64,
    /// Bytes that there is room for.
    pub digests_room: u64,
    /// Messages that found no room.
    pub digests_lost: u64,
    /// Buffers for copies of packets, `spares` of them.
    pub spare: AtomicPtr<*mut Packet>,
    /// The program takes from the end.
    pub spares: u64,
    /// What it sends, in order. There is room for all packets of a burst and all spare ones.
    pub sent: AtomicPtr<*mut Packet>,
    /// How many.
    pub sents: u64,
}

/// A message to the control plane.
pub mod digest {
    /// Bytes before the values: the message's number in the manifest, and its bytes, a `u32` each. A value takes
    /// `ceil(width / 8)` bytes in network order.
    pub const HEAD: usize = 8;
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
    /// Bytes that its buffer holds, room before and behind it included.
    pub capacity: u32,
    /// [`PARTIAL`], or 0.
    pub flags: u32,
    /// The host's; a copy has its original's.
    pub token: u32,
}

/// The checksum of its TCP or UDP header is the sum of the pseudo-header, not complemented; what it covers is added when the packet
/// is cut into segments. Such a checksum counts as right.
pub const PARTIAL: u32 = 1;

/// How often a row has its key: once, masked; in a tuple space with its mask, and for tables with ranges the lower ends and the upper ends.
pub const fn key_parts(structure: Structure, ranges: bool) -> u32 {
    match (matches!(structure, Structure::TupleSpace), ranges) {
        (false, _) => 1,
        (true, false) => 2,
        (true, true) => 4,
    }
}

/// Where the action data of a row begins, in bytes from its key.
pub const fn data_offset(key_size: u32, structure: Structure, ranges: bool) -> u32 {
    (key_parts(structure, ranges) * key_size.next_multiple_of(8)).next_multiple_of(16)
}

/// Goes out.
pub const SENT: u32 = 1;
/// Does not.
pub const DROPPED: u32 = 2;

/// How a program's C is compiled, but for the processor. Keys and packets are bytes that are read as words of any size. Neighbouring fields
/// are not stored together: gcc 12 joins bytes by way of the stack, and a load of two bytes then waits for the stores of each
/// (three per cent of apps/nat64).
pub const C_FLAGS: [&str; 10] = [
    "-std=gnu11",
    "-O3",
    "-fno-tree-slp-vectorize",
    "-fno-store-merging",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
];

/// The entry point of a program. Its number of packets is any.
pub type Burst = unsafe extern "C" fn(*const Shared, *mut Worker, *mut *mut Packet, u32);
