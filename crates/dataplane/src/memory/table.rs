//! One table in a native program's memory: tuple-space search (Srinivasan, Suri and Varghese, SIGCOMM 1999), a hash table for each
//! distinct mask. An exact table has one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Release;

use abi::manifest::{EntryError, Table as Definition, TableLayout};
use abi::native::{data_offset, row, tuple};
use abi::{ActionCall, Bits, Entry, MatchKind, MatchValue};

use super::choices::Slots;
use super::hash::Hash;
use super::{Quiet, Retired};
use crate::TableError;

/// Buckets of a tuple at first, and what goes on with them.
const FIRST: (usize, usize) = (4, 4);

/// Cells of a direct counter: more than entries, for those of deleted entries are free when no burst can know them any more.
pub fn cells(definition: &Definition) -> u64 {
    definition.size + definition.size / 4 + 64
}

/// What the controller knows of a table, and what keeps the program's view of it alive.
pub struct Table {
    number: usize,
    definition: Definition,
    layout: Option<TableLayout>,
    tuples: Vec<Tuple>,
    entries: u64,
    /// The list that the program sees.
    list: Vec<u64>,
    /// The default action's data that the program sees.
    miss: Vec<u8>,
    next: u64,
    free: Vec<u64>,
    fresh: u64,
    /// What entries lead to, where they lead to members of an action profile.
    slots: Slots,
    /// Entries that the control plane wants to hear of when no packet hits them, by their cells.
    idle: BTreeMap<u64, Idle>,
}

/// An entry that is watched (P4Runtime's `idle_timeout_ns`).
struct Idle {
    entry: Identity,
    timeout: u64,
    /// When it was told of last, or first watched.
    since: u64,
}

/// What tells an entry from others: its match, and its priority where that decides.
pub type Identity = (Vec<MatchValue>, i32);

/// All entries with equal masks.
struct Tuple {
    mask: Vec<u64>,
    hash: Hash,
    rows: HashMap<Identity, Vec<u64>>,
    /// How many entries have each rank.
    ranks: BTreeMap<i64, usize>,
}

impl Tuple {
    fn new(mask: Vec<u64>) -> Tuple {
        let hash = Hash::new(mask.len(), FIRST.0, FIRST.1);
        Tuple { mask, hash, rows: HashMap::new(), ranks: BTreeMap::new() }
    }

    /// No entry has a larger rank.
    fn best(&self) -> i64 {
        self.ranks.last_key_value().map_or(i64::MIN, |(rank, _)| *rank)
    }

    fn retire(self, quiet: &mut Quiet) {
        quiet.retire(Retired::Words(self.mask));
        quiet.retire(Retired::Buckets(self.hash.buckets));
        quiet.retire(Retired::Buckets(self.hash.overflow));
    }
}

impl Table {
    /// The table as its manifest has it, still empty and unseen.
    pub fn new(number: usize, definition: &Definition) -> Table {
        Table {
            number,
            definition: definition.clone(),
            layout: definition.layout.clone(),
            tuples: Vec::new(),
            entries: 0,
            list: Vec::new(),
            miss: Vec::new(),
            next: 0,
            free: Vec::new(),
            fresh: 0,
            slots: Slots::default(),
            idle: BTreeMap::new(),
        }
    }

    /// Shows it to the program, with its first entries and default action.
    pub fn begin(&mut self, visible: &abi::native::Table, quiet: &mut Quiet) -> Result<(), TableError> {
        self.show(visible, quiet);
        if let Some(call) = self.definition.default_action.clone() {
            self.put_default(&call, visible, quiet)?;
        }
        for entry in self.definition.initial_entries.clone() {
            self.definition.check_shape(&entry)?;
            self.put(&entry, visible, quiet)?;
        }
        Ok(())
    }

    /// Adds an entry.
    pub fn insert(
        &mut self,
        entry: &Entry,
        visible: &abi::native::Table,
        quiet: &mut Quiet,
    ) -> Result<(), TableError> {
        self.definition.check_entry(entry)?;
        self.put(entry, visible, quiet)
    }

    /// Adds an entry that leads to one of several actions, for now to these.
    pub fn insert_indirect(
        &mut self,
        entry: &Entry,
        calls: &[ActionCall],
        visible: &abi::native::Table,
        quiet: &mut Quiet,
    ) -> Result<(), TableError> {
        self.insert(entry, visible, quiet)?;
        self.set_choices(&self.identity(entry), calls, quiet);
        Ok(())
    }

    /// Lets an entry lead to one of these actions.
    pub fn set_choices(&mut self, entry: &Identity, calls: &[ActionCall], quiet: &mut Quiet) {
        let data = calls.iter().map(|call| self.data(call)).collect();
        self.slots.set(entry, data, quiet);
    }

    /// What tells the entry from others.
    pub fn identity(&self, entry: &Entry) -> Identity {
        self.place(entry).0
    }

    /// Lets an entry count as idle when no packet has hit it for that long, or never; false if there is no such entry.
    pub fn set_idle_timeout(
        &mut self,
        entry: &Entry,
        timeout: Option<u64>,
        now: u64,
    ) -> Result<bool, TableError> {
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
        told.iter().filter_map(|identity| self.entry(identity)).collect()
    }

    /// An entry as it was written, but for don't-care bits. `None` where it leads to members.
    fn entry(&self, identity: &Identity) -> Option<Entry> {
        let row = self.tuples.iter().find_map(|t| t.rows.get(identity))?;
        let layout = self.layout.as_ref()?;
        let ranges = self.definition.keys.iter().any(|k| k.kind == MatchKind::Range);
        let at = row::KEY + data_offset(layout.key_size, ranges) as usize / 8;
        let data: Vec<u8> = row[at..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let none = ActionCall { action: String::new(), args: Vec::new() };
        let action =
            self.definition.unpack_action(&data).filter(|_| self.definition.implementation.is_none());
        Some(Entry { matches: identity.0.clone(), priority: identity.1, action: action.unwrap_or(none) })
    }

    /// Gives an entry another action; its counter goes on.
    pub fn modify(&mut self, entry: &Entry, quiet: &mut Quiet) -> Result<(), TableError> {
        self.definition.check_entry(entry)?;
        let (identity, mask) = self.place(entry);
        let rank = self.definition.rank(entry);
        let mut new = self.words(entry, rank);
        let missing = self.missing();
        let tuple = self.tuples.iter_mut().find(|t| t.mask == mask).ok_or(missing.clone())?;
        let old = tuple.rows.get_mut(&identity).ok_or(missing)?;
        new[row::AGE] = old[row::AGE];
        new[row::COUNTER] = old[row::COUNTER];
        if self.definition.implementation.is_some() {
            // The slot stays; what it leads to changes.
            drop(new);
            let data = vec![self.data(&entry.action)];
            self.slots.set(&identity, data, quiet);
            return Ok(());
        }
        tuple.hash.replace(old, &new);
        quiet.retire(Retired::Words(std::mem::replace(old, new)));
        Ok(())
    }

    /// Removes an entry.
    pub fn delete(
        &mut self,
        entry: &Entry,
        visible: &abi::native::Table,
        quiet: &mut Quiet,
    ) -> Result<(), TableError> {
        if self.definition.const_entries {
            return Err(EntryError::ConstEntries(self.definition.name.clone()).into());
        }
        let (identity, mask) = self.place(entry);
        let missing = self.missing();
        let at = self.tuples.iter().position(|t| t.mask == mask).ok_or(missing.clone())?;
        let tuple = &mut self.tuples[at];
        let old = tuple.rows.remove(&identity).ok_or(missing)?;
        tuple.hash.remove(&old);
        let rank = old[row::RANK] as i64;
        if let Some(count) = tuple.ranks.get_mut(&rank) {
            *count -= 1;
            if *count == 0 {
                tuple.ranks.remove(&rank);
            }
        }
        // A bound that is too high is still a bound; only an empty tuple is worth a new list.
        if tuple.rows.is_empty() {
            let gone = self.tuples.remove(at);
            self.show(visible, quiet);
            gone.retire(quiet);
        }
        self.entries -= 1;
        self.slots.remove(&identity, quiet);
        self.retire_row(old, quiet);
        Ok(())
    }

    /// Removes every entry, where they are not const.
    pub fn clear(&mut self, visible: &abi::native::Table, quiet: &mut Quiet) {
        if self.definition.const_entries {
            return;
        }
        let tuples = std::mem::take(&mut self.tuples);
        self.entries = 0;
        self.slots.clear(quiet);
        self.show(visible, quiet);
        for mut tuple in tuples {
            for (_, old) in tuple.rows.drain() {
                self.retire_row(old, quiet);
            }
            tuple.retire(quiet);
        }
    }

    /// Changes what happens on a miss.
    pub fn set_default(
        &mut self,
        call: &ActionCall,
        visible: &abi::native::Table,
        quiet: &mut Quiet,
    ) -> Result<(), TableError> {
        if self.definition.const_default {
            return Err(EntryError::ConstDefault(self.definition.name.clone()).into());
        }
        self.put_default(call, visible, quiet)
    }

    /// An entry's cell of the direct counter.
    pub fn cell(&self, entry: &Entry) -> Option<u64> {
        let (identity, mask) = self.place(entry);
        let tuple = self.tuples.iter().find(|t| t.mask == mask)?;
        tuple.rows.get(&identity).map(|row| row[row::COUNTER])
    }

    /// Its entries.
    pub fn entries(&self) -> Vec<Entry> {
        self.tuples.iter().flat_map(|t| t.rows.keys()).filter_map(|identity| self.entry(identity)).collect()
    }

    /// A cell that nobody can count in any more.
    pub fn release(&mut self, cell: u64) {
        self.free.push(cell);
    }

    fn put(
        &mut self,
        entry: &Entry,
        visible: &abi::native::Table,
        quiet: &mut Quiet,
    ) -> Result<(), TableError> {
        let (identity, mask) = self.place(entry);
        let at = self.tuples.iter().position(|t| t.mask == mask);
        if at.is_some_and(|at| self.tuples[at].rows.contains_key(&identity)) {
            return Err(TableError::Exists(self.definition.name.clone()));
        }
        let full = TableError::Full { table: self.definition.name.clone(), size: self.definition.size };
        if self.entries >= self.definition.size {
            return Err(full);
        }
        let rank = self.definition.rank(entry);
        let mut words = self.words(entry, rank);
        words[row::COUNTER] = self.free_cell().ok_or(full)?;
        if self.definition.implementation.is_some() {
            self.lead_to_slot(&mut words, &identity, entry);
        }
        words[row::AGE] = self.next;
        self.next += 1;
        self.entries += 1;
        let at = at.unwrap_or_else(|| {
            self.tuples.push(Tuple::new(mask));
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[at];
        let before = (tuple.rows.len(), tuple.best());
        *tuple.ranks.entry(rank).or_insert(0) += 1;
        let fits = tuple.hash.insert(&words);
        tuple.rows.insert(identity, words);
        if !fits {
            let rows: Vec<&[u64]> = tuple.rows.values().map(Vec::as_slice).collect();
            let larger = tuple.hash.larger(&rows);
            let old = std::mem::replace(&mut tuple.hash, larger);
            self.show(visible, quiet);
            quiet.retire(Retired::Buckets(old.buckets));
            quiet.retire(Retired::Buckets(old.overflow));
        } else if before.0 == 0 || tuple.best() > before.1 {
            self.show(visible, quiet);
        }
        Ok(())
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

    /// The row's data is the address of the entry's slot.
    fn lead_to_slot(&mut self, words: &mut [u64], identity: &Identity, entry: &Entry) {
        let Some(layout) = &self.layout else { return };
        let ranges = self.definition.keys.iter().any(|k| k.kind == MatchKind::Range);
        let at = row::KEY + data_offset(layout.key_size, ranges) as usize / 8;
        words[at] = self.slots.add(identity.clone(), vec![self.data(&entry.action)]);
    }

    fn retire_row(&mut self, row: Vec<u64>, quiet: &mut Quiet) {
        let cell = row[row::COUNTER];
        self.idle.remove(&cell);
        quiet.retire(Retired::Row(row, self.number, cell));
    }

    fn put_default(
        &mut self,
        call: &ActionCall,
        visible: &abi::native::Table,
        quiet: &mut Quiet,
    ) -> Result<(), TableError> {
        self.definition.check_action(call, true)?;
        let Some(layout) = &self.layout else { return Ok(()) };
        let data = self.definition.pack_action(layout, call).unwrap_or_default();
        visible.miss.store(data.as_ptr().cast_mut(), Release);
        quiet.retire(Retired::Bytes(std::mem::replace(&mut self.miss, data)));
        Ok(())
    }

    /// Publishes the list of tuples, best rank first.
    fn show(&mut self, visible: &abi::native::Table, quiet: &mut Quiet) {
        self.tuples.sort_by_key(|t| std::cmp::Reverse(t.best()));
        let mut list = vec![self.tuples.len() as u64];
        for of in &self.tuples {
            let mut words = [0; tuple::SIZE];
            words[tuple::BEST] = of.best() as u64;
            words[tuple::MASK] = of.mask.as_ptr() as u64;
            words[tuple::BUCKETS] = of.hash.buckets.as_ptr() as u64;
            words[tuple::OVERFLOW] = of.hash.overflow.as_ptr() as u64;
            words[tuple::LAST] = of.hash.buckets.len() as u64 - 1;
            list.extend(words);
        }
        visible.index.store(list.as_ptr().cast_mut(), Release);
        quiet.retire(Retired::Words(std::mem::replace(&mut self.list, list)));
    }

    /// The words of a row that the program sees, but for its age and counter.
    fn words(&self, entry: &Entry, rank: i64) -> Vec<u64> {
        let Some(layout) = &self.layout else { return vec![0; row::KEY] };
        let ranges = self.definition.keys.iter().any(|k| k.kind == MatchKind::Range);
        let mut bytes = vec![0; data_offset(layout.key_size, ranges) as usize];
        let parts: &[fn(&MatchValue, u32) -> MatchValue] =
            if ranges { &[masked, low, high] } else { &[masked] };
        for (n, part) in parts.iter().enumerate() {
            let fields = self.definition.keys.iter().zip(&entry.matches);
            let fields: Vec<_> = fields.map(|(key, value)| part(value, key.width)).collect();
            if let Some(packed) = self.definition.pack_key(layout, &fields) {
                let at = n * layout.key_size.next_multiple_of(8) as usize;
                bytes[at..at + packed.value.len()].copy_from_slice(&packed.value);
            }
        }
        bytes.extend(self.data(&entry.action));
        let mut words = vec![rank as u64, 0, 0, 0];
        words.extend(in_words(&bytes));
        words
    }

    /// The bytes of an action and its parameters.
    fn data(&self, call: &ActionCall) -> Vec<u8> {
        let packed = self.layout.as_ref().and_then(|layout| self.definition.pack_action(layout, call));
        packed.unwrap_or_default()
    }

    /// An entry's identity, and the mask of its tuple.
    fn place(&self, entry: &Entry) -> (Identity, Vec<u64>) {
        let fields = self.definition.keys.iter().zip(&entry.matches);
        let fields: Vec<_> = fields.map(|(key, value)| masked(value, key.width)).collect();
        let packed = self.layout.as_ref().and_then(|layout| self.definition.pack_key(layout, &fields));
        let mask = packed.map(|p| in_words(&p.mask)).unwrap_or_default();
        // Don't-care bits do not tell entries apart.
        let canonical = entry.matches.iter().zip(fields).map(|(value, masked)| match value {
            MatchValue::Range(..) => value.clone(),
            _ => masked,
        });
        let priority = if self.definition.needs_priority() { entry.priority } else { 0 };
        ((canonical.collect(), priority), mask)
    }

    fn missing(&self) -> TableError {
        TableError::NotFound(self.definition.name.clone())
    }
}

/// What of a field the hash sees: nothing of a range, for no mask says it.
fn masked(value: &MatchValue, width: u32) -> MatchValue {
    match value {
        MatchValue::Range(..) => MatchValue::Ternary(Bits::zero(width), Bits::zero(width)),
        MatchValue::Ternary(v, m) => MatchValue::Ternary(v.and(m), m.clone()),
        MatchValue::Lpm(v, len) => MatchValue::Lpm(v.and(&Bits::prefix_mask(width, *len)), *len),
        other => other.clone(),
    }
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

/// Bytes as words of the machine, the last one filled with zeros.
fn in_words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}
