//! Where large folios could be, from the places of pages alone.
//!
//! A folio has a power of two of pages and begins at a multiple of that. So a page that stays may be part of
//! any aligned block around it of which all pages stayed.

use cachewise_units::PageRange;

use crate::{Error, Inode};

/// The aligned block of a size, as a power of two, around a page.
fn block(page: u64, shift: u32) -> PageRange {
    let start = page >> shift << shift;
    PageRange {
        start,
        end: start.saturating_add(1 << shift),
    }
}

/// The kernel makes none larger: of a huge page, with 64 KiB pages 512 MiB.
const LARGEST: u32 = 13;

/// The remaining pages of a range that may share a folio with pages outside of it.
///
/// `is_full` returns whether all pages of a range outside are resident.
pub(super) fn around(
    left: &[PageRange],
    range: PageRange,
    inode: &Inode,
    mut is_full: impl FnMut(PageRange) -> Result<bool, Error>,
) -> Result<Vec<PageRange>, Error> {
    let end_of_file = inode.size.pages_ceil(cachewise_sys::page_size()).0;
    let mut found = Vec::new();
    for edge in [range.start, range.end.saturating_sub(1)] {
        for block in (1..=LARGEST).map(|shift| block(edge, shift)) {
            let Some(inside) = block.intersection(range) else {
                continue;
            };
            if crate::ranges::both(&[inside], left) != [inside] {
                // Nor are all of a larger one left.
                break;
            }
            let (start, end) = (inside.start, inside.end);
            let mut outside = [
                PageRange {
                    end: start,
                    ..block
                },
                PageRange {
                    start: end,
                    end: block.end.min(end_of_file),
                },
            ]
            .into_iter()
            .filter(|part| !part.is_empty())
            .peekable();
            if outside.peek().is_some()
                && outside.try_fold(true, |all, part| Ok::<_, Error>(all && is_full(part)?))?
            {
                found.push(inside);
            }
        }
    }
    Ok(crate::ranges::merged(found))
}

/// Pages, and those left around each that could be one folio with it.
pub(super) fn sharing(pages: &[PageRange], left: &[PageRange]) -> Vec<PageRange> {
    let mut found = Vec::new();
    for part in crate::ranges::both(pages, left) {
        let within = left.iter().find(|range| range.contains(part.start));
        let Some(within) = within else { continue };
        let grown = |page| {
            (0..=LARGEST)
                .map(|shift| block(page, shift))
                .take_while(|block| block.start >= within.start && block.end <= within.end)
                .last()
        };
        found.extend(
            [Some(part), grown(part.start), grown(part.end - 1)]
                .into_iter()
                .flatten(),
        );
    }
    crate::ranges::merged(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange { start, end }
    }

    fn inode(pages: u64) -> Inode {
        let file = tempfile::tempfile().unwrap();
        file.set_len(
            cachewise_units::Pages(pages)
                .bytes(cachewise_sys::page_size())
                .0,
        )
        .unwrap();
        Inode::of_fd(std::os::fd::AsFd::as_fd(&file)).unwrap()
    }

    fn edges(left: &[PageRange], asked: PageRange, outside: &[PageRange]) -> Vec<PageRange> {
        let is_full = |part: PageRange| {
            let left = crate::ranges::minus(&[part], outside);
            Ok(left.is_empty())
        };
        around(left, asked, &inode(1000), is_full).unwrap()
    }

    #[test]
    fn a_folio_at_the_edge_lies_on_both_sides_of_it() {
        let asked = range(10, 100);
        assert_eq!(
            edges(&[range(10, 16)], asked, &[range(8, 10)]),
            [range(10, 16)],
            "8 to 16 is a block"
        );
        assert_eq!(
            edges(&[range(10, 16)], asked, &[range(9, 10)]),
            [],
            "but not without page 8"
        );
        assert_eq!(
            edges(&[range(10, 15)], asked, &[range(0, 10)]),
            [range(10, 12)],
            "no more than fits"
        );
        assert_eq!(
            edges(&[range(11, 16)], asked, &[range(8, 10)]),
            [],
            "nor where the edge itself has gone"
        );
        assert_eq!(
            edges(&[range(96, 100)], asked, &[range(100, 128)]),
            [range(96, 100)],
            "nor less at the other edge"
        );
        assert_eq!(
            edges(&[range(992, 1000)], range(10, 1000), &[range(1000, 1024)]),
            [],
            "the end of the file is no edge"
        );
        assert_eq!(
            edges(&[range(64, 100)], range(64, 100), &[range(0, 64)]),
            [],
            "nor does a block end there that would have more behind the range"
        );
        assert_eq!(
            edges(
                &[range(64, 100)],
                range(64, 100),
                &[range(0, 64), range(100, 128)]
            ),
            [range(64, 100)],
            "unless that stayed too"
        );
    }

    #[test]
    fn a_mapped_page_keeps_its_folio() {
        let left = [range(8, 17), range(30, 40)];
        assert_eq!(
            sharing(&[range(9, 10), range(20, 21)], &left),
            [range(8, 16)],
            "the block that stayed, and nothing of what has gone"
        );
        assert_eq!(
            sharing(&[range(31, 33)], &left),
            [range(30, 40)],
            "blocks on both sides"
        );
    }
}
