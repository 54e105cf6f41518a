//! [`Baseline`]: the resident pages of a file at one moment, to drop later those that were inserted since.

use std::os::fd::{AsFd, BorrowedFd};

use cachewise_sys::{fadvise_dont_need_range, page_size};
use cachewise_units::{ByteRange, PageRange, PageSize, Pages};

use crate::query::pages_of;
use crate::ranges::{minus, total};
use crate::{Error, Inode, map};

/// The resident pages of a file at one moment.
///
/// A program that reads a file once takes a baseline before, and drops behind itself the pages that it inserted:
///
/// ```
/// use cachewise_residency::{Baseline, ByteRange};
///
/// # let file = tempfile::NamedTempFile::new()?;
/// # std::fs::write(file.path(), vec![1; 100_000])?;
/// let file = cachewise_residency::open(file.path())?;
/// let baseline = Baseline::of(&file)?;
/// // ... read the file ...
/// let dropped = baseline.drop_inserted(&file, ByteRange::starting_at(0))?;
/// assert_eq!(dropped.map(|dropped| dropped.inserted.0), Some(0), "all of it was resident before");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    inode: Inode,
    resident: Vec<PageRange>,
}

/// Result of [`Baseline::drop_inserted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedPages {
    /// Resident pages that are not in the baseline.
    pub inserted: Pages,
    /// The number of those that were dropped. The others are dirty, mapped, locked, in use, or in one folio with pages
    /// that stay.
    pub dropped: Pages,
}

impl Baseline {
    /// Reads the resident pages of an open file.
    ///
    /// # Errors
    /// The errors of [`map()`].
    ///
    /// # Cost
    /// One [`map()`] and one system call.
    pub fn of(file: impl AsFd) -> Result<Self, Error> {
        let fd = file.as_fd();
        Ok(Self {
            inode: Inode::of_fd(fd)?,
            resident: map(fd, ByteRange::starting_at(0))?.ranges,
        })
    }

    /// Returns the inode that the file had.
    #[must_use]
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// Returns how many pages were resident.
    #[must_use]
    pub fn resident(&self) -> Pages {
        total(&self.resident)
    }

    /// Drops the pages of a range that were not resident at the time of the baseline. Returns `None`, and drops nothing,
    /// if the file is another one or was written since: its new pages belong to the program that wrote them.
    ///
    /// Pages of the baseline stay, also where they were reclaimed and inserted again. The kernel drops a large folio as
    /// a whole or not at all, so one that holds a page of the baseline stays. The start of the range is moved down to the
    /// start of the largest folio around it, so that a folio across two ranges in sequence is dropped by the second one.
    ///
    /// Use by other processes is not visible here: pages that another process has read since, and not mapped, are dropped
    /// too (`cachewise_probe::shield` knows them).
    ///
    /// # Errors
    /// The errors of [`map()`] and `posix_fadvise(2)`.
    ///
    /// # Kernel
    /// Any, by `POSIX_FADV_DONTNEED`. The kernel begins to write back pages of the range that are dirty.
    ///
    /// # Cost
    /// Two calls of [`map()`], and one system call for each range to drop.
    pub fn drop_inserted(
        &self,
        file: impl AsFd,
        range: ByteRange,
    ) -> Result<Option<DroppedPages>, Error> {
        let fd = file.as_fd();
        let inode = Inode::of_fd(fd)?;
        let identity = |inode: &Inode| (inode.device, inode.number, inode.size, inode.modified);
        if identity(&inode) != identity(&self.inode) {
            return Ok(None);
        }
        let range = widened(pages_of(&inode, range)?, page_size()).bytes(page_size());
        let inserted = self.inserted(fd, range)?;
        for pages in &inserted {
            fadvise_dont_need_range(fd, up_to_the_end(&inode, *pages))?;
        }
        let left = match inserted.is_empty() {
            true => Pages::ZERO,
            false => total(&self.inserted(fd, range)?),
        };
        let inserted = total(&inserted);
        Ok(Some(DroppedPages {
            inserted,
            // Another reader may have inserted more meanwhile.
            dropped: inserted.saturating_sub(left),
        }))
    }

    fn inserted(&self, fd: BorrowedFd<'_>, range: ByteRange) -> Result<Vec<PageRange>, Error> {
        Ok(minus(&map(fd, range)?.ranges, &self.resident))
    }
}

/// Moves the start down to where the largest folio around it may begin: folios are aligned to their size, and none is larger
/// than what one page of page-table entries maps.
fn widened(pages: PageRange, page: PageSize) -> PageRange {
    let largest = page.get() / size_of::<u64>() as u64;
    PageRange {
        start: pages.start - pages.start % largest,
        ..pages
    }
}

/// The last page goes only with a range that covers all of it.
fn up_to_the_end(inode: &Inode, pages: PageRange) -> ByteRange {
    let range = pages.bytes(page_size());
    match range.end() >= inode.size.0 {
        true => ByteRange::starting_at(range.start),
        false => range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_begin_at_the_start_of_the_largest_folio() {
        let page = |bytes| PageSize::new(bytes).unwrap();
        let range = |start, end| PageRange { start, end };
        let small = page(4 << 10);
        assert_eq!(widened(range(511, 600), small), range(0, 600), "2 MiB");
        assert_eq!(widened(range(512, 600), small), range(512, 600));
        let large = page(64 << 10);
        assert_eq!(widened(range(8193, 8200), large), range(8192, 8200));
    }
}
