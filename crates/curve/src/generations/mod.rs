//! The generations of MGLRU, simulated for pages of files that are read by descriptors.
//!
//! As mm/vmscan.c, lru_gen_eviction() and lru_gen_refault() of mm/workingset.c, and folio_inc_refs() of mm/swap.c do. `rules`
//! has the differences between versions. Reclaim is that of a memory group without swap: files alone are evicted. A page fault makes a page young;
//! later touches of a mapped page are not known.

mod rules;
mod tiers;

use crate::folios::{Folios, New, Shadow};
pub(crate) use rules::Rules;
use rules::{FEWEST, MOST};
use tiers::Tiers;

/// MIN_LRU_BATCH: pages that are isolated at once.
const BATCH: f64 = 64.0;

/// MAX_LRU_BATCH: folios that are looked at for a batch.
const LOOKED_AT: f64 = 64.0 * BATCH;

/// SWAP_CLUSTER_MAX: pages that a reclaim has to free.
const RECLAIM_PAGES: f64 = 32.0;

/// MAX_RECLAIM_RETRIES
const RETRIES: u32 = 16;

/// DEF_PRIORITY: a first reclaim scans this part of all pages, as a power of two.
const FIRST_PRIORITY: u32 = 12;

/// Generations of a memory, with tiers by use, and protection of tiers by their refaults.
#[derive(Debug, Clone)]
pub(crate) struct Generations {
    rules: Rules,
    /// max_seq
    youngest: u32,
    /// min_seq
    oldest: u32,
    tiers: Tiers,
    rate: f64,
    isolated: Vec<u32>,
}

impl Generations {
    pub(crate) fn new(rules: Rules) -> Self {
        Generations {
            rules,
            youngest: FEWEST + 1,
            oldest: 0,
            tiers: Tiers::default(),
            rate: 1.0,
            isolated: Vec::new(),
        }
    }

    /// Follows the rate of the sample.
    pub(crate) fn resize(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// folio_mark_accessed()
    pub(crate) fn mark(&mut self, folios: &mut Folios, folio: u32) {
        folios.set_uses(folio, self.rules.read(folios.uses(folio)));
    }

    /// A page fault maps the folio. The aging finds that by the accessed bit, and makes the folio young.
    pub(crate) fn map(&mut self, folios: &mut Folios, folio: u32) {
        let pages = folios.remove(folio);
        folios.set_uses(folio, 0);
        folios.push(folio, list_of(self.youngest), pages);
    }

    /// lru_gen_refault() and lru_gen_add_folio()
    pub(crate) fn insert(&mut self, folios: &mut Folios, new: New) {
        let (oldest, youngest) = (self.oldest, self.youngest);
        if let Some(Shadow { time, uses }) = new.shadow
            && self.rules.is_recent(time, oldest, youngest)
        {
            self.tiers.refault(self.rules.tier(uses), new.pages);
            folios.set_uses(new.folio, self.rules.after_return(uses));
        }
        let uses = folios.uses(new.folio);
        let generation = self.rules.entered(uses, new.in_fault, oldest, youngest);
        folios.push(new.folio, list_of(generation), new.pages);
    }

    /// Evicts until this number of new pages fit into the capacity.
    pub(crate) fn reclaim(&mut self, folios: &mut Folios, capacity: u64, new: u64) {
        let fits = capacity.saturating_sub(new);
        let least = ((RECLAIM_PAGES * self.rate).round() as u64).max(new).max(1);
        let mut tries = 0;
        while folios.resident() > fits {
            let before = folios.resident();
            self.try_to_free(folios, least);
            tries = if folios.resident() == before {
                tries + 1
            } else {
                0
            };
            // Where the kernel would end a program.
            if tries >= RETRIES {
                let mut generations = self.oldest..=self.youngest;
                if !generations.any(|generation| self.evict_last(folios, generation)) {
                    return;
                }
            }
        }
    }

    /// do_try_to_free_pages()
    fn try_to_free(&mut self, folios: &mut Folios, least: u64) {
        let before = folios.resident();
        for priority in (0..=FIRST_PRIORITY).rev() {
            self.shrink(folios, priority);
            if before - folios.resident() >= least {
                return;
            }
        }
    }

    /// try_to_shrink_lruvec()
    fn shrink(&mut self, folios: &mut Folios, priority: u32) {
        let mut scanned = 0;
        loop {
            if priority < FIRST_PRIORITY && self.should_age(folios) {
                self.youngest += 1;
                return;
            }
            let all = folios.resident() as f64 / self.rate;
            let wanted = ((all as u64 >> priority) as f64 * self.rate).ceil() as u64;
            if wanted == 0 {
                return;
            }
            let more = self.evict_batch(folios);
            scanned += more;
            if more == 0 || scanned >= wanted {
                return;
            }
        }
    }

    /// should_run_aging()
    fn should_age(&self, folios: &Folios) -> bool {
        let next = self.oldest + FEWEST;
        if next != self.youngest {
            return next > self.youngest;
        }
        let total = folios.resident();
        let young = folios.pages_in(list_of(self.youngest));
        let old = folios.pages_in(list_of(self.oldest));
        self.rules.ages_three(old, young, total)
    }

    fn is_at_fewest(&self) -> bool {
        self.youngest - self.oldest < FEWEST
    }

    /// evict_folios(): returns the number of pages scanned, 0 if there is no more to do.
    fn evict_batch(&mut self, folios: &mut Folios) -> u64 {
        let mut scanned = 0;
        let mut isolated = std::mem::take(&mut self.isolated);
        if !self.is_at_fewest() {
            scanned = self.isolate(folios, &mut isolated);
        }
        if self.advance(folios) {
            scanned += 1;
        }
        for folio in isolated.drain(..) {
            self.evict(folios, folio);
        }
        self.isolated = isolated;
        if self.is_at_fewest() {
            scanned = 0;
        }
        scanned
    }

    /// scan_folios(): takes a batch of folios from the oldest generation; protected ones move to the next.
    fn isolate(&mut self, folios: &mut Folios, isolated: &mut Vec<u32>) -> u64 {
        let batch = (BATCH * self.rate).round().max(1.0) as u64;
        let mut left = (LOOKED_AT * self.rate).ceil() as u64;
        let rules = self.rules;
        let evicted_tiers = self.tiers.evicted(self.rate, rules.gain());
        let (mut scanned, mut pages) = (0, 0);
        while let Some(folio) = folios.last(list_of(self.oldest)) {
            let of_folio = folios.remove(folio);
            scanned += of_folio;
            let uses = folios.uses(folio);
            let (tier, is_hot) = (rules.tier(uses), rules.is_hot(uses));
            if tier >= evicted_tiers || is_hot {
                if !is_hot || rules.counts_hot() {
                    self.tiers.add(tier, of_folio);
                }
                folios.set_uses(folio, rules.after_move(uses));
                let next = list_of(self.oldest + 1);
                match rules.moves_to_tail() {
                    true => folios.push_last(folio, next, of_folio),
                    false => folios.push(folio, next, of_folio),
                }
            } else {
                pages += of_folio;
                isolated.push(folio);
            }
            left -= 1;
            if left == 0 || pages >= batch {
                break;
            }
        }
        match pages > 0 || left == 0 {
            true => scanned,
            false => 0,
        }
    }

    /// try_to_inc_min_seq(): the oldest generation with folios becomes the oldest; returns whether it is another.
    fn advance(&mut self, folios: &Folios) -> bool {
        let before = self.oldest;
        while self.oldest + FEWEST <= self.youngest && folios.pages_in(list_of(self.oldest)) == 0 {
            self.oldest += 1;
        }
        if self.oldest == before {
            return false;
        }
        self.tiers.carry_over();
        true
    }

    fn evict(&mut self, folios: &mut Folios, folio: u32) {
        let uses = folios.uses(folio);
        self.tiers
            .add(self.rules.tier(uses), folios.pages_of(folio));
        let time = self.oldest;
        folios.evict(folio, Shadow { time, uses });
    }

    fn evict_last(&mut self, folios: &mut Folios, generation: u32) -> bool {
        let Some(folio) = folios.last(list_of(generation)) else {
            return false;
        };
        folios.remove(folio);
        self.evict(folios, folio);
        true
    }
}

/// The list of a generation.
fn list_of(generation: u32) -> usize {
    (generation % MOST) as usize
}

#[cfg(test)]
mod tests;
