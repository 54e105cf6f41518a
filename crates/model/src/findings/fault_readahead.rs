//! Readahead of page faults that inserts far more pages than the program touches.
//!
//! The kernel does not count the touched pages of a mapping, but it bounds them: one fault maps the
//! pages of 64 KiB at most. Pages inserted beyond that many for each fault were not touched. A file
//! that is mapped by whole huge pages has fewer faults than that; it is read in order, with few
//! misses, and is left out.

use cachewise_units::Bytes;

use super::heaviest::heaviest;
use super::readahead_wasted::WORTH;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::Measured;
use crate::parts::FileRow;
use crate::value::Value;

pub(super) const ID: &str = "fault_readahead";

/// One in this many inserted pages is proven to be untouched.
const PART: u64 = 4;
/// The kernel maps the pages around a fault that lie in a block of this size.
const MAPPED_AROUND: Bytes = Bytes(64 << 10);
/// A program that jumps misses at each place; one that reads in order misses once.
const WORTH_MISSES: u64 = 16;
/// Above the readahead of common devices: a miss with more behind it is the start of reads in order.
const MOST_FOR_A_MISS: Bytes = Bytes(16 << 20);

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    heaviest(
        interval
            .files
            .iter()
            .filter_map(|file| of_file(file, interval))
            .collect(),
    )
}

/// Whether most pages of a file came in by faults and were not touched.
pub(super) fn is_untouched(file: &FileRow, interval: &Interval) -> bool {
    let fetched = file.ledger.fetched_pages().known();
    of_file(file, interval).is_some_and(|(unused, _)| Some(unused.saturating_mul(2)) >= fetched)
}

fn of_file(file: &FileRow, interval: &Interval) -> Option<(u64, Finding)> {
    let page = interval.page();
    let ledger = &file.ledger;
    let faults = ledger.get(Counter::FaultRequests);
    let misses = ledger.get(Counter::FaultMissPages);
    let ahead = ledger.get(Counter::FaultReadaheadPages);
    let inserted = misses.plus(ahead);
    let (number, missed, pages) = (faults.exact()?, misses.exact()?, inserted.exact()?);
    let touched = number.saturating_mul(MAPPED_AROUND.pages_ceil(page).0);
    let unused = pages.saturating_sub(touched);
    let in_order = MOST_FOR_A_MISS.pages_ceil(page).0.saturating_mul(missed) < pages;
    if missed < WORTH_MISSES
        || in_order
        || unused < WORTH.pages_ceil(page).0
        || unused.saturating_mul(PART) < pages
    {
        return None;
    }
    let count = Measured::Exact(unused);
    let finding = Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from(
            "readahead by page faults inserts pages that the program does not touch",
        ),
        figures: vec![
            ("unused_pages", count.pages()),
            ("fault_requests", faults.count()),
            ("fault_miss_pages", misses.pages()),
            ("fault_readahead_pages", ahead.pages()),
            ("unused_ratio", Value::ratio(count.ratio_of(inserted))),
        ],
        next_step: String::from(
            "call madvise(MADV_RANDOM) on the mapping: a fault then reads the pages that it needs; or \
             lower the device's read_ahead_kb, which holds for all programs",
        ),
        trial: Some("madvise=random".to_owned()),
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    };
    Some((unused, finding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;

    fn run(faults: u64, misses: u64, ahead: u64) -> Interval {
        let counts = [
            (Counter::FaultRequests, faults),
            (Counter::FaultMissPages, misses),
            (Counter::FaultReadaheadPages, ahead),
        ];
        with_file(392 << 20, &counts)
    }

    #[test]
    fn random_touches_of_a_mapping_are_reported() {
        let found = check(&run(1_500, 1_200, 2_000_000));
        assert_eq!(found.len(), 1, "7.7 GiB for 1,500 touches");
        assert!(
            found[0].next_step.contains("MADV_RANDOM") && !found[0].next_step.contains("memory:"),
            "more memory would not help: {}",
            found[0].next_step
        );
        assert_eq!(
            found[0].figures[0].1,
            Measured::Exact(2_001_200 - 1_500 * 16).pages(),
            "the pages that no fault can have mapped"
        );
        assert_eq!(
            check(&run(1_500, 60, 100_000)).len(),
            1,
            "without a limit too"
        );
        assert_eq!(
            check(&run(3_000, 3_000, 93_000)).len(),
            1,
            "with the kernel's default readahead of 128 KiB"
        );
    }

    #[test]
    fn mappings_read_in_order_are_ignored() {
        assert_eq!(check(&run(6_250, 1, 100_000)), [], "16 pages a fault");
        assert_eq!(check(&run(400, 1, 100_000)), [], "mapped by huge pages");
        assert_eq!(
            check(&run(400, 20, 100_000)),
            [],
            "20 MiB in order at a time"
        );
        assert_eq!(check(&run(100_000, 90_000, 0)), [], "no readahead");
        assert_eq!(check(&run(100, 50, 2_000)), [], "8 MiB are not worth it");
        assert_eq!(check(&run(0, 0, 0)), [], "no faults");
    }
}
