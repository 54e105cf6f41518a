//! Which files are shown, and in which order.

use cachewise_model::Reason;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cachewise_residency::{Counts, Top};

use super::arguments::SortKey;
use super::listed_file::ListedFile;

/// An order of files.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub key: SortKey,
    /// The smallest first.
    pub reverse: bool,
}

/// A file's place in an order: the larger, the earlier it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortPosition {
    /// Unknown is neither large nor small: it comes last.
    rank: Option<u128>,
    path: PathBuf,
    /// Equals stand in the order of their paths; an order by path may be turned round.
    last_path_first: bool,
}

impl Ord for SortPosition {
    fn cmp(&self, other: &Self) -> Ordering {
        // As texts, so that a directory's name does not end the comparison.
        let by_path = text(&self.path).cmp(text(&other.path));
        self.rank.cmp(&other.rank).then(if self.last_path_first {
            by_path
        } else {
            by_path.reverse()
        })
    }
}

impl PartialOrd for SortPosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn text(path: &Path) -> &OsStr {
    path.as_os_str()
}

impl Order {
    /// How far in front a file of this size and with these counts stands, paths aside; `None` is last.
    pub fn rank(self, size: u64, counts: &Result<Counts, Reason>) -> Option<u128> {
        let counts = counts.ok();
        let states = || counts?.states;
        let rank = match self.key {
            SortKey::Path => return Some(0),
            SortKey::Resident => counts?.cached.0.into(),
            SortKey::Size => size.into(),
            SortKey::Absent => counts?.total.0.saturating_sub(counts?.cached.0).into(),
            SortKey::Dirty => states()?.dirty.0.into(),
            SortKey::Evicted => states()?.evicted.0.into(),
            SortKey::Ratio => {
                let ratio = counts?.ratio()?;
                (u128::from(ratio.part()) << 64) / u128::from(ratio.whole())
            }
        };
        Some(if self.reverse { u128::MAX - rank } else { rank })
    }
}

impl Order {
    /// The place of what has this rank.
    pub fn place(self, rank: Option<u128>, path: PathBuf) -> SortPosition {
        SortPosition {
            rank,
            path,
            last_path_first: self.key == SortKey::Path && self.reverse,
        }
    }
}

/// The first few files of an order, out of any number, in the memory of those few.
#[derive(Debug)]
pub struct First {
    order: Order,
    top: Top<SortPosition, ListedFile>,
}

impl First {
    /// Keeps the first `most`; `None` keeps all.
    pub fn new(order: Order, most: Option<usize>) -> First {
        First {
            order,
            top: Top::new(most.unwrap_or(usize::MAX)),
        }
    }

    /// Their order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Keeps a file of this rank if it is one of the first so far; only then it is made.
    pub fn offer(&mut self, rank: Option<u128>, make: impl FnOnce() -> ListedFile) {
        let mut place = self.order.place(rank, PathBuf::new());
        // Without a path it stands before all that have its rank: behind the last one, it need not be made.
        if !place.last_path_first && !self.top.wants(&place) {
            return;
        }
        let found = make();
        place.path.clone_from(&found.path);
        self.top.offer(place, || found);
    }

    /// Those kept, in their order.
    pub fn into_sorted(self) -> impl Iterator<Item = ListedFile> {
        self.top.into_sorted().into_iter().map(|(_, found)| found)
    }
}

#[cfg(test)]
mod tests {
    use cachewise_units::Pages;

    use super::*;

    fn counts(cached: u64) -> Result<Counts, Reason> {
        Ok(Counts {
            total: Pages(10),
            cached: Pages(cached),
            ..Counts::ZERO
        })
    }

    fn shown(
        order: Order,
        most: Option<usize>,
        files: &[(&str, Result<Counts, Reason>)],
    ) -> Vec<String> {
        let mut first = First::new(order, most);
        for (path, counts) in files {
            first.offer(order.rank(0, counts), || {
                ListedFile::new(path.into(), 0, *counts)
            });
        }
        first
            .into_sorted()
            .map(|found| found.path.display().to_string())
            .collect()
    }

    const BY_RESIDENT: Order = Order {
        key: SortKey::Resident,
        reverse: false,
    };

    #[test]
    fn the_first_few_of_an_order() {
        let files = [("b", 2), ("a", 2), ("c", 9), ("d", 0), ("e", 1)]
            .map(|(path, cached)| (path, counts(cached)));
        assert_eq!(
            shown(BY_RESIDENT, Some(3), &files),
            ["c", "a", "b"],
            "the largest first, equals by path"
        );
        let smallest = Order {
            reverse: true,
            ..BY_RESIDENT
        };
        assert_eq!(
            shown(smallest, Some(3), &files),
            ["d", "e", "a"],
            "or the smallest"
        );
        assert_eq!(shown(BY_RESIDENT, None, &files).len(), 5, "or all");
        assert!(shown(BY_RESIDENT, Some(0), &files).is_empty(), "or none");
        let by_path = |reverse| Order {
            key: SortKey::Path,
            reverse,
        };
        assert_eq!(
            shown(by_path(false), Some(2), &files),
            ["a", "b"],
            "by path"
        );
        assert_eq!(
            shown(by_path(true), Some(2), &files),
            ["e", "d"],
            "and back"
        );
    }

    #[test]
    fn unknown_files_come_last() {
        let files = [("a", Err(Reason::NotReported)), ("b", counts(0))];
        for reverse in [false, true] {
            let order = Order {
                reverse,
                ..BY_RESIDENT
            };
            assert_eq!(
                shown(order, None, &files),
                ["b", "a"],
                "0 is known; reversed {reverse}"
            );
        }
    }
}
