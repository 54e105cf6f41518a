//! [`Rate`]: an amount per second.

use std::time::Duration;

/// An amount per second, defined only if time has passed.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Divides `amount` by its time, or returns `None` if no time has passed.
    ///
    /// ```
    /// # use cachewise_units::Rate;
    /// # use std::time::Duration;
    /// let rate = Rate::of(30, Duration::from_millis(1500)).expect("time has passed");
    /// assert_eq!(rate.per_second(), 20.0);
    /// assert!(Rate::of(30, Duration::ZERO).is_none());
    /// ```
    #[must_use]
    pub fn of(amount: u64, over: Duration) -> Option<Self> {
        (!over.is_zero()).then(|| Self(amount as f64 / over.as_secs_f64()))
    }

    /// Returns the amount per second, finite and not negative.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rate_over_no_time_is_none() {
        assert_eq!(
            Rate::of(0, Duration::ZERO),
            None,
            "nothing in no time is no rate"
        );
        assert_eq!(Rate::of(1, Duration::ZERO), None, "and not an infinite one");
    }

    proptest! {
        #[test]
        fn rate_is_finite(amount: u64, nanoseconds in 1..u64::MAX) {
            let rate = Rate::of(amount, Duration::from_nanos(nanoseconds)).unwrap();
            prop_assert!(rate.per_second().is_finite(), "neither infinite nor NaN");
            prop_assert!(rate.per_second() >= 0.0, "nor negative");
        }
    }
}
