//! Evicted pages of processes and control groups: those that a process evicted, and those that a group lost.

use std::collections::HashMap;
use std::hash::Hash;

use cachewise_model::{Counter, EvictionCause, Ledger, Measured, Reason};
use cachewise_probe::{ProcessId, Snapshot};

/// Evicted pages.
#[derive(Debug, Clone, Copy, Default)]
struct Evicted {
    reclaim: u64,
    other: u64,
    /// A share of what background reclaim evicted for all.
    shared: u64,
}

impl Evicted {
    fn add(&mut self, cause: EvictionCause, pages: u64) {
        match cause.is_reclaim() {
            true => self.reclaim += pages,
            false => self.other += pages,
        }
    }

    fn set_in(self, ledger: &mut Ledger) {
        ledger.set(Counter::EvictedOtherPages, self.other);
        let reclaimed = self.reclaim + self.shared;
        match self.shared {
            0 => ledger.set(Counter::EvictedReclaimPages, reclaimed),
            _ => ledger.set_estimated(
                Counter::EvictedReclaimPages,
                reclaimed,
                Reason::SharedByInserts,
            ),
        }
    }
}

/// Evicted pages of a snapshot by process and by control group.
#[derive(Debug, Default)]
pub struct Blame {
    by_process: HashMap<ProcessId, Evicted>,
    by_group: HashMap<u32, Evicted>,
}

impl Blame {
    /// The blame where a part of the machine is watched: background reclaim is attributed to no process.
    pub fn of(snapshot: &Snapshot) -> Blame {
        let mut blame = Blame::default();
        for eviction in &snapshot.evictions {
            let (cause, pages) = (eviction.cause, eviction.pages.0);
            if let Some(process) = eviction.culprit {
                entry(&mut blame.by_process, process).add(cause, pages);
            }
            if let Some(group) = eviction.charged {
                entry(&mut blame.by_group, group).add(cause, pages);
            }
        }
        blame
    }

    /// The blame where the whole machine is watched: processes share the evictions of background reclaim, in proportion to
    /// the pages that they inserted.
    pub fn shared(snapshot: &Snapshot) -> Blame {
        let mut blame = Blame::of(snapshot);
        let of_kswapd = snapshot.evictions.iter();
        let evicted: u64 = of_kswapd
            .filter(|eviction| eviction.cause == EvictionCause::Kswapd)
            .map(|eviction| eviction.pages.0)
            .sum();
        if evicted == 0 {
            return blame;
        }
        let mut inserts: HashMap<ProcessId, u64> = HashMap::new();
        for row in &snapshot.rows {
            if let (Some(process), Some(pages)) = (row.process, inserted(&row.ledger)) {
                *entry(&mut inserts, process) += pages;
            }
        }
        let all: u64 = inserts.values().sum();
        for (process, pages) in inserts.into_iter().filter(|(_, pages)| *pages > 0) {
            let share = u128::from(evicted) * u128::from(pages) / u128::from(all);
            entry(&mut blame.by_process, process).shared = share as u64;
        }
        blame
    }

    /// Puts the pages that a process evicted into its ledger.
    pub fn of_process(&self, process: Option<ProcessId>, ledger: &mut Ledger) {
        let evicted = process.and_then(|process| self.by_process.get(&process));
        evicted.copied().unwrap_or_default().set_in(ledger);
    }

    /// Puts the evicted pages that were charged to control groups into their ledgers, by the lower half of their ids.
    pub fn of_groups(&self, ledgers: &mut HashMap<u32, Ledger>) {
        for (group, evicted) in &self.by_group {
            evicted.set_in(ledgers.entry(*group).or_default());
        }
    }
}

fn inserted(ledger: &Ledger) -> Option<u64> {
    match ledger.inserted_pages() {
        Measured::Exact(pages) | Measured::Estimated(pages, _) => Some(pages),
        Measured::Missing(_) => None,
    }
}

fn entry<Key: Hash + Eq, Value: Default>(map: &mut HashMap<Key, Value>, key: Key) -> &mut Value {
    map.entry(key).or_default()
}

#[cfg(test)]
mod tests {
    use cachewise_probe::{Eviction, FileId, Lost, Pages, Row};

    use super::*;

    const TAR: ProcessId = ProcessId { tgid: 7, start: 1 };
    const INDEX: FileId = FileId {
        major: 8,
        minor: 1,
        inode: 12,
        generation: 0,
        volume: 0,
    };

    /// tar inserted 30 pages and another process 10; reclaim evicted 100 pages for tar, and 40 in the background.
    fn snapshot() -> Snapshot {
        let row = |process, inserted| {
            let mut ledger = Ledger::default();
            ledger.set(Counter::ReadMissedPages, inserted);
            Row {
                process: Some(process),
                file: Some(INDEX),
                cgroup: 5,
                ledger,
            }
        };
        let eviction = |culprit, cause, pages| Eviction {
            file: Some(INDEX),
            charged: Some(5),
            culprit,
            culprit_cgroup: 5,
            cause,
            pages: Pages(pages),
        };
        Snapshot {
            total: Ledger::default(),
            rows: vec![row(TAR, 30), row(ProcessId { tgid: 8, start: 2 }, 10)],
            files: HashMap::new(),
            processes: Vec::new(),
            outside: HashMap::new(),
            evictions: vec![
                eviction(Some(TAR), EvictionCause::GroupLimit, 100),
                eviction(Some(TAR), EvictionCause::Unlink, 3),
                eviction(None, EvictionCause::Kswapd, 40),
            ],
            culprits: HashMap::new(),
            direct_in_flight: 0,
            lost: Lost::default(),
            changes: Vec::new(),
        }
    }

    #[test]
    fn process_has_the_pages_that_it_evicted_itself() {
        let blame = Blame::of(&snapshot());
        let mut ledger = Ledger::default();
        blame.of_process(Some(TAR), &mut ledger);
        assert_eq!(
            ledger.get(Counter::EvictedReclaimPages),
            Measured::Exact(100)
        );
        assert_eq!(ledger.get(Counter::EvictedOtherPages), Measured::Exact(3));
    }

    #[test]
    fn processes_share_background_reclaim_by_their_inserts_as_an_estimate() {
        let mut ledger = Ledger::default();
        Blame::shared(&snapshot()).of_process(Some(TAR), &mut ledger);
        assert_eq!(
            ledger.get(Counter::EvictedReclaimPages),
            Measured::Estimated(130, Reason::SharedByInserts),
            "three quarters of 40"
        );
    }

    #[test]
    fn group_has_the_pages_that_it_lost_to_anyone() {
        let mut ledgers = HashMap::new();
        Blame::of(&snapshot()).of_groups(&mut ledgers);
        assert_eq!(ledgers[&5].evicted_pages(), Measured::Exact(143));
    }
}
