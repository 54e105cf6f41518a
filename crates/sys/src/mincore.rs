//! `mincore(2)` on a file: which of its pages are resident, one by one.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use cachewise_units::Pages;

use crate::{Error, page_size};

/// Tells, page by page, what of a file is resident: one byte of `pages` for each page from the one
/// with the index `first`, 1 for resident and 0 for not.
///
/// The slice is the window: with a buffer of fixed size, a file of any size takes that much memory.
/// Pages beyond the end of the file are not resident. Nothing is read into the cache.
///
/// The kernel calls *every* page resident to those who neither own the file nor may write it: ask
/// [`mincore_tells`] first.
///
/// # Errors
/// What `mmap(2)` says: no such device for files that cannot be mapped (`direct_io` of FUSE), denied
/// for a descriptor that is not open for reading.
///
/// # Kernel
/// Any; the permission it takes came with 5.2. On overlayfs and FUSE passthrough the mapping is one of
/// the file below, so its pages are seen.
///
/// # Cost
/// Three system calls and 10 to 70 ns for each page, there or not. Mapping counts as an access to
/// the file: without `O_NOATIME` its access time may be written.
pub fn mincore(fd: BorrowedFd<'_>, first: u64, pages: &mut [u8]) -> Result<(), Error> {
    if pages.is_empty() {
        return Ok(());
    }
    let failed = |operation| {
        let source = io::Error::last_os_error();
        Error::Io {
            operation,
            path: None,
            source,
        }
    };
    let size = page_size();
    let length = usize::try_from(Pages(pages.len() as u64).bytes(size).0);
    let offset = libc::off64_t::try_from(Pages(first).bytes(size).0);
    let (Ok(length), Ok(offset)) = (length, offset) else {
        return Err(Error::io("mmap", rustix::io::Errno::OVERFLOW));
    };
    // SAFETY: a new mapping at an address of the kernel's choice, without any access to it, touches
    // no memory that is in use; the descriptor is open as long as it is borrowed.
    let address = unsafe {
        libc::mmap64(
            std::ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            fd.as_raw_fd(),
            offset,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    // SAFETY: the mapping is there until it is unmapped below, and the kernel writes one byte for each
    // of its pages, which is the length of the slice.
    let told = match unsafe { libc::mincore(address, length, pages.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(failed("mincore")),
    };
    // SAFETY: exactly the mapping made above, to which no pointer exists.
    unsafe { libc::munmap(address, length) };
    // The other bits are reserved.
    pages.iter_mut().for_each(|page| *page &= 1);
    told
}

/// Says whether [`mincore`] tells this caller the truth about this file.
///
/// To callers without permission, mincore(2) reports every page as resident, even pages that no
/// file has. So this requests a page far beyond the end.
///
/// # Errors
/// As [`mincore`].
///
/// # Cost
/// Three system calls.
pub fn mincore_tells(fd: BorrowedFd<'_>) -> Result<bool, Error> {
    /// Beyond the largest file of every file system but XFS, whose sparse files may be larger; there a
    /// resident page at this offset would only have the caller say that it does not know.
    const BEYOND: u64 = 1 << 62;
    let mut page = [0];
    mincore(fd, BEYOND >> page_size().shift(), &mut page)?;
    Ok(page == [0])
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn pages_are_told_one_by_one() {
        let mut file = tempfile::tempfile().unwrap();
        let size = Pages(3).bytes(page_size()).0 as usize;
        file.write_all(&vec![1; size]).unwrap();
        let mut pages = [7; 5];
        mincore(file.as_fd(), 1, &mut pages).unwrap();
        assert_eq!(pages, [1, 1, 0, 0, 0], "two written pages, then the end");
        assert!(
            mincore_tells(file.as_fd()).unwrap(),
            "its owner is told the truth"
        );
        mincore(file.as_fd(), 0, &mut []).unwrap();
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = mincore(reader.as_fd(), 0, &mut [0]).unwrap_err();
        assert_eq!(error.os_error(), Some(libc::ENODEV), "a pipe: {error}");
        let file = tempfile::tempfile().unwrap();
        let error = mincore(file.as_fd(), u64::MAX, &mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "no such offset: {error}");
    }
}
