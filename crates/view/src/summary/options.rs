//! [`SummaryOptions`]: colour, length and fields of a summary.

use cachewise_model::Field;

use crate::style::Style;

/// Options of a summary.
#[derive(Debug, Clone, Default)]
pub struct SummaryOptions {
    /// For tables: colour and width.
    pub style: Style,
    /// For tables: maximum processes, files and control groups to name.
    pub top: usize,
    /// Only these fields; `None` shows people the most important ones, and programs all.
    pub columns: Option<Vec<&'static Field>>,
}

/// Whether a field was requested; all are if none were named.
pub(super) fn is_wanted(field: &Field, options: &SummaryOptions) -> bool {
    (options.columns.as_ref())
        .is_none_or(|columns| columns.iter().any(|column| column.id == field.id))
}
