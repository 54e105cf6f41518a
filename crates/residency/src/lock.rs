//! [`lock()`]: keeping pages in memory.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use cachewise_sys::{Mapping, page_size};
use cachewise_units::{ByteRange, Bytes, PageRange, Pages};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::holders::in_table;
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
    /// Those that are resident, and nothing is brought in. What becomes resident later is locked by the next
    /// [`Lock::extend`].
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
/// The file may be closed, renamed, deleted or truncated meanwhile: the lock is on what was opened, and a file that
/// takes its name is another one. What is cut off the file is let go by the kernel, and no signal comes of that. A
/// large folio that is cut through it lets go as a whole: [`extend`](Self::extend) locks again what is left.
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

    /// Returns how many pages of the range were resident before; `Err` where nobody can know.
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
    /// [`Error::Unknown`] where nobody can know what is resident.
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
        let pages = pages_of(&Inode::of(fd)?, self.pages.bytes(page_size()))?;
        Ok(pages)
    }
}

/// Locks pages of a file in memory, so that neither reclaim nor eviction takes them, until the returned [`Lock`] is
/// dropped. [`ByteRange::starting_at`]`(0)` is the whole file.
///
/// # Errors
/// [`Error::Memlock`] where `RLIMIT_MEMLOCK` is too small, which is looked at before anything is locked, with what
/// to set. [`Error::Unknown`] for [`Pick::Resident`] where nobody can know what is, and of files that cannot be
/// mapped. [`Error::Sys`] with `EIO` where a block cannot be read, with `EAGAIN` where memory is short, and with `ENOSYS` or `EINVAL` where the kernel is older
/// than what is said below.
///
/// # Kernel
/// [`Pick::All`]: any, by `mlock(2)`. [`Pick::Resident`]: since 5.14, by `mlock2(2)` with `MLOCK_ONFAULT` (4.4), which
/// locks a page once it is in the page table *of the mapping*: that it is in the page cache is not enough. So what is
/// resident is put there, by `MADV_POPULATE_READ`; nobody does that for what becomes resident later.
///
/// The limit counts the whole range, locked or not, for the whole process, and twice what is locked twice.
/// `CAP_IPC_LOCK` lifts it, that of the initial user namespace: root in a container may have another.
///
/// # Cost
/// About 0.25 µs for each page that is resident, the time of its read for each that is not. A page of kernel
/// memory for each 2 MiB.
pub fn lock(file: impl AsFd, range: ByteRange, options: &LockOptions<'_>) -> Result<Lock, Error> {
    let fd = file.as_fd();
    let inode = Inode::of(fd)?;
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
    let mapping = Mapping::of(fd, pages).map_err(|error| match error.os_error() {
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

/// Says whether this process may lock so many pages more.
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

/// Goes through pages in steps, until it is cancelled. Where the kernel refuses a step because the file has ended,
/// which `end` tells, what was there is done.
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

/// Why no more may be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "mlock: {wanted} more than the {locked} that this process has locked are not allowed: RLIMIT_MEMLOCK is {limit}; \
     {}, LimitMEMLOCK={} for a systemd unit, a memlock line in /etc/security/limits.conf for logins, or run with \
     CAP_IPC_LOCK",
    shell(self), (*wanted + *locked).0
)]
pub struct MemlockLimit {
    /// What was to be locked, in whole pages.
    pub wanted: Bytes,
    /// What the process has locked already.
    pub locked: Bytes,
    /// The soft limit.
    pub limit: Bytes,
    /// The hard limit, up to which everybody may raise the soft one; `None` for no limit.
    pub hard: Option<Bytes>,
}

fn shell(error: &MemlockLimit) -> String {
    let kibibytes = (error.wanted + error.locked).0.div_ceil(1 << 10);
    let may_raise = error
        .hard
        .is_none_or(|hard| hard >= error.wanted + error.locked);
    match may_raise {
        true => format!("set `ulimit -l {kibibytes}` before"),
        false => format!(
            "set `ulimit -l {kibibytes}` before, as root, for the hard limit is too small as well"
        ),
    }
}

/// What may be locked by this process.
struct Memlock {
    /// `None` for no limit.
    soft: Option<Bytes>,
    hard: Option<Bytes>,
    locked: Bytes,
    is_privileged: bool,
}

impl Memlock {
    fn now() -> Result<Self, Error> {
        let limits = rustix::process::getrlimit(Resource::Memlock);
        let path = "/proc/self/status";
        let status = std::fs::read_to_string(path).map_err(|source| cachewise_sys::Error::Io {
            operation: "read",
            path: Some(path.into()),
            source,
        })?;
        let is_privileged = rustix::thread::capabilities(None).is_ok_and(|held| {
            held.effective
                .contains(rustix::thread::CapabilitySet::IPC_LOCK)
        });
        Ok(Self {
            soft: limits.current.map(Bytes),
            hard: limits.maximum.map(Bytes),
            locked: locked(&status),
            is_privileged,
        })
    }

    /// Says whether the limit lets so many more pages be locked. Who holds the capability is let try.
    fn allows(&self, more: Pages) -> Result<(), MemlockLimit> {
        match self.exceeded(more) {
            Some(exceeded) if !self.is_privileged => Err(exceeded),
            _ => Ok(()),
        }
    }

    fn exceeded(&self, more: Pages) -> Option<MemlockLimit> {
        let wanted = more.bytes(page_size());
        let limit = self.soft?;
        // The kernel counts whole pages of the limit.
        let allowed = limit.pages_floor(page_size()).bytes(page_size());
        (self.locked + wanted > allowed).then_some(MemlockLimit {
            wanted,
            locked: self.locked,
            limit,
            hard: self.hard,
        })
    }

    /// Tells a refusal for the limit's sake from another.
    fn explain(&self, error: cachewise_sys::Error, more: Pages) -> Error {
        let refused = [Errno::PERM, Errno::NOMEM].map(|errno| Some(errno.raw_os_error()));
        match self.exceeded(more) {
            Some(exceeded) if refused.contains(&error.os_error()) => exceeded.into(),
            _ => error.into(),
        }
    }
}

/// Finds `VmLck` in `/proc/PID/status`.
fn locked(status: &str) -> Bytes {
    let kibibytes = status.lines().find_map(|line| {
        let value = line.strip_prefix("VmLck:")?.trim().strip_suffix("kB")?;
        value.trim().parse::<u64>().ok()
    });
    Bytes(kibibytes.unwrap_or(0) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memlock(soft: u64, locked: u64) -> Memlock {
        Memlock {
            soft: Some(Bytes(soft)),
            hard: Some(Bytes(1 << 30)),
            locked: Bytes(locked),
            is_privileged: false,
        }
    }

    #[test]
    fn the_limit_is_for_all_that_is_locked_together() {
        let page = page_size().get();
        let limit = memlock(10 * page + 7, 4 * page);
        assert_eq!(limit.allows(Pages(6)), Ok(()), "ten pages in all");
        let error = limit.allows(Pages(7)).unwrap_err();
        assert_eq!(error.wanted, Bytes(7 * page), "one too many");
        let text = error.to_string();
        let kibibytes = 11 * page / 1024;
        for part in [
            "RLIMIT_MEMLOCK",
            &format!("ulimit -l {kibibytes}`"),
            &format!("LimitMEMLOCK={}", 11 * page),
            "limits.conf",
            "CAP_IPC_LOCK",
        ] {
            assert!(text.contains(part), "{part:?} should be in {text:?}");
        }
        assert!(
            !text.contains("as root"),
            "the hard limit is larger: {text}"
        );
        let error = limit.allows(Pages(1 << 40)).unwrap_err();
        assert!(
            error.to_string().contains("as root"),
            "here it is not: {error}"
        );
        let unlimited = Memlock {
            soft: None,
            ..limit
        };
        assert_eq!(
            unlimited.allows(Pages(1 << 40)),
            Ok(()),
            "there is no limit"
        );
    }

    #[test]
    fn what_is_locked_is_found() {
        let status = "Name:\tx\nVmPin:\t       3 kB\nVmLck:\t      64 kB\n";
        assert_eq!(locked(status), Bytes(64 << 10), "in KiB");
        assert_eq!(locked("Name:\tx\n"), Bytes::ZERO, "a kernel without memory");
    }
}
