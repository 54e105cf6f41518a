//! Sums of consecutive intervals.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;

use crate::eviction::{Eviction, EvictionKey};
use crate::interval::{Interval, ProcessFileUse};
use crate::lost::Lost;
use crate::parts::{CgroupRow, DeviceRow, FileNumber, FileRow, ProcessRow};
use crate::stack_sum::StackPlaces;

impl Interval {
    /// Adds the next interval: counts are summed by process, file, group and device; gauges and
    /// names are the later ones.
    pub fn append(&mut self, later: Interval) {
        let nothing = Interval::new(Arc::clone(&self.source), String::new());
        let mut sum = Sum::of(std::mem::replace(self, nothing));
        sum.add(later);
        *self = sum.into_whole();
    }
}

/// Consecutive intervals, summed as by [`Interval::append`].
///
/// It remembers the positions of its rows, so that adding an interval costs only the rows in it.
#[derive(Debug)]
pub struct Sum {
    whole: Interval,
    places: Places,
}

impl Sum {
    /// Starts with the first interval.
    #[must_use]
    pub fn of(first: Interval) -> Self {
        let mut whole = Interval {
            elapsed: first.elapsed,
            ledger: first.ledger.clone(),
            system: first.system.clone(),
            device_read_bytes: first.device_read_bytes,
            device_write_bytes: first.device_write_bytes,
            run: first.run.clone(),
            ..Interval::new(Arc::clone(&first.source), first.time.clone())
        };
        let mut places = Places::default();
        places.add(&mut whole, first);
        Sum { whole, places }
    }

    /// Adds the next interval.
    pub fn add(&mut self, later: Interval) {
        let whole = &mut self.whole;
        whole.source = Arc::clone(&later.source);
        whole.time.clone_from(&later.time);
        whole.elapsed += later.elapsed;
        whole.ledger += &later.ledger;
        whole.system = whole.system.followed_by(&later.system);
        whole.device_read_bytes = whole.device_read_bytes.plus(later.device_read_bytes);
        whole.device_write_bytes = whole.device_write_bytes.plus(later.device_write_bytes);
        self.places.add(whole, later);
    }

    /// The sum.
    #[must_use]
    pub fn whole(&self) -> &Interval {
        &self.whole
    }

    /// The sum.
    #[must_use]
    pub fn into_whole(self) -> Interval {
        self.whole
    }
}

/// Indexes of an interval's rows, by identity.
#[derive(Debug, Default)]
struct Places {
    processes: HashMap<(Option<u32>, Option<u64>), usize>,
    files: HashMap<(Option<FileNumber>, Option<PathBuf>), usize>,
    cgroups: HashMap<Option<String>, usize>,
    devices: HashMap<String, usize>,
    uses: HashMap<(Option<usize>, usize), usize>,
    evictions: HashMap<EvictionKey, usize>,
    stacks: StackPlaces,
    lost: HashMap<&'static str, usize>,
}

const PROCESS: fn(&ProcessRow) -> (Option<u32>, Option<u64>) = |row| (row.pid, row.started.known());
const FILE: fn(&FileRow) -> (Option<FileNumber>, Option<PathBuf>) =
    |row| (row.number.clone(), row.path.clone().known());
const CGROUP: fn(&CgroupRow) -> Option<String> = |row| row.path.clone().known();
const DEVICE: fn(&DeviceRow) -> String = |row| row.device.clone();
const USE: fn(&ProcessFileUse) -> (Option<usize>, usize) = |used| (used.process, used.file);
const LOST: fn(&Lost) -> &'static str = |lost| lost.id;

impl Places {
    /// Adds the rows of a later interval to the one with these indexes.
    fn add(&mut self, whole: &mut Interval, later: Interval) {
        let processes = join(
            &mut whole.processes,
            &mut self.processes,
            later.processes,
            PROCESS,
            ProcessRow::append,
        );
        let files = join(
            &mut whole.files,
            &mut self.files,
            later.files,
            FILE,
            FileRow::append,
        );
        join(
            &mut whole.cgroups,
            &mut self.cgroups,
            later.cgroups,
            CGROUP,
            CgroupRow::append,
        );
        join(
            &mut whole.devices,
            &mut self.devices,
            later.devices,
            DEVICE,
            DeviceRow::append,
        );
        let uses = later.uses.into_iter().map(|used| ProcessFileUse {
            process: used.process.and_then(|place| processes.get(place).copied()),
            file: files.get(used.file).copied().unwrap_or(used.file),
            ledger: used.ledger,
        });
        join(
            &mut whole.uses,
            &mut self.uses,
            uses.collect(),
            USE,
            |used, later| used.ledger += later.ledger,
        );
        let evictions = later.evictions.into_iter().map(|eviction| Eviction {
            file: files.get(eviction.file).copied().unwrap_or(eviction.file),
            ..eviction
        });
        join(
            &mut whole.evictions,
            &mut self.evictions,
            evictions.collect(),
            Eviction::key,
            |eviction, later| {
                eviction.pages += later.pages;
                eviction.own |= later.own;
            },
        );
        if let Some(later) = later.stacks {
            let stacks = whole.stacks.get_or_insert_default();
            for stack in later.stacks {
                self.stacks.add(stacks, stack);
            }
        }
        join(
            &mut whole.lost,
            &mut self.lost,
            later.lost,
            LOST,
            |lost, later| lost.count = lost.count.saturating_add(later.count),
        );
    }
}

/// Adds the later rows to those with the same key; returns their indexes.
fn join<T, K: Hash + Eq>(
    rows: &mut Vec<T>,
    places: &mut HashMap<K, usize>,
    later: Vec<T>,
    key: impl Fn(&T) -> K,
    add: impl Fn(&mut T, T),
) -> Vec<usize> {
    later
        .into_iter()
        .map(|row| match places.entry(key(&row)) {
            Entry::Occupied(place) => {
                add(&mut rows[*place.get()], row);
                *place.get()
            }
            Entry::Vacant(place) => {
                rows.push(row);
                *place.insert(rows.len() - 1)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counter::Counter;
    use crate::eviction_cause::EvictionCause;
    use crate::exit::Exit;
    use crate::findings::sample;
    use crate::ledger::Ledger;
    use crate::measured::{Measured, Missing};
    use crate::reason::Reason;
    use crate::system::System;

    fn process(pid: u32, started: u64, pages: u64) -> ProcessRow {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, pages);
        ProcessRow {
            pid: Some(pid),
            started: Measured::Exact(started),
            ppid: Measured::Exact(1),
            command: Measured::Exact("dd".into()),
            cgroup: Measured::Exact("/".into()),
            exit: Exit::Running,
            cpu_seconds: Measured::Exact(0.5),
            device_read_bytes: Measured::Exact(1),
            device_write_bytes: Measured::unknown(Reason::NotMeasured),
            ledger,
        }
    }

    fn interval(processes: Vec<ProcessRow>, cached: u64) -> Interval {
        let ledger: Ledger = processes.iter().map(|process| &process.ledger).sum();
        let uses = processes
            .iter()
            .enumerate()
            .map(|(place, process)| ProcessFileUse {
                process: Some(place),
                file: 0,
                ledger: process.ledger.clone(),
            });
        Interval {
            elapsed: Duration::from_secs(1),
            uses: uses.collect(),
            ledger,
            system: System {
                cached_bytes: Measured::Exact(cached),
                oom_kills: Measured::Exact(2),
                ..System::default()
            },
            device_read_bytes: Measured::Exact(3),
            device_write_bytes: Measured::Exact(4),
            processes,
            files: vec![sample::file("/data", cached)],
            ..Interval::new(Arc::default(), cached.to_string())
        }
    }

    #[test]
    fn append_sums_evictions_of_the_same_file_process_and_cause() {
        let evictions = |pages: u64, cause| {
            let mut interval = interval(vec![process(7, 1, 10)], 100);
            interval.evictions.push(Eviction {
                file: 0,
                charged: Measured::Exact("/db".into()),
                cause,
                culprit: None,
                own: false,
                pages,
            });
            interval
        };
        let mut sum = evictions(10, EvictionCause::Kswapd);
        sum.append(evictions(5, EvictionCause::Unlink));
        sum.append(evictions(7, EvictionCause::Kswapd));
        let pages: Vec<u64> = sum
            .evictions
            .iter()
            .map(|eviction| eviction.pages)
            .collect();
        assert_eq!(pages, [17, 5], "each cause of the one file");
    }

    #[test]
    fn append_sums_counts_and_keeps_later_gauges() {
        let mut sum = interval(vec![process(7, 1, 10)], 100);
        sum.append(interval(vec![process(8, 1, 5), process(7, 1, 20)], 200));
        assert_eq!(sum.elapsed, Duration::from_secs(2), "both together");
        assert_eq!(sum.ledger[Counter::ReadRequestedPages], 35, "of everybody");
        assert_eq!(sum.system.cached_bytes, Measured::Exact(200), "the later");
        assert_eq!(sum.system.oom_kills, Measured::Exact(4), "two and two");
        assert_eq!(sum.processes.len(), 2, "one of them was there before");
        assert_eq!(
            sum.processes[0].ledger[Counter::ReadRequestedPages],
            30,
            "its sum"
        );
        assert_eq!(
            sum.processes[0].cpu_seconds,
            Measured::Exact(1.0),
            "its time"
        );
        assert!(
            sum.processes[0].device_write_bytes.missing().is_some(),
            "what was not known in a part is not known in the whole"
        );
        assert_eq!(sum.files.len(), 1, "the same file");
        assert_eq!(
            sum.files[0].size_bytes,
            Measured::Exact(200),
            "as it is now"
        );
        let used: u64 = sum
            .uses
            .iter()
            .map(|used| used.ledger[Counter::ReadRequestedPages])
            .sum();
        assert_eq!(
            (sum.uses.len(), used),
            (2, 35),
            "who used it, at their new places"
        );
        assert_eq!(
            sum.uses[1].process,
            Some(1),
            "the new one is the second now"
        );
    }

    #[test]
    fn sum_equals_repeated_append() {
        let parts = [
            interval(vec![process(7, 1, 10)], 100),
            interval(vec![process(8, 1, 5), process(7, 1, 20)], 200),
            interval(vec![process(7, 2, 1), process(8, 1, 2)], 300),
            interval(vec![process(8, 1, 4)], 300),
        ];
        let mut whole = parts[0].clone();
        let mut sum = Sum::of(parts[0].clone());
        for part in &parts[1..] {
            whole.append(part.clone());
            sum.add(part.clone());
            assert_eq!(sum.whole(), &whole, "rows are found where they went");
        }
        let whole = sum.into_whole();
        let pages: Vec<u64> = whole
            .processes
            .iter()
            .map(|process| process.ledger[Counter::ReadRequestedPages])
            .collect();
        assert_eq!(pages, [30, 11, 1], "7, 8, and another 7");
    }

    #[test]
    fn parts_missing_without_exact_counts_has_a_reason() {
        let mut sum = interval(Vec::new(), 1);
        assert_eq!(sum.parts_missing(), None, "it was counted, and is quiet");
        let none = Missing::NotOffered(Reason::NeedsProbe);
        let mut blind = interval(Vec::new(), 1);
        blind.ledger = Ledger::all_missing(none);
        blind
            .ledger
            .set_estimated(Counter::DirtiedPages, 3, Reason::ByVmstat);
        assert_eq!(blind.parts_missing(), Some(none), "an estimate is of all");
        sum.append(blind);
        assert_eq!(sum.parts_missing(), Some(none), "nor of a part of the time");
    }

    #[test]
    fn reused_pid_is_another_process() {
        let mut sum = interval(vec![process(7, 1, 10)], 100);
        sum.append(interval(vec![process(7, 2, 20)], 100));
        assert_eq!(sum.processes.len(), 2, "it started at another time");
    }
}
