//! [`SETTINGS`]: the table of settings, and the search in it.

use std::path::PathBuf;

use crate::Error;
use crate::setting::{Setting, SettingKind, SettingLocation, SettingTarget};

const MOST: u64 = u64::MAX;
const ANY: u64 = i32::MAX as u64;

macro_rules! settings {
    ($($name:literal $place:expr, $kind:expr, $since:literal, $about:literal $(, beside $($beside:literal)+)?;)*) => {
        /// All settings, by name.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            place: $place,
            kind: $kind,
            about: $about,
            since: $since,
            beside: &[$($($beside),+)?],
        }),*];
    };
}

settings! {
    "vm.swappiness" SettingLocation::Sysctl("vm/swappiness"), SettingKind::Number(0, 200), "Linux 2.6 (beyond 100: 5.8)",
        "how readily anonymous memory is swapped rather than page cache dropped; groups of version 1 keep their own";
    "vm.watermark_scale_factor" SettingLocation::Sysctl("vm/watermark_scale_factor"), SettingKind::Number(1, 3000), "Linux 4.6",
        "distance between kswapd's start and stop, in 1/10,000 of memory; takes effect when the whole machine needs memory";
    "vm.watermark_boost_factor" SettingLocation::Sysctl("vm/watermark_boost_factor"), SettingKind::Number(0, ANY), "Linux 5.0",
        "how much more is reclaimed after memory was fragmented, in 1/10,000 of the watermark";
    "vm.min_free_kbytes" SettingLocation::Sysctl("vm/min_free_kbytes"), SettingKind::Number(128, ANY), "Linux 2.6",
        "memory that the kernel always keeps free; too much of it causes OOM kills";
    "vm.vfs_cache_pressure" SettingLocation::Sysctl("vm/vfs_cache_pressure"), SettingKind::Number(0, ANY), "Linux 2.6",
        "how readily cached names and inodes are dropped rather than pages; 0 never, which ends in OOM kills";
    "vm.page-cluster" SettingLocation::Sysctl("vm/page-cluster"), SettingKind::Number(0, 31), "Linux 2.6",
        "pages read from swap at once, as a power of two";
    "vm.dirty_ratio" SettingLocation::Sysctl("vm/dirty_ratio"), SettingKind::Number(0, 100), "Linux 2.6",
        "dirty share of available memory, in per cent, at which writers have to write back themselves",
        beside "vm.dirty_bytes";
    "vm.dirty_bytes" SettingLocation::Sysctl("vm/dirty_bytes"), SettingKind::Number(8192, MOST), "Linux 2.6.29",
        "the same as an amount; one of the two is 0", beside "vm.dirty_ratio";
    "vm.dirty_background_ratio" SettingLocation::Sysctl("vm/dirty_background_ratio"), SettingKind::Number(0, 100), "Linux 2.6",
        "dirty share of available memory, in per cent, at which writeback begins",
        beside "vm.dirty_background_bytes";
    "vm.dirty_background_bytes" SettingLocation::Sysctl("vm/dirty_background_bytes"), SettingKind::Number(1, MOST), "Linux 2.6.29",
        "the same as an amount; one of the two is 0", beside "vm.dirty_background_ratio";
    "vm.dirty_expire_centisecs" SettingLocation::Sysctl("vm/dirty_expire_centisecs"), SettingKind::Number(0, ANY), "Linux 2.6",
        "age, in 1/100 s, at which a dirty page is written back";
    "vm.dirty_writeback_centisecs" SettingLocation::Sysctl("vm/dirty_writeback_centisecs"), SettingKind::Number(0, ANY), "Linux 2.6",
        "interval between searches for such pages, in 1/100 s";
    "vm.compaction_proactiveness" SettingLocation::Sysctl("vm/compaction_proactiveness"), SettingKind::Number(0, 100), "Linux 5.9",
        "effort to make large free blocks in advance";
    "vm.zone_reclaim_mode" SettingLocation::Sysctl("vm/zone_reclaim_mode"), SettingKind::Number(0, 7), "Linux 2.6, with NUMA",
        "whether a node reclaims its own memory before another's is used";
    "read_ahead_kb" SettingLocation::Device("queue/read_ahead_kb"), SettingKind::Number(0, ANY), "Linux 2.6",
        "maximum readahead of the file's device; mapped files read this much around each fault";
    "scheduler" SettingLocation::Device("queue/scheduler"), SettingKind::Word, "Linux 2.6",
        "the I/O scheduler of the file's device";
    "nr_requests" SettingLocation::Device("queue/nr_requests"), SettingKind::Number(1, ANY), "Linux 2.6",
        "requests in the queue of the file's device";
    "wbt_lat_usec" SettingLocation::Device("queue/wbt_lat_usec"), SettingKind::Number(0, MOST), "Linux 4.10, with CONFIG_BLK_WBT",
        "latency of reads that writeback has to keep on the file's device; 0 switches it off";
    "transparent_hugepage.enabled" SettingLocation::Sys("kernel/mm/transparent_hugepage/enabled"),
        SettingKind::Choice(&["always", "madvise", "never"]), "Linux 2.6.38, with CONFIG_TRANSPARENT_HUGEPAGE",
        "use of huge pages for anonymous memory", beside "vm.min_free_kbytes";
    "transparent_hugepage.defrag" SettingLocation::Sys("kernel/mm/transparent_hugepage/defrag"),
        SettingKind::Choice(&["always", "defer", "defer+madvise", "madvise", "never"]),
        "Linux 2.6.38, with CONFIG_TRANSPARENT_HUGEPAGE", "whether page faults wait for compaction";
    "transparent_hugepage.shmem_enabled" SettingLocation::Sys("kernel/mm/transparent_hugepage/shmem_enabled"),
        SettingKind::Choice(&["always", "within_size", "advise", "never", "deny", "force"]), "Linux 4.8",
        "huge pages of shared memory";
    "zswap.enabled" SettingLocation::Sys("module/zswap/parameters/enabled"), SettingKind::Switch, "Linux 3.11, with CONFIG_ZSWAP",
        "compress pages in memory before swapping them";
    "zswap.compressor" SettingLocation::Sys("module/zswap/parameters/compressor"), SettingKind::Word, "Linux 3.11, with CONFIG_ZSWAP",
        "by which algorithm";
    "zswap.max_pool_percent" SettingLocation::Sys("module/zswap/parameters/max_pool_percent"), SettingKind::Number(1, 100),
        "Linux 3.11, with CONFIG_ZSWAP", "share of memory that they may take, in per cent";
    "zswap.shrinker_enabled" SettingLocation::Sys("module/zswap/parameters/shrinker_enabled"), SettingKind::Switch, "Linux 6.8, with CONFIG_ZSWAP",
        "cold ones are written to swap before memory is short";
    "swap.vma_ra_enabled" SettingLocation::Sys("kernel/mm/swap/vma_ra_enabled"), SettingKind::Choice(&["true", "false"]), "Linux 4.14",
        "readahead of swap by address instead of position on the device";
    "lru_gen.enabled" SettingLocation::Sys("kernel/mm/lru_gen/enabled"), SettingKind::Mask, "Linux 6.1, with CONFIG_LRU_GEN",
        "the multi-generational LRU, or parts of it";
    "lru_gen.min_ttl_ms" SettingLocation::Sys("kernel/mm/lru_gen/min_ttl_ms"), SettingKind::Number(0, ANY), "Linux 6.1, with CONFIG_LRU_GEN",
        "keep the working set of the last milliseconds, or kill a process";
    "memory.max" SettingLocation::Group, SettingKind::Size, "a memory controller",
        "memory that the workload may have, page cache included";
    "memory.high" SettingLocation::Group, SettingKind::Size, "a memory controller (version 1: a soft limit)",
        "memory beyond which the workload's is reclaimed";
    "memory.swap.max" SettingLocation::Group, SettingKind::Size, "a memory controller that accounts swap",
        "swap that the workload may have; with version 1 it takes memory.max too";
    "memory.swappiness" SettingLocation::Group, SettingKind::Number(0, 200), "a memory controller of version 1",
        "vm.swappiness for the workload alone";
}

impl Setting {
    /// Finds a setting by its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the nearest existing name.
    pub fn find(name: &str) -> Result<&'static Setting, Error> {
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
            return Ok(setting);
        }
        let distance = |setting: &&Setting| strsim::damerau_levenshtein(setting.name, name);
        let nearest = SETTINGS
            .iter()
            .min_by_key(distance)
            .filter(|s| distance(s) <= 4);
        Err(Error::Invalid {
            what: format!("{name:?}"),
            problem: match nearest {
                Some(nearest) => format!("no such setting; did you mean {}?", nearest.name),
                None => {
                    "no such setting; `cachewise bench matrix --settings` lists them".to_owned()
                }
            },
        })
    }

    /// Returns the existing files of settings that change with this one.
    #[must_use]
    pub fn paths_beside(&self, target: SettingTarget<'_>) -> Vec<PathBuf> {
        let settings = SETTINGS
            .iter()
            .filter(|other| self.beside.contains(&other.name));
        settings
            .filter_map(|other| other.path(target).ok().flatten())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_suggests_the_nearest_name() {
        let error = Setting::find("vm.swapiness").unwrap_err().to_string();
        assert!(error.contains("did you mean vm.swappiness?"), "{error}");
        let error = Setting::find("colour").unwrap_err().to_string();
        assert!(error.contains("--settings"), "{error}");
    }

    #[test]
    fn setting_names_are_unique_and_their_neighbours_exist() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let again = SETTINGS[..index]
                .iter()
                .any(|other| other.name == setting.name);
            assert!(!again, "{} is a duplicate", setting.name);
            for name in setting.beside {
                let found = SETTINGS.iter().any(|other| other.name == *name);
                assert!(found, "{} is beside {name}, which is none", setting.name);
            }
            assert!(!setting.about.ends_with('.'), "a phrase: {}", setting.name);
        }
    }
}
