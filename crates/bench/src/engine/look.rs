//! [`Look`]: what of a read is in the page cache before it begins.

use std::io;
use std::os::fd::BorrowedFd;

use cachewise_units::ByteRange;

use crate::target::Target;

/// Asks cachestat(2). The answer of `RWF_NOWAIT` alone tells too many hits: it starts the read of what is missing, and where a
/// device is done before the kernel looks again, it takes that for a hit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    /// `None` where the kernel does not tell.
    fd: Option<BorrowedFd<'a>>,
}

impl<'a> Look<'a> {
    pub fn new(target: &'a Target) -> Self {
        Look {
            fd: target.is_told.then(|| target.fd()),
        }
    }

    /// How many of these bytes are there; all of them, where nobody tells.
    ///
    /// # Errors
    /// The kernel has told it before, and does not now.
    #[inline]
    pub fn at(self, offset: u64, wanted: usize) -> io::Result<usize> {
        let Some(fd) = self.fd else {
            return Ok(wanted);
        };
        let range = ByteRange {
            start: offset,
            len: wanted as u64,
        };
        let page = cachewise_sys::page_size();
        let ask = || cachewise_sys::cachestat_as_told(fd, Some(range)).map_err(io::Error::other);
        let all = range.pages(page);
        let mut cached = ask()?.cached;
        if cached < all {
            // Now and then it leaves some out, and never counts too many.
            cached = cached.max(ask()?.cached);
        }
        Ok(match cached < all {
            true => wanted.min(cached.bytes(page).0 as usize),
            false => wanted,
        })
    }
}
