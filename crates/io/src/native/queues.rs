//! The queues of a worker's ports: a program hands over the packets for ports that have a rate, and gets them back when they leave.
//!
//! A module with `unsafe`: the program writes an array of `abi::native::Waiting`, each followed by the program's state, whose size the program
//! states. Such an element is moved as bytes, and only the program that wrote it gets it back.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use abi::drops;
use abi::native::{DEQUEUE, Dequeue, Packet, WAITING_SIZE, Waiting};
use dataplane::memory::Worker;
use dataplane::port::Offload;
use dataplane::queue::{Queue, QueueCounts, Shape, Wait};
use libloading::Library;

use super::{Batch, NativeProgram};

/// What a program with queues exports.
#[derive(Clone, Copy)]
pub(super) struct Exports {
    dequeue: Dequeue,
    /// The size of what is kept for a packet, in bytes.
    size: usize,
    /// A number that no other loaded program has had.
    number: u64,
}

/// The number of the next program.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Exports {
    /// Finds what a library exports; `None` if its program has no queues.
    pub(super) fn of(library: &Library) -> Option<Exports> {
        // SAFETY: the emitter wrote both, with these types.
        unsafe {
            let dequeue = *library.get::<Dequeue>(DEQUEUE.as_bytes()).ok()?;
            let size = **library.get::<*const u64>(WAITING_SIZE.as_bytes()).ok()?;
            Some(Exports { dequeue, size: size as usize, number: NEXT.fetch_add(1, Ordering::Relaxed) })
        }
    }
}

/// The alignment of what a program keeps for a packet: no type of C asks for more.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Memory for a number of bytes, aligned for any type.
fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64)]
}

/// A packet in a queue.
struct Held {
    /// The program's `Waiting` and its state.
    waiting: Vec<Line>,
    bytes: Vec<u8>,
    offload: Option<Offload>,
    flags: u32,
}

// SAFETY: the pointers in the state of a packet are written anew before the program reads them.
unsafe impl Send for Held {}

/// The queues of a worker's ports.
pub struct Queues {
    of_port: BTreeMap<u32, Queue<Held>>,
    /// For each port number, whether the port has a queue. The program reads it.
    queued: Box<[u64; abi::DROP_PORT.div_ceil(64) as usize]>,
    /// Where the program puts the packets that it hands over.
    handed: Vec<Line>,
    free: Vec<Held>,
    /// The number of the program whose packets these are.
    program: u64,
    /// The numbers of the drop reasons.
    full: usize,
    too_long: usize,
}

/// Which packets leave their queues.
#[derive(Clone, Copy, PartialEq)]
pub enum Leaving {
    /// Those whose time has come.
    Due,
    /// All. A packet that comes back to a queue does not wait any more.
    All,
}

impl Queues {
    /// Empty queues in front of these ports, for all programs that a worker runs, one after the other.
    pub fn new(shapes: &BTreeMap<u32, Shape>) -> Queues {
        let mut queued = Box::new([0u64; 8]);
        for port in shapes.keys().filter(|port| **port < abi::DROP_PORT) {
            queued[*port as usize / 64] |= 1 << (port % 64);
        }
        let of_port = shapes.iter().map(|(port, shape)| (*port, Queue::new(*shape))).collect();
        let (handed, free) = (Vec::new(), Vec::new());
        Queues { of_port, queued, handed, free, program: 0, full: 0, too_long: 0 }
    }

    /// Prepares for a batch, and for another program. Packets of the program before, which nobody let leave, are lost.
    fn follow(&mut self, program: &NativeProgram, exports: Exports, batch: &Batch) {
        let most = (batch.pointers.len() + batch.spare.len()) * exports.size;
        if self.handed.len() < most.div_ceil(64) {
            self.handed = lines(most);
        }
        if self.program == exports.number {
            return;
        }
        self.program = exports.number;
        self.free.clear();
        self.of_port.values_mut().for_each(Queue::clear);
        let reasons = &program.memory().manifest().drops;
        let number = |name| reasons.iter().position(|d| d.name == name).unwrap_or(0);
        (self.full, self.too_long) = (number(drops::QUEUE_FULL), number(drops::NO_BUFFER));
    }

    /// When the next packet leaves, in microseconds.
    pub fn next(&self) -> Option<u64> {
        self.of_port.values().filter_map(Queue::next).min()
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.of_port.values().all(Queue::is_empty)
    }

    /// What each queue has counted.
    pub fn counts(&self) -> BTreeMap<u32, QueueCounts> {
        self.of_port.iter().map(|(port, queue)| (*port, queue.counts())).collect()
    }

    /// Takes the packets that leave, as many as a batch has room for.
    fn take(&mut self, batch: &mut Batch, now: u64, leaving: Leaving) -> Vec<Held> {
        let mut taken = Vec::new();
        for queue in self.of_port.values_mut() {
            while !batch.is_full() {
                let next = if leaving == Leaving::All { queue.take(now) } else { queue.pop(now) };
                let Some((mut held, wait)) = next else { break };
                if held.place(batch, wait) {
                    taken.push(held);
                }
            }
        }
        taken
    }

    /// Puts the first packets that the program has handed over into the queues. `now` is the time of their burst.
    fn accept(&mut self, worker: &Worker, batch: &Batch, size: usize, count: usize, now: u64) {
        for at in 0..count {
            // SAFETY: the program has written as many elements of this size as it says, one after the other, and each names a packet of the batch,
            // within its buffer.
            let (waiting, packet, state) = unsafe {
                let start = self.handed.as_ptr().cast::<u8>().add(at * size);
                let waiting = &*start.cast::<Waiting>();
                (waiting, &*waiting.packet, std::slice::from_raw_parts(start, size))
            };
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(packet.data, packet.length as usize) };
            let mut held = self.free.pop().unwrap_or_else(|| Held::new(size));
            held.keep(state, bytes, packet, batch);
            let Some(queue) = self.of_port.get_mut(&waiting.port) else { continue };
            if bytes.len() > batch.largest {
                worker.drop_packet(self.too_long, bytes.len() as u64);
                self.free.push(held);
            } else if let Err(held) = queue.push(now, bytes.len() as u64, held) {
                worker.drop_packet(self.full, bytes.len() as u64);
                self.free.push(held);
            }
        }
    }
}

impl Held {
    fn new(size: usize) -> Held {
        Held { waiting: lines(size), bytes: Vec::new(), offload: None, flags: 0 }
    }

    /// Keeps a packet.
    fn keep(&mut self, state: &[u8], bytes: &[u8], packet: &Packet, batch: &Batch) {
        // SAFETY: the memory is as long as the state, whose size does not change for a program.
        unsafe { ptr::copy_nonoverlapping(state.as_ptr(), self.waiting.as_mut_ptr().cast(), state.len()) };
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.offload = batch.offloads[packet.token as usize];
        self.flags = packet.flags;
    }

    /// Adds the packet to a batch, and tells its state where it is and how it waited. Returns false if it has no room.
    fn place(&mut self, batch: &mut Batch, wait: Wait) -> bool {
        let at = batch.used;
        let Some(room) = batch.room().and_then(|room| room.get_mut(..self.bytes.len())) else { return false };
        room.copy_from_slice(&self.bytes);
        if !batch.add(0, self.bytes.len(), self.offload) {
            return false;
        }
        let packet = batch.packets.at(at);
        // SAFETY: the packet that was just added; no program runs while the batch is borrowed.
        unsafe { (*packet).flags = self.flags };
        // SAFETY: the memory begins with a `Waiting`, which the program has written.
        let waiting = unsafe { &mut *self.waiting.as_mut_ptr().cast::<Waiting>() };
        waiting.packet = packet;
        (waiting.entered, waiting.before) = (wait.entered, wait.before);
        (waiting.waited, waiting.behind) = (wait.waited, wait.behind);
        true
    }
}

impl NativeProgram {
    /// Whether the program was compiled for ports with queues.
    pub fn has_queues(&self) -> bool {
        self.queues.is_some()
    }

    /// Like [`NativeProgram::run`], for a program with queues. `now` is the time that the packets see.
    pub fn run_with(&self, worker: &mut Worker, batch: &mut Batch, queues: &mut Queues, now: u64) {
        let Some(exports) = self.queues else { return self.run(worker, batch) };
        assert!(worker.is_of(&self.memory), "a worker of another program");
        queues.follow(self, exports, batch);
        let mut count = 0;
        worker.burst(|worker| {
            batch.lend(worker);
            queues.lend(worker);
            // SAFETY: as in `run`; and there is room for each packet of the batch and each spare one in the memory for those that wait, which
            // `Queues::follow` has made.
            unsafe {
                (self.burst)(self.memory.shared(), worker, batch.pointers.as_mut_ptr(), batch.used as u32);
            }
            (batch.leaving, count) = (worker.sent_count as usize, worker.waiting_count as usize);
        });
        queues.accept(worker, batch, exports.size, count, now);
    }

    /// Lets packets leave their queues: the batch then has those that leave through ports. Returns whether there were any.
    pub fn dequeue(
        &self,
        worker: &mut Worker,
        batch: &mut Batch,
        queues: &mut Queues,
        now: u64,
        leaving: Leaving,
    ) -> bool {
        let Some(exports) = self.queues else { return false };
        assert!(worker.is_of(&self.memory), "a worker of another program");
        let Exports { dequeue, size, .. } = exports;
        queues.follow(self, exports, batch);
        batch.clear();
        let mut taken = queues.take(batch, now, leaving);
        let waiting = |held: &mut Held| held.waiting.as_mut_ptr().cast::<Waiting>();
        let mut pointers: Vec<*mut Waiting> = taken.iter_mut().map(waiting).collect();
        if pointers.is_empty() {
            return false;
        }
        let mut count = 0;
        worker.burst(|worker| {
            batch.lend(worker);
            match leaving {
                Leaving::Due => queues.lend(worker),
                Leaving::All => {}
            }
            // SAFETY: as above; each of the packets that wait was written by this program, and `Held::place` has told it where the packet is now.
            unsafe { dequeue(self.memory.shared(), worker, pointers.as_mut_ptr(), pointers.len() as u32) };
            (batch.leaving, count) = (worker.sent_count as usize, worker.waiting_count as usize);
        });
        queues.accept(worker, batch, size, count, now);
        queues.free.append(&mut taken);
        true
    }
}

impl Queues {
    /// Lends a program the memory for packets that it hands over.
    fn lend(&mut self, worker: &mut abi::native::Worker) {
        worker.queued = AtomicPtr::new(self.queued.as_mut_ptr());
        worker.waiting = AtomicPtr::new(self.handed.as_mut_ptr().cast());
        worker.waiting_count = 0;
    }
}
