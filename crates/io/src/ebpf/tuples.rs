//! The host's side of tuple-space search.
//!
//! The entries that share a mask are a *tuple*, and one hash lookup searches all of them. The program walks an array of tuples, and looks up
//! `{tuple number, masked key}` for each. The array is sorted by the tuples' best priorities in descending order, and ends with zeros. The
//! program therefore stops at the first unused element, or at the first tuple whose best priority is not above that of the entry it found.
//!
//! An entry with range keys is in a tuple with the leading bits that the bounds of each range have in common, and has the bounds in its value. Entries with the
//! same masked key and other bounds are in several tuples with the same mask.
//!
//! A tuple keeps its number as long as it has entries, and no other tuple gets that number. A changed array is written as a new version
//! beside the old one ([`super::versions`]), so a packet sees one complete array. The entries of a new tuple are written before the array.
//!
//! The host can recover all of this from the maps, so it stores nothing else.

use std::collections::BTreeMap;

use abi::layout::PackedKey;
use abi::manifest::TableLayout;

use crate::Result;
use crate::bpf::Map;

/// The tuples and entries of a table.
#[derive(Debug)]
pub(super) struct TupleSpace {
    /// The largest number of tuples.
    capacity: u32,
    /// The tuples, in the order of the array after [`TupleSpace::arrange`].
    tuples: Vec<Tuple>,
    /// The heads in the published array: the best priority and the number of each tuple.
    written: Vec<(i32, u32)>,
    /// The number of the next tuple.
    next: u32,
}

/// The entries that share a mask.
#[derive(Clone, Debug, Default)]
struct Tuple {
    number: u32,
    mask: Vec<u8>,
    /// The priority of each entry and the bounds of its ranges, by its masked key.
    entries: BTreeMap<Vec<u8>, (i32, Vec<u8>)>,
}

impl Tuple {
    fn best(&self) -> i32 {
        self.entries.values().map(|(priority, _)| *priority).max().unwrap_or(i32::MIN)
    }

    /// Whether the tuple has an entry with this masked key and these bounds. `None` if there is no entry with this masked key.
    fn has(&self, packed: &PackedKey) -> Option<bool> {
        self.entries.get(&packed.value).map(|(_, bounds)| *bounds == packed.bounds)
    }

    fn head(&self) -> (i32, u32) {
        (self.best(), self.number)
    }
}

impl TupleSpace {
    /// Reads the tuples and entries from a table's maps. `first` is the index of the published array.
    pub fn recover(
        layout: &TableLayout,
        capacity: u32,
        entries: &Map,
        array: &Map,
        first: u32,
    ) -> Result<Self> {
        let key_size = layout.key_size as usize;
        let mut space = Self { capacity, tuples: Vec::new(), written: Vec::new(), next: 1 };
        for at in first..first + capacity {
            let Some(element) = array.lookup(&at.to_ne_bytes())? else { break };
            let word = |at: usize| element.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
            let head = (i32::from_ne_bytes(word(0)), u32::from_ne_bytes(word(4)));
            if head.1 == 0 {
                break;
            }
            let mask = element.get(8..8 + key_size).unwrap_or_default().to_vec();
            space.tuples.push(Tuple { number: head.1, mask, ..Tuple::default() });
            space.written.push(head);
            space.next = space.next.max(head.1 + 1);
        }
        for (key, value) in entries.entries()? {
            let number = u32::from_ne_bytes(key.first_chunk().copied().unwrap_or_default());
            let priority = i32::from_ne_bytes(value.first_chunk().copied().unwrap_or_default());
            // A writer that was killed may have left entries whose tuple is not in the array. Their numbers must not be used again.
            space.next = space.next.max(number + 1);
            if let Some(tuple) = space.tuples.iter_mut().find(|t| t.number == number) {
                let bounds = bounds_in(layout, &value).to_vec();
                tuple.entries.insert(key[4..4 + key_size].to_vec(), (priority, bounds));
            }
        }
        Ok(space)
    }

    /// The largest number of tuples.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The number of the tuple with the entry of this key, if there is one. Without ranges, it need not have the entry.
    pub fn tuple(&self, packed: &PackedKey) -> Option<u32> {
        let has = |t: &&Tuple| packed.bounds.is_empty() || t.has(packed) == Some(true);
        self.with_mask(packed).find(has).map(|t| t.number)
    }

    fn with_mask(&self, packed: &PackedKey) -> impl Iterator<Item = &Tuple> {
        self.tuples.iter().filter(|t| t.mask == packed.mask)
    }

    /// The mask of the tuple with this number, if there is one.
    pub fn mask(&self, number: u32) -> Option<Vec<u8>> {
        self.tuples.iter().find(|t| t.number == number).map(|t| t.mask.clone())
    }

    /// Whether an entry with this key and mask exists.
    pub fn contains(&self, packed: &PackedKey) -> bool {
        self.with_mask(packed).any(|t| t.has(packed) == Some(true))
    }

    /// Whether an entry with this key can be added without exceeding the capacity.
    pub fn has_room(&self, packed: &PackedKey) -> bool {
        self.with_mask(packed).any(|t| t.has(packed).is_none()) || (self.tuples.len() as u32) < self.capacity
    }

    /// Adds or changes an entry, and returns the number of its tuple. Packets do not see a new tuple until [`TupleSpace::write`].
    pub fn note(&mut self, packed: &PackedKey, priority: i32) -> u32 {
        let with = |has: Option<bool>| move |t: &Tuple| t.mask == packed.mask && t.has(packed) == has;
        let known = self.tuples.iter().position(with(Some(true)));
        let at = known.or_else(|| self.tuples.iter().position(with(None))).unwrap_or_else(|| {
            self.tuples.push(Tuple { number: self.next, mask: packed.mask.clone(), ..Tuple::default() });
            self.next += 1;
            self.tuples.len() - 1
        });
        self.tuples[at].entries.insert(packed.value.clone(), (priority, packed.bounds.clone()));
        self.tuples[at].number
    }

    /// Removes an entry.
    pub fn forget(&mut self, packed: &PackedKey) {
        for tuple in self.tuples.iter_mut().filter(|t| t.mask == packed.mask && t.has(packed) == Some(true)) {
            tuple.entries.remove(&packed.value);
        }
    }

    /// Removes empty tuples and sorts the others. Returns whether the array has changed and must be written.
    pub fn arrange(&mut self) -> bool {
        self.tuples.retain(|tuple| !tuple.entries.is_empty());
        // The sort is stable, so tuples with equal priorities keep their order.
        self.tuples.sort_by_key(|tuple| std::cmp::Reverse(tuple.best()));
        let heads: Vec<_> = self.tuples.iter().map(Tuple::head).collect();
        let is_changed = self.written != heads;
        self.written = heads;
        is_changed
    }

    /// Writes the array of tuples, from the element `first` on.
    pub fn write(&self, array: &Map, first: u32) -> Result<()> {
        for (at, tuple) in (first..).zip(&self.tuples) {
            let (best, number) = tuple.head();
            let element = [&best.to_ne_bytes()[..], &number.to_ne_bytes()[..], &tuple.mask[..]].concat();
            array.set(&at.to_ne_bytes(), &element)?;
        }
        array.set(&(first + self.tuples.len() as u32).to_ne_bytes(), &[])
    }
}

/// The bounds of ranges in a value.
pub(super) fn bounds_in<'v>(layout: &TableLayout, value: &'v [u8]) -> &'v [u8] {
    let at = layout.bounds_offset.map(|at| (layout.data_offset + at) as usize);
    at.and_then(|at| value.get(at..)).unwrap_or_default()
}
