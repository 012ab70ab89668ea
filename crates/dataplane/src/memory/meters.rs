//! Meters that all workers share. Each cell has a spin lock, which a worker holds while it meters one packet.
//!
//! The program executes a meter in C with the same algorithm as [`crate::Meter`]. The host only sets the rates. The layout of a cell
//! is [`abi::native::meter`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::native::{Cells, meter};

use super::cells;
use crate::Rate;

/// The cells of one meter.
pub struct Meters {
    words: Vec<AtomicU64>,
    /// The rates that a direct meter gives to each new entry.
    template: Vec<Rate>,
    /// Whether this is a direct meter: each cell belongs to one entry of a table.
    direct: bool,
}

impl Meters {
    /// A meter with `size` cells. Its cells have no rates, so every packet is green.
    pub fn new(size: u64, direct: bool) -> Meters {
        let words = (0..size * meter::SIZE as u64).map(|_| AtomicU64::new(0)).collect();
        Meters { words, template: Vec::new(), direct }
    }

    /// The array descriptor that the program reads.
    pub fn cells(&self) -> Cells {
        cells(&self.words, meter::SIZE as u64)
    }

    /// Sets the rates of one cell, or of all cells (`None`). Returns false if there is no such cell, or if there are more rates than
    /// a cell has buckets. A direct meter accepts rates for all cells only.
    pub fn set(&mut self, index: Option<u64>, rates: &[Rate], now: u64) -> bool {
        if rates.len() > meter::MAX || (self.direct && index.is_some()) {
            return false;
        }
        let cells = self.words.len() / meter::SIZE;
        match index {
            Some(index) if index >= cells as u64 => return false,
            Some(index) => self.fill(index as usize, rates, now),
            None => {
                (0..cells).for_each(|cell| self.fill(cell, rates, now));
                self.template = rates.to_vec();
            }
        }
        true
    }

    /// Prepares the cell of a direct meter for a new entry: the table's rates, full buckets.
    pub fn reset_cell(&self, cell: u64, now: u64) {
        self.fill(cell as usize, &self.template, now);
    }

    /// Gives a cell these rates, with full buckets at time `now`.
    fn fill(&self, cell: usize, rates: &[Rate], now: u64) {
        let Some(words) = self.words.get(cell * meter::SIZE..(cell + 1) * meter::SIZE) else { return };
        while words[meter::LOCK].compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            std::hint::spin_loop();
        }
        for (rate, bucket) in rates.iter().zip(words[meter::BUCKETS..].chunks(meter::BUCKET)) {
            let values = [rate.per_microsecond.to_bits(), (rate.burst as f64).to_bits(), rate.burst, now];
            bucket.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
        }
        words[meter::RATES].store(rates.len() as u64, Relaxed);
        words[meter::LOCK].store(0, Release);
    }
}
