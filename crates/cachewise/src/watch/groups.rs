//! Control groups over time: their names, memory and pressure, without reading all of it every second.
//!
//! A group in which somebody used the page cache, or that has dirty pages, is read each time. Of the others
//! it is asked every [`ASKED_EVERY`] how much memory they have, which costs little; their statistics are read
//! when that changed, and in any case every [`READ_EVERY`]. Counters are those since the last reading, so that
//! no count is missed; gauges of groups that do nothing may be as old as that, and are said to be estimates.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cachewise_kstat::{CgroupMemory, Hierarchy, Kernel, Resource};
use cachewise_model::{CgroupRow, Count, Ledger, Measured, Missing, System};
use cachewise_units::{Bytes, Pages};

use super::unit;
use crate::machine::stalled;

const ASKED_EVERY: Duration = Duration::from_secs(3);
const READ_EVERY: Duration = Duration::from_secs(30);

/// Names are read again after this long; sooner when a group is met that has none.
const NAMES_LAST: Duration = Duration::from_secs(10);
const NAMES_LAST_AT_LEAST: Duration = Duration::from_secs(1);

/// Rows for groups that have memory and do nothing: of more than this those with the most memory.
const IDLE_ROWS: usize = 1000;

const NOT_TOLD: Missing = Missing::NotOffered("this version of control groups does not tell it");
const OF_VERSION_2: Missing = Missing::NotOffered("only groups of version 2 tell their pressure");
const GONE: Missing = Missing::Unknown("the group is gone");
const READ_BEFORE: &str = "read up to half a minute ago, the group doing nothing since";
const OF_THE_MACHINE: Missing = Missing::NotOffered("it is told of the whole machine only");

/// The groups of the hierarchy that accounts the page cache.
pub struct Groups {
    hierarchy: Hierarchy,
    names: HashMap<u64, String>,
    /// By the lower half of their numbers, which is what rows have.
    known: HashMap<u32, Known>,
    named: Instant,
    /// Numbers without a name when names were read last: groups that were gone by then.
    nameless: HashSet<u32>,
}

/// A group as it was read last.
struct Known {
    path: PathBuf,
    used: Option<Bytes>,
    /// Counters since the group was made.
    last: System,
    is_dirty: bool,
    asked: Instant,
    read: Instant,
}

impl Groups {
    /// Reads all of them, so that what they did before is not told of.
    pub fn open(kernel: &Kernel) -> Groups {
        let mut groups = Groups {
            hierarchy: kernel.cgroup_hierarchy().unwrap_or(Hierarchy::None),
            names: HashMap::new(),
            known: HashMap::new(),
            named: Instant::now(),
            nameless: HashSet::new(),
        };
        groups.read_names(kernel, &HashSet::new());
        let count = groups.known.len().max(1) as u32;
        for (place, group) in groups.known.values_mut().enumerate() {
            group.read(kernel, &groups.hierarchy);
            // So that their times do not all come at once.
            let spread = |every: Duration| every / count * place as u32;
            group.asked = group
                .asked
                .checked_sub(spread(ASKED_EVERY))
                .unwrap_or(group.asked);
            group.read = group
                .read
                .checked_sub(spread(READ_EVERY))
                .unwrap_or(group.read);
        }
        groups
    }

    /// The names by number.
    pub fn names(&self) -> &HashMap<u64, String> {
        &self.names
    }

    /// Reads the names again if they may have changed.
    pub fn refresh_names(&mut self, kernel: &Kernel, met: impl Iterator<Item = u32>) {
        let unnamed: HashSet<u32> = met
            .filter(|id| !self.known.contains_key(id) && !self.nameless.contains(id))
            .collect();
        let age = self.named.elapsed();
        if age >= NAMES_LAST || !unnamed.is_empty() && age >= NAMES_LAST_AT_LEAST {
            self.read_names(kernel, &unnamed);
        }
    }

    fn read_names(&mut self, kernel: &Kernel, unnamed: &HashSet<u32>) {
        self.named = Instant::now();
        let Some(mount) = self.hierarchy.mount() else {
            return;
        };
        let Ok(names) = kernel.cgroup_names() else {
            return;
        };
        let mut known: HashMap<u32, Known> = HashMap::with_capacity(names.len());
        for (id, name) in &names {
            let id = *id as u32;
            let group = self.known.remove(&id).unwrap_or_else(|| Known {
                path: mount.join(name.trim_start_matches('/')),
                used: None,
                last: none_so_far(&self.hierarchy),
                is_dirty: true,
                asked: self.named,
                read: self.named,
            });
            known.insert(id, group);
        }
        self.known = known;
        self.names = names;
        self.nameless = unnamed
            .iter()
            .filter(|id| !self.known.contains_key(id))
            .copied()
            .collect();
    }

    /// Rows of all groups that did something, with what they did, and of those that have memory.
    pub fn rows(&mut self, kernel: &Kernel, mut active: HashMap<u32, Ledger>) -> Vec<CgroupRow> {
        let now = Instant::now();
        let mut rows = Vec::with_capacity(self.known.len());
        let mut idle: Vec<(u64, CgroupRow)> = Vec::new();
        let names: HashMap<u32, &String> = self
            .names
            .iter()
            .map(|(id, name)| (*id as u32, name))
            .collect();
        for (id, group) in &mut self.known {
            let Some(name) = names.get(id) else { continue };
            let ledger = active.remove(id);
            let is_awake = ledger.is_some() || group.is_dirty;
            let mut used = group.used;
            if !is_awake && now.duration_since(group.asked) >= ASKED_EVERY {
                group.asked = now;
                used = kernel
                    .cgroup_memory_used(&self.hierarchy, &group.path)
                    .unwrap_or(None);
            }
            let is_due = now.duration_since(group.read) >= READ_EVERY;
            let system = if is_awake || is_due || used != group.used {
                let then = group.last.clone();
                match group.read(kernel, &self.hierarchy) {
                    true => group.last.since(&then),
                    false => System::all_missing(GONE),
                }
            } else {
                let nothing = group.last.since(&group.last);
                nothing.with_estimated_gauges(READ_BEFORE)
            };
            let used = group.used;
            let memory = used.map_or(0, |used| used.0);
            let row = row(Some(name), ledger.unwrap_or_default(), system);
            if !row.ledger.is_zero() {
                rows.push(row);
            } else if memory > 0 {
                idle.push((memory, row));
            }
        }
        // What was done in groups that are gone, or that were not there when names were read.
        for ledger in active.into_values() {
            rows.push(row(None, ledger, System::all_missing(GONE)));
        }
        if idle.len() > IDLE_ROWS {
            idle.select_nth_unstable_by_key(IDLE_ROWS, |(memory, _)| std::cmp::Reverse(*memory));
            idle.truncate(IDLE_ROWS);
        }
        rows.extend(idle.into_iter().map(|(_, row)| row));
        rows
    }
}

impl Known {
    /// Reads its numbers; returns whether it is there.
    fn read(&mut self, kernel: &Kernel, hierarchy: &Hierarchy) -> bool {
        let Ok(Some(memory)) = kernel.cgroup_memory(hierarchy, &self.path) else {
            // It is gone; when names are read again, it is taken out.
            self.used = None;
            return false;
        };
        self.read = Instant::now();
        self.asked = self.read;
        self.used = memory.used;
        let waiting = [memory.dirty, memory.writeback];
        self.is_dirty = waiting.iter().any(|bytes| *bytes > Some(Bytes(0)));
        self.last = system(&memory);
        self.read_pressure(kernel, hierarchy);
        true
    }

    fn read_pressure(&mut self, kernel: &Kernel, hierarchy: &Hierarchy) {
        let system = &mut self.last;
        if !matches!(hierarchy, Hierarchy::V2 { .. }) {
            for stall in pressure(system) {
                *stall = Measured::Missing(OF_VERSION_2);
            }
            return;
        }
        let felt = |path: &Path, resource| kernel.cgroup_pressure(path, resource).ok().flatten();
        for (resource, some, full) in [
            (
                Resource::Memory,
                &mut system.psi_memory_some_seconds,
                Some(&mut system.psi_memory_full_seconds),
            ),
            (
                Resource::Io,
                &mut system.psi_io_some_seconds,
                Some(&mut system.psi_io_full_seconds),
            ),
            (Resource::Cpu, &mut system.psi_cpu_some_seconds, None),
        ] {
            let pressure = felt(&self.path, resource);
            *some = stalled(pressure.and_then(|pressure| pressure.some));
            if let Some(full) = full {
                *full = stalled(pressure.and_then(|pressure| pressure.full));
            }
        }
    }
}

fn pressure(system: &mut System) -> [&mut Count; 5] {
    [
        &mut system.psi_cpu_some_seconds,
        &mut system.psi_memory_some_seconds,
        &mut system.psi_memory_full_seconds,
        &mut system.psi_io_some_seconds,
        &mut system.psi_io_full_seconds,
    ]
}

/// A group that was made just now: all that it tells from here on is new.
fn none_so_far(hierarchy: &Hierarchy) -> System {
    let zero = [Measured::Exact(0); System::IDS.len()];
    let mut system = System::from_numbers(zero);
    if !matches!(hierarchy, Hierarchy::V2 { .. }) {
        for stall in pressure(&mut system) {
            *stall = Measured::Missing(OF_VERSION_2);
        }
    }
    system
}

fn row(name: Option<&String>, ledger: Ledger, system: System) -> CgroupRow {
    CgroupRow {
        path: name.map_or(Measured::Missing(GONE), |name| {
            Measured::Exact(name.clone())
        }),
        unit: match name.map(|name| unit::of(name)) {
            None => Measured::Missing(GONE),
            Some(None) => Measured::not_offered("the group is no unit's"),
            Some(Some(unit)) => Measured::Exact(unit.to_owned()),
        },
        ledger,
        system,
    }
}

/// A group's memory as numbers of the one table.
fn system(memory: &CgroupMemory) -> System {
    let count = |number: Option<u64>| number.map_or(Measured::Missing(NOT_TOLD), Measured::Exact);
    let bytes = |number: Option<Bytes>| count(number.map(|bytes| bytes.0));
    let pages = |number: Option<Pages>| count(number.map(|pages| pages.0));
    System {
        memory_used_bytes: bytes(memory.used),
        memory_limit_bytes: memory.limit.map_or(
            Measured::not_offered("the group has no limit of its own"),
            |limit| Measured::Exact(limit.0),
        ),
        memory_limit_reached: count(memory.limit_reached),
        cached_bytes: bytes(memory.file),
        anon_bytes: bytes(memory.anon),
        shmem_bytes: bytes(memory.shmem),
        mapped_bytes: bytes(memory.mapped),
        dirty_bytes: bytes(memory.dirty),
        writeback_bytes: bytes(memory.writeback),
        active_file_bytes: bytes(memory.active_file),
        inactive_file_bytes: bytes(memory.inactive_file),
        unevictable_bytes: bytes(memory.unevictable),
        slab_reclaimable_bytes: bytes(memory.slab_reclaimable),
        swap_used_bytes: bytes(memory.swap),
        file_refault_pages: pages(memory.refault_file),
        anon_refault_pages: pages(memory.refault_anon),
        scanned_pages: pages(memory.scanned),
        reclaimed_pages: pages(memory.reclaimed),
        page_faults: count(memory.faults),
        major_faults: count(memory.major_faults),
        oom_kills: count(memory.oom_kills),
        ..System::all_missing(OF_THE_MACHINE)
    }
}
