//! Checks of rows against independent counts.

use std::fmt::Write;

use cachewise_model::{Interval, Law, LawScope, Reason, Verdict, escaped};

use super::ReportOptions;
use super::closing::equation;
use crate::cell::wrapped;
use crate::number::grouped;

/// The result of each check of rows: every violation with its row, the first few that add up, and how many of each kind
/// were checked and were not, with the reasons.
pub(super) fn text(interval: &Interval, options: ReportOptions<'_>) -> String {
    let style = options.style;
    let mut text = String::new();
    for (id, scope) in kinds(interval) {
        let of_kind = |law: &&Law| (law.id, law.scope) == (id, scope);
        let mut sound = 0;
        let mut violated = 0;
        let mut unchecked: Vec<(Reason, u64)> = Vec::new();
        for law in interval.run().row_laws.iter().filter(of_kind) {
            let broken = style.warning(&style.bold("DOES NOT ADD UP:"));
            let verb = match law.verdict() {
                Verdict::Holds => {
                    sound += 1;
                    "adds up:"
                }
                Verdict::Broken => {
                    violated += 1;
                    &broken
                }
                Verdict::Unknown(reason) => {
                    match unchecked.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, count)) => *count += 1,
                        None => unchecked.push((reason, 1)),
                    }
                    continue;
                }
            };
            if law.verdict() == Verdict::Holds && sound > options.top as u64 {
                continue;
            }
            let subject = escaped(law.subject.as_deref().unwrap_or_default());
            let line = format!("{verb} {subject}: {}", equation(law));
            let _ = writeln!(text, "{}", wrapped(&line, style.width));
        }
        let reasons = unchecked
            .iter()
            .map(|(reason, count)| format!(", {} not checked ({reason})", grouped(*count)));
        let line = format!(
            "{}, {}: {} checked, {} violated{}",
            title(id),
            rows_of(scope),
            grouped(sound + violated),
            grouped(violated),
            reasons.collect::<String>()
        );
        let _ = writeln!(text, "{}", wrapped(&line, style.width));
    }
    text
}

/// The kinds of checks of rows, in their order.
fn kinds(interval: &Interval) -> Vec<(&'static str, LawScope)> {
    let mut kinds = Vec::new();
    for law in &interval.run().row_laws {
        let kind = (law.id, law.scope);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn title(id: &str) -> String {
    match id {
        "residency" => "inserted and evicted pages against residency".to_owned(),
        "device_bytes_least" => "bytes of devices, lower bound".to_owned(),
        "device_bytes_most" => "bytes of devices, upper bound".to_owned(),
        other => other.replace('_', " "),
    }
}

fn rows_of(scope: LawScope) -> &'static str {
    match scope {
        LawScope::Total => "sums",
        LawScope::File => "files",
        LawScope::Process => "processes",
        LawScope::Cgroup => "control groups",
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, FileUse, Measured, Reason, mark_residency, residency_law};

    use super::super::sample;
    use super::*;

    const USED: FileUse = FileUse {
        outside_pages: 0,
        is_first_use_alone: true,
        unchecked: None,
    };

    /// A report with the law of residency of its one file.
    fn report(resident_after: u64, unchecked: Option<Reason>) -> Interval {
        let mut interval = sample::cold();
        let file = &mut interval.files[0];
        file.resident_before_pages = Measured::Exact(0);
        file.resident_after_pages = Measured::Exact(resident_after);
        let inserted = file.ledger.inserted_pages().exact().unwrap();
        assert_eq!(inserted, 131_072, "the sample's file");
        interval.run_mut().row_laws = vec![residency_law(file, FileUse { unchecked, ..USED })];
        interval
    }

    fn written(interval: &Interval) -> String {
        let style = crate::style::Style::plain(200);
        text(
            interval,
            ReportOptions {
                style,
                ..ReportOptions::default()
            },
        )
    }

    #[test]
    fn checks_of_rows_show_both_sides_and_numbers_of_rows() {
        assert_eq!(written(&sample::cold()), "", "none were requested");
        assert_eq!(
            written(&report(131_072, None)),
            "adds up: /data/file: 0 resident before + 131,072 inserted = 131,072 resident after + 0 evicted\n\
             inserted and evicted pages against residency, files: 1 checked, 0 violated\n"
        );
        assert_eq!(
            written(&report(131_072, Some(Reason::UserStillRuns))),
            "inserted and evicted pages against residency, files: 0 checked, 0 violated, \
             1 not checked (a process that used it still runs)\n"
        );
    }

    #[test]
    fn a_violation_names_the_row_and_takes_the_word_exact_away() {
        let mut interval = report(131_071, None);
        assert!(
            written(&interval)
                .contains("DOES NOT ADD UP: /data/file: 0 resident before + 131,072 inserted"),
            "{}",
            written(&interval)
        );
        assert_eq!(interval.exactness().id(), "contradicted");
        mark_residency(&mut interval.files[0].ledger);
        let missed = interval.files[0].ledger.get(Counter::ReadMissedPages);
        assert!(missed.estimate().is_some());
        let options = ReportOptions::default();
        let diagnosis = sample::diagnosis();
        let head = super::super::text::report(&interval, &diagnosis, options);
        assert!(!head.contains("exact to the page"), "{head}");
        let json = super::super::document::json(&interval, &diagnosis);
        assert_eq!(json["backend"]["exactness"], "contradicted");
        let laws = json["laws"].as_array().unwrap();
        let law = laws.iter().find(|law| law["id"] == "residency").unwrap();
        assert_eq!(law["status"], "violated");
        assert_eq!(law["holds"], false);
        assert_eq!(law["scope"], "file");
        assert_eq!(law["subject"], "/data/file");
        assert_eq!(law["left"][1]["value"], 131_072);
    }
}
