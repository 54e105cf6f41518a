//! Tiers of MGLRU: folios by their uses, and the choice of the tiers to protect, as in get_tier_idx() of mm/vmscan.c.

/// MAX_NR_TIERS
const TIERS: usize = 4;

/// MIN_LRU_BATCH: pages of a tier that refault before it is protected.
const BATCH: f64 = 64.0;

/// Pages of a tier while the present generation is the oldest, and the average of those before.
#[derive(Debug, Clone, Copy, Default)]
struct Tier {
    refaulted: u64,
    /// Evicted or protected.
    total: u64,
    average_refaulted: u64,
    average_total: u64,
}

impl Tier {
    fn refaulted(&self) -> f64 {
        (self.refaulted + self.average_refaulted) as f64
    }

    fn total(&self) -> f64 {
        (self.total + self.average_total) as f64
    }
}

/// The tiers of a memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tiers([Tier; TIERS]);

impl Tiers {
    /// Counts evicted or protected pages of a tier.
    pub(super) fn add(&mut self, tier: usize, pages: u64) {
        self.0[tier].total += pages;
    }

    /// Counts pages that return and had this tier when they were evicted.
    pub(super) fn refault(&mut self, tier: usize, pages: u64) {
        self.0[tier].refaulted += pages;
    }

    /// Another generation becomes the oldest.
    pub(super) fn carry_over(&mut self) {
        for tier in &mut self.0 {
            *tier = Tier {
                refaulted: 0,
                total: 0,
                average_refaulted: (tier.refaulted + tier.average_refaulted) / 2,
                average_total: (tier.total + tier.average_total) / 2,
            };
        }
    }

    /// The number of tiers that are evicted. From the next one on a larger share of pages refaults than of the first
    /// tier, by the factor `gain` at least. `rate` is that of the sample.
    pub(super) fn evicted(&self, rate: f64, gain: f64) -> usize {
        let first = &self.0[0];
        let batch = BATCH * rate;
        let is_evicted = |tier: &Tier| {
            tier.refaulted() < batch
                || tier.refaulted() * (first.total() + batch)
                    <= (first.refaulted() + rate) * tier.total() * gain
        };
        let mut tiers = 1..TIERS;
        let protected = tiers.find(|tier| !is_evicted(&self.0[*tier]));
        protected.unwrap_or(TIERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_is_protected_if_twice_as_many_of_its_pages_refault() {
        for (refaulted, evicted) in [(63, TIERS), (180, TIERS), (200, 1)] {
            let mut tiers = Tiers::default();
            tiers.add(0, 1000);
            tiers.refault(0, 100);
            tiers.add(1, 1000);
            tiers.refault(1, refaulted);
            assert_eq!(tiers.evicted(1.0, 2.0), evicted, "{refaulted} of 1000");
        }
    }

    #[test]
    fn new_oldest_generation_keeps_half_of_the_counts() {
        let mut tiers = Tiers::default();
        tiers.add(1, 1000);
        tiers.refault(1, 400);
        tiers.carry_over();
        assert_eq!(tiers.evicted(1.0, 2.0), 1, "200 of 500 refaulted");
        for _ in 0..2 {
            tiers.carry_over();
        }
        assert_eq!(tiers.evicted(1.0, 2.0), TIERS, "50 are too few");
    }
}
