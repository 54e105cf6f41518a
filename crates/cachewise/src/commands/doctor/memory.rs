//! Checks of memory management, and of the settings of devices.

use std::collections::BTreeMap;

use cachewise_kstat::Kernel;
use cachewise_model::{Check, State};
use cachewise_units::Bytes;

const AREA: &str = "memory";

/// More readahead than this wastes memory and time for random reads.
const MUCH_READ_AHEAD: Bytes = Bytes(4 << 20);

/// Memory and devices.
pub fn checks(kernel: &Kernel) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Ok(memory) = kernel.meminfo() {
        let available = memory
            .available
            .map_or("?".to_owned(), |bytes| bytes.to_string());
        let found = format!("{}, {available} available", memory.total);
        checks.push(Check::ok(AREA, "memory", found));
    }
    checks.push(match kernel.mglru() {
        Ok(Some(mglru)) if mglru.enabled == 0 => {
            Check::ok(AREA, "mglru", "built in, and off").is(State::Limited)
                .means("the kernel selects pages to reclaim by the active and inactive lists; MGLRU mostly selects better")
                .by("echo y >/sys/kernel/mm/lru_gen/enabled")
        }
        Ok(Some(mglru)) => {
            let kept = mglru.min_ttl_ms.filter(|kept| *kept > 0);
            let kept = kept.map_or(String::new(), |kept| format!(", the last {kept} ms are kept"));
            Check::ok(AREA, "mglru", format!("on ({:#x}){kept}", mglru.enabled))
        }
        Ok(None) => Check::ok(AREA, "mglru", "not built in")
            .is(State::Missing)
            .means("the kernel selects pages to reclaim by the active and inactive lists"),
        Err(error) => unread("mglru", &error),
    });
    checks.push(damon(kernel));
    checks.extend(swap(kernel));
    checks.push(match kernel.huge_pages("enabled") {
        Ok(Some(choice)) => Check::ok(AREA, "huge_pages", choice),
        Ok(None) => Check::ok(AREA, "huge_pages", "not built in").is(State::Missing),
        Err(error) => unread("huge_pages", &error),
    });
    if let Ok(Some(pressure)) = kernel.setting("vm.vfs_cache_pressure") {
        checks.push(Check::ok(AREA, "vfs_cache_pressure", pressure));
    }
    checks.push(dirty(kernel));
    checks.extend(devices(kernel));
    checks
}

fn unread(id: &'static str, error: &cachewise_kstat::Error) -> Check {
    Check::ok(AREA, id, error.to_string())
        .is(State::Missing)
        .means("it cannot be read here")
}

fn damon(kernel: &Kernel) -> Check {
    let running = match kernel.damon() {
        Ok(Some(running)) => running,
        Ok(None) => return Check::ok(AREA, "damon", "not built in").is(State::Missing),
        Err(error) => return unread("damon", &error).by("run it as root"),
    };
    let reclaims =
        |actions: &[String]| actions.is_empty() || actions.iter().any(|action| action == "pageout");
    let named: Vec<String> = running
        .iter()
        .map(|monitor| {
            let actions = if monitor.actions.is_empty() {
                "?".to_owned()
            } else {
                monitor.actions.join(", ")
            };
            format!("{} ({actions})", monitor.path.display())
        })
        .collect();
    if running.is_empty() {
        return Check::ok(AREA, "damon", "none runs");
    }
    let check = Check::ok(AREA, "damon", named.join("; "));
    if running.iter().any(|monitor| reclaims(&monitor.actions)) {
        return check
            .is(State::Limited)
            .means("pages that are idle for a while may be reclaimed although memory is free: a warm file can become cold soon")
            .by("measure without pauses; to stop it: echo off > its state, or N > its enabled");
    }
    check
}

fn swap(kernel: &Kernel) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match kernel.swaps() {
        Ok(swaps) if swaps.is_empty() => Check::ok(AREA, "swap", "none")
            .is(State::Limited)
            .means("memory of processes cannot be swapped out, so page cache is reclaimed first when memory is short")
            .by("zram, or a swap file: mkswap, swapon"),
        Ok(swaps) => {
            let named: Vec<String> = swaps
                .iter()
                .map(|swap| format!("{} ({} of {} used)", swap.path.display(), swap.used, swap.size))
                .collect();
            Check::ok(AREA, "swap", named.join("; "))
        }
        Err(error) => unread("swap", &error),
    });
    checks.push(match kernel.zswap() {
        Ok(Some(zswap)) => {
            let how = zswap.compressor.unwrap_or_else(|| "?".into());
            let state = if zswap.enabled { "on" } else { "off" };
            Check::ok(AREA, "zswap", format!("{state}, {how}"))
        }
        Ok(None) => Check::ok(AREA, "zswap", "not built in").is(State::Missing),
        Err(error) => unread("zswap", &error),
    });
    let zrams = kernel
        .zrams()
        .into_iter()
        .filter(|zram| zram.size > Bytes(0));
    checks.extend(zrams.map(|zram| {
        let stored = zram
            .stored
            .map_or("?".to_owned(), |bytes| bytes.to_string());
        let memory = zram
            .memory
            .map_or("?".to_owned(), |bytes| bytes.to_string());
        let found = format!("{}: {stored} stored in {memory}", zram.size);
        Check::ok(AREA, zram.name, found)
    }));
    checks
}

fn dirty(kernel: &Kernel) -> Check {
    let page = cachewise_sys::page_size();
    let Ok(vmstat) = kernel.vmstat() else {
        return Check::ok(AREA, "dirty_limits", "/proc/vmstat cannot be read").is(State::Missing);
    };
    match (vmstat.dirty_background_threshold, vmstat.dirty_threshold) {
        (Some(background), Some(limit)) => Check::ok(
            AREA,
            "dirty_limits",
            format!(
                "writeback begins at {}, writers are throttled before {}",
                background.bytes(page),
                limit.bytes(page)
            ),
        ),
        _ => Check::ok(AREA, "dirty_limits", "not reported by this kernel").is(State::Missing),
    }
}

/// The disks that have read or written anything.
fn devices(kernel: &Kernel) -> Vec<Check> {
    let disks = match kernel.diskstats() {
        Ok(disks) => disks,
        Err(error) => {
            return vec![
                Check::ok("devices", "disks", error.to_string())
                    .is(State::Missing)
                    .means("reads and writes of each device are unknown"),
            ];
        }
    };
    let mut alike: BTreeMap<Alike, Vec<String>> = BTreeMap::new();
    let used = disks
        .into_iter()
        .filter(|disk| disk.read.0 + disk.written.0 > 0);
    for disk in used {
        // Partitions have none of their own.
        let Some(read_ahead) = kernel.read_ahead(&disk.name).ok().flatten() else {
            continue;
        };
        let of = Alike {
            kind: disk
                .name
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
            read_ahead,
            is_rotational: kernel.is_rotational(&disk.name),
        };
        alike.entry(of).or_default().push(disk.name);
    }
    let checks = alike
        .into_iter()
        .map(|(of, names)| of.check(&names, kernel));
    checks.collect()
}

/// Properties that devices must share to be summed up in one line: `loop0` and `loop7` with the same settings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    kind: String,
    read_ahead: Bytes,
    is_rotational: Option<bool>,
}

impl Alike {
    fn check(&self, names: &[String], kernel: &Kernel) -> Check {
        let read_ahead = self.read_ahead;
        let kind = match self.is_rotational {
            Some(true) => ", rotational",
            Some(false) => ", flash",
            None => "",
        };
        let more = match names.len() {
            0 | 1 => String::new(),
            all => format!("; {} more {}* with the same settings", all - 1, self.kind),
        };
        let id = names.first().unwrap_or(&self.kind);
        let found = format!("readahead {read_ahead}{kind}{more}");
        let check = Check::ok("devices", id.as_str(), found);
        let paths: Vec<String> = names
            .iter()
            .map(|name| kernel.read_ahead_path(name).display().to_string())
            .collect();
        let step = match paths.as_slice() {
            [path] => format!("echo 128 >{path}"),
            paths => format!("echo 128 | tee {}", paths.join(" ")),
        };
        if read_ahead == Bytes(0) {
            check
                .is(State::Limited)
                .means("no readahead: sequential reads wait for each request")
                .by(step)
        } else if read_ahead > MUCH_READ_AHEAD {
            check
                .is(State::Limited)
                .means("good for sequential reads; a random read may fetch as much without use")
                .by(format!("{step} if findings say readahead_wasted"))
        } else {
            check
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_a_kind_that_are_set_alike_are_one_line() {
        let kernel = Kernel::new();
        let alike = |read_ahead| Alike {
            kind: "loop".into(),
            read_ahead: Bytes(read_ahead),
            is_rotational: Some(false),
        };
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.into())
                .collect::<Vec<String>>()
        };
        let check = alike(128 << 10).check(&names(&["loop0", "loop1", "loop7"]), &kernel);
        assert_eq!(
            (&*check.id, &*check.found),
            (
                "loop0",
                "readahead 128.0 KiB, flash; 2 more loop* with the same settings"
            ),
            "how they are set, and how many; the name of one, for there may be others set otherwise"
        );
        let one = alike(128 << 10).check(&names(&["loop3"]), &kernel);
        assert_eq!(
            (&*one.id, &*one.found),
            ("loop3", "readahead 128.0 KiB, flash"),
            "one goes by its name"
        );
        let step = alike(0)
            .check(&names(&["loop0", "loop1"]), &kernel)
            .next_step;
        let step = step.expect("no read-ahead is worth a word");
        assert!(
            step.contains("/loop0/") && step.contains("/loop1/"),
            "all of them are named where something is to be done: {step}"
        );
    }
}
