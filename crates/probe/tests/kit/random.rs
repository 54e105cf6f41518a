//! Numbers that look random and are the same in every run, so that a failure comes again.

/// A xorshift generator.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Self {
        // The generator never leaves 0; every other start is as good as any.
        Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    /// Starts the sequence that belongs to a name.
    pub fn named(name: &str) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Random::new(name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 to `limit`, exclusive.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Fills a buffer with what no file system compresses.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
