//! [`Sheet`]: a table with columns of its own.
//!
//! Rows of the page cache use the model's table of fields. Other data, for example a CPU's caches,
//! bring their own columns, which define headers, JSON names and the list of columns.

use std::io;

use cachewise_model::{Missing, Reason, escaped};
use serde_json::Value as Json;

use crate::cell::Side;
use crate::csv_text::{self, Reasons};
use crate::json::Object;
use crate::layout::Grid;
use crate::style::Style;

/// One column of a [`Sheet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SheetColumn {
    /// The name in machine formats; ends with the unit.
    pub id: &'static str,
    /// The header for people; empty for machine formats only.
    pub header: &'static str,
    /// Whether it is right-aligned.
    pub is_number: bool,
    /// One sentence of explanation.
    pub help: &'static str,
}

impl SheetColumn {
    /// A column with these fields, in their order.
    #[must_use]
    pub const fn new(
        id: &'static str,
        header: &'static str,
        is_number: bool,
        help: &'static str,
    ) -> SheetColumn {
        SheetColumn {
            id,
            header,
            is_number,
            help,
        }
    }
}

/// A cell: text for people, and a value for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetCell {
    text: String,
    json: Json,
    reason: Option<Reason>,
}

impl SheetCell {
    /// A name.
    #[must_use]
    pub fn text(text: impl Into<String>) -> SheetCell {
        let text = text.into();
        SheetCell {
            json: text.clone().into(),
            text,
            reason: None,
        }
    }

    /// A number, with its text for people.
    #[must_use]
    pub fn number(number: impl Into<Json>, text: impl Into<String>) -> SheetCell {
        SheetCell {
            text: text.into(),
            json: number.into(),
            reason: None,
        }
    }

    /// A missing value, with the reason.
    #[must_use]
    pub fn missing(missing: Missing) -> SheetCell {
        SheetCell {
            text: missing.mark().to_owned(),
            json: Json::Null,
            reason: Some(missing.reason()),
        }
    }

    /// The text for people.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// Whether the value exists and is not 0.
    #[must_use]
    pub fn is_something(&self) -> bool {
        match &self.json {
            Json::Null => false,
            Json::Number(number) => number.as_f64() != Some(0.0),
            _ => true,
        }
    }

    /// A number, or a missing value.
    #[must_use]
    pub fn or_missing<T>(
        value: Option<T>,
        missing: Missing,
        known: impl FnOnce(T) -> SheetCell,
    ) -> SheetCell {
        value.map_or_else(|| SheetCell::missing(missing), known)
    }
}

/// Columns and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The columns.
    pub columns: &'static [SheetColumn],
    /// Rows with a cell for each column.
    pub rows: Vec<Vec<SheetCell>>,
}

impl Sheet {
    /// A sheet without rows.
    #[must_use]
    pub const fn new(columns: &'static [SheetColumn]) -> Sheet {
        Sheet {
            columns,
            rows: Vec::new(),
        }
    }

    /// The table for people.
    #[must_use]
    pub fn table(&self, style: Style) -> String {
        let mut grid = Grid::default();
        for (place, column) in self.columns.iter().enumerate() {
            if column.header.is_empty() {
                continue;
            }
            let cells = self.rows.iter().filter_map(|row| row.get(place));
            let cells = cells.map(|cell| escaped(&cell.text).into_owned()).collect();
            let side = if column.is_number {
                Side::Right
            } else {
                Side::Left
            };
            grid.column(column.header, side, cells);
        }
        grid.text(style)
    }

    /// A header and a line per row; the last columns have the reasons for empty cells.
    ///
    /// # Errors
    /// The library cannot write its input.
    pub fn csv(&self) -> io::Result<String> {
        let ids = self.columns.iter().map(|column| column.id);
        let mut text = csv_text::line(ids.chain(csv_text::REASONS).map(str::to_owned))?;
        for row in &self.rows {
            let cells = row.iter().map(|cell| match &cell.json {
                Json::Null => String::new(),
                Json::String(text) => text.clone(),
                other => other.to_string(),
            });
            let reasons = Reasons::of_missing(self.reasons(row)).cells();
            text += &csv_text::line(cells.chain(reasons))?;
        }
        Ok(text)
    }

    /// An object per row, with the reasons for null values.
    #[must_use]
    pub fn json(&self) -> Json {
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row);
            let object = cells.fold(Object::new(), |object, (column, cell)| {
                object.set(column.id, cell.json.clone())
            });
            self.reasons(row)
                .fold(object, |object, (id, reason)| {
                    object.reason(id, reason, reason.words())
                })
                .finish()
        });
        rows.collect()
    }

    fn reasons(&self, row: &[SheetCell]) -> impl Iterator<Item = (&'static str, Reason)> {
        let cells = self.columns.iter().zip(row);
        cells.filter_map(|(column, cell)| Some((column.id, cell.reason?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::Markdown;
    use crate::style::Tables;

    const COLUMNS: [SheetColumn; 3] = [
        SheetColumn::new("name", "NAME", false, "What it is called"),
        SheetColumn::new("size_bytes", "SIZE", true, "How much fits"),
        SheetColumn::new("cpus", "", false, "Who uses it"),
    ];

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(&COLUMNS);
        sheet.rows.push(vec![
            SheetCell::text("L1\u{1b}"),
            SheetCell::number(49152, "48.0 KiB"),
            SheetCell::text("0-1"),
        ]);
        sheet.rows.push(vec![
            SheetCell::text("L2"),
            SheetCell::missing(Missing::Unknown(Reason::NotReported)),
            SheetCell::text("0,2"),
        ]);
        sheet
    }

    #[test]
    fn table_shows_texts_and_marks() {
        let text = sheet().table(Style::plain(80));
        assert_eq!(
            text, "NAME        SIZE\nL1\\x1b  48.0 KiB\nL2             ?\n",
            "columns without header are omitted, and names are escaped"
        );
    }

    #[test]
    fn markdown_has_the_shown_columns_and_no_names_that_act() {
        let mut sheet = sheet();
        sheet.rows.push(vec![
            SheetCell::text("a|b_c <x>\n# d"),
            SheetCell::number(1, "1 B"),
            SheetCell::text("0"),
        ]);
        let style = Style {
            tables: Tables::Markdown,
            ..Style::plain(80)
        };
        let mut markdown = Markdown::default();
        assert_eq!(
            markdown.push(&sheet.table(style)),
            "| NAME | SIZE |\n| --- | ---: |\n| L1\\\\x1b | 48.0 KiB |\n| L2 | ? |\n\
             | a\\|b\\_c &lt;x\\>\\\\n\\# d | 1 B |\n"
        );
    }

    #[test]
    fn json_and_csv_hold_numbers_and_reasons() {
        let json = sheet().json();
        assert_eq!(json[0]["size_bytes"], 49152, "a number");
        assert!(json[0].get("reasons").is_none(), "nothing to explain");
        assert!(json[1]["size_bytes"].is_null(), "not known is null");
        assert_eq!(
            json[1]["reasons"]["size_bytes"], "not reported",
            "with the reason"
        );
        assert_eq!(
            json[1]["reason_codes"]["size_bytes"], "not_reported",
            "and its code"
        );
        let csv = sheet().csv().unwrap();
        assert!(
            csv.starts_with("name,size_bytes,cpus,reasons,reason_codes\n"),
            "{csv}"
        );
        assert!(
            csv.ends_with("L2,,\"0,2\",size_bytes: not reported,size_bytes: not_reported\n"),
            "{csv}"
        );
    }
}
