//! [`Scanner`] and [`Scan`]: reading files by plan.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use cachewise_sys::thread_usage;
use cachewise_units::{ByteRange, Bytes};

use super::block::{Block, Buffers};
use super::fetch::{Fetch, OpenFile, fetches};
use super::snapshot::between;
use super::{
    After, DeclineReason, History, Keep, Mode, Plan, PlanOptions, PlanStep, Prediction, RangeClass,
    Survey, plan, survey,
};
use crate::Error;

/// Reads a set of files again and again, each time in the order that costs the least I/O.
///
/// It remembers what it read ([`History`]), so keep it from one scan to the next.
///
/// ```
/// use cachewise_residency::order::{Keep, Mode, Scanner};
///
/// # let dir = tempfile::tempdir()?;
/// # let paths = ["a", "b"].map(|name| dir.path().join(name));
/// # for path in &paths { std::fs::write(path, vec![1; 100_000])?; }
/// let mut scanner = Scanner::new(paths).mode(Mode::Free).keep(Keep::Keep);
/// for _ in 0..3 {
///     let mut scan = scanner.scan();
///     let mut sum = 0;
///     for block in &mut scan {
///         let block = block?;
///         // block.path(), block.offset(): where it is from.
///         sum += block.bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>();
///     }
///     assert_eq!(sum, 200_000, "every byte once");
///     let report = scan.finish();
///     assert_eq!(report.read.0, 200_000);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scanner {
    paths: Vec<PathBuf>,
    options: PlanOptions,
    chunk: Option<Bytes>,
    block: Bytes,
    headroom: Option<Box<dyn FnMut() -> Option<Bytes> + Send>>,
    history: History,
    buffers: Buffers,
}

/// Read at a time: what fits into a CPU's own cache, so that it is still there when it is worked on.
const BLOCK: Bytes = Bytes(256 << 10);

impl Scanner {
    /// Makes a scanner of regular files and block devices, given in the order in which they would be read.
    pub fn new<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            options: PlanOptions::default(),
            chunk: None,
            block: BLOCK,
            headroom: None,
            history: History::default(),
            buffers: Buffers::default(),
        }
    }

    /// Sets how free the order is; [`Mode::Free`] otherwise.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    /// Sets how free the order of the next scan is, keeping what has been learnt: each epoch its own seed.
    pub fn set_mode(&mut self, mode: Mode) {
        self.options.mode = mode;
    }

    /// Sets the treatment of the pages that the scan inserts; [`Keep::Share`] by default. With the
    /// others, files that another process has open, as far as the caller may see, stay in the
    /// cache.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.options.keep = keep;
        self
    }

    /// Reads a file with several names among the paths once for each name; otherwise once.
    #[must_use]
    pub fn each_link(mut self) -> Self {
        self.options.each_link = true;
        self
    }

    /// Sets the length of the planned ranges; by default [`survey`] chooses it.
    #[must_use]
    pub fn chunk(mut self, chunk: Bytes) -> Self {
        self.chunk = Some(chunk);
        self
    }

    /// Sets the largest length of a block; 256 KiB otherwise.
    #[must_use]
    pub fn block(mut self, block: Bytes) -> Self {
        self.block = Bytes(block.0.max(1));
        self
    }

    /// Sets a function that returns, before each scan, how many bytes can be read before the kernel
    /// evicts pages: for a control group, its limit less its usage. By default scans find it by
    /// trial, one chunk each.
    #[must_use]
    pub fn headroom(mut self, ask: impl FnMut() -> Option<Bytes> + Send + 'static) -> Self {
        self.headroom = Some(Box::new(ask));
        self
    }

    /// Looks at the files, plans, and returns the blocks to iterate over.
    pub fn scan(&mut self) -> Scan<'_> {
        let (survey, plan) = self.look_and_plan();
        let fetches = fetches(&plan, &survey.snapshot, &survey.read_ahead, &self.options);
        let report = ScanReport {
            prediction: plan.prediction,
            fell_back: plan.declined,
            ..ScanReport::default()
        };
        Scan {
            scanner: self,
            survey,
            plan,
            fetches,
            next: Cursor::default(),
            end: None,
            current: None,
            dropping: None,
            prefetched: None,
            gone: Vec::new(),
            read_in_advance: Bytes::ZERO,
            is_crowded: false,
            open: VecDeque::new(),
            lost: HashSet::new(),
            changed: HashSet::new(),
            report,
        }
    }

    fn look_and_plan(&mut self) -> (Survey, Plan) {
        let mut survey = survey(&self.paths, self.chunk);
        survey.snapshot.headroom = self.headroom.as_mut().and_then(|ask| ask());
        if self.options.keep != Keep::Share {
            survey.mark_open_elsewhere();
        }
        self.history.begin(&survey.snapshot);
        let plan = plan(&survey.snapshot, &self.history, &self.options);
        (survey, plan)
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("paths", &self.paths)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Result of a scan.
#[derive(Debug, Default)]
pub struct ScanReport {
    /// The expected hits and misses.
    pub prediction: Prediction,
    /// How much was handed out as blocks.
    pub read: Bytes,
    /// Bytes read from devices, excess readahead included. 0 on kernels without
    /// `CONFIG_TASK_IO_ACCOUNTING`, and for file systems that are on no block device of this
    /// machine.
    pub device_read: Bytes,
    /// Bytes of [`Prediction::planned_hits`] that came from the cache.
    pub hits: Bytes,
    /// The reason if it kept the order of the caller.
    pub fell_back: Option<DeclineReason>,
    /// Files that changed after the survey: they were read in their present state.
    pub changed: u64,
    /// Files that could not be opened, or had vanished when their turn came; each error has its
    /// path.
    pub skipped: Vec<Error>,
}

/// One reading of all files: an iterator of blocks.
///
/// A block that could not be read is returned as an error once; the rest of its file is skipped,
/// and the next files follow. A scan that is dropped early still drops the pages that it promised
/// to drop.
pub struct Scan<'s> {
    scanner: &'s mut Scanner,
    survey: Survey,
    plan: Plan,
    /// One entry for each piece of the plan.
    fetches: Vec<Fetch>,
    /// The step that comes next.
    next: Cursor,
    /// Where it ends early.
    end: Option<Cursor>,
    current: Option<Current>,
    /// The file and the range, from its start, that is being dropped behind.
    dropping: Option<(usize, ByteRange)>,
    /// The last step that was prefetched.
    prefetched: Option<Cursor>,
    /// Parts of the current step that were resident when it was planned, but not when its turn
    /// came.
    gone: Vec<ByteRange>,
    /// Bytes that devices had to read ahead for that, not yet charged to a block.
    read_in_advance: Bytes,
    /// Whether prefetched pages were evicted before they were read.
    is_crowded: bool,
    /// The file read last is the last one.
    open: VecDeque<OpenFile>,
    /// Files that cannot be read.
    lost: HashSet<usize>,
    changed: HashSet<usize>,
    report: ScanReport,
}

/// A step of a plan: the piece that it is in, and how far into that it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    piece: usize,
    offset: u64,
}

/// The step that is being read.
#[derive(Clone, Copy)]
struct Current {
    step: PlanStep,
    fetch: Fetch,
    offset: u64,
}

/// Files that are open at a time: with an order like that of [`Mode::Free`] one is left before the next one comes.
const MOST_OPEN: usize = 8;

/// How far back pages are dropped each time: those of a folio that reaches into what has not been read yet
/// are left by the kernel, until all of it lies behind.
const LOOK_BACK: u64 = 4 << 20;

impl Scan<'_> {
    /// Returns what is being carried out.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns what it was made from.
    #[must_use]
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Ends the scan, and compares it with the plan: the next one is planned by it. A scan that was not
    /// iterated to its end teaches nothing but what has been read.
    pub fn finish(mut self) -> ScanReport {
        let is_complete = self.step_at(self.next).is_none() && self.current.is_none();
        if is_complete {
            self.scanner.history.end(&self.plan, self.report.hits);
        }
        self.stop();
        self.report.changed = self.changed.len() as u64;
        self.report.skipped.append(&mut self.survey.skipped);
        std::mem::take(&mut self.report)
    }

    /// Reads and drops the prefetched ranges: the kernel drops no page that is still being read.
    fn stop(&mut self) {
        let last = self.current.map(|current| current.step);
        if self.scanner.options.keep != Keep::Share {
            let asked_for = self.prefetched.and_then(|cursor| self.after(cursor));
            self.end = Some(asked_for.map_or(self.next, |asked_for| self.next.max(asked_for)));
            let handed_out = self.report.read;
            while self.next().is_some() {}
            self.report.read = handed_out;
        }
        // Pages that readahead inserted beyond the step.
        if let Some(step) = last.filter(|step| step.after == After::Drop) {
            let end = step.range.end();
            let beyond = between(end, end + 2 * self.survey.read_ahead[step.file].0);
            let absent = self.survey.snapshot.files[step.file].absent_in(beyond);
            if let Some(file) = self.file(step.file) {
                absent.into_iter().for_each(|range| file.drop(range));
            }
        }
    }

    /// Begins with the next step, if its file can be read; `None` after the last.
    fn begin(&mut self) -> Option<()> {
        let cursor = self.next;
        let (mut step, mut fetch) = self.step_at(cursor)?;
        self.next = self.after(cursor)?;
        let seen = self.survey.inodes[step.file];
        let is_kept = self.scanner.options.keep != Keep::Share
            && self.plan.declined.is_none()
            && step.class == RangeClass::Hit;
        let Some(file) = self.file(step.file) else {
            return Some(());
        };
        file.compare(&seen);
        let is_as_seen = file.is_as_seen;
        let gone = match is_kept {
            true => file.gone(step.range),
            false => Vec::new(),
        };
        if !gone.is_empty() {
            // Pages that were evicted since are misses like the others. Kept, they would evict the
            // next ones, and those the ones after them. The rest of the step is still resident:
            // reclaim takes single pages of many chunks.
            fetch = Fetch::Exact;
            step.after = After::Drop;
        }
        self.gone = gone;
        if !is_as_seen {
            self.changed.insert(step.file);
        }
        self.prefetch(cursor, fetch);
        self.current = Some(Current {
            step,
            fetch,
            offset: step.range.start,
        });
        Some(())
    }

    /// Prefetches this step if it is read exactly, and the next one while this one is read.
    fn prefetch(&mut self, cursor: Cursor, fetch: Fetch) {
        self.read_in_advance = self.prefetch_one(cursor, fetch);
        // Without memory for two steps, each would be read twice, from here to the end: pages that
        // are read again evict those that were prefetched next, and these the ones after them. The
        // kernel keeps pages that were hit on its active list, and takes these first.
        if !self.is_crowded {
            let next = self.next;
            if let Some((_, fetch)) = self.step_at(next) {
                self.prefetch_one(next, fetch);
            }
        }
    }

    /// The step at a place; `None` after the last.
    fn step_at(&self, cursor: Cursor) -> Option<(PlanStep, Fetch)> {
        if self.end.is_some_and(|end| cursor >= end) {
            return None;
        }
        let piece = *self.plan.pieces.get(cursor.piece)?;
        let fetch = *self.fetches.get(cursor.piece)?;
        let start = piece.range.start.saturating_add(cursor.offset);
        let chunk = self.plan.chunk.0.max(1);
        let end = (start / chunk + 1)
            .saturating_mul(chunk)
            .min(piece.range.end());
        let range = between(start, end);
        Some((PlanStep { range, ..piece }, fetch))
    }

    /// The place behind a step; `None` of none.
    fn after(&self, cursor: Cursor) -> Option<Cursor> {
        let piece = self.plan.pieces.get(cursor.piece)?;
        let (step, _) = self.step_at(cursor)?;
        let next = match step.range.end() < piece.range.end() {
            true => Cursor {
                offset: step.range.end() - piece.range.start,
                ..cursor
            },
            false => Cursor {
                piece: cursor.piece + 1,
                offset: 0,
            },
        };
        Some(next)
    }

    /// Prefetches a step if it is read exactly, and returns the bytes that devices have to read for
    /// it.
    fn prefetch_one(&mut self, cursor: Cursor, fetch: Fetch) -> Bytes {
        if fetch != Fetch::Exact || self.prefetched >= Some(cursor) {
            return Bytes::ZERO;
        }
        let Some((step, _)) = self.step_at(cursor) else {
            return Bytes::ZERO;
        };
        self.prefetched = Some(cursor);
        let before = thread_usage().device_read;
        let read_ahead = self.survey.read_ahead[step.file];
        if let Some(file) = self.file(step.file) {
            file.prefetch(step.range, read_ahead);
        }
        let from_device = thread_usage().device_read.saturating_sub(before);
        self.report.device_read += from_device;
        from_device
    }

    /// The open file, as the last one of those that are open.
    fn file(&mut self, index: usize) -> Option<&mut OpenFile> {
        if self.lost.contains(&index) {
            return None;
        }
        let at = self.open.iter().position(|file| file.index == index);
        let file = match at.and_then(|at| self.open.remove(at)) {
            Some(file) => file,
            None => match OpenFile::open(&self.survey.paths[index], index) {
                Ok(file) => file,
                Err(error) => {
                    let error = error.with_path(&self.survey.paths[index]);
                    self.report.skipped.push(error);
                    self.lost.insert(index);
                    return None;
                }
            },
        };
        if self.open.len() == MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(file);
        self.open.back_mut()
    }

    /// Reads the next block of the step; `None` at its end.
    fn read(&mut self, current: Current) -> Option<Result<Block, Error>> {
        let Current {
            step,
            fetch,
            offset,
        } = current;
        let size = self.survey.snapshot.files[step.file].size.0;
        let left = step.range.end().saturating_sub(offset);
        // A step up to the end of a file also returns appended bytes; the buffer has room for only
        // some of them.
        let appended = match step.range.end() == size {
            true => BLOCK.0,
            false => 0,
        };
        let want = left.saturating_add(appended).min(self.scanner.block.0);
        if want == 0 {
            return None;
        }
        let mut buffer = self.scanner.buffers.take(want as usize);
        let before = thread_usage().device_read;
        let file = self.file(step.file)?;
        let result = match step.class {
            RangeClass::Hit => file.read(fetch, &mut buffer, offset),
            _ => file.read_but_for_holes(fetch, &mut buffer, offset),
        };
        let from_device = thread_usage().device_read.saturating_sub(before);
        self.report.device_read += from_device;
        let len = match result {
            Ok(len) => len,
            Err(error) => {
                self.lost.insert(step.file);
                return Some(Err(error.with_path(&self.survey.paths[step.file])));
            }
        };
        let path = Arc::clone(&self.survey.paths[step.file]);
        let block = Block::new(path, offset, len, buffer, &self.scanner.buffers);
        if len == 0 {
            return None;
        }
        let bytes = Bytes(len as u64);
        self.report.read += bytes;
        // All of it was prefetched. Background reclaim may have taken a single page; if most of a
        // block was evicted, memory is short.
        self.is_crowded |= fetch == Fetch::Exact && from_device.0 >= bytes.0.div_ceil(2);
        if step.class == RangeClass::Hit {
            let hit = bytes.saturating_sub(from_device);
            let read_before = hit.min(self.read_in_advance);
            self.read_in_advance = self.read_in_advance.saturating_sub(read_before);
            self.report.hits += hit.saturating_sub(read_before);
        }
        Some(Ok(block))
    }

    /// Finishes a step that has been read.
    fn end(&mut self, step: PlanStep) {
        let file = self.survey.snapshot.files[step.file].id;
        self.scanner.history.read(file, step.range.start);
        if step.after == After::Keep || self.changed.contains(&step.file) {
            self.dropping = None;
            return;
        }
        let dropped = match self.dropping {
            Some((file, before)) if file == step.file && before.end() == step.range.start => {
                between(before.start, step.range.end())
            }
            _ => step.range,
        };
        self.dropping = Some((step.file, dropped));
        let tail = between(
            dropped
                .start
                .max(step.range.end().saturating_sub(LOOK_BACK)),
            step.range.end(),
        );
        let ranges = match step.class {
            RangeClass::Hit => std::mem::take(&mut self.gone),
            _ => self.survey.snapshot.files[step.file].absent_in(tail),
        };
        if let Some(file) = self.file(step.file) {
            ranges.into_iter().for_each(|range| file.drop(range));
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Block, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(current) = self.current else {
                self.begin()?;
                continue;
            };
            match self.read(current) {
                Some(Ok(block)) => {
                    let offset = block.offset() + block.bytes().len() as u64;
                    self.current = Some(Current { offset, ..current });
                    return Some(Ok(block));
                }
                failed => {
                    self.current = None;
                    self.end(current.step);
                    if failed.is_some() {
                        return failed;
                    }
                }
            }
        }
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("next", &self.next)
            .field("pieces", &self.plan.pieces.len())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
