//! `cachestat(2)`: how much of a file is in the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use cachewise_units::{ByteRange, PageRange, Pages};

use crate::{Error, open_quietly, page_size};

/// Page-cache counters of a file, or of a range of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheStat {
    /// Pages that are resident.
    pub cached: Pages,
    /// Pages of those that are newer than the disk.
    pub dirty: Pages,
    /// Pages of those that are being written to the disk right now.
    pub writeback: Pages,
    /// Pages that were resident once and that the kernel still remembers.
    pub evicted: Pages,
    /// Pages of those that went so recently that reading them would count as a refault.
    pub recently_evicted: Pages,
}

impl std::ops::Add for CacheStat {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cached: self.cached + other.cached,
            dirty: self.dirty + other.dirty,
            writeback: self.writeback + other.writeback,
            evicted: self.evicted + other.evicted,
            recently_evicted: self.recently_evicted + other.recently_evicted,
        }
    }
}

impl CacheStat {
    /// These counts without those of a part of the range.
    fn without(self, part: Self) -> Self {
        Self {
            cached: self.cached.saturating_sub(part.cached),
            dirty: self.dirty.saturating_sub(part.dirty),
            writeback: self.writeback.saturating_sub(part.writeback),
            evicted: self.evicted.saturating_sub(part.evicted),
            recently_evicted: self.recently_evicted.saturating_sub(part.recently_evicted),
        }
    }
}

impl std::iter::Sum for CacheStat {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), |total, item| total + item)
    }
}

/// Mirrors `struct cachestat_range` of the kernel: a length of 0 means to the end of the file.
#[repr(C)]
struct RawRange {
    off: u64,
    len: u64,
}

/// Mirrors `struct cachestat` of the kernel.
#[repr(C)]
#[derive(Default)]
struct RawStat {
    nr_cache: u64,
    nr_dirty: u64,
    nr_writeback: u64,
    nr_evicted: u64,
    nr_recently_evicted: u64,
}

/// The number of `cachestat`, the same on every architecture Rust runs Linux on, except that
/// MIPS and the 32-bit ABI of `x86_64` add where their own tables start. (`libc` has it for some
/// of them only.)
const NUMBER: libc::c_long = 451 + TABLE;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "32"))]
const TABLE: libc::c_long = 0x4000_0000;
#[cfg(any(target_arch = "mips", target_arch = "mips32r6"))]
const TABLE: libc::c_long = 4000;
#[cfg(all(
    any(target_arch = "mips64", target_arch = "mips64r6"),
    target_pointer_width = "64"
))]
const TABLE: libc::c_long = 5000;
#[cfg(all(
    any(target_arch = "mips64", target_arch = "mips64r6"),
    target_pointer_width = "32"
))]
const TABLE: libc::c_long = 6000;
#[cfg(not(any(
    all(target_arch = "x86_64", target_pointer_width = "32"),
    target_arch = "mips",
    target_arch = "mips32r6",
    target_arch = "mips64",
    target_arch = "mips64r6"
)))]
const TABLE: libc::c_long = 0;

/// Counts the pages of a file, or of a range of it, in the page cache.
///
/// Pages that the range touches in part are counted whole. An empty range holds no page; to count
/// to the end of the file, pass [`ByteRange::starting_at`].
///
/// # Errors
/// [`Error::Denied`] where the caller neither owns the file nor may write it,
/// [`Error::Unsupported`] on kernels before 6.5, and for files of hugetlbfs and overlayfs.
///
/// # Kernel
/// Since 6.5. Before that, `mincore(2)` on a mapping tells residency alone. Kernels before 6.14,
/// but for the stable releases that took its fix, answer anyone who could open the file.
///
/// Of a file on overlayfs (in a container, every file of the image) the kernel counts overlayfs'
/// own pages, of which there are none: it says 0 for a file that is resident in full. That 0 is
/// not passed on.
///
/// # Cost
/// One system call, and a second where nothing is found; about 70 ns for each folio in the range,
/// nothing for holes.
pub fn cachestat(fd: BorrowedFd<'_>, range: Option<ByteRange>) -> Result<CacheStat, Error> {
    let found = cachestat_raw(fd, range)?;
    let empty = range.is_some_and(ByteRange::is_empty);
    // Only a zero can be that of an overlay, so only a zero is worth another question.
    if found == CacheStat::default() && !empty && is_on_overlay(fd)? {
        return Err(Error::Unsupported {
            operation: "cachestat",
            path: None,
            advice: "overlayfs keeps no pages of its own, and cachestat(2), since Linux 6.5, does \
                     not look below it: ask for the file in its upper or lower directory; \
                     mincore(2) on a mapping sees through",
            source: io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        });
    }
    Ok(found)
}

/// Counts as [`cachestat()`] does, and passes on what the kernel says as it is: also the 0 of a file on
/// overlayfs, and that of a pipe, a directory or a file of `/proc`.
///
/// For callers that know from elsewhere what the file is and which file system it is on.
///
/// A range that begins inside a large folio is undercounted now and then (on 6.18, busy, one call in
/// 80,000): if the kernel gives its CPU away after the first folio, it skips as many pages behind it as lie
/// between the folio's beginning and the range's. It never counts too many. [`cachestat_exactly`] avoids that.
///
/// # Errors
/// As [`cachestat()`], overlayfs excepted.
///
/// # Cost
/// One system call, about 70 ns for each folio in the range, nothing for holes.
pub fn cachestat_raw(fd: BorrowedFd<'_>, range: Option<ByteRange>) -> Result<CacheStat, Error> {
    let range = match range {
        None => RawRange { off: 0, len: 0 },
        // Passed on, its length of 0 would come back as everything up to the end of the file.
        Some(range) if range.is_empty() => return Ok(CacheStat::default()),
        // The end is cut off where it would wrap, or the kernel would count another range.
        Some(range) => RawRange {
            off: range.start,
            len: range.end() - range.start,
        },
    };
    let mut found = RawStat::default();
    let flags: libc::c_uint = 0;
    // SAFETY: the descriptor is open as long as it is borrowed; both structures have the layout
    // of the kernel's and live until the call returns. The kernel reads the first and writes the
    // second, and keeps neither.
    let result = unsafe {
        libc::syscall(
            NUMBER,
            fd.as_raw_fd(),
            &raw const range,
            &raw mut found,
            flags,
        )
    };
    if result != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    Ok(CacheStat {
        cached: Pages(found.nr_cache),
        dirty: Pages(found.nr_dirty),
        writeback: Pages(found.nr_writeback),
        evicted: Pages(found.nr_evicted),
        recently_evicted: Pages(found.nr_recently_evicted),
    })
}

/// Pages of the largest folio that the page cache can have (`MAX_XAS_ORDER`). A folio begins at a multiple of its
/// size, so none lies across a multiple of this.
const LARGEST_FOLIO: u64 = 1 << 11;

/// Counts pages as [`cachestat_raw`] does, without its undercount: where the answer may be short, all pages from the
/// multiple of the largest folio before the range are counted, less those before the range.
///
/// If the pages before the range change during each of four attempts, it returns what [`cachestat_raw`] returns.
///
/// # Errors
/// Those of [`cachestat_raw`].
///
/// # Cost
/// One system call if the range is complete, nothing of it is found, or it is an aligned block or the beginning of one: then
/// it begins with a folio or lies in one. Otherwise four, which look at up to 2,047 more pages.
pub fn cachestat_exactly(fd: BorrowedFd<'_>, pages: PageRange) -> Result<CacheStat, Error> {
    exactly(pages, |pages| {
        cachestat_raw(fd, Some(pages.bytes(page_size())))
    })
}

fn exactly(
    pages: PageRange,
    mut ask: impl FnMut(PageRange) -> Result<CacheStat, Error>,
) -> Result<CacheStat, Error> {
    const ATTEMPTS: usize = 4;
    let first = ask(pages)?;
    // A folio begins with an aligned block, or has all of it.
    let block = pages.len().0.checked_next_power_of_two();
    let block = block.map_or(LARGEST_FOLIO, |block| block.min(LARGEST_FOLIO));
    let is_aligned = pages.start.is_multiple_of(block);
    let is_nothing = first.cached + first.evicted == Pages::ZERO;
    if is_aligned || first.cached >= pages.len() || is_nothing {
        return Ok(first);
    }
    let boundary = pages.start / LARGEST_FOLIO * LARGEST_FOLIO;
    let from_boundary = |end| PageRange {
        start: boundary,
        end,
    };
    let mut before = ask(from_boundary(pages.start))?;
    for _ in 0..ATTEMPTS {
        let all = ask(from_boundary(pages.end))?;
        let again = ask(from_boundary(pages.start))?;
        if again == before {
            return Ok(all.without(before));
        }
        before = again;
    }
    Ok(first)
}

/// `OVERLAYFS_SUPER_MAGIC` of the kernel.
const OVERLAY: u64 = 0x794c_7630;

fn is_on_overlay(fd: BorrowedFd<'_>) -> Result<bool, Error> {
    let found = rustix::fs::fstatfs(fd).map_err(|errno| Error::io("fstatfs", errno))?;
    // Its width and sign differ between architectures; the number is below 2^31 on all.
    Ok(found.f_type as u64 == OVERLAY)
}

/// Counts the pages of the file at `path` in the page cache.
///
/// # Errors
/// Those of [`open_quietly`] and of [`cachestat()`], with the path.
///
/// # Kernel
/// Since 6.5, as [`cachestat()`].
///
/// # Cost
/// Five system calls, that of closing included; one more where nothing is found.
pub fn resident(path: &Path) -> Result<CacheStat, Error> {
    let file = open_quietly(path)?;
    cachestat(file.as_fd(), None).map_err(|error| error.with_path(path))
}

fn failed(source: io::Error) -> Error {
    let operation = "cachestat";
    match source.raw_os_error() {
        Some(libc::ENOSYS) => Error::Unsupported {
            operation,
            path: None,
            advice: "cachestat(2) came with Linux 6.5: run a newer kernel, or let the container's \
                     seccomp profile allow it; mincore(2) tells residency alone",
            source,
        },
        Some(libc::EOPNOTSUPP) => Error::Unsupported {
            operation,
            path: None,
            advice: "cachestat(2), since Linux 6.5, does not count the huge pages of hugetlbfs: \
                     read HugePages_Total and HugePages_Free of /proc/meminfo",
            source,
        },
        Some(libc::EPERM | libc::EACCES) => Error::Denied {
            operation,
            path: None,
            advice: "the kernel tells only those who own the file or may write it (in a \
                     container, its seccomp profile may be what refuses): run as its owner or \
                     as root",
            source,
        },
        _ => Error::Io {
            operation,
            path: None,
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_empty_range_is_not_the_rest_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 10], 0).unwrap();
        let empty = Some(ByteRange { start: 0, len: 0 });
        let found = cachestat(file.as_fd(), empty).unwrap();
        assert_eq!(found, CacheStat::default(), "no bytes, no pages");
    }

    #[test]
    fn unsupported_names_call_version_and_remedy() {
        let error = failed(io::Error::from_raw_os_error(libc::ENOSYS));
        assert_eq!(
            error.kind(),
            ErrorKind::Unsupported,
            "an older kernel does not offer it"
        );
        let text = error.with_path(Path::new("/x")).to_string();
        for part in ["cachestat /x: ", "Linux 6.5", "mincore"] {
            assert!(text.contains(part), "{part:?} should be in {text:?}");
        }
        let error = failed(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "nor is hugetlbfs");
        assert!(
            error.to_string().contains("hugetlbfs"),
            "which is named: {error}"
        );
    }

    #[test]
    fn denied_says_who_may() {
        let error = failed(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(error.kind(), ErrorKind::Denied, "another user may");
        assert!(
            error.to_string().contains("own the file"),
            "its owner: {error}"
        );
    }

    fn cached(pages: u64) -> CacheStat {
        CacheStat {
            cached: Pages(pages),
            ..CacheStat::default()
        }
    }

    /// The count for pages `start..start + 10`, and the ranges that were asked about for it.
    fn counted(start: u64, answers: &[CacheStat]) -> (CacheStat, Vec<(u64, u64)>) {
        let pages = PageRange {
            start,
            end: start + 10,
        };
        let mut asked = Vec::new();
        let stat = exactly(pages, |pages| {
            asked.push((pages.start, pages.end));
            Ok(answers[asked.len() - 1])
        });
        (stat.unwrap(), asked)
    }

    #[test]
    fn a_count_that_may_be_short_is_made_from_a_folio_boundary() {
        let answers = [3, 5, 13, 5].map(cached);
        let asked = vec![(2055, 2065), (2048, 2055), (2048, 2065), (2048, 2055)];
        assert_eq!(counted(2055, &answers), (cached(8), asked), "13 less 5");
        let answers = [3, 5, 13, 4, 12, 4].map(cached);
        let (found, asked) = counted(2055, &answers);
        assert_eq!(
            (found, asked.len()),
            (cached(8), 6),
            "12 less 4: a page before went"
        );
        let answers = [3, 1, 0, 2, 0, 3, 0, 4, 0, 5].map(cached);
        let (found, asked) = counted(2055, &answers);
        assert_eq!(
            (found, asked.len()),
            (cached(3), 10),
            "the first answer, where they change all the time"
        );
        let evicted = CacheStat {
            evicted: Pages(1),
            ..CacheStat::default()
        };
        let answers = [evicted, cached(5), cached(7), cached(5)];
        assert_eq!(
            counted(2055, &answers).0,
            cached(2),
            "an entry that is no page was found, and what follows may be left out"
        );
    }

    #[test]
    fn a_count_that_cannot_be_short_takes_one_call() {
        for start in [0, LARGEST_FOLIO, 16, 48] {
            let (found, asked) = counted(start, &[cached(3)]);
            let why = "a folio begins with it, or has all ten pages";
            assert_eq!((found, asked.len()), (cached(3), 1), "{start}: {why}");
        }
        let (_, asked) = counted(8, &[cached(3); 4]);
        assert_eq!(asked.len(), 4, "a folio of 16 may have pages 0 to 15");
        for all in [10, 0] {
            let (found, asked) = counted(7, &[cached(all)]);
            assert_eq!(
                (found, asked.len()),
                (cached(all), 1),
                "complete, or nothing"
            );
        }
    }

    #[test]
    fn stats_add_up() {
        let one = CacheStat {
            cached: Pages(3),
            dirty: Pages(1),
            ..CacheStat::default()
        };
        let sum: CacheStat = [one, one].into_iter().sum();
        assert_eq!(
            (sum.cached, sum.dirty),
            (Pages(6), Pages(2)),
            "field by field"
        );
    }
}
