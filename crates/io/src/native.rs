//! A P4 program as machine code in this process: loads it, and runs it on bursts of packets.
//!
//! A module with `unsafe`: `emit::native` generated the code that is called, for the manifest from which the memory was made. The code
//! accesses only that memory, the worker's own memory, and the packets' buffers with their headroom and tailroom.
#![allow(unsafe_code)]

pub mod guarded;
pub mod queues;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;

use abi::native::{Burst, DROPPED, PARTIAL, Packet, SENT};
use abi::{Bits, Manifest};
use std::sync::Arc;

use dataplane::memory::{Host, Region, Worker};
use dataplane::port::Offload;
use dataplane::{Memory, TableError};
use libloading::Library;

use crate::watch::Tap;
use crate::{Error, Result};

pub(crate) use crate::object::compiler;
pub use crate::object::{Object, Prepared, has_compiler};

/// Bytes before a packet, for headers that a program adds.
pub const HEADROOM: usize = 256;
/// Bytes after a packet. A program uses them if the headroom is exhausted.
pub const TAILROOM: usize = 256;

/// A loaded program and its memory.
pub struct NativeProgram {
    /// The entry point. It is dropped before the library, because it must not be called afterwards.
    burst: Burst,
    /// What a program with queues has besides.
    queues: Option<queues::Exports>,
    /// The library is dropped before its file: the loader identifies a library by its path, which is that of the descriptor.
    _library: Library,
    _file: File,
    memory: Arc<Memory>,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The object could not be compiled or loaded.
    #[error(transparent)]
    Object(#[from] Error),
    /// The program's own entries could not be inserted.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Size of a huge page in bytes if ordinary pages have 4096 (x86-64, and mostly aarch64).
const HUGE_PAGE: u64 = 1 << 21;

/// Asks for huge pages in a region, as far as it has whole ones. A kernel without huge pages ignores the advice; lookups are then slower.
fn huge_pages(region: Region) {
    let end = (region.start + region.length as u64) / HUGE_PAGE * HUGE_PAGE;
    let first = region.start.next_multiple_of(HUGE_PAGE);
    if first >= end {
        return;
    }
    // Written memory already has small pages, which Linux 6.1 and later can collapse into huge pages. Other memory gets huge pages when it
    // is first written.
    let more = if region.written { Some(libc::MADV_COLLAPSE) } else { None };
    for advice in [libc::MADV_HUGEPAGE].into_iter().chain(more) {
        // SAFETY: these are pages of the caller's, and neither advice changes what they hold.
        unsafe { libc::madvise(first as *mut libc::c_void, (end - first) as usize, advice) };
    }
}

/// Waits for bursts to end, at most one second in total. `before` is the number of previous waits; returns whether to go on waiting.
fn wait(before: u32) -> bool {
    const WAITS: u32 = 10_000;
    std::thread::sleep(std::time::Duration::from_micros(100));
    before < WAITS
}

/// A random number. The hash of each `RandomState` is keyed with numbers from the operating system.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Loads an object. The library must be dropped before the file: of two variables the later one is dropped first.
pub(crate) fn library(object: &Object) -> Result<(File, Library)> {
    let (file, path) = object.handle()?;
    // SAFETY: an object was made by us or is from a directory that only we can write, and has no constructors.
    let library = unsafe { Library::new(&path) };
    let library = library.map_err(|e| Error::Library { name: object.name().into(), why: e.to_string() })?;
    Ok((file, library))
}

impl NativeProgram {
    /// Loads an object that [`Object::make`] compiled from the text of `emit::native`. `manifest` is the manifest that was emitted with the
    /// text, and `registers` has the initial values of its registers.
    pub fn load(
        object: &Object,
        manifest: &Manifest,
        registers: &[Bits],
    ) -> std::result::Result<NativeProgram, StartError> {
        let why = |e: libloading::Error| Error::Library { name: object.name().into(), why: e.to_string() };
        let (file, library) = library(object)?;
        // SAFETY: the manifest names the function that the emitter wrote, whose type is `Burst`.
        let burst = *unsafe { library.get::<Burst>(manifest.entry.as_bytes()) }.map_err(why)?;
        let queues = queues::Exports::of(&library);
        let host = Host { advise: huge_pages, wait, random };
        let memory = Arc::new(Memory::new(manifest, registers, host)?);
        Ok(NativeProgram { burst, queues, _library: library, _file: file, memory })
    }

    /// The memory that the program shares with its host. It is the program's [`dataplane::Device`].
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Runs the program on a batch of packets. Each packet gets its verdict. Panics if the worker is of another program.
    pub fn run(&self, worker: &mut Worker, batch: &mut Batch) {
        assert!(worker.is_of(&self.memory), "a worker of another program");
        worker.burst(|worker| {
            batch.lend(worker);
            // SAFETY: the memory is that of this program, and the worker is of that memory; the packets point into buffers that are borrowed by us alone, and say
            // truly how much room is around them; there are as many as pointers in use, and room to name all of them and all spare
            // buffers as sent.
            unsafe {
                (self.burst)(self.memory.shared(), worker, batch.pointers.as_mut_ptr(), batch.used as u32);
            }
            batch.leaving = worker.sent_count as usize;
        });
    }
}

/// The program's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet leaves through this port.
    Sent(u32),
    /// The packet is dropped. The number is an index into the manifest's drop reasons.
    Dropped(u32),
}

/// An array of which machine code has pointers. It is only reached through the pointer that it was allocated with: a reference to the whole of it
/// would take the right from all others (Stacked Borrows, Tree Borrows).
struct Array<T> {
    start: NonNull<T>,
    count: usize,
}

impl<T> Array<T> {
    fn new(all: Vec<T>) -> Array<T> {
        let all = Box::leak(all.into_boxed_slice());
        Array { count: all.len(), start: NonNull::from(all).cast() }
    }

    /// A pointer to an element, or to the end.
    fn at(&self, index: usize) -> *mut T {
        assert!(index <= self.count, "outside of the array");
        // SAFETY: within the allocation or at its end, by the line above.
        unsafe { self.start.as_ptr().add(index) }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        let all = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.count);
        // SAFETY: `new` has made it of a box of this length, and nothing borrowed from it is left.
        drop(unsafe { Box::from_raw(all) });
    }
}

/// A reusable batch of packets with their buffers, and free buffers for the clones that programs make.
pub struct Batch {
    /// The memory of all buffers.
    memory: Array<u8>,
    /// Size of the largest packet in bytes.
    largest: usize,
    /// Distance between buffers in bytes.
    stride: usize,
    /// The received packets, then the free ones for clones.
    packets: Array<Packet>,
    /// Pointers to the received packets, for the program.
    pointers: Vec<*mut Packet>,
    used: usize,
    /// Pointers to the free packets, for the program.
    spare: Vec<*mut Packet>,
    /// Pointers to the packets that the program sends, in order.
    sent: Vec<*mut Packet>,
    leaving: usize,
    /// The offloads of received packets that must still be segmented.
    offloads: Vec<Option<Offload>>,
}

// SAFETY: the pointers are to what the batch itself owns, which does not move with it.
unsafe impl Send for Batch {}

impl Batch {
    /// A batch for `packets` packets of at most `largest` bytes, with `copies` free buffers.
    pub fn new(packets: usize, largest: usize, copies: usize) -> Batch {
        let stride = (HEADROOM + largest + TAILROOM).next_multiple_of(64);
        let count = packets + copies;
        let memory = Array::new(vec![0; count * stride]);
        let packet = |at: usize| Packet {
            data: memory.at(at * stride + HEADROOM),
            length: 0,
            headroom: HEADROOM as u32,
            tailroom: 0,
            port: 0,
            verdict: 0,
            reason: 0,
            capacity: stride as u32,
            flags: 0,
            token: 0,
        };
        let all = Array::new((0..count).map(packet).collect());
        let mut pointers: Vec<_> = (0..count).map(|at| all.at(at)).collect();
        let sent = pointers.clone();
        let spare = pointers.split_off(packets);
        Batch {
            memory,
            largest,
            stride,
            packets: all,
            pointers,
            used: 0,
            spare,
            sent,
            leaving: 0,
            offloads: vec![None; packets],
        }
    }

    /// Lends a program the buffers for copies, and the list of packets that it sends. No port has a queue.
    fn lend(&mut self, worker: &mut abi::native::Worker) {
        worker.free_packets = AtomicPtr::new(self.spare.as_mut_ptr());
        worker.free_count = self.spare.len() as u64;
        worker.sent = AtomicPtr::new(self.sent.as_mut_ptr());
        worker.sent_count = 0;
        worker.queued = AtomicPtr::default();
        worker.waiting_count = 0;
    }

    /// Adds a received packet. Returns false if the batch is full or the packet is too large.
    #[inline]
    pub fn push(&mut self, port: u32, bytes: &[u8]) -> bool {
        let Some(room) = self.room().filter(|room| bytes.len() <= room.len()) else { return false };
        room[..bytes.len()].copy_from_slice(bytes);
        self.add(port, bytes.len(), None)
    }

    /// The buffer for the next packet; `None` if the batch is full.
    #[inline]
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let at = self.used;
        if at >= self.pointers.len() {
            return None;
        }
        let start = self.memory.at(at * self.stride + HEADROOM);
        // SAFETY: a buffer has room for the largest packet between its headroom and its tailroom; the batch is borrowed alone, and no program runs.
        Some(unsafe { std::slice::from_raw_parts_mut(start, self.largest) })
    }

    /// Adds the packet that was written into [`Batch::room`]. Returns false if it does not fit.
    #[inline]
    pub fn add(&mut self, port: u32, length: usize, offload: Option<Offload>) -> bool {
        let at = self.used;
        if at >= self.offloads.len() || length > self.largest {
            return false;
        }
        self.offloads[at] = offload;
        let packet = Packet {
            data: self.memory.at(at * self.stride + HEADROOM),
            length: length as u32,
            headroom: HEADROOM as u32,
            tailroom: (self.stride - HEADROOM - length) as u32,
            port,
            verdict: 0,
            reason: 0,
            capacity: self.stride as u32,
            flags: if offload.is_some() { PARTIAL } else { 0 },
            token: at as u32,
        };
        // SAFETY: one of the received packets, by the check above; no program runs while the batch is borrowed.
        unsafe { self.pointers[at].write(packet) };
        self.used += 1;
        true
    }

    /// The number of received packets.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are no received packets.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether the batch is full.
    pub fn is_full(&self) -> bool {
        self.used == self.pointers.len()
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.used = 0;
        self.leaving = 0;
    }

    /// The received packets with their verdicts; `None` before they are run.
    pub fn packets(&self) -> impl Iterator<Item = (Option<Verdict>, &[u8])> {
        (0..self.used).map(|at| self.packet(at))
    }

    /// The received packets as they arrived, each with its offload. Only before they are run.
    pub fn arrived(&self) -> impl Iterator<Item = (&[u8], Option<&Offload>)> {
        (0..self.used).map(|at| (self.packet(at).1, self.offloads[at].as_ref()))
    }

    /// The sent packets in order, each with its port.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.leaving().map(|(port, bytes, _)| (port, bytes))
    }

    /// Tells a tap what became of the packets of the batch, which the tap has seen arrive.
    pub fn tell(&self, tap: &mut Tap) {
        for (packet, port, bytes, offload) in self.origins() {
            tap.sent(packet, port, bytes, offload);
        }
        for (at, (verdict, _)) in self.packets().enumerate() {
            if let Some(Verdict::Dropped(reason)) = verdict {
                tap.dropped(at, reason);
            }
        }
    }

    /// The sent packets in order, each with its port, and with its offload if it still has one: the program may have cut the packet, whose
    /// checksum is then final.
    pub fn leaving(&self) -> impl Iterator<Item = (u32, &[u8], Option<&Offload>)> {
        self.origins().map(|(_, port, bytes, offload)| (port, bytes, offload))
    }

    /// The sent packets like [`Batch::leaving`], each with the number of the received packet that it was made of.
    fn origins(&self) -> impl Iterator<Item = (usize, u32, &[u8], Option<&Offload>)> {
        self.sent[..self.leaving].iter().map(|p| {
            // SAFETY: the program names packets of this batch only, each within its buffer; nothing runs on them while we are borrowed.
            let (packet, bytes) =
                unsafe { (&**p, std::slice::from_raw_parts((**p).data, (**p).length as usize)) };
            let offload = self.offloads[packet.token as usize].as_ref();
            let offload = offload.filter(|_| packet.flags & PARTIAL != 0);
            (packet.token as usize, packet.port, bytes, offload)
        })
    }

    fn packet(&self, at: usize) -> (Option<Verdict>, &[u8]) {
        let (packet, start) = (self.packets.at(at), self.memory.at(at * self.stride));
        // SAFETY: callers name received packets only; a program leaves each of them within its buffer, and none runs while the batch is borrowed.
        let (packet, bytes) = unsafe {
            let packet = &*packet;
            let data = start.add(packet.headroom as usize);
            (packet, std::slice::from_raw_parts(data, packet.length as usize))
        };
        let verdict = match packet.verdict {
            SENT => Some(Verdict::Sent(packet.port)),
            DROPPED => Some(Verdict::Dropped(packet.reason)),
            _ => None,
        };
        (verdict, bytes)
    }
}
