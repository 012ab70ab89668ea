//! `af_xdp:IF[:QUEUE]`: the queues of an interface through AF_XDP sockets. Packets bypass the kernel's stack; `how` says whether the driver
//! avoids copying them.
//!
//! A program of five instructions redirects every packet of a queue to its socket. The program and its map are removed when this process
//! ends, however it ends.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

use super::memory::Mapping;
use super::socket;
use crate::error::Context;
use crate::{Result, link, sys};

/// Size of a frame in bytes, and number of frames. The first half is for receiving.
const FRAME: usize = 2048;
const FRAMES: usize = 8192;
/// Number of descriptors in each ring.
const RING: u32 = 4096;

/// `enum bpf_map_type`: a map from queues to sockets.
const XSKMAP: u32 = 17;
/// `enum bpf_func_id`: `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// What keeps the program attached to the interface.
struct Attached {
    _map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

/// One queue of an interface.
pub struct AfXdp {
    name: String,
    socket: OwnedFd,
    frames: Mapping,
    fill: Ring,
    completion: Ring,
    receive: Ring,
    transmit: Ring,
    /// The free list of transmit frames.
    free: Vec<u64>,
    waiting: u32,
    zero_copy: bool,
    counts: PortCounts,
    _attached: Arc<Attached>,
}

/// Opens an interface of the calling thread's namespace: the given queue, or one for each worker.
pub fn open(interface: &str, queue: Option<u32>, queues: usize) -> Result<Vec<AfXdp>> {
    let index = link::index_of(interface)?;
    let map = sys::map_create(XSKMAP, 4, 4, 64).context(|| "make a map of AF_XDP sockets".to_string())?;
    let first = queue.unwrap_or(0);
    let sockets: Vec<AfXdpSocket> = (0..queues as u32)
        .map(|n| {
            let socket = AfXdpSocket::open(index, first + n);
            socket.context(|| format!("open queue {} of {interface} (a worker needs one each)", first + n))
        })
        .collect::<Result<_>>()?;
    for (n, socket) in sockets.iter().enumerate() {
        let key = (first + n as u32).to_ne_bytes();
        let value = socket.socket.as_raw_fd().to_ne_bytes();
        let put = sys::map_update(map.as_fd(), &key, &value, 0);
        put.context(|| format!("hand out queue {} of {interface}", first + n as u32))?;
    }
    let program = sys::load_program(sys::PROG_XDP, &redirect(map.as_raw_fd()));
    let program = program.context(|| "load the program that hands packets out".to_string())?;
    let link = sys::link_create(program.as_fd(), index, sys::ATTACH_XDP);
    let link = link.context(|| format!("attach to {interface}"))?;
    let attached = Arc::new(Attached { _map: map, _program: program, _link: link });
    Ok(sockets.into_iter().map(|s| s.finish(interface, attached.clone())).collect())
}

/// The program: `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);`
fn redirect(map: i32) -> [sys::Instruction; 6] {
    let op = |code, registers, offset, value| sys::Instruction { code, registers, offset, value };
    [
        op(0x61, 0x12, 16, 0),           // r2 = ctx->rx_queue_index
        op(0x18, 0x11, 0, map),          // r1 = the map (BPF_PSEUDO_MAP_FD)
        op(0x00, 0x00, 0, 0),            // its upper half
        op(0xb7, 0x03, 0, XDP_PASS),     // r3 = what happens without a socket
        op(0x85, 0x00, 0, REDIRECT_MAP), // call
        op(0x95, 0x00, 0, 0),            // exit
    ]
}

/// The offsets of a ring's parts in its mapping, and our own index.
struct Ring {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    /// Size of an entry in bytes.
    each: usize,
    /// This side's index, which it publishes.
    own: u32,
}

impl Ring {
    fn new(
        socket: &OwnedFd,
        offsets: &libc::xdp_ring_offset,
        page: u64,
        each: usize,
    ) -> std::io::Result<Ring> {
        let length = offsets.desc as usize + RING as usize * each;
        Ok(Ring {
            memory: Mapping::new(Some(socket.as_fd()), page, length)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags as usize,
            entries: offsets.desc as usize,
            each,
            own: 0,
        })
    }

    fn place(&self, index: u32) -> usize {
        self.entries + (index & (RING - 1)) as usize * self.each
    }

    /// Producer side: the number of free entries.
    fn room(&self) -> u32 {
        RING - self.own.wrapping_sub(self.memory.word(self.consumer).load(Ordering::Acquire))
    }

    /// Producer side: adds an entry. The kernel sees it after the next `publish`.
    fn add(&mut self, entry: &[u8]) {
        self.memory.copy_in(self.place(self.own), entry);
        self.own = self.own.wrapping_add(1);
    }

    fn publish(&self) {
        self.memory.word(self.producer).store(self.own, Ordering::Release);
    }

    /// Consumer side: the number of available entries.
    fn there(&self) -> u32 {
        self.memory.word(self.producer).load(Ordering::Acquire).wrapping_sub(self.own)
    }

    /// Consumer side: takes the next entry.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let entry = self.memory.read(self.place(self.own));
        self.own = self.own.wrapping_add(1);
        entry
    }

    fn release(&self) {
        self.memory.word(self.consumer).store(self.own, Ordering::Release);
    }

    fn wants_wakeup(&self) -> bool {
        self.memory.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A bound socket with its rings.
struct AfXdpSocket {
    socket: OwnedFd,
    frames: Mapping,
    fill: Ring,
    completion: Ring,
    receive: Ring,
    transmit: Ring,
    zero_copy: bool,
}

impl AfXdpSocket {
    fn open(interface: u32, queue: u32) -> std::io::Result<AfXdpSocket> {
        let socket = sys::xdp_socket()?;
        let frames = Mapping::new(None, 0, FRAME * FRAMES)?;
        let memory = libc::xdp_umem_reg {
            addr: frames.address(),
            len: (FRAME * FRAMES) as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        socket::set(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, memory)?;
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            socket::set(&socket, libc::SOL_XDP, ring, RING)?;
        }
        let at: libc::xdp_mmap_offsets = socket::get(&socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let ring = |offsets, page, each| Ring::new(&socket, offsets, page, each);
        let mut fill = ring(&at.fr, libc::XDP_UMEM_PGOFF_FILL_RING, 8)?;
        let completion = ring(&at.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING, 8)?;
        let receive = ring(&at.rx, libc::XDP_PGOFF_RX_RING as u64, 16)?;
        let transmit = ring(&at.tx, libc::XDP_PGOFF_TX_RING as u64, 16)?;
        (0..u64::from(RING)).for_each(|n| fill.add(&(n * FRAME as u64).to_ne_bytes()));
        fill.publish();
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        bind(&socket, address)?;
        let options: libc::xdp_options = socket::get(&socket, libc::SOL_XDP, libc::XDP_OPTIONS)?;
        let zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(AfXdpSocket { socket, frames, fill, completion, receive, transmit, zero_copy })
    }

    fn finish(self, interface: &str, attached: Arc<Attached>) -> AfXdp {
        let AfXdpSocket { socket, frames, fill, completion, receive, transmit, zero_copy } = self;
        AfXdp {
            name: interface.to_string(),
            socket,
            frames,
            fill,
            completion,
            receive,
            transmit,
            free: (u64::from(RING)..FRAMES as u64).map(|n| n * FRAME as u64).collect(),
            waiting: 0,
            zero_copy,
            counts: PortCounts::default(),
            _attached: attached,
        }
    }
}

/// The address and the length in a `struct xdp_desc`.
fn descriptor(entry: [u8; 16]) -> (u64, usize) {
    let at = u64::from_ne_bytes(std::array::from_fn(|i| entry[i]));
    let length = u32::from_ne_bytes(std::array::from_fn(|i| entry[8 + i]));
    (at, length as usize)
}

impl AfXdp {
    /// Returns sent frames to the free list.
    fn collect(&mut self) {
        for _ in 0..self.completion.there() {
            self.free.push(u64::from_ne_bytes(self.completion.take()));
        }
        self.completion.release();
    }
}

/// Binds a socket to its queue, and retries while the queue is busy: the kernel releases a queue some time after its socket is closed.
fn bind(socket: &OwnedFd, address: libc::sockaddr_xdp) -> std::io::Result<()> {
    const TRIES: u32 = 50;
    for _ in 1..TRIES {
        match socket::bind(socket, address) {
            Err(busy) if busy.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
    socket::bind(socket, address)
}

impl Port for AfXdp {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> std::result::Result<(), PortError> {
        let mut taken = 0;
        for _ in 0..self.receive.there() {
            let Some(room) = inbox.room() else { break };
            let (at, length) = descriptor(self.receive.take());
            taken += 1;
            match room.get_mut(..length) {
                Some(room) => {
                    self.frames.copy_out(at as usize, room);
                    self.counts.received.add(length as u64);
                    inbox.take(length, None);
                }
                None => self.counts.missed += 1,
            }
            // The packet's address includes headroom. The fill ring needs the address of the frame.
            self.fill.add(&(at / FRAME as u64 * FRAME as u64).to_ne_bytes());
        }
        if taken > 0 {
            self.receive.release();
            self.fill.publish();
        }
        if self.fill.wants_wakeup() {
            socket::wait(&[self.socket.as_fd()], Duration::ZERO);
        }
        Ok(())
    }

    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> std::result::Result<(), Unsent> {
        if offload.is_some() || packet.len() > FRAME {
            self.counts.unfit += 1;
            return Err(if offload.is_some() { Unsent::Segments } else { Unsent::TooLong });
        }
        if self.free.is_empty() || self.transmit.room() == 0 {
            let _ = self.flush();
            self.collect();
        }
        let frame = if self.transmit.room() > 0 { self.free.pop() } else { None };
        let Some(frame) = frame else {
            self.counts.full += 1;
            return Err(Unsent::Full);
        };
        self.frames.copy_in(frame as usize, packet);
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&frame.to_ne_bytes());
        entry[8..12].copy_from_slice(&(packet.len() as u32).to_ne_bytes());
        self.transmit.add(&entry);
        self.waiting += 1;
        self.counts.sent.add(packet.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), PortError> {
        if self.waiting == 0 {
            return Ok(());
        }
        self.transmit.publish();
        // Without zero-copy one call sends at most 32 packets (TX_BATCH_SIZE).
        let mut calls = self.waiting.div_ceil(32) + 1;
        while calls > 0 && self.transmit.room() < RING && self.transmit.wants_wakeup() {
            socket::kick(&self.socket, libc::MSG_DONTWAIT)
                .map_err(|e| PortError(format!("{}: {e}", self.name)))?;
            calls -= 1;
        }
        self.waiting = 0;
        self.collect();
        Ok(())
    }

    fn counts(&mut self) -> PortCounts {
        let kernel: std::io::Result<libc::xdp_statistics> =
            socket::get(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS);
        let missed = kernel.map_or(0, |k| k.rx_dropped + k.rx_ring_full);
        PortCounts { missed: self.counts.missed + missed, ..self.counts }
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn how(&self) -> String {
        if self.zero_copy { "zero-copy" } else { "copy" }.to_string()
    }
}
