//! Random numbers for made-up routes, packets and orders: repeatable, and not for secrets.

/// Random numbers (xorshift64*, Vigna 2016): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Any seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// One of so many numbers from 0 on.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end.max(1))) >> 64) as u64
    }

    /// One of so many numbers from 0 on, also where they do not fit 64 bits.
    pub fn below_wide(&mut self, end: u128) -> u128 {
        match u64::try_from(end) {
            Ok(end) => self.below(end).into(),
            Err(_) => self.bits() % end,
        }
    }

    /// An index of so many; 0 where there are none.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// 128 random bits.
    pub fn bits(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }
}

/// The same numbers for distributions that are well kept elsewhere.
impl rand_core::RngCore for Dice {
    fn next_u32(&mut self) -> u32 {
        (Dice::next_u64(self) >> 32) as u32
    }

    fn next_u64(&mut self) -> u64 {
        Dice::next_u64(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&Dice::next_u64(self).to_le_bytes()[..chunk.len()]);
        }
    }
}
