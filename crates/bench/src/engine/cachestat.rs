//! [`Cachestat`]: residency of a range before it is read.

use std::io;
use std::os::fd::BorrowedFd;

use cachewise_units::ByteRange;

use crate::target::Target;

/// Calls cachestat(2). `RWF_NOWAIT` alone reports too many hits: it starts the read of missing
/// pages, and if the device finishes before the kernel looks again, the read counts as a hit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cachestat<'a> {
    /// `None` if the kernel does not report residency.
    fd: Option<BorrowedFd<'a>>,
}

impl<'a> Cachestat<'a> {
    pub fn new(target: &'a Target) -> Self {
        Cachestat {
            fd: target.is_told.then(|| target.fd()),
        }
    }

    /// The number of cached bytes among these; all, if unknown.
    ///
    /// # Errors
    /// cachestat(2) worked before, and fails now.
    #[inline]
    pub fn at(self, offset: u64, requested: usize) -> io::Result<usize> {
        let Some(fd) = self.fd else {
            return Ok(requested);
        };
        let range = ByteRange {
            start: offset,
            len: requested as u64,
        };
        let page = cachewise_sys::page_size();
        let pages = range.page_range(page);
        let all = pages.len();
        let found = cachewise_sys::cachestat_exactly(fd, pages).map_err(io::Error::other)?;
        Ok(match found.cached < all {
            true => requested.min(found.cached.bytes(page).0 as usize),
            false => requested,
        })
    }
}
