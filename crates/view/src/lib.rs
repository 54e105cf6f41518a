//! How cachewise's numbers look: tables, JSON, CSV and OpenMetrics.
//!
//! # Layout
//! - `format`, `style`: what the caller chose.
//! - `rows`: a stream of rows, the output of `stat`.
//! - `cell`, `json`, `csv_text`, `metrics`: one value, in each format.

#![forbid(unsafe_code)]

mod cell;
mod csv_text;
mod format;
mod json;
mod metrics;
mod rows;
mod style;

pub use format::{Format, ParseFormatError};
pub use rows::{RowOptions, RowWriter};
pub use style::Style;
