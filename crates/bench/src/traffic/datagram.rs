//! A simple UDP packet, for measurements that need nothing else.

use std::net::IpAddr;

use super::finish;

/// The addresses and ports of a UDP packet.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Destination and source MAC address, in this order.
    pub macs: [[u8; 6]; 2],
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same protocol as the source.
    pub target: IpAddr,
    /// Source and destination port, in this order.
    pub ports: [u16; 2],
}

impl Datagram {
    /// Builds the packet with at least `size` bytes, including all headers.
    pub fn packet(&self, size: usize) -> Vec<u8> {
        let mut packet = self.macs.concat();
        match (self.source, self.target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                packet.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
                packet.extend([source.octets(), target.octets()].concat());
            }
            (source, target) => {
                packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
                packet.extend([source, target].map(in_ipv6).concat());
            }
        }
        packet.extend(self.ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend([0; 4]);
        packet.resize(packet.len().max(size), 0x55);
        finish::ethernet(&mut packet);
        packet
    }
}

fn in_ipv6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use dataplane::checksum::csum16;

    use super::*;

    /// The sum over a checksum's whole range, the checksum included, is 0 (RFC 1071).
    #[test]
    fn sums_are_right() {
        let (macs, ports) = ([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], [1024, 9]);
        let (source, target) = (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(198, 51, 100, 1).into());
        let packet = Datagram { macs, source, target, ports }.packet(64);
        assert_eq!((packet.len(), csum16(&packet[14..34])), (64, 0));
        assert_eq!(csum16(&[&packet[26..34], &[0, 17, 0, 30], &packet[34..]].concat()), 0);
        let (source, target) = (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into());
        let packet = Datagram { macs, source, target, ports }.packet(84);
        assert_eq!(csum16(&[&packet[22..54], &[0, 17, 0, 30], &packet[54..]].concat()), 0);
    }
}
