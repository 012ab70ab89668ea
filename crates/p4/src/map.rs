//! Hash tables for frequent lookups in a compiler, by numbers of nodes and by names.
//!
//! The standard library's hash is safe against keys that somebody chooses so that they collide. A program with such
//! keys would only slow down its own compilation, and that hash took a fifth of the time of `strait check`. This one is
//! rustc's: a rotation, an exclusive or and a multiplication for each eight bytes.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A hash table with this hash.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;
/// A hash set with this hash.
pub type Set<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// The state of the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Hash tables use the low bits first, but a multiplication mixes the high bits best.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
