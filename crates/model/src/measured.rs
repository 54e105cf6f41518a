//! A number together with how well it is known.
//!
//! "Not allowed to know", "not offered by this kernel" and "zero" are three answers. Printing one for
//! another is the worst bug that tools of this kind have, so the difference is in the type, and every
//! calculation carries it on: a missing input makes a missing result with the same reason.

use cachewise_units::Ratio;

/// Why a number is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    /// It exists, but could not be had here: permission, a lost race. Prints `?`.
    Unknown(&'static str),
    /// There is no such number here: kernel, back-end or row do not have it. Prints `-`.
    NotOffered(&'static str),
}

impl Missing {
    /// The reason in words, as machine formats give it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Missing::Unknown(reason) | Missing::NotOffered(reason) => reason,
        }
    }

    /// What stands in a table's cell: `?` or `-`.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Missing::Unknown(_) => "?",
            Missing::NotOffered(_) => "-",
        }
    }
}

/// A value and its quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measured<T> {
    /// As counted by the kernel, to the unit.
    Exact(T),
    /// From a fallback that can be wrong; the text says how it came about. Prints with `~`.
    Estimated(T, &'static str),
    /// Not there.
    Missing(Missing),
}

/// A counter's value and its quality.
pub type Count = Measured<u64>;

impl<T> Measured<T> {
    /// Not allowed to know, or lost.
    #[must_use]
    pub const fn unknown(reason: &'static str) -> Self {
        Measured::Missing(Missing::Unknown(reason))
    }

    /// Not offered here.
    #[must_use]
    pub const fn not_offered(reason: &'static str) -> Self {
        Measured::Missing(Missing::NotOffered(reason))
    }

    /// The number if it is exact; findings build on nothing less.
    #[must_use]
    pub fn exact(self) -> Option<T> {
        match self {
            Measured::Exact(value) => Some(value),
            Measured::Estimated(..) | Measured::Missing(_) => None,
        }
    }

    /// The number, exact or estimated.
    #[must_use]
    pub fn known(self) -> Option<T> {
        match self {
            Measured::Exact(value) | Measured::Estimated(value, _) => Some(value),
            Measured::Missing(_) => None,
        }
    }

    /// The same with a reference inside.
    pub const fn as_ref(&self) -> Measured<&T> {
        match self {
            Measured::Exact(value) => Measured::Exact(value),
            Measured::Estimated(value, how) => Measured::Estimated(value, how),
            Measured::Missing(missing) => Measured::Missing(*missing),
        }
    }

    /// Why it is missing, if it is.
    #[must_use]
    pub const fn missing(&self) -> Option<Missing> {
        match self {
            Measured::Missing(missing) => Some(*missing),
            Measured::Exact(_) | Measured::Estimated(..) => None,
        }
    }

    /// How it was estimated, if it was.
    #[must_use]
    pub const fn estimate(&self) -> Option<&'static str> {
        match self {
            Measured::Estimated(_, how) => Some(how),
            Measured::Exact(_) | Measured::Missing(_) => None,
        }
    }

    /// Applies a calculation to the value; the quality stays.
    pub fn map<U>(self, calculate: impl FnOnce(T) -> U) -> Measured<U> {
        match self {
            Measured::Exact(value) => Measured::Exact(calculate(value)),
            Measured::Estimated(value, how) => Measured::Estimated(calculate(value), how),
            Measured::Missing(missing) => Measured::Missing(missing),
        }
    }

    /// Combines two values: missing beats estimated beats exact, the left one's reason first.
    pub fn zip<U, V>(self, other: Measured<U>, calculate: impl FnOnce(T, U) -> V) -> Measured<V> {
        use Measured::{Estimated, Exact, Missing};
        match (self, other) {
            (Missing(missing), _) | (_, Missing(missing)) => Missing(missing),
            (Exact(left), Exact(right)) => Exact(calculate(left, right)),
            (Estimated(left, how), Exact(right) | Estimated(right, _))
            | (Exact(left), Estimated(right, how)) => Estimated(calculate(left, right), how),
        }
    }
}

impl Count {
    /// The sum of two counts.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        self.zip(other, u64::saturating_add)
    }

    /// The difference, never below zero: counters read at two moments may be a page apart.
    #[must_use]
    pub fn minus(self, other: Count) -> Count {
        self.zip(other, u64::saturating_sub)
    }

    /// This count as a part of `whole`, 0 to 1.
    ///
    /// Nothing asked for is neither 0 % nor 100 %: a zero whole gives [`Missing::NotOffered`].
    #[must_use]
    pub fn ratio_of(self, whole: Count) -> Measured<Ratio> {
        match self.zip(whole, Ratio::of) {
            Measured::Exact(Some(ratio)) => Measured::Exact(ratio),
            Measured::Estimated(Some(ratio), how) => Measured::Estimated(ratio, how),
            Measured::Exact(None) | Measured::Estimated(None, _) => {
                Measured::not_offered("nothing was asked for")
            }
            Measured::Missing(missing) => Measured::Missing(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_beats_estimated_beats_exact() {
        let exact = Measured::Exact(2u64);
        let estimated = Measured::Estimated(3u64, "guessed");
        let unknown: Count = Measured::unknown("permission");
        assert_eq!(
            exact.plus(exact),
            Measured::Exact(4),
            "two exact counts stay exact"
        );
        assert_eq!(
            exact.plus(estimated),
            Measured::Estimated(5, "guessed"),
            "one estimate makes the sum an estimate"
        );
        assert_eq!(
            estimated.plus(unknown),
            unknown,
            "one missing part makes the sum missing"
        );
        assert_eq!(unknown.minus(exact), unknown, "the reason is handed on");
    }

    #[test]
    fn nothing_asked_for_has_no_ratio() {
        let zero = Measured::Exact(0u64);
        assert_eq!(
            zero.ratio_of(zero),
            Measured::not_offered("nothing was asked for"),
            "zero of zero is not a percentage"
        );
        let quarter = Measured::Exact(1u64).ratio_of(Measured::Exact(4));
        assert_eq!(
            quarter.map(Ratio::get),
            Measured::Exact(0.25),
            "one of four is a quarter"
        );
        let unknown: Count = Measured::unknown("lost");
        assert_eq!(
            unknown.ratio_of(Measured::Exact(4)).missing(),
            Some(Missing::Unknown("lost")),
            "a ratio with a missing part is missing for the same reason"
        );
    }

    #[test]
    fn minus_stops_at_zero() {
        assert_eq!(
            Measured::Exact(1u64).minus(Measured::Exact(2)),
            Measured::Exact(0),
            "a page in flight must not become 2^64 pages"
        );
    }
}
