//! Advice about a part of a file, and writing that part back.

use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};

use cachewise_units::ByteRange;
use rustix::fs::Advice;
use rustix::io::Errno;

use crate::Error;

/// Asks the kernel to drop the clean pages that lie wholly in the range.
///
/// Dirty pages are set off to the disk, without waiting for it, and stay. So do pages that are mapped,
/// locked or in use, and a large folio of which the range has only a part. The kernel takes its own
/// second look after it has emptied the batches of all CPUs.
///
/// # Errors
/// An invalid descriptor, or one of a pipe.
///
/// # Kernel
/// Any. On tmpfs the advice is taken and ignored.
pub fn fadvise_dont_need_range(fd: BorrowedFd<'_>, range: ByteRange) -> Result<(), Error> {
    advise(fd, range, Advice::DontNeed)
}

/// Asks the kernel to start bringing the range in, and returns without waiting for it.
///
/// The kernel silently cuts each request to the larger of the device's readahead window and its
/// largest transfer: request 128 KiB at a time. It makes small folios, and reads nothing beyond the
/// range.
///
/// # Errors
/// An invalid descriptor, or one of a pipe.
pub fn fadvise_will_need_range(fd: BorrowedFd<'_>, range: ByteRange) -> Result<(), Error> {
    advise(fd, range, Advice::WillNeed)
}

/// Writes the dirty pages of the range to the device and waits for that, and for those under way.
///
/// This is `sync_file_range(2)`: it makes pages clean and promises nothing about a crash, for neither the
/// file's size and place nor the device's own cache are written. Where a file system puts the
/// work off further (compression on btrfs), pages may still be dirty.
///
/// # Errors
/// An invalid descriptor, or one of a pipe; the device's failure to take the data.
///
/// # Kernel
/// Since 2.6.17.
pub fn write_back_range(fd: BorrowedFd<'_>, range: ByteRange) -> Result<(), Error> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_range(fd, range, flags)
}

/// Starts to write the dirty pages of the range to the device, and does not wait until they are there; it may wait for a
/// device that has too many requests.
///
/// # Errors
/// Those of [`write_back_range`].
///
/// # Kernel
/// Since 2.6.17.
pub fn begin_write_back_range(fd: BorrowedFd<'_>, range: ByteRange) -> Result<(), Error> {
    sync_range(fd, range, libc::SYNC_FILE_RANGE_WRITE)
}

fn sync_range(fd: BorrowedFd<'_>, range: ByteRange, flags: libc::c_uint) -> Result<(), Error> {
    if range.is_empty() {
        return Ok(());
    }
    let start = i64::try_from(range.start).map_err(|_| failed(Errno::OVERFLOW))?;
    // An end that is no offset means the end of the file, which is written as 0.
    let len = i64::try_from(range.end()).map_or(0, |end| end - start);
    // SAFETY: the descriptor is open as long as it is borrowed; the other arguments are numbers.
    match unsafe { libc::sync_file_range(fd.as_raw_fd(), start, len, flags) } {
        0 => Ok(()),
        _ => Err(Error::Io {
            operation: "sync_file_range",
            path: None,
            source: std::io::Error::last_os_error(),
        }),
    }
}

fn failed(errno: Errno) -> Error {
    Error::io("sync_file_range", errno)
}

fn advise(fd: BorrowedFd<'_>, range: ByteRange, advice: Advice) -> Result<(), Error> {
    let Some(len) = NonZeroU64::new(range.end() - range.start) else {
        // The kernel would take a length of 0 for the rest of the file.
        return Ok(());
    };
    // Beyond the largest offset: to the end of the file.
    let len = (range.end() <= i64::MAX as u64).then_some(len);
    rustix::fs::fadvise(fd, range.start, len, advice).map_err(|errno| Error::io("fadvise", errno))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use cachewise_units::Pages;

    use super::*;
    use crate::{ErrorKind, cachestat, page_size};

    #[test]
    fn only_the_range_goes() {
        // Beside the build, because /tmp is in memory on many machines.
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        let page = page_size().get();
        file.write_all(&vec![1; 8 * page as usize]).unwrap();
        crate::sync_data(file.as_fd()).unwrap();
        let of = |start, len| ByteRange {
            start: start * page,
            len: len * page,
        };
        let count = |range| cachestat(file.as_fd(), Some(range)).unwrap().cached;
        // Written at once they may share a folio, of which no part would go.
        fadvise_dont_need_range(file.as_fd(), of(0, 8)).unwrap();
        if count(of(0, 8)) > Pages::ZERO {
            println!("skipped: advice about a range: /var/tmp is on no disk");
            return;
        }
        let load = || {
            crate::fadvise_random(file.as_fd()).unwrap();
            for place in 0..8 {
                rustix::io::pread(file.as_fd(), &mut [0; 1][..], place * page).unwrap();
            }
            count(of(0, 8)) == Pages(8)
        };
        // A reclaimer may take some away at once, but not always.
        assert!((0..8).any(|_| load()), "they are brought in one by one");
        fadvise_dont_need_range(file.as_fd(), of(2, 0)).unwrap();
        fadvise_dont_need_range(file.as_fd(), of(2, 3)).unwrap();
        assert_eq!(count(of(2, 3)), Pages::ZERO, "what was asked for has gone");
        let stays = || {
            fadvise_dont_need_range(file.as_fd(), of(2, 3)).unwrap();
            load() && {
                fadvise_dont_need_range(file.as_fd(), of(2, 3)).unwrap();
                count(of(0, 8)) == Pages(5)
            }
        };
        assert!((0..8).any(|_| stays()), "and nothing else");
        fadvise_will_need_range(file.as_fd(), of(2, 3)).unwrap();
    }

    #[test]
    fn ranges_without_an_end_are_understood() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10]).unwrap();
        for range in [
            ByteRange::starting_at(0),
            ByteRange::starting_at(7),
            ByteRange { start: 5, len: 0 },
        ] {
            write_back_range(file.as_fd(), range).unwrap();
            fadvise_dont_need_range(file.as_fd(), range).unwrap();
            fadvise_will_need_range(file.as_fd(), range).unwrap();
        }
        let beyond = ByteRange::starting_at(u64::MAX - 1);
        let error = write_back_range(file.as_fd(), beyond).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "no such offset: {error}");
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = write_back_range(reader.as_fd(), ByteRange::starting_at(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "a pipe: {error}");
    }
}
