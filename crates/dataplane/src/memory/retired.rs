//! What is retired: memory of each kind that a worker may still read.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::epoch;
use super::rows::RowId;

/// Keeps retired memory until its grace period has ended.
pub(crate) type Reclaimer = epoch::Reclaimer<Retired>;

/// The memory of one row.
#[allow(dead_code)]
pub(crate) enum RowMemory {
    /// The row has an allocation of its own, which is freed when this value is dropped.
    Words(Vec<u64>),
    /// The row lies in its table's row arena ([`Rows`](super::rows::Rows)).
    Arena(RowId),
}

/// Memory that a worker may still read. Most variants only keep an allocation alive, so nothing reads their fields.
#[allow(dead_code)]
pub(crate) enum Retired {
    /// Rows, lists of tuples, lists of members.
    Words(Vec<u64>),
    /// Buckets of a hash table.
    Buckets(Vec<abi::native::Bucket>),
    /// The action data of a default action or of a member.
    Bytes(Vec<u8>),
    /// A row of a table. After the grace period its memory is free for another row, and so is its cell, if it is given.
    Row { table: usize, memory: RowMemory, cell: Option<u64> },
    /// The pointer through which an entry finds its members.
    Pointer(Box<AtomicPtr<u64>>),
    /// Blocks of a trie.
    Lines(Vec<abi::native::lpm::Line>),
    /// The root array of a trie, and its links.
    Root(Box<[AtomicU32]>, Box<[AtomicU64]>),
}

impl Reclaimer {
    /// Keeps `what` for a grace period. The caller has already published its replacement.
    pub fn retire(&mut self, what: Retired) {
        // Without workers nobody reads the memory, so it is freed at once. A row is kept even then, because `Writer::reclaim`
        // must return its memory and its cell to the table's free lists.
        if self.has_readers() || matches!(what, Retired::Row { .. }) {
            self.keep(what);
        }
    }
}
