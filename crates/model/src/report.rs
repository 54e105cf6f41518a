//! Results of a run: everything that `run` prints, in any format.
//!
//! # Layout
//! - [`Report`]: the whole; [`Backend`], [`Lost`]: its exactness.
//! - its files, processes and control groups are in `parts`.
//! - [`Surroundings`]: the machine's state and limits, which some findings need.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::PageSize;

use crate::exit::Exit;
use crate::finding::Finding;
use crate::law::Law;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured, Missing};
use crate::parts::{CgroupRow, FileRow, ProcessRow};
use crate::row::{Labels, Row, Subject};
use crate::stretch::Stretch;
use crate::system::System;

/// The version of the JSON documents; goes up when a name or a meaning changes.
pub const SCHEMA_VERSION: u32 = 1;

/// Reason for a number that the caller never set.
const NOT_MEASURED: Missing = Missing::NotOffered("not measured in this run");

/// Results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Start of the run, RFC 3339.
    pub timestamp: String,
    /// The machine's name.
    pub hostname: String,
    /// The page size for conversion to bytes.
    pub page_size: PageSize,
    /// The kernel's release.
    pub kernel: String,
    /// The command and its arguments; empty if a process was followed.
    pub command: Vec<String>,
    /// The followed process, if there was no command.
    pub followed: Option<u32>,
    /// The command's exit.
    pub exit: Exit,
    /// Wall time of the run.
    pub wall: Duration,
    /// CPU time in user mode.
    pub cpu_user_seconds: Measured<f64>,
    /// CPU time in the kernel.
    pub cpu_system_seconds: Measured<f64>,
    /// The back-end.
    pub backend: Backend,
    /// Lost or imprecise counts.
    pub lost: Vec<Lost>,
    /// All requests of the processes to the page cache.
    pub totals: Ledger,
    /// Bytes read from sources without page cache: pipes, sockets, terminals, tmpfs, proc.
    pub outside_bytes: Count,
    /// Bytes read from storage devices for these processes.
    pub device_read_bytes: Count,
    /// Bytes written to storage devices for these processes.
    pub device_write_bytes: Count,
    /// Per file.
    pub files: Vec<FileRow>,
    /// Per process.
    pub processes: Vec<ProcessRow>,
    /// Per control group.
    pub cgroups: Vec<CgroupRow>,
    /// The machine around the run.
    pub surroundings: Surroundings,
    /// The machine's own numbers over the time; missing if only a run was watched.
    pub system: System,
    /// An interval of the whole machine instead of a run.
    pub is_of_machine: bool,
    /// Checks of rows against independent counts; empty where they were not requested.
    pub row_laws: Vec<Law>,
    /// Findings; made from the rest by [`crate::diagnose`].
    pub findings: Vec<Finding>,
}

impl Report {
    /// A report without measurements.
    #[must_use]
    pub fn new(timestamp: String, hostname: String, page_size: PageSize, kernel: String) -> Self {
        Report {
            schema_version: SCHEMA_VERSION,
            timestamp,
            hostname,
            page_size,
            kernel,
            command: Vec::new(),
            followed: None,
            exit: Exit::Unknown("its end was not recorded"),
            wall: Duration::ZERO,
            cpu_user_seconds: Measured::Missing(NOT_MEASURED),
            cpu_system_seconds: Measured::Missing(NOT_MEASURED),
            backend: Backend::default(),
            lost: Vec::new(),
            totals: Ledger::default(),
            outside_bytes: Measured::Missing(NOT_MEASURED),
            device_read_bytes: Measured::Missing(NOT_MEASURED),
            device_write_bytes: Measured::Missing(NOT_MEASURED),
            files: Vec::new(),
            processes: Vec::new(),
            cgroups: Vec::new(),
            surroundings: Surroundings::default(),
            system: System::all_missing(NOT_MEASURED),
            is_of_machine: false,
            row_laws: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Turns it into a report of the whole machine in an interval, with the findings of
    /// [`diagnose`](crate::diagnose). The interval may be a sum of several ([`Stretch::append`]):
    /// findings need seconds rather than moments.
    #[must_use]
    pub fn of_stretch(mut self, stretch: &Stretch) -> Report {
        self.is_of_machine = true;
        self.timestamp.clone_from(&stretch.time);
        self.wall = stretch.elapsed;
        self.exit = Exit::Running;
        self.totals = stretch.ledger.clone();
        self.device_read_bytes = stretch.device_read_bytes;
        self.device_write_bytes = stretch.device_write_bytes;
        self.files.clone_from(&stretch.files);
        self.processes.clone_from(&stretch.processes);
        self.cgroups.clone_from(&stretch.cgroups);
        self.lost.clone_from(&stretch.lost);
        self.system = stretch.system.clone();
        self.surroundings = Surroundings::of_stretch(stretch);
        self.findings = crate::diagnose(&self);
        self
    }

    /// The row of a part, with the page size.
    #[must_use]
    pub fn of_this(&self, row: Row) -> Row {
        Row {
            page_size: Some(self.page_size),
            ..row
        }
    }

    /// The totals as a row.
    #[must_use]
    pub fn total_row(&self) -> Row {
        let cpu_seconds = self
            .cpu_user_seconds
            .zip(self.cpu_system_seconds, |user, sys| user + sys);
        Row {
            labels: Labels {
                time: Measured::Exact(self.timestamp.clone()),
                exit: Measured::Exact(self.exit.to_string()),
                ..Labels::default()
            },
            ledger: self.totals.clone(),
            subject: Subject {
                cpu_seconds,
                device_read_bytes: self.device_read_bytes,
                device_write_bytes: self.device_write_bytes,
                lost_events: match self.totals.all_unknown() {
                    Some(missing) => Measured::Missing(missing),
                    None => Measured::Exact(Lost::sum(&self.lost)),
                },
                ..Subject::default()
            },
            elapsed: self.wall,
            page_size: Some(self.page_size),
            ..Row::default()
        }
    }
}

/// What counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Its name: `tracepoints`, `fentry`, `kprobes`, `sys_exit`, `procfs`.
    pub name: String,
    /// Whether its numbers are exact to the page.
    pub exact: bool,
    /// Notes for the reader: refused probes, missing numbers, and how to get more.
    pub notes: Vec<String>,
    /// Kernel memory of its maps and programs. Storage for each task that uses files comes on top of it.
    pub kernel_memory_bytes: Count,
}

impl Default for Backend {
    fn default() -> Self {
        Backend {
            name: String::new(),
            exact: false,
            notes: Vec::new(),
            kernel_memory_bytes: Measured::Missing(NOT_MEASURED),
        }
    }
}

/// Lost or imprecise events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Its name in machine formats.
    pub id: &'static str,
    /// Number of events.
    pub count: u64,
    /// Effect on the numbers.
    pub meaning: &'static str,
}

impl Lost {
    /// Every kind: its name in machine formats, and what it does to the numbers.
    pub const KINDS: [(&'static str, &'static str); 12] = [
        (
            "rows",
            "events summed up on one row for all, the table being full: sums hold, names are missing; ask for more with --max-rows",
        ),
        (
            "tasks",
            "not counted, the kernel having refused storage for the task's state",
        ),
        ("names", "whose name was lost"),
        (
            "prefetch_pages",
            "pages brought in ahead that count as reused when they are read",
        ),
        (
            "direct_requests",
            "direct requests whose bytes are not counted",
        ),
        (
            "uring_requests",
            "requests of io_uring that can count more than once, or as served where they failed",
        ),
        (
            "direct_in_flight",
            "direct requests that were not seen to end",
        ),
        (
            "processes",
            "threads whose CPU time and device bytes are not counted",
        ),
        (
            "skipped",
            "not counted, a program running on that CPU already",
        ),
        (
            "returns",
            "calls whose end was not seen, too many having slept at once: hits of these reads, or bytes of these direct requests, are not counted",
        ),
        (
            "forgotten",
            "files unused for long gave up their place: what of them is evicted is not counted until they are used again",
        ),
        (
            "contradictions",
            "rows whose counts contradict each other: the numbers concerned are marked ~",
        ),
    ];

    /// A loss of one of the kinds.
    #[must_use]
    pub fn new(id: &'static str, count: u64) -> Lost {
        let meaning = Lost::KINDS
            .iter()
            .find(|(known, _)| *known == id)
            .map_or("", |(_, meaning)| meaning);
        Lost { id, count, meaning }
    }

    /// Adds losses to those before, by kind.
    pub fn add(so_far: &mut Vec<Lost>, later: &[Lost]) {
        for lost in later {
            match so_far.iter_mut().find(|known| known.id == lost.id) {
                Some(known) => known.count = known.count.saturating_add(lost.count),
                None => so_far.push(*lost),
            }
        }
    }

    /// The sum over all kinds.
    #[must_use]
    pub fn sum(lost: &[Lost]) -> u64 {
        lost.iter()
            .fold(0, |sum, lost| sum.saturating_add(lost.count))
    }

    /// What can be done so that less is lost, or with what is left.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self.id {
            // Also for recordings, which may be of a later version.
            "forgotten" => {
                "EVICTED of such files is a lower bound, all else is exact; to have fewer files at a time, watch \
                 less: -p PID or --cgroup PATH"
            }
            "rows" => {
                "fewer rows: watch less, with -p PID or --cgroup PATH; `run` takes --max-rows"
            }
            "names" => "sums hold: a file without a name is shown by its device and inode number",
            "returns" => {
                "numbers are lower bounds; a kernel with tracepoints for reads (6.12), or one that lets fentry be \
                 used, loses none"
            }
            "tasks" => {
                "numbers are lower bounds; a few: Linux to 6.19 refuses it where two tasks of a CPU want it at once, \
                 run it again; many: memory is short, free some, or watch less, with -p PID or --cgroup PATH"
            }
            _ => "numbers are lower bounds; watch less, with -p PID or --cgroup PATH, to lose less",
        }
    }
}

/// The machine at the end of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Memory of the machine.
    pub memory_total_bytes: Count,
    /// Memory that can be had without swapping.
    pub memory_available_bytes: Count,
    /// The tightest memory limit on the run's control group; not offered if there is none.
    pub cgroup_limit_bytes: Count,
    /// The file that sets this limit.
    pub cgroup_limit_path: Measured<PathBuf>,
    /// Number of times the group hit the limit and pages were reclaimed, since the group was made.
    pub cgroup_limit_reached: Count,
    /// Dirty page cache; the peak, if it was watched.
    pub dirty_bytes: Count,
    /// Dirty memory at which writers are throttled (`nr_dirty_threshold`).
    pub dirty_limit_bytes: Count,
    /// Dirty memory at which writeback starts (`nr_dirty_background_threshold`).
    pub dirty_background_bytes: Count,
}

impl Surroundings {
    /// The limit on a control group that cost most: pages were reclaimed and refaulted.
    fn of_stretch(stretch: &Stretch) -> Surroundings {
        let system = &stretch.system;
        let in_the_way = stretch
            .cgroups
            .iter()
            .filter(|group| group.system.memory_limit_reached.exact() > Some(0))
            .max_by_key(|group| group.system.file_refault_pages.exact());
        let limit = in_the_way.map(|group| &group.system);
        let none = Measured::not_offered("no control group came up against a limit of its own");
        Surroundings {
            memory_total_bytes: system.memory_total_bytes,
            memory_available_bytes: system.available_bytes,
            cgroup_limit_bytes: limit.map_or(none, |limit| limit.memory_limit_bytes),
            cgroup_limit_path: in_the_way.map_or(
                Measured::not_offered("no control group came up against a limit of its own"),
                |group| group.path.clone().map(PathBuf::from),
            ),
            cgroup_limit_reached: limit.map_or(none, |limit| limit.memory_limit_reached),
            // The amount that the kernel compares with its limits.
            dirty_bytes: system.dirty_bytes.plus(system.writeback_bytes),
            dirty_limit_bytes: system.dirty_limit_bytes,
            dirty_background_bytes: system.dirty_background_bytes,
        }
    }
}

impl Default for Surroundings {
    fn default() -> Self {
        Surroundings {
            memory_total_bytes: Measured::Missing(NOT_MEASURED),
            memory_available_bytes: Measured::Missing(NOT_MEASURED),
            cgroup_limit_bytes: Measured::Missing(NOT_MEASURED),
            cgroup_limit_path: Measured::Missing(NOT_MEASURED),
            cgroup_limit_reached: Measured::Missing(NOT_MEASURED),
            dirty_bytes: Measured::Missing(NOT_MEASURED),
            dirty_limit_bytes: Measured::Missing(NOT_MEASURED),
            dirty_background_bytes: Measured::Missing(NOT_MEASURED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::field;

    #[test]
    fn losses_add_up_by_kind_and_the_totals_have_their_sum() {
        let mut lost = vec![Lost::new("rows", 2)];
        Lost::add(&mut lost, &[Lost::new("names", 1), Lost::new("rows", 5)]);
        assert_eq!(lost, [Lost::new("rows", 7), Lost::new("names", 1)]);
        let page_size = PageSize::new(4 << 10).unwrap();
        let mut report = Report::new("t".into(), "h".into(), page_size, "k".into());
        report.lost = lost;
        let field = field("lost_events").unwrap();
        let sum = field.of(&report.total_row());
        assert_eq!(sum, Measured::Exact(8).count(), "all kinds");
        report.totals = Ledger::all_missing(Missing::NotOffered("no probe"));
        assert!(
            field.of(&report.total_row()).missing().is_some(),
            "without a probe 0 would say that nothing is missing"
        );
    }

    #[test]
    fn a_new_report_claims_nothing() {
        let page_size = PageSize::new(4 << 10).unwrap();
        let report = Report::new("t".into(), "h".into(), page_size, "k".into());
        assert!(
            report.device_read_bytes.missing().is_some(),
            "not measured is not zero"
        );
        let cpu = field("CPU").map(|field| field.of(&report.total_row()));
        assert_eq!(
            cpu.and_then(|cpu| cpu.missing()),
            Some(NOT_MEASURED),
            "the sum of two unmeasured times is unmeasured"
        );
    }
}
