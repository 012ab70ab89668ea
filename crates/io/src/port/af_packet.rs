//! `af_packet:IF`: a network interface through packet sockets, with rings that the kernel shares (TPACKET, af_packet in the kernel's
//! documentation). It works on every interface and needs nothing of it.
//!
//! What comes in stands in a ring of frames (TPACKET_V2), a packet that is longer than a frame in the socket's queue. What leaves stands
//! in another ring, and a call sends all that are there; one that is longer than a frame, or is still to be segmented, takes a call
//! of its own, behind those before it. With several workers the kernel deals packets out by their flows, so that each flow stays in
//! order.
//!
//! TPACKET_V3 packs what comes in into blocks, which are handed over when they are full or a millisecond is over: each packet waits,
//! and is cold when it is taken. It was slower here (docs/native.md).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

use super::memory::Mapping;
use super::{offload, socket};
use crate::error::Context;
use crate::{Result, link};

/// Bytes and number of frames, of either ring.
const FRAME: usize = 2048;
const FRAMES: usize = 2048;
const BLOCK: usize = 1 << 18;
const RING: libc::tpacket_req = libc::tpacket_req {
    tp_block_size: BLOCK as u32,
    tp_block_nr: (FRAME * FRAMES / BLOCK) as u32,
    tp_frame_size: FRAME as u32,
    tp_frame_nr: FRAMES as u32,
};
/// Bytes of packets longer than a frame that may wait.
const QUEUE: libc::c_int = 1 << 23;
/// Where a frame's bytes begin: behind its `struct tpacket2_hdr`.
const FRAME_HEAD: usize = 32;

/// Bytes of the Ethernet addresses, behind which a VLAN tag stands.
const MACS: usize = 12;

/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING` (Linux 5.10): a group does not hear what its sockets send. What each socket says of that
/// itself does not count in a group.
const IGNORE_OUTGOING: libc::c_int = 0x4000;

const ANY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// One worker's queue of an interface.
pub struct AfPacket {
    name: String,
    receive: Receive,
    transmit: Transmit,
    counts: PortCounts,
}

/// Opens an interface of the calling thread's namespace for as many workers.
pub fn open(interface: &str, queues: usize) -> Result<Vec<AfPacket>> {
    let index = link::index_of(interface)? as libc::c_int;
    // Different for every interface and process.
    let group = (std::process::id() ^ (index as u32) << 8) as u16;
    let queue = |_| {
        let fanout = (queues > 1).then_some(group);
        let receive = Receive::open(index, fanout).context(|| format!("receive on {interface}"))?;
        let transmit = Transmit::open(index).context(|| format!("send on {interface}"))?;
        Ok(AfPacket { name: interface.to_string(), receive, transmit, counts: PortCounts::default() })
    };
    (0..queues).map(queue).collect()
}

fn address(index: libc::c_int, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Frames that the kernel fills.
struct Receive {
    socket: OwnedFd,
    ring: Mapping,
    next: usize,
}

impl Receive {
    fn open(index: libc::c_int, fanout: Option<u16>) -> std::io::Result<Receive> {
        // Without a protocol nothing comes until it is bound.
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let set = |name, value: libc::c_int| socket::set(&socket, libc::SOL_PACKET, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        set(libc::PACKET_VNET_HDR, 1)?;
        set(libc::PACKET_IGNORE_OUTGOING, 1)?;
        set(libc::PACKET_COPY_THRESH, 1)?;
        // Beyond the limit of net.core.rmem_max where that is allowed.
        let size = |name| socket::set(&socket, libc::SOL_SOCKET, name, QUEUE);
        let _ = size(libc::SO_RCVBUFFORCE).or_else(|_| size(libc::SO_RCVBUF));
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, RING)?;
        let ring = Mapping::new(Some(socket.as_fd()), 0, FRAME * FRAMES)?;
        socket::bind(&socket, address(index, ANY_PROTOCOL))?;
        let all = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all)?;
        if let Some(group) = fanout {
            let how =
                (libc::PACKET_FANOUT_HASH as libc::c_int | IGNORE_OUTGOING) << 16 | libc::c_int::from(group);
            socket::set(&socket, libc::SOL_PACKET, libc::PACKET_FANOUT, how)?;
        }
        Ok(Receive { socket, ring, next: 0 })
    }

    /// What the next frame says of its packet; 0 while the kernel has it.
    fn status(&self) -> u32 {
        self.ring.word(self.next * FRAME).load(Ordering::Acquire)
    }

    /// Takes the next frame's packet (`struct tpacket2_hdr`) and gives the frame back: its length and offload, or `None` where it is
    /// too long.
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

    /// The VLAN tag that the kernel, or the hardware, has taken off a packet.
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

    /// A packet that stands in its frame, and its header of offloads.
    fn take_short(&self, frame: usize, whole: usize, room: &mut [u8]) -> Option<[u8; offload::HEADER]> {
        let captured = u32::from_ne_bytes(self.ring.read(frame + 8)) as usize;
        let begin = frame + usize::from(u16::from_ne_bytes(self.ring.read(frame + 12)));
        let room = room.get_mut(..whole).filter(|_| captured == whole)?;
        self.ring.copy_out(begin, room);
        Some(self.ring.read(begin - offload::HEADER))
    }

    /// A packet that is longer than a frame waits in the socket's queue.
    fn take_long(&self, whole: usize, room: &mut [u8]) -> Option<[u8; offload::HEADER]> {
        let mut header = [0; offload::HEADER];
        let read = socket::read_parts(self.socket.as_fd(), &mut header, room);
        read.ok().filter(|read| *read == header.len() + whole).map(|_| header)
    }
}

/// Frames that the kernel sends.
struct Transmit {
    socket: OwnedFd,
    ring: Mapping,
    next: usize,
    waiting: usize,
    /// For packets that need a call of their own.
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
        socket::bind(&socket, address(index, 0))?;
        let alone = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        socket::set(&alone, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket::bind(&alone, address(index, 0))?;
        Ok(Transmit { socket, ring, next: 0, waiting: 0, alone })
    }

    /// Puts a packet into the next frame; false if the kernel has not sent what was there.
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
            // Room may have been made meanwhile.
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
        // Reading the kernel's statistics clears them.
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
