//! Scope and detail of a probe.

use cachewise_units::Bytes;

use crate::back_end::BackEnd;
use crate::skeleton::types;

/// Scope of counting: the tasks that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole machine.
    System,
    /// All processes that this process starts from now on, and their descendants; not this process.
    Children,
    /// This thread group, its descendants, and processes that they start.
    Process(u32),
}

/// Granularity of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One sum, with the lowest overhead.
    Totals,
    /// A row for each process and file.
    Rows,
}

/// Only tasks under one control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupFilter {
    /// The inode number of the group's directory.
    pub id: u64,
    /// Its depth under the hierarchy's root, which has 0.
    pub level: u32,
}

/// A file as stat(2) names it; a block device is its own number and inode 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WantedFile {
    /// Device, major number.
    pub major: u32,
    /// Device, minor number.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
}

/// Options of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The tasks that are counted.
    pub scope: Scope,
    /// More thread groups to count as [`Scope::Process`] does, beside its own.
    pub also: Vec<u32>,
    /// Rows or totals.
    pub detail: Detail,
    /// Only tasks under this control group.
    pub cgroup: Option<CgroupFilter>,
    /// Control groups are those of the version 1 memory hierarchy.
    pub cgroup_v1: bool,
    /// Only these files, at most [`Options::MAX_FILES`]; empty: all.
    pub files: Vec<WantedFile>,
    /// Watch buffered writes only on file systems that are mounted now. A probe starts faster without the programs of
    /// the others; writes to a file system that is mounted later are reported as missing.
    pub mounted_only: bool,
    /// Maximum rows of [`Detail::Rows`]; one row sums the rest, which is reported as lost. They take
    /// [`Options::table_bytes`] of kernel memory.
    pub max_rows: u32,
    /// Count in intervals: each snapshot has the counts since the previous one, not since the start. It empties the
    /// tables of rows, so that a long watch does not fill them; they take twice the memory.
    pub intervals: bool,
    /// Also count pages that tasks out of scope insert into files that have a row
    /// ([`Snapshot::outside`](crate::Snapshot::outside)): a file's residency follows from all inserts.
    pub outside: bool,
    /// Measure what tasks wait for, with [`Detail::Rows`]; costs some 0.3 us each time that a task in scope waits.
    pub times: bool,
    /// Send accesses one by one ([`Probe::accesses`](crate::Probe::accesses)), for a simulation of other sizes of memory.
    /// Takes 8 MiB of kernel memory, and makes each request more expensive.
    pub accesses: bool,
    /// Send the pages around page faults too ([`AccessKind::Around`](crate::AccessKind::Around)), with
    /// [`Options::accesses`]: since Linux 6.9.
    pub fault_around: bool,
    /// Send the stacks of tasks at events that wait for storage, and at evictions ([`Probe::stacks`](crate::Probe::stacks)),
    /// with [`Detail::Rows`]. Takes 16 MiB of kernel memory, and 24 KiB for each CPU; costs some 5 us for each of these
    /// events.
    pub stacks: bool,
    /// Count calls that remove, rename, make or truncate files ([`Snapshot::changes`](crate::Snapshot::changes)). It costs
    /// some 50 ns for each system call of the machine.
    pub changes: bool,
    /// Permitted back-ends, preferred in the order of [`BackEnd::ALL`].
    pub back_ends: Vec<BackEnd>,
}

impl Options {
    /// Default of [`Options::max_rows`]: 25 MiB of kernel memory, or 48 MiB with [`Options::intervals`].
    pub const MAX_ROWS: u32 = 32_768;

    /// Maximum number of files to watch.
    pub const MAX_FILES: usize = 1024;

    /// Returns the kernel memory of the tables whose size follows from [`Options::max_rows`].
    #[must_use]
    pub fn table_bytes(&self) -> Bytes {
        if self.detail == Detail::Totals {
            return Bytes(0);
        }
        let rows = table_bytes::<types::row_key, types::ledger>(self.max_rows);
        let files = table_bytes::<types::file_id, u32>(self.max_rows);
        let evictions = table_bytes::<types::eviction_key, u64>(self.max_rows);
        let tables_of_rows = if self.intervals { 2 } else { 1 };
        let outside = match self.outside {
            true => table_bytes::<types::file_id, u64>(self.max_rows),
            false => 0,
        };
        Bytes((rows + evictions) * tables_of_rows + files + outside)
    }

    pub(crate) fn has_times(&self) -> bool {
        self.times && self.detail == Detail::Rows
    }

    pub(crate) fn has_stacks(&self) -> bool {
        self.stacks && self.detail == Detail::Rows
    }

    /// Returns the kernel memory that each task takes that uses files, beside that of maps and programs.
    #[must_use]
    pub const fn task_bytes() -> Bytes {
        Bytes(size_of::<types::task_state>() as u64)
    }

    /// All files, all control groups.
    #[must_use]
    pub fn new(scope: Scope, detail: Detail) -> Self {
        Options {
            scope,
            also: Vec::new(),
            detail,
            cgroup: None,
            cgroup_v1: false,
            files: Vec::new(),
            mounted_only: false,
            max_rows: Options::MAX_ROWS,
            intervals: false,
            outside: false,
            times: false,
            accesses: false,
            fault_around: false,
            stacks: false,
            changes: false,
            back_ends: BackEnd::ALL.into(),
        }
    }
}

/// The memory of a hash table that is allocated at its start: entries with the kernel's head, and buckets.
const fn table_bytes<Key, Value>(entries: u32) -> u64 {
    const HEAD: u64 = 48;
    const BUCKET: u64 = 16;
    let entries = entries as u64;
    let entry = HEAD
        + size_of::<Key>().next_multiple_of(8) as u64
        + size_of::<Value>().next_multiple_of(8) as u64;
    entries * entry + entries.next_power_of_two() * BUCKET
}
