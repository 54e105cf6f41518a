//! [`ReportOptions`]: colour, width and length of a report.

use crate::style::Style;

/// Options of a report for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportOptions {
    /// Colour and width.
    pub style: Style,
    /// Maximum files, processes and control groups to name; machine formats name all.
    pub top: usize,
    /// Whether to show checks that hold; those that fail or could not be made are always shown.
    pub all_checks: bool,
}

impl Default for ReportOptions {
    /// No colour, and ten of each.
    fn default() -> Self {
        ReportOptions {
            style: Style::default(),
            top: 10,
            all_checks: false,
        }
    }
}
