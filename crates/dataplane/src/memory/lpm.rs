//! A table with one lpm field in a native program's memory: a [`Trie`] whose values are numbers of rows.
//!
//! Where nothing is kept for each entry, entries with equal actions share one row, so that a million routes to a thousand next hops
//! take a thousand rows. A row's number is free again when no burst can hold it.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Release;

use abi::native::row;

use super::table::View;
use super::trie::{Prefix, Trie};
use super::{Advise, Retired};

/// Prefixes, and the rows that they lead to.
pub struct Lpm {
    trie: Trie,
    /// What the program sees: a pointer for each value.
    pointers: Box<[AtomicU64]>,
    /// By their cells, with how many prefixes lead there.
    rows: Vec<Option<(Vec<u64>, u32)>>,
    /// Cells of rows that are shared.
    alike: Option<HashMap<Vec<u64>, u32>>,
    /// The words that the program sees.
    words: Vec<u64>,
}

impl Lpm {
    /// An empty one with room for so many rows; `shared`: equal rows are one.
    pub fn new(cells: u64, shared: bool, advise: Advise) -> Lpm {
        Lpm {
            trie: Trie::new(advise),
            pointers: bytemuck::zeroed_slice_box(cells as usize + 1),
            rows: Vec::new(),
            alike: shared.then(HashMap::new),
            words: Vec::new(),
        }
    }

    /// Shows it to the program.
    pub fn show(&mut self, view: &mut View<'_>) {
        let mut words = self.trie.words().to_vec();
        words.push(self.pointers.as_ptr() as u64);
        view.table.index.store(words.as_ptr().cast_mut(), Release);
        view.quiet.retire(Retired::Words(std::mem::replace(&mut self.words, words)));
        self.trie.gone.drain(..).for_each(|gone| view.quiet.retire(gone));
    }

    /// The row of exactly this prefix.
    pub fn row(&self, prefix: Prefix<'_>) -> Option<&[u64]> {
        let cell = self.trie.get(prefix)? as usize - 1;
        self.rows.get(cell)?.as_ref().map(|(row, _)| row.as_slice())
    }

    /// Whether entries with equal actions share a row.
    pub fn shares(&self) -> bool {
        self.alike.is_some()
    }

    /// The cell of a row like this one (but for its cell), which one prefix more leads to then.
    pub fn share(&mut self, row: &[u64]) -> Option<u64> {
        let cell = *self.alike.as_ref()?.get(row)?;
        if let Some(Some((_, users))) = self.rows.get_mut(cell as usize) {
            *users += 1;
        }
        Some(cell.into())
    }

    /// Adds a row that one prefix leads to, with its cell.
    pub fn add(&mut self, mut row: Vec<u64>, cell: u64) {
        if let Some(alike) = &mut self.alike {
            alike.insert(row.clone(), cell as u32);
        }
        row[row::COUNTER] = cell;
        let at = cell as usize;
        self.pointers[at + 1].store(row.as_ptr() as u64, Release);
        if self.rows.len() <= at {
            self.rows.resize_with(at + 1, || None);
        }
        self.rows[at] = Some((row, 1));
    }

    /// Puts another row in a cell that one prefix leads to, and gives the old one.
    pub fn replace(&mut self, cell: u64, mut row: Vec<u64>) -> Option<Vec<u64>> {
        row[row::COUNTER] = cell;
        let (held, _) = self.rows.get_mut(cell as usize)?.as_mut()?;
        self.pointers[cell as usize + 1].store(row.as_ptr() as u64, Release);
        Some(std::mem::replace(held, row))
    }

    /// One prefix less leads to a cell; its row, if it was the last.
    pub fn leave(&mut self, cell: u64) -> Option<Vec<u64>> {
        let held = self.rows.get_mut(cell as usize)?;
        let (_, users) = held.as_mut()?;
        *users -= 1;
        if *users > 0 {
            return None;
        }
        let (row, _) = held.take()?;
        if let Some(alike) = &mut self.alike {
            let mut key = row.clone();
            key[row::COUNTER] = 0;
            alike.remove(&key);
        }
        Some(row)
    }

    /// Adds a prefix that leads to a cell; false, and nothing is changed, if it is there already. Look-ups see it at once.
    pub fn insert(&mut self, prefix: Prefix<'_>, cell: u64, view: &mut View<'_>) -> bool {
        let known = self.trie.insert(prefix, cell as u32 + 1);
        self.changed(prefix, view);
        known.is_none()
    }

    /// Lets a prefix lead to another cell, and gives the one that it led to. Look-ups see it at once.
    pub fn set(&mut self, prefix: Prefix<'_>, cell: u64, view: &mut View<'_>) -> Option<u64> {
        let old = self.trie.set(prefix, cell as u32 + 1);
        self.changed(prefix, view);
        old.map(|value| u64::from(value) - 1)
    }

    /// Removes a prefix, and gives the cell that it led to.
    pub fn remove(&mut self, prefix: Prefix<'_>, view: &mut View<'_>) -> Option<u64> {
        let old = self.trie.remove(prefix);
        self.changed(prefix, view);
        old.map(|value| u64::from(value) - 1)
    }

    fn changed(&mut self, prefix: Prefix<'_>, view: &mut View<'_>) {
        match prefix.length {
            0 => self.show(view),
            _ => self.trie.gone.drain(..).for_each(|gone| view.quiet.retire(gone)),
        }
    }

    /// Removes all prefixes, and gives the rows.
    pub fn clear(&mut self, view: &mut View<'_>) -> Vec<Vec<u64>> {
        self.trie.clear();
        self.show(view);
        if let Some(alike) = &mut self.alike {
            alike.clear();
        }
        self.rows.drain(..).flatten().map(|(row, _)| row).collect()
    }

    /// Calls `f` for the bytes and the length of each prefix, and its row.
    pub fn each(&self, bytes: usize, f: &mut impl FnMut(&[u8], u32, &[u64])) {
        self.trie.each(bytes, &mut |key, length, value| {
            if let Some(Some((row, _))) = self.rows.get(value as usize - 1) {
                f(key, length, row);
            }
        });
    }
}
