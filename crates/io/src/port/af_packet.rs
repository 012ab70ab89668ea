//! `af_packet:IF`: a network interface through packet sockets, with rings that the kernel shares (TPACKET, af_packet in the kernel's
//! documentation). It works on every interface and needs nothing of it.
//!
//! What comes in is packed into blocks (TPACKET_V3), which the kernel hands over when they are full or after a millisecond. What
//! leaves stands in a ring of frames (TPACKET_V2), and a call sends all that are there. A packet that is longer than a frame, or is
//! still to be segmented, takes a call of its own, behind those before it. With several workers the kernel deals packets out by
//! their flows, so that each flow stays in order.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

use super::memory::Mapping;
use super::{offload, socket};
use crate::error::Context;
use crate::{Result, link};

/// Bytes and number of receive blocks.
const BLOCK: usize = 1 << 18;
const BLOCKS: usize = 32;
/// Bytes and number of frames to send.
const FRAME: usize = 2048;
const FRAMES: usize = 2048;
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

/// Blocks that the kernel fills.
struct Receive {
    socket: OwnedFd,
    ring: Mapping,
    block: usize,
    /// Packets that are left in the block, and where the next one is.
    left: u32,
    at: usize,
}

impl Receive {
    fn open(index: libc::c_int, fanout: Option<u16>) -> std::io::Result<Receive> {
        // Without a protocol nothing comes until it is bound.
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let set = |name, value: libc::c_int| socket::set(&socket, libc::SOL_PACKET, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as libc::c_int)?;
        set(libc::PACKET_VNET_HDR, 1)?;
        set(libc::PACKET_IGNORE_OUTGOING, 1)?;
        let ring = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCK / FRAME * BLOCKS) as u32,
            tp_retire_blk_tov: 1,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, ring)?;
        let ring = Mapping::new(Some(socket.as_fd()), 0, BLOCK * BLOCKS)?;
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
        Ok(Receive { socket, ring, block: 0, left: 0, at: 0 })
    }

    /// Begins with the next block, if the kernel has handed it over (`struct tpacket_hdr_v1`).
    fn next_block(&mut self) -> bool {
        let start = self.block * BLOCK;
        if self.ring.word(start + 8).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        self.left = u32::from_ne_bytes(self.ring.read(start + 12));
        self.at = start + u32::from_ne_bytes(self.ring.read(start + 16)) as usize;
        true
    }

    fn give_back(&mut self) {
        self.ring.word(self.block * BLOCK + 8).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % BLOCKS;
    }

    /// Takes the packet at hand (`struct tpacket3_hdr`); its length and offload, or `None` where it is too long.
    fn take(&mut self, room: &mut [u8]) -> Option<(usize, Option<Offload>)> {
        let word = |at: usize| u32::from_ne_bytes(self.ring.read(self.at + at));
        let (captured, whole, status) = (word(12) as usize, word(16) as usize, word(20));
        let begin = self.at + usize::from(u16::from_ne_bytes(self.ring.read(self.at + 24)));
        let header: [u8; offload::HEADER] = self.ring.read(begin - offload::HEADER);
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0 && captured >= MACS).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let protocol = if known { u16::from_ne_bytes(self.ring.read(self.at + 36)) } else { 0x8100 };
            let [a, b] = protocol.to_be_bytes();
            let [c, d] = (word(32) as u16).to_be_bytes();
            [a, b, c, d]
        });
        let length = captured + tag.map_or(0, |t| t.len());
        let fits = captured == whole && length <= room.len();
        if fits {
            match tag {
                None => self.ring.copy_out(begin, &mut room[..captured]),
                Some(tag) => {
                    self.ring.copy_out(begin, &mut room[..MACS]);
                    room[MACS..MACS + tag.len()].copy_from_slice(&tag);
                    self.ring.copy_out(begin + MACS, &mut room[MACS + tag.len()..length]);
                }
            }
        }
        self.left -= 1;
        self.at += word(0) as usize;
        let shift = length - captured;
        fits.then(|| (length, offload::arrived(&header, &mut room[..length], shift)))
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
        let ring = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (FRAME * FRAMES / BLOCK) as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: FRAMES as u32,
        };
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, ring)?;
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
        while self.receive.left > 0 || self.receive.next_block() {
            while self.receive.left > 0 {
                let Some(room) = inbox.room() else { return Ok(()) };
                match self.receive.take(room) {
                    Some((length, offload)) => {
                        self.counts.received.add(length as u64);
                        inbox.take(length, offload);
                    }
                    None => self.counts.missed += 1,
                }
            }
            self.receive.give_back();
        }
        Ok(())
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
        let kernel: std::io::Result<libc::tpacket_stats_v3> =
            socket::get(&self.receive.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        self.counts.missed += kernel.map_or(0, |k| u64::from(k.tp_drops));
        self.counts
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receive.socket.as_fd())
    }

    fn how(&self) -> String {
        "TPACKET_V3".to_string()
    }
}
