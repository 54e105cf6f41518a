//! [`map()`]: which pages of a file are resident.

use std::os::fd::{AsFd, BorrowedFd};

use cachewise_sys::{cachestat_exactly, mincore, mincore_tells};
use cachewise_units::{ByteRange, PageRange, Pages};
use rustix::fs::OFlags;

use crate::file_system::FileSystem;
use crate::query::{count, for_each_window, pages_of};
use crate::ranges::{push, total};
use crate::{Error, Inode, Source, Unknown};

/// Resident pages of a range of a file, exact to the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidentMap {
    /// The requested range, up to the end of the file.
    pub pages: PageRange,
    /// The resident parts of it: not empty, ascending, and none touches the next.
    pub ranges: Vec<PageRange>,
    /// The system call that reported their number.
    pub source: Source,
}

impl ResidentMap {
    /// Returns how many pages are resident.
    #[must_use]
    pub fn cached(&self) -> Pages {
        total(&self.ranges)
    }

    /// Says whether a page is resident.
    #[must_use]
    pub fn contains(&self, index: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= index);
        after > 0 && self.ranges[after - 1].contains(index)
    }

    /// Returns the pages one by one: the index of each, and whether it is resident.
    pub fn each_page(&self) -> impl Iterator<Item = (u64, bool)> {
        let mut ranges = self.ranges.iter().peekable();
        (self.pages.start..self.pages.end).map(move |index| {
            while ranges.next_if(|range| range.end <= index).is_some() {}
            let resident = ranges.peek().is_some_and(|range| range.start <= index);
            (index, resident)
        })
    }
}

/// Finds the resident pages of a file, or of a range of it.
///
/// The range is queried as a whole first, then its parts, and parts of those, so that an empty or full part costs one
/// query of any size. Small parts that are neither are read page by page.
///
/// Pages that are inserted or evicted meanwhile are reported in one of their states.
///
/// # Errors
/// Those of [`query()`](crate::query()).
///
/// # Kernel
/// As [`query()`](crate::query()). mincore reads the small parts if it is reliable and the file is open with `O_NOATIME`,
/// as by [`open`](crate::open), so that no access time is updated.
///
/// # Cost
/// A few microseconds for each range; 16 bytes of memory for each range.
pub fn map(file: impl AsFd, range: ByteRange) -> Result<ResidentMap, Error> {
    let fd = file.as_fd();
    let pages = pages_of(&Inode::of_fd(fd)?, range)?;
    let mut map = ResidentMap {
        pages,
        ranges: Vec::new(),
        source: Source::Cachestat,
    };
    // `count` knows what the first answer means, and whether it is reliable.
    let counts = count(fd, pages, || FileSystem::of_fd(fd))?;
    map.source = counts.source();
    if counts.cached == Pages::ZERO {
        return Ok(map);
    }
    if map.source == Source::Mincore {
        for_each_window(fd, pages, Unknown::NoPermission, |first, window| {
            push_window(&mut map, first, window);
        })?;
        return Ok(map);
    }
    let mut search = Search {
        fd,
        may_map: None,
        window: [0; LEAF as usize],
        map,
    };
    search.node(Node::around(pages), counts.cached)?;
    Ok(search.map)
}

fn push_window(map: &mut ResidentMap, first: u64, window: &[u8]) {
    for (index, page) in (first..).zip(window) {
        if *page != 0 {
            let end = index + 1;
            push(&mut map.ranges, PageRange { start: index, end });
        }
    }
}

/// Binary logarithm of the number of parts of a division: 16. Each level of a division walks all folios again, so that
/// halves took twice the time for a file with many gaps; 64 query empty or full parts too often.
const PARTS_SHIFT: u32 = 4;

/// Pages of a part that is read page by page instead of divided. With every second page resident, in random order, this
/// takes half the time of a further division; with runs of 16 pages and more both take the same, up to parts of four
/// times the size.
const LEAF: u64 = 1 << LEAF_SHIFT;
const LEAF_SHIFT: u32 = 8;

/// An aligned part of the file's indexes.
///
/// Folios are aligned too, so a part either lies in one, and is full, or begins with one: cachestat is right about it at
/// once. Only the first part, cut by the range, may begin inside a folio.
#[derive(Clone, Copy)]
struct Node {
    /// A multiple of the size.
    start: u64,
    /// Its pages, as a power of two.
    shift: u32,
}

impl Node {
    /// The smallest part that holds all of these pages.
    fn around(pages: PageRange) -> Self {
        let last = pages.end.saturating_sub(1).max(pages.start);
        let shift = u64::BITS - (pages.start ^ last).leading_zeros();
        Self {
            start: pages.start >> shift << shift,
            shift,
        }
    }

    fn pages(self) -> PageRange {
        PageRange {
            start: self.start,
            end: self.start + (1 << self.shift),
        }
    }

    fn parts(self) -> impl Iterator<Item = Self> {
        let shift = self.shift.saturating_sub(PARTS_SHIFT);
        (0..1_u64 << (self.shift - shift)).map(move |part| Self {
            start: self.start + (part << shift),
            shift,
        })
    }
}

/// A search for resident pages, from the first to the last.
struct Search<'fd> {
    fd: BorrowedFd<'fd>,
    /// Whether mincore is reliable for the file, once that was tested.
    may_map: Option<bool>,
    window: [u8; LEAF as usize],
    map: ResidentMap,
}

impl Search<'_> {
    /// Finds the resident pages of a part, given how many there are.
    fn node(&mut self, node: Node, cached: Pages) -> Result<(), Error> {
        let Some(pages) = node.pages().intersection(self.map.pages) else {
            return Ok(());
        };
        if cached == Pages::ZERO {
            return Ok(());
        }
        if cached >= pages.len() {
            push(&mut self.map.ranges, pages);
            return Ok(());
        }
        if node.shift <= LEAF_SHIFT && self.leaf(pages, cached)? {
            return Ok(());
        }
        for part in node.parts() {
            if let Some(pages) = part.pages().intersection(self.map.pages) {
                let cached = cachestat_exactly(self.fd, pages)?.cached;
                self.node(part, cached)?;
            }
        }
        Ok(())
    }

    /// Reads each page of a small part; returns whether that was possible.
    fn leaf(&mut self, pages: PageRange, cached: Pages) -> Result<bool, Error> {
        if !self.may_map() {
            return Ok(false);
        }
        let window = &mut self.window[..pages.len().0 as usize];
        mincore(self.fd, pages.start, window)?;
        let seen = window.iter().filter(|page| **page != 0).count() as u64;
        // mincore omits pages that are still being read; and for a file that was opened for writing before the right
        // was lost, it reports all pages or none.
        if seen != cached.0 {
            return Ok(false);
        }
        push_window(&mut self.map, pages.start, window);
        Ok(true)
    }

    fn may_map(&mut self) -> bool {
        *self.may_map.get_or_insert_with(|| {
            let flags = rustix::fs::fcntl_getfl(self.fd);
            flags.is_ok_and(|flags| flags.contains(OFlags::NOATIME))
                && mincore_tells(self.fd).unwrap_or(false)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(start: u64, end: u64) -> PageRange {
        PageRange { start, end }
    }

    fn map_of(ranges: &[PageRange]) -> ResidentMap {
        let mut map = ResidentMap {
            pages: range(0, 20),
            ranges: Vec::new(),
            source: Source::Cachestat,
        };
        ranges
            .iter()
            .for_each(|range| push(&mut map.ranges, *range));
        map
    }

    #[test]
    fn neighbours_are_one_range() {
        let map = map_of(&[range(2, 4), range(4, 4), range(4, 7), range(9, 10)]);
        assert_eq!(
            map.ranges,
            [range(2, 7), range(9, 10)],
            "and an empty one is none"
        );
        assert_eq!(map.cached(), Pages(6), "all of their pages");
    }

    #[test]
    fn pages_can_be_looked_at_one_by_one() {
        let map = map_of(&[range(2, 7), range(9, 10), range(19, 20)]);
        let resident = |index| matches!(index, 2..7 | 9 | 19);
        let each: Vec<_> = map.each_page().collect();
        let expected: Vec<_> = (0..20).map(|index| (index, resident(index))).collect();
        assert_eq!(each, expected, "every page of the stretch, in order");
        for (index, resident) in expected {
            assert_eq!(map.contains(index), resident, "page {index}");
        }
        assert!(!map.contains(20), "there is none beyond the end");
    }

    #[test]
    fn parts_are_aligned_and_cover_all() {
        for pages in [
            range(0, 1),
            range(5, 6),
            range(255, 257),
            range(1000, 99_999),
            range(0, 1 << 52),
        ] {
            let node = Node::around(pages);
            assert_eq!(
                node.pages().intersection(pages),
                Some(pages),
                "{pages:?} is inside"
            );
            assert_eq!(node.start % (1 << node.shift), 0, "{pages:?}: aligned");
            if node.shift > 0 {
                let mut end = node.start;
                for part in node.parts() {
                    assert_eq!(part.start, end, "{pages:?}: part follows on part");
                    assert!(part.shift < node.shift, "{pages:?}: and is smaller");
                    end = part.pages().end;
                }
                assert_eq!(end, node.pages().end, "{pages:?}: up to the end");
            }
        }
    }
}
