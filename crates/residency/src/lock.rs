//! [`lock()`]: keeping pages in memory.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use cachewise_sys::{Mapping, page_size};
use cachewise_units::{ByteRange, Bytes, PageRange, Pages};
use rustix::io::Errno;

use crate::holders::in_table;
use crate::memlock::Memlock;
use crate::query::pages_of;
use crate::ranges::{both, minus, total};
use crate::warm::resident;
use crate::{Error, Inode, Progress, Unknown, Watch};

/// Which pages [`lock()`] locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// All of the range: what is missing is read, and then locked. [`warm()`](crate::warm()) it first, which is faster
    /// and can be limited.
    #[default]
    All,
    /// Resident pages only; nothing is read. The next [`Lock::extend`] locks pages that become
    /// resident later.
    Resident,
}

/// How [`lock()`] works.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockOptions<'a> {
    /// Which pages are locked.
    pub pick: Pick,
    /// How the work is followed and stopped: bytes to be locked and bytes locked. When it is cancelled, what
    /// has been locked until then stays so.
    pub watch: Watch<'a>,
}

/// Pages of a file that stay in memory until this is dropped.
///
/// The file may be closed, renamed, deleted or truncated meanwhile: the lock holds the opened file,
/// not another file that takes its name. The kernel unlocks pages that are truncated, and sends no
/// signal. A large folio that is truncated in part is unlocked as a whole: [`extend`](Self::extend)
/// locks the rest again.
#[derive(Debug)]
pub struct Lock {
    /// `None` where there are no pages.
    mapping: Option<Mapping>,
    pages: PageRange,
    before: Result<Pages, Unknown>,
}

impl Lock {
    /// Returns how many pages the lock is for, up to the end that the file had.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages.len()
    }

    /// Returns how many pages of the range were resident before; `Err` if unknown.
    pub fn before(&self) -> Result<Pages, Unknown> {
        self.before
    }

    /// Counts the pages that are locked now: fewer than [`pages`](Self::pages) where not all are resident, the
    /// work was cancelled, or the file was truncated.
    ///
    /// # Errors
    /// No `/proc`.
    ///
    /// # Cost
    /// About 35 ns for each page of the range.
    pub fn locked(&self) -> Result<Pages, Error> {
        let Some(mapping) = &self.mapping else {
            return Ok(Pages::ZERO);
        };
        let failed = |source| cachewise_sys::Error::Io {
            operation: "read",
            path: Some("/proc/self/pagemap".into()),
            source,
        };
        let table = File::open("/proc/self/pagemap").map_err(failed)?;
        let first = mapping.address() as u64 >> page_size().shift();
        let present = in_table(&table, first, self.pages).map_err(failed)?;
        Ok(total(&present))
    }

    /// Locks what has become resident since, and returns how many pages are locked now.
    ///
    /// # Errors
    /// [`Error::Unknown`] if residency is unknown.
    ///
    /// # Kernel
    /// Since 5.14 (`MADV_POPULATE_READ`).
    ///
    /// # Cost
    /// That of a [`map()`](crate::map()), and a system call for each range of it.
    pub fn extend(&self, file: impl AsFd) -> Result<Pages, Error> {
        self.take_resident(file.as_fd(), Watch::default())?;
        self.locked()
    }

    fn take_resident(&self, fd: BorrowedFd<'_>, watch: Watch<'_>) -> Result<(), Error> {
        let Some(mapping) = &self.mapping else {
            return Ok(());
        };
        let found = resident(fd, &[self.pages])??;
        watch.tell(Progress::Planned(total(&found).bytes(page_size())));
        in_steps(
            &found,
            watch,
            |step| mapping.populate(step),
            || Ok(self.now(fd)?.end),
        )
    }

    /// Locks all pages. Those that are missing are read before: where a block cannot be read, that is an error of the
    /// read, while a process in `mlock(2)` takes no signal until the kernel has tried each page.
    fn take_all(
        &self,
        fd: BorrowedFd<'_>,
        missing: &[PageRange],
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let Some(mapping) = &self.mapping else {
            return Ok(());
        };
        watch.tell(Progress::Planned(self.pages.len().bytes(page_size())));
        in_steps(
            &[self.pages],
            watch,
            |step| {
                for range in both(missing, &[step]) {
                    read(fd, range, watch)?;
                }
                match watch.is_cancelled() {
                    true => Ok(()),
                    false => mapping.lock(step),
                }
            },
            || Ok(self.now(fd)?.end),
        )
    }

    /// Those of the pages that the file has now.
    fn now(&self, fd: BorrowedFd<'_>) -> Result<PageRange, Error> {
        let pages = pages_of(&Inode::of_fd(fd)?, self.pages.bytes(page_size()))?;
        Ok(pages)
    }
}

/// Locks pages of a file in memory, so that neither reclaim nor eviction takes them, until the returned [`Lock`] is
/// dropped. [`ByteRange::starting_at`]`(0)` is the whole file.
///
/// # Errors
/// [`Error::Memlock`] if `RLIMIT_MEMLOCK` is too small, which is checked before anything is locked;
/// it names the required value. [`Error::Unknown`] for [`Pick::Resident`] if residency is unknown,
/// and for files that cannot be mapped. [`Error::Sys`] with `EIO` if a block cannot be read, with
/// `EAGAIN` if memory is short, and with `ENOSYS` or `EINVAL` if the kernel is older than the
/// versions below.
///
/// # Kernel
/// [`Pick::All`]: any, by `mlock(2)`. [`Pick::Resident`]: since 5.14, by `mlock2(2)` with
/// `MLOCK_ONFAULT` (4.4), which locks a page once it is in the page table *of the mapping*:
/// presence in the page cache is not enough. `MADV_POPULATE_READ` enters resident pages there;
/// pages that become resident later need [`Lock::extend`].
///
/// The limit counts the whole range, locked or not, for the whole process, and twice what is locked twice.
/// `CAP_IPC_LOCK` lifts it, that of the initial user namespace: root in a container may have another.
///
/// # Cost
/// About 0.25 µs for each page that is resident, the time of its read for each that is not. A page of kernel
/// memory for each 2 MiB.
pub fn lock(file: impl AsFd, range: ByteRange, options: &LockOptions<'_>) -> Result<Lock, Error> {
    let fd = file.as_fd();
    let inode = Inode::of_fd(fd)?;
    let pages = pages_of(&inode, range)?;
    let found = resident(fd, &[pages])?;
    let before = found.as_ref().map(|found| total(found)).map_err(|why| *why);
    if let (Pick::Resident, Err(why)) = (options.pick, before) {
        return Err(why.into());
    }
    let mut lock = Lock {
        mapping: None,
        pages,
        before,
    };
    if pages.is_empty() {
        return Ok(lock);
    }
    let limit = Memlock::now()?;
    limit.allows(pages.len())?;
    let mapping = Mapping::of_pages(fd, pages).map_err(|error| match error.os_error() {
        Some(errno) if errno == Errno::NODEV.raw_os_error() => Unknown::DirectIo.into(),
        _ => Error::from(error),
    })?;
    if options.pick == Pick::Resident {
        mapping
            .lock_on_fault()
            .map_err(|error| limit.explain(error, pages.len()))?;
    }
    lock.mapping = Some(mapping);
    match options.pick {
        Pick::Resident => lock.take_resident(fd, options.watch),
        Pick::All => {
            let missing = minus(&[pages], found.as_deref().unwrap_or_default());
            lock.take_all(fd, &missing, options.watch)
        }
    }
    .map_err(|error| match error {
        Error::Sys(error) => limit.explain(error, pages.len()),
        error => error,
    })?;
    Ok(lock)
}

/// Checks whether this process may lock this number of further pages.
///
/// # Errors
/// [`Error::Memlock`] where `RLIMIT_MEMLOCK` is too small, with what to set; no `/proc`.
///
/// # Cost
/// Three system calls.
pub fn may_lock(pages: Pages) -> Result<(), Error> {
    Ok(Memlock::now()?.allows(pages)?)
}

/// Reads pages, until it is cancelled or the file ends.
fn read(
    fd: BorrowedFd<'_>,
    pages: PageRange,
    watch: Watch<'_>,
) -> Result<(), cachewise_sys::Error> {
    /// Larger than the kernel's readahead, so that it makes large folios.
    const CALL: u64 = 1 << 20;
    let range = pages.bytes(page_size());
    let mut buffer = vec![0; CALL.min(range.len) as usize];
    let mut at = range.start;
    while at < range.end() && !watch.is_cancelled() {
        let most = CALL.min(range.end() - at) as usize;
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut buffer[..most], at));
        match read {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(errno) => {
                return Err(cachewise_sys::Error::Io {
                    operation: "pread",
                    path: None,
                    source: errno.into(),
                });
            }
        }
    }
    Ok(())
}

/// Applies `act` to the pages in steps, until it is cancelled. If the kernel refuses a step because the file has ended,
/// by `end`, only the pages before its end count.
fn in_steps(
    pages: &[PageRange],
    watch: Watch<'_>,
    act: impl Fn(PageRange) -> Result<(), cachewise_sys::Error>,
    end: impl Fn() -> Result<u64, Error>,
) -> Result<(), Error> {
    /// Long enough to be no work, short enough to be stopped.
    const STEP: Bytes = Bytes(8 << 20);
    let most = STEP.pages_floor(page_size()).0.max(1);
    for range in pages {
        let mut start = range.start;
        while start < range.end && !watch.is_cancelled() {
            let step = PageRange {
                start,
                end: range.end.min(start + most),
            };
            match act(step) {
                Ok(()) => {}
                Err(error) => {
                    let end = end()?;
                    if end >= step.end {
                        return Err(error.into());
                    }
                    if let Some(rest) = step.intersection(PageRange { start: 0, end }) {
                        // If it was cut once more, what is left of it is small.
                        act(rest).ok();
                    }
                    return Ok(());
                }
            }
            watch.tell(Progress::Done(step.len().bytes(page_size())));
            start = step.end;
        }
    }
    Ok(())
}
