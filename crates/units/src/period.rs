//! [`Period`]: time between two rows.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::decimal::{Decimal, Fault, MOST_PLACES};

/// A duration above zero and of at most a year, in the forms that people write: `1`, `0.5`,
/// `100ms`, `1m`.
///
/// ```
/// # use cachewise_units::Period;
/// # use std::time::Duration;
/// let period: Period = "100ms".parse()?;
/// assert_eq!(period.get(), Duration::from_millis(100));
/// assert!("0".parse::<Period>().is_err());
/// # Ok::<(), cachewise_units::ParsePeriodError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(Duration);

/// A longer one is useless, and deadlines computed from it could exceed the range of the clock.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Period {
    /// One second, the usual default.
    pub const SECOND: Self = Self(Duration::from_secs(1));

    /// Makes a period, or `None` if the duration is zero or longer than a year.
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

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(true, "", &format!("{:?}", self.0))
    }
}

/// Error for a text that is not a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePeriodError {
    input: String,
    fault: PeriodFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PeriodFault {
    Negative,
    Zero,
    TooShort,
    TooLong,
    TooPrecise,
    NotANumber,
    Unit(String),
}

impl fmt::Display for ParsePeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an interval: ", self.input)?;
        match &self.fault {
            PeriodFault::Negative => f.write_str("it is negative")?,
            PeriodFault::Zero => f.write_str("it is zero")?,
            PeriodFault::TooShort => f.write_str("it is shorter than a nanosecond")?,
            PeriodFault::TooLong => f.write_str("it is longer than a year")?,
            PeriodFault::TooPrecise => write!(f, "it has more than {MOST_PLACES} decimals")?,
            PeriodFault::NotANumber => f.write_str("it does not start with a number")?,
            PeriodFault::Unit(unit) => write!(f, "{unit:?} is not a unit of time")?,
        }
        f.write_str("; write seconds (1, 0.5), or a unit as in 100ms, 2s, 1m, 1h")
    }
}

impl std::error::Error for ParsePeriodError {}

impl FromStr for Period {
    type Err = ParsePeriodError;

    /// Parses seconds (`1`, `0.5`) or a number with `us`, `ms`, `s`, `m` (minutes) or `h`.
    ///
    /// # Errors
    /// Names the input, the fault, and the accepted forms.
    fn from_str(input: &str) -> Result<Self, Self::Err> {
        parse(input.trim()).map_err(|fault| ParsePeriodError {
            input: input.to_owned(),
            fault,
        })
    }
}

fn parse(text: &str) -> Result<Period, PeriodFault> {
    if text.starts_with('-') {
        return Err(PeriodFault::Negative);
    }
    let (number, unit) = Decimal::split(text).map_err(|fault| match fault {
        Fault::NotANumber => PeriodFault::NotANumber,
        Fault::TooLarge => PeriodFault::TooLong,
        Fault::TooPrecise => PeriodFault::TooPrecise,
    })?;
    let nanoseconds = match unit.trim_start() {
        "" | "s" => 1_000_000_000,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "m" | "min" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        unit => return Err(PeriodFault::Unit(unit.to_owned())),
    };
    if number.is_zero() {
        return Err(PeriodFault::Zero);
    }
    let duration = number
        .times(nanoseconds)
        .map(Duration::from_nanos)
        .ok_or(PeriodFault::TooLong)?;
    if duration.is_zero() {
        return Err(PeriodFault::TooShort);
    }
    Period::new(duration).ok_or(PeriodFault::TooLong)
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
            let interval: Period = text.parse().unwrap();
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
            let error = text.parse::<Period>().unwrap_err().to_string();
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
        assert_eq!(Period::new(Duration::ZERO), None, "zero is not an interval");
        assert_eq!(Period::new(Duration::MAX), None, "neither is forever");
        assert_eq!(Period::SECOND.to_string(), "1s", "printed with its unit");
    }

    proptest! {
        #[test]
        fn printed_form_parses_back(nanoseconds in 1_000..10_000_000_000_000_u64) {
            let interval = Period::new(Duration::from_nanos(nanoseconds)).unwrap();
            prop_assert_eq!(interval.to_string().parse(), Ok(interval), "a round trip");
        }
    }
}
