//! [`Segments`]: the files that blocks lie in on the disk.
//!
//! foyer evicts whole segments, and each start begins a new segment and leaves the last one
//! unfilled. With few large segments a small disk would lose a large part of its blocks at each
//! start. The rest of a segment that is too small for a block is wasted, so a segment's size is a
//! multiple of the block size.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cachewise_sys::PrivateDirectory;

use crate::block::HEADER;

/// Number of segments of a disk that is neither small nor large.
const USUAL: u64 = 256;

/// Room in a segment of a small disk, in bytes.
const LEAST: u64 = 1 << 20;

/// Room in a segment of a large disk, in bytes. It is the same for all large disks, so that a
/// resized one keeps its blocks.
const GREATEST: u64 = 16 << 20;

/// The least number of whole blocks in a segment: of one alone, a block that is not whole would take the place.
const LEAST_BLOCKS: u64 = 2;

/// A page: segments are whole ones, and so is what foyer writes into them.
const PAGE: u64 = 4 << 10;

/// Number of blocks indexed by one page: a page holds a checksum and the count, 12 bytes together,
/// and 24 bytes for each block.
const INDEXED: u64 = (PAGE - 12) / 24;

/// Bytes before each block in a segment: foyer's header, the key, and our header.
const BEFORE: u64 = 36 + 16 + HEADER as u64;

/// Size from which two flushers write concurrently, each to a segment of its own.
const LARGE: u64 = 1 << 30;

/// Prefix of foyer's file names; a number from 0 on follows.
const PREFIX: &str = "foyer-storage-direct-fs-";

/// The files that hold blocks: their size and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segments {
    /// Size of a segment, in bytes.
    pub(super) size: u64,
    count: u64,
    /// Number of concurrent flushers.
    pub(super) flushers: usize,
}

impl Segments {
    /// Divides a disk of `capacity` bytes into segments for blocks of `block` bytes.
    pub(super) fn for_capacity(capacity: u64, block: u64) -> Self {
        let entry = (block + BEFORE).next_multiple_of(PAGE);
        let share = if capacity < LARGE {
            (capacity / USUAL).max(LEAST)
        } else {
            GREATEST
        };
        let pages = |blocks: u64| blocks.div_ceil(INDEXED) * PAGE;
        let blocks = share.saturating_sub(pages(share / entry)) / entry;
        let blocks = blocks.max(LEAST_BLOCKS);
        let size = blocks * entry + pages(blocks);
        Self {
            size,
            count: capacity / size,
            flushers: if capacity < LARGE { 1 } else { 2 },
        }
    }

    /// Removes segments of other settings: those of another size, whose index would be wrong, and
    /// those beyond the capacity, which would never be reused. Leaves all other files alone.
    pub(super) fn sweep(self, directory: &Path) -> io::Result<()> {
        self.each(directory, |path, _, is_ours| {
            if is_ours {
                return Ok(());
            }
            std::fs::remove_file(path)
        })
    }

    /// Bytes that they take on the disk; segments that were never written take none.
    pub(super) fn taken(self, directory: &Path) -> io::Result<u64> {
        let mut taken: u64 = 0;
        self.each(directory, |_, meta, is_ours| {
            if is_ours {
                taken = taken.saturating_add(meta.blocks().saturating_mul(512));
            }
            Ok(())
        })?;
        Ok(taken)
    }

    /// Checks the files that are there, and does not touch them: each has to be this user's, with one name.
    pub(super) fn check(self, directory: &PrivateDirectory) -> Result<(), (String, io::Error)> {
        self.names().try_for_each(|name| {
            let checked = directory.check_file(&name);
            checked.map_err(|error| (name, error))
        })
    }

    /// Makes the files that are missing, which no other user can read: foyer would take the mode from the umask.
    pub(super) fn make(self, directory: &PrivateDirectory) -> Result<(), (String, io::Error)> {
        self.names()
            .try_for_each(|name| match directory.file(&name) {
                Ok(_) => Ok(()),
                Err(error) => Err((name, error)),
            })
    }

    fn names(self) -> impl Iterator<Item = String> {
        (0..self.count).map(|number| format!("{PREFIX}{number:08}"))
    }

    /// Number of segments, each an open file.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of all segments together.
    pub(super) fn capacity(self) -> u64 {
        self.count.saturating_mul(self.size)
    }

    /// Does it with each file that has a segment's name, and says whether it is one of these.
    fn each(
        self,
        directory: &Path,
        mut work: impl FnMut(&Path, &Metadata, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(number) else {
                continue;
            };
            // Of the entry itself: a link is not followed.
            let meta = entry.metadata()?;
            if !meta.is_file() {
                continue;
            }
            let is_ours = number < self.count && meta.len() == self.size;
            work(&entry.path(), &meta, is_ours)?;
        }
        Ok(())
    }
}

/// Number of the segment with this file name.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let is_number = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_the_size_of_whole_blocks_and_is_a_small_part_of_the_disk() {
        for (capacity, block, size, count, flushers) in [
            (64, 16, 51 * 20 + 4, 64, 1),
            (64, 64, 15 * 68 + 4, 64, 1),
            (64, 128, 7 * 132 + 4, 70, 1),
            (64, 1 << 10, 2 * 1028 + 4, 31, 1),
            (256, 128, 7 * 132 + 4, 282, 1),
            (256, 1 << 10, 2 * 1028 + 4, 127, 1),
            (768, 16, 153 * 20 + 4, 256, 1),
            (768, 128, 23 * 132 + 4, 258, 1),
            (1 << 10, 16, 818 * 20 + 20, 64, 2),
            (1 << 10, 128, 124 * 132 + 4, 64, 2),
            (1 << 10, 1 << 10, 15 * 1028 + 4, 67, 2),
            (10 << 10, 128, 124 * 132 + 4, 640, 2),
        ] {
            let segments = Segments::for_capacity(capacity << 20, block << 10);
            let expected = Segments {
                size: size << 10,
                count,
                flushers,
            };
            assert_eq!(segments, expected, "{capacity} MiB, {block} KiB");
        }
        let odd = Segments::for_capacity((300 << 20) + 5_000, 128 << 10);
        assert_eq!(odd.size % PAGE, 0, "{odd:?}");
        assert!(odd.capacity() <= 300 << 20, "{odd:?}");
    }

    #[test]
    fn what_is_left_of_other_settings_is_removed_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let segments = Segments::for_capacity(64 << 20, 64 << 10);
        segments.sweep(&scratch.path().join("none")).unwrap();
        let make = |name: &str, len: u64| {
            let file = std::fs::File::create(scratch.path().join(name)).unwrap();
            file.set_len(len).unwrap();
        };
        let stay = [
            ("foyer-storage-direct-fs-00000000", segments.size),
            ("foyer-storage-direct-fs-00000063", segments.size),
            ("foyer-storage-direct-fs-0000001x", 5),
            ("foyer-storage-direct-fs-1", 5),
            ("precious", 5),
        ];
        let go = [
            ("foyer-storage-direct-fs-00000001", 16 << 20),
            ("foyer-storage-direct-fs-00000002", 0),
            ("foyer-storage-direct-fs-00000064", segments.size),
            ("foyer-storage-direct-fs-123456789", segments.size),
        ];
        for (name, len) in stay.into_iter().chain(go) {
            make(name, len);
        }
        let link = scratch.path().join("foyer-storage-direct-fs-00000099");
        std::os::unix::fs::symlink("precious", &link).unwrap();
        let len = usize::try_from(segments.size).unwrap();
        std::fs::write(scratch.path().join(stay[0].0), vec![1; len]).unwrap();
        segments.sweep(scratch.path()).unwrap();
        let taken = segments.taken(scratch.path()).unwrap();
        assert!(taken >= segments.size, "what is written counts: {taken}");
        assert!(taken < 2 * segments.size, "and nothing else: {taken}");
        for (name, _) in stay {
            assert!(scratch.path().join(name).exists(), "{name}");
        }
        for (name, _) in go {
            assert!(!scratch.path().join(name).exists(), "{name}");
        }
        assert!(link.is_symlink());
    }
}
