//! Rows as CSV: every field of their kind.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cachewise_model::{FIELDS, Field, Row};
use cachewise_units::PageSize;
use cachewise_view::{Format, RowOptions, RowWriter, Style};

use super::answer::problem;
use crate::columns::Table;

/// An answer with these rows as a file.
pub(super) fn file(table: &Table, rows: &[Row], page_size: PageSize) -> Response {
    match text(table, rows, page_size) {
        Ok(text) => {
            let name = format!("attachment; filename=\"{}.csv\"", table.id);
            let head = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
                (header::CONTENT_DISPOSITION, name),
            ];
            (head, text).into_response()
        }
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

fn text(table: &Table, rows: &[Row], page_size: PageSize) -> std::io::Result<Vec<u8>> {
    let fields: Vec<&Field> = match rows.first() {
        Some(row) => FIELDS.iter().filter(|field| field.is_of(row)).collect(),
        None => table.fields(),
    };
    let options = RowOptions {
        timestamp: String::new(),
        hostname: String::new(),
        page_size,
        style: Style::plain(0),
        room: None,
        header_every: None,
    };
    let mut writer = RowWriter::new(Vec::new(), Format::Csv, &fields, options);
    for row in rows {
        writer.write(row)?;
    }
    writer.finish(None)
}
