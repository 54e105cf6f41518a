//! `tier stat DIR PERIOD`: a table of the calls in each period.

use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cachewise_cli::host::document;
use cachewise_cli::output::{Sink, Stream};
use cachewise_cli::signals::{self, Caught};
use cachewise_cli::sinks::Sinks;
use cachewise_cli::ticks::Ticks;
use cachewise_tier::mount::MountReport;
use cachewise_units::{Period, escaped};
use cachewise_view::{Format, Sheet, SheetColumns, length};
use serde_json::{Map, Value as Json};

use super::columns::STAT;
use super::{stat, totals};
use crate::commands::arguments::TierStat as Arguments;

/// Columns that the difference of two readings has.
const COLUMNS: [&str; 12] = [
    "of",
    "name",
    "calls_total",
    "hits_total",
    "misses_total",
    "errors_total",
    "corrupt_total",
    "read_bytes_total",
    "mean_seconds",
    "hedges_total",
    "deadline_misses_total",
    "breaker",
];

/// Prints a table for each period, until the count is reached, the mount ends, or the user interrupts.
pub fn stat(arguments: &Arguments, period: Period) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    for format in [Format::Json, Format::Csv, Format::OpenMetrics] {
        if sinks.have(format) {
            bail!("-o {format} with PERIOD: it has room for one table: use -o jsonl");
        }
    }
    if let Some(columns) = &arguments.columns
        && let Some(id) = columns.ids().find(|id| !COLUMNS.contains(id))
    {
        bail!(
            "-c {id} with PERIOD: a period has no such column; it has {}",
            COLUMNS.join(", ")
        );
    }
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let mut sinks: Vec<Sink> = sinks.into_iter().collect();
    let mut before = stat::read(&arguments.directory)?;
    let mut ticks = Ticks::new(&interrupts);
    for number in 1.. {
        let is_over = ticks.next(period.get())?;
        let now = stat::read(&arguments.directory)?;
        let report = match now.pid == before.pid && now.uptime_seconds >= before.uptime_seconds {
            true => since(&now, &before)?,
            // Another mount took its place: all of its counts are new.
            false => now.clone(),
        };
        for sink in &mut sinks {
            let text = text(arguments, &report, sink, number == 1)?;
            let written = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
            written.with_context(|| format!("cannot write to {}", sink.name()))?;
        }
        before = now;
        if is_over || arguments.count == Some(number) {
            break;
        }
    }
    Sinks::from(sinks).keep()?;
    Ok(ExitCode::SUCCESS)
}

fn text(
    arguments: &Arguments,
    report: &MountReport,
    sink: &Sink,
    is_first: bool,
) -> Result<String> {
    let columns = SheetColumns::with_ids(&COLUMNS, &STAT);
    let whole: Sheet = stat::sheet(Some(report), &report.cache).chosen(Some(&columns));
    Ok(match sink.format {
        Format::Table => {
            let mut sheet = whole;
            // Operations without a call are no news; what a tier did not do is.
            sheet
                .rows
                .retain(|row| row[0].as_text() != "operation" || row[2].is_something());
            format!(
                "{}{} in {}\n{}{}",
                if is_first { "" } else { "\n" },
                escaped(&report.directory),
                length(Duration::from_secs_f64(report.uptime_seconds.max(0.0))),
                sheet.chosen(arguments.columns.as_ref()).table(sink.style),
                totals::text(&report.cache.totals)
            )
        }
        _ => {
            let mut members = Map::new();
            members.insert("elapsed_seconds".into(), report.uptime_seconds.into());
            members.extend(stat::json_of(&whole, &report.cache.totals));
            format!("{}\n", document(members))
        }
    })
}

/// The counts between two readings of a mount.
fn since(now: &MountReport, then: &MountReport) -> Result<MountReport> {
    let difference = less(&serde_json::to_value(now)?, &serde_json::to_value(then)?);
    let mut report: MountReport = serde_json::from_value(difference)?;
    report.uptime_seconds = now.uptime_seconds - then.uptime_seconds;
    Ok(report)
}

/// Whether the member of a report is a number that only grows.
fn is_counter(key: &str) -> bool {
    key.ends_with("_total") || ["calls", "errors", "origin_calls"].contains(&key)
}

/// `now` with `then` subtracted from each counter. All else stays as it is, but mean latencies, which become those of
/// the calls in between.
fn less(now: &Json, then: &Json) -> Json {
    match (now, then) {
        (Json::Object(now), Json::Object(then)) => {
            let mut object: Map<String, Json> = (now.iter())
                .map(|(key, value)| {
                    let before = then.get(key).unwrap_or(&Json::Null);
                    let value = match (value.as_u64(), before.as_u64()) {
                        (Some(value), Some(before)) if is_counter(key) => {
                            value.saturating_sub(before).into()
                        }
                        _ => less(value, before),
                    };
                    (key.clone(), value)
                })
                .collect();
            if object.contains_key("latency") {
                let mean = mean(now, then);
                let latency = object.get_mut("latency").and_then(Json::as_object_mut);
                match (mean, latency) {
                    (Some(mean), Some(latency)) => {
                        latency.insert("mean_seconds".into(), mean.into());
                    }
                    _ => {
                        object.insert("latency".into(), Json::Null);
                    }
                }
            }
            Json::Object(object)
        }
        (Json::Array(now), Json::Array(then)) => {
            let name = |row: &Json| row.get("operation").or(row.get("name")).cloned();
            now.iter()
                .map(|row| {
                    let before = then.iter().find(|before| name(before) == name(row));
                    before.map_or_else(|| row.clone(), |before| less(row, before))
                })
                .collect()
        }
        _ => now.clone(),
    }
}

/// Mean latency of the calls between two readings of a row, in seconds; `None` without a call.
fn mean(now: &Map<String, Json>, then: &Map<String, Json>) -> Option<f64> {
    let calls = |row: &Map<String, Json>| row.get("calls_total").or(row.get("calls"))?.as_f64();
    let spent = |row: &Map<String, Json>| {
        let mean = row.get("latency")?.get("mean_seconds")?.as_f64();
        Some(mean? * calls(row)?)
    };
    let number = calls(now)? - calls(then)?;
    let spent = spent(now)? - spent(then).unwrap_or(0.0);
    (number > 0.0).then(|| (spent / number).max(0.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_those_of_the_period_and_means_of_its_calls() {
        let then = json!({"tiers": [
            {"name": "memory", "calls_total": 4, "latency": {"mean_seconds": 1.0, "max_seconds": 3.0}},
            {"name": "disk", "calls_total": 2, "latency": null}]});
        let now = json!({"tiers": [
            {"name": "disk", "calls_total": 2, "latency": null},
            {"name": "memory", "calls_total": 6, "latency": {"mean_seconds": 2.0, "max_seconds": 9.0}},
            {"name": "origin", "calls_total": 1, "latency": {"mean_seconds": 5.0}}]});
        let period = less(&now, &then);
        let [disk, memory, origin] = [0, 1, 2].map(|place| &period["tiers"][place]);
        assert_eq!(memory["calls_total"], 2);
        assert_eq!(
            memory["latency"]["mean_seconds"], 4.0,
            "12 s in all less 4 s before, by 2"
        );
        assert_eq!(disk["calls_total"], 0);
        assert_eq!(disk["latency"], Json::Null);
        assert_eq!(origin["calls_total"], 1, "a new row is all new");
    }
}
