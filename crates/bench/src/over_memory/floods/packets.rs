//! The packets of the floods: what strangers on the Internet and one subscriber can send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;
use harness::rng::Rng;
use serde::Serialize;

use super::super::SMALLEST;
use crate::traffic::{Datagram, finish};

/// A kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Flood {
    /// TCP SYNs of a hundred thousand IPv4 hosts, to ports that a host has.
    Syn,
    /// UDP of one IPv4 host from all its ports, to ports that a host has.
    UdpOne,
    /// UDP of a hundred thousand IPv4 hosts, to ports that a host has.
    UdpMany,
    /// First fragments of a hundred thousand IPv4 hosts, to ports that a host has.
    Fragments,
    /// Pings of a hundred thousand IPv4 hosts, to the pool.
    Pings,
    /// ICMP errors about packets that nobody has sent.
    Errors,
    /// Packets to each port of each address of the pool.
    Scan,
    /// TCP SYNs of one subscriber, to random hosts.
    SubscriberSyn,
    /// UDP of one subscriber from random addresses and ports, to random hosts.
    SubscriberUdp,
    /// First fragments of one subscriber.
    SubscriberFragments,
}

/// The MAC addresses of a frame: destination, then source.
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 10]];
/// The networks of strangers and of servers: addresses for benchmarks (RFC 2544), which never leave this process.
const STRANGERS: u32 = 0xc613_0000;
/// The hosts of strangers.
const MANY: u64 = 100_000;
/// The subscriber who floods: a /64.
const SUBSCRIBER: u128 = (0x2001_0db8_00ff) << 80;
/// The translation prefix, 64:ff9b:1::/96.
const PREFIX: u128 = 0x0064_ff9b_0001 << 80;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const FRAGMENT: u8 = 44;
const MORE: u16 = 0x2000;

/// The address of a host of the measurement. Each has a /64 of its own.
pub fn host(number: u32) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(number) << 64 | 1)
}

/// A packet of a host to the server that everybody uses.
pub fn of_host(number: u32, port: u16) -> Vec<u8> {
    let target = Ipv6Addr::from(PREFIX | u128::from(STRANGERS | 7));
    Datagram { macs: MACS, source: IpAddr::V6(host(number)), target: IpAddr::V6(target), ports: [port, 53] }
        .packet(SMALLEST)
}

/// A packet of a host that opens a TCP connection to the server.
pub fn syn_of_host(number: u32, port: u16) -> Vec<u8> {
    ipv6(host(number), Ipv6Addr::from(PREFIX | u128::from(STRANGERS | 7)), TCP, syn(port, 443))
}

/// The address and port that a translated packet comes from.
pub fn outside(frame: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let address = <[u8; 4]>::try_from(frame.get(26..30)?).ok()?;
    let port = <[u8; 2]>::try_from(frame.get(34..36)?).ok()?;
    (frame[12..14] == [0x08, 0x00]).then_some((address.into(), u16::from_be_bytes(port)))
}

/// What a flood is sent to.
pub struct Targets {
    /// The endpoints of a host for UDP.
    pub udp: Vec<(Ipv4Addr, u16)>,
    /// The same for TCP.
    pub tcp: Vec<(Ipv4Addr, u16)>,
    /// The first address of the pool, and their number.
    pub pool: (Ipv4Addr, u32),
}

impl Targets {
    fn pooled(&self, rng: &mut Rng) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.pool.0) + rng.below(self.pool.1.into()) as u32)
    }
}

fn one_of(endpoints: &[(Ipv4Addr, u16)], rng: &mut Rng) -> (Ipv4Addr, u16) {
    endpoints[rng.below(endpoints.len() as u64) as usize]
}

/// Packet number `n` of a flood.
pub fn of(flood: Flood, n: u64, to: &Targets, rng: &mut Rng) -> Vec<u8> {
    let stranger = Ipv4Addr::from(STRANGERS | (0x1000 + n % MANY) as u32);
    let port = rng.below(65_536) as u16;
    match flood {
        Flood::Syn => {
            let (address, bound) = one_of(&to.tcp, rng);
            ipv4(stranger, address, TCP, [n as u16, 0], syn(port, bound))
        }
        Flood::UdpOne => {
            let (address, bound) = one_of(&to.udp, rng);
            ipv4(Ipv4Addr::from(STRANGERS | 9), address, UDP, [0, 0], udp(n as u16, bound))
        }
        Flood::UdpMany => {
            let (address, bound) = one_of(&to.udp, rng);
            ipv4(stranger, address, UDP, [0, 0], udp(port, bound))
        }
        Flood::Fragments => {
            let (address, bound) = one_of(&to.udp, rng);
            ipv4(stranger, address, UDP, [rng.below(65_536) as u16, MORE], udp(port, bound))
        }
        Flood::Pings => {
            let echo = [&[8, 0, 0, 0][..], &port.to_be_bytes(), &[0; 22]].concat();
            ipv4(stranger, to.pooled(rng), ICMP, [0, 0], echo)
        }
        Flood::Errors => {
            let address = to.pooled(rng);
            let quoted = ipv4(address, stranger, UDP, [0, 0], udp(port, 53));
            let error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted[14..42]].concat();
            ipv4(stranger, address, ICMP, [0, 0], error)
        }
        Flood::Scan => {
            let address = u32::from(to.pool.0) + ((n >> 16) % u64::from(to.pool.1)) as u32;
            ipv4(Ipv4Addr::from(STRANGERS | 9), address.into(), UDP, [0, 0], udp(40_000, n as u16))
        }
        Flood::SubscriberSyn => ipv6(subscriber(rng), server(rng), TCP, syn(port, 443)),
        Flood::SubscriberUdp => ipv6(subscriber(rng), server(rng), UDP, udp(port, 53)),
        Flood::SubscriberFragments => {
            let header = [&[UDP, 0, 0, 1][..], &(n as u32).to_be_bytes()].concat();
            // Nobody verifies the sum of a fragment; it is not 0.
            let mut datagram = udp(port, 53);
            datagram[4..8].copy_from_slice(&[0, 24, 0x12, 0x34]);
            ipv6(subscriber(rng), server(rng), FRAGMENT, [header, datagram].concat())
        }
    }
}

fn subscriber(rng: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::from(SUBSCRIBER | u128::from(rng.below(1 << 32)))
}

fn server(rng: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::from(PREFIX | u128::from(STRANGERS | rng.below(1 << 16) as u32))
}

fn udp(source: u16, target: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &target.to_be_bytes(), &[0; 4], &[0x55; 16]].concat()
}

/// A TCP header with nothing but SYN.
fn syn(source: u16, target: u16) -> Vec<u8> {
    [
        &source.to_be_bytes()[..],
        &target.to_be_bytes(),
        &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0],
    ]
    .concat()
}

/// A frame; `fragment` is the identification, and the flags with the offset.
fn ipv4(source: Ipv4Addr, target: Ipv4Addr, protocol: u8, fragment: [u16; 2], payload: Vec<u8>) -> Vec<u8> {
    let [identification, flags] = fragment.map(u16::to_be_bytes);
    let start = [&[0x08, 0x00, 0x45, 0, 0, 0][..], &identification, &flags, &[64, protocol, 0, 0]].concat();
    complete([MACS.concat(), start, source.octets().into(), target.octets().into(), payload].concat())
}

fn ipv6(source: Ipv6Addr, target: Ipv6Addr, next: u8, payload: Vec<u8>) -> Vec<u8> {
    let start = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, next, 64];
    complete([MACS.concat(), start, source.octets().into(), target.octets().into(), payload].concat())
}

fn complete(mut frame: Vec<u8>) -> Vec<u8> {
    finish::ethernet(&mut frame);
    frame
}
