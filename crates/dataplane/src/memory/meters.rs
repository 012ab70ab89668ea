//! Meters that all workers share: cells of words, each with a lock that a worker holds while it counts one packet.
//!
//! A program executes them as [`crate::Meter`] does; this side sets their rates.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::native::{Cells, meter};

use super::cells;
use crate::Rate;

/// A meter's cells.
pub struct Meters {
    words: Vec<AtomicU64>,
    /// The rates of new entries of a direct meter's table.
    template: Vec<Rate>,
    /// Whether the cells are those of a table's entries.
    direct: bool,
}

impl Meters {
    /// So many cells, without rates.
    pub fn new(size: u64, direct: bool) -> Meters {
        let words = (0..size * meter::SIZE as u64).map(|_| AtomicU64::new(0)).collect();
        Meters { words, template: Vec::new(), direct }
    }

    /// What the program sees.
    pub fn cells(&self) -> Cells {
        cells(&self.words, meter::SIZE as u64)
    }

    /// Sets the rates of one cell, or of all; whether there is such a cell, and no more rates than it has buckets.
    pub fn set(&mut self, index: Option<u64>, rates: &[Rate], now: u64) -> bool {
        if rates.len() > meter::MOST || (self.direct && index.is_some()) {
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

    /// The cell of a direct meter is another entry's from now on.
    pub fn renew(&self, cell: u64, now: u64) {
        self.fill(cell as usize, &self.template, now);
    }

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
