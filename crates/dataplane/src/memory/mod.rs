//! The memory of a native program, written by one host while workers read it: tables ([`table`]), registers, and what each worker
//! counts for itself ([`Worker`]).
//!
//! Nothing here is unsafe: the program's side follows pointers, this side only gives them out, and keeps what they point to until
//! no burst can still hold it ([`Quiet`]). The shapes are [`abi::native`]'s. Writers take turns; a worker waits for nobody.

mod hash;
mod table;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi::manifest::Manifest;
use abi::native::{Cells, Shared};
use abi::{ActionCall, Bits, Entry, MatchValue};

use crate::{Count, TableError};
use table::Table;
use worker::Counts;

pub use worker::Worker;

/// All that a program and its workers share.
pub struct Memory {
    manifest: Manifest,
    shared: Shared,
    /// What the program sees of tables and registers.
    visible: Vec<abi::native::Table>,
    _register_cells: Vec<Cells>,
    registers: Vec<Vec<AtomicU64>>,
    /// First values of registers.
    initial: Vec<u64>,
    writer: Mutex<Writer>,
}

/// What a writer knows.
struct Writer {
    tables: Vec<Table>,
    quiet: Quiet,
}

/// What was replaced, until no worker can still read it.
#[derive(Default)]
pub(crate) struct Quiet {
    workers: Vec<Arc<Counts>>,
    /// Where each worker was then, and what.
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
        let now = self.workers.iter().map(|w| w.rounds.load(Ordering::SeqCst)).collect();
        self.retired.push_back((now, what));
    }

    /// What nobody reads any more. A worker that was made later has never seen it.
    fn sweep(&mut self) -> Vec<Retired> {
        let mut free = Vec::new();
        while let Some((then, _)) = self.retired.front() {
            let gone = |(then, worker): (&u64, &Arc<Counts>)| {
                then.is_multiple_of(2) || worker.rounds.load(Ordering::SeqCst) != *then
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
    /// Tables as the program declares them; `initial` are the first values of its registers, zero where it is too short.
    pub fn new(manifest: &Manifest, initial: &[Bits]) -> Result<Memory, TableError> {
        let initial: Vec<u64> =
            (0..manifest.registers.len()).map(|i| initial.get(i).map_or(0, Bits::low_u64)).collect();
        let registers: Vec<Vec<AtomicU64>> = manifest
            .registers
            .iter()
            .zip(&initial)
            .map(|(r, first)| (0..r.size).map(|_| AtomicU64::new(*first)).collect())
            .collect();
        let register_cells: Vec<Cells> = registers.iter().map(|r| cells(r, 1)).collect();
        let visible: Vec<_> = manifest.tables.iter().map(|_| abi::native::Table::default()).collect();
        let shared = Shared {
            tables: AtomicPtr::new(visible.as_ptr().cast_mut()),
            registers: AtomicPtr::new(register_cells.as_ptr().cast_mut()),
        };
        let mut tables: Vec<_> = manifest.tables.iter().enumerate().map(|(i, t)| Table::new(i, t)).collect();
        let mut quiet = Quiet::default();
        for (table, visible) in tables.iter_mut().zip(&visible) {
            table.begin(visible, &mut quiet)?;
        }
        Ok(Memory {
            manifest: manifest.clone(),
            shared,
            visible,
            _register_cells: register_cells,
            registers,
            initial,
            writer: Mutex::new(Writer { tables, quiet }),
        })
    }

    /// For the program's entry point.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What the program offers.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Makes a worker. What it counts stays when it is gone.
    pub fn worker(&self) -> Worker {
        let mut writer = self.writer();
        let (worker, counts) = Worker::new(&self.manifest, writer.quiet.workers.len() as u64);
        writer.quiet.workers.push(counts);
        worker
    }

    /// Adds an entry.
    pub fn insert(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, visible, quiet| table.insert(entry, visible, quiet))
    }

    /// Gives the entry with this match (and priority) another action.
    pub fn modify(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, _, quiet| table.modify(entry, quiet))
    }

    /// Removes the entry with this match (and priority).
    pub fn delete(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, visible, quiet| table.delete(entry, visible, quiet))
    }

    /// Removes every entry that can be removed.
    pub fn clear(&self, table: &str) -> Result<(), TableError> {
        self.write(table, |table, visible, quiet| {
            table.clear(visible, quiet);
            Ok(())
        })
    }

    /// Changes what happens on a miss.
    pub fn set_default(&self, table: &str, call: &ActionCall) -> Result<(), TableError> {
        self.write(table, |table, visible, quiet| table.set_default(call, visible, quiet))
    }

    /// What the entries of a table match, and their priorities.
    pub fn matches(&self, table: &str) -> Vec<(Vec<MatchValue>, i32)> {
        self.position(table).map_or_else(Vec::new, |at| self.writer().tables[at].matches())
    }

    /// What an entry has counted; `None` if there is no such entry.
    pub fn direct_count(&self, table: &str, entry: &Entry) -> Option<Count> {
        let at = self.position(table)?;
        let writer = self.writer();
        let cell = writer.tables[at].cell(entry)?;
        sum(writer.quiet.workers.iter().map(|w| worker::pair(&w.direct[at], cell)))
    }

    /// A cell of a counter.
    pub fn counter(&self, name: &str, index: u64) -> Option<Count> {
        let at = self.manifest.counters.iter().position(|c| c.name == name)?;
        sum(self.writer().quiet.workers.iter().map(|w| worker::pair(&w.counters[at], index)))
    }

    /// Writes a cell of a counter; whether there is such a cell.
    pub fn set_counter(&self, name: &str, index: u64, count: Count) -> bool {
        let Some(at) = self.manifest.counters.iter().position(|c| c.name == name) else { return false };
        let writer = self.writer();
        // One worker has it all; the others begin anew.
        let values = std::iter::once(count).chain(std::iter::repeat(Count::default()));
        let set = |(w, value): (&Arc<Counts>, Count)| worker::set_pair(&w.counters[at], index, value);
        writer.quiet.workers.iter().zip(values).map(set).fold(false, |any, done| any | done)
    }

    /// Packets dropped for a reason.
    pub fn drops(&self, reason: &str) -> Option<Count> {
        let at = self.manifest.drops.iter().position(|d| d.name == reason)?;
        sum(self.writer().quiet.workers.iter().map(|w| worker::pair(&w.drops, at as u64)))
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
        at.map(|at| self.registers[at].iter().for_each(|c| c.store(self.initial[at], Ordering::Relaxed)))
            .is_some()
    }

    fn position(&self, table: &str) -> Option<usize> {
        self.manifest.tables.iter().position(|t| t.name == table)
    }

    /// A writer that panicked left its table as it was, or with one entry more.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(
        &self,
        table: &str,
        write: impl FnOnce(&mut Table, &abi::native::Table, &mut Quiet) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let missing = || TableError::Entry(abi::manifest::EntryError::NoTable(table.to_owned()));
        let at = self.position(table).ok_or_else(missing)?;
        let mut writer = self.writer();
        let Writer { tables, quiet } = &mut *writer;
        for retired in quiet.sweep() {
            if let Retired::Row(_, table, cell) = retired {
                for worker in &quiet.workers {
                    worker::set_pair(&worker.direct[table], cell, Count::default());
                }
                tables[table].release(cell);
            }
        }
        write(&mut tables[at], &self.visible[at], quiet)
    }
}

/// Counts of several workers as one; `None` where none has the cell.
fn sum(mut counts: impl Iterator<Item = Option<Count>>) -> Option<Count> {
    let add = |a: Count, b: Count| Count { packets: a.packets + b.packets, bytes: a.bytes + b.bytes };
    counts.try_fold(Count::default(), |sum, count| count.map(|c| add(sum, c)))
}

/// An array of words as the program sees it, in cells of so many words.
fn cells(words: &[AtomicU64], each: u64) -> Cells {
    Cells { cells: AtomicPtr::new(words.as_ptr().cast_mut().cast()), size: words.len() as u64 / each }
}
