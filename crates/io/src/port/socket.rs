//! The system calls that packet drivers need and std does not have.
//!
//! A module with `unsafe`: every pointer that the kernel gets comes from a live value whose size is passed beside it. Descriptors that the
//! kernel returns are owned at once.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a socket.
pub fn open(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd =
        checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) })?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Plain data: the kernel's structs.
///
/// # Safety
/// Every bit pattern is a value of the type, zeros among them.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        // SAFETY: integers, and C structs of integers and arrays of integers.
        $(unsafe impl Plain for $type {})*
    };
}

plain!(
    u32,
    libc::c_int,
    libc::sockaddr_in6,
    libc::sockaddr_ll,
    libc::sockaddr_xdp,
    libc::tpacket_req,
    libc::xdp_umem_reg,
    libc::xdp_mmap_offsets,
    libc::xdp_options,
    libc::xdp_statistics,
    libc::packet_mreq,
    libc::tpacket_stats,
    libc::ucred,
    [u32; 8],
);

/// The protocol of a packet socket that receives every packet.
pub const ANY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// The address of a packet socket of an interface.
pub fn of_interface(index: libc::c_int, protocol: u16) -> libc::sockaddr_ll {
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

/// Sets a socket option.
pub fn set<T: Plain>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(&value).cast();
    // SAFETY: `value` is a live `T`.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, size) }).map(drop)
}

/// Reads a socket option. Bytes that the kernel does not write are zero.
pub fn get<T: Plain>(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: `T` is plain data, for which zero is valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a live `T` of `size` bytes.
    let got = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut size)
    };
    checked(got).map(|_| value)
}

/// Binds a socket to an address.
pub fn bind<A: Plain>(socket: &OwnedFd, address: A) -> io::Result<()> {
    let size = size_of::<A>() as libc::socklen_t;
    // SAFETY: `address` is a live `A`.
    checked(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), size) }).map(drop)
}

/// Tells the kernel to process a ring. It is no error if the kernel is busy.
pub fn kick(socket: &OwnedFd, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no bytes are passed.
    let sent = unsafe { libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, flags, std::ptr::null(), 0) };
    match sent {
        0.. => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            let busy = [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::ENETDOWN, libc::EINTR];
            if error.raw_os_error().is_some_and(|e| busy.contains(&e)) { Ok(()) } else { Err(error) }
        }
    }
}

/// Reads one packet into two buffers.
pub fn read_parts(from: BorrowedFd<'_>, head: &mut [u8], rest: &mut [u8]) -> io::Result<usize> {
    let parts = [head, rest].map(|p| libc::iovec { iov_base: p.as_mut_ptr().cast(), iov_len: p.len() });
    // SAFETY: both parts are live and exclusively ours.
    let read = unsafe { libc::readv(from.as_raw_fd(), parts.as_ptr(), 2) };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(read as usize) }
}

/// Writes one packet from two buffers.
pub fn write_parts(to: BorrowedFd<'_>, head: &[u8], rest: &[u8]) -> io::Result<usize> {
    let parts =
        [head, rest].map(|p| libc::iovec { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() });
    // SAFETY: both parts are live; the kernel only reads them.
    let written = unsafe { libc::writev(to.as_raw_fd(), parts.as_ptr(), 2) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(written as usize) }
}

/// The user of the process at the other end of a Unix socket.
pub fn peer_user(socket: &impl AsRawFd) -> io::Result<u32> {
    get::<libc::ucred>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED).map(|peer| peer.uid)
}

/// A control message: its level, its type and its data.
type Told<'a> = (libc::c_int, libc::c_int, &'a [u8]);

/// Receives one packet into two buffers, with the sender's address and the control messages. Fails with `WouldBlock` if there is none.
fn receive_with<A: Plain>(
    from: &impl AsRawFd,
    parts: [&mut [u8]; 2],
    told: &mut dyn FnMut(Told<'_>),
) -> io::Result<(usize, A)> {
    /// Room for control messages, aligned as `cmsghdr` must be.
    #[repr(align(8))]
    struct Control([u8; 256]);
    // SAFETY: plain data, for which zero is valid.
    let mut source: A = unsafe { std::mem::zeroed() };
    let mut control = Control([0; 256]);
    let mut parts = parts.map(|p| libc::iovec { iov_base: p.as_mut_ptr().cast(), iov_len: p.len() });
    // SAFETY: plain data, for which zero is valid: no buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = std::ptr::from_mut(&mut source).cast();
    message.msg_namelen = size_of::<A>() as libc::socklen_t;
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: each buffer is live, exclusively ours and as long as said.
    let read = unsafe { libc::recvmsg(from.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the message; the macros stay within `msg_controllen`.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&message) };
    while !next.is_null() {
        // SAFETY: the header is within `control`, which is aligned for it.
        let header = unsafe { *next };
        // SAFETY: no bytes are accessed.
        let length = (header.cmsg_len as usize).saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
        // SAFETY: the kernel writes as many bytes behind the header, all of them within `control`.
        let data = unsafe { std::slice::from_raw_parts(libc::CMSG_DATA(next), length) };
        told((header.cmsg_level, header.cmsg_type, data));
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(&message, next) };
    }
    Ok((read as usize, source))
}

/// The number at an offset of a control message, in the machine's order; 0 if there is none.
fn number<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data.get(at..).and_then(|data| data.first_chunk()).copied().unwrap_or([0; N])
}

/// Receives one packet of an IPv6 socket with IPV6_RECVHOPLIMIT: its length, its source, and its hop limit. Fails with `WouldBlock` if there is none.
pub fn receive_with_hop_limit(from: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(usize, Ipv6Addr, u8)> {
    let mut hops = 0;
    let mut told = |(level, kind, data): Told<'_>| {
        if (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) {
            hops = u8::try_from(libc::c_int::from_ne_bytes(number(data, 0))).unwrap_or(0);
        }
    };
    let (read, source) = receive_with::<libc::sockaddr_in6>(from, [buffer, &mut []], &mut told)?;
    Ok((read, Ipv6Addr::from(source.sin6_addr.s6_addr), hops))
}

/// Whether a packet arrived at an interface or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Arrived,
    Left,
}

/// A packet of a packet socket with PACKET_AUXDATA and SO_TIMESTAMPNS.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The number of bytes in the second buffer.
    pub length: usize,
    pub direction: Direction,
    /// The VLAN tag that is not in the packet.
    pub tag: Option<[u8; 4]>,
    /// Since 1970 (UTC).
    pub time: Duration,
}

/// Receives one packet of a packet socket: its virtio-net header, and its bytes. Fails with `WouldBlock` if there is none.
pub fn receive_frame(from: &impl AsRawFd, head: &mut [u8], rest: &mut [u8]) -> io::Result<Frame> {
    let (mut tag, mut time) = (None, Duration::ZERO);
    let mut told = |(level, kind, data): Told<'_>| match (level, kind) {
        (libc::SOL_PACKET, libc::PACKET_AUXDATA) => tag = vlan(data),
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
            let (seconds, nanos) = (i64::from_ne_bytes(number(data, 0)), i64::from_ne_bytes(number(data, 8)));
            time = Duration::new(seconds.max(0) as u64, nanos.clamp(0, 999_999_999) as u32);
        }
        _ => {}
    };
    let skipped = head.len();
    let (read, source) = receive_with::<libc::sockaddr_ll>(from, [head, rest], &mut told)?;
    let left = source.sll_pkttype == libc::PACKET_OUTGOING;
    let direction = if left { Direction::Left } else { Direction::Arrived };
    Ok(Frame { length: read.saturating_sub(skipped), direction, tag, time })
}

/// The VLAN tag in a `struct tpacket_auxdata`.
fn vlan(data: &[u8]) -> Option<[u8; 4]> {
    let status = u32::from_ne_bytes(number(data, 0));
    let half = |at| u16::from_ne_bytes(number(data, at)).to_be_bytes();
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let ([a, b], [c, d]) = (if known { half(18) } else { [0x81, 0] }, half(16));
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Waits until one of the descriptors is readable, or until the time is over. A broken descriptor does not end the wait at once, and does
/// not keep the others from ending it.
pub fn wait(on: &[BorrowedFd<'_>], most: Duration) {
    let one = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut all: Vec<libc::pollfd> = on.iter().map(one).collect();
    poll(&mut all, most);
    // An interface that went down or away reports an error at once, and again with each poll. Reading the error clears it on a socket; a
    // descriptor that is not a socket keeps reporting.
    let taken = |fd: &BorrowedFd<'_>| get::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR).is_ok();
    let works = |(fd, polled): (&BorrowedFd<'_>, &libc::pollfd)| {
        polled.revents & (libc::POLLHUP | libc::POLLNVAL) == 0
            && (polled.revents & libc::POLLERR == 0 || taken(fd))
    };
    let mut rest: Vec<libc::pollfd> =
        on.iter().zip(&all).filter(|pair| works(*pair)).map(|(_, polled)| *polled).collect();
    if rest.len() < all.len() && rest.iter().all(|polled| polled.revents == 0) {
        poll(&mut rest, most);
    }
}

fn poll(all: &mut [libc::pollfd], most: Duration) {
    // SAFETY: the list is live and as long as said. An error, such as a signal, ends the wait: that is all it does.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, most.as_millis() as libc::c_int) };
}

/// Pins the calling thread to one processor.
pub fn pin(processor: usize) -> io::Result<()> {
    // SAFETY: a set of bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours; CPU_SET checks the number against its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set is live; 0 is the calling thread.
    checked(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) }).map(drop)
}

/// The processors that this process may use, last one first. Interrupts mostly run on the first ones, so workers use the others.
pub fn processors() -> Vec<usize> {
    // SAFETY: a set of bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live; 0 is the calling thread.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    // SAFETY: the set is live, and numbers are within its size.
    let in_set = |n: &usize| unsafe { libc::CPU_ISSET(*n, &set) };
    if got < 0 { vec![0] } else { (0..libc::CPU_SETSIZE as usize).rev().filter(in_set).collect() }
}

/// `struct ifreq` with flags, for TUN/TAP.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Kinds and options of TUN and TAP interfaces (linux/if_tun.h).
pub const IFF_TUN: libc::c_int = 1;
pub const IFF_TAP: libc::c_int = 2;
pub const IFF_NO_PI: libc::c_int = 0x1000;

/// Opens the device of TUN and TAP interfaces. A read of it that finds no packet does not wait.
pub fn open_tun() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")
}

/// Makes a descriptor a queue of a TUN or TAP interface, and returns the interface's name. The interface is created if it does not exist. With
/// `%d` in the name, the kernel makes a new one with a number that is free.
pub fn join_tun(
    device: &impl AsFd,
    name: &str,
    flags: libc::c_int,
    offloads: libc::c_uint,
) -> io::Result<String> {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
    let mut request =
        InterfaceRequest { name: [0; libc::IFNAMSIZ], flags: flags as libc::c_short, rest: [0; 22] };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let fd = device.as_fd().as_raw_fd();
    // SAFETY: the request is a live `struct ifreq`.
    checked(unsafe { libc::ioctl(fd, TUNSETIFF as _, &mut request) })?;
    // SAFETY: the argument is a number.
    checked(unsafe { libc::ioctl(fd, TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) })?;
    let end = request.name.iter().position(|b| *b == 0).unwrap_or(request.name.len());
    Ok(String::from_utf8_lossy(&request.name[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    #[test]
    fn what_is_gone_keeps_nobody_awake() {
        const MOST: Duration = Duration::from_millis(20);
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        drop(theirs);
        let begun = Instant::now();
        wait(&[ours.as_fd()], MOST);
        assert!(begun.elapsed() >= MOST);
    }

    #[test]
    fn what_is_gone_holds_up_no_other() {
        use std::io::Write;
        let (gone, theirs) = UnixStream::pair().expect("a pair");
        drop(theirs);
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let (most, late) = (Duration::from_secs(60), Duration::from_millis(20));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(late);
                theirs.write_all(b"x").expect("writes");
            });
            wait(&[gone.as_fd(), ours.as_fd()], most);
        });
        assert!(begun.elapsed() < most, "it slept over what came");
    }
}
