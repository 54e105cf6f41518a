//! A report of a run in any format: the output of `run`.
//!
//! # Layout
//! - [`write_report`], [`ReportOptions`]: the entry point.
//! - `text`: the parts for people in their order. `times`: the use of time. `classes`: requests by class. `tables`, `ranked`:
//!   files, processes, control groups. `stacks`: code that waits. `closing`: findings, checks, losses, notes. `row_checks`: checks of rows.
//! - `document`: JSON. `records`: CSV and OpenMetrics.

use std::io::{self, Write};

use cachewise_model::{Diagnosis, Interval};

use crate::format::Format;
use crate::json;

mod classes;
pub(crate) mod closing;
pub(crate) mod document;
mod evictions;
mod options;
mod ranked;
mod records;
mod row_checks;
pub(crate) mod stacks;
pub(crate) mod tables;
mod text;
mod times;

pub use closing::{finding_figure, folded_text, headline_text, lost_text};
pub use document::{backend_json, findings_json, lost_json};
pub(crate) use evictions::text as evictions_text;
pub use evictions::{culprit_text, evicted_by, evictions_json};
pub use options::ReportOptions;
pub use stacks::StackTable;

#[cfg(test)]
pub(crate) mod sample;

/// Writes the report of a run.
///
/// JSON has everything, indented; JSON lines the same on one line. CSV has a row per file.
/// OpenMetrics has only the totals, because the number of files and processes has no bound.
///
/// # Errors
/// The output's error; a closed pipe is [`io::ErrorKind::BrokenPipe`].
pub fn write_report(
    mut out: impl Write,
    format: Format,
    interval: &Interval,
    diagnosis: &Diagnosis,
    options: ReportOptions<'_>,
) -> io::Result<()> {
    let text = match format {
        Format::Table => text::report(interval, diagnosis, options),
        Format::Json => json::to_text(&document::json(interval, diagnosis), true),
        Format::JsonLines => json::to_text(&document::json(interval, diagnosis), false),
        Format::Csv => records::csv(interval, options.columns)?,
        Format::OpenMetrics => records::openmetrics(interval)?,
    };
    out.write_all(text.as_bytes())?;
    out.flush()
}
