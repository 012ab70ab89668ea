//! Duplicate address detection (RFC 4862 section 5.4) for an address that is none of an interface's own: one for which the kernel will answer
//! on behalf of a translator.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use crate::Result;
use crate::error::Context;
use crate::link::index_of;
use crate::port::socket;
use crate::routers::{HOPS, ICMP6_FILTER};

/// The types of the two messages (RFC 4861 sections 4.3 and 4.4), and their length without options.
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const BYTES: usize = 24;
/// How long an answer is waited for (RFC 4861 section 10, RETRANS_TIMER).
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a neighbour on this interface has the address. It takes a second to learn that none has.
pub fn is_taken(interface: &str, address: Ipv6Addr) -> Result<bool> {
    let index = index_of(interface)?;
    asked(index, address).context(|| format!("ask the neighbours on {interface} for {address}"))
}

fn asked(index: u32, address: Ipv6Addr) -> io::Result<bool> {
    let answers = socket::open(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6)?;
    let mut stopped = [u32::MAX; 8];
    stopped[usize::from(ADVERTISEMENT / 32)] &= !(1 << (ADVERTISEMENT % 32));
    socket::set(&answers, libc::IPPROTO_ICMPV6, ICMP6_FILTER, stopped)?;
    socket::set(&answers, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index)?;
    socket::set(&answers, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1 as libc::c_int)?;
    let answers = UdpSocket::from(answers);

    // Of this protocol, the header is written by us: the source is the unspecified address.
    let question = socket::open(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
    socket::set(&question, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index)?;
    let group = solicited_node(address);
    UdpSocket::from(question)
        .send_to(&solicitation(address, group), SocketAddrV6::new(group, 0, 0, index))?;

    let begun = Instant::now();
    let mut buffer = [0; 1500];
    while let Some(left) = PATIENCE.checked_sub(begun.elapsed()) {
        match socket::receive_with_hop_limit(&answers, &mut buffer) {
            Ok((length, _, HOPS)) if length >= BYTES && buffer[8..BYTES] == address.octets() => {
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket::wait(&[answers.as_fd()], left),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The group in which the owner of an address hears who asks for it (RFC 4291 section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let group = u128::from(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0));
    Ipv6Addr::from(group | u128::from(address) & 0xff_ffff)
}

/// The question with its IPv6 header.
fn solicitation(address: Ipv6Addr, group: Ipv6Addr) -> Vec<u8> {
    let mut message = [&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0][..], &address.octets()].concat();
    // The pseudo-header: the source is zero, the length is below 65536, and the protocol is ICMPv6 (58).
    let words = group.octets().into_iter().chain(message.iter().copied()).collect::<Vec<u8>>();
    let sum: u32 = words.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = sum + BYTES as u32 + 58;
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let header = [0x60, 0, 0, 0, 0, BYTES as u8, 58, HOPS];
    [&header[..], &Ipv6Addr::UNSPECIFIED.octets(), &group.octets(), &message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum was computed by another program.
    #[test]
    fn the_question_is_that_of_rfc_4862() {
        let address: Ipv6Addr = "2001:db8:1::c1a7".parse().expect("an address");
        let bytes = solicitation(address, solicited_node(address));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = concat!(
            "6000000000183aff",
            "00000000000000000000000000000000",
            "ff0200000000000000000001ff00c1a7",
            "8700c99e00000000",
            "20010db800010000000000000000c1a7"
        );
        assert_eq!(hex, expected);
    }
}
