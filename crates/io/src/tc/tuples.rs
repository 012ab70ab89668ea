//! Tuple-space search, the host's half.
//!
//! Entries that share a mask make a *tuple*: one hash look-up serves them all. The program walks an array of tuples and looks the
//! masked key up under `{tuple number, masked key}`. The host keeps the array *dense and sorted*: tuples with entries come first,
//! by their best priority, then zeros; so the program may stop at the first unused tuple, and at the first one whose best priority
//! is below what it has found.
//!
//! A tuple's number is its place, so re-sorting renumbers. New keys are written before the array and old ones are removed after
//! it, so an entry is never absent while its tuple moves; for the microseconds in between a packet may find one tuple twice.
//!
//! Everything is recovered from the maps: nothing here needs to survive.

use std::collections::{BTreeMap, HashSet};

use abi::layout::PackedKey;

use crate::Result;
use crate::bpf::Map;

/// What the host knows of a table.
#[derive(Debug)]
pub(super) struct TupleSpace {
    key_size: usize,
    capacity: u32,
    /// By tuple number, as the maps have it.
    tuples: Vec<Tuple>,
}

#[derive(Clone, Debug, Default)]
struct Tuple {
    mask: Vec<u8>,
    /// Masked keys and their priorities.
    entries: BTreeMap<Vec<u8>, i32>,
    /// What the array says of it now.
    written: Option<(i32, u32)>,
}

impl Tuple {
    fn best(&self) -> i32 {
        self.entries.values().copied().max().unwrap_or(i32::MIN)
    }

    fn head(&self) -> (i32, u32) {
        (self.best(), self.entries.len() as u32)
    }
}

impl TupleSpace {
    /// Reads a table's maps.
    pub fn recover(key_size: usize, capacity: u32, entries: &Map, tuples: &Map) -> Result<Self> {
        let mut space = Self { key_size, capacity, tuples: Vec::new() };
        for number in 0..capacity.min(tuples.max_entries()) {
            let Some(element) = tuples.lookup(&number.to_ne_bytes())? else { break };
            let word = |at: usize| element.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
            let head = (i32::from_ne_bytes(word(0)), u32::from_ne_bytes(word(4)));
            if head.1 == 0 {
                break;
            }
            let mask = element.get(8..8 + key_size).unwrap_or_default().to_vec();
            space.tuples.push(Tuple { mask, written: Some(head), ..Tuple::default() });
        }
        for (key, value) in entries.entries()? {
            let number = u32::from_ne_bytes(key.first_chunk().copied().unwrap_or_default());
            let priority = i32::from_ne_bytes(value.first_chunk().copied().unwrap_or_default());
            if let Some(tuple) = space.tuples.get_mut(number as usize) {
                tuple.entries.insert(key[4..4 + key_size].to_vec(), priority);
            }
        }
        Ok(space)
    }

    /// Most tuples there may be.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The number of the tuple with this mask.
    pub fn tuple(&self, mask: &[u8]) -> Option<u32> {
        self.tuples.iter().position(|t| t.mask == mask).map(|n| n as u32)
    }

    /// The mask of a tuple; all zeros if there is none of that number.
    pub fn mask(&self, number: u32) -> Vec<u8> {
        self.tuples.get(number as usize).map_or_else(|| vec![0; self.key_size], |t| t.mask.clone())
    }

    /// Whether that very entry is there.
    pub fn contains(&self, packed: &PackedKey) -> bool {
        self.tuples.iter().any(|t| t.mask == packed.mask && t.entries.contains_key(&packed.value))
    }

    /// Whether an entry with this mask still fits.
    pub fn has_room(&self, mask: &[u8]) -> bool {
        self.tuple(mask).is_some() || (self.tuples.len() as u32) < self.capacity
    }

    /// Takes note of an entry, and returns the number of its tuple. A new tuple is last, unused in the array until
    /// [`TupleSpace::settle`].
    pub fn note(&mut self, packed: &PackedKey, priority: i32) -> u32 {
        let number = self.tuple(&packed.mask).unwrap_or_else(|| {
            self.tuples.push(Tuple { mask: packed.mask.clone(), ..Tuple::default() });
            self.tuples.len() as u32 - 1
        });
        self.tuples[number as usize].entries.insert(packed.value.clone(), priority);
        number
    }

    /// Forgets an entry.
    pub fn forget(&mut self, packed: &PackedKey) {
        for tuple in self.tuples.iter_mut().filter(|t| t.mask == packed.mask) {
            tuple.entries.remove(&packed.value);
        }
    }

    /// Brings order and array back in line with the entries; cheap when no best priority has changed.
    pub fn settle(&mut self, entries: &Map, array: &Map) -> Result<()> {
        let old_len = self.tuples.len();
        let mut order: Vec<usize> = (0..old_len).filter(|&n| !self.tuples[n].entries.is_empty()).collect();
        // A stable sort: equals stay where they are, and nothing is renumbered without need.
        order.sort_by_key(|&n| std::cmp::Reverse(self.tuples[n].best()));
        let moved: Vec<(usize, usize)> =
            order.iter().enumerate().filter(|(to, from)| to != *from).map(|(to, from)| (*from, to)).collect();
        let mut stale = Vec::new();
        let mut written = Vec::new();
        for &(from, to) in &moved {
            for key in self.tuples[from].entries.keys() {
                stale.push(key_of(from, key));
                written.push((key_of(to, key), key_of(from, key)));
            }
        }
        // Read all values first: a moving tuple may write over another one's old place.
        let mut values = Vec::with_capacity(written.len());
        for (_, old) in &written {
            values.push(entries.lookup(old)?);
        }
        for ((new, _), value) in written.iter().zip(&values) {
            if let Some(value) = value {
                entries.set(new, value)?;
            }
        }
        let tuples: Vec<Tuple> = order.iter().map(|&n| self.tuples[n].clone()).collect();
        self.write_array(array, &tuples, &moved, old_len)?;
        let kept: HashSet<_> = written.iter().map(|(new, _)| new).collect();
        for key in stale.iter().filter(|key| !kept.contains(key)) {
            entries.delete(key)?;
        }
        self.tuples = tuples;
        for tuple in &mut self.tuples {
            tuple.written = Some(tuple.head());
        }
        Ok(())
    }

    fn write_array(
        &self,
        array: &Map,
        tuples: &[Tuple],
        moved: &[(usize, usize)],
        old_len: usize,
    ) -> Result<()> {
        for (number, tuple) in tuples.iter().enumerate() {
            let is_moved = moved.iter().any(|(_, to)| *to == number);
            if is_moved || tuple.written != Some(tuple.head()) {
                array.set(&(number as u32).to_ne_bytes(), &element(array, tuple))?;
            }
        }
        for number in tuples.len()..old_len {
            array.set(&(number as u32).to_ne_bytes(), &vec![0; array.value_size()])?;
        }
        Ok(())
    }
}

fn key_of(number: usize, key: &[u8]) -> Vec<u8> {
    [&(number as u32).to_ne_bytes(), key].concat()
}

fn element(array: &Map, tuple: &Tuple) -> Vec<u8> {
    let (best, used) = tuple.head();
    let mut bytes = [&best.to_ne_bytes()[..], &used.to_ne_bytes()[..], &tuple.mask[..]].concat();
    bytes.resize(array.value_size(), 0);
    bytes
}
