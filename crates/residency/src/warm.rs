//! [`warm()`]: reads the missing pages of a file into the page cache.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use cachewise_sys::{open_quietly_at, opening_drops_pages, page_size};
use cachewise_units::{ByteRange, Bytes, PageRange, Pages};
use rustix::fs::{CWD, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::error::unless_told;
use crate::query::pages_of;
use crate::ranges::{both, merged, minus, span, total};
use crate::{Error, Inode, Unknown, map};

mod options;
mod read;
mod short;

pub use options::WarmOptions;
pub use short::WarmShortfall;

pub(crate) use read::ADVICE;

/// Result of [`warm()`].
///
/// Numbers of resident pages are `Err` if residency is unknown: then everything was read.
#[derive(Debug)]
pub struct Warmed {
    /// Requested pages, up to the end of the file.
    pub pages: Pages,
    /// Pages of those that were resident before.
    pub before: Result<Pages, Unknown>,
    /// Pages of those that are resident now.
    pub after: Result<Pages, Unknown>,
    /// Pages of those that are resident now and were not before.
    pub inserted: Result<Pages, Unknown>,
    /// Bytes read: from the device, unless another process has read them meanwhile. If the work
    /// ended early, bytes that the kernel had started to read are included.
    pub read: Bytes,
    /// Pages that were not resident and not read, because nothing is stored there.
    pub holes: Pages,
    /// The reason why fewer pages are resident than requested, holes aside.
    pub short: Option<WarmShortfall>,
}

/// Brings ranges of a file into the page cache, but for what is resident already.
/// `&[ByteRange::starting_at(0)]` is the whole file. Returns when everything is there.
///
/// Pages that a range covers in part are read as a whole. Pages beyond a range or beyond the end of
/// the file are not read. Holes of sparse files are skipped: reading them needs no I/O.
///
/// # Errors
/// [`Error::Unknown`] for files that do not use the page cache. Read errors are in
/// [`Warmed::short`], because the pages that were read before them stay.
///
/// # Kernel
/// Any. Pages are read by `pread(2)`, which is certain and makes large folios.
/// `POSIX_FADV_WILLNEED` alone is not enough: the kernel cuts every request to the readahead window
/// or the device's largest transfer (of 64 MiB, 6.18 read 8 from a disk and 2.5 from a loop
/// device), and makes small folios only. But it reads nothing beyond its range: so it precedes the
/// reads near the end of each range, where the kernel's readahead stops at pages that are resident.
///
/// # Cost
/// That of a [`map()`] before and after, a system call or two, and one for each MiB that is missing (near the end of
/// a range, and with a slow limiter everywhere, for each 128 KiB); 1 MiB of memory a thread, and 16 bytes for each range. Without `O_NOATIME` the
/// access time may be written.
pub fn warm(
    file: impl AsFd,
    ranges: &[ByteRange],
    options: &WarmOptions<'_>,
) -> Result<Warmed, Error> {
    let fd = file.as_fd();
    let inode = Inode::of_fd(fd)?;
    let WarmPlan {
        wanted,
        before,
        missing,
        stored,
    } = plan_warm(fd, &inode, ranges)?;
    let holes = total(&missing).saturating_sub(total(&stored));
    let read = read::all(fd, &inode, &stored, options);

    let after = resident(fd, &wanted)?;
    let came = match (&before, &after, &read.ended) {
        (Ok(before), Ok(after), Some(_)) => bytes_of(&both(&minus(after, before), &stored), &inode),
        _ => Bytes::ZERO,
    };
    let size = Inode::of_fd(fd)?.size;
    let short = match read.ended {
        Some(ended) => Some(ended),
        None if size < inode.size => Some(WarmShortfall::Shrank { size }),
        None => gone(&wanted, &minus(&missing, &stored), &after),
    };
    Ok(Warmed {
        pages: total(&wanted),
        inserted: match (&before, &after) {
            (Ok(before), Ok(after)) => Ok(total(&minus(after, before))),
            (Err(why), _) | (_, Err(why)) => Err(*why),
        },
        before: before.map(|pages| total(&pages)),
        after: after.map(|pages| total(&pages)),
        read: read.bytes.max(came),
        holes,
        short,
    })
}

/// Expected result of [`warm()`].
#[derive(Clone, Copy, Debug)]
pub struct WouldWarm {
    /// Requested pages, up to the end of the file.
    pub pages: Pages,
    /// Pages of those that are resident; `Err` if unknown: then everything would be read.
    pub before: Result<Pages, Unknown>,
    /// Pages that would be read.
    pub absent: Pages,
    /// The bytes of those, up to the end of the file.
    pub read: Bytes,
    /// Pages that are not resident and would not be read, because nothing is stored there.
    pub holes: Pages,
}

/// Looks at what [`warm()`] would read, and reads nothing.
///
/// # Errors
/// As [`warm()`].
///
/// # Cost
/// That of a [`map()`], and a system call or two.
pub fn would_warm(file: impl AsFd, ranges: &[ByteRange]) -> Result<WouldWarm, Error> {
    let fd = file.as_fd();
    let inode = Inode::of_fd(fd)?;
    let plan = plan_warm(fd, &inode, ranges)?;
    Ok(WouldWarm {
        pages: total(&plan.wanted),
        before: plan.before.map(|pages| total(&pages)),
        absent: total(&plan.stored),
        read: bytes_of(&plan.stored, &inode),
        holes: total(&plan.missing).saturating_sub(total(&plan.stored)),
    })
}

/// The bytes of pages, up to the end of the file.
fn bytes_of(pages: &[PageRange], inode: &Inode) -> Bytes {
    let whole = ByteRange {
        start: 0,
        len: inode.size.0,
    };
    let bytes = |range: &PageRange| range.bytes(page_size()).intersection(whole);
    Bytes(pages.iter().filter_map(bytes).map(|range| range.len).sum())
}

/// Pages of a file before anything is done.
struct WarmPlan {
    wanted: Vec<PageRange>,
    before: Result<Vec<PageRange>, Unknown>,
    missing: Vec<PageRange>,
    /// Those of the missing ones that are stored.
    stored: Vec<PageRange>,
}

fn plan_warm(fd: BorrowedFd<'_>, inode: &Inode, ranges: &[ByteRange]) -> Result<WarmPlan, Error> {
    let wanted = merged(
        ranges
            .iter()
            .map(|range| pages_of(inode, *range))
            .collect::<Result<_, Unknown>>()?,
    );
    let before = resident(fd, &wanted)?;
    let missing = match &before {
        Ok(resident) => minus(&wanted, resident),
        Err(_) => wanted.clone(),
    };
    let stored = without_holes(fd, inode, &missing)?;
    Ok(WarmPlan {
        wanted,
        before,
        missing,
        stored,
    })
}

fn gone(
    wanted: &[PageRange],
    holes: &[PageRange],
    after: &Result<Vec<PageRange>, Unknown>,
) -> Option<WarmShortfall> {
    let absent = minus(&minus(wanted, holes), after.as_ref().ok()?);
    (!absent.is_empty()).then(|| WarmShortfall::Evicted(total(&absent)))
}

/// Returns the resident pages of these, or why residency is unknown.
pub(crate) fn resident(
    fd: BorrowedFd<'_>,
    pages: &[PageRange],
) -> Result<Result<Vec<PageRange>, Unknown>, Error> {
    /// More ranges are cheaper to find in a map of all that lies between.
    const FEW: usize = 16;
    let found = |pages: PageRange| Ok::<_, Error>(map(fd, pages.bytes(page_size()))?.ranges);
    unless_told(match pages.len() {
        // An empty request has no pages, but residency may still be unknown.
        0 => found(PageRange::default()),
        1..=FEW => pages.iter().try_fold(Vec::new(), |mut all, range| {
            all.extend(found(*range)?);
            Ok(all)
        }),
        _ => found(span(pages)).map(|all| both(&all, pages)),
    })
}

/// Those of the pages that have anything stored; all where the file system does not say.
fn without_holes(
    fd: BorrowedFd<'_>,
    inode: &Inode,
    pages: &[PageRange],
) -> Result<Vec<PageRange>, Error> {
    /// `stat(2)` counts in these, whatever the file system's own.
    const BLOCK: u64 = 512;
    if pages.is_empty() {
        return Ok(Vec::new());
    }
    let found = rustix::fs::fstat(fd).map_err(|errno| Error::from_errno("fstat", errno))?;
    if found.st_blocks as u64 * BLOCK >= inode.size.0 || found.st_rdev != 0 {
        return Ok(pages.to_vec());
    }
    // Seeking moves the place at which everybody reads who shares the descriptor.
    let Some(own) = reopened(fd) else {
        return Ok(pages.to_vec());
    };
    let mut stored = Vec::new();
    let mut data = PageRange::default();
    for range in pages {
        let mut at = range.start;
        while at < range.end {
            if data.end <= at {
                data = match data_from(&own, at) {
                    Ok(data) => data,
                    Err(Errno::NXIO) => return Ok(merged(stored)),
                    // Data and holes that cannot be distinguished are read.
                    Err(_) => return Ok(pages.to_vec()),
                };
            }
            stored.extend(data.intersection(*range));
            at = data.end;
        }
    }
    // Two data ranges may share a page.
    Ok(merged(stored))
}

/// Returns the pages of the first data range at or after a page; [`Errno::NXIO`] after the last
/// one.
fn data_from(file: &File, page: u64) -> Result<PageRange, Errno> {
    let from = Pages(page).bytes(page_size()).0;
    let start = rustix::fs::seek(file, SeekFrom::Data(from))?;
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    let data = ByteRange {
        start,
        len: end.saturating_sub(start).max(1),
    };
    Ok(data.page_range(page_size()))
}

/// The file behind a descriptor, opened once more; `None` where that is not possible or not allowed.
fn reopened(fd: BorrowedFd<'_>) -> Option<File> {
    // Opened once more, a file of FUSE would lose what is resident.
    if opening_drops_pages(fd).unwrap_or(true) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let opened = open_quietly_at(CWD, &path, OFlags::empty());
    opened.ok().map(File::from)
}
