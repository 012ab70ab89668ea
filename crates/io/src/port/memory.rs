//! Memory that is shared with the kernel. It is mapped once, and accessed by offset.
//!
//! A module with `unsafe`. Its invariants: A mapping lives as long as its value. Every access is checked against the length of the mapping.
//! Memory that the kernel may change concurrently is accessed as atomics or copied through raw pointers, and never borrowed.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A mapping of shared memory.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to the value, and all access is by copy or by atomics.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a descriptor, from `offset` on. Without a descriptor, maps new memory.
    pub fn new(of: Option<BorrowedFd<'_>>, offset: u64, length: usize) -> io::Result<Mapping> {
        Mapping::with_access(of, offset, length, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn with_access(
        of: Option<BorrowedFd<'_>>,
        offset: u64,
        length: usize,
        access: libc::c_int,
    ) -> io::Result<Mapping> {
        let flags = match of {
            Some(_) => libc::MAP_SHARED | libc::MAP_POPULATE,
            None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
        };
        let fd = of.map_or(-1, |fd| fd.as_raw_fd());
        // SAFETY: the kernel chooses the place; nothing that exists is replaced.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, fd, offset as libc::off_t) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), length })
    }

    /// The address of the mapping, for the kernel.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.length), "outside of the mapping");
        // SAFETY: within the mapping, by the line above.
        unsafe { self.start.add(offset) }
    }

    /// A word that the kernel may change at any time.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "not where a word is");
        // SAFETY: within the mapping, aligned, and alive as long as `self`; only atomics touch such words.
        unsafe { &*self.at(offset, 4).cast::<AtomicU32>() }
    }

    /// Like [`Mapping::word`], for a word of 64 bits.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "not where a word is");
        // SAFETY: within the mapping, aligned, and alive as long as `self`; only atomics touch such words.
        unsafe { &*self.at(offset, 8).cast::<AtomicU64>() }
    }

    /// Copies bytes from the mapping.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) {
        let from = self.at(offset, to.len());
        // SAFETY: both ends are that long, and a mapping is never part of a Rust slice.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies bytes into the mapping.
    pub fn copy_in(&self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: both ends are that long, and a mapping is never part of a Rust slice.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Reads a small value that the kernel wrote before another word. The caller has loaded that word with acquire.
    pub fn read<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.copy_out(offset, &mut bytes);
        bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `new`, unmapped once, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// A mapping of memory that only the kernel writes.
#[derive(Debug)]
pub struct ReadOnly(Mapping);

impl ReadOnly {
    /// Maps `length` bytes of a descriptor, from `offset` on.
    pub fn new(of: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<ReadOnly> {
        Mapping::with_access(Some(of), offset, length, libc::PROT_READ).map(ReadOnly)
    }

    /// Loads a word that the kernel may change at any time. What the kernel wrote before the word can be read afterwards.
    pub fn word(&self, offset: usize) -> u32 {
        after(self.0.word(offset).load(Ordering::Relaxed))
    }

    /// Like [`ReadOnly::word`], for a word of 64 bits.
    pub fn long(&self, offset: usize) -> u64 {
        after(self.0.long(offset).load(Ordering::Relaxed))
    }

    /// Copies bytes from the mapping.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) {
        self.0.copy_out(offset, to);
    }
}

/// Orders a load from memory that this process cannot write before what follows. Of such memory std promises relaxed loads only (std::sync::atomic,
/// "Atomic accesses to read-only memory"), and a fence makes them acquire loads.
fn after<T>(loaded: T) -> T {
    fence(Ordering::Acquire);
    loaded
}

/// Size of a page of memory in bytes.
pub fn page() -> usize {
    // SAFETY: it takes a number and returns one.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
