//! Writes and reads the entries of tables.

use abi::layout::PackedKey;
use abi::manifest::{Structure, Table, TableLayout};
use abi::{ActionCall, Entry, MatchValue};
use dataplane::Count;
use dataplane::device::DeviceError;

use super::stats::read_count;
use super::tuples::{TupleSpace, bounds_in};
use super::{KernelProgram, array};
use crate::bpf::{Map, MapKind};
use crate::{Error, Result};

/// An entry, and the value of its direct counter if the table has one.
pub(super) type Listed = (Entry, Option<Count>);

/// The layout of a table; an entry's packed key, the key of its element in the map, and the element's value.
type Element = (TableLayout, PackedKey, Vec<u8>, Vec<u8>);

impl KernelProgram {
    /// Changes the action (and priority) of an entry. The entry keeps its counter.
    pub(super) fn modify(&mut self, table: &Table, entry: &Entry, data: &[u8]) -> Result<()> {
        let (layout, packed, key, old) =
            self.element(table, &entry.matches)?.ok_or_else(|| no_entry(table))?;
        if layout.structure == Structure::Flow {
            return self.relearn(table, &layout, &key, data);
        }
        let data = with_bounds(&layout, &packed, data);
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

    /// Deletes the entry with this match. Returns its action data.
    pub(super) fn delete(&mut self, table: &Table, matches: &[MatchValue]) -> Result<Vec<u8>> {
        let (layout, packed, key, old) = self.element(table, matches)?.ok_or_else(|| no_entry(table))?;
        if layout.structure == Structure::Flow {
            self.forget(table, &layout, &key)?;
            return Ok(data_in(&layout, &old).to_vec());
        }
        self.delete_element(table, &layout, &key)?;
        self.free_cell(table, &layout, &old)?;
        if layout.structure == Structure::TupleSpace {
            self.with_tuples(table, |program, space| {
                space.forget(&packed);
                program.settle(table, space)
            })?;
        }
        Ok(data_in(&layout, &old).to_vec())
    }

    /// The entry with this match and the value of its direct counter, if there is one.
    pub(super) fn find(&mut self, table: &Table, matches: &[MatchValue]) -> Result<Option<Listed>> {
        let Some((layout, packed, _, value)) = self.element(table, matches)? else { return Ok(None) };
        let action = self.action_in(table, &layout, &value)?;
        Ok(read_entry(table, &layout, &packed, &value, &action))
    }

    /// The action data of the entry with this match.
    pub(super) fn data_of(&mut self, table: &Table, matches: &[MatchValue]) -> Result<Vec<u8>> {
        let (layout, _, _, value) = self.element(table, matches)?.ok_or_else(|| no_entry(table))?;
        Ok(data_in(&layout, &value).to_vec())
    }

    /// The action data of a call.
    pub(super) fn pack_action(&self, table: &Table, call: &ActionCall) -> Result<Vec<u8>> {
        table.pack_action(layout_of(table)?, call).ok_or_else(|| misfit(table))
    }

    /// The action data in a value. If it names a list of actions, it is that of the first one.
    fn action_in(&mut self, table: &Table, layout: &TableLayout, value: &[u8]) -> Result<Vec<u8>> {
        let data = data_in(layout, value);
        if layout.lists.is_some() { self.first_listed(table, data) } else { Ok(data.to_vec()) }
    }

    /// Sets the direct counter of the entry with this match. Packets that count meanwhile may be lost to the count.
    pub(super) fn set_count(&mut self, table: &Table, matches: &[MatchValue], count: Count) -> Result<()> {
        let (layout, _, key, mut value) = self.element(table, matches)?.ok_or_else(|| no_entry(table))?;
        let at = layout.counter_offset.ok_or_else(|| misfit(table))? as usize;
        value[at..at + 8].copy_from_slice(&count.packets.to_ne_bytes());
        value[at + 8..at + 16].copy_from_slice(&count.bytes.to_ne_bytes());
        if layout.structure == Structure::Flow {
            return self.set_learnt_count(table, &layout, &key, &value[at..at + 16]);
        }
        self.replace_element(table, &layout, &key, &value)
    }

    /// All entries, ordered by priority and then by key. Const entries that were compiled into code are in the manifest instead.
    pub(super) fn list(&mut self, table: &Table) -> Result<Vec<Listed>> {
        let Some(layout) = mapped(table).cloned() else { return Ok(Vec::new()) };
        if layout.structure == Structure::Flow {
            return self.learnt(table, &layout);
        }
        let elements = self.elements(table, &layout)?;
        let mut listed = Vec::with_capacity(elements.len());
        for (key, value) in elements {
            let Some(mut packed) = self.unpack_map_key(table, &layout, &key)? else { continue };
            packed.bounds = bounds_in(&layout, &value).to_vec();
            let action = self.action_in(table, &layout, &value)?;
            listed.extend(read_entry(table, &layout, &packed, &value, &action));
        }
        listed.sort_by_key(|(entry, _)| std::cmp::Reverse(entry.priority));
        Ok(listed)
    }

    /// The keys and values of all entries of a map, ordered by key.
    fn elements(&mut self, table: &Table, layout: &TableLayout) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let map = self.entries_map(table, layout)?;
        let mut elements = match layout.structure {
            Structure::Array => array::entries(map)?,
            _ => map.entries()?,
        };
        elements.sort();
        Ok(elements)
    }

    /// The number of entries that the map of a table can hold.
    pub(super) fn room(&mut self, table: &Table) -> Result<u64> {
        match mapped(table).cloned() {
            Some(layout) => Ok(self.entries_map(table, &layout)?.max_entries().into()),
            None => Ok(0),
        }
    }

    /// The current default action.
    pub(super) fn default_action(&mut self, table: &Table) -> Result<Option<ActionCall>> {
        let Some(map) = table.layout.as_ref().and_then(|l| l.default_map.clone()) else {
            return Ok(table.default_action.clone());
        };
        let at = self.version(table)?.default_action;
        let data = self.map(&map)?.lookup(&at.to_ne_bytes())?;
        Ok(data.and_then(|data| table.unpack_action(&data)))
    }

    /// The time of the last hit of an entry that exists.
    pub(super) fn last_hit(&mut self, table: &Table, matches: &[MatchValue]) -> Result<Option<u64>> {
        let (layout, packed) = self.packed(table, matches)?;
        let Some(at) = layout.hit_offset.map(|at| at as usize) else { return Ok(None) };
        let Some(key) = self.map_key(table, &layout, &packed)? else { return Ok(None) };
        let value = self.entries_map(table, &layout)?.lookup(&key)?;
        Ok(value.and_then(|value| Some(u64::from_ne_bytes(*value.get(at..)?.first_chunk()?))))
    }

    /// The layout, packed key, map key and value of the entry with this match.
    pub(super) fn element(&mut self, table: &Table, matches: &[MatchValue]) -> Result<Option<Element>> {
        if mapped(table).is_none() {
            return Ok(None);
        }
        let (layout, packed) = self.packed(table, matches)?;
        let Some(key) = self.map_key(table, &layout, &packed)? else { return Ok(None) };
        if layout.structure == Structure::Flow {
            let value = self.value_of_row(table, &layout, &key)?;
            return Ok(value.map(|value| (layout, packed, key, value)));
        }
        if layout.structure == Structure::Array {
            let value = array::read(self.entries_map(table, &layout)?, &key)?;
            return Ok(value.map(|value| (layout, packed, key, value)));
        }
        let map = self.entries_map(table, &layout)?;
        // A lookup in a trie finds the longest match, which may be another entry.
        let other = map.kind() == MapKind::LpmTrie && !self.holds(table, &layout, &key)?;
        if other {
            return Ok(None);
        }
        let value = self.entries_map(table, &layout)?.lookup(&key)?;
        Ok(value.map(|value| (layout, packed, key, value)))
    }

    /// Whether a trie has exactly this key. A search through all keys is needed only if a lookup hits.
    fn holds(&mut self, table: &Table, layout: &TableLayout, key: &[u8]) -> Result<bool> {
        let map = self.entries_map(table, layout)?;
        Ok(map.lookup(key)?.is_some() && map.keys()?.iter().any(|k| k.starts_with(key)))
    }

    /// Adds an entry without checking whether the table's entries are const.
    pub(super) fn write_new(&mut self, table: &Table, entry: &Entry) -> Result<()> {
        table.check_shape(entry)?;
        if table.implementation.is_some() {
            return self.write_listed(table, entry, std::slice::from_ref(&entry.action));
        }
        let data = self.pack_action(table, &entry.action)?;
        self.write_with(table, entry, &data)
    }

    /// Adds an entry with this action data.
    pub(super) fn write_with(&mut self, table: &Table, entry: &Entry, data: &[u8]) -> Result<()> {
        let (layout, packed) = self.packed(table, &entry.matches)?;
        if layout.structure == Structure::Flow {
            return self.learn(table, &layout, &packed.value, data);
        }
        let data = with_bounds(&layout, &packed, data);
        let mut value = table.value_of(&layout, entry.priority, &data).ok_or_else(|| misfit(table))?;
        self.take_cell(table, &layout, &mut value)?;
        let written = match layout.structure {
            Structure::TupleSpace => self.write_new_ternary(table, &packed, entry.priority, &value),
            _ => self.insert_new(table, &layout, &plain_key(&layout, &packed), &value),
        };
        if written.is_err() {
            self.free_cell(table, &layout, &value)?;
        }
        written
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
            // The caller knows that there is no entry with this match and this priority.
            if space.contains(packed) {
                let text = format!(
                    "table `{}`: in the kernel entries with equal matches cannot differ in their priorities",
                    table.name
                );
                return Err(DeviceError::Unimplemented(text).into());
            }
            if !space.has_room(packed) {
                let (name, capacity) = (&table.name, space.capacity());
                let ranges = match packed.bounds.is_empty() {
                    true => "",
                    false => {
                        ", and entries whose ranges begin with the same bits count as if their masks differed"
                    }
                };
                let text = format!(
                    "the entries of table `{name}` may have {capacity} different masks at most{ranges}"
                );
                return Err(DeviceError::ResourceExhausted(text).into());
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
        // Before Linux 6.13 tries ignore the flag "create only". The caller knows that there is no such prefix.
        if map.kind() == MapKind::LpmTrie {
            return map.set(key, value);
        }
        match self.add_element(table, layout, key, value)? {
            true => Ok(()),
            false => Err(exists(table)),
        }
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
        TupleSpace::recover(layout, *capacity, &entries, &array, first)
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
        self.with_tuples(table, |_, space| Ok(space.tuple(packed).map(|t| tuple_key(t, packed))))
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
            Structure::LpmTrie => PackedKey {
                value: key[4..4 + size].to_vec(),
                mask: vec![0xff; size],
                prefix_len: head(),
                ..PackedKey::default()
            },
            Structure::TupleSpace => {
                let Some(mask) = self.with_tuples(table, |_, space| Ok(space.mask(head())))? else {
                    return Ok(None);
                };
                PackedKey {
                    value: key[4..4 + size].to_vec(),
                    mask,
                    prefix_len: layout.key_size * 8,
                    ..PackedKey::default()
                }
            }
            Structure::Array => PackedKey {
                value: head().to_be_bytes()[4 - size..].to_vec(),
                mask: vec![0xff; size],
                prefix_len: layout.key_size * 8,
                ..PackedKey::default()
            },
            _ => PackedKey {
                value: key[..size].to_vec(),
                mask: vec![0xff; size],
                prefix_len: layout.key_size * 8,
                ..PackedKey::default()
            },
        }))
    }

    fn packed(&self, table: &Table, matches: &[MatchValue]) -> Result<(TableLayout, PackedKey)> {
        let layout = layout_of(table)?.clone();
        let packed = table.pack_key(&layout, matches).ok_or_else(|| misfit(table))?;
        Ok((layout, packed))
    }

    pub(super) fn entries_map(&mut self, table: &Table, layout: &TableLayout) -> Result<&Map> {
        let name = layout.map.as_ref().ok_or_else(|| misfit(table))?;
        self.map(name)
    }
}

/// The layout of a table whose entries are in a map.
fn mapped(table: &Table) -> Option<&TableLayout> {
    table.layout.as_ref().filter(|l| !matches!(l.structure, Structure::Keyless | Structure::Code))
}

fn layout_of(table: &Table) -> Result<&TableLayout> {
    table.layout.as_ref().ok_or_else(|| misfit(table))
}

/// The action data in a value.
fn data_in<'v>(layout: &TableLayout, value: &'v [u8]) -> &'v [u8] {
    value.get(layout.data_offset as usize..).unwrap_or_default()
}

/// The action data of an entry, with the bounds of its ranges behind it.
fn with_bounds(layout: &TableLayout, packed: &PackedKey, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    if let Some(at) = layout.bounds_offset {
        data.resize(at as usize, 0);
        data.extend(&packed.bounds);
    }
    data
}

/// The map key in a hash table, a trie or an array.
fn plain_key(layout: &TableLayout, packed: &PackedKey) -> Vec<u8> {
    match layout.structure {
        Structure::LpmTrie => [&packed.prefix_len.to_ne_bytes(), &packed.value[..]].concat(),
        Structure::Array => {
            let number = packed.value.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            number.to_ne_bytes().to_vec()
        }
        _ => packed.value.clone(),
    }
}

/// The map key in the hash table of a tuple space.
pub(super) fn tuple_key(tuple: u32, packed: &PackedKey) -> Vec<u8> {
    [&tuple.to_ne_bytes(), &packed.value[..]].concat()
}

/// Copies the counter, the number of the meter's cell and the time of the last hit to the new value when only the action changes. (Packets that are counted in between
/// are lost to the count.)
fn keep_counter(layout: &TableLayout, old: &[u8], new: &mut [u8]) {
    for (offset, size) in [(layout.counter_offset, 16), (layout.meter_offset, 4), (layout.hit_offset, 8)] {
        let Some(offset) = offset else { continue };
        let range = offset as usize..offset as usize + size;
        if let (Some(old), Some(new)) = (old.get(range.clone()), new.get_mut(range)) {
            new.copy_from_slice(old);
        }
    }
}

pub(super) fn read_entry(
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
    let count = layout.counter_offset.and_then(|offset| read_count(value.get(offset as usize..)?));
    Some((Entry { matches: table.unpack_key(layout, packed), priority, action }, count))
}

pub(super) fn exists(table: &Table) -> Error {
    let text = format!("table `{}` has an entry with this match already", table.name);
    DeviceError::AlreadyExists(text).into()
}

pub(super) fn no_entry(table: &Table) -> Error {
    DeviceError::NotFound(format!("table `{}` has no entry with this match", table.name)).into()
}

pub(super) fn misfit(table: &Table) -> Error {
    let text =
        format!("table `{}`: this target's layout cannot hold that (a range key, or no map)", table.name);
    DeviceError::Unimplemented(text).into()
}
