//! A hash table of rows that programs read while it is written: buckets of a cache line, found by a tag and compared in the row.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::native::{Bucket, WAYS, row};

/// The hash of a packed key; `prelude.h` has the same in C.
pub fn hash_key(key: &[u64]) -> u64 {
    key.iter().fold(0x9e37_79b9_7f4a_7c15, |h, word| {
        let h = (h ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^ (h >> 32)
    })
}

fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// The buckets of one tuple.
pub struct Hash {
    words: usize,
    pub buckets: Vec<Bucket>,
    pub overflow: Vec<Bucket>,
    /// Buckets of `overflow` that are in use.
    used: usize,
    pub rows: usize,
}

fn some(buckets: usize) -> Vec<Bucket> {
    (0..buckets).map(|_| Bucket::default()).collect()
}

impl Hash {
    /// Room for some rows whose keys have so many words. It is made anew when it is full.
    pub fn new(words: usize, buckets: usize, overflow: usize) -> Hash {
        Hash { words, buckets: some(buckets), overflow: some(overflow), used: 0, rows: 0 }
    }

    /// One with more room and the same rows.
    pub fn larger(&self, rows: &[&[u64]]) -> Hash {
        // Many rows in few buckets want more buckets; rows whose masked keys are equal stay together whatever is done.
        let crowded = self.rows * 2 > self.buckets.len() * WAYS;
        let (buckets, overflow) = match crowded {
            true => (self.buckets.len() * 4, self.buckets.len() / 2),
            false => (self.buckets.len(), self.overflow.len() * 2),
        };
        let mut larger = Hash::new(self.words, buckets, overflow.max(4));
        if rows.iter().all(|row| larger.insert(row)) { larger } else { larger.larger(rows) }
    }

    fn key<'r>(&self, row: &'r [u64]) -> &'r [u64] {
        &row[row::KEY..row::KEY + self.words]
    }

    /// Adds a row; false if there is no room.
    pub fn insert(&mut self, row: &[u64]) -> bool {
        let hash = hash_key(self.key(row));
        let mut bucket = &self.buckets[hash as usize & (self.buckets.len() - 1)];
        loop {
            if let Some(way) = (0..WAYS).find(|way| bucket.tags[*way].load(Relaxed) == 0) {
                publish(bucket, way, row, tag_of(hash));
                self.rows += 1;
                return true;
            }
            bucket = match bucket.overflow.load(Relaxed) {
                0 if self.used == self.overflow.len() => return false,
                0 => {
                    self.used += 1;
                    let fresh = &self.overflow[self.used - 1];
                    publish(fresh, 0, row, tag_of(hash));
                    bucket.overflow.store(self.used as u32, Release);
                    self.rows += 1;
                    return true;
                }
                more => &self.overflow[more as usize - 1],
            };
        }
    }

    /// Puts a row in the place of another with the same key.
    pub fn replace(&self, old: &[u64], new: &[u64]) {
        if let Some((bucket, way)) = self.place(old) {
            bucket.rows[way].store(new.as_ptr().cast_mut(), Release);
        }
    }

    /// Takes a row away.
    pub fn remove(&mut self, row: &[u64]) {
        if let Some((bucket, way)) = self.place(row) {
            bucket.tags[way].store(0, Release);
            self.rows -= 1;
        }
    }

    fn place(&self, row: &[u64]) -> Option<(&Bucket, usize)> {
        let hash = hash_key(self.key(row));
        let mut bucket = &self.buckets[hash as usize & (self.buckets.len() - 1)];
        loop {
            let is = |way: &usize| {
                bucket.tags[*way].load(Relaxed) != 0
                    && std::ptr::eq(bucket.rows[*way].load(Acquire), row.as_ptr())
            };
            if let Some(way) = (0..WAYS).find(is) {
                return Some((bucket, way));
            }
            match bucket.overflow.load(Relaxed) {
                0 => return None,
                more => bucket = &self.overflow[more as usize - 1],
            }
        }
    }
}

/// The row first, then the tag by which it is found.
fn publish(bucket: &Bucket, way: usize, row: &[u64], tag: u16) {
    bucket.rows[way].store(row.as_ptr().cast_mut(), Release);
    bucket.tags[way].store(tag, Release);
}
