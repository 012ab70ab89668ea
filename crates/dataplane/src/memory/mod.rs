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
//! * `meters`: the cells of meters. `directory`: maps from a number to words: multicast groups, mirroring sessions, value sets.
//! * `device`: what a controller reads and writes, as a [`crate::Device`].
//! * `worker`: what one thread counts, and its bursts. `epoch`: grace periods; `retired`: what waits for their end. `view`, `region`: small types that all
//!   share.

mod device;
mod directory;
mod epoch;
mod flows;
mod hash;
mod lpm;
mod members;
mod meters;
mod region;
mod retired;
mod rows;
mod subtree;
mod table;
mod trie;
mod tuples;
mod view;
mod worker;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi::id::{CounterId, DropId, MeterId, TableId};
use abi::manifest::Manifest;
use abi::native::{Cells, Shared};
use abi::{Bits, Entry, MatchValue};

use crate::device::Event;
use crate::{Count, Profile, TableError};
use directory::Directory;
use meters::Meters;
use retired::{Reclaimer, Retired};
use table::Table;
use view::{View, cells};

pub use region::{Advise, Host, Region};
use worker::Counts;
pub use worker::Worker;

/// The number of events that wait until the controller asks for them.
const EVENTS: usize = 1 << 16;

/// The memory of one running program, shared by its workers and its controllers.
pub struct Memory {
    /// Distinguishes the memories of a process, see [`Worker::is_of`].
    number: u64,
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
    /// Held for a whole batch or read of a controller, also while a batch waits for grace periods.
    turn: Mutex<()>,
    /// The time in microseconds.
    now: AtomicU64,
    /// What [`Memory::report`] got.
    reported: Mutex<VecDeque<Event>>,
}

/// The number of rows that [`Memory::expire`], or the search for idle entries, looks at under one lock.
const ROWS_AT_ONCE: u64 = 4096;

/// The state that only writers use. The lock around it makes them take turns.
struct Writer {
    tables: Vec<Table>,
    profiles: Vec<Profile>,
    meters: Vec<Meters>,
    /// For each table, the number of its direct meter.
    direct_meters: Vec<Option<usize>>,
    groups: Directory,
    mirrors: Directory,
    value_sets: Directory,
    host_ports: Directory,
    /// The expire time of each profile in microseconds (PNA), or `u64::MAX`.
    expire_times: Box<[u64; 256]>,
    /// The members of each value set.
    set_members: Vec<Vec<Vec<MatchValue>>>,
    /// What is added to the workers' sums of a counter's cell. A worker alone writes its counts, so no packet's count is lost when a
    /// controller sets a value.
    offsets: HashMap<(CounterId, u64), Count>,
    /// The same for the direct counter in a cell of a table.
    direct_offsets: HashMap<(TableId, u64), Count>,
    /// What each worker counts.
    workers: Vec<Arc<Counts>>,
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
        let direct_meters: Vec<_> = manifest
            .numbered_tables()
            .map(|(table, _)| manifest.direct_meter_of(table).map(MeterId::index))
            .collect();
        let cells_of = |meter: usize| {
            let table = manifest.metered_table(MeterId::from(meter));
            table.map(|at| table::cells(&manifest.tables[at.index()]))
        };
        let meters: Vec<Meters> = (0..manifest.meters.len())
            .map(|i| match cells_of(i) {
                Some(cells) => Meters::new(cells),
                None => Meters::new(manifest.meters[i].size.unwrap_or(0)),
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
        static MEMORIES: AtomicU64 = AtomicU64::new(0);
        Ok(Memory {
            number: MEMORIES.fetch_add(1, Ordering::Relaxed),
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
                profiles: vec![Profile::default(); manifest.profiles.len()],
                meters,
                direct_meters,
                groups: Directory::default(),
                mirrors: Directory::default(),
                value_sets: Directory::default(),
                host_ports: Directory::default(),
                expire_times: Box::new([u64::MAX; 256]),
                set_members: vec![Vec::new(); manifest.value_sets.len()],
                offsets: HashMap::new(),
                direct_offsets: HashMap::new(),
                workers: Vec::new(),
                reclaimer,
            }),
            turn: Mutex::new(()),
            now: AtomicU64::new(0),
            reported: Mutex::new(VecDeque::new()),
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
        let number = writer.workers.len() as u64;
        let (worker, counts) = Worker::new(&self.manifest, self.number, number, free, self.host.advise);
        writer.reclaimer.watch(counts.epoch.clone());
        writer.workers.push(counts);
        worker
    }

    /// Adds an entry.
    pub fn insert(&self, table: TableId, entry: &Entry) -> Result<(), TableError> {
        self.manifest.tables[table.index()].check_entry(entry)?;
        self.write_all(table, |writer, root| {
            let Writer { tables, reclaimer, .. } = writer;
            let runs = std::slice::from_ref(&entry.action);
            tables[table.index()].insert(entry, runs, &mut View { table: root, reclaimer })
        })
    }

    /// The packets dropped for a reason, over all workers.
    pub fn drops(&self, reason: DropId) -> Count {
        sum(self.writer().workers.iter().map(|w| worker::pair(&w.drops, reason.0.into()))).unwrap_or_default()
    }

    /// Sets the time in microseconds, on the clock of [`Worker::set_clock`]: idle timeouts and meters that are written from now on start
    /// then.
    pub fn set_clock(&self, micros: u64) {
        self.now.store(micros, Ordering::Relaxed);
    }

    /// Keeps an event for [`crate::Device::events`]. The host calls it with what workers report. Returns false, and loses the event, if too
    /// many wait already.
    pub fn report(&self, event: Event) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let room = reported.len() < EVENTS;
        if room {
            reported.push_back(event);
        }
        room
    }

    /// The events that have been reported since the last call; unlike [`crate::Device::events`] this does not search for idle entries.
    pub fn take_reported(&self) -> Vec<Event> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
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

    /// Calls `f` with the action data of each entry of a table to which packets add entries. The lock is taken for some rows at a time, so an
    /// entry that is replaced meanwhile may come twice.
    pub fn each_action_data(&self, table: TableId, mut f: impl FnMut(&[u8])) {
        let all = self.writer().tables[table.index()].rows_to_search(1.0) as u32;
        for first in (0..=all).step_by(ROWS_AT_ONCE as usize) {
            let rows = first..first.saturating_add(ROWS_AT_ONCE as u32);
            self.writer().tables[table.index()].each_action_data(rows, &mut f);
        }
    }

    /// Takes the writers' lock. A poisoned lock is taken too: a writer that panicked left its table as it
    /// was, or with one entry more.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write to a table, and to what belongs to the table, under the lock. While the table's rows or cells are all in use although it
    /// holds fewer entries than its size, deleted rows await their grace periods; the host waits for those without the lock, and the write
    /// is tried again.
    fn write_all<T>(
        &self,
        table: TableId,
        write: impl Fn(&mut Writer, &abi::native::Table) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        let at = table.index();
        for attempt in 0.. {
            let mut writer = self.writer();
            writer.reclaim();
            match write(&mut writer, &self.roots[at]) {
                // A grace period is long when the scheduler has suspended a worker in the middle of a burst.
                Err(TableError::Full { .. }) if writer.tables[at].has_room() => {}
                done => return done,
            }
            drop(writer);
            if !(self.host.wait)(attempt) {
                break;
            }
        }
        let table = &self.manifest.tables[at];
        Err(TableError::Full { table: table.name.clone(), size: table.size })
    }
}

impl Writer {
    /// Frees the memory whose grace period has ended. Rows and cells return to their tables' free lists, with the counts, the last
    /// hit and the meter of each cell reset for its next entry.
    fn reclaim(&mut self) {
        let Writer { tables, reclaimer, workers, meters, direct_meters, direct_offsets, .. } = self;
        for retired in reclaimer.reclaim() {
            let Retired::Row { table, memory, cell } = retired else { continue };
            if let Some(cell) = cell {
                for worker in &*workers {
                    worker.reset_cell(table, cell);
                }
                direct_offsets.remove(&(TableId::from(table), cell));
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
    counts.try_fold(Count::default(), |sum, count| count.map(|c| sum.wrapping_add(c)))
}
