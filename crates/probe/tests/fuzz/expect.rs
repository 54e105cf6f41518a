//! The figures that a file's counters must have: what each operation was seen to do, added up.
//!
//! The definitions are those of docs/counting.md. An operation is judged by its arguments, its result, and the
//! pages that were in the cache before it and after it; the probe has no say.

use std::ops::Range;

use cachewise_model::{Counter, Ledger};

use crate::bounds::{COMPARED, Difference, Figures, Tally};
use crate::call::{Argument, Call};
use crate::image::FileSystem;
use crate::invariants::{conserved, contradiction};
use crate::moment::Moment;
use crate::open::{Gap, Handling, OF_RESULTS, OF_WRITTEN, OPEN, met};
use crate::oracle::pages_of;

/// Pages that sendfile(2) and copy_file_range(2) move at once.
const CHUNK_PAGES: u64 = 16;

/// How often ext4 tries to find space for a write.
const ATTEMPTS: u64 = 4;

/// Pages of the folios in which a range begins and ends that the kernel reads for an operation and drops again.
pub const PASSING: u64 = 64;

/// Whether a page came in by readahead and was not read since.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// It did not, or was read.
    #[default]
    No,
    /// It did.
    Yes,
    /// It did, and may have been replaced since.
    Maybe,
}

/// The figures of a file.
#[derive(Debug, Default, Clone)]
pub struct Expected {
    /// Those that are compared.
    pub figures: Figures,
    /// Pages that are in the cache because of readahead, and that nothing has read.
    ahead: Vec<Ahead>,
    /// Bytes of writes that were direct or went through the cache.
    either_way: u64,
}

impl Expected {
    /// The state of a page.
    pub fn ahead(&mut self, page: u64) -> &mut Ahead {
        let page = page as usize;
        if self.ahead.len() <= page {
            self.ahead.resize(page + 1, Ahead::No);
        }
        &mut self.ahead[page]
    }

    fn came_ahead(&mut self, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            let ahead = self.ahead(page);
            if *ahead == Ahead::No {
                *ahead = Ahead::Yes;
            }
        }
    }

    /// An operation on the file, named as the first of its files or as the second; gives the documented gaps that
    /// it meets.
    pub fn note(&mut self, moment: &Moment, second: bool) -> Vec<usize> {
        let operation = moment.operation;
        let offset = operation
            .all(Argument::Offset)
            .nth(usize::from(second))
            .unwrap_or(0);
        let length = operation.length();
        let new = moment.new_pages();
        // Truncated, evicted by advice, invalidated.
        let gone: Vec<u64> = moment.before.new_since(moment.after).collect();
        if !(moment.inside && second) {
            self.figures
                .add(Counter::EvictedOtherPages, gone.len() as u64);
        }
        match operation.call {
            Call::Copy if second => self.spliced_in(moment, offset, length),
            Call::SpliceIn => self.spliced_in(moment, offset, length),
            Call::Read
            | Call::Pread
            | Call::Preadv
            | Call::NoWait
            | Call::DontCache
            | Call::BadRead
            | Call::Sendfile
            | Call::SendSocket
            | Call::Splice
            | Call::AioRead
            | Call::Copy => self.read(moment, offset, length),
            Call::Append => self.write(moment, moment.before.size, length),
            Call::Write
            | Call::Pwrite
            | Call::Pwritev
            | Call::BadWrite
            | Call::LimitedWrite
            | Call::AioWrite => self.write(moment, offset, length),
            Call::UringRead if !operation.is_direct() => self.read(moment, offset, length),
            Call::UringWrite if !operation.is_direct() => self.write(moment, offset, length),
            Call::DirectRead | Call::UringRead => self.direct_read(moment, offset, length),
            Call::DirectWrite | Call::UringWrite => self.direct_write(moment, length),
            Call::Touch | Call::Store => {
                let missed = moment
                    .faults
                    .min(new)
                    .min(u64::from(!moment.before.has(operation.get(Argument::Page))));
                if moment.outcome < 0 {
                    // The kernel does not count the fault of the access that failed; it does the one of the memory that
                    // took its place.
                    let one = new.min(1);
                    self.figures
                        .between(Counter::FaultRequests, 0, moment.faults + 1);
                    self.figures.between(Counter::FaultMissPages, 0, one);
                    self.figures
                        .between(Counter::FaultReadaheadPages, new - one, new);
                } else {
                    self.figures.add(Counter::FaultRequests, moment.faults);
                    self.figures.add(Counter::FaultMissPages, missed);
                    self.figures.add(Counter::FaultReadaheadPages, new - missed);
                }
            }
            Call::Madvise | Call::WillNeed | Call::Readahead => {
                self.figures.add(Counter::PrefetchPages, new);
                self.came_ahead(moment.after.new_since(moment.before));
            }
            // The page that is cut, whose rest is zeroed.
            Call::Truncate | Call::Punch | Call::Allocate => self.passing(new, PASSING),
            _ => {}
        }
        for page in gone {
            *self.ahead(page) = Ahead::No;
        }
        self.gaps(moment)
    }

    /// Pages that an operation other than a read may have inserted: those of `new`, and up to `most` more that are gone
    /// again.
    pub fn passing(&mut self, new: u64, most: u64) {
        self.figures.between(Counter::WriteNewPages, 0, new + most);
        self.figures.between(Counter::EvictedOtherPages, 0, most);
        for ahead in self.ahead.iter_mut().filter(|ahead| **ahead == Ahead::Yes) {
            *ahead = Ahead::Maybe;
        }
    }

    /// Frees the figures of the documented gaps that an operation meets; gives them.
    pub fn gaps(&mut self, moment: &Moment) -> Vec<usize> {
        let met: Vec<usize> = met(moment).collect();
        for gap in &met {
            let Gap {
                figures, handling, ..
            } = OPEN[*gap];
            match handling {
                Handling::Marked => self.figures.allow_marks(figures),
                Handling::NotCompared | Handling::HidesResults => self.figures.free(figures),
            }
        }
        met
    }

    /// A read through the cache.
    pub fn read(&mut self, moment: &Moment, offset: u64, length: u64) {
        let bytes = offset..(offset.saturating_add(length)).min(moment.before.size);
        let pages = pages_of(&bytes);
        if bytes.is_empty() || moment.is_refused() {
            return;
        }
        let new: Vec<u64> = moment.after.new_since(moment.before).collect();
        let got = u64::try_from(moment.outcome).unwrap_or(0);
        let reached = pages_of(&(offset..offset + got));
        let would_wait = moment.outcome == -i64::from(libc::EAGAIN);
        if got == 0 && new.is_empty() && (would_wait || !moment.before.has(pages.start)) {
            return; // it left no event, and is none
        }
        let requested = pages.end - pages.start;
        let unserved = requested - (reached.end - reached.start);
        let size = bytes.end - bytes.start;
        self.figures.add(Counter::ReadRequests, 1);
        if matches!(moment.operation.call, Call::SendSocket | Call::Copy) && got < size {
            // The chunks that were begun are requested.
            self.figures
                .between(Counter::ReadRequestedPages, requested - unserved, requested);
            self.figures
                .between(Counter::ReadUnservedPages, 0, unserved);
            self.figures.between(Counter::ReadRequestedBytes, got, size);
            self.figures
                .between(Counter::ReadUnservedBytes, 0, size - got);
            // Its last chunk was read as far as the pipe, and no further.
            for page in reached.end..pages.end.min(reached.end + CHUNK_PAGES) {
                let ahead = self.ahead(page);
                if *ahead == Ahead::Yes || !moment.before.has(page) {
                    *ahead = Ahead::Maybe;
                }
            }
        } else {
            self.figures.add(Counter::ReadRequestedPages, requested);
            self.figures.add(Counter::ReadUnservedPages, unserved);
            self.figures.add(Counter::ReadRequestedBytes, size);
            self.figures.add(Counter::ReadUnservedBytes, size - got);
        }
        self.figures
            .add(Counter::ReadFailedRequests, u64::from(got == 0));
        let hits: Vec<u64> = reached
            .clone()
            .filter(|page| moment.before.has(*page))
            .collect();
        self.figures.add(Counter::ReadHitPages, hits.len() as u64);
        self.figures.add(
            Counter::ReadMissedPages,
            reached.end - reached.start - hits.len() as u64,
        );
        for page in reached.clone() {
            let ahead = std::mem::take(self.ahead(page));
            if moment.before.has(page) {
                let (sure, most) = (ahead == Ahead::Yes, ahead != Ahead::No);
                self.figures
                    .between(Counter::ReadaheadHitPages, sure.into(), most.into());
            }
        }
        let ahead: Vec<u64> = (new.into_iter())
            .filter(|page| !reached.contains(page))
            .collect();
        if moment.inside {
            // Some of them the copy may have written.
            self.figures
                .between(Counter::ReadaheadPages, 0, ahead.len() as u64);
            self.figures.free(&[Counter::ReadaheadHitPages]);
        } else {
            self.figures
                .add(Counter::ReadaheadPages, ahead.len() as u64);
            self.came_ahead(ahead);
        }
        if moment.operation.call == Call::DontCache {
            // Pages that it inserted are gone again, those around it too.
            let here = |page: &u64| moment.after.has(*page);
            let dropped = reached.filter(|page| !moment.before.has(*page) && !here(page));
            self.figures
                .between(Counter::EvictedOtherPages, dropped.count() as u64, u64::MAX);
            self.figures.free(&[Counter::ReadaheadPages]);
        }
    }

    /// A write through the cache.
    pub fn write(&mut self, moment: &Moment, offset: u64, length: u64) {
        let got = u64::try_from(moment.outcome).unwrap_or(0);
        if length == 0 {
            return;
        }
        let new = moment.new_pages();
        let pages = |range: Range<u64>| {
            let pages = pages_of(&range);
            pages.end - pages.start
        };
        if got == 0 {
            // It may have been refused before it reached the file.
            self.figures.between(Counter::WriteRequests, 0, 1);
            self.figures.between(Counter::WriteFailedRequests, 0, 1);
            self.figures.between(Counter::WriteUnservedBytes, 0, length);
        } else {
            self.figures.add(Counter::WriteRequests, 1);
            self.figures.add(Counter::WriteBytes, got);
            self.figures
                .add(Counter::WritePages, pages(offset..offset + got));
            self.figures.add(Counter::WriteUnservedBytes, length - got);
        }
        if moment.inside {
            self.figures.between(Counter::WriteNewPages, 0, new);
        } else if got == length && moment.kind != FileSystem::Ext4Tiny {
            self.figures.add(Counter::WriteNewPages, new);
        } else {
            // Pages that it inserted behind its end can be gone again; so can those of a first attempt that found no
            // space.
            self.passing(new, ATTEMPTS * (pages(offset..offset + length) + PASSING));
        }
    }

    /// Writes by splice(2) from a pipe and copy_file_range(2), whose pieces are writes of their own.
    fn spliced_in(&mut self, moment: &Moment, offset: u64, length: u64) {
        self.write(moment, offset, length);
        self.figures.free(&[
            Counter::WriteRequests,
            Counter::WritePages,
            Counter::WriteUnservedBytes,
            Counter::WriteFailedRequests,
        ]);
    }

    /// A read with O_DIRECT.
    pub fn direct_read(&mut self, moment: &Moment, offset: u64, length: u64) {
        let got = u64::try_from(moment.outcome).unwrap_or(0);
        // A write in flight beside it can make the file longer first.
        if length == 0 || offset >= moment.before.size.max(moment.after.size) {
            return;
        }
        self.figures.add(Counter::DirectReadBytes, got);
        if got > 0 {
            self.figures.add(Counter::DirectReadRequests, 1);
        } else {
            self.figures.between(Counter::DirectReadRequests, 0, 1);
            self.figures
                .between(Counter::DirectReadFailedRequests, 0, 1);
        }
    }

    /// A write with O_DIRECT.
    pub fn direct_write(&mut self, moment: &Moment, length: u64) {
        let got = u64::try_from(moment.outcome).unwrap_or(0);
        if length == 0 {
            return;
        }
        let offset = moment.operation.get(Argument::Offset);
        let pages = pages_of(&(offset..offset + length));
        if got > 0 && pages.clone().any(|page| moment.before.has(page)) {
            // Where the kernel cannot evict a page of the range, the file system goes on through the cache.
            for (counter, most) in [
                (Counter::DirectWriteRequests, 1),
                (Counter::DirectWriteBytes, got),
                (Counter::WriteRequests, 1),
                (Counter::WriteBytes, got),
                (Counter::WritePages, pages.end - pages.start),
            ] {
                self.figures.between(counter, 0, most);
            }
            self.either_way += got;
            self.passing(moment.new_pages(), pages.end - pages.start);
            return;
        }
        self.figures.add(Counter::DirectWriteBytes, got);
        if got > 0 && offset > moment.before.size {
            self.figures.add(Counter::DirectWriteRequests, 1);
            // The rest of the last block is zeroed through the cache.
            self.passing(moment.new_pages(), PASSING);
        } else if got > 0 {
            self.figures.add(Counter::DirectWriteRequests, 1);
            self.figures.add(Counter::WriteNewPages, moment.new_pages());
        } else {
            self.passing(moment.new_pages(), PASSING);
            self.figures.between(Counter::DirectWriteRequests, 0, 1);
            self.figures
                .between(Counter::DirectWriteFailedRequests, 0, 1);
        }
    }

    /// Frees the figures of a read whose result a later one hides.
    pub fn hide_results(&mut self) {
        self.figures.free(OF_RESULTS);
    }

    /// The same of a write.
    pub fn hide_written(&mut self) {
        self.figures.free(OF_WRITTEN);
    }

    /// The wrong figures among a file's counters. `came`: its residency at the end less that at the beginning.
    pub fn compare(
        &self,
        of: &str,
        ledger: &Ledger,
        came: i64,
        tally: &mut Tally,
    ) -> Vec<Difference> {
        let mut differences = self.figures.compare(of, ledger, &COMPARED, tally);
        differences.extend(self.compare_written(of, ledger));
        differences.extend(conserved(of, ledger, came));
        // A row whose requests are marked is no contradiction: its sides are not those of the same requests.
        if ledger.get(Counter::ReadRequestedPages).exact().is_some() {
            differences.extend(contradiction(of, ledger));
        }
        differences
    }

    /// Whether the bytes written, direct or through the cache, are not those that the calls returned.
    fn compare_written(&self, of: &str, ledger: &Ledger) -> Option<Difference> {
        let written = [Counter::WriteBytes, Counter::DirectWriteBytes];
        let bounds = self.figures.sum_of(&written)?;
        let exact = |counter: Counter| ledger.get(counter).exact();
        let counted = exact(written[0])? + exact(written[1])?;
        let expected = (bounds.0 + self.either_way, bounds.1 - self.either_way);
        Difference::find(of, "bytes written", expected, counted)
    }
}
