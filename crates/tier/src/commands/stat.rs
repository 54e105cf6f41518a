//! `tier stat`: the counters of a mount, with a row for each FUSE operation, tier and node.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cachewise_model::{Missing, Reason};
use cachewise_tier::mount::{MountReport, REPORT};
use cachewise_tier::{BreakerState, Latency, Table, Tier, Totals};
use cachewise_units::{Bytes, escaped, shell_quoted};
use cachewise_view::{Format, Sheet, SheetCell, SheetColumn, SheetColumns, Style, length};
use serde_json::{Map, Value as Json};

use super::columns::{STAT, WRITES};
use super::totals;
use crate::commands::arguments::TierStat as Arguments;
use cachewise_cli::host::document;
use cachewise_cli::output::Stream;
use cachewise_cli::sinks::Sinks;

/// Number of columns that only nodes have.
const OF_NODES: usize = 7;

const NO_BLOCKS: Missing = Missing::NotOffered(Reason::BlocksOfTiers);
const NOT_A_NODE: Missing = Missing::NotOffered(Reason::NodesOnly);
const NOT_A_TIER: Missing = Missing::NotOffered(Reason::TiersOnly);
const NOT_AN_OPERATION: Missing = Missing::NotOffered(Reason::OperationsOnly);
const NOT_READ: Missing = Missing::NotOffered(Reason::NotApplicable);
const NEVER_ASKED: Missing = Missing::NotOffered(Reason::NeverAnswered);

/// Runs the subcommand.
pub fn stat(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(period) = arguments.period {
        return super::stat_periods::stat(arguments, period);
    }
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let report = read(&arguments.directory)?;
    let sheet = sheet(Some(&report), &report.cache);
    let members = || {
        let mut members = Map::new();
        members.insert("origin".into(), report.origin.clone().into());
        let directory = report.directory.to_string_lossy();
        members.insert("directory".into(), directory.into_owned().into());
        members.insert("pid".into(), report.pid.into());
        members.insert("uptime_seconds".into(), report.uptime_seconds.into());
        members.extend(json_of(&sheet, &report.cache.totals));
        members
    };
    let chosen = || sheet.clone().chosen(arguments.columns.as_ref());
    super::write(sinks, |sink| {
        Ok(match sink.format {
            Format::Table => format!(
                "{} on {}, process {}, for {}\n{}{}",
                escaped(&report.origin),
                escaped(&report.directory),
                report.pid,
                length(Duration::from_secs_f64(report.uptime_seconds.max(0.0))),
                chosen().table(sink.style),
                totals::text(&report.cache.totals)
            ),
            Format::Csv => chosen().csv()?,
            Format::Json => format!("{:#}\n", document(members())),
            Format::JsonLines => format!("{}\n", document(members())),
            Format::OpenMetrics => open_metrics(&sheet, &report.cache.totals)?,
        })
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the counters of the mount.
pub(super) fn read(directory: &Path) -> Result<MountReport> {
    let path = directory.join(REPORT);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "{}: not a mount of `cachewise mount`; `findmnt -t fuse` lists mounts",
            escaped(directory)
        ),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => bail!(
            "{}: not a directory; name the mount point of `cachewise mount`, not a file in it",
            escaped(directory)
        ),
        Err(error) => return Err(unreadable(directory, error)),
    };
    serde_json::from_slice(&text).with_context(|| {
        format!(
            "{}: written by another version of cachewise",
            escaped(&path)
        )
    })
}

/// Returns why nothing can be read in a mount, and what to do.
pub(super) fn unreadable(directory: &Path, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotConnected => anyhow!(
            "{}: the process of this mount has ended: fusermount3 -u {}, or mount again",
            escaped(directory),
            shell_quoted(directory)
        ),
        io::ErrorKind::PermissionDenied => anyhow!(
            "{}: permission denied: be the user who mounted it, or mount it with --allow-other",
            escaped(directory)
        ),
        _ => {
            let path = directory.join(REPORT);
            anyhow::Error::from(error).context(format!("read {}", escaped(&path)))
        }
    }
}

/// Columns of nodes that count requests for a block, which a command that only stores blocks does not send.
const OF_READS: [&str; 3] = ["calls_total", "hits_total", "misses_total"];

/// Returns the rows of these tiers and of all nodes. `is_read` says whether nodes got requests for a block.
pub fn used(table: &Table, tiers: &[Tier], is_read: bool) -> Sheet {
    let mut table = table.clone();
    table.tiers.retain(|row| tiers.contains(&row.tier));
    let mut sheet = sheet(None, &table);
    let nodes = sheet.rows.iter_mut().skip(table.tiers.len());
    for row in nodes.filter(|_| !is_read) {
        for (cell, column) in row.iter_mut().zip(&STAT) {
            if OF_READS.contains(&column.id) {
                *cell = SheetCell::missing(NOT_READ);
            }
        }
    }
    sheet
}

/// Formats tiers, nodes and totals of a command, with the blocks that nodes stored.
pub fn cache_text(used: &Sheet, all: &Totals, style: Style) -> String {
    let shown = STAT
        .iter()
        .filter(|column| column.is_usual || column.id == WRITES);
    let ids: Vec<&str> = shown.map(|column| column.id).collect();
    let columns = SheetColumns::with_ids(&ids, &STAT);
    let used = used.clone().chosen(Some(&columns));
    format!("{}{}", used.table(style), totals::text(all))
}

/// The rows and the totals as JSON members.
pub(super) fn json_of(sheet: &Sheet, all: &Totals) -> Map<String, Json> {
    let members = [
        ("rows".to_owned(), sheet.json()),
        ("totals".to_owned(), totals::json(all)),
    ];
    members.into_iter().collect()
}

/// A row for each operation of a mount, each tier and each node.
pub(super) fn sheet(report: Option<&MountReport>, table: &Table) -> Sheet {
    let number = SheetCell::count;
    let missing = SheetCell::missing;
    let mut sheet = Sheet::new(&STAT);
    for row in report.into_iter().flat_map(|report| &report.operations) {
        let mut cells = vec![
            SheetCell::text("operation"),
            SheetCell::text(row.operation.name()),
            number(row.calls),
            missing(NO_BLOCKS),
            missing(NO_BLOCKS),
            number(row.errors),
            missing(NO_BLOCKS),
            missing(NO_BLOCKS),
        ];
        cells.extend(latency(row.latency));
        cells.extend([NOT_A_NODE; OF_NODES].map(missing));
        cells.push(number(row.origin_calls));
        sheet.rows.push(cells);
    }
    for row in &table.tiers {
        let mut cells = vec![
            SheetCell::text("tier"),
            SheetCell::text(row.tier.name()),
            number(row.calls),
            number(row.hits),
            number(row.misses),
            number(row.errors),
            number(row.corrupt),
            SheetCell::bytes(Bytes(row.bytes)),
        ];
        cells.extend(latency(row.latency));
        cells.extend([NOT_A_NODE; OF_NODES].map(missing));
        cells.push(missing(NOT_AN_OPERATION));
        sheet.rows.push(cells);
    }
    for row in &table.nodes {
        let mut cells = vec![
            SheetCell::text("node"),
            SheetCell::text(&*row.node),
            number(row.calls),
            number(row.hits),
            number(row.misses),
            number(row.errors),
            missing(NOT_A_TIER),
            missing(NOT_A_TIER),
        ];
        cells.extend(latency(row.latency));
        cells.extend([
            number(row.hedges),
            number(row.deadline_misses),
            SheetCell::text(match row.breaker {
                BreakerState::Closed => "closed",
                BreakerState::Open => "open",
                BreakerState::Probing => "probing",
            }),
            number(row.opened),
            number(row.probes),
            number(row.writes),
            number(row.connections),
            missing(NOT_AN_OPERATION),
        ]);
        sheet.rows.push(cells);
    }
    sheet
}

fn latency(latency: Option<Latency>) -> [SheetCell; 4] {
    let all = latency.map(|latency| {
        [
            latency.mean_seconds,
            latency.p50_seconds,
            latency.p99_seconds,
            latency.max_seconds,
        ]
    });
    match all {
        Some(all) => all.map(SheetCell::latency),
        None => [NEVER_ASKED; 4].map(SheetCell::missing),
    }
}

/// As the value of a label is written: an engine says what its nodes are called.
fn in_quotes(value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', r#"\""#);
    value.replace('\n', r"\n")
}

/// A family for each column that is a number, a sample for each row that has it.
fn open_metrics(sheet: &Sheet, all: &Totals) -> Result<String> {
    let rows = sheet.json();
    let rows = rows.as_array().context("rows are a list")?;
    let mut text = String::new();
    for column in STAT.iter().filter(|column| column.is_number) {
        family(&mut text, "cachewise_tier", column);
        for row in rows {
            let (Some(of), Some(name)) = (row["of"].as_str(), row["name"].as_str()) else {
                continue;
            };
            let (of, name) = (in_quotes(of), in_quotes(name));
            if let Json::Number(value) = &row[column.id] {
                let _ = writeln!(
                    text,
                    "cachewise_tier_{}{{of=\"{of}\",name=\"{name}\"}} {value}",
                    column.id
                );
            }
        }
    }
    let all = totals::json(all);
    for column in &totals::COLUMNS {
        family(&mut text, "cachewise_tier_all", column);
        if let Json::Number(value) = &all[column.id] {
            let _ = writeln!(text, "cachewise_tier_all_{} {value}", column.id);
        }
    }
    text.push_str("# EOF\n");
    Ok(text)
}

/// Writes the metadata lines before the samples of a column.
fn family(text: &mut String, prefix: &str, column: &SheetColumn) {
    let (family, kind) = match column.id.strip_suffix("_total") {
        Some(family) => (family, "counter"),
        None => (column.id, "gauge"),
    };
    let unit = ["bytes", "seconds"]
        .into_iter()
        .find(|unit| family.ends_with(&format!("_{unit}")));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# TYPE {prefix}_{family} {kind}");
    if let Some(unit) = unit {
        let _ = writeln!(text, "# UNIT {prefix}_{family} {unit}");
    }
    let _ = writeln!(text, "# HELP {prefix}_{family} {}.", column.help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_s_name_ends_no_label() {
        assert_eq!(in_quotes("10.0.0.1:6379"), "10.0.0.1:6379");
        assert_eq!(in_quotes("a\"} 1\n\\"), r#"a\"} 1\n\\"#);
    }
}
