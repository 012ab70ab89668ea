//! The interpreter's match-action table.
//!
//! One structure serves every match kind: tuple-space search (`index`). Entries with equal masks form a *tuple*; an exact table has one
//! tuple, and an lpm table has one for each prefix length. A tuple finds its candidates by a hash of the masked key. A lookup searches the
//! tuples best rank first, and stops when no further tuple can hold a better entry.
//!
//! Each candidate is compared with the key as its match kind defines. Masks and hashes therefore affect the cost of a lookup, but never its
//! result. If several entries match, [`abi::manifest::Table::rank`] decides, then age.

mod index;

use std::collections::HashMap;

use abi::manifest::{EntryError, Table as Definition};
use abi::{ActionCall, Bits, Entry, MatchValue};
use thiserror::Error;

use crate::cells::Count;
use index::Index;

/// Identifies an entry of a table. The handle of a deleted entry is not used again. Handles grow with the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// A stored entry.
#[derive(Clone, Debug)]
pub struct Row {
    /// The entry's handle.
    pub handle: Handle,
    /// The entry in canonical form: bits outside prefixes and masks are zero.
    pub entry: Entry,
    /// The value of the direct counter.
    pub count: Count,
    /// If the entry refers to an action profile: the actions that it may run. Otherwise `None`.
    pub members: Option<Vec<ActionCall>>,
    /// The idle timeout, if the control plane has set one.
    idle: Option<Idle>,
    /// The time in microseconds of the last hit, or of when the entry was added.
    hit: u64,
    rank: i64,
}

impl Row {
    /// The time in microseconds of the last hit, or of when the entry was added, on the clock of [`Table::lookup_and_count`].
    pub fn last_hit(&self) -> u64 {
        self.hit
    }

    /// The idle timeout in microseconds, if there is one.
    pub fn idle_timeout(&self) -> Option<u64> {
        self.idle.map(|idle| idle.timeout)
    }
}

/// The idle timeout of an entry (P4Runtime's `idle_timeout_ns`). Times are in microseconds.
#[derive(Clone, Copy, Debug)]
struct Idle {
    timeout: u64,
    /// The time of the last hit or the last report, whichever is later.
    since: u64,
}

/// The default action, which runs on a miss.
#[derive(Clone, Debug)]
pub struct Default {
    /// The action and its arguments; `None` if a miss runs no action.
    pub call: Option<ActionCall>,
    /// The packets that missed, and their bytes.
    pub count: Count,
}

/// Why a write to a table failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// The entry or the default action is not valid for this table.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The table already has an entry with this match (and priority).
    #[error("table `{0}` has an entry with this match already")]
    Exists(String),
    /// The table has no entry with this match (and priority).
    #[error("table `{0}` has no entry with this match")]
    NotFound(String),
    /// The table holds as many entries as its size allows.
    #[error("table `{table}` is full: its size is {size}")]
    #[allow(missing_docs)]
    Full { table: String, size: u64 },
}

/// Why a key does not hit a certain entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The key field with this number does not match. The fields before it match.
    Field(usize),
    /// All fields match, but another entry wins: it has a longer prefix, a larger priority, or it is older.
    Outranked,
}

/// A match-action table with its entries, counters and default action.
#[derive(Clone, Debug)]
pub struct Table {
    definition: Definition,
    /// The rows by slot. The slots of deleted entries are reused.
    rows: Vec<Option<Row>>,
    /// The free list: slots of deleted entries.
    free: Vec<usize>,
    /// The next handle.
    next: u64,
    slots: HashMap<Handle, usize>,
    /// The slot of each entry by its identity: match and priority.
    identities: HashMap<(Vec<MatchValue>, i32), usize>,
    index: Index,
    default: Default,
}

impl Table {
    /// A table with the entries and the default action that the program declares.
    pub fn new(definition: &Definition) -> Result<Table, TableError> {
        let mut table = Table {
            definition: definition.clone(),
            rows: Vec::new(),
            free: Vec::new(),
            next: 0,
            slots: HashMap::new(),
            identities: HashMap::new(),
            index: Index::default(),
            default: Default { call: None, count: Count::default() },
        };
        if let Some(call) = &definition.default_action {
            table.put_default(call)?;
        }
        for entry in &definition.initial_entries {
            definition.check_shape(entry)?;
            table.put(entry)?;
        }
        Ok(table)
    }

    /// The declaration of the table.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Adds an entry, which the caller has checked ([`Definition::check_entry`]).
    pub fn insert(&mut self, entry: &Entry) -> Result<Handle, TableError> {
        self.put(entry)
    }

    /// Sets the actions that an entry may run through its action profile. Returns false if the entry has been deleted.
    pub fn set_members(&mut self, entry: Handle, calls: Vec<ActionCall>) -> bool {
        self.row_mut(entry).map(|row| row.members = Some(calls)).is_some()
    }

    /// Sets the value of an entry's direct counter. Returns false if the entry has been deleted.
    pub fn set_count(&mut self, entry: Handle, count: Count) -> bool {
        self.row_mut(entry).map(|row| row.count = count).is_some()
    }

    /// Sets or removes (`None`) an entry's idle timeout. Returns false if the entry has been deleted. Times are in microseconds, on the clock
    /// of [`Table::lookup_and_count`].
    pub fn set_idle_timeout(&mut self, entry: Handle, timeout: Option<u64>, now: u64) -> bool {
        let Some(row) = self.row_mut(entry) else { return false };
        row.idle = timeout.map(|timeout| Idle { timeout, since: now });
        if row.hit == 0 {
            row.hit = now;
        }
        true
    }

    /// The entries that are idle now, oldest first. An entry that stays idle is reported again each time its timeout has passed.
    pub fn take_idle(&mut self, now: u64) -> Vec<Handle> {
        let mut found = Vec::new();
        for row in self.rows.iter_mut().flatten() {
            if let Some(idle) = row.idle.as_mut().filter(|i| i.since.saturating_add(i.timeout) <= now) {
                idle.since = now;
                found.push(row.handle);
            }
        }
        found.sort_unstable();
        found
    }

    /// Changes the action of the entry with this match (and priority). The entry keeps its counts. The caller has checked the entry.
    pub fn modify(&mut self, entry: &Entry) -> Result<Handle, TableError> {
        let slot = self.slot_of(entry)?;
        let missing = self.missing();
        let row = self.rows[slot].as_mut().ok_or(missing)?;
        row.entry.action = entry.action.clone();
        row.members = None;
        Ok(row.handle)
    }

    /// Removes the entry with this match (and priority). The action in `entry` is ignored.
    pub fn delete(&mut self, entry: &Entry) -> Result<Row, TableError> {
        let slot = self.slot_of(entry)?;
        self.take(slot).ok_or_else(|| self.missing())
    }

    /// Removes the entry with this handle; `None` if it has been deleted before.
    pub fn delete_row(&mut self, handle: Handle) -> Option<Row> {
        let slot = self.slots.get(&handle).copied()?;
        self.take(slot)
    }

    /// Restores the initial state: the entries and the default action that the program declares, and counts of zero.
    pub fn reset(&mut self) {
        // The same definition was accepted when the table was made, so this cannot fail.
        if let Ok(fresh) = Table::new(&self.definition) {
            let next = self.next;
            *self = fresh;
            self.next += next;
        }
    }

    /// Sets the default action, which runs on a miss.
    pub fn set_default(&mut self, call: &ActionCall) -> Result<(), TableError> {
        self.put_default(call)
    }

    /// The default action, which runs on a miss.
    pub fn default(&self) -> &Default {
        &self.default
    }

    /// The entry that a key hits; `None` on a miss. The key has one value for each key field, with the field's width.
    pub fn lookup(&self, key: &[Bits]) -> Option<&Row> {
        self.slot_for(key).and_then(|slot| self.rows[slot].as_ref())
    }

    /// Looks up a key as [`Table::lookup`] does, and counts the packet for the entry or for the default action. `now` is in microseconds; the
    /// clock may have any origin.
    pub fn lookup_and_count(&mut self, key: &[Bits], bytes: u64, now: u64) -> Option<&Row> {
        match self.slot_for(key).and_then(|slot| self.rows[slot].as_mut()) {
            Some(row) => {
                row.count.add(bytes);
                row.hit = now;
                if let Some(idle) = &mut row.idle {
                    idle.since = now;
                }
                Some(row)
            }
            None => {
                self.default.count.add(bytes);
                None
            }
        }
    }

    /// The entry with this handle; `None` if it has been deleted.
    pub fn row(&self, handle: Handle) -> Option<&Row> {
        self.slots.get(&handle).and_then(|slot| self.rows[*slot].as_ref())
    }

    fn row_mut(&mut self, handle: Handle) -> Option<&mut Row> {
        self.slots.get(&handle).and_then(|slot| self.rows[*slot].as_mut())
    }

    /// The entry with this match (and priority).
    pub fn find(&self, entry: &Entry) -> Option<&Row> {
        self.slot_of(entry).ok().and_then(|slot| self.rows[slot].as_ref())
    }

    /// All entries, oldest first.
    pub fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().flatten().collect();
        rows.sort_by_key(|row| row.handle);
        rows
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.identities.len()
    }

    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty()
    }

    /// Why this key does not hit `row`. The answer is meaningful for every entry except the one that [`Table::lookup`] returns.
    pub fn mismatch(&self, row: &Row, key: &[Bits]) -> Mismatch {
        let mut fields = self.definition.keys.iter().zip(&row.entry.matches).zip(key);
        let differs = fields.position(|((field, value), key)| !field.matches(value, key));
        differs.map_or(Mismatch::Outranked, Mismatch::Field)
    }

    fn slot_for(&self, key: &[Bits]) -> Option<usize> {
        // A keyless table always runs its default action.
        if self.definition.keys.is_empty() || key.len() != self.definition.keys.len() {
            return None;
        }
        self.index.find(&self.definition.keys, key, |slot| self.rows.get(slot).and_then(Option::as_ref))
    }

    fn put(&mut self, entry: &Entry) -> Result<Handle, TableError> {
        let identity = self.definition.identity(entry);
        let entry = Entry { matches: identity.0.clone(), ..entry.clone() };
        if self.identities.contains_key(&identity) {
            return Err(TableError::Exists(self.definition.name.clone()));
        }
        if self.identities.len() as u64 >= self.definition.size {
            return Err(TableError::Full { table: self.definition.name.clone(), size: self.definition.size });
        }
        let handle = Handle(self.next);
        self.next += 1;
        let rank = self.definition.rank(&entry);
        let slot = self.free.pop().unwrap_or(self.rows.len());
        if slot == self.rows.len() {
            self.rows.push(None);
        }
        self.index.insert(slot, rank, handle, &entry.matches, &self.definition.keys);
        let (count, members, idle) = (Count::default(), None, None);
        self.rows[slot] = Some(Row { handle, entry, count, members, idle, hit: 0, rank });
        self.slots.insert(handle, slot);
        self.identities.insert(identity, slot);
        Ok(handle)
    }

    fn take(&mut self, slot: usize) -> Option<Row> {
        let row = self.rows.get_mut(slot)?.take()?;
        self.index.remove(slot, row.rank, &row.entry.matches, &self.definition.keys);
        self.slots.remove(&row.handle);
        self.identities.remove(&self.definition.identity(&row.entry));
        self.free.push(slot);
        Some(row)
    }

    fn put_default(&mut self, call: &ActionCall) -> Result<(), TableError> {
        self.definition.check_action(call, true)?;
        self.default.call = Some(call.clone());
        Ok(())
    }

    fn slot_of(&self, entry: &Entry) -> Result<usize, TableError> {
        self.identities.get(&self.definition.identity(entry)).copied().ok_or_else(|| self.missing())
    }

    fn missing(&self) -> TableError {
        TableError::NotFound(self.definition.name.clone())
    }
}

#[cfg(test)]
mod tests;
