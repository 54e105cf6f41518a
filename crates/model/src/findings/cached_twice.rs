//! Files whose resident pages a process also keeps in a cache of its own.
//!
//! The evidence is the data itself: `doctor` and `run -p` compare resident pages with the memory of the process.

use std::cmp::Reverse;
use std::collections::HashSet;

use cachewise_units::{Bytes, Pages};

use crate::copies::Copies;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::findings::heaviest::NAMED;
use crate::interval::Interval;
use crate::measured::Measured;
use crate::reason::Reason;
use crate::value::{Datum, Value};

pub(super) const ID: &str = "cached_twice";

/// Less is not worth a change of settings.
const WORTH: Bytes = Bytes(16 << 20);
/// Fewer compared pages say little about the others.
const LEAST_COMPARED: u64 = 32;
/// At least one in this many compared pages is in the memory of the process.
const PART: u64 = 2;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    // Without exact counts it is unknown whether the page cache is in use.
    if interval
        .ledger
        .get(Counter::ReadRequestedPages)
        .exact()
        .is_none()
    {
        return Vec::new();
    }
    let mut found: Vec<&Copies> = interval
        .copies
        .iter()
        .filter(|copies| is_twice(interval, copies))
        .collect();
    found.sort_by_key(|copies| Reverse(copies.pages()));
    // Processes that share a cache each have the copy.
    let mut seen = HashSet::new();
    found.retain(|copies| seen.insert(&copies.path));
    found.truncate(NAMED);
    found
        .into_iter()
        .map(|copies| finding(interval, copies))
        .collect()
}

fn is_twice(interval: &Interval, copies: &Copies) -> bool {
    let page = interval.page();
    let bytes = Pages(copies.pages()).bytes(page);
    copies.compared_pages >= LEAST_COMPARED
        && copies.copied_pages.saturating_mul(PART) >= copies.compared_pages
        && bytes >= WORTH
        && copies.own_memory_bytes >= bytes.0
        && requested(interval, copies).is_some_and(|pages| pages <= copies.resident_pages)
}

/// Pages of the file that all processes requested in the interval: more than are resident means that the page cache serves
/// them again and again.
fn requested(interval: &Interval, copies: &Copies) -> Option<u64> {
    let of_file = |file: &&crate::FileRow| file.path.as_ref().known() == Some(&copies.path);
    match interval.files.iter().find(of_file) {
        Some(file) => {
            let reads = file.ledger.get(Counter::ReadRequestedPages).exact()?;
            Some(reads.saturating_add(file.ledger.get(Counter::FaultRequests).exact()?))
        }
        None => Some(0),
    }
}

fn finding(interval: &Interval, copies: &Copies) -> Finding {
    let twice = Pages(copies.pages()).bytes(interval.page()).0;
    let count = |count| Value::Exact(Datum::Count(count));
    let command = crate::escaped(&copies.command);
    Finding {
        id: ID,
        severity: Severity::Info,
        title: format!(
            "{command} ({}) keeps the data of a file in its own memory, and the page cache has it too",
            copies.pid
        ),
        figures: vec![
            (
                "cached_twice_bytes",
                Measured::Estimated(twice, Reason::ByComparedPages).bytes(),
            ),
            ("compared_pages", count(copies.compared_pages)),
            ("copied_pages", count(copies.copied_pages)),
            (
                "resident_pages",
                Measured::Exact(copies.resident_pages).pages(),
            ),
            (
                "own_memory_bytes",
                Measured::Exact(copies.own_memory_bytes).bytes(),
            ),
        ],
        next_step: String::from(
            "keep the data in one cache: let the program read with O_DIRECT (innodb_flush_method=O_DIRECT, \
             use_direct_reads) or drop what it has read (POSIX_FADV_DONTNEED), or make its own cache smaller \
             (shared_buffers)",
        ),
        subject: Some(copies.path.clone()),
        kind: SubjectKind::File,
        pid: Some(copies.pid),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;

    const PAGES: u64 = 10_000;

    fn copied(pages: u64) -> Interval {
        let mut interval = sample::with_file(64 << 20, &[(Counter::ReadRequestedPages, PAGES)]);
        interval.copies = vec![sample::copies("/data", PAGES, pages)];
        interval
    }

    #[test]
    fn file_in_the_memory_of_a_process_is_reported_with_the_bytes_twice() {
        let found = check(&copied(256));
        assert_eq!(found.len(), 1, "one file");
        assert_eq!(found[0].subject.as_deref(), Some("/data".as_ref()));
        let twice = Measured::Estimated(PAGES << 12, Reason::ByComparedPages);
        assert_eq!(found[0].figures[0], ("cached_twice_bytes", twice.bytes()));
        let twice = Measured::Estimated(PAGES << 11, Reason::ByComparedPages);
        assert_eq!(
            check(&copied(128))[0].figures[0].1,
            twice.bytes(),
            "half of it"
        );
    }

    #[test]
    fn few_copies_are_ignored() {
        assert_eq!(check(&copied(127)), [], "less than half");
        let mut interval = copied(256);
        interval.copies[0].compared_pages = 31;
        interval.copies[0].copied_pages = 31;
        assert_eq!(check(&interval), [], "too few pages were compared");
        let mut interval = copied(256);
        interval.copies[0].resident_pages = 4_095;
        assert_eq!(check(&interval), [], "less than 16 MiB");
    }

    #[test]
    fn file_that_the_page_cache_serves_again_is_ignored() {
        let mut interval = copied(256);
        interval.files[0]
            .ledger
            .set(Counter::ReadRequestedPages, PAGES + 1);
        assert_eq!(check(&interval), [], "its pages are requested again");
        interval.files.clear();
        assert_eq!(check(&interval).len(), 1, "none was requested");
    }

    #[test]
    fn processes_with_a_common_cache_are_one_finding() {
        let mut interval = copied(256);
        let mut other = interval.copies[0].clone();
        (other.pid, other.copied_pages) = (10, 200);
        interval.copies.push(other);
        let found = check(&interval);
        assert_eq!(
            (found.len(), found[0].pid),
            (1, Some(9)),
            "the one with most"
        );
    }
}
