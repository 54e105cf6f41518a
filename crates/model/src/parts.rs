//! The parts of an interval: files, processes, control groups, devices; each converts to a [`Row`].

use std::path::PathBuf;

use cachewise_units::PageSize;

use crate::exit::Exit;
use crate::group_names::GroupNames;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured};
use crate::reason::Reason;
use crate::row::{Labels, Row, Subject};
use crate::system::System;

/// Name of the row that sums up everything that did not fit into the table of rows.
pub const ALL_OTHERS: &str = "(all others)";

/// The number of a file. No two files have the same at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileNumber {
    /// The device of its file system, `major:minor`.
    pub device: String,
    /// Its inode number; 0 for a block device.
    pub inode: u64,
}

/// A file that was used.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRow {
    /// Its path; the last one of a deleted file.
    pub path: Measured<PathBuf>,
    /// Its label; not applicable without a list of labels.
    pub label: Measured<String>,
    /// Whether the name was deleted.
    pub deleted: bool,
    /// The type of its file system.
    pub filesystem: Measured<String>,
    /// Its number; `None` for the sum of all files without a row of their own.
    pub number: Option<FileNumber>,
    /// Its size at the end.
    pub size_bytes: Count,
    /// Its pages in the page cache before.
    pub resident_before_pages: Count,
    /// Its pages in the page cache after.
    pub resident_after_pages: Count,
    /// Requests to it.
    pub ledger: Ledger,
    /// Whether it was opened with O_DIRECT at least once.
    pub direct: bool,
}

impl FileRow {
    /// This file as a row.
    #[must_use]
    pub fn row(&self) -> Row {
        let (device, inode) = match &self.number {
            Some(number) => (
                Measured::Exact(number.device.clone()),
                Measured::Exact(number.inode),
            ),
            None => (
                Measured::not_offered(Reason::SumOfOthers),
                Measured::not_offered(Reason::SumOfOthers),
            ),
        };
        Row {
            labels: Labels {
                path: self.path.clone(),
                label: self.label.clone(),
                filesystem: self.filesystem.clone(),
                device,
                inode,
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

    /// Whether this is the sum of all files without a row of their own.
    #[must_use]
    pub fn is_all_others(&self) -> bool {
        self.number.is_none()
    }

    /// Adds the same file's counts of the next interval: counters are summed, all else is the later
    /// value.
    pub fn append(&mut self, later: FileRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.resident_before_pages = earlier.resident_before_pages;
        self.direct |= earlier.direct;
        self.size_bytes = last_known(earlier.size_bytes, self.size_bytes);
    }

    /// The number of pages of the file, if its size is exactly known and not zero.
    #[must_use]
    pub fn pages(&self, page_size: PageSize) -> Option<u64> {
        let size = self.size_bytes.exact().filter(|size| *size > 0)?;
        Some(size.div_ceil(page_size.get()))
    }
}

/// A process of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessRow {
    /// Process id (thread group); `None` for the sum of all processes without a row of their own.
    pub pid: Option<u32>,
    /// Its start in nanoseconds since boot.
    pub started: Measured<u64>,
    /// Its parent.
    pub ppid: Measured<u32>,
    /// The program's name.
    pub command: Measured<String>,
    /// Its control group.
    pub cgroup: Measured<String>,
    /// Its exit.
    pub exit: Exit,
    /// CPU time, user and system.
    pub cpu_seconds: Measured<f64>,
    /// Bytes read from storage devices for it.
    pub device_read_bytes: Count,
    /// Bytes written to storage devices for it.
    pub device_write_bytes: Count,
    /// Its requests to the page cache.
    pub ledger: Ledger,
}

impl ProcessRow {
    /// Adds the same process's counts of the next interval: counters are summed, all else is the
    /// later value.
    pub fn append(&mut self, later: ProcessRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.cpu_seconds = earlier.cpu_seconds.zip(self.cpu_seconds, |a, b| a + b);
        self.device_read_bytes = earlier.device_read_bytes.plus(self.device_read_bytes);
        self.device_write_bytes = earlier.device_write_bytes.plus(self.device_write_bytes);
    }

    /// Whether this is the sum of all processes without a row of their own.
    #[must_use]
    pub fn is_all_others(&self) -> bool {
        self.pid.is_none()
    }

    /// This process as a row.
    #[must_use]
    pub fn row(&self) -> Row {
        Row {
            labels: Labels {
                pid: self
                    .pid
                    .map_or(Measured::not_offered(Reason::SumOfOthers), Measured::Exact),
                started: self.started,
                ppid: self.ppid,
                command: match self.is_all_others() {
                    true => Measured::Exact(ALL_OTHERS.to_owned()),
                    false => self.command.clone(),
                },
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

/// A control group of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupRow {
    /// Its path below the root of the hierarchy.
    pub path: Measured<String>,
    /// Its unit, container and pod.
    pub names: GroupNames,
    /// Its processes' requests to the page cache.
    pub ledger: Ledger,
    /// Memory charged to it and its descendants.
    pub system: System,
    /// The file that sets its own memory limit.
    pub memory_limit_path: Measured<PathBuf>,
}

impl CgroupRow {
    /// Adds the same group's counts of the next interval: counters are summed, all else is the
    /// later value.
    pub fn append(&mut self, later: CgroupRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.system = earlier.system.followed_by(&self.system);
        if self.memory_limit_path.missing().is_some() {
            self.memory_limit_path = earlier.memory_limit_path;
        }
    }

    /// This control group as a row.
    #[must_use]
    pub fn row(&self) -> Row {
        let labels = Labels {
            cgroup: self.path.clone(),
            group: self.names.clone(),
            ..Labels::default()
        };
        Row {
            labels,
            ledger: self.ledger.clone(),
            system: self.system.clone().into(),
            ..Row::default()
        }
    }
}

/// A storage device, or a file system without one.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// Its number, `major:minor`, as in the rows of its files.
    pub device: String,
    /// Its name, `/dev/vda1`.
    pub path: Measured<PathBuf>,
    /// The type of the file system on it.
    pub filesystem: Measured<String>,
    /// Requests to the files on it, and to itself as a file.
    pub ledger: Ledger,
    /// Bytes read from it, for any purpose.
    pub device_read_bytes: Count,
    /// Bytes written to it.
    pub device_write_bytes: Count,
    /// Nanoseconds during which its disk had a request in progress.
    pub busy: Count,
}

impl DeviceRow {
    /// Adds the same device's counts of the next interval: counters are summed, all else is the
    /// later value.
    pub fn append(&mut self, later: DeviceRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.device_read_bytes = earlier.device_read_bytes.plus(self.device_read_bytes);
        self.device_write_bytes = earlier.device_write_bytes.plus(self.device_write_bytes);
        self.busy = earlier.busy.plus(self.busy);
    }

    /// This device as a row.
    #[must_use]
    pub fn row(&self) -> Row {
        Row {
            labels: Labels {
                device: Measured::Exact(self.device.clone()),
                path: self.path.clone(),
                filesystem: self.filesystem.clone(),
                ..Labels::default()
            },
            ledger: self.ledger.clone(),
            subject: Subject {
                device_read_bytes: self.device_read_bytes,
                device_write_bytes: self.device_write_bytes,
                device_busy_seconds: self.busy,
                ..Subject::default()
            },
            ..Row::default()
        }
    }
}

/// The last known size of a file that may be gone.
fn last_known(earlier: Count, later: Count) -> Count {
    match (later, earlier) {
        (Measured::Exact(_), _) => later,
        (_, Measured::Exact(size) | Measured::Estimated(size, Reason::SizeSeenLast))
            if size > 0 =>
        {
            Measured::Estimated(size, Reason::SizeSeenLast)
        }
        _ => later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::field;

    #[test]
    fn pages_of_a_file_without_size_is_none() {
        let page_size = PageSize::new(4 << 10).unwrap();
        let mut file = crate::findings::sample::file("/data", 4097);
        assert_eq!(file.pages(page_size), Some(2), "a page begun counts");
        file.size_bytes = Measured::Exact(0);
        assert_eq!(
            file.pages(page_size),
            None,
            "an empty file has none to compare with"
        );
        file.size_bytes = Measured::Estimated(4097, Reason::ByVmstat);
        assert_eq!(
            file.pages(page_size),
            None,
            "nor has one whose size is a guess"
        );
    }

    #[test]
    fn append_keeps_the_last_known_size() {
        let mut file = crate::findings::sample::file("/data", 4097);
        let mut gone = file.clone();
        gone.size_bytes = Measured::unknown(Reason::FileGone);
        for _ in 0..2 {
            file.append(gone.clone());
            assert_eq!(
                (file.size_bytes.exact(), file.size_bytes.known()),
                (None, Some(4097)),
                "the last known, however long ago, and said to be that"
            );
        }
        gone.size_bytes = Measured::Exact(1);
        file.append(gone.clone());
        assert_eq!(file.size_bytes, Measured::Exact(1), "it is back");
        file.size_bytes = Measured::Exact(0);
        gone.size_bytes = Measured::unknown(Reason::FileGone);
        file.append(gone);
        assert!(
            file.size_bytes.missing().is_some(),
            "empty when it was looked at, and read since: nothing is known"
        );
    }

    #[test]
    fn overflow_row_is_not_a_file() {
        let mut file = crate::findings::sample::file("/data", 4097);
        file.path = Measured::unknown(Reason::SumOfOthers);
        assert!(!file.is_all_others(), "a file without a name has a number");
        let labels = file.row().labels;
        assert!(labels.inode.known().is_some(), "which its row has");
        file.number = None;
        assert!(file.is_all_others(), "neither name nor number");
        let labels = file.row().labels;
        assert!(
            labels.inode.missing().is_some() && labels.device.missing().is_some(),
            "all others have none"
        );
    }

    #[test]
    fn overflow_row_is_not_a_process() {
        let mut process = crate::findings::sample::process(0, &[]);
        assert_eq!(
            process.row().labels.pid,
            Measured::Exact(0),
            "the idle task"
        );
        process.pid = None;
        let labels = process.row().labels;
        assert!(labels.pid.missing().is_some(), "a sum has no number");
        assert_eq!(
            labels.command,
            Measured::Exact(ALL_OTHERS.into()),
            "but a name"
        );
    }

    #[test]
    fn parts_convert_to_rows() {
        let file = crate::findings::sample::file("/data", 4097);
        let size = field("SIZE").unwrap().of(&file.row());
        assert_eq!(
            size,
            Measured::Exact(4097).bytes(),
            "a file's row has its size"
        );
        let pid = field("pid").unwrap().of(&file.row());
        assert!(pid.missing().is_some(), "and no process id");
    }
}
