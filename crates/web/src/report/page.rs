//! [`ReportPage`]: the contents of the page.

use cachewise_model::{Row, Statistics};

/// The contents of the page.
#[derive(Debug, Clone, Copy)]
pub struct ReportPage<'a> {
    /// The whole recording in numbers.
    pub summary: &'a Statistics,
    /// The machine over time, with whether time is missing before the row.
    pub points: &'a [(Row, bool)],
    /// How many samples are in a point.
    pub samples_each: u64,
    /// The version of cachewise that makes the page.
    pub version: &'a str,
}
