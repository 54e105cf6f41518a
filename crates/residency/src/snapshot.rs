//! Snapshots: residency of files, saved to a file, to restore or to compare it.
//!
//! # Format
//! Version 1. A text file, a JSON object a line, each line ended by a newline.
//!
//! 1. The head: `{"format":"cachewise-snapshot","version":1,"page_size_bytes":4096,"created_seconds":1767225600}`.
//!    `created_seconds` counts from 1970, in UTC.
//! 2. A line for each file, in any order, each path once:
//!    `{"path":"/srv/a%FF","device":[8,1],"inode":42,"size_bytes":10000,"modified":[1767225000,5],"ranges":[[0,2],[7,8]]}`.
//!    - `path`: absolute. Bytes that are not UTF-8 are written as `%` and two hexadecimal digits, and so is `%`
//!      itself (`%25`).
//!    - `device`: major and minor number; `modified`: seconds since 1970 and nanoseconds.
//!    - `place`, optional: where the first of the pages was on the device, in bytes. Files are read in this order, some at a
//!      time.
//!    - `ranges`: resident pages of the page size in the head, from the first up to the one after the last, in
//!      order, none empty, none overlapping.
//! 3. The end, by which a snapshot is known to be complete: `{"end":true,"files":1,"pages":3}`.
//!
//! A reader ignores unknown members; a change of meaning gets a new version.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use cachewise_sys::{page_size, place_on_device};
use cachewise_units::{Bytes, PageRange, PageSize, Pages};
use serde::{Deserialize, Serialize};

use crate::{Error, Inode, ResidentMap, map, open};

mod diff;
mod error;
mod name;
mod read;
mod restore;
mod write;

pub use diff::{DiffTotals, Fate, FileDiff, diff, diff_now};
pub use error::{SnapshotError, SnapshotFault};
pub use read::Reader;
pub use restore::{EachFile, FileOutcome, RestoreOptions, Restored, Skip, Skipped, restore};
pub use write::{Replacement, Writer};

/// The only version there is.
const VERSION: u64 = 1;
const FORMAT: &str = "cachewise-snapshot";

/// Entry of a file in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The path: absolute, where [`Writer`] wrote it.
    pub path: PathBuf,
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// The inode number.
    pub inode: u64,
    /// The size.
    pub size: Bytes,
    /// When the content last changed: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// Where the first of the pages was on the device, in bytes, if that is known.
    pub place: Option<u64>,
    /// The resident pages, of this machine's size.
    pub ranges: Vec<PageRange>,
}

impl SnapshotEntry {
    /// Looks at a file as a whole.
    ///
    /// # Errors
    /// Those of [`open`] and [`map()`], with the path.
    ///
    /// # Cost
    /// That of both.
    pub fn from_path(path: &Path) -> Result<Self, Error> {
        let file = open(path)?;
        let look = || {
            let inode = Inode::of_fd(file.as_fd())?;
            let map = map(&file, cachewise_units::ByteRange::starting_at(0))?;
            Ok(Self::new(path, &inode, map))
        };
        look().map_err(|error: Error| error.with_path(path))
    }

    /// Puts together what was found out of a file.
    #[must_use]
    pub fn new(path: &Path, inode: &Inode, map: ResidentMap) -> Self {
        Self {
            path: path.to_owned(),
            device: inode.device,
            inode: inode.number,
            size: inode.size,
            modified: inode.modified,
            place: None,
            ranges: map.ranges,
        }
    }

    /// Puts together the pages of a file that are meant to be read, in any order; of an open file with their place on the
    /// device. Pages beyond its end are left out.
    ///
    /// # Cost
    /// A system call.
    #[must_use]
    pub fn of_pages(
        path: &Path,
        inode: &Inode,
        file: Option<BorrowedFd<'_>>,
        pages: &[PageRange],
    ) -> Self {
        let whole = PageRange {
            start: 0,
            end: inode.size.pages_ceil(page_size()).0,
        };
        let inside = pages.iter().filter_map(|range| range.intersection(whole));
        let ranges = crate::ranges::merged(inside.collect::<Vec<_>>());
        let place = ranges.first().and_then(|first| {
            let place = place_on_device(file?, first.bytes(page_size()).start);
            place.ok().flatten()
        });
        Self {
            path: path.to_owned(),
            device: inode.device,
            inode: inode.number,
            size: inode.size,
            modified: inode.modified,
            place,
            ranges,
        }
    }

    /// Keeps the pages that are also in `pages`.
    pub fn keep(&mut self, pages: Vec<PageRange>) {
        self.ranges = crate::ranges::both(&self.ranges, &crate::ranges::merged(pages));
    }

    /// Returns how many pages are resident.
    #[must_use]
    pub fn cached(&self) -> Pages {
        crate::ranges::total(&self.ranges)
    }

    /// Whether a file has the content that it had, as far as size and time tell. Its device and inode do not
    /// count: numbers of devices change when a machine starts, inodes when a file is restored.
    fn is_same(&self, inode: &Inode) -> bool {
        self.size == inode.size && self.modified == inode.modified
    }

    /// Whether the file is there, and is the same unless a changed one is wanted too.
    fn can_be_restored(&self, anyway: bool) -> bool {
        Inode::at(&self.path).is_ok_and(|inode| anyway || self.is_same(&inode))
    }
}

/// How many files and pages a snapshot has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Resident pages, of the size that the machine has which wrote it.
    pub pages: Pages,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u64,
    page_size_bytes: u32,
    created_seconds: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    device: (u32, u32),
    inode: u64,
    size_bytes: u64,
    modified: (i64, u32),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
    ranges: Vec<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct End {
    end: bool,
    files: u64,
    pages: u64,
}

impl Line {
    fn from_entry(entry: &SnapshotEntry) -> std::io::Result<Self> {
        let path = std::path::absolute(&entry.path)?;
        Ok(Self {
            path: name::escaped(&path),
            device: entry.device,
            inode: entry.inode,
            size_bytes: entry.size.0,
            modified: entry.modified,
            place: entry.place,
            ranges: entry
                .ranges
                .iter()
                .map(|range| (range.start, range.end))
                .collect(),
        })
    }

    /// Validates the entry, and converts it to the page size of this machine.
    fn entry(self, written: PageSize) -> Result<SnapshotEntry, String> {
        self.entry_for(written, page_size())
    }

    /// Validates the entry, and converts it from one page size to another.
    fn entry_for(self, written: PageSize, own: PageSize) -> Result<SnapshotEntry, String> {
        let path = name::unescaped(&self.path).ok_or_else(|| {
            format!(
                "a % in the path {:?} is not followed by two digits",
                self.path
            )
        })?;
        if !path.is_absolute() {
            return Err(format!("the path {:?} is not absolute", self.path));
        }
        let mut ranges = Vec::with_capacity(self.ranges.len());
        let mut end_of_last = 0;
        // Of the largest offset there is, so that no sum wraps.
        let most = i64::MAX as u64 >> written.shift();
        for (start, end) in self.ranges {
            if start >= end || start < end_of_last || end > most {
                return Err(format!(
                    "the range [{start},{end}] is empty, too large, or not behind the last one"
                ));
            }
            end_of_last = end;
            ranges.push(PageRange { start, end });
        }
        if written != own {
            for range in &mut ranges {
                *range = range.bytes(written).page_range(own);
            }
        }
        Ok(SnapshotEntry {
            path,
            device: self.device,
            inode: self.inode,
            size: Bytes(self.size_bytes),
            modified: self.modified,
            place: self.place,
            ranges: crate::ranges::merged(ranges),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_another_size_are_the_same_bytes() {
        let line = || Line {
            path: "/x".to_owned(),
            device: (0, 0),
            inode: 1,
            size_bytes: 1 << 30,
            modified: (0, 0),
            place: None,
            ranges: vec![(1, 2), (3, 4)],
        };
        let size = page_size().get();
        let fourfold = PageSize::new(4 * size as u32).unwrap();
        let entry = line().entry(fourfold).unwrap();
        let range = |start, end| PageRange { start, end };
        assert_eq!(
            entry.ranges,
            [range(4, 8), range(12, 16)],
            "four of ours each"
        );
        let half = PageSize::new(size as u32 / 2).unwrap();
        let entry = line().entry(half).unwrap();
        assert_eq!(entry.ranges, [range(0, 2)], "each touched once");
    }

    #[test]
    fn a_snapshot_of_any_machine_is_read_on_any_other() {
        let sizes = [4 << 10, 16 << 10, 64 << 10].map(|bytes| PageSize::new(bytes).unwrap());
        for written in sizes {
            for own in sizes {
                let line = Line {
                    path: "/x".to_owned(),
                    device: (0, 0),
                    inode: 1,
                    size_bytes: 1 << 30,
                    modified: (0, 0),
                    place: None,
                    ranges: vec![(1, 2), (5, 21), (1000, 1001)],
                };
                let before = line.ranges.clone();
                let entry = line.entry_for(written, own).unwrap();
                for (start, end) in before {
                    let bytes = PageRange { start, end }.bytes(written);
                    assert!(
                        entry.ranges.iter().any(|range| {
                            let range = range.bytes(own);
                            range.start <= bytes.start && bytes.end() <= range.end()
                        }),
                        "written with {written}, read with {own}: {bytes:?} is in {:?}",
                        entry.ranges
                    );
                }
                let all: u64 = entry.ranges.iter().map(|range| range.bytes(own).len).sum();
                let most = 18 * written.get() + 6 * own.get();
                assert!(
                    all <= most,
                    "written with {written}, read with {own}: no more than pages touched in part"
                );
                // The largest offset, in pages of the machine that wrote it.
                let last = i64::MAX as u64 >> written.shift();
                let far = |ranges| Line {
                    path: "/x".to_owned(),
                    device: (0, 0),
                    inode: 1,
                    size_bytes: i64::MAX as u64,
                    modified: (0, 0),
                    place: None,
                    ranges,
                };
                let is_read = far(vec![(last - 1, last)]).entry_for(written, own).is_ok();
                assert!(
                    is_read,
                    "{written}, {own}: the last page of the largest file"
                );
                let is_read = far(vec![(last, last + 1)]).entry_for(written, own).is_ok();
                assert!(!is_read, "{written}, {own}: none is behind it");
            }
        }
    }
}
