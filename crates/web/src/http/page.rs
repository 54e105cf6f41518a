//! The page, with numbers in it already: without JavaScript it is complete, and stands still.

use std::fmt::Write;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use cachewise_model::{Counter, Diagnosis, Exactness, Interval, Kind, ORDER, Row, Unit, field};
use cachewise_units::{Bytes, PageSize};
use cachewise_view::{ReadPart, headline_text, lost_text, per_second, share};
use serde::Deserialize;
use serde_json::Value as Json;

use super::site::Site;
use crate::columns::{TABLES, Table, greatest};
use crate::html::{page_link, text as escape};

const TEMPLATE: &str = include_str!("../../assets/index.html");
/// The stacks, where they are watched.
const FLAME: &str = "<section aria-labelledby=\"flame-title\">\n\
    <h2 id=\"flame-title\">Code that waits for storage or evicts <small>since the start</small></h2>\n\
    <a href=\"/flame.svg\"><img id=\"flame\" class=\"flame\" src=\"/flame.svg\" alt=\"Flame graph of waited time\"></a>\n\
    </section>\n";
const MOST_ROWS: usize = 50;
const MEMBERS: usize = 60;

/// Which directory the map shows.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    path: Option<String>,
}

/// The page.
pub(super) async fn page(
    State(site): State<Site>,
    query: Result<Query<Shown>, QueryRejection>,
) -> Response {
    let path = query.ok().and_then(|Query(shown)| shown.path);
    let path = path
        .filter(|path| path.starts_with('/'))
        .unwrap_or_else(|| "/".into());
    let interval = site.options.interval;
    let gathered = site.asking.ask(move |gathered, watching| {
        // Some seconds, so that a page that stands still shows more than a moment.
        let time = interval.max(Duration::from_secs(5));
        let interval = gathered.over_or_begin(time, watching)?;
        let exactness = gathered.exactness();
        let lost: Vec<String> = gathered.lost().iter().map(lost_text).collect();
        Ok((interval, gathered.findings().clone(), exactness, lost))
    });
    let gathered = gathered.await.and_then(|answer| answer);
    // A browser should not wait for a census before it shows anything.
    let cache = site.survey.cache_soon().await;
    let machine = &site.machine;
    let exactness = match &gathered {
        Ok((_, _, exactness, _)) => *exactness,
        Err(_) => Exactness::new(machine.source.backend.exact, &[]),
    };
    let mut values: Vec<(&str, String)> = vec![
        ("hostname", escape(&machine.source.hostname).into_owned()),
        ("kernel", escape(&machine.source.kernel).into_owned()),
        ("version", escape(machine.version).into_owned()),
        ("page_size", machine.source.page().get().to_string()),
        ("exactness", exactness.id().to_owned()),
        ("backend", escape(exactness.text()).into_owned()),
        (
            "complete",
            match exactness {
                Exactness::Incomplete => "",
                _ => " hidden",
            }
            .to_owned(),
        ),
        ("notes", notes(&machine.source.backend.notes)),
        (
            "lost",
            gathered
                .as_ref()
                .map_or_else(|_| String::new(), |(_, _, _, lost)| notes(lost)),
        ),
    ];
    for table in TABLES {
        let rows = match &gathered {
            Ok((interval, ..)) => table
                .rows_of(interval)
                .map_err(|missing| missing.reason().to_string()),
            Err(error) => Err(error.clone()),
        };
        values.push((table.id, filled(table, rows, machine.source.page())));
    }
    values.push((
        "headline",
        match &gathered {
            Ok((_, findings, ..)) => escape(&headline_text(findings)).into_owned(),
            Err(_) => "?".to_owned(),
        },
    ));
    values.push((
        "findings",
        match &gathered {
            Ok((_, findings, ..)) => of_findings(findings, machine.source.page()),
            Err(error) => format!("<li class=\"unknown\">Not known: {}.</li>", escape(error)),
        },
    ));
    let interval = gathered.ok().map(|(interval, ..)| interval);
    values.push((
        "time",
        escape(interval.as_ref().map_or("", |interval| &interval.time)).into_owned(),
    ));
    values.push(("reads", reads(interval.as_ref(), machine.source.page())));
    let flame = match site.options.stacks {
        true => FLAME,
        false => "",
    };
    values.push(("flame", flame.to_owned()));
    values.push(("figures", figures(interval.as_ref(), machine.source.page())));
    match cache {
        Ok(tree) => {
            let (path, view) = match tree.view(&path, MEMBERS) {
                Some(view) => (path, Some(view)),
                None => ("/".into(), tree.view("/", MEMBERS)),
            };
            values.push(("crumbs", crumbs(&path)));
            values.push(("cache_notes", notes(&tree.notes)));
            values.push(("cache", members(view.as_ref())));
        }
        Err(error) => {
            values.push(("crumbs", crumbs("/")));
            values.push(("cache_notes", notes(&[error])));
            values.push(("cache", String::new()));
        }
    }
    let head = [(header::CACHE_CONTROL, "no-store")];
    (head, Html(fill(TEMPLATE, &values))).into_response()
}

/// The picture of reads: parts of what was requested, and direct I/O beside them.
fn reads(interval: Option<&Interval>, page_size: PageSize) -> String {
    let (mut bars, mut names) = (String::new(), String::new());
    let requested = interval.map(|interval| interval.ledger.get(Counter::ReadRequestedPages));
    let mut x = 0.0;
    for part in ReadPart::ALL {
        let amount = interval.map(|interval| part.amount(&interval.ledger));
        let (class, name) = (part.css_name(), part.name());
        let text = match (part, amount) {
            (_, None) => "-".to_owned(),
            (ReadPart::Direct, Some(bytes)) => {
                let seconds = interval.map_or(0.0, |interval| interval.elapsed.as_secs_f64());
                format!(
                    "{}/s",
                    per_second(&bytes.bytes(), Kind::Counter, seconds, page_size)
                )
            }
            (_, Some(pages)) => {
                let ratio = requested.map(|requested| pages.ratio_of(requested).known());
                let ratio = ratio.flatten().map(|ratio| ratio.get());
                let width = ratio.unwrap_or(0.0) * 1000.0;
                let _ = write!(
                    bars,
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"10\"></rect>"
                );
                x += width;
                ratio.map_or_else(|| "-".to_owned(), share)
            }
        };
        if part != ReadPart::Direct && amount.is_none() {
            let _ = write!(
                bars,
                "<rect class=\"{class}\" width=\"0\" height=\"10\"></rect>"
            );
        }
        let _ = write!(
            names,
            "<li class=\"{class}\">{name} <b>{}</b></li>",
            escape(&text)
        );
    }
    format!(
        "<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Reads by source; the list has \
         the numbers\">{bars}</svg><ul>{names}</ul>"
    )
}

/// Puts values in for `{{name}}`, in one go: what comes from outside is not looked at again.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len() * 4);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            rest = after;
            break;
        };
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    text.push_str(rest);
    text
}

fn notes(notes: &[String]) -> String {
    notes.iter().fold(String::new(), |mut text, note| {
        // Writing to a string cannot fail.
        let _ = write!(text, "<p class=\"note\">{}</p>", escape(note));
        text
    })
}

/// Whether a number is shown a second.
fn is_rate(kind: Kind) -> bool {
    kind == Kind::Counter
}

/// A table, with what the page's script needs to know of its columns.
fn filled(table: &Table, rows: Result<Vec<Row>, String>, page_size: PageSize) -> String {
    let mut text = format!(
        "<table id=\"{}\" data-order=\"{}\"><caption class=\"hidden\">{}</caption><thead><tr>",
        table.id, ORDER[0], table.title
    );
    let fields = table.fields();
    for field in &fields {
        let unit = match field.unit {
            Unit::Pages => "pages",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Ratio | Unit::Factor => "ratio",
            Unit::Id => "id",
            Unit::Seconds => "seconds",
            Unit::Text | Unit::Time => "text",
        };
        let rate = is_rate(field.kind);
        let per = if rate { "<small>/s</small>" } else { "" };
        let _ = write!(
            text,
            "<th scope=\"col\" data-id=\"{}\" data-unit=\"{unit}\" data-rate=\"{rate}\" title=\"{}\">{}{per}</th>",
            field.id,
            escape(field.help),
            table.header(field),
        );
    }
    text.push_str("</tr></thead><tbody>");
    if let Err(why) = &rows {
        let _ = write!(
            text,
            "<tr><td class=\"empty\" colspan=\"{}\">Not known: {}.</td></tr>",
            fields.len(),
            escape(why)
        );
    }
    if let Ok(rows) = rows {
        for row in greatest(rows.into_iter(), &table.order(), MOST_ROWS) {
            text.push_str("<tr>");
            for field in &fields {
                let value = field.of(&row);
                let name = matches!(field.unit, Unit::Text | Unit::Time);
                let why = value
                    .missing()
                    .map(|missing| missing.reason())
                    .or(value.estimate());
                let title = why
                    .map(|why| format!(" title=\"{}\"", escape(why.words())))
                    .unwrap_or_default();
                let cell = per_second(&value, field.kind, row.elapsed.as_secs_f64(), page_size);
                let class = if name { "name" } else { "number" };
                let _ = write!(text, "<td class=\"{class}\"{title}>{}</td>", escape(&cell));
            }
            text.push_str("</tr>");
        }
    }
    text.push_str("</tbody></table>");
    text
}

/// The figures at the top.
fn figures(interval: Option<&Interval>, page_size: PageSize) -> String {
    const FIGURES: [(&str, &str, &str); 8] = [
        ("reuse_ratio", "Hit rate", "of requested pages, without I/O"),
        (
            "read_requested_pages",
            "Requested",
            "by reads through the cache",
        ),
        ("read_missed_pages", "Missed", "waited for a device"),
        ("direct_read_bytes", "Direct", "reads past the cache"),
        ("device_read_bytes", "From devices", "for any requester"),
        ("cached_bytes", "Cached", "page cache of files and memory"),
        ("dirty_bytes", "Dirty", "waiting to be written back"),
        (
            "psi_io_some_ratio",
            "Waiting for I/O",
            "part of the time, some task",
        ),
    ];
    let row = interval.map(Interval::row);
    let mut text = String::new();
    for (id, title, what) in FIGURES {
        let Some(field) = field(id) else { continue };
        let value = row.as_ref().map(|row| {
            let value = field.of(row);
            let shown = per_second(&value, field.kind, row.elapsed.as_secs_f64(), page_size);
            match is_rate(field.kind) && value.missing().is_none() {
                true => format!("{}<small>/s</small>", escape(&shown)),
                false => escape(&shown).into_owned(),
            }
        });
        let _ = write!(
            text,
            "<div class=\"figure\" title=\"{}\"><dt>{title}</dt><dd data-figure=\"{id}\">{}</dd><dd class=\"what\">{what}</dd></div>",
            escape(field.help),
            value.as_deref().unwrap_or("&hellip;"),
        );
    }
    text
}

fn of_findings(findings: &Diagnosis, page_size: PageSize) -> String {
    let mut text = String::new();
    for finding in &findings.findings {
        let subject = finding.subject_text();
        let subject = subject.map(|text| format!("<code>{}</code>", escape(&text)));
        let _ = write!(
            text,
            "<li class=\"{}\"><h3>{}</h3>{}<ul class=\"evidence\">",
            finding.severity.id(),
            escape(&finding.title),
            subject.unwrap_or_default(),
        );
        for (name, value) in &finding.figures {
            let name = ["_pages", "_bytes", "_seconds", "_ratio"]
                .iter()
                .find_map(|unit| name.strip_suffix(unit))
                .unwrap_or(name)
                .replace('_', " ");
            let _ = write!(
                text,
                "<li>{} <b>{}</b></li>",
                escape(&name),
                escape(&per_second(value, Kind::Gauge, 0.0, page_size))
            );
        }
        for folded in &finding.also {
            let subject = folded.subject.as_ref();
            let subject = subject.map_or(String::new(), |path| {
                format!(": {}", cachewise_model::escaped(path.as_os_str()))
            });
            let _ = write!(
                text,
                "<li>{}{}</li>",
                escape(&folded.title),
                escape(&subject)
            );
        }
        let _ = write!(
            text,
            "</ul><p>{}</p><p>Verify: {}</p><p>{}</p></li>",
            escape(&finding.next_step),
            escape(&finding.verify),
            page_link(finding)
        );
    }
    match &findings.blind {
        Some(blind) => {
            let _ = write!(
                text,
                "<li class=\"unknown\">Not known: {}.</li>",
                escape(&blind.to_string())
            );
        }
        None if findings.findings.is_empty() => {
            text += "<li class=\"none\">Nothing to find fault with in the last minute.</li>";
        }
        None => {}
    }
    text
}

/// Returns the path of a directory with a link for each part.
fn crumbs(path: &str) -> String {
    let mut text = String::from("<a href=\"/\" data-path=\"/\">/</a>");
    let mut so_far = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        so_far = format!("{so_far}/{part}");
        let _ = write!(
            text,
            "<a href=\"/?path={}\" data-path=\"{}\">{}</a>",
            percent(&so_far),
            escape(&so_far),
            escape(part)
        );
    }
    text
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                encoded.push(char::from(byte));
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        encoded
    })
}

/// The members of a directory as rows of the table beside the map.
fn members(view: Option<&Json>) -> String {
    let mut text = String::new();
    let children = view.and_then(|view| view["children"].as_array());
    for child in children.into_iter().flatten() {
        let name = child["name"].as_str().unwrap_or_default();
        let path = child["path"].as_str().unwrap_or_default();
        let name = match child["kind"].as_str() {
            Some("directory") => format!(
                "<a href=\"/?path={}\" data-path=\"{}\">{}/</a>",
                percent(path),
                escape(path),
                escape(name)
            ),
            _ => escape(name).into_owned(),
        };
        let bytes = |id: &str| Bytes(child[id].as_u64().unwrap_or_default());
        let ratio = child["resident_ratio"].as_f64();
        let _ = write!(
            text,
            "<tr><td class=\"name\">{name}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            bytes("resident_bytes"),
            ratio.map_or_else(|| "-".into(), share),
            bytes("size_bytes"),
            child["files"]
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Datum, Finding, Measured, Severity};
    use cachewise_units::Pages;

    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "<script>alert(1)</script>\"'&\u{202e}\n";
        let safe = escape(hostile);
        assert!(
            !safe.contains(['<', '>', '"', '\'', '\u{202e}', '\n']),
            "nothing of it acts: {safe}"
        );
        assert!(
            !crumbs(&format!("/{hostile}")).contains("<script"),
            "nor in links"
        );
    }

    #[test]
    fn values_are_not_filled_in_again() {
        let text = fill(
            "a {{one}} b {{two}} {{none}}c {{",
            &[("one", "{{two}}".into()), ("two", "2".into())],
        );
        assert_eq!(
            text, "a {{two}} b 2 c ",
            "a name in braces stays what it is"
        );
    }

    #[test]
    fn figures_of_findings_have_their_unit_before_the_script_runs_too() {
        let finding = Finding {
            id: "cold_start",
            severity: Severity::Info,
            title: "cold".into(),
            subject: None,
            figures: vec![(
                "read_missed_pages",
                Measured::Exact(Datum::Pages(Pages(512))),
            )],
            next_step: "again".into(),
            ..Finding::default()
        };
        let findings = Diagnosis {
            findings: vec![finding],
            blind: None,
        };
        let page_size = PageSize::new(4096).expect("a power of two");
        let text = of_findings(&findings, page_size);
        assert!(text.contains("read missed <b>2.0 MiB</b>"), "{text}");
    }

    #[test]
    fn the_page_has_a_place_for_everything() {
        for table in crate::columns::TABLES {
            let place = format!("{{{{{}}}}}", table.id);
            assert!(TEMPLATE.contains(&place), "{place} is in the template");
        }
        for place in ["{{figures}}", "{{findings}}", "{{cache}}", "{{crumbs}}"] {
            assert!(TEMPLATE.contains(place), "{place} is in the template");
        }
    }

    #[test]
    fn parts_of_reads_have_their_colours_on_both_pages() {
        for style in [
            include_str!("../../assets/style.css"),
            include_str!("../../assets/report/report.css"),
        ] {
            for part in ReadPart::ALL {
                for color in part.colors() {
                    let line = format!("--{}: {color};", part.css_name());
                    assert!(style.contains(&line), "{line}");
                }
            }
        }
    }

    #[test]
    fn picture_of_reads_has_a_bar_for_each_part_of_requested_pages() {
        let page_size = PageSize::new(4096).expect("a power of two");
        let unknown = reads(None, page_size);
        assert_eq!(unknown.matches("<rect ").count(), 3, "{unknown}");
        assert_eq!(unknown.matches("<b>-</b>").count(), 4, "{unknown}");
    }
}
