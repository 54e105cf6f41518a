//! A checkup in any format: the output of `doctor`.

use std::fmt::Write as _;
use std::io::{self, Write};

use cachewise_model::{
    Check, Checkup, Datum, Diagnosis, Kind, Lost, Measured, Reason, SCHEMA_VERSION, State, Unit,
    escaped,
};
use serde_json::{Value as Json, json};

use crate::cell::Side;
use crate::cell::{pad, width, wrapped};
use crate::format::Format;
use crate::json::{Object, to_text};
use crate::metrics::Exposition;
use crate::read_parts::read_bar;
use crate::report::{closing, document};
use crate::sheet::{Sheet, SheetCell, SheetColumn, SheetColumns};
use crate::style::Style;

/// The columns of checks.
pub const CHECK_COLUMNS: [SheetColumn; 7] = [
    SheetColumn::new("area", "AREA", false, "Area of the check"),
    SheetColumn::new("id", "CHECK", false, "Name of the check"),
    SheetColumn::new("state", "STATE", false, "ok, limited or missing"),
    SheetColumn::new("found", "FOUND", false, "What was found"),
    SheetColumn::new("meaning", "MEANING", false, "What it means for the user"),
    SheetColumn::new("next_step", "NEXT-STEP", false, "The fix, if there is one"),
    SheetColumn::new(
        "needed",
        "NEEDED",
        false,
        "Whether numbers are worse without it",
    ),
];

/// Writes a checkup.
///
/// JSON has everything. CSV has a row per check; OpenMetrics has the number of checks in each state
/// and of findings: neither has room for sentences. Chosen columns are those of CSV; text for people then has the
/// checks as a table.
///
/// # Errors
/// The output's error; a closed pipe is [`io::ErrorKind::BrokenPipe`].
pub fn write_checkup(
    mut out: impl Write,
    format: Format,
    checkup: &Checkup,
    style: Style,
    columns: Option<&SheetColumns>,
) -> io::Result<()> {
    let text = match format {
        Format::Table => text(checkup, style, columns),
        Format::Json => to_text(&document(checkup), true),
        Format::JsonLines => to_text(&document(checkup), false),
        Format::Csv => sheet(checkup.checks.iter(), lost(checkup))
            .chosen(columns)
            .csv()?,
        Format::OpenMetrics => openmetrics(checkup)?,
    };
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The findings of the watch, and the checks that are not sound; all checks where nothing was watched.
fn text(checkup: &Checkup, style: Style, columns: Option<&SheetColumns>) -> String {
    let head = format!(
        "{}, linux {}, {} pages",
        escaped(&checkup.hostname),
        escaped(&checkup.kernel),
        checkup.page_size,
    );
    let mut text = format!("{}\n", wrapped(&style.bold(&head), style.width));
    let Some((interval, diagnosis)) = &checkup.watched else {
        checks(&mut text, checkup.checks.iter(), style, columns);
        return text;
    };
    let _ = writeln!(
        text,
        "watched for {:.1} s, counted by {}\n",
        interval.elapsed.as_secs_f64(),
        escaped(&interval.source.backend.name)
    );
    text += &closing::headline(diagnosis, style);
    text += &read_bar(&interval.ledger, interval.page(), style);
    if !diagnosis.findings.is_empty() {
        text.push('\n');
        text += &closing::findings(diagnosis, style);
    }
    text += &closing::lost(interval, style);
    text += &closing::notes(interval);
    let limited = || {
        checkup
            .checks
            .iter()
            .filter(|check| check.state != State::Ok)
    };
    checks(&mut text, limited(), style, columns);
    let (sound, all) = (
        checkup.checks.len() - limited().count(),
        checkup.checks.len(),
    );
    let summary =
        format!("{sound} of {all} checks are ok: cachewise doctor --capabilities lists all");
    let _ = writeln!(text, "\n{}", wrapped(&summary, style.width));
    text
}

/// Checks under the names of their areas; as a table where columns were chosen.
fn checks<'a>(
    text: &mut String,
    checks: impl Iterator<Item = &'a Check> + Clone,
    style: Style,
    columns: Option<&SheetColumns>,
) {
    if columns.is_some() {
        text.push('\n');
        *text += &sheet(checks, [].iter()).chosen(columns).table(style);
        return;
    }
    let names = checks.clone().map(|check| width(&escaped(&check.id)));
    let column = names.max().unwrap_or(0);
    let mut area = "";
    for check in checks {
        if check.area != area {
            area = check.area;
            let _ = writeln!(text, "\n{}", style.bold(area));
        }
        line(text, check, column, style);
    }
}

fn line(text: &mut String, check: &Check, column: usize, style: Style) {
    let state = pad(check.state.id(), "limited".len(), Side::Left);
    let state = match check.state {
        State::Ok => state,
        State::Limited | State::Missing => style.warning(&state),
    };
    let id = pad(&escaped(&check.id), column, Side::Left);
    let found = escaped(&check.found);
    let _ = writeln!(text, "  {state}  {id}  {found}");
    let indent = " ".repeat(2 + "limited".len() + 2 + column + 2);
    let room = style.width.saturating_sub(indent.len()).max(24);
    if !check.meaning.is_empty() {
        for part in wrapped(&escaped(&check.meaning), room).lines() {
            let _ = writeln!(text, "{indent}{}", part.trim_start());
        }
    }
    if let Some(step) = &check.next_step {
        // Not wrapped: users copy it.
        let _ = writeln!(text, "{indent}how: {}", escaped(&step));
    }
}

fn document(checkup: &Checkup) -> Json {
    let checks = checkup.checks.iter().map(|check| {
        json!({
            "area": check.area,
            "id": check.id,
            "state": check.state.id(),
            "found": check.found,
            "meaning": check.meaning,
            "next_step": check.next_step,
            "needed": check.is_needed,
        })
    });
    let object = Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("timestamp", checkup.timestamp.as_str())
        .set("hostname", checkup.hostname.as_str())
        .set("page_size_bytes", checkup.page_size.get())
        .set("kernel_release", checkup.kernel.as_str())
        .set("warnings", checkup.warnings())
        .set("checks", checks.collect::<Json>());
    let Some((interval, diagnosis)) = &checkup.watched else {
        return object
            .set("watched", Json::Null)
            .set("findings", Json::Null)
            .set("unchecked_rules", Json::Array(Vec::new()))
            .reason(
                "findings",
                Reason::NothingWatched,
                Reason::NothingWatched.words(),
            )
            .finish();
    };
    let watched = Object::new()
        .set("seconds", interval.elapsed.as_secs_f64())
        .set("backend", document::backend(interval))
        .set("lost", document::lost_json(&interval.lost))
        .set("totals", document::everything(&interval.total_row()));
    let findings = document::findings_json(diagnosis);
    object
        .set("watched", watched.finish())
        .merge(findings)
        .finish()
}

/// Each check, and what was lost while watching.
fn sheet<'a>(
    checks: impl Iterator<Item = &'a Check>,
    lost: impl Iterator<Item = &'a Lost>,
) -> Sheet {
    let mut sheet = Sheet::new(&CHECK_COLUMNS);
    let checks = checks.map(|check| {
        vec![
            SheetCell::text(check.area),
            SheetCell::text(check.id.clone()),
            SheetCell::text(check.state.id()),
            SheetCell::text(check.found.clone()),
            SheetCell::text(check.meaning.clone()),
            SheetCell::text(check.next_step.clone().unwrap_or_default()),
            SheetCell::flag(check.is_needed),
        ]
    });
    sheet.rows.extend(checks);
    sheet.rows.extend(lost.map(|lost| {
        vec![
            SheetCell::text("lost"),
            SheetCell::text(lost.id),
            SheetCell::text(State::Limited.id()),
            SheetCell::count(lost.count),
            SheetCell::text(lost.meaning),
            SheetCell::text(lost.next_step()),
            SheetCell::flag(false),
        ]
    }));
    sheet
}

/// Events that were lost while watching.
fn lost(checkup: &Checkup) -> impl Iterator<Item = &Lost> {
    let watched = checkup.watched.iter();
    let lost = watched.flat_map(|(interval, _)| &interval.lost);
    lost.filter(|lost| lost.count > 0)
}

fn openmetrics(checkup: &Checkup) -> io::Result<String> {
    let mut exposition = Exposition::new();
    exposition.page_size(checkup.page_size);
    let mut count = |id: &str, help: &str, number: usize| {
        let number = Measured::Exact(Datum::Count(number as u64));
        exposition.value(id, help, Unit::Count, Kind::Gauge, &number);
    };
    let of_state = |state: State| {
        let checks = checkup.checks.iter();
        checks.filter(|check| check.state == state).count()
    };
    count(
        "doctor_checks_ok",
        "Things that are there and work",
        of_state(State::Ok),
    );
    count(
        "doctor_checks_limited",
        "Things that work in part",
        of_state(State::Limited),
    );
    count(
        "doctor_checks_missing",
        "Things that are not there",
        of_state(State::Missing),
    );
    count(
        "doctor_warnings",
        "Findings that cost something, and needed things that are missing",
        checkup.warnings(),
    );
    // No finding without a watch does not mean that all is well.
    if let Some((interval, diagnosis)) = &checkup.watched {
        let Diagnosis { findings, blind } = diagnosis;
        let blind = blind.as_ref().map_or(0, |blind| blind.rules.len());
        if blind == 0 || !findings.is_empty() {
            count(
                "doctor_findings",
                "What the rules found while watching",
                findings.len(),
            );
        }
        count(
            "doctor_unchecked_rules",
            "Rules that could not look, as what they need was not counted",
            blind,
        );
        exposition.counted_by(interval);
    }
    exposition.text()
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Missing, Reason};

    use super::*;
    use crate::report::sample;

    fn checkup() -> Checkup {
        let interval = sample::cold();
        Checkup {
            timestamp: interval.run().begin.clone(),
            hostname: interval.source.hostname.clone(),
            page_size: interval.page(),
            kernel: interval.source.kernel.clone(),
            checks: vec![
                Check::ok("kernel", "btf", "there"),
                Check::ok("probe", "fentry", "refused\u{1b}[31m: EPERM")
                    .is(State::Missing)
                    .means("the probe does without")
                    .by("nothing to do"),
            ],
            watched: Some((interval, sample::diagnosis())),
        }
    }

    fn written(format: Format) -> String {
        let mut out = Vec::new();
        write_checkup(&mut out, format, &checkup(), Style::plain(80), None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_begins_with_the_verdict_and_lists_checks_that_are_not_sound() {
        let text = written(Format::Table);
        let order = [
            "watched for 0.5 s",
            "verdict: 1 note: /data/file (cold_start)\n",
            "reads  ",
            "findings\n",
            "  missing  fentry  refused",
            "how: nothing to do",
            "1 of 2 checks are ok",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|part| text.find(part)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{places:?}: {text}"
        );
        assert!(!text.contains("  ok  "), "sound checks are counted: {text}");
        assert!(!text.contains('\u{1b}'), "names are escaped: {text}");
    }

    #[test]
    fn text_lists_all_checks_where_nothing_was_watched() {
        let mut checkup = checkup();
        checkup.watched = None;
        let text = text(&checkup, Style::plain(80), None);
        assert!(
            text.contains("  ok       btf     there\n"),
            "a line each: {text}"
        );
        assert!(
            text.contains("  missing  fentry  refused"),
            "with its state: {text}"
        );
    }

    #[test]
    fn chosen_columns_make_checks_a_table() {
        let columns = SheetColumns::find("state,CHECK,found", &[&CHECK_COLUMNS]).unwrap();
        let mut checkup = checkup();
        checkup.watched = None;
        let text = text(&checkup, Style::plain(80), Some(&columns));
        assert!(
            text.ends_with("\n\nSTATE    CHECK   FOUND\nok       btf     there\nmissing  fentry  refused\\x1b[31m: EPERM\n"),
            "{text}"
        );
        let mut out = Vec::new();
        write_checkup(
            &mut out,
            Format::Csv,
            &checkup,
            Style::plain(80),
            Some(&columns),
        )
        .unwrap();
        let csv = String::from_utf8(out).unwrap();
        assert!(
            csv.starts_with("state,id,found,reasons,reason_codes\nok,btf,there,,\n"),
            "{csv}"
        );
    }

    #[test]
    fn machine_formats_hold_the_checks() {
        let json: Json = serde_json::from_str(&written(Format::Json)).unwrap();
        assert_eq!(json["checks"][1]["state"], "missing", "by name");
        assert_eq!(json["findings"][0]["id"], "cold_start", "with findings");
        assert!(json["page_size_bytes"].is_u64(), "as every document");
        let csv = written(Format::Csv);
        assert_eq!(csv.lines().count(), 3, "a head and two rows: {csv}");
        let metrics = written(Format::OpenMetrics);
        assert!(
            metrics.contains("cachewise_doctor_checks_missing 1"),
            "{metrics}"
        );
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");
        for line in [
            "cachewise_doctor_findings 1",
            "cachewise_lost_events_total 0",
            "cachewise_kernel_memory_bytes 33554432",
        ] {
            assert!(
                metrics.lines().any(|known| known == line),
                "{line}: {metrics}"
            );
        }
        let mut lossy = checkup();
        if let Some((interval, _)) = &mut lossy.watched {
            interval.lost[0].count = 7;
        }
        let text = sheet(lossy.checks.iter(), super::lost(&lossy))
            .csv()
            .unwrap();
        assert!(
            text.contains("\nlost,rows,limited,7,"),
            "what was lost is a row: {text}"
        );
        let metrics = openmetrics(&lossy).unwrap();
        assert!(
            metrics.contains("\ncachewise_lost_events_total 7\n"),
            "{metrics}"
        );
        let mut unseen = checkup();
        if let Some((interval, diagnosis)) = &mut unseen.watched {
            interval.ledger.set_missing(
                Counter::ReadRequestedPages,
                Missing::NotOffered(Reason::NeedsProbe),
            );
            *diagnosis = Diagnosis {
                findings: Vec::new(),
                ..Diagnosis::of(interval)
            };
        }
        let metrics = openmetrics(&unseen).unwrap();
        assert!(
            !metrics.contains("cachewise_doctor_findings")
                && metrics.contains("cachewise_doctor_unchecked_rules 4\n"),
            "no findings without a watch is not 0: {metrics}"
        );
    }
}
