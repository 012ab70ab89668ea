//! The state of one thread that runs the program: its counts, its digests, its epoch.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use abi::manifest::{DigestType, Manifest, MessageType};
use abi::native::flow::FlowCache;
use abi::native::{Cells, digest};

use super::epoch::Epoch;
use super::flows::FreeRows;
use super::view::cells;
use super::{Advise, Region, table};
use crate::Count;
use crate::device::{Event, event};

/// The counts of one worker. The worker writes them, and the host reads them at any time, so the cells are atomic.
pub(super) struct Counts {
    /// For each counter of the manifest: packets and bytes of each cell, one word each.
    pub counters: Vec<Box<[AtomicU64]>>,
    /// For each table of the manifest: packets and bytes of each entry's cell. Empty if the table has no direct counter.
    pub direct: Vec<Box<[AtomicU64]>>,
    /// For each table of the manifest: the time of each cell's last hit, in microseconds. Empty if the table has no idle timeouts.
    pub hits: Vec<Box<[AtomicU64]>>,
    /// For each drop reason of the manifest: packets and bytes.
    pub drops: Box<[AtomicU64]>,
    /// The worker's epoch.
    pub epoch: Arc<Epoch>,
}

impl Counts {
    fn new(manifest: &Manifest, advise: Advise) -> Counts {
        let words = |n: u64| {
            let all: Box<[AtomicU64]> = bytemuck::zeroed_slice_box(n as usize);
            advise(Region::of(&all, false));
            all
        };
        let zeros = |n: u64| words(n * 2);
        let watched = |t: &abi::manifest::Table| if t.notifies_idle { table::cells(t) } else { 0 };
        let counted = |t: &abi::manifest::Table| t.direct_counter.as_ref().map_or(0, |_| table::cells(t));
        Counts {
            counters: manifest.counters.iter().map(|c| zeros(c.size)).collect(),
            direct: manifest.tables.iter().map(|t| zeros(counted(t))).collect(),
            hits: manifest.tables.iter().map(|t| words(watched(t))).collect(),
            drops: zeros(manifest.drops.len() as u64),
            epoch: Arc::default(),
        }
    }

    /// Clears the counts and the last hit of a table's cell, so that a new entry can have the cell.
    pub fn reset_cell(&self, table: usize, cell: u64) {
        set_pair(&self.direct[table], cell, Count::default());
        if let Some(hit) = self.hits[table].get(cell as usize) {
            hit.store(0, Ordering::Relaxed);
        }
    }
}

/// Size in bytes of a worker's buffer of digests and messages. They wait there until [`Worker::take_told`].
const DIGESTS: usize = 1 << 16;

/// The packets and bytes of a cell; `None` if the index is out of range.
pub(super) fn pair(cells: &[AtomicU64], index: u64) -> Option<Count> {
    let at = usize::try_from(index).ok()?.checked_mul(2)?;
    let (packets, bytes) = (cells.get(at)?, cells.get(at + 1)?);
    Some(Count { packets: packets.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) })
}

/// Sets the packets and bytes of a cell. Returns whether there is such a cell.
pub(super) fn set_pair(cells: &[AtomicU64], index: u64, count: Count) -> bool {
    let at = usize::try_from(index).ok().and_then(|i| i.checked_mul(2));
    let Some([packets, bytes]) = at.and_then(|at| cells.get(at..at + 2)) else { return false };
    packets.store(count.packets, Ordering::Relaxed);
    bytes.store(count.bytes, Ordering::Relaxed);
    true
}

/// The state of one thread that runs the program. The thread owns it; other threads read the counts only.
pub struct Worker {
    /// The number of the memory that it belongs to.
    memory: u64,
    counts: Arc<Counts>,
    /// Array descriptors of the counters, direct counters and last hits. `native` points to them.
    _cells: [Vec<Cells>; 3],
    /// The types of what packets tell.
    types: (Vec<DigestType>, Vec<MessageType>),
    /// The free rows of each table that the worker keeps at hand. `native` points to them.
    caches: Box<[FlowCache]>,
    /// The list of free rows of each table that learns.
    free: Vec<Option<Arc<FreeRows>>>,
    /// The digest buffer. `native` points to it.
    digests: Vec<AtomicU64>,
    native: abi::native::Worker,
}

impl Worker {
    pub(super) fn new(
        manifest: &Manifest,
        memory: u64,
        number: u64,
        free: Vec<Option<Arc<FreeRows>>>,
        advise: Advise,
    ) -> (Worker, Arc<Counts>) {
        let counts = Arc::new(Counts::new(manifest, advise));
        let seen = |of: &[Box<[AtomicU64]>], each| of.iter().map(|c| cells(c, each)).collect::<Vec<_>>();
        let all = [seen(&counts.counters, 2), seen(&counts.direct, 2), seen(&counts.hits, 1)];
        let tells = !manifest.digests.is_empty() || !manifest.messages.is_empty();
        let room = if tells { DIGESTS } else { 0 };
        let learns = free.iter().any(Option::is_some);
        let caches: Box<[FlowCache]> = free.iter().filter(|_| learns).map(|_| FlowCache::default()).collect();
        let digests: Vec<_> = (0..room / 8).map(|_| AtomicU64::new(0)).collect();
        let native = abi::native::Worker {
            counters: AtomicPtr::new(all[0].as_ptr().cast_mut()),
            direct: AtomicPtr::new(all[1].as_ptr().cast_mut()),
            hits: AtomicPtr::new(all[2].as_ptr().cast_mut()),
            drops: AtomicPtr::new(counts.drops.as_ptr().cast_mut().cast()),
            // Both factors are odd, so the product is odd and thus not 0, as xorshift requires.
            seed: 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * number + 1),
            clock: 0,
            digests: AtomicPtr::new(digests.as_ptr().cast_mut().cast()),
            digests_capacity: room as u64,
            flows: AtomicPtr::new(caches.as_ptr().cast_mut()),
            ..abi::native::Worker::default()
        };
        let types = (manifest.digests.clone(), manifest.messages.clone());
        (Worker { memory, counts: counts.clone(), _cells: all, types, caches, free, digests, native }, counts)
    }

    /// Takes the digests and messages that packets have sent since the last call, in the order of sending.
    pub fn take_told(&mut self) -> Vec<Event> {
        if self.native.digests_used == 0 {
            return Vec::new();
        }
        let used = std::mem::take(&mut self.native.digests_used) as usize;
        let words = self.digests[..used / 8].iter();
        let bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let mut left = bytes.as_slice();
        let mut all = Vec::new();
        while let Some(size) = left.get(4..digest::HEAD).and_then(|size| size.try_into().ok()) {
            all.extend(event(&self.types.0, &self.types.1, left));
            let size = digest::HEAD + (u32::from_ne_bytes(size) as usize).next_multiple_of(8);
            left = left.get(size..).unwrap_or_default();
        }
        all
    }

    /// The number of digests and messages lost since the last call because the buffer was full.
    pub fn take_told_lost(&mut self) -> u64 {
        std::mem::take(&mut self.native.digests_lost)
    }

    /// Counts a packet that the host itself drops. `reason` is an index into the manifest's drop reasons.
    pub fn drop_packet(&self, reason: usize, bytes: u64) {
        if let Some(count) = pair(&self.counts.drops, reason as u64) {
            let count = Count { packets: count.packets + 1, bytes: count.bytes + bytes };
            set_pair(&self.counts.drops, reason as u64, count);
        }
    }

    /// Sets the time that packets see from now on, in microseconds. The origin of the clock is the caller's choice.
    pub fn set_clock(&mut self, micros: u64) {
        self.native.clock = micros;
    }

    /// Runs one burst: calls `work` with the worker argument of the program's entry point. Memory that the program reads during the
    /// burst is not freed before the burst ends (see `epoch`).
    pub fn burst(&mut self, work: impl FnOnce(&mut abi::native::Worker)) {
        let _burst = self.counts.epoch.enter();
        work(&mut self.native);
    }

    /// Whether the worker was made by this memory. The program's entry point may only get a worker of its own memory: both sides have the
    /// sizes of the arrays from one manifest.
    pub fn is_of(&self, memory: &super::Memory) -> bool {
        self.memory == memory.number
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        for (cache, free) in self.caches.iter().zip(&self.free) {
            if let Some(free) = free {
                free.give_back(cache);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::Memory;
    use crate::memory::Host;
    use crate::memory::epoch::Reclaimer;

    fn memory() -> Memory {
        let host = Host { advise: |_| (), wait: |_| false, random: || 1 };
        Memory::new(&Manifest::default(), &[], host).expect("it is empty")
    }

    #[test]
    fn a_burst_that_panics_leaves_an_even_epoch() {
        let mut worker = memory().worker();
        let panics = AssertUnwindSafe(|| worker.burst(|_| panic!("as a test wants it")));
        assert!(catch_unwind(panics).is_err());
        let mut reclaimer = Reclaimer::default();
        reclaimer.watch(worker.counts.epoch.clone());
        reclaimer.keep(());
        assert_eq!(reclaimer.reclaim().len(), 1, "nothing retired would ever be freed");
    }

    #[test]
    fn a_worker_knows_its_memory() {
        let (one, two) = (memory(), memory());
        let worker = one.worker();
        assert!(worker.is_of(&one) && !worker.is_of(&two));
    }
}
