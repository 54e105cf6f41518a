//! BPF objects of a process: programs and maps, by their ids.
//!
//! Other copies of cachewise may run on the machine, so names do not identify the objects of a test: the ids are those
//! that the process holds, from /proc/PID/fdinfo. Nothing is opened but these: libbpf's lists of all objects open each of
//! them, and tests that list objects at the same time would keep those of each other.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use libbpf_rs::{ErrorKind, MapHandle, Program};

use super::command::until;

/// Objects that the kernel has for longer are left behind.
const GONE_WITHIN: Duration = Duration::from_secs(110);

/// Ids of BPF objects. A link, which attaches a program, holds it: it is gone when the program is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Held {
    /// Programs.
    pub programs: BTreeSet<u32>,
    /// Maps.
    pub maps: BTreeSet<u32>,
}

/// `BPF_MAP_TYPE_PROG_ARRAY`. Such a map is left out: who opens one by its id while the kernel empties it, as its last owner
/// has ended, and closes it again, has the kernel count it once too much, and keep it for good (`prog_array_map_clear` of
/// kernel/bpf/arraymap.c raises the count for work that is queued already).
const PROGRAM_ARRAY: u32 = 3;

/// The objects that a process has open, directly or through a link.
pub fn held_by(pid: u32) -> Held {
    let mut held = Held::default();
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return held;
    };
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let number = |key| -> Option<u32> {
            let value = text.lines().find_map(|line| line.strip_prefix(key))?;
            value.trim().parse().ok()
        };
        held.programs.extend(number("prog_id:"));
        if number("map_type:") != Some(PROGRAM_ARRAY) {
            held.maps.extend(number("map_id:"));
        }
    }
    held
}

impl Held {
    /// Those of them that the kernel still has.
    pub fn left(&self) -> Held {
        fn is_there<T>(found: &libbpf_rs::Result<T>) -> bool {
            let gone = |error: &libbpf_rs::Error| error.kind() == ErrorKind::NotFound;
            !found.as_ref().is_err_and(gone)
        }
        let (programs, maps) = (self.programs.iter(), self.maps.iter());
        Held {
            programs: programs
                .filter(|id| is_there(&Program::fd_from_id(**id)))
                .copied()
                .collect(),
            maps: maps
                .filter(|id| is_there(&MapHandle::from_map_id(**id)))
                .copied()
                .collect(),
        }
    }

    /// Waits until the kernel has freed all of them, a little after the last descriptor is closed.
    pub fn until_gone(&self) {
        let begin = Instant::now();
        let left = until("the kernel has freed the probe, or has not", || {
            let left = self.left();
            (left.is_empty() || begin.elapsed() >= GONE_WITHIN).then_some(left)
        });
        assert!(left.is_empty(), "the kernel still has {left:?}");
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Held::default()
    }
}
