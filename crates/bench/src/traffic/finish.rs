//! Completes packets: sets lengths, checksums, and the other fields that every valid packet has (version, header length, time to live). The
//! packet's own bytes say which protocols it has. A header that no preceding field announces is left unchanged.

use dataplane::checksum::Csum16;

const ETHERNET: usize = 14;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TYPE_VLAN: [u16; 2] = [0x8100, 0x88a8];
/// The EtherType of an Ethernet frame in GRE: transparent Ethernet bridging (RFC 7637).
const TYPE_BRIDGED: u16 = 0x6558;
/// The UDP port of VXLAN (RFC 7348).
const PORT_VXLAN: u16 = 4789;

/// Completes a frame that begins with an Ethernet header.
pub fn ethernet(p: &mut [u8]) {
    let mut at = ETHERNET;
    while at <= p.len() && TYPE_VLAN.contains(&u16_at(p, at - 2)) {
        at += 4;
    }
    if at <= p.len() {
        let kind = u16_at(p, at - 2);
        by_type(kind, &mut p[at..]);
    }
}

fn by_type(kind: u16, p: &mut [u8]) {
    match kind {
        TYPE_IPV4 => ipv4(p),
        TYPE_IPV6 => ipv6(p),
        TYPE_BRIDGED => ethernet(p),
        _ => {}
    }
}

/// Completes an IPv4 packet (RFC 791).
fn ipv4(p: &mut [u8]) {
    if p.len() < 20 {
        return;
    }
    if p[0] >> 4 == 0 {
        p[0] |= 0x40;
    }
    if p[0] & 15 == 0 {
        p[0] |= 5;
    }
    if p[8] == 0 {
        p[8] = 64;
    }
    set(p, 2, p.len() as u16);
    let head = usize::from(p[0] & 15) * 4;
    if head < 20 || head > p.len() {
        return;
    }
    if u16_at(p, 6) & 0x1fff == 0 {
        let mut pseudo = Csum16::default();
        pseudo.add(&p[12..20]);
        by_protocol(p[9], &mut p[head..], pseudo);
    }
    set(p, 10, 0);
    set(p, 10, dataplane::checksum::csum16(&p[..head]));
}

/// Completes an IPv6 packet (RFC 8200).
fn ipv6(p: &mut [u8]) {
    if p.len() < 40 {
        return;
    }
    if p[0] >> 4 == 0 {
        p[0] |= 0x60;
    }
    if p[7] == 0 {
        p[7] = 64;
    }
    set(p, 4, (p.len() - 40) as u16);
    let mut pseudo = Csum16::default();
    pseudo.add(&p[8..40]);
    let (mut next, mut at) = (p[6], 40);
    // Extension headers 0 (hop-by-hop options), 43 (routing) and 60 (destination options) have a length. The upper layer of a fragment is
    // incomplete, so fragments are left unchanged.
    while matches!(next, 0 | 43 | 60) && at + 8 <= p.len() {
        next = p[at];
        at += 8 + 8 * usize::from(p[at + 1]);
    }
    if at <= p.len() {
        by_protocol(next, &mut p[at..], pseudo);
    }
}

/// Completes the payload of an IP packet. `pseudo` is the sum of the addresses.
fn by_protocol(protocol: u8, p: &mut [u8], pseudo: Csum16) {
    match protocol {
        1 if p.len() >= 8 => sum(p, 2, Csum16::default()),
        4 => ipv4(p),
        6 if p.len() >= 20 => {
            if p[12] >> 4 == 0 {
                p[12] |= 0x50;
            }
            sum(p, 16, with(pseudo, 6, p.len()));
        }
        17 if p.len() >= 8 => {
            if u16_at(p, 2) == PORT_VXLAN && p.len() >= 16 {
                // The I flag: the VXLAN network identifier is valid.
                p[8] |= 0x08;
                ethernet(&mut p[16..]);
            }
            set(p, 4, p.len() as u16);
            sum(p, 6, with(pseudo, 17, p.len()));
            if u16_at(p, 6) == 0 {
                set(p, 6, 0xffff);
            }
        }
        41 => ipv6(p),
        47 if p.len() >= 4 => gre(p),
        58 if p.len() >= 8 => sum(p, 2, with(pseudo, 58, p.len())),
        _ => {}
    }
}

/// Completes a GRE packet (RFC 2784 and 2890): a checksum, a key and a sequence number, as the flags say.
fn gre(p: &mut [u8]) {
    let (flags, kind) = (p[0], u16_at(p, 2));
    let head = 4 + [0x80, 0x20, 0x10].iter().filter(|flag| flags & **flag != 0).count() * 4;
    if head > p.len() {
        return;
    }
    by_type(kind, &mut p[head..]);
    if flags & 0x80 != 0 {
        sum(p, 4, Csum16::default());
    }
}

/// The sum of the pseudo-header: the addresses, the protocol and the length.
fn with(mut addresses: Csum16, protocol: u8, length: usize) -> Csum16 {
    addresses.add(&[0, protocol]);
    addresses.add(&(length as u32).to_be_bytes());
    addresses
}

fn sum(p: &mut [u8], at: usize, mut start: Csum16) {
    set(p, at, 0);
    start.add(p);
    set(p, at, start.finish());
}

fn u16_at(p: &[u8], at: usize) -> u16 {
    p.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

fn set(p: &mut [u8], at: usize, value: u16) {
    p[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
