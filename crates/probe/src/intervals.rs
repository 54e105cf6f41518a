//! State of a probe that returns intervals: each snapshot has the counts since the one before, and tables do not fill up
//! over time.
//!
//! Rows are not subtracted. There are two tables of rows, and the programs write to one of them. The probe switches
//! sides; when no program runs any more that saw the old side, it reads and empties that table.

use std::collections::HashMap;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use cachewise_kstat::Kernel;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use crate::carried::Carried;
use crate::error::Error;
use crate::record::{self, Booked, Raw, file_key, process_key};
use crate::snapshot::{FileId, Lost, ProcessId, ProcessInfo};
use crate::table::each;

/// Names of files in use are read again after this time: logs are rotated, and new files are renamed to the name of the
/// old one.
const NAMES_LAST: Duration = Duration::from_secs(60);

/// State between intervals.
pub(crate) struct Intervals {
    grace: Grace,
    /// Totals up to the last interval.
    pub(crate) total: Booked,
    /// The parts that later intervals take back.
    pub(crate) carried: Carried,
    /// Losses up to the last interval.
    pub(crate) lost: Lost,
    /// Accounts of processes that were alive.
    alive: HashMap<ProcessId, ProcessInfo>,
    /// Processes that were listed as ended in the last interval: later work of the kernel for them still has a name.
    ended: HashMap<ProcessId, ProcessInfo>,
    named: Instant,
    /// Files that gave up their place, since the start.
    pub(crate) forgotten: u64,
}

impl Intervals {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Intervals {
            grace: Grace::new()?,
            total: Booked::default(),
            carried: Carried::default(),
            lost: Lost::default(),
            alive: HashMap::new(),
            ended: HashMap::new(),
            named: Instant::now(),
            forgotten: 0,
        })
    }

    /// Waits for the programs that run now.
    pub(crate) fn wait_for_programs(&self) -> Result<(), Error> {
        self.grace.wait()
    }

    /// Returns whether files should send their names again.
    pub(crate) fn names_are_old(&mut self) -> bool {
        let old = self.named.elapsed() >= NAMES_LAST;
        if old {
            self.named = Instant::now();
        }
        old
    }

    /// Use of resources by processes since the last interval, from their present accounts. Processes that have ended are
    /// removed from the table. The account of a process with rows that is not in `found` is looked up.
    pub(crate) fn processes(
        &mut self,
        table: &impl MapCore,
        found: Vec<ProcessInfo>,
        with_rows: impl Iterator<Item = ProcessId>,
    ) -> Result<Vec<ProcessInfo>, Error> {
        let alive = std::mem::take(&mut self.alive);
        let ended = std::mem::take(&mut self.ended);
        let since = |now: &ProcessInfo| match alive.get(&now.id) {
            Some(then) => now.since(then),
            None => now.clone(),
        };
        let mut told: HashMap<ProcessId, ProcessInfo> = HashMap::with_capacity(found.len());
        for now in found {
            let id = now.id;
            told.insert(id, since(&now));
            if now.exit_status.is_some() {
                // A table that lost an entry has room for another.
                let _ = table.delete(&process_key(id));
                self.ended.insert(id, now);
            } else {
                self.alive.insert(id, now);
            }
        }
        for id in with_rows {
            if told.contains_key(&id) {
                continue;
            }
            let late = table
                .lookup(&process_key(id), MapFlags::ANY)
                .map_err(|source| Error::Map {
                    operation: "read a process's account",
                    source: source.into(),
                })?;
            if let Some(value) = late {
                // It started after the others were read. If it has ended too, the next interval lists that.
                let mut now = record::process(&process_key(id), &value)?;
                now.exit_status = None;
                told.insert(id, since(&now));
                self.alive.insert(id, now);
            } else if let Some(then) = ended.get(&id) {
                told.insert(id, then.since(then));
            }
        }
        self.make_room(table);
        let mut told: Vec<ProcessInfo> = told.into_values().collect();
        told.sort_by_key(|process| (process.id.start, process.id.tgid));
        Ok(told)
    }

    /// Takes those out whose end was not seen, when room gets scarce.
    fn make_room(&mut self, table: &impl MapCore) {
        if self.alive.len() <= table.max_entries() as usize / 4 * 3 {
            return;
        }
        let kernel = Kernel::new();
        self.alive.retain(|id, process| {
            let is_there = process.pid == 0 || kernel.process_exists(process.pid);
            if !is_there {
                let _ = table.delete(&process_key(*id));
            }
            is_there
        });
    }

    /// Takes file systems out of the table that have had no file in this round of naming and the one before.
    pub(crate) fn forget_file_systems(table: &impl MapCore, round: u32) -> Result<(), Error> {
        let mut old: Vec<Vec<u8>> = Vec::new();
        each(table, |key, sent| {
            let sent = Raw::new(sent, "round of naming", size_of::<u32>())?.u32(0);
            if is_old(sent, round) {
                old.push(key.to_owned());
            }
            Ok(())
        })?;
        for key in old {
            // One that sends its record at this moment sends it again with its next file.
            let _ = table.delete(&key);
        }
        Ok(())
    }

    /// Takes files out of the table of those known.
    pub(crate) fn forget(&mut self, table: &impl MapCore, files: &[FileId]) {
        for file in files {
            // One that is not there any more has given up its place already.
            let _ = table.delete(&file_key(*file));
        }
        self.forgotten += files.len() as u64;
    }
}

/// Returns whether a round of naming is older than the one before `round`; the kernel's counter wraps around.
const fn is_old(sent: u32, round: u32) -> bool {
    round.wrapping_sub(sent) >= 2
}

/// A way to wait until every program has ended that runs now: the kernel does so before it comes back from
/// changing a map of maps, "so that userspace, when we return to it, knows that all programs that could be
/// running use the new map value" (`maybe_wait_bpf_programs` in kernel/bpf/syscall.c, since 4.19). The
/// system call for that, membarrier(2), refuses on machines with `nohz_full`.
struct Grace {
    outer: MapHandle,
    inner: MapHandle,
}

impl Grace {
    fn new() -> Result<Self, Error> {
        let map_error = |source: libbpf_rs::Error| Error::Map {
            operation: "make a map to wait with",
            source: source.into(),
        };
        let plain = || libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let name = Some("cachewise_wait");
        let inner =
            MapHandle::create(MapType::Array, name, 4, 4, 1, &plain()).map_err(map_error)?;
        let opts = libbpf_sys::bpf_map_create_opts {
            inner_map_fd: inner.as_fd().as_raw_fd() as u32,
            ..plain()
        };
        let outer =
            MapHandle::create(MapType::ArrayOfMaps, name, 4, 4, 1, &opts).map_err(map_error)?;
        Ok(Grace { outer, inner })
    }

    fn wait(&self) -> Result<(), Error> {
        let inner = self.inner.as_fd().as_raw_fd().to_ne_bytes();
        self.outer
            .update(&0u32.to_ne_bytes(), &inner, MapFlags::ANY)
            .map_err(|source| Error::Map {
                operation: "wait for running programs",
                source: source.into(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_this_round_and_the_one_before_stay() {
        for round in [5, 1, 0, u32::MAX] {
            assert!(!is_old(round, round));
            assert!(!is_old(round.wrapping_sub(1), round));
            assert!(is_old(round.wrapping_sub(2), round));
            assert!(is_old(round.wrapping_sub(1000), round));
        }
    }

    /// The table itself, where a map can be made.
    #[test]
    fn table_of_file_systems_keeps_those_in_use() {
        let opts = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let table = match MapHandle::create(MapType::Hash, Some("test"), 8, 4, 100, &opts) {
            Ok(table) => table,
            Err(error) => return println!("skipped: a table of the kernel: {error}"),
        };
        for sent in 0..50u32 {
            let key = u64::from(sent).to_ne_bytes();
            table
                .update(&key, &sent.to_ne_bytes(), MapFlags::ANY)
                .unwrap();
        }
        Intervals::forget_file_systems(&table, 50).unwrap();
        let mut left = Vec::new();
        each(&table, |key, _| {
            left.push(Raw::new(key, "key", 8)?.u64(0));
            Ok(())
        })
        .unwrap();
        assert_eq!(left, [49], "the one of the round before");
    }
}
