//! Writes of parts of pages that are not resident: the kernel reads each page before it changes it.
//!
//! No event shows these reads. The kernel accounts them to the process that writes, and none of its requests explains
//! them.

use std::cmp::Reverse;

use cachewise_units::{Bytes, Pages};

use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::Measured;
use crate::parts::{FileRow, ProcessRow};
use crate::reason::Reason;
use crate::value::{Datum, Value};

pub(super) const ID: &str = "partial_writes";

/// Fewer bytes are read for the first and last page of a few files.
const WORTH: Bytes = Bytes(4 << 20);
/// At least one in this many bytes of the touched pages is not written: the pages are written in part.
const PART: u64 = 8;
/// At least one in this many inserted pages was read before it was written: the rest were new pages of the file, or holes.
const READ_PART: u64 = 2;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let page = interval.page();
    let mut files: Vec<(u64, &FileRow)> = interval
        .files
        .iter()
        .filter_map(|file| Some((inserted_in_part(interval, file)?, file)))
        .collect();
    let inserted: u64 = files.iter().map(|(pages, _)| pages).sum();
    let inserted = Pages(inserted).bytes(page).0;
    let unexplained = interval.processes.iter();
    let unexplained: u64 = unexplained
        .map(|row| unexplained_bytes(interval, row))
        .sum();
    let read = unexplained.min(inserted);
    if read < WORTH.0 || read.saturating_mul(READ_PART) < inserted {
        return Vec::new();
    }
    files.sort_by_key(|(pages, _)| Reverse(*pages));
    let Some(&(pages, file)) = files.first() else {
        return Vec::new();
    };
    let read = read.min(Pages(pages).bytes(page).0);
    let ledger = &file.ledger;
    let count = |counter| ledger.get(counter).count();
    let requests = ledger.get(Counter::WriteRequests);
    let average =
        ledger.get(Counter::WriteBytes).known().unwrap_or(0) / requests.known().unwrap_or(1).max(1);
    let mut figures = vec![
        (
            "read_before_write_bytes",
            Measured::Estimated(read, Reason::ByUnexplainedReads).bytes(),
        ),
        ("write_requests", count(Counter::WriteRequests)),
        ("write_average_bytes", Measured::Exact(average).bytes()),
        ("write_bytes", ledger.get(Counter::WriteBytes).bytes()),
    ];
    if files.len() > 1 {
        let further = files.len() as u64 - 1;
        figures.push(("further_files", Value::Exact(Datum::Count(further))));
    }
    vec![Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from(
            "writes of parts of pages: each page is read from the device before it is changed",
        ),
        figures,
        next_step: format!(
            "write whole pages: {page} or a multiple, at offsets that are multiples of it; collect smaller records in a \
             buffer or a log and write them together; or prefetch the file first, if it fits into memory: cachewise warm"
        ),
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        cost_bytes: Some(read),
        ..Finding::default()
    }]
}

/// The pages that writes inserted into this file, if they are worth it and the writes are of parts of pages.
fn inserted_in_part(interval: &Interval, file: &FileRow) -> Option<u64> {
    let page = interval.page();
    file.path.as_ref().known()?;
    let of = |counter| file.ledger.get(counter).exact();
    let inserted = of(Counter::WriteNewPages)?;
    let (touched, written) = (of(Counter::WritePages)?, of(Counter::WriteBytes)?);
    let touched = Pages(touched).bytes(page).0;
    let is_partial = written.saturating_mul(PART) <= touched.saturating_mul(PART - 1);
    (is_partial && Pages(inserted).bytes(page) >= WORTH).then_some(inserted)
}

/// Bytes that the device read for a process that writes, and for none of its requests.
fn unexplained_bytes(interval: &Interval, process: &ProcessRow) -> u64 {
    let ledger = &process.ledger;
    let page = interval.page();
    let metadata = ledger.get(Counter::MetadataPages);
    let explained = ledger
        .fetched_bytes(Some(page))
        .exact()
        .zip(metadata.exact());
    let is_writer = ledger.get(Counter::WriteNewPages).exact() > Some(0);
    match (process.device_read_bytes.exact(), explained) {
        (Some(read), Some((fetched, metadata))) if is_writer => {
            read.saturating_sub(fetched.saturating_add(Pages(metadata).bytes(page).0))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;

    const PAGES: u64 = 5_000;

    /// Writes of this size, each to a page of its own that was not resident.
    fn writer(size: u64, read_pages: u64) -> Interval {
        let counts = [
            (Counter::WriteRequests, PAGES),
            (Counter::WritePages, PAGES),
            (Counter::WriteBytes, PAGES * size),
            (Counter::WriteNewPages, PAGES),
        ];
        let mut interval = sample::with_file(64 << 20, &counts);
        let mut process = sample::process(7, &counts);
        process.device_read_bytes = Measured::Exact(read_pages << 12);
        interval.processes = vec![process];
        interval
    }

    #[test]
    fn partial_writes_to_cold_pages_are_reported_with_the_bytes_read() {
        let found = check(&writer(512, PAGES));
        assert_eq!(found.len(), 1, "one file");
        let read = Measured::Estimated(PAGES << 12, Reason::ByUnexplainedReads);
        assert_eq!(
            found[0].figures[0],
            ("read_before_write_bytes", read.bytes())
        );
        assert_eq!(found[0].cost_bytes, Some(PAGES << 12), "what it costs");
        assert!(
            found[0].next_step.contains("whole pages"),
            "{}",
            found[0].next_step
        );
    }

    #[test]
    fn whole_pages_and_appends_are_ignored() {
        assert_eq!(check(&writer(4096, PAGES)), [], "reads for something else");
        assert_eq!(check(&writer(512, 0)), [], "an append reads nothing");
        assert_eq!(check(&writer(512, PAGES / 3)), [], "most pages were new");
    }

    #[test]
    fn reads_that_requests_explain_are_ignored() {
        let mut interval = writer(512, PAGES);
        interval.processes[0]
            .ledger
            .set(Counter::ReadMissedPages, PAGES);
        assert_eq!(check(&interval), [], "its own reads missed");
        let mut interval = writer(512, PAGES);
        interval.processes[0]
            .ledger
            .set(Counter::MetadataPages, PAGES);
        assert_eq!(check(&interval), [], "directories and inodes");
        let mut interval = writer(512, PAGES);
        interval.processes[0].ledger.set(Counter::WriteNewPages, 0);
        assert_eq!(check(&interval), [], "another process writes");
    }
}
