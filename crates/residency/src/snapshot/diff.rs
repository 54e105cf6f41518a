//! [`diff()`]: what came and what went between two snapshots, or since one.

use std::hash::{BuildHasher, Hash, RandomState};
use std::io::BufRead;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use cachewise_sys::ErrorKind;
use cachewise_units::{ByteRange, PageRange, Pages};

use super::{Entry, Reader, SnapshotError};
use crate::ranges::{minus, total};
use crate::{Error, Inode, map, open};

/// What came and what went of a file.
#[derive(Debug)]
pub struct FileDiff {
    /// The file.
    pub path: PathBuf,
    /// Pages that were resident then.
    pub before: Pages,
    /// Pages that are resident in the second, or now; 0 where [`fate`](Self::fate) says why nobody knows.
    pub after: Pages,
    /// Pages of `after` that were not resident then.
    pub gained: Pages,
    /// Pages of `before` that are not resident any more.
    pub lost: Pages,
    /// What became of the file itself.
    pub fate: Fate,
}

/// What became of a file itself.
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
    /// Nobody knows what is resident now.
    Unknown(Error),
}

/// All differences together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffTotals {
    /// Files in either.
    pub files: u64,
    /// Files of those with pages that came or went.
    pub different: u64,
    /// Files of those of which nobody knows: in no other number.
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
        if let Fate::Unknown(_) = diff.fate {
            self.unknown += 1;
            return;
        }
        self.files += 1;
        self.different += u64::from(diff.gained + diff.lost > Pages::ZERO);
        self.before += diff.before;
        self.after += diff.after;
        self.gained += diff.gained;
        self.lost += diff.lost;
    }
}

impl FileDiff {
    fn of(path: PathBuf, before: &[PageRange], after: &[PageRange], fate: Fate) -> Self {
        Self {
            path,
            before: total(before),
            after: total(after),
            gained: total(&minus(after, before)),
            lost: total(&minus(before, after)),
            fate,
        }
    }
}

/// Compares two snapshots: the files of the first, in its order, then those that only the second has.
///
/// # Errors
/// Those of [`Reader`], for either.
///
/// # Cost
/// The second is read twice, and memory is taken for 24 bytes of each of its files.
pub fn diff(
    first: &Path,
    second: &Path,
    mut each: impl FnMut(FileDiff),
) -> Result<DiffTotals, SnapshotError> {
    let first = Reader::open(first)?;
    let mut index = Index::of(second)?;
    let mut totals = DiffTotals::default();
    let mut tell = |diff: FileDiff| {
        totals.add(&diff);
        each(diff);
    };
    for entry in first {
        let entry = entry?;
        tell(match index.take(&entry.path)? {
            None => FileDiff::of(entry.path, &entry.ranges, &[], Fate::Gone),
            Some(other) => {
                let is_same = (entry.size, entry.modified) == (other.size, other.modified);
                let fate = if is_same { Fate::Same } else { Fate::Changed };
                FileDiff::of(entry.path, &entry.ranges, &other.ranges, fate)
            }
        });
    }
    index.left(|entry| {
        tell(FileDiff::of(entry.path, &[], &entry.ranges, Fate::Added));
    })?;
    Ok(totals)
}

/// Compares a snapshot with what is resident now. Files that came since are not in it, and so not seen.
///
/// # Errors
/// Those of [`Reader`]. Of files that cannot be looked at the reason is in [`FileDiff::fate`].
///
/// # Cost
/// For each file that of [`open`] and of [`map()`].
pub fn diff_now<R: BufRead>(
    reader: Reader<R>,
    mut each: impl FnMut(FileDiff),
) -> Result<DiffTotals, SnapshotError> {
    let mut totals = DiffTotals::default();
    for entry in reader {
        let diff = since(entry?);
        totals.add(&diff);
        each(diff);
    }
    Ok(totals)
}

fn since(entry: Entry) -> FileDiff {
    let now = || -> Result<_, Error> {
        let file = open(&entry.path)?;
        let fate = match entry.is_same(&Inode::of(file.as_fd())?) {
            true => Fate::Same,
            false => Fate::Changed,
        };
        Ok((fate, map(&file, ByteRange::starting_at(0))?.ranges))
    };
    match now() {
        Ok((fate, ranges)) => FileDiff::of(entry.path, &entry.ranges, &ranges, fate),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            FileDiff::of(entry.path, &entry.ranges, &[], Fate::Gone)
        }
        Err(error) => FileDiff {
            before: total(&entry.ranges),
            after: Pages::ZERO,
            gained: Pages::ZERO,
            lost: Pages::ZERO,
            fate: Fate::Unknown(error.with_path(&entry.path)),
            path: entry.path,
        },
    }
}

/// Where in a snapshot each path is.
struct Index {
    reader: Reader<std::io::BufReader<std::fs::File>>,
    state: RandomState,
    path: PathBuf,
    /// By the hash of their paths.
    places: Vec<Place>,
}

struct Place {
    hash: u64,
    offset: u64,
    /// The line, with the highest bit set once it was taken.
    line: u64,
}

const TAKEN: u64 = 1 << 63;

impl Index {
    fn of(path: &Path) -> Result<Self, SnapshotError> {
        let mut reader = Reader::open(path)?;
        let state = RandomState::new();
        let mut places = Vec::new();
        loop {
            let (offset, line) = (reader.offset, reader.number());
            let Some(entry) = reader.next() else { break };
            let hash = hash(&state, &entry?.path);
            places.push(Place { hash, offset, line });
        }
        places.sort_unstable_by_key(|place| place.hash);
        Ok(Self {
            reader,
            state,
            path: path.to_owned(),
            places,
        })
    }

    /// Finds a file, and notes that it was found.
    fn take(&mut self, path: &Path) -> Result<Option<Entry>, SnapshotError> {
        let wanted = hash(&self.state, path);
        let first = self.places.partition_point(|place| place.hash < wanted);
        for place in &mut self.places[first..] {
            if place.hash != wanted {
                break;
            }
            let found = self.reader.entry_at(place.offset, place.line & !TAKEN);
            if let Some(found) = found.map_err(|error| error.at(&self.path))?
                && found.path == path
            {
                place.line |= TAKEN;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Goes through the files that were not taken.
    fn left(mut self, mut each: impl FnMut(Entry)) -> Result<(), SnapshotError> {
        self.places.retain(|place| place.line & TAKEN == 0);
        self.places.sort_unstable_by_key(|place| place.offset);
        for place in &self.places {
            let found = self.reader.entry_at(place.offset, place.line);
            if let Some(found) = found.map_err(|error| error.at(&self.path))? {
                each(found);
            }
        }
        Ok(())
    }
}

fn hash(state: &RandomState, path: &Path) -> u64 {
    // The bytes: `Path` compares, and hashes, by components.
    let mut hasher = state.build_hasher();
    path.as_os_str().hash(&mut hasher);
    std::hash::Hasher::finish(&hasher)
}
