//! What a run of a program gave: everything that `run` prints, in any format, is in here.
//!
//! # Layout
//! - [`Report`]: the whole; [`Backend`], [`Lost`]: how far to trust it.
//! - [`FileRow`], [`ProcessRow`], [`CgroupRow`]: its parts, each also as a [`Row`] of the one table.
//! - [`Surroundings`]: the machine's state and limits, which some findings need.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::PageSize;

use crate::exit::Exit;
use crate::finding::Finding;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured, Missing};
use crate::row::{Labels, Row, Subject};

/// The version of the JSON documents; goes up when a name or a meaning changes.
pub const SCHEMA_VERSION: u32 = 1;

/// The reason behind a number that the caller never put in.
const NOT_MEASURED: Missing = Missing::NotOffered("not measured in this run");

/// What a run of a program gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// When the run began, RFC 3339.
    pub timestamp: String,
    /// The machine's name.
    pub hostname: String,
    /// The page size by which pages become bytes.
    pub page_size: PageSize,
    /// The kernel's release.
    pub kernel: String,
    /// The command and its arguments; empty where a process was followed.
    pub command: Vec<String>,
    /// The process that was followed instead of a command.
    pub followed: Option<u32>,
    /// How the command ended.
    pub exit: Exit,
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time in user mode.
    pub cpu_user_seconds: Measured<f64>,
    /// Processor time in the kernel.
    pub cpu_system_seconds: Measured<f64>,
    /// What counted.
    pub backend: Backend,
    /// What was not counted.
    pub lost: Vec<Lost>,
    /// Everything that the processes asked of the page cache.
    pub totals: Ledger,
    /// Bytes read from what has no page cache behind it: pipes, sockets, terminals, tmpfs, proc.
    pub outside_bytes: Count,
    /// Bytes that came from storage devices for these processes.
    pub device_read_bytes: Count,
    /// Bytes that these processes caused to go to storage devices.
    pub device_write_bytes: Count,
    /// Per file.
    pub files: Vec<FileRow>,
    /// Per process.
    pub processes: Vec<ProcessRow>,
    /// Per control group.
    pub cgroups: Vec<CgroupRow>,
    /// The machine around the run.
    pub surroundings: Surroundings,
    /// What is wrong; made from the rest by [`crate::diagnose`].
    pub findings: Vec<Finding>,
}

impl Report {
    /// A report in which nothing was measured yet.
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
            findings: Vec::new(),
        }
    }

    /// The totals as a row of the one table.
    #[must_use]
    pub fn total_row(&self) -> Row {
        let cpu_seconds = self.cpu_user_seconds.zip(self.cpu_system_seconds, |user, sys| user + sys);
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
                ..Subject::default()
            },
            elapsed: self.wall,
            ..Row::default()
        }
    }
}

/// What counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backend {
    /// Its name: `tracepoints`, `procfs`.
    pub name: String,
    /// Whether its numbers are exact to the page.
    pub exact: bool,
    /// What a reader should know: probes that were refused, what is missing, how to get more.
    pub notes: Vec<String>,
}

/// Something that was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Its name in machine formats.
    pub id: &'static str,
    /// How often it happened.
    pub count: u64,
    /// What it does to the numbers.
    pub meaning: &'static str,
}

/// One file that was used.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRow {
    /// Its path; of a deleted file the last one.
    pub path: Measured<PathBuf>,
    /// Whether the name is gone.
    pub deleted: bool,
    /// The type of its file system.
    pub filesystem: Measured<String>,
    /// The device of its file system, `major:minor`.
    pub device: String,
    /// Its inode number.
    pub inode: u64,
    /// Its size at the end.
    pub size_bytes: Count,
    /// Its pages in the page cache before.
    pub resident_before_pages: Count,
    /// Its pages in the page cache after.
    pub resident_after_pages: Count,
    /// What was asked of it.
    pub ledger: Ledger,
    /// Whether it was opened around the page cache (O_DIRECT) at least once.
    pub direct: bool,
}

impl FileRow {
    /// This file as a row of the one table.
    #[must_use]
    pub fn row(&self) -> Row {
        Row {
            labels: Labels {
                path: self.path.clone(),
                filesystem: self.filesystem.clone(),
                device: Measured::Exact(self.device.clone()),
                inode: Measured::Exact(self.inode),
                ..Labels::default()
            },
            ledger: self.ledger.clone(),
            subject: Subject {
                file_size_bytes: self.size_bytes,
                resident_before_pages: self.resident_before_pages,
                resident_after_pages: self.resident_after_pages,
                ..Subject::default()
            },
            ..Row::default()
        }
    }

    /// How many pages the file has, if its size is exactly known and not zero.
    #[must_use]
    pub fn pages(&self, page_size: PageSize) -> Option<u64> {
        let size = self.size_bytes.exact().filter(|size| *size > 0)?;
        Some(size.div_ceil(page_size.get()))
    }
}

/// One process of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessRow {
    /// Process id (thread group).
    pub pid: u32,
    /// Its parent.
    pub ppid: Measured<u32>,
    /// The program's name.
    pub command: Measured<String>,
    /// Its control group.
    pub cgroup: Measured<String>,
    /// How it ended.
    pub exit: Exit,
    /// Processor time, user and system.
    pub cpu_seconds: Measured<f64>,
    /// Bytes that came from storage devices for it.
    pub device_read_bytes: Count,
    /// Bytes that it caused to go to storage devices.
    pub device_write_bytes: Count,
    /// What it asked of the page cache.
    pub ledger: Ledger,
}

impl ProcessRow {
    /// This process as a row of the one table.
    #[must_use]
    pub fn row(&self) -> Row {
        Row {
            labels: Labels {
                pid: Measured::Exact(self.pid),
                ppid: self.ppid,
                command: self.command.clone(),
                cgroup: self.cgroup.clone(),
                exit: match self.exit {
                    Exit::Unknown(reason) => Measured::unknown(reason),
                    known => Measured::Exact(known.to_string()),
                },
                ..Labels::default()
            },
            ledger: self.ledger.clone(),
            subject: Subject {
                cpu_seconds: self.cpu_seconds,
                device_read_bytes: self.device_read_bytes,
                device_write_bytes: self.device_write_bytes,
                ..Subject::default()
            },
            ..Row::default()
        }
    }
}

/// One control group of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupRow {
    /// Its path below the root of the hierarchy.
    pub path: Measured<String>,
    /// What its processes asked of the page cache.
    pub ledger: Ledger,
}

impl CgroupRow {
    /// This control group as a row of the one table.
    #[must_use]
    pub fn row(&self) -> Row {
        let labels = Labels { cgroup: self.path.clone(), ..Labels::default() };
        Row { labels, ledger: self.ledger.clone(), ..Row::default() }
    }
}

/// The machine around the run, at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Memory of the machine.
    pub memory_total_bytes: Count,
    /// Memory that could be had without swapping.
    pub memory_available_bytes: Count,
    /// The memory limit of the run's control group, the tightest above it; not offered if none.
    pub cgroup_limit_bytes: Count,
    /// Page cache waiting for write-back; the peak, if it was watched.
    pub dirty_bytes: Count,
    /// Dirty memory at which writers are stopped (`nr_dirty_threshold`).
    pub dirty_limit_bytes: Count,
    /// Dirty memory at which write-back starts (`nr_dirty_background_threshold`).
    pub dirty_background_bytes: Count,
}

impl Default for Surroundings {
    fn default() -> Self {
        Surroundings {
            memory_total_bytes: Measured::Missing(NOT_MEASURED),
            memory_available_bytes: Measured::Missing(NOT_MEASURED),
            cgroup_limit_bytes: Measured::Missing(NOT_MEASURED),
            dirty_bytes: Measured::Missing(NOT_MEASURED),
            dirty_limit_bytes: Measured::Missing(NOT_MEASURED),
            dirty_background_bytes: Measured::Missing(NOT_MEASURED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::field;

    #[test]
    fn a_file_without_a_size_has_no_pages() {
        let page_size = PageSize::new(4 << 10).unwrap();
        let mut file = crate::findings::sample::file("/data", 4097);
        assert_eq!(file.pages(page_size), Some(2), "a page begun counts");
        file.size_bytes = Measured::Exact(0);
        assert_eq!(file.pages(page_size), None, "an empty file has none to compare with");
        file.size_bytes = Measured::Estimated(4097, "guessed");
        assert_eq!(file.pages(page_size), None, "nor has one whose size is a guess");
    }

    #[test]
    fn parts_become_rows_of_the_table() {
        let file = crate::findings::sample::file("/data", 4097);
        let size = field("SIZE").unwrap().of(&file.row());
        assert_eq!(size, Measured::Exact(4097).bytes(), "a file's row has its size");
        let pid = field("pid").unwrap().of(&file.row());
        assert!(pid.missing().is_some(), "and no process id");
    }
}
