//! The counters as columns.

use crate::counter::{Counter, each_counter};
use crate::field::Field;
use crate::kind::Kind;
use crate::unit::Unit;

macro_rules! columns {
    ($($variant:ident, $id:literal, $header:literal, [$($also:literal),*], $unit:ident, $help:literal;)+) => {
        /// The first part of the numbers in [`crate::FIELDS`].
        pub(crate) const COUNTER_FIELDS: [Field; Counter::COUNT] = [$(Field {
            id: $id,
            header: $header,
            also: &[$($also),*],
            unit: Unit::$unit,
            kind: Kind::Counter,
            help: $help,
            get: |row| row.ledger.value(Counter::$variant),
        },)+];
    };
}

each_counter!(columns);
