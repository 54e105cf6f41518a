//! [`Room`]: whether the file system has the room that blocks may take.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cachewise_units::{Bytes, escaped};

use super::segments::Segments;

/// After how many bytes it is looked at again.
const STEP: u64 = 16 << 20;

/// Whether the file system has the room that blocks may take.
///
/// A write that it refuses is counted by nobody, and foyer does not get over it: it panics at the next one, and keeps
/// nothing from then on. So nothing is written where there is little room left.
#[derive(Debug)]
pub(super) struct Room {
    directory: PathBuf,
    segments: Segments,
    /// How much may be on its way at a time.
    margin: u64,
    is_full: AtomicBool,
    kept: AtomicU64,
}

impl Room {
    /// Looks at the room of a directory of segments, with a queue of so many bytes in front of it.
    pub(super) fn of(directory: PathBuf, segments: Segments, queue: u64) -> Self {
        let room = Self {
            directory,
            segments,
            margin: queue.saturating_mul(2).saturating_add(4 * STEP),
            is_full: AtomicBool::new(false),
            kept: AtomicU64::new(0),
        };
        room.look();
        room
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Says whether it is time for [`Self::look`], with so many bytes more.
    pub(super) fn is_due(&self, bytes: u64) -> bool {
        let before = self.kept.fetch_add(bytes, Ordering::Relaxed);
        before / STEP != before.wrapping_add(bytes) / STEP
    }

    /// Looks again. Waits for the disk.
    pub(super) fn look(&self) {
        if let Some((free, all)) = self.free_and_all() {
            let is_full = free < self.margin && all < self.segments.capacity();
            self.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Says that there is less than blocks may take.
    pub(super) fn warning(&self) -> Option<String> {
        let (_, all) = self.free_and_all()?;
        let capacity = self.segments.capacity();
        (all < capacity).then(|| {
            format!(
                "{} has room for {}, and blocks may take {}: where it runs out they are not kept on this disk, and counted \
                 as dropped; make room, or say a smaller size",
                escaped(self.directory.as_path()),
                Bytes(all),
                Bytes(capacity)
            )
        })
    }

    /// Returns what is free, and what that is with what segments take already; nothing where the file system does not
    /// say it.
    fn free_and_all(&self) -> Option<(u64, u64)> {
        let system = rustix::fs::statvfs(&self.directory).ok()?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        let taken = self.segments.taken(&self.directory).ok()?;
        Some((free, free.saturating_add(taken)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_at_again_after_so_many_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let room = Room::of(
            scratch.path().to_owned(),
            Segments::of(64 << 20, 64 << 10),
            0,
        );
        let due = (0..64).filter(|_| room.is_due(1 << 20)).count();
        assert_eq!(due, 4);
    }

    #[test]
    fn nothing_is_written_where_little_is_left_of_what_was_promised() {
        let scratch = tempfile::tempdir().unwrap();
        let room = |capacity, queue| {
            let room = Room::of(
                scratch.path().to_owned(),
                Segments::of(capacity, 64 << 10),
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
