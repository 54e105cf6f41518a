//! [`Pages`] and [`PageSize`], and the only conversions between pages and bytes.

use std::fmt;

use crate::Bytes;
use crate::quantity::quantity;

/// A number of base pages, the unit in which the kernel counts its page cache.
///
/// Never huge pages, sectors or folios: readers convert those at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages(pub u64);

quantity!(Pages);

impl Pages {
    /// Returns the size of these pages in bytes, at most `u64::MAX`.
    #[must_use]
    pub const fn bytes(self, page: PageSize) -> Bytes {
        Bytes(self.0.saturating_mul(page.get()))
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Bytes {
    /// Returns the number of pages that hold these bytes; a partial page counts.
    #[must_use]
    pub const fn pages_ceil(self, page: PageSize) -> Pages {
        Pages(self.0.div_ceil(page.get()))
    }

    /// Returns the number of pages that these bytes fill; a partial page does not count.
    #[must_use]
    pub const fn pages_floor(self, page: PageSize) -> Pages {
        Pages(self.0 >> page.shift())
    }
}

/// The size of a page: a power of two that is not zero.
///
/// `cachewise_sys::page_size` reads it once from the machine; 4, 16 and 64 KiB are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize {
    // The exponent, because every value of it is a valid page size.
    shift: u8,
}

impl PageSize {
    /// The smallest page size of any Linux architecture: for ranks without a machine at hand.
    pub const SMALLEST: PageSize = match PageSize::new(4 << 10) {
        Some(size) => size,
        None => unreachable!(),
    };

    /// Makes a page size of `bytes`, or `None` if that is zero or not a power of two.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes.is_power_of_two() {
            Some(Self {
                shift: bytes.trailing_zeros() as u8,
            })
        } else {
            None
        }
    }

    /// Returns the size of a page in bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        1 << self.shift
    }

    /// Returns the exponent: a byte offset shifted right by it is the index of its page.
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.shift as u32
    }

    /// Returns the size of a page as a quantity.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.get())
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

/// The page sizes of today's Linux machines; every rule is tested with each.
#[cfg(test)]
pub(crate) const SIZES_TESTED: [u32; 3] = [4 << 10, 16 << 10, 64 << 10];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn page_size_accepts_only_powers_of_two() {
        for bytes in [0, 3, 4095, 4097, u32::MAX] {
            assert_eq!(PageSize::new(bytes), None, "{bytes} is no page size");
        }
        for bytes in SIZES_TESTED {
            let page = PageSize::new(bytes).unwrap();
            assert_eq!(page.get(), u64::from(bytes), "the size comes back");
            assert_eq!(
                1 << page.shift(),
                page.get(),
                "the shift belongs to the size"
            );
        }
        assert_eq!(
            PageSize::new(1 << 31).unwrap().get(),
            1 << 31,
            "the largest fits"
        );
    }

    #[test]
    fn arithmetic_saturates_or_returns_none() {
        let page = PageSize::new(64 << 10).unwrap();
        assert_eq!(
            Pages(u64::MAX).bytes(page),
            Bytes(u64::MAX),
            "bytes saturate"
        );
        assert_eq!(Pages(u64::MAX) + Pages(1), Pages(u64::MAX), "sums saturate");
        assert_eq!(
            Pages(u64::MAX).checked_add(Pages(1)),
            None,
            "or report overflow"
        );
        assert_eq!(
            Pages(1).saturating_sub(Pages(2)),
            Pages::ZERO,
            "there are no negative pages"
        );
        assert_eq!(Pages(1).checked_sub(Pages(2)), None, "or they say so");
    }

    #[test]
    fn sum_accepts_owned_and_borrowed_pages() {
        let items = [Pages(1), Pages(2), Pages(3)];
        assert_eq!(items.iter().sum::<Pages>(), Pages(6), "borrowed items");
        assert_eq!(items.into_iter().sum::<Pages>(), Pages(6), "owned items");
        let mut total = Pages::default();
        total += Pages(7);
        assert_eq!(total, Pages(7), "added in place");
    }

    #[test]
    fn prints_as_a_number() {
        assert_eq!(
            format!("{:>6}", Pages(16_384)),
            " 16384",
            "aligned like a number"
        );
        assert_eq!(
            PageSize::new(65_536).unwrap().to_string(),
            "64.0 KiB",
            "a size for people"
        );
    }

    proptest! {
        #[test]
        fn floor_and_ceil_enclose_the_bytes(bytes: u64, size in prop::sample::select(&SIZES_TESTED)) {
            let page = PageSize::new(size).unwrap();
            let (floor, ceil) = (Bytes(bytes).pages_floor(page), Bytes(bytes).pages_ceil(page));
            prop_assert!(floor.bytes(page) <= Bytes(bytes), "the pages filled hold no more");
            prop_assert!(ceil.bytes(page) >= Bytes(bytes), "the pages begun hold all");
            prop_assert!(ceil.0 - floor.0 <= 1, "and they differ by one at most");
        }

        #[test]
        fn bytes_and_back(pages in 0..1_u64 << 40, size in prop::sample::select(&SIZES_TESTED)) {
            let page = PageSize::new(size).unwrap();
            let bytes = Pages(pages).bytes(page);
            prop_assert_eq!(bytes.pages_floor(page), Pages(pages), "whole pages, rounded down");
            prop_assert_eq!(bytes.pages_ceil(page), Pages(pages), "whole pages, rounded up");
        }
    }
}
