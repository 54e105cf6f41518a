//! A file of a program, and which of its pages are in the cache: by cachestat(2), which reads nothing.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use cachewise_model::Ledger;
use cachewise_probe::{FileId, Snapshot};
use rustix::fs::{Advice, FallocateFlags};

use crate::call::{Argument, Call, Operation};
use crate::oracle::{Subject, generation, page_size};
use crate::problem::{Context, Result};
use crate::program::{Initial, Made, Program};
use crate::random::Random;

/// Pages behind the end of a file that are looked at too.
const BEYOND: u64 = 64;

/// How often cachestat(2) is asked about the same pages, if its answers contradict each other.
const ASKED: usize = 10;

/// A file as it is at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its size in bytes.
    pub size: u64,
    /// Whether each page is in the cache, or on its way.
    pages: Vec<bool>,
    /// Whether each page is in the cache and up to date.
    ready: Vec<bool>,
}

impl Seen {
    /// Whether a page is in the cache.
    pub fn has(&self, page: u64) -> bool {
        self.pages.get(page as usize).copied().unwrap_or(false)
    }

    /// Whether a page of a range is in the cache and not up to date: on its way, or written in part.
    pub fn has_unready(&self, mut pages: Range<u64>) -> bool {
        let is_ready = |page: u64| self.ready.get(page as usize).copied().unwrap_or(false);
        pages.any(|page| self.has(page) && !is_ready(page))
    }

    /// How many are.
    pub fn count(&self) -> u64 {
        self.pages.iter().filter(|page| **page).count() as u64
    }

    /// Pages that are here and were not in `earlier`.
    pub fn new_since<'a>(&'a self, earlier: &'a Seen) -> impl Iterator<Item = u64> {
        (0..self.pages.len() as u64).filter(|page| self.has(*page) && !earlier.has(*page))
    }
}

/// A file that is looked at from outside of the program's tasks.
#[derive(Debug)]
pub struct Watched {
    subject: Subject,
    generation: u32,
    file: File,
    path: PathBuf,
}

impl Watched {
    /// Makes a file.
    pub fn make(path: PathBuf, made: &Made) -> Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .context(format_args!("create {}", path.display()))?;
        if made.initial == Initial::Hole {
            file.set_len(made.bytes).context("set the file's size")?;
        } else {
            let mut data = vec![0; made.bytes as usize];
            Random::new(made.bytes).fill(&mut data);
            std::os::unix::fs::FileExt::write_all_at(&file, &data, 0).context("fill the file")?;
        }
        let watched = Watched {
            subject: Subject::open(path.clone())?,
            generation: generation(&file)?,
            file,
            path,
        };
        if made.initial == Initial::Cold {
            rustix::fs::fdatasync(&watched.file).context("fdatasync")?;
            watched.subject.evict()?;
        }
        Ok(watched)
    }

    /// Makes all files of a program.
    pub fn all(program: &Program, directory: &Path) -> Result<Vec<Self>> {
        let files = program.files.iter().enumerate();
        files
            .map(|(number, made)| Watched::make(directory.join(number.to_string()), made))
            .collect()
    }

    /// Whether a row is of this file.
    pub fn is_of(&self, row: Option<FileId>) -> bool {
        row.is_some_and(|file| {
            (file.major, file.minor, file.inode) == self.subject.id()
                && file.generation == self.generation
        })
    }

    /// The sum of its rows.
    pub fn ledger(&self, snapshot: &Snapshot) -> Ledger {
        let rows = snapshot.rows.iter().filter(|row| self.is_of(row.file));
        rows.map(|row| &row.ledger).sum()
    }

    /// For its identity, and what reclaim took of it.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The name that it was made by.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Looks at the file now, at `least` pages at least.
    pub fn see(&self, least: u64) -> Result<Seen> {
        let size = self.file.metadata().context("stat")?.len();
        let count = (size.div_ceil(page_size()) + BEYOND).max(least);
        let mut pages = vec![false; count as usize];
        let found = self.subject.resident_in(&(0..count * page_size()))?;
        self.bisect(0..count, found, &mut pages)?;
        let ready = ready(&self.file, size.div_ceil(page_size())).context("mincore")?;
        Ok(Seen { size, pages, ready })
    }

    /// The same, as far as another look went, and as the ranges of operations go.
    pub fn see_as_far(&self, other: &Seen, operations: &[Operation]) -> Result<Seen> {
        let ends = operations.iter().flat_map(|operation| {
            let offsets = operation.all(Argument::Offset);
            offsets.map(|offset| offset + operation.length())
        });
        // An append has no offset. Without space, the pages that it inserted stay beyond the end.
        let appended = operations.iter().map(|operation| match operation.call {
            Call::Append => other.size + operation.length(),
            _ => 0,
        });
        let end = ends.chain(appended).max().unwrap_or(0);
        self.see((other.pages.len() as u64).max(end / page_size() + BEYOND))
    }

    /// Notes which pages of a range are in the cache, `found` of them. cachestat(2) can leave some out that the kernel
    /// counted in a larger range: then the kernel is asked again.
    fn bisect(&self, range: Range<u64>, found: u64, pages: &mut [bool]) -> Result<()> {
        if found == range.end - range.start {
            pages[range.start as usize..range.end as usize].fill(true);
            return Ok(());
        }
        if found == 0 {
            return Ok(());
        }
        let middle = range.start.midpoint(range.end);
        let halves = [range.start..middle, middle..range.end];
        let mut counts = [0, 0];
        for _ in 0..ASKED {
            for (count, half) in counts.iter_mut().zip(&halves) {
                let bytes = half.start * page_size()..half.end * page_size();
                *count = self.subject.resident_in(&bytes)?.max(*count);
            }
            if counts[0] + counts[1] >= found {
                break;
            }
        }
        for (half, count) in halves.into_iter().zip(counts) {
            self.bisect(half, count, pages)?;
        }
        Ok(())
    }
}

/// mincore(2) of the first pages of a file.
fn ready(file: &File, pages: u64) -> std::io::Result<Vec<bool>> {
    let mut flags = vec![0_u8; pages as usize];
    if flags.is_empty() {
        return Ok(Vec::new());
    }
    let length = flags.len() * page_size() as usize;
    // SAFETY: a new mapping at a place of the kernel's choice, which is never read or written: mincore only asks about
    // it, and writes one byte a page to `flags`.
    unsafe {
        let null = std::ptr::null_mut();
        let (nothing, shared) = (libc::PROT_NONE, libc::MAP_SHARED);
        let start = libc::mmap(null, length, nothing, shared, file.as_raw_fd(), 0);
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let asked = libc::mincore(start, length, flags.as_mut_ptr());
        let error = std::io::Error::last_os_error();
        libc::munmap(start, length);
        if asked != 0 {
            return Err(error);
        }
    }
    Ok(flags.into_iter().map(|flag| flag & 1 != 0).collect())
}

/// Gives readahead, or none, to a descriptor.
pub fn advise(file: &File, advice: Advice) -> Result<()> {
    rustix::fs::fadvise(file.as_fd(), 0, None, advice).context("fadvise")
}

/// Makes a hole, or keeps blocks for a range; the file's size stays.
pub fn allocate(file: &File, hole: bool, offset: u64, length: u64) -> rustix::io::Result<()> {
    let flags = if hole {
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
    } else {
        FallocateFlags::KEEP_SIZE
    };
    rustix::fs::fallocate(file, flags, offset, length)
}
