//! Safe memory reclamation: epochs and grace periods, as in RCU.
//!
//! Workers read tables without locks, so the writer must not free what a worker may still read. Each worker has an *epoch*: a
//! counter that is odd while the worker runs a burst and even between bursts. A writer changes a structure in three steps:
//!
//! 1. It publishes the replacement with one release store.
//! 2. It *retires* the old memory: the [`Reclaimer`] keeps the memory together with the current epoch of every worker.
//! 3. It frees the memory after the *grace period*, that is, when each worker that was inside a burst has left that burst.
//!    A worker that starts a burst later can only find the replacement.
//!
//! Workers never wait for the writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use super::rows::RowId;
use super::worker::Counts;

/// Keeps retired memory until its grace period has ended.
#[derive(Default)]
pub(crate) struct Reclaimer {
    pub workers: Vec<Arc<Counts>>,
    /// Retired memory, oldest first, with the epoch of each worker at the time it was retired.
    retired: VecDeque<(Vec<u64>, Retired)>,
}

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
        // Without workers nobody reads the memory, so it is freed at once. A row is queued even then, because `Writer::reclaim`
        // must return its memory and its cell to the table's free lists.
        if self.workers.is_empty() && !matches!(what, Retired::Row { .. }) {
            return;
        }
        fence(Ordering::SeqCst);
        let now = self.workers.iter().map(|w| w.epoch.load(Ordering::SeqCst)).collect();
        self.retired.push_back((now, what));
    }

    /// Takes out everything whose grace period has ended. A worker that was made after a retirement is not waited for: it has
    /// never seen the retired memory.
    pub fn reclaim(&mut self) -> Vec<Retired> {
        let mut free = Vec::new();
        while let Some((then, _)) = self.retired.front() {
            let left_burst = |(then, worker): (&u64, &Arc<Counts>)| {
                then.is_multiple_of(2) || worker.epoch.load(Ordering::SeqCst) != *then
            };
            if !then.iter().zip(&self.workers).all(left_burst) {
                break;
            }
            free.extend(self.retired.pop_front().map(|(_, what)| what));
        }
        free
    }
}
