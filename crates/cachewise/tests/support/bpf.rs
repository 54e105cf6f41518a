//! BPF objects of a process: programs, maps and links, by their ids.
//!
//! Other copies of cachewise may run on the machine, so names do not identify the objects of a test: the ids are those
//! that the process holds, from /proc/PID/fdinfo.

use std::collections::BTreeSet;
use std::fs;

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};

/// Ids of BPF objects.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Held {
    /// Programs.
    pub programs: BTreeSet<u32>,
    /// Maps.
    pub maps: BTreeSet<u32>,
    /// Links, which attach programs.
    pub links: BTreeSet<u32>,
}

/// The objects that a process has open, directly or through a link.
pub fn held_by(pid: u32) -> Held {
    let mut held = Held::default();
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return held;
    };
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let Ok(id) = value.trim().parse() else {
                continue;
            };
            match key {
                "prog_id" => held.programs.insert(id),
                "map_id" => held.maps.insert(id),
                "link_id" => held.links.insert(id),
                _ => continue,
            };
        }
    }
    held
}

impl Held {
    /// Those of them that the kernel still has.
    pub fn left(&self) -> Held {
        Held {
            programs: ProgInfoIter::default()
                .map(|program| program.id)
                .filter(|id| self.programs.contains(id))
                .collect(),
            maps: MapInfoIter::default()
                .map(|map| map.id)
                .filter(|id| self.maps.contains(id))
                .collect(),
            links: LinkInfoIter::default()
                .map(|link| link.id)
                .filter(|id| self.links.contains(id))
                .collect(),
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Held::default()
    }
}
