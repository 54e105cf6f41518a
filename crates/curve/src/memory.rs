//! The sizes that are simulated.

use crate::cache::{Cache, Policy};
use crate::pages::Slots;
use crate::readahead::{Request, Streams};

/// Sizes of the grid for each power of two, from half of the largest on; half as many in the two powers of two below, and a
/// quarter of them in the next three.
const SIZES_PER_OCTAVE: u64 = 8;

/// Sizes of the grid at most: six powers of two below the footprint.
pub(crate) const MAX_SIZES: usize = 24;

/// The smallest size of the grid, in pages.
pub(crate) const SMALLEST: u64 = 256;

/// The size of the grid after this one.
pub(crate) fn next_size(pages: u64) -> u64 {
    let octave = 1 << pages.ilog2();
    pages + (octave / SIZES_PER_OCTAVE).max(1)
}

/// Returns whether a size is simulated when this one is the largest.
pub(crate) fn is_in_grid(pages: u64, largest: u64) -> bool {
    let octave = 1 << pages.ilog2();
    let number = (pages - octave) / (octave / SIZES_PER_OCTAVE).max(1);
    match largest / pages {
        0..2 => true,
        2..8 => number.is_multiple_of(2),
        8..64 => number.is_multiple_of(4),
        _ => false,
    }
}

/// A simulated memory with what it missed.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// Its size, in pages.
    pub(crate) pages: u64,
    /// Requested by the caller: it stays.
    pub(crate) is_given: bool,
    pub(crate) cache: Cache,
    pub(crate) streams: Streams,
    /// Requested pages that were not there, weighted by the sample's rate.
    pub(crate) missed: f64,
    /// Pages that devices delivered: these, and those that readahead fetched.
    pub(crate) fetched: f64,
}

impl Memory {
    /// A memory without limit, so far.
    pub(crate) fn unlimited(policy: Policy) -> Self {
        Memory {
            pages: u64::MAX,
            is_given: false,
            cache: Cache::unlimited(policy),
            streams: Streams::default(),
            missed: 0.0,
            fetched: 0.0,
        }
    }

    /// Simulates a read; `weight` is that of a page.
    pub(crate) fn read(&mut self, slots: &mut Slots, request: &Request, weight: f64) {
        let cost = self.streams.read(&mut self.cache, slots, request);
        self.missed += cost.missed as f64 * weight;
        self.fetched += cost.fetched as f64 * weight;
    }

    /// A memory of that size in which the same has happened so far as in this one.
    pub(crate) fn limited(&self, pages: u64, page_bytes: u64, rate: f64) -> Self {
        let mut memory = self.clone();
        memory.resize(pages, page_bytes, rate);
        memory
    }

    pub(crate) fn resize(&mut self, pages: u64, page_bytes: u64, rate: f64) {
        self.pages = pages;
        let gibibytes = pages.saturating_mul(page_bytes) >> 30;
        self.cache.resize(pages, gibibytes, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_has_eight_sizes_for_each_power_of_two() {
        let mut sizes = vec![SMALLEST];
        while sizes.len() < 17 {
            sizes.extend(sizes.last().copied().map(next_size));
        }
        assert_eq!(sizes[8], 2 * SMALLEST);
        assert_eq!(sizes[16], 4 * SMALLEST);
        assert_eq!(sizes[9] - sizes[8], SMALLEST / 4);
    }
}
