//! Echo requests (RFC 792, RFC 4443), through the kernel's ping sockets. The kernel computes the checksum and gives a socket only its own replies.

use std::io::{ErrorKind, Read as _, Result};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// The types of echo requests and replies, for ICMP and ICMPv6.
const V4: (u8, u8) = (8, 0);
const V6: (u8, u8) = (128, 129);
/// The length of a request: the header, and data that a person recognizes in a capture.
const LENGTH: usize = 64;

/// Sends up to `tries` requests from the calling thread's namespace, and waits `patience` for the reply to each. Returns the time of the first reply. A
/// namespace must allow ping sockets (`net.ipv4.ping_group_range`).
pub fn ping(address: IpAddr, tries: u16, patience: Duration) -> Result<Option<Duration>> {
    let (domain, protocol, (request, reply)) = match address {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, V4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, V6),
    };
    let mut socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    for number in 1..=tries {
        let mut message = [b's'; LENGTH];
        message[..6].copy_from_slice(&[request, 0, 0, 0, 0, 0]);
        message[6..8].copy_from_slice(&number.to_be_bytes());
        let sent = Instant::now();
        // Without a route or a neighbour the kernel refuses some requests at once. A later one may pass.
        let refused = socket.send_to(&message, &SocketAddr::new(address, 0).into()).is_err();
        while let Some(left) = patience.checked_sub(sent.elapsed()).filter(|left| !left.is_zero()) {
            if refused {
                std::thread::sleep(left);
                break;
            }
            socket.set_read_timeout(Some(left))?;
            let mut room = [0; LENGTH];
            match socket.read(&mut room) {
                Ok(8..) if room[0] == reply => return Ok(Some(sent.elapsed())),
                Ok(_) => {}
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                // An ICMP error for an earlier request.
                Err(_) => {}
            }
        }
    }
    Ok(None)
}
