//! Memory of control groups: the limit that holds for a group, and its room for page cache.
//!
//! A limit holds for all groups below it. The tightest is the one that leaves the least room.

use std::cmp::Reverse;

use crate::counter::Counter;
use crate::interval::Interval;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured, Missing};
use crate::parts::CgroupRow;
use crate::reason::Reason;

/// Page cache of files that a reader can keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room<'a> {
    /// Bytes that fit; missing if the memory of a group above the reader is not known.
    pub bytes: Count,
    /// The control group whose limit decides; `None` if the machine's memory does.
    pub limited: Option<&'a CgroupRow>,
}

impl CgroupRow {
    /// Page cache of files that fits below the group's own limit: the limit without the memory that
    /// only swapping or the end of a process frees.
    #[must_use]
    pub fn room(&self) -> Count {
        let system = &self.system;
        let cache = system.active_file_bytes.plus(system.inactive_file_bytes);
        let fixed = system.memory_used_bytes.minus(cache);
        system.memory_limit_bytes.minus(fixed)
    }
}

impl Interval {
    /// The control groups in which tasks of a run were; of a machine all. A run has rows of others too: they lost pages of
    /// files that it uses.
    pub(crate) fn groups_of_tasks(&self) -> impl Iterator<Item = &CgroupRow> {
        const USED: [Counter; 4] = [
            Counter::ReadRequests,
            Counter::WriteRequests,
            Counter::FaultRequests,
            Counter::DirectReadRequests,
        ];
        let has_tasks = |group: &&CgroupRow| {
            let is_unused = |counter| group.ledger.get(counter) == Measured::Exact(0);
            !USED.into_iter().all(is_unused)
        };
        let groups = self.cgroups.iter();
        groups.filter(move |group| self.run.is_none() || has_tasks(group))
    }

    /// The control groups of the rows, and those above them.
    pub(crate) fn all_groups(&self) -> impl Iterator<Item = &CgroupRow> {
        self.cgroups.iter().chain(&self.run().groups_above)
    }

    /// The group with the limit that holds for this group: its own, or that of a group above.
    #[must_use]
    pub fn limited_group(&self, name: &str) -> Option<&CgroupRow> {
        let limited = |group: &&CgroupRow| group.system.memory_limit_bytes.known().is_some();
        let room = |group: &&CgroupRow| {
            let room = group.room().known().unwrap_or(u64::MAX);
            let length = group.path.as_ref().known().map_or(0, String::len);
            // Of equal limits the nearest.
            let limit = group.system.memory_limit_bytes.known();
            (room, limit, Reverse(length))
        };
        self.above(name).filter(limited).min_by_key(room)
    }

    /// The group and those above it.
    fn above(&self, name: &str) -> impl Iterator<Item = &CgroupRow> {
        self.all_groups().filter(move |group| {
            group
                .path
                .as_ref()
                .known()
                .is_some_and(|above| holds(above, name))
        })
    }

    /// Page cache that a reader in this group can keep.
    #[must_use]
    pub fn room_of(&self, name: &str) -> Room<'_> {
        let machine = self.room_of_machine();
        let is_known = self
            .above(name)
            .any(|group| group.path.as_ref().known().is_some_and(|path| path == name));
        let is_unread = self.above(name).any(|group| {
            let missing = group.system.memory_limit_bytes.missing();
            matches!(missing, Some(Missing::Unknown(_)))
        });
        let unknown = Room {
            bytes: Measured::unknown(Reason::GroupNotRead),
            limited: None,
        };
        match self.limited_group(name) {
            _ if is_unread => unknown,
            Some(group) => tighter(
                Room {
                    bytes: group.room(),
                    limited: Some(group),
                },
                machine,
            ),
            None if is_known || self.run.is_some() => machine,
            None => unknown,
        }
    }

    /// Page cache that all readers of a file can keep: that of the reader with the least room. Unknown if no group is
    /// certain to be a reader.
    #[must_use]
    pub fn room_for_file(&self, file: usize) -> Room<'_> {
        let readers = self.reader_groups(file).into_iter();
        readers
            .map(|group| self.room_of(group))
            .reduce(tighter)
            .unwrap_or_else(|| match self.cgroups.is_empty() {
                true => self.room_of_machine(),
                false => Room {
                    bytes: Measured::unknown(Reason::ReadersNotKept),
                    limited: None,
                },
            })
    }

    /// The groups of a file's readers. Where uses are not kept, the group that fetched most of the file, if it is certain:
    /// all others together fetched less than half as much as was fetched of the file.
    #[must_use]
    pub fn reader_groups(&self, file: usize) -> Vec<&str> {
        let mut groups: Vec<&str> = if self.uses.is_empty() {
            let of_file = self.files.get(file).map_or(0, |file| fetched(&file.ledger));
            let all: u64 = self
                .cgroups
                .iter()
                .map(|group| fetched(&group.ledger))
                .sum();
            let certain = self.cgroups.iter().filter(|group| {
                let others = all - fetched(&group.ledger);
                others < of_file.div_ceil(2)
            });
            certain
                .filter_map(|group| group.path.as_ref().known())
                .map(String::as_str)
                .collect()
        } else {
            let uses = self.uses.iter().filter(|used| used.file == file);
            uses.filter_map(|used| self.processes.get(used.process?))
                .filter_map(|process| process.cgroup.as_ref().known())
                .map(String::as_str)
                .collect()
        };
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The machine's available memory, and the limit that a run found on its own group.
    fn room_of_machine(&self) -> Room<'_> {
        let around = self.surroundings();
        let available = around.memory_available_bytes;
        let bytes = match (available.known(), around.cgroup_limit_bytes.known()) {
            (Some(available), Some(limit)) if self.run.is_some() && limit < available => {
                around.cgroup_limit_bytes
            }
            _ => available,
        };
        Room {
            bytes,
            limited: None,
        }
    }
}

/// Whether a limit of the group `above` holds for the group `name`.
pub(crate) fn holds(above: &str, name: &str) -> bool {
    above == "/"
        || name
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn fetched(ledger: &Ledger) -> u64 {
    ledger.fetched_pages().known().unwrap_or(0)
}

/// The one with less room; unknown room is less than any.
fn tighter<'a>(one: Room<'a>, other: Room<'a>) -> Room<'a> {
    if other.bytes.known() < one.bytes.known() {
        other
    } else {
        one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;

    const MIB: u64 = 1 << 20;

    /// A group with this limit and use, of which `cache` is page cache of files.
    fn group(name: &str, limit: u64, used: u64, cache: u64) -> CgroupRow {
        let mut group = sample::group(name, 0);
        group.system.memory_limit_bytes = Measured::Exact(limit);
        group.system.memory_used_bytes = Measured::Exact(used);
        group.system.active_file_bytes = Measured::Exact(0);
        group.system.inactive_file_bytes = Measured::Exact(cache);
        group
    }

    fn path(group: &CgroupRow) -> Option<&str> {
        group.path.as_ref().known().map(String::as_str)
    }

    #[test]
    fn tightest_limit_above_decides() {
        let mut interval = sample::run();
        interval.cgroups = vec![
            group("/a", 100 * MIB, 90 * MIB, 10 * MIB),
            group("/a/b", 64 * MIB, 50 * MIB, 50 * MIB),
            group("/ab", MIB, MIB, 0),
        ];
        let room = interval.room_of("/a/b");
        assert_eq!(
            room.bytes,
            Measured::Exact(20 * MIB),
            "of 100 MiB 80 are taken"
        );
        assert_eq!(
            room.limited.and_then(path),
            Some("/a"),
            "by the group above"
        );
        interval.cgroups[0].system.memory_used_bytes = Measured::Exact(50 * MIB);
        let room = interval.room_of("/a/b");
        assert_eq!(
            room.bytes,
            Measured::Exact(60 * MIB),
            "the group above has room now"
        );
        assert_eq!(
            room.limited.and_then(path),
            Some("/a"),
            "and still the least"
        );
        interval.cgroups[0].system.memory_limit_bytes = Measured::Exact(1 << 30);
        assert_eq!(
            interval.room_of("/a/b").limited.and_then(path),
            Some("/a/b"),
            "its own limit"
        );
    }

    #[test]
    fn unlimited_group_has_the_room_of_the_machine() {
        let mut interval = sample::run();
        let mut free = group("/free", 1, 1, 0);
        free.system.memory_limit_bytes = Measured::not_offered(Reason::NoOwnLimit);
        interval.cgroups.push(free);
        let room = interval.room_of("/free");
        assert_eq!(room.bytes, Measured::Exact(4 << 30), "MemAvailable");
        assert_eq!(room.limited, None, "no limit decides");
    }

    #[test]
    fn unknown_memory_of_a_limited_group_is_no_room() {
        let mut interval = sample::run();
        let mut group = group("/a", 64 * MIB, 0, 0);
        group.system.memory_used_bytes = Measured::unknown(Reason::GroupGone);
        interval.cgroups.push(group);
        assert_eq!(
            interval.room_of("/a").bytes.known(),
            None,
            "not known is not free"
        );
    }

    #[test]
    fn file_has_the_room_of_its_tightest_reader() {
        use crate::Counter::ReadMissedPages;
        let mut interval = sample::with_file(256 * MIB, &[(ReadMissedPages, 1000)]);
        let mut small = group("/small", 64 * MIB, 60 * MIB, 60 * MIB);
        small.ledger.set(ReadMissedPages, 900);
        let mut large = group("/large", 1 << 30, MIB, MIB);
        large.ledger.set(ReadMissedPages, 100);
        interval.cgroups = vec![small, large];
        assert_eq!(
            interval.reader_groups(0),
            ["/small"],
            "by what they fetched"
        );
        assert_eq!(interval.room_for_file(0).bytes, Measured::Exact(64 * MIB));
        interval.cgroups[1].ledger.set(ReadMissedPages, 500);
        assert_eq!(
            interval.reader_groups(0),
            [""; 0],
            "half of the file may be of the other one"
        );
        assert_eq!(
            interval.room_for_file(0).bytes,
            Measured::unknown(Reason::ReadersNotKept),
            "so nothing is said about memory"
        );
        let mut process = sample::process(7, &[]);
        process.cgroup = Measured::Exact("/large".into());
        interval.processes.push(process);
        interval.uses.push(crate::ProcessFileUse {
            process: Some(0),
            file: 0,
            ledger: Ledger::default(),
        });
        assert_eq!(interval.reader_groups(0), ["/large"], "by what they used");
        assert_eq!(interval.room_for_file(0).bytes, Measured::Exact(1 << 30));
    }
}
