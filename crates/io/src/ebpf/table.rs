//! Writes and reads the entries of tables.

use abi::layout::PackedKey;
use abi::manifest::{Structure, Table, TableLayout};
use abi::{ActionCall, Entry};

use super::tuples::TupleSpace;
use super::{Count, KernelProgram};
use crate::bpf::{Map, MapKind};
use crate::{Error, Result};

/// An entry that was read from a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The entry as it is stored.
    pub entry: Entry,
    /// The value of the entry's direct counter, if the table has one.
    pub count: Option<Count>,
}

impl KernelProgram {
    /// Adds an entry. It is an error if there is an entry with an equal key (and mask).
    pub fn insert(&mut self, table: &str, entry: &Entry) -> Result<()> {
        let table = self.checked(table, entry)?;
        self.write_new(&table, entry)
    }

    /// Changes the action (and priority) of an entry. The entry keeps its counter.
    pub fn modify(&mut self, table: &str, entry: &Entry) -> Result<()> {
        let table = self.checked(table, entry)?;
        if table.implementation.is_some() {
            return self.replace_listed(&table, entry, std::slice::from_ref(&entry.action));
        }
        let data = packed_action(&table, layout_of(&table)?, &entry.action)?;
        self.modify_with(&table, entry, data)
    }

    /// Changes the action data (and priority) of an entry.
    pub(super) fn modify_with(&mut self, table: &Table, entry: &Entry, data: Vec<u8>) -> Result<()> {
        let (layout, packed) = self.packed(table, entry)?;
        let key = self.map_key(table, &layout, &packed)?.ok_or_else(|| no_entry(table))?;
        let old = self.entries_map(table, &layout)?.lookup(&key)?.ok_or_else(|| no_entry(table))?;
        let mut value = table.value_of(&layout, entry.priority, &data).ok_or_else(|| misfit(table))?;
        keep_counter(&layout, &old, &mut value);
        self.replace_element(table, &layout, &key, &value)?;
        match layout.structure {
            Structure::TupleSpace => self.with_tuples(table, |program, space| {
                space.note(&packed, entry.priority);
                program.settle(table, space)
            }),
            _ => Ok(()),
        }
    }

    /// The action data of an entry.
    pub(super) fn data_of(&mut self, table: &Table, entry: &Entry) -> Result<Vec<u8>> {
        let (layout, packed) = self.packed(table, entry)?;
        let key = self.map_key(table, &layout, &packed)?.ok_or_else(|| no_entry(table))?;
        let value = self.entries_map(table, &layout)?.lookup(&key)?.ok_or_else(|| no_entry(table))?;
        Ok(value.get(layout.data_offset as usize..).unwrap_or_default().to_vec())
    }

    /// Adds an entry, or changes an existing one.
    pub fn upsert(&mut self, table: &str, entry: &Entry) -> Result<()> {
        match self.insert(table, entry) {
            Err(Error::Duplicate { .. }) => self.modify(table, entry),
            other => other,
        }
    }

    /// Deletes the entry with this key; the action is ignored. Returns `false` if there is no such entry.
    pub fn delete(&mut self, table: &str, entry: &Entry) -> Result<bool> {
        let table = self.checked(table, entry)?;
        let (layout, packed) = self.packed(&table, entry)?;
        let Some(key) = self.map_key(&table, &layout, &packed)? else { return Ok(false) };
        let listed =
            layout.lists.is_some().then(|| self.data_of(&table, entry)).transpose().unwrap_or_default();
        let deleted = self.delete_element(&table, &layout, &key)?;
        if layout.structure == Structure::TupleSpace {
            self.with_tuples(&table, |program, space| {
                space.forget(&packed);
                program.settle(&table, space)
            })?;
        }
        if let Some(data) = listed {
            self.forget_listed(&table, entry, &data)?;
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

    /// All entries, ordered by priority and then by key. Const entries that were compiled into code are not included.
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
            let Some(packed) = self.unpack_map_key(&table, &layout, &key)? else { continue };
            let mut action = value.get(layout.data_offset as usize..).unwrap_or_default().to_vec();
            if layout.lists.is_some() {
                action = self.first_listed(&table, &action)?;
            }
            listed.extend(read_entry(&table, &layout, &packed, &value, &action));
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

    /// Restores the default action that the program declares.
    pub fn reset_default(&mut self, table: &str) -> Result<()> {
        let table = self.table(table)?;
        match &table.default_action {
            Some(call) => self.write_default(&table, call),
            None => Ok(()),
        }
    }

    /// The current default action.
    pub fn default_action(&mut self, table: &str) -> Result<Option<ActionCall>> {
        let table = self.table(table)?;
        let Some(map) = table.layout.as_ref().and_then(|l| l.default_map.clone()) else {
            return Ok(table.default_action);
        };
        let at = self.version(&table)?.default_action;
        let data = self.map(&map)?.lookup(&at.to_ne_bytes())?;
        Ok(data.and_then(|data| table.unpack_action(&data)))
    }

    /// Adds an entry without checking whether the table's entries are const.
    pub(super) fn write_new(&mut self, table: &Table, entry: &Entry) -> Result<()> {
        table.check_shape(entry)?;
        if table.implementation.is_some() {
            return self.write_listed(table, entry, std::slice::from_ref(&entry.action));
        }
        let data = packed_action(table, layout_of(table)?, &entry.action)?;
        self.write_with(table, entry, data)
    }

    /// Adds an entry with this action data.
    pub(super) fn write_with(&mut self, table: &Table, entry: &Entry, data: Vec<u8>) -> Result<()> {
        let (layout, packed) = self.packed(table, entry)?;
        let value = table.value_of(&layout, entry.priority, &data).ok_or_else(|| misfit(table))?;
        if layout.structure == Structure::TupleSpace {
            return self.write_new_ternary(table, &packed, entry.priority, &value);
        }
        let key = plain_key(&layout, &packed);
        self.insert_new(table, &layout, &key, &value)
    }

    pub(super) fn write_default(&mut self, table: &Table, call: &ActionCall) -> Result<()> {
        let Some(layout) = &table.layout else { return Ok(()) };
        // A const default action is compiled into code.
        let Some(map) = &layout.default_map else { return Ok(()) };
        let data = table.pack_action(layout, call).ok_or_else(|| misfit(table))?;
        self.write_fallback(table, map, &data)
    }

    fn write_new_ternary(
        &mut self,
        table: &Table,
        packed: &PackedKey,
        priority: i32,
        value: &[u8],
    ) -> Result<()> {
        let layout = layout_of(table)?;
        self.with_tuples(table, |program, space| {
            if space.contains(packed) {
                return Err(exists(table));
            }
            if !space.has_room(&packed.mask) {
                let problem = format!("its entries may have {} different masks at most", space.capacity());
                return Err(Error::Table { table: table.name.clone(), problem });
            }
            let tuple = space.note(packed, priority);
            if let Err(error) = program.insert_new(table, layout, &tuple_key(tuple, packed), value) {
                space.forget(packed);
                return Err(error);
            }
            program.settle(table, space)
        })
    }

    fn insert_new(&mut self, table: &Table, layout: &TableLayout, key: &[u8], value: &[u8]) -> Result<()> {
        let map = self.entries_map(table, layout)?;
        // Before Linux 6.13 tries ignore the flag "create only". A lookup finds the longest match, so a search is needed only if the lookup
        // hits.
        let is_new = match map.kind() {
            MapKind::LpmTrie => {
                let fresh = map.lookup(key)?.is_none() || !map.keys()?.iter().any(|k| k.starts_with(key));
                if fresh {
                    map.set(key, value)?;
                }
                fresh
            }
            _ => self.add_element(table, layout, key, value)?,
        };
        if is_new { Ok(()) } else { Err(exists(table)) }
    }

    /// Publishes the current tuples.
    fn settle(&mut self, table: &Table, space: &mut TupleSpace) -> Result<()> {
        let (array, capacity) = layout_of(table)?.tuples.as_ref().ok_or_else(|| misfit(table))?;
        match space.arrange() {
            true => self.write_tuples(table, array, capacity + 1, |array, first| space.write(array, first)),
            false => Ok(()),
        }
    }

    /// Runs `act` on the tuple space of a ternary table.
    fn with_tuples<T>(
        &mut self,
        table: &Table,
        act: impl FnOnce(&mut Self, &mut TupleSpace) -> Result<T>,
    ) -> Result<T> {
        let mut space = match self.tuples.remove(&table.name) {
            Some(space) => space,
            None => self.recover(table)?,
        };
        let result = act(self, &mut space);
        // After a failure the maps are authoritative: they are read again next time.
        if result.is_ok() {
            self.tuples.insert(table.name.clone(), space);
        }
        result
    }

    fn recover(&mut self, table: &Table) -> Result<TupleSpace> {
        let layout = layout_of(table)?;
        let (array, capacity) = layout.tuples.as_ref().ok_or_else(|| misfit(table))?;
        let entries = layout.map.as_ref().ok_or_else(|| misfit(table))?;
        let first = self.version(table)?.tuples;
        let (entries, array) = (self.instance.map(entries)?, self.instance.map(array)?);
        TupleSpace::recover(layout.key_size as usize, *capacity, &entries, &array, first)
    }

    /// The map key of a packed key; `None` if no tuple has its mask.
    fn map_key(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        packed: &PackedKey,
    ) -> Result<Option<Vec<u8>>> {
        if layout.structure != Structure::TupleSpace {
            return Ok(Some(plain_key(layout, packed)));
        }
        self.with_tuples(table, |_, space| Ok(space.tuple(&packed.mask).map(|t| tuple_key(t, packed))))
    }

    /// The packed key of an element; `None` for an element of a killed writer, whose tuple does not exist.
    fn unpack_map_key(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
    ) -> Result<Option<PackedKey>> {
        let size = layout.key_size as usize;
        let head = || key.first_chunk().map(|head| u32::from_ne_bytes(*head)).unwrap_or(0);
        Ok(Some(match layout.structure {
            Structure::LpmTrie => {
                PackedKey { value: key[4..4 + size].to_vec(), mask: vec![0xff; size], prefix_len: head() }
            }
            Structure::TupleSpace => {
                let Some(mask) = self.with_tuples(table, |_, space| Ok(space.mask(head())))? else {
                    return Ok(None);
                };
                PackedKey { value: key[4..4 + size].to_vec(), mask, prefix_len: layout.key_size * 8 }
            }
            _ => PackedKey {
                value: key[..size].to_vec(),
                mask: vec![0xff; size],
                prefix_len: layout.key_size * 8,
            },
        }))
    }

    pub(super) fn table(&self, name: &str) -> Result<Table> {
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

    pub(super) fn entries_map(&mut self, table: &Table, layout: &TableLayout) -> Result<&Map> {
        let name = layout.map.as_ref().ok_or_else(|| misfit(table))?;
        self.map(name)
    }
}

fn layout_of(table: &Table) -> Result<&TableLayout> {
    table.layout.as_ref().ok_or_else(|| misfit(table))
}

fn packed_action(table: &Table, layout: &TableLayout, call: &ActionCall) -> Result<Vec<u8>> {
    table.pack_action(layout, call).ok_or_else(|| misfit(table))
}

/// The map key in a hash table or a trie.
fn plain_key(layout: &TableLayout, packed: &PackedKey) -> Vec<u8> {
    match layout.structure {
        Structure::LpmTrie => [&packed.prefix_len.to_ne_bytes(), &packed.value[..]].concat(),
        _ => packed.value.clone(),
    }
}

/// The map key in the hash table of a tuple space.
pub(super) fn tuple_key(tuple: u32, packed: &PackedKey) -> Vec<u8> {
    [&tuple.to_ne_bytes(), &packed.value[..]].concat()
}

/// Copies the counter to the new value when only the action changes. (Packets that are counted in between are lost to the count.)
fn keep_counter(layout: &TableLayout, old: &[u8], new: &mut [u8]) {
    if let Some(offset) = layout.counter_offset {
        let range = offset as usize..offset as usize + 16;
        if let (Some(old), Some(new)) = (old.get(range.clone()), new.get_mut(range)) {
            new.copy_from_slice(old);
        }
    }
}

fn read_entry(
    table: &Table,
    layout: &TableLayout,
    packed: &PackedKey,
    value: &[u8],
    action: &[u8],
) -> Option<Listed> {
    let priority = match layout.structure {
        Structure::TupleSpace => i32::from_ne_bytes(*value.first_chunk()?),
        _ => 0,
    };
    let action = table.unpack_action(action)?;
    let count = layout.counter_offset.and_then(|offset| Count::read(value.get(offset as usize..)?));
    Some(Listed { entry: Entry { matches: table.unpack_key(layout, packed), priority, action }, count })
}

fn exists(table: &Table) -> Error {
    Error::Duplicate { table: table.name.clone() }
}

fn no_entry(table: &Table) -> Error {
    Error::Table { table: table.name.clone(), problem: "there is no entry with this key".into() }
}

pub(super) fn misfit(table: &Table) -> Error {
    let problem = "this target's layout cannot hold that (a range key, or no map)".into();
    Error::Table { table: table.name.clone(), problem }
}
