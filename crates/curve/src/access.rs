//! Accesses to the page cache, and the sample of them that is simulated.

/// Pages of a block: a block is in the sample as a whole, so that the kernel hashes once for eight pages.
pub const BLOCK_PAGES: u64 = 8;

/// Effect of an access on its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A read, or a page fault on a mapped file.
    Read,
    /// A buffered write: new pages are inserted, and nothing is fetched for them.
    Write,
    /// Readahead inserts pages that no program has requested so far.
    ReadAhead,
    /// The pages leave the cache for a reason that no size changes: the file is truncated or deleted.
    Remove,
}

/// A range of pages of one file that is accessed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// A number that tells files apart.
    pub file: u64,
    /// The first page.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// The effect on them.
    pub kind: Kind,
}

/// The share of all blocks that is sampled: those with a hash below a threshold.
///
/// Samples are nested: the sample at a lower rate is part of the sample at a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// Every page.
    pub const ALL: Rate = Rate(1 << 32);

    /// Half of the blocks that this rate samples, and at least one block in 2^32.
    #[must_use]
    pub fn halved(self) -> Rate {
        Rate((self.0 / 2).max(1))
    }

    /// The hash, as a number of 32 bits, has to be below this for a block to be in the sample.
    #[must_use]
    pub fn threshold(self) -> u64 {
        self.0
    }

    /// The share of blocks, above 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0 as f64 / Rate::ALL.0 as f64
    }

    /// Returns whether a page of a file is in the sample.
    #[must_use]
    pub fn has(self, file: u64, page: u64) -> bool {
        block_hash(file, page / BLOCK_PAGES) < self.0
    }
}

/// The hash of a block, below 2^32. `crates/probe/src/bpf/access.h` computes the same.
fn block_hash(file: u64, block: u64) -> u64 {
    let mut hash = file.wrapping_add(block.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^= hash >> 32;
    hash & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_rate_samples_a_part_of_the_higher() {
        let half = Rate::ALL.halved();
        let quarter = half.halved();
        let mut pages = [0, 0];
        for page in 0..80_000 {
            assert!(Rate::ALL.has(7, page), "rate 1 has every page");
            assert!(!quarter.has(7, page) || half.has(7, page), "page {page}");
            pages[0] += u64::from(half.has(7, page));
            pages[1] += u64::from(quarter.has(7, page));
        }
        assert!((39_000..41_000).contains(&pages[0]), "half: {pages:?}");
        assert!((19_000..21_000).contains(&pages[1]), "a quarter: {pages:?}");
    }
}
