//! [`Interval`]: time between two rows.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::decimal::{Decimal, Fault, MOST_PLACES};

/// A duration above zero and of at most a year, in the forms that people write: `1`, `0.5`,
/// `100ms`, `1m`.
///
/// ```
/// # use cachewise_units::Interval;
/// # use std::time::Duration;
/// let interval: Interval = "100ms".parse()?;
/// assert_eq!(interval.get(), Duration::from_millis(100));
/// assert!("0".parse::<Interval>().is_err());
/// # Ok::<(), cachewise_units::ParseIntervalError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(Duration);

/// A longer one is useless, and deadlines computed from it could exceed the range of the clock.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Interval {
    /// One second, the usual default.
    pub const SECOND: Self = Self(Duration::from_secs(1));

    /// Makes an interval, or `None` if the duration is zero or longer than a year.
    #[must_use]
    pub fn new(duration: Duration) -> Option<Self> {
        (!duration.is_zero() && duration <= LONGEST).then_some(Self(duration))
    }

    /// Returns the duration, which is not zero.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(true, "", &format!("{:?}", self.0))
    }
}

/// Error for a text that is not an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIntervalError {
    input: String,
    fault: IntervalFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IntervalFault {
    Negative,
    Zero,
    TooShort,
    TooLong,
    TooPrecise,
    NotANumber,
    Unit(String),
}

impl fmt::Display for ParseIntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an interval: ", self.input)?;
        match &self.fault {
            IntervalFault::Negative => f.write_str("it is negative")?,
            IntervalFault::Zero => f.write_str("it is zero")?,
            IntervalFault::TooShort => f.write_str("it is shorter than a nanosecond")?,
            IntervalFault::TooLong => f.write_str("it is longer than a year")?,
            IntervalFault::TooPrecise => write!(f, "it has more than {MOST_PLACES} decimals")?,
            IntervalFault::NotANumber => f.write_str("it does not start with a number")?,
            IntervalFault::Unit(unit) => write!(f, "{unit:?} is not a unit of time")?,
        }
        f.write_str("; write seconds (1, 0.5), or a unit as in 100ms, 2s, 1m, 1h")
    }
}

impl std::error::Error for ParseIntervalError {}

impl FromStr for Interval {
    type Err = ParseIntervalError;

    /// Parses seconds (`1`, `0.5`) or a number with `us`, `ms`, `s`, `m` (minutes) or `h`.
    ///
    /// # Errors
    /// Names the input, the fault, and the accepted forms.
    fn from_str(input: &str) -> Result<Self, Self::Err> {
        parse(input.trim()).map_err(|fault| ParseIntervalError {
            input: input.to_owned(),
            fault,
        })
    }
}

fn parse(text: &str) -> Result<Interval, IntervalFault> {
    if text.starts_with('-') {
        return Err(IntervalFault::Negative);
    }
    let (number, unit) = Decimal::split(text).map_err(|fault| match fault {
        Fault::NotANumber => IntervalFault::NotANumber,
        Fault::TooLarge => IntervalFault::TooLong,
        Fault::TooPrecise => IntervalFault::TooPrecise,
    })?;
    let nanoseconds = match unit.trim_start() {
        "" | "s" => 1_000_000_000,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "m" | "min" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        unit => return Err(IntervalFault::Unit(unit.to_owned())),
    };
    if number.is_zero() {
        return Err(IntervalFault::Zero);
    }
    let duration = number
        .times(nanoseconds)
        .map(Duration::from_nanos)
        .ok_or(IntervalFault::TooLong)?;
    if duration.is_zero() {
        return Err(IntervalFault::TooShort);
    }
    Interval::new(duration).ok_or(IntervalFault::TooLong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parse_accepts_every_documented_form() {
        for (text, milliseconds) in [
            ("1", 1_000),
            ("0.5", 500),
            (".2", 200),
            (".5m", 30_000),
            ("100ms", 100),
            ("2s", 2_000),
            ("1m", 60_000),
            ("1.5h", 5_400_000),
            ("1000us", 1),
            (" 3 s ", 3_000),
        ] {
            let interval: Interval = text.parse().unwrap();
            assert_eq!(
                interval.get(),
                Duration::from_millis(milliseconds),
                "{text:?}"
            );
        }
    }

    #[test]
    fn parse_refuses_invalid_intervals_with_reason() {
        for (text, why) in [
            ("0", "zero"),
            ("0.000s", "zero"),
            ("-1", "negative"),
            ("-0.5s", "negative"),
            ("", "number"),
            (".", "number"),
            (".s", "number"),
            (".0", "zero"),
            ("abc", "number"),
            ("inf", "number"),
            ("NaN", "number"),
            ("1x", "\"x\" is not a unit of time"),
            ("1e3", "\"e3\" is not a unit of time"),
            ("0.0000000001", "shorter than a nanosecond"),
            ("9000h", "longer than a year"),
            ("99999999999999999999999", "longer than a year"),
            ("0.11111111111111111111", "more than 19 decimals"),
        ] {
            let error = text.parse::<Interval>().unwrap_err().to_string();
            assert!(
                error.contains(why),
                "{text:?} should be refused as {why:?}: {error}"
            );
            assert!(
                error.contains("100ms"),
                "the accepted forms are named: {error}"
            );
        }
    }

    #[test]
    fn new_refuses_zero_and_more_than_a_year() {
        assert_eq!(
            Interval::new(Duration::ZERO),
            None,
            "zero is not an interval"
        );
        assert_eq!(Interval::new(Duration::MAX), None, "neither is forever");
        assert_eq!(Interval::SECOND.to_string(), "1s", "printed with its unit");
    }

    proptest! {
        #[test]
        fn printed_form_parses_back(nanoseconds in 1_000..10_000_000_000_000_u64) {
            let interval = Interval::new(Duration::from_nanos(nanoseconds)).unwrap();
            prop_assert_eq!(interval.to_string().parse(), Ok(interval), "a round trip");
        }
    }
}
