//! Runs single packets in buffers between guard pages, for tests of machine code.
//!
//! An access to a guard page ends the process (SIGSEGV). Packets alternate between two positions: against the guard page before the buffer,
//! without headroom, and against the guard page after it, without tailroom. The 4 GiB after all buffers are guard pages as well, because
//! an uninitialised 32-bit offset points there: an object that is compiled with [`CHECKED`] fills uninitialised memory with a pattern. The
//! room around a packet is filled with another pattern. If the packet leaves at the same address and with the same length, that pattern
//! must be unchanged.
//!
//! A module with `unsafe`: all pointers point into one mapping, which lives as long as the value. The packets state their headroom and
//! tailroom correctly.
#![allow(unsafe_code)]

use std::io::Error;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicPtr;

use abi::native::{DROPPED, Packet, SENT};
use dataplane::memory::Worker;

use super::{NativeProgram, Verdict};
use crate::Result;
use crate::error::Context;
use crate::port::memory::page;

/// The compiler flag for objects that fill a packet's state and scratch area with a pattern before they process the packet.
pub const CHECKED: &str = "-DSTRAIT_CHECKED";

/// The headroom or tailroom of a packet in bytes. Generated programs add several hundred bytes of headers.
const ROOM: usize = 1024;
/// The byte that fills the room around a packet.
const PATTERN: u8 = 0x5a;
/// The number of bytes that an offset of 32 bits can reach.
const REACH: usize = 1 << 32;

/// A buffer for a packet and further buffers for its copies, each between guard pages.
pub struct Guarded {
    /// The first byte of the mapping, which has all buffers and guard pages.
    start: NonNull<u8>,
    /// The size of the mapping in bytes.
    size: usize,
    /// The size of a page in bytes.
    page: usize,
    /// The size of a buffer in bytes.
    usable: usize,
    /// The size of the largest packet in bytes.
    largest: usize,
    /// The number of buffers for copies.
    copies: usize,
    /// The number of packets so far.
    turn: u64,
    /// Whether the program may recirculate. The start of a packet may then move and move back, so the room around it is not checked.
    pub moves_twice: bool,
}

/// The result of a packet.
pub struct Ran {
    /// The port and the bytes of each packet that left, in order.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// The verdict of the packet itself; `None` if the program set none.
    pub verdict: Option<Verdict>,
}

impl Guarded {
    /// Allocates buffers for packets of at most `largest` bytes that make at most `copies` copies each.
    pub fn new(largest: usize, copies: usize) -> Result<Guarded> {
        let page = page();
        let usable = (largest + 4 * ROOM).next_multiple_of(page);
        let size = page + (1 + copies) * (usable + page) + REACH;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: this is a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        let mapped = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast::<u8>()) };
        let start =
            mapped.ok_or_else(Error::last_os_error).context(|| "reserve memory for packets".to_string())?;
        let guarded = Guarded { start, size, page, usable, largest, copies, turn: 0, moves_twice: false };
        for buffer in 0..=copies {
            // SAFETY: these are whole pages of the mapping above, and nothing uses them yet.
            let opened = unsafe {
                libc::mprotect(guarded.buffer(buffer).cast(), usable, libc::PROT_READ | libc::PROT_WRITE)
            };
            let result = if opened == 0 { Ok(()) } else { Err(Error::last_os_error()) };
            result.context(|| "open memory for packets".to_string())?;
        }
        Ok(guarded)
    }

    /// The first byte of a buffer.
    fn buffer(&self, number: usize) -> *mut u8 {
        // SAFETY: the result is within the mapping, because `new` computed its size for all buffers.
        unsafe { self.start.as_ptr().add(self.page + number * (self.usable + self.page)) }
    }

    /// A packet with room before and after it in a buffer. The room begins at the start of the buffer or, with `at_end`, ends at its end.
    fn place(&self, buffer: usize, at_end: bool, length: usize, headroom: usize, tailroom: usize) -> Packet {
        let capacity = headroom + length + tailroom;
        assert!(capacity <= self.usable, "a packet of {length} bytes is larger than its buffer");
        let first = if at_end { self.usable - capacity } else { 0 };
        // SAFETY: `first + headroom` is at most the size of the buffer.
        let data = unsafe { self.buffer(buffer).add(first + headroom) };
        Packet {
            data,
            length: length as u32,
            headroom: headroom as u32,
            tailroom: tailroom as u32,
            port: 0,
            verdict: 0,
            reason: 0,
            capacity: capacity as u32,
            flags: 0,
            token: 0,
        }
    }

    /// The bytes before and after a packet in its buffer, up to `2 * ROOM` on each side: its headroom and tailroom, and what is beyond them.
    fn around(&mut self, packet: &Packet) -> [&mut [u8]; 2] {
        let start = self.buffer(0);
        let used = packet.data as usize - start as usize;
        let end = used + packet.length as usize;
        let (first, last) = (used.saturating_sub(2 * ROOM), (end + 2 * ROOM).min(self.usable));
        // SAFETY: both are parts of the first buffer, before and after the packet. The program does not run while they are borrowed.
        unsafe {
            [
                std::slice::from_raw_parts_mut(start.add(first), used - first),
                std::slice::from_raw_parts_mut(start.add(end), last - end),
            ]
        }
    }

    /// Runs a packet through a program.
    ///
    /// # Panics
    /// If the program wrote outside of the packet, which is a bug in the emitter; or if the packet is too large.
    pub fn run(&mut self, program: &NativeProgram, worker: &mut Worker, port: u32, bytes: &[u8]) -> Ran {
        assert!(
            bytes.len() <= self.largest,
            "a packet of {} bytes: at most {} are taken",
            bytes.len(),
            self.largest
        );
        assert!(worker.is_of(program.memory()), "a worker of another program");
        let at_end = self.turn.is_multiple_of(2);
        self.turn += 1;
        let (headroom, tailroom) = if at_end { (ROOM, 0) } else { (0, ROOM) };
        let mut packet = self.place(0, at_end, bytes.len(), headroom, tailroom);
        packet.port = port;
        for room in self.around(&packet) {
            room.fill(PATTERN);
        }
        // SAFETY: the buffer has room for the packet, and nothing else uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), packet.data, bytes.len()) };
        let before = (packet.data, packet.length);
        let mut copies: Vec<Packet> =
            (1..=self.copies).map(|buffer| self.place(buffer, at_end, bytes.len(), ROOM, ROOM)).collect();
        let mut spare: Vec<*mut Packet> = copies.iter_mut().map(std::ptr::from_mut).collect();
        let mut sent: Vec<*mut Packet> = vec![null_mut(); 1 + self.copies];
        let mut pointers = [std::ptr::from_mut(&mut packet)];
        worker.burst(|worker| {
            worker.free_packets = AtomicPtr::new(spare.as_mut_ptr());
            worker.free_count = spare.len() as u64;
            worker.sent = AtomicPtr::new(sent.as_mut_ptr());
            worker.sent_count = 0;
            // SAFETY: as in `NativeProgram::run`, the memory is that of this program. The packets are borrowed by this function alone, and
            // state their headroom and tailroom correctly. The array of sent packets has room for all of them.
            unsafe { (program.burst)(program.memory.shared(), worker, pointers.as_mut_ptr(), 1) };
            sent.truncate(worker.sent_count as usize);
        });
        // SAFETY: the program sends only packets from the array above, and each is within its buffer.
        let left = |p: &*mut Packet| unsafe {
            ((**p).port, std::slice::from_raw_parts((**p).data, (**p).length as usize).to_vec())
        };
        let sent = sent.iter().map(left).collect();
        if (packet.data, packet.length) == before && !self.moves_twice {
            let whole = self.around(&packet).iter().all(|room| room.iter().all(|byte| *byte == PATTERN));
            assert!(
                whole,
                "machine code wrote outside of its packet, of {} bytes: a bug of Strait",
                bytes.len()
            );
        }
        let verdict = match packet.verdict {
            SENT => Some(Verdict::Sent(packet.port)),
            DROPPED => Some(Verdict::Dropped(packet.reason)),
            _ => None,
        };
        Ran { sent, verdict }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the value owns the mapping, and nothing points into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

// SAFETY: the value owns the mapping, and the mapping does not move with the value.
unsafe impl Send for Guarded {}
