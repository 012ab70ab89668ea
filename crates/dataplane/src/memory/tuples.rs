//! A table in a native program's memory that matches by masks: tuple-space search (Srinivasan, Suri and Varghese, SIGCOMM 1999), a
//! hash table for each distinct mask. An exact table has one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Release;

use abi::native::{row, tuple};

use super::Retired;
use super::hash::Hash;
use super::table::{Identity, View};

/// Buckets of a tuple at first, and what goes on with them.
const FIRST: (usize, usize) = (4, 4);

/// All entries of a table, by their masks.
#[derive(Default)]
pub struct Tuples {
    tuples: Vec<Tuple>,
    /// The list that the program sees.
    list: Vec<u64>,
    /// Rows are numbered as they come.
    next: u64,
}

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

    fn retire(self, view: &mut View<'_>) {
        view.quiet.retire(Retired::Words(self.mask));
        view.quiet.retire(Retired::Buckets(self.hash.buckets));
        view.quiet.retire(Retired::Buckets(self.hash.overflow));
    }
}

impl Tuples {
    fn position(&self, mask: &[u64]) -> Option<usize> {
        self.tuples.iter().position(|t| t.mask == mask)
    }

    /// The row of an entry.
    pub fn row(&self, identity: &Identity, mask: &[u64]) -> Option<&[u64]> {
        self.tuples[self.position(mask)?].rows.get(identity).map(Vec::as_slice)
    }

    /// All entries with their rows.
    pub fn rows(&self) -> impl Iterator<Item = (&Identity, &[u64])> {
        self.tuples.iter().flat_map(|t| t.rows.iter().map(|(identity, row)| (identity, row.as_slice())))
    }

    /// Adds an entry that is not there yet.
    pub fn insert(&mut self, identity: Identity, mask: Vec<u64>, mut row: Vec<u64>, view: &mut View<'_>) {
        row[row::AGE] = self.next;
        self.next += 1;
        let at = self.position(&mask).unwrap_or_else(|| {
            self.tuples.push(Tuple::new(mask));
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[at];
        let before = (tuple.rows.len(), tuple.best());
        *tuple.ranks.entry(row[row::RANK] as i64).or_insert(0) += 1;
        let fits = tuple.hash.insert(&row);
        tuple.rows.insert(identity, row);
        if !fits {
            let rows: Vec<&[u64]> = tuple.rows.values().map(Vec::as_slice).collect();
            let larger = tuple.hash.larger(&rows);
            let old = std::mem::replace(&mut tuple.hash, larger);
            self.show(view);
            view.quiet.retire(Retired::Buckets(old.buckets));
            view.quiet.retire(Retired::Buckets(old.overflow));
        } else if before.0 == 0 || tuple.best() > before.1 {
            self.show(view);
        }
    }

    /// Puts another row in the place of an entry's, with its age and cell, and gives the old one.
    pub fn replace(&mut self, identity: &Identity, mask: &[u64], mut row: Vec<u64>) -> Option<Vec<u64>> {
        let at = self.position(mask)?;
        let tuple = &mut self.tuples[at];
        let old = tuple.rows.get_mut(identity)?;
        row[row::AGE] = old[row::AGE];
        row[row::COUNTER] = old[row::COUNTER];
        tuple.hash.replace(old, &row);
        Some(std::mem::replace(old, row))
    }

    /// Removes an entry and gives its row.
    pub fn remove(&mut self, identity: &Identity, mask: &[u64], view: &mut View<'_>) -> Option<Vec<u64>> {
        let at = self.position(mask)?;
        let tuple = &mut self.tuples[at];
        let old = tuple.rows.remove(identity)?;
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
            self.show(view);
            gone.retire(view);
        }
        Some(old)
    }

    /// Removes all entries and gives their rows.
    pub fn clear(&mut self, view: &mut View<'_>) -> Vec<Vec<u64>> {
        let tuples = std::mem::take(&mut self.tuples);
        self.show(view);
        let mut rows = Vec::new();
        for mut tuple in tuples {
            rows.extend(tuple.rows.drain().map(|(_, row)| row));
            tuple.retire(view);
        }
        rows
    }

    /// Publishes the list of tuples, best rank first.
    pub fn show(&mut self, view: &mut View<'_>) {
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
