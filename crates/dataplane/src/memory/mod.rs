//! The memory of a native program, written by one host while workers read it: tables ([`table`]), registers, and what each worker
//! counts for itself ([`Worker`]).
//!
//! Nothing here is unsafe: the program's side follows pointers, this side only gives them out, and keeps what they point to until
//! no burst can still hold it ([`Quiet`]). The shapes are [`abi::native`]'s.

mod hash;
mod table;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use abi::manifest::Manifest;
use abi::native::{Cells, Shared};
use abi::{ActionCall, Bits, Entry, MatchValue};

use crate::{Count, TableError};
use table::Table;

/// All that a program and its workers share.
pub struct Memory {
    manifest: Manifest,
    tables: Vec<Table>,
    /// What the program sees of them.
    visible: Vec<abi::native::Table>,
    registers: Vec<Vec<AtomicU64>>,
    initial: Vec<u64>,
    _register_cells: Vec<Cells>,
    shared: Shared,
    quiet: Quiet,
}

/// Where a worker is: even between bursts, odd in one.
pub type Rounds = Arc<AtomicU64>;

/// What was replaced, until no worker can still read it.
#[derive(Default)]
pub(crate) struct Quiet {
    workers: Vec<Rounds>,
    retired: VecDeque<(Vec<u64>, Retired)>,
}

/// Something that a program may still be reading: held, not looked at.
#[allow(dead_code)]
pub(crate) enum Retired {
    /// Rows, lists of tuples.
    Words(Vec<u64>),
    /// Buckets.
    Buckets(Vec<abi::native::Bucket>),
    /// Action data.
    Bytes(Vec<u8>),
    /// A row with a cell that may be used again: table and cell.
    Row(Vec<u64>, usize, u64),
}

impl Quiet {
    /// Keeps it until every burst that is at work now has ended. What replaces it has been published.
    pub fn retire(&mut self, what: Retired) {
        fence(Ordering::SeqCst);
        let now = self.workers.iter().map(|w| w.load(Ordering::SeqCst)).collect();
        self.retired.push_back((now, what));
    }

    /// What nobody reads any more.
    fn sweep(&mut self) -> Vec<Retired> {
        let mut free = Vec::new();
        while let Some((then, _)) = self.retired.front() {
            let gone = |(then, worker): (&u64, &Rounds)| {
                then.is_multiple_of(2) || worker.load(Ordering::SeqCst) != *then
            };
            if !then.iter().zip(&self.workers).all(gone) {
                break;
            }
            free.extend(self.retired.pop_front().map(|(_, what)| what));
        }
        free
    }
}

impl Memory {
    /// Tables as the program declares them, registers at their first values.
    pub fn new(manifest: &Manifest, initial: &[Bits]) -> Result<Memory, TableError> {
        let registers: Vec<Vec<AtomicU64>> = manifest
            .registers
            .iter()
            .enumerate()
            .map(|(i, r)| {
                let first = initial.get(i).map_or(0, Bits::low_u64);
                (0..r.size).map(|_| AtomicU64::new(first)).collect()
            })
            .collect();
        let register_cells: Vec<Cells> = registers.iter().map(|r| cells(r, 1)).collect();
        let mut memory = Memory {
            tables: manifest.tables.iter().enumerate().map(|(i, t)| Table::new(i, t)).collect(),
            visible: manifest.tables.iter().map(|_| abi::native::Table::default()).collect(),
            initial: initial.iter().map(Bits::low_u64).collect(),
            shared: Shared {
                tables: AtomicPtr::default(),
                registers: AtomicPtr::new(register_cells.as_ptr().cast_mut()),
            },
            _register_cells: register_cells,
            registers,
            manifest: manifest.clone(),
            quiet: Quiet::default(),
        };
        memory.shared.tables = AtomicPtr::new(memory.visible.as_mut_ptr());
        for (table, visible) in memory.tables.iter_mut().zip(&memory.visible) {
            table.begin(visible, &mut memory.quiet)?;
        }
        Ok(memory)
    }

    /// For the program's entry point.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What the program offers.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Makes a worker.
    pub fn worker(&mut self) -> Worker {
        let worker = Worker::new(&self.manifest, self.quiet.workers.len() as u64);
        self.quiet.workers.push(worker.rounds.clone());
        worker
    }

    /// Adds an entry.
    pub fn insert(&mut self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.with(table, |table, visible, quiet| table.insert(entry, visible, quiet))
    }

    /// Gives the entry with this match (and priority) another action.
    pub fn modify(&mut self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.with(table, |table, _, quiet| table.modify(entry, quiet))
    }

    /// Removes the entry with this match (and priority).
    pub fn delete(&mut self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.with(table, |table, visible, quiet| table.delete(entry, visible, quiet))
    }

    /// Removes every entry that can be removed.
    pub fn clear(&mut self, table: &str) -> Result<(), TableError> {
        self.with(table, |table, visible, quiet| {
            table.clear(visible, quiet);
            Ok(())
        })
    }

    /// Changes what happens on a miss.
    pub fn set_default(&mut self, table: &str, call: &ActionCall) -> Result<(), TableError> {
        self.with(table, |table, visible, quiet| table.set_default(call, visible, quiet))
    }

    /// What an entry has counted on all these workers; `None` if there is no such entry.
    pub fn direct_count(&self, table: &str, entry: &Entry, workers: &[&Worker]) -> Option<Count> {
        let at = self.position(table)?;
        let cell = self.tables[at].cell(entry)?;
        Some(sum(workers.iter().filter_map(|w| w.direct.get(at)).map(|cells| pair(cells, cell))))
    }

    /// What the entries of a table match, and their priorities.
    pub fn matches(&self, table: &str) -> Vec<(Vec<MatchValue>, i32)> {
        self.position(table).map_or_else(Vec::new, |at| self.tables[at].matches())
    }

    /// A cell of a register.
    pub fn register(&self, name: &str, index: u64) -> Option<Bits> {
        let at = self.manifest.registers.iter().position(|r| r.name == name)?;
        let cell = self.registers[at].get(usize::try_from(index).ok()?)?;
        Some(Bits::new(self.manifest.registers[at].width, cell.load(Ordering::Relaxed).into()))
    }

    /// Writes a cell of a register; whether there is such a cell.
    pub fn set_register(&self, name: &str, index: u64, value: &Bits) -> bool {
        let at = self.manifest.registers.iter().position(|r| r.name == name);
        let cell = at.and_then(|at| self.registers[at].get(usize::try_from(index).ok()?));
        cell.map(|c| c.store(value.low_u64(), Ordering::Relaxed)).is_some()
    }

    /// All cells of a register back to what they were at first; whether there is such a register.
    pub fn reset_register(&self, name: &str) -> bool {
        let at = self.manifest.registers.iter().position(|r| r.name == name);
        at.map(|at| {
            let first = self.initial.get(at).copied().unwrap_or(0);
            self.registers[at].iter().for_each(|c| c.store(first, Ordering::Relaxed));
        })
        .is_some()
    }

    fn position(&self, table: &str) -> Option<usize> {
        self.manifest.tables.iter().position(|t| t.name == table)
    }

    fn with(
        &mut self,
        table: &str,
        write: impl FnOnce(&mut Table, &abi::native::Table, &mut Quiet) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        for retired in self.quiet.sweep() {
            if let Retired::Row(_, table, cell) = retired {
                self.tables[table].release(cell);
            }
        }
        let missing = || TableError::Entry(abi::manifest::EntryError::NoTable(table.to_owned()));
        let at = self.position(table).ok_or_else(missing)?;
        write(&mut self.tables[at], &self.visible[at], &mut self.quiet)
    }
}

/// What one thread counts, and its place in its work.
pub struct Worker {
    counters: Vec<Vec<AtomicU64>>,
    direct: Vec<Vec<AtomicU64>>,
    drops: Vec<AtomicU64>,
    _cells: [Vec<Cells>; 2],
    native: abi::native::Worker,
    rounds: Rounds,
}

impl Worker {
    fn new(manifest: &Manifest, number: u64) -> Worker {
        let zeros = |n: u64| (0..n * 2).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let counters: Vec<_> = manifest.counters.iter().map(|c| zeros(c.size)).collect();
        let counted = |t: &abi::manifest::Table| t.direct_counter.as_ref().map_or(0, |_| table::cells(t));
        let direct: Vec<_> = manifest.tables.iter().map(|t| zeros(counted(t))).collect();
        let drops = zeros(manifest.drops.len() as u64);
        let all = [&counters, &direct].map(|of| of.iter().map(|c| cells(c, 2)).collect::<Vec<_>>());
        let native = abi::native::Worker {
            counters: AtomicPtr::new(all[0].as_ptr().cast_mut()),
            direct: AtomicPtr::new(all[1].as_ptr().cast_mut()),
            drops: AtomicPtr::new(drops.as_ptr().cast_mut().cast()),
            seed: 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number + 1),
            clock: 0,
        };
        Worker { counters, direct, drops, _cells: all, native, rounds: Rounds::default() }
    }

    /// What packets take for the time from now on, in microseconds.
    pub fn set_clock(&mut self, micros: u64) {
        self.native.clock = micros;
    }

    /// Runs a burst: `work` gets what the program's entry point wants of a worker.
    pub fn burst(&mut self, work: impl FnOnce(&mut abi::native::Worker)) {
        let round = self.rounds.load(Ordering::Relaxed);
        self.rounds.store(round + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        work(&mut self.native);
        self.rounds.store(round + 2, Ordering::SeqCst);
    }

    /// A cell of a counter, by the counter's number in the manifest.
    pub fn counter(&self, counter: usize, index: u64) -> Option<Count> {
        let cells = self.counters.get(counter)?;
        (index < cells.len() as u64 / 2).then(|| pair(cells, index))
    }

    /// Writes a cell of a counter; whether there is such a cell.
    pub fn set_counter(&mut self, counter: usize, index: u64, count: Count) -> bool {
        let Some(cells) = self.counters.get(counter) else { return false };
        let found = index < cells.len() as u64 / 2;
        if found {
            cells[index as usize * 2].store(count.packets, Ordering::Relaxed);
            cells[index as usize * 2 + 1].store(count.bytes, Ordering::Relaxed);
        }
        found
    }

    /// Packets dropped for a reason of the manifest.
    pub fn drops(&self, reason: usize) -> Count {
        if reason * 2 < self.drops.len() { pair(&self.drops, reason as u64) } else { Count::default() }
    }
}

fn pair(cells: &[AtomicU64], index: u64) -> Count {
    let at = |i: usize| cells.get(i).map_or(0, |c| c.load(Ordering::Relaxed));
    Count { packets: at(index as usize * 2), bytes: at(index as usize * 2 + 1) }
}

/// Counts of several workers as one.
pub fn sum(counts: impl Iterator<Item = Count>) -> Count {
    counts.fold(Count::default(), |a, b| Count { packets: a.packets + b.packets, bytes: a.bytes + b.bytes })
}

/// An array of words as the program sees it, in cells of so many words.
fn cells(words: &[AtomicU64], each: u64) -> Cells {
    Cells { cells: AtomicPtr::new(words.as_ptr().cast_mut().cast()), size: words.len() as u64 / each }
}

#[cfg(test)]
mod tests;
