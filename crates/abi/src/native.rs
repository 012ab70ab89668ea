//! The memory that a native program shares with its host.
//!
//! A native program is C that the host compiles and loads; this module is the host's side of the structures in
//! `crates/emit/src/native/prelude.h`. Both sides must define the same layout.
//!
//! The host writes tables and other control-plane state, and the program reads them. The program writes registers, meters, packets and
//! everything in [`Worker`]. It also adds entries to tables that learn ([`mod@flow`]). No reader takes a lock, so the host follows the rules of RCU:
//!
//! * It builds a new structure completely, then publishes it with one release store of a pointer or a tag. The program loads that pointer
//!   or tag with acquire. A packet therefore sees an entry either whole or not at all.
//! * It frees replaced memory after a grace period: when every burst that was running at the time of the replacement has ended.
//!
//! `dataplane::memory` implements these rules.
//!
//! Structures of fixed shape are Rust structs. Arrays of variable length (rows, lists of tuples, the root of a trie) are arrays of 64-bit
//! words, and a module ([`row`], [`tuple`](mod@tuple), [`lpm`], [`mod@flow`], [`directory`](mod@directory), [`meter`]) names the index of each word.

use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};

use crate::manifest::Structure;

/// A row: one entry of a table that does not learn, as the program reads it. The constants are word indexes.
///
/// After the first [`KEY`](row::KEY) words follow the key parts ([`key_parts`]) and, [`data_offset`] bytes after them, the action data. A
/// row does not change after it is published; a modified entry gets a new row.
pub mod row {
    /// The entry's rank (`i64`). Of several matching entries, the one with the largest rank wins.
    pub const RANK: usize = 0;
    /// The entry's age: a number that grows with each added entry. Of several matching entries with the largest rank, the oldest wins,
    /// that is, the one with the smallest number.
    pub const AGE: usize = 1;
    /// The entry's cell: its index in the table's direct counter, direct meter and last hits.
    pub const CELL: usize = 2;
    /// The first word of the key.
    pub const KEY: usize = 4;
}

/// A list of tuples, for tables that are searched by tuple-space search. A tuple is a hash table for the entries that share a mask.
///
/// The list is the number of tuples, then [`SIZE`](tuple::SIZE) words for each tuple, best rank first. The constants are word indexes
/// within a tuple.
pub mod tuple {
    /// An upper bound (`i64`) on the rank of the tuple's entries. A lookup that has found a better entry skips the remaining tuples.
    pub const BEST: usize = 0;
    /// Address of the mask, which has as many words as the key.
    pub const MASK: usize = 1;
    /// Address of the array of [`Bucket`](super::Bucket)s.
    pub const BUCKETS: usize = 2;
    /// Address of the array of overflow buckets.
    pub const OVERFLOW: usize = 3;
    /// Number of buckets - 1. The number is a power of two, so this is the mask that turns a hash into a bucket number.
    pub const BUCKET_MASK: usize = 4;
    /// Number of words of a tuple.
    pub const SIZE: usize = 5;
}

/// A trie for longest-prefix match ([`Structure::LpmTrie`]).
///
/// A lookup takes these steps; `dataplane::memory::trie` explains the design.
///
/// 1. The first 24 bits of the key index the root. A slot of the root holds the value of the longest prefix of at most 24 bits, or the
///    number of a link.
/// 2. A link holds that value and the address of a *subtree*, which has the longer prefixes. A subtree is a node or a list; the address of
///    a list has [`IS_LIST`](lpm::IS_LIST) added.
/// 3. A *node* consumes the next byte of the key. It gives the value of the longest prefix that ends within this byte, and the subtree for
///    the longer ones. A *list* holds up to four prefixes, and ends the lookup.
/// 4. The last value other than 0 wins. If there is none, the value of the empty prefix applies. The value is the index of a row's
///    address; 0 means that no prefix matches.
pub mod lpm {
    use std::sync::atomic::AtomicU64;

    /// Root word 0: address of the root array, with one `u32` for each value of a key's first 24 bits. (A shorter key is padded with
    /// zeros.) A slot is a value shifted left by one, or the number of a link shifted left by one, plus 1.
    pub const ROOT: usize = 0;
    /// Root word 1: address of the links. A link has two words: the value of its slot, and the address of the subtree or 0.
    pub const LINKS: usize = 1;
    /// Root word 2: the value of the empty prefix, or 0.
    pub const EMPTY_PREFIX: usize = 2;
    /// Root word 3: address of the array of row addresses, indexed by value.
    pub const ROWS: usize = 3;
    /// Number of root words.
    pub const SIZE: usize = 4;

    /// Added to the address of a subtree that is a list. Blocks are aligned to 64 bytes, so the lowest bit is free.
    pub const IS_LIST: u64 = 1;

    /// One cache line of a block. A list takes one line, and a node takes several.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct Line(pub [AtomicU64; 8]);

    /// Number of words in a group. A node begins with four groups; group `g` covers the byte values 64 * g to 64 * g + 63. Each bit of
    /// the group's bitmaps stands for one byte value. A *run* is a range of byte values in one group that have the same value.
    pub const GROUP: usize = 4;
    /// Group word 0: bitmap of the byte values where a run begins.
    pub const RUNS: usize = 0;
    /// Group word 1: bitmap of the byte values that have a child.
    pub const CHILDREN: usize = 1;
    /// Group word 2: the number of runs (low 32 bits) and of children (high 32 bits) in the groups before this one. A byte's run number
    /// is this base plus the number of set bits up to its own, minus 1.
    pub const BASES: usize = 2;
    /// Group word 3: the offset in bytes from the beginning of the node to its array of child addresses, which all groups share.
    pub const POINTERS: usize = 3;
    /// Number of words in the four groups. After them come the values of the runs, a `u32` each.
    pub const NODE_HEADER: usize = 4 * GROUP;

    /// Largest number of prefixes in a list. Words 0 to 3 of a list hold the bits of each prefix that follow the list's depth, longest
    /// prefix first, left-aligned.
    pub const LIST: usize = 4;
    /// First word with the values of a list's prefixes, a `u32` each.
    pub const LIST_VALUES: usize = 4;
    /// Word with the shift of each prefix, a byte each: how many of the 64 bits lie after the prefix. A key matches if its bits and the
    /// prefix's bits are equal after a right shift by this amount.
    pub const LIST_SHIFTS: usize = 6;
    /// Word with one bit for each prefix that is in use.
    pub const LIST_USED: usize = 7;
}

/// Number of slots in a [`Bucket`].
pub const SLOTS: usize = 6;

/// A bucket of a hash table: one cache line with [`SLOTS`] slots for rows.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Bucket {
    /// The tag of each slot: 16 bits of the key's hash, with the lowest bit set. 0 marks a free slot. A lookup compares keys only where
    /// the tags are equal.
    pub tags: [AtomicU16; SLOTS],
    /// The next bucket of the overflow chain: its index in the array of overflow buckets + 1, or 0 at the end of the chain.
    pub overflow: AtomicU32,
    /// The address of each slot's row.
    pub rows: [AtomicPtr<u64>; SLOTS],
}

/// A table that learns ([`Structure::Flow`]): its root, its rows, its free rows. `dataplane::memory::flows` explains the design.
pub mod flow {
    use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

    /// Root word 0: address of the [`FlowBucket`]s.
    pub const BUCKETS: usize = 0;
    /// Root word 1: address of row 0, which does not exist: 0 stands for no row.
    pub const ROWS: usize = 1;
    /// Root word 2: the number of buckets. A bucket's number is the upper half of its product with a hash of 32 bits.
    pub const COUNT: usize = 2;
    /// Root word 3: the size of a row in bytes.
    pub const STRIDE: usize = 3;
    /// Root word 4: the largest number of entries.
    pub const SIZE: usize = 4;
    /// Root word 5: address of the words of [`free`].
    pub const FREE: usize = 5;
    /// The first of the hash's random numbers: a summand, and then two factors for each word of the key.
    pub const SECRETS: usize = 6;

    /// Row word 0: the timer. It is [`TIMED`], the time in microseconds when the timer was started, and in the
    /// lowest [`PROFILE_BITS`] the number of the expire time profile; or 0 for an entry without a timer.
    pub const TIMER: usize = 0;
    /// Row word 1: [`LIVE`], then the next row of the bucket's chain or 0, and in the low 32 bits the hash of the key.
    pub const LINK: usize = 1;
    /// Row word 2, if the entries of the table have cells: the entry's cell. Otherwise, an entry's cell is the number of its row.
    pub const CELL: usize = 2;
    /// Number of the bit of [`LINK`] where the number of the next row begins.
    pub const NEXT: u32 = 32;
    /// Rows are multiples of this number of words, and begin at such a multiple, so that one of eight words takes one cache line.
    pub const ALIGN: usize = 2;

    /// The word of a row where the key begins. The action data follows it.
    pub const fn key(cells: bool) -> usize {
        if cells { CELL + 1 } else { CELL }
    }

    /// The bit of a timer that runs.
    pub const TIMED: u64 = 1 << 63;
    /// Number of bits of a profile's number.
    pub const PROFILE_BITS: u32 = 8;
    /// The bit of [`LINK`] in a row that is an entry.
    pub const LIVE: u64 = 1 << 63;

    /// Indexes of words (`u32`) in the list of free rows. All workers share the list.
    pub mod free {
        /// The number of entries of the table.
        pub const USED: usize = 0;
        /// The spin lock of the list: 0 while it is free.
        pub const LOCK: usize = 16;
        /// The number of rows in the list.
        pub const COUNT: usize = 17;
        /// The largest number of a row that was ever used.
        pub const UNUSED: usize = 18;
        /// The largest number of a row.
        pub const TOTAL: usize = 19;
        /// The first row of the list.
        pub const ROWS: usize = 32;
    }

    /// Number of slots in a [`FlowBucket`].
    pub const SLOTS: usize = 8;

    /// A bucket: one cache line with [`SLOTS`] slots for rows.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct FlowBucket {
        /// The tag of each slot: 16 bits of the key's hash, with the lowest bit set. 0 marks a free slot.
        pub tags: [AtomicU16; SLOTS],
        /// The row in each slot.
        pub rows: [AtomicU32; SLOTS],
        /// The first row of the chain of rows for which no slot was free, or 0.
        pub chain: AtomicU32,
        /// The spin lock of those who add or remove an entry: 0 while it is free.
        pub lock: AtomicU32,
        /// Fills the cache line.
        pub reserved: AtomicU64,
    }

    /// Number of free rows that a worker keeps at hand.
    pub const CACHE: usize = 15;

    /// The free rows of one table that a worker keeps at hand.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct FlowCache {
        /// The number of rows.
        pub count: AtomicU32,
        /// The numbers of free rows; the first `count` ones are valid.
        pub rows: [AtomicU32; CACHE],
    }
}

/// The published root of a table.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Table {
    /// The structure that finds entries, by the table's [`Structure`]: a list of tuples, a trie root, the root of a table that learns
    /// ([`mod@flow`]), or (for [`Structure::Array`]) an array of row addresses.
    pub index: AtomicPtr<u64>,
    /// The action data of the default action, which runs on a miss.
    pub miss: AtomicPtr<u8>,
}

/// The descriptor of an array of cells.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cells {
    /// Address of the first cell.
    pub cells: AtomicPtr<u64>,
    /// Number of cells. A cell of a register or of last hits is one word, a cell of a counter two (packets, bytes), and a cell of a meter
    /// [`meter::SIZE`].
    pub size: u64,
}

/// The state that all workers share. It is the first argument of [`Burst`].
#[derive(Debug, Default)]
#[repr(C)]
pub struct Shared {
    /// The tables, in the order of the manifest.
    pub tables: AtomicPtr<Table>,
    /// The registers, in the order of the manifest.
    pub registers: AtomicPtr<Cells>,
    /// The [meters](mod@meter), in the order of the manifest. A direct meter is indexed by the cells of its table's entries.
    pub meters: AtomicPtr<Cells>,
    /// A [directory](mod@directory) of multicast groups. A group has one word for each copy: its `egress_rid` (high 32 bits) and its
    /// port.
    pub groups: AtomicPtr<u64>,
    /// A directory of mirroring sessions. A session has one word: a port, or [`MIRROR_GROUP`] plus the number of a multicast group.
    pub mirrors: AtomicPtr<u64>,
    /// A directory of value sets, by their number in the manifest. Each field of each member has four words: value and mask, or the
    /// lowest and the highest value of a range. Each of the two takes two words, the low one first.
    pub value_sets: AtomicPtr<u64>,
    /// A directory of the ports to the host (PNA). They have no words.
    pub host_ports: AtomicPtr<u64>,
    /// The last flow id that a packet got (PNA). Workers add to it.
    pub flow_ids: AtomicPtr<u32>,
    /// Whether the host wants the messages that the program logs: 1, or 0.
    pub listens: AtomicU64,
}

/// Marks a mirroring session whose clones go to a multicast group.
pub const MIRROR_GROUP: u64 = 1 << 32;

/// A directory: a map from a small number to words, sorted for binary search.
///
/// The first word is the number of ids. Then each id has [`SIZE`](directory::SIZE) words, in ascending order: the id, and the address of
/// its words. The first of those is their number.
pub mod directory {
    /// Number of words for each id.
    pub const SIZE: usize = 2;
}

/// A cell of a meter: a lock and up to two token buckets (RFC 2698). The constants are word indexes.
pub mod meter {
    /// The spin lock: 0 while it is free.
    pub const LOCK: usize = 0;
    /// Number of token buckets in use. Without any, every packet is green.
    pub const RATES: usize = 1;
    /// First word of the token buckets, lowest rate first. A token bucket is: its rate in units a microsecond (`f64`), its tokens
    /// (`f64`), its burst size in units, and the time of its last refill in microseconds. A unit is a packet or a byte.
    pub const BUCKETS: usize = 2;
    /// Number of words of a token bucket.
    pub const BUCKET: usize = 4;
    /// Largest number of token buckets. Two rates make three colours.
    pub const MAX: usize = 2;
    /// Number of words of a cell.
    pub const SIZE: usize = BUCKETS + MAX * BUCKET;
}

/// The state of one thread that runs the program. It is the second argument of [`Burst`].
#[derive(Debug, Default)]
#[repr(C)]
pub struct Worker {
    /// The counters, in the order of the manifest.
    pub counters: AtomicPtr<Cells>,
    /// The direct counter of each table, in the order of the manifest. It has no cells if the table does not count.
    pub direct: AtomicPtr<Cells>,
    /// The time of the last hit of each entry in microseconds, for each table in the order of the manifest. It has no cells if the table
    /// has no idle timeouts.
    pub hits: AtomicPtr<Cells>,
    /// Two words (packets, bytes) for each drop reason, in the order of the manifest.
    pub drops: AtomicPtr<u64>,
    /// State of the random number generator (xorshift64*); never 0.
    pub seed: u64,
    /// The time that packets see, in microseconds. The host sets it between bursts.
    pub clock: u64,
    /// The buffer of [digests](mod@digest).
    pub digests: AtomicPtr<u8>,
    /// Bytes of the digest buffer in use.
    pub digests_used: u64,
    /// Size of the digest buffer in bytes.
    pub digests_capacity: u64,
    /// Number of digests lost because the buffer was full.
    pub digests_lost: u64,
    /// A stack of free packet buffers. The program takes buffers for clones from its end.
    pub free_packets: AtomicPtr<*mut Packet>,
    /// Number of free packet buffers.
    pub free_count: u64,
    /// The packets to send, in order. The host provides room for every packet of the burst and every free buffer.
    pub sent: AtomicPtr<*mut Packet>,
    /// Number of packets to send.
    pub sent_count: u64,
    /// For each table in the order of the manifest, the free rows that the worker keeps at hand. Null if no table learns.
    pub flows: AtomicPtr<flow::FlowCache>,
    /// For each port number a bit that says whether the port has a queue. This and the next two are for programs with queues.
    pub queued: AtomicPtr<u64>,
    /// The packets for the queues of their ports, in order: for each a [`Waiting`] and the program's state. The host provides room for every packet of
    /// the burst and every free buffer.
    pub waiting: AtomicPtr<u8>,
    /// Number of packets for queues.
    pub waiting_count: u64,
}

/// A packet that waits in the queue of its port. The program's own state follows it, whose size only the program knows.
#[derive(Debug)]
#[repr(C)]
pub struct Waiting {
    /// The packet. The program sets it when it hands the packet over; the host sets it when it gives it back.
    pub packet: *mut Packet,
    /// The port where the packet goes.
    pub port: u32,
    /// The stage that it will enter.
    pub stage: u32,
    /// When it entered the queue, in microseconds. This and the next three are the host's.
    pub entered: u64,
    /// The packets that waited when it entered.
    pub before: u64,
    /// How long it waited, in microseconds.
    pub waited: u64,
    /// The packets that wait when it leaves.
    pub behind: u64,
}

/// A digest or a message in a worker's buffer: a header, the values, and zeros up to a multiple of 8 bytes. Each value takes `ceil(width / 8)`
/// bytes in network order.
pub mod digest {
    /// Size of the header in bytes: the digest's number in the manifest, then the size of its values in bytes, a `u32` each.
    pub const HEAD: usize = 8;
    /// The bit of the number that says that this is a message. The other bits are the message's number in the manifest.
    pub const MESSAGE: u32 = 1 << 31;
}

/// A packet and its buffer. The host owns both; the program may write the packet, its headroom and its tailroom.
#[derive(Debug)]
#[repr(C)]
pub struct Packet {
    /// Address of the first byte.
    pub data: *mut u8,
    /// Length in bytes.
    pub length: u32,
    /// Writable bytes before the packet.
    pub headroom: u32,
    /// Writable bytes after the packet.
    pub tailroom: u32,
    /// The ingress port on entry, and the egress port of a sent packet.
    pub port: u32,
    /// What the program decided: [`SENT`] or [`DROPPED`].
    pub verdict: u32,
    /// The drop reason of a dropped packet, as an index into the manifest's reasons.
    pub reason: u32,
    /// Size of the buffer in bytes, including headroom and tailroom.
    pub capacity: u32,
    /// [`PARTIAL`] or 0.
    pub flags: u32,
    /// A number that the host chooses. A clone has the number of its original.
    pub token: u32,
}

/// Packet flag for checksum offload. The checksum field of the TCP or UDP header holds the sum over the pseudo-header, not complemented;
/// the rest of the sum is added when the packet is segmented. The program treats such a checksum as correct.
pub const PARTIAL: u32 = 1;

/// How many key-sized parts a row has: the masked key alone, or in a tuple space the masked key and its mask, or in a tuple space with
/// range keys also the lowest and the highest values.
pub const fn key_parts(structure: Structure, ranges: bool) -> u32 {
    match (matches!(structure, Structure::TupleSpace), ranges) {
        (false, _) => 1,
        (true, false) => 2,
        (true, true) => 4,
    }
}

/// The offset in bytes from a row's key to its action data.
pub const fn data_offset(key_size: u32, structure: Structure, ranges: bool) -> u32 {
    key_parts(structure, ranges) * key_size.next_multiple_of(8)
}

/// Verdict of a packet that leaves through its port.
pub const SENT: u32 = 1;
/// Verdict of a packet that is dropped for its reason.
pub const DROPPED: u32 = 2;

/// The flags that a program's C is compiled with; the host adds those for the processor.
///
/// The program reads keys and packets as words of any size, hence `-fno-strict-aliasing`. Adjacent fields must not be merged into one
/// store: gcc 12 merges bytes through the stack, and a later load of two bytes then waits for both stores (three per cent of apps/nat64).
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

/// The entry point of a program: it processes a burst of packets. The burst may have any number of packets.
pub type Burst = unsafe extern "C" fn(*const Shared, *mut Worker, *mut *mut Packet, u32);

/// Name of the function that processes packets that have left their queues, in programs with queues: a [`Dequeue`].
pub const DEQUEUE: &str = "strait_dequeue";
/// Name of the constant with the size in bytes of what the host keeps for a packet that waits: a [`Waiting`] and the program's state.
pub const WAITING_SIZE: &str = "strait_waiting_size";

/// Like [`Burst`], for packets that have left their queues, in programs with queues.
pub type Dequeue = unsafe extern "C" fn(*const Shared, *mut Worker, *mut *mut Waiting, u32);
