//! The memory of a native program, written by one host while workers read it: tables ([`table`], [`tuples`], [`lpm`], [`choices`]), registers,
//! [`meters`], groups and the like ([`directory`]), and what each worker counts for itself ([`Worker`]).
//!
//! Nothing here is unsafe: the program's side follows pointers, this side only gives them out, and keeps what they point to until
//! no burst can still hold it ([`Quiet`]). The shapes are [`abi::native`]'s. Writers take turns; a worker waits for nobody.

mod choices;
mod directory;
mod hash;
mod lpm;
mod meters;
mod rows;
mod table;
mod trie;
mod tuples;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi::manifest::Manifest;
use abi::native::{Cells, MIRROR_GROUP, Shared};
use abi::{ActionCall, Bits, Entry, MatchValue};

use crate::{Count, Indirect, Profile, ProfileError, Rate, TableError};
use choices::Slot;
use directory::Directory;
use meters::Meters;
use table::{Identity, Table, View};
use worker::Counts;

pub use worker::Worker;

/// All that a program and its workers share.
pub struct Memory {
    manifest: Manifest,
    shared: Shared,
    /// What the program sees of tables and registers.
    visible: Vec<abi::native::Table>,
    _register_cells: Vec<Cells>,
    _meter_cells: Vec<Cells>,
    registers: Vec<Vec<AtomicU64>>,
    /// First values of registers.
    initial: Vec<u64>,
    advise: Advise,
    writer: Mutex<Writer>,
}

/// What a writer knows.
struct Writer {
    tables: Vec<Table>,
    profiles: Vec<Profile<Identity>>,
    meters: Vec<Meters>,
    /// Of each table, the number of its direct meter.
    direct_meters: Vec<Option<usize>>,
    groups: Directory,
    mirrors: Directory,
    value_sets: Directory,
    quiet: Quiet,
}

/// Where the clones of a mirroring session go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// To a port.
    Port(u32),
    /// To all members of a multicast group.
    Group(u32),
}

/// What was replaced, until no worker can still read it.
#[derive(Default)]
pub(crate) struct Quiet {
    workers: Vec<Arc<Counts>>,
    /// Where each worker was then, and what.
    retired: VecDeque<(Vec<u64>, Retired)>,
}

/// The memory of a row.
#[allow(dead_code)]
pub(crate) enum Held {
    /// Its own.
    Words(Vec<u64>),
    /// A place of its table's [`rows::Rows`].
    Place(u32),
}

/// A piece of memory that look-ups go to.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Address.
    pub start: u64,
    /// Bytes.
    pub length: usize,
    /// Whether it has been written, and is in memory already.
    pub written: bool,
}

/// Told of such pieces: huge pages make look-ups faster.
pub type Advise = fn(Piece);

impl Piece {
    fn of<T>(all: &[T], written: bool) -> Piece {
        Piece { start: all.as_ptr() as u64, length: size_of_val(all), written }
    }
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
    /// A row of a table, whose memory and (if it says so) cell may be used again.
    Row { table: usize, held: Held, cell: Option<u64> },
    /// What an entry could lead to.
    Slot(Slot),
    /// Blocks of a trie.
    Lines(Vec<abi::native::lpm::Line>),
    /// A trie's root.
    Root(Box<[AtomicU32]>, Box<[AtomicU64]>),
}

impl Quiet {
    /// Keeps it until every burst that is at work now has ended. What replaces it has been published.
    pub fn retire(&mut self, what: Retired) {
        // Nobody reads it; only cells have somebody who waits for them.
        if self.workers.is_empty() && !matches!(what, Retired::Row { .. }) {
            return;
        }
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
    pub fn new(manifest: &Manifest, initial: &[Bits], advise: Advise) -> Result<Memory, TableError> {
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
        let visible: Vec<_> = manifest.tables.iter().map(|_| abi::native::Table::default()).collect();
        let shared = Shared {
            tables: AtomicPtr::new(visible.as_ptr().cast_mut()),
            registers: AtomicPtr::new(register_cells.as_ptr().cast_mut()),
            meters: AtomicPtr::new(meter_cells.as_ptr().cast_mut()),
            ..Shared::default()
        };
        let mut tables: Vec<_> =
            manifest.tables.iter().enumerate().map(|(i, t)| Table::new(i, t, advise)).collect();
        let mut quiet = Quiet::default();
        for (table, visible) in tables.iter_mut().zip(&visible) {
            table.begin(&mut View { table: visible, quiet: &mut quiet })?;
        }
        Ok(Memory {
            manifest: manifest.clone(),
            shared,
            visible,
            _register_cells: register_cells,
            _meter_cells: meter_cells,
            registers,
            initial,
            advise,
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
                quiet,
            }),
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
        let (worker, counts) = Worker::new(&self.manifest, writer.quiet.workers.len() as u64, self.advise);
        writer.quiet.workers.push(counts);
        worker
    }

    /// Adds an entry.
    pub fn insert(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, view| table.insert(entry, view))
    }

    /// Gives the entry with this match (and priority) another action.
    pub fn modify(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, view| table.modify(entry, view))
    }

    /// Adds an entry, or gives the one with this match (and priority) its action.
    pub fn upsert(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        match self.insert(table, entry) {
            Err(TableError::Exists(_)) => self.modify(table, entry),
            other => other,
        }
    }

    /// Removes the entry with this match (and priority).
    pub fn delete(&self, table: &str, entry: &Entry) -> Result<(), TableError> {
        self.write(table, |table, view| table.delete(entry, view))?;
        let mut writer = self.writer();
        if let Some((at, profile)) = self.position(table).and_then(|at| Some((at, self.profile_of(at)?))) {
            let identity = writer.tables[at].identity(entry);
            writer.profiles[profile].left_by(at, &identity);
        }
        Ok(())
    }

    /// Removes every entry that can be removed.
    pub fn clear(&self, table: &str) -> Result<(), TableError> {
        self.write(table, |table, view| {
            table.clear(view);
            Ok(())
        })
    }

    /// Changes what happens on a miss.
    pub fn set_default(&self, table: &str, call: &ActionCall) -> Result<(), TableError> {
        self.write(table, |table, view| table.set_default(call, view))
    }

    /// The entries of a table, but for don't-care bits; those that lead to members name no action.
    pub fn entries(&self, table: &str) -> Vec<Entry> {
        self.position(table).map_or_else(Vec::new, |at| self.writer().tables[at].entries())
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

    /// Makes or replaces a multicast group: its copies as (`egress_rid`, port).
    pub fn set_group(&self, group: u32, copies: &[(u32, u32)]) {
        let words = copies.iter().map(|(rid, port)| u64::from(*rid) << 32 | u64::from(*port)).collect();
        let Writer { groups, quiet, .. } = &mut *self.writer();
        groups.set(group, Some(words), &self.shared.groups, quiet);
    }

    /// Sets where clones of a session go, or that they go nowhere.
    pub fn set_mirror(&self, session: u32, to: Option<Mirror>) {
        let word = |to| match to {
            Mirror::Port(port) => vec![u64::from(port)],
            Mirror::Group(group) => vec![MIRROR_GROUP | u64::from(group)],
        };
        let Writer { mirrors, quiet, .. } = &mut *self.writer();
        mirrors.set(session, to.map(word), &self.shared.mirrors, quiet);
    }

    /// Sets the members of a value set; whether there is such a set and they are of its shape and number.
    pub fn set_members(&self, name: &str, members: &[Vec<MatchValue>]) -> bool {
        let Some(at) = self.manifest.value_sets.iter().position(|s| s.name == name) else { return false };
        let set = &self.manifest.value_sets[at];
        let fits = |member: &Vec<MatchValue>| {
            let parts = member.iter().zip(&set.keys);
            member.len() == set.keys.len()
                && parts.into_iter().all(|(p, k)| p.width().is_none_or(|w| w == k.width))
        };
        if members.len() as u64 > set.size || !members.iter().all(fits) {
            return false;
        }
        let parts = members.iter().flat_map(|member| member.iter().zip(&set.keys));
        let words = parts.flat_map(|(part, key)| member_words(part, key.width)).collect();
        let Writer { value_sets, quiet, .. } = &mut *self.writer();
        value_sets.set(at as u32, Some(words), &self.shared.value_sets, quiet);
        true
    }

    /// Sets the rates of one cell of a meter, lowest first, or of all its cells; whether there is such a cell, and no more than two
    /// rates. The time is in microseconds.
    pub fn set_rates(&self, name: &str, index: Option<u64>, rates: &[Rate], now: u64) -> bool {
        let at = self.manifest.meters.iter().position(|m| m.name == name);
        at.is_some_and(|at| self.writer().meters[at].set(index, rates, now))
    }

    /// Makes a member of an action profile, or gives it another action; `None` if there is no such profile.
    pub fn set_member(&self, profile: &str, id: u32, call: ActionCall) -> Option<Result<(), ProfileError>> {
        let at = self.manifest.profiles.iter().position(|p| p.name == profile)?;
        let writer = &mut *self.writer();
        Some(writer.profiles[at].set_member(id, call).map(|()| refresh(writer, at)))
    }

    /// Makes a group of members, or gives it others; `None` if there is no such profile.
    pub fn set_member_group(
        &self,
        profile: &str,
        id: u32,
        members: Vec<u32>,
    ) -> Option<Result<(), ProfileError>> {
        let at = self.manifest.profiles.iter().position(|p| p.name == profile)?;
        let writer = &mut *self.writer();
        Some(writer.profiles[at].set_group(id, members).map(|()| refresh(writer, at)))
    }

    /// Adds an entry that leads to a member or a group; the action that it names does not matter.
    pub fn insert_indirect(&self, table: &str, entry: &Entry, to: Indirect) -> Result<(), IndirectError> {
        let missing = || IndirectError::NoProfile(table.to_owned());
        let at = self.position(table).ok_or_else(missing)?;
        let profile = self.profile_of(at).ok_or_else(missing)?;
        // Before anything is written.
        let calls = self.writer().profiles[profile].choices(to)?;
        self.write(table, |table, view| table.insert_indirect(entry, &calls, view))?;
        let writer = &mut *self.writer();
        let identity = writer.tables[at].identity(entry);
        writer.profiles[profile].used_by(at, identity, to);
        refresh(writer, profile);
        Ok(())
    }

    /// Lets an entry count as idle when no packet has hit it for that many microseconds; `None`: never. Whether there is such an
    /// entry.
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

    /// Entries that have become idle by now, each with its table's name.
    pub fn tell_idle(&self, now: u64) -> Vec<(String, Entry)> {
        let Writer { tables, quiet, .. } = &mut *self.writer();
        let mut told = Vec::new();
        for (at, table) in tables.iter_mut().enumerate() {
            let hit = |cell: u64| {
                let of =
                    |w: &Arc<Counts>| w.hits[at].get(cell as usize).map_or(0, |c| c.load(Ordering::Relaxed));
                quiet.workers.iter().map(of).max().unwrap_or(0)
            };
            let name = &self.manifest.tables[at].name;
            told.extend(table.tell_idle(now, hit).into_iter().map(|entry| (name.clone(), entry)));
        }
        told
    }

    /// The action profile of a table.
    fn profile_of(&self, table: usize) -> Option<usize> {
        let name = self.manifest.tables[table].implementation.as_ref()?;
        self.manifest.profiles.iter().position(|p| p.name == *name)
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
        write: impl Fn(&mut Table, &mut View<'_>) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let missing = || TableError::Entry(abi::manifest::EntryError::NoTable(table.to_owned()));
        let at = self.position(table).ok_or_else(missing)?;
        let mut writer = self.writer();
        for _ in 0..WAITS {
            writer.sweep();
            let Writer { tables, quiet, .. } = &mut *writer;
            match write(&mut tables[at], &mut View { table: &self.visible[at], quiet }) {
                // Rows that were deleted are not free before the bursts that may hold them have ended. A worker that the scheduler keeps
                // away in the middle of one is worth a wait, and a table that has room is not full.
                Err(TableError::Full { .. }) if tables[at].has_room() => std::thread::sleep(WAIT),
                done => return done,
            }
        }
        Err(TableError::Full { table: table.to_owned(), size: self.manifest.tables[at].size })
    }
}

/// How often, and how long each time, a writer waits for bursts to end: a second.
const WAITS: u32 = 10_000;
const WAIT: std::time::Duration = std::time::Duration::from_micros(100);

impl Writer {
    /// What no burst holds any more is free.
    fn sweep(&mut self) {
        let Writer { tables, quiet, meters, direct_meters, .. } = self;
        for retired in quiet.sweep() {
            let Retired::Row { table, held, cell } = retired else { continue };
            if let Some(cell) = cell {
                for worker in &quiet.workers {
                    worker.forget(table, cell);
                }
                if let Some(meter) = direct_meters[table] {
                    meters[meter].renew(cell, 0);
                }
            }
            tables[table].release(&held, cell);
        }
    }
}

/// Why an entry that leads to a member or a group could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndirectError {
    /// The table's entries name actions.
    #[error("table `{0}` has no action profile")]
    NoProfile(String),
    /// No such member or group.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The entry does not fit.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// What members and groups are now, for the entries that lead to them.
fn refresh(writer: &mut Writer, profile: usize) {
    let Writer { tables, profiles, quiet, .. } = writer;
    for (table, entry, calls) in profiles[profile].users() {
        tables[table].set_choices(&entry, &calls, quiet);
    }
}

/// A part of a value set's member: value and mask, or the ends of a range, two words each.
fn member_words(part: &MatchValue, width: u32) -> [u64; 4] {
    let (a, b) = match part {
        MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => (v.clone(), Bits::ones(width)),
        MatchValue::Optional(None) => (Bits::zero(width), Bits::zero(width)),
        MatchValue::Lpm(v, len) => {
            let mask = Bits::prefix_mask(width, *len);
            (v.and(&mask), mask)
        }
        MatchValue::Ternary(v, mask) => (v.and(mask), mask.clone()),
        MatchValue::Range(low, high) => (low.clone(), high.clone()),
    };
    let [a, b] = [a, b].map(|v| v.to_u128().unwrap_or(u128::MAX));
    [a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64]
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
