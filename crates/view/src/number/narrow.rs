//! Numbers in at most five columns; a value above zero never shows as zero.

use cachewise_model::{Datum, escaped};
use cachewise_units::Ratio;

use super::clock;
use crate::cell::path_text;

/// A value that is not a rate.
#[must_use]
pub fn datum(datum: &Datum) -> String {
    match datum {
        Datum::Count(number) => plain(*number as f64),
        Datum::Id(number) => number.to_string(),
        Datum::Pages(pages) => plain(pages.0 as f64),
        Datum::Bytes(size) => bytes(size.0 as f64),
        Datum::Seconds(seconds) | Datum::Latency(seconds) => format!("{seconds:.1}s"),
        Datum::Factor(factor) => format!("{factor:.1}"),
        Datum::Ratio(part) => ratio(*part),
        Datum::Text(text) => escaped(text).into_owned(),
        Datum::Path(path) => path_text(path),
        Datum::Time(time) => clock(time).to_owned(),
    }
}

/// An amount in at most five columns; a value above zero never shows as 0.
#[must_use]
pub fn plain(amount: f64) -> String {
    if amount >= 99_999.5 {
        return stepped(amount, 1000.0, &["", "k", "M", "G", "T", "P", "E"]);
    }
    if amount == 0.0 {
        "0".into()
    } else if amount < 0.05 {
        "<0.1".into()
    } else if amount < 9.95 && amount.fract() != 0.0 {
        format!("{amount:.1}")
    } else {
        format!("{amount:.0}")
    }
}

/// Bytes in at most five columns, in binary units.
#[must_use]
pub fn bytes(amount: f64) -> String {
    if amount == 0.0 {
        "0".into()
    } else if amount < 1.0 {
        "<1B".into()
    } else {
        stepped(amount, 1024.0, &["B", "K", "M", "G", "T", "P", "E"])
    }
}

/// Three digits and a unit.
fn stepped(amount: f64, step: f64, units: &[&str]) -> String {
    let mut rest = amount;
    let mut unit = 0;
    // 999.5 would print as 1000.
    while rest >= if unit == 0 { step } else { 999.5 } && unit + 1 < units.len() {
        rest /= step;
        unit += 1;
    }
    let name = units[unit];
    match rest {
        _ if unit == 0 => format!("{rest:.0}{name}"),
        rest if rest < 9.995 => format!("{rest:.2}{name}"),
        rest if rest < 99.95 => format!("{rest:.1}{name}"),
        rest => format!("{rest:.0}{name}"),
    }
}

/// A share in percent; `0%` and `100%` are exact.
#[must_use]
pub fn ratio(part: Ratio) -> String {
    let (some, all) = (part.part(), part.whole());
    if some == 0 {
        "0%".into()
    } else if some == all {
        "100%".into()
    } else if some < all {
        let tenths = (part.get() * 1000.0).round();
        match tenths {
            tenths if tenths < 1.0 => "<0.1%".into(),
            tenths => format!("{:.1}%", tenths.min(999.0) / 10.0),
        }
    } else {
        percent(part.get() * 100.0)
    }
}

/// A percentage; above 100 % without a fraction.
#[must_use]
pub fn percent(percent: f64) -> String {
    match percent {
        0.0 => "0%".into(),
        percent if percent < 0.05 => "<0.1%".into(),
        percent if percent < 99.95 => format!("{percent:.1}%"),
        percent => format!("{percent:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_rounded_to_zero() {
        for (amount, text) in [
            (0.0, "0"),
            (0.01, "<0.1"),
            (0.5, "0.5"),
            (3.0, "3"),
            (3.04, "3.0"),
            (99.97, "100"),
            (12_345.4, "12345"),
            (123_456.0, "123k"),
            (1_234_567.0, "1.23M"),
        ] {
            assert_eq!(plain(amount), text, "{amount} things");
        }
        for (amount, text) in [
            (0.0, "0"),
            (0.2, "<1B"),
            (512.0, "512B"),
            (1023.0, "1023B"),
            (4096.0, "4.00K"),
            (1023.9 * 1024.0, "1.00M"),
            (512.0 * 1024.0 * 1024.0, "512M"),
            (99.97 * 1024.0, "100K"),
            (12.34 * 1024.0 * 1024.0, "12.3M"),
        ] {
            assert_eq!(bytes(amount), text, "{amount} bytes");
        }
    }

    #[test]
    fn ratio_shows_extremes_only_when_exact() {
        for (part, whole, text) in [
            (0, 9, "0%"),
            (1, 100_000, "<0.1%"),
            (1, 3, "33.3%"),
            (99_999, 100_000, "99.9%"),
            (9, 9, "100%"),
        ] {
            assert_eq!(
                Ratio::of(part, whole).map(ratio).as_deref(),
                Some(text),
                "{part} of {whole}"
            );
        }
    }
}
