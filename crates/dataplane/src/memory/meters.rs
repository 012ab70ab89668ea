//! Meters that all workers share. Each cell has a spin lock, which a worker holds while it meters one packet.
//!
//! The program executes a meter in C with the same algorithm as [`crate::Meter`]. The host only sets the rates. The layout of a cell
//! is [`abi::native::meter`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::native::{Cells, meter};

use super::view::cells;
use crate::Rate;

/// The cells of one meter.
pub struct Meters {
    words: Vec<AtomicU64>,
    /// The rates that a direct meter gives to each new entry.
    template: Vec<Rate>,
}

impl Meters {
    /// A meter with `size` cells. Its cells have no rates, so every packet is green.
    pub fn new(size: u64) -> Meters {
        let words = (0..size * meter::SIZE as u64).map(|_| AtomicU64::new(0)).collect();
        Meters { words, template: Vec::new() }
    }

    /// The array descriptor that the program reads.
    pub fn cells(&self) -> Cells {
        cells(&self.words, meter::SIZE as u64)
    }

    /// The rates of a cell, lowest first; `None` if there is no such cell.
    pub fn rates(&self, index: u64) -> Option<Vec<Rate>> {
        let at = usize::try_from(index).ok()?.checked_mul(meter::SIZE)?;
        let words = self.words.get(at..at + meter::SIZE)?;
        let rate = |bucket: &[AtomicU64]| Rate {
            per_microsecond: f64::from_bits(bucket[0].load(Relaxed)),
            burst: bucket[2].load(Relaxed),
        };
        let count = words[meter::RATES].load(Relaxed) as usize;
        Some(words[meter::BUCKETS..].chunks(meter::BUCKET).take(count).map(rate).collect())
    }

    /// The rates of new entries.
    pub fn template(&self) -> &[Rate] {
        &self.template
    }

    /// Sets the rates of a cell, and fills its token buckets. There are at most [`meter::MAX`] rates.
    pub fn set(&self, index: u64, rates: &[Rate], now: u64) {
        self.fill(index as usize, rates, now);
    }

    /// Sets the rates of all cells, present and future.
    pub fn set_all(&mut self, rates: &[Rate], now: u64) {
        (0..self.words.len() / meter::SIZE).for_each(|cell| self.fill(cell, rates, now));
        self.template = rates.to_vec();
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
