//! The sums that the rows of racing tasks must have, from the calls' arguments and results alone.
//!
//! Which task inserts a page is a matter of time, so hits, misses and pages read ahead are compared only by what they
//! add up to. The bounds of a request that is not certain are stated where they are made:
//! - a file whose size changes while tasks read it: of such rows only what the counters add up to is compared;
//! - a read that ends short may be followed by a read that hides its result (docs/counting.md);
//! - requests of which the kernel reports nothing, or no result.

use std::collections::BTreeMap;
use std::ops::Range;

use cachewise_model::{Counter, Ledger};
use cachewise_units::PageSize;

use crate::bounds::{Bounds, Figures};
use crate::call::{Argument, Call};
use crate::image::FileSystem;
use crate::moment::is_refusal;
use crate::open::HUGE_BYTES;
use crate::oracle::{page_size, pages_of};
use crate::program::{Initial, Program};
use crate::request::{Request, requests};
use crate::verdict::Verdict;
use crate::worker::Log;

/// The counters of a process's row that are compared.
pub const SUMMED: &[Counter] = &[
    Counter::ReadRequests,
    Counter::ReadRequestedPages,
    Counter::ReadRequestedBytes,
    Counter::ReadUnservedPages,
    Counter::ReadUnservedBytes,
    Counter::ReadFailedRequests,
    Counter::FaultRequests,
    Counter::WriteRequests,
    Counter::WritePages,
    Counter::WriteBytes,
    Counter::WriteUnservedBytes,
    Counter::WriteFailedRequests,
    Counter::DirectReadRequests,
    Counter::DirectReadBytes,
    Counter::DirectReadFailedRequests,
    Counter::DirectWriteRequests,
    Counter::DirectWriteBytes,
    Counter::DirectWriteFailedRequests,
];

/// The figures of a process on a file.
#[derive(Debug, Default, Clone)]
pub struct Row {
    figures: Figures,
    /// Bytes that reads through the cache returned.
    read: Bounds,
    /// Bytes that writes returned, through the cache or not: a direct write goes through the cache where pages of its
    /// range cannot be evicted.
    written: Bounds,
    /// It met a documented gap: only what its counters add up to is compared.
    is_free: bool,
}

/// By how much more storage may have read than pages were inserted, of a program of which that is known: one that only
/// reads, where each page is a block or several. A direct read that reaches the end of a file reads its last block.
pub fn storage_slack(kind: FileSystem, program: &Program) -> Option<u64> {
    let block = match kind {
        FileSystem::Ext4 | FileSystem::Xfs => page_size(),
        FileSystem::XfsLargeBlocks => 4 * page_size(),
        _ => return None,
    };
    let direct = program.operations().filter(|one| one.is_direct()).count() as u64;
    // To write what is dirty, xfs reads where there is space.
    let is_clean = program
        .files
        .iter()
        .all(|made| made.initial != Initial::Written);
    let only_reads = is_clean && program.operations().all(|one| one.call.only_reads());
    only_reads.then_some(direct * block)
}

/// Whether docs/counting.md says that a row of a program can contradict itself, so that reports mark it: where a file
/// is cut or grows while it is read, where pages are evicted while a call without a number reads them, and where
/// direct I/O goes through the cache.
pub fn may_contradict(kind: FileSystem, program: &Program) -> bool {
    program.operations().any(|operation| {
        let call = operation.call;
        let has_number = !matches!(
            call,
            Call::Splice | Call::Sendfile | Call::SendSocket | Call::Copy | Call::AioRead
        );
        call.cuts() || !has_number || (operation.is_direct() && !kind.bypasses_cache())
    })
}

/// The bytes that a row says storage was made to read.
pub fn fetched(ledger: &Ledger) -> u64 {
    let fetched = ledger.fetched_bytes(PageSize::new(page_size() as u32));
    fetched.known().unwrap_or(u64::MAX)
}

/// The smallest and the largest size of a file while a program ran.
fn sizes(program: &Program, requests: &[Vec<Request<'_>>], file: usize) -> Range<u64> {
    let made = program.files[file].bytes;
    let (mut least, mut largest, mut appended) = (made, made, 0);
    for request in requests.iter().flatten() {
        let operation = request.operation;
        let place = operation.files().position(|one| one == file);
        let last = operation
            .files()
            .collect::<Vec<_>>()
            .iter()
            .rposition(|one| *one == file);
        let (Some(_), Some(last)) = (place, last) else {
            continue;
        };
        // A write that fails or ends short has made the file longer for a moment.
        let written = match request.outcome {
            outcome if is_refusal(outcome) || outcome == 0 => 0,
            _ => operation.length(),
        };
        match operation.call {
            Call::Truncate if request.outcome == 0 => {
                let size = operation.get(Argument::Size);
                (least, largest) = (least.min(size), largest.max(size));
            }
            Call::Append => appended += written,
            Call::Copy if last == 1 => {
                let offset = operation.all(Argument::Offset).nth(1).unwrap_or(0);
                largest = largest.max(offset + written);
            }
            call if call.writes() && written > 0 => {
                largest = largest.max(operation.get(Argument::Offset) + written);
            }
            _ => {}
        }
    }
    least..largest + appended
}

/// The rows by process and file.
pub fn expect(kind: FileSystem, program: &Program, logs: &[Log]) -> BTreeMap<(u64, usize), Row> {
    let tasks: Vec<Vec<Request>> = (program.tasks.iter().zip(logs))
        .map(|(task, log)| requests(&task.operations, log))
        .collect();
    let sizes: Vec<Range<u64>> = (0..program.files.len())
        .map(|file| sizes(program, &tasks, file))
        .collect();
    let mut rows: BTreeMap<(u64, usize), Row> = BTreeMap::new();
    for (task, requests) in program.tasks.iter().zip(&tasks) {
        for (at, request) in requests.iter().enumerate() {
            let next = requests[at + 1..]
                .iter()
                .find(|next| next.operation.call.is_read());
            let is_hidden = next.is_some_and(|next| {
                let file = next.operation.files().next().unwrap_or(0);
                next.hides(sizes[file].end)
            });
            for (place, file) in request.operation.files().enumerate() {
                let row = rows.entry((task.process, file)).or_default();
                row.note(kind, request, place == 1, &sizes[file], is_hidden);
            }
        }
    }
    rows
}

fn count(bytes: &Range<u64>) -> u64 {
    let pages = pages_of(bytes);
    pages.end - pages.start
}

impl Row {
    fn note(
        &mut self,
        kind: FileSystem,
        request: &Request,
        second: bool,
        sizes: &Range<u64>,
        is_hidden: bool,
    ) {
        let operation = request.operation;
        match operation.call {
            _ if operation.is_direct() && !kind.bypasses_cache() => self.is_free = true,
            Call::DirectRead => self.direct_read(request, sizes),
            Call::UringRead if operation.is_direct() => self.direct_read(request, sizes),
            Call::DirectWrite => self.direct_write(request),
            Call::UringWrite if operation.is_direct() => self.direct_write(request),
            Call::Copy if second => self.write(request),
            call if call.is_read() || call == Call::UringRead => {
                self.read(request, sizes, is_hidden);
            }
            Call::Touch | Call::Store => {
                let page = operation.get(Argument::Page);
                let is_there = page < sizes.start.div_ceil(page_size());
                let is_silent = operation.call == Call::Touch && sizes.end >= HUGE_BYTES;
                let failed = request.outcome < 0;
                let sure = u64::from(is_there && !is_silent && !failed);
                self.figures.between(
                    Counter::FaultRequests,
                    sure,
                    request.faults + u64::from(failed),
                );
            }
            call if call.writes() => self.write(request),
            _ => {}
        }
    }

    fn read(&mut self, request: &Request, sizes: &Range<u64>, is_hidden: bool) {
        let (call, got) = (request.operation.call, request.got());
        let offset = request.operation.get(Argument::Offset);
        let whole = |size: u64| offset..(offset + request.operation.length()).min(size).max(offset);
        let (least, most) = (whole(sizes.start), whole(sizes.end));
        let reached = offset..offset + got;
        if most.is_empty() || is_refusal(request.outcome) {
            return;
        }
        let is_fixed = least == most;
        // Where the file changes under the call, its batches name different ends, or the kernel is silent on a page that
        // is written at that moment: the request counts twice, or not at all (docs/counting.md).
        self.is_free |= !is_fixed;
        let is_full = is_fixed && reached == most;
        // In front of a page that is on its way the kernel can be silent, and at the end of a file that then grows there is
        // nothing to request.
        let is_silent = got == 0
            || least.is_empty()
            || (!is_full && matches!(call, Call::NoWait | Call::BadRead));
        // Of a call in chunks those that were begun are requested.
        let in_chunks = matches!(call, Call::SendSocket | Call::Sendfile | Call::Copy);
        let sure = if is_silent {
            offset..offset
        } else if is_fixed && (is_full || !in_chunks) {
            most.clone()
        } else {
            // Of a file that grows the end is that at the call.
            offset..reached.end.min(least.end).max(offset)
        };
        let (bytes, most_bytes) = (sure.end - sure.start, most.end - most.start);
        let figures = &mut self.figures;
        figures.between(Counter::ReadRequests, u64::from(!is_silent), 1);
        figures.between(Counter::ReadRequestedPages, count(&sure), count(&most));
        figures.between(Counter::ReadRequestedBytes, bytes, most_bytes);
        figures.between(Counter::ReadFailedRequests, 0, u64::from(got == 0));
        let (unserved, unserved_bytes) = (
            count(&most).saturating_sub(count(&reached)),
            most_bytes.saturating_sub(got),
        );
        // Results that the kernel does not report, or not always.
        let is_exact = is_fixed
            && !is_silent
            && !is_hidden
            && (is_full || !in_chunks)
            && !matches!(call, Call::AioRead | Call::UringRead);
        let low = |number: u64| if is_exact { number } else { 0 };
        figures.between(Counter::ReadUnservedPages, low(unserved), unserved);
        figures.between(
            Counter::ReadUnservedBytes,
            low(unserved_bytes),
            unserved_bytes,
        );
        let sure = if is_silent { 0 } else { got.min(bytes) };
        let is_moved = !is_silent && !is_hidden && call != Call::AioRead;
        let most = if is_moved { got } else { most_bytes };
        self.read = (self.read.0 + sure, self.read.1 + most);
    }

    fn write(&mut self, request: &Request) {
        let (call, got) = (request.operation.call, request.got());
        let length = request.operation.length();
        let offset = request.operation.get(Argument::Offset);
        if length == 0 {
            return;
        }
        let spliced = matches!(call, Call::SpliceIn | Call::Copy);
        let figures = &mut self.figures;
        let is_full = got == length;
        let (mut low, mut high) = (got, got);
        if spliced {
            figures.free(&[
                Counter::WriteRequests,
                Counter::WritePages,
                Counter::WriteUnservedBytes,
                Counter::WriteFailedRequests,
            ]);
            if call == Call::SpliceIn || !is_full {
                (low, high) = (0, length);
            }
        } else {
            let sure = u64::from(got > 0);
            figures.between(Counter::WriteRequests, sure, 1);
            figures.between(Counter::WriteFailedRequests, 0, 1 - sure);
            figures.between(
                Counter::WriteUnservedBytes,
                sure * (length - got),
                length - got,
            );
            let pages = count(&(offset..offset + got));
            let (least, most) = match call {
                // Where it began is not known.
                Call::Append => (got.div_ceil(page_size()), got.div_ceil(page_size()) + 1),
                Call::UringWrite | Call::AioWrite => (0, count(&(offset..offset + length))),
                _ => (pages, pages),
            };
            figures.between(Counter::WritePages, sure * least, most);
        }
        if call == Call::AioWrite && !is_full {
            high = length;
            figures.between(Counter::WriteRequests, 0, 1);
        }
        figures.between(Counter::WriteBytes, low, high);
        self.written = (self.written.0 + low, self.written.1 + high);
    }

    fn direct_read(&mut self, request: &Request, sizes: &Range<u64>) {
        let (operation, got) = (request.operation, request.got());
        if operation.length() == 0 || operation.get(Argument::Offset) >= sizes.end {
            return;
        }
        let sure = u64::from(got > 0);
        self.figures.add(Counter::DirectReadBytes, got);
        self.figures.between(Counter::DirectReadRequests, sure, 1);
        self.figures
            .between(Counter::DirectReadFailedRequests, 0, 1 - sure);
    }

    /// It may be done through the cache, as a whole or for the rest.
    fn direct_write(&mut self, request: &Request) {
        let (operation, got) = (request.operation, request.got());
        let length = operation.length();
        if length == 0 {
            return;
        }
        let offset = operation.get(Argument::Offset);
        let sure = u64::from(got > 0);
        let figures = &mut self.figures;
        figures.between(Counter::DirectWriteRequests, 0, 1);
        figures.between(Counter::DirectWriteBytes, 0, got);
        figures.between(Counter::DirectWriteFailedRequests, 0, 1 - sure);
        figures.between(Counter::WriteRequests, 0, 1);
        figures.between(Counter::WriteBytes, 0, got);
        figures.between(Counter::WritePages, 0, count(&(offset..offset + length)));
        figures.between(Counter::WriteUnservedBytes, 0, length);
        figures.between(Counter::WriteFailedRequests, 0, 1 - sure);
        // On xfs io_uring's that need no worker leave no event when they go through the cache.
        let low = if operation.call == Call::UringWrite {
            0
        } else {
            got
        };
        self.written = (self.written.0 + low, self.written.1 + got);
    }

    /// Compares with the row that the probe has.
    pub fn compare(&self, of: &str, ledger: &Ledger, verdict: &mut Verdict) {
        if self.is_free {
            return;
        }
        let found = self.figures.compare(of, ledger, SUMMED, &mut verdict.tally);
        verdict.differences.extend(found);
        let missed = ledger[Counter::FaultMissPages];
        verdict.find(
            of,
            Counter::FaultMissPages.id(),
            (0, ledger[Counter::FaultRequests]),
            missed,
        );
        let exact = |counters: [Counter; 2]| {
            Some((
                ledger.get(counters[0]).exact()?,
                ledger.get(counters[1]).exact()?,
            ))
        };
        // A row whose parts say that they are inexact has no exact sum.
        if let Some((requested, unserved)) =
            exact([Counter::ReadRequestedBytes, Counter::ReadUnservedBytes])
        {
            verdict.find(
                of,
                "bytes read",
                self.read,
                requested.saturating_sub(unserved),
            );
        }
        if let Some((buffered, direct)) = exact([Counter::WriteBytes, Counter::DirectWriteBytes]) {
            verdict.find(of, "bytes written", self.written, buffered + direct);
        }
    }
}
