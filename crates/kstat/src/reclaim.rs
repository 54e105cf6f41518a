//! Reclaim settings of this kernel: multi-generational LRU, DAMON, swap and its compression, huge
//! pages.

use std::fs;
use std::path::PathBuf;

use cachewise_units::Bytes;

use crate::kernel::found;
use crate::{Error, Kernel};

/// The multi-generational LRU, from `/sys/kernel/mm/lru_gen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mglru {
    /// Its enabled parts, a bit for each; 0: the kernel uses the old lists.
    pub enabled: u32,
    /// Pages used within this time are not reclaimed, in milliseconds; 0: no guarantee.
    pub min_ttl_ms: Option<u64>,
}

/// A DAMON monitor of memory accesses, which can make the kernel reclaim unused pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damon {
    /// Its settings: a file or directory under `/sys`.
    pub path: PathBuf,
    /// Its thread, in the host's pid namespace.
    pub pid: Option<u32>,
    /// Its actions: `pageout`, `stat`; empty if unknown.
    pub actions: Vec<String>,
}

/// A swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// A partition or a file.
    pub path: PathBuf,
    /// Its size.
    pub size: Bytes,
    /// Its used part.
    pub used: Bytes,
    /// The kernel uses areas of higher priority first.
    pub priority: i64,
}

/// The compressed cache before swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zswap {
    /// Whether it is on.
    pub enabled: bool,
    /// Its compression algorithm.
    pub compressor: Option<String>,
    /// Its maximum share of memory, in per cent.
    pub max_pool_percent: Option<u32>,
}

/// A compressed disk in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zram {
    /// `zram0`.
    pub name: String,
    /// Its size; 0 if it is not set up.
    pub size: Bytes,
    /// Stored data, before compression.
    pub stored: Option<Bytes>,
    /// Memory used for it.
    pub memory: Option<Bytes>,
    /// Its compression algorithm.
    pub compressor: Option<String>,
}

impl Kernel {
    /// Returns the settings of the multi-generational LRU, or `None` if this kernel has none.
    ///
    /// # Errors
    /// Reading its files failed.
    ///
    /// # Kernel
    /// Since 6.1, if built in.
    pub fn mglru(&self) -> Result<Option<Mglru>, Error> {
        let directory = self.sys("kernel/mm/lru_gen");
        let path = directory.join("enabled");
        let Some(line) = found(self.line(&path))? else {
            return Ok(None);
        };
        let enabled = match line.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => line.parse().ok(),
        };
        let enabled =
            enabled.ok_or_else(|| Error::parse(&path, format!("{line:?} is no set of parts")))?;
        let ttl = found(self.line(&directory.join("min_ttl_ms")))?;
        Ok(Some(Mglru {
            enabled,
            min_ttl_ms: ttl.and_then(|ttl| ttl.parse().ok()),
        }))
    }

    /// Returns the running monitors of memory accesses, or `None` if this kernel offers none.
    ///
    /// # Errors
    /// Reading their files failed: most of them need root.
    ///
    /// # Kernel
    /// Since 5.15, if built in; before 6.1 only monitors of modules are visible.
    pub fn damon(&self) -> Result<Option<Vec<Damon>>, Error> {
        let mut running = Vec::new();
        let mut offered = false;
        for module in ["damon_reclaim", "damon_lru_sort", "damon_stat"] {
            let directory = self.sys("module").join(module).join("parameters");
            let Some(enabled) = found(self.line(&directory.join("enabled")))? else {
                continue;
            };
            offered = true;
            if matches!(enabled.as_str(), "Y" | "1") {
                let pid = found(self.line(&directory.join("kdamond_pid")))?;
                let action = match module {
                    "damon_reclaim" => "pageout",
                    "damon_lru_sort" => "lru_sort",
                    _ => "stat",
                };
                running.push(Damon {
                    path: directory.join("enabled"),
                    pid: pid.and_then(|pid| pid.parse().ok()),
                    actions: vec![action.to_owned()],
                });
            }
        }
        let threads = self.sys("kernel/mm/damon/admin/kdamonds");
        let Some(count) = found(self.line(&threads.join("nr_kdamonds")))? else {
            return Ok(offered.then_some(running));
        };
        for number in 0..count.parse::<u32>().unwrap_or(0) {
            let directory = threads.join(number.to_string());
            let state = found(self.line(&directory.join("state")))?;
            if state.as_deref() != Some("on") {
                continue;
            }
            let pid = found(self.line(&directory.join("pid")))?;
            running.push(Damon {
                pid: pid.and_then(|pid| pid.parse().ok()),
                actions: self.damon_actions(&directory.join("contexts")),
                path: directory,
            });
        }
        Ok(Some(running))
    }

    /// Actions of the schemes of a monitor's contexts; skips unreadable ones.
    fn damon_actions(&self, contexts: &std::path::Path) -> Vec<String> {
        let directories = |path: &std::path::Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let schemes = directories(contexts)
            .into_iter()
            .flat_map(|context| directories(&context.join("schemes")));
        let mut actions: Vec<String> = schemes
            .filter_map(|scheme| self.line(&scheme.join("action")).ok())
            .collect();
        actions.sort_unstable();
        actions.dedup();
        actions
    }

    /// Returns the swap areas; an empty list without swap.
    ///
    /// # Errors
    /// Reading `/proc/swaps` failed.
    pub fn swaps(&self) -> Result<Vec<Swap>, Error> {
        let path = self.proc("swaps");
        let Some(text) = found(self.text(&path))? else {
            return Ok(Vec::new());
        };
        text.lines()
            .skip(1)
            .map(|line| {
                // Blanks in a name are written as \040.
                let fields: Vec<&str> = line.split_ascii_whitespace().collect();
                let [name, _, size, used, priority] = fields[..] else {
                    return Err(Error::parse(&path, format!("line {line:?}")));
                };
                let kib = |text: &str| {
                    text.parse::<u64>()
                        .ok()
                        .map(|kib| Bytes(kib.saturating_mul(1024)))
                };
                match (kib(size), kib(used), priority.parse()) {
                    (Some(size), Some(used), Ok(priority)) => Ok(Swap {
                        path: name.replace("\\040", " ").into(),
                        size,
                        used,
                        priority,
                    }),
                    _ => Err(Error::parse(&path, format!("line {line:?}"))),
                }
            })
            .collect()
    }

    /// Returns the settings of zswap, or `None` if this kernel has none.
    ///
    /// # Errors
    /// Reading its parameters failed.
    pub fn zswap(&self) -> Result<Option<Zswap>, Error> {
        let directory = self.sys("module/zswap/parameters");
        let Some(enabled) = found(self.line(&directory.join("enabled")))? else {
            return Ok(None);
        };
        let percent = found(self.line(&directory.join("max_pool_percent")))?;
        Ok(Some(Zswap {
            enabled: matches!(enabled.as_str(), "Y" | "1"),
            compressor: found(self.line(&directory.join("compressor")))?,
            max_pool_percent: percent.and_then(|percent| percent.parse().ok()),
        }))
    }

    /// Returns the compressed disks in memory, set up or not; skips those that vanish meanwhile.
    #[must_use]
    pub fn zrams(&self) -> Vec<Zram> {
        let entries = fs::read_dir(self.sys("block"))
            .into_iter()
            .flatten()
            .flatten();
        let mut found: Vec<Zram> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.starts_with("zram").then_some(())?;
                let directory = entry.path();
                let size = self.line(&directory.join("disksize")).ok()?.parse().ok()?;
                let sizes = self.line(&directory.join("mm_stat")).unwrap_or_default();
                let mut sizes = sizes
                    .split_ascii_whitespace()
                    .map_while(|size| size.parse().ok())
                    .map(Bytes);
                let stored = sizes.next();
                let algorithms = self.line(&directory.join("comp_algorithm")).ok();
                Some(Zram {
                    name,
                    size: Bytes(size),
                    stored,
                    memory: sizes.nth(1),
                    compressor: algorithms.as_deref().and_then(chosen).map(str::to_owned),
                })
            })
            .collect();
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Returns the selected choice in a file of `/sys/kernel/mm/transparent_hugepage`, for example
    /// `enabled` or `shmem_enabled`; `None` if this kernel lacks the file.
    ///
    /// # Errors
    /// Reading the file failed.
    pub fn huge_pages(&self, file: &str) -> Result<Option<String>, Error> {
        let path = self.sys("kernel/mm/transparent_hugepage").join(file);
        let line = found(self.line(&path))?;
        Ok(line.as_deref().and_then(chosen).map(str::to_owned))
    }
}

/// The bracketed word of `always [madvise] never`.
fn chosen(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, captured};

    #[test]
    fn mglru_is_none_without_lru_gen() {
        assert_eq!(
            captured("linux-6.18").mglru().unwrap(),
            None,
            "not built in"
        );
        let mglru = captured("linux-6.1").mglru().unwrap().unwrap();
        assert_eq!((mglru.enabled, mglru.min_ttl_ms), (7, Some(0)), "all parts");
        let fixture = Fixture::new();
        fixture.write("sys/kernel/mm/lru_gen/enabled", "some\n");
        assert!(fixture.kernel().mglru().is_err(), "nonsense is not 0");
    }

    #[test]
    fn damon_finds_monitors_of_sysfs_and_modules() {
        let by_sysfs = captured("linux-6.18").damon().unwrap().unwrap();
        assert_eq!(by_sysfs.len(), 1, "one thread");
        assert_eq!(by_sysfs[0].pid, Some(77), "its number");
        let by_module = captured("linux-6.1").damon().unwrap().unwrap();
        assert_eq!(by_module[0].actions, ["pageout"], "the module reclaims");
        assert_eq!(
            Fixture::new().kernel().damon().unwrap(),
            None,
            "not offered"
        );
    }

    #[test]
    fn swaps_are_in_bytes_and_names_unescaped() {
        assert_eq!(captured("linux-6.18").swaps().unwrap(), [], "none");
        let swaps = captured("linux-6.1").swaps().unwrap();
        assert_eq!(swaps[0].used, Bytes(131_072 * 1024), "KiB");
        assert_eq!(swaps[1].path, PathBuf::from("/swap file"), "a blank");
        assert_eq!(swaps[1].priority, -2, "the kernel's own");
    }

    #[test]
    fn zswap_and_zram_are_read() {
        let old = captured("linux-6.1");
        let zswap = old.zswap().unwrap().unwrap();
        assert!(
            zswap.enabled && zswap.max_pool_percent == Some(20),
            "{zswap:?}"
        );
        let zram = &old.zrams()[0];
        assert_eq!(zram.stored, Some(Bytes(134_217_728)), "put in");
        assert_eq!(zram.memory, Some(Bytes(33_554_432)), "memory used for it");
        assert_eq!(zram.compressor.as_deref(), Some("zstd"), "the one chosen");
        assert!(
            !captured("linux-6.18").zswap().unwrap().unwrap().enabled,
            "off"
        );
        assert_eq!(
            Fixture::new().kernel().zswap().unwrap(),
            None,
            "not built in"
        );
    }

    #[test]
    fn huge_pages_returns_the_bracketed_word() {
        let kernel = captured("linux-6.18");
        let choice = |file| kernel.huge_pages(file).unwrap();
        assert_eq!(choice("enabled").as_deref(), Some("madvise"), "of three");
        assert_eq!(choice("shmem_enabled").as_deref(), Some("never"), "of six");
        assert_eq!(choice("no_such"), None, "not offered");
    }
}
