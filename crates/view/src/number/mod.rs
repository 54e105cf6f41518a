//! Numbers as text for people. The terminal, the live view, the page and reports format here.
//!
//! - this file: in full, `131,072`, `512.0 MiB`, `99.61 %`.
//! - [`narrow`]: in at most five columns.
//! - `web`: amounts a second, as the page and its script show them.

use std::time::Duration;

use cachewise_model::{Datum, Measured, Unit, Value, escaped};
pub(crate) use cachewise_units::grouped;
use cachewise_units::{Bytes, Ratio};

use crate::cell::path_text;

pub mod narrow;
mod web;

pub use web::{per_second, share};

/// A value for people: `131,072`, `512.0 MiB`, `~99.61 %`, `?`, `-`.
#[must_use]
pub fn value_text(value: &Value) -> String {
    marked(value, shown)
}

/// A value's text with the mark of its quality: `~` before an estimate, `?` or `-` for a missing one.
#[must_use]
pub fn marked<T>(value: &Measured<T>, show: impl FnOnce(&T) -> String) -> String {
    match value {
        Measured::Exact(known) => show(known),
        Measured::Estimated(known, _) => format!("~{}", show(known)),
        Measured::Missing(missing) => missing.mark().to_owned(),
    }
}

pub(crate) fn shown(datum: &Datum) -> String {
    match datum {
        Datum::Count(number) => grouped(*number),
        Datum::Id(number) => number.to_string(),
        Datum::Pages(pages) => grouped(pages.0),
        Datum::Bytes(bytes) => bytes.to_string(),
        Datum::Seconds(seconds) => format!("{seconds:.3}"),
        Datum::Latency(seconds) => latency(*seconds),
        Datum::Factor(factor) => format!("{factor:.2}"),
        Datum::Ratio(ratio) => ratio.to_string(),
        Datum::Text(text) => escaped(text).into_owned(),
        Datum::Path(path) => path_text(path),
        Datum::Time(time) => clock(time).to_owned(),
    }
}

/// Seconds with their unit: `1.500 s`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

/// A time from nanoseconds to seconds, in the largest unit with at least one digit before the
/// point.
#[must_use]
pub fn latency(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "ns"), (1e6, "us"), (1e3, "ms")];
    for (factor, unit) in UNITS {
        let number = seconds * factor;
        // Compared as printed: otherwise 999.96 us would print as 1000.0.
        if number < 999.95 {
            return match unit {
                // A CPU's caches differ by parts of a nanosecond.
                "ns" if number < 99.995 => format!("{number:.2} {unit}"),
                "ns" => format!("{number:.0} {unit}"),
                _ => format!("{number:.1} {unit}"),
            };
        }
    }
    format!("{seconds:.1} s")
}

/// The time of day of an RFC 3339 text; readers of a live table know the date.
#[must_use]
pub fn clock(time: &str) -> &str {
    match time.split_once('T') {
        Some((_, clock)) => clock.get(..8).unwrap_or(time),
        None => time,
    }
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

#[cfg(test)]
mod tests {
    use cachewise_model::Reason;
    use cachewise_units::Pages;

    use super::*;

    fn ratio(part: u64, whole: u64) -> Datum {
        Datum::Ratio(Ratio::of(part, whole).unwrap())
    }

    #[test]
    fn value_text_formats_every_kind_of_value() {
        for (value, text) in [
            (Measured::Exact(Datum::Pages(Pages(131_072))), "131,072"),
            (Measured::Exact(Datum::Bytes(Bytes(512 << 20))), "512.0 MiB"),
            (Measured::Exact(ratio(999_999, 1_000_000)), "99.99 %"),
            (
                Measured::Estimated(Datum::Count(1234), Reason::ByVmstat),
                "~1,234",
            ),
            (Measured::Exact(Datum::Count(0)), "0"),
            (Measured::unknown(Reason::NoPermission), "?"),
            (Measured::not_offered(Reason::NotCounted), "-"),
            (Measured::Exact(Datum::Id(1_234_567)), "1234567"),
            (Measured::Exact(Datum::Seconds(1.5)), "1.500"),
            (Measured::Exact(Datum::Latency(1.254e-9)), "1.25 ns"),
            (Measured::Exact(Datum::Latency(7.34e-7)), "734 ns"),
            (Measured::Exact(Datum::Latency(9.9996e-4)), "1.0 ms"),
            (Measured::Exact(Datum::Latency(2.5)), "2.5 s"),
            (Measured::Exact(Datum::Factor(1.1666)), "1.17"),
            (
                Measured::Exact(Datum::Time("2026-01-02T03:04:05Z".into())),
                "03:04:05",
            ),
            (Measured::Exact(Datum::Time("now".into())), "now"),
            (Value::text("two words"), "two words"),
            (Value::text("\u{1b}[2J"), r"\x1b[2J"),
        ] {
            assert_eq!(value_text(&value), text, "{value:?}");
        }
    }

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
