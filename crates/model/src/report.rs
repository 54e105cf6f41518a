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
use crate::lost::Lost;
use crate::measured::{Count, Measured, Missing};
use crate::parts::{CgroupRow, FileRow, ProcessRow};
use crate::reason::Reason;
use crate::row::{Labels, Row, Subject};
use crate::system::System;

/// The version of the JSON documents; goes up when a name or a meaning changes.
pub const SCHEMA_VERSION: u32 = 1;

/// Reason for a number that the caller never set.
const NOT_MEASURED: Missing = Missing::NotOffered(Reason::NotMeasured);

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
            exit: Exit::Unknown(Reason::EndNotRecorded),
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
        report.totals = Ledger::all_missing(Missing::NotOffered(Reason::NeedsProbe));
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
