//! What arrives at interfaces and leaves through them, by packet sockets: the kernel gives them a copy before tc's programs have a packet that
//! arrives, and after they have one that leaves. A program that runs there need not know, and costs the same.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use dataplane::port::Offload;

use crate::error::Context;
use crate::port::socket::{self, Direction};
use crate::port::{arrived_offload, wait};
use crate::{Result, link};

/// The longest packet in bytes: a GSO packet with its Ethernet header and VLAN tags.
const LARGEST: usize = 65_536 + 64;
/// Size in bytes of the queue of an interface. It bounds the memory; a packet that finds it full is counted.
const QUEUE: libc::c_int = 1 << 23;
/// The packets of an interface that are taken before the next one has its turn.
const TURN: usize = 64;

/// A packet that passed an interface.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The time since 1970 (UTC).
    pub time: Duration,
    /// The number of the port.
    pub port: u32,
    /// Whether it left; otherwise it arrived.
    pub left: bool,
    /// The packet, with its VLAN tag.
    pub bytes: Vec<u8>,
    /// The segmentation that remains.
    pub offload: Option<Offload>,
}

/// The interfaces of ports, while they are watched.
pub struct Interfaces {
    sockets: Vec<(u32, OwnedFd, Missed)>,
    buffer: Vec<u8>,
}

/// The packets that found the queue full, and those that did not.
#[derive(Clone, Copy, Debug, Default)]
struct Missed {
    taken: u64,
    full: u64,
}

impl Interfaces {
    /// Begins to watch interfaces of the calling thread's namespace.
    pub fn open(ports: &[(u32, String)]) -> Result<Interfaces> {
        let open = |(number, interface): &(u32, String)| {
            let socket = open(interface).context(|| format!("watch {interface}"))?;
            Ok((*number, socket, Missed::default()))
        };
        let sockets = ports.iter().map(open).collect::<Result<_>>()?;
        Ok(Interfaces { sockets, buffer: vec![0; LARGEST] })
    }

    /// Waits for packets, at most for this time, and returns them in the order of their times.
    pub fn next(&mut self, most: Duration) -> Vec<Passed> {
        let on: Vec<BorrowedFd<'_>> = self.sockets.iter().map(|(_, socket, _)| socket.as_fd()).collect();
        wait(&on, most);
        let mut all = Vec::new();
        for (port, socket, missed) in &mut self.sockets {
            let next = || receive(*port, socket, &mut self.buffer);
            let before = all.len();
            all.extend(std::iter::from_fn(next).take(TURN));
            missed.taken += (all.len() - before) as u64;
        }
        all.sort_by_key(|passed: &Passed| passed.time);
        all
    }

    /// For each port: the packets that were taken, and those that were lost because they came too fast.
    pub fn counts(&mut self) -> Vec<(u32, u64, u64)> {
        let count = |(port, socket, missed): &mut (u32, OwnedFd, Missed)| {
            // The kernel resets its statistics when they are read.
            let kernel: std::io::Result<libc::tpacket_stats> =
                socket::get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
            missed.full += kernel.map_or(0, |kernel| u64::from(kernel.tp_drops));
            (*port, missed.taken, missed.full)
        };
        self.sockets.iter_mut().map(count).collect()
    }
}

fn open(interface: &str) -> std::io::Result<OwnedFd> {
    let index = link::index_of(interface).map_err(std::io::Error::other)?;
    // A socket without a protocol receives nothing before it is bound.
    let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let set = |level, name, value: libc::c_int| socket::set(&socket, level, name, value);
    set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // This exceeds the limit net.core.rmem_max if the process may do that.
    let size = |name| set(libc::SOL_SOCKET, name, QUEUE);
    size(libc::SO_RCVBUFFORCE).or_else(|_| size(libc::SO_RCVBUF))?;
    socket::bind(&socket, socket::of_interface(index as libc::c_int, socket::ANY_PROTOCOL))?;
    Ok(socket)
}

/// The next packet of a socket, if there is one.
fn receive(port: u32, socket: &OwnedFd, buffer: &mut [u8]) -> Option<Passed> {
    let mut header = [0; 10];
    let got = socket::receive_frame(socket, &mut header, buffer).ok()?;
    let mut bytes = buffer[..got.length].to_vec();
    if let Some(tag) = got.tag.filter(|_| bytes.len() >= 12) {
        bytes.splice(12..12, tag);
    }
    let shift = bytes.len() - got.length;
    let offload = arrived_offload(&header, &mut bytes, shift);
    Some(Passed { time: got.time, port, left: got.direction == Direction::Left, bytes, offload })
}
