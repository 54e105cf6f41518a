//! Rows against independent counts: a file's inserted and evicted pages against its residency, a process's fetched
//! bytes against the bytes that the block layer read for it.
//!
//! If the two sides are not of the same moment, or of the same pages, the law is not checked, and the report has the
//! reason.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cachewise_kstat::{Device, Kernel};
use cachewise_model::{
    Count, Counter, DeviceUse, FileUse, Interval, Law, Ledger, Lost, Measured, Reason, Verdict,
    device_laws, group_residency_law, mark_device, mark_residency, residency_law,
};
use cachewise_probe::{FileId, FileKind, ProcessId, Snapshot};
use cachewise_units::{Bytes, PageSize};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::account::Identities;

/// File systems whose metadata is in the page cache and that read nothing but the pages that they insert.
const READ_BY_PAGES: [&str; 3] = ["ext2", "ext3", "ext4"];

/// File systems that no task reads a device for.
const WITHOUT_DEVICE: [&str; 23] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// The machine before the run.
pub struct Before {
    swapped_in: Option<u64>,
    /// By the clock of files' time stamps.
    at: Timespec,
}

impl Before {
    pub fn now(kernel: &Kernel) -> Before {
        Before {
            swapped_in: swapped_in(kernel),
            at: clock_gettime(ClockId::RealtimeCoarse),
        }
    }
}

fn swapped_in(kernel: &Kernel) -> Option<u64> {
    Some(kernel.vmstat().ok()?.pswpin?.0)
}

/// Two snapshots around the look at the files' residency.
pub struct Counted {
    pub rows: Identities,
    pub first: Snapshot,
    /// `None` where it could not be taken.
    pub later: Option<Snapshot>,
}

/// Checks the rows of a report, and marks those that violate a law.
pub fn fill(interval: &mut Interval, counted: &Counted, before: &Before, kernel: &Kernel) {
    let mut laws = Vec::new();
    let violated = files(interval, counted, &mut laws)
        + processes(interval, counted, &mut laws, before, kernel);
    // The laws of one kind together.
    laws.sort_by_key(|law| (law.scope as u8, law.id));
    laws.extend(interval.cgroups.iter().map(group_residency_law));
    interval.run_mut().row_laws = laws;
    if violated > 0 {
        Lost::add(&mut interval.lost, &[Lost::new("contradictions", violated)]);
    }
}

/// The processes of the run that are still running.
fn is_running(snapshot: &Snapshot) -> HashSet<ProcessId> {
    let processes = snapshot.processes.iter();
    processes
        .filter(|process| process.exit_status.is_none())
        .map(|process| process.id)
        .collect()
}

/// Pages inserted and evicted so far, by file; those that others inserted too.
fn turnover(snapshot: &Snapshot) -> HashMap<FileId, (u64, u64, u64)> {
    let mut sums: HashMap<FileId, (u64, u64, u64)> = HashMap::new();
    for row in &snapshot.rows {
        if let Some(file) = row.file {
            let sum = sums.entry(file).or_default();
            sum.0 += row.ledger.inserted_pages().known().unwrap_or(0);
            sum.1 += row.ledger.evicted_pages().known().unwrap_or(0);
        }
    }
    for (file, pages) in &snapshot.outside {
        sums.entry(*file).or_default().2 = pages.0;
    }
    sums
}

fn files(interval: &mut Interval, counted: &Counted, laws: &mut Vec<Law>) -> u64 {
    let (first, later) = (&counted.first, counted.later.as_ref());
    let is_lossy = !first.lost.is_nothing();
    let running = is_running(first);
    let (then, now) = (turnover(first), later.map(turnover));
    let mut users: HashMap<FileId, HashSet<ProcessId>> = HashMap::new();
    for row in &first.rows {
        if let (Some(file), Some(process)) = (row.file, row.process) {
            users.entry(file).or_default().insert(process);
        }
    }
    let mut violated = 0;
    for (row, id) in interval.files.iter_mut().zip(&counted.rows.files) {
        let info = id.and_then(|id| Some((id, first.files.get(&id)?)));
        let Some((id, info)) = info.filter(|(_, info)| info.kind == FileKind::File) else {
            continue;
        };
        let users = users.get(&id);
        let is_settled = now
            .as_ref()
            .is_some_and(|now| now.get(&id) == then.get(&id));
        let outside_pages = first.outside.get(&id).map_or(0, |pages| pages.0);
        let law = residency_law(
            row,
            FileUse {
                outside_pages,
                is_first_use_alone: info.first_used_alone
                    && outside_pages == 0
                    && users.is_none_or(|users| users.len() == 1),
                unchecked: if is_lossy {
                    Some(Reason::LostEvents)
                } else if users.is_some_and(|users| !users.is_disjoint(&running)) {
                    Some(Reason::UserStillRuns)
                } else if !is_settled {
                    Some(Reason::UsedMeanwhile)
                } else {
                    None
                },
            },
        );
        if law.verdict() == Verdict::Broken {
            violated += 1;
            mark_residency(&mut row.ledger);
            mark_residency(&mut interval.ledger);
        }
        laws.push(law);
    }
    violated
}

fn processes(
    interval: &mut Interval,
    counted: &Counted,
    laws: &mut Vec<Law>,
    before: &Before,
    kernel: &Kernel,
) -> u64 {
    let first = &counted.first;
    let page = interval.page();
    let on_device = fetched_from_devices(interval, counted, before);
    let running = is_running(first);
    let of_all = if !first.lost.is_nothing() {
        Some(Reason::LostEvents)
    } else {
        None
    };
    let most_of_all = if interval.run().followed.is_some() {
        Some(Reason::Followed)
    } else if before.swapped_in.is_none() || before.swapped_in != swapped_in(kernel) {
        Some(Reason::Swap)
    } else if !only_pages_are_read(kernel) {
        Some(Reason::OwnBuffers)
    } else {
        None
    };
    let mut violated = 0;
    for (row, id) in interval.processes.iter_mut().zip(&counted.rows.processes) {
        let fetched = row.ledger.fetched_bytes(Some(page)).known();
        if fetched == Some(0) && row.device_read_bytes.known() == Some(0) {
            continue;
        }
        let of_this = of_all.or(id
            .is_some_and(|id| running.contains(&id))
            .then_some(Reason::UserStillRuns));
        let bytes = id.and_then(|id| on_device.get(&id)).copied();
        let bytes = bytes.unwrap_or(Measured::Exact(0));
        let has_failed = row.ledger[Counter::DirectReadFailedRequests] > 0;
        let used = DeviceUse {
            on_device_bytes: bytes,
            unchecked_least: of_this
                .or((bytes == Measured::Exact(0)).then_some(Reason::NotOnDevice)),
            unchecked_most: of_this
                .or(most_of_all)
                .or(has_failed.then_some(Reason::FailedRequests)),
        };
        let of_row = device_laws(row, page, used);
        if of_row.iter().any(|law| law.verdict() == Verdict::Broken) {
            violated += 1;
            mark_device(&mut row.ledger, &mut row.device_read_bytes);
            mark_device(&mut interval.ledger, &mut interval.device_read_bytes);
        }
        laws.extend(of_row);
    }
    violated
}

/// Whether every mounted file system reads what it inserts into the page cache, and nothing else.
fn only_pages_are_read(kernel: &Kernel) -> bool {
    let Ok(mounts) = kernel.mounts(None) else {
        return false;
    };
    let page = cachewise_sys::page_size().get();
    mounts.as_slice().iter().all(|mount| {
        if WITHOUT_DEVICE.contains(&mount.fs_type.as_str()) {
            return true;
        }
        // A page of smaller blocks can be read block by block, after it came.
        let has_large_blocks = || {
            rustix::fs::statfs(&mount.mount_point)
                .is_ok_and(|stat| u64::try_from(stat.f_bsize).is_ok_and(|block| block >= page))
        };
        READ_BY_PAGES.contains(&mount.fs_type.as_str()) && has_large_blocks()
    })
}

/// Bytes that each process fetched from files that are on a device byte by byte.
fn fetched_from_devices(
    interval: &Interval,
    counted: &Counted,
    before: &Before,
) -> HashMap<ProcessId, Count> {
    let page = interval.page();
    let rows = interval.files.iter().zip(&counted.rows.files);
    let on_device: HashSet<FileId> = rows
        .filter_map(|(row, id)| {
            let path = row.path.as_ref().exact()?;
            let is_read = row.ledger.fetched_bytes(Some(page)).known() > Some(0);
            let id = (*id)?;
            (is_read && is_unwritten(&row.ledger) && is_on_device(path, id, before, page))
                .then_some(id)
        })
        .collect();
    let mut sums: HashMap<ProcessId, Count> = HashMap::new();
    for row in &counted.first.rows {
        if let (Some(process), Some(file)) = (row.process, row.file)
            && on_device.contains(&file)
        {
            let sum = sums.entry(process).or_insert(Measured::Exact(0));
            *sum = sum.plus(row.ledger.fetched_bytes(Some(page)));
        }
    }
    sums
}

/// Whether the run wrote nothing to a file.
fn is_unwritten(ledger: &Ledger) -> bool {
    [
        Counter::WriteNewPages,
        Counter::DirtiedPages,
        Counter::DirectWriteBytes,
    ]
    .iter()
    .all(|counter| ledger[*counter] == 0)
}

/// Whether every byte of the file has been on its device since before the run, in blocks of a page or more.
fn is_on_device(path: &Path, id: FileId, before: &Before, page: PageSize) -> bool {
    let Ok(file) = cachewise_sys::open_quietly(path) else {
        return false;
    };
    let Ok(stat) = file.metadata() else {
        return false;
    };
    let device = Device::from_stat(stat.dev());
    let is_same = (device.major, device.minor, stat.ino()) == (id.major, id.minor, id.inode);
    let is_older = (stat.ctime(), stat.ctime_nsec()) < (before.at.tv_sec, before.at.tv_nsec);
    let has_large_blocks = rustix::fs::fstatfs(&file)
        .is_ok_and(|stat| u64::try_from(stat.f_bsize).is_ok_and(|block| block >= page.get()));
    is_same
        && is_older
        && has_large_blocks
        && cachewise_sys::is_all_on_device(file.as_fd(), Bytes(stat.len())).is_ok_and(|all| all)
}

#[cfg(test)]
mod tests;
