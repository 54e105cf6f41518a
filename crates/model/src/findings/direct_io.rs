//! Direct I/O: every byte comes from the device, every time; and requests that the kernel refuses or that are too small.

use cachewise_units::Bytes;

use super::heaviest::heaviest;
use super::unaligned;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::Measured;
use crate::parts::FileRow;
use crate::value::Value;

pub(super) const ID: &str = "direct_io";

/// Below this a device answers within a few milliseconds: no gain.
const WORTH_BYTES: u64 = 1 << 20;

const TITLE: &str = "reads bypass the page cache (O_DIRECT)";

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let files = interval.files.iter();
    let requests: Vec<(u64, Finding)> = files
        .filter_map(|file| unaligned::of_file(file, interval))
        .map(|(number, finding)| (number, Finding { id: ID, ..finding }))
        .collect();
    let requests = heaviest(requests);
    let has_one = |file: &&FileRow| {
        let path = file.path.as_ref().known();
        path.is_some() && requests.iter().any(|one| one.subject.as_ref() == path)
    };
    let files = interval.files.iter().filter(|file| !has_one(file));
    let bytes: Vec<(u64, Finding)> = files.filter_map(of_file).collect();
    if requests.is_empty() && bytes.is_empty() {
        return of_totals(interval).into_iter().collect();
    }
    let bytes = heaviest(bytes);
    requests.into_iter().chain(bytes).collect()
}

fn of_file(file: &FileRow) -> Option<(u64, Finding)> {
    let read = file.ledger.get(Counter::DirectReadBytes);
    let bytes = read.exact().filter(|bytes| *bytes >= WORTH_BYTES)?;
    // More than the file's size was read, so at least the difference was read a second time.
    let repeated = read.minus(file.size_bytes);
    let again = repeated
        .exact()
        .filter(|again| *again > 0 && file.size_bytes.exact() > Some(0));
    let next_step = match again {
        Some(again) => format!(
            "open it without O_DIRECT: at least {} were read from the device a second time although \
             the page cache could have served them; keep O_DIRECT only if the program has a cache of its own, and then \
             make that cache larger",
            Bytes(again)
        ),
        None => String::from(
            "open it without O_DIRECT if it is read more than once, so that the next read comes \
             from memory; keep O_DIRECT if the program has a cache of its own or reads it only once",
        ),
    };
    let mut figures = vec![
        ("direct_read_bytes", read.bytes()),
        (
            "direct_read_requests",
            file.ledger.value(Counter::DirectReadRequests),
        ),
        ("file_size_bytes", file.size_bytes.bytes()),
    ];
    if let Some(again) = again {
        figures.push(("read_again_bytes", Measured::Exact(again).bytes()));
    }
    let severity = if again.is_some() {
        Severity::Warn
    } else {
        Severity::Info
    };
    let subject = file.path.clone().known();
    let title = TITLE.to_owned();
    Some((
        bytes,
        Finding {
            id: ID,
            severity,
            title,
            figures,
            next_step,
            trial: again.map(|_| "no-direct".to_owned()),
            subject,
            kind: SubjectKind::File,
            ..Finding::default()
        },
    ))
}

/// Direct reads that are known, but not their file.
fn of_totals(interval: &Interval) -> Option<Finding> {
    let read = interval.ledger.get(Counter::DirectReadBytes);
    read.exact().filter(|bytes| *bytes >= WORTH_BYTES)?;
    let requests: Value = interval.ledger.value(Counter::DirectReadRequests);
    Some(Finding {
        id: ID,
        severity: Severity::Info,
        title: TITLE.to_owned(),
        figures: vec![
            ("direct_read_bytes", read.bytes()),
            ("direct_read_requests", requests),
        ],
        next_step: String::from(
            "find the program's option for direct I/O and turn it off if what it reads is read \
             more than once and it has no cache of its own",
        ),
        trial: Some("no-direct".to_owned()),
        subject: None,
        kind: SubjectKind::File,
        ..Finding::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;
    use crate::reason::Reason;

    fn direct(size: u64, read: u64) -> Interval {
        let mut interval = sample::run();
        let mut file = sample::file("/data", size);
        file.ledger.set(Counter::DirectReadBytes, read);
        file.ledger.set(Counter::DirectReadRequests, read >> 20);
        interval.ledger = file.ledger.clone();
        interval.files.push(file);
        interval
    }

    #[test]
    fn single_direct_pass_is_reported() {
        let findings = check(&direct(512 << 20, 512 << 20));
        assert_eq!(findings.len(), 1, "one file, one finding");
        assert_eq!(
            findings[0].severity,
            Severity::Info,
            "a single pass may be right"
        );
        assert!(findings[0].title.contains("O_DIRECT"), "O_DIRECT is named");
        assert_eq!(
            findings[0].subject.as_deref(),
            Some("/data".as_ref()),
            "the file is named"
        );
    }

    #[test]
    fn repeated_direct_reads_are_a_warning_with_their_cost() {
        let findings = check(&direct(32 << 20, 320 << 20));
        assert_eq!(
            findings[0].severity,
            Severity::Warn,
            "nine tenths were wasted"
        );
        assert!(
            findings[0].next_step.contains("288.0 MiB"),
            "320 MiB of a 32 MiB file"
        );
        assert!(
            findings[0]
                .figures
                .contains(&("read_again_bytes", Measured::Exact(288 << 20).bytes())),
            "the figure is given"
        );
    }

    #[test]
    fn unknown_size_makes_no_claim_about_repetition() {
        for size in [Measured::unknown(Reason::FileGone), Measured::Exact(0)] {
            let mut interval = direct(32 << 20, 320 << 20);
            interval.files[0].size_bytes = size;
            let findings = check(&interval);
            assert_eq!(
                findings[0].severity,
                Severity::Info,
                "{size:?}: it may be a single pass"
            );
            assert!(
                !findings[0].next_step.contains("again that"),
                "{size:?}: nothing is promised"
            );
        }
    }

    #[test]
    fn direct_reads_without_file_are_reported_from_totals() {
        let mut interval = direct(1, 64 << 20);
        interval.files.clear();
        assert_eq!(check(&interval).len(), 1, "the totals know of them");
    }

    #[test]
    fn little_direct_io_is_ignored() {
        assert_eq!(
            check(&direct(4096, 4096)),
            [],
            "a page is not worth a finding"
        );
        assert_eq!(
            check(&direct(512 << 20, 0)),
            [],
            "cached reads are none of its business"
        );
    }
}
