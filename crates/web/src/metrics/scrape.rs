//! A scrape: from the sums to the exposition.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cachewise_model::{Count, Datum, EvictionCause, GroupNames, Kind, Lost, Value};
use cachewise_view::{Exposition, Labels, MetricNumber};

use super::collector::Collector;
use super::exposition::{self, Format};
use super::family::{Family, Series};
use super::sums::{Sums, WATCH, sums};
use super::table::FAMILIES;
use crate::gather::Asking;
use crate::survey::{FileSetCounts, Survey};

/// Takes an interval and returns all metrics in a text format.
pub(crate) async fn scrape(
    asking: &Asking,
    survey: &Survey,
    format: Format,
) -> Result<String, String> {
    let exposition = exposition(asking, survey).await?;
    exposition::text(exposition, format).map_err(|_| "the metrics cannot be written".to_owned())
}

pub(super) async fn exposition(asking: &Asking, survey: &Survey) -> Result<Exposition, String> {
    let mut sums = asking.ask(sums).await?;
    let mut sets = None;
    if sums.collectors.contains(&Collector::Filesets) {
        let begin = Instant::now();
        sets = survey.file_sets().await.ok();
        sums.runs
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
        .runs
        .0
        .iter()
        .any(|(name, success, _)| *name == WATCH && *success);
    for collector in has
        .iter()
        .filter(|collector| **collector != Collector::Filesets)
    {
        let time = spent.get(collector).copied().unwrap_or_default();
        let success = watched && sums.left_out.is_whole(*collector);
        sums.runs.0.push((collector.id(), success, time));
    }
    about(&mut exposition, sums);
    Ok(exposition)
}

fn add(
    exposition: &mut Exposition,
    family: &Family,
    collector: Collector,
    sums: &mut Sums,
    sets: Option<&FileSetCounts>,
) {
    let mut estimated = None;
    let series: Vec<(Labels, MetricNumber)> = match family.series {
        Series::Fields(fields) => fields
            .iter()
            .filter_map(|(value, id)| {
                let of_row = cachewise_model::field(id)?.of(&sums.row);
                estimated = estimated.or(of_row.estimate());
                if let Some(missing) = of_row.missing() {
                    sums.left_out.add(collector, missing);
                }
                let labels = family.label.map(|label| (label, (*value).to_owned()));
                Some((labels.into_iter().collect(), MetricNumber::of(&of_row)?))
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
            // Some rows lack the value, as a file system without a device. Only a value that all
            // rows lack counts as missing.
            let is_known = values.iter().any(|(_, value)| value.missing().is_none());
            let missing = match values.first() {
                Some((_, value)) => value.missing(),
                // No row so far: a value that is unknown for the machine is unknown for its parts.
                None => cachewise_model::field(id).and_then(|field| field.of(&sums.row).missing()),
            };
            if let (false, Some(missing)) = (is_known, missing) {
                sums.left_out.add(collector, missing);
            }
            values
                .into_iter()
                .filter_map(|(name, value)| {
                    Some((vec![(label, name.clone())], MetricNumber::of(&value)?))
                })
                .collect()
        }
        Series::Causes => match sums.evicted {
            Ok(evicted) => EvictionCause::ALL
                .iter()
                .zip(evicted)
                .map(|(cause, pages)| {
                    let label = (family.label.unwrap_or("cause"), cause.id().to_owned());
                    (vec![label], MetricNumber::Whole(pages))
                })
                .collect(),
            Err(missing) => {
                sums.left_out.add(collector, missing);
                Vec::new()
            }
        },
        Series::Culprits => match sums.evicted {
            Ok(_) => {
                let group = family.label.unwrap_or("cgroup");
                let culprits = sums.culprits.iter().flat_map(|(name, causes)| {
                    let causes = EvictionCause::ALL.iter().zip(causes);
                    causes
                        .filter(|(cause, _)| cause.has_culprit())
                        .map(move |(cause, pages)| {
                            let cause = ("cause", cause.id().to_owned());
                            let labels = vec![(group, name.clone()), cause];
                            (labels, MetricNumber::Whole(*pages))
                        })
                });
                culprits.collect()
            }
            Err(missing) => {
                sums.left_out.add(collector, missing);
                Vec::new()
            }
        },
        Series::Names(fields) => sums
            .groups
            .iter()
            .filter(|(_, row)| row.labels.group != GroupNames::default())
            .map(|(name, row)| {
                let own = family.label.map(|label| (label, name.clone()));
                let names = fields.iter().filter_map(|id| {
                    let value = cachewise_model::field(id)?.of(row).known()?;
                    match value {
                        Datum::Text(text) => Some((*id, text)),
                        _ => None,
                    }
                });
                (
                    own.into_iter().chain(names).collect(),
                    MetricNumber::Whole(1),
                )
            })
            .collect(),
        Series::Own => sets
            .into_iter()
            .flat_map(|looked| looked.sets.iter().map(move |set| (looked, set)))
            .map(|(looked, set)| {
                let number = match family.name {
                    "fileset_resident_bytes" => MetricNumber::Whole(set.resident_bytes),
                    "fileset_size_bytes" => MetricNumber::Whole(set.size_bytes),
                    "fileset_unknown_files" => MetricNumber::Whole(set.unknown),
                    "fileset_age_seconds" => {
                        MetricNumber::Fraction(looked.at.elapsed().as_secs_f64())
                    }
                    _ => MetricNumber::Whole(set.files),
                };
                (vec![("set", set.name.clone())], number)
            })
            .collect(),
    };
    debug_assert!(family.kind != Kind::Label, "names are no metrics");
    exposition::add(exposition, family, estimated, series);
}

/// Every kind from the start, so that the first loss is an increase.
fn lost_events(lost: &[Lost]) -> Vec<(Labels, MetricNumber)> {
    let kinds = Lost::KINDS.iter().map(|(kind, _)| {
        let of_kind = lost.iter().filter(|lost| lost.id == *kind);
        let count = of_kind.fold(0u64, |sum, lost| sum.saturating_add(lost.count));
        (
            vec![("kind", (*kind).to_owned())],
            MetricNumber::Whole(count),
        )
    });
    kinds.collect()
}

/// A series without labels; none if the number is unknown.
fn whole(count: Count) -> Vec<(Labels, MetricNumber)> {
    let series = count.known();
    let series = series.map(|number| (Vec::new(), MetricNumber::Whole(number)));
    series.into_iter().collect()
}

/// The server's own.
fn about(exposition: &mut Exposition, sums: Sums) {
    for family in FAMILIES.iter().filter(|family| family.collector.is_none()) {
        let each = |number: &dyn Fn(bool, Duration) -> MetricNumber| {
            let series = sums.runs.0.iter().map(|(name, success, time)| {
                (
                    vec![("collector", (*name).to_owned())],
                    number(*success, *time),
                )
            });
            series.collect()
        };
        let series = match family.name {
            "page_size_bytes" => vec![(Vec::new(), MetricNumber::Whole(sums.page_size))],
            "lost_events" => sums.lost.as_deref().map(lost_events).unwrap_or_default(),
            "kernel_memory_bytes" => whole(sums.cost.kernel_memory_bytes),
            "own_memory_bytes" => whole(sums.cost.memory_bytes),
            "kernel_program_seconds" => {
                let seconds = sums.cost.kernel_seconds.known();
                let series = seconds.map(|time| (Vec::new(), MetricNumber::Fraction(time)));
                series.into_iter().collect()
            }
            "own_watch_seconds" => {
                let seconds = sums.watched.as_secs_f64();
                vec![(Vec::new(), MetricNumber::Fraction(seconds))]
            }
            "own_cpu_seconds" => {
                let seconds = sums.cost.cpu.as_secs_f64();
                vec![(Vec::new(), MetricNumber::Fraction(seconds))]
            }
            "build_info" => vec![(sums.labels.clone(), MetricNumber::Whole(1))],
            "collector_left_out" => {
                let left_out = sums.left_out.0.iter();
                left_out
                    .map(|((collector, reason), count)| {
                        let labels = vec![
                            ("collector", (*collector).to_owned()),
                            ("reason", reason.words().to_owned()),
                            ("reason_code", reason.code().to_owned()),
                        ];
                        (labels, MetricNumber::Whole(*count))
                    })
                    .collect()
            }
            "collector_success" => each(&|success, _| MetricNumber::Whole(success.into())),
            _ => each(&|_, time| MetricNumber::Fraction(time.as_secs_f64())),
        };
        exposition::add(exposition, family, None, series);
    }
}
