//! [`CgroupMemory`]: memory and memory events of a control group.

use std::collections::HashMap;
use std::path::PathBuf;

use cachewise_units::{Bytes, Pages};

use crate::cgroup_files::{CgroupFiles, USED_V1, USED_V2};
use crate::limit::parse_limit;
use crate::{Error, Hierarchy};

/// The memory of a control group and its descendants.
///
/// `None` is a value that this kernel, or this version of control groups, does not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CgroupMemory {
    /// Memory charged to it, page cache included.
    pub used: Option<Bytes>,
    /// Its own limit; also `None` without a limit.
    pub limit: Option<Bytes>,
    /// The file that sets this limit: of `memory.max` and `memory.high` the lower one.
    pub limit_path: Option<PathBuf>,
    /// Number of times it hit a limit of its own and pages were reclaimed.
    pub limit_reached: Option<u64>,
    /// OOM kills.
    pub oom_kills: Option<u64>,
    /// Page cache, shared memory included.
    pub file: Option<Bytes>,
    /// Anonymous memory of processes.
    pub anon: Option<Bytes>,
    /// Shared memory and tmpfs: part of `file`.
    pub shmem: Option<Bytes>,
    /// Page cache that processes have mapped.
    pub mapped: Option<Bytes>,
    /// Dirty page cache.
    pub dirty: Option<Bytes>,
    /// Page cache under writeback.
    pub writeback: Option<Bytes>,
    /// Recently used page cache of files.
    pub active_file: Option<Bytes>,
    /// Page cache of files that reclaim scans first.
    pub inactive_file: Option<Bytes>,
    /// Unreclaimable memory.
    pub unevictable: Option<Bytes>,
    /// Reclaimable kernel memory.
    pub slab_reclaimable: Option<Bytes>,
    /// Used swap space.
    pub swap: Option<Bytes>,
    /// File pages that were refaulted soon after their eviction.
    pub refault_file: Option<Pages>,
    /// Anonymous pages that were swapped in soon after they had been swapped out.
    pub refault_anon: Option<Pages>,
    /// Pages scanned by reclaim.
    pub scanned: Option<Pages>,
    /// Pages reclaimed.
    pub reclaimed: Option<Pages>,
    /// Page faults.
    pub faults: Option<u64>,
    /// Page faults that waited for a device.
    pub major_faults: Option<u64>,
}

/// Names in `memory.stat` of the values that both versions report.
struct Names {
    file: &'static str,
    anon: &'static str,
    shmem: &'static str,
    mapped: &'static str,
    dirty: &'static str,
    writeback: &'static str,
    active_file: &'static str,
    inactive_file: &'static str,
    unevictable: &'static str,
    refault_file: &'static str,
    refault_anon: &'static str,
    faults: &'static str,
    major_faults: &'static str,
}

const V2: Names = Names {
    file: "file",
    anon: "anon",
    shmem: "shmem",
    mapped: "file_mapped",
    dirty: "file_dirty",
    writeback: "file_writeback",
    active_file: "active_file",
    inactive_file: "inactive_file",
    unevictable: "unevictable",
    refault_file: "workingset_refault_file",
    refault_anon: "workingset_refault_anon",
    faults: "pgfault",
    major_faults: "pgmajfault",
};

/// Names without `total_` count the group alone.
const V1: Names = Names {
    file: "total_cache",
    anon: "total_rss",
    shmem: "total_shmem",
    mapped: "total_mapped_file",
    dirty: "total_dirty",
    writeback: "total_writeback",
    active_file: "total_active_file",
    inactive_file: "total_inactive_file",
    unevictable: "total_unevictable",
    refault_file: "total_workingset_refault_file",
    refault_anon: "total_workingset_refault_anon",
    faults: "total_pgfault",
    major_faults: "total_pgmajfault",
};

impl CgroupFiles {
    /// Returns the memory charged to the group, or `None` if the kernel does not report it, as for
    /// the root of version 2, or the group is gone.
    ///
    /// # Errors
    /// Reading the file failed.
    ///
    /// # Cost
    /// One read, of an open file if the limit allowed it: little compared with
    /// [`memory`](Self::memory).
    pub fn memory_used(&mut self, hierarchy: &Hierarchy) -> Result<Option<Bytes>, Error> {
        let name = match hierarchy {
            Hierarchy::V2 { .. } => USED_V2,
            Hierarchy::V1Memory { .. } => USED_V1,
            Hierarchy::None => return Ok(None),
        };
        Ok(self.number(name)?.map(Bytes))
    }

    /// Returns the memory of the group and its descendants; `None` if the group is gone, or its
    /// memory is not accounted.
    ///
    /// # Errors
    /// Reading its files failed.
    ///
    /// # Kernel
    /// Version 1 does not report scanned and reclaimed pages.
    ///
    /// # Cost
    /// Five to seven small files, and the kernel adds up the group's counters over all CPUs: about
    /// 50 microseconds.
    pub fn memory(&mut self, hierarchy: &Hierarchy) -> Result<Option<CgroupMemory>, Error> {
        let names = match hierarchy {
            Hierarchy::V2 { .. } => &V2,
            Hierarchy::V1Memory { .. } => &V1,
            Hierarchy::None => return Ok(None),
        };
        let Some(text) = self.text("memory.stat")? else {
            return Ok(None);
        };
        let stat = pairs(&text);
        let bytes = |name: &str| stat.get(name).copied().map(Bytes);
        let pages = |name: &str| stat.get(name).copied().map(Pages);
        let mut memory = CgroupMemory {
            used: self.memory_used(hierarchy)?,
            file: bytes(names.file),
            anon: bytes(names.anon),
            shmem: bytes(names.shmem),
            mapped: bytes(names.mapped),
            dirty: bytes(names.dirty),
            writeback: bytes(names.writeback),
            active_file: bytes(names.active_file),
            inactive_file: bytes(names.inactive_file),
            unevictable: bytes(names.unevictable),
            slab_reclaimable: bytes("slab_reclaimable"),
            refault_file: pages(names.refault_file),
            refault_anon: pages(names.refault_anon),
            scanned: pages("pgscan"),
            reclaimed: pages("pgsteal"),
            faults: stat.get(names.faults).copied(),
            major_faults: stat.get(names.major_faults).copied(),
            ..CgroupMemory::default()
        };
        match hierarchy {
            Hierarchy::V2 { .. } => {
                let events = self.text("memory.events")?.unwrap_or_default();
                let events = pairs(&events);
                memory.limit_reached = match (events.get("max"), events.get("high")) {
                    (None, None) => None,
                    (max, high) => Some(max.unwrap_or(&0) + high.unwrap_or(&0)),
                };
                memory.oom_kills = events.get("oom_kill").copied();
                memory.swap = self.number("memory.swap.current")?.map(Bytes);
                let max = self.limit("memory.max")?;
                let high = self.limit("memory.high")?;
                let named = [(max, "memory.max"), (high, "memory.high")].into_iter();
                let tightest = named
                    .filter_map(|(limit, name)| Some((limit?, name)))
                    .min_by_key(|(limit, _)| *limit);
                memory.limit = tightest.map(|(limit, _)| limit);
                memory.limit_path = tightest.map(|(_, name)| self.path(name));
            }
            _ => {
                memory.limit_reached = self.number("memory.failcnt")?;
                let control = self.text("memory.oom_control")?;
                memory.oom_kills = control.and_then(|text| pairs(&text).get("oom_kill").copied());
                memory.swap = bytes("total_swap");
                memory.limit = self.limit("memory.limit_in_bytes")?;
                memory.limit_path = memory.limit.map(|_| self.path("memory.limit_in_bytes"));
            }
        }
        Ok(Some(memory))
    }

    fn limit(&mut self, name: &'static str) -> Result<Option<Bytes>, Error> {
        match self.text(name)? {
            Some(text) => parse_limit(text.trim_end(), &self.path(name)),
            None => Ok(None),
        }
    }
}

/// Lines of a name and a number; other lines are skipped.
fn pairs(text: &str) -> HashMap<&str, u64> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name, value.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Descriptors;
    use crate::fixture::captured;

    fn memory(machine: &str, group: &str) -> CgroupMemory {
        let kernel = captured(machine);
        let hierarchy = kernel.cgroup_hierarchy().unwrap();
        let path = hierarchy.mount().unwrap().join(group);
        let mut files = CgroupFiles::new(path, &Descriptors::new(8));
        files.memory(&hierarchy).unwrap().unwrap()
    }

    #[test]
    fn memory_of_version_1_includes_descendants() {
        let memory = memory("linux-6.18", "limited");
        assert_eq!(memory.limit, Some(Bytes(64 << 20)), "its own limit");
        let path = memory.limit_path.as_deref();
        assert!(
            path.is_some_and(|path| path.ends_with("limited/memory.limit_in_bytes")),
            "the file that sets it: {path:?}"
        );
        assert!(
            memory.used <= memory.limit && memory.used > Some(Bytes(32 << 20)),
            "up to its limit: {memory:?}"
        );
        assert!(
            memory.file > Some(Bytes(32 << 20)),
            "almost all page cache: {memory:?}"
        );
        assert!(
            memory.limit_reached > Some(100),
            "again and again: {memory:?}"
        );
        assert!(
            memory.refault_file > Some(Pages(1000)),
            "it thrashed: {memory:?}"
        );
        assert_eq!(memory.scanned, None, "not reported by version 1");
        assert_eq!(memory.oom_kills, Some(0), "no process was killed");
    }

    #[test]
    fn memory_of_version_2_reports_reclaim() {
        let memory = memory("linux-6.1", "system.slice/db.service");
        assert_eq!(memory.used, Some(Bytes(536_342_528)), "memory.current");
        assert_eq!(
            memory.limit,
            Some(Bytes(512 << 20)),
            "the lower of max and high"
        );
        let path = memory.limit_path.as_deref();
        assert!(
            path.is_some_and(|path| path.ends_with("db.service/memory.high")),
            "the file that sets it: {path:?}"
        );
        assert_eq!(memory.limit_reached, Some(1302), "max and high together");
        assert_eq!(memory.scanned, Some(Pages(402_118)), "reclaim's work");
        assert_eq!(memory.swap, Some(Bytes(0)), "none is in use");
        assert_eq!(memory.oom_kills, Some(1), "one was killed");
    }

    #[test]
    fn root_of_version_2_has_no_limit_and_no_sum() {
        let root = memory("linux-6.1", "");
        assert_eq!(
            (root.used, root.limit),
            (None, None),
            "unreported is not zero"
        );
        assert!(root.file.is_some(), "but its statistics are: {root:?}");
    }

    #[test]
    fn memory_of_vanished_group_is_none() {
        let kernel = captured("linux-6.18");
        let hierarchy = kernel.cgroup_hierarchy().unwrap();
        let gone = hierarchy.mount().unwrap().join("gone");
        let mut files = CgroupFiles::new(gone, &Descriptors::new(8));
        assert_eq!(files.memory(&hierarchy).unwrap(), None, "gone");
        let used = files.memory_used(&hierarchy).unwrap();
        assert_eq!(used, None, "nor is anything charged to it");
    }
}
