//! The parts of a report: files, processes, control groups, devices; each is also a [`Row`] of the one table.

use std::path::PathBuf;

use cachewise_units::PageSize;

use crate::exit::Exit;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured, Missing};
use crate::row::{Labels, Row, Subject};
use crate::system::System;

/// The name of the row that takes what found no room in the table of rows.
pub const ALL_OTHERS: &str = "(all others)";
const NO_ROOM: &str = "the sum of what found no room in the table of rows";

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
        // Numbers that no file has are not to be taken for one's.
        let others = self.is_all_others().then_some(Missing::NotOffered(NO_ROOM));
        Row {
            labels: Labels {
                path: self.path.clone(),
                filesystem: self.filesystem.clone(),
                device: others
                    .map_or_else(|| Measured::Exact(self.device.clone()), Measured::Missing),
                inode: others.map_or(Measured::Exact(self.inode), Measured::Missing),
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

    /// Whether this is no file but the row that takes what found no room in the table of rows.
    #[must_use]
    pub fn is_all_others(&self) -> bool {
        // Block devices have no inode number, but no device has the number 0:0.
        self.path.missing().is_some() && self.inode == 0 && self.device == "0:0"
    }

    /// Adds what the same file did in the stretch after this one: counts are summed, all else is the later.
    pub fn append(&mut self, later: FileRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.resident_before_pages = earlier.resident_before_pages;
        self.direct |= earlier.direct;
        self.size_bytes = last_known(earlier.size_bytes, self.size_bytes);
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
    /// Its start in nanoseconds since boot.
    pub started: Measured<u64>,
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
    /// Adds what the same process did in the stretch after this one: counts are summed, all else is the later.
    pub fn append(&mut self, later: ProcessRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.cpu_seconds = earlier.cpu_seconds.zip(self.cpu_seconds, |a, b| a + b);
        self.device_read_bytes = earlier.device_read_bytes.plus(self.device_read_bytes);
        self.device_write_bytes = earlier.device_write_bytes.plus(self.device_write_bytes);
    }

    /// Whether this is no process but the row that takes what found no room in the table of rows.
    #[must_use]
    pub fn is_all_others(&self) -> bool {
        self.command.missing().is_some() && self.pid == 0
    }

    /// This process as a row of the one table.
    #[must_use]
    pub fn row(&self) -> Row {
        let is_one = !self.is_all_others();
        Row {
            labels: Labels {
                pid: match is_one {
                    true => Measured::Exact(self.pid),
                    false => Measured::not_offered(NO_ROOM),
                },
                started: self.started,
                ppid: self.ppid,
                command: match is_one {
                    true => self.command.clone(),
                    false => Measured::Exact(ALL_OTHERS.to_owned()),
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

/// One control group of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupRow {
    /// Its path below the root of the hierarchy.
    pub path: Measured<String>,
    /// The service, session, container or pod that it is made for.
    pub unit: Measured<String>,
    /// What its processes asked of the page cache.
    pub ledger: Ledger,
    /// What is charged to it, and to those under it.
    pub system: System,
}

impl CgroupRow {
    /// Adds what the same group did in the stretch after this one: counts are summed, all else is the later.
    pub fn append(&mut self, later: CgroupRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.system = earlier.system.followed_by(&self.system);
    }

    /// This control group as a row of the one table.
    #[must_use]
    pub fn row(&self) -> Row {
        let labels = Labels {
            cgroup: self.path.clone(),
            unit: self.unit.clone(),
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

/// One storage device, or a file system without one.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// Its number, `major:minor`, as files name the device that they are on.
    pub device: String,
    /// Its name, `/dev/vda1`.
    pub path: Measured<PathBuf>,
    /// The type of the file system on it.
    pub filesystem: Measured<String>,
    /// What was asked of the files on it, and of itself as a file.
    pub ledger: Ledger,
    /// Bytes that it read, whoever asked.
    pub device_read_bytes: Count,
    /// Bytes that it wrote.
    pub device_write_bytes: Count,
}

impl DeviceRow {
    /// Adds what the same device did in the stretch after this one: counts are summed, all else is the later.
    pub fn append(&mut self, later: DeviceRow) {
        let earlier = std::mem::replace(self, later);
        self.ledger = earlier.ledger + std::mem::take(&mut self.ledger);
        self.device_read_bytes = earlier.device_read_bytes.plus(self.device_read_bytes);
        self.device_write_bytes = earlier.device_write_bytes.plus(self.device_write_bytes);
    }

    /// This device as a row of the one table.
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
                ..Subject::default()
            },
            ..Row::default()
        }
    }
}

/// A file's size as it was when it could be asked last: of one that is gone nobody knows more.
fn last_known(earlier: Count, later: Count) -> Count {
    const SEEN_LAST: &str = "as it was when the file was last looked at";
    match (later, earlier) {
        (Measured::Exact(_), _) => later,
        (_, Measured::Exact(size) | Measured::Estimated(size, SEEN_LAST)) if size > 0 => {
            Measured::Estimated(size, SEEN_LAST)
        }
        _ => later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::field;

    #[test]
    fn a_file_without_a_size_has_no_pages() {
        let page_size = PageSize::new(4 << 10).unwrap();
        let mut file = crate::findings::sample::file("/data", 4097);
        assert_eq!(file.pages(page_size), Some(2), "a page begun counts");
        file.size_bytes = Measured::Exact(0);
        assert_eq!(
            file.pages(page_size),
            None,
            "an empty file has none to compare with"
        );
        file.size_bytes = Measured::Estimated(4097, "guessed");
        assert_eq!(
            file.pages(page_size),
            None,
            "nor has one whose size is a guess"
        );
    }

    #[test]
    fn a_file_that_is_gone_has_the_size_that_it_had_last() {
        let mut file = crate::findings::sample::file("/data", 4097);
        let mut gone = file.clone();
        gone.size_bytes = Measured::unknown("gone");
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
        gone.size_bytes = Measured::unknown("gone");
        file.append(gone);
        assert!(
            file.size_bytes.missing().is_some(),
            "empty when it was looked at, and read since: nothing is known"
        );
    }

    #[test]
    fn what_found_no_room_is_no_file() {
        let mut file = crate::findings::sample::file("/data", 4097);
        (file.device, file.inode) = ("0:0".into(), 0);
        assert!(!file.is_all_others(), "it has a name");
        file.path = Measured::unknown("no room");
        assert!(file.is_all_others(), "neither name nor number");
        file.inode = 1;
        assert!(!file.is_all_others(), "a file system's inner inode");
        let labels = file.row().labels;
        assert!(labels.inode.known().is_some(), "which has its number");
        (file.device, file.inode) = ("0:0".into(), 0);
        let labels = file.row().labels;
        assert!(
            labels.inode.missing().is_some() && labels.device.missing().is_some(),
            "all others have none"
        );
        (file.device, file.inode) = ("7:0".into(), 0);
        assert!(!file.is_all_others(), "a block device without a name");
    }

    #[test]
    fn all_others_are_no_process() {
        let mut process = crate::findings::sample::process(0, &[]);
        assert_eq!(
            process.row().labels.pid,
            Measured::Exact(0),
            "the idle task"
        );
        process.command = Measured::unknown("no room");
        let labels = process.row().labels;
        assert!(labels.pid.missing().is_some(), "a sum has no number");
        assert_eq!(
            labels.command,
            Measured::Exact(ALL_OTHERS.into()),
            "but a name"
        );
    }

    #[test]
    fn parts_become_rows_of_the_table() {
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
