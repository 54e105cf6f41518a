//! [`Counts`]: how much of a file, or of many, is resident.

use cachewise_sys::CacheStat;
use cachewise_units::{Pages, Ratio};

/// Number of resident pages of a range of a file.
///
/// # Units
/// Base pages. A page counts whole though the file may end inside it; pages that the kernel holds beyond
/// the end of the file do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Pages of the range, up to the end of the file.
    pub total: Pages,
    /// Pages of those that are resident.
    pub cached: Pages,
    /// Their further states; `None` with [`Source::Mincore`], which reports residency only.
    pub states: Option<States>,
}

/// Page states that `cachestat(2)` reports besides residency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct States {
    /// Resident pages that are newer than the disk. A large folio is dirty as a whole: where it was read
    /// in one piece, a byte that is written makes all of its pages dirty.
    pub dirty: Pages,
    /// Resident pages that are being written to the disk right now.
    pub writeback: Pages,
    /// Pages that reclaim evicted and that the kernel still remembers (shadow entries). Pages
    /// evicted by `fadvise` or `drop_caches` leave none. On tmpfs: pages in swap.
    pub evicted: Pages,
    /// Pages of those that went so recently that reading them would count as a refault.
    pub recently_evicted: Pages,
}

/// The system call that reported residency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// `cachestat(2)`.
    Cachestat,
    /// `mincore(2)`, by way of a mapping: residency alone.
    Mincore,
}

impl Counts {
    /// Nothing of nothing: what sums begin with.
    pub const ZERO: Self = Self {
        total: Pages::ZERO,
        cached: Pages::ZERO,
        states: Some(States {
            dirty: Pages::ZERO,
            writeback: Pages::ZERO,
            evicted: Pages::ZERO,
            recently_evicted: Pages::ZERO,
        }),
    };

    pub(crate) fn told(total: Pages, stat: CacheStat) -> Self {
        Self {
            total,
            cached: stat.cached,
            states: Some(States {
                dirty: stat.dirty,
                writeback: stat.writeback,
                evicted: stat.evicted,
                recently_evicted: stat.recently_evicted,
            }),
        }
    }

    /// Returns the system call that reported the counts.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.states {
            Some(_) => Source::Cachestat,
            None => Source::Mincore,
        }
    }

    /// Returns the resident share; `None` for a range without pages.
    #[must_use]
    pub fn ratio(&self) -> Option<Ratio> {
        Ratio::of(self.cached.0, self.total.0)
    }

    /// Says whether every page is resident; of no pages, every one is.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.cached >= self.total
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    /// Adds field by field; states that one side does not know, the sum does not know.
    fn add(self, other: Self) -> Self {
        let both = |(one, two): (States, States)| States {
            dirty: one.dirty + two.dirty,
            writeback: one.writeback + two.writeback,
            evicted: one.evicted + two.evicted,
            recently_evicted: one.recently_evicted + two.recently_evicted,
        };
        Self {
            total: self.total + other.total,
            cached: self.cached + other.cached,
            states: self.states.zip(other.states).map(both),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, |total, item| total + item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_knows_no_more_than_its_parts() {
        let full = Counts::told(
            Pages(4),
            CacheStat {
                cached: Pages(3),
                dirty: Pages(2),
                ..CacheStat::default()
            },
        );
        let sum: Counts = [full, full].into_iter().sum();
        assert_eq!(sum.cached, Pages(6), "field by field");
        assert_eq!(
            sum.states.map(|states| states.dirty),
            Some(Pages(4)),
            "the states too"
        );
        let by_mincore = Counts {
            states: None,
            ..full
        };
        assert_eq!(
            (full + by_mincore).states,
            None,
            "half of the dirty pages is not their number"
        );
        assert_eq!((full + by_mincore).cached, Pages(6), "residency is known");
        assert_eq!(by_mincore.source(), Source::Mincore, "and by whom");
    }

    #[test]
    fn an_empty_file_has_no_ratio() {
        assert_eq!(Counts::ZERO.ratio(), None, "neither 0 % nor 100 %");
        assert!(Counts::ZERO.is_full(), "and nothing is missing of it");
    }
}
