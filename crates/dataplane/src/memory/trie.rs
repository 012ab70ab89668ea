//! Longest-prefix match over keys of any width: the first 24 bits index an array, as in DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998), and
//! what is longer hangs below in a trie of 8 bits a step, whose nodes are compressed by bitmaps as a poptrie's are (Asai, Ohara,
//! SIGCOMM 2015). A subtree of at most four prefixes is one cache line that is compared at once.
//!
//! An IPv4 route of up to 24 bits is found by one access, an IPv6 route of 48 bits mostly by five. Blocks are written once: a change
//! makes a new block and publishes it by one store of a pointer; the old one is freed when no burst can hold it.
//! docs/tables.md has the measurements that led here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use abi::native::lpm::{self, GROUP, Line, POINTERS};

use super::{Advise, Piece, Retired};

/// Bits that index the root.
const ROOT: u32 = 24;
/// Prefixes that a list holds.
const LIST: usize = lpm::LIST;
/// Bits of a prefix that a list can hold.
const LIST_BITS: u32 = 64;

/// What a block is made of.
pub type Block = Vec<Line>;

/// A prefix: its significant bytes, and its length in bits.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'k> {
    /// Network order; bits behind the length are zero. At least three bytes.
    pub bytes: &'k [u8],
    /// Bits.
    pub length: u32,
}

impl Prefix<'_> {
    /// Its first 24 bits.
    fn slot(&self) -> u32 {
        self.bytes[..3].iter().fold(0, |slot, byte| slot << 8 | u32::from(*byte))
    }

    fn byte(&self, depth: usize) -> u8 {
        self.bytes.get(depth).copied().unwrap_or(0)
    }

    /// The 64 bits behind so many bytes.
    fn behind(&self, depth: usize) -> u64 {
        (depth..depth + 8).fold(0, |bits, at| bits << 8 | u64::from(self.byte(at)))
    }
}

/// The trie, and what the program sees of it.
pub struct Trie {
    /// For each slot the value of the longest prefix of at most 24 bits, twice; or the number of its hook, twice, and 1.
    root: Box<[AtomicU32]>,
    /// Where something hangs below, or did: the value, and a pointer. An address space of which only the beginning is ever touched.
    hooks: Box<[AtomicU64]>,
    /// Hooks by their slots. A slot keeps its hook.
    hooked: HashMap<u32, u32>,
    /// Length of the prefix that each slot's value is from, 0 for none.
    lengths: Vec<u8>,
    /// Values of prefixes of 1 to 24 bits, by [`short`].
    short: HashMap<u32, u32>,
    /// The value of the empty prefix, or 0.
    fallback: u32,
    below: HashMap<u32, Below>,
    advise: Advise,
    /// What has been replaced.
    pub gone: Vec<Retired>,
}

/// A key of `short`.
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
    /// An empty one.
    pub fn new(advise: Advise) -> Trie {
        let root: Box<[AtomicU32]> = bytemuck::zeroed_slice_box(1 << ROOT);
        advise(Piece::of(&root, false));
        Trie {
            root,
            advise,
            hooks: bytemuck::zeroed_slice_box(2 << ROOT),
            hooked: HashMap::new(),
            lengths: vec![0; 1 << ROOT],
            short: HashMap::new(),
            fallback: 0,
            below: HashMap::new(),
            gone: Vec::new(),
        }
    }

    /// The words that the program begins a look-up with: see [`lpm`].
    pub fn words(&self) -> [u64; 3] {
        [self.root.as_ptr() as u64, self.hooks.as_ptr() as u64, u64::from(self.fallback)]
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: Prefix<'_>) -> Option<u32> {
        match prefix.length {
            0 => Some(self.fallback).filter(|v| *v != 0),
            1..=ROOT => self.short.get(&short(prefix.slot(), prefix.length)).copied(),
            _ => self.below.get(&prefix.slot()).and_then(|below| below.get(prefix, 3)),
        }
    }

    /// Adds a prefix with its value (not 0); the value that it has already, if it is there. The value of the empty prefix is one of
    /// [`Trie::words`].
    pub fn insert(&mut self, prefix: Prefix<'_>, value: u32) -> Option<u32> {
        self.put(prefix, value, false)
    }

    /// Gives a prefix another value (not 0), and gives the one that it had.
    pub fn set(&mut self, prefix: Prefix<'_>, value: u32) -> Option<u32> {
        self.put(prefix, value, true)
    }

    fn put(&mut self, prefix: Prefix<'_>, value: u32, replace: bool) -> Option<u32> {
        let slot = prefix.slot();
        match prefix.length {
            0 => {
                let old = Some(self.fallback).filter(|v| *v != 0);
                self.fallback = if old.is_none() || replace { value } else { self.fallback };
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
                self.paint(slot, prefix.length, value, prefix.length);
                old
            }
            _ => {
                let old = match self.below.entry(slot) {
                    Entry::Occupied(mut below) => {
                        let to = Put { value, replace };
                        below.get_mut().put(prefix, 3, to, &mut self.gone)
                    }
                    Entry::Vacant(none) => {
                        none.insert(Below::of(prefix, 3, value));
                        None
                    }
                };
                self.publish(slot);
                old
            }
        }
    }

    /// Removes a prefix and gives its value.
    pub fn remove(&mut self, prefix: Prefix<'_>) -> Option<u32> {
        let slot = prefix.slot();
        match prefix.length {
            0 => Some(std::mem::take(&mut self.fallback)).filter(|v| *v != 0),
            1..=ROOT => {
                let old = self.short.remove(&short(slot, prefix.length));
                if old.is_some() {
                    let (length, value) = self.parent(slot, prefix.length);
                    self.paint(slot, prefix.length, value, length);
                }
                old
            }
            _ => {
                let below = self.below.get_mut(&slot)?;
                let old = below.remove(prefix, 3, &mut self.gone);
                let empty = below.is_empty();
                let below = if empty { self.below.remove(&slot) } else { None };
                self.publish(slot);
                if let Some(below) = below {
                    below.give_up(&mut self.gone);
                }
                old
            }
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        let mut old = std::mem::replace(self, Trie::new(self.advise));
        self.gone = std::mem::take(&mut old.gone);
        old.below.into_values().for_each(|below| below.give_up(&mut self.gone));
        self.gone.push(Retired::Root(old.root, old.hooks));
    }

    /// Calls `f` for the bytes, the length and the value of every prefix; keys have so many bytes.
    pub fn each(&self, bytes: usize, f: &mut impl FnMut(&[u8], u32, u32)) {
        let mut key = vec![0; bytes.max(3)];
        if self.fallback != 0 {
            f(&key, 0, self.fallback);
        }
        for (packed, value) in &self.short {
            put_slot(&mut key, packed >> 5);
            f(&key, packed & 31, *value);
        }
        for (slot, below) in &self.below {
            put_slot(&mut key, *slot);
            below.each(&mut key, 3, f);
            key[3..].fill(0);
        }
    }

    /// The longest prefix shorter than `length` that covers a slot: its length and value, or 0 and 0.
    fn parent(&self, slot: u32, length: u32) -> (u32, u32) {
        let find = |l: u32| self.short.get(&short(slot & mask(l), l)).map(|v| (l, *v));
        (1..length).rev().find_map(find).unwrap_or((0, 0))
    }

    /// Gives the slots below a prefix a value, where theirs is not from a longer one; it is from one of `from` bits.
    fn paint(&mut self, slot: u32, length: u32, value: u32, from: u32) {
        let first = slot as usize;
        for at in first..first + (1 << (ROOT - length)) {
            if u32::from(self.lengths[at]) <= length {
                self.lengths[at] = from as u8;
                match self.root[at].load(Relaxed) {
                    entry if entry & 1 == 0 => self.root[at].store(value << 1, Release),
                    entry => self.hooks[entry as usize & !1].store(value.into(), Release),
                }
            }
        }
    }

    /// Shows what hangs below a slot.
    fn publish(&mut self, slot: u32) {
        let pointer = self.below.get(&slot).map_or(0, Below::pointer);
        let next = self.hooked.len() as u32;
        let hook = *self.hooked.entry(slot).or_insert(next);
        let at = 2 * hook as usize;
        self.hooks[at + 1].store(pointer, Release);
        let entry = self.root[slot as usize].load(Relaxed);
        if entry & 1 == 0 {
            self.hooks[at].store((entry >> 1).into(), Relaxed);
            self.root[slot as usize].store(hook << 1 | 1, Release);
        }
    }
}

/// A value for a prefix; whether it takes the place of one that is there.
#[derive(Clone, Copy)]
struct Put {
    value: u32,
    replace: bool,
}

/// A subtree.
enum Below {
    List(List),
    Node(Box<Node>),
}

/// At most [`LIST`] prefixes: their bits behind the subtree's depth, their lengths there, their values; longest first.
struct List {
    prefixes: Vec<(u64, u32, u32)>,
    block: Block,
}

/// 256 ways.
struct Node {
    /// Prefixes that end here: byte, bits of it, value; shortest first.
    ends: Vec<(u8, u8, u32)>,
    /// By their bytes, in order.
    kids: Vec<(u8, Below)>,
    block: Block,
}

impl Below {
    /// One with one prefix.
    fn of(prefix: Prefix<'_>, depth: usize, value: u32) -> Below {
        let left = prefix.length - 8 * depth as u32;
        if left <= LIST_BITS {
            return Below::List(List::new(vec![(prefix.behind(depth), left, value)]));
        }
        let kid = Below::of(prefix, depth + 1, value);
        Below::Node(Box::new(Node::new(Vec::new(), vec![(prefix.byte(depth), kid)])))
    }

    /// As programs know it: an address, and 1 more for a list.
    fn pointer(&self) -> u64 {
        match self {
            Below::List(list) => list.block.as_ptr() as u64 | lpm::IS_LIST,
            Below::Node(node) => node.block.as_ptr() as u64,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Below::List(list) => list.prefixes.is_empty(),
            Below::Node(node) => node.ends.is_empty() && node.kids.is_empty(),
        }
    }

    fn get(&self, prefix: Prefix<'_>, depth: usize) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        match self {
            Below::List(list) => {
                let is = |p: &&(u64, u32, u32)| p.0 == prefix.behind(depth) && p.1 == left;
                list.prefixes.iter().find(is).map(|p| p.2)
            }
            Below::Node(node) if left <= 8 => {
                let is = |e: &&(u8, u8, u32)| e.0 == prefix.byte(depth) && u32::from(e.1) == left;
                node.ends.iter().find(is).map(|e| e.2)
            }
            Below::Node(node) => {
                node.kid(prefix.byte(depth)).ok().and_then(|at| node.kids[at].1.get(prefix, depth + 1))
            }
        }
    }

    /// Puts a value and gives the old one. Its pointer may be another one then.
    fn put(&mut self, prefix: Prefix<'_>, depth: usize, to: Put, gone: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        if let Below::List(list) = self {
            let bits = prefix.behind(depth);
            if let Some(known) = list.prefixes.iter_mut().find(|p| p.0 == bits && p.1 == left) {
                let old = known.2;
                if to.replace {
                    known.2 = to.value;
                    list.rebuild(gone);
                }
                return Some(old);
            }
            if list.prefixes.len() < LIST && left <= LIST_BITS {
                list.add(bits, left, to.value, gone);
                return None;
            }
            self.split(depth, gone);
        }
        let Below::Node(node) = self else { return None };
        node.put(prefix, depth, to, gone)
    }

    /// A list becomes a node.
    fn split(&mut self, depth: usize, gone: &mut Vec<Retired>) {
        let Below::List(list) = self else { return };
        let mut node = Node { ends: Vec::new(), kids: Vec::new(), block: Block::new() };
        for (bits, left, value) in std::mem::take(&mut list.prefixes) {
            let mut bytes = vec![0; depth];
            bytes.extend(bits.to_be_bytes());
            let prefix = Prefix { bytes: &bytes, length: 8 * depth as u32 + left };
            node.put(prefix, depth, Put { value, replace: true }, &mut Vec::new());
        }
        gone.push(Retired::Lines(std::mem::take(&mut list.block)));
        *self = Below::Node(Box::new(node));
    }

    fn remove(&mut self, prefix: Prefix<'_>, depth: usize, gone: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        match self {
            Below::List(list) => {
                let bits = prefix.behind(depth);
                let at = list.prefixes.iter().position(|p| p.0 == bits && p.1 == left)?;
                let (_, _, old) = list.prefixes.remove(at);
                list.rebuild(gone);
                Some(old)
            }
            Below::Node(node) => node.remove(prefix, depth, gone),
        }
    }

    fn each(&self, key: &mut [u8], depth: usize, f: &mut impl FnMut(&[u8], u32, u32)) {
        let here = 8 * depth as u32;
        match self {
            Below::List(list) => {
                for (bits, left, value) in &list.prefixes {
                    let bytes = bits.to_be_bytes();
                    let room = (key.len() - depth).min(8);
                    key[depth..depth + room].copy_from_slice(&bytes[..room]);
                    f(key, here + left, *value);
                    key[depth..].fill(0);
                }
            }
            Below::Node(node) => {
                for (byte, bits, value) in &node.ends {
                    key[depth] = *byte;
                    f(key, here + u32::from(*bits), *value);
                }
                for (byte, kid) in &node.kids {
                    key[depth] = *byte;
                    kid.each(key, depth + 1, f);
                }
                key[depth..].fill(0);
            }
        }
    }

    /// All its blocks are of no use any more.
    fn give_up(self, gone: &mut Vec<Retired>) {
        match self {
            Below::List(list) => gone.push(Retired::Lines(list.block)),
            Below::Node(node) => {
                gone.push(Retired::Lines(node.block));
                node.kids.into_iter().for_each(|(_, kid)| kid.give_up(gone));
            }
        }
    }
}

impl List {
    fn new(prefixes: Vec<(u64, u32, u32)>) -> List {
        let mut list = List { prefixes, block: Block::new() };
        list.rebuild(&mut Vec::new());
        list
    }

    /// One more. Where it is not longer than the others, the block takes it as it is: a bit says that it is there, and is set last.
    fn add(&mut self, bits: u64, left: u32, value: u32, gone: &mut Vec<Retired>) {
        let at = self.prefixes.len();
        let fits = self.prefixes.last().is_none_or(|last| last.1 >= left);
        self.prefixes.push((bits, left, value));
        if !fits || self.block.is_empty() {
            return self.rebuild(gone);
        }
        let words = &self.block[0].0;
        let add = |word: usize, more: u64| words[word].store(words[word].load(Relaxed) | more, Relaxed);
        words[at].store(bits, Relaxed);
        add(lpm::LIST_VALUES + at / 2, u64::from(value) << (32 * (at % 2)));
        add(lpm::LIST_SHIFTS, u64::from(LIST_BITS - left) << (8 * at));
        words[lpm::LIST_USED].fetch_or(1 << at, Release);
    }

    fn rebuild(&mut self, gone: &mut Vec<Retired>) {
        self.prefixes.sort_unstable_by_key(|p| std::cmp::Reverse(p.1));
        let mut words = [0u64; 8];
        for (i, (bits, left, value)) in self.prefixes.iter().enumerate() {
            words[i] = *bits;
            words[lpm::LIST_VALUES + i / 2] |= u64::from(*value) << (32 * (i % 2));
            words[lpm::LIST_SHIFTS] |= u64::from(LIST_BITS - left) << (8 * i);
            words[lpm::LIST_USED] |= 1 << i;
        }
        let block = vec![Line(words.map(AtomicU64::new))];
        gone.push(Retired::Lines(std::mem::replace(&mut self.block, block)));
    }
}

impl Node {
    fn new(ends: Vec<(u8, u8, u32)>, kids: Vec<(u8, Below)>) -> Node {
        let mut node = Node { ends, kids, block: Block::new() };
        node.rebuild(&mut Vec::new());
        node
    }

    fn kid(&self, byte: u8) -> Result<usize, usize> {
        self.kids.binary_search_by_key(&byte, |(b, _)| *b)
    }

    fn put(&mut self, prefix: Prefix<'_>, depth: usize, to: Put, gone: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        let byte = prefix.byte(depth);
        if left > 8 {
            return match self.kid(byte) {
                Ok(at) => {
                    let before = self.kids[at].1.pointer();
                    let old = self.kids[at].1.put(prefix, depth + 1, to, gone);
                    if self.kids[at].1.pointer() != before {
                        self.publish(at);
                    }
                    old
                }
                Err(at) => {
                    self.kids.insert(at, (byte, Below::of(prefix, depth + 1, to.value)));
                    self.rebuild(gone);
                    None
                }
            };
        }
        let end = (byte, left as u8);
        let old = match self.ends.iter_mut().find(|e| (e.0, e.1) == end) {
            Some(known) if !to.replace => return Some(known.2),
            Some(known) => Some(std::mem::replace(&mut known.2, to.value)),
            None => {
                let at = self.ends.partition_point(|e| e.1 <= end.1);
                self.ends.insert(at, (end.0, end.1, to.value));
                None
            }
        };
        self.rebuild(gone);
        old
    }

    fn remove(&mut self, prefix: Prefix<'_>, depth: usize, gone: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        let byte = prefix.byte(depth);
        if left > 8 {
            let at = self.kid(byte).ok()?;
            let old = self.kids[at].1.remove(prefix, depth + 1, gone)?;
            if self.kids[at].1.is_empty() {
                let (_, kid) = self.kids.remove(at);
                self.rebuild(gone);
                kid.give_up(gone);
            } else {
                self.publish(at);
            }
            return Some(old);
        }
        let at = self.ends.iter().position(|e| e.0 == byte && u32::from(e.1) == left)?;
        let (_, _, old) = self.ends.remove(at);
        self.rebuild(gone);
        Some(old)
    }

    /// Shows a child that has another block now.
    fn publish(&self, at: usize) {
        let word = self.block[0].0[POINTERS].load(Relaxed) as usize / 8 + at;
        self.block[word / 8].0[word % 8].store(self.kids[at].1.pointer(), Release);
    }

    /// The block anew.
    fn rebuild(&mut self, gone: &mut Vec<Retired>) {
        let mut words = Vec::with_capacity(lpm::NODE_HEAD + 8 + self.ends.len() + self.kids.len());
        words.resize(lpm::NODE_HEAD, 0u64);
        self.values(&mut words);
        let pointers = words.len() as u64 * 8;
        for (byte, _) in &self.kids {
            words[usize::from(*byte) / 64 * GROUP + lpm::KIDS] |= 1 << (byte % 64);
        }
        let mut before = 0;
        for group in words[..lpm::NODE_HEAD].chunks_mut(GROUP) {
            group[lpm::BEFORE] |= before << 32;
            group[POINTERS] = pointers;
            before += u64::from(group[lpm::KIDS].count_ones());
        }
        words.extend(self.kids.iter().map(|(_, kid)| kid.pointer()));
        let line =
            |chunk: &[u64]| Line(std::array::from_fn(|i| AtomicU64::new(chunk.get(i).copied().unwrap_or(0))));
        let block = words.chunks(8).map(line).collect();
        gone.push(Retired::Lines(std::mem::replace(&mut self.block, block)));
    }

    /// The runs, and their values behind the head. Each group of 64 begins a run of its own.
    fn values(&self, words: &mut Vec<u64>) {
        let mut slots = [0u32; 256];
        for (byte, bits, value) in &self.ends {
            let first = usize::from(*byte);
            slots[first..first + (1 << (8 - bits))].fill(*value);
        }
        let mut values: Vec<u32> = Vec::with_capacity(8 + 2 * self.ends.len());
        for (group, slots) in slots.chunks(64).enumerate() {
            words[group * GROUP + lpm::BEFORE] = values.len() as u64;
            let mut runs = 1;
            values.push(slots[0]);
            if !self.ends.is_empty() {
                for (at, pair) in slots.windows(2).enumerate().filter(|(_, pair)| pair[0] != pair[1]) {
                    runs |= 1 << (at + 1);
                    values.push(pair[1]);
                }
            }
            words[group * GROUP + lpm::RUNS] = runs;
        }
        words.extend(values.chunks(2).map(|v| u64::from(v[0]) | v.get(1).map_or(0, |v| u64::from(*v) << 32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that a look-up in the blocks gives: what programs do, in Rust.
    fn look_up(trie: &Trie, key: &[u8]) -> u32 {
        let slot = Prefix { bytes: key, length: 24 }.slot();
        let entry = trie.root[slot as usize].load(Relaxed);
        let value = match entry & 1 {
            0 => entry >> 1,
            _ => trie.hooks[entry as usize & !1].load(Relaxed) as u32,
        };
        let mut best = if value == 0 { trie.fallback } else { value };
        let (mut below, mut depth) = (trie.below.get(&slot), 3);
        while let Some(at) = below {
            let key = Prefix { bytes: key, length: 0 };
            match at {
                Below::List(list) => {
                    let word = |i: usize| list.block[0].0[i].load(Relaxed);
                    let hit = (0..LIST).find(|i| {
                        let shift = word(lpm::LIST_SHIFTS) >> (8 * i) & 0xff;
                        word(lpm::LIST_USED) >> i & 1 == 1 && (key.behind(depth) ^ word(*i)) >> shift == 0
                    });
                    if let Some(i) = hit {
                        best = (word(lpm::LIST_VALUES + i / 2) >> (32 * (i % 2))) as u32;
                    }
                    below = None;
                }
                Below::Node(node) => {
                    let word = |i: usize| node.block[i / 8].0[i % 8].load(Relaxed);
                    let byte = key.byte(depth);
                    let (group, bit) = (usize::from(byte) / 64 * GROUP, byte % 64);
                    let upto = u64::MAX >> (63 - bit);
                    let before = word(group + lpm::BEFORE);
                    let run = (before as u32 + (word(group + lpm::RUNS) & upto).count_ones() - 1) as usize;
                    let value = (word(lpm::NODE_HEAD + run / 2) >> (32 * (run % 2))) as u32;
                    best = if value == 0 { best } else { value };
                    let kids = word(group + lpm::KIDS);
                    below = None;
                    if kids >> bit & 1 == 1 {
                        let kid = (before >> 32) as usize + (kids & upto).count_ones() as usize - 1;
                        assert_eq!(
                            word(word(group + POINTERS) as usize / 8 + kid),
                            node.kids[kid].1.pointer()
                        );
                        below = Some(&node.kids[kid].1);
                    }
                    depth += 1;
                }
            }
        }
        best
    }

    /// Prefixes of all lengths over few bits, so that they nest; after each change look-ups are as a list of all prefixes says.
    #[test]
    fn look_ups_are_those_of_a_plain_list() {
        let mut trie = Trie::new(|_| {});
        let mut plain: Vec<(u128, u32, u32)> = Vec::new();
        let mut seed = 7u64;
        let mut dice = move |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        for turn in 1..6000u32 {
            let length = [0, 13, 15, 16, 20, 23, 24, 25, 28, 31, 32, 33, 40, 47, 48, 64, 88, 96, 128]
                [dice(19) as usize];
            // Every byte is one of four.
            let bits = (0..16).fold(0u128, |bits, _| bits << 8 | [0u128, 1, 0x80, 0xff][dice(4) as usize]);
            let bits = if length == 0 { 0 } else { bits & u128::MAX << (128 - length) };
            let bytes = bits.to_be_bytes();
            let prefix = Prefix { bytes: &bytes, length };
            let known = plain.iter().position(|p| (p.0, p.1) == (bits, length));
            if dice(3) == 0 {
                let old = known.map(|at| plain.swap_remove(at).2);
                assert_eq!(trie.remove(prefix), old);
            } else {
                let old = known.map(|at| plain.swap_remove(at).2);
                if dice(2) == 0 && old.is_some() {
                    assert_eq!(trie.insert(prefix, turn), old);
                    plain.push((bits, length, old.unwrap_or(0)));
                } else {
                    plain.push((bits, length, turn));
                    assert_eq!(trie.set(prefix, turn), old);
                }
            }
            let key = (0..16).fold(0u128, |bits, _| bits << 8 | [0u128, 1, 0x80, 0xff][dice(4) as usize]);
            for key in [key, bits] {
                let covers = |p: &&(u128, u32, u32)| p.1 == 0 || (key ^ p.0) >> (128 - p.1) == 0;
                let expected = plain.iter().filter(covers).max_by_key(|p| p.1).map_or(0, |p| p.2);
                assert_eq!(look_up(&trie, &key.to_be_bytes()), expected, "turn {turn}, key {key:x}");
            }
            trie.gone.clear();
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
