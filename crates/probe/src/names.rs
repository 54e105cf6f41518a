//! The files' records: the kernel sends one for each file when it is first seen, through a ring buffer.

use std::collections::{HashMap, HashSet};
use std::io::{PipeReader, PipeWriter};
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cachewise_kstat::{Device, Kernel, Mounts};
use cachewise_units::{Bytes, Pages};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::Error;
use crate::mounted::SeenMount;
use crate::record::{Raw, file_id, is_block_device, path, seen_path};
use crate::skeleton::types;
use crate::snapshot::{FileId, FileInfo, FileKind};

/// In a burst the ring is emptied this often. It holds some 20,000 records; the fastest walk seen makes 5,000
/// in this time, and the programs call when a quarter of it is full.
const INTERVAL: Duration = Duration::from_millis(50);

/// The kind of a record that is of a mount: `RECORD_MOUNT` in ledger.h.
const MOUNT: u32 = 1;

/// In the place of the names nearest to the root, where there are too many for a record.
const LEFT_OUT: &str = "…";

/// A file system: its device number, and which of those that have had it.
type FileSystemId = (Device, u32);

/// A record as it came.
#[derive(Debug, Clone)]
struct FileRecord {
    /// The address of the inode in the kernel's memory.
    address: u64,
    size: u64,
    resident: u64,
    magic: u64,
    super_device: Device,
    mode: u32,
    unlinked: bool,
    alone: bool,
    path: Option<PathBuf>,
}

/// A file that has been named.
struct Known {
    info: FileInfo,
    file_system: FileSystemId,
    /// The address of the inode, while it has no name or a temporary one.
    nameless: Option<u64>,
    /// The interval in which it was used last.
    used: u64,
    /// The kernel's tables no longer have it.
    is_forgotten: bool,
}

/// Records as they come out of the ring, not looked at so far.
#[derive(Default)]
struct Arrivals {
    arrived: HashMap<FileId, FileRecord>,
    mounted: HashMap<FileSystemId, SeenMount>,
    /// Those that were not as this crate was built to read them.
    unreadable: u64,
}

/// The files that have been named so far.
#[derive(Default)]
struct Records {
    files: HashMap<FileId, Known>,
    /// Each with the round of naming that its record came in.
    mounted: HashMap<FileSystemId, (SeenMount, u64)>,
    /// Number of intervals so far.
    interval: u64,
    /// Number of rounds of naming so far.
    round: u64,
}

impl Arrivals {
    fn take(&mut self, bytes: &[u8]) {
        match parse(bytes) {
            Ok(Record::File(id, record)) => {
                self.arrived.insert(id, record);
            }
            Ok(Record::Mount(id, mount)) => {
                self.mounted.insert(id, mount);
            }
            Err(_) => self.unreadable += 1,
        }
    }
}

impl Records {
    /// Names what has arrived, as this process sees the file systems mounted now.
    fn resolve(&mut self, arrived: HashMap<FileId, FileRecord>, writes_seen: &[u64]) {
        if arrived.is_empty() {
            return;
        }
        let kernel = Kernel::new();
        let mounts = kernel.mounts(None).ok();
        for (id, record) in arrived {
            let address = record.address;
            let is_temporary = record.is_temporary();
            let file_system = (record.super_device, id.volume);
            let seen = self.mounted.get(&file_system).map(|(seen, _)| seen);
            let mut info = record.resolve(id, &kernel, mounts.as_ref(), seen, writes_seen);
            if let Some(known) = self.files.get_mut(&id) {
                if info.path_in_file_system.is_none() {
                    // Its dentries have left the kernel's memory, or its inode has.
                    known.nameless = None;
                    continue;
                }
                // Names change; what was there before the first event does not.
                info.resident_before = known.info.resident_before;
                info.first_used_alone = known.info.first_used_alone;
            }
            let known = Known {
                info,
                file_system,
                nameless: is_temporary.then_some(address),
                used: self.interval,
                is_forgotten: false,
            };
            self.files.insert(id, known);
        }
    }

    /// Begins a round of naming, in which file systems in use send a record again. Forgets those without files whose
    /// last record is older than the round before: its files may be on their way.
    fn next_round(&mut self) {
        self.round += 1;
        let used: HashSet<FileSystemId> =
            self.files.values().map(|known| known.file_system).collect();
        let round = self.round;
        self.mounted
            .retain(|id, (_, sent)| *sent + 1 >= round || used.contains(id));
    }
}

impl FileRecord {
    /// Returns whether its name may change soon: a file without a name can be linked to one, and overlayfs copies up to
    /// a file that it renames when it is complete.
    fn is_temporary(&self) -> bool {
        let name = self.path.as_deref().and_then(Path::file_name);
        let is_numbered = name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"#"));
        self.path.is_some() && (self.unlinked || is_numbered)
    }

    fn resolve(
        self,
        id: FileId,
        kernel: &Kernel,
        mounts: Option<&Mounts>,
        seen: Option<&SeenMount>,
        writes_seen: &[u64],
    ) -> FileInfo {
        let gone = match mounts {
            Some(mounts) => seen.filter(|seen| !seen.is_still_there(mounts)),
            None => seen,
        };
        let device = self.super_device;
        let kind = match &self.path {
            _ if is_block_device(self.mode) => FileKind::BlockDevice,
            None => FileKind::Internal,
            Some(_) => FileKind::File,
        };
        let path = self.path.as_deref();
        FileInfo {
            path: match gone.zip(path) {
                Some((gone, path)) if kind == FileKind::File => gone.resolve(path),
                _ => seen_path(id, self.mode, device, path, kernel, mounts),
            },
            path_in_file_system: self.path,
            deleted: self.unlinked,
            kind,
            file_system: match gone {
                Some(gone) => Some(gone.file_system.clone()),
                None => mounts.and_then(|mounts| {
                    let mut mounts = mounts.as_slice().iter();
                    mounts
                        .find(|mount| mount.dev == device)
                        .map(|mount| mount.fs_type.clone())
                }),
            },
            size: Bytes(self.size),
            resident_before: Pages(self.resident),
            first_used_alone: self.alone,
            writes_are_seen: writes_seen.contains(&self.magic),
        }
    }
}

/// Takes the records out of the ring in the background when it fills, so that it does not run full.
pub(crate) struct Names {
    shared: Arc<Shared>,
    records: Records,
    thread: Option<JoinHandle<()>>,
    /// Closed, it ends the thread.
    stop: Option<PipeWriter>,
}

struct Shared {
    /// Locked while it is read: it has one reader at a time.
    ring: Mutex<RingBuffer<'static>>,
    /// Destination of the ring's records. Lock order: a thread that holds this lock must not lock the ring.
    arrivals: Arc<Mutex<Arrivals>>,
    _map: MapHandle,
}

impl Names {
    pub(crate) fn collect(map: MapHandle) -> Result<Self, Error> {
        let arrivals = Arc::new(Mutex::new(Arrivals::default()));
        let inbox = Arc::clone(&arrivals);
        let mut ring = RingBufferBuilder::new();
        ring.add(&map, move |bytes| {
            inbox
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(bytes);
            0
        })
        .map_err(map_error)?;
        let ring = ring.build().map_err(map_error)?;
        let shared = Arc::new(Shared {
            ring: Mutex::new(ring),
            arrivals,
            _map: map,
        });
        let collector = Arc::clone(&shared);
        let (stopped, stop) = std::io::pipe().map_err(Error::Thread)?;
        // Without a thread the ring is emptied at each snapshot alone; files that find it full have no name.
        let thread = cachewise_sys::start_thread("names", move || collector.collect(&stopped)).ok();
        Ok(Names {
            shared,
            records: Records::default(),
            thread,
            stop: Some(stop),
        })
    }

    /// Ends the thread, if there is one. The ring is emptied at each snapshot from then on.
    pub(crate) fn end_thread(&mut self) {
        drop(self.stop.take());
        // A panic of the collector was printed when it happened, and nothing is left to undo.
        let _ = self.thread.take().map(JoinHandle::join);
    }

    /// Names what has come; returns how many records could not be read since the start.
    fn arrive(&mut self, writes_seen: &[u64]) -> Result<u64, Error> {
        self.shared.drain()?;
        let (arrived, mounted, unreadable) = {
            let mut arrivals = self.shared.arrivals();
            let mounted = std::mem::take(&mut arrivals.mounted);
            let arrived = std::mem::take(&mut arrivals.arrived);
            (arrived, mounted, arrivals.unreadable)
        };
        let round = self.records.round;
        let mounted = mounted.into_iter().map(|(id, seen)| (id, (seen, round)));
        self.records.mounted.extend(mounted);
        self.records.resolve(arrived, writes_seen);
        Ok(unreadable)
    }

    /// Begins a round of naming: file systems that no known file is on are forgotten, one round later.
    pub(crate) fn next_round(&mut self) {
        self.records.next_round();
    }

    /// The addresses of the inodes, in kernel memory, of files that had no name or a temporary one when they were read;
    /// with intervals, only of those used in this interval or the one before.
    pub(crate) fn nameless(&mut self, writes_seen: &[u64]) -> Result<Vec<u64>, Error> {
        self.arrive(writes_seen)?;
        let interval = self.records.interval;
        let files = self.records.files.values();
        Ok(files
            .filter(|known| known.used == interval)
            .filter_map(|known| known.nameless)
            .collect())
    }

    /// Every file seen so far; and how many could not be named, their records being unreadable.
    pub(crate) fn all(
        &mut self,
        writes_seen: &[u64],
    ) -> Result<(HashMap<FileId, FileInfo>, u64), Error> {
        let unreadable = self.arrive(writes_seen)?;
        let files = self.records.files.iter();
        let files = files.map(|(id, known)| (*id, known.info.clone())).collect();
        Ok((files, unreadable))
    }

    /// The files used in an interval, which ends with this call, and the number of unnamed files since the start.
    pub(crate) fn used(
        &mut self,
        used: impl Iterator<Item = FileId>,
        writes_seen: &[u64],
    ) -> Result<(HashMap<FileId, FileInfo>, u64), Error> {
        self.records.interval += 1;
        let unreadable = self.arrive(writes_seen)?;
        let records = &mut self.records;
        let interval = records.interval;
        let mut files: HashMap<FileId, FileInfo> = HashMap::new();
        for id in used {
            if let Some(known) = records.files.get_mut(&id) {
                known.used = interval;
                files.entry(id).or_insert_with(|| known.info.clone());
            }
        }
        records
            .files
            .retain(|_, known| !known.is_forgotten || known.used == interval);
        Ok((files, unreadable))
    }

    /// The files to forget if more than three quarters of `places` are taken: those unused for longest, down to a half.
    /// Their names are kept for one more interval, as a program may use such a file at this moment.
    pub(crate) fn unused(&mut self, places: usize) -> Vec<FileId> {
        let records = &mut self.records;
        let interval = records.interval;
        let taken = records.files.len();
        if taken <= places / 4 * 3 {
            return Vec::new();
        }
        let mut idle: Vec<(u64, FileId)> = records
            .files
            .iter()
            .filter(|(_, known)| known.used < interval && !known.is_forgotten)
            .map(|(id, known)| (known.used, *id))
            .collect();
        let too_many = (taken - places / 2).min(idle.len());
        if too_many > 0 && too_many < idle.len() {
            idle.select_nth_unstable(too_many);
        }
        idle.truncate(too_many);
        for (_, id) in &idle {
            if let Some(known) = records.files.get_mut(id) {
                known.is_forgotten = true;
            }
        }
        idle.into_iter().map(|(_, id)| id).collect()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.end_thread();
    }
}

impl Shared {
    /// Empties the ring whenever the programs call, until the other end of the pipe is closed.
    fn collect(&self, stopped: &PipeReader) {
        let ring = self.ring().epoll_fd();
        // SAFETY: the descriptor is open as long as the ring, which is as old as `self`.
        let ring = unsafe { BorrowedFd::borrow_raw(ring) };
        let interval = Timespec::try_from(INTERVAL).ok();
        loop {
            let mut ends = [
                PollFd::new(stopped, PollFlags::IN),
                PollFd::new(&ring, PollFlags::IN),
            ];
            match poll(&mut ends, None) {
                Err(Errno::INTR) => continue,
                Ok(_) if ends[0].revents().is_empty() => {}
                _ => return,
            }
            // If the ring cannot be read, the snapshot's own try says so.
            drop(self.drain());
            // Records that come meanwhile can wait: woken for each, this would take a CPU.
            if !matches!(
                poll(&mut ends[..1], interval.as_ref()),
                Ok(0) | Err(Errno::INTR)
            ) {
                return;
            }
        }
    }

    fn ring(&self) -> MutexGuard<'_, RingBuffer<'static>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self) -> Result<(), Error> {
        self.ring().consume().map_err(map_error)
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn map_error(source: libbpf_rs::Error) -> Error {
    Error::Map {
        operation: "read the files' names",
        source: source.into(),
    }
}

enum Record {
    File(FileId, FileRecord),
    Mount(FileSystemId, SeenMount),
}

fn parse(bytes: &[u8]) -> Result<Record, Error> {
    const { assert!(offset_of!(types::file_record, id) == 0 && size_of::<types::file_id>() == 24) };
    let raw = Raw::new(bytes, "file record", offset_of!(types::file_record, names))?;
    let length = raw.u32(offset_of!(types::file_record, length)) as usize;
    let names = raw.tail(offset_of!(types::file_record, names));
    let names = names.get(..length).unwrap_or(names);
    let first = raw.u32(offset_of!(types::file_record, first_length)) as usize;
    let (first, second) = names.split_at_checked(first).unwrap_or((&[], names));
    let id = file_id(raw, 0);
    if raw.u32(offset_of!(types::file_record, kind)) == MOUNT {
        let of = |names| path_of(names, &[], true).unwrap_or_else(|| PathBuf::from("/"));
        let file_system = raw.text(offset_of!(types::file_record, r#type));
        let mount = SeenMount {
            // The file system's own: on btrfs each subvolume has a device of its own.
            device: Device::from_kernel(raw.u32(offset_of!(types::file_record, super_dev))),
            root: of(first),
            mount_point: of(second),
            file_system,
        };
        return Ok(Record::Mount((mount.device, id.volume), mount));
    }
    let record = FileRecord {
        address: raw.u64(offset_of!(types::file_record, address)),
        size: raw.u64(offset_of!(types::file_record, size)),
        resident: raw.u64(offset_of!(types::file_record, resident_pages)),
        magic: raw.u64(offset_of!(types::file_record, magic)),
        super_device: Device::from_kernel(raw.u32(offset_of!(types::file_record, super_dev))),
        mode: raw.u32(offset_of!(types::file_record, mode)),
        unlinked: raw.u32(offset_of!(types::file_record, unlinked)) != 0,
        alone: raw.u32(offset_of!(types::file_record, alone)) != 0,
        path: path_of(
            second,
            first,
            raw.u32(offset_of!(types::file_record, whole)) != 0,
        ),
    };
    Ok(Record::File(id, record))
}

/// Returns the path from the root of the file system to `names`, which are in the directory `above`: both are names from
/// below upwards. Where they do not reach the root, the path is a relative one that begins with [`LEFT_OUT`].
fn path_of(names: &[u8], above: &[u8], whole: bool) -> Option<PathBuf> {
    if names.is_empty() {
        return None;
    }
    let is_end = |byte: &u8| *byte == 0;
    let start = if whole { "" } else { LEFT_OUT };
    let names = above.rsplit(is_end).chain(names.rsplit(is_end));
    Some(path(start, names.filter(|name| !name.is_empty())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_are_put_together_from_the_root_down() {
        assert_eq!(
            path_of(b"c.txt\0", b"b\0a\0", true),
            Some(PathBuf::from("/a/b/c.txt")),
            "upwards in, downwards out"
        );
        assert_eq!(
            path_of(b"c.txt\0", b"b\0", false),
            Some(PathBuf::from("…/b/c.txt")),
            "what is cut off is seen to be"
        );
        for whole in [true, false] {
            let none = path_of(b"", b"", whole);
            assert_eq!(none, None, "an inode without a dentry has no path");
        }
        let odd = path_of(b"\xff\n\0", b"", true).unwrap();
        assert_eq!(
            odd.as_os_str().as_bytes(),
            b"/\xff\n",
            "names are bytes, not text"
        );
    }

    #[test]
    fn file_systems_without_files_are_forgotten_after_a_round() {
        let device = |minor| Device { major: 7, minor };
        let seen = |minor| SeenMount {
            device: device(minor),
            root: "/".into(),
            mount_point: "/mnt".into(),
            file_system: "ext4".into(),
        };
        let id = |minor| FileId {
            major: 7,
            minor,
            inode: 12,
            generation: 1,
            volume: 5,
        };
        let record = FileRecord {
            address: 1,
            size: 1,
            resident: 0,
            magic: 0,
            super_device: device(1),
            mode: 0o100_644,
            unlinked: false,
            alone: true,
            path: Some("/file".into()),
        };
        let mut records = Records::default();
        for minor in 1..100 {
            let round = records.round;
            records
                .mounted
                .insert((device(minor), 5), (seen(minor), round));
        }
        records.resolve(HashMap::from([(id(1), record)]), &[]);
        records.next_round();
        assert_eq!(records.mounted.len(), 99, "their files may be on their way");
        let round = records.round;
        records.mounted.insert((device(2), 5), (seen(2), round));
        records.next_round();
        let mut left: Vec<u32> = records
            .mounted
            .keys()
            .map(|(device, _)| device.minor)
            .collect();
        left.sort_unstable();
        assert_eq!(left, [1, 2], "that of a known file, and the one just seen");
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let mut records = Arrivals::default();
        let shortest = vec![0; offset_of!(types::file_record, names)];
        for bytes in [&shortest[..], &shortest[1..], &[], &shortest[..]] {
            records.take(bytes);
        }
        assert_eq!(
            records.unreadable, 2,
            "those that are too short, and nothing is read past their end"
        );
        assert_eq!(records.arrived.len(), 1, "the others are the same file");
    }
}
