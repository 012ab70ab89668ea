//! The memory that a native program shares with its host: tables, registers, meters, multicast groups, and what each worker counts.
//!
//! One host writes while many workers read. The rules are those of RCU:
//!
//! * Readers take no lock and never wait. They follow pointers with acquire loads.
//! * Writers take turns: [`Memory`] holds one lock for all of them. A writer builds the new structure beside the old one and publishes it
//!   with a release store.
//! * Replaced memory is *retired*, and freed after a grace period (`epoch`).
//!
//! The program reads through raw pointers. The host only hands pointers out and keeps their targets alive, so this module needs no
//! `unsafe`. [`abi::native`] defines the layout of everything that both sides see.
//!
//! * `table`: one table: its entries, its default action, its cells. It finds entries by one of:
//!   `tuples` (exact, ternary, range, optional keys: hash tables of `hash`, or an array for short exact keys) or
//!   `lpm` (longest-prefix match: a `trie` with `subtree`s).
//!   `flows` (exact keys of tables to which packets add entries).
//! * `rows`: the arena of a table's rows. `members`: rows that refer to members of an action profile.
//! * `profiles`, `groups`, `meters`: the other objects that a controller writes. `directory`: maps from a number to words.
//! * `worker`: what one thread counts, and its bursts. `epoch`: grace periods. `view`, `region`: small types that all share.

mod directory;
mod epoch;
mod flows;
mod groups;
mod hash;
mod lpm;
mod members;
mod meters;
mod profiles;
mod region;
mod rows;
mod subtree;
mod table;
mod trie;
mod tuples;
mod view;
mod worker;

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi::manifest::Manifest;
use abi::native::{Cells, Shared};
use abi::{ActionCall, Bits, Entry};

use crate::{Count, Profile, Rate, TableError};
use directory::Directory;
use epoch::{Reclaimer, Retired};
use meters::Meters;
use table::Table;
use view::{Identity, View};
use worker::Counts;

pub use groups::Mirror;
pub use profiles::IndirectError;
pub use region::{Advise, Host, Region};
pub use worker::Worker;

/// The memory of one running program, shared by its workers and its controllers.
pub struct Memory {
    manifest: Manifest,
    /// The entry point's argument. It points into the fields below.
    shared: Shared,
    /// The published root of each table, in the order of the manifest.
    roots: Vec<abi::native::Table>,
    /// Descriptors of the register arrays; `shared` points to them, and nothing else reads them.
    _register_cells: Vec<Cells>,
    /// Descriptors of the meter arrays; `shared` points to them, and nothing else reads them.
    _meter_cells: Vec<Cells>,
    /// The last flow id; `shared` points to it.
    _flow_ids: Box<AtomicU32>,
    registers: Vec<Vec<AtomicU64>>,
    /// The initial value of each register's cells.
    initial: Vec<u64>,
    host: Host,
    writer: Mutex<Writer>,
}

/// The number of rows that [`Memory::expire`] searches under one lock.
const ROWS_AT_ONCE: u64 = 4096;

/// The state that only writers use. The lock around it makes them take turns.
struct Writer {
    tables: Vec<Table>,
    profiles: Vec<Profile<Identity>>,
    meters: Vec<Meters>,
    /// For each table, the number of its direct meter.
    direct_meters: Vec<Option<usize>>,
    groups: Directory,
    mirrors: Directory,
    value_sets: Directory,
    host_ports: Directory,
    /// The expire time of each profile in microseconds (PNA), or `u64::MAX`.
    expire_times: Box<[u64; 256]>,
    reclaimer: Reclaimer,
}

impl Memory {
    /// Memory for the program that `manifest` describes: tables with the entries that the program declares, registers, meters.
    /// `initial` holds the initial value of each register; registers beyond its end start at zero.
    pub fn new(manifest: &Manifest, initial: &[Bits], host: Host) -> Result<Memory, TableError> {
        let initial: Vec<u64> =
            (0..manifest.registers.len()).map(|i| initial.get(i).map_or(0, Bits::low_u64)).collect();
        let registers: Vec<Vec<AtomicU64>> = manifest
            .registers
            .iter()
            .zip(&initial)
            .map(|(r, first)| (0..r.size).map(|_| AtomicU64::new(*first)).collect())
            .collect();
        let register_cells: Vec<Cells> = registers.iter().map(|r| cells(r, 1)).collect();
        let direct_meter = |t: &abi::manifest::Table| {
            let name = t.direct_meter.as_ref()?;
            manifest.meters.iter().position(|m| m.name == *name)
        };
        let direct_meters: Vec<_> = manifest.tables.iter().map(direct_meter).collect();
        let cells_of = |meter: usize| {
            let table = direct_meters.iter().position(|m| *m == Some(meter));
            table.map(|at| table::cells(&manifest.tables[at]))
        };
        let meters: Vec<Meters> = (0..manifest.meters.len())
            .map(|i| match cells_of(i) {
                Some(cells) => Meters::new(cells, true),
                None => Meters::new(manifest.meters[i].size.unwrap_or(0), false),
            })
            .collect();
        let meter_cells: Vec<Cells> = meters.iter().map(Meters::cells).collect();
        let flow_ids = Box::new(AtomicU32::new(0));
        let roots: Vec<_> = manifest.tables.iter().map(|_| abi::native::Table::default()).collect();
        let shared = Shared {
            tables: AtomicPtr::new(roots.as_ptr().cast_mut()),
            registers: AtomicPtr::new(register_cells.as_ptr().cast_mut()),
            meters: AtomicPtr::new(meter_cells.as_ptr().cast_mut()),
            flow_ids: AtomicPtr::new(flow_ids.as_ptr()),
            ..Shared::default()
        };
        let mut tables: Vec<_> =
            manifest.tables.iter().enumerate().map(|(i, t)| Table::new(i, t, host)).collect();
        let mut reclaimer = Reclaimer::default();
        for (table, root) in tables.iter_mut().zip(&roots) {
            table.publish_initial(&mut View { table: root, reclaimer: &mut reclaimer })?;
        }
        Ok(Memory {
            manifest: manifest.clone(),
            shared,
            roots,
            _register_cells: register_cells,
            _meter_cells: meter_cells,
            _flow_ids: flow_ids,
            registers,
            initial,
            host,
            writer: Mutex::new(Writer {
                tables,
                profiles: manifest
                    .profiles
                    .iter()
                    .map(|p| Profile::new(&p.name, p.size, p.selector))
                    .collect(),
                meters,
                direct_meters,
                groups: Directory::default(),
                mirrors: Directory::default(),
                value_sets: Directory::default(),
                host_ports: Directory::default(),
                expire_times: Box::new([u64::MAX; 256]),
                reclaimer,
            }),
        })
    }

    /// The argument that the program's entry point takes. It stays valid as long as this memory lives.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The manifest of the program.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Makes a worker for one thread. Its counts remain part of the totals after the worker is dropped.
    pub fn worker(&self) -> Worker {
        let mut writer = self.writer();
        let free = writer.tables.iter().map(Table::free_rows).collect();
        let number = writer.reclaimer.workers.len() as u64;
        let (worker, counts) = Worker::new(&self.manifest, number, free, self.host.advise);
        writer.reclaimer.workers.push(counts);
        worker
    }

    /// Adds an entry.
    pub fn insert(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, view| table.insert(entry, view))
    }

    /// Changes the action of the entry with this match (and priority).
    pub fn modify(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, view| table.modify(entry, view))
    }

    /// Adds an entry. If an entry with this match (and priority) exists, changes its action instead.
    pub fn upsert(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, view| match table.insert(entry, view) {
            Err(TableError::Exists(_)) => table.modify(entry, view),
            other => other,
        })
    }

    /// Removes the entry with this match (and priority).
    pub fn delete(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        let profile = self.position(table).and_then(|at| self.profile_of(at));
        self.write_all(table, |writer, at, root| {
            let Writer { tables, reclaimer, profiles, .. } = writer;
            tables[at].delete(entry, &mut View { table: root, reclaimer })?;
            if let Some(profile) = profile {
                profiles[profile].left_by(at, &tables[at].identity(entry));
            }
            Ok(())
        })
    }

    /// Removes every entry, unless the table's entries are const.
    pub fn clear(&self, table: &str) -> Result<(), TableError> {
        self.write(table, |table, view| {
            table.clear(view);
            Ok(())
        })
    }

    /// Sets the default action, which runs on a miss.
    pub fn set_default(&self, table: &str, call: &ActionCall) -> Result<(), TableError> {
        self.write(table, |table, view| table.set_default(call, view))
    }

    /// The entries of a table; don't-care bits are zero. The action of an entry that refers to members of an action profile has no
    /// name.
    pub fn entries(&self, table: &str) -> Vec<Entry> {
        self.position(table).map_or_else(Vec::new, |at| self.writer().tables[at].entries())
    }

    /// The direct counter of an entry; `None` if there is no such entry.
    pub fn direct_count(&self, table: &str, entry: &Entry) -> Option<Count> {
        let at = self.position(table)?;
        let writer = self.writer();
        let cell = writer.tables[at].cell(entry)?;
        sum(writer.reclaimer.workers.iter().map(|w| worker::pair(&w.direct[at], cell)))
    }

    /// The count in a cell of a counter, over all workers; `None` if there is no such cell.
    pub fn counter(&self, name: &str, index: u64) -> Option<Count> {
        let at = self.manifest.counters.iter().position(|c| c.name == name)?;
        sum(self.writer().reclaimer.workers.iter().map(|w| worker::pair(&w.counters[at], index)))
    }

    /// Sets the total of a counter's cell. Returns whether there is such a cell.
    pub fn set_counter(&self, name: &str, index: u64, count: Count) -> bool {
        let Some(at) = self.manifest.counters.iter().position(|c| c.name == name) else { return false };
        let writer = self.writer();
        // The total is the sum over the workers: the first worker gets the value, the others get zero.
        let values = std::iter::once(count).chain(std::iter::repeat(Count::default()));
        let set = |(w, value): (&Arc<Counts>, Count)| worker::set_pair(&w.counters[at], index, value);
        writer.reclaimer.workers.iter().zip(values).map(set).fold(false, |any, done| any | done)
    }

    /// Packets dropped for a reason, by the reason's name, over all workers.
    pub fn drops(&self, reason: &str) -> Option<Count> {
        let at = self.manifest.drops.iter().position(|d| d.name == reason)?;
        sum(self.writer().reclaimer.workers.iter().map(|w| worker::pair(&w.drops, at as u64)))
    }

    /// The value of a register's cell; `None` if there is no such cell.
    pub fn register(&self, name: &str, index: u64) -> Option<Bits> {
        let at = self.manifest.registers.iter().position(|r| r.name == name)?;
        let cell = self.registers[at].get(usize::try_from(index).ok()?)?;
        Some(Bits::new(self.manifest.registers[at].width, cell.load(Ordering::Relaxed).into()))
    }

    /// Writes a cell of a register. Returns whether there is such a cell.
    pub fn set_register(&self, name: &str, index: u64, value: &Bits) -> bool {
        let at = self.manifest.registers.iter().position(|r| r.name == name);
        let cell = at.and_then(|at| self.registers[at].get(usize::try_from(index).ok()?));
        cell.map(|c| c.store(value.low_u64(), Ordering::Relaxed)).is_some()
    }

    /// Sets all cells of a register to their initial value. Returns whether there is such a register.
    pub fn reset_register(&self, name: &str) -> bool {
        let at = self.manifest.registers.iter().position(|r| r.name == name);
        at.map(|at| self.registers[at].iter().for_each(|c| c.store(self.initial[at], Ordering::Relaxed)))
            .is_some()
    }

    /// Sets the rates of one cell of a meter, or of all its cells (`None`). The lowest rate comes first. `now` is in microseconds, on
    /// the clock of [`Worker::set_clock`]. Returns false if there is no such cell, or if there are more than two rates.
    pub fn set_rates(&self, name: &str, index: Option<u64>, rates: &[Rate], now: u64) -> bool {
        let at = self.manifest.meters.iter().position(|m| m.name == name);
        at.is_some_and(|at| self.writer().meters[at].set(index, rates, now))
    }

    /// Sets an entry's idle timeout in microseconds; `None` switches it off. The entry is idle when no packet has hit it for that
    /// long. Returns whether there is such an entry.
    pub fn set_idle_timeout(
        &self,
        table: &str,
        entry: &Entry,
        timeout: Option<u64>,
        now: u64,
    ) -> Result<bool, TableError> {
        let at = self.position(table).ok_or_else(|| TableError::NotFound(table.to_owned()))?;
        self.writer().tables[at].set_idle_timeout(entry, timeout, now)
    }

    /// The entries that have become idle since the last call, each with its table's name.
    pub fn take_idle(&self, now: u64) -> Vec<(String, Entry)> {
        let Writer { tables, reclaimer, .. } = &mut *self.writer();
        let mut idle = Vec::new();
        for (at, table) in tables.iter_mut().enumerate() {
            let hit = |cell: u64| {
                let of =
                    |w: &Arc<Counts>| w.hits[at].get(cell as usize).map_or(0, |c| c.load(Ordering::Relaxed));
                reclaimer.workers.iter().map(of).max().unwrap_or(0)
            };
            let name = &self.manifest.tables[at].name;
            idle.extend(table.take_idle(now, hit).into_iter().map(|entry| (name.clone(), entry)));
        }
        idle
    }

    /// Sets the expire time of a profile in microseconds (PNA); `None` means that its entries never expire.
    pub fn set_expire_time(&self, profile: u8, micros: Option<u64>) {
        self.writer().expire_times[usize::from(profile)] = micros.unwrap_or(u64::MAX);
    }

    /// Removes entries that packets added and whose time has passed. Each table is searched from where the last search ended: `share` of
    /// its rows, so that the cost does not depend on the traffic. Returns the number of removed entries. `now` is in microseconds, on the clock
    /// of [`Worker::set_clock`].
    pub fn expire(&self, now: u64, share: f64) -> u64 {
        let mut removed = 0;
        for at in 0..self.manifest.tables.len() {
            let mut left = self.writer().tables[at].rows_to_search(share);
            while left > 0 {
                let count = left.min(ROWS_AT_ONCE);
                let writer = &mut *self.writer();
                writer.reclaim();
                let Writer { tables, reclaimer, expire_times, .. } = writer;
                let (searched, found) = tables[at].expire(now, expire_times, count, reclaimer);
                removed += found;
                // Without progress, the rest awaits the end of grace periods.
                left = if searched == 0 { 0 } else { left.saturating_sub(searched) };
            }
        }
        removed
    }

    /// The number of entries of a table.
    pub fn entry_count(&self, table: &str) -> u64 {
        self.position(table).map_or(0, |at| self.writer().tables[at].count())
    }

    /// The number of a table in the manifest.
    fn position(&self, table: &str) -> Option<usize> {
        self.manifest.tables.iter().position(|t| t.name == table)
    }

    /// Takes the writers' lock. A poisoned lock is taken too: a writer that panicked left its table as it
    /// was, or with one entry more.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write to a table under the lock.
    fn write(
        &self,
        table: &str,
        write: impl Fn(&mut Table, &mut View<'_>) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        self.write_all(table, |writer, at, root| {
            let Writer { tables, reclaimer, .. } = writer;
            write(&mut tables[at], &mut View { table: root, reclaimer })
        })
    }

    /// Runs a write to a table, and to what belongs to the table, under one lock. `write` gets the table's number. While the table's rows or cells are all in use although it holds fewer entries than
    /// its size, deleted rows await their grace periods; the host waits for those without the lock, and the write is tried again.
    fn write_all<T>(
        &self,
        table: &str,
        write: impl Fn(&mut Writer, usize, &abi::native::Table) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        let missing = || TableError::Entry(abi::manifest::EntryError::NoTable(table.to_owned()));
        let at = self.position(table).ok_or_else(missing)?;
        for attempt in 0.. {
            let mut writer = self.writer();
            writer.reclaim();
            match write(&mut writer, at, &self.roots[at]) {
                // A grace period is long when the scheduler has suspended a worker in the middle of a burst.
                Err(TableError::Full { .. }) if writer.tables[at].has_room() => {}
                done => return done,
            }
            drop(writer);
            if !(self.host.wait)(attempt) {
                break;
            }
        }
        Err(TableError::Full { table: table.to_owned(), size: self.manifest.tables[at].size })
    }
}

impl Writer {
    /// Frees the memory whose grace period has ended. Rows and cells return to their tables' free lists, with the counts, the last
    /// hit and the meter of each cell reset for its next entry.
    fn reclaim(&mut self) {
        let Writer { tables, reclaimer, meters, direct_meters, .. } = self;
        for retired in reclaimer.reclaim() {
            let Retired::Row { table, memory, cell } = retired else { continue };
            if let Some(cell) = cell {
                for worker in &reclaimer.workers {
                    worker.reset_cell(table, cell);
                }
                if let Some(meter) = direct_meters[table] {
                    meters[meter].reset_cell(cell, 0);
                }
            }
            tables[table].release(&memory, cell);
        }
    }
}

/// The total of the workers' counts; `None` if a worker has no such cell.
fn sum(mut counts: impl Iterator<Item = Option<Count>>) -> Option<Count> {
    let add = |a: Count, b: Count| Count { packets: a.packets + b.packets, bytes: a.bytes + b.bytes };
    counts.try_fold(Count::default(), |sum, count| count.map(|c| add(sum, c)))
}

/// The descriptor of an array of words that is divided into cells of `each` words.
fn cells(words: &[AtomicU64], each: u64) -> Cells {
    Cells { cells: AtomicPtr::new(words.as_ptr().cast_mut().cast()), size: words.len() as u64 / each }
}
