//! A storm of major faults on file mappings: a mapped file read page by page from the device.

use super::heaviest::heaviest;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::parts::FileRow;
use crate::value::Value;

pub(super) const ID: &str = "fault_storm";

/// Every program start causes some hundred faults on its libraries; this is more.
const WORTH_FAULTS: u64 = 5_000;
/// Each of them waited for the device.
const WORTH_MISSES: u64 = 1_000;
/// One fault in this many missed: with fewer, the page cache served the mapping well.
const MISS_PART: u64 = 20;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    heaviest(interval.files.iter().filter_map(of_file).collect())
}

fn of_file(file: &FileRow) -> Option<(u64, Finding)> {
    let faults = file.ledger.get(Counter::FaultRequests);
    let misses = file.ledger.get(Counter::FaultMissPages);
    let (number, missed) = (faults.exact()?, misses.exact()?);
    if number < WORTH_FAULTS || missed < WORTH_MISSES || missed * MISS_PART < number {
        return None;
    }
    let finding = Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from("a mapped file is fetched fault by fault"),
        figures: vec![
            ("fault_requests", faults.count()),
            ("fault_miss_pages", misses.pages()),
            ("fault_miss_ratio", Value::ratio(misses.ratio_of(faults))),
            (
                "fault_readahead_pages",
                file.ledger.value(Counter::FaultReadaheadPages),
            ),
        ],
        next_step: String::from(
            "madvise(MADV_SEQUENTIAL) if it is used in order, madvise(MADV_POPULATE_READ) to \
             prefetch it with one call, or read() into a buffer instead of mapping it",
        ),
        trial: Some("populate".to_owned()),
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    };
    Some((missed, finding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;

    fn run(faults: u64, misses: u64) -> Interval {
        let counts = [
            (Counter::FaultRequests, faults),
            (Counter::FaultMissPages, misses),
        ];
        with_file(1 << 30, &counts)
    }

    #[test]
    fn many_major_faults_are_reported() {
        let findings = check(&run(20_000, 10_000));
        assert_eq!(findings.len(), 1, "every other fault waited for the device");
        assert!(
            findings[0].next_step.contains("MADV_POPULATE_READ"),
            "the call is named"
        );
    }

    #[test]
    fn program_starts_and_warm_mappings_are_ignored() {
        assert_eq!(check(&run(900, 300)), [], "a cold start of a program");
        assert_eq!(check(&run(1_000_000, 2_000)), [], "two in a thousand");
        assert_eq!(check(&run(100_000, 0)), [], "a warm mapping");
    }
}
