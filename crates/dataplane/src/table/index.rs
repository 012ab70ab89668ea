//! Tuple-space search (Srinivasan, Suri and Varghese, SIGCOMM 1999): one hash table for each distinct mask.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use abi::manifest::KeyField;
use abi::{Bits, MatchValue};

use super::{Handle, Row};

/// The index of a table: finds the slot of the best row for a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The tuples, best rank first.
    tuples: Vec<Tuple>,
}

/// The rows with equal masks.
#[derive(Clone, Debug)]
struct Tuple {
    masks: Vec<Mask>,
    /// Each rank and its number of rows, best rank first. The first rank is an upper bound for the tuple's rows.
    ranks: Vec<(i64, usize)>,
    /// The rows by the hash of their masked key, best first.
    buckets: HashMap<u64, Vec<Candidate>, BuildHasherDefault<Ready>>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    rank: i64,
    handle: Handle,
    slot: usize,
}

/// The bits of a field that are hashed.
#[derive(Clone, Debug, PartialEq)]
enum Mask {
    All,
    /// No bits: the field accepts any value, or it is a range, which no mask can express.
    Nothing,
    Some(Bits),
}

impl Mask {
    fn of(value: &MatchValue, width: u32) -> Mask {
        let some = |mask: Bits| match mask {
            m if m.is_zero() => Mask::Nothing,
            m if m == Bits::ones(width) => Mask::All,
            m => Mask::Some(m),
        };
        match value {
            MatchValue::Exact(_) | MatchValue::Optional(Some(_)) => Mask::All,
            MatchValue::Optional(None) | MatchValue::Range(..) => Mask::Nothing,
            MatchValue::Lpm(_, len) => some(Bits::prefix_mask(width, *len)),
            MatchValue::Ternary(_, mask) => some(mask.clone()),
        }
    }
}

impl Index {
    /// The slot of the best row for a key. `row` returns the row in a slot.
    pub fn find<'a>(
        &self,
        keys: &[KeyField],
        key: &[Bits],
        row: impl Fn(usize) -> Option<&'a Row>,
    ) -> Option<usize> {
        let mut best: Option<Candidate> = None;
        for tuple in &self.tuples {
            let ceiling = tuple.ranks.first().map_or(i64::MIN, |r| r.0);
            if best.is_some_and(|b| b.rank > ceiling) {
                break;
            }
            let Some(bucket) = tuple.buckets.get(&hash(&tuple.masks, key.iter())) else { continue };
            // A bucket is sorted, so the first row that matches is the best one of the tuple.
            let found = bucket.iter().find(|c| {
                let matches = |r: &Row| {
                    let fields = keys.iter().zip(&r.entry.matches).zip(key);
                    fields.into_iter().all(|((field, m), k)| field.matches(m, k))
                };
                row(c.slot).is_some_and(matches)
            });
            if let Some(c) = found.filter(|c| best.is_none_or(|b| c.before(&b))) {
                best = Some(*c);
            }
        }
        best.map(|c| c.slot)
    }

    /// Adds a row to the index.
    pub fn insert(
        &mut self,
        slot: usize,
        rank: i64,
        handle: Handle,
        values: &[MatchValue],
        keys: &[KeyField],
    ) {
        let masks = masks(values, keys);
        let at = match self.tuples.iter().position(|t| t.masks == masks) {
            Some(at) => at,
            None => {
                self.tuples.push(Tuple { masks, ranks: Vec::new(), buckets: HashMap::default() });
                self.tuples.len() - 1
            }
        };
        let tuple = &mut self.tuples[at];
        let candidate = Candidate { rank, handle, slot };
        let bucket = tuple.buckets.entry(hash(&tuple.masks, values.iter().map(pattern))).or_default();
        let place = bucket.partition_point(|c| c.before(&candidate));
        bucket.insert(place, candidate);
        match tuple.ranks.binary_search_by(|r| rank.cmp(&r.0)) {
            Ok(i) => tuple.ranks[i].1 += 1,
            Err(i) => tuple.ranks.insert(i, (rank, 1)),
        }
        self.sort();
    }

    /// Removes a row from the index.
    pub fn remove(&mut self, slot: usize, rank: i64, values: &[MatchValue], keys: &[KeyField]) {
        let masks = masks(values, keys);
        let Some(at) = self.tuples.iter().position(|t| t.masks == masks) else { return };
        let tuple = &mut self.tuples[at];
        let hash = hash(&tuple.masks, values.iter().map(pattern));
        if let Some(bucket) = tuple.buckets.get_mut(&hash) {
            bucket.retain(|c| c.slot != slot);
            if bucket.is_empty() {
                tuple.buckets.remove(&hash);
            }
        }
        if let Ok(i) = tuple.ranks.binary_search_by(|r| rank.cmp(&r.0)) {
            tuple.ranks[i].1 -= 1;
            if tuple.ranks[i].1 == 0 {
                tuple.ranks.remove(i);
            }
        }
        self.tuples.retain(|t| !t.ranks.is_empty());
        self.sort();
    }

    fn sort(&mut self) {
        self.tuples.sort_by_key(|t| std::cmp::Reverse(t.ranks.first().map(|r| r.0)));
    }
}

impl Candidate {
    /// Whether this row wins over another: a larger rank wins, then the older row.
    fn before(&self, other: &Candidate) -> bool {
        (other.rank, self.handle) < (self.rank, other.handle)
    }
}

fn masks(values: &[MatchValue], keys: &[KeyField]) -> Vec<Mask> {
    values.iter().zip(keys).map(|(value, key)| Mask::of(value, key.width)).collect()
}

/// The value that a key must have under the mask.
fn pattern(value: &MatchValue) -> &Bits {
    match value {
        MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => v,
        MatchValue::Lpm(v, _) | MatchValue::Ternary(v, _) | MatchValue::Range(v, _) => v,
        MatchValue::Optional(None) => &NOTHING,
    }
}

static NOTHING: std::sync::LazyLock<Bits> = std::sync::LazyLock::new(|| Bits::zero(1));

fn hash<'a>(masks: &[Mask], key: impl Iterator<Item = &'a Bits>) -> u64 {
    masks.iter().zip(key).fold(0x9e37_79b9_7f4a_7c15, |hash, (mask, value)| match mask {
        Mask::Nothing => hash,
        Mask::All => mix(hash, value),
        Mask::Some(mask) => mix(hash, &value.and(mask)),
    })
}

fn mix(hash: u64, value: &Bits) -> u64 {
    match value.to_u128() {
        Some(v) => step(step(hash, v as u64), (v >> 64) as u64),
        None => value.to_big().iter_u64_digits().fold(hash, step),
    }
}

/// One round of a multiplicative hash. Lookup results do not depend on its quality.
fn step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(29) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31)
}

/// A hasher for keys that are hashes already: it returns them as they are.
#[derive(Clone, Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |h, b| step(h, *b as u64));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
