//! Expected counts, determined by other means than the probe's.
//!
//! The oracle queries cachestat(2) for the range of a request *right before* the request. With one
//! reader that determines everything:
//!
//! - pages = page indices that the range, clamped to the end of the file, overlaps;
//! - hits = those that are resident just before, also if their I/O is still under way;
//! - misses = the rest;
//! - readahead = pages inserted into the file during the case, minus the misses: residency after,
//!   minus residency before, plus the pages evicted in between;
//! - used = hits on pages that had not been read since their insertion. The oracle tracks the pages
//!   that were read, page by page, from the preparation on.
//!
//! For mmap a request is a fault, and the thread's own fault counters show whether a touch was one.
//! With several readers a query before the request determines nothing, and invariants replace the
//! oracle: see `races.rs`.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::Advice;

use crate::problem::{Context, Problem, Result};
use crate::random::Random;

/// Bytes of a page.
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The most bytes that one call moves; of a request for more, the kernel does this much.
fn most_bytes() -> u64 {
    i32::MAX as u64 / page_size() * page_size()
}

/// The page indices that a range of bytes overlaps.
pub fn pages_of(bytes: &Range<u64>) -> Range<u64> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / page_size()..(bytes.end - 1) / page_size() + 1
}

/// Result of cachestat(2) for a range.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Residency {
    /// Pages in the cache, those whose I/O is under way included.
    pub cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of files came back since boot that reclaim had taken, on the whole machine.
fn refaults() -> Result<u64> {
    // To read it is to have what each CPU keeps to itself added up.
    std::fs::read("/proc/sys/vm/stat_refresh").context("read vm.stat_refresh")?;
    let text = std::fs::read_to_string("/proc/vmstat").context("read /proc/vmstat")?;
    text.lines()
        .find_map(|line| line.strip_prefix("workingset_refault_file "))
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| Problem::new("/proc/vmstat has no workingset_refault_file"))
}

/// The kernel's record, at one time, of pages that were reclaimed. `pgsteal_file` does not serve: it leaves
/// out pages that DAMON reclaims.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Entries of the file that say so.
    shadows: u64,
    refaults: u64,
}

/// cachestat(2) by a direct call: the oracle must not share code with the code under test.
fn cachestat(file: RawFd, bytes: &Range<u64>) -> io::Result<Residency> {
    /// The same on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;
    let mut found = Residency::default();
    let range = [bytes.start, bytes.end - bytes.start];
    // SAFETY: the kernel reads two u64 from `range` and writes five to `found`; both live until the
    // call returns, and `Residency` is five u64 in C layout.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file,
            range.as_ptr(),
            &raw mut found,
            0 as libc::c_uint,
        )
    };
    if result == 0 {
        Ok(found)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Resident pages in a range of a file, by cachestat(2), or else by mincore(2).
fn resident(file: &File, bytes: &Range<u64>) -> Result<Residency> {
    match cachestat(file.as_raw_fd(), bytes) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {}
        found => return found.context("cachestat"),
    }
    let end = file
        .try_clone()
        .and_then(|mut file| file.seek(SeekFrom::End(0)))
        .context("seek to the end")?;
    let pages = if bytes.is_empty() {
        pages_of(&(0..end))
    } else {
        pages_of(&(bytes.start..bytes.end.min(end)))
    };
    let mut found = Residency::default();
    if !pages.is_empty() {
        found.cached = mincore(file, &pages).context("mincore")?;
    }
    Ok(found)
}

/// Pages of a file that are in the cache and up to date.
fn mincore(file: &File, pages: &Range<u64>) -> io::Result<u64> {
    let count = (pages.end - pages.start) as usize;
    let length = count * page_size() as usize;
    let mut flags = vec![0_u8; count];
    // SAFETY: a new mapping at an address of the kernel's choice, which is never read or written: mincore only
    // queries it, and writes one byte per page to `flags`, which has `count` bytes.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            (pages.start * page_size()) as libc::off_t,
        );
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let asked = libc::mincore(start, length, flags.as_mut_ptr());
        let error = io::Error::last_os_error();
        libc::munmap(start, length);
        if asked != 0 {
            return Err(error);
        }
    }
    Ok(flags.iter().filter(|flag| **flag & 1 != 0).count() as u64)
}

/// How many faults this thread has had.
pub fn faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the struct that it is given; RUSAGE_THREAD is known to every kernel
    // that has cachestat, so it cannot fail and leave it unset.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt.unsigned_abs() + usage.ru_majflt.unsigned_abs()
}

/// Size of the folios of a file in the cache before the case: other kernel code counts a hit in a large
/// folio than sixteen hits in small ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folios {
    /// Inserted by sequential readahead, which makes the largest folios that the file system supports.
    Large,
    /// Inserted page by page, without readahead; the reads of the case have none either.
    Small,
}

impl Folios {
    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            Folios::Large => "large",
            Folios::Small => "small",
        }
    }

    /// The advice for a file descriptor that is to make such folios.
    pub fn advice(self) -> Advice {
        match self {
            Folios::Large => Advice::Normal,
            Folios::Small => Advice::Random,
        }
    }
}

/// How much of a file is in the cache when the case begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Cold,
    /// Half: the first half where folios are large, else every page or not, by lot.
    Half,
    /// Everything.
    Warm,
}

impl State {
    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            State::Cold => "cold",
            State::Half => "half",
            State::Warm => "warm",
        }
    }
}

/// A file, or a device, whose reads are counted.
#[derive(Debug)]
pub struct Subject {
    path: PathBuf,
    /// Only asked about, never read.
    file: File,
    bytes: u64,
    /// Major, minor and inode number, as the probe names the file.
    id: (u32, u32, u64),
    /// Entries of pages that reclaim took which went with a part that was cut off.
    cut: AtomicU64,
}

impl Subject {
    /// Makes a file of incompressible data, all of it on the disk; one of that name is overwritten
    /// and keeps its flags.
    pub fn create(path: PathBuf, bytes: u64) -> Result<Self> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .context(format_args!("create {}", path.display()))?;
        let mut random = Random::new(bytes ^ 0x9e37_79b9_7f4a_7c15);
        let mut block = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < bytes {
            random.fill(&mut block);
            let wanted = block.len().min((bytes - offset) as usize);
            file.write_all_at(&block[..wanted], offset)
                .context("fill the file")?;
            offset += wanted as u64;
        }
        file.sync_all().context("sync the file")?;
        Subject::open(path)
    }

    /// Takes a file or block device that is there.
    pub fn open(path: PathBuf) -> Result<Self> {
        let mut file = File::open(&path).context(format_args!("open {}", path.display()))?;
        let metadata = file.metadata().context("stat")?;
        // A block device has no size to stat, but an end to seek.
        let bytes = file.seek(SeekFrom::End(0)).context("seek to the end")?;
        Ok(Subject {
            path,
            file,
            bytes,
            id: identity(&metadata),
            cut: AtomicU64::new(0),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size when it was opened here.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its size in pages, rounded up.
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(page_size())
    }

    /// Major, minor and inode number, as the probe names it.
    pub fn id(&self) -> (u32, u32, u64) {
        self.id
    }

    /// Resident pages of the file, appended ones included.
    pub fn residency(&self) -> Result<Residency> {
        resident(&self.file, &(0..0))
    }

    /// Truncates the file. That also removes the kernel's entries for reclaimed pages there: their number is kept.
    pub fn cut_to(&self, bytes: u64) -> Result<()> {
        let before = self.residency()?.evicted;
        File::options()
            .write(true)
            .open(&self.path)
            .and_then(|file| file.set_len(bytes))
            .context("truncate")?;
        let left = self.residency()?.evicted;
        self.cut
            .fetch_add(before.saturating_sub(left), Ordering::Relaxed);
        Ok(())
    }

    /// Pages of the file that were reclaimed up to now.
    pub fn taken(&self) -> Result<Taken> {
        Ok(Taken {
            shadows: self.residency()?.evicted + self.cut.load(Ordering::Relaxed),
            refaults: refaults()?,
        })
    }

    /// The most pages that reclaim can have taken since: each left an entry, and is back where that is gone.
    pub fn taken_since(&self, before: Taken) -> Result<u64> {
        if !crate::image::has_cachestat() {
            return Ok(u64::MAX); // nobody knows
        }
        let now = self.taken()?;
        Ok((now.shadows + now.refaults).saturating_sub(before.shadows + before.refaults))
    }

    /// Resident pages of a range, which must not be empty.
    ///
    /// cachestat(2) itself is not quite exact: now and then (6.18, a busy machine: one call in 80,000) it leaves
    /// pages out of a range that begins inside a large folio. When it gives the CPU away there, it goes on too far
    /// behind that folio: by as many pages as lie between its beginning and that of the range. It never counts too
    /// many, and it is right about a single page.
    pub fn resident_in(&self, bytes: &Range<u64>) -> Result<u64> {
        let pages = pages_of(bytes);
        let found = resident(&self.file, bytes)?.cached;
        if found == pages.end - pages.start || !crate::image::has_cachestat() {
            return Ok(found);
        }
        pages
            .map(|page| page * page_size())
            .map(|start| Ok(resident(&self.file, &(start..start + 1))?.cached))
            .sum()
    }

    /// Puts the file out of the cache.
    pub fn evict(&self) -> Result<()> {
        self.evict_range(0..0)?;
        // Pages on their way from the disk, and dirty ones, stay at the first attempt.
        for attempt in 0..200 {
            if self.residency()?.cached == 0 {
                return Ok(());
            }
            if attempt == 0 {
                self.file.sync_all().context("sync before evicting")?;
            } else {
                thread::sleep(Duration::from_millis(2));
            }
            self.evict_range(0..0)?;
        }
        let stay = self.residency()?.cached;
        Err(Problem::new(format!(
            "{stay} pages of {} cannot be evicted",
            self.path.display()
        )))
    }

    /// Evicts the pages that readahead inserted behind an offset. A folio across it may stay; pages on their way from the
    /// disk stay at the first attempt.
    fn evict_behind(&self, offset: u64) -> Result<()> {
        let mut stay = 0;
        for _ in 0..200 {
            self.evict_range(offset..self.bytes)?;
            let mut rest = offset;
            while rest < self.bytes && self.resident_in(&(rest..rest + 1))? > 0 {
                rest += page_size();
            }
            stay = self.resident_in(&(rest.min(self.bytes)..self.bytes))?;
            if stay == 0 {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Err(Problem::new(format!(
            "{stay} pages of {} cannot be evicted",
            self.path.display()
        )))
    }

    /// Asks for a range to be evicted; an empty range at 0 is the whole file.
    pub fn evict_range(&self, bytes: Range<u64>) -> Result<()> {
        let length = NonZeroU64::new(bytes.end - bytes.start);
        rustix::fs::fadvise(&self.file, bytes.start, length, Advice::DontNeed)
            .context("fadvise DONTNEED")
    }

    /// Brings the file into a state, from any other, and returns the pages that were read for that.
    pub fn prepare(&self, state: State, folios: Folios, random: &mut Random) -> Result<Touched> {
        for attempt in 0..12 {
            let mut touched = self.fill(state, folios, random)?;
            // Fewer, if some were evicted already: then those are not known.
            if self.residency()?.cached >= touched.count(&(0..self.pages())) {
                return Ok(touched);
            }
            // Proactive reclaim by address (DAMON) evicts new pages at the addresses of old ones, until it sees
            // accesses to them.
            thread::sleep(Duration::from_millis(20 * attempt));
        }
        Err(Problem::new("pages are evicted as soon as they are read"))
    }

    fn fill(&self, state: State, folios: Folios, random: &mut Random) -> Result<Touched> {
        self.evict()?;
        let mut touched = Touched::none(self);
        if state == State::Cold {
            return Ok(touched);
        }
        let file = File::open(&self.path).context("open to fill the cache")?;
        rustix::fs::fadvise(&file, 0, None, folios.advice()).context("fadvise")?;
        match folios {
            Folios::Large => {
                let end = if state == State::Half {
                    self.bytes / 2
                } else {
                    self.bytes
                };
                let mut block = vec![0; 1 << 20];
                let mut offset = 0;
                while offset < end {
                    let wanted = block.len().min((end - offset) as usize);
                    file.read_exact_at(&mut block[..wanted], offset)
                        .context("fill the cache")?;
                    offset += wanted as u64;
                }
                touched.add(&pages_of(&(0..end)));
                if state == State::Half {
                    self.evict_behind(end)?;
                }
            }
            Folios::Small => {
                for page in 0..self.pages() {
                    if state == State::Warm || random.below(2) == 0 {
                        let offset = page * page_size();
                        file.read_exact_at(&mut [0], offset)
                            .context("fill the cache")?;
                        touched.add(&(page..page + 1));
                    }
                }
            }
        }
        Ok(touched)
    }
}

fn identity(metadata: &Metadata) -> (u32, u32, u64) {
    let is_device = metadata.file_type().is_block_device();
    let (device, inode) = if is_device {
        (metadata.rdev(), 0)
    } else {
        (metadata.dev(), metadata.ino())
    };
    (rustix::fs::major(device), rustix::fs::minor(device), inode)
}

/// Pages of a file that were read since their insertion.
#[derive(Debug, Clone)]
pub struct Touched(Vec<bool>);

impl Touched {
    /// No page: the file is cold, or only advice inserted its pages.
    pub fn none(subject: &Subject) -> Self {
        Touched(vec![false; subject.pages() as usize])
    }

    /// All of them.
    pub fn all(subject: &Subject) -> Self {
        Touched(vec![true; subject.pages() as usize])
    }

    fn slots(&mut self, pages: &Range<u64>) -> &mut [bool] {
        &mut self.0[pages.start as usize..pages.end as usize]
    }

    fn add(&mut self, pages: &Range<u64>) {
        self.slots(pages).fill(true);
    }

    fn count(&mut self, pages: &Range<u64>) -> u64 {
        self.slots(pages).iter().filter(|touched| **touched).count() as u64
    }
}

/// Expected counts of reads.
#[derive(Debug, Default, Clone, Copy)]
pub struct Expected {
    /// Requests of at least one page.
    pub requests: u64,
    /// Requested pages.
    pub pages: u64,
    /// Requested bytes.
    pub bytes: u64,
    /// Pages that were resident.
    pub hits: u64,
    /// Pages that were not resident.
    pub misses: u64,
    /// Hits on pages that had not been read before.
    pub used: u64,
    /// Pages of requests that ended before they reached them.
    pub unserved: u64,
    /// Bytes of requests that did not move.
    pub unserved_bytes: u64,
    /// Requests that moved nothing.
    pub failed: u64,
    /// Touches of a mapping that were faults.
    pub faults: u64,
    /// Faults on pages that were not resident.
    pub fault_misses: u64,
}

/// Observer of a single reader, which records the expected counts of its requests.
#[derive(Debug)]
pub struct Oracle<'s> {
    subject: &'s Subject,
    touched: Touched,
    expected: Expected,
}

impl<'s> Oracle<'s> {
    /// For a file that was prepared.
    pub fn new(subject: &'s Subject, touched: Touched) -> Self {
        Oracle {
            subject,
            touched,
            expected: Expected::default(),
        }
    }

    /// The recorded expectation.
    pub fn expected(&self) -> Expected {
        self.expected
    }

    /// Records that a range is about to be requested by one call. Returns the number of its bytes that
    /// are before the end of the file and that one call can move.
    pub fn announce(&mut self, offset: u64, length: u64) -> Result<u64> {
        let bytes = offset..(offset + length.min(most_bytes())).min(self.subject.bytes);
        let pages = pages_of(&bytes);
        if pages.is_empty() {
            return Ok(0);
        }
        let hits = self.subject.resident_in(&bytes)?;
        let count = pages.end - pages.start;
        self.expected.requests += 1;
        self.expected.pages += count;
        self.expected.bytes += bytes.end - bytes.start;
        self.expected.hits += hits;
        self.expected.misses += count - hits;
        // Pages that were read before are still there, or the case is repeated for its evictions.
        self.expected.used += hits.saturating_sub(self.touched.count(&pages));
        self.touched.add(&pages);
        Ok(bytes.end - bytes.start)
    }

    /// One request, from beginning to end; gives what it read, which is everything that it can.
    pub fn request(
        &mut self,
        offset: u64,
        length: u64,
        call: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let wanted = self.announce(offset, length)?;
        let got = call()?;
        if got != wanted {
            return Err(Problem::new(format!(
                "a request of {length} bytes at {offset} gave {got}, not {wanted}"
            )));
        }
        Ok(got)
    }

    /// One request that may end before the end of its range: how far it got is what it returns.
    pub fn short(
        &mut self,
        offset: u64,
        length: u64,
        call: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let present = self.present(offset, length)?;
        let got = call()?;
        self.ended(offset, length, &present, got)
    }

    /// The same by a system call that may not wait: one that finds nothing, inserts nothing and fails leaves no event,
    /// and is none. Before Linux 6.12 it inserts nothing.
    pub fn short_or_none(
        &mut self,
        offset: u64,
        length: u64,
        call: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let present = self.present(offset, length)?;
        let got = call()?;
        let found = present.contains(&true) || self.present(offset, length)?.contains(&true);
        if got == 0 && !found {
            return Ok(0);
        }
        self.ended(offset, length, &present, got)
    }

    /// For each page of a range, whether it is in the cache.
    fn present(&self, offset: u64, length: u64) -> Result<Vec<bool>> {
        let bytes = offset..(offset + length).min(self.subject.bytes);
        pages_of(&bytes)
            .map(|page| page * page_size())
            .map(|start| Ok(self.subject.resident_in(&(start..start + 1))? > 0))
            .collect()
    }

    /// Books a request that found these pages and moved this many bytes.
    fn ended(&mut self, offset: u64, length: u64, present: &[bool], got: u64) -> Result<u64> {
        let bytes = offset..(offset + length).min(self.subject.bytes);
        let pages = pages_of(&bytes);
        let reached = pages_of(&(offset..offset + got));
        let count = (reached.end - reached.start) as usize;
        let hits = present[..count].iter().filter(|page| **page).count() as u64;
        let read_before: u64 = (reached.clone().zip(present))
            .filter(|(_, present)| **present)
            .map(|(page, _)| self.touched.count(&(page..page + 1)))
            .sum();
        let expected = &mut self.expected;
        expected.requests += 1;
        expected.pages += pages.end - pages.start;
        expected.bytes += bytes.end - bytes.start;
        expected.hits += hits;
        expected.misses += count as u64 - hits;
        expected.used += hits - read_before;
        expected.unserved += pages.end - pages.start - count as u64;
        expected.unserved_bytes += bytes.end - bytes.start - got;
        expected.failed += u64::from(got == 0);
        self.touched.add(&reached);
        Ok(got)
    }

    /// One touch of a page of a mapping.
    pub fn touch(&mut self, page: u64, touch: impl FnOnce()) -> Result<()> {
        let offset = page * page_size();
        let resident = self.subject.resident_in(&(offset..offset + 1))?;
        let before = faults();
        touch();
        let faults = faults() - before;
        self.expected.faults += faults;
        if faults > 0 && resident == 0 {
            self.expected.fault_misses += 1;
        }
        Ok(())
    }
}

/// The generation of a file's inode number, which tells it from deleted files that had the number.
pub fn generation(file: &impl AsRawFd) -> Result<u32> {
    let mut generation = 0_i32;
    // SAFETY: the kernel writes an int.
    let asked = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::FS_IOC_GETVERSION,
            &raw mut generation,
        )
    };
    if asked != 0 {
        return Err(std::io::Error::last_os_error()).context("FS_IOC_GETVERSION");
    }
    Ok(generation.cast_unsigned())
}
