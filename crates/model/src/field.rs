//! The one table of fields: every number that can be shown, with its name, unit and meaning.
//!
//! Columns, JSON names, CSV headers, metric names and help texts come from here.
//!
//! # Layout
//! - [`Field`], [`Kind`]: one entry.
//! - [`FIELDS`]: the table: labels, the counters of [`crate::Counter`], what follows from them, gauges.
//! - [`field`], [`suggest`], [`unknown_column`]: from what a user typed to an entry.

use crate::counter::{COUNTER_FIELDS, Counter};
use crate::fields::{DERIVED_FIELDS, GAUGE_FIELDS, LABEL_FIELDS};
use crate::row::Row;
use crate::unit::Unit;
use crate::value::Value;

/// How a field behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Grows; rows show what was added, metrics end in `_total`.
    Counter,
    /// A state, or a calculation that cannot be added up.
    Gauge,
    /// A name.
    Label,
}

/// One thing that a row can show.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in machine formats; ends in the unit. Stable.
    pub id: &'static str,
    /// The column's header for people.
    pub header: &'static str,
    /// Further names by which it is found; never printed.
    pub also: &'static [&'static str],
    /// What its values are measured in.
    pub unit: Unit,
    /// How it behaves over time.
    pub kind: Kind,
    /// One sentence of explanation.
    pub help: &'static str,
    /// Takes the value out of a row.
    pub get: fn(&Row) -> Value,
}

impl Field {
    /// The value of this field in `row`.
    #[must_use]
    pub fn of(&self, row: &Row) -> Value {
        (self.get)(row)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.id, self.header].into_iter().chain(self.also.iter().copied())
    }
}

const FIELD_COUNT: usize =
    LABEL_FIELDS.len() + Counter::COUNT + DERIVED_FIELDS.len() + GAUGE_FIELDS.len();

/// Every field.
pub static FIELDS: [Field; FIELD_COUNT] = {
    // `concat` on arrays is not const, hence the loop.
    let parts: [&[Field]; 4] = [&LABEL_FIELDS, &COUNTER_FIELDS, &DERIVED_FIELDS, &GAUGE_FIELDS];
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

/// Finds a field by id, header or other name, in any case.
#[must_use]
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.names().any(|known| known.eq_ignore_ascii_case(name)))
}

/// The known name nearest to a mistyped one, or `None` if nothing is near.
#[must_use]
pub fn suggest(name: &str) -> Option<String> {
    let typed = name.to_ascii_lowercase();
    // One slip for a short name, a third of a long one: beyond that a suggestion is a guess.
    let allowed = (typed.chars().count() / 3).max(1);
    FIELDS
        .iter()
        .flat_map(Field::names)
        .map(|known| known.to_ascii_lowercase())
        .map(|known| (distance(&typed, &known), known))
        .filter(|(slips, _)| *slips <= allowed)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, known)| known)
}

/// The error text for a column that does not exist, with the nearest name and all ids.
#[must_use]
pub fn unknown_column(name: &str) -> String {
    let hint = suggest(name).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let ids: Vec<&str> = FIELDS.iter().map(|field| field.id).collect();
    format!("no column `{}`; {hint}columns: {}", name.escape_debug(), ids.join(", "))
}

/// Levenshtein distance, in one row of the matrix.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_means_two_fields() {
        let mut seen = HashSet::new();
        for field in &FIELDS {
            let own: HashSet<String> = field.names().map(str::to_ascii_lowercase).collect();
            for name in own {
                assert!(seen.insert(name.clone()), "`{name}` names one field, not two");
            }
        }
    }

    #[test]
    fn ids_are_legal_and_carry_their_unit() {
        for field in &FIELDS {
            let id = field.id;
            assert!(id.starts_with(|c: char| c.is_ascii_lowercase()), "`{id}` starts with a letter");
            assert!(
                id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "`{id}` is a legal metric name"
            );
            assert!(!id.ends_with("_total"), "`{id}`: the exposition adds `_total` by itself");
            for unit in [Unit::Pages, Unit::Bytes, Unit::Seconds, Unit::Ratio] {
                let ends = unit.suffix().is_some_and(|suffix| id.ends_with(suffix));
                assert_eq!(ends, field.unit == unit, "`{id}` ends in its unit and in no other");
            }
        }
    }

    #[test]
    fn every_field_is_explained() {
        for field in &FIELDS {
            assert!(field.help.len() > 10, "`{}` has a help text", field.id);
            assert!(!field.help.ends_with('.'), "`{}`: the encoder adds the full stop", field.id);
            assert!(field.header.len() <= 12, "`{}` has a header that fits a column", field.id);
        }
    }

    #[test]
    fn labels_are_names_and_numbers_are_not() {
        for field in &FIELDS {
            let named = matches!(field.unit, Unit::Text | Unit::Time | Unit::Id);
            assert_eq!(named, field.kind == Kind::Label, "`{}` is of the right kind", field.id);
            if field.unit == Unit::Ratio {
                assert_eq!(field.kind, Kind::Gauge, "`{}`: ratios do not add up", field.id);
            }
        }
    }

    #[test]
    fn values_come_in_the_unit_of_their_field() {
        let mut row = Row::default();
        for counter in Counter::ALL {
            row.ledger.set(*counter, 7);
        }
        for field in &FIELDS {
            if let Some(datum) = field.of(&row).known() {
                assert_eq!(datum.unit(), field.unit, "`{}` gives its own unit", field.id);
            }
        }
    }

    #[test]
    fn found_by_id_header_and_other_names_in_any_case() {
        for name in ["read_pages", "TOTAL", "total", "Total_Pages"] {
            assert_eq!(field(name).map(|f| f.id), Some("read_pages"), "`{name}` is the total");
        }
        for name in ["HIT%", "hit%", "reuse_ratio"] {
            assert_eq!(field(name).map(|f| f.id), Some("reuse_ratio"), "`{name}` is the reuse");
        }
        assert!(field("nonsense").is_none(), "what is no name finds nothing");
        assert!(field("").is_none(), "neither does an empty one");
    }

    #[test]
    fn the_default_columns_of_stat_exist() {
        let columns = "TIME TOTAL MISSES HITS HIT% READAHEAD DIRECT DIRTIES EVICTED BUFFERS CACHED";
        for header in columns.split(' ') {
            assert_eq!(field(header).map(|f| f.header), Some(header), "`{header}` is a header");
        }
    }

    #[test]
    fn a_slip_gets_a_suggestion_and_nonsense_does_not() {
        assert_eq!(suggest("hitz").as_deref(), Some("hits"), "one letter off");
        assert_eq!(suggest("read_page").as_deref(), Some("read_pages"), "one letter short");
        assert_eq!(suggest("quux_frobnicate"), None, "nothing is near");
        let text = unknown_column("hitz");
        assert!(
            text.starts_with("no column `hitz`; did you mean `hits`? columns: time, "),
            "the error names the slip, the suggestion and the choice: {text}"
        );
        assert!(unknown_column("\u{1b}[2J").contains("`\\u{1b}[2J`"), "typed escapes do not act");
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3, "insertions count");
        assert_eq!(distance("kitten", "sitting"), 3, "the textbook pair");
    }
}
