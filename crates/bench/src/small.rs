//! The rate of small packets: what a path costs a packet, when no offload hides it.
//!
//! A thread puts ready-made UDP frames on the sender's link through a packet socket, as fast as it can, past the
//! sender's own IP stack. On veth the same processor then carries each packet through the router and to the far
//! link, so the rate is the cost of the whole way. The packets are for an address that nobody has; the far end counts
//! and forgets them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use io::generator::Generator;

use crate::lab::Namespace;
use crate::path::Laid;
use crate::process::run;
use crate::{Error, Result, interrupt};

/// Bytes of UDP payload: 64 bytes of Ethernet, the smallest frame, in IPv4; 84 in IPv6.
const PAYLOAD: usize = 22;
/// Flows, told apart by their source port, so that no path lives from caching one.
const FLOWS: u16 = 64;
/// The port that nobody listens on (RFC 863, discard).
const PORT: u16 = 9;
/// How long the sender runs before the counting starts.
const WARM_UP: Duration = Duration::from_millis(200);

/// Packets a second that cross the path in one direction.
pub fn measure(laid: &Laid, to_client: bool, seconds: u32) -> Result<f64> {
    let lab = &laid.lab;
    let (from, gateway, to) = if to_client {
        (Link(&lab.server, "s0"), Link(&lab.router, "r1"), Link(&lab.client, "c0"))
    } else {
        (Link(&lab.client, "c0"), Link(&lab.router, "r0"), Link(&lab.server, "s0"))
    };
    let (source, target) = if to_client { laid.path.sink_at_client() } else { laid.path.sink_at_server() };
    let macs = Macs { from: from.mac()?, to: gateway.mac()? };
    let frames: Vec<Vec<u8>> = (0..FLOWS).map(|flow| frame(macs, source, target, 40_000 + flow)).collect();
    let mut generator = from.generator(frames)?;

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && !interrupt::requested() {
                generator.burst()?;
            }
            Ok(())
        });
        let rate = count(&to, Duration::from_secs(seconds.into()));
        stop.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap_or_else(|_| Err(std::io::Error::other("the sender panicked")));
        sent.map_err(|source| Error::System { what: "send packets".to_owned(), source })?;
        interrupt::check()?;
        rate
    })
}

/// Counts what reaches a link, a second.
fn count(to: &Link, time: Duration) -> Result<f64> {
    thread::sleep(WARM_UP);
    let (start, before) = (Instant::now(), to.received()?);
    thread::sleep(time);
    let (end, after) = (Instant::now(), to.received()?);
    Ok(after.saturating_sub(before) as f64 / (end - start).as_secs_f64())
}

/// A link of a namespace.
struct Link<'a>(&'a Namespace, &'static str);

impl Link<'_> {
    fn mac(&self) -> Result<[u8; 6]> {
        self.0.mac(self.1)
    }

    fn generator(&self, frames: Vec<Vec<u8>>) -> Result<Generator> {
        let opened = self.0.enter(|| Generator::open(self.1, frames))?;
        opened.map_err(|source| Error::System { what: "open a packet socket".to_owned(), source })
    }

    /// Packets that the link has received so far.
    fn received(&self) -> Result<u64> {
        let arguments = ["-n", self.0.name(), "-json", "-stats", "link", "show", "dev", self.1];
        received(&run(Command::new("ip").args(arguments))?)
    }
}

/// The received packets in the answer of `ip -json -stats link`.
fn received(json: &str) -> Result<u64> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| Error::Output { tool: "ip", detail: error.to_string() })?;
    let count = value.pointer("/0/stats64/rx/packets").and_then(serde_json::Value::as_u64);
    count.ok_or_else(|| Error::Output { tool: "ip", detail: "no stats64.rx.packets".to_owned() })
}

/// The two ends of the first hop.
#[derive(Clone, Copy)]
struct Macs {
    from: [u8; 6],
    to: [u8; 6],
}

/// An Ethernet frame with a UDP datagram. Both addresses are of one family.
fn frame(macs: Macs, source: IpAddr, target: IpAddr, port: u16) -> Vec<u8> {
    let mut frame = [macs.to, macs.from].concat();
    let mut udp = datagram(port);
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            frame.extend(0x0800_u16.to_be_bytes());
            fill_checksum(&mut udp, &[source.octets(), target.octets()].concat());
            frame.extend(ipv4(source, target, udp.len()));
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            frame.extend(0x86dd_u16.to_be_bytes());
            fill_checksum(&mut udp, &[source.octets(), target.octets()].concat());
            frame.extend(ipv6(source, target, udp.len()));
        }
        _ => unreachable!("PathId::sink_* return two addresses of one family"),
    }
    frame.extend(udp);
    frame
}

/// A UDP header (RFC 768) without its checksum, and the payload.
fn datagram(port: u16) -> Vec<u8> {
    let length = (8 + PAYLOAD) as u16;
    let mut udp: Vec<u8> = [port, PORT, length, 0].iter().flat_map(|field| field.to_be_bytes()).collect();
    udp.extend([0x55; PAYLOAD]);
    udp
}

/// The checksum over the pseudo-header, whose addresses alone differ between IPv4 and IPv6, and the datagram.
fn fill_checksum(udp: &mut [u8], addresses: &[u8]) {
    let length = udp.len() as u16;
    let sum = !internet_sum(&[addresses, &[0, 17], &length.to_be_bytes(), udp].concat());
    let sum = if sum == 0 { 0xffff } else { sum };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// A header of RFC 791 that allows no fragments.
fn ipv4(source: Ipv4Addr, target: Ipv4Addr, payload: usize) -> Vec<u8> {
    let length = (20 + payload) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header.extend(source.octets());
    header.extend(target.octets());
    let sum = !internet_sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// A header of RFC 8200.
fn ipv6(source: Ipv6Addr, target: Ipv6Addr, payload: usize) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    header.extend(source.octets());
    header.extend(target.octets());
    header
}

/// The ones' complement sum of RFC 1071 over an even number of bytes.
fn internet_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathId;

    const MACS: Macs = Macs { from: [2, 0, 0, 0, 0, 1], to: [2, 0, 0, 0, 0, 2] };

    #[test]
    fn frames_of_every_path_are_whole() {
        for path in
            [PathId::Plain4, PathId::Plain6, PathId::Express, PathId::Device, PathId::Native, PathId::Tayga]
        {
            for (source, target) in [path.sink_at_server(), path.sink_at_client()] {
                let frame = frame(MACS, source, target, 40_000);
                let (header, addresses) = if source.is_ipv4() { (20, 12..20) } else { (40, 8..40) };
                assert_eq!(frame.len(), 14 + header + 8 + PAYLOAD, "{path}");
                let (packet, udp) = (&frame[14..], &frame[14 + header..]);
                if source.is_ipv4() {
                    assert_eq!(internet_sum(&packet[..20]), 0xffff, "{path}: IPv4 header checksum");
                }
                let pseudo = [&packet[addresses], &[0, 17], &(udp.len() as u16).to_be_bytes(), udp].concat();
                assert_eq!(internet_sum(&pseudo), 0xffff, "{path}: UDP checksum");
            }
        }
    }

    #[test]
    fn counters() {
        let json = r#"[{"ifname":"s0","stats64":{"rx":{"bytes":100,"packets":7},"tx":{"packets":1}}}]"#;
        assert_eq!(received(json).unwrap(), 7);
        assert!(received("[]").is_err());
    }
}
