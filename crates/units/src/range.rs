//! [`ByteRange`] and [`PageRange`]: stretches of a file.

use crate::{PageSize, Pages};

/// A stretch of a file in bytes; one with `len` 0 is empty, wherever it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The offset of the first byte.
    pub start: u64,
    /// How many bytes there are.
    pub len: u64,
}

impl ByteRange {
    /// Makes the range from `start` to the end of any file.
    #[must_use]
    pub const fn starting_at(start: u64) -> Self {
        Self {
            start,
            len: u64::MAX - start,
        }
    }

    /// Returns the offset just after the last byte, at most `u64::MAX`.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// Says whether there is no byte in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns how many pages it touches: a page of which it holds one byte counts.
    #[must_use]
    pub const fn pages(self, page: PageSize) -> Pages {
        self.page_range(page).len()
    }

    /// Returns the pages it touches.
    #[must_use]
    pub const fn page_range(self, page: PageSize) -> PageRange {
        let start = self.start >> page.shift();
        let end = if self.is_empty() {
            start
        } else {
            self.end().div_ceil(page.get())
        };
        PageRange { start, end }
    }

    /// Returns the bytes that both have, or `None` where that is not a single one.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        (start < end).then(|| Self {
            start,
            len: end - start,
        })
    }
}

/// A stretch of a file in page indexes, half-open: `start` belongs to it, `end` does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageRange {
    /// The index of the first page.
    pub start: u64,
    /// The index just after the last page.
    pub end: u64,
}

impl PageRange {
    /// Returns how many pages there are; none where `end` does not lie after `start`.
    #[must_use]
    pub const fn len(self) -> Pages {
        Pages(self.end.saturating_sub(self.start))
    }

    /// Says whether there is no page in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Says whether the page with this index is in it.
    #[must_use]
    pub const fn contains(self, index: u64) -> bool {
        self.start <= index && index < self.end
    }

    /// Returns the pages that both have, or `None` where that is not a single one.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        };
        (!both.is_empty()).then_some(both)
    }

    /// Returns the bytes of these pages, cut off at `u64::MAX`.
    #[must_use]
    pub const fn bytes(self, page: PageSize) -> ByteRange {
        let start = Pages(self.start).bytes(page).0;
        let end = Pages(self.end).bytes(page).0;
        ByteRange {
            start,
            len: end.saturating_sub(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pages::SIZES_TESTED;

    fn page_sizes() -> impl Iterator<Item = PageSize> {
        SIZES_TESTED
            .into_iter()
            .map(|size| PageSize::new(size).unwrap())
    }

    #[test]
    fn counts_the_pages_touched() {
        for page in page_sizes() {
            let size = page.get();
            for (start, len, pages) in [
                (0, 0, 0),
                (size + 1, 0, 0),
                (0, 1, 1),
                (0, size, 1),
                (0, size + 1, 2),
                (size - 1, 2, 2),
                (size - 1, size + 2, 3),
                (size, size, 1),
                (10 * size + 5, 1, 1),
            ] {
                let range = ByteRange { start, len };
                assert_eq!(range.pages(page), Pages(pages), "{range:?} of {page} pages");
            }
        }
    }

    #[test]
    fn the_end_of_the_largest_file_does_not_overflow() {
        for page in page_sizes() {
            let rest = ByteRange::starting_at(u64::MAX - 1);
            assert_eq!(rest.pages(page), Pages(1), "the last page is one page");
            let beyond = ByteRange {
                start: u64::MAX,
                len: u64::MAX,
            };
            assert_eq!(beyond.end(), u64::MAX, "the end is cut off");
        }
    }

    #[test]
    fn intersects_half_open() {
        let range = |start, end| PageRange { start, end };
        assert_eq!(
            range(0, 4).intersection(range(2, 9)),
            Some(range(2, 4)),
            "they overlap"
        );
        assert_eq!(
            range(0, 4).intersection(range(4, 9)),
            None,
            "neighbours share no page"
        );
        assert_eq!(
            range(5, 5).intersection(range(0, 9)),
            None,
            "an empty range shares none"
        );
        assert!(
            range(0, 4).contains(3) && !range(0, 4).contains(4),
            "the end is outside"
        );
        assert_eq!(range(4, 0).len(), Pages(0), "a reversed range is empty");
    }

    proptest! {
        #[test]
        fn the_pages_touched_enclose_the_bytes(
            start in 0..1_u64 << 50,
            len in 1..1_u64 << 50,
            size in prop::sample::select(&SIZES_TESTED),
        ) {
            let page = PageSize::new(size).unwrap();
            let bytes = ByteRange { start, len };
            let enclosing = bytes.page_range(page).bytes(page);
            prop_assert_eq!(enclosing.intersection(bytes), Some(bytes), "nothing is left out");
            prop_assert!(enclosing.len < len + 2 * page.get(), "and no page is too many");
        }

        #[test]
        fn intersection_is_what_both_contain(
            a in 0..20_u64, b in 0..20_u64, c in 0..20_u64, d in 0..20_u64,
        ) {
            let (one, two) = (PageRange { start: a, end: b }, PageRange { start: c, end: d });
            let both = one.intersection(two).unwrap_or_default();
            for index in 0..20 {
                prop_assert_eq!(
                    both.contains(index),
                    one.contains(index) && two.contains(index),
                    "page {}", index
                );
            }
            prop_assert_eq!(one.intersection(two), two.intersection(one), "order is irrelevant");
        }
    }
}
