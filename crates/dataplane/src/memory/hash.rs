//! A hash table of rows that programs read while it is written: buckets of a cache line, found by a tag and compared in the row.

use std::sync::atomic::Ordering::{Relaxed, Release};

use abi::native::{Bucket, WAYS, row};

use super::rows::Rows;
use super::{Advise, Piece};

/// The hash of a packed key; `prelude.h` has the same in C.
pub fn hash_key(key: impl Iterator<Item = u64>) -> u64 {
    key.fold(0x9e37_79b9_7f4a_7c15, |h: u64, word| {
        let h = (h ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^ (h >> 32)
    })
}

fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// The buckets of one tuple.
pub struct Hash {
    /// What of a row's key is hashed.
    mask: Vec<u64>,
    pub buckets: Vec<Bucket>,
    pub overflow: Vec<Bucket>,
    /// The places of the rows that buckets point to, those of `overflow` last.
    places: Vec<[u32; WAYS]>,
    /// Buckets of `overflow` that are in use.
    used: usize,
    pub rows: usize,
}

/// A way of a bucket.
type Way = (usize, usize);

impl Hash {
    /// Room for some rows whose keys are hashed under a mask. It is made anew when it is full.
    pub fn new(mask: &[u64], buckets: usize, overflow: usize, advise: Advise) -> Hash {
        let some = |buckets: usize| -> Vec<Bucket> {
            let all: Vec<Bucket> = (0..buckets).map(|_| Bucket::default()).collect();
            advise(Piece::of(&all, true));
            all
        };
        let places = vec![[0; WAYS]; buckets + overflow];
        Hash {
            mask: mask.to_vec(),
            buckets: some(buckets),
            overflow: some(overflow),
            places,
            used: 0,
            rows: 0,
        }
    }

    /// One with more room and the same rows.
    pub fn larger(&self, rows: &Rows, more: u32, advise: Advise) -> Hash {
        let all: Vec<u32> = self.all().chain([more]).collect();
        let (mut buckets, mut overflow) = (self.buckets.len(), self.overflow.len());
        loop {
            // Many rows in few buckets want more buckets; rows whose masked keys are equal stay together whatever is done. With four rows
            // in a bucket of six, one in nine goes on in another: about as many as there are.
            (buckets, overflow) = match all.len() > buckets * 3 {
                true => (buckets * 2, buckets / 4),
                false => (buckets, overflow * 2),
            };
            overflow = overflow.max(4);
            let mut larger = Hash::new(&self.mask, buckets, overflow, advise);
            if all.iter().all(|place| larger.insert(rows, *place)) {
                return larger;
            }
        }
    }

    fn bucket(&self, number: usize) -> &Bucket {
        self.buckets.get(number).unwrap_or_else(|| &self.overflow[number - self.buckets.len()])
    }

    /// The number of the bucket that goes on with one.
    fn next(&self, number: usize) -> Option<usize> {
        match self.bucket(number).overflow.load(Relaxed) {
            0 => None,
            more => Some(self.buckets.len() + more as usize - 1),
        }
    }

    fn hash(&self, rows: &Rows, place: u32) -> u64 {
        hash_key((0..self.mask.len()).map(|at| rows.word(place, row::KEY + at) & self.mask[at]))
    }

    /// Adds a row; false if there is no room.
    pub fn insert(&mut self, rows: &Rows, place: u32) -> bool {
        let hash = self.hash(rows, place);
        let mut number = hash as usize & (self.buckets.len() - 1);
        loop {
            let bucket = self.bucket(number);
            if let Some(way) = (0..WAYS).find(|way| bucket.tags[*way].load(Relaxed) == 0) {
                self.publish((number, way), rows, place, tag_of(hash));
                return true;
            }
            number = match self.next(number) {
                Some(next) => next,
                None if self.used == self.overflow.len() => return false,
                None => {
                    self.used += 1;
                    let fresh = self.buckets.len() + self.used - 1;
                    self.publish((fresh, 0), rows, place, tag_of(hash));
                    self.bucket(number).overflow.store(self.used as u32, Release);
                    return true;
                }
            };
        }
    }

    /// The row first, then the tag by which it is found.
    fn publish(&mut self, (number, way): Way, rows: &Rows, place: u32, tag: u16) {
        self.places[number][way] = place;
        self.rows += 1;
        let bucket = self.bucket(number);
        bucket.rows[way].store(rows.address(place) as *mut u64, Release);
        bucket.tags[way].store(tag, Release);
    }

    /// The place of the row with this key for which `is` holds.
    pub fn find(&self, key: &[u64], is: impl FnMut(u32) -> bool) -> Option<u32> {
        let hash = hash_key(key.iter().zip(&self.mask).map(|(word, mask)| word & mask));
        self.way(hash, is).map(|(number, way)| self.places[number][way])
    }

    /// How many rows there are that a look-up of this key has to look at.
    pub fn crowd(&self, key: &[u64]) -> usize {
        let mut crowd = 0;
        self.find(key, |_| {
            crowd += 1;
            false
        });
        crowd
    }

    /// Puts a row in the place of another with the same key.
    pub fn replace(&mut self, rows: &Rows, old: u32, new: u32) {
        if let Some((number, way)) = self.way(self.hash(rows, old), |place| place == old) {
            self.places[number][way] = new;
            self.bucket(number).rows[way].store(rows.address(new) as *mut u64, Release);
        }
    }

    /// Takes a row away.
    pub fn remove(&mut self, rows: &Rows, old: u32) {
        if let Some((number, way)) = self.way(self.hash(rows, old), |place| place == old) {
            self.bucket(number).tags[way].store(0, Release);
            self.rows -= 1;
        }
    }

    fn way(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<Way> {
        let mut number = hash as usize & (self.buckets.len() - 1);
        loop {
            let bucket = self.bucket(number);
            let mut found = |way: &usize| {
                bucket.tags[*way].load(Relaxed) == tag_of(hash) && is(self.places[number][*way])
            };
            if let Some(way) = (0..WAYS).find(&mut found) {
                return Some((number, way));
            }
            number = self.next(number)?;
        }
    }

    /// The places of all rows.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        let used = (0..self.buckets.len()).chain((0..self.used).map(|n| self.buckets.len() + n));
        used.flat_map(move |number| {
            let bucket = self.bucket(number);
            let taken = (0..WAYS).filter(|way| bucket.tags[*way].load(Relaxed) != 0);
            taken.map(move |way| self.places[number][way])
        })
    }
}
