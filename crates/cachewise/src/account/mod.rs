//! From the probe's rows to a report: by file, by process, by control group.

mod evictions;
mod files;
mod groups;
mod processes;
mod sums;

use std::time::Duration;

use cachewise_cli::child::Course;
use cachewise_kstat::Kernel;
use cachewise_model::{Count, Counter, Interval, Ledger, Lost, Measured, Reason};
use cachewise_probe::{FileId, ProcessId, ProcessInfo, Snapshot};

use crate::blame::Blame;

pub use evictions::evictions;
pub use files::{FileDetail, file_rows};
pub use groups::{cgroup_rows, group_ledgers, heaviest_groups_first};
pub use processes::{of_tasks, of_use, process_rows, uses};

/// Residency after the run costs five system calls a file; of more files than this, the heaviest.
const RESIDENCY_OF: usize = 10_000;

/// The probe's own names for the rows of a report, in their order.
pub struct Identities {
    pub files: Vec<Option<FileId>>,
    pub processes: Vec<Option<ProcessId>>,
}

/// Fills the report with what the probe counted.
pub fn fill(
    interval: &mut Interval,
    snapshot: &Snapshot,
    course: &Course,
    kernel: &Kernel,
) -> Identities {
    let run = interval.run_mut();
    (run.cpu_user_seconds, run.cpu_system_seconds) = cpu_seconds(snapshot, course);
    let bytes = |of: fn(&ProcessInfo) -> u64| snapshot.processes.iter().map(of).sum::<u64>();
    interval.device_read_bytes = Measured::Exact(bytes(|process| process.device_read.0));
    interval.device_write_bytes = Measured::Exact(bytes(|process| process.device_written.0));
    interval.run_mut().outside_bytes =
        outside(bytes(|process| process.read_call_bytes.0), &snapshot.total);
    let files: Vec<Option<FileId>>;
    let processes: Vec<Option<ProcessId>>;
    (files, interval.files) = file_rows(
        snapshot,
        interval.page(),
        kernel,
        (FileDetail::Residency, RESIDENCY_OF),
    )
    .unzip();
    let of_no_file = snapshot.rows.iter().filter(|row| row.is_of_no_file());
    let of_files = interval.files.iter().map(|file| &file.ledger);
    interval.ledger = of_files.chain(of_no_file.map(|row| &row.ledger)).sum();
    let cgroup_names = kernel.cgroup_names().unwrap_or_default();
    let blame = Blame::of(snapshot);
    (processes, interval.processes) = process_rows(snapshot, &blame, &cgroup_names)
        .into_iter()
        .unzip();
    interval.cgroups = cgroup_rows(snapshot, &blame, &cgroup_names, interval.page());
    interval.uses = uses(snapshot, &files, &processes);
    interval.evictions = evictions(snapshot, &files, &cgroup_names);
    interval.lost = lost(snapshot);
    interval.mark_contradictions();
    Identities { files, processes }
}

/// The kernel splits the time of what it waited for exactly in sum; of what was followed it has samples.
fn cpu_seconds(snapshot: &Snapshot, course: &Course) -> (Measured<f64>, Measured<f64>) {
    if let Some(usage) = course.usage {
        return (
            Measured::Exact(usage.user.as_secs_f64()),
            Measured::Exact(usage.system.as_secs_f64()),
        );
    }
    let sampled = |time: fn(&ProcessInfo) -> Duration| {
        let sum: Duration = snapshot.processes.iter().map(time).sum();
        Measured::Estimated(sum.as_secs_f64(), Reason::SampledAtTick)
    };
    (
        sampled(|process| process.user_time),
        sampled(|process| process.system_time),
    )
}

/// Read calls count every byte, whatever it comes from; what is not of files is of the rest.
fn outside(read_calls: u64, total: &Ledger) -> Count {
    let of_files = total[Counter::ReadRequestedBytes]
        .saturating_sub(total[Counter::ReadUnservedBytes])
        + total[Counter::DirectReadBytes];
    match read_calls.checked_sub(of_files) {
        Some(rest) => Measured::Estimated(rest, Reason::NotAllCalls),
        None => Measured::unknown(Reason::NotAllCalls),
    }
}

/// Events that could not be counted as they should be; none where the numbers are exact.
pub fn lost(snapshot: &Snapshot) -> Vec<Lost> {
    let lost = &snapshot.lost;
    [
        ("rows", lost.rows),
        ("tasks", lost.tasks),
        ("names", lost.names),
        ("prefetch_pages", lost.prefetch_pages),
        ("direct_requests", lost.direct_requests),
        ("uring_requests", lost.uring_requests),
        ("direct_in_flight", snapshot.direct_in_flight),
        ("processes", lost.processes),
        ("skipped", lost.skipped),
        ("returns", lost.returns),
        ("forgotten", lost.forgotten),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(id, count)| Lost::new(id, count))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_kind_of_loss_is_reported_with_its_meaning() {
        let snapshot = Snapshot {
            total: Ledger::default(),
            rows: Vec::new(),
            files: HashMap::new(),
            processes: Vec::new(),
            outside: HashMap::new(),
            evictions: Vec::new(),
            culprits: HashMap::new(),
            direct_in_flight: 1,
            changes: Vec::new(),
            // All of them by name: a new one is to be added here and to the list of kinds.
            lost: cachewise_probe::Lost {
                rows: 1,
                tasks: 1,
                names: 1,
                prefetch_pages: 1,
                direct_requests: 1,
                uring_requests: 1,
                processes: 1,
                forgotten: 1,
                skipped: 1,
                returns: 1,
            },
        };
        let lost = lost(&snapshot);
        // Contradictions are found in the rows; `size` alone has accesses, and `--stacks` stacks.
        let of_rows = |kind: &&str| !["accesses", "contradictions", "stacks"].contains(kind);
        let kinds: Vec<&str> = Lost::KINDS
            .iter()
            .map(|(kind, _)| *kind)
            .filter(of_rows)
            .collect();
        let ids: Vec<&str> = lost.iter().map(|lost| lost.id).collect();
        let once: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(once, kinds.iter().copied().collect(), "every kind");
        assert_eq!(ids.len(), kinds.len(), "each once: {ids:?}");
        for kind in lost {
            assert!(!kind.meaning.is_empty(), "{} is explained", kind.id);
        }
    }

    #[test]
    fn bytes_read_outside_of_files_are_the_rest_or_unknown() {
        let mut total = Ledger::default();
        total.set(Counter::ReadRequestedBytes, 100);
        total.set(Counter::DirectReadBytes, 50);
        assert_eq!(
            outside(400, &total),
            Measured::Estimated(250, Reason::NotAllCalls),
            "pipes and sockets"
        );
        assert!(
            outside(10, &total).missing().is_some(),
            "never a negative number, never 0 for it"
        );
    }
}
