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
///
/// Lists have a million of them: the rank of 128 bits is in two halves, which need no padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortPosition {
    /// Unknown is neither large nor small: it comes last.
    is_known: bool,
    /// Equals stand in the order of their paths; an order by path may be turned round.
    last_path_first: bool,
    high: u64,
    low: u64,
    path: Box<Path>,
}

impl SortPosition {
    fn rank(&self) -> (bool, u64, u64) {
        (self.is_known, self.high, self.low)
    }
}

impl Ord for SortPosition {
    fn cmp(&self, other: &Self) -> Ordering {
        // As texts, so that a directory's name does not end the comparison. Most ranks differ.
        let by_path = || text(&self.path).cmp(text(&other.path));
        self.rank().cmp(&other.rank()).then_with(|| {
            if self.last_path_first {
                by_path()
            } else {
                by_path().reverse()
            }
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
    pub fn place(self, rank: Option<u128>, path: &Path) -> SortPosition {
        let bits = rank.unwrap_or_default();
        SortPosition {
            is_known: rank.is_some(),
            high: (bits >> 64) as u64,
            low: bits as u64,
            path: path.into(),
            last_path_first: self.key == SortKey::Path && self.reverse,
        }
    }
}

/// The first few files of an order, out of any number, in the memory of those few.
#[derive(Debug)]
pub struct First {
    order: Order,
    top: Top<SortPosition, Kept>,
}

/// A file that is kept, without its path, which its place in the order has.
#[derive(Debug)]
struct Kept {
    size: u64,
    counts: Result<Counts, Reason>,
    /// The whole of a file of which more is known: most files of a walk have no more.
    more: Option<Box<ListedFile>>,
}

impl Kept {
    fn of(found: ListedFile) -> Kept {
        let (size, counts) = (found.size, found.counts);
        let has_more = found.identity.is_some()
            || found.link.is_some()
            || found.before.is_some()
            || found.filesystem.is_some()
            || found.note.is_some()
            || found.brief.is_some()
            || found.is_to_be_asked
            || found.strip.is_some();
        let more = has_more.then(|| {
            Box::new(ListedFile {
                path: PathBuf::new(),
                ..found
            })
        });
        Kept { size, counts, more }
    }
}

/// A file that was kept.
#[derive(Debug)]
pub struct KeptFile {
    path: Box<Path>,
    kept: Kept,
}

impl KeptFile {
    /// The file, made from what was kept of it.
    pub fn listed(&self) -> ListedFile {
        let path = self.path.to_path_buf();
        match &self.kept.more {
            Some(more) => ListedFile {
                path,
                ..(**more).clone()
            },
            None => ListedFile::new(path, self.kept.size, self.kept.counts),
        }
    }

    /// Asks the file for what was not asked before it was known to be one of the first.
    pub fn ask(&mut self) {
        if !self
            .kept
            .more
            .as_ref()
            .is_some_and(|more| more.is_to_be_asked)
        {
            return;
        }
        let mut found = self.listed();
        found.is_to_be_asked = false;
        found.ask();
        self.kept = Kept::of(found);
    }

    /// Leaves out what was not asked.
    pub fn leave_unasked(&mut self) {
        if let Some(more) = &mut self.kept.more {
            more.is_to_be_asked = false;
        }
    }
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
        let mut place = self.order.place(rank, Path::new(""));
        // Without a path it stands before all that have its rank: behind the last one, it need not be made.
        if !place.last_path_first && !self.top.wants(&place) {
            return;
        }
        let mut found = make();
        place.path = std::mem::take(&mut found.path).into_boxed_path();
        self.top.offer(place, || Kept::of(found));
    }

    /// Those kept, in their order.
    pub fn into_sorted(self) -> Vec<KeptFile> {
        let sorted = self.top.into_sorted().into_iter();
        let file = |(place, kept): (SortPosition, Kept)| KeptFile {
            path: place.path,
            kept,
        };
        sorted.map(file).collect()
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
        let sorted = first.into_sorted();
        sorted
            .iter()
            .map(|kept| kept.listed().path.display().to_string())
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
