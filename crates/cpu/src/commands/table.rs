//! `cpu table`: cache levels in sysfs and as measured.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_cpu::measure::chase::PageKind;
use cachewise_cpu::measure::estimate::{Estimate, Trust};
use cachewise_cpu::measure::order::Order;
use cachewise_cpu::measure::sweep::Curve;
use cachewise_cpu::measure::tlb::TlbStep;
use cachewise_cpu::{Hierarchy, LatencySource, Level, TableOptions, Topology};
use cachewise_model::{Missing, Reason, Unit};
use cachewise_units::{Bytes, escaped};
use cachewise_view::{
    Format, PlotLine, PlotMark, Sheet, SheetCell, SheetColumns, Style, figure, latency,
    latency_svg, latency_text, length,
};
use serde_json::{Map, Value as Json, json};

use super::columns::TABLE;
use super::quota::Quota;
use super::{CommandOutput, check_format, seconds, write};
use crate::commands::arguments::CpuTable;
use cachewise_cli::output::{Sink, Stream, tell, write_whole};
use cachewise_cli::sinks::Sinks;

/// Minimum of `--largest`: less memory has no second level.
const LEAST: Bytes = Bytes(64 << 10);

const NOT_TOLD: Missing = Missing::NotOffered(Reason::NoSuchCache);
const NOT_FOUND: Missing = Missing::Unknown(Reason::NoSuchLevel);
const NOT_REACHED: Missing = Missing::Unknown(Reason::NotReached);
const NO_END: Missing = Missing::NotOffered(Reason::NoNextLevel);
const NOT_OF_THIS: Missing = Missing::NotOffered(Reason::NotOfThisRow);

/// Measures and shows it.
pub fn table(arguments: &CpuTable) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let sinks = match arguments.csv {
        false => sinks,
        true => Sinks::from_iter(sinks.into_iter().map(|mut sink: Sink| {
            sink.format = Format::Csv;
            sink
        })),
    };
    check_format(&sinks)?;
    if let Some(largest) = arguments.largest.filter(|largest| *largest < LEAST) {
        bail!("--largest {largest} is too small to find levels: use at least {LEAST}");
    }
    let topology = Topology::read(&arguments.sys)?;
    let options = TableOptions {
        cpu: arguments.cpu,
        largest: arguments.largest,
        pages: match arguments.huge {
            true => PageKind::Huge,
            false => PageKind::Small,
        },
        page: cachewise_sys::page_size(),
        time: arguments.time.get(),
    };
    let quota = Quota::now();
    let mut found = Hierarchy::measure(&topology, &options)?;
    found.notes.extend(quota.note());
    let (lines, marks) = (lines(&found.curves), marks(&found));
    if let Some(path) = &arguments.plot {
        let name = escaped(path);
        let svg = latency_svg(&lines, &marks)?;
        write_whole(path, svg.as_bytes())
            .with_context(|| format!("cannot write the plot to {name}"))?;
        tell(&format!("plotted the curves to {name}"));
    }
    let is_terminal = sinks.have_terminal();
    let columns = arguments.columns.as_ref();
    write(sinks, columns, |style| CommandOutput {
        text: text(&found, columns, (&lines, &marks), style, is_terminal),
        sheet: sheet(&found),
        members: members(&found),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn lines(curves: &[Curve]) -> Vec<PlotLine> {
    let line = |curve: &Curve| {
        let points = curve.points.iter().filter_map(|point| {
            let found = point.cached()?;
            Some((point.size as f64, found.value * 1e-9))
        });
        PlotLine {
            name: order_name(curve.order).into(),
            points: points.collect(),
        }
    };
    curves.iter().map(line).collect()
}

const fn order_name(order: Order) -> &'static str {
    match order {
        Order::PageLocal => "page-local",
        Order::Random => "random",
    }
}

fn marks(found: &Hierarchy) -> Vec<PlotMark> {
    let told = found.levels.iter().filter_map(|level| {
        let size = level.told.as_ref()?.size?;
        Some(PlotMark {
            name: level.name.clone(),
            size: size.0 as f64,
        })
    });
    told.collect()
}

fn text(
    found: &Hierarchy,
    columns: Option<&SheetColumns>,
    (lines, marks): (&[PlotLine], &[PlotMark]),
    style: Style,
    is_terminal: bool,
) -> String {
    let clock = found.cycle_ns.map_or("clock ?".to_owned(), |cycle| {
        format!("{} GHz", figure(Unit::Factor, 1.0 / cycle.value))
    });
    let head = format!(
        "CPU {}, {clock}: {} levels in the curve, found in {}",
        found.cpu,
        found.found,
        length(found.took)
    );
    let table = sheet(found).chosen(columns).table(style);
    let mut text = format!("{}\n\n{table}", style.bold(&head));
    text += "\n* rounds differ by more than a tenth   ! contended: the range is what is known\n";
    for step in &found.tlb {
        let cycles = found.cycles(step.cost.value);
        let cycles = cycles.map_or(String::new(), |number| {
            format!(", {} cycles", cycles_text(number))
        });
        let (below, above) = step.pages;
        let [below, above] = [below, above].map(|pages| figure(Unit::Pages, pages as f64));
        let cost = shown(&step.cost, ns);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "dTLB: between {below} and {above} pages a load begins to cost {cost}{cycles} more"
        );
    }
    if is_terminal {
        text.push('\n');
        text += &latency_text(lines, marks, style.picture_width());
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// A figure with its mark, as a range where only that is known.
fn shown(estimate: &Estimate, unit: impl Fn(f64) -> String) -> String {
    match estimate.trust() {
        Trust::Good => unit(estimate.value),
        Trust::Fair => format!("{}*", unit(estimate.value)),
        Trust::Contended => format!("{} to {}!", unit(estimate.low), unit(estimate.high)),
    }
}

fn ns(ns: f64) -> String {
    latency(ns * 1e-9)
}

fn cycles_text(cycles: f64) -> String {
    figure(Unit::Count, cycles)
}

fn size(bytes: f64) -> String {
    Bytes(bytes.round() as u64).to_string()
}

/// The value, its range and its trust, in as many cells.
fn measured(
    estimate: Option<&Estimate>,
    missing: Missing,
    cell: impl Fn(f64) -> Json,
    unit: impl Fn(f64) -> String,
) -> [SheetCell; 4] {
    match estimate {
        None => [(); 4].map(|()| SheetCell::missing(missing)),
        Some(found) => [
            SheetCell::with_text(cell(found.value), shown(found, &unit)),
            SheetCell::with_text(cell(found.low), unit(found.low)),
            SheetCell::with_text(cell(found.high), unit(found.high)),
            SheetCell::text(found.trust().id()),
        ],
    }
}

fn sheet(found: &Hierarchy) -> Sheet {
    let mut sheet = Sheet::new(&TABLE);
    sheet
        .rows
        .extend(found.levels.iter().map(|level| row(found, level)));
    sheet.rows.extend(
        found
            .tlb
            .iter()
            .enumerate()
            .map(|(place, step)| tlb_row(found, place, step)),
    );
    sheet
}

fn row(found: &Hierarchy, level: &Level) -> Vec<SheetCell> {
    let told = level.told.as_ref();
    let number = |value| SheetCell::or_missing(value, NOT_TOLD, SheetCell::count);
    let bytes = |value| SheetCell::or_missing(value, NOT_TOLD, SheetCell::bytes);
    let end = match level.name.as_str() {
        "memory" => NO_END,
        _ => NOT_FOUND,
    };
    let mut cells = vec![
        SheetCell::text(level.name.clone()),
        bytes(told.and_then(|told| told.size)),
        bytes(told.and_then(|told| told.line)),
        number(told.and_then(|told| told.ways).map(u64::from)),
        number(level.shared_by.map(|(cores, _)| cores as u64)),
        number(level.shared_by.map(|(_, threads)| threads as u64)),
    ];
    let whole = |bytes: f64| Json::from(bytes.round() as u64);
    cells.extend(measured(level.capacity.as_ref(), end, whole, size));
    let missing = match level.seen {
        LatencySource::NotReached => NOT_REACHED,
        LatencySource::Curve | LatencySource::SysfsSize => NOT_FOUND,
    };
    for latency in [&level.local, &level.random] {
        let [value, low, high, trust] =
            measured(latency.as_ref(), missing, |ns| seconds(ns).into(), ns);
        let cycles = latency.and_then(|latency| found.cycles(latency.value));
        let is_range = latency.is_some_and(|found| found.trust() == Trust::Contended);
        let cycles = SheetCell::or_missing(cycles, missing, |cycles| {
            let mark = if is_range { "!" } else { "" };
            let text = format!("{}{mark}", cycles_text(cycles));
            SheetCell::with_text((cycles * 100.0).round() / 100.0, text)
        });
        cells.extend([value, low, high, cycles, trust]);
    }
    cells.push(SheetCell::missing(NOT_OF_THIS));
    cells.push(SheetCell::text(match level.seen {
        LatencySource::Curve => "found",
        LatencySource::SysfsSize => "told",
        LatencySource::NotReached => "not_reached",
    }));
    cells
}

fn tlb_row(found: &Hierarchy, place: usize, step: &TlbStep) -> Vec<SheetCell> {
    let page = cachewise_sys::page_size().get() as f64;
    let (below, above) = step.pages;
    let reach = Estimate {
        value: (below as f64 * above as f64).sqrt() * page,
        low: below as f64 * page,
        high: above as f64 * page,
    };
    let not = || SheetCell::missing(NOT_OF_THIS);
    let mut cells = vec![SheetCell::text(format!("dTLB {}", place + 1))];
    cells.extend((0..5).map(|_| not()));
    let whole = |bytes: f64| Json::from(bytes.round() as u64);
    cells.extend([
        // It is known between two numbers of pages that were tried, and no better.
        SheetCell::with_text(
            whole(reach.value),
            format!("{} to {}", size(reach.low), size(reach.high)),
        ),
        SheetCell::with_text(whole(reach.low), size(reach.low)),
        SheetCell::with_text(whole(reach.high), size(reach.high)),
        SheetCell::text(Trust::Good.id()),
    ]);
    let [value, low, high, trust] = measured(
        Some(&step.cost),
        NOT_FOUND,
        |ns| seconds(ns).into(),
        |cost| format!("+{}", ns(cost)),
    );
    let cycles = SheetCell::or_missing(found.cycles(step.cost.value), NOT_FOUND, |cycles| {
        let text = format!("+{}", cycles_text(cycles));
        SheetCell::with_text((cycles * 100.0).round() / 100.0, text)
    });
    cells.extend([value, low, high, cycles, trust]);
    cells.extend((0..5).map(|_| not()));
    cells.push(SheetCell::count(below as u64));
    cells.push(SheetCell::text("found"));
    cells
}

fn members(found: &Hierarchy) -> Map<String, Json> {
    let curve = |curve: &Curve| {
        let points = curve.points.iter().filter_map(|point| {
            let (low, middle) = (point.cached()?, point.uncached()?);
            Some(json!({
                "size_bytes": point.size,
                "tenth_percentile_seconds": seconds(low.value),
                "median_seconds": seconds(middle.value),
                "trust": low.trust().id(),
            }))
        });
        json!({ "order": order_name(curve.order), "points": points.collect::<Vec<Json>>() })
    };
    Map::from_iter([
        ("cpu".to_owned(), found.cpu.into()),
        (
            "cycle_seconds".to_owned(),
            found.cycle_ns.map(|cycle| cycle.value * 1e-9).into(),
        ),
        ("levels_found".to_owned(), found.found.into()),
        (
            "elapsed_seconds".to_owned(),
            found.took.as_secs_f64().into(),
        ),
        ("levels".to_owned(), sheet(found).json()),
        (
            "curves".to_owned(),
            found.curves.iter().map(curve).collect(),
        ),
        ("notes".to_owned(), found.notes.clone().into()),
    ])
}
