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
use cachewise_model::{Missing, Reason};
use cachewise_units::{Bytes, escaped};
use cachewise_view::{
    Format, PlotLine, PlotMark, Sheet, SheetCell, SheetColumn, Style, latency_svg, latency_text,
};
use serde_json::{Map, Value as Json, json};

use super::quota::Quota;
use super::{CommandOutput, check_format, seconds, write};
use crate::commands::arguments::CpuTable;
use cachewise_cli::output::{Sink, Stream, tell, write_whole};
use cachewise_cli::sinks::Sinks;

/// Minimum of `--largest`: less memory has no second level.
const LEAST: Bytes = Bytes(64 << 10);

/// A row is a level, or a step in the cost of address translation.
pub const COLUMNS: [SheetColumn; 22] = [
    SheetColumn::new(
        "name",
        "LEVEL",
        false,
        "The level: a cache by its name, memory, or dTLB: a step of address translation",
    ),
    SheetColumn::new(
        "told_size_bytes",
        "SYSFS",
        true,
        "Size of the cache, from sysfs",
    ),
    SheetColumn::new(
        "line_bytes",
        "LINE-SIZE",
        true,
        "Size of a cache line, from sysfs",
    ),
    SheetColumn::new(
        "ways",
        "WAYS",
        true,
        "Associativity: number of ways, from sysfs",
    ),
    SheetColumn::new(
        "cores",
        "CORES",
        true,
        "Number of cores that share it, from sysfs",
    ),
    SheetColumn::new(
        "threads",
        "THREADS",
        true,
        "Number of hardware threads that share it, from sysfs",
    ),
    SheetColumn::new(
        "size_bytes",
        "MEASURED",
        true,
        "Measured size: where latency is half-way up to the next level; of dTLB: the memory that its pages cover",
    ),
    SheetColumn::new(
        "size_low_bytes",
        "",
        true,
        "Minimum of the measured size over rounds",
    ),
    SheetColumn::new(
        "size_high_bytes",
        "",
        true,
        "Maximum of the measured size over rounds",
    ),
    SheetColumn::new(
        "size_trust",
        "",
        false,
        "How far rounds agree on it: good, fair, contended",
    ),
    SheetColumn::new(
        "local_seconds",
        "PAGE-LOCAL",
        true,
        "Latency of a dependent load, page by page; of dTLB: additional latency of a load beyond it",
    ),
    SheetColumn::new("local_low_seconds", "", true, "The lower end of the rounds"),
    SheetColumn::new(
        "local_high_seconds",
        "",
        true,
        "The upper end of the rounds",
    ),
    SheetColumn::new("local_cycles", "LOCAL-CYC", true, "The same in core cycles"),
    SheetColumn::new(
        "local_trust",
        "",
        false,
        "How far rounds agree on it: good, fair, contended",
    ),
    SheetColumn::new(
        "random_seconds",
        "RANDOM",
        true,
        "Latency of a dependent load in random order",
    ),
    SheetColumn::new(
        "random_low_seconds",
        "",
        true,
        "The lower end of the rounds",
    ),
    SheetColumn::new(
        "random_high_seconds",
        "",
        true,
        "The upper end of the rounds",
    ),
    SheetColumn::new(
        "random_cycles",
        "RANDOM-CYC",
        true,
        "The same in core cycles",
    ),
    SheetColumn::new(
        "random_trust",
        "",
        false,
        "How far rounds agree on it: good, fair, contended",
    ),
    SheetColumn::new(
        "measured_pages",
        "",
        true,
        "Of dTLB: maximum number of pages below the step",
    ),
    SheetColumn::new(
        "read_at",
        "",
        false,
        "Source of the latency: found (a level of the curve), told (at the sizes of sysfs) or not_reached (beyond the largest size)",
    ),
];

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
    write(sinks, |style| CommandOutput {
        text: text(&found, &lines, &marks, style, is_terminal),
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
    lines: &[PlotLine],
    marks: &[PlotMark],
    style: Style,
    is_terminal: bool,
) -> String {
    let clock = found.cycle_ns.map_or("clock ?".to_owned(), |cycle| {
        format!("{:.2} GHz", 1.0 / cycle.value)
    });
    let head = format!(
        "CPU {}, {clock}: {} levels in the curve, found in {:.1} s",
        found.cpu,
        found.found,
        found.took.as_secs_f64()
    );
    let mut text = format!("{}\n\n{}", style.bold(&head), sheet(found).table(style));
    text += "\n* rounds differ by more than a tenth   ! contended: the range is what is known\n";
    for step in &found.tlb {
        let cycles = found.cycles(step.cost.value);
        let cycles = cycles.map_or(String::new(), |cycles| format!(", {cycles:.0} cycles"));
        let (below, above) = step.pages;
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
    match ns {
        ns if ns < 100.0 => format!("{ns:.2} ns"),
        _ => format!("{ns:.0} ns"),
    }
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
            SheetCell::number(cell(found.value), shown(found, unit)),
            SheetCell::number(cell(found.low), ""),
            SheetCell::number(cell(found.high), ""),
            SheetCell::text(found.trust().id()),
        ],
    }
}

fn sheet(found: &Hierarchy) -> Sheet {
    let mut sheet = Sheet::new(&COLUMNS);
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
    let number = |value: Option<u64>| {
        SheetCell::or_missing(value, NOT_TOLD, |value| {
            SheetCell::number(value, value.to_string())
        })
    };
    let bytes = |value: Option<Bytes>| {
        SheetCell::or_missing(value, NOT_TOLD, |value| {
            SheetCell::number(value.0, value.to_string())
        })
    };
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
            let text = match is_range {
                true => format!("{cycles:.0}!"),
                false => format!("{cycles:.1}"),
            };
            SheetCell::number((cycles * 100.0).round() / 100.0, text)
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
        SheetCell::number(
            whole(reach.value),
            format!("{} to {}", size(reach.low), size(reach.high)),
        ),
        SheetCell::number(whole(reach.low), ""),
        SheetCell::number(whole(reach.high), ""),
        SheetCell::text(Trust::Good.id()),
    ]);
    let [value, low, high, trust] = measured(
        Some(&step.cost),
        NOT_FOUND,
        |ns| seconds(ns).into(),
        |cost| format!("+{}", ns(cost)),
    );
    let cycles = SheetCell::or_missing(found.cycles(step.cost.value), NOT_FOUND, |cycles| {
        SheetCell::number((cycles * 100.0).round() / 100.0, format!("+{cycles:.0}"))
    });
    cells.extend([value, low, high, cycles, trust]);
    cells.extend((0..5).map(|_| not()));
    cells.push(SheetCell::number(below as u64, ""));
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
