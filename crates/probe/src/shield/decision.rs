//! Blocks of files, and decisions on them.

/// Pages of a block, which holds whole folios.
pub const BLOCK_PAGES: u64 = 512;

pub(super) const WORDS: usize = BLOCK_PAGES as usize / 64;

/// A block of a file: pages `block * BLOCK_PAGES` and those that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// The file, by the address of its mapping in the kernel.
    pub mapping: u64,
    /// The number of the block in the file.
    pub number: u64,
}

impl Block {
    /// The first page of the block in its file.
    #[must_use]
    pub fn first_page(self) -> u64 {
        self.number * BLOCK_PAGES
    }
}

/// A bit for each page of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageSet(pub(super) [u64; WORDS]);

impl PageSet {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Their number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Runs of pages, each with its first page and its length, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let has = |page: u64| {
            let word = self.0.get((page / 64) as usize);
            word.is_some_and(|word| word >> (page % 64) & 1 == 1)
        };
        let mut page = 0;
        std::iter::from_fn(move || {
            while page < BLOCK_PAGES && !has(page) {
                page += 1;
            }
            let first = page;
            while has(page) {
                page += 1;
            }
            (page > first).then_some((first, page - first))
        })
    }
}

/// Why a resident page that a shielded program inserted stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kept {
    /// Another process has used it.
    Other,
    /// The program came back to it, or to its file.
    Again,
    /// The program has not used it so far.
    Ahead,
    /// The program wrote it.
    Written,
    /// It is dirty.
    Dirty,
    /// It is under writeback.
    Writeback,
    /// The kernel has it locked, as while it is read.
    Locked,
    /// A process has it locked in memory.
    Mlocked,
    /// It is mapped.
    Mapped,
    /// The kernel uses it.
    InUse,
    /// It shares a folio with a page that was resident before.
    Mixed,
}

impl Kept {
    /// In the order of `enum shield_reason`.
    pub const ALL: [Kept; 11] = [
        Kept::Other,
        Kept::Again,
        Kept::Ahead,
        Kept::Written,
        Kept::Dirty,
        Kept::Writeback,
        Kept::Locked,
        Kept::Mlocked,
        Kept::Mapped,
        Kept::InUse,
        Kept::Mixed,
    ];
}

/// A decision on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// The file of this block is not known any more.
    pub is_gone: bool,
    /// Pages to drop: whole folios.
    pub drop: PageSet,
    /// Pages to write back, if written pages are to be dropped.
    pub write: PageSet,
    pub(super) kept: [u32; Kept::ALL.len()],
}

impl Decision {
    /// Resident pages that stay for this reason.
    #[must_use]
    pub fn kept(&self, reason: Kept) -> u64 {
        self.kept[reason as usize].into()
    }

    /// Resident pages that stay.
    #[must_use]
    pub fn all_kept(&self) -> u64 {
        self.kept.iter().map(|pages| u64::from(*pages)).sum()
    }

    /// This decision, made when pages had just been dropped: the kernel did not let go those that still could be, as it
    /// used them or had them locked at that moment.
    #[must_use]
    pub fn after_dropping(mut self) -> Decision {
        let stayed = self.drop.count();
        self.kept[Kept::InUse as usize] += u32::try_from(stayed).unwrap_or(u32::MAX);
        self.drop = PageSet::default();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_the_kernel_did_not_let_go_are_in_use() {
        let mut decision = Decision::default();
        decision.kept[Kept::InUse as usize] = 2;
        decision.drop.0[0] = 0b1010;
        let after = decision.after_dropping();
        assert_eq!(after.kept(Kept::InUse), 4, "{after:?}");
        assert!(after.drop.is_empty(), "{after:?}");
    }

    #[test]
    fn runs_of_a_set_are_its_pages_in_order() {
        let mut set = PageSet::default();
        assert_eq!(set.runs().count(), 0, "an empty set has none");
        set.0[0] = 0b1101;
        set.0[1] = 1;
        set.0[7] = 1 << 63;
        let runs: Vec<_> = set.runs().collect();
        assert_eq!(runs, [(0, 1), (2, 2), (64, 1), (511, 1)], "{set:?}");
        set.0[0] = !0;
        set.0[1] = !0;
        assert_eq!(set.runs().next(), Some((0, 128)), "over words");
        assert_eq!(set.count(), 129, "{set:?}");
    }

    #[test]
    fn reasons_are_those_of_the_kernels_side() {
        let header = include_str!("../bpf/shield.h");
        let list = header.split("enum shield_reason {").nth(1).unwrap();
        let list = list.split("KEPT_REASONS").next().unwrap();
        let names = list.split("KEPT_").skip(1);
        let names: Vec<String> = names
            .map(|name| {
                let end = name.find(|byte: char| !byte.is_ascii_uppercase() && byte != '_');
                name[..end.unwrap_or(name.len())].replace('_', "")
            })
            .collect();
        let own: Vec<String> = Kept::ALL
            .iter()
            .map(|kept| format!("{kept:?}").to_uppercase())
            .collect();
        assert_eq!(own, names, "one order on both sides");
    }
}
