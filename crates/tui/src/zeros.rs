//! [`Zeros`]: columns without values, which give their room to the name.

use cachewise_model::{Datum, Kind, Measured, Reason, Row};

use crate::columns::Column;

/// Intervals without values after which a column is hidden: one that is needed now and then stays.
const QUIET: u32 = 10;

/// For how long each column has had no value.
#[derive(Debug, Default)]
pub(crate) struct Zeros {
    /// The number of intervals, by the index of the column; empty before the first one.
    quiet: Vec<u32>,
}

impl Zeros {
    /// Notes the values of an interval: of the whole machine, and of the rows, of which those of some fields are known
    /// already.
    pub(crate) fn note<'a, R: Iterator<Item = &'a Row>>(
        &mut self,
        columns: &[Column],
        whole: &Row,
        rows: impl Fn() -> R,
        has_known_value: impl Fn(&str) -> Option<bool>,
    ) {
        // Columns that never had a value are hidden from the start.
        self.quiet.resize(columns.len(), u32::MAX - 1);
        for (quiet, column) in self.quiet.iter_mut().zip(columns) {
            let field = column.field;
            let is_above_zero = |row: &Row| is_value(&field.of(row));
            let has_value = field.kind == Kind::Label
                || !column.is_chosen
                || matches!(field.of(whole), Measured::Exact(_)) && is_above_zero(whole)
                || has_known_value(field.id).unwrap_or_else(|| rows().any(is_above_zero));
            *quiet = match has_value {
                true => 0,
                false => quiet.saturating_add(1),
            };
        }
    }

    /// Whether this column has had no value for a while.
    pub(crate) fn is_zero(&self, column: usize) -> bool {
        self.quiet.get(column).is_some_and(|quiet| *quiet >= QUIET)
    }
}

/// Whether a value is worth a column: a missing one is, as it is not zero.
fn is_value(value: &cachewise_model::Value) -> bool {
    match value {
        Measured::Missing(missing) => missing.reason() != Reason::NothingRequested,
        Measured::Exact(datum) | Measured::Estimated(datum, _) => match datum {
            Datum::Count(number) | Datum::Id(number) => *number > 0,
            Datum::Pages(pages) => pages.0 > 0,
            Datum::Bytes(bytes) => bytes.0 > 0,
            Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => {
                *number > 0.0
            }
            Datum::Ratio(ratio) => ratio.get() > 0.0,
            Datum::Text(_) | Datum::Time(_) | Datum::Path(_) => true,
        },
    }
}
