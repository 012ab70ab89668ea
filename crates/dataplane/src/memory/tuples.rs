//! A table in a native program's memory that matches by masks: tuple-space search (Srinivasan, Suri and Varghese, SIGCOMM 1999) with merged
//! tuples, as in TupleMerge (Daly et al., IEEE/ACM ToN 27, 2019). A tuple is a hash table under a mask; it holds entries whose own masks
//! have at least these bits, as long as few of them stand side by side. Access lists have hundreds of masks, and so need tens of tuples.
//! An exact table has one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Release;

use abi::native::{row, tuple};

use super::hash::Hash;
use super::rows::Rows;
use super::table::View;
use super::{Advise, Retired};

/// Rows that one look-up may have to look at in one tuple before an entry goes into another tuple.
const CROWD: usize = 8;

/// Buckets of a tuple at first, and what goes on with them.
const FIRST: (usize, usize) = (4, 4);

/// All entries of a table, by their masks.
pub struct Tuples {
    tuples: Vec<Tuple>,
    rows: Rows,
    /// Words of a row that tell its entry from others end here; they begin with the key.
    identity: usize,
    /// Whether entries have masks of their own.
    merged: bool,
    /// The list that the program sees …
    list: Vec<u64>,
    /// … but where keys index an array: the address of each one's row, or 0.
    array: Option<Box<[AtomicU64]>>,
    /// Rows are numbered as they come.
    next: u64,
    advise: Advise,
}

/// All entries with equal masks.
struct Tuple {
    mask: Vec<u64>,
    hash: Hash,
    /// How many entries have each rank.
    ranks: BTreeMap<i64, usize>,
}

/// A row that is not to be found any more: its place and its cell.
pub type Gone = (u32, u64);

impl Tuple {
    fn new(mask: Vec<u64>, advise: Advise) -> Tuple {
        let hash = Hash::new(&mask, FIRST.0, FIRST.1, advise);
        Tuple { mask, hash, ranks: BTreeMap::new() }
    }

    /// No entry has a larger rank.
    fn best(&self) -> i64 {
        self.ranks.last_key_value().map_or(i64::MIN, |(rank, _)| *rank)
    }

    fn retire(self, view: &mut View<'_>) {
        view.quiet.retire(Retired::Words(self.mask));
        view.quiet.retire(Retired::Buckets(self.hash.buckets));
        view.quiet.retire(Retired::Buckets(self.hash.overflow));
    }
}

impl Tuples {
    /// None, of rows of so many words; those before `identity` tell entries apart. `merged`: entries have masks of their own.
    pub fn new(words: usize, identity: usize, merged: bool, advise: Advise) -> Tuples {
        let rows = Rows::new(words, advise);
        Tuples { merged, tuples: Vec::new(), rows, identity, list: Vec::new(), array: None, next: 0, advise }
    }

    /// The same with an array for keys of so many bytes, one or two.
    pub fn indexed(words: usize, identity: usize, bytes: u32, advise: Advise) -> Tuples {
        let array = bytemuck::zeroed_slice_box(1 << (8 * bytes));
        Tuples { array: Some(array), ..Tuples::new(words, identity, false, advise) }
    }

    /// Lets the array say what this row's key leads to.
    fn lead(&self, row: &[u64], address: u64) {
        if let Some(array) = &self.array {
            let [high, low, ..] = row[row::KEY].to_ne_bytes();
            let at = if array.len() == 1 << 8 { high.into() } else { u16::from_be_bytes([high, low]) };
            array[usize::from(at)].store(address, Release);
        }
    }

    /// The place of the row of an entry that has such a mask and row, whatever it leads to: the number of its tuple, and where it is.
    fn place(&self, mask: &[u64], row: &[u64]) -> Option<(usize, u32)> {
        let same = |place| {
            let word = |at: usize| self.rows.word(place, at) == row[at];
            word(row::RANK) && (row::KEY..self.identity).all(word)
        };
        let key = &row[row::KEY..row::KEY + mask.len()];
        let tuples = self.tuples.iter().enumerate().filter(|(_, tuple)| within(&tuple.mask, mask));
        tuples.into_iter().find_map(|(at, tuple)| tuple.hash.find(key, same).map(|place| (at, place)))
    }

    /// The tuple for a new entry: the one with most bits that is not crowded where the entry comes; else a new one.
    fn tuple_for(&mut self, mask: Vec<u64>, row: &[u64]) -> usize {
        if !self.merged {
            // All entries have one mask.
            if self.tuples.is_empty() {
                self.tuples.push(Tuple::new(mask, self.advise));
            }
            return 0;
        }
        let key = &row[row::KEY..row::KEY + mask.len()];
        let room = |tuple: &Tuple| {
            within(&tuple.mask, &mask) && (tuple.mask == mask || tuple.hash.crowd(key) < CROWD)
        };
        let bits = |tuple: &Tuple| tuple.mask.iter().map(|word| word.count_ones()).sum::<u32>();
        let candidates = self.tuples.iter().enumerate().filter(|(_, tuple)| room(tuple));
        if let Some((at, _)) = candidates.max_by_key(|(_, tuple)| bits(tuple)) {
            return at;
        }
        let coarse = whole_bytes(&mask);
        let known = self.tuples.iter().any(|tuple| tuple.mask == coarse);
        self.tuples.push(Tuple::new(if known { mask } else { coarse }, self.advise));
        self.tuples.len() - 1
    }

    /// The row of an entry, which is as this one up to what it leads to.
    pub fn row(&self, mask: &[u64], row: &[u64]) -> Option<Vec<u64>> {
        self.place(mask, row).map(|(_, place)| self.rows.read(place))
    }

    /// The rows of all entries.
    pub fn rows(&self) -> impl Iterator<Item = Vec<u64>> {
        self.tuples.iter().flat_map(|tuple| tuple.hash.all().map(|place| self.rows.read(place)))
    }

    /// Adds an entry that is not there yet.
    pub fn insert(&mut self, mask: Vec<u64>, mut row: Vec<u64>, view: &mut View<'_>) {
        row[row::AGE] = self.next;
        self.next += 1;
        let at = self.tuple_for(mask, &row);
        let place = self.rows.put(&row);
        self.lead(&row, self.rows.address(place));
        let tuple = &mut self.tuples[at];
        let before = (tuple.hash.rows, tuple.best());
        *tuple.ranks.entry(row[row::RANK] as i64).or_insert(0) += 1;
        if !tuple.hash.insert(&self.rows, place) {
            let larger = tuple.hash.larger(&self.rows, place, self.advise);
            let old = std::mem::replace(&mut tuple.hash, larger);
            self.show(view);
            view.quiet.retire(Retired::Buckets(old.buckets));
            view.quiet.retire(Retired::Buckets(old.overflow));
        } else if before.0 == 0 || tuple.best() > before.1 {
            self.show(view);
        }
    }

    /// Puts another row in the place of an entry's, with its age and cell, and gives the old one's place.
    pub fn replace(&mut self, mask: &[u64], mut row: Vec<u64>) -> Option<u32> {
        let (at, old) = self.place(mask, &row)?;
        row[row::AGE] = self.rows.word(old, row::AGE);
        row[row::COUNTER] = self.rows.word(old, row::COUNTER);
        let new = self.rows.put(&row);
        self.lead(&row, self.rows.address(new));
        self.tuples[at].hash.replace(&self.rows, old, new);
        Some(old)
    }

    /// Removes an entry.
    pub fn remove(&mut self, mask: &[u64], row: &[u64], view: &mut View<'_>) -> Option<Gone> {
        let (at, old) = self.place(mask, row)?;
        self.lead(row, 0);
        let tuple = &mut self.tuples[at];
        tuple.hash.remove(&self.rows, old);
        let rank = row[row::RANK] as i64;
        if let Some(count) = tuple.ranks.get_mut(&rank) {
            *count -= 1;
            if *count == 0 {
                tuple.ranks.remove(&rank);
            }
        }
        // A bound that is too high is still a bound; only an empty tuple is worth a new list.
        if tuple.hash.rows == 0 {
            let gone = self.tuples.remove(at);
            self.show(view);
            gone.retire(view);
        }
        Some((old, self.rows.word(old, row::COUNTER)))
    }

    /// Removes all entries.
    pub fn clear(&mut self, view: &mut View<'_>) -> Vec<Gone> {
        let tuples = std::mem::take(&mut self.tuples);
        self.array.iter().flat_map(|array| array.iter()).for_each(|row| row.store(0, Release));
        self.show(view);
        let mut gone = Vec::new();
        for tuple in tuples {
            gone.extend(tuple.hash.all().map(|place| (place, self.rows.word(place, row::COUNTER))));
            tuple.retire(view);
        }
        gone
    }

    /// Nobody reads the row in this place any more.
    pub fn release(&mut self, place: u32) {
        self.rows.release(place);
    }

    /// Publishes the list of tuples, best rank first.
    pub fn show(&mut self, view: &mut View<'_>) {
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
            words[tuple::LAST] = of.hash.buckets.len() as u64 - 1;
            list.extend(words);
        }
        view.table.index.store(list.as_ptr().cast_mut(), Release);
        view.quiet.retire(Retired::Words(std::mem::replace(&mut self.list, list)));
    }
}

/// Whether a mask has no bit that the other has not.
fn within(mask: &[u64], other: &[u64]) -> bool {
    mask.iter().zip(other).all(|(mask, other)| mask & !other == 0)
}

/// What is left of a mask without the bytes of which it has a part only: the masks of prefixes of similar lengths become one.
fn whole_bytes(mask: &[u64]) -> Vec<u64> {
    let whole =
        |word: &u64| u64::from_ne_bytes(word.to_ne_bytes().map(|byte| if byte == 0xff { byte } else { 0 }));
    mask.iter().map(whole).collect()
}
