//! One table of a native program, from the writer's side. It checks entries, packs them into rows, and manages cells, idle timeouts and
//! the default action. [`Tuples`], [`Lpm`] or [`Flows`] store the rows so that lookups find them.
//!
//! A *row* is an entry as the program reads it ([`abi::native::row`]). A *cell* is a number that an entry holds while it exists: it
//! indexes the table's direct counter, its direct meter and its last hits.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use abi::layout::PackedKey;
use abi::manifest::{Structure, Table as Definition, TableLayout};
use abi::native::{data_offset, key_parts, row};
use abi::{ActionCall, Bits, Entry, MatchKind, MatchValue};

use super::flows::{self, Flows, FreeRows, Refused};
use super::lpm::Lpm;
use super::members::MemberMap;
use super::region::Host;
use super::retired::{Reclaimer, Retired, RowMemory};
use super::subtree::Prefix;
use super::tuples::Tuples;
use super::view::{Identity, View};
use crate::TableError;

/// The number of cells of a table. It is larger than the table's size, because the cell of a deleted entry stays in use for a grace
/// period.
pub fn cells(definition: &Definition) -> u64 {
    match learns(definition) {
        // Each row has a cell, and rows are numbered from 1.
        true => flows::rows(definition.size) + 1,
        false => definition.size + definition.size / 4 + 64,
    }
}

/// Whether packets add entries to the table.
fn learns(definition: &Definition) -> bool {
    definition.layout.as_ref().is_some_and(|l| l.structure == Structure::Flow)
}

/// One table and the memory that its published root points to.
pub struct Table {
    /// The table's number in the manifest.
    number: usize,
    definition: Definition,
    layout: Option<TableLayout>,
    /// The word of a row where the action data begins. The rows of a trie have no key.
    data_at: usize,
    store: Store,
    /// Number of entries.
    entries: u64,
    /// The published data of the default action.
    miss: Vec<u8>,
    /// The free list of cells.
    free_cells: Vec<u64>,
    /// The lowest cell that was never used.
    unused_cell: u64,
    /// The members of each entry, if the table has an action profile.
    members: MemberMap,
    /// The entries with an idle timeout, by their cells.
    idle: BTreeMap<u64, Idle>,
    /// When entries were added, by their cells, in a table that supports idle timeouts.
    added: HashMap<u64, u64>,
}

/// The structure that finds the entries.
enum Store {
    Tuples(Tuples),
    Lpm(Box<Lpm>),
    Flows(Box<Flows>),
}

/// An entry with an idle timeout (P4Runtime's `idle_timeout_ns`). Times are in microseconds.
struct Idle {
    entry: Identity,
    timeout: u64,
    /// The latest of: the timeout was set, a packet hit the entry, the entry was reported as idle.
    since: u64,
}

type Done<T> = Result<T, TableError>;

impl Table {
    /// An empty table, not yet published.
    pub fn new(number: usize, definition: &Definition, host: Host) -> Table {
        let advise = host.advise;
        let layout = definition.layout.clone();
        let trie = layout.as_ref().is_some_and(|l| l.structure == Structure::LpmTrie);
        let data_at = row::KEY + layout.as_ref().filter(|_| !trie).map_or(0, |l| key_words(definition, l));
        let data = layout.as_ref().map_or(0, |l| l.data_size.div_ceil(8) as usize);
        Table {
            number,
            data_at,
            store: match layout.as_ref().map(|l| (l.structure, l.key_size)) {
                Some((Structure::LpmTrie, _)) => {
                    Store::Lpm(Box::new(Lpm::new(cells(definition), !kept_by_entry(definition), advise)))
                }
                Some((Structure::Flow, bytes)) => Store::Flows(Box::new(Flows::new(
                    definition.size,
                    bytes.div_ceil(8) as usize,
                    data_at - row::KEY + data,
                    definition.has_cells(),
                    host,
                ))),
                Some((Structure::Array, bytes)) => {
                    Store::Tuples(Tuples::indexed(data_at + data, data_at, bytes, advise))
                }
                of => {
                    let merged = of.is_some_and(|(structure, _)| structure == Structure::TupleSpace);
                    Store::Tuples(Tuples::new(data_at + data, data_at, merged, advise))
                }
            },
            layout,
            definition: definition.clone(),
            entries: 0,
            miss: Vec::new(),
            free_cells: Vec::new(),
            unused_cell: 0,
            members: MemberMap::default(),
            idle: BTreeMap::new(),
            added: HashMap::new(),
        }
    }

    /// Publishes the table with the entries and the default action that the program declares.
    pub fn publish_initial(&mut self, view: &mut View<'_>) -> Done<()> {
        match &mut self.store {
            Store::Tuples(tuples) => tuples.publish(view),
            Store::Lpm(lpm) => lpm.publish(view),
            Store::Flows(flows) => flows.publish(view),
        }
        if let Some(call) = self.definition.default_action.clone() {
            self.put_default(&call, view)?;
        }
        if self.definition.is_code() {
            return Ok(());
        }
        for entry in self.definition.initial_entries.clone() {
            self.definition.check_shape(&entry)?;
            self.put(&entry, std::slice::from_ref(&entry.action), view)?;
        }
        Ok(())
    }

    /// Adds an entry, which the caller has checked. `runs` are the actions that it may run: its own one, or those of its action profile.
    pub fn insert(&mut self, entry: &Entry, runs: &[ActionCall], view: &mut View<'_>) -> Done<()> {
        self.put(entry, runs, view)
    }

    /// Replaces the actions that an entry may run.
    pub fn set_members(&mut self, entry: &Identity, calls: &[ActionCall], reclaimer: &mut Reclaimer) {
        let data = calls.iter().map(|call| self.data(call)).collect();
        self.members.set(entry, data, reclaimer);
    }

    /// Changes the action of an entry, which the caller has checked. The entry keeps its counts.
    pub fn modify(&mut self, entry: &Entry, runs: &[ActionCall], view: &mut View<'_>) -> Done<()> {
        let (identity, key) = self.identity_and_key(entry);
        let row = self.row(entry);
        let cell = self.find_row(&key, &row).map(|row| row[row::CELL]).ok_or_else(|| self.missing())?;
        if self.definition.implementation.is_some() {
            // The row stays; its members change.
            self.set_members(&identity, runs, view.reclaimer);
            return Ok(());
        }
        let old = match &mut self.store {
            Store::Tuples(tuples) => tuples.replace(&in_words(&key.mask), row).map(RowMemory::Arena),
            Store::Lpm(lpm) if lpm.shares() => return self.modify_shared(&key, row, view),
            Store::Lpm(lpm) => lpm.replace(cell, row).map(RowMemory::Words),
            Store::Flows(flows) => {
                let replaced = flows.replace(&row).map_err(|why| self.refused(why))?;
                let (old, cell) = replaced.ok_or_else(|| self.missing())?;
                let memory = RowMemory::Arena(old);
                view.reclaimer.retire(Retired::Row { table: self.number, memory, cell: Some(cell) });
                return Ok(());
            }
        };
        if let Some(memory) = old {
            view.reclaimer.retire(Retired::Row { table: self.number, memory, cell: None });
        }
        Ok(())
    }

    /// Changes the action of an entry in a table whose entries share rows: the entry gets another row.
    fn modify_shared(&mut self, key: &PackedKey, row: Vec<u64>, view: &mut View<'_>) -> Done<()> {
        let cell = self.cell_for(row)?;
        let Store::Lpm(lpm) = &mut self.store else { return Ok(()) };
        let left = lpm.set(prefix(key), cell, view);
        let unused = left.and_then(|cell| lpm.leave(cell));
        if let Some(row) = unused {
            self.retire_words(row, view.reclaimer);
        }
        Ok(())
    }

    /// Removes an entry.
    pub fn delete(&mut self, entry: &Entry, view: &mut View<'_>) -> Done<()> {
        let (identity, key) = self.identity_and_key(entry);
        let row = self.row(entry);
        let removed = match &mut self.store {
            Store::Tuples(tuples) => tuples
                .remove(&in_words(&key.mask), &row, view)
                .map(|(row, cell)| Some((RowMemory::Arena(row), cell))),
            Store::Lpm(lpm) => lpm.remove(prefix(&key), view).map(|cell| lpm.leave(cell).map(of_words)),
            Store::Flows(flows) => flows.remove(&row).map(|(row, cell)| Some((RowMemory::Arena(row), cell))),
        };
        let unused = removed.ok_or_else(|| self.missing())?;
        self.entries = self.entries.saturating_sub(1);
        self.members.remove(&identity, view.reclaimer);
        if let Some((memory, cell)) = unused {
            self.retire_row(memory, cell, view.reclaimer);
        }
        Ok(())
    }

    /// Sets the default action, which runs on a miss.
    pub fn set_default(&mut self, call: &ActionCall, view: &mut View<'_>) -> Done<()> {
        self.put_default(call, view)
    }

    /// The identity of an entry.
    pub fn identity(&self, entry: &Entry) -> Identity {
        self.identity_and_key(entry).0
    }

    /// The cell of the stored entry with this match (and priority).
    pub fn cell(&self, entry: &Entry) -> Option<u64> {
        self.find(entry).map(|row| row[row::CELL])
    }

    /// The row of the stored entry with this match (and priority).
    fn find(&self, entry: &Entry) -> Option<Vec<u64>> {
        self.find_row(&self.identity_and_key(entry).1, &self.row(entry))
    }

    /// The action of the stored entry with this match (and priority).
    pub fn action(&self, entry: &Entry) -> Option<ActionCall> {
        self.find(entry).map(|row| self.action_in(&row))
    }

    /// The default action.
    pub fn default_action(&self) -> Option<ActionCall> {
        self.definition.unpack_action(&self.miss)
    }

    /// The stored row with this key and with the identity of `row`; its action may differ.
    fn find_row(&self, key: &PackedKey, row: &[u64]) -> Option<Vec<u64>> {
        match &self.store {
            Store::Tuples(tuples) => tuples.row(&in_words(&key.mask), row),
            Store::Lpm(lpm) => lpm.row(prefix(key)).map(<[u64]>::to_vec),
            Store::Flows(flows) => flows.find(row).map(|id| flows.read(id)),
        }
    }

    /// All entries; don't-care bits are zero. The action of an entry that refers to members of an action profile says nothing.
    pub fn entries(&self) -> Vec<Entry> {
        let Some(layout) = &self.layout else { return Vec::new() };
        match &self.store {
            Store::Tuples(tuples) => {
                tuples.rows().map(|row| self.entry(&self.matched(layout, &row), &row)).collect()
            }
            Store::Lpm(lpm) => {
                let (size, mut entries) = (layout.key_size as usize, Vec::new());
                lpm.each(size, &mut |key, length, row| {
                    let key = PackedKey {
                        value: key[..size].to_vec(),
                        mask: vec![0xff; size],
                        prefix_len: length,
                        ..PackedKey::default()
                    };
                    entries.push(self.entry(&(self.definition.unpack_key(layout, &key), 0), row));
                });
                entries
            }
            Store::Flows(flows) => {
                flows.entries().map(|row| self.entry(&self.matched(layout, &row), &row)).collect()
            }
        }
    }

    /// The number of entries.
    pub fn count(&self) -> u64 {
        match &self.store {
            Store::Flows(flows) => flows.free_rows().used(),
            Store::Tuples(_) | Store::Lpm(_) => self.entries,
        }
    }

    /// The list of free rows, if packets add entries.
    pub fn free_rows(&self) -> Option<Arc<FreeRows>> {
        match &self.store {
            Store::Flows(flows) => Some(flows.free_rows()),
            Store::Tuples(_) | Store::Lpm(_) => None,
        }
    }

    /// The number of rows in a share of the table, if its entries may expire.
    pub fn rows_to_search(&self, share: f64) -> u64 {
        match learns(&self.definition) && self.definition.ages {
            true => (flows::rows(self.definition.size) as f64 * share).ceil() as u64,
            false => 0,
        }
    }

    /// Removes the entries whose time has passed among the next `count` rows. Returns the number of rows that it searched, and the number of
    /// those entries.
    pub fn expire(
        &mut self,
        now: u64,
        times: &[u64; 256],
        count: u64,
        reclaimer: &mut Reclaimer,
    ) -> (u64, u64) {
        let Store::Flows(flows) = &mut self.store else { return (count, 0) };
        let (searched, expired) = flows.expire(now, times, count);
        let removed = expired.len() as u64;
        expired.into_iter().for_each(|(row, cell)| self.retire_row(RowMemory::Arena(row), cell, reclaimer));
        (searched, removed)
    }

    /// Calls `f` with the action data of each entry among the rows of some numbers, if packets add entries to the table.
    pub fn each_action_data(&self, rows: Range<u32>, f: &mut impl FnMut(&[u8])) {
        if let Store::Flows(flows) = &self.store {
            flows.each_action_data(rows, f);
        }
    }

    /// The identity of the entry in a row that holds a key.
    fn matched(&self, layout: &TableLayout, row: &[u64]) -> Identity {
        let words = layout.key_size.div_ceil(8) as usize;
        let part = |n: usize| in_bytes(&row[row::KEY + n * words..row::KEY + (n + 1) * words]);
        let unpacked = |value| {
            // Rows hold masks in a tuple space only. Elsewhere every bit of the key counts.
            let masked = layout.structure == Structure::TupleSpace;
            let mask = if masked { part(1) } else { vec![0xff; 8 * words] };
            let packed = PackedKey { value, mask, ..PackedKey::default() };
            self.definition.unpack_key(layout, &packed)
        };
        let mut matches = unpacked(part(0));
        if self.has_ranges() {
            let ends = unpacked(part(2)).into_iter().zip(unpacked(part(3)));
            for ((of, ends), key) in matches.iter_mut().zip(ends).zip(&self.definition.keys) {
                if let (MatchKind::Range, (MatchValue::Ternary(low, _), MatchValue::Ternary(high, _))) =
                    (key.kind, ends)
                {
                    *of = key.unsigned(&MatchValue::Range(low, high));
                }
            }
        }
        let priority = if self.definition.needs_priority() { row[row::RANK] as i32 } else { 0 };
        (matches, priority)
    }

    fn has_ranges(&self) -> bool {
        self.definition.keys.iter().any(|key| key.kind == MatchKind::Range)
    }

    /// The entry with this identity and with the action of `row`.
    fn entry(&self, identity: &Identity, row: &[u64]) -> Entry {
        Entry { matches: identity.0.clone(), priority: identity.1, action: self.action_in(row) }
    }

    /// The action in a row. It says nothing if the entry refers to an action profile.
    fn action_in(&self, row: &[u64]) -> ActionCall {
        let data: Vec<u8> = in_bytes(&row[self.data_at..]);
        let action =
            self.definition.unpack_action(&data).filter(|_| self.definition.implementation.is_none());
        action.unwrap_or_default()
    }

    /// Sets or removes (`None`) the idle timeout of an entry that exists, in microseconds.
    pub fn set_idle_timeout(&mut self, entry: &Entry, timeout: Option<u64>, now: u64) {
        if !self.definition.notifies_idle {
            return;
        }
        let Some(cell) = self.cell(entry) else { return };
        self.added.entry(cell).or_insert(now);
        match timeout {
            Some(timeout) => {
                self.idle.insert(cell, Idle { entry: self.identity(entry), timeout, since: now });
            }
            None => drop(self.idle.remove(&cell)),
        }
    }

    /// When an entry was added, in a table that supports idle timeouts.
    pub fn added(&self, entry: &Entry) -> Option<u64> {
        self.added.get(&self.cell(entry)?).copied()
    }

    /// The idle timeout of an entry in microseconds, if there is one.
    pub fn idle_timeout(&self, entry: &Entry) -> Option<u64> {
        if self.idle.is_empty() {
            return None;
        }
        self.idle.get(&self.cell(entry)?).map(|idle| idle.timeout)
    }

    /// The entries that are idle now, of as many with a timeout as `count` says, beginning with the cell `from`. `hit` gives the time of a cell's
    /// last hit. An entry that stays idle is reported again each time its timeout has passed. Also returns where to go on; `None` at the end.
    pub fn take_idle(
        &mut self,
        now: u64,
        from: u64,
        count: usize,
        hit: impl Fn(u64) -> u64,
    ) -> (Vec<Entry>, Option<u64>) {
        let mut found = Vec::new();
        let mut next = None;
        for (at, (cell, idle)) in self.idle.range_mut(from..).enumerate() {
            if at == count {
                next = Some(*cell);
                break;
            }
            idle.since = idle.since.max(hit(*cell));
            if idle.since.saturating_add(idle.timeout) <= now {
                idle.since = now;
                found.push(idle.entry.clone());
            }
        }
        let entry = |identity: Identity| {
            let action = ActionCall::default();
            let bare = Entry { matches: identity.0.clone(), priority: identity.1, action };
            self.find(&bare).map(|row| self.entry(&identity, &row))
        };
        (found.into_iter().filter_map(entry).collect(), next)
    }

    /// Whether a write that found the table full may succeed after a grace period.
    pub fn has_room(&self) -> bool {
        match &self.store {
            Store::Flows(flows) => flows.waits(),
            Store::Tuples(_) | Store::Lpm(_) => self.entries < self.definition.size,
        }
    }

    /// Frees a row, and its cell if given, after their grace period.
    pub fn release(&mut self, memory: &RowMemory, cell: Option<u64>) {
        if let (RowMemory::Arena(row), Store::Flows(flows), Some(cell)) = (memory, &mut self.store, cell) {
            return flows.release(*row, cell);
        }
        self.free_cells.extend(cell);
        if let (RowMemory::Arena(row), Store::Tuples(tuples)) = (memory, &mut self.store) {
            tuples.release(*row);
        }
    }

    /// Adds a checked entry.
    fn put(&mut self, entry: &Entry, runs: &[ActionCall], view: &mut View<'_>) -> Done<()> {
        let (identity, key) = self.identity_and_key(entry);
        let row = self.row(entry);
        if let Store::Flows(flows) = &mut self.store {
            return flows.insert(&row).map_err(|why| self.refused(why));
        }
        let indirect = self.definition.implementation.is_some();
        // A trie detects a duplicate while it inserts, so no lookup is needed before. With an action profile there is one all the same:
        // a duplicate would overwrite the members of the first entry.
        let check_first = indirect || matches!(self.store, Store::Tuples(_));
        let mut row = row;
        if check_first && self.find_row(&key, &row).is_some() {
            return Err(self.exists());
        }
        if !self.has_room() {
            return Err(self.full());
        }
        if indirect {
            let at = self.data_at;
            // The entry becomes visible together with all actions that it may run.
            let data = runs.iter().map(|call| self.data(call)).collect();
            row[at] = self.members.add(identity.clone(), data);
        }
        let done = match self.store {
            Store::Lpm(_) => self.put_prefix(row, &key, view),
            Store::Tuples(_) | Store::Flows(_) => self.put_tuple(row, &key, view),
        };
        match done {
            Ok(()) => self.entries += 1,
            Err(_) => self.members.remove(&identity, view.reclaimer),
        }
        done
    }

    fn put_tuple(&mut self, mut row: Vec<u64>, key: &PackedKey, view: &mut View<'_>) -> Done<()> {
        row[row::CELL] = self.free_cell().ok_or_else(|| self.full())?;
        if let Store::Tuples(tuples) = &mut self.store {
            tuples.insert(in_words(&key.mask), row, view);
        }
        Ok(())
    }

    fn put_prefix(&mut self, row: Vec<u64>, key: &PackedKey, view: &mut View<'_>) -> Done<()> {
        let cell = self.cell_for(row)?;
        let Store::Lpm(lpm) = &mut self.store else { return Ok(()) };
        if lpm.insert(prefix(key), cell, view) {
            return Ok(());
        }
        if let Some(row) = lpm.leave(cell) {
            self.retire_words(row, view.reclaimer);
        }
        Err(self.exists())
    }

    /// The cell for a row in a trie: that of an equal shared row, or a free one to which the row is added.
    fn cell_for(&mut self, row: Vec<u64>) -> Done<u64> {
        let shared = if let Store::Lpm(lpm) = &mut self.store { lpm.share(&row) } else { None };
        if let Some(cell) = shared {
            return Ok(cell);
        }
        let cell = self.free_cell().ok_or_else(|| self.full())?;
        if let Store::Lpm(lpm) = &mut self.store {
            lpm.add(row, cell);
        }
        Ok(cell)
    }

    fn free_cell(&mut self) -> Option<u64> {
        self.free_cells.pop().or_else(|| {
            let cell = self.unused_cell;
            // `None` here means that all spare cells belong to deleted entries that await their grace period.
            (cell < cells(&self.definition)).then(|| {
                self.unused_cell += 1;
                cell
            })
        })
    }

    fn retire_words(&mut self, row: Vec<u64>, reclaimer: &mut Reclaimer) {
        let (memory, cell) = of_words(row);
        self.retire_row(memory, cell, reclaimer);
    }

    /// Retires a row that lookups no longer find, together with its cell.
    fn retire_row(&mut self, memory: RowMemory, cell: u64, reclaimer: &mut Reclaimer) {
        self.idle.remove(&cell);
        self.added.remove(&cell);
        reclaimer.retire(Retired::Row { table: self.number, memory, cell: Some(cell) });
    }

    fn put_default(&mut self, call: &ActionCall, view: &mut View<'_>) -> Done<()> {
        self.definition.check_action(call, true)?;
        let Some(layout) = &self.layout else { return Ok(()) };
        let data = self.definition.pack_action(layout, call).unwrap_or_default();
        view.table.miss.store(data.as_ptr().cast_mut(), Release);
        view.reclaimer.retire(Retired::Bytes(std::mem::replace(&mut self.miss, data)));
        Ok(())
    }

    /// The row of an entry, with an age and a cell of 0.
    fn row(&self, entry: &Entry) -> Vec<u64> {
        let mut words = vec![0; self.data_at];
        if let (Store::Tuples(_) | Store::Flows(_), Some(layout)) = (&self.store, &self.layout) {
            words[row::RANK] = self.definition.rank(entry) as u64;
            let all: [fn(&MatchValue, u32) -> MatchValue; 4] = [masked, mask, low, high];
            let parts = &all[..key_parts(layout.structure, self.has_ranges()) as usize];
            let mut at = row::KEY;
            for part in parts {
                let fields = self.definition.keys.iter().zip(&entry.matches);
                let fields: Vec<_> =
                    fields.map(|(key, value)| part(&key.unsigned(value), key.width)).collect();
                let packed = self.definition.pack_key(layout, &fields).map(|p| in_words(&p.value));
                for word in packed.unwrap_or_default() {
                    words[at] = word;
                    at += 1;
                }
            }
        }
        words.extend(in_words(&self.data(&entry.action)));
        words
    }

    /// The packed action data of a call.
    fn data(&self, call: &ActionCall) -> Vec<u8> {
        let packed = self.layout.as_ref().and_then(|layout| self.definition.pack_action(layout, call));
        packed.unwrap_or_default()
    }

    /// The identity of an entry, and its packed key with mask. A range counts here as the prefix that its two ends share.
    fn identity_and_key(&self, entry: &Entry) -> (Identity, PackedKey) {
        let fields = self.definition.keys.iter().zip(&entry.matches);
        let fields: Vec<_> = fields.map(|(key, value)| masked(&key.unsigned(value), key.width)).collect();
        let packed = self.layout.as_ref().and_then(|layout| self.definition.pack_key(layout, &fields));
        // Don't-care bits are not part of the identity.
        let canonical = entry.matches.iter().zip(fields).map(|(value, masked)| match value {
            MatchValue::Range(..) => value.clone(),
            MatchValue::Exact(_)
            | MatchValue::Lpm(..)
            | MatchValue::Ternary(..)
            | MatchValue::Optional(_) => masked,
        });
        let priority = if self.definition.needs_priority() { entry.priority } else { 0 };
        ((canonical.collect(), priority), packed.unwrap_or_default())
    }

    fn missing(&self) -> TableError {
        TableError::NotFound(self.definition.name.clone())
    }

    fn exists(&self) -> TableError {
        TableError::Exists(self.definition.name.clone())
    }

    fn refused(&self, why: Refused) -> TableError {
        match why {
            Refused::Exists => self.exists(),
            Refused::Full | Refused::Waiting => self.full(),
        }
    }

    fn full(&self) -> TableError {
        TableError::Full { table: self.definition.name.clone(), size: self.definition.size }
    }
}

/// Whether the table keeps state for each entry, so that each entry needs a row of its own.
fn kept_by_entry(table: &Definition) -> bool {
    table.direct_counter.is_some()
        || table.direct_meter.is_some()
        || table.notifies_idle
        || table.implementation.is_some()
}

fn prefix(key: &PackedKey) -> Prefix<'_> {
    Prefix { bytes: &key.value, length: key.prefix_len }
}

/// A field as the hash sees it: don't-care bits are zero, and a range is the prefix that its two ends share.
fn masked(value: &MatchValue, width: u32) -> MatchValue {
    match value {
        MatchValue::Range(low, high) => {
            let differ = low.xor(high);
            let same = (0..width).rev().take_while(|bit| !differ.get(*bit)).count() as u32;
            let mask = Bits::prefix_mask(width, same);
            MatchValue::Ternary(low.and(&mask), mask)
        }
        MatchValue::Ternary(v, m) => MatchValue::Ternary(v.and(m), m.clone()),
        MatchValue::Lpm(v, len) => MatchValue::Lpm(v.and(&Bits::prefix_mask(width, *len)), *len),
        other @ (MatchValue::Exact(_) | MatchValue::Optional(_)) => other.clone(),
    }
}

/// The bits of a field that must match, for rows that hold masks.
fn mask(value: &MatchValue, width: u32) -> MatchValue {
    MatchValue::Exact(match masked(value, width) {
        MatchValue::Ternary(_, mask) => mask,
        MatchValue::Lpm(_, length) => Bits::prefix_mask(width, length),
        MatchValue::Optional(None) => Bits::zero(width),
        MatchValue::Exact(_) | MatchValue::Range(..) | MatchValue::Optional(_) => Bits::ones(width),
    })
}

/// The lowest value of a range; 0 for other match kinds.
fn low(value: &MatchValue, width: u32) -> MatchValue {
    match value {
        MatchValue::Range(low, _) => MatchValue::Exact(low.clone()),
        MatchValue::Exact(_) | MatchValue::Lpm(..) | MatchValue::Ternary(..) | MatchValue::Optional(_) => {
            MatchValue::Exact(Bits::zero(width))
        }
    }
}

/// The highest value of a range; 0 for other match kinds.
fn high(value: &MatchValue, width: u32) -> MatchValue {
    match value {
        MatchValue::Range(_, high) => MatchValue::Exact(high.clone()),
        MatchValue::Exact(_) | MatchValue::Lpm(..) | MatchValue::Ternary(..) | MatchValue::Optional(_) => {
            MatchValue::Exact(Bits::zero(width))
        }
    }
}

/// The number of words between the start of a row's key and its action data.
fn key_words(definition: &Definition, layout: &TableLayout) -> usize {
    let ranges = definition.keys.iter().any(|k| k.kind == MatchKind::Range);
    data_offset(layout.key_size, layout.structure, ranges) as usize / 8
}

/// A row with its own allocation, and its cell.
fn of_words(row: Vec<u64>) -> (RowMemory, u64) {
    let cell = row[row::CELL];
    (RowMemory::Words(row), cell)
}

fn in_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Bytes as words in native order; the last word is padded with zeros.
fn in_words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}
