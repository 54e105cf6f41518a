//! Counts of a probe.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_kstat::Device;
use cachewise_model::{EvictionCause, Ledger};
use cachewise_units::{Bytes, Pages};

/// A kind of call that changes files or their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// unlink, rmdir and the like.
    Remove,
    /// rename.
    Rename,
    /// mkdir, link, symlink and the like.
    Make,
    /// truncate, ftruncate.
    Truncate,
}

impl Change {
    /// Every kind, in the order of the probe's counts, whose first has none.
    pub(crate) const ALL: [Change; 4] = [
        Change::Remove,
        Change::Rename,
        Change::Make,
        Change::Truncate,
    ];

    /// The change, as the rest of a sentence about a program.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Change::Remove => "removed files",
            Change::Rename => "renamed files",
            Change::Make => "made directories or links",
            Change::Truncate => "truncated files",
        }
    }
}

/// A process; ids are handed out again, so its start belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// The thread group, by the kernel's own number for it: that of the first PID namespace.
    pub tgid: u32,
    /// Nanoseconds from boot to its start, on the monotonic clock.
    pub start: u64,
}

/// A file as stat(2) names it; a block device is its own number and inode 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device, major number.
    pub major: u32,
    /// Device, minor number.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
    /// Tells files apart that had the same inode number one after the other.
    pub generation: u32,
    /// Tells file systems apart that had the same device number one after the other, such as two images on one
    /// loop device; 0 for block devices.
    pub volume: u32,
}

impl FileId {
    /// Returns whether it names a file: the key of what tables have no room for is 0.
    pub(crate) const fn is_known(&self) -> bool {
        !matches!((self.major, self.minor, self.inode), (0, 0, 0))
    }

    /// Its device; of a block device that one itself.
    #[must_use]
    pub const fn device(&self) -> Device {
        Device {
            major: self.major,
            minor: self.minor,
        }
    }
}

/// Kind of owner of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A file with a name, or one that had one.
    File,
    /// A block device: read as a file, or the file system's metadata on it.
    BlockDevice,
    /// A file system's inner inode, without a name.
    Internal,
}

/// Properties of a file other than its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// The path in this process's mount namespace, if a mount there shows it; if the file system was unmounted
    /// since, the path at its first use.
    pub path: Option<PathBuf>,
    /// Path from the root of its file system. A path of more than 256 levels or 4,096 bytes is cut to a relative path
    /// that begins with `…`, and [`path`](FileInfo::path) is unknown.
    pub path_in_file_system: Option<PathBuf>,
    /// It had no name at its last record.
    pub deleted: bool,
    /// Its kind.
    pub kind: FileKind,
    /// The file system's type, as in mountinfo.
    pub file_system: Option<String>,
    /// Size at the first event.
    pub size: Bytes,
    /// Resident pages just before the first event that this probe counted for it.
    pub resident_before: Pages,
    /// The process of that event had one thread. With more, another thread may have been between an insert and its
    /// event: that page is in `resident_before` and also counted as inserted.
    pub first_used_alone: bool,
    /// The file system reports buffered writes, so that write counts are complete.
    pub writes_are_seen: bool,
}

/// A process's own account since the probe follows it. For the whole system: since the probe was attached or the
/// process began, whichever was later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process.
    pub id: ProcessId,
    /// Its process id here: 0 if it is not in this process's PID namespace.
    pub pid: u32,
    /// The process id of its parent at the last record.
    pub parent: u32,
    /// Its command name, at most 15 bytes.
    pub command: String,
    /// The kernfs id of its control group when last looked at.
    pub cgroup: u64,
    /// Wait status, if it has ended.
    pub exit_status: Option<u32>,
    /// CPU time, to the nanosecond.
    pub cpu_time: Duration,
    /// The part of it in user mode, as the clock tick sampled it: 0 for what is short.
    pub user_time: Duration,
    /// The part of it in the kernel, sampled likewise.
    pub system_time: Duration,
    /// Bytes asked of read calls of any kind: files, pipes, sockets.
    pub read_call_bytes: Bytes,
    /// Bytes given to write calls of any kind.
    pub write_call_bytes: Bytes,
    /// Bytes that it had fetched from block devices.
    pub device_read: Bytes,
    /// Bytes that it made to be written to block devices, less those cancelled in time.
    pub device_written: Bytes,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
}

impl ProcessInfo {
    /// Its use of resources since `earlier`.
    pub(crate) fn since(&self, earlier: &ProcessInfo) -> ProcessInfo {
        let bytes = |now: Bytes, then: Bytes| Bytes(now.0.saturating_sub(then.0));
        ProcessInfo {
            cpu_time: self.cpu_time.saturating_sub(earlier.cpu_time),
            user_time: self.user_time.saturating_sub(earlier.user_time),
            system_time: self.system_time.saturating_sub(earlier.system_time),
            read_call_bytes: bytes(self.read_call_bytes, earlier.read_call_bytes),
            write_call_bytes: bytes(self.write_call_bytes, earlier.write_call_bytes),
            device_read: bytes(self.device_read, earlier.device_read),
            device_written: bytes(self.device_written, earlier.device_written),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            ..self.clone()
        }
    }
}

/// One process's account on one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `None` for events of the file that belong to no process (evictions).
    pub process: Option<ProcessId>,
    /// The file; `None` for times that a process spent on no file, and, without a process, on the one row that sums up
    /// files beyond the size of the table.
    pub file: Option<FileId>,
    /// Lower half of the kernfs id of the process's control group.
    pub cgroup: u32,
    /// The counts.
    pub ledger: Ledger,
}

impl Row {
    /// Returns whether it has times that a process spent on no file.
    #[must_use]
    pub const fn is_of_no_file(&self) -> bool {
        self.process.is_some() && self.file.is_none()
    }
}

/// Evicted pages of one file, by cause and by the process that evicted them.
///
/// Over all causes and processes they add up to the evicted pages of the file's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// The file; `None` on the one entry that sums up evictions beyond the size of the table.
    pub file: Option<FileId>,
    /// Lower half of the kernfs id of the control group that the pages were charged to; `None`: of no group.
    pub charged: Option<u32>,
    /// The process that evicted them; `None` for kernel threads, as in background reclaim.
    pub culprit: Option<ProcessId>,
    /// Lower half of the kernfs id of that process's control group; 0 without a process.
    pub culprit_cgroup: u32,
    /// The cause.
    pub cause: EvictionCause,
    /// The number of pages.
    pub pages: Pages,
}

/// A process that evicted pages, in the scope of the probe or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// Its process id here: 0 if it is not in this process's PID namespace.
    pub pid: u32,
    /// Its command name at its first eviction, at most 15 bytes.
    pub command: String,
    /// The kernfs id of its control group then.
    pub cgroup: u64,
}

/// Events that could not be counted exactly; all zero means exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events booked on the overflow row because the table was full: sums are right, files are not named.
    pub rows: u64,
    /// Events of tasks for which the kernel provided no storage: memory is short; or, up to Linux 6.19, a task that was
    /// interrupted while its storage was made or freed blocks the storage of others on its CPU
    /// (`bpf_task_storage_busy`). The next event of the task tries again.
    pub tasks: u64,
    /// Files whose name was lost.
    pub names: u64,
    /// Pages whose readahead state was lost: their first read counts as a hit without readahead.
    pub prefetch_pages: u64,
    /// Direct requests whose completion cannot be matched.
    pub direct_requests: u64,
    /// io_uring requests whose events and completion cannot be matched, because the probe's table of requests in flight is
    /// full. They can count more than once.
    pub uring_requests: u64,
    /// Times that the process table was full.
    pub processes: u64,
    /// Files that were unused for long and were dropped from the table: evictions and refaults of their pages are not
    /// counted until they are used again.
    pub forgotten: u64,
    /// Events that the kernel skipped because the program was already running on that CPU, and CPUs that were too busy to
    /// book the counts that they hold.
    pub skipped: u64,
    /// Calls whose return was not seen (kprobes): the hits of these reads, and the bytes of these direct requests, are
    /// not counted.
    pub returns: u64,
}

impl Lost {
    /// Returns whether nothing was lost.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Lost::default()
    }

    pub(crate) fn since(&self, earlier: &Lost) -> Lost {
        Lost {
            forgotten: self.forgotten.saturating_sub(earlier.forgotten),
            rows: self.rows.saturating_sub(earlier.rows),
            tasks: self.tasks.saturating_sub(earlier.tasks),
            names: self.names.saturating_sub(earlier.names),
            prefetch_pages: self.prefetch_pages.saturating_sub(earlier.prefetch_pages),
            direct_requests: self.direct_requests.saturating_sub(earlier.direct_requests),
            uring_requests: self.uring_requests.saturating_sub(earlier.uring_requests),
            processes: self.processes.saturating_sub(earlier.processes),
            skipped: self.skipped.saturating_sub(earlier.skipped),
            returns: self.returns.saturating_sub(earlier.returns),
        }
    }
}

/// Counts since the probe was attached; with intervals ([`Options`](crate::Options)), since the last snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The sum of all rows.
    pub total: Ledger,
    /// In no particular order; empty with [`Detail::Totals`](crate::Detail::Totals).
    pub rows: Vec<Row>,
    /// Files that have a row.
    pub files: HashMap<FileId, FileInfo>,
    /// Followed processes; for the whole system, those with a row since the start. With intervals, a process that has
    /// ended is listed once.
    pub processes: Vec<ProcessInfo>,
    /// Pages that tasks out of scope inserted into these files, with [`outside`](crate::Options::outside).
    pub outside: HashMap<FileId, Pages>,
    /// Evicted pages by cause and process; empty with [`Detail::Totals`](crate::Detail::Totals).
    pub evictions: Vec<Eviction>,
    /// The processes that evicted them. The kernel's side keeps the latest 4,096.
    pub culprits: HashMap<ProcessId, Culprit>,
    /// Direct requests that have begun and not been seen to end.
    pub direct_in_flight: u64,
    /// Events that could not be counted.
    pub lost: Lost,
    /// Kinds of calls that changed files or their names, since the start; empty without
    /// [`Options::changes`](crate::Options::changes).
    pub changes: Vec<Change>,
}

impl Snapshot {
    /// One file's account: the sum over processes and over generations of its inode number.
    #[must_use]
    pub fn file(&self, major: u32, minor: u32, inode: u64) -> Ledger {
        let of_file = |file: &FileId| (file.major, file.minor, file.inode) == (major, minor, inode);
        self.rows
            .iter()
            .filter(|row| row.file.as_ref().is_some_and(of_file))
            .map(|row| row.ledger.clone())
            .sum()
    }
}
