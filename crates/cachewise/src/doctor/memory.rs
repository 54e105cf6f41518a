//! How this kernel goes about memory, and what its devices are set to.

use cachewise_kstat::Kernel;
use cachewise_model::{Check, State};
use cachewise_units::Bytes;

const AREA: &str = "memory";

/// More read-ahead than this wastes memory and time where reads are not in order.
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
                .means("the old lists of active and inactive pages decide what goes; this one mostly decides better")
                .by("echo y >/sys/kernel/mm/lru_gen/enabled")
        }
        Ok(Some(mglru)) => {
            let kept = mglru.min_ttl_ms.filter(|kept| *kept > 0);
            let kept = kept.map_or(String::new(), |kept| format!(", the last {kept} ms are kept"));
            Check::ok(AREA, "mglru", format!("on ({:#x}){kept}", mglru.enabled))
        }
        Ok(None) => Check::ok(AREA, "mglru", "not built in")
            .is(State::Missing)
            .means("the lists of active and inactive pages decide what goes"),
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
            .means("pages that nobody uses for a while may be put out although memory is free: what was warm may be cold soon")
            .by("measure in one go; to stop it: echo off > its state, or N > its enabled");
    }
    check
}

fn swap(kernel: &Kernel) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match kernel.swaps() {
        Ok(swaps) if swaps.is_empty() => Check::ok(AREA, "swap", "none")
            .is(State::Limited)
            .means("memory of processes cannot be put out, so that page cache goes first when memory is short")
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
                "write-back begins at {}, writers are held back before {}",
                background.bytes(page),
                limit.bytes(page)
            ),
        ),
        _ => Check::ok(AREA, "dirty_limits", "this kernel does not tell").is(State::Missing),
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
                    .means("what each device reads and writes is not known"),
            ];
        }
    };
    disks
        .into_iter()
        .filter(|disk| disk.read.0 + disk.written.0 > 0)
        .filter_map(|disk| {
            // Partitions have none of their own.
            let read_ahead = kernel.read_ahead(&disk.name).ok().flatten()?;
            let kind = match kernel.is_rotational(&disk.name) {
                Some(true) => ", says that it turns",
                Some(false) => ", flash",
                None => "",
            };
            let check = Check::ok("devices", disk.name.clone(), format!("read-ahead {read_ahead}{kind}"));
            let path = kernel.read_ahead_path(&disk.name);
            Some(if read_ahead == Bytes(0) {
                check
                    .is(State::Limited)
                    .means("nothing is read ahead: reads in order wait for each request")
                    .by(format!("echo 128 >{}", path.display()))
            } else if read_ahead > MUCH_READ_AHEAD {
                check
                    .is(State::Limited)
                    .means("good for reads in order; a read here and there may bring in as much for nothing")
                    .by(format!("echo 128 >{} if findings say readahead_wasted", path.display()))
            } else {
                check
            })
        })
        .collect()
}
