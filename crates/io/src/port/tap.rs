//! `tap:NAME` and `tun:NAME`: a virtual interface of the kernel whose other end is this switch. Packets of up to 64 KB that are segmented
//! later (GSO) pass unsegmented.
//!
//! A TUN interface carries IP packets. The program sees them with an Ethernet header whose addresses are zero; the driver adds and removes
//! it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

use super::socket::{IFF_NO_PI, IFF_TAP, IFF_TUN};
use super::{offload, socket};
use crate::error::Context;
use crate::{Result, link};

const IFF_MULTI_QUEUE: libc::c_int = 0x100;
const IFF_VNET_HDR: libc::c_int = 0x4000;

/// The offloads of checksums and of TCP segmentation.
const OFFLOADS: libc::c_uint = 1 | 2 | 4 | 8;
/// The offload of UDP segmentation (Linux 6.2).
const UDP_OFFLOADS: libc::c_uint = 0x20 | 0x40;

const ETHERNET: usize = 14;

/// A queue of a TUN or TAP interface.
pub struct Tap {
    name: String,
    file: File,
    tun: bool,
    counts: PortCounts,
}

/// Opens this number of queues. The interface is created if it does not exist, and removed with its last queue.
pub fn open(name: &str, tun: bool, queues: usize) -> Result<Vec<Tap>> {
    let kind = if tun { IFF_TUN } else { IFF_TAP };
    let several = if queues > 1 { IFF_MULTI_QUEUE } else { 0 };
    let flags = kind | several | IFF_NO_PI | IFF_VNET_HDR;
    let queue = || {
        let file = socket::open_tun().context(|| "open /dev/net/tun".to_string())?;
        let joined = socket::join_tun(&file, name, flags, OFFLOADS | UDP_OFFLOADS).or_else(|error| {
            // Kernels before 6.2 have no UDP segmentation. Any other error occurs again in the second attempt.
            match error.raw_os_error() {
                Some(libc::EINVAL) => socket::join_tun(&file, name, flags, OFFLOADS),
                _ => Err(error),
            }
        });
        joined.context(|| format!("make the {} interface {name}", if tun { "TUN" } else { "TAP" }))?;
        Ok(Tap { name: name.to_string(), file, tun, counts: PortCounts::default() })
    };
    let all: Vec<Tap> = (0..queues).map(|_| queue()).collect::<Result<_>>()?;
    let up = link::Change { up: Some(true), ..link::Change::default() };
    link::Handle::open()?.change(name, &up)?;
    Ok(all)
}

impl Tap {
    fn shift(&self) -> usize {
        if self.tun { ETHERNET } else { 0 }
    }

    fn broken(&self, error: std::io::Error) -> PortError {
        PortError(format!("{}: {error}", self.name))
    }
}

/// The EtherType of an IP packet.
fn ether_type(packet: &[u8]) -> [u8; 2] {
    if packet.first().is_some_and(|b| b >> 4 == 6) { [0x86, 0xdd] } else { [0x08, 0x00] }
}

impl Port for Tap {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> std::result::Result<(), PortError> {
        let shift = self.shift();
        while let Some(room) = inbox.room() {
            let mut header = [0; offload::HEADER];
            let got = match socket::read_parts(self.file.as_fd(), &mut header, &mut room[shift..]) {
                Ok(got) => got,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(self.broken(e)),
            };
            let Some(length) = got.checked_sub(offload::HEADER) else { continue };
            if self.tun {
                let kind = ether_type(&room[shift..shift + length.max(1)]);
                room[..ETHERNET - 2].fill(0);
                room[ETHERNET - 2..ETHERNET].copy_from_slice(&kind);
            }
            let length = length + shift;
            let offload = offload::arrived(&header, &mut room[..length], shift);
            self.counts.received.add(length as u64);
            inbox.take(length, offload);
        }
        Ok(())
    }

    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> std::result::Result<(), Unsent> {
        let shift = self.shift();
        let header = offload::leaving(packet, offload, shift);
        let Some(bytes) = packet.get(shift..) else {
            self.counts.unfit += 1;
            return Err(Unsent::TooLong);
        };
        match socket::write_parts(self.file.as_fd(), &header, bytes) {
            Ok(_) => {
                self.counts.sent.add(packet.len() as u64);
                Ok(())
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                self.counts.full += 1;
                Err(Unsent::Full)
            }
            // EINVAL means that the packet is not an IP packet (TUN); EIO means that the interface is down.
            Err(_) => {
                self.counts.unfit += 1;
                Err(Unsent::TooLong)
            }
        }
    }

    fn flush(&mut self) -> std::result::Result<(), PortError> {
        Ok(())
    }

    fn counts(&mut self) -> PortCounts {
        self.counts
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn how(&self) -> String {
        "with virtio-net headers".to_string()
    }
}
