//! Direct I/O that the kernel refuses, or that is smaller than a page: a part of the rule `direct_io`.
//!
//! The counts have no offsets: requests of a page or more that begin between two blocks are not found unless the kernel
//! refuses them.

use std::time::Duration;

use cachewise_units::Bytes;

use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::FileRow;

/// Programs try a few requests to find out the alignment.
const LEAST_FAILED: u64 = 16;
/// One failed request in this many.
const FAILED_PART: u64 = 10;
/// At a tenth of a millisecond per request, this is where small requests begin to show.
const LEAST_SMALL: u64 = 1_000;

/// Small requests are a warning if tasks waited as long, and for this part of the interval; as for other waits.
const LEAST_WAITED: Duration = Duration::from_millis(100);
const WAITED_PART: u32 = 10;

const REFUSED: &str = "direct I/O requests fail, as unaligned ones do (EINVAL)";
const SMALL: &str = "direct I/O in requests smaller than a page: each waits for the device, which moves whole blocks";

/// The finding about a file, without the rule's name; with the number of requests.
pub(super) fn of_file(file: &FileRow, interval: &Interval) -> Option<(u64, Finding)> {
    refused(file).or_else(|| small(file, interval))
}

fn refused(file: &FileRow) -> Option<(u64, Finding)> {
    let count = |counter| file.ledger.get(counter);
    let failed =
        count(Counter::DirectReadFailedRequests).plus(count(Counter::DirectWriteFailedRequests));
    let requests = count(Counter::DirectReadRequests).plus(count(Counter::DirectWriteRequests));
    let number = failed.exact().filter(|number| *number >= LEAST_FAILED)?;
    if number.saturating_mul(FAILED_PART) < requests.exact()? {
        return None;
    }
    let figures = vec![
        (
            "direct_read_failed_requests",
            count(Counter::DirectReadFailedRequests).count(),
        ),
        (
            "direct_write_failed_requests",
            count(Counter::DirectWriteFailedRequests).count(),
        ),
        ("direct_requests", requests.count()),
    ];
    let finding = Finding {
        title: REFUSED.to_owned(),
        figures,
        next_step: String::from(
            "align the offset, the length and the buffer of each request to the block size of the file \
             (statx with STATX_DIOALIGN, /sys/block/DEVICE/queue/logical_block_size; 4096 always fits), or open it \
             without O_DIRECT",
        ),
        verify: String::from("run it again: direct failed requests fall"),
        ..about(file)
    };
    Some((number, finding))
}

fn small(file: &FileRow, interval: &Interval) -> Option<(u64, Finding)> {
    use Counter::{
        DirectReadBytes, DirectReadFailedRequests, DirectReadRequests, DirectWriteBytes,
        DirectWriteFailedRequests, DirectWriteRequests,
    };
    let reads = (
        DirectReadRequests,
        DirectReadFailedRequests,
        DirectReadBytes,
    );
    let writes = (
        DirectWriteRequests,
        DirectWriteFailedRequests,
        DirectWriteBytes,
    );
    let names = [
        [
            "direct_read_requests",
            "direct_read_average_bytes",
            "direct_read_bytes",
        ],
        [
            "direct_write_requests",
            "direct_write_average_bytes",
            "direct_write_bytes",
        ],
    ];
    let mut figures = Vec::new();
    let mut number = 0;
    for ((requests, failed, bytes), [of_requests, of_average, of_bytes]) in
        [reads, writes].into_iter().zip(names)
    {
        let served = file.ledger.get(requests).minus(file.ledger.get(failed));
        let moved = file.ledger.get(bytes);
        let Some(average) = average(served, moved).filter(|bytes| bytes.0 < interval.page().get())
        else {
            continue;
        };
        number += served.exact().unwrap_or(0);
        figures.extend([
            (of_requests, served.count()),
            (of_average, Measured::Exact(average.0).bytes()),
            (of_bytes, moved.bytes()),
        ]);
    }
    let waited = file.ledger.time(&[Counter::WaitedDirect]).known();
    let worth = LEAST_WAITED.max(interval.elapsed / WAITED_PART);
    let finding = Finding {
        severity: match waited.is_some_and(|waited| waited >= worth) {
            true => Severity::Warn,
            false => Severity::Info,
        },
        title: SMALL.to_owned(),
        figures,
        next_step: String::from(
            "request multiples of 4 KiB at multiples of 4 KiB, and collect small ones in a buffer first (64 KiB or \
             more), or open it without O_DIRECT",
        ),
        verify: String::from("run it again: direct requests fall, and their average rises"),
        ..about(file)
    };
    (number > 0).then_some((number, finding))
}

/// The mean size of the requests, if there are enough of them.
fn average(requests: Count, bytes: Count) -> Option<Bytes> {
    let requests = requests.exact().filter(|number| *number >= LEAST_SMALL)?;
    Some(Bytes(bytes.exact()?.div_ceil(requests)))
}

fn about(file: &FileRow) -> Finding {
    Finding {
        severity: Severity::Warn,
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use Counter::*;

    use super::*;
    use crate::findings::sample::with_file;

    fn titles(counts: &[(Counter, u64)]) -> Vec<String> {
        found(counts).into_iter().map(|found| found.title).collect()
    }

    fn found(counts: &[(Counter, u64)]) -> Option<Finding> {
        let interval = with_file(1 << 30, counts);
        of_file(&interval.files[0], &interval).map(|(_, finding)| finding)
    }

    #[test]
    fn refused_requests_are_a_problem_and_single_trials_are_not() {
        let failed = |failed| {
            [
                (DirectReadRequests, 300),
                (DirectReadFailedRequests, failed),
            ]
        };
        assert_eq!(titles(&failed(300)), [REFUSED]);
        assert_eq!(titles(&failed(15)), [""; 0], "it tried the alignment");
        let few = [
            (DirectReadRequests, 100_000),
            (DirectReadBytes, 100_000 << 12),
            (DirectReadFailedRequests, 100),
        ];
        assert_ne!(titles(&few), [REFUSED], "one in a thousand");
        let writes = [(DirectWriteRequests, 20), (DirectWriteFailedRequests, 16)];
        assert_eq!(titles(&writes), [REFUSED]);
    }

    #[test]
    fn requests_below_a_page_are_a_problem_where_there_are_many() {
        let written =
            |requests, bytes| [(DirectWriteRequests, requests), (DirectWriteBytes, bytes)];
        assert_eq!(titles(&written(1_000, 512_000)), [SMALL]);
        assert_eq!(titles(&written(999, 999 * 512)), [""; 0], "few");
        assert_eq!(titles(&written(1_000, 4_096_000)), [""; 0], "whole pages");
        let both = [
            (DirectReadRequests, 2_000),
            (DirectReadFailedRequests, 1),
            (DirectReadBytes, 1_999 * 512),
        ];
        let found = found(&both).expect("they are small");
        assert_eq!(found.title, SMALL);
        assert_eq!(found.severity, Severity::Info, "no task waited long");
        assert_eq!(
            found.figures[1],
            ("direct_read_average_bytes", Measured::Exact(512).bytes()),
            "of requests that moved data"
        );
    }
}
