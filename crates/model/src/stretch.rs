//! What the machine and everybody on it did in one stretch of time: what live views show, recordings keep
//! and exporters add up.
//!
//! All counts are those of the stretch alone, so that stretches can be summed: what the sum over a
//! process's stretches says is what a run over the same time would have said, to the page. Gauges are those
//! at its end.

use std::time::Duration;

use crate::ledger::Ledger;
use crate::parts::{CgroupRow, DeviceRow, FileRow, ProcessRow};
use crate::report::Lost;
use crate::row::{Labels, Row, Subject};
use crate::system::System;
use crate::{Count, Measured};

/// One stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Its end, RFC 3339.
    pub time: String,
    /// How long it was, by a clock that runs on while the machine sleeps and that nobody sets.
    pub elapsed: Duration,
    /// What everybody asked of the page cache: the sum over `uses`.
    pub ledger: Ledger,
    /// The machine's own numbers.
    pub system: System,
    /// Bytes that storage devices read, whoever asked.
    pub device_read_bytes: Count,
    /// Bytes that storage devices wrote.
    pub device_write_bytes: Count,
    /// Processes that have used the page cache since the watch began, and are alive or ended in this stretch.
    pub processes: Vec<ProcessRow>,
    /// Files that were used in this stretch.
    pub files: Vec<FileRow>,
    /// Control groups.
    pub cgroups: Vec<CgroupRow>,
    /// Storage devices, and file systems without one.
    pub devices: Vec<DeviceRow>,
    /// Who used what.
    pub uses: Vec<Use>,
    /// What was not counted as it should be, in this stretch.
    pub lost: Vec<Lost>,
}

/// What one process did with one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Use {
    /// Place in [`Stretch::processes`]; none for what happened to the file, whoever caused it.
    pub process: Option<usize>,
    /// Place in [`Stretch::files`].
    pub file: usize,
    /// The counts.
    pub ledger: Ledger,
}

impl Stretch {
    /// The whole machine as a row of the one table.
    #[must_use]
    pub fn row(&self) -> Row {
        Row {
            labels: Labels {
                time: Measured::Exact(self.time.clone()),
                ..Labels::default()
            },
            ledger: self.ledger.clone(),
            subject: Subject {
                device_read_bytes: self.device_read_bytes,
                device_write_bytes: self.device_write_bytes,
                ..Subject::default()
            },
            system: self.system.clone(),
            elapsed: self.elapsed,
            ..Row::default()
        }
    }

    /// A row of a part, over this stretch.
    fn dated(&self, mut row: Row) -> Row {
        row.labels.time = Measured::Exact(self.time.clone());
        row.elapsed = self.elapsed;
        row
    }

    /// The processes as rows of the one table.
    pub fn process_rows(&self) -> impl Iterator<Item = Row> {
        self.processes.iter().map(|part| self.dated(part.row()))
    }

    /// The files as rows of the one table.
    pub fn file_rows(&self) -> impl Iterator<Item = Row> {
        self.files.iter().map(|part| self.dated(part.row()))
    }

    /// The control groups as rows of the one table.
    pub fn cgroup_rows(&self) -> impl Iterator<Item = Row> {
        self.cgroups.iter().map(|part| self.dated(part.row()))
    }

    /// The devices as rows of the one table.
    pub fn device_rows(&self) -> impl Iterator<Item = Row> {
        self.devices.iter().map(|part| self.dated(part.row()))
    }
}
