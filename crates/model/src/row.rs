//! A line of a table: numbers of one object over one interval.
//!
//! A row is made from a sample, the sample before it and the time between them. Its labels identify
//! the object: the machine, a process, a file, a control group.
//!
//! # Layout
//! - [`Row`]: labels, counters, and the two groups of numbers beside the counters.
//! - [`Labels`]: names. [`Subject`]: numbers of a process, file or device. [`System`]: of the
//!   machine or a control group, in `system`.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use cachewise_units::PageSize;

use crate::group_names::GroupNames;
use crate::ledger::Ledger;
use crate::measure::Measurement;
use crate::measured::{Count, Measured, Missing, NOT_APPLICABLE};
use crate::reason::Reason;
use crate::residency::Residency;
use crate::sizing::Sizing;
use crate::sparse::SparseFields;
use crate::system::System;

/// A line of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The object.
    pub labels: Labels,
    /// Requests to the page cache.
    pub ledger: Ledger,
    /// Numbers of a process or file.
    pub subject: Subject,
    /// Residency at the end of the interval.
    pub residency: Residency,
    /// Numbers of the machine or a control group, over the interval or at its end.
    pub system: SparseFields<System>,
    /// Numbers of a measurement.
    pub measurement: SparseFields<Measurement>,
    /// Numbers of a simulated memory size.
    pub sizing: SparseFields<Sizing>,
    /// Length of the interval; zero for rows without one.
    pub elapsed: Duration,
    /// Page size of the counted pages; `None` if unknown.
    pub page_size: Option<PageSize>,
}

/// Names that a row can have; those that do not apply are `-`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table of fields describes each")]
pub struct Labels {
    /// RFC 3339.
    pub time: Measured<String>,
    pub pid: Measured<u32>,
    pub ppid: Measured<u32>,
    pub command: Measured<String>,
    pub command_line: Measured<String>,
    /// Nanoseconds since boot.
    pub started: Measured<u64>,
    pub path: Measured<PathBuf>,
    pub label: Measured<String>,
    pub cgroup: Measured<String>,
    /// Names of that control group.
    pub group: GroupNames,
    pub filesystem: Measured<String>,
    /// `major:minor`.
    pub device: Measured<String>,
    pub inode: Measured<u64>,
    /// `0`, `1`, `SIGKILL`, `running`.
    pub exit: Measured<String>,
    /// Number of names of a file.
    pub links: Measured<u64>,
    pub note: Measured<String>,
}

/// Numbers of a process or file.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table of fields describes each")]
pub struct Subject {
    pub cpu_seconds: Measured<f64>,
    pub device_read_bytes: Count,
    pub device_write_bytes: Count,
    /// In nanoseconds.
    pub device_busy_seconds: Count,
    pub resident_before_pages: Count,
    pub resident_after_pages: Count,
    pub file_size_bytes: Count,
    pub lost_events: Count,
}

/// The reason for the numbers of a row that only shows its kind.
const NOT_YET: Missing = Missing::Unknown(Reason::NotMeasuredYet);

impl Row {
    /// A row of a file, a directory or a part of a file with its residency, all unknown so far.
    #[must_use]
    pub fn of_file() -> Row {
        // A list may have a row for each of a million files: copying one is cheaper than making it.
        static BLANK: OnceLock<Row> = OnceLock::new();
        BLANK.get_or_init(Row::blank_of_file).clone()
    }

    fn blank_of_file() -> Row {
        let count = Measured::Missing(NOT_YET);
        Row {
            labels: Labels {
                time: Measured::Missing(NOT_YET),
                path: Measured::Missing(NOT_YET),
                filesystem: Measured::Missing(NOT_YET),
                device: Measured::Missing(NOT_YET),
                inode: Measured::Missing(NOT_YET),
                links: Measured::Missing(NOT_YET),
                note: Measured::Missing(NOT_YET),
                ..Labels::default()
            },
            ledger: Ledger::all_missing(NOT_APPLICABLE),
            subject: Subject {
                file_size_bytes: count,
                ..Subject::default()
            },
            residency: Residency {
                files: count,
                unknown_files: count,
                file_pages: count,
                resident_pages: count,
                resident_bytes: count,
                dirty_pages: count,
                writeback_pages: count,
                evicted_pages: count,
                recently_evicted_pages: count,
                first_page: count,
                last_page: count,
                offset: count,
                length: count,
                histogram: Measured::Missing(NOT_YET),
            },
            ..Row::default()
        }
    }

    /// Adds the row of the same object over the next interval.
    pub fn append(&mut self, later: &Row) {
        self.labels = later.labels.clone();
        self.elapsed += later.elapsed;
        self.ledger += &later.ledger;
        self.system = self.system.followed_by(&later.system).into();
        let (subject, later) = (&mut self.subject, &later.subject);
        subject.device_read_bytes = subject.device_read_bytes.plus(later.device_read_bytes);
        subject.device_write_bytes = subject.device_write_bytes.plus(later.device_write_bytes);
        subject.device_busy_seconds = subject.device_busy_seconds.plus(later.device_busy_seconds);
    }

    /// Whether it is a row of a file, a directory or a part of a file: it has, or will have, a
    /// path.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        self.labels.path.missing() != Some(NOT_APPLICABLE)
    }

    /// A row of a measurement, or of an interval of it, without values, for its fields.
    #[must_use]
    pub fn of_measurement() -> Row {
        let count = Measured::Missing(NOT_YET);
        Row {
            labels: Labels {
                path: Measured::Missing(NOT_YET),
                cgroup: Measured::Missing(NOT_YET),
                note: Measured::Missing(NOT_YET),
                ..Labels::default()
            },
            ledger: Ledger::all_missing(NOT_APPLICABLE),
            subject: Subject {
                cpu_seconds: Measured::Missing(NOT_YET),
                file_size_bytes: count,
                resident_before_pages: count,
                resident_after_pages: count,
                ..Row::of_system().subject
            },
            measurement: Measurement::all_missing(NOT_YET).into(),
            ..Row::of_system()
        }
    }

    /// A row of the totals of a run, without values, for its fields.
    #[must_use]
    pub fn of_run() -> Row {
        let system = Row::of_system();
        Row {
            labels: Labels {
                exit: Measured::Missing(NOT_YET),
                ..system.labels
            },
            subject: Subject {
                cpu_seconds: Measured::Missing(NOT_YET),
                ..system.subject
            },
            system: SparseFields::default(),
            ..system
        }
    }

    /// A row of a simulated memory size without values, for its fields.
    #[must_use]
    pub fn of_sizing() -> Row {
        Row {
            labels: Labels {
                note: Measured::Missing(NOT_YET),
                ..Labels::default()
            },
            ledger: Ledger::all_missing(NOT_APPLICABLE),
            sizing: Sizing::all_missing(NOT_YET).into(),
            ..Row::default()
        }
    }

    /// A row of the system, or of a part of it, over an interval, without values, for its fields.
    #[must_use]
    pub fn of_system() -> Row {
        let count = Measured::Missing(NOT_YET);
        Row {
            labels: Labels {
                time: Measured::Missing(NOT_YET),
                ..Labels::default()
            },
            subject: Subject {
                device_read_bytes: count,
                device_write_bytes: count,
                lost_events: count,
                ..Subject::default()
            },
            system: System::all_missing(NOT_YET).into(),
            elapsed: Duration::from_secs(1),
            ..Row::default()
        }
    }
}

impl Default for Labels {
    fn default() -> Self {
        Labels {
            time: Measured::Missing(NOT_APPLICABLE),
            pid: Measured::Missing(NOT_APPLICABLE),
            ppid: Measured::Missing(NOT_APPLICABLE),
            command: Measured::Missing(NOT_APPLICABLE),
            command_line: Measured::Missing(NOT_APPLICABLE),
            started: Measured::Missing(NOT_APPLICABLE),
            path: Measured::Missing(NOT_APPLICABLE),
            label: Measured::Missing(NOT_APPLICABLE),
            cgroup: Measured::Missing(NOT_APPLICABLE),
            group: GroupNames::default(),
            filesystem: Measured::Missing(NOT_APPLICABLE),
            device: Measured::Missing(NOT_APPLICABLE),
            inode: Measured::Missing(NOT_APPLICABLE),
            exit: Measured::Missing(NOT_APPLICABLE),
            links: Measured::Missing(NOT_APPLICABLE),
            note: Measured::Missing(NOT_APPLICABLE),
        }
    }
}

impl Default for Subject {
    fn default() -> Self {
        Subject {
            cpu_seconds: Measured::Missing(NOT_APPLICABLE),
            device_read_bytes: Measured::Missing(NOT_APPLICABLE),
            device_write_bytes: Measured::Missing(NOT_APPLICABLE),
            device_busy_seconds: Measured::Missing(NOT_APPLICABLE),
            resident_before_pages: Measured::Missing(NOT_APPLICABLE),
            resident_after_pages: Measured::Missing(NOT_APPLICABLE),
            file_size_bytes: Measured::Missing(NOT_APPLICABLE),
            lost_events: Measured::Missing(NOT_APPLICABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_row_has_missing_names() {
        let row = Row::default();
        assert_eq!(
            row.labels.pid.missing(),
            Some(NOT_APPLICABLE),
            "no process is not process 0"
        );
        assert_eq!(
            row.system.cached_bytes.missing(),
            Some(NOT_APPLICABLE),
            "nor is the cache empty"
        );
        assert!(row.ledger.is_zero(), "its counters start at zero");
    }
}
