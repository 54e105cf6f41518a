//! Read requests far smaller than a page: the time goes into system calls.

use super::heaviest::heaviest;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::parts::FileRow;

pub(super) const ID: &str = "tiny_reads";

/// A page holds this many such reads: then most of each call is overhead.
const READS_A_PAGE: u64 = 8;
/// At a third of a microsecond per call, this is where the calls begin to show.
const WORTH_REQUESTS: u64 = 50_000;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    heaviest(
        interval
            .files
            .iter()
            .filter_map(|file| of_file(file, interval))
            .collect(),
    )
}

fn of_file(file: &FileRow, interval: &Interval) -> Option<(u64, Finding)> {
    let requests = file.ledger.get(Counter::ReadRequests);
    let number = requests
        .exact()
        .filter(|number| *number >= WORTH_REQUESTS)?;
    let average = file.ledger.average_read();
    if average.exact()? > interval.page().get() / READS_A_PAGE {
        return None;
    }
    let finding = Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from("reads are far smaller than a page: the time goes into system calls"),
        figures: vec![
            ("read_requests", requests.count()),
            ("read_average_bytes", average.bytes()),
            ("read_bytes", file.ledger.value(Counter::ReadRequestedBytes)),
        ],
        next_step: String::from(
            "read through a buffer of 64 KiB or more (BufReader, BufferedReader, setvbuf, dd \
             bs=64K), or map the file",
        ),
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    };
    Some((number, finding))
}

#[cfg(test)]
mod tests {
    use cachewise_units::PageSize;

    use super::*;
    use crate::findings::sample::with_file;

    fn run(requests: u64, bytes: u64) -> Interval {
        with_file(
            1 << 30,
            &[
                (Counter::ReadRequests, requests),
                (Counter::ReadRequestedBytes, bytes),
            ],
        )
    }

    #[test]
    fn million_one_byte_reads_are_reported() {
        let findings = check(&run(1_000_000, 1_000_000));
        assert_eq!(findings.len(), 1, "one byte at a time");
        assert!(
            findings[0].next_step.contains("64 KiB"),
            "a buffer is what helps"
        );
    }

    #[test]
    fn threshold_depends_on_the_page_size() {
        let mut interval = run(1_000_000, 1_000_000 << 10);
        assert_eq!(check(&interval), [], "a quarter of a 4 KiB page");
        crate::findings::sample::set_page_size(&mut interval, PageSize::new(64 << 10).unwrap());
        assert_eq!(check(&interval).len(), 1, "a sixty-fourth of a 64 KiB page");
    }

    #[test]
    fn page_sized_and_few_reads_are_ignored() {
        assert_eq!(
            check(&run(1_000_000, 1_000_000 << 12)),
            [],
            "a page at a time"
        );
        assert_eq!(
            check(&run(1_000, 1_000)),
            [],
            "a thousand calls take no time"
        );
        assert_eq!(check(&run(0, 0)), [], "no reads have no size");
    }
}
