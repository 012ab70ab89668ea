//! Sends prepared frames as fast as one thread can: the small-packet generator of `strait bench`.
//!
//! A module with `unsafe`: std has neither the address of a packet socket nor `sendmmsg`. Every pointer that the kernel gets points into a
//! buffer that [`Generator`] owns and that outlives the call.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket on one link, and the frames that it sends repeatedly.
#[derive(Debug)]
pub struct Generator {
    socket: OwnedFd,
    frames: Vec<Vec<u8>>,
}

impl Generator {
    /// Opens a packet socket on a link of the calling thread's network namespace. It bypasses the link's queueing discipline. Frames are
    /// complete, including the Ethernet header.
    pub fn open(link: &str, frames: Vec<Vec<u8>>) -> io::Result<Self> {
        // Protocol 0: the socket receives nothing.
        // SAFETY: no pointers are passed.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let generator = Self { socket, frames };
        generator.bind(link)?;
        generator.bypass_queueing()?;
        Ok(generator)
    }

    fn bind(&self, link: &str) -> io::Result<()> {
        let name = CString::new(link)?;
        // SAFETY: the name is a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all-zero bytes are a valid value of this plain C structure.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: the pointer is to a socket address of `length` bytes.
        let result = unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets PACKET_QDISC_BYPASS (packet(7)), which is meant for packet generators.
    fn bypass_queueing(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        let length = mem::size_of_val(&on) as libc::socklen_t;
        // SAFETY: the pointer is to an integer of `length` bytes.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_QDISC_BYPASS,
                (&raw const on).cast(),
                length,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends every frame once, and returns how many the kernel accepted. A full queue is not an error; the rejected frames count as not
    /// sent.
    pub fn burst(&mut self) -> io::Result<usize> {
        let mut parts: Vec<libc::iovec> = self
            .frames
            .iter_mut()
            .map(|frame| libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
        let count = messages.len() as libc::c_uint;
        // SAFETY: `count` messages stand there; each points at one of `parts`, which points into `self.frames`. None
        // of the three moves or shrinks before the call returns.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        match usize::try_from(sent) {
            Ok(sent) => Ok(sent),
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(0),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }
}

/// A message of one part; the address is that of the bound link.
fn message(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}
