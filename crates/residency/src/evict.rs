//! [`evict()`]: putting pages out, and why some stay.

use std::os::fd::{AsFd, BorrowedFd};

use cachewise_sys::{fadvise_dont_need_range, page_size, sync_data, write_back_range};
use cachewise_units::{ByteRange, PageRange, Pages};

use crate::error::unless_told;
use crate::query::pages_of;
use crate::ranges::{both, minus, total};
use crate::warm::resident;
use crate::{Counts, Error, Holders, Inode, Unknown, holders, query};

mod folio;

/// How [`evict()`] works. The default writes nothing back and does not ask who holds what stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictOptions {
    /// Dirty pages are written to the disk first, and pages under write-back are waited for. It is not
    /// what `fsync(2)` promises: only pages become clean.
    pub sync: bool,
    /// Processes that map what stays are looked for, which costs milliseconds, once for each file of which
    /// anything stays.
    pub holders: bool,
}

/// Result of [`evict()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Requested pages, up to the end of the file.
    pub pages: Pages,
    /// Resident pages of those before; `Err` if unknown. The kernel is advised in either case.
    pub before: Result<Counts, Unknown>,
    /// Resident pages now.
    pub after: Result<Counts, Unknown>,
    /// Reasons for the remaining pages; `None` if unknown.
    pub stayed: Option<Stayed>,
}

impl Evicted {
    /// Returns the number of evicted pages, including those that other processes evicted; `None` if
    /// unknown.
    #[must_use]
    pub fn went(&self) -> Option<Pages> {
        match (&self.before, &self.after) {
            (Ok(before), Ok(after)) => Some(before.cached.saturating_sub(after.cached)),
            _ => None,
        }
    }
}

/// Why pages stayed, each counted once, by the first reason that is true of it.
///
/// The kernel gives no reasons. These are properties of the remaining pages that would keep any
/// page resident. Pages without any of them are counted in [`other`](Self::other).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stayed {
    /// They are in memory only (tmpfs, memfd, ramfs), where there is no other place for them.
    pub only_copy: Pages,
    /// Newer than the disk. Without [`sync`](EvictOptions::sync), and with writeback not started yet.
    pub dirty: Pages,
    /// Under writeback. Eviction itself starts writeback of dirty pages, so evict again in a while.
    pub writeback: Pages,
    /// Locked by a process, by `mlock` and its kin.
    pub locked: Pages,
    /// In the page tables of a process; or possibly in one large folio with such a page, judged by their offsets.
    pub mapped: Pages,
    /// At the edge of the range, where pages on both sides may belong to one large folio, which is evicted as a whole or
    /// not at all. Judged by the offset, as the kernel does not show folios.
    pub edge: Pages,
    /// Pages without these properties. A process uses them at this moment (reads, direct I/O, a
    /// pipe), has an invisible mapping of them, or has read them again.
    pub other: Pages,
    /// Processes that map the file; `None` if they were not requested, if no page remained, or if
    /// the caller cannot map the file. Without them, locked and mapped pages are counted in
    /// [`other`](Self::other).
    pub holders: Option<Holders>,
}

/// Evicts a range of a file from the page cache, and reports the pages that stayed, with the reasons.
/// [`ByteRange::starting_at`]`(0)` is the whole file.
///
/// Pages that the range covers in part are evicted as a whole. No data is lost: dirty pages remain,
/// or are written first. The page cache is shared, so other processes read from the disk afterwards
/// too.
///
/// # Errors
/// [`Error::Unknown`] of files that the page cache is not used for; [`Error::Sys`] where the disk does not take what
/// is written back.
///
/// # Kernel
/// Any, by `POSIX_FADV_DONTNEED`, which needs no more permission than opening the file. If pages
/// remain, the kernel (since 3.9) drains the batches of all CPUs and tries again itself, so one
/// call is enough: on 6.18, the first call evicted all of 300 files that another CPU had just
/// written, and beside a reader a second and a third call left as many pages as the first.
///
/// # Cost
/// Two system calls beside those of a [`query()`] before and after. A [`map()`](crate::map()) where pages stay.
pub fn evict(file: impl AsFd, range: ByteRange, options: &EvictOptions) -> Result<Evicted, Error> {
    let fd = file.as_fd();
    let inode = Inode::of_fd(fd)?;
    let pages = pages_of(&inode, range)?;
    let before = count(fd, pages)?;
    let range = to_the_end(&inode, pages);
    if options.sync {
        write_back(fd, pages, range)?;
    }
    fadvise_dont_need_range(fd, range)?;
    let after = count(fd, pages)?;
    let stayed = match &after {
        Err(_) => None,
        Ok(after) if after.cached == Pages::ZERO => Some(Stayed::default()),
        Ok(_) => why(fd, &inode, pages, options)?,
    };
    Ok(Evicted {
        pages: pages.len(),
        before,
        after,
        stayed,
    })
}

/// Expected result of [`evict()`], as far as it can be known in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldEvict {
    /// Requested pages, up to the end of the file.
    pub pages: Pages,
    /// Resident pages of those; `Err` if unknown.
    pub before: Result<Counts, Unknown>,
    /// Pages that would remain, by their present properties; `None` if unknown. Pages that are in
    /// use at the moment of eviction, and large folios that are kept in part, cannot be predicted:
    /// [`edge`](Stayed::edge) and [`other`](Stayed::other) are 0.
    pub stays: Option<Stayed>,
}

/// Looks at what [`evict()`] would come to, and does nothing.
///
/// # Errors
/// [`Error::Unknown`] of files that the page cache is not used for.
///
/// # Cost
/// That of a [`query()`] and a [`map()`](crate::map()); with [`holders`](EvictOptions::holders), of that.
pub fn would_evict(
    file: impl AsFd,
    range: ByteRange,
    options: &EvictOptions,
) -> Result<WouldEvict, Error> {
    let fd = file.as_fd();
    let inode = Inode::of_fd(fd)?;
    let pages = pages_of(&inode, range)?;
    let before = count(fd, pages)?;
    let stays = match &before {
        Err(_) => None,
        Ok(before) if before.cached == Pages::ZERO => Some(Stayed::default()),
        Ok(_) => keeps(fd, pages, options)?,
    };
    Ok(WouldEvict {
        pages: pages.len(),
        before,
        stays,
    })
}

/// Finds what would keep resident pages.
fn keeps(
    fd: BorrowedFd<'_>,
    pages: PageRange,
    options: &EvictOptions,
) -> Result<Option<Stayed>, Error> {
    let Ok(resident) = resident(fd, &[pages])? else {
        return Ok(None);
    };
    let mut stays = Stayed::default();
    if is_in_memory(fd)? {
        stays.only_copy = total(&resident);
        return Ok(Some(stays));
    }
    if options.holders {
        stays.holders = holders::find(fd, pages).ok();
    }
    let (mapped, locked) = held(stays.holders.as_ref());
    for range in &resident {
        let here = std::slice::from_ref(range);
        let locked = both(locked, here);
        let mapped = minus(&both(mapped, here), &locked);
        // Synced, they are clean by then.
        let states = match options.sync {
            true => None,
            false => count(fd, *range)?.ok().and_then(|counts| counts.states),
        };
        let states = states.unwrap_or_default();
        let mut left = range.len();
        let mut explain = |pages: Pages| {
            let explained = pages.min(left);
            left = left.saturating_sub(explained);
            explained
        };
        stays.dirty += explain(states.dirty);
        stays.writeback += explain(states.writeback);
        stays.locked += explain(total(&locked));
        stays.mapped += explain(total(&mapped));
    }
    Ok(Some(stays))
}

/// Pages that are mapped, and those of them that are locked, by anybody.
fn held(holders: Option<&Holders>) -> (&[PageRange], &[PageRange]) {
    holders.map_or((&[], &[]), |found| (&found.mapped, &found.locked))
}

fn count(fd: BorrowedFd<'_>, pages: PageRange) -> Result<Result<Counts, Unknown>, Error> {
    unless_told(query(fd, pages.bytes(page_size())))
}

/// Returns the bytes of whole pages; a range up to the end of the file has no end, because the
/// kernel evicts the last page, and the folio around it, only if the range covers all of it.
fn to_the_end(inode: &Inode, pages: PageRange) -> ByteRange {
    let range = pages.bytes(page_size());
    match !pages.is_empty() && range.end() >= inode.size.0 {
        true => ByteRange::starting_at(range.start),
        false => range,
    }
}

/// Makes pages clean: the range alone if that will do, or else the file.
fn write_back(fd: BorrowedFd<'_>, pages: PageRange, range: ByteRange) -> Result<(), Error> {
    write_back_range(fd, range)?;
    let clean = count(fd, pages)?.is_ok_and(|counts| {
        let dirty = |states: crate::States| states.dirty + states.writeback > Pages::ZERO;
        counts.states.is_some_and(|states| !dirty(states))
    });
    if !clean {
        sync_data(fd)?;
    }
    Ok(())
}

/// Finds reasons for the pages that stayed.
fn why(
    fd: BorrowedFd<'_>,
    inode: &Inode,
    pages: PageRange,
    options: &EvictOptions,
) -> Result<Option<Stayed>, Error> {
    let Ok(left) = resident(fd, &[pages])? else {
        return Ok(None);
    };
    let mut stayed = Stayed::default();
    if is_in_memory(fd)? {
        stayed.only_copy = total(&left);
        return Ok(Some(stayed));
    }
    if options.holders {
        // A caller that may not map the file, for want of read permission, cannot find other
        // mappings either.
        stayed.holders = holders::find(fd, pages).ok();
    }
    let (all_mapped, all_locked) = held(stayed.holders.as_ref());
    let around = folio::around(&left, pages, inode, |range| {
        Ok(count(fd, range)?.is_ok_and(|counts| counts.is_full()))
    })?;
    let mapped = folio::sharing(all_mapped, &left);
    for range in &left {
        let states = count(fd, *range)?.ok().and_then(|counts| counts.states);
        let states = states.unwrap_or_default();
        let mut unexplained = range.len();
        let mut explain = |pages: Pages| {
            let explained = pages.min(unexplained);
            unexplained = unexplained.saturating_sub(explained);
            explained
        };
        let here = std::slice::from_ref(range);
        stayed.dirty += explain(states.dirty);
        stayed.writeback += explain(states.writeback);
        let locked = both(all_locked, here);
        stayed.locked += explain(total(&locked));
        stayed.mapped += explain(total(&minus(&both(&mapped, here), &locked)));
        stayed.edge += explain(total(&minus(&both(&around, here), &mapped)));
        stayed.other += unexplained;
    }
    Ok(Some(stayed))
}

/// Whether a file has no other place than memory.
fn is_in_memory(fd: BorrowedFd<'_>) -> Result<bool, Error> {
    /// Of `linux/magic.h`. A memfd and System V's shared memory are tmpfs too.
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    let found = rustix::fs::fstatfs(fd).map_err(|errno| Error::from_errno("fstatfs", errno))?;
    // Its width and sign differ between architectures; the numbers have 32 bits.
    Ok([TMPFS, RAMFS].contains(&(found.f_type as u32)))
}
