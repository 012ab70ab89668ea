//! A plain raw socket: frames out of an interface, frames into it. For tests and tools; the packet driver is another thing.
//!
//! A door for `unsafe`: AF_PACKET has no wrapper in std. Every pointer comes from a live value whose size is passed beside it,
//! and the structs are plain data for which zero is valid.
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

/// Socket option PACKET_IGNORE_OUTGOING (linux/if_packet.h, Linux 4.20).
const IGNORE_OUTGOING: libc::c_int = 23;

impl PacketSocket {
    /// Opens one on an interface of the calling thread's namespace. It hears what the interface *receives*, whatever the
    /// destination address, and not what it sends.
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

    /// The next frame; `None` if none comes in time. A VLAN tag that the kernel took off is not put back.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        let mut frame = vec![0; 65_536 + 64];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.wait(left).context(|| format!("wait for {}", self.name))? {
                return Ok(None);
            }
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: the kernel writes at most `frame.len()` bytes into a live, exclusively borrowed buffer.
            let got =
                unsafe { libc::recv(self.fd.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), flags) };
            if got >= 0 {
                frame.truncate(got as usize);
                return Ok(Some(frame));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error).context(|| format!("receive on {}", self.name));
            }
        }
    }

    /// Forgets what has come in so far.
    pub fn drain(&self) -> Result<()> {
        while self.receive(Duration::ZERO)?.is_some() {}
        Ok(())
    }

    fn wait(&self, left: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Round up, so that the last fraction of a millisecond does not spin.
        let millis = left.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
        // SAFETY: one pollfd, which lives through the call.
        let ready = unsafe { libc::poll(&mut poll, 1, millis) };
        if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
    }
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
    // SAFETY: a live integer and its size. A kernel without the option only lets us hear ourselves.
    unsafe { libc::setsockopt(raw, libc::SOL_PACKET, IGNORE_OUTGOING, (&raw const on).cast(), size) };
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
