//! The Internet checksum: the complement of the one's complement sum of 16-bit big-endian words (RFC 1071).

/// A running sum. An odd number of bytes is padded with a zero byte at the end, so only the last piece may be odd.
#[derive(Clone, Copy, Debug, Default)]
pub struct Csum16(u64);

impl Csum16 {
    /// Adds bytes. Each piece but the last has an even length.
    pub fn add(&mut self, bytes: &[u8]) {
        // Big-endian words of 32 bits sum to the same value modulo 2^16 - 1; 2^32 of them fit the accumulator.
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            self.push(u32::from_be_bytes([word[0], word[1], word[2], word[3]]) as u64);
        }
        let mut tail = [0; 4];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        self.push(u32::from_be_bytes(tail) as u64);
    }

    /// The checksum of what was added.
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

/// The checksum of some bytes.
pub fn csum16(bytes: &[u8]) -> u16 {
    let mut sum = Csum16::default();
    sum.add(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071 section 3's own example.
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
