//! Statistics of a recording, in any format: the output of `report`.
//!
//! # Layout
//! - [`write_summary`], [`SummaryOptions`]: the entry point.
//! - [`figure`], [`length`], [`gap_text`]: a number of a field, a duration, and a gap, for people.
//! - `text`: for people. `document`: JSON; `records`: CSV and OpenMetrics.

use std::io::{self, Write};
use std::time::Duration;

use cachewise_model::{Field, Gap, Summary, Unit};
use cachewise_units::{Bytes, Ratio};

use crate::cell::grouped;
use crate::format::Format;
use crate::json;
use crate::style::Style;

mod document;
mod records;
mod text;

/// Options of a summary.
#[derive(Debug, Clone, Default)]
pub struct SummaryOptions {
    /// For tables: colour and width.
    pub style: Style,
    /// For tables: maximum processes, files and control groups to name.
    pub top: usize,
    /// Only these fields; `None` shows people the most important ones, and programs all.
    pub columns: Option<Vec<&'static Field>>,
}

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
    summary: &Summary,
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

/// Whether a field was requested; all are if none were named.
fn is_wanted(field: &Field, options: &SummaryOptions) -> bool {
    (options.columns.as_ref())
        .is_none_or(|columns| columns.iter().any(|column| column.id == field.id))
}

/// A number in its field's unit, for people: `1,234`, `0.3`, `12.0 MiB`, `99.61 %`.
#[must_use]
pub fn figure(unit: Unit, number: f64) -> String {
    /// Numbers above this need no fraction.
    const LARGE: f64 = 10.0;
    match unit {
        Unit::Bytes => Bytes(number.round() as u64).to_string(),
        Unit::Seconds => format!("{number:.3}"),
        Unit::Factor => format!("{number:.2}"),
        Unit::Ratio => {
            const PARTS: f64 = 1e6;
            let ratio = Ratio::of((number * PARTS).round() as u64, PARTS as u64);
            ratio.map_or("-".into(), |ratio| ratio.to_string())
        }
        _ if number > 0.0 && number < LARGE && number.fract() != 0.0 => format!("{number:.1}"),
        _ => grouped(number.round() as u64),
    }
}

/// A duration for people: `0.25 s`, `12.3 s`, `5 min 3 s`, `8 h 0 min`, `3 d 4 h`.
#[must_use]
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{:.2} s", time.as_secs_f64()),
        1..60 if time.subsec_nanos() == 0 => format!("{seconds} s"),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Time and kind of a gap, for people.
#[must_use]
pub fn gap_text(gap: &Gap) -> String {
    let kind = gap.kind.meaning();
    match (
        gap.begin.as_ref().known(),
        gap.end.as_ref().known(),
        gap.length.known(),
    ) {
        (Some(begin), Some(end), Some(time)) => {
            format!("{begin} to {end}, {}: {kind}", length(time))
        }
        (Some(begin), _, _) => format!("after {begin}, for an unknown time: {kind}"),
        (_, Some(end), _) => format!("before {end}, since an unknown time: {kind}"),
        (None, None, _) => format!("at an unknown time: {kind}"),
    }
}

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_drops_useless_fractions() {
        for (unit, number, text) in [
            (Unit::Pages, 1_234.4, "1,234"),
            (Unit::Pages, 0.25, "0.2"),
            (Unit::Pages, 3.0, "3"),
            (Unit::Pages, 0.0, "0"),
            (Unit::Bytes, 1_536.2, "1.5 KiB"),
            (Unit::Seconds, 0.5, "0.500"),
            (Unit::Ratio, 0.9961, "99.61 %"),
        ] {
            assert_eq!(figure(unit, number), text, "{number} {unit:?}");
        }
    }

    #[test]
    fn length_has_at_most_two_units() {
        for (seconds, text) in [
            (0.25, "0.25 s"),
            (1.0, "1 s"),
            (12.34, "12.3 s"),
            (303.9, "5 min 3 s"),
            (28_800.0, "8 h 0 min"),
            (273_700.0, "3 d 4 h"),
        ] {
            assert_eq!(length(Duration::from_secs_f64(seconds)), text, "{seconds}");
        }
    }
}
