//! Segmentation offload (GSO) and checksum offload: the virtio-net header that TUN, TAP and packet sockets put before a packet (Virtual I/O
//! Device specification 1.2, section 5.1.6).
//!
//! An incomplete checksum is completed when the packet arrives. If the packet must still be segmented, the checksum stays incomplete, and
//! [`Offload`] accompanies the packet.

use dataplane::port::Offload;

/// Size of the header in bytes.
pub const HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
const CONGESTION: u8 = 0x80;

const ETHERNET: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

fn native(header: &[u8; HEADER], at: usize) -> u16 {
    u16::from_ne_bytes([header[at], header[at + 1]])
}

/// Interprets the header of a received packet. Completes an incomplete checksum if there is nothing else to do. `shift` is the length of
/// the Ethernet header if the header's offsets count from the IP header, as on a TUN interface; otherwise it is 0.
pub fn arrived(header: &[u8; HEADER], packet: &mut [u8], shift: usize) -> Option<Offload> {
    let (start, offset) = (native(header, 6).wrapping_add(shift as u16), native(header, 8));
    match header[1] & !CONGESTION {
        kind @ (TCP_V4 | TCP_V6 | UDP) => {
            Some(Offload { segment: native(header, 4), udp: kind == UDP, start, offset })
        }
        _ if header[0] & NEEDS_CHECKSUM != 0 => {
            finish(packet, start.into(), offset.into());
            None
        }
        _ => None,
    }
}

/// Completes a checksum over the bytes from `start` on. The field holds the sum of the pseudo-header so far.
fn finish(packet: &mut [u8], start: usize, offset: usize) {
    let Some(covered) = packet.get(start..).filter(|c| c.len() >= offset + 2) else { return };
    let sum = dataplane::checksum::csum16(covered);
    // In UDP a checksum of 0 means "no checksum" (RFC 768).
    let sum = if sum == 0 { 0xffff } else { sum };
    packet[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The offset of the transport header of an Ethernet frame, whether the frame is IPv6, and the protocol; `None` for other frames and for
/// fragments.
fn transport(packet: &[u8]) -> Option<(usize, bool, u8)> {
    let mut at = ETHERNET;
    let mut kind = half(packet, 12);
    while matches!(kind, 0x8100 | 0x88a8) {
        kind = half(packet, at + 2);
        at += 4;
    }
    let byte = |at: usize| packet.get(at).copied();
    match kind {
        IPV4 => Some((at + usize::from(byte(at)? & 15) * 4, false, byte(at + 9)?)),
        IPV6 => {
            let (mut next, mut at) = (byte(at + 6)?, at + 40);
            while matches!(next, 0 | 43 | 60) {
                (next, at) = (byte(at)?, at + 8 * (usize::from(byte(at + 1)?) + 1));
            }
            Some((at, true, next))
        }
        _ => None,
    }
}

/// The segments of a packet, with complete checksums, for a program that processes each of them. `None` if the packet is not TCP or UDP over IP, or shorter
/// than its headers.
pub fn segments(packet: &[u8], offload: &Offload) -> Option<Vec<Vec<u8>>> {
    cut(packet, offload, usize::MAX)
}

/// The first of the [`segments`] of a packet.
pub fn first_segment(packet: &[u8], offload: &Offload) -> Option<Vec<u8>> {
    cut(packet, offload, 1)?.pop()
}

/// The first `most` segments of a packet.
fn cut(packet: &[u8], offload: &Offload, most: usize) -> Option<Vec<Vec<u8>>> {
    let (at, is_ipv6, _) = transport(packet)?;
    let ip = ip_header(packet)?;
    let header = match offload.udp {
        true => 8,
        false => usize::from(packet.get(at + 12)? >> 4) * 4,
    };
    let (head, payload) = packet.split_at_checked(at + header)?;
    let each = usize::from(offload.segment).max(1);
    let count = payload.len().div_ceil(each).max(1);
    let segment = |number: usize| {
        let part = &payload[(number * each).min(payload.len())..((number + 1) * each).min(payload.len())];
        let mut segment = [head, part].concat();
        let length = segment.len();
        if is_ipv6 {
            put(&mut segment, ip + 4, (length - ip - 40) as u16);
        } else {
            put(&mut segment, ip + 2, (length - ip) as u16);
            let identification = half(&segment, ip + 4).wrapping_add(number as u16);
            put(&mut segment, ip + 4, identification);
            put(&mut segment, ip + 10, 0);
            let sum = dataplane::checksum::csum16(&segment[ip..at]);
            put(&mut segment, ip + 10, sum);
        }
        let field = at + if offload.udp { 6 } else { 16 };
        if offload.udp {
            put(&mut segment, at + 4, (length - at) as u16);
        } else {
            let sequence = u32::from_be_bytes(*segment[at + 4..].first_chunk()?);
            let sequence = sequence.wrapping_add((number * each) as u32);
            segment[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
            let (first, last) = (number == 0, number + 1 == count);
            let cleared = if last { 0 } else { FIN | PSH } | if first { 0 } else { CWR };
            segment[at + 13] &= !cleared;
        }
        put(&mut segment, field, 0);
        let addresses = if is_ipv6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let protocol = if offload.udp { 17 } else { 6 };
        let mut covered = segment[addresses].to_vec();
        covered.extend_from_slice(&((length - at) as u32).to_be_bytes());
        covered.extend_from_slice(&[0, 0, 0, protocol]);
        covered.extend_from_slice(&segment[at..]);
        let sum = dataplane::checksum::csum16(&covered);
        put(&mut segment, field, if sum == 0 && offload.udp { 0xffff } else { sum });
        Some(segment)
    };
    (0..count.min(most)).map(segment).collect()
}

/// TCP's flags that only one segment has.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The offset of the IP header of an Ethernet frame.
fn ip_header(packet: &[u8]) -> Option<usize> {
    let mut at = ETHERNET;
    while matches!(half(packet, at - 2), 0x8100 | 0x88a8) {
        at += 4;
    }
    (at < packet.len()).then_some(at)
}

fn put(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The header for a packet that is sent; `shift` is as in [`arrived`]. A packet that is not TCP or UDP any more gets an empty header.
pub fn leaving(packet: &[u8], offload: Option<&Offload>, shift: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let Some(offload) = offload else { return header };
    let Some((start, v6, protocol)) = transport(packet) else { return header };
    let length = match (protocol, offload.udp) {
        (6, false) => usize::from(packet.get(start + 12).map_or(5, |b| b >> 4)) * 4,
        (17, true) => 8,
        _ => return header,
    };
    header[0] = NEEDS_CHECKSUM;
    header[1] = match (offload.udp, v6) {
        (true, _) => UDP,
        (false, false) => TCP_V4,
        (false, true) => TCP_V6,
    };
    let mut put = |at: usize, value: usize| header[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    put(2, start + length - shift);
    put(4, offload.segment.into());
    put(6, start - shift);
    put(8, offload.offset.into());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp6(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![2; 12];
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, (8 + payload.len()) as u8, 17, 64]);
        packet.extend([0x20; 32]);
        packet.extend([0, 1, 0, 2, 0, (8 + payload.len()) as u8, 0, 0]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn an_open_checksum_is_finished() {
        let mut packet = udp6(b"payload");
        let mut pseudo: Vec<u8> = packet[22..54].to_vec();
        pseudo.extend([0, 17, 0, 15]);
        let open = !dataplane::checksum::csum16(&pseudo);
        packet[60..62].copy_from_slice(&open.to_be_bytes());
        let mut header = [NEEDS_CHECKSUM, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header[6..8].copy_from_slice(&40u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6u16.to_ne_bytes());
        assert_eq!(arrived(&header, &mut packet, ETHERNET), None);
        pseudo.extend(&packet[54..]);
        // With a correct checksum the sum is all ones, whose complement is 0.
        assert_eq!(dataplane::checksum::csum16(&pseudo), 0);
    }

    #[test]
    fn segments_keep_their_header_when_the_protocol_changes() {
        let mut packet = udp6(&[7; 100]);
        let mut header = [NEEDS_CHECKSUM, UDP, 0, 0, 0, 0, 0, 0, 0, 0];
        header[4..6].copy_from_slice(&50u16.to_ne_bytes());
        header[6..8].copy_from_slice(&54u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6u16.to_ne_bytes());
        let offload = arrived(&header, &mut packet, 0).expect("a packet of segments");
        assert_eq!(offload, Offload { segment: 50, udp: true, start: 54, offset: 6 });
        // The IPv4 packet is 20 bytes shorter.
        let mut four = packet[..12].to_vec();
        four.extend([0x08, 0, 0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        four.extend(&packet[54..]);
        let header = leaving(&four, Some(&offload), 0);
        assert_eq!((header[0], header[1]), (NEEDS_CHECKSUM, UDP));
        assert_eq!(
            [native(&header, 2), native(&header, 4), native(&header, 6), native(&header, 8)],
            [42, 50, 34, 6]
        );
    }
}
