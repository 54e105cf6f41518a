//! Statistics of a recording, in any format: the output of `report`.
//!
//! # Layout
//! - [`write_summary`], [`SummaryOptions`]: the entry point.
//! - [`figure`], [`length`], [`gap_text`]: a number of a field, a duration, and a gap, for people.
//! - `text`: for people. `document`: JSON; `records`: CSV and OpenMetrics.

use std::io::{self, Write};

use cachewise_model::Statistics;

use crate::format::Format;
use crate::json;

mod document;
mod gap;
mod options;
mod records;
mod text;

pub use gap::gap_text;
pub use options::SummaryOptions;

/// Writes a summary.
///
/// JSON has everything, indented; JSON lines the same on one line. CSV has a row per field.
/// OpenMetrics has the sums of counters and the last values of gauges.
///
/// # Errors
/// The output's error; a closed pipe is [`io::ErrorKind::BrokenPipe`].
pub fn write_summary(
    mut out: impl Write,
    format: Format,
    summary: &Statistics,
    options: &SummaryOptions,
) -> io::Result<()> {
    let text = match format {
        Format::Table => text::summary(summary, options),
        Format::Json => json::to_text(&document::json(summary, options), true),
        Format::JsonLines => json::to_text(&document::json(summary, options), false),
        Format::Csv => records::csv(summary, options)?,
        Format::OpenMetrics => records::openmetrics(summary, options)?,
    };
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
pub(crate) mod sample;
