//! Pages of files that a program touches, in the order in which it first does.
//!
//! Touches are what the probe sees: reads, page faults, and the pages that the kernel maps around a fault. A later touch
//! of a mapped page is none, as it causes no event.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use cachewise_probe::{Access, AccessKind, Accesses, FileId, FileKind, Probe, Snapshot};
use cachewise_residency::snapshot::SnapshotEntry;
use cachewise_residency::{Error, Inode, map, merged, open};
use cachewise_units::{ByteRange, PageRange, escaped};

use crate::commands::files::is_not_opened;

/// The ring is emptied this often, or when a quarter of it is full.
const INTERVAL: Duration = Duration::from_millis(10);

/// Ranges of all files: 32 MiB. Later ones are not kept.
const MOST_RANGES: usize = 1 << 21;

/// Pages by which the window around a fault may be elsewhere in another run: it has 64 KiB, of 4 KiB each or fewer.
const AROUND: u64 = 15;

/// A thread that takes the touches of a probe's accesses.
pub struct TouchWatcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Work>>>,
    /// The state of a thread that has ended.
    work: Option<Work>,
}

struct Work {
    accesses: Accesses,
    batch: Vec<Access>,
    touched: Touched,
}

impl TouchWatcher {
    /// Starts with a probe that sends accesses.
    pub fn start(probe: &Probe) -> Result<TouchWatcher> {
        let mut work = Work {
            accesses: probe.accesses()?,
            batch: Vec::new(),
            touched: Touched::default(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                work.accesses.wait(INTERVAL);
                work.take()?;
            }
            Ok(work)
        };
        let thread = cachewise_sys::start_thread("touches", run)
            .context("cannot start the thread that takes touches")?;
        Ok(TouchWatcher {
            stop,
            thread: Some(thread),
            work: None,
        })
    }

    /// Ends the thread: for a program that cannot be started while it counts towards a limit on processes. The ring keeps
    /// what comes then.
    pub fn end_thread(&mut self) {
        if let Ok(work) = self.join() {
            self.work = Some(work);
        }
    }

    fn join(&mut self) -> Result<Work> {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        match (ended, self.work.take()) {
            (Some(Ok(work)), _) => work,
            (None, Some(work)) => Ok(work),
            _ => Err(anyhow!("the thread that takes touches ended early")),
        }
    }

    /// Takes the rest, and returns all.
    pub fn finish(mut self) -> Result<Touched> {
        let mut work = self.join()?;
        work.take()?;
        work.touched.lost = work.accesses.lost()?;
        Ok(work.touched)
    }
}

impl Work {
    fn take(&mut self) -> Result<()> {
        loop {
            self.accesses.read(&mut self.batch)?;
            for access in &self.batch {
                self.touched.add(access);
            }
            if self.batch.len() < Accesses::BATCH {
                return Ok(());
            }
        }
    }
}

/// Touched pages by file.
#[derive(Debug, Default)]
pub struct Touched {
    /// By [`FileId::number_in_accesses`].
    files: HashMap<u64, TouchedFile>,
    ranges: usize,
    /// Accesses that found the ring full.
    pub lost: u64,
    /// There were too many ranges: some are missing.
    pub is_cut: bool,
}

#[derive(Debug, Default)]
struct TouchedFile {
    /// How many files were touched before.
    order: usize,
    read: Pages,
    /// Pages around faults: those of them that are in the cache are mapped.
    around: Pages,
}

/// Pages, in the order of their touches until they are merged.
#[derive(Debug, Default)]
struct Pages {
    ranges: Vec<PageRange>,
    merged: usize,
}

/// Files as a snapshot has them, in the order of their first touch.
pub struct TouchedFiles {
    pub entries: Vec<SnapshotEntry>,
    /// Messages about files that are left out.
    pub failed: Vec<String>,
    /// Files without a name: deleted, or beyond the tables of the probe.
    pub nameless: usize,
}

impl Touched {
    fn add(&mut self, access: &Access) {
        let pages = PageRange {
            start: access.first,
            end: access.first + access.pages,
        };
        let order = self.files.len();
        let file = || TouchedFile {
            order,
            ..TouchedFile::default()
        };
        let touched = self.files.entry(access.file);
        let set = match access.kind {
            AccessKind::Read | AccessKind::Fault => &mut touched.or_insert_with(file).read,
            AccessKind::Around => &mut touched.or_insert_with(file).around,
            // A program that writes or truncates a file makes its pages; one that prefetches does so again.
            AccessKind::Write
            | AccessKind::ReadAhead
            | AccessKind::Remove
            | AccessKind::Resident => return,
        };
        let before = set.ranges.len();
        if self.ranges < MOST_RANGES || set.continues(pages) {
            set.add(pages);
        } else {
            self.is_cut = true;
        }
        self.ranges = self.ranges + set.ranges.len() - before;
    }

    /// The pages of each file, in no particular order, by its device and inode number. Which pages are mapped around a
    /// fault differs from run to run with the addresses of the mappings: those that another run may map are among them.
    pub fn by_identity(
        mut self,
        snapshot: &Snapshot,
    ) -> HashMap<((u32, u32), u64), Vec<PageRange>> {
        let mut files = HashMap::new();
        for id in snapshot.files.keys() {
            if let Some(mut touched) = self.files.remove(&id.number_in_accesses()) {
                let around = touched.around.ranges.iter().map(|around| PageRange {
                    start: around.start.saturating_sub(AROUND),
                    end: around.end + AROUND,
                });
                touched.read.ranges.extend(around);
                files.insert(((id.major, id.minor), id.inode), touched.read.ranges);
            }
        }
        files
    }

    /// Names the files by what the probe knows of them, and leaves out pages that were not in the cache when others around
    /// them were mapped. Files of FUSE are not opened, and keep all.
    pub fn named(mut self, snapshot: &Snapshot) -> TouchedFiles {
        let mut files: Vec<(usize, PathBuf, FileId, TouchedFile)> = Vec::new();
        for (id, info) in &snapshot.files {
            // Metadata has no name, and is no part of it.
            let number = id.number_in_accesses();
            if info.kind != FileKind::File {
                self.files.remove(&number);
            } else if let Some(path) = info.path.as_ref().filter(|_| !info.deleted)
                && let Some(touched) = self.files.remove(&number)
            {
                files.push((touched.order, path.clone(), *id, touched));
            }
        }
        files.sort_unstable_by_key(|(order, ..)| *order);
        let mut named = TouchedFiles {
            entries: Vec::new(),
            failed: Vec::new(),
            nameless: self.files.len(),
        };
        for (_, path, id, touched) in files {
            match entry(path, id, touched) {
                Ok(entry) if entry.ranges.is_empty() => {}
                Ok(entry) => named.entries.push(entry),
                Err(why) => named.failed.push(why),
            }
        }
        named
    }
}

fn entry(path: PathBuf, id: FileId, touched: TouchedFile) -> Result<SnapshotEntry, String> {
    let make = || {
        // A file of FUSE, opened once more, may lose what is resident.
        let file = match open(&path) {
            Err(error) if is_not_opened(&error) => None,
            opened => Some(opened?),
        };
        let inode = match &file {
            Some(file) => Inode::of_fd(file.as_fd())?,
            None => Inode::at(&path)?,
        };
        if (inode.device, inode.number) != ((id.major, id.minor), id.inode) {
            return Ok(None);
        }
        let mut pages = touched.read.ranges;
        let mut around = touched.around.ranges;
        if let Some(file) = &file
            && !around.is_empty()
        {
            let mut mapped = SnapshotEntry::of_pages(&path, &inode, None, &around);
            mapped.keep(map(file, ByteRange::starting_at(0))?.ranges);
            around = mapped.ranges;
        }
        pages.append(&mut around);
        let fd = file.as_ref().map(AsFd::as_fd);
        Ok(Some(SnapshotEntry::of_pages(&path, &inode, fd, &pages)))
    };
    let made: Result<_, Error> = make();
    match made {
        Ok(Some(entry)) => Ok(entry),
        Ok(None) => Err(format!(
            "{}: it was replaced by another file meanwhile",
            escaped(&path)
        )),
        Err(error) => Err(error.with_path(&path).to_string()),
    }
}

impl Pages {
    fn continues(&self, pages: PageRange) -> bool {
        let last = self.ranges.last();
        last.is_some_and(|last| last.start <= pages.start && pages.start <= last.end)
    }

    fn add(&mut self, pages: PageRange) {
        if self.continues(pages)
            && let Some(last) = self.ranges.last_mut()
        {
            last.end = last.end.max(pages.end);
            return;
        }
        self.ranges.push(pages);
        // Twice what is left after merging, so that the cost of a touch does not grow with their number.
        if self.ranges.len() > 2 * self.merged + 64 {
            self.ranges = merged(std::mem::take(&mut self.ranges));
            self.merged = self.ranges.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(file: u64, first: u64, pages: u64, kind: AccessKind) -> Access {
        Access {
            file,
            first,
            pages,
            kind,
            reader: None,
        }
    }

    #[test]
    fn touches_of_all_orders_are_kept_once_and_in_bounded_memory() {
        let mut touched = Touched::default();
        // Each page of 10,000 is read a hundred times, in steps of a prime number.
        for turn in 0..1_000_000u64 {
            touched.add(&access(1, turn * 7919 % 10_000, 1, AccessKind::Read));
        }
        let ranges = &touched.files[&1].read.ranges;
        assert!(ranges.len() < 20_100, "{} ranges", ranges.len());
        assert_eq!(touched.ranges, ranges.len(), "the sum of all is kept");
        let pages: std::collections::BTreeSet<u64> = ranges
            .iter()
            .flat_map(|range| range.start..range.end)
            .collect();
        assert_eq!(pages.len(), 10_000, "each page, and no other");
        assert!(!touched.is_cut);
    }

    #[test]
    fn writes_are_no_touches_and_files_keep_the_order_of_the_first() {
        let mut touched = Touched::default();
        touched.add(&access(3, 0, 1, AccessKind::Write));
        touched.add(&access(2, 0, 1, AccessKind::Around));
        touched.add(&access(1, 0, 1, AccessKind::Read));
        touched.add(&access(2, 9, 1, AccessKind::Fault));
        assert!(!touched.files.contains_key(&3));
        assert!(touched.files[&2].order < touched.files[&1].order);
    }
}
