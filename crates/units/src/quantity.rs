//! What every quantity can do with its own kind, and only with its own kind.

/// Gives a `u64` newtype its arithmetic.
///
/// `+` saturates: a sum that does not fit is shown as the largest number there is, which anyone
/// sees, instead of as a small one after wrapping round, which nobody does. There is no `-`:
/// differences of counters go wrong in more than one way, so the caller names which is meant.
macro_rules! quantity {
    ($name:ident) => {
        impl $name {
            /// Nothing at all.
            pub const ZERO: Self = Self(0);

            /// Returns the difference, or zero where `other` is the larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Returns the difference, or `None` where `other` is the larger.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }

            /// Returns the sum, or `None` where it does not fit into 64 bits.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Says whether this is nothing at all.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl std::ops::Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::ZERO, |total, item| total + item)
            }
        }

        impl<'a> std::iter::Sum<&'a $name> for $name {
            fn sum<I: Iterator<Item = &'a Self>>(items: I) -> Self {
                items.copied().sum()
            }
        }
    };
}

pub(crate) use quantity;
