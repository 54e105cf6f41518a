//! The kernel's active and inactive list, simulated.

use crate::folios::{Folios, Shadow};

/// Pages that one reclaim frees at least: SWAP_CLUSTER_MAX.
const RECLAIM_PAGES: f64 = 32.0;

const INACTIVE: usize = 0;
const ACTIVE: usize = 1;

/// The use of a folio that is marked referenced.
const REFERENCED: u8 = 1;

/// The two lists of a memory, with referenced bits and refault distances.
#[derive(Debug, Clone)]
pub(crate) struct TwoLists {
    /// Active pages that are to be deactivated; below 0 after a folio that had more.
    share: f64,
    /// The kernel's nonresident_age: evictions and activations so far.
    age: u32,
    /// Active pages allowed for each inactive page.
    ratio: u64,
    /// Pages that one reclaim frees, of the sample.
    batch: u64,
}

impl TwoLists {
    pub(crate) fn new() -> Self {
        TwoLists {
            share: 0.0,
            age: 0,
            ratio: 1,
            batch: 1,
        }
    }

    /// Follows a size of the memory, in GiB, and the rate of the sample.
    pub(crate) fn resize(&mut self, gibibytes: u64, rate: f64) {
        // inactive_is_low() of mm/vmscan.c
        self.ratio = if gibibytes > 0 {
            (10 * gibibytes).isqrt()
        } else {
            1
        };
        self.batch = ((RECLAIM_PAGES * rate).round() as u64).max(1);
    }

    /// The kernel takes both lengths, also where it compares a refault distance, from statistics that are up to two seconds
    /// old. Simulated so, the results for loads with loops were farther from real ones, by 1.9 points instead of 1.3 on the
    /// average of 20 runs: the phase of the flushes is not known.
    fn inactive_is_low(&self, folios: &Folios) -> bool {
        folios.pages_in(INACTIVE).saturating_mul(self.ratio) < folios.pages_in(ACTIVE)
    }

    fn grow_old(&mut self, pages: u64) {
        self.age = self.age.wrapping_add(pages as u32);
    }

    /// folio_mark_accessed()
    pub(crate) fn mark(&mut self, folios: &mut Folios, folio: u32) {
        let is_referenced = folios.uses(folio) == REFERENCED;
        if is_referenced && folios.list_of(folio) == Some(INACTIVE) {
            let pages = folios.remove(folio);
            folios.push(folio, ACTIVE, pages);
            folios.set_uses(folio, 0);
            self.grow_old(pages);
        } else {
            folios.set_uses(folio, REFERENCED);
        }
    }

    /// workingset_refault(): active at once if the folio would have stayed in a memory larger by the active list.
    pub(crate) fn insert(
        &mut self,
        folios: &mut Folios,
        folio: u32,
        pages: u64,
        shadow: Option<Shadow>,
    ) {
        let distance = shadow.map(|shadow| u64::from(self.age.wrapping_sub(shadow.time)));
        if distance.is_some_and(|distance| distance <= folios.pages_in(ACTIVE)) {
            self.grow_old(pages);
            folios.push(folio, ACTIVE, pages);
        } else {
            folios.push(folio, INACTIVE, pages);
        }
    }

    /// Evicts until this number of new pages fit into the capacity, and a batch.
    pub(crate) fn reclaim(&mut self, folios: &mut Folios, capacity: u64, new: u64) {
        let goal = capacity.saturating_sub(self.batch.max(new));
        while folios.resident() > goal {
            if self.inactive_is_low(folios) {
                // Both lists are scanned in proportion to their lengths.
                let last = folios.last(INACTIVE);
                let scanned = last.map_or(1, |last| folios.pages_of(last));
                self.share += (scanned * folios.pages_in(ACTIVE)) as f64
                    / folios.pages_in(INACTIVE).max(1) as f64;
                while self.share >= 1.0 {
                    match deactivate(folios) {
                        0 => break,
                        pages => self.share -= pages as f64,
                    }
                }
                self.share = self.share.min(1.0);
            }
            if !self.evict(folios) && deactivate(folios) == 0 {
                return;
            }
        }
    }

    /// Evicts the last folio of the inactive list, referenced or not, as shrink_folio_list() does with clean pages.
    fn evict(&mut self, folios: &mut Folios) -> bool {
        let Some(folio) = folios.last(INACTIVE) else {
            return false;
        };
        let pages = folios.remove(folio);
        let time = self.age;
        folios.evict(folio, Shadow { time, uses: 0 });
        self.grow_old(pages);
        true
    }
}

/// Moves the last folio of the active list, as shrink_active_list() does; returns its pages.
fn deactivate(folios: &mut Folios) -> u64 {
    let Some(folio) = folios.last(ACTIVE) else {
        return 0;
    };
    let pages = folios.remove(folio);
    // The referenced bit stays.
    folios.push(folio, INACTIVE, pages);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{AccessResult, Cache, Policy, Touch};

    fn limited(pages: u64) -> Cache {
        let mut cache = Cache::unlimited(Policy::Lists);
        // One page at a time, as with a thin sample.
        cache.resize_in_single_pages(pages);
        cache
    }

    /// Active and inactive pages.
    fn pages(cache: &Cache) -> (u64, u64) {
        (
            cache.folios.pages_in(ACTIVE),
            cache.folios.pages_in(INACTIVE),
        )
    }

    #[test]
    fn second_read_of_inactive_page_activates_it() {
        let mut cache = limited(10);
        assert_eq!(cache.access(1, Touch::Marks), AccessResult::Miss);
        assert_eq!(cache.access(1, Touch::Marks), AccessResult::Hit);
        assert_eq!(pages(&cache), (1, 0));
    }

    #[test]
    fn read_that_continues_in_a_page_does_not_activate_it() {
        let mut cache = limited(10);
        cache.access(1, Touch::Marks);
        cache.access(1, Touch::Uses);
        assert_eq!(pages(&cache), (0, 1));
    }

    #[test]
    fn scan_does_not_evict_active_pages() {
        let mut cache = limited(10);
        for slot in 0..4 {
            cache.access(slot, Touch::Marks);
            cache.access(slot, Touch::Marks);
        }
        for slot in 100..1000 {
            cache.access(slot, Touch::Marks);
        }
        for slot in 0..4 {
            assert_eq!(
                cache.access(slot, Touch::Marks),
                AccessResult::Hit,
                "page {slot}"
            );
        }
    }

    #[test]
    fn early_refault_activates_the_page() {
        let mut cache = limited(8);
        for slot in 0..4 {
            cache.access(slot, Touch::Marks);
            cache.access(slot, Touch::Marks);
        }
        for slot in 10..16 {
            cache.access(slot, Touch::Marks);
        }
        assert!(!cache.has(10), "the limit evicted it");
        let (active, _) = pages(&cache);
        assert_eq!(cache.access(10, Touch::Marks), AccessResult::Miss);
        assert_eq!(cache.folios.list_of(10), Some(ACTIVE));
        assert!(pages(&cache).0 >= active, "it is added to the list");
    }

    #[test]
    fn folio_moves_and_leaves_as_one() {
        let mut cache = limited(16);
        assert!(cache.read_ahead_folio(&[1, 2, 3, 4]));
        assert!(!cache.read_ahead_folio(&[4, 5]), "a page of it is there");
        cache.access(2, Touch::Marks);
        cache.access(3, Touch::Marks);
        assert_eq!(pages(&cache), (4, 0));
        for slot in 100..200 {
            cache.access(slot, Touch::Marks);
            cache.access(slot, Touch::Marks);
        }
        assert!((1..=4).all(|slot| !cache.has(slot)), "all of it is evicted");
    }

    #[test]
    fn forgotten_page_is_a_first_access_again() {
        let mut cache = limited(8);
        cache.access(1, Touch::Marks);
        cache.forget(1);
        assert_eq!(cache.resident(), 0);
        assert_eq!(cache.access(1, Touch::Marks), AccessResult::Miss);
        assert_eq!(pages(&cache), (0, 1));
    }
}
