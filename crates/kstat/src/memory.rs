//! Memory as a whole: [`MemInfo`] of `/proc/meminfo` and [`VmStat`] of `/proc/vmstat`.

use std::collections::HashMap;

use cachewise_units::{Bytes, Pages};
use procfs_core::FromBufRead;

use crate::{Error, Kernel};

/// How memory is used right now, from `/proc/meminfo`.
///
/// `None` is what this kernel does not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemInfo {
    /// Memory that the kernel manages.
    pub total: Bytes,
    /// Memory used for nothing.
    pub free: Bytes,
    /// The kernel's estimate of what can be had without swapping.
    pub available: Option<Bytes>,
    /// Page cache of block devices, file systems' own structures included.
    pub buffers: Bytes,
    /// Page cache of files, shared memory included, swap cache not.
    pub cached: Bytes,
    /// Swapped pages that are in memory as well.
    pub swap_cached: Bytes,
    /// Pages used lately.
    pub active: Bytes,
    /// Pages that reclaim looks at first.
    pub inactive: Bytes,
    /// The part of `active` that files back.
    pub active_file: Option<Bytes>,
    /// The part of `inactive` that files back.
    pub inactive_file: Option<Bytes>,
    /// Pages that cannot be reclaimed.
    pub unevictable: Option<Bytes>,
    /// The part of `unevictable` that `mlock(2)` holds.
    pub mlocked: Option<Bytes>,
    /// Pages that are newer than the disk.
    pub dirty: Bytes,
    /// Pages on their way to the disk.
    pub writeback: Bytes,
    /// Memory of processes that no file backs.
    pub anon: Option<Bytes>,
    /// Page cache that processes have mapped.
    pub mapped: Bytes,
    /// Shared memory and tmpfs: part of `cached`, without a disk behind it.
    pub shmem: Option<Bytes>,
    /// Memory of the kernel's own objects.
    pub slab: Bytes,
    /// The part of `slab` that can be given back, caches of names and inodes above all.
    pub slab_reclaimable: Option<Bytes>,
    /// Page cache of files in huge pages.
    pub file_huge: Option<Bytes>,
    /// Swap space in all.
    pub swap_total: Bytes,
    /// Swap space that is not used.
    pub swap_free: Bytes,
}

/// What happened to pages since boot, from `/proc/vmstat`.
///
/// `None` is what this kernel does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VmStat {
    /// Read from block devices, whoever asked. (The kernel counts these two in KiB.)
    pub pgpgin: Option<Bytes>,
    /// Written to block devices.
    pub pgpgout: Option<Bytes>,
    /// Page faults.
    pub pgfault: Option<u64>,
    /// Page faults that had to wait for a device.
    pub pgmajfault: Option<u64>,
    /// Pages of files that were read again soon after they had been evicted.
    pub workingset_refault_file: Option<Pages>,
    /// Anonymous pages that were swapped in again soon after they had been put out.
    pub workingset_refault_anon: Option<Pages>,
    /// Pages brought in from swap.
    pub pswpin: Option<Pages>,
    /// Pages put out to swap.
    pub pswpout: Option<Pages>,
    /// Processes killed for want of memory.
    pub oom_kill: Option<u64>,
    /// Pages that became dirty.
    pub nr_dirtied: Option<Pages>,
    /// Pages that were written back.
    pub nr_written: Option<Pages>,
    /// Pages that reclaim looked at, for whatever reason it ran.
    pub pgscan: Option<Pages>,
    /// Pages that reclaim took.
    pub pgsteal: Option<Pages>,
    /// Dirty memory at which those who write are stopped; not a counter.
    pub dirty_threshold: Option<Pages>,
    /// Dirty memory at which write-back starts in the background; not a counter.
    pub dirty_background_threshold: Option<Pages>,
}

/// Why reclaim ran. The kernel also splits the same pages into `_anon` and `_file`, so adding up
/// everything that starts with `pgscan_` would count each page twice.
const RECLAIMERS: [&str; 4] = ["kswapd", "direct", "khugepaged", "proactive"];

impl Kernel {
    /// Returns how memory is used right now.
    ///
    /// # Errors
    /// What reading `/proc/meminfo` says.
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

    /// Returns what happened to pages since boot.
    ///
    /// # Errors
    /// What reading `/proc/vmstat` says.
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
    fn meminfo_of_both_kernels_is_in_bytes() {
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
                "{name}: shared memory is part of it"
            );
        }
    }

    #[test]
    fn what_meminfo_lacks_is_none() {
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
    fn vmstat_sums_the_reclaimers_once() {
        let stat = captured("linux-6.1").vmstat().unwrap();
        assert_eq!(
            stat.pgscan,
            Some(Pages(120_400 + 3_100)),
            "two reclaimers, no _file"
        );
        assert_eq!(
            stat.pgsteal,
            Some(Pages(100_000 + 2_900)),
            "taken, as looked at"
        );
    }

    #[test]
    fn vmstat_counts_block_input_in_bytes() {
        let fixture = Fixture::new();
        fixture.write("proc/vmstat", "pgpgin 3\npgfault 12\nnr_dirtied 7\n");
        let stat = fixture.kernel().vmstat().unwrap();
        assert_eq!(stat.pgpgin, Some(Bytes(3 * 1024)), "three KiB");
        assert_eq!(stat.pgfault, Some(12), "a count is a count");
        assert_eq!(stat.nr_dirtied, Some(Pages(7)), "pages are pages");
    }

    #[test]
    fn what_vmstat_lacks_is_none() {
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
