//! [`query()`]: how many pages of a file are resident.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::OnceLock;

use cachewise_sys::{
    CacheStat, cachestat_exactly, cachestat_raw, mincore, mincore_tells, open_quietly, page_size,
};
use cachewise_units::{ByteRange, PageRange, PageSize, Pages};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::file_system::FileSystem;
use crate::{Counts, Error, Inode, Unknown};

/// Opens a regular file or a block device to query it, without side effects: updates no access time where the caller may
/// suppress that, and does not block on FIFOs, start devices or drop the pages of a FUSE file. Follows symbolic links.
///
/// # Errors
/// [`Unknown::NotAFile`] for anything else; [`Unknown::FuseNotOpened`] for a FUSE file, as opening can drop its pages;
/// otherwise the error of `open(2)`.
pub fn open(path: &Path) -> Result<File, Error> {
    explained(open_quietly(path))
}

/// Opens a file as [`open`] does, including FUSE files: to read it, to prefetch it or to evict it. Opening a FUSE file can
/// drop its pages.
///
/// # Errors
/// Those of [`open`], but for [`Unknown::FuseNotOpened`].
pub fn open_to_act(path: &Path) -> Result<File, Error> {
    explained(cachewise_sys::open_to_act(path))
}

fn explained(opened: Result<File, cachewise_sys::Error>) -> Result<File, Error> {
    opened.map_err(|error| match error {
        cachewise_sys::Error::DropsPages { path } => Error::Unknown {
            path: Some(path),
            why: Unknown::FuseNotOpened,
        },
        cachewise_sys::Error::NotAFile { path, kind } => Error::Unknown {
            path: Some(path),
            why: Unknown::NotAFile(kind),
        },
        error => error.into(),
    })
}

/// Counts the resident pages of a file, or of a range of it.
///
/// Pages that the range touches in part are counted whole, pages beyond the end of the file not at
/// all; [`ByteRange::starting_at`]`(0)` is the whole file.
///
/// # Errors
/// [`Error::Unknown`] if the number is unknown, with the reason; [`Error::Sys`] for other errors of the kernel, for
/// example on a descriptor of `O_PATH`.
///
/// # Kernel
/// `cachestat(2)`, since 6.5. `mincore(2)`, which reports only residency, replaces it
/// - without cachestat, or if a seccomp profile refuses it (tested on a file of this process);
/// - on overlayfs, whose files have no pages of their own: cachestat finds none, a mapping shows those of the layer;
/// - for FUSE files without pages by cachestat: they may pass through to other files.
///
/// To callers without permission, mincore reports every page as resident, so a page that does not
/// exist is requested first. If cachestat refuses the file, mincore is not used: it has the same
/// rule.
///
/// # Cost
/// Two system calls, three for a file that is not cached at all; about 70 ns for each folio that is.
/// By mincore six more, and 10 to 70 ns for each page, there or not; mapping counts as an access, so without
/// `O_NOATIME` the access time may be written.
pub fn query(file: impl AsFd, range: ByteRange) -> Result<Counts, Error> {
    let fd = file.as_fd();
    let pages = pages_of(&Inode::of_fd(fd)?, range)?;
    count(fd, pages, || FileSystem::of_fd(fd))
}

/// The pages of a range that the file has.
pub(crate) fn pages_of(inode: &Inode, range: ByteRange) -> Result<PageRange, Unknown> {
    pages_of_size(inode, range, page_size())
}

/// The same with pages of any size.
fn pages_of_size(
    inode: &Inode,
    range: ByteRange,
    page_size: PageSize,
) -> Result<PageRange, Unknown> {
    if inode.is_dax {
        return Err(Unknown::Dax);
    }
    let file = ByteRange {
        start: 0,
        len: inode.size.0,
    };
    let both = range.intersection(file).unwrap_or_default();
    Ok(both.page_range(page_size))
}

/// Counts pages that the file has, or had a moment ago. `file_system` is called only if the answer
/// depends on it.
pub(crate) fn count(
    fd: BorrowedFd<'_>,
    pages: PageRange,
    file_system: impl FnOnce() -> Result<FileSystem, Error>,
) -> Result<Counts, Error> {
    let total = pages.len();
    // An empty range needs no call; a length of 0 has another meaning there.
    let told = match total {
        Pages::ZERO => Ok(CacheStat::default()),
        _ => cachestat_exactly(fd, pages).map_err(Error::from),
    };
    let instead = match told {
        Ok(stat) if stat.cached > Pages::ZERO => return Ok(Counts::told(total, stat)),
        Ok(stat) => match file_system()? {
            FileSystem::MadeUp => return Err(Unknown::MadeUp.into()),
            _ if total == Pages::ZERO => return Ok(Counts::told(total, stat)),
            FileSystem::Plain => return Ok(Counts::told(total, stat)),
            FileSystem::Huge => return Err(Unknown::HugePages.into()),
            FileSystem::Fuse => return through_fuse(fd, pages, stat),
            FileSystem::Overlay => Unknown::Overlay,
        },
        Err(error) => instead_of(error)?,
    };
    Ok(Counts {
        total,
        cached: count_by_mincore(fd, pages, instead)?,
        states: None,
    })
}

/// Returns the reason to report if mincore cannot replace the failed cachestat; or the failure, if
/// mincore must not be used.
pub(crate) fn instead_of(error: Error) -> Result<Unknown, Error> {
    let Error::Sys(sys) = &error else {
        return Err(error);
    };
    match sys.os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => Ok(Unknown::NoSyscall),
        Some(Errno::PERM | Errno::ACCESS) if is_refused_to_all() => Ok(Unknown::Seccomp),
        Some(Errno::PERM | Errno::ACCESS) => Err(Unknown::NoPermission.into()),
        Some(Errno::OPNOTSUPP) => Err(Unknown::HugePages.into()),
        _ => Err(error),
    }
}

/// Whether cachestat is refused even for a file of our own: then it is not the file.
fn is_refused_to_all() -> bool {
    static REFUSED: OnceLock<bool> = OnceLock::new();
    *REFUSED.get_or_init(|| {
        let Ok(own) = rustix::fs::memfd_create(c"cachewise", MemfdFlags::CLOEXEC) else {
            return false;
        };
        let page = PageRange { start: 0, end: 1 };
        let asked = cachestat_raw(own.as_fd(), Some(page.bytes(page_size())));
        asked.is_err_and(|error| error.kind() == cachewise_sys::ErrorKind::Denied)
    })
}

/// FUSE: of a file that the page cache is not used for, 0 is no answer; of one that has the pages of another,
/// it is wrong.
fn through_fuse(fd: BorrowedFd<'_>, pages: PageRange, stat: CacheStat) -> Result<Counts, Error> {
    let total = pages.len();
    let cached = count_by_mincore(fd, pages, Unknown::Fuse)?;
    if cached == Pages::ZERO {
        return Ok(Counts::told(total, stat));
    }
    Ok(Counts {
        total,
        cached,
        states: None,
    })
}

/// Number of pages to map at a time, and to query with one buffer.
pub(crate) const WINDOW: usize = 1 << 16;

fn count_by_mincore(
    fd: BorrowedFd<'_>,
    pages: PageRange,
    otherwise: Unknown,
) -> Result<Pages, Error> {
    let mut cached = 0;
    for_each_window(fd, pages, otherwise, |_, window| {
        cached += window.iter().filter(|page| **page != 0).count() as u64;
    })?;
    Ok(Pages(cached))
}

/// Asks mincore about page after page, a window at a time: the index of its first page, and a byte for each.
///
/// # Errors
/// `otherwise` where mincore does not tell this caller.
pub(crate) fn for_each_window(
    fd: BorrowedFd<'_>,
    pages: PageRange,
    otherwise: Unknown,
    mut each: impl FnMut(u64, &[u8]),
) -> Result<(), Error> {
    match mincore_tells(fd) {
        Ok(true) => {}
        Ok(false) => return Err(otherwise.into()),
        // Files that cannot be mapped as shared: on FUSE, direct_io.
        Err(error) if error.os_error() == Some(Errno::NODEV.raw_os_error()) => {
            return Err(match otherwise {
                Unknown::Fuse => Unknown::DirectIo.into(),
                _ => otherwise.into(),
            });
        }
        Err(error) => return Err(error.into()),
    }
    let mut buffer = vec![0; WINDOW.min(usize::try_from(pages.len().0).unwrap_or(WINDOW))];
    let mut first = pages.start;
    while first < pages.end {
        let len = buffer.len().min((pages.end - first) as usize);
        mincore(fd, first, &mut buffer[..len])?;
        each(first, &buffer[..len]);
        first += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cachewise_units::Bytes;

    use super::*;

    #[test]
    fn pages_of_any_size_cover_what_the_file_has_of_a_range() {
        let file = |size| Inode {
            device: (8, 1),
            number: 7,
            links: 1,
            size: Bytes(size),
            modified: (0, 0),
            is_dax: false,
        };
        for bytes in [4 << 10, 16 << 10, 64 << 10] {
            let size = PageSize::new(bytes).unwrap();
            let page = size.get();
            let of = |len, range| pages_of_size(&file(len), range, size).unwrap();
            let whole = ByteRange::starting_at(0);
            let pages = |start, end| PageRange { start, end };
            assert_eq!(
                of(0, whole).len(),
                Pages(0),
                "{size}: none of an empty file"
            );
            assert_eq!(of(1, whole), pages(0, 1), "{size}: one that it ends in");
            assert_eq!(of(3 * page, whole), pages(0, 3), "{size}: three");
            assert_eq!(
                of(3 * page + 1, whole),
                pages(0, 4),
                "{size}: and one begun"
            );
            let range = ByteRange {
                start: page - 1,
                len: 2,
            };
            assert_eq!(of(9 * page, range), pages(0, 2), "{size}: touched in part");
            let behind = ByteRange::starting_at(9 * page);
            assert_eq!(
                of(9 * page, behind).len(),
                Pages(0),
                "{size}: none behind the end"
            );
            let largest = i64::MAX as u64;
            let all = of(largest, whole);
            assert_eq!(
                all.end,
                largest.div_ceil(page),
                "{size}: of the largest file"
            );
            let bytes = all.bytes(size);
            assert!(
                bytes.end() >= largest,
                "{size}: and back, to its end: {bytes:?}"
            );
        }
    }
}
