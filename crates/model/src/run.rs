//! A command that ran under the probe, or a process that was followed: its own facts, beside those
//! of every interval.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::law::Law;
use crate::measured::{Count, Measured, NOT_MEASURED};
use crate::parts::CgroupRow;
use crate::reason::Reason;

/// A command that ran, or a process that was followed, during an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its start, RFC 3339.
    pub begin: String,
    /// The command and its arguments; empty if a process was followed.
    pub command: Vec<String>,
    /// The followed process, if there was no command.
    pub followed: Option<u32>,
    /// The command's exit.
    pub exit: Exit,
    /// CPU time in user mode.
    pub cpu_user_seconds: Measured<f64>,
    /// CPU time in the kernel.
    pub cpu_system_seconds: Measured<f64>,
    /// Bytes read from sources without page cache: pipes, sockets, terminals, tmpfs, proc.
    pub outside_bytes: Count,
    /// The machine around the run.
    pub surroundings: Surroundings,
    /// Control groups above those of the rows: their limits hold too.
    pub groups_above: Vec<CgroupRow>,
    /// Checks of rows against independent counts; empty where they were not requested.
    pub row_laws: Vec<Law>,
    /// The run repeated with a warm cache; `None` where it was not requested.
    pub verification: Option<Verification>,
}

/// A run that was repeated with its files in the page cache, to compare its time with the prediction.
#[derive(Debug, Clone, PartialEq)]
pub enum Verification {
    /// It was repeated.
    Done {
        /// The predicted length, in seconds.
        predicted_seconds: f64,
        /// Its length.
        measured_seconds: f64,
        /// The time that it still spent on cold data.
        cold_seconds: f64,
        /// Pages that its reads and page faults missed: they had been evicted.
        missed_pages: u64,
    },
    /// It was not repeated, for this reason and with this fix.
    Refused(String),
}

impl Run {
    /// A run without measurements.
    pub(crate) const fn new() -> Run {
        Run {
            begin: String::new(),
            command: Vec::new(),
            followed: None,
            exit: Exit::Unknown(Reason::EndNotRecorded),
            cpu_user_seconds: Measured::Missing(NOT_MEASURED),
            cpu_system_seconds: Measured::Missing(NOT_MEASURED),
            outside_bytes: Measured::Missing(NOT_MEASURED),
            surroundings: Surroundings::new(),
            groups_above: Vec::new(),
            row_laws: Vec::new(),
            verification: None,
        }
    }
}

impl Default for Run {
    fn default() -> Self {
        Run::new()
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
    /// Page cache that is dirty or under writeback; the peak, if it was watched.
    pub dirty_bytes: Count,
    /// Dirty memory at which writers are throttled (`nr_dirty_threshold`).
    pub dirty_limit_bytes: Count,
    /// Dirty memory at which writeback starts (`nr_dirty_background_threshold`).
    pub dirty_background_bytes: Count,
}

impl Surroundings {
    const fn new() -> Surroundings {
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

impl Default for Surroundings {
    fn default() -> Self {
        Surroundings::new()
    }
}
