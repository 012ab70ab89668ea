//! Entries in and out.

use abi::layout::PackedKey;
use abi::manifest::{Structure, Table, TableLayout};
use abi::{ActionCall, Entry};

use super::tuples::TupleSpace;
use super::{Count, TcProgram};
use crate::bpf::{Map, MapKind};
use crate::{Error, Result};

/// An entry that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The entry.
    pub entry: Entry,
    /// Its direct counter, if the table has one.
    pub count: Option<Count>,
}

impl TcProgram {
    /// Adds an entry; an equal key (and mask) that is there already is an error.
    pub fn insert(&mut self, table: &str, entry: &Entry) -> Result<()> {
        let table = self.checked(table, entry)?;
        self.write_new(&table, entry)
    }

    /// Changes the action (and priority) of an entry; its counter goes on.
    pub fn modify(&mut self, table: &str, entry: &Entry) -> Result<()> {
        let table = self.checked(table, entry)?;
        let (layout, packed) = self.packed(&table, entry)?;
        let key = self.map_key(&table, &layout, &packed)?.ok_or_else(|| no_entry(&table))?;
        let map = self.entries_map(&table, &layout)?;
        let old = map.lookup(&key)?.ok_or_else(|| no_entry(&table))?;
        let mut value = packed_value(&table, &layout, entry)?;
        keep_counter(&layout, &old, &mut value);
        map.set(&key, &value)?;
        match layout.structure {
            Structure::TupleSpace => self.with_tuples(&table, |space, map, tuples| {
                space.note(&packed, entry.priority);
                space.settle(map, tuples)
            }),
            _ => Ok(()),
        }
    }

    /// Adds an entry or changes it.
    pub fn upsert(&mut self, table: &str, entry: &Entry) -> Result<()> {
        match self.insert(table, entry) {
            Err(Error::Table { problem, .. }) if problem == EXISTS => self.modify(table, entry),
            other => other,
        }
    }

    /// Deletes the entry with this key; its action does not matter. `false` if there was none.
    pub fn delete(&mut self, table: &str, entry: &Entry) -> Result<bool> {
        let table = self.checked(table, entry)?;
        let (layout, packed) = self.packed(&table, entry)?;
        let Some(key) = self.map_key(&table, &layout, &packed)? else { return Ok(false) };
        let deleted = self.entries_map(&table, &layout)?.delete(&key)?;
        if layout.structure == Structure::TupleSpace {
            self.with_tuples(&table, |space, map, tuples| {
                space.forget(&packed);
                space.settle(map, tuples)
            })?;
        }
        Ok(deleted)
    }

    /// Deletes all entries.
    pub fn clear(&mut self, table: &str) -> Result<()> {
        for listed in self.list(table)? {
            self.delete(table, &listed.entry)?;
        }
        Ok(())
    }

    /// All entries, in a stable order: by priority, then by key. Const entries that were compiled into code are not among them.
    pub fn list(&mut self, table: &str) -> Result<Vec<Listed>> {
        let table = self.table(table)?;
        let Some(layout) = table.layout.clone() else { return Ok(Vec::new()) };
        if matches!(layout.structure, Structure::Keyless | Structure::Code) {
            return Ok(Vec::new());
        }
        let mut elements = self.entries_map(&table, &layout)?.entries()?;
        elements.sort();
        let mut listed = Vec::with_capacity(elements.len());
        for (key, value) in elements {
            let packed = self.unpack_map_key(&table, &layout, &key)?;
            listed.extend(read_entry(&table, &layout, &packed, &value));
        }
        listed.sort_by_key(|l| std::cmp::Reverse(l.entry.priority));
        Ok(listed)
    }

    /// Sets the default action.
    pub fn set_default(&mut self, table: &str, call: &ActionCall) -> Result<()> {
        let table = self.table(table)?;
        table.check_action(call, true)?;
        if table.const_default {
            return Err(abi::manifest::EntryError::ConstDefault(table.name).into());
        }
        self.write_default(&table, call)
    }

    /// Sets the default action back to the program's own.
    pub fn reset_default(&mut self, table: &str) -> Result<()> {
        let table = self.table(table)?;
        match &table.default_action {
            Some(call) => self.write_default(&table, call),
            None => Ok(()),
        }
    }

    /// The default action now.
    pub fn default_action(&mut self, table: &str) -> Result<Option<ActionCall>> {
        let table = self.table(table)?;
        let Some(map) = table.layout.as_ref().and_then(|l| l.default_map.clone()) else {
            return Ok(table.default_action);
        };
        let data = self.map(&map)?.lookup(&0u32.to_ne_bytes())?;
        Ok(data.and_then(|data| table.unpack_action(&data)))
    }

    /// Adds an entry without asking whether the table may be written.
    pub(super) fn write_new(&mut self, table: &Table, entry: &Entry) -> Result<()> {
        table.check_shape(entry)?;
        let (layout, packed) = self.packed(table, entry)?;
        let value = packed_value(table, &layout, entry)?;
        if layout.structure == Structure::TupleSpace {
            return self.write_new_ternary(table, &packed, entry.priority, &value);
        }
        let key = plain_key(&layout, &packed);
        insert_new(self.entries_map(table, &layout)?, table, &key, &value)
    }

    pub(super) fn write_default(&mut self, table: &Table, call: &ActionCall) -> Result<()> {
        let Some(layout) = &table.layout else { return Ok(()) };
        // A const default action is code.
        let Some(map) = &layout.default_map else { return Ok(()) };
        let data = table.pack_action(layout, call).ok_or_else(|| misfit(table))?;
        let map = self.map(map)?;
        let mut value = vec![0; map.value_size()];
        let len = data.len().min(value.len());
        value[..len].copy_from_slice(&data[..len]);
        map.set(&0u32.to_ne_bytes(), &value)
    }

    fn write_new_ternary(
        &mut self,
        table: &Table,
        packed: &PackedKey,
        priority: i32,
        value: &[u8],
    ) -> Result<()> {
        self.with_tuples(table, |space, map, tuples| {
            if space.contains(packed) {
                return Err(exists(table));
            }
            if !space.has_room(&packed.mask) {
                let problem = format!("its entries may have {} different masks at most", space.capacity());
                return Err(Error::Table { table: table.name.clone(), problem });
            }
            let tuple = space.note(packed, priority);
            if let Err(error) = insert_new(map, table, &tuple_key(tuple, packed), value) {
                space.forget(packed);
                return Err(error);
            }
            space.settle(map, tuples)
        })
    }

    /// Gives `act` the bookkeeping of a ternary table and its two maps: entries and tuples.
    fn with_tuples<T>(
        &mut self,
        table: &Table,
        act: impl FnOnce(&mut TupleSpace, &Map, &Map) -> Result<T>,
    ) -> Result<T> {
        let layout = layout_of(table)?;
        let (tuples, capacity) = layout.tuples.clone().ok_or_else(|| misfit(table))?;
        let entries = layout.map.clone().ok_or_else(|| misfit(table))?;
        // Open both before borrowing both.
        self.map(&entries)?;
        self.map(&tuples)?;
        let mut space = match self.tuples.remove(&table.name) {
            Some(space) => space,
            None => {
                let key_size = layout.key_size as usize;
                let entries = self.instance.map(&entries)?;
                TupleSpace::recover(key_size, capacity, &entries, self.map(&tuples)?)?
            }
        };
        let entries = self.instance.map(&entries)?;
        let result = act(&mut space, &entries, self.map(&tuples)?);
        // After a failure half-way the maps are the truth: they are read again next time.
        if result.is_ok() {
            self.tuples.insert(table.name.clone(), space);
        }
        result
    }

    /// The key under which the entries' map holds a packed key; `None` if no tuple has its mask.
    fn map_key(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        packed: &PackedKey,
    ) -> Result<Option<Vec<u8>>> {
        if layout.structure != Structure::TupleSpace {
            return Ok(Some(plain_key(layout, packed)));
        }
        self.with_tuples(table, |space, _, _| Ok(space.tuple(&packed.mask).map(|t| tuple_key(t, packed))))
    }

    fn unpack_map_key(&mut self, table: &Table, layout: &TableLayout, key: &[u8]) -> Result<PackedKey> {
        let size = layout.key_size as usize;
        let head = || key.first_chunk().map(|head| u32::from_ne_bytes(*head)).unwrap_or(0);
        Ok(match layout.structure {
            Structure::LpmTrie => {
                PackedKey { value: key[4..4 + size].to_vec(), mask: vec![0xff; size], prefix_len: head() }
            }
            Structure::TupleSpace => {
                let mask = self.with_tuples(table, |space, _, _| Ok(space.mask(head())))?;
                PackedKey { value: key[4..4 + size].to_vec(), mask, prefix_len: layout.key_size * 8 }
            }
            _ => PackedKey {
                value: key[..size].to_vec(),
                mask: vec![0xff; size],
                prefix_len: layout.key_size * 8,
            },
        })
    }

    fn table(&self, name: &str) -> Result<Table> {
        let table = self.manifest.table(name).cloned();
        table.ok_or_else(|| abi::manifest::EntryError::NoTable(name.to_owned()).into())
    }

    fn checked(&self, name: &str, entry: &Entry) -> Result<Table> {
        let table = self.table(name)?;
        table.check_entry(entry)?;
        Ok(table)
    }

    fn packed(&self, table: &Table, entry: &Entry) -> Result<(TableLayout, PackedKey)> {
        let layout = layout_of(table)?.clone();
        let packed = table.pack_key(&layout, &entry.matches).ok_or_else(|| misfit(table))?;
        Ok((layout, packed))
    }

    fn entries_map(&mut self, table: &Table, layout: &TableLayout) -> Result<&Map> {
        let name = layout.map.as_ref().ok_or_else(|| misfit(table))?;
        self.map(name)
    }
}

const EXISTS: &str = "there is an entry with this key already";

fn layout_of(table: &Table) -> Result<&TableLayout> {
    table.layout.as_ref().ok_or_else(|| misfit(table))
}

fn packed_value(table: &Table, layout: &TableLayout, entry: &Entry) -> Result<Vec<u8>> {
    table.pack_value(layout, entry).ok_or_else(|| misfit(table))
}

/// A key as a hash or a trie holds it.
fn plain_key(layout: &TableLayout, packed: &PackedKey) -> Vec<u8> {
    match layout.structure {
        Structure::LpmTrie => [&packed.prefix_len.to_ne_bytes(), &packed.value[..]].concat(),
        _ => packed.value.clone(),
    }
}

/// A key as a tuple space's hash holds it.
pub(super) fn tuple_key(tuple: u32, packed: &PackedKey) -> Vec<u8> {
    [&tuple.to_ne_bytes(), &packed.value[..]].concat()
}

fn insert_new(map: &Map, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
    // Tries ignore "only new" before Linux 6.13. A look-up finds the longest match, so only if there is one need we search.
    let is_new = match map.kind() {
        MapKind::LpmTrie => {
            let fresh = map.lookup(key)?.is_none() || !map.keys()?.iter().any(|k| k.starts_with(key));
            if fresh {
                map.set(key, value)?;
            }
            fresh
        }
        _ => map.insert(key, value)?,
    };
    if is_new { Ok(()) } else { Err(exists(table)) }
}

/// Counts go on when only the action changes. (Packets in the instant between are lost to the count.)
fn keep_counter(layout: &TableLayout, old: &[u8], new: &mut [u8]) {
    if let Some(offset) = layout.counter_offset {
        let range = offset as usize..offset as usize + 16;
        if let (Some(old), Some(new)) = (old.get(range.clone()), new.get_mut(range)) {
            new.copy_from_slice(old);
        }
    }
}

fn read_entry(table: &Table, layout: &TableLayout, packed: &PackedKey, value: &[u8]) -> Option<Listed> {
    let priority = match layout.structure {
        Structure::TupleSpace => i32::from_ne_bytes(*value.first_chunk()?),
        _ => 0,
    };
    let action = table.unpack_action(value.get(layout.data_offset as usize..)?)?;
    let count = layout.counter_offset.and_then(|offset| Count::read(value.get(offset as usize..)?));
    Some(Listed { entry: Entry { matches: table.unpack_key(layout, packed), priority, action }, count })
}

fn exists(table: &Table) -> Error {
    Error::Table { table: table.name.clone(), problem: EXISTS.into() }
}

fn no_entry(table: &Table) -> Error {
    Error::Table { table: table.name.clone(), problem: "there is no entry with this key".into() }
}

fn misfit(table: &Table) -> Error {
    let problem = "this target's layout cannot hold that (a range key, or no map)".into();
    Error::Table { table: table.name.clone(), problem }
}
