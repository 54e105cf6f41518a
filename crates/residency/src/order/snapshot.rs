//! [`Snapshot`]: files, and what of each is resident, at one moment.

use std::collections::HashSet;

use cachewise_units::{ByteRange, Bytes};

/// Input of a plan: files in the caller's order, with the residency of each.
///
/// Plain data: taken from the kernel by a [`Scanner`](super::Scanner), by
/// [`simulate`](super::simulate) from a cache that it thinks up, or written down by a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The files, in the order in which the caller would read them.
    pub files: Vec<FileState>,
    /// The length of the planned ranges; each begins at a multiple of it. At least one byte.
    pub chunk: Bytes,
    /// Bytes that can be read before the kernel evicts others; `None` if unknown.
    pub headroom: Option<Bytes>,
}

/// Which file it is: names with the same one are hard links, and share their pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Major and minor number of the device that the file is on.
    pub device: (u32, u32),
    /// The inode number.
    pub number: u64,
}

/// One file of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Which file it is.
    pub id: FileId,
    /// Its size.
    pub size: Bytes,
    /// Its resident ranges: not empty, ascending, and none touches the next; the last may reach
    /// beyond the end of the file. `None` if residency is unknown.
    pub resident: Option<Vec<ByteRange>>,
    /// Whether another process has it open, so that no page of it may be dropped.
    pub open_elsewhere: bool,
}

impl From<crate::Inode> for FileId {
    fn from(inode: crate::Inode) -> Self {
        Self {
            device: inode.device,
            number: inode.number,
        }
    }
}

impl FileState {
    /// Returns the resident bytes of a range of the file; `None` if residency is unknown.
    #[must_use]
    pub fn resident_in(&self, range: ByteRange) -> Option<Bytes> {
        let resident = self.resident.as_deref()?;
        let first = resident.partition_point(|known| known.end() <= range.start);
        let bytes = resident[first..]
            .iter()
            .map_while(|known| known.intersection(range))
            .map(|both| Bytes(both.len))
            .sum();
        Some(bytes)
    }

    /// Returns the parts of a range of the file that are not resident, as far as is known.
    #[must_use]
    pub fn absent_in(&self, range: ByteRange) -> Vec<ByteRange> {
        let Some(resident) = self.resident.as_deref() else {
            return Vec::new();
        };
        let first = resident.partition_point(|known| known.end() <= range.start);
        let mut absent = Vec::new();
        let mut start = range.start;
        for known in resident[first..]
            .iter()
            .map_while(|known| known.intersection(range))
        {
            absent.push(between(start, known.start));
            start = known.end();
        }
        absent.push(between(start, range.end()));
        absent.retain(|range| !range.is_empty());
        absent
    }

    /// Hands over the file in pieces: each chunk of which anything is resident, and what lies between these. A file of
    /// which nothing is known, and an empty one, is one piece.
    pub(super) fn pieces(&self, chunk: Bytes, mut each: impl FnMut(ByteRange)) {
        let (size, chunk) = (self.size.0, chunk.0.max(1));
        let resident = match &self.resident {
            Some(resident) if size > 0 => resident.as_slice(),
            _ => return each(self.whole()),
        };
        let mut at = 0;
        for known in resident
            .iter()
            .filter_map(|known| known.intersection(self.whole()))
        {
            let first = (known.start / chunk * chunk).max(at);
            if at < first {
                each(between(at, first));
            }
            at = first;
            while at < known.end() {
                let end = at.saturating_add(chunk).min(size);
                each(between(at, end));
                at = end;
            }
        }
        if at < size {
            each(between(at, size));
        }
    }

    pub(super) fn whole(&self) -> ByteRange {
        between(0, self.size.0)
    }

    /// Returns the ranges that the file is divided into: an empty one for an empty file, so that it
    /// is opened too.
    pub(super) fn chunks(&self, chunk: Bytes) -> impl Iterator<Item = ByteRange> + use<> {
        let (size, chunk) = (self.size.0, chunk.0.max(1));
        (0..size.div_ceil(chunk).max(1)).map(move |index| {
            let start = index * chunk;
            between(start, start.saturating_add(chunk).min(size))
        })
    }
}

pub(super) const fn between(start: u64, end: u64) -> ByteRange {
    ByteRange {
        start,
        len: end.saturating_sub(start),
    }
}

impl Snapshot {
    /// Returns how much there is to read, each file once.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.distinct().map(|(_, file)| file.size).sum()
    }

    /// Returns how much of it is resident, as far as is known.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        self.distinct()
            .filter_map(|(_, file)| file.resident_in(file.whole()))
            .sum()
    }

    /// The files without second names of those before.
    pub(super) fn distinct(&self) -> impl Iterator<Item = (usize, &FileState)> {
        let mut seen = HashSet::new();
        self.files
            .iter()
            .enumerate()
            .filter(move |(_, file)| seen.insert(file.id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: FileId = FileId {
        device: (8, 1),
        number: 7,
    };

    fn file(size: u64, resident: &[(u64, u64)]) -> FileState {
        let ranges = resident.iter().map(|&(start, end)| between(start, end));
        FileState {
            id: ID,
            size: Bytes(size),
            resident: Some(ranges.collect()),
            open_elsewhere: false,
        }
    }

    #[test]
    fn tells_what_is_there_and_what_is_not() {
        let file = file(100, &[(10, 20), (30, 40), (90, 128)]);
        assert_eq!(
            file.resident_in(between(15, 35)),
            Some(Bytes(10)),
            "parts of two ranges"
        );
        assert_eq!(
            file.absent_in(between(15, 35)),
            [between(20, 30)],
            "and the gap"
        );
        assert_eq!(
            file.absent_in(between(40, 100)),
            [between(40, 90)],
            "before the last"
        );
        let unknown = FileState {
            resident: None,
            ..file
        };
        assert_eq!(
            unknown.resident_in(between(0, 9)),
            None,
            "not known is not 0"
        );
        assert_eq!(
            unknown.absent_in(between(0, 9)),
            [],
            "nor may it be dropped"
        );
    }

    #[test]
    fn an_empty_file_is_one_empty_stretch() {
        let chunks: Vec<_> = file(0, &[]).chunks(Bytes(10)).collect();
        assert_eq!(chunks, [between(0, 0)], "it may have grown when it is read");
    }

    proptest! {
        #[test]
        fn chunks_cover_the_file_once(size in 1..1_000_u64, chunk in 1..200_u64) {
            let mut end = 0;
            for range in file(size, &[]).chunks(Bytes(chunk)) {
                prop_assert_eq!(range.start, end, "one follows the other");
                prop_assert_eq!(range.start % chunk, 0, "aligned");
                prop_assert!(!range.is_empty() && range.len <= chunk, "with a byte at least");
                end = range.end();
            }
            prop_assert_eq!(end, size, "to the end of the file");
        }

        #[test]
        fn pieces_cover_the_file_once(size in 1..1_000_u64, chunk in 1..200_u64, starts in prop::collection::btree_set(0..1_100_u64, 0..9)) {
            let ranges: Vec<_> = starts.iter().map(|&start| (start, start + 1)).collect();
            let merged: Vec<_> = ranges.into_iter().fold(Vec::new(), |mut all: Vec<(u64, u64)>, (start, end)| {
                match all.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => all.push((start, end)),
                }
                all
            });
            let file = file(size, &merged);
            let (mut end, mut was_absent) = (0, false);
            file.pieces(Bytes(chunk), |range| {
                assert_eq!(range.start, end, "one follows the other");
                assert_eq!(range.start % chunk, 0, "aligned");
                let is_absent = file.resident_in(range) == Some(Bytes(0));
                assert!(is_absent || range.len <= chunk, "a chunk has what is resident");
                assert!(!(is_absent && was_absent), "what is absent lies in one piece");
                (end, was_absent) = (range.end(), is_absent);
            });
            prop_assert_eq!(end, size, "to the end of the file");
        }

        #[test]
        fn resident_and_absent_are_the_whole(
            bits in prop::collection::vec(any::<bool>(), 1..60), a in 0..60_u64, b in 0..60_u64,
        ) {
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for (index, _) in (0_u64..).zip(&bits).filter(|(_, bit)| **bit) {
                match ranges.last_mut() {
                    Some((_, end)) if *end == index => *end += 1,
                    _ => ranges.push((index, index + 1)),
                }
            }
            let file = file(bits.len() as u64, &ranges);
            let range = between(a.min(b), b.max(a));
            let absent = file.absent_in(range);
            let absent_bytes: u64 = absent.iter().map(|range| range.len).sum();
            prop_assert_eq!(file.resident_in(range).unwrap().0 + absent_bytes, range.len, "no byte is both or neither");
            for byte in absent.iter().flat_map(|range| range.start..range.end()) {
                prop_assert!(!bits.get(byte as usize).copied().unwrap_or(false), "byte {} is absent", byte);
            }
        }
    }
}
