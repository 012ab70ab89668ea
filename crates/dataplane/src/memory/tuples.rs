//! A table that matches keys under masks: exact, ternary, range and optional keys.
//!
//! It uses tuple-space search (Srinivasan, Suri and Varghese, SIGCOMM 1999). A *tuple* is a hash table together with a mask: it hashes
//! only the key bits under that mask. A lookup searches the tuples in the order of their best rank, and stops when no further tuple can
//! hold a better entry.
//!
//! Access lists have hundreds of distinct masks. One tuple for each mask would be slow, so tuples are merged as in TupleMerge (Daly et
//! al., IEEE/ACM ToN 27, 2019): a tuple may hold every entry whose own mask includes the tuple's mask, as long as few of its entries
//! share a hash. Tens of tuples are then enough. A table with exact keys has one mask, and thus one tuple.
//!
//! A table whose exact key has one or two bytes also has an array that the key indexes. The program then reads the array only.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Release;

use abi::native::{row, tuple};

use super::hash::Hash;
use super::region::Advise;
use super::retired::Retired;
use super::rows::{RowId, Rows};
use super::view::View;

/// The number of rows in one tuple that a lookup may have to compare. An entry that finds this many goes into another tuple.
const MAX_CANDIDATES: usize = 8;

/// The number of buckets and of overflow buckets of a new tuple.
const FIRST: (usize, usize) = (4, 4);

/// All entries of a table.
pub struct Tuples {
    tuples: Vec<Tuple>,
    rows: Rows,
    /// The word of a row where its identity ends: the rank, and the words from [`row::KEY`] up to here, tell entries apart.
    identity: usize,
    /// Whether each entry has a mask of its own, so that tuples are merged.
    merged: bool,
    /// The published list of tuples ([`abi::native::tuple`]).
    list: Vec<u64>,
    /// The published array of row addresses, indexed by the key; 0 for no row. `None` if keys are too long.
    array: Option<Box<[AtomicU64]>>,
    /// The age of the next row.
    next_age: u64,
    advise: Advise,
}

/// A hash table under a mask.
struct Tuple {
    mask: Vec<u64>,
    hash: Hash,
    /// The number of entries with each rank.
    ranks: BTreeMap<i64, usize>,
}

/// A row that lookups no longer find, and its cell.
pub type Removed = (RowId, u64);

impl Tuple {
    fn new(mask: Vec<u64>, advise: Advise) -> Tuple {
        let hash = Hash::new(&mask, FIRST.0, FIRST.1, advise);
        Tuple { mask, hash, ranks: BTreeMap::new() }
    }

    /// The largest rank of any entry in the tuple.
    fn best(&self) -> i64 {
        self.ranks.last_key_value().map_or(i64::MIN, |(rank, _)| *rank)
    }

    fn retire(self, view: &mut View<'_>) {
        view.reclaimer.retire(Retired::Words(self.mask));
        view.reclaimer.retire(Retired::Buckets(self.hash.buckets));
        view.reclaimer.retire(Retired::Buckets(self.hash.overflow));
    }
}

impl Tuples {
    /// An empty table. Rows have `words` words; the words before `identity` tell entries apart. `merged`: each entry has a mask of its
    /// own.
    pub fn new(words: usize, identity: usize, merged: bool, advise: Advise) -> Tuples {
        let (tuples, rows) = (Vec::new(), Rows::new(words, advise));
        Tuples { merged, tuples, rows, identity, list: Vec::new(), array: None, next_age: 0, advise }
    }

    /// An empty table for exact keys of `bytes` bytes (1 or 2), with an array that the key indexes.
    pub fn indexed(words: usize, identity: usize, bytes: u32, advise: Advise) -> Tuples {
        let array = bytemuck::zeroed_slice_box(1 << (8 * bytes));
        Tuples { array: Some(array), ..Tuples::new(words, identity, false, advise) }
    }

    /// Publishes a row's address, or 0 for none, in the array. Does nothing if the table has no array.
    fn set_array(&self, row: &[u64], address: u64) {
        if let Some(array) = &self.array {
            let [high, low, ..] = row[row::KEY].to_ne_bytes();
            let at = if array.len() == 1 << 8 { high.into() } else { u16::from_be_bytes([high, low]) };
            array[usize::from(at)].store(address, Release);
        }
    }

    /// The stored row with the mask and the identity of `row`, and the number of its tuple.
    fn find(&self, mask: &[u64], row: &[u64]) -> Option<(usize, RowId)> {
        let same = |id| {
            let word = |at: usize| self.rows.word(id, at) == row[at];
            word(row::RANK) && (row::KEY..self.identity).all(word)
        };
        let key = &row[row::KEY..row::KEY + mask.len()];
        let tuples = self.tuples.iter().enumerate().filter(|(_, tuple)| is_subset(&tuple.mask, mask));
        tuples.into_iter().find_map(|(at, tuple)| tuple.hash.find(key, same).map(|id| (at, id)))
    }

    /// The number of the tuple for a new entry. It is the tuple with the most mask bits that has few candidates for the entry's key, or
    /// a new tuple if there is none.
    fn tuple_for(&mut self, mask: Vec<u64>, row: &[u64]) -> usize {
        if !self.merged {
            // All entries have the same mask.
            if self.tuples.is_empty() {
                self.tuples.push(Tuple::new(mask, self.advise));
            }
            return 0;
        }
        let key = &row[row::KEY..row::KEY + mask.len()];
        let accepts = |tuple: &Tuple| {
            is_subset(&tuple.mask, &mask)
                && (tuple.mask == mask || tuple.hash.candidates(key) < MAX_CANDIDATES)
        };
        let bits = |tuple: &Tuple| tuple.mask.iter().map(|word| word.count_ones()).sum::<u32>();
        let candidates = self.tuples.iter().enumerate().filter(|(_, tuple)| accepts(tuple));
        if let Some((at, _)) = candidates.max_by_key(|(_, tuple)| bits(tuple)) {
            return at;
        }
        let coarse = whole_bytes(&mask);
        let known = self.tuples.iter().any(|tuple| tuple.mask == coarse);
        self.tuples.push(Tuple::new(if known { mask } else { coarse }, self.advise));
        self.tuples.len() - 1
    }

    /// The stored row with the mask and the identity of `row`; its action may differ.
    pub fn row(&self, mask: &[u64], row: &[u64]) -> Option<Vec<u64>> {
        self.find(mask, row).map(|(_, id)| self.rows.read(id))
    }

    /// The rows of all entries.
    pub fn rows(&self) -> impl Iterator<Item = Vec<u64>> {
        self.tuples.iter().flat_map(|tuple| tuple.hash.all().map(|id| self.rows.read(id)))
    }

    /// Adds an entry. The caller has checked that no entry has the same identity.
    pub fn insert(&mut self, mask: Vec<u64>, mut row: Vec<u64>, view: &mut View<'_>) {
        row[row::AGE] = self.next_age;
        self.next_age += 1;
        let at = self.tuple_for(mask, &row);
        let id = self.rows.put(&row);
        self.set_array(&row, self.rows.address(id));
        let tuple = &mut self.tuples[at];
        let before = (tuple.hash.rows, tuple.best());
        *tuple.ranks.entry(row[row::RANK] as i64).or_insert(0) += 1;
        if !tuple.hash.insert(&self.rows, id) {
            let larger = tuple.hash.larger(&self.rows, id, self.advise);
            let old = std::mem::replace(&mut tuple.hash, larger);
            self.publish(view);
            view.reclaimer.retire(Retired::Buckets(old.buckets));
            view.reclaimer.retire(Retired::Buckets(old.overflow));
        } else if before.0 == 0 || tuple.best() > before.1 {
            self.publish(view);
        }
    }

    /// Replaces the row of an entry by one with another action, and returns the old row. The new row keeps the age and the cell.
    pub fn replace(&mut self, mask: &[u64], mut row: Vec<u64>) -> Option<RowId> {
        let (at, old) = self.find(mask, &row)?;
        row[row::AGE] = self.rows.word(old, row::AGE);
        row[row::CELL] = self.rows.word(old, row::CELL);
        let new = self.rows.put(&row);
        self.set_array(&row, self.rows.address(new));
        self.tuples[at].hash.replace(&self.rows, old, new);
        Some(old)
    }

    /// Removes an entry.
    pub fn remove(&mut self, mask: &[u64], row: &[u64], view: &mut View<'_>) -> Option<Removed> {
        let (at, old) = self.find(mask, row)?;
        self.set_array(row, 0);
        let tuple = &mut self.tuples[at];
        tuple.hash.remove(&self.rows, old);
        let rank = row[row::RANK] as i64;
        if let Some(count) = tuple.ranks.get_mut(&rank) {
            *count -= 1;
            if *count == 0 {
                tuple.ranks.remove(&rank);
            }
        }
        // The published best rank may now be too large. It is an upper bound, so lookups stay right. Only an empty tuple is worth the
        // cost of a new list.
        if tuple.hash.rows == 0 {
            let empty = self.tuples.remove(at);
            self.publish(view);
            empty.retire(view);
        }
        Some((old, self.rows.word(old, row::CELL)))
    }

    /// Frees the memory of a row whose grace period has ended.
    pub fn release(&mut self, row: RowId) {
        self.rows.release(row);
    }

    /// Publishes the array, or else the list of tuples, best rank first.
    pub fn publish(&mut self, view: &mut View<'_>) {
        if let Some(array) = &self.array {
            view.table.index.store(array.as_ptr() as *mut u64, Release);
            return;
        }
        self.tuples.sort_by_key(|t| std::cmp::Reverse(t.best()));
        let mut list = vec![self.tuples.len() as u64];
        for of in &self.tuples {
            let mut words = [0; tuple::SIZE];
            words[tuple::BEST] = of.best() as u64;
            words[tuple::MASK] = of.mask.as_ptr() as u64;
            words[tuple::BUCKETS] = of.hash.buckets.as_ptr() as u64;
            words[tuple::OVERFLOW] = of.hash.overflow.as_ptr() as u64;
            words[tuple::BUCKET_MASK] = of.hash.buckets.len() as u64 - 1;
            list.extend(words);
        }
        view.table.index.store(list.as_ptr().cast_mut(), Release);
        view.reclaimer.retire(Retired::Words(std::mem::replace(&mut self.list, list)));
    }
}

/// Whether every bit of `mask` is also set in `other`.
fn is_subset(mask: &[u64], other: &[u64]) -> bool {
    mask.iter().zip(other).all(|(mask, other)| mask & !other == 0)
}

/// The mask without its partial bytes. Prefix masks of similar lengths become equal, so that their entries share a tuple.
fn whole_bytes(mask: &[u64]) -> Vec<u64> {
    let whole =
        |word: &u64| u64::from_ne_bytes(word.to_ne_bytes().map(|byte| if byte == 0xff { byte } else { 0 }));
    mask.iter().map(whole).collect()
}
