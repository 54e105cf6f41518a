//! [`Bytes`]: a number of bytes, its human form, and its parser.

use std::fmt;
use std::str::FromStr;

use crate::decimal::{Decimal, Fault, MOST_PLACES};
use crate::quantity::quantity;

/// A number of bytes.
///
/// Printed for people with binary units and one decimal (`17 B`, `512.0 MiB`), right-aligned in a
/// field with a width. Machine formats print the integer in `.0`.
///
/// ```
/// # use cachewise_units::Bytes;
/// assert_eq!(format!("[{:>10}]", Bytes(1536)), "[   1.5 KiB]");
/// assert_eq!("64K".parse(), Ok(Bytes(65_536)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

quantity!(Bytes);

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad_integral` aligns to the right by default, which suits a column of numbers.
        f.pad_integral(true, "", &human(self.0))
    }
}

fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = 0;
    let mut name = "";
    for (power, unit) in (1_u32..).zip(UNITS) {
        let size = 1_u128 << (10 * power);
        tenths = (u128::from(bytes) * 10 + size / 2) / size;
        name = unit;
        // Compared after rounding: otherwise 1,048,575 bytes would print as "1024.0 KiB".
        if tenths < 10_240 {
            break;
        }
    }
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// Error for a text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseBytesError {
    input: String,
    fault: BytesFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum BytesFault {
    Negative,
    NotANumber,
    Unit(String),
    PartOfAByte,
    TooLarge,
    TooPrecise,
}

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a size: ", self.input)?;
        match &self.fault {
            BytesFault::Negative => f.write_str("it is negative")?,
            BytesFault::NotANumber => f.write_str("it does not start with a number")?,
            BytesFault::Unit(unit) => write!(f, "{unit:?} is not a unit")?,
            BytesFault::PartOfAByte => f.write_str("a byte has no fraction")?,
            BytesFault::TooLarge => f.write_str("it does not fit into 64 bits")?,
            BytesFault::TooPrecise => write!(f, "it has more than {MOST_PLACES} decimals")?,
        }
        f.write_str(
            "; write bytes (4096), or binary units K, M, G, T, P, E as in 64K, 64KiB, 1M, 1.5G",
        )
    }
}

impl std::error::Error for ParseBytesError {}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    /// Parses `4096`, `64K`, `64KiB`, `1M`, `1.5G`, `512.0 MiB`; units are binary, in any case.
    ///
    /// # Errors
    /// Names the input, the fault, and the accepted forms. `KB` and `MB` are refused: half of the
    /// tools mean 1,000 by them, the other half 1,024.
    fn from_str(input: &str) -> Result<Self, Self::Err> {
        parse(input.trim()).map_err(|fault| ParseBytesError {
            input: input.to_owned(),
            fault,
        })
    }
}

fn parse(text: &str) -> Result<Bytes, BytesFault> {
    if text.starts_with('-') {
        return Err(BytesFault::Negative);
    }
    let (number, unit) = Decimal::split(text).map_err(|fault| match fault {
        Fault::NotANumber => BytesFault::NotANumber,
        Fault::TooLarge => BytesFault::TooLarge,
        Fault::TooPrecise => BytesFault::TooPrecise,
    })?;
    let unit = unit.trim_start();
    let size = unit_size(unit).ok_or_else(|| BytesFault::Unit(unit.to_owned()))?;
    if size == 1 && number.is_fraction() {
        return Err(BytesFault::PartOfAByte);
    }
    number.times(size).map(Bytes).ok_or(BytesFault::TooLarge)
}

fn unit_size(unit: &str) -> Option<u64> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
        return Some(1);
    }
    UNITS
        .iter()
        .position(|name| unit.eq_ignore_ascii_case(name) || unit.eq_ignore_ascii_case(&name[..1]))
        .map(|index| 1 << (10 * (index + 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_stable_human_forms() {
        for (bytes, text) in [
            (0, "0 B"),
            (17, "17 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (512 << 20, "512.0 MiB"),
            (1023 << 30, "1023.0 GiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text, "{bytes} bytes");
        }
        assert_eq!(
            format!("{:9}|", Bytes(17)),
            "     17 B|",
            "a width aligns to the right"
        );
        assert_eq!(
            format!("{:<9}|", Bytes(17)),
            "17 B     |",
            "an explicit alignment overrides it"
        );
    }

    #[test]
    fn parse_accepts_every_documented_form() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("17 B", 17),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1M", 1 << 20),
            ("1.5G", 3 << 29),
            (".5G", 1 << 29),
            (" 512.0 MiB ", 512 << 20),
            ("0.1K", 102),
            ("15E", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text:?} is {bytes} bytes");
        }
    }

    #[test]
    fn parse_refuses_invalid_sizes_with_reason() {
        for (text, why) in [
            ("", "does not start with a number"),
            ("-1", "negative"),
            ("-1.5G", "negative"),
            ("NaN", "does not start with a number"),
            ("inf", "does not start with a number"),
            (".G", "does not start with a number"),
            ("1e3", "\"e3\" is not a unit"),
            ("64KB", "\"KB\" is not a unit"),
            ("64Q", "\"Q\" is not a unit"),
            ("1.5", "no fraction"),
            ("16E", "64 bits"),
            ("18446744073709551616", "64 bits"),
            ("99999999999999999999999999999999999999999999", "64 bits"),
            ("0.11111111111111111111K", "more than 19 decimals"),
        ] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(
                error.contains(why),
                "{text:?} should be refused as {why:?}: {error}"
            );
            assert!(
                error.starts_with(&format!("{text:?}")),
                "the input is named: {error}"
            );
            assert!(
                error.contains("64KiB"),
                "the accepted forms are named: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn integers_survive_the_round_trip(bytes: u64) {
            prop_assert_eq!(bytes.to_string().parse(), Ok(Bytes(bytes)), "plain bytes");
        }

        #[test]
        fn human_form_is_exact_to_half_a_tenth(bytes in 0..1_u64 << 60) {
            let again: Bytes = Bytes(bytes).to_string().parse().unwrap();
            let apart = again.0.abs_diff(bytes);
            prop_assert!(apart <= bytes / 19 + 1, "{} was printed for {}", again.0, bytes);
        }

        #[test]
        fn parse_never_panics(text in ".{0,24}") {
            if let Err(error) = text.parse::<Bytes>() {
                prop_assert!(!error.to_string().is_empty(), "a refusal has a reason");
            }
        }
    }
}
