//! How rows are shown.

use crate::row_kinds::kind_of_row;
pub use cachewise_cli::arguments::{Color, Output, parse_pid};
use cachewise_cli::columns::ColumnsParser;
use cachewise_model::{Field, Measured, Row, field};
use cachewise_tui::ViewKind;

/// Columns that exist.
#[derive(Debug, Clone)]
pub struct Columns(pub Vec<&'static Field>);

/// The ids of the fields that any of these rows has.
fn ids(kinds: &[Row]) -> Vec<&'static str> {
    let fields = cachewise_model::FIELDS.iter();
    let fields = fields.filter(|field| kinds.iter().any(|row| field.is_of(row)));
    fields.map(|field| field.id).collect()
}

/// The parser of `--columns` for rows of the machine.
pub fn system_columns() -> ColumnsParser<Columns> {
    ColumnsParser {
        parse: parse_columns,
        ids: || ids(&[Row::of_system()]),
    }
}

/// The parser of `--columns` for rows of files.
pub fn file_columns() -> ColumnsParser<Columns> {
    ColumnsParser {
        parse: |list| cachewise_model::columns(list, &Row::of_file()).map(Columns),
        ids: || ids(&[Row::of_file()]),
    }
}

/// The parser of `--columns` for memory sizes.
pub fn size_columns() -> ColumnsParser<Columns> {
    ColumnsParser {
        parse: |list| cachewise_model::columns(list, &Row::of_sizing()).map(Columns),
        ids: || ids(&[Row::of_sizing()]),
    }
}

/// The parser of `--columns` for measurements.
pub fn measurement_columns() -> ColumnsParser<Columns> {
    ColumnsParser {
        parse: |list| cachewise_model::columns(list, &Row::of_measurement()).map(Columns),
        ids: || ids(&[Row::of_measurement()]),
    }
}

/// The parser of `--columns` of `drop`.
pub fn drop_columns() -> ColumnsParser<Columns> {
    ColumnsParser {
        parse: parse_drop_columns,
        ids: || ids(&[with_note()]),
    }
}

/// The parser of `--columns` for the tables of a report.
pub fn report_columns() -> ColumnsParser<Columns> {
    ColumnsParser {
        parse: parse_report_columns,
        ids: || ids(&report_rows()),
    }
}

/// The parser of a list of columns whose rows other arguments choose: of the machine or of its parts.
pub fn any_columns() -> ColumnsParser<String> {
    ColumnsParser {
        parse: |list| Ok(list.to_owned()),
        ids: any_ids,
    }
}

/// The ids of the fields of the machine and of its parts.
pub fn any_ids() -> Vec<&'static str> {
    let mut rows = vec![Row::of_system(), kind_of_row(ViewKind::Device)];
    rows.extend(report_rows());
    ids(&rows)
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
