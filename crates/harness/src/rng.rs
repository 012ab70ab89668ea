//! Random numbers for generated routes, packets and orders. They are repeatable and not cryptographic.

/// Random numbers (xorshift64*, Vigna 2016): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed. Any seed is valid.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A random number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end.max(1))) >> 64) as u64
    }

    /// A random number below `end`, which may exceed 64 bits.
    pub fn below_wide(&mut self, end: u128) -> u128 {
        match u64::try_from(end) {
            Ok(end) => self.below(end).into(),
            Err(_) => self.bits() % end,
        }
    }

    /// A random index into a sequence of this length; 0 if the sequence is empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// The next 128 random bits.
    pub fn bits(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }
}

/// Makes the generator usable with the distributions of the `rand_distr` crate.
impl rand_core::RngCore for Rng {
    fn next_u32(&mut self) -> u32 {
        (Rng::next_u64(self) >> 32) as u32
    }

    fn next_u64(&mut self) -> u64 {
        Rng::next_u64(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&Rng::next_u64(self).to_le_bytes()[..chunk.len()]);
        }
    }
}
