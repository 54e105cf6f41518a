//! Amounts a second, as the page and its script show them. `assets/format.js` has the same rules, and
//! a test compares both.

use cachewise_model::{Datum, Kind, Value};
use cachewise_units::{Bytes, PageSize};

use super::{grouped, marked, value_text};

/// A value for people: counters a second, pages as bytes.
#[must_use]
pub fn per_second(value: &Value, kind: Kind, elapsed: f64, page_size: PageSize) -> String {
    let rate = |number: f64| match kind {
        Kind::Counter if elapsed > 0.0 => number / elapsed,
        _ => number,
    };
    let bytes = |number: f64| Bytes(rate(number).round() as u64).to_string();
    marked(value, |datum| match datum {
        Datum::Pages(pages) => bytes(pages.bytes(page_size).0 as f64),
        Datum::Bytes(size) => bytes(size.0 as f64),
        Datum::Count(count) => grouped(rate(*count as f64).round() as u64),
        Datum::Seconds(seconds) => super::seconds((rate(*seconds) * 1e3).round() / 1e3),
        Datum::Ratio(ratio) => share(ratio.get()),
        other => value_text(&Value::Exact(other.clone())),
    })
}

/// A ratio in percent: `12.5 %`.
#[must_use]
pub fn share(ratio: f64) -> String {
    format!("{:.1} %", (ratio * 1e3).round() / 10.0)
}
