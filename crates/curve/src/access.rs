//! Accesses to the page cache, and the sample of them that is simulated.

/// Pages of a block, as a power of two: a block is in the sample as a whole, so that the kernel hashes once for it.
const SMALLEST_SHIFT: u32 = 3;

/// Blocks of a load that reads ahead have 128 pages at most: the more there are in a sample, the better it is.
const LARGEST_SHIFT: u32 = 7;

/// Effect of an access on its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Read,
    /// A page fault on a mapped file.
    Fault,
    /// A buffered write: new pages are inserted, and nothing is fetched for them.
    Write,
    /// A program has the kernel insert pages before it reads them, by readahead(2) for example.
    ReadAhead,
    /// The pages leave the cache for a reason that no size changes: the file is truncated or deleted.
    Remove,
    /// The pages are in the real cache. If nothing was seen to insert them, they were there before.
    Resident,
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
    /// How the kernel reads ahead of a read or fault; `None`: not at all.
    pub reader: Option<Reader>,
}

/// An open file that is read, as far as the kernel reads ahead by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// A number that tells open files apart.
    pub id: u32,
    /// The length of the file in pages.
    pub file_pages: u64,
    /// Pages that are read ahead at most; 0: none.
    pub window: u64,
    /// Order of the largest folio that the file may have: 2^order pages.
    pub largest_folio: u32,
    /// The read begins where the one before it ended.
    pub follows: bool,
    /// The read begins in the page in which the one before it ended.
    pub continues: bool,
}

/// The share of all blocks that is sampled: those with a hash below a threshold.
///
/// Samples are nested: the sample at a lower rate is part of the sample at a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    threshold: u64,
    shift: u32,
}

impl Rate {
    /// Every page.
    pub const ALL: Rate = Rate {
        threshold: 1 << 32,
        shift: SMALLEST_SHIFT,
    };

    /// Half of the blocks that this rate samples, and at least one block in 2^32.
    #[must_use]
    pub fn halved(self) -> Rate {
        Rate {
            threshold: (self.threshold / 2).max(1),
            ..self
        }
    }

    /// The same with blocks that have room for a number of pages that are read ahead, as far as they may be that long.
    /// Samples are nested if they have the same blocks.
    #[must_use]
    pub fn with_room_for(self, pages: u64) -> Rate {
        let shift = pages.max(1).next_power_of_two().ilog2();
        Rate {
            shift: shift.clamp(SMALLEST_SHIFT, LARGEST_SHIFT),
            ..self
        }
    }

    /// Pages of a block, as the exponent of a power of two.
    #[must_use]
    pub fn shift(self) -> u32 {
        self.shift
    }

    /// The block of a page.
    #[must_use]
    pub fn block(self, page: u64) -> u64 {
        page >> self.shift
    }

    /// The first page after the block of this page; of a whole sample, the end of all pages.
    #[must_use]
    pub fn block_end(self, page: u64) -> u64 {
        match self.is_whole() {
            true => u64::MAX,
            false => (self.block(page) + 1) << self.shift,
        }
    }

    /// Returns whether all pages are in the sample.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.threshold >= Rate::ALL.threshold
    }

    /// The hash, as a number of 32 bits, has to be below this for a block to be in the sample.
    #[must_use]
    pub fn threshold(self) -> u64 {
        self.threshold
    }

    /// The share of blocks, above 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.threshold as f64 / Rate::ALL.threshold as f64
    }

    /// Returns whether a page of a file is in the sample.
    #[must_use]
    pub fn has(self, file: u64, page: u64) -> bool {
        self.is_whole() || block_hash(file, self.block(page)) < self.threshold
    }
}

/// The hash of a block, below 2^32. `crates/probe/src/bpf/access.h` computes the same.
///
/// Blocks of a file are multiples of the golden ratio, modulo 1: any number of them in turn are spread evenly, so that a
/// sample has its share of each long part of a file, give or take a few blocks. With chance in it, half of 100 blocks
/// would be 40 to 60, and misses of a program that reads in turn wrong by as much. The kernel numbers files so that the
/// same holds for the first blocks of files that were made one after the other.
fn block_hash(file: u64, block: u64) -> u64 {
    file.wrapping_add(block.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 32
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
        assert!((39_950..40_050).contains(&pages[0]), "half: {pages:?}");
        assert!((19_950..20_050).contains(&pages[1]), "a quarter: {pages:?}");
    }
}
