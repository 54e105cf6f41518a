//! Numbers, durations and gaps as text for people.

use std::time::Duration;

use cachewise_model::{Gap, Unit};
use cachewise_units::{Bytes, Ratio};

use crate::cell::grouped;

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
