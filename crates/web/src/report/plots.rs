//! The plots: which there are, and their numbers.

use std::fmt::Write;

use cachewise_model::{Datum, GapKind, Kind, Measured, Row, field};
use cachewise_view::{ReadPart, figure, length};
use serde_json::{Value as Json, json};

use super::page::ReportPage;
use crate::html::{self, text};

/// A plot and its lines, each the sum of some fields.
struct Plot {
    title: &'static str,
    what: &'static str,
    scale: Scale,
    series: &'static [(&'static str, &'static [&'static str])],
}

/// The vertical scale of a plot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Bytes as they were.
    Bytes,
    /// Bytes a second; pages count with their size.
    Rate,
    /// Things a second.
    Count,
    /// 0 to 1, as high as it gets.
    Share,
    /// 0 to 1, always the whole height.
    Ratio,
}

/// The plot whose lines are the parts of reads, stacked.
const READS: &str = "Reads";

const PLOTS: [Plot; 8] = [
    Plot {
        title: READS,
        what: "requested bytes by source",
        scale: Scale::Rate,
        series: &[
            (ReadPart::Cached.name(), &["read_cached_pages"]),
            (ReadPart::ReadAhead.name(), &["readahead_hit_pages"]),
            (ReadPart::Missed.name(), &["read_missed_pages"]),
            (ReadPart::Direct.name(), &["direct_read_bytes"]),
        ],
    },
    Plot {
        title: "Hit ratio",
        what: "share of requested pages that cost no I/O",
        scale: Scale::Ratio,
        series: &[("hit ratio", &["reuse_ratio"])],
    },
    Plot {
        title: "Devices",
        what: "bytes that storage moved, for any requester",
        scale: Scale::Rate,
        series: &[
            ("read", &["device_read_bytes"]),
            ("written", &["device_write_bytes"]),
        ],
    },
    Plot {
        title: "Time lost to waiting",
        what: "pressure stall information (PSI)",
        scale: Scale::Share,
        series: &[
            ("I/O, some", &["psi_io_some_ratio"]),
            ("memory, some", &["psi_memory_some_ratio"]),
            ("CPU, some", &["psi_cpu_some_ratio"]),
            ("I/O, all", &["psi_io_full_ratio"]),
            ("memory, all", &["psi_memory_full_ratio"]),
        ],
    },
    Plot {
        title: "Memory",
        what: "what it is used for",
        scale: Scale::Bytes,
        series: &[
            ("page cache", &["cached_bytes", "buffers_bytes"]),
            ("anonymous", &["anon_bytes"]),
            ("available", &["available_bytes"]),
            ("free", &["free_bytes"]),
            ("swap used", &["swap_used_bytes"]),
        ],
    },
    Plot {
        title: "Dirty memory",
        what: "waiting to be written back, and on its way",
        scale: Scale::Bytes,
        series: &[
            ("dirty", &["dirty_bytes"]),
            ("being written", &["writeback_bytes"]),
        ],
    },
    Plot {
        title: "Reclaim",
        what: "pages that reclaim looked at and took, and that came back",
        scale: Scale::Count,
        series: &[
            ("taken", &["reclaimed_pages"]),
            ("refaults, files", &["file_refault_pages"]),
            ("looked at", &["scanned_pages"]),
            ("refaults, anonymous", &["anon_refault_pages"]),
        ],
    },
    Plot {
        title: "Faults",
        what: "page faults on files, and those that waited for a device",
        scale: Scale::Count,
        series: &[
            ("on files", &["fault_requests"]),
            ("major", &["major_faults"]),
        ],
    },
];

/// A table beside a plot has no more rows: it is there to be read, not to be complete.
const ROWS: usize = 40;

/// The plots as HTML, and their numbers for the script.
pub(super) fn plots(page: &ReportPage<'_>) -> (String, String) {
    let times = Times::of_page(page);
    let mut shown = String::new();
    let mut data: Vec<Json> = Vec::new();
    for plot in &PLOTS {
        let lines: Vec<(&str, Vec<Option<f64>>)> = (plot.series.iter())
            .map(|(label, ids)| (*label, line(page, &times, ids, plot.scale)))
            .filter(|(_, values)| values.iter().flatten().any(|value| *value > 0.0))
            .collect();
        if lines.is_empty() {
            continue;
        }
        let place = data.len();
        let _ = write!(
            shown,
            "<figure>\n<figcaption>{title} <small>{what}</small> <span class=\"at\"></span></figcaption>\n\
             <div class=\"plot\" id=\"plot-{place}\" tabindex=\"0\" role=\"img\" aria-label=\"{title}: {labels} over \
             time; arrow keys step through it, the table below has the numbers\"></div>\n{table}</figure>\n",
            title = plot.title,
            what = plot.what,
            labels = lines
                .iter()
                .map(|(label, _)| *label)
                .collect::<Vec<_>>()
                .join(", "),
            table = table(&times, &lines, plot),
        );
        let series = lines.iter().map(|(label, values)| {
            let values: Vec<Option<f64>> = values.iter().map(|value| value.map(short)).collect();
            let is_it = |part: &ReadPart| plot.title == READS && part.name() == *label;
            let part = ReadPart::ALL.into_iter().find(is_it);
            json!({
                "label": label,
                "values": values,
                "color": part.map(ReadPart::css_name),
                "stacked": part.is_some_and(|part| part != ReadPart::Direct),
            })
        });
        let (unit, most) = match plot.scale {
            Scale::Bytes => ("bytes", None),
            Scale::Rate => ("rate", None),
            Scale::Count => ("count", None),
            Scale::Share => ("ratio", None),
            Scale::Ratio => ("ratio", Some(1.0)),
        };
        data.push(json!({ "unit": unit, "most": most, "series": series.collect::<Json>() }));
    }
    let gaps = page.summary.gaps.iter().filter_map(|gap| {
        // A clock that was set has no length on its own axis.
        let shown = gap.kind != GapKind::ClockSet;
        let end = |end: &Measured<String>| seconds(end.as_ref().known()?);
        Some([end(&gap.begin)?, end(&gap.end)?]).filter(|_| shown)
    });
    let data = json!({
        "times": times.at.iter().map(|(time, _)| *time).collect::<Json>(),
        "gaps": gaps.map(|gap| json!(gap)).collect::<Json>(),
        "plots": data,
    });
    let each = match page.samples_each {
        0 | 1 => String::new(),
        each => {
            format!(" Each point is of {each} samples: shorter peaks are in the table of numbers.")
        }
    };
    let shown = match shown.is_empty() {
        true => String::new(),
        false => format!(
            "<section class=\"plots\" aria-labelledby=\"over-time\">\n<h2 id=\"over-time\">Over time</h2>\n\
             <p class=\"hint\">Drag to look closer, all plots together; double-click for the whole. \
             <button id=\"whole\" hidden disabled>Whole time</button>{each}</p>\n\
             <p class=\"skip\" id=\"told\" aria-live=\"polite\"></p>\n{shown}</section>\n"
        ),
    };
    (shown, html::json(&data))
}

/// The points in time, each with the row that ends there; none where time is missing.
struct Times<'a> {
    at: Vec<(f64, Option<&'a Row>)>,
}

impl<'a> Times<'a> {
    fn of_page(page: &ReportPage<'a>) -> Times<'a> {
        let mut at: Vec<(f64, Option<&Row>)> = Vec::with_capacity(page.points.len());
        let mut last = f64::NEG_INFINITY;
        for (row, is_apart) in page.points {
            let time = row.labels.time.as_ref().known();
            let Some(end) = time.and_then(|time| seconds(time)) else {
                continue;
            };
            // A clock that was set back would draw lines backwards.
            let mut push = |time: f64, row| {
                let time = time.max(last + 0.001);
                at.push(((time * 1e3).round() / 1e3, row));
                last = time;
            };
            if *is_apart {
                push(end - row.elapsed.as_secs_f64(), None);
            }
            push(end, Some(row));
        }
        Times { at }
    }
}

/// RFC 3339 in UTC as seconds since 1970.
fn seconds(time: &str) -> Option<f64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(time.as_millisecond() as f64 / 1e3)
}

fn line(page: &ReportPage<'_>, times: &Times<'_>, ids: &[&str], scale: Scale) -> Vec<Option<f64>> {
    let value = |row: &Row| {
        let numbers = ids.iter().map(|id| {
            let field = field(id)?;
            let number = match field.of(row).known()? {
                Datum::Pages(pages) if scale == Scale::Rate => {
                    pages.bytes(page.summary.total.page()).0 as f64
                }
                Datum::Pages(pages) => pages.0 as f64,
                Datum::Bytes(bytes) => bytes.0 as f64,
                Datum::Count(count) => count as f64,
                Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => number,
                Datum::Ratio(ratio) => ratio.get(),
                Datum::Id(_) | Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => return None,
            };
            Some(match field.kind {
                Kind::Counter => number / row.elapsed.as_secs_f64(),
                Kind::Gauge | Kind::Label => number,
            })
        });
        let sum: Option<f64> = numbers.sum();
        sum.filter(|sum| sum.is_finite())
    };
    times.at.iter().map(|(_, row)| value((*row)?)).collect()
}

/// Four digits are more than a plot shows, and keep the page small.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 10_f64.powf(3.0 - value.abs().log10().floor());
    (value * digits).round() / digits
}

/// Returns a plot's numbers as a short table, for readers without scripts and for screen readers.
fn table(times: &Times<'_>, lines: &[(&str, Vec<Option<f64>>)], plot: &Plot) -> String {
    let count = times.at.len();
    let each = count.div_ceil(ROWS).max(1);
    let unit = match plot.scale {
        Scale::Bytes | Scale::Rate => cachewise_model::Unit::Bytes,
        Scale::Count => cachewise_model::Unit::Count,
        Scale::Share | Scale::Ratio => cachewise_model::Unit::Ratio,
    };
    let second = match plot.scale {
        Scale::Rate | Scale::Count => "/s",
        _ => "",
    };
    let mut rows = String::new();
    for begin in (0..count).step_by(each) {
        let end = (begin + each).min(count);
        let time = times.at[end - 1].0;
        let time = jiff::Timestamp::from_millisecond((time * 1e3) as i64);
        let time = time.map_or_else(|_| String::new(), |time| format!("{time:.0}"));
        let _ = write!(rows, "<tr><th scope=\"row\">{}</th>", text(&time));
        for (_, values) in lines {
            let known: Vec<f64> = values[begin..end].iter().flatten().copied().collect();
            let cell = match known.len() {
                0 => "<span class=\"missing\">?</span>".to_owned(),
                count => {
                    let mean = known.iter().sum::<f64>() / count as f64;
                    format!("{}{second}", figure(unit, mean))
                }
            };
            let _ = write!(rows, "<td>{cell}</td>");
        }
        rows.push_str("</tr>\n");
    }
    let heads = lines
        .iter()
        .map(|(label, _)| format!("<th scope=\"col\">{label}</th>"));
    let caption = match each {
        1 => "Each point".to_owned(),
        each => format!("Means of {each} points each"),
    };
    format!(
        "<details><summary>As a table</summary><div class=\"scroll\"><table>\n<caption>{caption}; up to the time in the \
         first column, UTC</caption>\n<thead><tr><th scope=\"col\" class=\"name\">until</th>{}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div></details>\n",
        heads.collect::<String>()
    )
}

/// How long a point is, for people.
pub(super) fn resolution(page: &ReportPage<'_>) -> String {
    let interval = page.summary.interval;
    let each = u32::try_from(page.samples_each).unwrap_or(u32::MAX);
    match interval.is_zero() {
        true => String::new(),
        false => format!(", a point each {}", length(interval.saturating_mul(each))),
    }
}
