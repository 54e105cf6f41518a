//! Exact decimal numbers such as the `1.5` of `1.5G`, without floating point and its silent
//! rounding.

/// A non-negative decimal number with its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    places: u32,
}

/// Reason why a text does not start with a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not start with a digit, or a point is not followed by one.
    NotANumber,
    /// It exceeds 64 bits in any unit.
    TooLarge,
    /// It has more decimals than are kept exactly.
    TooPrecise,
}

/// More decimals do not fit into 128 bits with a unit of 2^60.
pub(crate) const MOST_PLACES: usize = 19;

impl Decimal {
    /// Splits a decimal number off the front of `text`. Returns the number and the rest.
    ///
    /// A number has neither sign nor exponent, and a digit follows its point: `-1`, `1e3`, `1.`,
    /// `NaN` and `inf` are refused, `.5` is accepted.
    pub(crate) fn split(text: &str) -> Result<(Self, &str), Fault> {
        let (whole, rest) = split_digits(text);
        if whole.is_empty() && !rest.starts_with('.') {
            return Err(Fault::NotANumber);
        }
        let (fraction, rest) = match rest.strip_prefix('.') {
            None => ("", rest),
            Some(after) => match split_digits(after) {
                ("", _) => return Err(Fault::NotANumber),
                found => found,
            },
        };
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > MOST_PLACES {
            return Err(Fault::TooPrecise);
        }
        // A whole part of 64 bits and 19 decimals fit into 128 bits.
        let digits = whole
            .bytes()
            .chain(fraction.bytes())
            .try_fold(0_u128, |sum, digit| {
                sum.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
            })
            .ok_or(Fault::TooLarge)?;
        let places = fraction.len() as u32;
        Ok((Self { digits, places }, rest))
    }

    /// Whether a decimal other than zero follows the point.
    pub(crate) fn is_fraction(self) -> bool {
        self.places > 0
    }

    /// Whether this is exactly zero.
    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// Returns the number over `whole` as a part and a whole, or `None` on overflow.
    pub(crate) fn over(self, whole: u64) -> Option<(u64, u64)> {
        let part = u64::try_from(self.digits).ok()?;
        Some((part, 10_u64.checked_pow(self.places)?.checked_mul(whole)?))
    }

    /// Returns the number times `unit`, rounded to the nearest integer (halves up), or `None` on
    /// overflow.
    pub(crate) fn times(self, unit: u64) -> Option<u64> {
        let scale = 10_u128.pow(self.places);
        let unit = u128::from(unit);
        let whole = (self.digits / scale).checked_mul(unit)?;
        // Below 10^19 * 2^64 < 2^128, so neither the product nor the added half can overflow.
        let part = ((self.digits % scale) * unit + scale / 2) / scale;
        u64::try_from(whole.checked_add(part)?).ok()
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_returns_number_and_unit() {
        let (number, rest) = Decimal::split("1.50GiB").unwrap();
        assert_eq!(rest, "GiB", "the unit is what follows the digits");
        assert_eq!(
            number.times(10),
            Some(15),
            "zeros at the end change nothing"
        );
        assert!(number.is_fraction(), "1.50 is not a whole number");
        assert!(
            !Decimal::split("2.00").unwrap().0.is_fraction(),
            "2.00 is one"
        );
    }

    #[test]
    fn split_refuses_signs_and_exponents() {
        for text in [
            "", "-1", "+1", ".", "..5", "1.", "1.K", ".K", "NaN", "inf", " 1",
        ] {
            assert_eq!(
                Decimal::split(text),
                Err(Fault::NotANumber),
                "{text:?} is no number"
            );
        }
        let long = "9".repeat(40);
        assert_eq!(
            Decimal::split(&long),
            Err(Fault::TooLarge),
            "40 digits do not fit"
        );
        let fine = format!("0.{}", "1".repeat(20));
        assert_eq!(
            Decimal::split(&fine),
            Err(Fault::TooPrecise),
            "20 places are not kept"
        );
    }

    #[test]
    fn rounds_halves_up_and_reports_overflow() {
        let number = |text| Decimal::split(text).unwrap().0;
        assert_eq!(number("0.5").times(1), Some(1), "a half goes up");
        assert_eq!(
            number("0.4999999999999999999").times(1),
            Some(0),
            "less goes down"
        );
        let most = number("18446744073709551615");
        assert_eq!(most.times(1), Some(u64::MAX), "the largest number fits");
        assert_eq!(most.times(2), None, "twice that does not");
        assert_eq!(
            number("18446744073709551615.9").times(1),
            None,
            "rounding up can overflow"
        );
    }
}
