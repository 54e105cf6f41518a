//! The recording in words: its title, its time, and notes on its completeness.

use std::fmt::Write;

use cachewise_model::{Statistics, Unit, escaped};
use cachewise_view::{figure, gap_text, length};

use super::samples::ReportSamples;
use crate::html::text;

/// Gaps that are listed.
const MOST_GAPS: usize = 20;

pub(super) fn title(summary: &Statistics) -> String {
    let hostname = &summary.total.source.hostname;
    let begin = &summary.begin;
    match &summary.command[..] {
        [] => format!("{hostname}, {begin}: page cache"),
        words => format!("{hostname}: {}, {begin}", words.join(" ")),
    }
}

pub(super) fn time(summary: &Statistics) -> String {
    format!(
        "{} to {}, {}: {} samples",
        summary.begin,
        summary.total.time,
        length(summary.total.elapsed),
        figure(Unit::Count, summary.samples as f64),
    )
}

/// The command, the scope, the resolution, and notes on completeness: gaps, unreadable parts.
pub(super) fn notes(summary: &Statistics, samples: &ReportSamples) -> String {
    let command = (!summary.command.is_empty())
        .then(|| format!("Recorded command: {}", escaped(&summary.command.join(" "))));
    let scope = (!summary.scope.is_empty()).then(|| {
        let scope = &summary.scope;
        format!("Only {scope} is counted; memory and waiting are the machine's.")
    });
    let each = samples.samples_each();
    let resolution = (each > 1).then(|| {
        let time = match summary.interval.is_zero() {
            true => String::new(),
            false => format!(", {}", length(summary.interval.saturating_mul(each))),
        };
        format!(
            "Each point of the charts is of {each} samples{time}: shorter peaks are in the table of numbers."
        )
    });
    let gaps = summary.gaps.iter().take(MOST_GAPS);
    let gaps = gaps.map(|gap| format!("Gap: {}", gap_text(gap)));
    let more = summary.gaps.len().saturating_sub(MOST_GAPS) as u64 + summary.more_gaps;
    let more = (more > 0).then(|| format!("{more} more gaps"));
    let notes = command.into_iter().chain(scope).chain(resolution);
    let notes = notes.chain(gaps).chain(more);
    let notes = notes.chain(summary.problems.iter().cloned());
    let notes = notes.chain(summary.total.source.backend.notes.iter().cloned());
    let items = notes.fold(String::new(), |mut items, note| {
        // Writing to a string cannot fail.
        let _ = write!(items, "<li>{}</li>", text(&note));
        items
    });
    match items.is_empty() {
        true => items,
        false => format!("<ul class=\"note\" aria-label=\"Notes\">{items}</ul>"),
    }
}
