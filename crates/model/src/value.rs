//! A cell: a number or name with its unit and quality.

use std::path::PathBuf;

use cachewise_units::{Bytes, Pages, Ratio};

use crate::measured::{Count, Measured};
use crate::unit::Unit;

/// Content of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// A number of things.
    Count(u64),
    /// Base pages.
    Pages(Pages),
    /// Bytes.
    Bytes(Bytes),
    /// Seconds.
    Seconds(f64),
    /// Latency of an operation, in seconds; shown in a suitable unit.
    Latency(f64),
    /// A share of a whole.
    Ratio(Ratio),
    /// A multiple of another number.
    Factor(f64),
    /// A number that is an identifier: a pid, an inode.
    Id(u64),
    /// A name.
    Text(String),
    /// A file's path, byte for byte: it may not be UTF-8, and views escape it.
    Path(PathBuf),
    /// A point in time, RFC 3339.
    Time(String),
}

/// Of a second.
const NANOSECONDS: f64 = 1e9;

/// A cell with its quality.
pub type Value = Measured<Datum>;

impl Datum {
    /// The value as a number, in its base unit; `None` for names.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Datum::Count(number) | Datum::Id(number) => Some(*number as f64),
            Datum::Pages(pages) => Some(pages.0 as f64),
            Datum::Bytes(bytes) => Some(bytes.0 as f64),
            Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => {
                Some(*number)
            }
            Datum::Ratio(ratio) => Some(ratio.get()),
            Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => None,
        }
    }

    /// A whole number of this unit; of seconds, a number of nanoseconds.
    ///
    /// Units without whole numbers (names, times, ratios) give a bare count.
    #[must_use]
    pub const fn of(unit: Unit, number: u64) -> Datum {
        match unit {
            Unit::Pages => Datum::Pages(Pages(number)),
            Unit::Bytes => Datum::Bytes(Bytes(number)),
            Unit::Seconds => Datum::Seconds(number as f64 / NANOSECONDS),
            Unit::Id => Datum::Id(number),
            Unit::Factor => Datum::Factor(number as f64),
            Unit::Count | Unit::Ratio | Unit::Text | Unit::Time => Datum::Count(number),
        }
    }

    /// The unit of this datum.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Datum::Count(_) => Unit::Count,
            Datum::Pages(_) => Unit::Pages,
            Datum::Bytes(_) => Unit::Bytes,
            Datum::Seconds(_) | Datum::Latency(_) => Unit::Seconds,
            Datum::Ratio(_) => Unit::Ratio,
            Datum::Factor(_) => Unit::Factor,
            Datum::Id(_) => Unit::Id,
            Datum::Text(_) | Datum::Path(_) => Unit::Text,
            Datum::Time(_) => Unit::Time,
        }
    }
}

impl Measured<Datum> {
    /// A known text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Value {
        Measured::Exact(Datum::Text(text.into()))
    }

    /// A number of seconds.
    #[must_use]
    pub fn seconds(seconds: Measured<f64>) -> Value {
        seconds.map(Datum::Seconds)
    }

    /// A share of a whole.
    #[must_use]
    pub fn ratio(ratio: Measured<Ratio>) -> Value {
        ratio.map(Datum::Ratio)
    }
}

impl Count {
    /// This count as a value in pages.
    #[must_use]
    pub fn pages(self) -> Value {
        self.map(|number| Datum::Pages(Pages(number)))
    }

    /// This count as a value in bytes.
    #[must_use]
    pub fn bytes(self) -> Value {
        self.map(|number| Datum::Bytes(Bytes(number)))
    }

    /// This count as a bare number.
    #[must_use]
    pub fn count(self) -> Value {
        self.map(Datum::Count)
    }

    /// This count as an identifier.
    #[must_use]
    pub fn id(self) -> Value {
        self.map(Datum::Id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datum_reports_its_unit() {
        for unit in [
            Unit::Count,
            Unit::Pages,
            Unit::Bytes,
            Unit::Seconds,
            Unit::Id,
        ] {
            assert_eq!(
                Datum::of(unit, 1).unit(),
                unit,
                "a number keeps the unit it was made with"
            );
        }
        assert_eq!(
            Datum::Path("/a".into()).unit(),
            Unit::Text,
            "a path is a name"
        );
    }
}
