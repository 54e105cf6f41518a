//! [`ReportOptions`]: colour, width and length of a report.

use cachewise_model::Field;

use crate::style::Style;

/// Options of a report for people.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions<'a> {
    /// Colour and width.
    pub style: Style,
    /// Maximum files, processes and control groups to name; machine formats name all.
    pub top: usize,
    /// Whether to show checks that hold; those that fail or could not be made are always shown.
    pub all_checks: bool,
    /// Only these columns of tables of rows, and of CSV; `None` for the usual ones.
    pub columns: Option<&'a [&'static Field]>,
}

impl Default for ReportOptions<'_> {
    /// No colour, and ten of each.
    fn default() -> Self {
        ReportOptions {
            style: Style::default(),
            top: 10,
            all_checks: false,
            columns: None,
        }
    }
}
