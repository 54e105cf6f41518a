//! A DAMON monitor that pages out the memory of one control group.

use std::fs;
use std::path::{Path, PathBuf};

use crate::problem::{Context, Result};

const MONITORS: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// A monitor of all memory, whose scheme pages out what is charged to a group. Dropping it ends it.
#[derive(Debug)]
pub struct Monitor(());

impl Monitor {
    /// Starts it; or why there is none here.
    pub fn start(group: &Path) -> Result<Result<Monitor, String>> {
        let count = Path::new(MONITORS).join("nr_kdamonds");
        match fs::read_to_string(&count) {
            Err(_) => return Ok(Err("the kernel has no DAMON in sysfs".into())),
            Ok(text) if text.trim() != "0" => {
                return Ok(Err("another program uses DAMON".into()));
            }
            Ok(_) => fs::write(&count, "1").context("make a monitor")?,
        }
        let monitor = Monitor(());
        set("contexts/nr_contexts", "1")?;
        if set("contexts/0/operations", "paddr").is_err() {
            return Ok(Err("DAMON does not monitor physical memory here".into()));
        }
        let context = "contexts/0";
        set(&format!("{context}/targets/nr_targets"), "1")?;
        let regions = format!("{context}/targets/0/regions");
        let memory = system_memory()?;
        set(&format!("{regions}/nr_regions"), &memory.len().to_string())?;
        for (number, (start, end)) in memory.iter().enumerate() {
            set(&format!("{regions}/{number}/start"), &start.to_string())?;
            set(&format!("{regions}/{number}/end"), &end.to_string())?;
        }
        set(&format!("{context}/schemes/nr_schemes"), "1")?;
        let scheme = format!("{context}/schemes/0");
        set(&format!("{scheme}/action"), "pageout")?;
        let most = u64::from(u32::MAX).to_string();
        let any_size = u64::MAX.to_string();
        for (pattern, most) in [("sz", &any_size), ("nr_accesses", &most), ("age", &most)] {
            set(&format!("{scheme}/access_pattern/{pattern}/max"), most)?;
        }
        set(&format!("{scheme}/filters/nr_filters"), "1")?;
        let filter = format!("{scheme}/filters/0");
        set(&format!("{filter}/type"), "memcg")?;
        let name = group.file_name().unwrap_or_default();
        let path = format!("/{}", name.to_string_lossy());
        set(&format!("{filter}/memcg_path"), &path)?;
        // N: pages of all other groups are left out.
        set(&format!("{filter}/matching"), "N")?;
        set("state", "on")?;
        Ok(Ok(monitor))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // It may not have begun.
        let _ = set("state", "off");
        let removed = fs::write(Path::new(MONITORS).join("nr_kdamonds"), "0");
        if let Err(error) = removed {
            eprintln!("the monitor stays: {error}");
        }
    }
}

fn at(setting: &str) -> PathBuf {
    Path::new(MONITORS).join("0").join(setting)
}

fn set(setting: &str, value: &str) -> Result<()> {
    fs::write(at(setting), value).context(setting)
}

/// The address ranges of memory.
fn system_memory() -> Result<Vec<(u64, u64)>> {
    let text = fs::read_to_string("/proc/iomem").context("read /proc/iomem")?;
    let range = |line: &str| {
        let (range, kind) = line.split_once(" : ")?;
        let (start, end) = range.split_once('-')?;
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let is_whole = kind == "System RAM" && !line.starts_with(' ');
        Some((address(start)?, address(end)?)).filter(|_| is_whole)
    };
    Ok(text.lines().filter_map(range).collect())
}
