//! [`Ratio`]: a part of a whole, printed without claiming too much.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::decimal::Decimal;

/// A part of a whole, kept as two integers.
///
/// Printed as a percentage with two decimals. It prints `100.00 %` only if the part is the whole
/// and `0.00 %` only if the part is zero: one miss in a million is `99.99 %`. Ratios with equal
/// values are equal: 1 of 2 and 2 of 4.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    part: u64,
    whole: u64,
}

impl Ratio {
    /// Relates `part` to `whole`, or returns `None` if the whole is zero.
    ///
    /// A part may exceed the whole: readahead can insert more than was requested.
    #[must_use]
    pub const fn of(part: u64, whole: u64) -> Option<Self> {
        if whole == 0 {
            None
        } else {
            Some(Self { part, whole })
        }
    }

    /// Returns the ratio for machine formats: 1.0 is the whole.
    #[must_use]
    pub fn get(self) -> f64 {
        self.part as f64 / self.whole as f64
    }

    /// Returns the part.
    #[must_use]
    pub const fn part(self) -> u64 {
        self.part
    }

    /// Returns the whole, which is not zero.
    #[must_use]
    pub const fn whole(self) -> u64 {
        self.whole
    }

    /// Rounds to hundredths of a percent, but never to 0 or 100 % without being exactly that.
    fn hundredths(self) -> u128 {
        const ALL: u128 = 10_000;
        let (part, whole) = (u128::from(self.part), u128::from(self.whole));
        let rounded = (part * ALL + whole / 2) / whole;
        match self.part.cmp(&self.whole) {
            Ordering::Equal => ALL,
            Ordering::Less if self.part == 0 => 0,
            Ordering::Less => rounded.clamp(1, ALL - 1),
            Ordering::Greater => rounded.max(ALL + 1),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.hundredths();
        f.pad_integral(
            true,
            "",
            &format!("{}.{:02} %", hundredths / 100, hundredths % 100),
        )
    }
}

/// Error for a text that is not a ratio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRatioError {
    input: String,
}

impl fmt::Display for ParseRatioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a ratio; write a percentage as in 99.5%, or a part of 1 as in 0.995",
            self.input
        )
    }
}

impl std::error::Error for ParseRatioError {}

impl FromStr for Ratio {
    type Err = ParseRatioError;

    /// Parses a percentage (`99.5%`, `99.5 %`) or a part of 1 (`0.995`), exactly.
    ///
    /// # Errors
    /// Names the input and the accepted forms.
    fn from_str(input: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (number, unit) = Decimal::split(input.trim()).ok()?;
            let (part, whole) = match unit.trim_start() {
                "" => number.over(1)?,
                "%" => number.over(100)?,
                _ => return None,
            };
            Ratio::of(part, whole)
        };
        parse().ok_or_else(|| ParseRatioError {
            input: input.to_owned(),
        })
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |one: &Self, two: &Self| u128::from(one.part) * u128::from(two.whole);
        cross(self, other).cmp(&cross(other, self))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ratio {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ratio(part: u64, whole: u64) -> Ratio {
        Ratio::of(part, whole).unwrap()
    }

    #[test]
    fn prints_two_decimals_without_false_extremes() {
        for (part, whole, text) in [
            (0, 1, "0.00 %"),
            (1, 1, "100.00 %"),
            (249, 250, "99.60 %"),
            (1, 3, "33.33 %"),
            (2, 3, "66.67 %"),
            (999_999, 1_000_000, "99.99 %"),
            (1, 1_000_000, "0.01 %"),
            (u64::MAX - 1, u64::MAX, "99.99 %"),
            (1_000_001, 1_000_000, "100.01 %"),
            (3, 1, "300.00 %"),
        ] {
            assert_eq!(ratio(part, whole).to_string(), text, "{part} of {whole}");
        }
        assert_eq!(
            format!("{:9}|", ratio(1, 2)),
            "  50.00 %|",
            "aligned like a number"
        );
    }

    #[test]
    fn ratio_of_zero_whole_is_none() {
        assert_eq!(Ratio::of(0, 0), None, "no requests have no hit ratio");
        assert_eq!(Ratio::of(5, 0), None, "whatever the part");
    }

    #[test]
    fn parse_is_exact_and_refuses_other_forms() {
        for (text, part, whole) in [
            ("50%", 1, 2),
            ("99.6 %", 249, 250),
            ("0.996", 249, 250),
            ("0", 0, 1),
            ("250%", 5, 2),
        ] {
            assert_eq!(text.parse(), Ok(ratio(part, whole)), "{text}");
        }
        for text in ["", "%", "-1%", "1x", "50 % of it", "0.12345678901234567891"] {
            let error = text.parse::<Ratio>().unwrap_err().to_string();
            assert!(error.contains("99.5%"), "{text}: {error}");
        }
    }

    #[test]
    fn compares_by_value() {
        assert_eq!(ratio(1, 2), ratio(2, 4), "halves are halves");
        assert!(
            ratio(u64::MAX - 1, u64::MAX) < ratio(1, 1),
            "no precision is lost"
        );
        assert_eq!(ratio(1, 4).get(), 0.25, "1.0 is the whole");
    }

    proptest! {
        #[test]
        fn extremes_print_only_when_exact(part: u64, whole in 1..u64::MAX) {
            let text = ratio(part, whole).to_string();
            prop_assert_eq!(text == "100.00 %", part == whole, "{} of {}", part, whole);
            prop_assert_eq!(text == "0.00 %", part == 0, "{} of {}", part, whole);
        }

        #[test]
        fn printing_keeps_the_order(whole in 1..u64::MAX, a: u64, b: u64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(
                ratio(low, whole).hundredths() <= ratio(high, whole).hundredths(),
                "more is never printed as less"
            );
        }
    }
}
