//! `af_packet:IF`: an interface through packet sockets, with rings that are shared with the kernel (TPACKET; `packet_mmap` in the kernel's
//! documentation). It works on every interface and needs no support from it.
//!
//! Received packets are in a ring of frames (TPACKET_V2). A packet that is longer than a frame is in the socket's queue instead. Packets to
//! send are in another ring, and one call sends all of them. A packet that is longer than a frame, or that must still be segmented, needs a
//! call of its own, after the packets before it. With several workers the kernel distributes packets by their flows, so that each flow
//! stays in order.
//!
//! TPACKET_V3 packs received packets into blocks. The kernel hands over a block when it is full or after a millisecond, so each packet
//! waits, and it is no longer in the cache when it is read. V3 was slower here (docs/native.md).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

use super::memory::Mapping;
use super::socket::{ANY_PROTOCOL, of_interface};
use super::{offload, socket};
use crate::error::Context;
use crate::{Result, link};

/// Size of a frame in bytes, and number of frames in each ring.
const FRAME: usize = 2048;
const FRAMES: usize = 2048;
const BLOCK: usize = 1 << 18;
const RING: libc::tpacket_req = libc::tpacket_req {
    tp_block_size: BLOCK as u32,
    tp_block_nr: (FRAME * FRAMES / BLOCK) as u32,
    tp_frame_size: FRAME as u32,
    tp_frame_nr: FRAMES as u32,
};
/// Size in bytes of the queue for packets that are longer than a frame.
const QUEUE: libc::c_int = 1 << 23;
/// The offset of the packet in a frame: after `struct tpacket2_hdr`.
const FRAME_HEAD: usize = 32;

/// The offset of a VLAN tag: after the two Ethernet addresses.
const MACS: usize = 12;

/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING` (Linux 5.10): a group does not receive what its sockets send. The option of a single socket has no
/// effect in a group.
const IGNORE_OUTGOING: libc::c_int = 0x4000;
/// `PACKET_FANOUT_FLAG_UNIQUEID` (Linux 4.12): the kernel chooses a group number that no socket of the namespace has.
const UNIQUE: libc::c_int = 0x2000;

/// One worker's queue of an interface.
pub struct AfPacket {
    name: String,
    receive: Receive,
    transmit: Transmit,
    counts: PortCounts,
}

/// Opens an interface of the calling thread's namespace with this number of queues.
pub fn open(interface: &str, queues: usize) -> Result<Vec<AfPacket>> {
    let index = link::index_of(interface)? as libc::c_int;
    let mut group = if queues > 1 { Fanout::New } else { Fanout::None };
    let queue = |_| {
        let receive = Receive::open(index, &mut group).context(|| format!("receive on {interface}"))?;
        let transmit = Transmit::open(index).context(|| format!("send on {interface}"))?;
        Ok(AfPacket { name: interface.to_string(), receive, transmit, counts: PortCounts::default() })
    };
    (0..queues).map(queue).collect()
}

/// The group of sockets among which the kernel distributes packets.
enum Fanout {
    None,
    /// The next socket makes it.
    New,
    /// The number of the fanout group.
    Group(u16),
}

/// The receive ring: frames that the kernel fills.
struct Receive {
    socket: OwnedFd,
    ring: Mapping,
    next: usize,
}

impl Receive {
    fn open(index: libc::c_int, fanout: &mut Fanout) -> std::io::Result<Receive> {
        // A socket without a protocol receives nothing before it is bound.
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let set = |name, value: libc::c_int| socket::set(&socket, libc::SOL_PACKET, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        set(libc::PACKET_VNET_HDR, 1)?;
        set(libc::PACKET_IGNORE_OUTGOING, 1)?;
        set(libc::PACKET_COPY_THRESH, 1)?;
        // This exceeds the limit net.core.rmem_max if the process may do that.
        let size = |name| socket::set(&socket, libc::SOL_SOCKET, name, QUEUE);
        let _ = size(libc::SO_RCVBUFFORCE).or_else(|_| size(libc::SO_RCVBUF));
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, RING)?;
        let ring = Mapping::new(Some(socket.as_fd()), 0, FRAME * FRAMES)?;
        socket::bind(&socket, of_interface(index, ANY_PROTOCOL))?;
        let all = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all)?;
        let how = libc::PACKET_FANOUT_HASH as libc::c_int | IGNORE_OUTGOING;
        match *fanout {
            Fanout::None => {}
            Fanout::New => {
                socket::set(&socket, libc::SOL_PACKET, libc::PACKET_FANOUT, (how | UNIQUE) << 16)?;
                let chosen: u32 = socket::get(&socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
                *fanout = Fanout::Group(chosen as u16);
            }
            Fanout::Group(group) => {
                let how = how << 16 | libc::c_int::from(group);
                socket::set(&socket, libc::SOL_PACKET, libc::PACKET_FANOUT, how)?;
            }
        }
        Ok(Receive { socket, ring, next: 0 })
    }

    /// The status word of the next frame; 0 while the kernel owns the frame.
    fn status(&self) -> u32 {
        self.ring.word(self.next * FRAME).load(Ordering::Acquire)
    }

    /// Copies the packet of the next frame (`struct tpacket2_hdr`) to `room`, and returns the frame to the kernel. Returns the packet's
    /// length and offload, or `None` if it is too long.
    fn take(&mut self, status: u32, room: &mut [u8]) -> Option<(usize, Option<Offload>)> {
        let frame = self.next * FRAME;
        let whole = u32::from_ne_bytes(self.ring.read(frame + 4)) as usize;
        let tag = self.tag(frame, status);
        let length = whole + tag.map_or(0, |t| t.len());
        let header = if status & libc::TP_STATUS_COPY != 0 {
            self.take_long(whole, room)
        } else {
            self.take_short(frame, whole, room)
        };
        let header = header.filter(|_| length <= room.len());
        if let (Some(tag), Some(_)) = (tag, header) {
            room.copy_within(MACS..whole, MACS + tag.len());
            room[MACS..MACS + tag.len()].copy_from_slice(&tag);
        }
        self.ring.word(frame).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % FRAMES;
        header.map(|header| (length, offload::arrived(&header, &mut room[..length], length - whole)))
    }

    /// The VLAN tag that the kernel or the hardware has removed from a packet.
    fn tag(&self, frame: usize, status: u32) -> Option<[u8; 4]> {
        let captured = u32::from_ne_bytes(self.ring.read(frame + 8)) as usize;
        (status & libc::TP_STATUS_VLAN_VALID != 0 && captured >= MACS).then(|| {
            let half = |at: usize| u16::from_ne_bytes(self.ring.read(frame + at)).to_be_bytes();
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let [a, b] = if known { half(26) } else { [0x81, 0] };
            let [c, d] = half(24);
            [a, b, c, d]
        })
    }

    /// Copies a packet from its frame, and returns its offload header.
    fn take_short(&self, frame: usize, whole: usize, room: &mut [u8]) -> Option<[u8; offload::HEADER]> {
        let captured = u32::from_ne_bytes(self.ring.read(frame + 8)) as usize;
        let begin = frame + usize::from(u16::from_ne_bytes(self.ring.read(frame + 12)));
        let room = room.get_mut(..whole).filter(|_| captured == whole)?;
        self.ring.copy_out(begin, room);
        Some(self.ring.read(begin - offload::HEADER))
    }

    /// Reads a packet that is longer than a frame from the socket's queue, and returns its offload header.
    fn take_long(&self, whole: usize, room: &mut [u8]) -> Option<[u8; offload::HEADER]> {
        let mut header = [0; offload::HEADER];
        let read = socket::read_parts(self.socket.as_fd(), &mut header, room);
        read.ok().filter(|read| *read == header.len() + whole).map(|_| header)
    }
}

/// The transmit ring: frames that the kernel sends.
struct Transmit {
    socket: OwnedFd,
    ring: Mapping,
    next: usize,
    waiting: usize,
    /// The socket for packets that need a call of their own.
    alone: OwnedFd,
}

impl Transmit {
    fn open(index: libc::c_int) -> std::io::Result<Transmit> {
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let set = |name, value: libc::c_int| socket::set(&socket, libc::SOL_PACKET, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        set(libc::PACKET_LOSS, 1)?;
        set(libc::PACKET_QDISC_BYPASS, 1)?;
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, RING)?;
        let ring = Mapping::new(Some(socket.as_fd()), 0, FRAME * FRAMES)?;
        socket::bind(&socket, of_interface(index, 0))?;
        let alone = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        socket::set(&alone, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket::bind(&alone, of_interface(index, 0))?;
        Ok(Transmit { socket, ring, next: 0, waiting: 0, alone })
    }

    /// Writes a packet into the next frame. Returns false if the kernel has not yet sent the frame's previous packet.
    fn put(&mut self, packet: &[u8]) -> bool {
        let frame = self.next * FRAME;
        let status = self.ring.word(frame);
        if status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return false;
        }
        self.ring.copy_in(frame + FRAME_HEAD, packet);
        self.ring.word(frame + 4).store(packet.len() as u32, Ordering::Relaxed);
        status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = (self.next + 1) % FRAMES;
        self.waiting += 1;
        true
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        self.waiting = 0;
        socket::kick(&self.socket, 0)
    }

    fn send_alone(&mut self, packet: &[u8], offload: Option<&Offload>) -> std::io::Result<()> {
        self.flush()?;
        let header = offload::leaving(packet, offload, 0);
        socket::write_parts(self.alone.as_fd(), &header, packet).map(drop)
    }
}

impl Port for AfPacket {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> std::result::Result<(), PortError> {
        loop {
            let status = self.receive.status();
            if status & libc::TP_STATUS_USER == 0 {
                return Ok(());
            }
            let Some(room) = inbox.room() else { return Ok(()) };
            match self.receive.take(status, room) {
                Some((length, offload)) => {
                    self.counts.received.add(length as u64);
                    inbox.take(length, offload);
                }
                None => self.counts.missed += 1,
            }
        }
    }

    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> std::result::Result<(), Unsent> {
        let sent = if offload.is_some() || packet.len() > FRAME - FRAME_HEAD {
            match self.transmit.send_alone(packet, offload) {
                Ok(()) => Ok(()),
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => Err(Unsent::TooLong),
                Err(_) => Err(Unsent::Full),
            }
        } else if self.transmit.put(packet) {
            Ok(())
        } else {
            // The flush may free a frame.
            let _ = self.transmit.flush();
            if self.transmit.put(packet) { Ok(()) } else { Err(Unsent::Full) }
        };
        match sent {
            Ok(()) => self.counts.sent.add(packet.len() as u64),
            Err(Unsent::Full) => self.counts.full += 1,
            Err(_) => self.counts.unfit += 1,
        }
        sent
    }

    fn flush(&mut self) -> std::result::Result<(), PortError> {
        self.transmit.flush().map_err(|e| PortError(format!("{}: {e}", self.name)))
    }

    fn counts(&mut self) -> PortCounts {
        // The kernel resets its statistics when they are read.
        let kernel: std::io::Result<libc::tpacket_stats> =
            socket::get(&self.receive.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        self.counts.missed += kernel.map_or(0, |k| u64::from(k.tp_drops));
        self.counts
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receive.socket.as_fd())
    }

    fn how(&self) -> String {
        "TPACKET_V2".to_string()
    }
}
