//! One cell: a number or name with its unit and its quality.

use std::path::PathBuf;

use cachewise_units::{Bytes, Pages, Ratio};

use crate::measured::{Count, Measured};
use crate::unit::Unit;

/// What stands in a cell when something does.
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
    /// How long one of many waited, in seconds: people read it in the unit that suits it.
    Latency(f64),
    /// A part of a whole.
    Ratio(Ratio),
    /// How many times as much as something else.
    Factor(f64),
    /// A number that names something: a process id, an inode.
    Id(u64),
    /// A name.
    Text(String),
    /// A file's path, byte for byte: file names need not be UTF-8, and views escape what is not.
    Path(PathBuf),
    /// A point in time, RFC 3339.
    Time(String),
}

/// A cell with its quality.
pub type Value = Measured<Datum>;

impl Datum {
    /// A whole number of the given unit.
    ///
    /// Units that whole numbers do not have (names, times, ratios) give a bare count.
    #[must_use]
    pub const fn of(unit: Unit, number: u64) -> Datum {
        match unit {
            Unit::Pages => Datum::Pages(Pages(number)),
            Unit::Bytes => Datum::Bytes(Bytes(number)),
            Unit::Seconds => Datum::Seconds(number as f64),
            Unit::Id => Datum::Id(number),
            Unit::Factor => Datum::Factor(number as f64),
            Unit::Count | Unit::Ratio | Unit::Text | Unit::Time => Datum::Count(number),
        }
    }

    /// The unit that this datum is in.
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
    /// A text that is simply known.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Value {
        Measured::Exact(Datum::Text(text.into()))
    }

    /// A number of seconds.
    #[must_use]
    pub fn seconds(seconds: Measured<f64>) -> Value {
        seconds.map(Datum::Seconds)
    }

    /// A part of a whole.
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

    /// This count as a number that names something.
    #[must_use]
    pub fn id(self) -> Value {
        self.map(Datum::Id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datum_knows_its_unit() {
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
