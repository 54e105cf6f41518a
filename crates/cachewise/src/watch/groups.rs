//! Control groups over time: names, memory and pressure, without reading all of it every second.
//!
//! A group with page-cache activity or dirty pages is read at each interval. The memory size of the
//! others is read every [`ASKED_EVERY`], which costs little; their statistics are read when that
//! size changed, and at least every [`READ_EVERY`]. Counters cover the time since the last reading,
//! so that no count is lost. Gauges of idle groups may be that old, and are marked as estimates.
//!
//! Files that are read repeatedly stay open as long as enough descriptors remain: finding and
//! opening one costs more than reading it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cachewise_cli::names::Namer;
use cachewise_kstat::{CgroupFiles, CgroupMemory, Descriptors, Hierarchy, Kernel, Resource};
use cachewise_model::{
    CgroupRow, Count, GroupNames, Interval, Ledger, Measured, Missing, Reason, System,
};
use cachewise_units::{Bytes, Pages};
use rustix::process::{self, getrlimit};

use crate::account::of_tasks;
use crate::machine::{ENOUGH_FILES, stalled};

const ASKED_EVERY: Duration = Duration::from_secs(3);
const READ_EVERY: Duration = Duration::from_secs(30);

/// Names are read again after this time, or sooner when a group without a name appears.
const NAMES_LAST: Duration = Duration::from_secs(10);
const NAMES_LAST_AT_LEAST: Duration = Duration::from_secs(1);

/// Maximum rows for idle groups with memory; the largest are kept.
const IDLE_ROWS: usize = 1000;

/// Maximum open files of groups; fewer where the limit on open files is low.
const OPEN_FILES: u64 = 1024;

const NOT_TOLD: Missing = Missing::NotOffered(Reason::NotInThisVersion);
const OF_VERSION_2: Missing = Missing::NotOffered(Reason::NeedsVersion2);
const GONE: Missing = Missing::Unknown(Reason::GroupGone);
const UNREADABLE: Missing = Missing::Unknown(Reason::GroupNotRead);
const OF_THE_MACHINE: Missing = Missing::NotOffered(Reason::ReportedForMachine);

/// The groups of the hierarchy that accounts the page cache.
pub struct Groups {
    hierarchy: Hierarchy,
    names: HashMap<u64, String>,
    /// Their units, containers and pods.
    namer: Namer,
    /// Groups by the lower half of their ids, which rows contain.
    known: HashMap<u32, Known>,
    named: Instant,
    /// Ids without a name at the last reading of names: groups that were gone by then.
    nameless: HashSet<u32>,
    descriptors: Descriptors,
}

/// A group with its last readings.
struct Known {
    files: CgroupFiles,
    /// It was gone at the last reading: another group may have its name by now.
    is_gone: bool,
    used: Option<Bytes>,
    /// The file that sets its own limit.
    limit_path: Option<PathBuf>,
    /// Counters since the group was made.
    last: System,
    is_dirty: bool,
    asked: Instant,
    read: Instant,
}

impl Groups {
    /// Reads all groups, to exclude their counts before this moment.
    pub fn open(kernel: &Kernel) -> Groups {
        let mut groups = Groups {
            hierarchy: kernel.cgroup_hierarchy().unwrap_or(Hierarchy::None),
            names: HashMap::new(),
            namer: Namer::new(),
            known: HashMap::new(),
            named: Instant::now(),
            nameless: HashSet::new(),
            descriptors: Descriptors::new(room_for_files()),
        };
        groups.read_names(kernel, &HashSet::new());
        let count = groups.known.len().max(1) as u32;
        for (place, group) in groups.known.values_mut().enumerate() {
            // A failure is reported at the next reading.
            let _ = group.read(&groups.hierarchy);
            // Spreads the readings over time.
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

    /// Names by id.
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
            let mut group = self.known.remove(&id).unwrap_or_else(|| Known {
                files: CgroupFiles::new(
                    mount.join(name.trim_start_matches('/')),
                    &self.descriptors,
                ),
                is_gone: false,
                used: None,
                limit_path: None,
                last: none_so_far(&self.hierarchy),
                is_dirty: true,
                asked: self.named,
                read: self.named,
            });
            group.is_gone = false;
            known.insert(id, group);
        }
        self.known = known;
        self.namer.refresh(names.values().map(String::as_str));
        self.names = names;
        self.nameless = unnamed
            .iter()
            .filter(|id| !self.known.contains_key(id))
            .copied()
            .collect();
    }

    /// Fills in the memory of a run's groups, since [`Groups::open`], and the groups above them.
    pub fn fill(&mut self, interval: &mut Interval, kernel: &Kernel, active: HashMap<u32, Ledger>) {
        self.refresh_names(kernel, active.keys().copied());
        let mut read: HashMap<String, CgroupRow> = self
            .rows(active)
            .into_iter()
            .filter_map(|row| Some((row.path.clone().known()?, row)))
            .collect();
        let mut names: Vec<String> = Vec::new();
        for row in &mut interval.cgroups {
            let Some(name) = row.path.as_ref().known() else {
                continue;
            };
            if let Some(found) = read.remove(name) {
                names.extend(above(name).map(str::to_owned));
                row.system = found.system;
                row.memory_limit_path = found.memory_limit_path;
            }
        }
        let groups = names.iter().filter_map(|name| read.remove(name));
        interval.run_mut().groups_above = groups.collect();
    }

    /// Rows of all active groups with their counts, and of the others with memory.
    pub fn rows(&mut self, mut active: HashMap<u32, Ledger>) -> Vec<CgroupRow> {
        let now = Instant::now();
        let mut rows = Vec::with_capacity(self.known.len());
        let mut idle: Vec<(u64, CgroupRow)> = Vec::new();
        let names: HashMap<u32, &String> = self
            .names
            .iter()
            .map(|(id, name)| (*id as u32, name))
            .collect();
        // Limits of the groups above an active one hold for it.
        let above: HashSet<&str> = active
            .keys()
            .filter_map(|id| names.get(id))
            .flat_map(|name| above(name))
            .collect();
        for (id, group) in &mut self.known {
            let Some(name) = names.get(id) else { continue };
            let ledger = active.remove(id);
            let is_awake = ledger.is_some() || group.is_dirty || above.contains(name.as_str());
            let mut used = group.used;
            group.files.keep_all(is_awake);
            if !is_awake && now.duration_since(group.asked) >= ASKED_EVERY && !group.is_gone {
                group.asked = now;
                used = group.files.memory_used(&self.hierarchy).unwrap_or(None);
                // The open file is reliable; the path may lead to another group.
                group.is_gone = group.used.is_some() && used.is_none();
            }
            let is_due = now.duration_since(group.read) >= READ_EVERY;
            let system = if is_awake || is_due || used != group.used {
                let then = group.last.clone();
                match group.read(&self.hierarchy) {
                    Ok(()) => group.last.since(&then),
                    Err(missing) => System::all_missing(missing),
                }
            } else {
                let nothing = group.last.since(&group.last);
                nothing.with_estimated_gauges(Reason::ReadBefore)
            };
            let used = group.used;
            let memory = used.map_or(0, |used| used.0);
            let limit = group.limit_path.clone();
            let named = Some((name.as_str(), self.namer.names(name)));
            let row = row(named, ledger.unwrap_or_default(), system, limit);
            if !row.ledger.is_zero() {
                rows.push(row);
            } else if memory > 0 {
                idle.push((memory, row));
            }
        }
        // Counts of groups that are gone, or that did not exist when names were read.
        for ledger in active.into_values() {
            rows.push(row(None, ledger, System::all_missing(GONE), None));
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
    /// Reads the group's numbers, or returns the reason why there are none.
    fn read(&mut self, hierarchy: &Hierarchy) -> Result<(), Missing> {
        let memory = match self.is_gone {
            true => Ok(None),
            false => self.files.memory(hierarchy),
        };
        let memory = match memory {
            Ok(Some(memory)) if memory.used.is_some() || self.used.is_none() => Ok(memory),
            Ok(_) => Err(GONE),
            Err(_) => Err(UNREADABLE),
        };
        let memory = match memory {
            Ok(memory) => memory,
            Err(missing) => {
                // The next reading of names removes a group that is gone.
                self.is_gone = missing == GONE;
                self.used = None;
                return Err(missing);
            }
        };
        self.read = Instant::now();
        self.asked = self.read;
        self.used = memory.used;
        self.limit_path.clone_from(&memory.limit_path);
        let waiting = [memory.dirty, memory.writeback];
        self.is_dirty = waiting.iter().any(|bytes| *bytes > Some(Bytes(0)));
        self.last = system(&memory);
        self.read_pressure(hierarchy);
        Ok(())
    }

    fn read_pressure(&mut self, hierarchy: &Hierarchy) {
        let system = &mut self.last;
        if !matches!(hierarchy, Hierarchy::V2 { .. }) {
            for stall in pressure(system) {
                *stall = Measured::Missing(OF_VERSION_2);
            }
            return;
        }
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
            let pressure = self.files.pressure(resource).ok().flatten();
            *some = stalled(pressure.and_then(|pressure| pressure.some));
            if let Some(full) = full {
                *full = stalled(pressure.and_then(|pressure| pressure.full));
            }
        }
    }
}

/// Number of group files that may stay open: half of the remaining limit, because the rest of the
/// program opens files later.
fn room_for_files() -> usize {
    let limit = getrlimit(process::Resource::Nofile).current;
    let left = limit.map_or(OPEN_FILES, |limit| limit.saturating_sub(ENOUGH_FILES) / 2);
    left.min(OPEN_FILES) as usize
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

/// Zero counters for a new group: all its counts from now on are new.
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

/// The names of the groups above a group, without the root, which has no limit.
fn above(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.rmatch_indices('/').map(|(end, _)| end);
    ends.filter(|end| *end > 0).map(|end| &name[..end])
}

fn row(
    named: Option<(&str, GroupNames)>,
    ledger: Ledger,
    system: System,
    limit_path: Option<PathBuf>,
) -> CgroupRow {
    let (path, names) = match named {
        Some((path, names)) => (Measured::Exact(path.to_owned()), names),
        None => (Measured::Missing(GONE), GroupNames::all_missing(GONE)),
    };
    CgroupRow {
        path,
        names,
        ledger: of_tasks(ledger),
        system,
        memory_limit_path: limit_path
            .map_or(Measured::not_offered(Reason::NoOwnLimit), Measured::Exact),
    }
}

/// A group's memory as fields of the system table.
fn system(memory: &CgroupMemory) -> System {
    let count = |number: Option<u64>| number.map_or(Measured::Missing(NOT_TOLD), Measured::Exact);
    let bytes = |number: Option<Bytes>| count(number.map(|bytes| bytes.0));
    let pages = |number: Option<Pages>| count(number.map(|pages| pages.0));
    System {
        memory_used_bytes: bytes(memory.used),
        memory_limit_bytes: memory
            .limit
            .map_or(Measured::not_offered(Reason::NoOwnLimit), |limit| {
                Measured::Exact(limit.0)
            }),
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
