//! IPv6 fragmentation of Ethernet frames (RFC 8200 section 4.5), for `fragment_ipv6` of p4include/strait.p4.

const ETHERNET: usize = 14;
const IPV6: usize = 40;
const HEADER: usize = 8;
/// The Next Header value of a fragment header.
const FRAGMENT: u8 = 44;
/// The smallest size with room for eight bytes of payload.
pub const LEAST: u16 = (IPV6 + HEADER + 8) as u16;

/// The fragments of a frame, in order; `None` if it leaves as it is: the IPv6 packet fits, the frame is not IPv6, it is shorter than its
/// headers say, or a fragment would begin behind the last possible offset.
///
/// All fragments but the last have as many bytes as fit into `size`, in units of eight. `identification` is that of fragments of a packet
/// without a fragment header.
pub fn ipv6(frame: &[u8], size: u16, identification: u32) -> Option<Vec<Vec<u8>>> {
    let payload = usize::from(u16::from_be_bytes([*frame.get(18)?, *frame.get(19)?]));
    let packet = frame.get(..ETHERNET + IPV6 + payload)?;
    let is_ipv6 = packet[12..14] == [0x86, 0xdd];
    if !is_ipv6 || size < LEAST || IPV6 + payload <= usize::from(size) {
        return None;
    }
    let (unfragmentable, rest) = packet.split_at(ETHERNET + IPV6);
    let (header, body) = match unfragmentable[20] {
        FRAGMENT => rest.split_at_checked(HEADER)?,
        _ => (&[][..], rest),
    };
    let [next, offset, identification] = match *header {
        [next, _, a, b, c, d, e, f] => {
            [next.into(), u16::from_be_bytes([a, b]).into(), u32::from_be_bytes([c, d, e, f])]
        }
        _ => [unfragmentable[20].into(), 0, identification],
    };
    let (first, more) = (offset & 0xfff8, offset & 1);
    let room = (usize::from(size) - IPV6 - HEADER) & !7;
    let last = (body.len() - 1) / room;
    if first as usize + last * room > 0xfff8 {
        return None;
    }
    let fragments = body.chunks(room).enumerate().map(|(i, part)| {
        let offset = (first + (i * room) as u32) | if i < last { 1 } else { more };
        let mut out = unfragmentable.to_vec();
        out[18..20].copy_from_slice(&((part.len() + HEADER) as u16).to_be_bytes());
        out[20] = FRAGMENT;
        out.extend([next as u8, 0]);
        out.extend((offset as u16).to_be_bytes());
        out.extend(identification.to_be_bytes());
        out.extend(part);
        out
    });
    Some(fragments.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(next: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![0u8; ETHERNET + IPV6];
        out[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        out[18..20].copy_from_slice(&(body.len() as u16).to_be_bytes());
        out[20] = next;
        out.extend(body);
        out
    }

    /// What a receiver makes of fragments: the identification, the next header, whether more follows, and the bytes.
    fn reassembled(fragments: &[Vec<u8>], size: u16) -> (u32, u8, bool, Vec<u8>) {
        let (mut body, mut id, mut next, mut more) = (Vec::new(), 0, 0, true);
        for f in fragments {
            assert!(f.len() - ETHERNET <= usize::from(size), "too long: {}", f.len());
            assert_eq!(usize::from(u16::from_be_bytes([f[18], f[19]])), f.len() - ETHERNET - IPV6);
            assert_eq!((f[20], more), (FRAGMENT, true));
            let offset = u16::from_be_bytes([f[56], f[57]]);
            assert_eq!(usize::from(offset & 0xfff8), body.len());
            (id, next, more) = (u32::from_be_bytes([f[58], f[59], f[60], f[61]]), f[54], offset & 1 == 1);
            body.extend(&f[62..]);
        }
        (id, next, more, body)
    }

    #[test]
    fn every_length_is_reassembled() {
        let bytes: Vec<u8> = (0..9000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for length in [1241, 1248, 1249, 2464, 2465, 2480, 8999, 9000] {
            let parts = ipv6(&frame(17, &bytes[..length]), 1280, 77).expect("it is too long");
            assert_eq!(
                reassembled(&parts, 1280),
                (77, 17, false, bytes[..length].to_vec()),
                "{length} bytes"
            );
        }
        assert_eq!(ipv6(&frame(17, &bytes[..1240]), 1280, 77), None);
    }

    #[test]
    fn padding_is_cut_off_and_short_frames_are_left_alone() {
        let mut padded = frame(17, &[1; 1300]);
        padded.extend([0; 9]);
        let parts = ipv6(&padded, 1280, 1).expect("it is too long");
        assert_eq!(reassembled(&parts, 1280).3, vec![1; 1300]);
        assert_eq!(ipv6(&frame(17, &[1; 1300])[..1000], 1280, 1), None);
        assert_eq!(ipv6(&[0; 13], 1280, 1), None);
    }

    #[test]
    fn a_fragment_is_continued() {
        let mut body = vec![6, 0, 0x10, 1, 0, 0, 0, 9];
        body.extend([5; 2000]);
        let parts = ipv6(&frame(FRAGMENT, &body), 1280, 1).expect("it is too long");
        let heads: Vec<_> = parts.iter().map(|p| p[54..62].to_vec()).collect();
        assert_eq!(heads, [[6, 0, 0x10, 1, 0, 0, 0, 9], [6, 0, 0x14, 0xd1, 0, 0, 0, 9]]);
    }

    #[test]
    fn offsets_end_at_65528() {
        let mut body = vec![6, 0, 0xff, 0xf8, 0, 0, 0, 9];
        body.extend([5; 2000]);
        assert_eq!(ipv6(&frame(FRAGMENT, &body), 1280, 1), None);
    }
}
