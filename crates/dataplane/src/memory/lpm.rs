//! A table with one lpm field: a [`Trie`] whose values are row numbers.
//!
//! If the table keeps nothing for each entry (no counter, meter, idle timeout or action profile), entries with equal actions share one row. A
//! million routes to a thousand next hops then need a thousand rows. Each row counts its users, and is retired with its last one.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Release;

use abi::native::row;

use super::region::Advise;
use super::retired::Retired;
use super::subtree::Prefix;
use super::trie::Trie;
use super::view::View;

/// The prefixes of a table and their rows. A row is identified by its cell; the trie's value for it is the cell + 1, because 0 means
/// "no value".
pub struct Lpm {
    trie: Trie,
    /// The published address of the row for each trie value.
    pointers: Box<[AtomicU64]>,
    /// The row of each cell, and the number of prefixes that use it.
    rows: Vec<Option<(Vec<u64>, u32)>>,
    /// If rows are shared: the cell of each row. The key is the row with a cell of 0.
    shared: Option<HashMap<Vec<u64>, u32>>,
    /// The published root ([`abi::native::lpm`]).
    words: Vec<u64>,
}

impl Lpm {
    /// An empty table with room for `cells` rows. `shared`: entries with equal actions share a row.
    pub fn new(cells: u64, shared: bool, advise: Advise) -> Lpm {
        Lpm {
            trie: Trie::new(advise),
            pointers: bytemuck::zeroed_slice_box(cells as usize + 1),
            rows: Vec::new(),
            shared: shared.then(HashMap::new),
            words: Vec::new(),
        }
    }

    /// Publishes the root.
    pub fn publish(&mut self, view: &mut View<'_>) {
        let mut words = self.trie.words().to_vec();
        words.push(self.pointers.as_ptr() as u64);
        view.table.index.store(words.as_ptr().cast_mut(), Release);
        view.reclaimer.retire(Retired::Words(std::mem::replace(&mut self.words, words)));
        self.trie.retired.drain(..).for_each(|old| view.reclaimer.retire(old));
    }

    /// The row of exactly this prefix.
    pub fn row(&self, prefix: Prefix<'_>) -> Option<&[u64]> {
        let cell = self.trie.get(prefix)? as usize - 1;
        self.rows.get(cell)?.as_ref().map(|(row, _)| row.as_slice())
    }

    /// Whether entries with equal actions share a row.
    pub fn shares(&self) -> bool {
        self.shared.is_some()
    }

    /// Finds a shared row that is equal to `row` except for its cell. Adds one user to it and returns its cell.
    pub fn share(&mut self, row: &[u64]) -> Option<u64> {
        let cell = *self.shared.as_ref()?.get(row)?;
        if let Some(Some((_, users))) = self.rows.get_mut(cell as usize) {
            *users += 1;
        }
        Some(cell.into())
    }

    /// Adds a row with one user in a free cell.
    pub fn add(&mut self, mut row: Vec<u64>, cell: u64) {
        if let Some(shared) = &mut self.shared {
            shared.insert(row.clone(), cell as u32);
        }
        row[row::CELL] = cell;
        let at = cell as usize;
        self.pointers[at + 1].store(row.as_ptr() as u64, Release);
        if self.rows.len() <= at {
            self.rows.resize_with(at + 1, || None);
        }
        self.rows[at] = Some((row, 1));
    }

    /// Replaces the row of a cell with one user, and returns the old row.
    pub fn replace(&mut self, cell: u64, mut row: Vec<u64>) -> Option<Vec<u64>> {
        row[row::CELL] = cell;
        let (held, _) = self.rows.get_mut(cell as usize)?.as_mut()?;
        self.pointers[cell as usize + 1].store(row.as_ptr() as u64, Release);
        Some(std::mem::replace(held, row))
    }

    /// Removes one user of a row. Returns the row if that was its last user; the caller must retire it.
    pub fn leave(&mut self, cell: u64) -> Option<Vec<u64>> {
        let held = self.rows.get_mut(cell as usize)?;
        let (_, users) = held.as_mut()?;
        *users -= 1;
        if *users > 0 {
            return None;
        }
        let (row, _) = held.take()?;
        if let Some(shared) = &mut self.shared {
            let mut key = row.clone();
            key[row::CELL] = 0;
            shared.remove(&key);
        }
        Some(row)
    }

    /// Adds a prefix with the row of this cell, and publishes it. Returns false, and changes nothing, if the prefix exists.
    pub fn insert(&mut self, prefix: Prefix<'_>, cell: u64, view: &mut View<'_>) -> bool {
        let known = self.trie.insert(prefix, cell as u32 + 1);
        self.finish(prefix, view);
        known.is_none()
    }

    /// Sets the row of a prefix to that of this cell, and publishes it. Returns the old cell.
    pub fn set(&mut self, prefix: Prefix<'_>, cell: u64, view: &mut View<'_>) -> Option<u64> {
        let old = self.trie.set(prefix, cell as u32 + 1);
        self.finish(prefix, view);
        old.map(|value| u64::from(value) - 1)
    }

    /// Removes a prefix, and returns the cell of its row.
    pub fn remove(&mut self, prefix: Prefix<'_>, view: &mut View<'_>) -> Option<u64> {
        let old = self.trie.remove(prefix);
        self.finish(prefix, view);
        old.map(|value| u64::from(value) - 1)
    }

    /// Retires what a change of `prefix` has replaced. The value of the empty prefix is part of the root, so that is published anew.
    fn finish(&mut self, prefix: Prefix<'_>, view: &mut View<'_>) {
        match prefix.length {
            0 => self.publish(view),
            _ => self.trie.retired.drain(..).for_each(|old| view.reclaimer.retire(old)),
        }
    }

    /// Calls `f` for each prefix, with its bytes, its length in bits, and its row. Keys have `bytes` bytes.
    pub fn each(&self, bytes: usize, f: &mut impl FnMut(&[u8], u32, &[u64])) {
        self.trie.each(bytes, &mut |key, length, value| {
            if let Some(Some((row, _))) = self.rows.get(value as usize - 1) {
                f(key, length, row);
            }
        });
    }
}
