//! Processes that wait for the device: most of their requested pages are not in the page cache.
//!
//! A run has one program; on a whole machine the process is the first question.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cachewise_units::Bytes;

use super::named::with_others;
use crate::counter::Counter;
use crate::exit::Exit;
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
    let mut found: Vec<(u64, Program<'_>)> = programs(interval)
        .into_iter()
        .filter_map(|program| {
            let fetched = program.fetched.exact().filter(|pages| *pages >= worth)?;
            let asked = program.asked.exact()?;
            (fetched.saturating_mul(PART) >= asked).then_some((fetched, program))
        })
        .collect();
    found.sort_by_key(|(fetched, program)| (Reverse(*fetched), program.pid));
    let further = found.len().saturating_sub(super::heaviest::NAMED) as u64;
    let mut findings: Vec<Finding> = found
        .into_iter()
        .take(super::heaviest::NAMED)
        .map(|(_, program)| program.finding())
        .collect();
    if let (Some(last), true) = (findings.last_mut(), further > 0) {
        last.figures
            .push(("further_processes", Value::Exact(Datum::Count(further))));
    }
    findings
}

/// A process that runs, or all processes of a command in a control group that have ended: a script that starts `cat` for
/// each file is one reader.
struct Program<'a> {
    /// The process that fetched most.
    head: &'a ProcessRow,
    pid: u32,
    processes: u64,
    fetched: Count,
    asked: Count,
    missed: Count,
    device_read: Count,
}

fn programs(interval: &Interval) -> Vec<Program<'_>> {
    let mut programs: BTreeMap<_, Program<'_>> = BTreeMap::new();
    for process in &interval.processes {
        let Some(pid) = process.pid else {
            continue;
        };
        let command = process.command.as_ref().known();
        // Two that run may be different scripts of one interpreter; two without a name have nothing in common.
        let is_alone = process.exit == Exit::Running || command.is_none();
        let alone = is_alone.then_some(pid);
        let one = Program::new(pid, process);
        match programs.entry((command, process.cgroup.as_ref().known(), alone)) {
            Entry::Vacant(place) => drop(place.insert(one)),
            Entry::Occupied(mut place) => place.get_mut().add(one),
        }
    }
    programs.into_values().collect()
}

impl<'a> Program<'a> {
    fn new(pid: u32, process: &'a ProcessRow) -> Program<'a> {
        Program {
            head: process,
            pid,
            processes: 1,
            fetched: fetched(process),
            asked: asked(process),
            missed: process.ledger.get(Counter::ReadMissedPages),
            device_read: process.device_read_bytes,
        }
    }

    fn add(&mut self, other: Program<'a>) {
        if fetched(other.head).known() > fetched(self.head).known() {
            (self.head, self.pid) = (other.head, other.pid);
        }
        self.processes += other.processes;
        self.fetched = self.fetched.plus(other.fetched);
        self.asked = self.asked.plus(other.asked);
        self.missed = self.missed.plus(other.missed);
        self.device_read = self.device_read.plus(other.device_read);
    }

    fn finding(&self) -> Finding {
        let name = self.head.command.as_ref().known();
        let name = name.map_or("?".into(), |name| crate::escaped(name));
        let pids = with_others(self.pid, self.processes);
        Finding {
            id: ID,
            severity: Severity::Info,
            title: format!("{name} ({pids}) mostly reads data that is not in the page cache"),
            figures: vec![
                ("fetched_pages", self.fetched.pages()),
                ("asked_pages", self.asked.pages()),
                (
                    "fetched_ratio",
                    Value::ratio(self.fetched.ratio_of(self.asked)),
                ),
                ("read_missed_pages", self.missed.pages()),
                ("device_read_bytes", self.device_read.bytes()),
            ],
            next_step: if self.head.exit == Exit::Running {
                format!(
                    "see which files, and what to do: cachewise run -p {} -d 10",
                    self.pid
                )
            } else {
                String::from(
                    "if it reads each file once (a backup, a scan), keep its pages from evicting others: \
                     POSIX_FADV_DONTNEED after each read, cachewise cat --keep, or a control group of its \
                     own with a memory limit; its files: cachewise run -- COMMAND",
                )
            },
            kind: SubjectKind::Process,
            pid: Some(self.pid),
            ..Finding::default()
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
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
    fn processes_of_one_command_that_ended_are_one_reader() {
        use Counter::{ReadMissedPages, ReadRequestedPages};
        let counts = [(ReadRequestedPages, 2_000), (ReadMissedPages, 2_000)];
        let mut interval = machine(&counts);
        for pid in 8..=10 {
            let mut process = sample::process(pid, &counts);
            process.exit = Exit::Code(0);
            interval.processes.push(process);
        }
        let found = check(&interval);
        assert_eq!(found.len(), 1, "none of them fetched 16 MiB by itself");
        let title = &found[0].title;
        assert!(title.contains("and 2 other processes)"), "{title}");
        assert_eq!(
            found[0].figures[0],
            ("fetched_pages", Measured::Exact(6_000).pages()),
            "the one that runs is another one"
        );
        interval.processes[3].cgroup = Measured::Exact("/other".into());
        assert_eq!(check(&interval), [], "as is that of another group");
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
