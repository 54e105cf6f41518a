//! A value as text for people: numbers, marks for missing values, escaped names.
//!
//! # Layout
//! - [`cell`], [`compact`]: a value as text, with spaces and thousands separators or as one word.
//! - [`grouped`]: a number with thousands separators.
//! - [`width`], [`pad`], [`Side`], [`shortened`], [`wrapped`]: text in columns.

use std::path::Path;

use cachewise_model::{Datum, Measured, Value, escaped};
use unicode_width::UnicodeWidthStr;

/// A value for people: `131,072`, `512.0 MiB`, `~99.61 %`, `?`, `-`.
pub(crate) fn cell(value: &Value) -> String {
    marked(value, |datum| match datum {
        Datum::Count(number) => grouped(*number),
        Datum::Pages(pages) => grouped(pages.0),
        other => shown(other),
    })
}

/// A value for people, for views other than text tables.
#[must_use]
pub fn value_text(value: &Value) -> String {
    cell(value)
}

/// A value as one word, so that `awk` finds its column: `131072`, `512.0MiB`, `99.61%`.
pub(crate) fn compact(value: &Value) -> String {
    marked(value, |datum| match datum {
        Datum::Bytes(_) | Datum::Ratio(_) | Datum::Latency(_) => shown(datum).replace(' ', ""),
        other => shown(other),
    })
}

fn marked(value: &Value, show: impl Fn(&Datum) -> String) -> String {
    match value {
        Measured::Exact(datum) => show(datum),
        Measured::Estimated(datum, _) => format!("~{}", show(datum)),
        Measured::Missing(missing) => missing.mark().to_owned(),
    }
}

fn shown(datum: &Datum) -> String {
    match datum {
        Datum::Count(number) | Datum::Id(number) => number.to_string(),
        Datum::Pages(pages) => pages.to_string(),
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

/// A time from nanoseconds to seconds, in the largest unit with at least one digit before the
/// point.
fn latency(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "ns"), (1e6, "us"), (1e3, "ms")];
    for (factor, unit) in UNITS {
        let number = seconds * factor;
        // Compared as printed: otherwise 999.96 us would print as 1000.0.
        if number < 999.95 {
            return match unit {
                "ns" => format!("{number:.0} {unit}"),
                _ => format!("{number:.1} {unit}"),
            };
        }
    }
    format!("{seconds:.1} s")
}

/// A path with escaped control characters.
pub(crate) fn path_text(path: &Path) -> String {
    escaped(path.as_os_str()).into_owned()
}

/// The time of day of an RFC 3339 text; readers of a live table know the date.
fn clock(time: &str) -> &str {
    match time.split_once('T') {
        Some((_, clock)) => clock.get(..8).unwrap_or(time),
        None => time,
    }
}

/// A number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Pads a text to a width; a wider one is unchanged.
pub(crate) fn pad(text: &str, columns: usize, side: Side) -> String {
    let fill = " ".repeat(columns.saturating_sub(width(text)));
    match side {
        Side::Left => format!("{text}{fill}"),
        Side::Right => format!("{fill}{text}"),
    }
}

/// Minimum width of a cut name; a line may rather be too long.
pub(crate) const LEAST_WIDTH: usize = 16;

/// A path cut in the middle: two thirds of the width are for its end, the file name.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    const DOTS: &str = "...";
    let columns = columns.max(LEAST_WIDTH);
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns - DOTS.len();
    let head = fitting(text.chars(), room / 3);
    let tail: String = fitting(text.chars().rev(), room - room / 3)
        .chars()
        .rev()
        .collect();
    format!("{head}{DOTS}{tail}")
}

/// The beginning of a text, cut to this width: the end of a sentence matters least.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    const DOTS: &str = "...";
    if width(text) <= columns {
        return text.to_owned();
    }
    let head = fitting(text.chars(), columns.saturating_sub(DOTS.len()));
    format!("{}{DOTS}", head.trim_end())
}

/// The characters that fit into this width.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += width(c.encode_utf8(&mut [0; 4]));
            used <= columns
        })
        .collect()
}

/// Text broken between words at `columns`; following lines are indented.
///
/// Colour escape sequences have no width. A longer word gets a line of its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    const INDENT: &str = "  ";
    let mut lines = String::with_capacity(text.len());
    let mut used = 0;
    for (place, word) in text.split(' ').enumerate() {
        let taken = seen_width(word);
        if place > 0 && used + 1 + taken > columns {
            lines += "\n";
            lines += INDENT;
            used = INDENT.len();
        } else if place > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += taken;
    }
    lines
}

/// The width without colour escape sequences.
fn seen_width(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let plain = parts.next().map_or(0, width);
    let after = |part: &str| part.split_once('m').map_or(0, |(_, seen)| width(seen));
    plain + parts.map(after).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use cachewise_model::Reason;
    use cachewise_units::{Bytes, Pages, Ratio};

    use super::*;

    fn ratio(part: u64, whole: u64) -> Datum {
        Datum::Ratio(Ratio::of(part, whole).unwrap())
    }

    #[test]
    fn cell_and_compact_format_every_kind_of_value() {
        for (value, long, short) in [
            (
                Measured::Exact(Datum::Pages(Pages(131_072))),
                "131,072",
                "131072",
            ),
            (
                Measured::Exact(Datum::Bytes(Bytes(512 << 20))),
                "512.0 MiB",
                "512.0MiB",
            ),
            (
                Measured::Exact(ratio(999_999, 1_000_000)),
                "99.99 %",
                "99.99%",
            ),
            (
                Measured::Estimated(Datum::Count(1234), Reason::ByVmstat),
                "~1,234",
                "~1234",
            ),
            (Measured::Exact(Datum::Count(0)), "0", "0"),
            (Measured::unknown(Reason::NoPermission), "?", "?"),
            (Measured::not_offered(Reason::NotCounted), "-", "-"),
            (Measured::Exact(Datum::Id(1_234_567)), "1234567", "1234567"),
            (Measured::Exact(Datum::Seconds(1.5)), "1.500", "1.500"),
            (Measured::Exact(Datum::Latency(7.34e-7)), "734 ns", "734ns"),
            (
                Measured::Exact(Datum::Latency(9.9996e-4)),
                "1.0 ms",
                "1.0ms",
            ),
            (Measured::Exact(Datum::Latency(2.5)), "2.5 s", "2.5s"),
            (Measured::Exact(Datum::Factor(1.1666)), "1.17", "1.17"),
            (
                Measured::Exact(Datum::Time("2026-01-02T03:04:05Z".into())),
                "03:04:05",
                "03:04:05",
            ),
            (Measured::Exact(Datum::Time("now".into())), "now", "now"),
            (Value::text("two words"), "two words", "two words"),
            (Value::text("\u{1b}[2J"), r"\x1b[2J", r"\x1b[2J"),
        ] {
            assert_eq!(cell(&value), long, "{value:?} in a report");
            assert_eq!(compact(&value), short, "{value:?} in a row");
        }
    }

    #[test]
    fn grouped_separates_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text, "{number} in groups of three");
        }
    }

    #[test]
    fn width_counts_visible_columns() {
        assert_eq!(
            pad("\u{6f22}", 4, Side::Right),
            "  \u{6f22}",
            "a wide character takes two"
        );
        assert_eq!(pad("12345", 3, Side::Left), "12345", "nothing is cut");
    }

    #[test]
    fn shortened_keeps_the_end_of_a_path() {
        let path = "/home/somebody/projects/cachewise/target/release/deps/libmodel.rlib";
        let short = shortened(path, 40);
        assert_eq!(
            short, "/home/somebo...elease/deps/libmodel.rlib",
            "a third and two thirds"
        );
        assert!(width(&short) <= 40, "it fits");
        assert_eq!(
            shortened("/short", 40),
            "/short",
            "a fitting path is unchanged"
        );
        assert_eq!(width(&shortened(path, 1)), 16, "something is always left");
        assert!(
            width(&shortened(&"\u{6f22}".repeat(40), 21)) <= 21,
            "wide characters are not cut in two"
        );
    }

    #[test]
    fn wrapped_breaks_between_words() {
        let text = "no room for EVICTED, BUFFERS, PAGE-CACHE";
        assert_eq!(wrapped(text, 40), text, "a fitting text is unchanged");
        assert_eq!(
            wrapped(text, 39),
            "no room for EVICTED, BUFFERS,\n  PAGE-CACHE",
            "a word that does not fit starts the next line"
        );
        assert_eq!(
            wrapped("a incomprehensibilities b", 5),
            "a\n  incomprehensibilities\n  b",
            "no word is cut"
        );
        let bold = "\u{1b}[1mno room\u{1b}[0m here";
        assert_eq!(wrapped(bold, 12), bold, "colour takes no columns");
        assert_eq!(
            wrapped(bold, 11).lines().count(),
            2,
            "and letters do, coloured or not"
        );
    }
}
