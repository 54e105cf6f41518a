//! Operations that every quantity has with its own type only.

/// Defines the arithmetic of a `u64` newtype.
///
/// `+` saturates: an overflow shows as the largest number, which is obvious, not as a small one,
/// which is not. There is no `-`: counters can differ in several ways, so the caller names the
/// operation.
macro_rules! quantity {
    ($name:ident) => {
        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// Returns the difference, or zero if `other` is larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Returns the difference, or `None` if `other` is larger.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }

            /// Returns the sum, or `None` if it does not fit into 64 bits.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Whether this is zero.
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
