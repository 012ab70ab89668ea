//! The Internet checksum: the complement of the one's complement sum of 16-bit big-endian words (RFC 1071).

/// A one's complement sum that grows piece by piece. A piece with an odd number of bytes is padded with a zero byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Csum16(u64);

impl Csum16 {
    /// Adds a piece. Every piece except the last must have an even length.
    pub fn add(&mut self, bytes: &[u8]) {
        // A sum of 32-bit words equals the sum of their 16-bit halves modulo 2^16 - 1. The accumulator can hold 2^32 of them.
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            self.push(u32::from_be_bytes([word[0], word[1], word[2], word[3]]) as u64);
        }
        let mut tail = [0; 4];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        self.push(u32::from_be_bytes(tail) as u64);
    }

    /// The checksum of all pieces: the complement of their sum.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    fn push(&mut self, word: u64) {
        let (sum, carry) = self.0.overflowing_add(word);
        self.0 = sum + carry as u64;
    }
}

/// The Internet checksum of `bytes`.
pub fn csum16(bytes: &[u8]) -> u16 {
    let mut sum = Csum16::default();
    sum.add(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3.
    #[test]
    fn the_rfc_example() {
        assert_eq!(csum16(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn every_length_agrees_with_the_definition() {
        let bytes: Vec<u8> = (0..67).map(|i| (i * 37 + 250) as u8).collect();
        for len in 0..bytes.len() {
            let mut sum = 0u32;
            for pair in bytes[..len].chunks(2) {
                sum += (pair[0] as u32) << 8 | *pair.get(1).unwrap_or(&0) as u32;
                sum = (sum & 0xffff) + (sum >> 16);
            }
            assert_eq!(csum16(&bytes[..len]), !(sum as u16), "{len} bytes");
        }
    }
}
