//! One table in a native program's memory: what entries are, which of them there are, what they lead to. How they are found is
//! [`Tuples`]' or [`Lpm`]'s.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Release;

use abi::layout::PackedKey;
use abi::manifest::{EntryError, Structure, Table as Definition, TableLayout};
use abi::native::{data_offset, key_parts, row};
use abi::{ActionCall, Bits, Entry, MatchKind, MatchValue};

use super::choices::Slots;
use super::lpm::Lpm;
use super::trie::Prefix;
use super::tuples::Tuples;
use super::{Advise, Held, Quiet, Retired};
use crate::TableError;

/// Cells of a table's entries (rows, direct counters): more than entries, for those of deleted entries are free when no burst can know
/// them any more.
pub fn cells(definition: &Definition) -> u64 {
    definition.size + definition.size / 4 + 64
}

/// What the controller knows of a table, and what keeps the program's view of it alive.
pub struct Table {
    number: usize,
    definition: Definition,
    layout: Option<TableLayout>,
    /// The word of a row where the action's data begins. A trie's rows have no key.
    data_at: usize,
    store: Store,
    entries: u64,
    /// The default action's data that the program sees.
    miss: Vec<u8>,
    free: Vec<u64>,
    fresh: u64,
    /// What entries lead to, where they lead to members of an action profile.
    slots: Slots,
    /// Entries that the control plane wants to hear of when no packet hits them, by their cells.
    idle: BTreeMap<u64, Idle>,
}

/// How entries are found.
enum Store {
    Tuples(Tuples),
    Lpm(Box<Lpm>),
}

/// An entry that is watched (P4Runtime's `idle_timeout_ns`).
struct Idle {
    entry: Identity,
    timeout: u64,
    /// When it was told of last, or first watched.
    since: u64,
}

/// What the program sees of a table, and where what it may still see goes.
pub struct View<'v> {
    pub table: &'v abi::native::Table,
    pub quiet: &'v mut Quiet,
}

/// What tells an entry from others: its match, and its priority where that decides.
pub type Identity = (Vec<MatchValue>, i32);

type Done<T> = Result<T, TableError>;

impl Table {
    /// The table as its manifest has it, still empty and unseen.
    pub fn new(number: usize, definition: &Definition, advise: Advise) -> Table {
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
            free: Vec::new(),
            fresh: 0,
            slots: Slots::default(),
            idle: BTreeMap::new(),
        }
    }

    /// Shows it to the program, with its first entries and default action.
    pub fn begin(&mut self, view: &mut View<'_>) -> Done<()> {
        match &mut self.store {
            Store::Tuples(tuples) => tuples.show(view),
            Store::Lpm(lpm) => lpm.show(view),
        }
        if let Some(call) = self.definition.default_action.clone() {
            self.put_default(&call, view)?;
        }
        for entry in self.definition.initial_entries.clone() {
            self.definition.check_shape(&entry)?;
            self.put(&entry, view)?;
        }
        Ok(())
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: &Entry, view: &mut View<'_>) -> Done<()> {
        self.definition.check_entry(entry)?;
        self.put(entry, view)
    }

    /// Adds an entry that leads to one of several actions, for now to these.
    pub fn insert_indirect(&mut self, entry: &Entry, calls: &[ActionCall], view: &mut View<'_>) -> Done<()> {
        self.insert(entry, view)?;
        self.set_choices(&self.identity(entry), calls, view.quiet);
        Ok(())
    }

    /// Lets an entry lead to one of these actions.
    pub fn set_choices(&mut self, entry: &Identity, calls: &[ActionCall], quiet: &mut Quiet) {
        let data = calls.iter().map(|call| self.data(call)).collect();
        self.slots.set(entry, data, quiet);
    }

    /// Gives an entry another action; its counter goes on.
    pub fn modify(&mut self, entry: &Entry, view: &mut View<'_>) -> Done<()> {
        self.definition.check_entry(entry)?;
        let (identity, key) = self.place(entry);
        let row = self.row(entry);
        let cell = self.look(&key, &row).map(|row| row[row::COUNTER]).ok_or_else(|| self.missing())?;
        if self.definition.implementation.is_some() {
            // The slot stays; what it leads to changes.
            let data = vec![self.data(&entry.action)];
            self.slots.set(&identity, data, view.quiet);
            return Ok(());
        }
        let old = match &mut self.store {
            Store::Tuples(tuples) => tuples.replace(&in_words(&key.mask), row).map(Held::Place),
            Store::Lpm(lpm) if lpm.shares() => return self.lead_elsewhere(&key, row, view),
            Store::Lpm(lpm) => lpm.replace(cell, row).map(Held::Words),
        };
        if let Some(held) = old {
            view.quiet.retire(Retired::Row { table: self.number, held, cell: None });
        }
        Ok(())
    }

    /// An entry of a table whose entries share rows leads to another one.
    fn lead_elsewhere(&mut self, key: &PackedKey, row: Vec<u64>, view: &mut View<'_>) -> Done<()> {
        let cell = self.cell_for(row)?;
        let Store::Lpm(lpm) = &mut self.store else { return Ok(()) };
        let left = lpm.set(prefix(key), cell, view);
        let gone = left.and_then(|cell| lpm.leave(cell));
        if let Some(row) = gone {
            self.retire_words(row, view.quiet);
        }
        Ok(())
    }

    /// Removes an entry.
    pub fn delete(&mut self, entry: &Entry, view: &mut View<'_>) -> Done<()> {
        if self.definition.const_entries {
            return Err(EntryError::ConstEntries(self.definition.name.clone()).into());
        }
        let (identity, key) = self.place(entry);
        let row = self.row(entry);
        let gone = match &mut self.store {
            Store::Tuples(tuples) => tuples
                .remove(&in_words(&key.mask), &row, view)
                .map(|(place, cell)| Some((Held::Place(place), cell))),
            Store::Lpm(lpm) => lpm.remove(prefix(&key), view).map(|cell| lpm.leave(cell).map(of_words)),
        };
        let gone = gone.ok_or_else(|| self.missing())?;
        self.entries -= 1;
        self.slots.remove(&identity, view.quiet);
        if let Some((held, cell)) = gone {
            self.retire_row(held, cell, view.quiet);
        }
        Ok(())
    }

    /// Removes every entry, where they are not const.
    pub fn clear(&mut self, view: &mut View<'_>) {
        if self.definition.const_entries {
            return;
        }
        let rows: Vec<(Held, u64)> = match &mut self.store {
            Store::Tuples(tuples) => {
                tuples.clear(view).into_iter().map(|(place, cell)| (Held::Place(place), cell)).collect()
            }
            Store::Lpm(lpm) => lpm.clear(view).into_iter().map(of_words).collect(),
        };
        self.entries = 0;
        self.slots.clear(view.quiet);
        rows.into_iter().for_each(|(held, cell)| self.retire_row(held, cell, view.quiet));
    }

    /// Changes what happens on a miss.
    pub fn set_default(&mut self, call: &ActionCall, view: &mut View<'_>) -> Done<()> {
        if self.definition.const_default {
            return Err(EntryError::ConstDefault(self.definition.name.clone()).into());
        }
        self.put_default(call, view)
    }

    /// What tells the entry from others.
    pub fn identity(&self, entry: &Entry) -> Identity {
        self.place(entry).0
    }

    /// An entry's cell: of its direct counter, its direct meter, its last hit.
    pub fn cell(&self, entry: &Entry) -> Option<u64> {
        self.find(entry).map(|row| row[row::COUNTER])
    }

    /// The row of the entry that has this one's match (and priority).
    fn find(&self, entry: &Entry) -> Option<Vec<u64>> {
        self.look(&self.place(entry).1, &self.row(entry))
    }

    /// The row that is there for a key and a row like this one, whatever that leads to.
    fn look(&self, key: &PackedKey, row: &[u64]) -> Option<Vec<u64>> {
        match &self.store {
            Store::Tuples(tuples) => tuples.row(&in_words(&key.mask), row),
            Store::Lpm(lpm) => lpm.row(prefix(key)).map(<[u64]>::to_vec),
        }
    }

    /// Its entries, but for don't-care bits; those that lead to members name no action.
    pub fn entries(&self) -> Vec<Entry> {
        let Some(layout) = &self.layout else { return Vec::new() };
        match &self.store {
            Store::Tuples(tuples) => {
                tuples.rows().map(|row| self.entry(&self.matched(layout, &row), &row)).collect()
            }
            Store::Lpm(lpm) => {
                let (size, mut entries) = (layout.key_size as usize, Vec::new());
                lpm.each(size, &mut |key, length, row| {
                    let key =
                        PackedKey { value: key[..size].to_vec(), mask: vec![0xff; size], prefix_len: length };
                    entries.push(self.entry(&(self.definition.unpack_key(layout, &key), 0), row));
                });
                entries
            }
        }
    }

    /// What a row with a key matches.
    fn matched(&self, layout: &TableLayout, row: &[u64]) -> Identity {
        let words = layout.key_size.div_ceil(8) as usize;
        let part = |n: usize| in_bytes(&row[row::KEY + n * words..row::KEY + (n + 1) * words]);
        let unpacked = |value| {
            // Without a mask of its own nothing but values are matched.
            let masked = layout.structure == Structure::TupleSpace;
            let mask = if masked { part(1) } else { vec![0xff; 8 * words] };
            let packed = PackedKey { value, mask, prefix_len: 0 };
            self.definition.unpack_key(layout, &packed)
        };
        let mut matches = unpacked(part(0));
        if self.has_ranges() {
            let ends = unpacked(part(2)).into_iter().zip(unpacked(part(3)));
            for ((of, ends), key) in matches.iter_mut().zip(ends).zip(&self.definition.keys) {
                if let (MatchKind::Range, (MatchValue::Ternary(low, _), MatchValue::Ternary(high, _))) =
                    (key.kind, ends)
                {
                    *of = MatchValue::Range(low, high);
                }
            }
        }
        let priority = if self.definition.needs_priority() { row[row::RANK] as i32 } else { 0 };
        (matches, priority)
    }

    fn has_ranges(&self) -> bool {
        self.definition.keys.iter().any(|key| key.kind == MatchKind::Range)
    }

    fn entry(&self, identity: &Identity, row: &[u64]) -> Entry {
        let data: Vec<u8> = in_bytes(&row[self.data_at..]);
        let none = ActionCall { action: String::new(), args: Vec::new() };
        let action =
            self.definition.unpack_action(&data).filter(|_| self.definition.implementation.is_none());
        Entry { matches: identity.0.clone(), priority: identity.1, action: action.unwrap_or(none) }
    }

    /// Lets an entry count as idle when no packet has hit it for that long, or never; false if there is no such entry.
    pub fn set_idle_timeout(&mut self, entry: &Entry, timeout: Option<u64>, now: u64) -> Done<bool> {
        if !self.definition.notifies_idle {
            return Err(TableError::NoIdleTimeout(self.definition.name.clone()));
        }
        let Some(cell) = self.cell(entry) else { return Ok(false) };
        match timeout {
            Some(timeout) => {
                self.idle.insert(cell, Idle { entry: self.identity(entry), timeout, since: now });
            }
            None => drop(self.idle.remove(&cell)),
        }
        Ok(true)
    }

    /// Entries that have become idle; `hit` says when a cell's entry was hit last. One that stays idle is told of again after as
    /// long a time.
    pub fn tell_idle(&mut self, now: u64, hit: impl Fn(u64) -> u64) -> Vec<Entry> {
        let mut told = Vec::new();
        for (cell, idle) in &mut self.idle {
            idle.since = idle.since.max(hit(*cell));
            if idle.since.saturating_add(idle.timeout) <= now {
                idle.since = now;
                told.push(idle.entry.clone());
            }
        }
        let entry = |identity: Identity| {
            let none = ActionCall { action: String::new(), args: Vec::new() };
            let bare = Entry { matches: identity.0.clone(), priority: identity.1, action: none };
            self.find(&bare).map(|row| self.entry(&identity, &row))
        };
        told.into_iter().filter_map(entry).collect()
    }

    /// Whether it holds fewer entries than it may.
    pub fn has_room(&self) -> bool {
        self.entries < self.definition.size
    }

    /// A row that nobody can read any more, and its cell, if nobody can count in it any more.
    pub fn release(&mut self, held: &Held, cell: Option<u64>) {
        self.free.extend(cell);
        if let (Held::Place(place), Store::Tuples(tuples)) = (held, &mut self.store) {
            tuples.release(*place);
        }
    }

    fn put(&mut self, entry: &Entry, view: &mut View<'_>) -> Done<()> {
        let (identity, key) = self.place(entry);
        let indirect = self.definition.implementation.is_some();
        // A trie says itself what it has, without another walk; but an entry's slot must not be lost to a second one.
        let looks = indirect || matches!(self.store, Store::Tuples(_));
        let mut row = self.row(entry);
        if looks && self.look(&key, &row).is_some() {
            return Err(self.exists());
        }
        if !self.has_room() {
            return Err(self.full());
        }
        if indirect {
            let at = self.data_at;
            row[at] = self.slots.add(identity.clone(), vec![self.data(&entry.action)]);
        }
        let done = match self.store {
            Store::Lpm(_) => self.put_prefix(row, &key, view),
            Store::Tuples(_) => self.put_masked(row, &key, view),
        };
        match done {
            Ok(()) => self.entries += 1,
            Err(_) => self.slots.remove(&identity, view.quiet),
        }
        done
    }

    fn put_masked(&mut self, mut row: Vec<u64>, key: &PackedKey, view: &mut View<'_>) -> Done<()> {
        row[row::COUNTER] = self.free_cell().ok_or_else(|| self.full())?;
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
            self.retire_words(row, view.quiet);
        }
        Err(self.exists())
    }

    /// The cell of a row in a trie: one that is there already, or a new one.
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
        self.free.pop().or_else(|| {
            let cell = self.fresh;
            // At the end there are as many entries again that were deleted while one burst ran.
            (cell < cells(&self.definition)).then(|| {
                self.fresh += 1;
                cell
            })
        })
    }

    fn retire_words(&mut self, row: Vec<u64>, quiet: &mut Quiet) {
        let (held, cell) = of_words(row);
        self.retire_row(held, cell, quiet);
    }

    fn retire_row(&mut self, held: Held, cell: u64, quiet: &mut Quiet) {
        self.idle.remove(&cell);
        quiet.retire(Retired::Row { table: self.number, held, cell: Some(cell) });
    }

    fn put_default(&mut self, call: &ActionCall, view: &mut View<'_>) -> Done<()> {
        self.definition.check_action(call, true)?;
        let Some(layout) = &self.layout else { return Ok(()) };
        let data = self.definition.pack_action(layout, call).unwrap_or_default();
        view.table.miss.store(data.as_ptr().cast_mut(), Release);
        view.quiet.retire(Retired::Bytes(std::mem::replace(&mut self.miss, data)));
        Ok(())
    }

    /// The words of a row that the program sees, but for its age and cell.
    fn row(&self, entry: &Entry) -> Vec<u64> {
        let mut words = vec![0; self.data_at];
        if let (Store::Tuples(_), Some(layout)) = (&self.store, &self.layout) {
            words[row::RANK] = self.definition.rank(entry) as u64;
            let all: [fn(&MatchValue, u32) -> MatchValue; 4] = [masked, mask, low, high];
            let parts = &all[..key_parts(layout.structure, self.has_ranges()) as usize];
            let mut at = row::KEY;
            for part in parts {
                let fields = self.definition.keys.iter().zip(&entry.matches);
                let fields: Vec<_> = fields.map(|(key, value)| part(value, key.width)).collect();
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

    /// The bytes of an action and its parameters.
    fn data(&self, call: &ActionCall) -> Vec<u8> {
        let packed = self.layout.as_ref().and_then(|layout| self.definition.pack_action(layout, call));
        packed.unwrap_or_default()
    }

    /// An entry's identity, and its key: masked, and the mask.
    fn place(&self, entry: &Entry) -> (Identity, PackedKey) {
        let fields = self.definition.keys.iter().zip(&entry.matches);
        let fields: Vec<_> = fields.map(|(key, value)| masked(value, key.width)).collect();
        let packed = self.layout.as_ref().and_then(|layout| self.definition.pack_key(layout, &fields));
        // Don't-care bits do not tell entries apart.
        let canonical = entry.matches.iter().zip(fields).map(|(value, masked)| match value {
            MatchValue::Range(..) => value.clone(),
            _ => masked,
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

    fn full(&self) -> TableError {
        TableError::Full { table: self.definition.name.clone(), size: self.definition.size }
    }
}

/// Whether something is kept for each entry, so that each needs a row of its own.
fn kept_by_entry(table: &Definition) -> bool {
    table.direct_counter.is_some()
        || table.direct_meter.is_some()
        || table.notifies_idle
        || table.implementation.is_some()
}

fn prefix(key: &PackedKey) -> Prefix<'_> {
    Prefix { bytes: &key.value, length: key.prefix_len }
}

/// What of a field the hash sees: of a range the bits that its ends have in common.
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
        other => other.clone(),
    }
}

/// The bits of a field that its entry cares for, where rows have masks.
fn mask(value: &MatchValue, width: u32) -> MatchValue {
    MatchValue::Exact(match masked(value, width) {
        MatchValue::Ternary(_, mask) => mask,
        MatchValue::Lpm(_, length) => Bits::prefix_mask(width, length),
        MatchValue::Optional(None) => Bits::zero(width),
        _ => Bits::ones(width),
    })
}

fn low(value: &MatchValue, width: u32) -> MatchValue {
    match value {
        MatchValue::Range(low, _) => MatchValue::Exact(low.clone()),
        _ => MatchValue::Exact(Bits::zero(width)),
    }
}

fn high(value: &MatchValue, width: u32) -> MatchValue {
    match value {
        MatchValue::Range(_, high) => MatchValue::Exact(high.clone()),
        _ => MatchValue::Exact(Bits::zero(width)),
    }
}

/// Words of a row that its key takes, with what stands up to the action's data.
fn key_words(definition: &Definition, layout: &TableLayout) -> usize {
    let ranges = definition.keys.iter().any(|k| k.kind == MatchKind::Range);
    data_offset(layout.key_size, layout.structure, ranges) as usize / 8
}

/// A row that has its own memory, and its cell.
fn of_words(row: Vec<u64>) -> (Held, u64) {
    let cell = row[row::COUNTER];
    (Held::Words(row), cell)
}

fn in_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Bytes as words of the machine, the last one filled with zeros.
fn in_words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}
