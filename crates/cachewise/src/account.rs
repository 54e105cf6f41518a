//! From the probe's rows to a report: by file, by process, by control group.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::hash::Hash;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use cachewise_cli::names::Namer;
use cachewise_kstat::{Device, Kernel};
use cachewise_model::{
    CgroupRow, Count, Counter, Culprit, Eviction, Exit, FileNumber, FileRow, GroupNames, Interval,
    Ledger, Lost, Measured, Missing, NOT_APPLICABLE, ProcessFileUse, ProcessRow, Reason, System,
};
use cachewise_probe::{FileId, FileInfo, FileKind, ProcessId, ProcessInfo, Row, Snapshot};
use cachewise_units::PageSize;

use crate::blame::Blame;
use cachewise_cli::child::Course;

/// Residency after the run costs five system calls a file; of more files than this, the heaviest.
const RESIDENCY_OF: usize = 10_000;

/// Present properties of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileDetail {
    /// Its size: one system call, however large it is.
    Size,
    /// And how much of it is resident, which the kernel counts folio by folio.
    Residency,
}

/// The probe's own names for the rows of a report, in their order.
pub struct Identities {
    pub files: Vec<Option<FileId>>,
    pub processes: Vec<Option<ProcessId>>,
}

/// Fills the report with what the probe counted.
pub fn fill(
    interval: &mut Interval,
    snapshot: &Snapshot,
    course: &Course,
    kernel: &Kernel,
) -> Identities {
    let run = interval.run_mut();
    (run.cpu_user_seconds, run.cpu_system_seconds) = cpu_seconds(snapshot, course);
    let bytes = |of: fn(&ProcessInfo) -> u64| snapshot.processes.iter().map(of).sum::<u64>();
    interval.device_read_bytes = Measured::Exact(bytes(|process| process.device_read.0));
    interval.device_write_bytes = Measured::Exact(bytes(|process| process.device_written.0));
    interval.run_mut().outside_bytes =
        outside(bytes(|process| process.read_call_bytes.0), &snapshot.total);
    let files: Vec<Option<FileId>>;
    let processes: Vec<Option<ProcessId>>;
    (files, interval.files) = file_rows(
        snapshot,
        interval.page(),
        kernel,
        (FileDetail::Residency, RESIDENCY_OF),
    )
    .unzip();
    let of_no_file = snapshot.rows.iter().filter(|row| row.is_of_no_file());
    let of_files = interval.files.iter().map(|file| &file.ledger);
    interval.ledger = of_files.chain(of_no_file.map(|row| &row.ledger)).sum();
    let cgroup_names = kernel.cgroup_names().unwrap_or_default();
    let blame = Blame::of(snapshot);
    (processes, interval.processes) = process_rows(snapshot, &blame, &cgroup_names)
        .into_iter()
        .unzip();
    interval.cgroups = cgroup_rows(snapshot, &blame, &cgroup_names, interval.page());
    interval.uses = uses(snapshot, &files, &processes);
    interval.evictions = evictions(snapshot, &files, &cgroup_names);
    interval.lost = lost(snapshot);
    interval.mark_contradictions();
    Identities { files, processes }
}

/// The use of files by processes, by the indexes of their rows.
fn uses(
    snapshot: &Snapshot,
    files: &[Option<FileId>],
    processes: &[Option<ProcessId>],
) -> Vec<ProcessFileUse> {
    fn places<K: Copy + Hash + Eq>(ids: &[K]) -> HashMap<K, usize> {
        ids.iter().copied().zip(0..).collect()
    }
    let (files, processes) = (places(files), places(processes));
    let used = snapshot.rows.iter();
    let used = used.filter(|row| row.process.is_some() && !row.is_of_no_file());
    used.filter_map(|row| {
        Some(ProcessFileUse {
            process: processes.get(&row.process).copied(),
            file: *files.get(&row.file)?,
            ledger: of_use(row.ledger.clone()),
        })
    })
    .collect()
}

/// The kernel splits the time of what it waited for exactly in sum; of what was followed it has samples.
fn cpu_seconds(snapshot: &Snapshot, course: &Course) -> (Measured<f64>, Measured<f64>) {
    if let Some(usage) = course.usage {
        return (
            Measured::Exact(usage.user.as_secs_f64()),
            Measured::Exact(usage.system.as_secs_f64()),
        );
    }
    let sampled = |time: fn(&ProcessInfo) -> Duration| {
        let sum: Duration = snapshot.processes.iter().map(time).sum();
        Measured::Estimated(sum.as_secs_f64(), Reason::SampledAtTick)
    };
    (
        sampled(|process| process.user_time),
        sampled(|process| process.system_time),
    )
}

/// Read calls count every byte, whatever it comes from; what is not of files is of the rest.
fn outside(read_calls: u64, total: &Ledger) -> Count {
    let of_files = total[Counter::ReadRequestedBytes]
        .saturating_sub(total[Counter::ReadUnservedBytes])
        + total[Counter::DirectReadBytes];
    match read_calls.checked_sub(of_files) {
        Some(rest) => Measured::Estimated(rest, Reason::NotAllCalls),
        None => Measured::unknown(Reason::NotAllCalls),
    }
}

/// The reason behind wasted readahead of a process or a control group.
const NOT_ATTRIBUTED: Missing = Missing::NotOffered(Reason::EvictionsNotAttributed);

/// The ledger of a process or a control group, in which wasted readahead is not offered: the probe books it on the
/// file alone.
pub fn of_tasks(mut ledger: Ledger) -> Ledger {
    ledger.set_missing(Counter::ReadaheadWastedPages, NOT_ATTRIBUTED);
    ledger
}

/// The ledger of a process.
fn of_process(blame: &Blame, process: Option<ProcessId>, mut ledger: Ledger) -> Ledger {
    blame.of_process(process, &mut ledger);
    of_tasks(ledger)
}

/// The ledger of the use of a file by a process: evictions are those of the file.
pub fn of_use(ledger: Ledger) -> Ledger {
    let mut ledger = of_tasks(ledger);
    for counter in [Counter::EvictedReclaimPages, Counter::EvictedOtherPages] {
        ledger.set_missing(counter, NOT_ATTRIBUTED);
    }
    ledger
}

fn sums<K: Hash + Eq>(rows: &[Row], key: impl Fn(&Row) -> Option<K>) -> HashMap<K, Ledger> {
    let mut sums: HashMap<K, Ledger> = HashMap::new();
    for row in rows {
        if let Some(key) = key(row) {
            *sums.entry(key).or_default() += &row.ledger;
        }
    }
    sums
}

/// Sort key of a ledger: bytes requested in any way.
fn weight(ledger: &Ledger, page: u64) -> u64 {
    let faults = ledger[Counter::FaultRequests] + ledger[Counter::FaultReadaheadPages];
    ledger[Counter::ReadRequestedBytes]
        + ledger[Counter::DirectReadBytes]
        + ledger[Counter::DirectWriteBytes]
        + ledger[Counter::WriteBytes]
        + (faults + ledger[Counter::PrefetchPages] + ledger[Counter::MetadataPages]) * page
}

/// The files of a snapshot, the most active first. `detail` is read of the first `detailed_files` of them.
pub fn file_rows(
    snapshot: &Snapshot,
    page: PageSize,
    kernel: &Kernel,
    (detail, detailed_files): (FileDetail, usize),
) -> impl Iterator<Item = (Option<FileId>, FileRow)> {
    let sums = sums(&snapshot.rows, |row| {
        (!row.is_of_no_file()).then_some(row.file)
    });
    let mut files: Vec<(Option<FileId>, Ledger)> = sums.into_iter().collect();
    files.sort_by_cached_key(|(id, ledger)| (Reverse(weight(ledger, page.get())), *id));
    files
        .into_iter()
        .enumerate()
        .map(move |(place, (id, ledger))| {
            let info = id.and_then(|id| snapshot.files.get(&id).map(|info| (id, info)));
            let row = match info {
                Some((id, info)) => {
                    file(id, info, ledger, (place < detailed_files).then_some(detail))
                }
                None => nameless(id, ledger, kernel),
            };
            (id, row)
        })
}

fn file(id: FileId, info: &FileInfo, mut ledger: Ledger, detail: Option<FileDetail>) -> FileRow {
    // New pages of a device come from a write call to it: those of a file system on it are metadata.
    let is_written_device =
        info.kind == FileKind::BlockDevice && ledger[Counter::WriteNewPages] > 0;
    if is_written_device || !info.writes_are_seen && info.kind == FileKind::File {
        for counter in [
            Counter::WriteRequests,
            Counter::WritePages,
            Counter::WriteBytes,
        ] {
            ledger.set_missing(counter, Missing::Unknown(Reason::WritesNotSeen));
        }
    }
    let path = match (&info.path, &info.path_in_file_system, info.kind) {
        (Some(path), ..) => Measured::Exact(path.clone()),
        (None, _, FileKind::Internal) => Measured::not_offered(Reason::FileSystemData),
        (None, Some(path), _) if path.is_relative() => {
            Measured::Estimated(path.clone(), Reason::PathCut)
        }
        (None, Some(path), _) => Measured::Estimated(path.clone(), Reason::NotMountedHere),
        (None, None, _) => Measured::unknown(Reason::NoName),
    };
    let now = match (&info.path, info.kind, detail) {
        _ if info.deleted => Now::without(Measured::not_offered(Reason::FileDeleted), info),
        (Some(path), FileKind::File, Some(detail)) => Now::of(id, path, info, detail),
        (Some(_), FileKind::File, None) => Now {
            resident: Measured::unknown(Reason::HeaviestOnly),
            size: size_at_first(info),
        },
        _ => Now::without(Measured::not_offered(Reason::NoPathHere), info),
    };
    let direct = ledger[Counter::DirectReadRequests] + ledger[Counter::DirectWriteRequests] > 0;
    FileRow {
        path,
        label: Measured::Missing(NOT_APPLICABLE),
        deleted: info.deleted,
        filesystem: info.file_system.clone().map_or(
            Measured::unknown(Reason::FileSystemNotMounted),
            Measured::Exact,
        ),
        number: Some(number(id)),
        size_bytes: now.size,
        resident_before_pages: Measured::Exact(info.resident_before.0),
        resident_after_pages: now.resident,
        ledger,
        direct,
    }
}

/// A row of which no record came through: its inode number is all there is, or not even that.
fn nameless(id: Option<FileId>, ledger: Ledger, kernel: &Kernel) -> FileRow {
    let why = match id {
        Some(_) => Reason::NameLost,
        None => Reason::FilesFull,
    };
    // A block device that was only written to or read from directly is known by its number alone.
    let device = id.filter(|id| id.inode == 0).and_then(|id| {
        kernel.block_device_name(Device {
            major: id.major,
            minor: id.minor,
        })
    });
    FileRow {
        path: device.map_or(Measured::unknown(why), Measured::Exact),
        label: Measured::Missing(NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::unknown(why),
        number: id.map(number),
        size_bytes: Measured::unknown(why),
        resident_before_pages: Measured::unknown(why),
        resident_after_pages: Measured::unknown(why),
        direct: ledger[Counter::DirectReadRequests] + ledger[Counter::DirectWriteRequests] > 0,
        ledger,
    }
}

fn number(id: FileId) -> FileNumber {
    FileNumber {
        device: format!("{}:{}", id.major, id.minor),
        inode: id.inode,
    }
}

/// The size of a file whose present size is not read: it may have grown since, and a file that the same process created
/// was empty at first.
fn size_at_first(info: &FileInfo) -> Count {
    match (info.kind, info.size.0) {
        (FileKind::BlockDevice | FileKind::Internal, size) => Measured::Exact(size),
        (FileKind::File, 0) => Measured::unknown(Reason::WasEmpty),
        (FileKind::File, size) => Measured::Estimated(size, Reason::SizeAtFirst),
    }
}

/// A file as it is after the run.
struct Now {
    resident: Count,
    size: Count,
}

impl Now {
    fn without(resident: Count, info: &FileInfo) -> Now {
        Now {
            resident,
            size: size_at_first(info),
        }
    }

    fn of(id: FileId, path: &Path, info: &FileInfo, detail: FileDetail) -> Now {
        // The probe names a file's device as stat(2) does, a subvolume's of btrfs too.
        let same = |stat: &Metadata| {
            let device = Device::from_stat(stat.dev());
            (device.major, device.minor, stat.ino()) == (id.major, id.minor, id.inode)
        };
        let stat = match path.symlink_metadata() {
            Ok(stat) if same(&stat) => stat,
            Ok(_) => return Now::without(Measured::unknown(Reason::NameReused), info),
            Err(_) => return Now::without(Measured::unknown(Reason::FileGone), info),
        };
        if detail == FileDetail::Size {
            return Now {
                resident: Measured::unknown(Reason::NotAskedEachTime),
                size: Measured::Exact(stat.len()),
            };
        }
        let resident = match cachewise_sys::resident(path) {
            Ok(stat) => Measured::Exact(stat.cached.0),
            Err(error) => Measured::unknown(match error.kind() {
                cachewise_sys::ErrorKind::Denied => Reason::NotWritable,
                cachewise_sys::ErrorKind::Unsupported => Reason::NotSupported,
                _ => Reason::LookFailed,
            }),
        };
        Now {
            resident,
            size: Measured::Exact(stat.len()),
        }
    }
}

/// The processes of a snapshot.
pub fn process_rows(
    snapshot: &Snapshot,
    blame: &Blame,
    names: &HashMap<u64, String>,
) -> Vec<(Option<ProcessId>, ProcessRow)> {
    let mut sums: HashMap<ProcessId, Ledger> = sums(&snapshot.rows, |row| row.process);
    let mut rows: Vec<(Option<ProcessId>, ProcessRow)> = snapshot
        .processes
        .iter()
        .map(|process| {
            let row = ProcessRow {
                pid: Some(process.pid),
                started: Measured::Exact(process.id.start),
                ppid: Measured::Exact(process.parent),
                command: Measured::Exact(process.command.clone()),
                cgroup: names
                    .get(&process.cgroup)
                    .map_or(Measured::unknown(Reason::GroupGone), |name| {
                        Measured::Exact(name.clone())
                    }),
                exit: process.exit_status.map_or(Exit::Running, exit),
                cpu_seconds: Measured::Exact(process.cpu_time.as_secs_f64()),
                device_read_bytes: Measured::Exact(process.device_read.0),
                device_write_bytes: Measured::Exact(process.device_written.0),
                ledger: of_process(
                    blame,
                    Some(process.id),
                    sums.remove(&process.id).unwrap_or_default(),
                ),
            };
            (Some(process.id), row)
        })
        .collect();
    // The overflow row, which sums up rows beyond the size of the table, belongs to no process.
    let others: Ledger = snapshot
        .rows
        .iter()
        .filter(|row| row.process.is_none() && row.file.is_none())
        .map(|row| row.ledger.clone())
        .sum();
    let others = (!others.is_zero()).then_some((None, others));
    // A row whose process found no room in the process table still counts.
    let sums = sums.into_iter().map(|(id, ledger)| (Some(id), ledger));
    rows.extend(others.into_iter().chain(sums).map(|(id, ledger)| {
        let row = ProcessRow {
            pid: id.map(|id| id.tgid),
            started: id.map_or(Measured::unknown(Reason::ProcessesFull), |id| {
                Measured::Exact(id.start)
            }),
            ppid: Measured::unknown(Reason::ProcessesFull),
            command: Measured::unknown(Reason::ProcessesFull),
            cgroup: Measured::unknown(Reason::ProcessesFull),
            exit: Exit::Unknown(Reason::ProcessesFull),
            cpu_seconds: Measured::unknown(Reason::ProcessesFull),
            device_read_bytes: Measured::unknown(Reason::ProcessesFull),
            device_write_bytes: Measured::unknown(Reason::ProcessesFull),
            ledger: of_process(blame, id, ledger),
        };
        (id, row)
    }));
    rows
}

/// A wait status as the kernel keeps it: a signal in the low seven bits, the exit status above.
fn exit(status: u32) -> Exit {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => Exit::Code(code as i32),
        (signal, _) => Exit::Signal(signal as i32),
    }
}

/// The counts of each control group, by the lower half of its id: requests of its processes, and pages that it lost.
pub fn group_ledgers(snapshot: &Snapshot, blame: &Blame) -> HashMap<u32, Ledger> {
    let mut ledgers = sums(&snapshot.rows, |row| row.process.map(|_| row.cgroup));
    blame.of_groups(&mut ledgers);
    ledgers
}

/// The control groups of a snapshot's processes, the heaviest first.
pub fn cgroup_rows(
    snapshot: &Snapshot,
    blame: &Blame,
    names: &HashMap<u64, String>,
    page: PageSize,
) -> Vec<CgroupRow> {
    const GONE: Missing = Missing::Unknown(Reason::GroupGone);
    let names: HashMap<u32, &String> = names.iter().map(|(id, name)| (*id as u32, name)).collect();
    let sums = group_ledgers(snapshot, blame);
    let mut namer = Namer::new();
    let met = sums.keys().filter_map(|id| names.get(id));
    namer.refresh(met.map(|name| name.as_str()));
    let mut rows: Vec<CgroupRow> = sums
        .into_iter()
        .map(|(id, ledger)| CgroupRow {
            path: names
                .get(&id)
                .map_or(Measured::unknown(Reason::GroupGone), |name| {
                    Measured::Exact((*name).clone())
                }),
            names: names
                .get(&id)
                .map_or(GroupNames::all_missing(GONE), |name| namer.names(name)),
            ledger: of_tasks(ledger),
            system: System::default(),
            memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        })
        .collect();
    heaviest_groups_first(&mut rows, page);
    rows
}

/// The evictions of a snapshot, the largest first. `files` are those of the interval, in its order.
pub fn evictions(
    snapshot: &Snapshot,
    files: &[Option<FileId>],
    names: &HashMap<u64, String>,
) -> Vec<Eviction> {
    let places: HashMap<&Option<FileId>, usize> = files
        .iter()
        .enumerate()
        .map(|(place, id)| (id, place))
        .collect();
    // The probe has the lower half of each id.
    let names: HashMap<u32, &String> = names.iter().map(|(id, name)| (*id as u32, name)).collect();
    let group = |id: u32| {
        names
            .get(&id)
            .map_or(Measured::unknown(Reason::GroupGone), |name| {
                Measured::Exact((*name).clone())
            })
    };
    let used = uses_of_culprits(snapshot);
    let mut evictions: Vec<Eviction> = snapshot
        .evictions
        .iter()
        .filter_map(|eviction| {
            let culprit = eviction.culprit.map(|id| {
                let known = snapshot.culprits.get(&id);
                let pid = known.map(|known| known.pid).filter(|pid| *pid != 0);
                Culprit {
                    pid: pid.map_or(Measured::unknown(Reason::ProcessesFull), Measured::Exact),
                    started: id.start,
                    command: known.map_or(Measured::unknown(Reason::ProcessesFull), |known| {
                        Measured::Exact(known.command.clone())
                    }),
                    cgroup: group(eviction.culprit_cgroup),
                }
            });
            Some(Eviction {
                file: *places.get(&eviction.file)?,
                charged: eviction
                    .charged
                    .map_or(Measured::Missing(NOT_APPLICABLE), group),
                cause: eviction.cause,
                culprit,
                own: eviction
                    .culprit
                    .is_some_and(|process| used.contains(&(process, eviction.file))),
                pages: eviction.pages.0,
            })
        })
        .collect();
    evictions.sort_by_key(|eviction| (Reverse(eviction.pages), eviction.file));
    evictions
}

/// The files that processes which evicted pages requested themselves.
fn uses_of_culprits(snapshot: &Snapshot) -> HashSet<(ProcessId, Option<FileId>)> {
    let evictions = snapshot.evictions.iter();
    let culprits: HashSet<ProcessId> = evictions.filter_map(|eviction| eviction.culprit).collect();
    let rows = snapshot.rows.iter();
    rows.filter_map(|row| Some((row.process?, row)))
        .filter(|(process, row)| culprits.contains(process) && uses_file(&row.ledger))
        .map(|(process, row)| (process, row.file))
        .collect()
}

/// Whether requests were counted, and not only the pages that other tasks moved.
fn uses_file(ledger: &Ledger) -> bool {
    use Counter::{
        DirectReadRequests, DirectWriteRequests, FaultRequests, ReadRequests, WriteRequests,
    };
    let requests = [
        ReadRequests,
        WriteRequests,
        FaultRequests,
        DirectReadRequests,
        DirectWriteRequests,
    ];
    requests.iter().any(|counter| ledger[*counter] > 0)
}

/// Puts control groups in the order of what was done in them; those that did nothing by their memory.
pub fn heaviest_groups_first(rows: &mut [CgroupRow], page: PageSize) {
    rows.sort_by_cached_key(|row| {
        let memory = row.system.memory_used_bytes.known().unwrap_or(0);
        let name = row.path.clone().known();
        (
            Reverse(weight(&row.ledger, page.get())),
            Reverse(memory),
            name,
        )
    });
}

/// Events that could not be counted as they should be; none where the numbers are exact.
pub fn lost(snapshot: &Snapshot) -> Vec<Lost> {
    let lost = &snapshot.lost;
    [
        ("rows", lost.rows),
        ("tasks", lost.tasks),
        ("names", lost.names),
        ("prefetch_pages", lost.prefetch_pages),
        ("direct_requests", lost.direct_requests),
        ("uring_requests", lost.uring_requests),
        ("direct_in_flight", snapshot.direct_in_flight),
        ("processes", lost.processes),
        ("skipped", lost.skipped),
        ("returns", lost.returns),
        ("forgotten", lost.forgotten),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(id, count)| Lost::new(id, count))
    .collect()
}

#[cfg(test)]
mod tests {
    use cachewise_units::{Bytes, Pages};

    use super::*;

    #[test]
    fn every_kind_of_loss_is_reported_with_its_meaning() {
        let snapshot = Snapshot {
            total: Ledger::default(),
            rows: Vec::new(),
            files: HashMap::new(),
            processes: Vec::new(),
            outside: HashMap::new(),
            evictions: Vec::new(),
            culprits: HashMap::new(),
            direct_in_flight: 1,
            changes: Vec::new(),
            // All of them by name: a new one is to be added here and to the list of kinds.
            lost: cachewise_probe::Lost {
                rows: 1,
                tasks: 1,
                names: 1,
                prefetch_pages: 1,
                direct_requests: 1,
                uring_requests: 1,
                processes: 1,
                forgotten: 1,
                skipped: 1,
                returns: 1,
            },
        };
        let lost = lost(&snapshot);
        // Contradictions are found in the rows; `size` alone has accesses, and `--stacks` stacks.
        let of_rows = |kind: &&str| !["accesses", "contradictions", "stacks"].contains(kind);
        let kinds: Vec<&str> = Lost::KINDS
            .iter()
            .map(|(kind, _)| *kind)
            .filter(of_rows)
            .collect();
        let ids: Vec<&str> = lost.iter().map(|lost| lost.id).collect();
        let once: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(once, kinds.iter().copied().collect(), "every kind");
        assert_eq!(ids.len(), kinds.len(), "each once: {ids:?}");
        for kind in lost {
            assert!(!kind.meaning.is_empty(), "{} is explained", kind.id);
        }
    }

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        assert_eq!(exit(3 << 8), Exit::Code(3), "exit(3)");
        assert_eq!(exit(9), Exit::Signal(9), "kill -9");
        assert_eq!(exit(11 | 0x80), Exit::Signal(11), "with a core dump");
    }

    #[test]
    fn the_size_of_a_file_that_is_gone_is_not_zero() {
        let mut info = FileInfo {
            path: None,
            path_in_file_system: None,
            file_system: None,
            kind: FileKind::File,
            deleted: true,
            size: Bytes(0),
            resident_before: Pages(0),
            first_used_alone: true,
            writes_are_seen: true,
        };
        let size = |info: &FileInfo| Now::without(Measured::unknown(Reason::FileGone), info).size;
        assert!(
            size(&info).missing().is_some(),
            "who made it wrote to it later"
        );
        info.size = Bytes(4096);
        assert_eq!(
            (size(&info).exact(), size(&info).known()),
            (None, Some(4096)),
            "it had at least that much once"
        );
        info.kind = FileKind::BlockDevice;
        assert_eq!(size(&info), Measured::Exact(4096), "devices do not grow");
    }

    #[test]
    fn bytes_read_outside_of_files_are_the_rest_or_unknown() {
        let mut total = Ledger::default();
        total.set(Counter::ReadRequestedBytes, 100);
        total.set(Counter::DirectReadBytes, 50);
        assert_eq!(
            outside(400, &total),
            Measured::Estimated(250, Reason::NotAllCalls),
            "pipes and sockets"
        );
        assert!(
            outside(10, &total).missing().is_some(),
            "never a negative number, never 0 for it"
        );
    }
}
