//! [`survey`]: a snapshot of real files.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cachewise_sys::page_size;
use cachewise_units::{ByteRange, Bytes};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::{FileId, FileState, Snapshot};
use crate::sysfs::read_ahead;
use crate::{Error, Inode, Unknown, map, open};

/// Residency of a set of files.
#[derive(Debug)]
pub struct Survey {
    /// Input of a plan.
    pub snapshot: Snapshot,
    /// The paths of [`Snapshot::files`].
    pub paths: Vec<Arc<Path>>,
    /// Paths that could not be opened, or are not files, each in its error. They are not in the
    /// snapshot.
    pub skipped: Vec<Error>,
    /// Reasons for unknown residency, with the path of each file that is in the snapshot as
    /// unknown.
    pub unknown: Vec<Error>,
    /// The inodes of the files in the snapshot.
    pub(super) inodes: Vec<Inode>,
    /// How far the kernel reads ahead on the device of each.
    pub(super) read_ahead: Vec<Bytes>,
}

/// The length of the planned ranges, unless the kernel's readahead is longer.
const CHUNK: Bytes = Bytes(1 << 20);
/// The length where it does: the kernel makes folios as large as that then, of which a part cannot be dropped.
const CHUNK_OF_LARGE_FOLIOS: Bytes = Bytes(2 << 20);

/// Looks at files: which of their pages are resident.
///
/// Files whose residency cannot be known are in the snapshot, as unknown; who cannot be opened is skipped.
/// `chunk` is [`Snapshot::chunk`]; 1 MiB where it is `None`, 2 MiB where the device reads that far ahead.
///
/// # Cost
/// Seven system calls a file, two more where it is resident in part, and what [`map()`] costs. No file stays open.
#[must_use]
pub fn survey<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, chunk: Option<Bytes>) -> Survey {
    survey_until(paths, chunk, &AtomicBool::new(false))
}

/// Looks at files as [`survey`] does, until it is cancelled: the survey is of the first files then.
#[must_use]
pub fn survey_until<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    chunk: Option<Bytes>,
    cancel: &AtomicBool,
) -> Survey {
    let mut devices = HashMap::new();
    let mut survey = Survey {
        snapshot: Snapshot {
            files: Vec::new(),
            chunk: CHUNK,
            headroom: None,
        },
        paths: Vec::new(),
        skipped: Vec::new(),
        unknown: Vec::new(),
        inodes: Vec::new(),
        read_ahead: Vec::new(),
    };
    for path in paths {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        let path = path.as_ref();
        match look(path) {
            Ok((inode, resident)) => {
                let ahead = *devices
                    .entry(inode.device)
                    .or_insert_with(|| read_ahead(inode.device));
                let resident = resident
                    .map_err(|error| survey.unknown.push(error.with_path(path)))
                    .ok();
                survey.snapshot.files.push(FileState {
                    id: inode.into(),
                    size: inode.size,
                    resident,
                    open_elsewhere: false,
                });
                survey.paths.push(path.into());
                survey.inodes.push(inode);
                survey.read_ahead.push(ahead);
            }
            Err(error) => survey.skipped.push(error.with_path(path)),
        }
    }
    let furthest = survey.read_ahead.iter().max().copied().unwrap_or_default();
    survey.snapshot.chunk = chunk
        .map(|chunk| chunk.max(page_size().bytes()))
        .unwrap_or(furthest.clamp(CHUNK, CHUNK_OF_LARGE_FOLIOS));
    survey
}

/// Any failure to learn what is resident leaves the file readable.
fn look(path: &Path) -> Result<(Inode, Result<Vec<ByteRange>, Error>), Error> {
    let file = match open(path) {
        Err(error) if error.unknown() == Some(Unknown::FuseNotOpened) => {
            return Ok((Inode::at(path)?, Err(error)));
        }
        opened => opened?,
    };
    let inode = Inode::of_fd(file.as_fd())?;
    Ok((inode, resident(&file)))
}

/// The resident ranges.
fn resident(file: &File) -> Result<Vec<ByteRange>, Error> {
    let found = map(file, ByteRange::starting_at(0))?;
    let ranges = found.ranges.iter().map(|range| range.bytes(page_size()));
    Ok(ranges.collect())
}

impl Survey {
    /// Marks the files that other processes have open, so that no page of them is dropped.
    ///
    /// Sees the processes whose `/proc/PID/fd` the caller may read: all as root, otherwise its own.
    /// Mapped pages need no mark: the kernel does not drop them.
    ///
    /// # Cost
    /// One system call for each open descriptor of the machine, a few microseconds.
    pub fn mark_open_elsewhere(&mut self) {
        let wanted: HashSet<_> = self.snapshot.files.iter().map(|file| file.id).collect();
        let open = open_elsewhere(&wanted);
        for file in &mut self.snapshot.files {
            file.open_elsewhere |= open.contains(&file.id);
        }
    }
}

fn open_elsewhere(wanted: &HashSet<FileId>) -> HashSet<FileId> {
    let own = std::process::id().to_string();
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut open = HashSet::new();
    for process in entries("/proc".into()) {
        let name = process.file_name();
        let is_process = name
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process || name.to_str() == Some(&own) {
            continue;
        }
        for descriptor in entries(process.path().join("fd")) {
            // Of the file behind the link, whatever has become of its name. DONT_SYNC contacts no server: a dead one
            // would block for ever.
            let (flags, mask) = (AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO);
            if let Ok(found) = statx(CWD, descriptor.path(), flags, mask) {
                let id = Inode::from_statx(&found).into();
                if wanted.contains(&id) {
                    open.insert(id);
                }
            }
        }
    }
    open
}
