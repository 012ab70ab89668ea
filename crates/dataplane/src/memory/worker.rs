//! What one thread has for itself: its counts, and where it is in its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use abi::manifest::Manifest;
use abi::native::Cells;

use super::{cells, table};
use crate::Count;

/// What one thread counts; others may read it.
pub(super) struct Counts {
    /// In the order of the manifest: packets and bytes of each cell.
    pub counters: Vec<Vec<AtomicU64>>,
    /// Of each table; none where it does not count.
    pub direct: Vec<Vec<AtomicU64>>,
    pub drops: Vec<AtomicU64>,
    /// Even between bursts, odd in one.
    pub rounds: AtomicU64,
}

impl Counts {
    fn new(manifest: &Manifest) -> Counts {
        let zeros = |n: u64| (0..n * 2).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let counted = |t: &abi::manifest::Table| t.direct_counter.as_ref().map_or(0, |_| table::cells(t));
        Counts {
            counters: manifest.counters.iter().map(|c| zeros(c.size)).collect(),
            direct: manifest.tables.iter().map(|t| zeros(counted(t))).collect(),
            drops: zeros(manifest.drops.len() as u64),
            rounds: AtomicU64::new(0),
        }
    }
}

/// A cell's packets and bytes.
pub(super) fn pair(cells: &[AtomicU64], index: u64) -> Option<Count> {
    let at = usize::try_from(index).ok()?.checked_mul(2)?;
    let (packets, bytes) = (cells.get(at)?, cells.get(at + 1)?);
    Some(Count { packets: packets.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) })
}

/// Sets a cell; whether there is one.
pub(super) fn set_pair(cells: &[AtomicU64], index: u64, count: Count) -> bool {
    let at = usize::try_from(index).ok().and_then(|i| i.checked_mul(2));
    let Some([packets, bytes]) = at.and_then(|at| cells.get(at..at + 2)) else { return false };
    packets.store(count.packets, Ordering::Relaxed);
    bytes.store(count.bytes, Ordering::Relaxed);
    true
}

/// One thread's part of a program at work.
pub struct Worker {
    counts: Arc<Counts>,
    /// What the program sees of `counts`.
    _cells: [Vec<Cells>; 2],
    native: abi::native::Worker,
}

impl Worker {
    pub(super) fn new(manifest: &Manifest, number: u64) -> (Worker, Arc<Counts>) {
        let counts = Arc::new(Counts::new(manifest));
        let all =
            [&counts.counters, &counts.direct].map(|of| of.iter().map(|c| cells(c, 2)).collect::<Vec<_>>());
        let native = abi::native::Worker {
            counters: AtomicPtr::new(all[0].as_ptr().cast_mut()),
            direct: AtomicPtr::new(all[1].as_ptr().cast_mut()),
            drops: AtomicPtr::new(counts.drops.as_ptr().cast_mut().cast()),
            // An odd number times an odd one is not 0.
            seed: 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * number + 1),
            clock: 0,
        };
        (Worker { counts: counts.clone(), _cells: all, native }, counts)
    }

    /// What packets take for the time from now on, in microseconds.
    pub fn set_clock(&mut self, micros: u64) {
        self.native.clock = micros;
    }

    /// Runs a burst: `work` gets what the program's entry point wants of a worker. What is read in it stays until it ends.
    pub fn burst(&mut self, work: impl FnOnce(&mut abi::native::Worker)) {
        let rounds = &self.counts.rounds;
        let round = rounds.load(Ordering::Relaxed);
        rounds.store(round + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        work(&mut self.native);
        rounds.store(round + 2, Ordering::SeqCst);
    }
}
