//! Units of numbers, and the suffixes of machine names.

/// Unit of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A number of things: requests, faults.
    Count,
    /// Base pages of the measured kernel.
    Pages,
    /// Bytes.
    Bytes,
    /// Seconds, with a fraction.
    Seconds,
    /// A share of a whole, 0 to 1. Percentages exist only for people.
    Ratio,
    /// A multiple of another number, which may exceed 1.
    Factor,
    /// An identifier, never summed: a pid, an inode.
    Id,
    /// A name.
    Text,
    /// A point in time, RFC 3339.
    Time,
}

impl Unit {
    /// The suffix required for ids of this unit; `None` for none.
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

    /// The unit's name in OpenMetrics and help texts; `None` for bare numbers and names.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.suffix().map(|suffix| &suffix[1..])
    }

    /// Whether values of this unit are right-aligned.
    #[must_use]
    pub const fn is_number(self) -> bool {
        !matches!(self, Unit::Text | Unit::Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_name_is_its_suffix_without_underscore() {
        assert_eq!(Unit::Bytes.name(), Some("bytes"), "bytes are a metric unit");
        assert_eq!(Unit::Count.name(), None, "a bare count has no unit");
        assert_eq!(Unit::Text.name(), None, "a name has no unit");
    }
}
