//! Router advertisements of a link (RFC 4861), as bytes: a raw ICMPv6 socket of one interface.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::Result;
use crate::error::Context;
use crate::link::index_of;
use crate::port::socket;

/// The types of the two messages (RFC 4861 sections 4.1 and 4.2).
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
/// The socket option with a set of message types that do not pass (linux/icmpv6.h).
pub(crate) const ICMP6_FILTER: libc::c_int = 1;
/// The destination of solicitations.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The hop limit of messages that no router has forwarded.
pub(crate) const HOPS: u8 = 255;

/// The routers of a link.
#[derive(Debug)]
pub struct Routers {
    /// A raw socket; std has the calls for it under this name.
    socket: UdpSocket,
    index: u32,
}

impl Routers {
    /// Listens on an interface of the calling thread's namespace.
    pub fn open(interface: &str) -> Result<Self> {
        let index = index_of(interface)?;
        let made = || {
            let socket = socket::open(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6)?;
            let mut stopped = [u32::MAX; 8];
            stopped[usize::from(ADVERTISEMENT / 32)] &= !(1 << (ADVERTISEMENT % 32));
            socket::set(&socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, stopped)?;
            let ipv6 = libc::IPPROTO_IPV6;
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index)?;
            socket::set(&socket, ipv6, libc::IPV6_RECVHOPLIMIT, 1 as libc::c_int)?;
            socket::set(&socket, ipv6, libc::IPV6_MULTICAST_HOPS, libc::c_int::from(HOPS))?;
            Ok(UdpSocket::from(socket))
        };
        let socket = made().context(|| format!("listen to router advertisements on {interface}"))?;
        Ok(Self { socket, index })
    }

    /// The next advertisement and the router that sent it, if one has arrived. It is longer than its fixed part, was sent on the link, and its
    /// checksum is right (RFC 4861 section 6.1.2); its options are not looked at.
    pub fn next(&self) -> io::Result<Option<(Ipv6Addr, Vec<u8>)>> {
        let mut buffer = [0; 9000];
        loop {
            match socket::receive_with_hop_limit(&self.socket, &mut buffer) {
                Ok((length, from, HOPS)) if from.is_unicast_link_local() => {
                    return Ok(Some((from, buffer[..length].to_vec())));
                }
                // It was forwarded, or does not come from a router.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the routers to advertise. It fails while the interface has no link-local address.
    pub fn solicit(&self) -> io::Result<()> {
        // The kernel computes the checksum of ICMPv6.
        let message = [SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        self.socket.send_to(&message, SocketAddrV6::new(ALL_ROUTERS, 0, 0, self.index)).map(drop)
    }
}

impl AsFd for Routers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
