//! Hash tables for what a compiler looks up all the time: numbers of nodes, and names.
//!
//! The standard library's hash withstands keys that somebody chooses to make tables slow. A program that does so harms only
//! whoever compiles it, and that hash took a fifth of the time of `strait check`. This one is that of rustc: a rotation, an
//! exclusive or and a multiplication for each eight bytes.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A table by keys that nobody chooses against it.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;
/// A set of such keys.
pub type Set<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// The hash so far.
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

    /// Tables look at the low bits first, and a multiplication leaves most in the high ones.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
