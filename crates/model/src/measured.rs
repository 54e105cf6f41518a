//! A number with its quality.
//!
//! "Not allowed to know", "not offered by this kernel" and "zero" are three different answers.
//! Confusing them is the worst bug of such tools, so the difference is in the type, and every
//! calculation preserves it: a missing input gives a missing result with the same reason.

use cachewise_units::Ratio;

use crate::reason::Reason;

/// Reason for a missing number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    /// It exists, but is unknown here: no permission, or a lost race. Prints `?`.
    Unknown(Reason),
    /// It does not exist here: the kernel, back-end or row does not have it. Prints `-`.
    NotOffered(Reason),
}

impl Missing {
    /// The reason.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Missing::Unknown(reason) | Missing::NotOffered(reason) => reason,
        }
    }

    /// The mark in a table's cell: `?` or `-`.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Missing::Unknown(_) => "?",
            Missing::NotOffered(_) => "-",
        }
    }
}

/// A value with its quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measured<T> {
    /// A count by the kernel.
    Exact(T),
    /// From a fallback that can be wrong, with the method. Prints with `~`.
    Estimated(T, Reason),
    /// Missing.
    Missing(Missing),
}

/// A counter's value and its quality.
pub type Count = Measured<u64>;

impl<T> Measured<T> {
    /// No permission, or lost.
    #[must_use]
    pub const fn unknown(reason: Reason) -> Self {
        Measured::Missing(Missing::Unknown(reason))
    }

    /// Not offered here.
    #[must_use]
    pub const fn not_offered(reason: Reason) -> Self {
        Measured::Missing(Missing::NotOffered(reason))
    }

    /// The number if it is exact; findings use nothing less.
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
            Measured::Estimated(value, how) => Measured::Estimated(value, *how),
            Measured::Missing(missing) => Measured::Missing(*missing),
        }
    }

    /// The reason, if it is missing.
    #[must_use]
    pub const fn missing(&self) -> Option<Missing> {
        match self {
            Measured::Missing(missing) => Some(*missing),
            Measured::Exact(_) | Measured::Estimated(..) => None,
        }
    }

    /// The method, if it is an estimate.
    #[must_use]
    pub const fn estimate(&self) -> Option<Reason> {
        match self {
            Measured::Estimated(_, how) => Some(*how),
            Measured::Exact(_) | Measured::Missing(_) => None,
        }
    }

    /// Applies a function to the value; the quality stays.
    pub fn map<U>(self, calculate: impl FnOnce(T) -> U) -> Measured<U> {
        match self {
            Measured::Exact(value) => Measured::Exact(calculate(value)),
            Measured::Estimated(value, how) => Measured::Estimated(calculate(value), how),
            Measured::Missing(missing) => Measured::Missing(missing),
        }
    }

    /// Combines two values: missing beats estimated beats exact; the left reason wins.
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

    /// The difference, never below zero: counters read at two moments may differ by a page.
    #[must_use]
    pub fn minus(self, other: Count) -> Count {
        self.zip(other, u64::saturating_sub)
    }

    /// This count as a share of `whole`, 0 to 1.
    ///
    /// A share of zero requests is neither 0 % nor 100 %: a zero whole gives
    /// [`Missing::NotOffered`].
    #[must_use]
    pub fn ratio_of(self, whole: Count) -> Measured<Ratio> {
        match self.zip(whole, Ratio::of) {
            Measured::Exact(Some(ratio)) => Measured::Exact(ratio),
            Measured::Estimated(Some(ratio), how) => Measured::Estimated(ratio, how),
            Measured::Exact(None) | Measured::Estimated(None, _) => {
                Measured::not_offered(Reason::NothingRequested)
            }
            Measured::Missing(missing) => Measured::Missing(missing),
        }
    }
}

/// The reason for a `-` in fields that this kind of row does not have; complete documents omit such
/// fields.
pub const NOT_APPLICABLE: Missing = Missing::NotOffered(Reason::NotApplicable);

/// A number that was never set.
pub(crate) const NOT_MEASURED: Missing = Missing::NotOffered(Reason::NotMeasured);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zip_prefers_missing_then_estimated_then_exact() {
        let exact = Measured::Exact(2u64);
        let estimated = Measured::Estimated(3u64, Reason::ByVmstat);
        let unknown: Count = Measured::unknown(Reason::NoPermission);
        assert_eq!(
            exact.plus(exact),
            Measured::Exact(4),
            "two exact counts stay exact"
        );
        assert_eq!(
            exact.plus(estimated),
            Measured::Estimated(5, Reason::ByVmstat),
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
    fn ratio_of_zero_whole_is_not_offered() {
        let zero = Measured::Exact(0u64);
        assert_eq!(
            zero.ratio_of(zero),
            Measured::not_offered(Reason::NothingRequested),
            "zero of zero is not a percentage"
        );
        let quarter = Measured::Exact(1u64).ratio_of(Measured::Exact(4));
        assert_eq!(
            quarter.map(Ratio::get),
            Measured::Exact(0.25),
            "one of four is a quarter"
        );
        let unknown: Count = Measured::unknown(Reason::LostEvents);
        assert_eq!(
            unknown.ratio_of(Measured::Exact(4)).missing(),
            Some(Missing::Unknown(Reason::LostEvents)),
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
