//! How rows are shown.

pub use cachewise_cli::arguments::{Color, Output, parse_pid};
use cachewise_model::{Field, Row};

/// Columns that exist.
#[derive(Debug, Clone)]
pub struct Columns(pub Vec<&'static Field>);

/// Columns of the rows that `stat` has.
pub fn parse_columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list, &Row::of_system()).map(Columns)
}

/// Columns of the rows that files have.
pub fn parse_file_columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list, &Row::of_file()).map(Columns)
}
