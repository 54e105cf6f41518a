//! [`restore()`]: reads the pages of a snapshot into the page cache again.

use std::collections::VecDeque;
use std::io::BufRead;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use cachewise_sys::{ErrorKind, page_size, start_thread_in};
use cachewise_units::{ByteRange, Bytes, Pages};

use super::{Reader, SnapshotEntry, SnapshotError};
use crate::{Error, Inode, Limiter, Unknown, WarmOptions, Warmed, Watch, open, open_to_act, warm};

/// How [`restore()`] works.
#[derive(Clone, Copy)]
pub struct RestoreOptions<'a> {
    /// Files that changed in size or time are warmed too, as far as they go: the ranges may be of other content.
    pub anyway: bool,
    /// How many threads read, each another file or, of a large one, another part. One by default.
    pub threads: NonZeroUsize,
    /// At most so much is read or found resident, from the start of the snapshot on; files that are gone or changed do not
    /// count. Everything by default.
    pub most: Option<Bytes>,
    /// How fast all of them together may read; as fast as can be by default.
    pub limiter: Option<&'a Limiter>,
    /// How the work is followed and stopped: bytes planned, file by file, and read.
    pub watch: Watch<'a>,
    /// Told what became of each file, by the thread that did it.
    pub each: Option<&'a EachFile<'a>>,
}

/// Callback of [`RestoreOptions::each`].
pub type EachFile<'a> = dyn Fn(&SnapshotEntry, FileOutcome<'_>) + Sync + 'a;

impl Default for RestoreOptions<'_> {
    fn default() -> Self {
        Self {
            anyway: false,
            threads: NonZeroUsize::MIN,
            most: None,
            limiter: None,
            watch: Watch::default(),
            each: None,
        }
    }
}

impl std::fmt::Debug for RestoreOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestoreOptions")
            .field("anyway", &self.anyway)
            .field("threads", &self.threads)
            .field("most", &self.most)
            .field("limiter", &self.limiter)
            .field("watch", &self.watch)
            .field("each", &self.each.is_some())
            .finish()
    }
}

/// Result for a file of a snapshot.
#[derive(Clone, Copy, Debug)]
pub enum FileOutcome<'a> {
    /// It was warmed, with what came of that.
    Warmed(&'a Warmed),
    /// It was left alone.
    Skipped(&'a Skip),
}

/// Why a file was left alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Skip {
    /// There is no such file any more.
    #[error("it is gone")]
    Vanished,
    /// Its size or its time of modification is another.
    #[error("it has changed: {} then, {} now", size(was), size(is))]
    Changed {
        /// Size, and time of modification (seconds and nanoseconds), in the snapshot.
        was: (Bytes, (i64, u32)),
        /// The same now.
        is: (Bytes, (i64, u32)),
    },
    /// It cannot be opened or read.
    #[error(transparent)]
    Failed(Error),
}

fn size((size, (seconds, nanoseconds)): &(Bytes, (i64, u32))) -> String {
    format!("{size} of second {seconds}.{nanoseconds:09}")
}

/// Number of skipped files, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The file no longer exists.
    pub vanished: u64,
    /// Its size or its time of modification differs.
    pub changed: u64,
    /// The caller may not open it.
    pub denied: u64,
    /// It cannot be opened or read for another reason.
    pub failed: u64,
}

/// Result of [`restore()`].
#[derive(Debug, Default)]
pub struct Restored {
    /// Files that were warmed.
    pub files: u64,
    /// Files that were not.
    pub skipped: Skipped,
    /// Warmed files with fewer resident pages than requested: [`Warmed::short`] has the reason.
    pub short: u64,
    /// Warmed files of unknown residency. If there are any, `before`, `after` and `inserted` are
    /// not complete.
    pub unknown: u64,
    /// Pages that the snapshot has of the files warmed.
    pub pages: Pages,
    /// Pages of those that lie beyond the end that their file has now: [`RestoreOptions::anyway`].
    pub beyond: Pages,
    /// Pages of those that were resident before.
    pub before: Pages,
    /// Pages of those that are resident now: each file's when it was done.
    pub after: Pages,
    /// Pages of those that came in.
    pub inserted: Pages,
    /// Bytes read.
    pub read: Bytes,
    /// Whether it was cancelled: later entries of the snapshot were not restored.
    pub cancelled: bool,
    /// The fault of the snapshot: later entries were not read.
    pub damage: Option<SnapshotError>,
}

/// Reads the pages again that were resident when a snapshot was taken.
///
/// Files that are gone or that changed are counted and skipped. Pages outside of the snapshot's
/// ranges are neither read nor evicted.
///
/// # Kernel
/// As [`warm()`].
///
/// # Cost
/// For each file that of opening and of [`warm()`]. Memory for the ranges of 1,024 files at most, however many there
/// are; [`warm()`]'s own beside that. A file of which more than 16 MiB or 64 ranges are wanted is read by all threads at
/// once, one such file at a time.
pub fn restore<R: BufRead + Send>(reader: Reader<R>, options: &RestoreOptions<'_>) -> Restored {
    let work = Work {
        options,
        upcoming: Mutex::new(Upcoming {
            reader,
            window: VecDeque::new(),
            fault: None,
            left: options.most.map(|most| Pages(most.0 / page_size().get())),
            anyway: options.anyway,
        }),
        large: Mutex::new(()),
        restored: Mutex::new(Restored::default()),
    };
    std::thread::scope(|scope| {
        // The caller's thread works as well, alone if no other can be had.
        let _others: Vec<_> = (1..options.threads.get())
            .map_while(|_| start_thread_in(scope, "restore", || work.run()).ok())
            .collect();
        work.run();
    });
    let mut restored = work
        .restored
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    restored.cancelled = options.watch.is_cancelled();
    restored
}

/// The entries to come: some at a time, each time in the order of their places on the device.
struct Upcoming<R> {
    reader: Reader<R>,
    window: VecDeque<SnapshotEntry>,
    /// Found behind the entries of the window.
    fault: Option<SnapshotError>,
    /// Pages that may still be read.
    left: Option<Pages>,
    /// Changed files are read too.
    anyway: bool,
}

impl<R: BufRead> Upcoming<R> {
    fn next(&mut self) -> Option<Result<SnapshotEntry, SnapshotError>> {
        if self.window.is_empty() && self.fault.is_none() {
            self.fill();
        }
        match self.window.pop_front() {
            Some(entry) => Some(Ok(entry)),
            None => self.fault.take().map(Err),
        }
    }

    /// Reads the entries of the next 64 MiB, 1,024 files or 65,536 ranges.
    fn fill(&mut self) {
        const MOST: Bytes = Bytes(64 << 20);
        const FILES: usize = 1024;
        const RANGES: usize = 1 << 16;
        let (mut pages, mut ranges) = (Pages::ZERO, 0);
        while pages.bytes(page_size()) < MOST && self.window.len() < FILES && ranges < RANGES {
            if self.left == Some(Pages::ZERO) {
                break;
            }
            match self.reader.next() {
                None => break,
                Some(Err(fault)) => {
                    self.fault = Some(fault);
                    break;
                }
                Some(Ok(mut entry)) => {
                    // A file that is left alone takes nothing of what may be read.
                    if let Some(left) = &mut self.left
                        && entry.can_be_restored(self.anyway)
                    {
                        entry.ranges = crate::ranges::first(&entry.ranges, *left);
                        *left = left.saturating_sub(entry.cached());
                    }
                    pages += entry.cached();
                    ranges += entry.ranges.len();
                    self.window.push_back(entry);
                }
            }
        }
        if self.window.iter().all(|entry| entry.place.is_some()) {
            let window = self.window.make_contiguous();
            window.sort_by_key(|entry| (entry.device, entry.place));
        }
    }
}

struct Work<'a, R> {
    options: &'a RestoreOptions<'a>,
    upcoming: Mutex<Upcoming<R>>,
    /// Held while a large file is read by several threads.
    large: Mutex<()>,
    restored: Mutex<Restored>,
}

impl<R: BufRead> Work<'_, R> {
    fn run(&self) {
        while !self.options.watch.is_cancelled() {
            let next = locked(&self.upcoming).next();
            match next {
                None => return,
                Some(Err(damage)) => {
                    locked(&self.restored).damage = Some(damage);
                    return;
                }
                Some(Ok(entry)) => self.file(&entry),
            }
        }
    }

    fn file(&self, entry: &SnapshotEntry) {
        let done = self.warm(entry);
        if let Some(each) = self.options.each {
            each(
                entry,
                match &done {
                    Ok(warmed) => FileOutcome::Warmed(warmed),
                    Err(skip) => FileOutcome::Skipped(skip),
                },
            );
        }
        let mut restored = locked(&self.restored);
        match &done {
            Ok(warmed) => restored.add(entry.cached(), warmed),
            Err(skip) => restored.skipped.add(skip),
        }
    }

    fn warm(&self, entry: &SnapshotEntry) -> Result<Warmed, Skip> {
        const LARGE: Bytes = Bytes(16 << 20);
        // One thread would wait for each of them in turn.
        const MANY_RANGES: usize = 64;
        // A file of FUSE is opened only when it is certain that it is warmed.
        let opened = match open(&entry.path) {
            Err(error) if error.unknown() == Some(Unknown::FuseNotOpened) => None,
            opened => Some(opened.map_err(skip)?),
        };
        let inode = match &opened {
            Some(file) => Inode::of_fd(file.as_fd()).map_err(|error| error.with_path(&entry.path)),
            None => Inode::at(&entry.path),
        };
        let inode = inode.map_err(skip)?;
        if !self.options.anyway && !entry.is_same(&inode) {
            return Err(Skip::Changed {
                was: (entry.size, entry.modified),
                is: (inode.size, inode.modified),
            });
        }
        let file = match opened {
            Some(file) => file,
            None => open_to_act(&entry.path).map_err(skip)?,
        };
        let ranges: Vec<ByteRange> = entry
            .ranges
            .iter()
            .map(|range| range.bytes(page_size()))
            .collect();
        let is_large =
            entry.cached().bytes(page_size()) > LARGE || entry.ranges.len() > MANY_RANGES;
        let _alone = is_large.then(|| locked(&self.large));
        let options = WarmOptions {
            threads: self.options.threads,
            limiter: self.options.limiter,
            watch: self.options.watch,
        };
        warm(&file, &ranges, &options).map_err(|error| skip(error.with_path(&entry.path)))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn skip(error: Error) -> Skip {
    match error.kind() {
        ErrorKind::NotFound => Skip::Vanished,
        _ => Skip::Failed(error),
    }
}

impl Skipped {
    fn add(&mut self, skip: &Skip) {
        *match skip {
            Skip::Vanished => &mut self.vanished,
            Skip::Changed { .. } => &mut self.changed,
            Skip::Failed(error) if error.kind() == ErrorKind::Denied => &mut self.denied,
            Skip::Failed(_) => &mut self.failed,
        } += 1;
    }

    /// Returns how many there are in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.vanished + self.changed + self.denied + self.failed
    }
}

impl Restored {
    /// Adds a file with this number of pages in the snapshot.
    fn add(&mut self, pages: Pages, warmed: &Warmed) {
        self.files += 1;
        self.pages += pages;
        self.beyond += pages.saturating_sub(warmed.pages);
        self.read += warmed.read;
        self.short += u64::from(warmed.short.is_some());
        match (&warmed.before, &warmed.after, &warmed.inserted) {
            (Ok(before), Ok(after), Ok(inserted)) => {
                self.before += *before;
                self.after += *after;
                self.inserted += *inserted;
            }
            _ => self.unknown += 1,
        }
    }
}
