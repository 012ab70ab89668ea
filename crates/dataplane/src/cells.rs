//! Arrays of cells that keep state between packets: counters, registers, drop counts.

use std::collections::HashMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A counter's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    /// Counts one packet of `bytes` bytes. Counts wrap at 2^64, as in hardware.
    pub fn add(&mut self, bytes: u64) {
        *self += Count { packets: 1, bytes };
    }

    /// The sum, which wraps at 2^64.
    pub fn wrapping_add(self, other: Count) -> Count {
        Count {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    /// The difference, which wraps at 2^64.
    pub fn wrapping_sub(self, other: Count) -> Count {
        Count {
            packets: self.packets.wrapping_sub(other.packets),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        *self = self.wrapping_add(other);
    }
}

/// The largest array that is stored densely. A program may declare 2^32 cells and use three, so larger arrays are stored in a hash map.
const DENSE: u64 = 1 << 16;

/// A fixed number of cells with one initial value. An index out of range reads as `None` and writes nothing, as v1model requires for
/// counters and registers.
#[derive(Clone, Debug)]
pub struct Cells<T> {
    size: u64,
    initial: T,
    dense: Vec<T>,
    sparse: HashMap<u64, T>,
}

impl<T: Clone> Cells<T> {
    /// `size` cells that all hold `initial`.
    pub fn new(size: u64, initial: T) -> Self {
        let dense = if size <= DENSE { vec![initial.clone(); size as usize] } else { Vec::new() };
        Cells { size, initial, dense, sparse: HashMap::new() }
    }

    /// The number of cells.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The cell at an index; `None` if the index is out of range.
    pub fn get(&self, index: u64) -> Option<&T> {
        match index < self.size {
            false => None,
            true => match self.dense.get(index as usize) {
                Some(cell) => Some(cell),
                None => Some(self.sparse.get(&index).unwrap_or(&self.initial)),
            },
        }
    }

    /// The cell at an index, for writing; `None` if the index is out of range.
    pub fn get_mut(&mut self, index: u64) -> Option<&mut T> {
        if index >= self.size {
            return None;
        }
        if self.size <= DENSE {
            return self.dense.get_mut(index as usize);
        }
        Some(self.sparse.entry(index).or_insert_with(|| self.initial.clone()))
    }

    /// Sets all cells to their initial value.
    pub fn reset(&mut self) {
        self.dense.fill(self.initial.clone());
        self.sparse.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_out_of_range_are_none_and_huge_arrays_are_cheap() {
        for size in [4, 1 << 40] {
            let mut cells = Cells::new(size, Count::default());
            cells.get_mut(3).unwrap().add(60);
            assert_eq!(cells.get(3), Some(&Count { packets: 1, bytes: 60 }));
            assert_eq!(cells.get(2), Some(&Count::default()));
            assert!(cells.get(size).is_none() && cells.get_mut(size).is_none());
            cells.reset();
            assert_eq!(cells.get(3), Some(&Count::default()));
        }
    }
}
