//! A field: a number or name that can be shown, with its unit and meaning.

use crate::kind::Kind;
use crate::measured::NOT_APPLICABLE;
use crate::row::Row;
use crate::unit::Unit;
use crate::value::Value;

/// Rows of the table: id, header, aliases, unit, kind, getter, and meaning.
macro_rules! fields {
    ($($id:literal, $header:literal, [$($also:literal),*], $unit:ident, $kind:ident, $get:expr, $help:literal;)+) => {
        [$(Field {
            id: $id,
            header: $header,
            also: &[$($also),*],
            unit: Unit::$unit,
            kind: Kind::$kind,
            help: $help,
            get: $get,
        },)+]
    };
}

pub(crate) use fields;

/// A field of a row.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in machine formats; ends with the unit. Stable.
    pub id: &'static str,
    /// The column's header for people.
    pub header: &'static str,
    /// Aliases for look-up; never printed.
    pub also: &'static [&'static str],
    /// The unit of its values.
    pub unit: Unit,
    /// Its behaviour over time.
    pub kind: Kind,
    /// One sentence of explanation.
    pub help: &'static str,
    /// Returns the value of a row.
    pub get: fn(&Row) -> Value,
}

impl Field {
    /// The value of this field in `row`.
    #[must_use]
    pub fn of(&self, row: &Row) -> Value {
        (self.get)(row)
    }

    /// Whether rows like this one have the field at all, known or not.
    #[must_use]
    pub fn is_of(&self, row: &Row) -> bool {
        self.of(row) != Value::Missing(NOT_APPLICABLE)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.id, self.header]
            .into_iter()
            .chain(self.also.iter().copied())
    }
}
