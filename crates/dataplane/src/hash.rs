//! v1model's hash functions over bytes, with the parameters of BMv2's `calculations.cpp`.
//!
//! `crc16` is CRC-16/ARC, and `crc32` is the CRC of Ethernet. BMv2's *custom* variants have configurable polynomials, but nothing in
//! v1model configures them. Their defaults are these two functions.

use crate::checksum::csum16;

const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u16, 0);
        while bit < 8 {
            // 0x8005 reflected.
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            // 0x04c11db7 reflected.
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC16: [u16; 256] = crc16_table();
static CRC32: [u32; 256] = crc32_table();

/// CRC-16/ARC: polynomial 0x8005, input and output reflected, initial value 0, no final inversion.
pub fn crc16(bytes: &[u8]) -> u16 {
    update_crc16(0, bytes)
}

/// The CRC-16 of data and then of `bytes`, where `crc` is that of the data. It is 0 for no data.
pub fn update_crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, b| crc >> 8 ^ CRC16[(crc as u8 ^ b) as usize])
}

/// CRC-32 of Ethernet: polynomial 0x04c11db7, input and output reflected, initial value all ones, final inversion.
pub fn crc32(bytes: &[u8]) -> u32 {
    update_crc32(0, bytes)
}

/// The CRC-32 of data and then of `bytes`, where `crc` is that of the data. It is 0 for no data.
pub fn update_crc32(crc: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!crc, |crc, b| crc >> 8 ^ CRC32[(crc as u8 ^ b) as usize])
}

/// Continues an Internet checksum. The state, which is 0 for no data, has the sum in 16 bits, and above them whether the number of bytes is odd.
pub fn update_csum16(state: u32, bytes: &[u8]) -> u32 {
    let (odd, sum) = (state >> 16 & 1, state & 0xffff);
    let piece = !csum16(bytes);
    // A piece that begins in the middle of a word has its bytes exchanged (RFC 1071, section 2 B).
    let sum = sum + u32::from(if odd == 1 { piece.swap_bytes() } else { piece });
    (odd ^ bytes.len() as u32 & 1) << 16 | ((sum & 0xffff) + (sum >> 16))
}

/// The first eight bytes as a big-endian number, or all bytes if there are fewer.
pub fn identity(bytes: &[u8]) -> u64 {
    update_identity(0, bytes) as u64
}

/// Continues [`identity`]. The state, which is 0 for no data, has the number in 64 bits, and above them how many bytes it has.
pub fn update_identity(state: u128, bytes: &[u8]) -> u128 {
    let count = (state >> 64) as usize;
    let taken = &bytes[..bytes.len().min(8 - count.min(8))];
    let value = taken.iter().fold(state as u64, |value, b| value << 8 | u64::from(*b));
    u128::from(value) | ((count + taken.len()) as u128) << 64
}

/// The exclusive or of all 16-bit big-endian words. An odd last byte is padded with a zero byte.
pub fn xor16(bytes: &[u8]) -> u16 {
    bytes
        .chunks(2)
        .fold(0, |value, pair| value ^ u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

/// A hash function without state. Each variant is the function of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Hash {
    Crc16,
    Crc32,
    Identity,
    Csum16,
    Xor16,
}

impl Hash {
    /// The hash of `bytes`.
    pub fn of(self, bytes: &[u8]) -> u64 {
        match self {
            Hash::Crc16 => crc16(bytes) as u64,
            Hash::Crc32 => crc32(bytes) as u64,
            Hash::Identity => identity(bytes),
            Hash::Csum16 => csum16(bytes) as u64,
            Hash::Xor16 => xor16(bytes) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the CRC catalogue, for the digits 1 to 9.
    #[test]
    fn catalogue_values() {
        assert_eq!(crc16(b"123456789"), 0xbb3d);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn short_and_odd_inputs() {
        assert_eq!(identity(&[1, 2]), 0x0102);
        assert_eq!(identity(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
        assert_eq!(xor16(&[0xab, 0xcd, 0xff]), 0xabcd ^ 0xff00);
        for hash in [Hash::Crc16, Hash::Crc32, Hash::Identity, Hash::Csum16, Hash::Xor16] {
            hash.of(&[]);
        }
    }

    /// In whatever pieces data comes, its hash is the same.
    #[test]
    fn pieces() {
        let bytes: Vec<u8> = (0..23).map(|i| (i * 37 + 250) as u8).collect();
        for (first, second) in (0..=23).flat_map(|a| (a..=23).map(move |b| (a, b))) {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(pieces.iter().fold(0, |crc, p| update_crc16(crc, p)), crc16(&bytes));
            assert_eq!(pieces.iter().fold(0, |crc, p| update_crc32(crc, p)), crc32(&bytes));
            let sum = pieces.iter().fold(0, |state, p| update_csum16(state, p));
            assert_eq!((!(sum as u16), sum >> 16), (csum16(&bytes), 1));
            let identity = pieces.iter().fold(0, |state, p| update_identity(state, p));
            assert_eq!(
                (identity as u64, identity >> 64),
                (u64::from_be_bytes(bytes[..8].try_into().unwrap()), 8)
            );
        }
    }
}
