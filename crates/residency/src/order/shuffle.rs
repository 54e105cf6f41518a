//! [`Shuffle`]: an order that a seed decides.

/// A generator of numbers (`SplitMix64`) that never changes, so that a seed gives the same order with every version.
pub(super) struct Shuffle(u64);

impl Shuffle {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Puts items into one of all orders, each of which is as likely (but for a part in 2^64 / length).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            // The high half of the product: a multiplication in place of a division.
            let index = (u128::from(self.next()) * end as u128) >> 64;
            items.swap(end - 1, index as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_order_for_ever() {
        let mut items: Vec<u32> = (0..10).collect();
        Shuffle::new(7).shuffle(&mut items);
        let mut again: Vec<u32> = (0..10).collect();
        Shuffle::new(7).shuffle(&mut again);
        assert_eq!(items, again, "the same seed");
        let mut other: Vec<u32> = (0..10).collect();
        Shuffle::new(8).shuffle(&mut other);
        assert_ne!(items, other, "another seed");
        items.sort_unstable();
        assert_eq!(items, (0..10).collect::<Vec<_>>(), "and nothing is lost");
        // The first number that the generator's authors give for the seed 1234567.
        assert_eq!(
            Shuffle::new(1_234_567).next(),
            6_457_827_717_110_365_317,
            "SplitMix64"
        );
    }

    #[test]
    fn every_place_is_as_likely() {
        let mut first = [0_u32; 4];
        for seed in 0..4_000 {
            let mut items = [0, 1, 2, 3];
            Shuffle::new(seed).shuffle(&mut items);
            first[items[0]] += 1;
        }
        for (item, count) in first.into_iter().enumerate() {
            assert!(
                (900..1_100).contains(&count),
                "{item} came first {count} times of 4,000"
            );
        }
    }
}
