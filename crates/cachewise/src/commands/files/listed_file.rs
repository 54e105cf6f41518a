//! One file, and what is known of it, as the sources tell it.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use cachewise_model::{Measured, Missing, NOT_APPLICABLE, Reason, Residency, Row};
use cachewise_residency::{Counts, Inode, map, open, query, query_inode};
use cachewise_sys::page_size;
use cachewise_units::{ByteRange, PageRange, Pages, Ratio};

const NOT_ASKED: Missing = Missing::NotOffered(Reason::StatesNotAsked);

/// Where files are shown that are memory and never had a path: memfd, shared memory.
pub const MEMORY: &str = "[memory]";

/// A file, and what of it is resident.
#[derive(Debug, Clone)]
pub struct ListedFile {
    pub path: PathBuf,
    /// Another way to it, where the path may lead elsewhere.
    pub link: Option<PathBuf>,
    /// Device and inode; a walk does not read them.
    pub identity: Option<Identity>,
    pub size: u64,
    /// Counts, or the reason why they are unknown.
    pub counts: Result<Counts, Reason>,
    /// Pages that were resident before something was done to it.
    pub before: Option<Result<u64, Reason>>,
    pub filesystem: Option<String>,
    pub note: Option<String>,
    /// The note in a few words, for tables, where it is long.
    pub brief: Option<String>,
    /// Its pages were counted from elsewhere: the file itself can tell the states of its pages.
    pub is_to_be_asked: bool,
    /// Resident share of equal parts of the file, for `--histogram`.
    pub strip: Option<Vec<Ratio>>,
}

/// Device and inode number of a file.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    pub device: (u32, u32),
    pub inode: u64,
    pub links: u64,
}

impl From<&Inode> for Identity {
    fn from(inode: &Inode) -> Identity {
        Identity {
            device: inode.device,
            inode: inode.number,
            links: inode.links.into(),
        }
    }
}

impl ListedFile {
    /// A file of this size.
    pub fn new(path: PathBuf, size: u64, counts: Result<Counts, Reason>) -> ListedFile {
        ListedFile {
            path,
            link: None,
            identity: None,
            size,
            counts,
            before: None,
            filesystem: None,
            note: None,
            brief: None,
            is_to_be_asked: false,
            strip: None,
        }
    }

    /// The path that leads to it from here.
    pub fn reached_by(&self) -> &Path {
        self.link.as_deref().unwrap_or(&self.path)
    }

    /// Asks the file for the states of its pages, if it still is the one that was counted.
    pub fn ask(&mut self) {
        let Some(identity) = self.identity else {
            return;
        };
        let filesystem = self.filesystem.as_deref();
        if let (Some(told), Ok(counts)) =
            (told_by(&self.path, &identity, filesystem), &mut self.counts)
        {
            counts.states = told.states;
        }
    }

    /// The file as a row.
    pub fn row(&self) -> Row {
        let mut row = Row::of_file();
        self.clone().fill(&mut row);
        row
    }

    /// Puts the file in place of that of another row. A list has one row for all of its files: making one costs as much
    /// as writing it.
    pub fn fill(self, row: &mut Row) {
        let text = |text: Option<String>| match text {
            Some(text) => Measured::Exact(text),
            None => Measured::not_offered(Reason::NothingToNote),
        };
        const NOT_LOOKED: Missing = Missing::NotOffered(Reason::NotLookedAt);
        let identity = self
            .identity
            .map_or(Measured::Missing(NOT_LOOKED), Measured::Exact);
        let labels = &mut row.labels;
        labels.path = Measured::Exact(self.path);
        labels.device = identity.map(
            |Identity {
                 device: (major, minor),
                 ..
             }| format!("{major}:{minor}"),
        );
        labels.inode = identity.map(|identity| identity.inode);
        labels.links = identity.map(|identity| identity.links);
        labels.filesystem = match self.filesystem {
            Some(name) => Measured::Exact(name),
            None => Measured::not_offered(Reason::WholeMachineOnly),
        };
        labels.note = match (&self.counts, self.note) {
            (Err(reason), None) => Measured::Exact(reason.to_string()),
            (_, note) => text(note),
        };
        let pages = |pages: Result<u64, Reason>| match pages {
            Ok(pages) => Measured::Exact(pages),
            Err(reason) => Measured::Missing(Missing::Unknown(reason)),
        };
        let change = self
            .before
            .map(|before| (before, self.counts.map(|counts| counts.cached.0)));
        let subject = &mut row.subject;
        subject.file_size_bytes = Measured::Exact(self.size);
        (subject.resident_before_pages, subject.resident_after_pages) = match change {
            Some((before, after)) => (pages(before), pages(after)),
            None => (
                Measured::Missing(NOT_APPLICABLE),
                Measured::Missing(NOT_APPLICABLE),
            ),
        };
        row.residency = residency(&self.counts);
        if let Some(strip) = self.strip {
            row.residency.histogram = Measured::Exact(strip);
        }
    }
}

/// File systems, as the kernel names them, that keep the pages of their files themselves and let files be opened
/// without effects.
const PLAIN: [&str; 7] = ["ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ext3", "ext2"];

/// The file system of block devices.
const BLOCK_DEVICES: &str = "bdev";

/// Counts of the file at a path, if it still is that file.
pub fn told_by(path: &Path, identity: &Identity, filesystem: Option<&str>) -> Option<Counts> {
    if filesystem.is_some_and(|name| PLAIN.contains(&name))
        && let Some(counts) = query_inode(path, identity.device, identity.inode).ok()?
    {
        return Some(counts);
    }
    let file = open(path).ok()?;
    let inode = Inode::of_fd(file.as_fd()).ok()?;
    // A block device is known by its own number, and has no inode in a census.
    let is_device = filesystem == Some(BLOCK_DEVICES);
    let is_same = inode.device == identity.device && (is_device || inode.number == identity.inode);
    let counts = query(&file, ByteRange::starting_at(0)).ok()?;
    is_same.then_some(counts)
}

/// Numbers as a row has them.
pub fn residency(counts: &Result<Counts, Reason>) -> Residency {
    let counts = match counts {
        Ok(counts) => counts,
        Err(reason) => {
            let unknown = Measured::Missing(Missing::Unknown(*reason));
            return Residency {
                files: Measured::Exact(1),
                unknown_files: Measured::Exact(1),
                file_pages: unknown,
                resident_pages: unknown,
                resident_bytes: unknown,
                dirty_pages: unknown,
                writeback_pages: unknown,
                evicted_pages: unknown,
                recently_evicted_pages: unknown,
                histogram: Measured::Missing(Missing::Unknown(*reason)),
                ..Residency::default()
            };
        }
    };
    let state = |pick: fn(&cachewise_residency::States) -> u64| match &counts.states {
        Some(states) => Measured::Exact(pick(states)),
        None => Measured::Missing(NOT_ASKED),
    };
    Residency {
        files: Measured::Exact(1),
        unknown_files: Measured::Exact(0),
        file_pages: Measured::Exact(counts.total.0),
        resident_pages: Measured::Exact(counts.cached.0),
        resident_bytes: Measured::Exact(counts.cached.bytes(page_size()).0),
        dirty_pages: state(|states| states.dirty.0),
        writeback_pages: state(|states| states.writeback.0),
        evicted_pages: state(|states| states.evicted.0),
        recently_evicted_pages: state(|states| states.recently_evicted.0),
        ..Residency::default()
    }
}

/// Numbers of many files. `unknown` of them are not in `counts`: then the sums are estimates, and shares are unknown.
pub fn sum(files: u64, unknown: u64, counts: &Counts) -> Residency {
    let mut sum = match unknown {
        0 => residency(&Ok(*counts)),
        // Next to what is not known, a sum of 0 would read as none.
        _ if unknown == files || counts.cached == Pages::ZERO => residency(&Err(Reason::NoneKnown)),
        _ => Residency {
            file_pages: Measured::unknown(Reason::NotAllKnown),
            ..residency(&Ok(*counts)).estimated(Reason::SomeKnown)
        },
    };
    sum.files = Measured::Exact(files);
    sum.unknown_files = Measured::Exact(unknown);
    sum
}

/// The resident share of each of `parts` equal ranges of an open file.
pub fn strip(file: BorrowedFd<'_>, parts: u64) -> Result<Vec<Ratio>, cachewise_residency::Error> {
    let map = map(file, ByteRange::starting_at(0))?;
    let pages = map.pages.len().0;
    let parts = parts.min(pages);
    let mut strip = Vec::new();
    for part in 0..parts {
        // In 128 bits: the file may have 2^52 pages.
        let at = |part: u64| (u128::from(pages) * u128::from(part) / u128::from(parts)) as u64;
        let interval = PageRange {
            start: at(part),
            end: at(part + 1),
        };
        let first = map
            .ranges
            .partition_point(|range| range.end <= interval.start);
        let resident: u64 = map.ranges[first..]
            .iter()
            .map_while(|range| range.intersection(interval))
            .map(|shared| shared.len().0)
            .sum();
        strip.extend(Ratio::of(resident, interval.len().0));
    }
    Ok(strip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_used_again_is_as_a_new_one() {
        let counts = Ok(Counts {
            total: Pages(3),
            cached: Pages(2),
            ..Counts::ZERO
        });
        let plain = ListedFile::new("a".into(), 5, counts);
        let unknown = ListedFile::new("b".into(), 7, Err(Reason::NoPermission));
        let full = ListedFile {
            link: Some("l".into()),
            identity: Some(Identity {
                device: (8, 1),
                inode: 9,
                links: 2,
            }),
            before: Some(Ok(3)),
            filesystem: Some("ext4".to_owned()),
            note: Some("mapped".to_owned()),
            strip: Some(vec![Ratio::of(1, 2).unwrap()]),
            ..plain.clone()
        };
        let not_told = ListedFile {
            before: Some(Err(Reason::NotReported)),
            ..unknown.clone()
        };
        let mut row = Row::of_file();
        for found in [&plain, &full, &unknown, &not_told, &full, &plain, &unknown] {
            found.clone().fill(&mut row);
            assert_eq!(row, found.row(), "{found:?}");
        }
    }
}
