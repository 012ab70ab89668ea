//! A raw socket that sends frames on an interface and receives its frames. It is for tests and tools; the packet driver is
//! `port::af_packet`.
//!
//! A module with `unsafe`: std has no AF_PACKET. Every pointer comes from a live value whose size is passed beside it. The structs are
//! plain data, for which zero is valid.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::error::Context;
use crate::{Result, link};

/// A raw socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    name: String,
}

/// The socket option PACKET_IGNORE_OUTGOING (linux/if_packet.h, Linux 4.20).
const IGNORE_OUTGOING: libc::c_int = 23;

impl PacketSocket {
    /// Opens a socket on an interface of the calling thread's namespace. It receives the frames that the interface *receives*, with any
    /// destination address, but not those that it sends.
    pub fn open(interface: &str) -> Result<Self> {
        let index = link::index_of(interface)?;
        let fd = open(index).context(|| format!("open a raw socket on {interface}"))?;
        Ok(Self { fd, name: interface.to_owned() })
    }

    /// Sends a frame, from its Ethernet header on.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: the kernel reads `frame.len()` bytes from a live slice.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        let result = if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        result.context(|| format!("send {} bytes on {}", frame.len(), self.name))
    }

    /// Waits for the next frame; `None` if none arrives in time. A VLAN tag that the kernel has removed is put back.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        let mut frame = vec![0; 65_536 + 64];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !readable(&self.fd, left).context(|| format!("wait for {}", self.name))? {
                return Ok(None);
            }
            match receive(&self.fd, &mut frame) {
                Ok((length, tag)) => {
                    frame.truncate(length);
                    if let Some(tag) = tag.filter(|_| length >= MACS) {
                        frame.splice(MACS..MACS, tag);
                    }
                    return Ok(Some(frame));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context(|| format!("receive on {}", self.name)),
            }
        }
    }

    /// Discards the frames that have arrived so far.
    pub fn drain(&self) -> Result<()> {
        while self.receive(Duration::ZERO)?.is_some() {}
        Ok(())
    }
}

/// Waits until a descriptor has something to read or has ended, but no longer than this. Returns whether it has.
pub fn readable(fd: &impl AsRawFd, longest: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // The timeout is rounded up. Otherwise the last fraction of a millisecond would be a busy loop.
    let millis = longest.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
    // SAFETY: one pollfd, which lives through the call.
    let ready = unsafe { libc::poll(&mut poll, 1, millis) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// Number of bytes before a VLAN tag: the two MAC addresses.
const MACS: usize = 12;

/// Receives a frame without waiting. Returns its length, and the VLAN tag that the kernel has removed.
fn receive(fd: &OwnedFd, frame: &mut [u8]) -> io::Result<(usize, Option<[u8; 4]>)> {
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    let mut control = [0u64; 8];
    // SAFETY: plain data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the kernel writes into the frame and the control buffer, both live, borrowed by us alone, and bounded above.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the message; its first control header, if any, lies in `control`, which is aligned.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let ours = header.filter(|h| {
        (h.cmsg_level, h.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA)
            && h.cmsg_len >= size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>()
    });
    let Some(header) = ours else { return Ok((got as usize, None)) };
    // SAFETY: its length says that a whole `tpacket_auxdata` follows it.
    let about = unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
    let tagged = about.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
    let (protocol, tci) = (about.tp_vlan_tpid.to_be_bytes(), about.tp_vlan_tci.to_be_bytes());
    let tag = [protocol[0], protocol[1], tci[0], tci[1]];
    Ok((got as usize, tagged.then_some(tag)))
}

fn open(index: u32) -> io::Result<OwnedFd> {
    // Protocol 0 hears nothing, so that nothing of another interface comes in before the bind.
    // SAFETY: no pointers are passed.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let on: libc::c_int = 1;
    let size = size_of_val(&on) as libc::socklen_t;
    for option in [IGNORE_OUTGOING, libc::PACKET_AUXDATA] {
        // SAFETY: a live integer and its size. A kernel without the first one only lets us hear ourselves.
        unsafe { libc::setsockopt(raw, libc::SOL_PACKET, option, (&raw const on).cast(), size) };
    }
    // SAFETY: plain data.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: a live address and its size.
    let bound = unsafe { libc::bind(raw, (&raw const address).cast(), size) };
    if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}
