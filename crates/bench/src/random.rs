//! [`Random`]: numbers from a seed.

/// A generator (`SplitMix64`) that never changes, so that a seed gives the same offsets in every
/// version.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

/// Difference of two states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The numbers of one of several streams with the same seed.
    pub fn new(seed: u64, stream: u64) -> Random {
        // Mixed first: otherwise neighbouring seeds would give the same numbers, shifted by a step.
        let mut random = Random(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        Random(random.next())
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, uniform except for a part in 2^64 / `end`.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: a multiplication instead of a division.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 up to, but excluding, 1.
    #[inline]
    pub fn part(&mut self) -> f64 {
        /// The bits of a fraction.
        const BITS: u32 = 53;
        (self.next() >> (64 - BITS)) as f64 / (1_u64 << BITS) as f64
    }

    /// Fills a buffer with incompressible data.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for eight in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            eight.copy_from_slice(&bytes[..eight.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_streams_differ() {
        let first = |seed, stream| Random::new(seed, stream).next();
        assert_eq!(first(1, 0), first(1, 0), "the same");
        assert_ne!(first(1, 0), first(2, 0), "another seed");
        assert_ne!(first(1, 0), first(1, 1), "another stream");
        // The first number for the seed 1234567, according to the generator's authors.
        assert_eq!(
            Random(1_234_567).next(),
            6_457_827_717_110_365_317,
            "SplitMix64"
        );
    }
}
