//! [`Sums`]: everything that a scrape takes from the thread that watches.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cachewise_model::{Interval, Ledger, Lost, Missing, Reason, Row};
use cachewise_view::Labels;

use super::collector::Collector;
use super::culprits::ByCause;
use super::groups::Groups;
use crate::gathered::Gathered;
use crate::source::{Cost, Watching};

const OTHER: &str = "other";
/// The collector that takes the interval; all others but file sets depend on it.
pub(super) const WATCH: &str = "watch";

/// How each collector did.
#[derive(Debug, Default)]
pub(super) struct CollectorRuns(pub(super) Vec<(&'static str, bool, Duration)>);

/// Series left out because their values are unknown, by collector and reason.
#[derive(Debug, Default)]
pub(super) struct LeftOut(pub(super) BTreeMap<(&'static str, Reason), u64>);

impl LeftOut {
    pub(super) fn add(&mut self, collector: Collector, missing: Missing) {
        *self
            .0
            .entry((collector.id(), missing.reason()))
            .or_default() += 1;
    }

    pub(super) fn is_whole(&self, collector: Collector) -> bool {
        self.0.keys().all(|(id, _)| *id != collector.id())
    }
}

pub(super) type Rows = Vec<(String, Row)>;

/// The counters that the watching thread passes to a scrape. The scrape formats them on its own
/// thread.
pub(super) struct Sums {
    pub(super) row: Row,
    pub(super) devices: Rows,
    pub(super) groups: Rows,
    /// Evicted pages by the number of the cause; `Err` if they are unknown.
    pub(super) evicted: Result<ByCause, Missing>,
    /// Those that processes of each control group evicted.
    pub(super) culprits: Vec<(String, ByCause)>,
    /// None where nothing counts that could lose something.
    pub(super) lost: Option<Vec<Lost>>,
    pub(super) cost: Cost,
    /// Time that taking intervals took since the start.
    pub(super) watched: Duration,
    pub(super) labels: Labels,
    pub(super) page_size: u64,
    pub(super) collectors: Vec<Collector>,
    pub(super) runs: CollectorRuns,
    pub(super) left_out: LeftOut,
}

pub(super) fn sums(gathered: &mut Gathered, watching: &mut dyn Watching) -> Sums {
    let begin = Instant::now();
    let success = gathered.take(watching).is_ok();
    gathered.devices.forget(|name| watching.has_device(name));
    let runs = CollectorRuns(vec![(WATCH, success, begin.elapsed())]);
    let machine = &gathered.machine;
    let labels = vec![
        ("version", machine.version.to_owned()),
        ("kernel", machine.source.kernel.clone()),
        ("backend", machine.source.backend.name.clone()),
    ];
    Sums {
        row: gathered.total_row(),
        devices: gathered.devices.rows(),
        groups: group_rows(gathered),
        evicted: match gathered.totals.as_ref().and_then(Interval::parts_missing) {
            None => Ok(gathered.evicted),
            Some(missing) => Err(missing),
        },
        culprits: culprits(gathered),
        lost: gathered
            .totals
            .as_ref()
            .filter(|totals| totals.parts_missing().is_none())
            .map(|totals| totals.lost.clone()),
        cost: watching.cost(),
        watched: gathered.watched,
        labels,
        page_size: machine.source.page().get(),
        // Without numbers of this moment there are none: the last ones would look like a quiet machine.
        collectors: gathered
            .options
            .collectors
            .iter()
            .copied()
            .filter(|collector| success || *collector == Collector::Filesets)
            .collect(),
        runs,
        left_out: LeftOut::default(),
    }
}

fn culprits(gathered: &Gathered) -> Vec<(String, ByCause)> {
    let culprits = &gathered.culprits;
    let others = (OTHER.to_owned(), culprits.others);
    culprits.placed.iter().cloned().chain([others]).collect()
}

fn group_rows(gathered: &Gathered) -> Rows {
    let groups = &gathered.groups;
    let placed = groups.placed.iter().map(|group| {
        let mut row = Row {
            ledger: group.ledger.clone(),
            ..Row::default()
        };
        row.labels.group = group.names.clone();
        if Groups::is_current(group) {
            row.system = group.system.clone().into();
        }
        (group.name.clone(), row)
    });
    // Without a counting backend the sum of the other groups is unknown too.
    let unknown = gathered.totals.as_ref().and_then(Interval::parts_missing);
    let others = Row {
        ledger: unknown.map_or_else(|| groups.others.clone(), Ledger::all_missing),
        ..Row::default()
    };
    placed.chain([(OTHER.to_owned(), others)]).collect()
}
