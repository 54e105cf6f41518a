//! What a scrape gives.
//!
//! # Layout
//! - `table`: which metrics there are. `family`: what one is, and its line in the documentation. `collector`: where they come from.
//! - `exposition`: their text. `groups`: the busiest control groups.
//! - `otlp`: the same as a message to a collector of OpenTelemetry.
//! - this file: a scrape, from what was gathered.

mod collector;
mod exposition;
mod family;
mod groups;
#[cfg(feature = "otlp")]
mod otlp;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use cachewise_model::{Kind, Ledger, Lost, Measured, Missing, Row, Stretch, Value};

pub use collector::{Collector, UnknownCollector};
pub(crate) use exposition::Format;
use exposition::{Exposition, Labels, Number};
pub use family::{Family, Series, markdown};
pub(crate) use groups::Groups;
#[cfg(feature = "otlp")]
pub(crate) use otlp::message;
pub use table::FAMILIES;

use crate::gather::{Asking, Gathered};
use crate::source::{Cost, Watching};
use crate::survey::{Looked, Survey};

/// More devices than this share one label.
const MOST_DEVICES: usize = 64;
const OTHER: &str = "other";
/// The collector that takes the stretch, on which all but file sets build.
const WATCH: &str = "watch";

/// How each collector did.
#[derive(Debug, Default)]
struct Course(Vec<(&'static str, bool, Duration)>);

/// Series that are left out because nobody knows their values, by collector and reason.
#[derive(Debug, Default)]
struct LeftOut(BTreeMap<(&'static str, &'static str), u64>);

impl LeftOut {
    fn add(&mut self, collector: Collector, missing: Missing) {
        *self
            .0
            .entry((collector.id(), missing.reason()))
            .or_default() += 1;
    }

    fn is_whole(&self, collector: Collector) -> bool {
        self.0.keys().all(|(id, _)| *id != collector.id())
    }
}

type Rows = Vec<(String, Row)>;

/// What the thread that watches hands over: the rest is text, and made elsewhere.
struct Sums {
    row: Row,
    devices: Rows,
    groups: Rows,
    /// None where nothing counts that could lose something.
    lost: Option<Vec<Lost>>,
    cost: Cost,
    labels: Labels,
    page_size: u64,
    collectors: Vec<Collector>,
    course: Course,
    left_out: LeftOut,
}

/// Takes a stretch and gives everything out.
pub(crate) async fn scrape(
    asking: &Asking,
    survey: &Survey,
    format: Format,
) -> Result<String, String> {
    exposition(asking, survey)
        .await?
        .text(format)
        .map_err(|_| "the metrics cannot be written".to_owned())
}

async fn exposition(asking: &Asking, survey: &Survey) -> Result<Exposition, String> {
    let mut sums = asking.ask(sums).await?;
    let mut sets = None;
    if sums.collectors.contains(&Collector::Filesets) {
        let begin = Instant::now();
        sets = survey.file_sets().await.ok();
        sums.course
            .0
            .push((Collector::Filesets.id(), sets.is_some(), begin.elapsed()));
    }
    let has = std::mem::take(&mut sums.collectors);
    let mut exposition = Exposition::default();
    let mut spent: HashMap<Collector, Duration> = HashMap::new();
    for family in FAMILIES {
        let Some(collector) = family.collector else {
            continue;
        };
        if has.contains(&collector) {
            let begin = Instant::now();
            add(&mut exposition, family, collector, &mut sums, sets.as_ref());
            *spent.entry(collector).or_default() += begin.elapsed();
        }
    }
    let watched = sums
        .course
        .0
        .iter()
        .any(|(name, success, _)| *name == WATCH && *success);
    for collector in has
        .iter()
        .filter(|collector| **collector != Collector::Filesets)
    {
        let time = spent.get(collector).copied().unwrap_or_default();
        let success = watched && sums.left_out.is_whole(*collector);
        sums.course.0.push((collector.id(), success, time));
    }
    about(&mut exposition, sums);
    Ok(exposition)
}

fn sums(gathered: &mut Gathered, watching: &mut dyn Watching) -> Sums {
    let begin = Instant::now();
    let success = gathered.take(watching).is_ok();
    let course = Course(vec![(WATCH, success, begin.elapsed())]);
    let machine = &gathered.machine;
    let labels = vec![
        ("version", machine.version.to_owned()),
        ("kernel", machine.kernel_release.clone()),
        ("backend", machine.backend.name.clone()),
    ];
    Sums {
        row: gathered.total_row(),
        devices: devices(gathered),
        groups: group_rows(gathered),
        lost: gathered
            .totals
            .as_ref()
            .filter(|totals| totals.parts_missing().is_none())
            .map(|totals| totals.lost.clone()),
        cost: watching.cost(),
        labels,
        page_size: machine.page_size.get(),
        // Without numbers of this moment there are none: the last ones would look like a quiet machine.
        collectors: gathered
            .options
            .collectors
            .iter()
            .copied()
            .filter(|collector| success || *collector == Collector::Filesets)
            .collect(),
        course,
        left_out: LeftOut::default(),
    }
}

fn devices(gathered: &Gathered) -> Rows {
    let mut rows: Rows = Vec::new();
    for device in gathered.totals.iter().flat_map(|sums| &sums.devices) {
        let name = match &device.path {
            Measured::Exact(path) => path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy(),
            _ => device.device.as_str().into(),
        };
        let name = if rows.len() < MOST_DEVICES {
            &*name
        } else {
            OTHER
        };
        match rows.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => {
                let row = device.row();
                sum.ledger += row.ledger;
                let (of_sum, of_row) = (&mut sum.subject, row.subject);
                of_sum.device_read_bytes = of_sum.device_read_bytes.plus(of_row.device_read_bytes);
                of_sum.device_write_bytes =
                    of_sum.device_write_bytes.plus(of_row.device_write_bytes);
            }
            None => rows.push((name.to_owned(), device.row())),
        }
    }
    rows
}

fn group_rows(gathered: &Gathered) -> Rows {
    let groups = &gathered.groups;
    let placed = groups.placed.iter().map(|group| {
        let mut row = Row {
            ledger: group.ledger.clone(),
            ..Row::default()
        };
        if Groups::is_current(group) {
            row.system = group.system.clone().into();
        }
        (group.name.clone(), row)
    });
    // Where nobody counts, nobody knows of those that are none of the rows either.
    let unknown = gathered.totals.as_ref().and_then(Stretch::parts_missing);
    let others = Row {
        ledger: unknown.map_or_else(|| groups.others.clone(), Ledger::all_missing),
        ..Row::default()
    };
    placed.chain([(OTHER.to_owned(), others)]).collect()
}

fn add(
    exposition: &mut Exposition,
    family: &Family,
    collector: Collector,
    sums: &mut Sums,
    sets: Option<&Looked>,
) {
    let mut estimated = None;
    let series: Vec<(Labels, Number)> = match family.series {
        Series::Fields(fields) => fields
            .iter()
            .filter_map(|(value, id)| {
                let of_row = cachewise_model::field(id)?.of(&sums.row);
                estimated = estimated.or(of_row.estimate());
                if let Some(missing) = of_row.missing() {
                    sums.left_out.add(collector, missing);
                }
                let labels = family.label.map(|label| (label, (*value).to_owned()));
                Some((labels.into_iter().collect(), Number::of(&of_row)?))
            })
            .collect(),
        Series::Each(id) => {
            let rows = match collector {
                Collector::Devices => &sums.devices,
                _ => &sums.groups,
            };
            let label = family.label.unwrap_or("name");
            let values: Vec<(&String, Value)> = rows
                .iter()
                .filter_map(|(name, row)| Some((name, cachewise_model::field(id)?.of(row))))
                .collect();
            // Some have no such number, as a file system without a device; that none has is another thing.
            let is_known = values.iter().any(|(_, value)| value.missing().is_none());
            let missing = match values.first() {
                Some((_, value)) => value.missing(),
                // None did anything so far: what nobody knows of the machine, nobody would know of them.
                None => cachewise_model::field(id).and_then(|field| field.of(&sums.row).missing()),
            };
            if let (false, Some(missing)) = (is_known, missing) {
                sums.left_out.add(collector, missing);
            }
            values
                .into_iter()
                .filter_map(|(name, value)| {
                    Some((vec![(label, name.clone())], Number::of(&value)?))
                })
                .collect()
        }
        Series::Own => sets
            .into_iter()
            .flat_map(|looked| looked.sets.iter().map(move |set| (looked, set)))
            .map(|(looked, set)| {
                let number = match family.name {
                    "fileset_resident_bytes" => Number::Whole(set.resident_bytes),
                    "fileset_size_bytes" => Number::Whole(set.size_bytes),
                    "fileset_unknown_files" => Number::Whole(set.unknown),
                    "fileset_age_seconds" => Number::Fraction(looked.at.elapsed().as_secs_f64()),
                    _ => Number::Whole(set.files),
                };
                (vec![("set", set.name.clone())], number)
            })
            .collect(),
    };
    debug_assert!(family.kind != Kind::Label, "names are no metrics");
    exposition.add(family, estimated, series);
}

/// Every kind from the start, so that the first loss is an increase.
fn lost_events(lost: &[Lost]) -> Vec<(Labels, Number)> {
    let kinds = Lost::KINDS.iter().map(|(kind, _)| {
        let of_kind = lost.iter().filter(|lost| lost.id == *kind);
        let count = of_kind.fold(0u64, |sum, lost| sum.saturating_add(lost.count));
        (vec![("kind", (*kind).to_owned())], Number::Whole(count))
    });
    kinds.collect()
}

/// The server's own.
fn about(exposition: &mut Exposition, sums: Sums) {
    for family in FAMILIES.iter().filter(|family| family.collector.is_none()) {
        let each = |number: &dyn Fn(bool, Duration) -> Number| {
            let series = sums.course.0.iter().map(|(name, success, time)| {
                (
                    vec![("collector", (*name).to_owned())],
                    number(*success, *time),
                )
            });
            series.collect()
        };
        let series = match family.name {
            "page_size_bytes" => vec![(Vec::new(), Number::Whole(sums.page_size))],
            "lost_events" => sums.lost.as_deref().map(lost_events).unwrap_or_default(),
            "kernel_memory_bytes" => {
                let bytes = sums.cost.kernel_memory_bytes.known();
                bytes
                    .map(|bytes| (Vec::new(), Number::Whole(bytes)))
                    .into_iter()
                    .collect()
            }
            "own_cpu_seconds" => {
                let seconds = sums.cost.cpu.as_secs_f64();
                vec![(Vec::new(), Number::Fraction(seconds))]
            }
            "build_info" => vec![(sums.labels.clone(), Number::Whole(1))],
            "collector_left_out" => {
                let left_out = sums.left_out.0.iter();
                left_out
                    .map(|((collector, reason), count)| {
                        let labels = vec![
                            ("collector", (*collector).to_owned()),
                            ("reason", (*reason).to_owned()),
                        ];
                        (labels, Number::Whole(*count))
                    })
                    .collect()
            }
            "collector_success" => each(&|success, _| Number::Whole(success.into())),
            _ => each(&|_, time| Number::Fraction(time.as_secs_f64())),
        };
        exposition.add(family, None, series);
    }
}
