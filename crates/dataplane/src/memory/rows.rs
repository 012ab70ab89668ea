//! Rows of one length in large blocks. What look-ups end with lies dense and in cache lines of its own, and huge pages can hold it: rows
//! that lie wherever an allocator has room cost a walk through the page tables each (docs/tables.md).

use std::sync::atomic::Ordering::Relaxed;

use abi::native::lpm::Line;

use super::{Advise, Piece};

/// Rows of the first block; each further block has twice as many.
const FIRST: usize = 64;
/// Words of a line.
const LINE: usize = 8;

/// The rows of a table, by their places. A place is taken, written, published, and given back when no burst can hold it.
pub struct Rows {
    /// Lines of a row.
    lines: usize,
    blocks: Vec<Box<[Line]>>,
    free: Vec<u32>,
    fresh: u32,
    advise: Advise,
}

impl Rows {
    /// Rows of so many words.
    pub fn new(words: usize, advise: Advise) -> Rows {
        Rows { lines: words.div_ceil(LINE).max(1), blocks: Vec::new(), free: Vec::new(), fresh: 0, advise }
    }

    /// Writes a row, and gives its place.
    pub fn put(&mut self, row: &[u64]) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        let (block, _) = split(place);
        if block == self.blocks.len() {
            let lines: Box<[Line]> = (0..(FIRST << block) * self.lines).map(|_| Line::default()).collect();
            (self.advise)(Piece::of(&lines, true));
            self.blocks.push(lines);
        }
        for (at, word) in row.iter().enumerate() {
            self.line(place, at / LINE).0[at % LINE].store(*word, Relaxed);
        }
        place
    }

    /// A word of a row.
    pub fn word(&self, place: u32, at: usize) -> u64 {
        self.line(place, at / LINE).0[at % LINE].load(Relaxed)
    }

    /// A row's words, and zeros up to a whole line.
    pub fn read(&self, place: u32) -> Vec<u64> {
        (0..self.lines * LINE).map(|at| self.word(place, at)).collect()
    }

    /// Where programs find it.
    pub fn address(&self, place: u32) -> u64 {
        std::ptr::from_ref(self.line(place, 0)) as u64
    }

    /// Nobody reads it any more.
    pub fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    fn line(&self, place: u32, line: usize) -> &Line {
        let (block, at) = split(place);
        &self.blocks[block][at * self.lines + line]
    }
}

/// A place's block, and its number there.
fn split(place: u32) -> (usize, usize) {
    let number = place as usize / FIRST + 1;
    let block = number.ilog2() as usize;
    (block, place as usize - FIRST * ((1 << block) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_used_again() {
        let mut rows = Rows::new(9, |_| {});
        let places: Vec<u32> = (0..1000).map(|n| rows.put(&[n, n + 1, 0, 0, 0, 0, 0, 0, n + 2])).collect();
        let mut addresses: Vec<u64> = places.iter().map(|place| rows.address(*place)).collect();
        assert!(addresses.iter().all(|address| address.is_multiple_of(64)));
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 128));
        for (n, place) in (0..).zip(&places) {
            assert_eq!((rows.word(*place, 1), rows.word(*place, 8)), (n + 1, n + 2));
        }
        rows.release(places[7]);
        assert_eq!(rows.put(&[5]), places[7]);
    }
}
