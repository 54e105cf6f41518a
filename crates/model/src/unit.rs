//! What a number counts, and the suffix that its machine name carries.

/// What a field's value is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A number of things: requests, faults.
    Count,
    /// Base pages of the kernel that was measured.
    Pages,
    /// Bytes.
    Bytes,
    /// Seconds, with a fraction.
    Seconds,
    /// A part of a whole, 0 to 1. Percent exists for people only.
    Ratio,
    /// How many times as much as something else: not a part of a whole, so it may be more than 1.
    Factor,
    /// A number that names something and is never added: a process id, an inode.
    Id,
    /// A name.
    Text,
    /// A point in time, RFC 3339.
    Time,
}

impl Unit {
    /// The suffix that an id of this unit must end in; `None` where no suffix is due.
    #[must_use]
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Unit::Pages => Some("_pages"),
            Unit::Bytes => Some("_bytes"),
            Unit::Seconds => Some("_seconds"),
            Unit::Ratio => Some("_ratio"),
            Unit::Factor => Some("_factor"),
            Unit::Count | Unit::Id | Unit::Text | Unit::Time => None,
        }
    }

    /// The unit's name as OpenMetrics and help texts spell it; `None` for bare numbers and names.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.suffix().map(|suffix| &suffix[1..])
    }

    /// Whether values of this unit stand to the right in a column.
    #[must_use]
    pub const fn is_number(self) -> bool {
        !matches!(self, Unit::Text | Unit::Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_suffixes_without_the_underscore() {
        assert_eq!(Unit::Bytes.name(), Some("bytes"), "bytes are a metric unit");
        assert_eq!(Unit::Count.name(), None, "a bare count has no unit");
        assert_eq!(Unit::Text.name(), None, "a name has no unit");
    }
}
