//! Memory of the machine: [`MemInfo`] of `/proc/meminfo` and [`VmStat`] of `/proc/vmstat`.

use std::collections::HashMap;

use cachewise_units::{Bytes, Pages};
use procfs_core::FromBufRead;

use crate::{Error, Kernel};

/// Current memory use, from `/proc/meminfo`.
///
/// `None` is a value that this kernel does not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemInfo {
    /// Memory that the kernel manages.
    pub total: Bytes,
    /// Unused memory.
    pub free: Bytes,
    /// The kernel's estimate of memory that can be had without swapping.
    pub available: Option<Bytes>,
    /// Page cache of block devices, file systems' own structures included.
    pub buffers: Bytes,
    /// Page cache of files, shared memory included, swap cache not.
    pub cached: Bytes,
    /// Swapped pages that are in memory as well.
    pub swap_cached: Bytes,
    /// Recently used pages.
    pub active: Bytes,
    /// Pages that reclaim scans first.
    pub inactive: Bytes,
    /// The part of `active` that files back.
    pub active_file: Option<Bytes>,
    /// The part of `inactive` that files back.
    pub inactive_file: Option<Bytes>,
    /// Pages that cannot be reclaimed.
    pub unevictable: Option<Bytes>,
    /// The part of `unevictable` that `mlock(2)` holds.
    pub mlocked: Option<Bytes>,
    /// Dirty pages.
    pub dirty: Bytes,
    /// Pages under writeback.
    pub writeback: Bytes,
    /// Anonymous memory of processes.
    pub anon: Option<Bytes>,
    /// Page cache that processes have mapped.
    pub mapped: Bytes,
    /// Shared memory and tmpfs: part of `cached`, without a disk behind it.
    pub shmem: Option<Bytes>,
    /// Memory of the kernel's own objects.
    pub slab: Bytes,
    /// The reclaimable part of `slab`, mostly caches of names and inodes.
    pub slab_reclaimable: Option<Bytes>,
    /// Page cache of files in huge pages.
    pub file_huge: Option<Bytes>,
    /// Total swap space.
    pub swap_total: Bytes,
    /// Unused swap space.
    pub swap_free: Bytes,
}

impl MemInfo {
    /// Returns the bytes that are not on their device yet, dirty or under writeback: the kernel compares both together
    /// with its limits of dirty memory.
    #[must_use]
    pub fn unwritten(&self) -> Bytes {
        Bytes(self.dirty.0.saturating_add(self.writeback.0))
    }
}

/// Page events since boot, from `/proc/vmstat`.
///
/// `None` is a value that this kernel does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VmStat {
    /// Bytes read from block devices, for any purpose. (The kernel counts these two in KiB.)
    pub pgpgin: Option<Bytes>,
    /// Bytes written to block devices.
    pub pgpgout: Option<Bytes>,
    /// Page faults.
    pub pgfault: Option<u64>,
    /// Page faults that waited for a device.
    pub pgmajfault: Option<u64>,
    /// File pages that were refaulted soon after their eviction.
    pub workingset_refault_file: Option<Pages>,
    /// Anonymous pages that were swapped in soon after they had been swapped out.
    pub workingset_refault_anon: Option<Pages>,
    /// Pages swapped in.
    pub pswpin: Option<Pages>,
    /// Pages swapped out.
    pub pswpout: Option<Pages>,
    /// OOM kills.
    pub oom_kill: Option<u64>,
    /// Pages that became dirty.
    pub nr_dirtied: Option<Pages>,
    /// Pages that were written back.
    pub nr_written: Option<Pages>,
    /// Pages scanned by reclaim, of any kind.
    pub pgscan: Option<Pages>,
    /// Pages reclaimed.
    pub pgsteal: Option<Pages>,
    /// Dirty memory at which writers are throttled; a gauge.
    pub dirty_threshold: Option<Pages>,
    /// Dirty memory at which writeback starts in the background; a gauge.
    pub dirty_background_threshold: Option<Pages>,
}

/// Kinds of reclaim. The kernel also splits the same pages into `_anon` and `_file`, so the sum of
/// all `pgscan_*` would count each page twice.
const RECLAIMERS: [&str; 4] = ["kswapd", "direct", "khugepaged", "proactive"];

impl Kernel {
    /// Returns the current memory use.
    ///
    /// # Errors
    /// Reading `/proc/meminfo` failed.
    pub fn meminfo(&self) -> Result<MemInfo, Error> {
        let path = self.proc("meminfo");
        let found = procfs_core::Meminfo::from_buf_read(self.read(&path)?.as_slice())
            .map_err(|error| Error::parse(&path, error.to_string()))?;
        Ok(MemInfo {
            total: Bytes(found.mem_total),
            free: Bytes(found.mem_free),
            available: found.mem_available.map(Bytes),
            buffers: Bytes(found.buffers),
            cached: Bytes(found.cached),
            swap_cached: Bytes(found.swap_cached),
            active: Bytes(found.active),
            inactive: Bytes(found.inactive),
            active_file: found.active_file.map(Bytes),
            inactive_file: found.inactive_file.map(Bytes),
            unevictable: found.unevictable.map(Bytes),
            mlocked: found.mlocked.map(Bytes),
            dirty: Bytes(found.dirty),
            writeback: Bytes(found.writeback),
            anon: found.anon_pages.map(Bytes),
            mapped: Bytes(found.mapped),
            shmem: found.shmem.map(Bytes),
            slab: Bytes(found.slab),
            slab_reclaimable: found.s_reclaimable.map(Bytes),
            file_huge: found.file_huge_pages.map(Bytes),
            swap_total: Bytes(found.swap_total),
            swap_free: Bytes(found.swap_free),
        })
    }

    /// Returns page events since boot.
    ///
    /// # Errors
    /// Reading `/proc/vmstat` failed.
    pub fn vmstat(&self) -> Result<VmStat, Error> {
        let text = self.text(&self.proc("vmstat"))?;
        let counters: HashMap<&str, u64> = text
            .lines()
            .filter_map(|line| {
                let (name, value) = line.split_once(' ')?;
                Some((name, value.trim().parse().ok()?))
            })
            .collect();
        let count = |name: &str| counters.get(name).copied();
        let kib = |name| count(name).map(|kib| Bytes(kib.saturating_mul(1024)));
        let pages = |name: &str| count(name).map(Pages);
        let sum = |verb: &str| {
            RECLAIMERS
                .iter()
                .filter_map(|who| pages(&format!("{verb}_{who}")))
                .reduce(|total, one| total + one)
        };
        Ok(VmStat {
            pgpgin: kib("pgpgin"),
            pgpgout: kib("pgpgout"),
            pgfault: count("pgfault"),
            pgmajfault: count("pgmajfault"),
            workingset_refault_file: pages("workingset_refault_file"),
            workingset_refault_anon: pages("workingset_refault_anon"),
            pswpin: pages("pswpin"),
            pswpout: pages("pswpout"),
            oom_kill: count("oom_kill"),
            nr_dirtied: pages("nr_dirtied"),
            nr_written: pages("nr_written"),
            pgscan: sum("pgscan"),
            pgsteal: sum("pgsteal"),
            dirty_threshold: pages("nr_dirty_threshold"),
            dirty_background_threshold: pages("nr_dirty_background_threshold"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, captured};

    #[test]
    fn meminfo_is_in_bytes() {
        for name in ["linux-6.18", "linux-6.1"] {
            let memory = captured(name).meminfo().unwrap();
            assert_eq!(
                memory.total,
                Bytes(24_684_084 * 1024),
                "{name}: kB becomes bytes"
            );
            assert!(
                memory.cached > memory.dirty,
                "{name}: not everything cached is dirty"
            );
            assert!(
                memory.available > Some(memory.free),
                "{name}: cache counts as available"
            );
            assert!(
                memory.shmem < Some(memory.cached),
                "{name}: it includes shared memory"
            );
        }
    }

    #[test]
    fn meminfo_reports_missing_lines_as_none() {
        let fixture = Fixture::new();
        let text = captured("linux-6.1")
            .text(&captured("linux-6.1").proc("meminfo"))
            .unwrap();
        let old: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains("Available"))
            .collect();
        fixture.write("proc/meminfo", old.join("\n"));
        let memory = fixture.kernel().meminfo().unwrap();
        assert_eq!(memory.available, None, "not reported is not zero");

        fixture.write("proc/meminfo", "MemTotal: many kB\n");
        let error = fixture.kernel().meminfo().unwrap_err().to_string();
        assert!(
            error.contains("meminfo"),
            "nonsense is refused by name: {error}"
        );
    }

    #[test]
    fn vmstat_counts_each_reclaimed_page_once() {
        let stat = captured("linux-6.1").vmstat().unwrap();
        assert_eq!(
            stat.pgscan,
            Some(Pages(120_400 + 3_100)),
            "two reclaimers, no _file"
        );
        assert_eq!(
            stat.pgsteal,
            Some(Pages(100_000 + 2_900)),
            "reclaimed, like scanned"
        );
    }

    #[test]
    fn vmstat_reports_block_io_in_bytes() {
        let fixture = Fixture::new();
        fixture.write("proc/vmstat", "pgpgin 3\npgfault 12\nnr_dirtied 7\n");
        let stat = fixture.kernel().vmstat().unwrap();
        assert_eq!(stat.pgpgin, Some(Bytes(3 * 1024)), "three KiB");
        assert_eq!(stat.pgfault, Some(12), "a count is a count");
        assert_eq!(stat.nr_dirtied, Some(Pages(7)), "pages are pages");
    }

    #[test]
    fn vmstat_reports_missing_lines_as_none() {
        let fixture = Fixture::new();
        fixture.write(
            "proc/vmstat",
            "nr_free_pages 1\nworkingset_refault 5\npgscan_file 9\n",
        );
        assert_eq!(
            fixture.kernel().vmstat().unwrap(),
            VmStat::default(),
            "all is unknown"
        );
        let stat = captured("linux-6.18").vmstat().unwrap();
        assert_eq!(
            stat.pgscan,
            Some(Pages(0)),
            "while counted and zero is zero"
        );
    }
}
