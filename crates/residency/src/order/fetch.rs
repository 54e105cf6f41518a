//! [`Fetch`]: the way to read the bytes of a step, and [`OpenFile`], which reads them.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use cachewise_sys::{
    fadvise_dont_need_range, fadvise_normal, fadvise_random, fadvise_will_need_range, page_size,
};
use cachewise_units::{ByteRange, Bytes, Pages};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::snapshot::between;
use super::{After, Keep, Mode, Plan, PlanOptions, RangeClass, Snapshot};
use crate::ranges::minus;
use crate::warm::ADVICE;
use crate::{Error, Inode, map, open_to_act, query};

/// The way to read the bytes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    /// They are resident. Readahead is off: if some of them are not, no other bytes are needed.
    Resident,
    /// By the kernel's readahead: large requests, large folios, and up to two windows beyond the
    /// end of the run.
    ReadAhead,
    /// Exactly the requested bytes; the next step is prefetched while this one is read. The small
    /// folios cost more CPU time to fill and to read again.
    Exact,
}

/// Largest part of a run that readahead may read beyond its end: an eighth.
const MOST_SPILL: u64 = 8;

/// Pages that are dropped soon occupy memory until then, which the kept pages lose; the two windows
/// of readahead may take this part of the bytes that are missed anyway.
const MOST_ROOM: u64 = 32;

/// Decides for each piece of a plan.
///
/// `read_ahead` is how far the kernel reads ahead in each file of the snapshot.
pub(super) fn fetches(
    plan: &Plan,
    snapshot: &Snapshot,
    read_ahead: &[Bytes],
    options: &PlanOptions,
) -> Vec<Fetch> {
    let steps = &plan.pieces;
    let in_callers_order = plan.declined.is_some() && !matches!(options.mode, Mode::Shuffle(_));
    if in_callers_order && options.keep != Keep::AsFound {
        return vec![Fetch::ReadAhead; steps.len()];
    }
    let missed = plan
        .prediction
        .total
        .saturating_sub(plan.prediction.resident);
    let mut fetches = Vec::with_capacity(steps.len());
    while let Some(first) = steps.get(fetches.len()) {
        let rest = &steps[fetches.len()..];
        match first.class {
            RangeClass::Hit => fetches.push(Fetch::Resident),
            RangeClass::Partial => fetches.push(Fetch::Exact),
            RangeClass::Unknown => fetches.push(Fetch::ReadAhead),
            RangeClass::Miss => {
                let len = 1 + rest
                    .windows(2)
                    .take_while(|two| two[1].follows(&two[0]))
                    .count();
                let run = between(first.range.start, rest[len - 1].range.end());
                let window = read_ahead[first.file].0;
                let file = &snapshot.files[first.file];
                let beyond = between(run.end(), file.size.0.min(run.end() + 2 * window));
                let spill: u64 = file.absent_in(beyond).iter().map(|range| range.len).sum();
                let has_room = first.after == After::Keep || 2 * window * MOST_ROOM <= missed.0;
                let fetch = if has_room && spill * MOST_SPILL <= run.len {
                    Fetch::ReadAhead
                } else {
                    Fetch::Exact
                };
                fetches.extend(std::iter::repeat_n(fetch, len));
            }
        }
    }
    fetches
}

/// A file of which steps are read.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// Which one of the snapshot it is.
    pub index: usize,
    /// Whether it looks as the snapshot saw it.
    pub is_as_seen: bool,
    file: File,
    /// Whether the kernel's readahead is on, as for a newly opened file.
    reads_ahead: bool,
    /// Whether less is stored than the file is long.
    is_sparse: bool,
    /// A part without holes, where it was looked for last.
    data: ByteRange,
}

impl OpenFile {
    pub fn open(path: &Path, index: usize) -> Result<Self, Error> {
        /// `stat(2)` counts in these, whatever the file system's own.
        const BLOCK: u64 = 512;
        let file = open_to_act(path)?;
        let found = rustix::fs::fstat(&file).map_err(|errno| Error::from_errno("fstat", errno))?;
        let stored = (found.st_blocks as u64).saturating_mul(BLOCK);
        Ok(Self {
            index,
            is_as_seen: true,
            is_sparse: found.st_rdev == 0 && stored < found.st_size as u64,
            file,
            reads_ahead: true,
            data: ByteRange::default(),
        })
    }

    /// Length of the hole at the beginning of a range, as the file system reports it now: all of the range inside a hole, 0
    /// if there is data or if it is unknown.
    fn hole_in(&mut self, range: ByteRange) -> u64 {
        let is_data = (self.data.start..self.data.end()).contains(&range.start);
        if !self.is_sparse || is_data {
            return 0;
        }
        match rustix::fs::seek(&self.file, SeekFrom::Data(range.start)) {
            Ok(start) if start > range.start => range.len.min(start - range.start),
            Ok(start) => {
                let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start)).unwrap_or(start);
                self.data = between(start, end);
                0
            }
            // Nothing more is stored up to the end of the file.
            Err(Errno::NXIO) => {
                let size = Inode::of_fd(self.file.as_fd()).map_or(0, |inode| inode.size.0);
                range.len.min(size.saturating_sub(range.start))
            }
            Err(_) => {
                self.is_sparse = false;
                0
            }
        }
    }

    /// Reads as [`read`](Self::read) does, but makes the zeros of a hole without the page cache, which would keep pages of
    /// them.
    pub fn read_but_for_holes(
        &mut self,
        fetch: Fetch,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize, Error> {
        let range = ByteRange {
            start: offset,
            len: buffer.len() as u64,
        };
        match self.hole_in(range) as usize {
            0 => self.read(fetch, buffer, offset),
            zeros => {
                buffer[..zeros].fill(0);
                Ok(zeros)
            }
        }
    }

    /// Compares the file with what the snapshot saw.
    pub fn compare(&mut self, seen: &Inode) {
        let same = |now: Inode| {
            (now.device, now.number, now.size, now.modified)
                == (seen.device, seen.number, seen.size, seen.modified)
        };
        self.is_as_seen &= Inode::of_fd(self.file.as_fd()).is_ok_and(same);
    }

    /// Reads the range, up to the end of the file.
    pub fn read(&mut self, fetch: Fetch, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let reads_ahead = fetch == Fetch::ReadAhead;
        if self.reads_ahead != reads_ahead {
            let file = self.file.as_fd();
            match reads_ahead {
                true => fadvise_normal(file)?,
                false => fadvise_random(file)?,
            }
            self.reads_ahead = reads_ahead;
        }
        rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut *buffer, offset))
            .map_err(|errno| Error::from_errno("pread", errno))
    }

    /// Makes the kernel start to read exactly this range.
    ///
    /// The kernel cuts each request to the readahead window of the device, `read_ahead`, or to its
    /// largest transfer.
    pub fn prefetch(&mut self, range: ByteRange, read_ahead: Bytes) {
        if self.hole_in(range) == range.len {
            return;
        }
        let most = read_ahead.0.max(ADVICE);
        let mut start = range.start;
        while start < range.end() {
            let len = most.min(range.end() - start);
            // Advice: where it is not taken, nothing is wrong.
            let _ = fadvise_will_need_range(self.file.as_fd(), ByteRange { start, len });
            start += len;
        }
    }

    /// Returns the parts of a range that are not resident, in whole pages; all of it if residency
    /// is unknown.
    pub fn gone(&self, range: ByteRange) -> Vec<ByteRange> {
        // Hardly ever is anything gone, and this is one call.
        if query(&self.file, range).is_ok_and(|counts| counts.is_full()) {
            return Vec::new();
        }
        let pages = range.page_range(page_size());
        let resident = map(&self.file, range).map_or_else(|_| Vec::new(), |found| found.ranges);
        let gone = minus(&[pages], &resident);
        gone.iter().map(|range| range.bytes(page_size())).collect()
    }

    /// Drops the pages of a range, except those that a process has written to meanwhile: the kernel
    /// would start to write these back.
    pub fn drop(&self, range: ByteRange) {
        let is_clean = |range| match query(&self.file, range) {
            Ok(counts) => (counts.states).is_none_or(|states| {
                (states.dirty, states.writeback) == (Pages::ZERO, Pages::ZERO)
            }),
            Err(_) => false,
        };
        if !range.is_empty() && is_clean(range) {
            // The last page of the file is one, though the file ends inside it.
            let whole = range.page_range(page_size()).bytes(page_size());
            let _ = fadvise_dont_need_range(self.file.as_fd(), whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileId, FileState, History, plan};
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns how the 16 MiB chunks of a file are fetched that has one resident range, in MiB.
    fn fetched(
        (keep, mode): (Keep, Mode),
        read_ahead: u64,
        chunks: u64,
        (start, end): (u64, u64),
    ) -> Vec<Fetch> {
        let chunk = 16 * MIB;
        let mut resident = vec![between(start * MIB, end * MIB)];
        resident.retain(|range| !range.is_empty());
        let snapshot = Snapshot {
            files: vec![FileState {
                id: FileId {
                    device: (8, 1),
                    number: 1,
                },
                size: Bytes(chunks * chunk),
                resident: Some(resident),
                open_elsewhere: false,
            }],
            chunk: Bytes(chunk),
            headroom: Some(Bytes::ZERO),
        };
        let options = PlanOptions {
            mode,
            keep,
            each_link: false,
        };
        let plan = plan(&snapshot, &History::default(), &options);
        let fetches = fetches(&plan, &snapshot, &[Bytes(read_ahead * MIB)], &options);
        // A piece is fetched alike in all of its chunks.
        let chunks = plan.pieces.iter().map(|piece| piece.range.len / chunk);
        let of_each = chunks.zip(fetches);
        of_each
            .flat_map(|(chunks, fetch)| std::iter::repeat_n(fetch, chunks as usize))
            .collect()
    }

    use Fetch::{Exact, ReadAhead, Resident};

    #[test]
    fn read_ahead_is_used_where_little_of_it_is_too_much() {
        let fetched = |window, resident| fetched((Keep::Share, Mode::Free), window, 4, resident);
        assert_eq!(
            fetched(8, (0, 16)),
            [Resident, ReadAhead, ReadAhead, ReadAhead],
            "the run ends with the file"
        );
        assert_eq!(
            fetched(8, (16, 32)),
            [Resident, ReadAhead, ReadAhead, ReadAhead],
            "the kernel does not read again what is there"
        );
        assert_eq!(
            fetched(8, (16, 20)),
            [Exact, Exact, ReadAhead, ReadAhead],
            "it would go on behind it, for 12 MiB after a run of 16"
        );
        assert_eq!(
            fetched(1, (16, 20)),
            [Exact, ReadAhead, ReadAhead, ReadAhead],
            "but not that far"
        );
    }

    #[test]
    fn dropping_reads_exact_ranges_unless_there_are_many() {
        let fetched = |chunks| {
            let fetches = fetched((Keep::Keep, Mode::Fixed), 8, chunks, (0, 16));
            assert_eq!(fetches[0], Resident, "what is there");
            fetches[1]
        };
        assert_eq!(fetched(4), Exact, "two windows are a third of 48 MiB");
        assert_eq!(fetched(40), ReadAhead, "and a fortieth of 624 MiB");
    }

    #[test]
    fn the_callers_order_is_read_as_the_caller_would() {
        let all = fetched((Keep::Keep, Mode::Free), 8, 3, (0, 48));
        assert_eq!(all, [ReadAhead; 3], "nothing is missing");
        let none = fetched((Keep::AsFound, Mode::Fixed), 8, 3, (0, 0));
        assert_eq!(none, [Exact; 3], "but what is dropped needs little room");
    }

    #[test]
    fn a_stretch_is_prefetched_as_a_whole() {
        use std::os::unix::fs::FileExt;
        // Beside the build, because /tmp is in memory on many machines.
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let device = Inode::of_fd(file.as_fd()).unwrap().device;
        let window = crate::sysfs::read_ahead(device);
        // As large as no transfer is.
        let range = between(0, (4 * window.0).max(32 * MIB));
        for start in (0..range.end()).step_by(MIB as usize) {
            let content = vec![1; MIB as usize];
            file.as_file().write_all_at(&content, start).unwrap();
        }
        cachewise_sys::sync_data(file.as_fd()).unwrap();
        let mut opened = OpenFile::open(file.path(), 0).unwrap();
        // A reclaimer may take some away at once, but not always.
        let prefetched = (0..8).any(|_| {
            cachewise_sys::fadvise_dont_need(file.as_fd()).unwrap();
            opened.prefetch(range, window);
            opened.gone(range).is_empty()
        });
        assert!(prefetched, "all {} by steps of {window}", Bytes(range.len));
    }

    #[test]
    fn samples_are_exact() {
        let fetches = fetched((Keep::Share, Mode::Shuffle(1)), 8, 9, (64, 80));
        assert_eq!(fetches[0], Resident, "first what is there");
        let exact = fetches.iter().filter(|fetch| **fetch == Exact).count();
        // The last chunk, those next to each other by chance, and the one before what is resident.
        assert!(exact >= 4, "read-ahead would bring in others: {fetches:?}");
    }
}
