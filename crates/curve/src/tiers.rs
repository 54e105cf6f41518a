//! Tiers of MGLRU: folios by their uses, and the choice of the tiers to protect, as in get_tier_idx() of mm/vmscan.c.

/// MAX_NR_TIERS
const TIERS: usize = 4;

/// Largest number of uses that is counted: PG_referenced, PG_workingset and two bits of references.
pub(crate) const MOST_USES: u8 = 5;

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
pub(crate) struct Tiers([Tier; TIERS]);

impl Tiers {
    /// Counts evicted or protected pages that had this number of uses.
    pub(crate) fn add(&mut self, uses: u8, pages: u64) {
        self.0[tier_of(uses)].total += pages;
    }

    /// Counts pages that return and had this number of uses when they were evicted.
    pub(crate) fn refault(&mut self, uses: u8, pages: u64) {
        self.0[tier_of(uses)].refaulted += pages;
    }

    /// Another generation becomes the oldest.
    pub(crate) fn carry_over(&mut self) {
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
    /// tier, twice as large at least. `rate` is that of the sample.
    pub(crate) fn evicted(&self, rate: f64) -> usize {
        let first = &self.0[0];
        let batch = BATCH * rate;
        let is_evicted = |tier: &Tier| {
            tier.refaulted() < batch
                || tier.refaulted() * (first.total() + batch)
                    <= (first.refaulted() + rate) * tier.total() * 2.0
        };
        let mut tiers = 1..TIERS;
        let protected = tiers.find(|tier| !is_evicted(&self.0[*tier]));
        protected.unwrap_or(TIERS)
    }
}

/// lru_tier_from_refs(): uses by powers of two; the first use and none are the same.
pub(crate) fn tier_of(uses: u8) -> usize {
    let uses = usize::from(uses.max(1));
    uses.next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_is_the_power_of_two_of_the_uses() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(tier_of), [0, 0, 1, 2, 2, 3]);
    }

    #[test]
    fn tier_is_protected_if_twice_as_many_of_its_pages_refault() {
        for (refaulted, evicted) in [(63, TIERS), (180, TIERS), (200, 1)] {
            let mut tiers = Tiers::default();
            tiers.add(1, 1000);
            tiers.refault(1, 100);
            tiers.add(2, 1000);
            tiers.refault(2, refaulted);
            assert_eq!(tiers.evicted(1.0), evicted, "{refaulted} of 1000");
        }
    }

    #[test]
    fn new_oldest_generation_keeps_half_of_the_counts() {
        let mut tiers = Tiers::default();
        tiers.add(2, 1000);
        tiers.refault(2, 400);
        tiers.carry_over();
        assert_eq!(tiers.evicted(1.0), 1, "200 of 500 refaulted");
        for _ in 0..2 {
            tiers.carry_over();
        }
        assert_eq!(tiers.evicted(1.0), TIERS, "50 are too few");
    }
}
