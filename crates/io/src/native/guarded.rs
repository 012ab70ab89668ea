//! One packet at a time between pages that nobody may touch: for tests of machine code.
//!
//! A packet lies now against the page before it, without headroom, and now against the page behind it, without tailroom. The 4 GiB behind
//! all buffers are reserved as well: an offset of 32 bits that was never set, which an object with [`CHECKED`] fills with a pattern, leads
//! there. Access to any of them ends the process (SIGSEGV). The room around a packet holds another pattern, which must still be there
//! when the packet has left with the length that it came with.
//!
//! A door for `unsafe`, as its parent is: all pointers lead into one mapping, which lives as long as the value, and packets say truly how
//! much room is around them.
#![allow(unsafe_code)]

use std::io::Error;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicPtr;

use abi::native::{DROPPED, Packet, SENT};
use dataplane::memory::Worker;

use super::{NativeProgram, Verdict};
use crate::Result;
use crate::error::Context;

/// The flag of the C compiler for objects that fill a packet's state and scratch area with a pattern before each packet.
pub const CHECKED: &str = "-DSTRAIT_CHECKED";

/// Room before or behind a packet.
const ROOM: usize = 256;
/// What it is filled with.
const PATTERN: u8 = 0x5a;
/// What an offset of 32 bits can reach.
const REACH: usize = 1 << 32;

/// A buffer for the packet, and more for its copies.
pub struct Guarded {
    /// All pages, reserved and used.
    start: NonNull<u8>,
    size: usize,
    page: usize,
    /// Bytes of a buffer.
    usable: usize,
    largest: usize,
    copies: usize,
    /// Packets so far.
    turn: u64,
    /// The program may recirculate: a packet that is where it was may have been elsewhere, so that the room around it says nothing.
    pub moves_twice: bool,
}

/// What became of a packet.
pub struct Ran {
    /// Port and bytes of each packet that left, in order.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Of the packet itself; `None` where the program gave it none.
    pub verdict: Option<Verdict>,
}

impl Guarded {
    /// For packets of at most so many bytes, each with at most so many copies.
    pub fn new(largest: usize, copies: usize) -> Result<Guarded> {
        // SAFETY: a question without pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let usable = (largest + 4 * ROOM).next_multiple_of(page);
        let size = page + (1 + copies) * (usable + page) + REACH;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        let mapped = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast::<u8>()) };
        let start =
            mapped.ok_or_else(Error::last_os_error).context(|| "reserve memory for packets".to_string())?;
        let guarded = Guarded { start, size, page, usable, largest, copies, turn: 0, moves_twice: false };
        for buffer in 0..=copies {
            // SAFETY: whole pages of the mapping above, which nobody uses yet.
            let opened = unsafe {
                libc::mprotect(guarded.buffer(buffer).cast(), usable, libc::PROT_READ | libc::PROT_WRITE)
            };
            let result = if opened == 0 { Ok(()) } else { Err(Error::last_os_error()) };
            result.context(|| "open memory for packets".to_string())?;
        }
        Ok(guarded)
    }

    fn buffer(&self, number: usize) -> *mut u8 {
        // SAFETY: within the mapping: `new` made it that large.
        unsafe { self.start.as_ptr().add(self.page + number * (self.usable + self.page)) }
    }

    /// A packet with room before and behind it, the one or the other against a page's edge.
    fn place(&self, buffer: usize, at_end: bool, length: usize, headroom: usize, tailroom: usize) -> Packet {
        let capacity = headroom + length + tailroom;
        assert!(capacity <= self.usable, "a packet of {length} bytes is larger than its buffer");
        let first = if at_end { self.usable - capacity } else { 0 };
        // SAFETY: `first + headroom` lies in the buffer.
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

    /// The bytes around a packet that are not its own, up to `ROOM` on each side of what it may write, and what it may write.
    fn around(&mut self, packet: &Packet) -> [&mut [u8]; 2] {
        let start = self.buffer(0);
        let used = packet.data as usize - start as usize;
        let end = used + packet.length as usize;
        let (first, last) = (used.saturating_sub(2 * ROOM), (end + 2 * ROOM).min(self.usable));
        // SAFETY: two parts of the first buffer, on either side of the packet; the program does not run while they are borrowed.
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
    /// When the program wrote what it must not: a bug of the emitter.
    pub fn run(&mut self, program: &NativeProgram, worker: &mut Worker, port: u32, bytes: &[u8]) -> Ran {
        assert!(
            bytes.len() <= self.largest,
            "a packet of {} bytes: at most {} are taken",
            bytes.len(),
            self.largest
        );
        let at_end = self.turn.is_multiple_of(2);
        self.turn += 1;
        let (headroom, tailroom) = if at_end { (ROOM, 0) } else { (0, ROOM) };
        let mut packet = self.place(0, at_end, bytes.len(), headroom, tailroom);
        packet.port = port;
        for room in self.around(&packet) {
            room.fill(PATTERN);
        }
        // SAFETY: the buffer has room for the packet, and nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), packet.data, bytes.len()) };
        let before = (packet.data, packet.length);
        let mut copies: Vec<Packet> =
            (1..=self.copies).map(|buffer| self.place(buffer, at_end, bytes.len(), ROOM, ROOM)).collect();
        let mut spare: Vec<*mut Packet> = copies.iter_mut().map(std::ptr::from_mut).collect();
        let mut sent: Vec<*mut Packet> = vec![null_mut(); 1 + self.copies];
        let mut pointers = [std::ptr::from_mut(&mut packet)];
        worker.burst(|worker| {
            worker.spare = AtomicPtr::new(spare.as_mut_ptr());
            worker.spares = spare.len() as u64;
            worker.sent = AtomicPtr::new(sent.as_mut_ptr());
            worker.sents = 0;
            // SAFETY: as in `NativeProgram::run`: the memory is that of this program, the packets are borrowed by us alone and say truly
            // how much room is around them, and there is room to name all of them as sent.
            unsafe { (program.burst)(program.memory.shared(), worker, pointers.as_mut_ptr(), 1) };
            sent.truncate(worker.sents as usize);
        });
        // SAFETY: the program names packets of ours, each within its buffer.
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
        // SAFETY: the mapping is ours, and nothing points into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

// SAFETY: the mapping belongs to the value alone, and does not move with it.
unsafe impl Send for Guarded {}
