//! A table with its first rows.

use std::fmt::Write;

use cachewise_model::{ORDER, Row, Unit};
use cachewise_units::PageSize;
use cachewise_view::per_second;

use super::time::Time;
use crate::columns::{Table, greatest_of};
use crate::folded::{FoldedRow, folded};
use crate::html::text as escape;

/// Rows before the script fills in more.
const MOST_ROWS: usize = 50;

/// A table, with what the page's script needs to know of its columns.
pub(super) fn table(
    table: &Table,
    rows: Result<Vec<Row>, String>,
    page_size: PageSize,
    time: Time,
) -> String {
    let mut text = format!(
        "<table id=\"{}\" data-order=\"{}\"><caption class=\"hidden\">{}</caption><thead><tr>",
        table.id, ORDER[0], table.title
    );
    let fields = table.fields();
    for field in &fields {
        let unit = match field.unit {
            Unit::Pages => "pages",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Ratio | Unit::Factor => "ratio",
            Unit::Id => "id",
            Unit::Seconds => "seconds",
            Unit::Text | Unit::Time => "text",
        };
        let rate = time.is_rate(field.kind);
        let per = if rate { "<small>/s</small>" } else { "" };
        let _ = write!(
            text,
            "<th scope=\"col\" data-id=\"{}\" data-unit=\"{unit}\" data-rate=\"{rate}\" title=\"{}\">{}{per}</th>",
            field.id,
            escape(field.help),
            table.header(field),
        );
    }
    text.push_str("</tr></thead><tbody>");
    if let Err(why) = &rows {
        let _ = write!(
            text,
            "<tr><td class=\"empty\" colspan=\"{}\">Not known: {}.</td></tr>",
            fields.len(),
            escape(why)
        );
    }
    if let Ok(rows) = rows {
        let rows = folded(table.part, rows).into_iter();
        for FoldedRow { row, members } in greatest_of(rows, &table.order(), MOST_ROWS, |of| &of.row)
        {
            text.push_str("<tr>");
            for field in &fields {
                let value = field.of(&row);
                let name = matches!(field.unit, Unit::Text | Unit::Time);
                let why = value
                    .missing()
                    .map(|missing| missing.reason())
                    .or(value.estimate());
                let title = why
                    .map(|why| format!(" title=\"{}\"", escape(why.words())))
                    .unwrap_or_default();
                let seconds = row.elapsed.as_secs_f64();
                let mut cell = per_second(&value, time.kind(field.kind), seconds, page_size);
                if members > 1 && field.id == "command" {
                    let _ = write!(cell, " x{members} (ended)");
                }
                let class = if name { "name" } else { "number" };
                let _ = write!(text, "<td class=\"{class}\"{title}>{}</td>", escape(&cell));
            }
            text.push_str("</tr>");
        }
    }
    text.push_str("</tbody></table>");
    text
}
