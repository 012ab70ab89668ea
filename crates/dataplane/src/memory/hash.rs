//! A hash table of rows that workers read while the writer changes it.
//!
//! A bucket is one cache line. It has [`SLOTS`] slots, each with a 16-bit *tag* (part of the hash; 0 marks a free slot) and the address
//! of a row. A lookup compares the tags first, and reads only those rows whose tag is equal, because two keys can have the same hash.
//! When all slots of a bucket are taken, the bucket gets an *overflow chain*: further buckets, linked by their numbers.
//!
//! The table does not grow in place. When no overflow bucket is left, [`Hash::larger`] builds a larger copy, and the caller publishes
//! the copy and retires the old one.

use std::sync::atomic::Ordering::{Relaxed, Release};

use abi::native::{Bucket, SLOTS, row};

use super::region::{Advise, Region};
use super::rows::{RowId, Rows};

/// The hash of a packed key. `hash_key` in `prelude.h` computes the same in C.
pub fn hash_key(key: impl Iterator<Item = u64>) -> u64 {
    key.fold(0x9e37_79b9_7f4a_7c15, |h: u64, word| {
        let h = (h ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^ (h >> 32)
    })
}

/// The tag of a hash. It is odd, so it never equals the 0 of a free slot.
fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// A hash table of rows, keyed by the masked key.
pub struct Hash {
    /// The bits of a row's key that are hashed.
    mask: Vec<u64>,
    /// The first bucket of each chain; their number is a power of two.
    pub buckets: Vec<Bucket>,
    /// Buckets for overflow chains.
    pub overflow: Vec<Bucket>,
    /// For each bucket (those of `overflow` last), the row in each slot.
    ids: Vec<[RowId; SLOTS]>,
    /// How many buckets of `overflow` are in use.
    used: usize,
    /// Number of rows.
    pub rows: usize,
}

/// The number of a bucket (those of `overflow` follow the others), and a slot in it.
type Position = (usize, usize);

impl Hash {
    /// An empty table with a fixed number of buckets.
    pub fn new(mask: &[u64], buckets: usize, overflow: usize, advise: Advise) -> Hash {
        let empty = |buckets: usize| -> Vec<Bucket> {
            let all: Vec<Bucket> = (0..buckets).map(|_| Bucket::default()).collect();
            advise(Region::of(&all, true));
            all
        };
        let ids = vec![[0; SLOTS]; buckets + overflow];
        Hash {
            mask: mask.to_vec(),
            buckets: empty(buckets),
            overflow: empty(overflow),
            ids,
            used: 0,
            rows: 0,
        }
    }

    /// A larger table that holds the rows of this one and the row `more`.
    pub fn larger(&self, rows: &Rows, more: RowId, advise: Advise) -> Hash {
        let all: Vec<RowId> = self.all().chain([more]).collect();
        let (mut buckets, mut overflow) = (self.buckets.len(), self.overflow.len());
        loop {
            // A high load needs more buckets. Rows whose masked keys are equal share a chain whatever the number of buckets is, so at a
            // low load only overflow buckets help. At four rows for each bucket of six slots, one bucket in nine overflows; the new
            // table has about that many overflow buckets.
            (buckets, overflow) = match all.len() > buckets * 3 {
                true => (buckets * 2, buckets / 4),
                false => (buckets, overflow * 2),
            };
            overflow = overflow.max(4);
            let mut larger = Hash::new(&self.mask, buckets, overflow, advise);
            if all.iter().all(|id| larger.insert(rows, *id)) {
                return larger;
            }
        }
    }

    fn bucket(&self, number: usize) -> &Bucket {
        self.buckets.get(number).unwrap_or_else(|| &self.overflow[number - self.buckets.len()])
    }

    /// The number of the next bucket in the overflow chain.
    fn next(&self, number: usize) -> Option<usize> {
        match self.bucket(number).overflow.load(Relaxed) {
            0 => None,
            more => Some(self.buckets.len() + more as usize - 1),
        }
    }

    fn hash(&self, rows: &Rows, id: RowId) -> u64 {
        hash_key((0..self.mask.len()).map(|at| rows.word(id, row::KEY + at) & self.mask[at]))
    }

    /// Adds a row. Returns false, and changes nothing, if the chain is full and no overflow bucket is left.
    pub fn insert(&mut self, rows: &Rows, id: RowId) -> bool {
        let hash = self.hash(rows, id);
        let mut number = hash as usize & (self.buckets.len() - 1);
        loop {
            let bucket = self.bucket(number);
            if let Some(slot) = (0..SLOTS).find(|slot| bucket.tags[*slot].load(Relaxed) == 0) {
                self.publish((number, slot), rows, id, tag_of(hash));
                return true;
            }
            number = match self.next(number) {
                Some(next) => next,
                None if self.used == self.overflow.len() => return false,
                None => {
                    self.used += 1;
                    let added = self.buckets.len() + self.used - 1;
                    self.publish((added, 0), rows, id, tag_of(hash));
                    self.bucket(number).overflow.store(self.used as u32, Release);
                    return true;
                }
            };
        }
    }

    /// Writes the row's address, then the tag. A lookup reads the tag first, so it never sees a tag without its row.
    fn publish(&mut self, (number, slot): Position, rows: &Rows, id: RowId, tag: u16) {
        self.ids[number][slot] = id;
        self.rows += 1;
        let bucket = self.bucket(number);
        bucket.rows[slot].store(rows.address(id) as *mut u64, Release);
        bucket.tags[slot].store(tag, Release);
    }

    /// The row with this key for which `is` holds.
    pub fn find(&self, key: &[u64], is: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let hash = hash_key(key.iter().zip(&self.mask).map(|(word, mask)| word & mask));
        self.position(hash, is).map(|(number, slot)| self.ids[number][slot])
    }

    /// The number of rows that a lookup of this key has to compare: those in its chain with an equal tag.
    pub fn candidates(&self, key: &[u64]) -> usize {
        let mut candidates = 0;
        self.find(key, |_| {
            candidates += 1;
            false
        });
        candidates
    }

    /// Puts row `new` into the slot of row `old`, which has the same key.
    pub fn replace(&mut self, rows: &Rows, old: RowId, new: RowId) {
        if let Some((number, slot)) = self.position(self.hash(rows, old), |id| id == old) {
            self.ids[number][slot] = new;
            self.bucket(number).rows[slot].store(rows.address(new) as *mut u64, Release);
        }
    }

    /// Removes a row. Its memory must be retired.
    pub fn remove(&mut self, rows: &Rows, old: RowId) {
        if let Some((number, slot)) = self.position(self.hash(rows, old), |id| id == old) {
            self.bucket(number).tags[slot].store(0, Release);
            self.rows -= 1;
        }
    }

    fn position(&self, hash: u64, mut is: impl FnMut(RowId) -> bool) -> Option<Position> {
        let mut number = hash as usize & (self.buckets.len() - 1);
        loop {
            let bucket = self.bucket(number);
            let mut found = |slot: &usize| {
                bucket.tags[*slot].load(Relaxed) == tag_of(hash) && is(self.ids[number][*slot])
            };
            if let Some(slot) = (0..SLOTS).find(&mut found) {
                return Some((number, slot));
            }
            number = self.next(number)?;
        }
    }

    /// All rows, in the order of the buckets.
    pub fn all(&self) -> impl Iterator<Item = RowId> {
        let used = (0..self.buckets.len()).chain((0..self.used).map(|n| self.buckets.len() + n));
        used.flat_map(move |number| {
            let bucket = self.bucket(number);
            let taken = (0..SLOTS).filter(|slot| bucket.tags[*slot].load(Relaxed) != 0);
            taken.map(move |slot| self.ids[number][slot])
        })
    }
}
