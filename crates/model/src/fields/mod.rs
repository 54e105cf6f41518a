//! The table of fields: every number that can be shown, with its name, unit and meaning.
//!
//! Columns, JSON names, CSV headers, metric names and help texts come from it.
//!
//! # Layout
//! - `general`: labels, derived numbers, gauges; `counters`: the counters of [`crate::Counter`].
//! - `residency`, `system`, `measurement`, `sizing`: the numbers of these groups.

mod counters;
mod general;
mod measurement;
mod residency;
mod sizing;
mod system;

use crate::counter::Counter;
use crate::field::Field;
use counters::COUNTER_FIELDS;
use general::{DERIVED_FIELDS, GAUGE_FIELDS, LABEL_FIELDS};
use measurement::MEASUREMENT_FIELDS;
use residency::RESIDENCY_FIELDS;
use sizing::SIZING_FIELDS;
use system::{PRESSURE_FIELDS, SYSTEM_FIELDS};

impl Field {
    /// Whether only rows of a measurement can have the field.
    #[must_use]
    pub fn is_of_measurement_only(&self) -> bool {
        MEASUREMENT_FIELDS.iter().any(|field| field.id == self.id)
    }

    /// Whether only rows of simulated memory sizes can have the field.
    #[must_use]
    pub fn is_of_sizing_only(&self) -> bool {
        SIZING_FIELDS.iter().any(|field| field.id == self.id)
    }
}

const FIELD_COUNT: usize = LABEL_FIELDS.len()
    + Counter::COUNT
    + DERIVED_FIELDS.len()
    + RESIDENCY_FIELDS.len()
    + GAUGE_FIELDS.len()
    + SYSTEM_FIELDS.len()
    + PRESSURE_FIELDS.len()
    + MEASUREMENT_FIELDS.len()
    + SIZING_FIELDS.len();

/// Every field.
pub static FIELDS: [Field; FIELD_COUNT] = {
    // `concat` on arrays is not const, hence the loop.
    let parts: [&[Field]; 9] = [
        &LABEL_FIELDS,
        &COUNTER_FIELDS,
        &DERIVED_FIELDS,
        &RESIDENCY_FIELDS,
        &GAUGE_FIELDS,
        &SYSTEM_FIELDS,
        &PRESSURE_FIELDS,
        &MEASUREMENT_FIELDS,
        &SIZING_FIELDS,
    ];
    let mut all = [LABEL_FIELDS[0]; FIELD_COUNT];
    let (mut next, mut part) = (0, 0);
    while part < parts.len() {
        let mut place = 0;
        while place < parts[part].len() {
            all[next] = parts[part][place];
            next += 1;
            place += 1;
        }
        part += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::kind::Kind;
    use crate::row::Row;
    use crate::unit::Unit;

    #[test]
    fn field_names_are_unique() {
        let mut seen = HashSet::new();
        for field in &FIELDS {
            let own: HashSet<String> = field.names().map(str::to_ascii_lowercase).collect();
            for name in own {
                assert!(
                    seen.insert(name.clone()),
                    "`{name}` names one field, not two"
                );
            }
        }
    }

    #[test]
    fn field_ids_are_legal_and_end_with_their_unit() {
        for field in &FIELDS {
            let id = field.id;
            assert!(
                id.starts_with(|c: char| c.is_ascii_lowercase()),
                "`{id}` starts with a letter"
            );
            assert!(
                id.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "`{id}` is a legal metric name"
            );
            assert!(
                !id.ends_with("_total"),
                "`{id}`: the exposition adds `_total` by itself"
            );
            for unit in [
                Unit::Pages,
                Unit::Bytes,
                Unit::Seconds,
                Unit::Ratio,
                Unit::Factor,
            ] {
                let ends = unit.suffix().is_some_and(|suffix| id.ends_with(suffix));
                assert_eq!(
                    ends,
                    field.unit == unit,
                    "`{id}` ends in its unit and in no other"
                );
            }
        }
    }

    #[test]
    fn every_field_has_help() {
        for field in &FIELDS {
            assert!(field.help.len() > 10, "`{}` has a help text", field.id);
            assert!(
                !field.help.ends_with('.'),
                "`{}`: the encoder adds the full stop",
                field.id
            );
            assert!(
                field.header.len() <= 12,
                "`{}` has a header that fits a column",
                field.id
            );
        }
    }

    #[test]
    fn only_names_are_labels() {
        for field in &FIELDS {
            let named = matches!(field.unit, Unit::Text | Unit::Time | Unit::Id);
            assert_eq!(
                named,
                field.kind == Kind::Label,
                "`{}` is of the right kind",
                field.id
            );
            if field.unit == Unit::Ratio {
                assert_eq!(
                    field.kind,
                    Kind::Gauge,
                    "`{}`: ratios do not add up",
                    field.id
                );
            }
        }
    }

    #[test]
    fn values_have_the_unit_of_their_field() {
        let mut row = Row::default();
        for counter in Counter::ALL {
            row.ledger.set(*counter, 7);
        }
        for field in &FIELDS {
            if let Some(datum) = field.of(&row).known() {
                assert_eq!(
                    datum.unit(),
                    field.unit,
                    "`{}` gives its own unit",
                    field.id
                );
            }
        }
    }
}
