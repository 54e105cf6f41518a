//! How rows are shown.

pub use cachewise_cli::arguments::{Color, Output, parse_pid};
use cachewise_model::{Field, Measured, Row, field};
use cachewise_tui::ViewKind;
use clap::builder::{PossibleValue, TypedValueParser};

use crate::row_kinds::kind_of_row;

/// Columns that exist.
#[derive(Debug, Clone)]
pub struct Columns(pub Vec<&'static Field>);

/// A parser of a list of columns; completions of the shell list their names.
#[derive(Clone)]
pub struct ColumnsParser {
    parse: fn(&str) -> Result<Columns, String>,
    /// Rows that have the columns.
    kinds: fn() -> Vec<Row>,
}

impl TypedValueParser for ColumnsParser {
    type Value = Columns;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Columns, clap::Error> {
        TypedValueParser::parse_ref(&self.parse, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let kinds = (self.kinds)();
        let fields = cachewise_model::FIELDS.iter();
        let fields = fields.filter(move |field| kinds.iter().any(|row| field.is_of(row)));
        Some(Box::new(fields.map(|field| PossibleValue::new(field.id))))
    }
}

/// The parser of `--columns` for rows of the machine.
pub fn system_columns() -> ColumnsParser {
    ColumnsParser {
        parse: parse_columns,
        kinds: || vec![Row::of_system()],
    }
}

/// The parser of `--columns` for rows of files.
pub fn file_columns() -> ColumnsParser {
    ColumnsParser {
        parse: parse_file_columns,
        kinds: || vec![Row::of_file()],
    }
}

/// The parser of `--columns` of `drop`.
pub fn drop_columns() -> ColumnsParser {
    ColumnsParser {
        parse: parse_drop_columns,
        kinds: || vec![with_note()],
    }
}

/// The parser of `--columns` for the tables of a report.
pub fn report_columns() -> ColumnsParser {
    ColumnsParser {
        parse: parse_report_columns,
        kinds: report_rows,
    }
}

fn with_note() -> Row {
    let mut row = Row::of_system();
    row.labels.note = Measured::Exact(String::new());
    row
}

fn report_rows() -> Vec<Row> {
    [ViewKind::File, ViewKind::Process, ViewKind::Cgroup]
        .map(kind_of_row)
        .into()
}

/// Columns of the rows that `stat` has.
pub fn parse_columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list, &Row::of_system()).map(Columns)
}

/// Columns of the rows that files have.
fn parse_file_columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list, &Row::of_file()).map(Columns)
}

/// Columns of the rows of `drop`: the state of memory, with a note.
fn parse_drop_columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list, &with_note()).map(Columns)
}

/// Columns of the tables of a report: of files, processes or control groups.
fn parse_report_columns(list: &str) -> Result<Columns, String> {
    let kinds = report_rows();
    let mut columns = Vec::new();
    for name in list.split(',').map(str::trim) {
        match field(name) {
            Some(field) if kinds.iter().any(|row| field.is_of(row)) => columns.push(field),
            // Its error lists similar names.
            _ => columns.extend(cachewise_model::columns(name, &kinds[0])?),
        }
    }
    Ok(Columns(columns))
}
