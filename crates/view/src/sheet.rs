//! [`Sheet`]: a table with columns of its own.
//!
//! Rows of the page cache use the model's table of fields. Other data, for example a CPU's caches,
//! bring their own columns, which define headers, JSON names and the list of columns.

use std::borrow::Cow;
use std::io;

use cachewise_model::{Datum, Missing, NOT_APPLICABLE, Reason, escaped};
use cachewise_units::{Bytes, Ratio};
use serde_json::Value as Json;

use crate::cell::Side;
use crate::csv_text::{self, Reasons};
use crate::json::{Object, number_or_name};
use crate::layout::Grid;
use crate::number::{latency, seconds, shown};
use crate::style::Style;

/// One column of a [`Sheet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SheetColumn {
    /// The name in machine formats; ends with the unit.
    pub id: &'static str,
    /// The header for people; empty if no table has the column.
    pub header: &'static str,
    /// Whether tables show it without being asked to.
    pub is_usual: bool,
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
            is_usual: !header.is_empty(),
            is_number,
            help,
        }
    }

    /// The column, which tables show only where it is chosen.
    #[must_use]
    pub const fn if_chosen(self) -> SheetColumn {
        SheetColumn {
            is_usual: false,
            ..self
        }
    }

    /// Whether a user may name it so: its id or its header, in any case.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        !name.is_empty()
            && [self.id, self.header]
                .iter()
                .any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Columns that a user chose, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SheetColumns(Vec<SheetColumn>);

impl SheetColumns {
    /// Finds the columns of a comma-separated list in these tables, by id or header, in any case.
    ///
    /// # Errors
    /// The first name that no column has.
    pub fn find(list: &str, tables: &[&[SheetColumn]]) -> Result<SheetColumns, String> {
        let mut found: Vec<SheetColumn> = Vec::new();
        for name in list.split(',').map(str::trim) {
            let mut all = tables.iter().copied().flatten();
            let column = all.find(|column| column.is_named(name)).ok_or(name)?;
            // As in other tables, a repeated column is shown once.
            if found.iter().all(|known| known.id != column.id) {
                found.push(*column);
            }
        }
        Ok(SheetColumns(found))
    }

    /// The columns with these ids, in their order.
    #[must_use]
    pub fn with_ids(ids: &[&str], table: &[SheetColumn]) -> SheetColumns {
        let column = |id: &&str| table.iter().find(|column| column.id == *id).copied();
        SheetColumns(ids.iter().filter_map(column).collect())
    }

    /// The ids of the columns, in their order.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|column| column.id)
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

    /// A list of names, separated by spaces in tables and CSV.
    #[must_use]
    pub fn names(names: &[String]) -> SheetCell {
        SheetCell::with_text(names, names.join(" "))
    }

    /// A value, as all tables show it.
    #[must_use]
    pub fn of(datum: &Datum) -> SheetCell {
        SheetCell::with_text(number_or_name(datum), shown(datum))
    }

    /// A number of things.
    #[must_use]
    pub fn count(number: u64) -> SheetCell {
        SheetCell::of(&Datum::Count(number))
    }

    /// An amount of bytes.
    #[must_use]
    pub fn bytes(bytes: Bytes) -> SheetCell {
        SheetCell::of(&Datum::Bytes(bytes))
    }

    /// A share.
    #[must_use]
    pub fn ratio(ratio: Ratio) -> SheetCell {
        SheetCell::of(&Datum::Ratio(ratio))
    }

    /// A multiple.
    #[must_use]
    pub fn factor(factor: f64) -> SheetCell {
        SheetCell::of(&Datum::Factor(factor))
    }

    /// A time in seconds, shown in seconds: `1.500 s`.
    #[must_use]
    pub fn seconds(number: f64) -> SheetCell {
        SheetCell::with_text(number, seconds(number))
    }

    /// A time in seconds, shown in the unit that suits it: `1.25 ns`, `734 ns`, `1.5 ms`.
    #[must_use]
    pub fn latency(number: f64) -> SheetCell {
        SheetCell::with_text(number, latency(number))
    }

    /// A yes or no.
    #[must_use]
    pub fn flag(is_so: bool) -> SheetCell {
        SheetCell::with_text(is_so, if is_so { "yes" } else { "no" })
    }

    /// A value whose text says more than the value: with a mark, as a range, or in words.
    #[must_use]
    pub fn with_text(value: impl Into<Json>, text: impl Into<String>) -> SheetCell {
        SheetCell {
            text: text.into(),
            json: value.into(),
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
    pub columns: Cow<'static, [SheetColumn]>,
    /// Rows with a cell for each column.
    pub rows: Vec<Vec<SheetCell>>,
    /// The columns of tables, by their places.
    shown: Vec<usize>,
}

/// The places of the columns that tables show without being asked to.
fn usual(columns: &[SheetColumn]) -> Vec<usize> {
    let places = columns.iter().enumerate();
    places
        .filter_map(|(place, column)| column.is_usual.then_some(place))
        .collect()
}

impl Sheet {
    /// A sheet without rows.
    #[must_use]
    pub fn new(columns: &'static [SheetColumn]) -> Sheet {
        Sheet {
            columns: Cow::Borrowed(columns),
            rows: Vec::new(),
            shown: usual(columns),
        }
    }

    /// The sheet with these columns alone, in their order; as it is without a choice. A column that it lacks is
    /// empty in CSV, with the reason, and absent from tables.
    #[must_use]
    pub fn chosen(self, columns: Option<&SheetColumns>) -> Sheet {
        let Some(SheetColumns(columns)) = columns else {
            return self;
        };
        let place = |column: &SheetColumn| self.columns.iter().position(|own| own.id == column.id);
        let places: Vec<Option<usize>> = columns.iter().map(place).collect();
        let cell = |row: &[SheetCell], place: &Option<usize>| {
            let cell = place.and_then(|place| row.get(place)).cloned();
            cell.unwrap_or_else(|| SheetCell::missing(NOT_APPLICABLE))
        };
        let own = columns.iter().zip(&places);
        let own = own.map(|(column, place)| place.map_or(*column, |place| self.columns[place]));
        let shown = places.iter().enumerate();
        Sheet {
            shown: shown
                .filter_map(|(number, place)| place.map(|_| number))
                .collect(),
            columns: own.collect(),
            rows: (self.rows.iter())
                .map(|row| places.iter().map(|place| cell(row, place)).collect())
                .collect(),
        }
    }

    /// Whether the table has rows and columns to show.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        !self.shown.is_empty() && !self.rows.is_empty()
    }

    /// The table for people; empty if none of its columns was chosen.
    #[must_use]
    pub fn table(&self, style: Style) -> String {
        if self.shown.is_empty() {
            return String::new();
        }
        let mut grid = Grid::default();
        for place in self.shown.iter().copied() {
            let column = &self.columns[place];
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
        let header = csv_text::line(ids.chain(csv_text::REASONS).map(str::to_owned))?;
        Ok(header + &self.csv_rows()?)
    }

    /// The lines of the rows alone, for a stream.
    ///
    /// # Errors
    /// The library cannot write its input.
    pub fn csv_rows(&self) -> io::Result<String> {
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().map(|cell| match &cell.json {
                Json::Null => String::new(),
                Json::String(text) => text.clone(),
                Json::Array(_) => cell.text.clone(),
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
        SheetColumn::new("cpus", "CPU", false, "Who uses it").if_chosen(),
    ];

    #[test]
    fn chosen_columns_are_shown_in_their_order() {
        const OTHER: [SheetColumn; 1] = [SheetColumn::new("x", "X", false, "Of another table")];
        let columns = |list| SheetColumns::find(list, &[&COLUMNS, &OTHER]);
        let chosen = columns("CPU, x,size_bytes,cpus").unwrap();
        let sheet = sheet().chosen(Some(&chosen));
        assert_eq!(
            sheet.table(Style::plain(80)),
            "CPU      SIZE\n0-1  48.0 KiB\n0,2         ?\n",
            "one that is not usual is there, one of another table is not"
        );
        let csv = sheet.csv().unwrap();
        assert!(csv.starts_with("cpus,x,size_bytes,"), "{csv}");
        assert!(
            csv.contains("0-1,,49152,x: not part of this kind of row,"),
            "{csv}"
        );
        let other = columns("x").unwrap();
        assert_eq!(
            super::tests::sheet()
                .chosen(Some(&other))
                .table(Style::plain(80)),
            ""
        );
        assert_eq!(
            columns("size,nam"),
            Err("nam".to_owned()),
            "the unknown one is named"
        );
        assert!(columns("").is_err(), "no name is a slip");
    }

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(&COLUMNS);
        sheet.rows.push(vec![
            SheetCell::text("L1\u{1b}"),
            SheetCell::bytes(Bytes(49152)),
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
            "columns that are not usual are omitted, and names are escaped"
        );
    }

    #[test]
    fn markdown_has_the_shown_columns_and_no_names_that_act() {
        let mut sheet = sheet();
        sheet.rows.push(vec![
            SheetCell::text("a|b_c <x>\n# d"),
            SheetCell::bytes(Bytes(1)),
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
