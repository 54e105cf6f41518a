//! The processes of a report, and their use of files.

use std::collections::HashMap;
use std::hash::Hash;

use cachewise_model::{
    Counter, Exit, Ledger, Measured, Missing, ProcessFileUse, ProcessRow, Reason,
};
use cachewise_probe::{FileId, ProcessId, Snapshot};

use super::sums::sums;
use crate::blame::Blame;

/// The reason behind wasted readahead of a process or a control group.
const NOT_ATTRIBUTED: Missing = Missing::NotOffered(Reason::EvictionsNotAttributed);

/// The ledger of a process or a control group, in which wasted readahead is not offered: the probe books it on the
/// file alone.
pub fn of_tasks(mut ledger: Ledger) -> Ledger {
    ledger.set_missing(Counter::ReadaheadWastedPages, NOT_ATTRIBUTED);
    ledger
}

/// The ledger of a process.
fn of_process(blame: &Blame, process: Option<ProcessId>, mut ledger: Ledger) -> Ledger {
    blame.of_process(process, &mut ledger);
    of_tasks(ledger)
}

/// The ledger of the use of a file by a process: evictions are those of the file.
pub fn of_use(ledger: Ledger) -> Ledger {
    let mut ledger = of_tasks(ledger);
    for counter in [Counter::EvictedReclaimPages, Counter::EvictedOtherPages] {
        ledger.set_missing(counter, NOT_ATTRIBUTED);
    }
    ledger
}

/// The processes of a snapshot.
pub fn process_rows(
    snapshot: &Snapshot,
    blame: &Blame,
    names: &HashMap<u64, String>,
) -> Vec<(Option<ProcessId>, ProcessRow)> {
    let mut sums: HashMap<ProcessId, Ledger> = sums(&snapshot.rows, |row| row.process);
    let mut rows: Vec<(Option<ProcessId>, ProcessRow)> = snapshot
        .processes
        .iter()
        .map(|process| {
            let row = ProcessRow {
                pid: Some(process.pid),
                started: Measured::Exact(process.id.start),
                ppid: Measured::Exact(process.parent),
                command: Measured::Exact(process.command.clone()),
                cgroup: names
                    .get(&process.cgroup)
                    .map_or(Measured::unknown(Reason::GroupGone), |name| {
                        Measured::Exact(name.clone())
                    }),
                exit: process.exit_status.map_or(Exit::Running, exit),
                cpu_seconds: Measured::Exact(process.cpu_time.as_secs_f64()),
                device_read_bytes: Measured::Exact(process.device_read.0),
                device_write_bytes: Measured::Exact(process.device_written.0),
                ledger: of_process(
                    blame,
                    Some(process.id),
                    sums.remove(&process.id).unwrap_or_default(),
                ),
            };
            (Some(process.id), row)
        })
        .collect();
    // The overflow row, which sums up rows beyond the size of the table, belongs to no process.
    let others: Ledger = snapshot
        .rows
        .iter()
        .filter(|row| row.process.is_none() && row.file.is_none())
        .map(|row| row.ledger.clone())
        .sum();
    let others = (!others.is_zero()).then_some((None, others));
    // A row whose process found no room in the process table still counts.
    let sums = sums.into_iter().map(|(id, ledger)| (Some(id), ledger));
    rows.extend(others.into_iter().chain(sums).map(|(id, ledger)| {
        let row = ProcessRow {
            pid: id.map(|id| id.tgid),
            started: id.map_or(Measured::unknown(Reason::ProcessesFull), |id| {
                Measured::Exact(id.start)
            }),
            ppid: Measured::unknown(Reason::ProcessesFull),
            command: Measured::unknown(Reason::ProcessesFull),
            cgroup: Measured::unknown(Reason::ProcessesFull),
            exit: Exit::Unknown(Reason::ProcessesFull),
            cpu_seconds: Measured::unknown(Reason::ProcessesFull),
            device_read_bytes: Measured::unknown(Reason::ProcessesFull),
            device_write_bytes: Measured::unknown(Reason::ProcessesFull),
            ledger: of_process(blame, id, ledger),
        };
        (id, row)
    }));
    rows
}

/// A wait status as the kernel keeps it: a signal in the low seven bits, the exit status above.
fn exit(status: u32) -> Exit {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => Exit::Code(code as i32),
        (signal, _) => Exit::Signal(signal as i32),
    }
}

/// The use of files by processes, by the indexes of their rows.
pub fn uses(
    snapshot: &Snapshot,
    files: &[Option<FileId>],
    processes: &[Option<ProcessId>],
) -> Vec<ProcessFileUse> {
    fn places<K: Copy + Hash + Eq>(ids: &[K]) -> HashMap<K, usize> {
        ids.iter().copied().zip(0..).collect()
    }
    let (files, processes) = (places(files), places(processes));
    let used = snapshot.rows.iter();
    let used = used.filter(|row| row.process.is_some() && !row.is_of_no_file());
    used.filter_map(|row| {
        Some(ProcessFileUse {
            process: processes.get(&row.process).copied(),
            file: *files.get(&row.file)?,
            ledger: of_use(row.ledger.clone()),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        assert_eq!(exit(3 << 8), Exit::Code(3), "exit(3)");
        assert_eq!(exit(9), Exit::Signal(9), "kill -9");
        assert_eq!(exit(11 | 0x80), Exit::Signal(11), "with a core dump");
    }
}
