//! [`diff()`]: what came and what went between two snapshots, or since one.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, Hash, RandomState};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use cachewise_sys::{ErrorKind, page_size};
use cachewise_units::{ByteRange, Bytes, PageRange, Pages};

use super::{Reader, SnapshotEntry, SnapshotError};
use crate::ranges::{both, minus, total};
use crate::{Error, Inode, map, open};

/// Pages of a file that became resident or were evicted.
#[derive(Debug)]
pub struct FileDiff {
    /// The file.
    pub path: PathBuf,
    /// Pages that were resident then.
    pub before: Pages,
    /// Pages that are resident in the second snapshot, or now. This and the numbers below are 0 and
    /// have no meaning if [`fate`](Self::fate) is [`Fate::Unknown`].
    pub after: Pages,
    /// Pages of `after` that were not resident then.
    pub gained: Pages,
    /// Pages of `before` that are not resident any more.
    pub lost: Pages,
    /// Pages of `lost` that lie beyond the end that the file has in the second, or now.
    pub beyond: Pages,
    /// Whether the file itself changed.
    pub fate: Fate,
}

/// Change of a file itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fate {
    /// Its size and its time are what they were.
    Same,
    /// It has another size or another time of modification: pages are compared by their place.
    Changed,
    /// Only the second snapshot has it.
    Added,
    /// Only the first snapshot has it; or it is gone now.
    Gone,
    /// It has this name now, in the same directory, and is what it was.
    Renamed(PathBuf),
    /// Its present residency is unknown.
    Unknown(Error),
}

/// All differences together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffTotals {
    /// Files in either, but for the unknown ones.
    pub files: u64,
    /// Files of those with pages that came or went.
    pub different: u64,
    /// Other files, whose present residency is unknown: only their pages of the snapshot are in the
    /// numbers. If there are any, `after`, `gained` and `lost` are not complete.
    pub unknown: u64,
    /// Pages that were resident then.
    pub before: Pages,
    /// Pages that are resident in the second, or now.
    pub after: Pages,
    /// Pages that came.
    pub gained: Pages,
    /// Pages that went.
    pub lost: Pages,
}

impl DiffTotals {
    fn add(&mut self, diff: &FileDiff) {
        self.before += diff.before;
        if let Fate::Unknown(_) = diff.fate {
            self.unknown += 1;
            return;
        }
        self.files += 1;
        self.different += u64::from(diff.gained + diff.lost > Pages::ZERO);
        self.after += diff.after;
        self.gained += diff.gained;
        self.lost += diff.lost;
    }
}

impl FileDiff {
    /// `size` is that of the second, or now.
    fn from_ranges(
        path: PathBuf,
        before: &[PageRange],
        after: &[PageRange],
        size: Bytes,
        fate: Fate,
    ) -> Self {
        let end = size.0.div_ceil(page_size().get());
        let beyond = PageRange {
            start: end,
            end: u64::MAX,
        };
        Self {
            path,
            before: total(before),
            after: total(after),
            gained: total(&minus(after, before)),
            lost: total(&minus(before, after)),
            beyond: total(&both(&minus(before, after), &[beyond])),
            fate,
        }
    }
}

/// Compares two snapshots: the files of the first, in its order, then those that only the second has.
///
/// A file is found by its path, or else by another of its names: the same device and inode, with the same size and
/// time, for the inode of a file that is gone is given to another one.
///
/// # Errors
/// Those of [`Reader`], for either.
///
/// # Cost
/// The second is read twice, and memory is taken for 40 bytes of each of its files.
pub fn diff(
    mut first: Reader<BufReader<File>>,
    second: Reader<BufReader<File>>,
    mut each: impl FnMut(FileDiff),
) -> Result<DiffTotals, SnapshotError> {
    let mut index = Index::from_reader(second)?;
    let mut totals = DiffTotals::default();
    let mut tell = |diff: FileDiff| {
        totals.add(&diff);
        each(diff);
    };
    for entry in first.by_ref() {
        let entry = entry?;
        tell(match index.take(&entry)? {
            None => FileDiff::from_ranges(entry.path, &entry.ranges, &[], entry.size, Fate::Gone),
            Some(other) => {
                let is_same = (entry.size, entry.modified) == (other.size, other.modified);
                let fate = if is_same { Fate::Same } else { Fate::Changed };
                FileDiff::from_ranges(entry.path, &entry.ranges, &other.ranges, other.size, fate)
            }
        });
    }
    if first.is_cancelled() {
        return Ok(totals);
    }
    index.left(|entry| {
        let size = entry.size;
        tell(FileDiff::from_ranges(
            entry.path,
            &[],
            &entry.ranges,
            size,
            Fate::Added,
        ));
    })?;
    Ok(totals)
}

/// Compares a snapshot with present residency. New files are not in the snapshot, and so not listed.
///
/// # Errors
/// Those of [`Reader`]. The reason for an unreadable file is in [`FileDiff::fate`].
///
/// # Cost
/// That of [`open`] and of [`map()`] for each file. For missing files, reading their directory.
pub fn diff_now<R: BufRead>(
    reader: Reader<R>,
    mut each: impl FnMut(FileDiff),
) -> Result<DiffTotals, SnapshotError> {
    let mut totals = DiffTotals::default();
    let mut names = Names::default();
    for entry in reader {
        let diff = since(entry?, &mut names);
        totals.add(&diff);
        each(diff);
    }
    Ok(totals)
}

fn since(entry: SnapshotEntry, names: &mut Names) -> FileDiff {
    let mut now = || -> Result<_, Error> {
        let opened = open(&entry.path).and_then(|file| Ok((Inode::of_fd(file.as_fd())?, file)));
        let is_there = match &opened {
            Ok((inode, _)) => entry.is_same(inode) || inode.number == entry.inode,
            Err(error) => error.kind() != ErrorKind::NotFound,
        };
        let renamed = (!is_there).then(|| names.find(&entry)).flatten();
        let (fate, (inode, file)) = match (renamed, opened) {
            (Some((path, inode, file)), _) => (Fate::Renamed(path), (inode, file)),
            (None, opened) => {
                let (inode, file) = opened?;
                let fate = match entry.is_same(&inode) {
                    true => Fate::Same,
                    false => Fate::Changed,
                };
                (fate, (inode, file))
            }
        };
        Ok((
            fate,
            inode.size,
            map(&file, ByteRange::starting_at(0))?.ranges,
        ))
    };
    match now() {
        Ok((fate, size, ranges)) => {
            FileDiff::from_ranges(entry.path, &entry.ranges, &ranges, size, fate)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            FileDiff::from_ranges(entry.path, &entry.ranges, &[], entry.size, Fate::Gone)
        }
        Err(error) => FileDiff {
            before: total(&entry.ranges),
            after: Pages::ZERO,
            gained: Pages::ZERO,
            lost: Pages::ZERO,
            beyond: Pages::ZERO,
            fate: Fate::Unknown(error.with_path(&entry.path)),
            path: entry.path,
        },
    }
}

/// The present names of the inodes of a directory: of the last one that was requested.
#[derive(Default)]
struct Names {
    directory: PathBuf,
    by_inode: HashMap<u64, PathBuf>,
}

impl Names {
    /// Finds a file under another name in its directory, where it was renamed and not changed.
    fn find(&mut self, entry: &SnapshotEntry) -> Option<(PathBuf, Inode, File)> {
        let directory = entry.path.parent()?;
        if self.directory != directory || self.by_inode.is_empty() {
            let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
            self.by_inode = found.map(|found| (found.ino(), found.path())).collect();
            directory.clone_into(&mut self.directory);
        }
        let path = self.by_inode.get(&entry.inode)?;
        // Without following a link that took the inode of the file.
        let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
        let file = open(path).ok().filter(|_| is_file)?;
        let inode = Inode::of_fd(file.as_fd()).ok()?;
        let is_it = inode.number == entry.inode && entry.is_same(&inode);
        is_it.then(|| (path.clone(), inode, file))
    }
}

/// Where in a snapshot each file is.
struct Index {
    reader: Reader<BufReader<File>>,
    state: RandomState,
    /// By the hash of their paths.
    places: Vec<IndexedEntry>,
    /// The indexes of the places, by the hash of who the files are.
    by_identity: Vec<usize>,
}

struct IndexedEntry {
    path: u64,
    identity: u64,
    offset: u64,
    /// The line, with the highest bit set once it was taken.
    line: u64,
}

const TAKEN: u64 = 1 << 63;

impl Index {
    fn from_reader(mut reader: Reader<BufReader<File>>) -> Result<Self, SnapshotError> {
        let state = RandomState::new();
        let mut places = Vec::new();
        loop {
            let (offset, line) = (reader.offset, reader.number());
            let Some(entry) = reader.next() else { break };
            let entry = entry?;
            places.push(IndexedEntry {
                path: hash(&state, &entry.path),
                identity: state.hash_one(identity(&entry)),
                offset,
                line,
            });
        }
        places.sort_unstable_by_key(|place| place.path);
        let mut by_identity: Vec<usize> = (0..places.len()).collect();
        by_identity.sort_by_key(|&index| places[index].identity);
        Ok(Self {
            reader,
            state,
            places,
            by_identity,
        })
    }

    /// Finds a file, and notes that it was found, under all of its names.
    fn take(&mut self, wanted: &SnapshotEntry) -> Result<Option<SnapshotEntry>, SnapshotError> {
        let by_path = hash(&self.state, &wanted.path);
        let first = self.places.partition_point(|place| place.path < by_path);
        let mut found = None;
        for index in first..self.places.len() {
            if self.places[index].path != by_path {
                break;
            }
            if self.take_if(index, |entry| entry.path == wanted.path, &mut found)? {
                break;
            }
        }
        let by_identity = self.state.hash_one(identity(wanted));
        let places = &self.places;
        let first = (self.by_identity).partition_point(|&at| places[at].identity < by_identity);
        for at in first..self.by_identity.len() {
            let index = self.by_identity[at];
            if self.places[index].identity != by_identity {
                break;
            }
            // Most have one name, which is found by now.
            if found.is_none() || self.places[index].line & TAKEN == 0 {
                self.take_if(
                    index,
                    |entry| identity(entry) == identity(wanted),
                    &mut found,
                )?;
            }
        }
        Ok(found)
    }

    /// Marks the file as found if it matches; returns whether it does.
    fn take_if(
        &mut self,
        index: usize,
        is_it: impl FnOnce(&SnapshotEntry) -> bool,
        found: &mut Option<SnapshotEntry>,
    ) -> Result<bool, SnapshotError> {
        let place = &mut self.places[index];
        let entry = self.reader.entry_at(place.offset, place.line & !TAKEN)?;
        let Some(entry) = entry.filter(is_it) else {
            return Ok(false);
        };
        place.line |= TAKEN;
        found.get_or_insert(entry);
        Ok(true)
    }

    /// Goes through the files that were not taken.
    fn left(mut self, mut each: impl FnMut(SnapshotEntry)) -> Result<(), SnapshotError> {
        self.places.retain(|place| place.line & TAKEN == 0);
        self.places.sort_unstable_by_key(|place| place.offset);
        for place in &self.places {
            if let Some(found) = self.reader.entry_at(place.offset, place.line)? {
                each(found);
            }
        }
        Ok(())
    }
}

/// Identity of a file, independent of its name.
fn identity(entry: &SnapshotEntry) -> impl Hash + PartialEq + use<> {
    (entry.device, entry.inode, entry.size, entry.modified)
}

fn hash(state: &RandomState, path: &Path) -> u64 {
    // The bytes: `Path` compares, and hashes, by components.
    state.hash_one(path.as_os_str())
}
