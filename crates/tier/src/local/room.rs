//! [`Room`]: whether the file system has the room that blocks may take.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cachewise_units::{Bytes, escaped};

use super::segments::Segments;

/// Bytes written between two checks of the free space.
const STEP: u64 = 16 << 20;

/// Check of the file system's free space for blocks.
///
/// foyer does not recover from a failed write: it panics at the next one, and keeps nothing from then on. So nothing is
/// written if little space is left.
#[derive(Debug)]
pub(super) struct Room {
    directory: PathBuf,
    segments: Segments,
    /// Maximum bytes on their way to the disk.
    margin: u64,
    is_full: AtomicBool,
    kept: AtomicU64,
    is_looking: AtomicBool,
}

impl Room {
    /// Tracks the free space for a directory of segments and a write queue of `queue` bytes.
    pub(super) fn for_directory(directory: PathBuf, segments: Segments, queue: u64) -> Self {
        let room = Self {
            directory,
            segments,
            margin: queue.saturating_mul(2).saturating_add(4 * STEP),
            is_full: AtomicBool::new(false),
            kept: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
        };
        room.check_space();
        room
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns a check of the free space if one is due after `bytes` more. The check waits for the
    /// disk, so only one runs at a time: on a disk that hangs, each would hold a thread that reads
    /// need.
    pub(super) fn check_due(
        self: &Arc<Self>,
        bytes: u64,
    ) -> Option<impl FnOnce() + Send + 'static> {
        let before = self.kept.fetch_add(bytes, Ordering::Relaxed);
        let is_due = before / STEP != before.wrapping_add(bytes) / STEP;
        if !is_due || self.is_looking.swap(true, Ordering::AcqRel) {
            return None;
        }
        let room = Arc::clone(self);
        Some(move || {
            room.check_space();
            room.is_looking.store(false, Ordering::Release);
        })
    }

    fn check_space(&self) {
        let Some(free) = self.free() else {
            return;
        };
        // Sums the sizes of the segments only where they decide, as there may be thousands.
        let is_full = if free < self.margin {
            let Some(taken) = self.taken() else {
                return;
            };
            free.saturating_add(taken) < self.segments.capacity()
        } else {
            false
        };
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Says that there is less than blocks may take.
    pub(super) fn warning(&self) -> Option<String> {
        let all = self.free()?.saturating_add(self.taken()?);
        let capacity = self.segments.capacity();
        (all < capacity).then(|| {
            format!(
                "{} has room for {}, and blocks may take {}: while less than {} is free, blocks are not kept on this disk, and \
                 counted as dropped; make room, or choose a smaller --disk-size",
                escaped(self.directory.as_path()),
                Bytes(all),
                Bytes(capacity),
                Bytes(self.margin)
            )
        })
    }

    /// Returns what is free; nothing where the file system does not say it.
    fn free(&self) -> Option<u64> {
        let system = rustix::fs::statvfs(&self.directory).ok()?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Returns what segments take.
    fn taken(&self) -> Option<u64> {
        self.segments.taken(&self.directory).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_at_again_after_so_many_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let segments = Segments::for_capacity(64 << 20, 64 << 10);
        let room = Arc::new(Room::for_directory(scratch.path().to_owned(), segments, 0));
        let looks = (0..64).filter_map(|_| room.check_due(1 << 20));
        assert_eq!(looks.map(|look| look()).count(), 4);
        let looks: Vec<_> = (0..64).filter_map(|_| room.check_due(1 << 20)).collect();
        assert_eq!(looks.len(), 1, "one at a time");
    }

    #[test]
    fn nothing_is_written_where_little_is_left_of_what_was_promised() {
        let scratch = tempfile::tempdir().unwrap();
        let room = |capacity, queue| {
            let room = Room::for_directory(
                scratch.path().to_owned(),
                Segments::for_capacity(capacity, 64 << 10),
                queue,
            );
            (room.is_full(), room.warning())
        };
        const ALL: u64 = 1 << 60;
        let (is_full, said) = room(ALL, 0);
        assert!(said.unwrap().contains("has room for"));
        assert!(!is_full, "there is room for what waits");
        assert!(room(ALL, ALL).0, "there is none for so much");
        assert_eq!(room(0, ALL), (false, None), "what was promised is there");
    }
}
