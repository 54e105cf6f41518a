//! Rules of MGLRU that Linux 6.14 changed: the uses of a folio, its tier, and the generation that it enters.
//!
//! The kernel keeps uses in flags of a folio. Here they are a number: the counted reads, and since 6.14 the
//! flag of the working set.

/// MIN_NR_GENS: reclaim stops at this number of generations.
pub(super) const FEWEST: u32 = 2;

/// MAX_NR_GENS: each has a list.
pub(super) const MOST: u32 = 4;

/// Since 6.14: the folio was read more often than is counted, now or before it was evicted (PG_workingset).
const WORKINGSET: u8 = 8;

/// Reads that are counted: PG_referenced, PG_workingset and two bits of references.
const MOST_USES: u8 = 5;

/// Reads that are counted since 6.14: PG_referenced and two bits of references.
const MOST_LATER_USES: u8 = 4;

/// A folio with this number of reads at its eviction has all of them again when it returns.
const HOT_USES: u8 = 4;

/// The version of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Linux 6.12; versions from 6.1 to 6.13 are close.
    First,
    /// Since Linux 6.14.
    Later,
}

impl Rules {
    /// The uses after a read: folio_inc_refs(), lru_gen_inc_refs().
    pub(super) fn read(self, uses: u8) -> u8 {
        match self {
            Rules::First => (uses + 1).min(MOST_USES),
            Rules::Later if reads(uses) < MOST_LATER_USES => uses + 1,
            Rules::Later => uses | WORKINGSET,
        }
    }

    /// lru_tier_from_refs(): reads by powers of two; the first read and none are the same.
    pub(super) fn tier(self, uses: u8) -> usize {
        match self {
            Rules::Later if uses & WORKINGSET != 0 => 3,
            _ => usize::from(reads(uses).max(1)).next_power_of_two().ilog2() as usize,
        }
    }

    /// The folio moves to the next generation, whatever the refaults of its tier.
    pub(super) fn is_hot(self, uses: u8) -> bool {
        match self {
            Rules::First => uses == MOST_USES,
            Rules::Later => uses == MOST_LATER_USES | WORKINGSET,
        }
    }

    /// Hot folios count as protected ones of their tier.
    pub(super) fn counts_hot(self) -> bool {
        self == Rules::First
    }

    /// The uses of a folio that has moved to the next generation.
    pub(super) fn after_move(self, uses: u8) -> u8 {
        match self {
            Rules::First => 0,
            Rules::Later => uses & WORKINGSET,
        }
    }

    /// lru_gen_test_recent(): an eviction at that time is recent.
    pub(super) fn is_recent(self, time: u32, oldest: u32, youngest: u32) -> bool {
        match self {
            Rules::First => time == oldest,
            Rules::Later => youngest.abs_diff(time) < MOST,
        }
    }

    /// The uses of a folio that returns after a recent eviction.
    pub(super) fn after_return(self, uses: u8) -> u8 {
        match self {
            Rules::First if uses >= HOT_USES => MOST_USES,
            Rules::First => 0,
            Rules::Later => uses & WORKINGSET,
        }
    }

    /// lru_gen_folio_seq(): the generation that a folio enters.
    pub(super) fn entered(self, uses: u8, in_fault: bool, oldest: u32, youngest: u32) -> u32 {
        let back = match (self, in_fault) {
            (Rules::First, true) => return youngest,
            (Rules::First, false) if oldest + FEWEST >= youngest => return oldest,
            (Rules::First, false) => return oldest + 1,
            (Rules::Later, true) => FEWEST,
            (Rules::Later, false) => MOST,
        };
        let back = back - u32::from(uses & WORKINGSET != 0);
        (youngest + 1).saturating_sub(back).max(oldest)
    }

    /// A tier is protected if its share of refaults is larger than that of the first tier by this factor.
    pub(super) fn gain(self) -> f64 {
        match self {
            Rules::First => 2.0,
            Rules::Later => 1.5,
        }
    }

    /// A protected folio is evicted first in its new generation, and not last.
    pub(super) fn moves_to_tail(self) -> bool {
        self == Rules::First
    }

    /// should_run_aging() before 6.14 looked at the sizes of the generations where three are left.
    pub(super) fn ages_three(self, old: u64, young: u64, total: u64) -> bool {
        match self {
            Rules::First => {
                young * u64::from(FEWEST) > total || old * u64::from(FEWEST + 2) < total
            }
            Rules::Later => true,
        }
    }
}

fn reads(uses: u8) -> u8 {
    uses & (WORKINGSET - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The uses after a number of reads.
    fn after(rules: Rules, reads: usize) -> u8 {
        (0..reads).fold(0, |uses, _| rules.read(uses))
    }

    #[test]
    fn tier_is_the_power_of_two_of_the_reads() {
        let tiers =
            |rules: Rules| [0, 1, 2, 3, 4, 5, 9].map(|reads| rules.tier(after(rules, reads)));
        assert_eq!(tiers(Rules::First), [0, 0, 1, 2, 2, 3, 3]);
        assert_eq!(tiers(Rules::Later), [0, 0, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn fifth_read_makes_a_page_hot() {
        for rules in [Rules::First, Rules::Later] {
            let hot = [3, 4, 5, 6].map(|reads| rules.is_hot(after(rules, reads)));
            assert_eq!(hot, [false, false, true, true], "{rules:?}");
        }
    }

    #[test]
    fn hot_page_that_moved_keeps_its_place_in_the_working_set_since_6_14() {
        assert_eq!(Rules::First.after_move(after(Rules::First, 5)), 0);
        let moved = Rules::Later.after_move(after(Rules::Later, 5));
        assert_eq!(Rules::Later.tier(moved), 3);
        assert!(!Rules::Later.is_hot(moved), "its reads are counted anew");
    }

    #[test]
    fn read_page_enters_the_oldest_of_three_generations() {
        for rules in [Rules::First, Rules::Later] {
            assert_eq!(rules.entered(0, false, 5, 7), 5, "{rules:?}");
        }
        assert_eq!(Rules::First.entered(0, false, 5, 8), 6, "of four: the next");
        assert_eq!(
            Rules::Later.entered(0, false, 5, 8),
            5,
            "of four: the oldest"
        );
        assert_eq!(Rules::Later.entered(WORKINGSET, false, 5, 8), 6);
        assert_eq!(Rules::First.entered(0, true, 5, 8), 8, "in a page fault");
    }
}
