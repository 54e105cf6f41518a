//! [`ByteRange`] and [`PageRange`]: ranges of a file.

use crate::{PageSize, Pages};

/// A range of a file in bytes; one with `len` 0 is empty, wherever it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The offset of the first byte.
    pub start: u64,
    /// The number of bytes.
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

    /// Returns the offset after the last byte, at most `u64::MAX`.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// Whether it has no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the number of pages that it touches, even by one byte.
    #[must_use]
    pub const fn pages(self, page: PageSize) -> Pages {
        self.page_range(page).len()
    }

    /// Returns the pages that it touches.
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

    /// Returns the common bytes, or `None` if there are none.
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

/// A range of a file in page indexes, half-open: `start` belongs to it, `end` does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageRange {
    /// The index of the first page.
    pub start: u64,
    /// The index after the last page.
    pub end: u64,
}

impl PageRange {
    /// Returns the number of pages; 0 if `end` is not after `start`.
    #[must_use]
    pub const fn len(self) -> Pages {
        Pages(self.end.saturating_sub(self.start))
    }

    /// Whether it has no page.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether it contains the page with this index.
    #[must_use]
    pub const fn contains(self, index: u64) -> bool {
        self.start <= index && index < self.end
    }

    /// Returns the common pages, or `None` if there are none.
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
    fn pages_counts_partly_touched_pages() {
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
    fn end_of_largest_file_does_not_overflow() {
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
        fn page_range_encloses_the_bytes(
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
        fn intersection_contains_exactly_the_common_pages(
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
