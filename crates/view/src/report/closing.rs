//! The end of a report: findings, checks, lost events, notes.

use std::fmt::Write;

use cachewise_model::{
    Count, Diagnosis, Finding, Folded, Interval, Law, LawScope, Lost, Severity, Side, Unit, Value,
    Verdict, Verification, escaped, laws,
};

use cachewise_units::Bytes;

use crate::cell::{path_text, wrapped};
use crate::number::{grouped, value_text};
use crate::style::Style;

use super::options::ReportOptions;

/// The findings, four lines each: cause, evidence, fix, and how to verify it.
///
/// The rules take only exact numbers: without them, no finding means nothing.
pub(crate) fn findings(diagnosis: &Diagnosis, style: Style) -> String {
    let Diagnosis { findings, blind } = diagnosis;
    if findings.is_empty() {
        let none = blind
            .as_ref()
            .map_or("none".to_owned(), |blind| format!("? ({blind})"));
        let line = format!("{} {none}", style.bold("findings:"));
        return format!("{}\n", wrapped(&line, style.width));
    }
    let mut text = format!("{}\n", style.bold("findings"));
    for finding in findings {
        let severity = match finding.severity {
            Severity::Warn => style.warning("warning:"),
            Severity::Info => "note:".to_owned(),
        };
        let subject = finding.subject_text();
        let subject = subject.map(|text| format!(": {text}")).unwrap_or_default();
        let figures = finding.figures.iter();
        let figures = figures.map(|(name, value)| finding_figure(name, value));
        let figures: Vec<String> = cost(finding).into_iter().chain(figures).collect();
        let also: String = finding.also.iter().map(folded_text).collect();
        // Not wrapped: users copy the next step.
        let _ = writeln!(text, "{severity} {}{subject}", style.bold(&finding.title));
        let _ = writeln!(text, "    evidence: {}{also}", figures.join(", "));
        let _ = writeln!(text, "    fix: {}", finding.next_step);
        let _ = writeln!(text, "    verify: {}", finding.verify);
    }
    text += &explained(findings);
    if let Some(blind) = blind {
        let _ = writeln!(text, "{}", wrapped(&blind.to_string(), style.width));
    }
    text
}

/// The answer of a machine that was watched, in one line: the subjects of the findings, problems before notes.
pub(crate) fn headline(diagnosis: &Diagnosis, style: Style) -> String {
    let text = headline_text(diagnosis);
    let line = format!("{} {text}", style.bold("verdict:"));
    format!("{}\n", wrapped(&line, style.width))
}

/// The most subjects in a headline.
const HEADLINE_SUBJECTS: usize = 3;

/// `2 problems: /db (thrashing), /srv/log (evicted_by_other)`; the words in parentheses are those of `doctor --explain`. A
/// finding without a subject has its title.
#[must_use]
pub fn headline_text(diagnosis: &Diagnosis) -> String {
    let Diagnosis { findings, blind } = diagnosis;
    let of = |severity: Severity| findings.iter().filter(move |of| of.severity == severity);
    let [problems, notes] = [Severity::Warn, Severity::Info].map(|severity| of(severity).count());
    let counted = |number: usize, word: &str| match number {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{number} {word}s")),
    };
    let counts = [counted(problems, "problem"), counted(notes, "note")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return match blind {
            Some(blind) => format!("? ({blind})"),
            None => "no cache problem found".to_owned(),
        };
    }
    let ordered = of(Severity::Warn).chain(of(Severity::Info));
    let mut subjects: Vec<String> = ordered
        .take(HEADLINE_SUBJECTS)
        .map(|finding| match finding.subject_text() {
            Some(subject) => format!("{subject} ({})", finding.id),
            None => finding.title.clone(),
        })
        .collect();
    let more = findings.len().saturating_sub(HEADLINE_SUBJECTS);
    if more > 0 {
        subjects.push(format!("{more} more"));
    }
    format!("{}: {}", counts.join(" and "), subjects.join(", "))
}

/// The command that shows the pages about these findings.
fn explained(findings: &[Finding]) -> String {
    let mut ids: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let others = match ids.get(1..) {
        None | Some([]) => String::new(),
        Some(others) => format!(" (or {})", others.join(", ")),
    };
    let first = ids.first().copied().unwrap_or_default();
    format!("explained by: cachewise doctor --explain {first}{others}\n")
}

/// The seconds that the subject cost, if they are not among the figures.
fn cost(finding: &Finding) -> Option<String> {
    let figures = &finding.figures;
    let has_own = figures.iter().any(|(name, _)| name.starts_with("waited_"));
    let cost = finding.cost_seconds.filter(|_| !has_own)?;
    (cost >= 0.001).then(|| format!("waited {cost:.3} s"))
}

/// Stands for the answer where a count that it needs is missing or an estimate.
const NO_VERDICT: &str = "? (exact counts are missing)";

/// The answer of a run, in one line.
pub(super) fn verdict(interval: &Interval, diagnosis: &Diagnosis, style: Style) -> String {
    let verdict = interval.verdict(diagnosis);
    let verdict = verdict.unwrap_or_else(|| NO_VERDICT.to_owned());
    let verdict = format!("{} {verdict}", style.bold("verdict:"));
    let verification = interval.run().verification.as_ref();
    let verified = verification.map(|verification| match verification {
        Verification::Done {
            predicted_seconds,
            measured_seconds,
            cold_seconds,
            missed_pages,
        } => {
            let difference = 100.0 * (measured_seconds / predicted_seconds - 1.0);
            let cold = match *cold_seconds >= STILL_COLD * measured_seconds {
                true => format!(
                    "; {cold_seconds:.3} s of it on {} pages that were evicted again",
                    grouped(*missed_pages)
                ),
                false => String::new(),
            };
            format!(
                "{} {measured_seconds:.3} s warm, {predicted_seconds:.3} s predicted ({difference:+.0} %){cold}",
                style.bold("verified:")
            )
        }
        Verification::Refused(reason) => format!("{} {reason}", style.bold("not verified:")),
    });
    let lines = std::iter::once(verdict).chain(verified);
    lines
        .map(|line| format!("{}\n", wrapped(&line, style.width)))
        .collect()
}

/// A repeated run that spends this share of its time on cold data is not warm.
const STILL_COLD: f64 = 0.05;

/// Evidence of another rule, for people, after the figures.
#[must_use]
pub fn folded_text(folded: &Folded) -> String {
    let subject = folded.subject.as_deref().map(path_text);
    let subject = subject.map(|path| format!(": {path}")).unwrap_or_default();
    format!("; {}{subject}", folded.title)
}

/// A figure of a finding, for people: `direct_read_bytes` and 512 MiB as `direct read 512.0 MiB`;
/// pages keep the name of their unit.
#[must_use]
pub fn finding_figure(name: &str, value: &Value) -> String {
    let known = value
        .as_ref()
        .known()
        .and_then(|datum| datum.unit().suffix());
    let words = |name: &str| name.replace('_', " ");
    match known {
        Some("_pages") => {
            format!(
                "{} {} pages",
                words(name.strip_suffix("_pages").unwrap_or(name)),
                value_text(value)
            )
        }
        Some("_seconds") => {
            format!(
                "{} {} s",
                words(name.strip_suffix("_seconds").unwrap_or(name)),
                value_text(value)
            )
        }
        Some(suffix) => {
            format!(
                "{} {}",
                words(name.strip_suffix(suffix).unwrap_or(name)),
                value_text(value)
            )
        }
        None => format!("{} {}", words(name), value_text(value)),
    }
}

/// The result of each check of the sums; those that hold only where all are wanted.
pub(super) fn checks(interval: &Interval, options: ReportOptions<'_>) -> String {
    let style = options.style;
    let mut text = String::new();
    let of_totals = |law: &Law| law.scope == LawScope::Total;
    for law in laws(interval).into_iter().filter(of_totals) {
        let sum = equation(&law);
        let line = match law.verdict() {
            Verdict::Holds if !options.all_checks => continue,
            Verdict::Holds => format!("adds up: {sum}"),
            Verdict::Broken => {
                format!("{} {sum}", style.warning(&style.bold("DOES NOT ADD UP:")))
            }
            Verdict::Unknown(reason) => format!("not checked ({reason}): {sum}"),
        };
        let _ = writeln!(text, "{}", wrapped(&line, style.width));
    }
    text
}

/// `130,560 hits + 512 misses = 131,072 requested pages`
pub(super) fn equation(law: &Law) -> String {
    let value = |count: Count| match law.unit {
        Unit::Bytes => count.bytes(),
        _ => count.pages(),
    };
    let named = |(name, count): &(&str, Count)| format!("{} {name}", value_text(&value(*count)));
    let side = |side: &Side| side.iter().map(named).collect::<Vec<_>>().join(" + ");
    let (left, right) = (side(&law.left), side(&law.right));
    format!("{left} {} {right}", law.relation.sign())
}

/// Lost or imprecise counts, if any.
pub(crate) fn lost(interval: &Interval, style: Style) -> String {
    let mut text = String::new();
    for lost in interval.lost.iter().filter(|lost| lost.count > 0) {
        let (what, how_often) = lost_parts(lost);
        let _ = writeln!(text, "{} {how_often}", style.warning(&what));
    }
    text
}

/// A lost or imprecise count in one line.
#[must_use]
pub fn lost_text(lost: &Lost) -> String {
    let (what, how_often) = lost_parts(lost);
    format!("{what} {how_often}")
}

fn lost_parts(lost: &Lost) -> (String, String) {
    (
        format!("incomplete, {}:", lost.id.replace('_', " ")),
        lost.words(),
    )
}

/// Kernel memory that counting took.
pub(crate) fn price(interval: &Interval) -> String {
    match interval.source.backend.kernel_memory_bytes.known() {
        Some(bytes) => format!("probe: {} of kernel memory\n", Bytes(bytes)),
        None => String::new(),
    }
}

/// Notes of the back-end, one line each.
pub(crate) fn notes(interval: &Interval) -> String {
    let notes = interval.source.backend.notes.iter();
    notes
        .map(|note| format!("note: {}\n", escaped(note)))
        .collect()
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Measured, Reason, blind};

    use super::super::sample;
    use super::*;

    const PLAIN: Style = Style::plain(80);
    const ALL_CHECKS: ReportOptions<'_> = ReportOptions {
        style: PLAIN,
        top: 10,
        all_checks: true,
        columns: None,
    };

    #[test]
    fn finding_shows_cause_evidence_fix_and_verification() {
        let expected = [
            "findings\n",
            "note: cold start: most of the data read was not cached: /data/file\n",
            "    evidence: cold 131,072 pages, read 512.0 MiB, cold 100.00 %, cold files 1\n",
            "    fix: run it again to measure it warm; to prefetch it: ",
            "cachewise warm /data/file, or cat /data/file >/dev/null\n",
            "    verify: cold pages fall with: cachewise try warm -- dd if=/data/file of=/dev/null bs=1M\n",
            "explained by: cachewise doctor --explain cold_start\n",
        ]
        .concat();
        let mut interval = sample::cold();
        let mut diagnosis = sample::diagnosis();
        assert_eq!(
            findings(&diagnosis, PLAIN),
            expected,
            "four lines a finding"
        );
        diagnosis.findings.clear();
        assert_eq!(
            findings(&diagnosis, PLAIN),
            "findings: none\n",
            "the absence of findings is stated"
        );
        interval
            .ledger
            .set_estimated(Counter::ReadRequestedPages, 7, Reason::ByVmstat);
        diagnosis.blind = blind(&interval);
        assert_eq!(
            findings(&diagnosis, PLAIN),
            "findings: ? (4 of 22 rules could not look: estimates are not enough)\n",
            "estimates exclude no cause"
        );
    }

    #[test]
    fn checks_show_the_sums() {
        let expected = [
            "adds up: 130,560 hits + 512 misses = 131,072 requested pages\n",
            "adds up: 0 from cache + 130,560 read ahead = 130,560 hits\n",
            "adds up: 131,072 in all files = 131,072 requested pages\n",
            "adds up: 131,072 in all processes = 131,072 requested pages\n",
        ]
        .concat();
        assert_eq!(
            checks(&sample::cold(), ALL_CHECKS),
            expected,
            "each with its numbers"
        );
        let usual = checks(&sample::cold(), ReportOptions::default());
        assert_eq!(usual, "", "checks that hold are shown on request");
    }

    #[test]
    fn failed_check_is_shown() {
        let mut interval = sample::cold();
        interval.ledger.set(Counter::ReadRequestedPages, 131_073);
        let text = checks(&interval, ReportOptions::default());
        assert!(
            text.contains("DOES NOT ADD UP: 131,072 in all files = 131,073"),
            "{text}"
        );
        let misses = Counter::ReadMissedPages;
        interval.ledger.set_missing(
            misses,
            cachewise_model::Missing::NotOffered(Reason::NeedsProbe),
        );
        let text = checks(&interval, ReportOptions::default());
        assert!(
            text.contains(
                "not checked (only the probe can count it): 130,560 hits + - misses = 131,073"
            ),
            "{text}"
        );
    }

    #[test]
    fn losses_name_their_effect() {
        let mut interval = sample::cold();
        assert_eq!(lost(&interval, PLAIN), "", "no loss, no text");
        interval.lost[0].count = 1234;
        assert_eq!(
            lost(&interval, PLAIN),
            "incomplete, rows: 1,234 events summed up on one row for all: sums hold, names are missing\n",
            "number, kind and effect"
        );
    }

    #[test]
    fn finding_figure_turns_ids_into_words() {
        for (name, value, text) in [
            (
                "direct_read_bytes",
                Measured::Exact(512 << 20).bytes(),
                "direct read 512.0 MiB",
            ),
            (
                "refault_pages",
                Measured::Exact(1234).pages(),
                "refault 1,234 pages",
            ),
            (
                "read_requests",
                Measured::Exact(1234).count(),
                "read requests 1,234",
            ),
            (
                "cgroup_limit_bytes",
                Measured::not_offered(Reason::NoOwnLimit),
                "cgroup limit bytes -",
            ),
        ] {
            assert_eq!(finding_figure(name, &value), text, "{name} for people");
        }
    }

    #[test]
    fn headline_counts_problems_and_names_their_subjects() {
        let mut diagnosis = sample::diagnosis();
        assert_eq!(
            headline_text(&diagnosis),
            "1 note: /data/file (cold_start)",
            "a note is no problem"
        );
        let mut problem = diagnosis.findings[0].clone();
        (problem.severity, problem.id) = (Severity::Warn, "thrashing");
        for _ in 0..3 {
            diagnosis.findings.push(problem.clone());
        }
        assert_eq!(
            headline_text(&diagnosis),
            "3 problems and 1 note: /data/file (thrashing), /data/file (thrashing), /data/file (thrashing), 1 more",
            "problems come first"
        );
        diagnosis.findings.clear();
        assert_eq!(headline_text(&diagnosis), "no cache problem found");
    }
}
