//! A match-action table: entries in, the best match for a key out.
//!
//! One structure serves every match kind. Entries whose masks are equal form a *tuple* (an exact table has one, an lpm
//! table one a prefix length), each tuple finds its candidates by a hash of the masked key, and tuples are searched best
//! rank first until no better one can follow ([`index`]). Every candidate is then compared by the definition of its match
//! kind, so a hash or a mask decides the cost of an answer, never the answer. What decides between two entries that both
//! match is [`abi::manifest::Table::rank`], then age.

mod index;

use std::collections::HashMap;

use abi::manifest::{EntryError, Table as Definition};
use abi::{ActionCall, Bits, Entry, MatchValue};
use thiserror::Error;

use crate::cells::Count;
use index::Index;

/// An entry of a table, until it is deleted; handles of deleted entries are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub handle: Handle,
    /// What the controller said, in canonical form: no bits outside prefixes and masks.
    pub entry: Entry,
    /// The action's number in the table's list.
    pub action: u32,
    /// The direct counter.
    pub count: Count,
    /// Through an action profile: the actions that it may run, by their numbers, with their arguments. `None`: its own.
    pub choices: Option<Vec<(u32, Vec<Bits>)>>,
    /// When it counts as idle.
    idle: Option<Idle>,
    rank: i64,
}

/// An entry that the control plane wants to hear of when no packet has hit it for a time (P4Runtime's `idle_timeout_ns`).
#[derive(Clone, Copy, Debug)]
struct Idle {
    timeout: u64,
    /// When it was hit, or told of, last.
    since: u64,
}

/// What happens on a miss.
#[derive(Clone, Debug)]
pub struct Default {
    /// The call; without one nothing happens.
    pub call: Option<ActionCall>,
    /// The action's number in the table's list.
    pub action: u32,
    /// Packets that missed.
    pub count: Count,
}

/// Why a table could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// The entry does not fit.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The same match (and priority) is there already.
    #[error("table `{0}` has an entry with this match already (ALREADY_EXISTS)")]
    Exists(String),
    /// No entry has that match (and priority).
    #[error("table `{0}` has no entry with this match (NOT_FOUND)")]
    NotFound(String),
    /// Only tables that declare it tell of idle entries.
    #[error("table `{0}` does not support idle timeouts")]
    NoIdleTimeout(String),
    /// The table holds as many entries as its size allows.
    #[error("table `{table}` is full: its size is {size} (TABLE_FULL)")]
    Full {
        /// Table.
        table: String,
        /// Its size.
        size: u64,
    },
}

/// Why an entry is not the one that a key hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// That key field (by its number) does not match; fields before it do.
    Field(usize),
    /// All match, but another entry is better (longer prefix, larger priority, or older).
    Outranked,
}

/// A match-action table and its state.
#[derive(Clone, Debug)]
pub struct Table {
    definition: Definition,
    /// Slots of deleted entries are reused; order of insertion is the order of handles.
    rows: Vec<Option<Row>>,
    free: Vec<usize>,
    next: u64,
    slots: HashMap<Handle, usize>,
    /// Match and priority to slot: an entry's identity.
    places: HashMap<(Vec<MatchValue>, i32), usize>,
    index: Index,
    default: Default,
}

impl Table {
    /// The table as the program declares it, with its initial entries and default action.
    pub fn new(definition: &Definition) -> Result<Table, TableError> {
        let mut table = Table {
            definition: definition.clone(),
            rows: Vec::new(),
            free: Vec::new(),
            next: 0,
            slots: HashMap::new(),
            places: HashMap::new(),
            index: Index::default(),
            default: Default { call: None, action: 0, count: Count::default() },
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

    /// What the program declares.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: &Entry) -> Result<Handle, TableError> {
        self.definition.check_entry(entry)?;
        self.put(entry)
    }

    /// Gives an entry the actions of its action profile; false if there is no such entry any more.
    pub fn set_choices(&mut self, entry: Handle, calls: &[ActionCall]) -> bool {
        let choices: Vec<(u32, Vec<Bits>)> =
            calls.iter().map(|call| (self.action_number(call), call.args.clone())).collect();
        self.row_mut(entry).map(|row| row.choices = Some(choices)).is_some()
    }

    /// Lets an entry count as idle when no packet has hit it for that long, or never; false if there is no such entry any more.
    /// Times are those of [`Table::lookup_and_count`].
    pub fn set_idle_timeout(&mut self, entry: Handle, timeout: Option<u64>, now: u64) -> bool {
        let idle = timeout.map(|timeout| Idle { timeout, since: now });
        self.row_mut(entry).map(|row| row.idle = idle).is_some()
    }

    /// Entries that have become idle, oldest first. One that stays idle is told of again after as long a time.
    pub fn tell_idle(&mut self, now: u64) -> Vec<Entry> {
        let mut told = Vec::new();
        for row in self.rows.iter_mut().flatten() {
            if let Some(idle) = row.idle.as_mut().filter(|i| i.since.saturating_add(i.timeout) <= now) {
                idle.since = now;
                told.push((row.handle, row.entry.clone()));
            }
        }
        told.sort_unstable_by_key(|(handle, _)| *handle);
        told.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Gives the entry with this match (and priority) another action; its counter goes on.
    pub fn modify(&mut self, entry: &Entry) -> Result<Handle, TableError> {
        self.definition.check_entry(entry)?;
        let slot = self.slot_of(entry)?;
        let action = self.action_number(&entry.action);
        let missing = self.missing();
        let row = self.rows[slot].as_mut().ok_or(missing)?;
        row.entry.action = entry.action.clone();
        row.action = action;
        row.choices = None;
        Ok(row.handle)
    }

    /// Removes the entry with this match (and priority); its action does not matter.
    pub fn delete(&mut self, entry: &Entry) -> Result<Row, TableError> {
        if self.definition.const_entries {
            return Err(EntryError::ConstEntries(self.definition.name.clone()).into());
        }
        let slot = self.slot_of(entry)?;
        self.take(slot).ok_or_else(|| self.missing())
    }

    /// Removes the entry of that name; `None` if there is none any more.
    pub fn delete_row(&mut self, handle: Handle) -> Option<Row> {
        let slot = self.slots.get(&handle).copied()?;
        self.take(slot)
    }

    /// Removes every entry and restores the program's own entries, default action and counters.
    pub fn reset(&mut self) {
        // The definition was accepted when the table was made, so it is accepted again.
        if let Ok(fresh) = Table::new(&self.definition) {
            let next = self.next;
            *self = fresh;
            self.next += next;
        }
    }

    /// Removes every entry that can be removed: none where they are const.
    pub fn clear(&mut self) {
        if self.definition.const_entries {
            return;
        }
        self.rows.clear();
        self.free.clear();
        self.slots.clear();
        self.places.clear();
        self.index = Index::default();
    }

    /// Changes what happens on a miss.
    pub fn set_default(&mut self, call: &ActionCall) -> Result<(), TableError> {
        if self.definition.const_default {
            return Err(EntryError::ConstDefault(self.definition.name.clone()).into());
        }
        self.put_default(call)
    }

    /// What happens on a miss.
    pub fn default(&self) -> &Default {
        &self.default
    }

    /// The best entry for a key: one value a field, each of the field's width.
    pub fn lookup(&self, key: &[Bits]) -> Option<&Row> {
        self.slot_for(key).and_then(|slot| self.rows[slot].as_ref())
    }

    /// As [`Table::lookup`], and counts the packet at the entry or at the default action. `now` is in microseconds of any clock.
    pub fn lookup_and_count(&mut self, key: &[Bits], bytes: u64, now: u64) -> Option<&Row> {
        match self.slot_for(key).and_then(|slot| self.rows[slot].as_mut()) {
            Some(row) => {
                row.count.add(bytes);
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

    /// The entry with that name.
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

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Why an entry did not win for this key. Meaningful for every entry but the one that [`Table::lookup`] gives.
    pub fn mismatch(&self, row: &Row, key: &[Bits]) -> Mismatch {
        let differs = row.entry.matches.iter().zip(key).position(|(field, value)| !field.matches(value));
        differs.map_or(Mismatch::Outranked, Mismatch::Field)
    }

    fn slot_for(&self, key: &[Bits]) -> Option<usize> {
        // A keyless table always runs its default action.
        if self.definition.keys.is_empty() || key.len() != self.definition.keys.len() {
            return None;
        }
        self.index.find(key, |slot| self.rows.get(slot).and_then(Option::as_ref))
    }

    fn put(&mut self, entry: &Entry) -> Result<Handle, TableError> {
        let entry = canonical(entry);
        let identity = self.identity(&entry);
        if self.places.contains_key(&identity) {
            return Err(TableError::Exists(self.definition.name.clone()));
        }
        if self.places.len() as u64 >= self.definition.size {
            return Err(TableError::Full { table: self.definition.name.clone(), size: self.definition.size });
        }
        let handle = Handle(self.next);
        self.next += 1;
        let rank = self.definition.rank(&entry);
        let action = self.action_number(&entry.action);
        let slot = self.free.pop().unwrap_or(self.rows.len());
        if slot == self.rows.len() {
            self.rows.push(None);
        }
        self.index.insert(slot, rank, handle, &entry.matches, &self.definition.keys);
        let (count, choices, idle) = (Count::default(), None, None);
        self.rows[slot] = Some(Row { handle, entry, action, count, choices, idle, rank });
        self.slots.insert(handle, slot);
        self.places.insert(identity, slot);
        Ok(handle)
    }

    fn take(&mut self, slot: usize) -> Option<Row> {
        let row = self.rows.get_mut(slot)?.take()?;
        self.index.remove(slot, row.rank, &row.entry.matches, &self.definition.keys);
        self.slots.remove(&row.handle);
        self.places.remove(&self.identity(&row.entry));
        self.free.push(slot);
        Some(row)
    }

    fn put_default(&mut self, call: &ActionCall) -> Result<(), TableError> {
        self.definition.check_action(call, true)?;
        self.default.action = self.action_number(call);
        self.default.call = Some(call.clone());
        Ok(())
    }

    fn slot_of(&self, entry: &Entry) -> Result<usize, TableError> {
        let identity = self.identity(&canonical(entry));
        self.places.get(&identity).copied().ok_or_else(|| self.missing())
    }

    /// Priority tells entries apart only where it decides.
    fn identity(&self, entry: &Entry) -> (Vec<MatchValue>, i32) {
        let priority = if self.definition.needs_priority() { entry.priority } else { 0 };
        (entry.matches.clone(), priority)
    }

    fn missing(&self) -> TableError {
        TableError::NotFound(self.definition.name.clone())
    }

    /// Calls were checked before they come here, so the action is known.
    fn action_number(&self, call: &ActionCall) -> u32 {
        self.definition.action(&call.action).unwrap_or(0) as u32
    }
}

/// Without the bits that do not matter, so that equal matches are equal values.
fn canonical(entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    for value in &mut entry.matches {
        match value {
            MatchValue::Lpm(v, len) => *v = v.and(&Bits::prefix_mask(v.width(), *len)),
            MatchValue::Ternary(v, mask) => *v = v.and(mask),
            MatchValue::Exact(_) | MatchValue::Range(..) | MatchValue::Optional(_) => {}
        }
    }
    entry
}

#[cfg(test)]
mod tests;
