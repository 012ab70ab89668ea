//! Longest-prefix match over keys of any width.
//!
//! The first 24 bits of a key index the *root*, an array of 2^24 slots, as in DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998). A slot holds
//! the value of the longest prefix of at most 24 bits that covers it. If longer prefixes begin with the same 24 bits, the slot refers to
//! a *link*, which holds that value and the address of a *subtree*. A subtree is one of:
//!
//! * a *list*: up to four prefixes in one cache line, which a lookup compares at once;
//! * a *node*: one step of a trie over the next 8 bits of the key. Bitmaps compress it as in a poptrie (Asai, Ohara, SIGCOMM 2015).
//!
//! A lookup finds an IPv4 route of up to 24 bits with one memory access, and an IPv6 route of 48 bits mostly with five. docs/tables.md
//! has the measurements that led to this design.
//!
//! [`super::subtree`] stores lists and nodes in *blocks*. A published block is not changed, with two exceptions that one store publishes: a list takes
//! a further prefix, and a node's pointer to a child is replaced. Every other change builds a new block, publishes its address and
//! retires the old block.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::region::{Advise, Region};
use super::retired::Retired;
use super::subtree::{Prefix, Put, Subtree};

/// The number of key bits that index the root.
const ROOT: u32 = 24;
/// A map from prefixes to values, in a form that the program can search. A value is a positive number; 0 means "no value".
pub struct Trie {
    /// The published root. A slot holds either a value shifted left by one, or the number of a link shifted left by one, plus 1.
    root: Box<[AtomicU32]>,
    /// The published links, two words each: the slot's value, and the address of the subtree or 0. The array has room for one link for
    /// each slot, but the operating system only commits the pages that are used.
    links: Box<[AtomicU64]>,
    /// The number of each slot's link. A slot that once had a link keeps it.
    link_of: HashMap<u32, u32>,
    /// For each slot, the length of the prefix that its value comes from; 0 if it has no value.
    lengths: Vec<u8>,
    /// The values of prefixes of 1 to 24 bits. The key is made by [`short`].
    short: HashMap<u32, u32>,
    /// The value of the empty prefix, or 0.
    empty_prefix: u32,
    /// The subtree of each slot that has one.
    subtrees: HashMap<u32, Subtree>,
    /// Memory that changes have replaced. The caller passes it to the reclaimer.
    pub retired: Vec<Retired>,
}

/// The key of a prefix in [`Trie::short`].
fn short(slot: u32, length: u32) -> u32 {
    slot << 5 | length
}

fn mask(length: u32) -> u32 {
    !(0xff_ffff >> length) & 0xff_ffff
}

fn put_slot(key: &mut [u8], slot: u32) {
    key[..3].copy_from_slice(&slot.to_be_bytes()[1..]);
}

impl Trie {
    /// A trie without prefixes.
    pub fn new(advise: Advise) -> Trie {
        let root: Box<[AtomicU32]> = bytemuck::zeroed_slice_box(1 << ROOT);
        advise(Region::of(&root, false));
        Trie {
            root,
            links: bytemuck::zeroed_slice_box(2 << ROOT),
            link_of: HashMap::new(),
            lengths: vec![0; 1 << ROOT],
            short: HashMap::new(),
            empty_prefix: 0,
            subtrees: HashMap::new(),
            retired: Vec::new(),
        }
    }

    /// The first three words of the root that the program reads: `ROOT`, `LINKS` and `EMPTY_PREFIX` of [`abi::native::lpm`].
    pub fn words(&self) -> [u64; 3] {
        [self.root.as_ptr() as u64, self.links.as_ptr() as u64, u64::from(self.empty_prefix)]
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: Prefix<'_>) -> Option<u32> {
        match prefix.length {
            0 => Some(self.empty_prefix).filter(|v| *v != 0),
            1..=ROOT => self.short.get(&short(prefix.slot(), prefix.length)).copied(),
            _ => self.subtrees.get(&prefix.slot()).and_then(|subtree| subtree.get(prefix, 3)),
        }
    }

    /// Adds a prefix with a value other than 0, and publishes it. If the prefix exists, changes nothing and returns its value. The value
    /// of the empty prefix is part of [`Trie::words`], which the caller publishes.
    pub fn insert(&mut self, prefix: Prefix<'_>, value: u32) -> Option<u32> {
        self.put(prefix, value, false)
    }

    /// Sets the value of a prefix to a value other than 0, and returns its old value. Adds the prefix if it does not exist.
    pub fn set(&mut self, prefix: Prefix<'_>, value: u32) -> Option<u32> {
        self.put(prefix, value, true)
    }

    fn put(&mut self, prefix: Prefix<'_>, value: u32, replace: bool) -> Option<u32> {
        let slot = prefix.slot();
        match prefix.length {
            0 => {
                let old = Some(self.empty_prefix).filter(|v| *v != 0);
                self.empty_prefix = if old.is_none() || replace { value } else { self.empty_prefix };
                old
            }
            1..=ROOT => {
                let old = match self.short.entry(short(slot, prefix.length)) {
                    Entry::Occupied(known) if !replace => return Some(*known.get()),
                    Entry::Occupied(mut known) => Some(known.insert(value)),
                    Entry::Vacant(none) => {
                        none.insert(value);
                        None
                    }
                };
                self.fill(slot, prefix.length, value, prefix.length);
                old
            }
            _ => {
                let old = match self.subtrees.entry(slot) {
                    Entry::Occupied(mut subtree) => {
                        let to = Put { value, replace };
                        subtree.get_mut().put(prefix, 3, to, &mut self.retired)
                    }
                    Entry::Vacant(none) => {
                        none.insert(Subtree::of(prefix, 3, value));
                        None
                    }
                };
                self.publish(slot);
                old
            }
        }
    }

    /// Removes a prefix, and returns its value.
    pub fn remove(&mut self, prefix: Prefix<'_>) -> Option<u32> {
        let slot = prefix.slot();
        match prefix.length {
            0 => Some(std::mem::take(&mut self.empty_prefix)).filter(|v| *v != 0),
            1..=ROOT => {
                let old = self.short.remove(&short(slot, prefix.length));
                if old.is_some() {
                    let (length, value) = self.parent(slot, prefix.length);
                    self.fill(slot, prefix.length, value, length);
                }
                old
            }
            _ => {
                let subtree = self.subtrees.get_mut(&slot)?;
                let old = subtree.remove(prefix, 3, &mut self.retired);
                let empty = subtree.is_empty();
                let subtree = if empty { self.subtrees.remove(&slot) } else { None };
                self.publish(slot);
                if let Some(subtree) = subtree {
                    subtree.retire(&mut self.retired);
                }
                old
            }
        }
    }

    /// Calls `f` for every prefix, with its bytes, its length in bits, and its value. Keys have `bytes` bytes.
    pub fn each(&self, bytes: usize, f: &mut impl FnMut(&[u8], u32, u32)) {
        let mut key = vec![0; bytes.max(3)];
        if self.empty_prefix != 0 {
            f(&key, 0, self.empty_prefix);
        }
        // In the order of the keys: a hash map has another one in each process.
        let mut short: Vec<_> = self.short.iter().collect();
        short.sort_unstable_by_key(|(packed, _)| **packed);
        for (packed, value) in short {
            put_slot(&mut key, packed >> 5);
            f(&key, packed & 31, *value);
        }
        let mut subtrees: Vec<_> = self.subtrees.iter().collect();
        subtrees.sort_unstable_by_key(|(slot, _)| **slot);
        for (slot, subtree) in subtrees {
            put_slot(&mut key, *slot);
            subtree.each(&mut key, 3, f);
            key[3..].fill(0);
        }
    }

    /// The length and the value of the longest prefix shorter than `length` that covers a slot; two zeros if there is none.
    fn parent(&self, slot: u32, length: u32) -> (u32, u32) {
        let find = |l: u32| self.short.get(&short(slot & mask(l), l)).map(|v| (l, *v));
        (1..length).rev().find_map(find).unwrap_or((0, 0))
    }

    /// Gives a value to all slots that a prefix covers, except those whose value comes from a longer prefix. `from` is the length of the
    /// prefix that the value belongs to.
    fn fill(&mut self, slot: u32, length: u32, value: u32, from: u32) {
        let first = slot as usize;
        for at in first..first + (1 << (ROOT - length)) {
            if u32::from(self.lengths[at]) <= length {
                self.lengths[at] = from as u8;
                match self.root[at].load(Relaxed) {
                    entry if entry & 1 == 0 => self.root[at].store(value << 1, Release),
                    entry => self.links[entry as usize & !1].store(value.into(), Release),
                }
            }
        }
    }

    /// Publishes the subtree of a slot. The first subtree of a slot also gets a link.
    fn publish(&mut self, slot: u32) {
        let pointer = self.subtrees.get(&slot).map_or(0, Subtree::pointer);
        let next = self.link_of.len() as u32;
        let link = *self.link_of.entry(slot).or_insert(next);
        let at = 2 * link as usize;
        self.links[at + 1].store(pointer, Release);
        let entry = self.root[slot as usize].load(Relaxed);
        if entry & 1 == 0 {
            self.links[at].store((entry >> 1).into(), Relaxed);
            self.root[slot as usize].store(link << 1 | 1, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use abi::native::lpm::{self, GROUP, LIST, POINTERS};

    use super::*;

    #[test]
    fn prefixes_are_listed_in_the_order_of_their_keys() {
        let mut trie = Trie::new(|_| ());
        // Of up to 24 bits, and longer ones: one for each slot, so that each has a subtree of its own.
        let mut all: Vec<([u8; 4], u32)> =
            (0..64u8).flat_map(|n| [([n, n, n, 0], 24), ([n, n, n, n], 32)]).collect();
        all.iter().zip(1..).for_each(|((bytes, length), value)| {
            trie.insert(Prefix { bytes, length: *length }, value);
        });
        let mut listed = Vec::new();
        trie.each(4, &mut |key, length, _| {
            listed.push((<[u8; 4]>::try_from(key).expect("four bytes"), length))
        });
        all.sort_by_key(|(bytes, length)| (*length, *bytes));
        assert_eq!(listed, all);
    }

    /// The value that a lookup finds in the blocks. It is the algorithm of the program, in Rust.
    fn lookup(trie: &Trie, key: &[u8]) -> u32 {
        let slot = Prefix { bytes: key, length: 24 }.slot();
        let entry = trie.root[slot as usize].load(Relaxed);
        let value = match entry & 1 {
            0 => entry >> 1,
            _ => trie.links[entry as usize & !1].load(Relaxed) as u32,
        };
        let mut best = if value == 0 { trie.empty_prefix } else { value };
        let (mut subtree, mut depth) = (trie.subtrees.get(&slot), 3);
        while let Some(at) = subtree {
            let key = Prefix { bytes: key, length: 0 };
            match at {
                Subtree::List(list) => {
                    let word = |i: usize| list.block[0].0[i].load(Relaxed);
                    let hit = (0..LIST).find(|i| {
                        let shift = word(lpm::LIST_SHIFTS) >> (8 * i) & 0xff;
                        word(lpm::LIST_USED) >> i & 1 == 1 && (key.bits_from(depth) ^ word(*i)) >> shift == 0
                    });
                    if let Some(i) = hit {
                        best = (word(lpm::LIST_VALUES + i / 2) >> (32 * (i % 2))) as u32;
                    }
                    subtree = None;
                }
                Subtree::Node(node) => {
                    let word = |i: usize| node.block[i / 8].0[i % 8].load(Relaxed);
                    let byte = key.byte(depth);
                    let (group, bit) = (usize::from(byte) / 64 * GROUP, byte % 64);
                    let upto = u64::MAX >> (63 - bit);
                    let before = word(group + lpm::BASES);
                    let run = (before as u32 + (word(group + lpm::RUNS) & upto).count_ones() - 1) as usize;
                    let value = (word(lpm::NODE_HEADER + run / 2) >> (32 * (run % 2))) as u32;
                    best = if value == 0 { best } else { value };
                    let children = word(group + lpm::CHILDREN);
                    subtree = None;
                    if children >> bit & 1 == 1 {
                        let child = (before >> 32) as usize + (children & upto).count_ones() as usize - 1;
                        assert_eq!(
                            word(word(group + POINTERS) as usize / 8 + child),
                            node.children[child].1.pointer()
                        );
                        subtree = Some(&node.children[child].1);
                    }
                    depth += 1;
                }
            }
        }
        best
    }

    /// The prefixes have all lengths and few distinct bytes, so that they nest. After each change a lookup must agree with a linear
    /// search over all prefixes.
    #[test]
    fn lookups_agree_with_a_linear_search() {
        let mut trie = Trie::new(|_| {});
        let mut plain: Vec<(u128, u32, u32)> = Vec::new();
        let mut seed = 7u64;
        let mut random = move |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        for turn in 1..6000u32 {
            let length = [0, 13, 15, 16, 20, 23, 24, 25, 28, 31, 32, 33, 40, 47, 48, 64, 88, 96, 128]
                [random(19) as usize];
            // Every byte is one of four.
            let bits = (0..16).fold(0u128, |bits, _| bits << 8 | [0u128, 1, 0x80, 0xff][random(4) as usize]);
            let bits = if length == 0 { 0 } else { bits & u128::MAX << (128 - length) };
            let bytes = bits.to_be_bytes();
            let prefix = Prefix { bytes: &bytes, length };
            let known = plain.iter().position(|p| (p.0, p.1) == (bits, length));
            if random(3) == 0 {
                let old = known.map(|at| plain.swap_remove(at).2);
                assert_eq!(trie.remove(prefix), old);
            } else {
                let old = known.map(|at| plain.swap_remove(at).2);
                if random(2) == 0 && old.is_some() {
                    assert_eq!(trie.insert(prefix, turn), old);
                    plain.push((bits, length, old.unwrap_or(0)));
                } else {
                    plain.push((bits, length, turn));
                    assert_eq!(trie.set(prefix, turn), old);
                }
            }
            let key = (0..16).fold(0u128, |bits, _| bits << 8 | [0u128, 1, 0x80, 0xff][random(4) as usize]);
            for key in [key, bits] {
                let covers = |p: &&(u128, u32, u32)| p.1 == 0 || (key ^ p.0) >> (128 - p.1) == 0;
                let expected = plain.iter().filter(covers).max_by_key(|p| p.1).map_or(0, |p| p.2);
                assert_eq!(lookup(&trie, &key.to_be_bytes()), expected, "turn {turn}, key {key:x}");
            }
            trie.retired.clear();
        }
        let mut listed = Vec::new();
        trie.each(16, &mut |key, length, value| {
            let bits = key.iter().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
            listed.push((bits, length, value));
        });
        listed.sort_unstable();
        plain.sort_unstable();
        assert_eq!(listed, plain);
    }
}
