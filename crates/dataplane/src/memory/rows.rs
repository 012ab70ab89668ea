//! An arena for the rows of one table. All rows have the same length, start at a cache line and lie densely in large blocks, which huge
//! pages can back. Rows from a general allocator are scattered, and then each lookup pays a walk through the page tables
//! (docs/tables.md has the measurement).

use std::sync::atomic::Ordering::Relaxed;

use abi::native::lpm::Line;

use super::region::{Advise, Region};

/// Rows in the first block. Each further block has twice as many, so that blocks never move and their number stays small.
const FIRST: usize = 64;
/// Words in a cache line.
const LINE: usize = 8;

/// The number of a row in its arena.
pub type RowId = u32;

/// The rows of a table, addressed by [`RowId`]. [`Rows::put`] allocates and writes a row; the caller publishes it. After the row's
/// removal and a grace period the caller releases it.
pub struct Rows {
    /// Cache lines that each row takes.
    lines: usize,
    blocks: Vec<Box<[Line]>>,
    /// The free list: rows that were released.
    free: Vec<RowId>,
    /// The lowest row that was never used.
    unused: RowId,
    advise: Advise,
}

impl Rows {
    /// An empty arena for rows of `words` words.
    pub fn new(words: usize, advise: Advise) -> Rows {
        Rows { lines: words.div_ceil(LINE).max(1), blocks: Vec::new(), free: Vec::new(), unused: 0, advise }
    }

    /// Writes a row into free memory, and returns its id.
    pub fn put(&mut self, row: &[u64]) -> RowId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        let (block, _) = split(id);
        if block == self.blocks.len() {
            let lines: Box<[Line]> = (0..(FIRST << block) * self.lines).map(|_| Line::default()).collect();
            (self.advise)(Region::of(&lines, true));
            self.blocks.push(lines);
        }
        for (at, word) in row.iter().enumerate() {
            self.line(id, at / LINE).0[at % LINE].store(*word, Relaxed);
        }
        id
    }

    /// Word number `at` of a row.
    pub fn word(&self, row: RowId, at: usize) -> u64 {
        self.line(row, at / LINE).0[at % LINE].load(Relaxed)
    }

    /// The words of a row, padded with zeros to whole cache lines.
    pub fn read(&self, row: RowId) -> Vec<u64> {
        (0..self.lines * LINE).map(|at| self.word(row, at)).collect()
    }

    /// The address of a row, as the program reads it.
    pub fn address(&self, row: RowId) -> u64 {
        std::ptr::from_ref(self.line(row, 0)) as u64
    }

    /// Returns a row to the free list. Its grace period has ended.
    pub fn release(&mut self, row: RowId) {
        self.free.push(row);
    }

    fn line(&self, row: RowId, line: usize) -> &Line {
        let (block, at) = split(row);
        &self.blocks[block][at * self.lines + line]
    }
}

/// The block of a row, and the row's number in that block.
fn split(row: RowId) -> (usize, usize) {
    let number = row as usize / FIRST + 1;
    let block = number.ilog2() as usize;
    (block, row as usize - FIRST * ((1 << block) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_apart_and_reused() {
        let mut rows = Rows::new(9, |_| {});
        let ids: Vec<RowId> = (0..1000).map(|n| rows.put(&[n, n + 1, 0, 0, 0, 0, 0, 0, n + 2])).collect();
        let mut addresses: Vec<u64> = ids.iter().map(|row| rows.address(*row)).collect();
        assert!(addresses.iter().all(|address| address.is_multiple_of(64)));
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 128));
        for (n, row) in (0..).zip(&ids) {
            assert_eq!((rows.word(*row, 1), rows.word(*row, 8)), (n + 1, n + 2));
        }
        rows.release(ids[7]);
        assert_eq!(rows.put(&[5]), ids[7]);
    }
}
