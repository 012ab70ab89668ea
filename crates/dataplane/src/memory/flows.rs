//! A table that learns: packets add entries to it while the host reads, changes and removes them ([`Structure::Flow`]).
//!
//! Its memory is made ahead and never grows. There is a row for each entry that the table may hold, and some more for rows that await their
//! grace period and for rows that workers keep at hand. The buckets are cache lines with eight slots. If all of them are taken, further rows
//! hang on the bucket in a chain.
//!
//! * Who adds or removes an entry holds the lock of its bucket for some nanoseconds: two workers that learn the same key at the same time
//!   agree who was first. Lookups take no lock.
//! * Rows are as small as they can be ([`abi::native::flow`]), because with millions of entries each cache line of one is a miss. This module
//!   gives and takes them in the shape of other tables' rows ([`abi::native::row`]).
//! * A row is written before it is published, and does not change until its grace period has ended: only its timer does. A lookup compares the
//!   whole key. It therefore never finds an old value under a new key. An entry stays in its slot, so a lookup never misses it.
//! * Workers take free rows from caches of their own, which they fill from a common list, some rows at a time. Only the host frees rows,
//!   after their grace period.
//! * The number of entries is one counter. An entry that would exceed the table's size is refused.
//! * The hash is keyed with random numbers, so that senders cannot choose keys that collide.
//!
//! `flows.h` in `emit` has the workers' part. `docs/tables.md` states why the order of the stores is right on any processor.
//!
//! [`Structure::Flow`]: abi::manifest::Structure::Flow

use std::hint::spin_loop;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use abi::native::flow::{self, FlowBucket, FlowCache, SLOTS, free};
use abi::native::row;

use super::region::{Advise, Host, Region};
use super::view::View;

/// Rows beyond the size that are at least there for deleted entries in their grace period.
const SPARE: u32 = 64;
/// The number of workers whose caches have rows of their own. With more workers, a table that is nearly full may refuse an entry too early.
const WORKERS: u32 = 64;
/// Words in a cache line.
const LINE: usize = 8;

/// The number of rows of a table of `size` entries.
pub fn rows(size: u64) -> u64 {
    size + u64::from(spare(size)) + u64::from(WORKERS) * flow::CACHE as u64
}

/// The number of rows that may await their grace period.
fn spare(size: u64) -> u32 {
    (size / 16) as u32 + SPARE
}

/// Why a row was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is an entry with this key.
    Exists,
    /// The table has as many entries as its size.
    Full,
    /// All free rows await their grace period.
    Waiting,
}

/// The common list of free rows, which workers and the host share. It is an array of words, as the program sees it.
pub struct FreeRows(Box<[AtomicU32]>);

impl FreeRows {
    fn new(total: u32) -> FreeRows {
        let words: Box<[AtomicU32]> = bytemuck::zeroed_slice_box(free::ROWS + total as usize);
        words[free::TOTAL].store(total, Relaxed);
        FreeRows(words)
    }

    /// The number of entries of the table.
    pub fn used(&self) -> u64 {
        self.0[free::USED].load(Relaxed).into()
    }

    fn locked<T>(&self, work: impl FnOnce(&[AtomicU32]) -> T) -> T {
        while self.0[free::LOCK].swap(1, Acquire) != 0 {
            spin_loop();
        }
        let result = work(&self.0);
        self.0[free::LOCK].store(0, Release);
        result
    }

    /// Takes a free row: one that was used before, or else the next one that never was.
    fn take(&self) -> Option<u32> {
        self.locked(|words| {
            let count = words[free::COUNT].load(Relaxed);
            if count > 0 {
                words[free::COUNT].store(count - 1, Relaxed);
                return Some(words[free::ROWS + count as usize - 1].load(Relaxed));
            }
            let next = words[free::UNUSED].load(Relaxed);
            (next < words[free::TOTAL].load(Relaxed)).then(|| {
                words[free::UNUSED].store(next + 1, Relaxed);
                next + 1
            })
        })
    }

    /// Gives rows back. Nobody reads them any more.
    fn give(&self, rows: impl Iterator<Item = u32>) {
        self.locked(|words| {
            for row in rows {
                let count = words[free::COUNT].load(Relaxed);
                words[free::ROWS + count as usize].store(row, Relaxed);
                words[free::COUNT].store(count + 1, Relaxed);
            }
        });
    }

    /// Gives back the rows that a worker kept at hand.
    pub fn give_back(&self, cache: &FlowCache) {
        let count = cache.count.swap(0, Relaxed) as usize;
        self.give(cache.rows[..count].iter().map(|row| row.load(Relaxed)));
    }
}

/// The buckets, rows and free rows of one table.
pub struct Flows {
    size: u64,
    /// Words of a row, in whole cache lines.
    stride: usize,
    /// The words of a key.
    key: usize,
    /// The word of a row where its key begins.
    head: usize,
    buckets: Box<[FlowBucket]>,
    /// The rows. Row 0 does not exist, because 0 stands for no row.
    rows: Box<[AtomicU64]>,
    /// The first word of `rows` at a cache line.
    first: usize,
    free: Arc<FreeRows>,
    /// The published root ([`abi::native::flow`]).
    root: Box<[u64]>,
    /// The number of rows that await their grace period.
    retired: u32,
    /// Whether the last write found all free rows in their grace period.
    waiting: bool,
    /// The row where the next search for expired entries begins.
    swept: u32,
}

impl Flows {
    /// An empty table for `size` entries with keys of `key` words, which have cells or not. Keys and action data together have `words` words.
    pub fn new(size: u64, key: usize, words: usize, cells: bool, host: Host) -> Flows {
        let total = rows(size) as usize;
        let head = flow::key(cells);
        let stride = (head + words).next_multiple_of(flow::ALIGN);
        let rows: Box<[AtomicU64]> = bytemuck::zeroed_slice_box((total + 1) * stride + LINE);
        let first = (rows.as_ptr() as usize).wrapping_neg() / 8 % LINE;
        let buckets = buckets(size, host.advise);
        (host.advise)(Region::of(&rows, false));
        let free = Arc::new(FreeRows::new(total as u32));
        let mut root = vec![0; flow::SECRETS];
        root[flow::BUCKETS] = buckets.as_ptr() as u64;
        root[flow::ROWS] = rows[first..].as_ptr() as u64;
        root[flow::COUNT] = buckets.len() as u64;
        root[flow::STRIDE] = stride as u64 * 8;
        root[flow::SIZE] = size;
        root[flow::FREE] = free.0.as_ptr() as u64;
        root.extend((0..1 + 2 * key).map(|_| (host.random)()));
        Flows {
            size,
            stride,
            key,
            head,
            buckets,
            rows,
            first,
            free,
            root: root.into_boxed_slice(),
            retired: 0,
            waiting: false,
            swept: 1,
        }
    }

    /// Publishes the table.
    pub fn publish(&self, view: &View<'_>) {
        view.table.index.store(self.root.as_ptr().cast_mut(), Release);
    }

    /// The list of free rows, for the workers' caches.
    pub fn free_rows(&self) -> Arc<FreeRows> {
        self.free.clone()
    }

    /// Whether the last write failed only because rows await their grace period.
    pub fn waits(&self) -> bool {
        self.waiting
    }

    /// Adds an entry of the host. It has no timer: only entries that packets add expire.
    pub fn insert(&mut self, words: &[u64]) -> Result<(), Refused> {
        self.waiting = false;
        let hash = self.hash(words);
        let bucket = self.bucket(hash);
        if self.find(words).is_some() {
            return Err(Refused::Exists);
        }
        if self.free.0[free::USED].fetch_add(1, Relaxed) >= self.size as u32 {
            self.free.0[free::USED].fetch_sub(1, Relaxed);
            return Err(Refused::Full);
        }
        let Some(id) = self.free.take() else {
            self.free.0[free::USED].fetch_sub(1, Relaxed);
            self.waiting = true;
            return Err(Refused::Waiting);
        };
        self.write(id, words, hash);
        lock(bucket);
        // A packet may have added the key meanwhile.
        let exists = self.find(words).is_some();
        if !exists {
            self.link(bucket, id, hash);
        }
        unlock(bucket);
        if exists {
            self.free.0[free::USED].fetch_sub(1, Relaxed);
            self.free.give([id].into_iter());
            return Err(Refused::Exists);
        }
        Ok(())
    }

    /// The row with this key.
    pub fn find(&self, words: &[u64]) -> Option<u32> {
        let (hash, key) = (self.hash(words), &words[row::KEY..row::KEY + self.key]);
        let bucket = self.bucket(hash);
        let same =
            |id: &u32| (self.head..).zip(key).all(|(at, word)| self.word(*id, at).load(Relaxed) == *word);
        let slots = (0..SLOTS).filter(|slot| bucket.tags[*slot].load(Acquire) == tag_of(hash));
        let in_slots = slots.map(|slot| bucket.rows[slot].load(Acquire)).find(|id| *id != 0 && same(id));
        in_slots.or_else(|| self.chain(bucket).find(same))
    }

    /// The rows in a bucket's chain.
    fn chain<'f>(&'f self, bucket: &'f FlowBucket) -> impl Iterator<Item = u32> + 'f {
        let first = Some(bucket.chain.load(Acquire)).filter(|id| *id != 0);
        std::iter::successors(first, |id| Some(self.next(*id)).filter(|next| *next != 0))
    }

    /// The next row in a chain, or 0.
    fn next(&self, id: u32) -> u32 {
        ((self.word(id, flow::LINK).load(Acquire) & !flow::LIVE) >> flow::NEXT) as u32
    }

    /// An entry in the shape of other tables' rows, without a rank and an age.
    pub fn read(&self, id: u32) -> Vec<u64> {
        let mut words = vec![0; row::KEY];
        words[row::CELL] = self.cell(id);
        words.extend((self.head..self.stride).map(|at| self.word(id, at).load(Relaxed)));
        words
    }

    /// The cell of a row's entry.
    fn cell(&self, id: u32) -> u64 {
        match self.has_cells() {
            true => self.word(id, flow::CELL).load(Relaxed),
            false => id.into(),
        }
    }

    /// Whether entries have cells.
    fn has_cells(&self) -> bool {
        self.head > flow::CELL
    }

    /// The rows of all entries, in the order of their numbers.
    pub fn entries(&self) -> impl Iterator<Item = Vec<u64>> {
        (1..=self.touched()).filter(|id| self.is_live(*id)).map(|id| self.read(id))
    }

    /// Calls `f` with the action data of each entry among the rows of some numbers.
    pub fn each_action_data(&self, rows: Range<u32>, f: &mut impl FnMut(&[u8])) {
        let first = self.head + self.key;
        let mut data = vec![0u64; self.stride - first];
        for id in rows.start.max(1)..rows.end.min(self.touched() + 1) {
            if self.is_live(id) {
                for (at, word) in data.iter_mut().enumerate() {
                    *word = self.word(id, first + at).load(Relaxed);
                }
                f(bytemuck::cast_slice(&data));
            }
        }
    }

    /// The number of rows that were ever used.
    fn touched(&self) -> u32 {
        self.free.0[free::UNUSED].load(Acquire)
    }

    /// Replaces the action data of an entry: a new row takes the place of the old one, with its cell and its timer. Returns the old row, and
    /// the cell that is free when its grace period has ended.
    pub fn replace(&mut self, words: &[u64]) -> Result<Option<(u32, u64)>, Refused> {
        self.waiting = false;
        let Some(new) = self.free.take() else {
            self.waiting = true;
            return Err(Refused::Waiting);
        };
        let hash = self.hash(words);
        self.write(new, words, hash);
        let bucket = self.bucket(hash);
        lock(bucket);
        let old = self.find(words);
        let mut replaced = None;
        if let Some(old) = old {
            replaced = Some((old, self.cell(new)));
            if self.has_cells() {
                self.word(new, flow::CELL).store(self.cell(old), Relaxed);
            }
            self.word(new, flow::TIMER).store(self.word(old, flow::TIMER).load(Relaxed), Relaxed);
            self.word(new, flow::LINK).store(live(self.next(old), hash), Release);
            match bucket.rows.iter().find(|slot| slot.load(Relaxed) == old) {
                Some(slot) => slot.store(new, Release),
                None => self.relink(bucket, old, new),
            }
            self.word(old, flow::LINK).fetch_and(!flow::LIVE, Release);
        }
        unlock(bucket);
        match replaced {
            Some(_) => self.retired += 1,
            None => self.free.give([new].into_iter()),
        }
        Ok(replaced)
    }

    /// Removes the entry with this key. Returns its row and its cell.
    pub fn remove(&mut self, words: &[u64]) -> Option<(u32, u64)> {
        let id = self.find(words)?;
        self.unlink(id).then(|| (id, self.cell(id)))
    }

    /// Removes the entries whose time has passed among the next `count` rows. `times` has the time of each profile, or `u64::MAX`. Returns the
    /// number of rows that it searched, and the rows and cells of those entries. The search stops early if many rows await their grace period,
    /// so that packets always find free rows.
    pub fn expire(&mut self, now: u64, times: &[u64; 256], count: u64) -> (u64, Vec<(u32, u64)>) {
        let mut found = Vec::new();
        let touched = self.touched();
        for searched in 0..count.min(touched.into()) {
            if self.retired >= spare(self.size) {
                return (searched, found);
            }
            if self.swept > touched {
                self.swept = 1;
            }
            found.extend(self.expire_row(self.swept, now, times));
            self.swept += 1;
        }
        (count, found)
    }

    fn expire_row(&mut self, id: u32, now: u64, times: &[u64; 256]) -> Option<(u32, u64)> {
        // Only the host ends an entry, so the row is this entry's until the end of this function.
        if !self.is_live(id) {
            return None;
        }
        let timer = self.word(id, flow::TIMER).load(Relaxed);
        if timer & flow::TIMED == 0 {
            return None;
        }
        let since = (timer & !flow::TIMED) >> flow::PROFILE_BITS;
        if since.saturating_add(times[timer as u8 as usize]) > now {
            return None;
        }
        // A worker that restarts the timer at this moment keeps the entry.
        let stopped = self.word(id, flow::TIMER).compare_exchange(timer, 0, AcqRel, Relaxed);
        stopped.ok().and_then(|_| self.take_live(id))
    }

    /// Removes a row if it is an entry. Returns it with its cell.
    fn take_live(&mut self, id: u32) -> Option<(u32, u64)> {
        (self.is_live(id) && self.unlink(id)).then(|| (id, self.cell(id)))
    }

    /// Whether a row is an entry.
    fn is_live(&self, id: u32) -> bool {
        self.word(id, flow::LINK).load(Acquire) & flow::LIVE != 0
    }

    /// Makes an entry unfindable. Returns false if it was not in its bucket. The row may be used again after a grace period.
    fn unlink(&mut self, id: u32) -> bool {
        let bucket = self.bucket(self.word(id, flow::LINK).load(Relaxed) as u32);
        lock(bucket);
        let slot = (0..SLOTS).find(|slot| bucket.rows[*slot].load(Relaxed) == id);
        let found = match slot {
            Some(slot) => {
                bucket.tags[slot].store(0, Release);
                bucket.rows[slot].store(0, Release);
                true
            }
            None => {
                let chained = self.chain(bucket).any(|row| row == id);
                if chained {
                    self.relink(bucket, id, self.next(id));
                }
                chained
            }
        };
        if found {
            // The next row of a chain remains, for lookups that have come to this row.
            self.word(id, flow::LINK).fetch_and(!flow::LIVE, Release);
        }
        unlock(bucket);
        if found {
            self.free.0[free::USED].fetch_sub(1, Relaxed);
            self.retired += 1;
        }
        found
    }

    /// Puts `new` (a row or 0) in the place of `old` in a bucket's chain.
    fn relink(&self, bucket: &FlowBucket, old: u32, new: u32) {
        if bucket.chain.load(Relaxed) == old {
            return bucket.chain.store(new, Release);
        }
        if let Some(before) = self.chain(bucket).find(|id| self.next(*id) == old) {
            let link = self.word(before, flow::LINK);
            link.store(live(new, link.load(Relaxed) as u32), Release);
        }
    }

    /// Frees a row whose grace period has ended. `cell` is its cell from now on.
    pub fn release(&mut self, id: u32, cell: u64) {
        if self.has_cells() {
            self.word(id, flow::CELL).store(cell, Relaxed);
        }
        self.retired = self.retired.saturating_sub(1);
        self.free.give([id].into_iter());
    }

    /// Writes the words of a row that nobody reads. It keeps its cell.
    fn write(&self, id: u32, words: &[u64], hash: u32) {
        for (at, word) in (self.head..).zip(&words[row::KEY..]) {
            self.word(id, at).store(*word, Relaxed);
        }
        self.word(id, flow::TIMER).store(0, Relaxed);
        self.word(id, flow::LINK).store(hash.into(), Relaxed);
        // A row has the cell of its number until an entry is changed, which exchanges two cells. Row 0 does not exist.
        if self.cell(id) == 0 {
            self.word(id, flow::CELL).store(id.into(), Relaxed);
        }
    }

    /// Publishes a written row in a bucket that is locked.
    fn link(&self, bucket: &FlowBucket, id: u32, hash: u32) {
        let link = self.word(id, flow::LINK);
        match (0..SLOTS).find(|slot| bucket.tags[*slot].load(Relaxed) == 0) {
            Some(slot) => {
                link.store(live(0, hash), Release);
                bucket.rows[slot].store(id, Release);
                bucket.tags[slot].store(tag_of(hash), Release);
            }
            None => {
                link.store(live(bucket.chain.load(Relaxed), hash), Release);
                bucket.chain.store(id, Release);
            }
        }
    }

    fn word(&self, id: u32, at: usize) -> &AtomicU64 {
        &self.rows[self.first + id as usize * self.stride + at]
    }

    fn bucket(&self, hash: u32) -> &FlowBucket {
        &self.buckets[((u64::from(hash) * self.root[flow::COUNT]) >> 32) as usize]
    }

    /// The hash of a row's key: multiply-shift with a random factor for each half of a word, of which the upper half is strongly universal
    /// (Thorup, High Speed Hashing for Integers and Strings, section 3.5). `hash_flow` in `flows.h` is the same in C.
    fn hash(&self, words: &[u64]) -> u32 {
        let secrets = &self.root[flow::SECRETS..];
        let halves =
            words[row::KEY..row::KEY + self.key].iter().flat_map(|word| [word & 0xffff_ffff, word >> 32]);
        let sum = halves
            .zip(&secrets[1..])
            .fold(secrets[0], |sum, (half, factor)| sum.wrapping_add(half.wrapping_mul(*factor)));
        (sum >> 32) as u32
    }
}

/// The link of an entry.
fn live(next: u32, hash: u32) -> u64 {
    flow::LIVE | u64::from(next) << flow::NEXT | u64::from(hash)
}

/// The entries of a bucket on average, with the table full. Of Poisson-distributed ones, two of a hundred hang on a chain.
const LOAD: u64 = 5;

/// The buckets of an empty table for `size` entries.
fn buckets(size: u64, advise: Advise) -> Box<[FlowBucket]> {
    let all: Box<[FlowBucket]> = (0..size.div_ceil(LOAD).max(1)).map(|_| FlowBucket::default()).collect();
    advise(Region::of(&all, true));
    all
}

/// The tag of a hash. It is odd, so it never equals the 0 of a free slot.
fn tag_of(hash: u32) -> u16 {
    hash as u16 | 1
}

/// Takes the lock of a bucket. Whoever holds it, holds it for some nanoseconds.
fn lock(bucket: &FlowBucket) {
    while bucket.lock.swap(1, Acquire) != 0 {
        spin_loop();
    }
}

fn unlock(bucket: &FlowBucket) {
    bucket.lock.store(0, Release);
}
