//! Everything beside the plots: the title, the key figures, gaps and tables.

use std::fmt::Write;

use cachewise_model::{
    ALL_OTHERS, Field, Figures, Kind, Measured, Part, Row, Statistics, TablePlace, Unit, Value,
    escaped, field,
};
use cachewise_view::{figure, gap_text, length, lost_text, marked, value_text as cell};

use super::page::ReportPage;
use super::plots::resolution;
use crate::html::text;

pub(super) fn head(page: &ReportPage<'_>, title: &str) -> String {
    let summary = page.summary;
    let exact = text(summary.exactness().text());
    let scope = match summary.scope.as_str() {
        "" => String::new(),
        scope => format!(
            "<p>Only {} is counted; memory and waiting are the machine's.</p>\n",
            text(scope)
        ),
    };
    format!(
        "<header>\n<h1>{}</h1>\n<p>{} to {}, {}: {} samples{}</p>\n\
         <p>linux {}, {} pages, counted by {}, {exact}</p>\n{scope}</header>\n",
        text(title),
        text(&summary.begin),
        text(&summary.total.time),
        length(summary.total.elapsed),
        figure(Unit::Count, summary.samples as f64),
        resolution(page),
        text(&summary.total.source.kernel),
        summary.total.page(),
        text(&summary.total.source.backend.name),
    )
}

/// Notes on completeness: gaps, unreadable parts, lost events.
pub(super) fn notes(summary: &Statistics) -> String {
    let gaps = summary.gaps.iter().take(20);
    let gaps = gaps.map(|gap| format!("Gap: {}", gap_text(gap)));
    let more = summary.gaps.len().saturating_sub(20) as u64 + summary.more_gaps;
    let more = (more > 0).then(|| format!("{more} more gaps"));
    let lost = summary.total.lost.iter();
    let lost = lost.map(lost_text);
    let notes: Vec<String> = gaps
        .chain(more)
        .chain(summary.problems.iter().cloned())
        .chain(lost)
        .chain(summary.total.source.backend.notes.iter().cloned())
        .map(|note| format!("<li>{}</li>\n", text(&note)))
        .collect();
    match &notes[..] {
        [] => String::new(),
        _ => format!(
            "<section class=\"notes\" aria-label=\"Notes\"><ul>\n{}</ul></section>\n",
            notes.concat()
        ),
    }
}

/// The key figures.
pub(super) fn figures(summary: &Statistics) -> String {
    let row = summary.total.row();
    let total = |id: &str| field(id).map(|field| cell(&field.of(&row)));
    let bytes = |id: &str| {
        let pages = field(id)?.of(&row).known()?;
        match pages {
            cachewise_model::Datum::Pages(pages) => {
                Some(pages.bytes(summary.total.page()).to_string())
            }
            _ => None,
        }
    };
    let stall = |resource: &str| {
        let stall = (summary.stalls.iter())
            .find(|stall| stall.resource == resource && stall.kind == "some")?;
        let seconds = stall.seconds.known()?;
        let ratio = figure(Unit::Ratio, stall.ratio.known()?);
        Some((
            format!("{} s", figure(Unit::Seconds, seconds)),
            format!("{ratio} of the time"),
        ))
    };
    let mut shown = String::new();
    let mut add = |name: &str, number: Option<String>, what: String| {
        if let Some(number) = number {
            let _ = writeln!(
                shown,
                "<div><dt>{}</dt><dd>{}</dd><dd>{}</dd></div>",
                text(name),
                text(&number),
                text(&what)
            );
        }
    };
    let pages = |id| total(id).map_or(String::new(), |pages| format!("{pages} pages"));
    add(
        "Requested by reads",
        bytes("read_requested_pages"),
        pages("read_requested_pages"),
    );
    add("Hit ratio", total("reuse_ratio"), "cost no I/O".into());
    add(
        "Missed",
        bytes("read_missed_pages"),
        pages("read_missed_pages"),
    );
    add(
        "Direct I/O",
        total("direct_bytes"),
        "bypasses the page cache".into(),
    );
    add(
        "Devices read",
        total("device_read_bytes"),
        total("device_write_bytes").map_or(String::new(), |bytes| format!("and wrote {bytes}")),
    );
    for (name, resource) in [("Waited for I/O", "io"), ("Waited for memory", "memory")] {
        if let Some((seconds, what)) = stall(resource) {
            add(name, Some(seconds), what);
        }
    }
    format!("<dl class=\"figures\">\n{shown}</dl>\n")
}

/// Number of rows in each table.
const TOP: usize = 25;

pub(super) fn tables(summary: &Statistics) -> String {
    let total = &summary.total;
    let all_others = |is: bool, name: String| if is { ALL_OTHERS.to_owned() } else { name };
    let label = |row: &Row, id: &str| {
        field(id).map_or(String::new(), |field| match field.of(row) {
            Value::Missing(_) if id == "path" => {
                let device = row.labels.device.clone().known().unwrap_or_default();
                match row.labels.inode.known() {
                    Some(inode) => format!("? (inode {inode} on {device})"),
                    None => "-".to_owned(),
                }
            }
            value => cell(&value),
        })
    };
    let processes = total.processes.iter().map(|part| {
        let row = total.of_this(part.row());
        let name = all_others(part.is_all_others(), label(&row, "command"));
        (row, name)
    });
    let files = total.files.iter().map(|part| {
        let row = total.of_this(part.row());
        let name = all_others(part.is_all_others(), label(&row, "path"));
        (row, name)
    });
    let cgroups = total.cgroup_rows().map(|row| {
        let name = label(&row, "cgroup");
        (row, name)
    });
    let devices = total.device_rows().map(|row| {
        let name = label(&row, "path");
        (row, name)
    });
    let parts = [
        part("Processes", Part::Process, processes.collect()),
        part("Files", Part::File, files.collect()),
        part("Control groups", Part::Cgroup, cgroups.collect()),
        part("Devices", Part::Device, devices.collect()),
    ]
    .concat();
    format!("{}{parts}{}", stalls(summary), numbers(summary))
}

/// Rows by activity, as they come.
fn part(title: &str, kind: Part, rows: Vec<(Row, String)>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns = kind.columns(TablePlace::Recording).into_iter();
    let fields: Vec<&Field> = columns.map(|shown| shown.field).collect();
    let mut body = String::new();
    for (row, name) in rows.iter().take(TOP) {
        body.push_str("<tr>");
        for field in &fields {
            let _ = write!(body, "<td>{}</td>", value(&field.of(row)));
        }
        let _ = writeln!(
            body,
            "<th scope=\"row\" class=\"name\"><code>{}</code></th></tr>",
            text(name)
        );
    }
    let heads = fields.iter().map(|field| {
        format!(
            "<th scope=\"col\" title=\"{}\">{}</th>",
            text(field.help),
            text(field.header)
        )
    });
    let more = match rows.len().saturating_sub(TOP) {
        0 => String::new(),
        more => format!("<p class=\"hint\">and {more} more: cachewise report --json has all</p>\n"),
    };
    let id = title.to_ascii_lowercase().replace(' ', "-");
    format!(
        "<section class=\"card\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n<div class=\"scroll\"><table>\n\
         <thead><tr>{}<th scope=\"col\" class=\"name\">NAME</th></tr></thead>\n<tbody>\n{body}</tbody></table></div>\n\
         {more}</section>\n",
        heads.collect::<String>()
    )
}

/// Returns a value, or a mark for a missing value with the reason as its tooltip.
fn value(value: &Value) -> String {
    match value {
        Measured::Missing(missing) => format!(
            "<span class=\"missing\" title=\"{}\">{}</span>",
            text(missing.reason().words()),
            missing.mark()
        ),
        value => text(&cell(value)).into_owned(),
    }
}

fn stalls(summary: &Statistics) -> String {
    if summary
        .stalls
        .iter()
        .all(|stall| stall.seconds.known().is_none())
    {
        return String::new();
    }
    let number = |number: Measured<f64>, unit| marked(&number, |number| figure(unit, *number));
    let mut body = String::new();
    for stall in &summary.stalls {
        let worst = match stall.worst_ratio.known() {
            Some(worst) if worst > 0.0 => stall.worst_time.clone().known().unwrap_or_default(),
            _ => String::new(),
        };
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{} {}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            stall.kind,
            stall.resource,
            number(stall.seconds, Unit::Seconds),
            number(stall.ratio, Unit::Ratio),
            number(stall.worst_ratio, Unit::Ratio),
            text(&worst)
        );
    }
    format!(
        "<section class=\"card\" aria-labelledby=\"waiting\">\n<h2 id=\"waiting\">Time lost to waiting</h2>\n\
         <div class=\"scroll\"><table>\n<caption>some: at least one task waited; full: all did (PSI)</caption>\n\
         <thead><tr><th scope=\"col\" class=\"name\">waiting for</th><th scope=\"col\">SECONDS</th>\
         <th scope=\"col\">OF ALL</th><th scope=\"col\">WORST SAMPLE</th><th scope=\"col\">AT</th></tr></thead>\n\
         <tbody>\n{body}</tbody></table></div></section>\n"
    )
}

fn numbers(summary: &Statistics) -> String {
    let columns: [fn(&Figures) -> f64; 6] = [
        |figures| figures.min,
        |figures| figures.mean,
        |figures| figures.p50,
        |figures| figures.p90,
        |figures| figures.p99,
        |figures| figures.max,
    ];
    let mut body = String::new();
    for spread in &summary.spreads {
        let unit = spread.field.unit;
        let Some(figures) = spread.figures.known() else {
            continue;
        };
        // A field that is always zero gets no row.
        if figures.max == 0.0 {
            continue;
        }
        let estimated = if spread.figures.estimate().is_some() {
            "~"
        } else {
            ""
        };
        let second = if spread.is_rate() { "/s" } else { "" };
        let _ = write!(
            body,
            "<tr><th scope=\"row\" title=\"{}\">{}{second}</th>",
            text(spread.field.help),
            text(spread.field.header)
        );
        for of in columns {
            let _ = write!(body, "<td>{estimated}{}</td>", figure(unit, of(&figures)));
        }
        let total = match spread.field.kind {
            Kind::Counter => value(&spread.total),
            _ if unit == Unit::Ratio => value(&spread.total),
            _ => String::new(),
        };
        let help = escaped(&spread.field.help);
        let _ = writeln!(
            body,
            "<td>{total}</td><td class=\"meaning\">{}</td></tr>",
            text(&help)
        );
    }
    format!(
        "<section class=\"card\" aria-labelledby=\"numbers\">\n<h2 id=\"numbers\">Numbers</h2>\n<div class=\"scroll\"><table>\n\
         <caption>Over all samples: counters by the second, with what they add up to; gauges as they were. What never \
         happened is left out.</caption>\n\
         <thead><tr><th scope=\"col\" class=\"name\">what</th><th scope=\"col\">MIN</th><th scope=\"col\">MEAN</th>\
         <th scope=\"col\">P50</th><th scope=\"col\">P90</th><th scope=\"col\">P99</th><th scope=\"col\">MAX</th>\
         <th scope=\"col\">IN ALL</th><th scope=\"col\" class=\"meaning\">meaning</th></tr></thead>\n\
         <tbody>\n{body}</tbody></table></div></section>\n"
    )
}
