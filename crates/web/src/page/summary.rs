//! The picture of reads, the figures, and notes.

use std::fmt::Write;

use cachewise_model::{Counter, Interval, Kind, field};
use cachewise_units::PageSize;
use cachewise_view::{ReadPart, per_second, share};

use super::time::Time;
use crate::html::text as escape;

/// The picture of reads: parts of what was requested, and direct I/O beside them.
pub(super) fn reads(interval: Option<&Interval>, page_size: PageSize, time: Time) -> String {
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
                let kind = time.kind(Kind::Counter);
                let per = if time.is_rate(Kind::Counter) {
                    "/s"
                } else {
                    ""
                };
                format!(
                    "{}{per}",
                    per_second(&bytes.bytes(), kind, seconds, page_size)
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

pub(crate) fn notes(notes: &[String]) -> String {
    notes.iter().fold(String::new(), |mut text, note| {
        // Writing to a string cannot fail.
        let _ = write!(text, "<p class=\"note\">{}</p>", escape(note));
        text
    })
}

/// The figures at the top.
pub(super) fn figures(interval: Option<&Interval>, page_size: PageSize, time: Time) -> String {
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
            let seconds = row.elapsed.as_secs_f64();
            let shown = per_second(&value, time.kind(field.kind), seconds, page_size);
            match time.is_rate(field.kind) && value.missing().is_none() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_of_reads_has_a_bar_for_each_part_of_requested_pages() {
        let page_size = PageSize::new(4096).expect("a power of two");
        let unknown = reads(None, page_size, Time::Live);
        assert_eq!(unknown.matches("<rect ").count(), 3, "{unknown}");
        assert_eq!(unknown.matches("<b>-</b>").count(), 4, "{unknown}");
    }
}
