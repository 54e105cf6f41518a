//! Processes that wait for the device: most of their requested pages are not in the page cache.
//!
//! A run has one program; on a whole machine the process is the first question.

use std::cmp::Reverse;

use cachewise_units::Bytes;

use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::ProcessRow;
use crate::value::{Datum, Value};

pub(super) const ID: &str = "who_misses";

/// A tenth of a second on the slowest device in use; as for `cold_start`.
const WORTH: Bytes = Bytes(16 << 20);
/// One in this many requested pages came from the device.
const PART: u64 = 2;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    if interval.run.is_some() {
        return Vec::new();
    }
    let worth = WORTH.pages_ceil(interval.page()).0;
    let mut found: Vec<(u64, u32, &ProcessRow)> = interval
        .processes
        .iter()
        .filter_map(|process| {
            let pid = process.pid?;
            let fetched = fetched(process).exact().filter(|pages| *pages >= worth)?;
            let asked = asked(process).exact()?;
            (fetched.saturating_mul(PART) >= asked).then_some((fetched, pid, process))
        })
        .collect();
    found.sort_by_key(|(fetched, pid, _)| (Reverse(*fetched), *pid));
    let further = found.len().saturating_sub(super::heaviest::NAMED) as u64;
    let mut findings: Vec<Finding> = found
        .into_iter()
        .take(super::heaviest::NAMED)
        .map(|(_, pid, process)| finding(pid, process))
        .collect();
    if let (Some(last), true) = (findings.last_mut(), further > 0) {
        last.figures
            .push(("further_processes", Value::Exact(Datum::Count(further))));
    }
    findings
}

/// Pages read from the device for it: missed, or read ahead just before.
fn fetched(process: &ProcessRow) -> Count {
    [
        Counter::ReadMissedPages,
        Counter::ReadaheadHitPages,
        Counter::FaultMissPages,
    ]
    .iter()
    .fold(Measured::Exact(0), |sum, counter| {
        sum.plus(process.ledger.get(*counter))
    })
}

fn asked(process: &ProcessRow) -> Count {
    let reads = process.ledger.get(Counter::ReadRequestedPages);
    reads.plus(process.ledger.get(Counter::FaultRequests))
}

fn finding(pid: u32, process: &ProcessRow) -> Finding {
    let (fetched, asked) = (fetched(process), asked(process));
    let name = process
        .command
        .as_ref()
        .known()
        .map_or_else(|| "?".to_owned(), |name| crate::escaped(name).into_owned());
    Finding {
        id: ID,
        severity: Severity::Info,
        title: format!("{name} ({pid}) mostly reads what is not in the page cache"),
        figures: vec![
            ("fetched_pages", fetched.pages()),
            ("asked_pages", asked.pages()),
            ("fetched_ratio", Value::ratio(fetched.ratio_of(asked))),
            (
                "read_missed_pages",
                process.ledger.get(Counter::ReadMissedPages).pages(),
            ),
            ("device_read_bytes", process.device_read_bytes.bytes()),
        ],
        next_step: if process.exit == crate::Exit::Running {
            format!("see which files, and what to do: cachewise run -p {pid} -d 10")
        } else {
            String::from(
                "if it reads each file once (a backup, a scan), keep its pages from evicting others: \
                 POSIX_FADV_DONTNEED after each read, cachewise cat --keep, or a control group of its \
                 own with a memory limit; its files: cachewise run -- COMMAND",
            )
        },
        kind: SubjectKind::Process,
        pid: Some(pid),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::findings::sample;

    fn machine(counts: &[(Counter, u64)]) -> Interval {
        let mut interval = sample::run();
        interval.run = None;
        interval.processes.push(sample::process(7, counts));
        interval
    }

    #[test]
    fn process_that_fetches_most_is_reported() {
        use Counter::{ReadMissedPages, ReadRequestedPages, ReadaheadHitPages};
        let counts = [
            (ReadRequestedPages, 10_000),
            (ReadMissedPages, 100),
            (ReadaheadHitPages, 9_000),
        ];
        let mut interval = machine(&counts);
        let found = check(&interval);
        assert!(found[0].title.contains("dd (7)"), "{}", found[0].title);
        assert!(found[0].next_step.contains("run -p 7"), "how to go on");
        interval.processes[0].exit = Exit::Code(0);
        let found = check(&interval);
        assert!(
            !found[0].next_step.contains("-p 7"),
            "its number is somebody else's now"
        );
        interval.run_mut();
        assert_eq!(check(&interval), [], "a run knows whose it is");
    }

    #[test]
    fn hits_and_small_amounts_are_ignored() {
        use Counter::{ReadMissedPages, ReadRequestedPages};
        assert_eq!(
            check(&machine(&[
                (ReadRequestedPages, 100_000),
                (ReadMissedPages, 9_000)
            ])),
            [],
            "mostly hits"
        );
        assert_eq!(
            check(&machine(&[
                (ReadRequestedPages, 1_000),
                (ReadMissedPages, 1_000)
            ])),
            [],
            "4 MB"
        );
    }
}
