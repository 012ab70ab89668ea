//! A map as bytes, in the layouts of the manifest.
//!
//! Keys and values may be shorter than those of the map. They are padded with zeros at the end, as C pads a struct.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::error::Context;
use crate::port::memory::Mapping;
use crate::sys::{self, MapInfo};
use crate::{Error, Result};

/// The kinds of map that compiled programs use; the numbers are those of `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// A hash table.
    Hash,
    /// An array, indexed by a `u32`.
    Array,
    /// A hash table with a value for each CPU.
    PerCpuHash,
    /// An array with a value for each CPU.
    PerCpuArray,
    /// A longest-prefix-match trie. Its key begins with a `u32` prefix length in native order.
    LpmTrie,
    /// Another kind of map, by its number.
    Other(u32),
}

/// An open map.
#[derive(Debug)]
pub struct Map {
    name: String,
    fd: OwnedFd,
    info: MapInfo,
}

impl Map {
    /// Opens a map from its descriptor.
    pub(super) fn new(name: &str, fd: OwnedFd) -> Result<Self> {
        let info = sys::map_info(fd.as_fd()).context(|| format!("inspect the map {name}"))?;
        Ok(Self { name: name.to_owned(), fd, info })
    }

    /// Opens a map by the kernel's number. `name` is its whole name, of which the kernel keeps 15 characters; a map of another name is not found.
    pub fn numbered(name: &str, number: u32) -> Result<Self> {
        let not_found = || Error::NotFound(format!("map `{name}` of number {number}"));
        let map = Self::new(name, sys::map_by_id(number).map_err(|_| not_found())?)?;
        let kept = name.as_bytes().iter().take(map.info.name.len() - 1).chain(&[0]);
        let same = kept.zip(&map.info.name).all(|(a, b)| a == b);
        if same { Ok(map) } else { Err(not_found()) }
    }

    /// The kernel's number of the map.
    pub fn number(&self) -> u32 {
        self.info.id
    }

    /// The name of the map.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of the map.
    pub fn kind(&self) -> MapKind {
        match self.info.kind {
            1 => MapKind::Hash,
            2 => MapKind::Array,
            5 => MapKind::PerCpuHash,
            6 => MapKind::PerCpuArray,
            11 => MapKind::LpmTrie,
            other => MapKind::Other(other),
        }
    }

    /// The descriptor of the map.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Size of a key in bytes.
    pub fn key_size(&self) -> usize {
        self.info.key_size as usize
    }

    /// Size of a value on one CPU in bytes.
    pub fn value_size(&self) -> usize {
        self.info.value_size as usize
    }

    /// Largest number of elements.
    pub fn max_entries(&self) -> u32 {
        self.info.max_entries
    }

    /// The value of a key. In a per-CPU map it is the concatenation of all CPUs' values; see [`Map::lookup_per_cpu`].
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = padded(key, self.key_size()).context(|| self.to("look up"))?;
        let mut value = vec![0; self.transfer_size()?];
        let found = sys::map_lookup(self.fd.as_fd(), &key, &mut value).context(|| self.to("look up"))?;
        Ok(found.then_some(value))
    }

    /// The values of a key in a per-CPU map, one for each possible CPU.
    pub fn lookup_per_cpu(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let stride = self.value_size().next_multiple_of(8);
        let cut = |all: Vec<u8>| all.chunks(stride).map(|one| one[..self.value_size()].to_vec()).collect();
        Ok(self.lookup(key)?.map(cut))
    }

    /// The sum over all CPUs of a value that consists of native `u64`s, such as `{packets, bytes}`. The result for an absent key is zeros.
    pub fn sum_u64(&self, key: &[u8]) -> Result<Vec<u64>> {
        let mut sum = vec![0u64; self.value_size() / 8];
        for cpu in self.lookup_per_cpu(key)?.unwrap_or_default() {
            for (total, word) in sum.iter_mut().zip(cpu.chunks_exact(8)) {
                *total = total.wrapping_add(word.try_into().map(u64::from_ne_bytes).unwrap_or(0));
            }
        }
        Ok(sum)
    }

    /// Creates or updates an element. In a per-CPU map the value is written for every CPU.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.update(key, value, 0).context(|| self.to("write to"))
    }

    /// Sets an element of a per-CPU map to the value on one CPU and to zeros on the others, so that the sum is the value.
    pub fn set_total(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = padded(key, self.key_size()).context(|| self.to("write to"))?;
        let mut all = value.to_vec();
        all.resize(self.transfer_size()?, 0);
        sys::map_update(self.fd.as_fd(), &key, &all, 0).context(|| self.to("write to"))
    }

    /// Creates an element. Returns `false` if the key exists.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self.update(key, value, 1) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            other => other.map(|()| true).context(|| self.to("insert into")),
        }
    }

    /// Appends a value to a queue.
    pub fn push(&self, value: &[u8]) -> Result<()> {
        sys::map_push(self.fd.as_fd(), value).context(|| self.to("append to"))
    }

    /// Takes the first value of a queue; `None` if it is empty.
    pub fn pop(&self) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_size()];
        let found = sys::map_pop(self.fd.as_fd(), &mut value).context(|| self.to("take from"))?;
        Ok(found.then_some(value))
    }

    /// Maps all elements of an array into this process. `stride` is the distance between them in bytes.
    pub(crate) fn mapping(&self, stride: usize) -> Result<Mapping> {
        let length = stride * self.max_entries() as usize;
        Mapping::new(Some(self.fd.as_fd()), 0, length).context(|| self.to("map"))
    }

    /// Deletes an element. Returns `false` if the key does not exist. (The kernel cannot delete from arrays.)
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let key = padded(key, self.key_size()).context(|| self.to("delete from"))?;
        sys::map_delete(self.fd.as_fd(), &key).context(|| self.to("delete from"))
    }

    /// All keys, in the kernel's order. During concurrent deletions some keys may occur twice or be missing.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; self.key_size()];
            let last = keys.last().map(Vec::as_slice);
            if !sys::map_next_key(self.fd.as_fd(), last, &mut next).context(|| self.to("iterate over"))? {
                return Ok(keys);
            }
            keys.push(next);
        }
    }

    /// All elements, as key and value.
    pub fn entries(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = Vec::new();
        for key in self.keys()? {
            if let Some(value) = self.lookup(&key)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }

    /// All values of an array, by index. It takes one system call.
    pub fn array(&self) -> Result<Vec<Vec<u8>>> {
        let (size, count) = (self.value_size(), self.max_entries());
        let mut keys = vec![0; self.key_size() * count as usize];
        let mut values = vec![0; size * count as usize];
        let found = sys::map_lookup_all(self.fd.as_fd(), &mut keys, &mut values, count)
            .context(|| self.to("read all elements of"))?;
        Ok(values.chunks_exact(size).take(found as usize).map(<[u8]>::to_vec).collect())
    }

    /// Replaces a value while its spin lock is held (Linux 5.1).
    pub fn set_locked(&self, key: &[u8], value: &[u8]) -> Result<()> {
        const LOCKED: u64 = 4; // BPF_F_LOCK
        self.update(key, value, LOCKED).context(|| self.to("write to"))
    }

    fn update(&self, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
        let (key, value) = (padded(key, self.key_size())?, padded(value, self.value_size())?);
        if !self.is_per_cpu() {
            return sys::map_update(self.fd.as_fd(), &key, &value, flags);
        }
        let mut one = value.into_owned();
        one.resize(self.value_size().next_multiple_of(8), 0);
        sys::map_update(self.fd.as_fd(), &key, &one.repeat(possible_cpus()?), flags)
    }

    fn is_per_cpu(&self) -> bool {
        matches!(self.kind(), MapKind::PerCpuArray | MapKind::PerCpuHash)
    }

    /// The number of bytes that the kernel copies for one value.
    fn transfer_size(&self) -> Result<usize> {
        match self.is_per_cpu() {
            false => Ok(self.value_size()),
            true => {
                let cpus = possible_cpus().context(|| "count the CPUs".into())?;
                Ok(self.value_size().next_multiple_of(8) * cpus)
            }
        }
    }

    fn to(&self, verb: &str) -> String {
        format!("{verb} the map {}", self.name)
    }
}

/// The number of possible CPUs (not those online), which determines the size of per-CPU values.
pub(super) fn possible_cpus() -> io::Result<usize> {
    aya::util::nr_cpus().map_err(|(_, error)| error)
}

fn padded(bytes: &[u8], size: usize) -> io::Result<Cow<'_, [u8]>> {
    match bytes.len() {
        n if n == size => Ok(Cow::Borrowed(bytes)),
        n if n < size => Ok(Cow::Owned([bytes, &vec![0; size - n]].concat())),
        n => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{n} bytes where {size} are the most"))),
    }
}
