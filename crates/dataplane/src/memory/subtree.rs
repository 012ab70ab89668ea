//! The part of a trie below the root ([`super::trie`]): lists and nodes.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use abi::native::lpm::{self, GROUP, Line, POINTERS};

use super::retired::Retired;

/// The largest number of prefixes in a list.
const LIST: usize = lpm::LIST;
/// The largest number of bits of a prefix in a list, counted from the list's depth.
const LIST_BITS: u32 = 64;

/// The memory of a list or a node, as the program reads it ([`abi::native::lpm`]).
pub type Block = Vec<Line>;

/// A prefix of a key.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'k> {
    /// The key in network order, at least three bytes. Bits after the prefix are zero, and so are missing bytes.
    pub bytes: &'k [u8],
    /// The length in bits.
    pub length: u32,
}

impl Prefix<'_> {
    /// The root slot of the prefix: its first 24 bits.
    pub fn slot(&self) -> u32 {
        self.bytes[..3].iter().fold(0, |slot, byte| slot << 8 | u32::from(*byte))
    }

    /// Byte number `depth` of the key, or 0 where the key is shorter.
    pub fn byte(&self, depth: usize) -> u8 {
        self.bytes.get(depth).copied().unwrap_or(0)
    }

    /// The 64 bits that follow the first `depth` bytes.
    pub fn bits_from(&self, depth: usize) -> u64 {
        (depth..depth + 8).fold(0, |bits, at| bits << 8 | u64::from(self.byte(at)))
    }
}

/// A value to write, and whether it replaces an existing value of the same prefix.
#[derive(Clone, Copy)]
pub struct Put {
    pub value: u32,
    pub replace: bool,
}

/// All prefixes longer than 24 bits that begin with the same bytes.
pub enum Subtree {
    List(List),
    Node(Box<Node>),
}

/// At most [`LIST`] prefixes.
pub struct List {
    /// The longest prefix first. Each is: its bits from the list's depth on, left-aligned; their number; the value.
    prefixes: Vec<(u64, u32, u32)>,
    pub block: Block,
}

/// One step of the trie: 256 branches, one for each value of the key's next byte.
pub struct Node {
    /// The prefixes that end within this byte, shortest first: the byte, how many of its bits count, the value.
    ends: Vec<(u8, u8, u32)>,
    /// The children, sorted by their bytes.
    pub children: Vec<(u8, Subtree)>,
    pub block: Block,
}

impl Subtree {
    /// A subtree with one prefix, at a depth of so many key bytes.
    pub fn of(prefix: Prefix<'_>, depth: usize, value: u32) -> Subtree {
        let left = prefix.length - 8 * depth as u32;
        if left <= LIST_BITS {
            return Subtree::List(List::new(vec![(prefix.bits_from(depth), left, value)]));
        }
        let child = Subtree::of(prefix, depth + 1, value);
        Subtree::Node(Box::new(Node::new(Vec::new(), vec![(prefix.byte(depth), child)])))
    }

    /// The published pointer: the address of the block, plus [`lpm::IS_LIST`] for a list.
    pub fn pointer(&self) -> u64 {
        match self {
            Subtree::List(list) => list.block.as_ptr() as u64 | lpm::IS_LIST,
            Subtree::Node(node) => node.block.as_ptr() as u64,
        }
    }

    /// Whether the subtree has no prefixes.
    pub fn is_empty(&self) -> bool {
        match self {
            Subtree::List(list) => list.prefixes.is_empty(),
            Subtree::Node(node) => node.ends.is_empty() && node.children.is_empty(),
        }
    }

    /// The value of exactly this prefix. `depth` is the number of key bytes above the subtree.
    pub fn get(&self, prefix: Prefix<'_>, depth: usize) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        match self {
            Subtree::List(list) => {
                let is = |p: &&(u64, u32, u32)| p.0 == prefix.bits_from(depth) && p.1 == left;
                list.prefixes.iter().find(is).map(|p| p.2)
            }
            Subtree::Node(node) if left <= 8 => {
                let is = |e: &&(u8, u8, u32)| e.0 == prefix.byte(depth) && u32::from(e.1) == left;
                node.ends.iter().find(is).map(|e| e.2)
            }
            Subtree::Node(node) => {
                node.child(prefix.byte(depth)).ok().and_then(|at| node.children[at].1.get(prefix, depth + 1))
            }
        }
    }

    /// Writes a value, and returns the old one. The pointer of the subtree may have changed afterwards.
    pub fn put(
        &mut self,
        prefix: Prefix<'_>,
        depth: usize,
        to: Put,
        retired: &mut Vec<Retired>,
    ) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        if let Subtree::List(list) = self {
            let bits = prefix.bits_from(depth);
            if let Some(known) = list.prefixes.iter_mut().find(|p| p.0 == bits && p.1 == left) {
                let old = known.2;
                if to.replace {
                    known.2 = to.value;
                    list.rebuild(retired);
                }
                return Some(old);
            }
            if list.prefixes.len() < LIST && left <= LIST_BITS {
                list.add(bits, left, to.value, retired);
                return None;
            }
            self.split(depth, retired);
        }
        let Subtree::Node(node) = self else { return None };
        node.put(prefix, depth, to, retired)
    }

    /// Turns a list into a node, because it is full or because a prefix is too long for a list.
    fn split(&mut self, depth: usize, retired: &mut Vec<Retired>) {
        let Subtree::List(list) = self else { return };
        let mut node = Node { ends: Vec::new(), children: Vec::new(), block: Block::new() };
        for (bits, left, value) in std::mem::take(&mut list.prefixes) {
            let mut bytes = vec![0; depth];
            bytes.extend(bits.to_be_bytes());
            let prefix = Prefix { bytes: &bytes, length: 8 * depth as u32 + left };
            node.put(prefix, depth, Put { value, replace: true }, &mut Vec::new());
        }
        retired.push(Retired::Lines(std::mem::take(&mut list.block)));
        *self = Subtree::Node(Box::new(node));
    }

    /// Removes a prefix, and returns its value.
    pub fn remove(&mut self, prefix: Prefix<'_>, depth: usize, retired: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        match self {
            Subtree::List(list) => {
                let bits = prefix.bits_from(depth);
                let at = list.prefixes.iter().position(|p| p.0 == bits && p.1 == left)?;
                let (_, _, old) = list.prefixes.remove(at);
                list.rebuild(retired);
                Some(old)
            }
            Subtree::Node(node) => node.remove(prefix, depth, retired),
        }
    }

    /// Calls `f` for every prefix, as [`Trie::each`](super::trie::Trie::each) does. `key` holds the bytes above the subtree, then zeros.
    pub fn each(&self, key: &mut [u8], depth: usize, f: &mut impl FnMut(&[u8], u32, u32)) {
        let here = 8 * depth as u32;
        match self {
            Subtree::List(list) => {
                for (bits, left, value) in &list.prefixes {
                    let bytes = bits.to_be_bytes();
                    let room = (key.len() - depth).min(8);
                    key[depth..depth + room].copy_from_slice(&bytes[..room]);
                    f(key, here + left, *value);
                    key[depth..].fill(0);
                }
            }
            Subtree::Node(node) => {
                for (byte, bits, value) in &node.ends {
                    key[depth] = *byte;
                    f(key, here + u32::from(*bits), *value);
                }
                for (byte, child) in &node.children {
                    key[depth] = *byte;
                    child.each(key, depth + 1, f);
                }
                key[depth..].fill(0);
            }
        }
    }

    /// Retires all blocks of a subtree that lookups no longer find.
    pub fn retire(self, retired: &mut Vec<Retired>) {
        match self {
            Subtree::List(list) => retired.push(Retired::Lines(list.block)),
            Subtree::Node(node) => {
                retired.push(Retired::Lines(node.block));
                node.children.into_iter().for_each(|(_, child)| child.retire(retired));
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

    /// Adds a prefix. If it is not longer than the others, it goes into the next free place of the published block; lookups see it when
    /// its bit in [`lpm::LIST_USED`] is set. Otherwise the block is rebuilt.
    fn add(&mut self, bits: u64, left: u32, value: u32, retired: &mut Vec<Retired>) {
        let at = self.prefixes.len();
        let fits = self.prefixes.last().is_none_or(|last| last.1 >= left);
        self.prefixes.push((bits, left, value));
        if !fits || self.block.is_empty() {
            return self.rebuild(retired);
        }
        let words = &self.block[0].0;
        let add = |word: usize, more: u64| words[word].store(words[word].load(Relaxed) | more, Relaxed);
        words[at].store(bits, Relaxed);
        add(lpm::LIST_VALUES + at / 2, u64::from(value) << (32 * (at % 2)));
        add(lpm::LIST_SHIFTS, u64::from(LIST_BITS - left) << (8 * at));
        words[lpm::LIST_USED].fetch_or(1 << at, Release);
    }

    /// Builds a new block, and retires the old one.
    fn rebuild(&mut self, retired: &mut Vec<Retired>) {
        self.prefixes.sort_unstable_by_key(|p| std::cmp::Reverse(p.1));
        let mut words = [0u64; 8];
        for (i, (bits, left, value)) in self.prefixes.iter().enumerate() {
            words[i] = *bits;
            words[lpm::LIST_VALUES + i / 2] |= u64::from(*value) << (32 * (i % 2));
            words[lpm::LIST_SHIFTS] |= u64::from(LIST_BITS - left) << (8 * i);
            words[lpm::LIST_USED] |= 1 << i;
        }
        let block = vec![Line(words.map(AtomicU64::new))];
        retired.push(Retired::Lines(std::mem::replace(&mut self.block, block)));
    }
}

impl Node {
    fn new(ends: Vec<(u8, u8, u32)>, children: Vec<(u8, Subtree)>) -> Node {
        let mut node = Node { ends, children, block: Block::new() };
        node.rebuild(&mut Vec::new());
        node
    }

    fn child(&self, byte: u8) -> Result<usize, usize> {
        self.children.binary_search_by_key(&byte, |(b, _)| *b)
    }

    fn put(&mut self, prefix: Prefix<'_>, depth: usize, to: Put, retired: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        let byte = prefix.byte(depth);
        if left > 8 {
            return match self.child(byte) {
                Ok(at) => {
                    let before = self.children[at].1.pointer();
                    let old = self.children[at].1.put(prefix, depth + 1, to, retired);
                    if self.children[at].1.pointer() != before {
                        self.publish(at);
                    }
                    old
                }
                Err(at) => {
                    self.children.insert(at, (byte, Subtree::of(prefix, depth + 1, to.value)));
                    self.rebuild(retired);
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
        self.rebuild(retired);
        old
    }

    fn remove(&mut self, prefix: Prefix<'_>, depth: usize, retired: &mut Vec<Retired>) -> Option<u32> {
        let left = prefix.length - 8 * depth as u32;
        let byte = prefix.byte(depth);
        if left > 8 {
            let at = self.child(byte).ok()?;
            let old = self.children[at].1.remove(prefix, depth + 1, retired)?;
            if self.children[at].1.is_empty() {
                let (_, child) = self.children.remove(at);
                self.rebuild(retired);
                child.retire(retired);
            } else {
                self.publish(at);
            }
            return Some(old);
        }
        let at = self.ends.iter().position(|e| e.0 == byte && u32::from(e.1) == left)?;
        let (_, _, old) = self.ends.remove(at);
        self.rebuild(retired);
        Some(old)
    }

    /// Publishes the new block of a child.
    fn publish(&self, at: usize) {
        let word = self.block[0].0[POINTERS].load(Relaxed) as usize / 8 + at;
        self.block[word / 8].0[word % 8].store(self.children[at].1.pointer(), Release);
    }

    /// Builds a new block, and retires the old one.
    fn rebuild(&mut self, retired: &mut Vec<Retired>) {
        let mut words = Vec::with_capacity(lpm::NODE_HEADER + 8 + self.ends.len() + self.children.len());
        words.resize(lpm::NODE_HEADER, 0u64);
        self.values(&mut words);
        let pointers = words.len() as u64 * 8;
        for (byte, _) in &self.children {
            words[usize::from(*byte) / 64 * GROUP + lpm::CHILDREN] |= 1 << (byte % 64);
        }
        let mut before = 0;
        for group in words[..lpm::NODE_HEADER].chunks_mut(GROUP) {
            group[lpm::BASES] |= before << 32;
            group[POINTERS] = pointers;
            before += u64::from(group[lpm::CHILDREN].count_ones());
        }
        words.extend(self.children.iter().map(|(_, child)| child.pointer()));
        let line =
            |chunk: &[u64]| Line(std::array::from_fn(|i| AtomicU64::new(chunk.get(i).copied().unwrap_or(0))));
        let block = words.chunks(8).map(line).collect();
        retired.push(Retired::Lines(std::mem::replace(&mut self.block, block)));
    }

    /// Writes the runs into the header, and appends their values. A run does not extend over two groups.
    fn values(&self, words: &mut Vec<u64>) {
        let mut slots = [0u32; 256];
        for (byte, bits, value) in &self.ends {
            let first = usize::from(*byte);
            slots[first..first + (1 << (8 - bits))].fill(*value);
        }
        let mut values: Vec<u32> = Vec::with_capacity(8 + 2 * self.ends.len());
        for (group, slots) in slots.chunks(64).enumerate() {
            words[group * GROUP + lpm::BASES] = values.len() as u64;
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
