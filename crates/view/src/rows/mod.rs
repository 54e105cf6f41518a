//! A stream of rows in any format: the output of `stat`.
//!
//! Rows are written at once; only the columns' widths are kept.
//!
//! # Layout
//! - [`RowWriter`], [`RowOptions`]: the stream. [`RowWriters`]: the same rows in several formats.
//! - `table`: for people. `records`: JSON, JSON lines and CSV.

use std::io::{self, Write};

use cachewise_model::{Field, Lost, Row};

use crate::format::Format;
use crate::metrics::Exposition;

mod options;
mod records;
mod several;
mod table;

pub use options::RowOptions;
pub use several::RowWriters;

/// Writes rows, one at a time, in one format.
#[derive(Debug)]
pub struct RowWriter<W> {
    out: W,
    format: Format,
    columns: Vec<&'static Field>,
    options: RowOptions,
    table: table::Table,
    /// Number of rows written.
    written: usize,
    /// The last row, for OpenMetrics, which shows one.
    last: Option<Row>,
    /// For what stands at the end of a document.
    lost: Option<Vec<Lost>>,
    /// The line of a CSV: one buffer for all rows.
    line: String,
}

impl<W: Write> RowWriter<W> {
    /// A writer of these columns; a repeated column is shown once.
    pub fn new(out: W, format: Format, columns: &[&'static Field], options: RowOptions) -> Self {
        let mut once: Vec<&'static Field> = Vec::with_capacity(columns.len());
        for field in columns {
            if !once.iter().any(|known| known.id == field.id) {
                once.push(field);
            }
        }
        let table = table::Table::new(&once, options.room, options.header_every);
        RowWriter {
            out,
            format,
            columns: once,
            options,
            table,
            written: 0,
            last: None,
            lost: None,
            line: String::new(),
        }
    }

    /// Sets what was lost so far: JSON and OpenMetrics end with it. Tables and lines have no place for it.
    pub fn set_lost(&mut self, lost: &[Lost]) {
        self.lost = Some(lost.to_vec());
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Another room for the lines to come: terminals change their size.
    pub fn set_room(&mut self, room: Option<usize>) {
        self.table.set_room(room);
    }

    /// Widens a table's columns for a later row: with all rows known, a table is aligned from the
    /// first.
    pub fn fit(&mut self, row: &Row) {
        if self.format == Format::Table {
            self.table.fit(row, &self.columns);
        }
    }

    /// Writes one row and flushes, so that the reader of a pipe gets it at once.
    ///
    /// # Errors
    /// The output's error; a closed pipe is [`io::ErrorKind::BrokenPipe`].
    pub fn write(&mut self, row: &Row) -> io::Result<()> {
        let text = match self.format {
            Format::Table => self.table.row(row, &self.columns, self.options.style),
            Format::Json => records::json_row(self.written, row, &self.columns, &self.options),
            Format::JsonLines => records::json_line(row, &self.columns, &self.options),
            Format::Csv => {
                let mut line = std::mem::take(&mut self.line);
                line.clear();
                records::csv_row(&mut line, self.written, row, &self.columns)?;
                self.written += 1;
                let result = self.emit(&line);
                self.line = line;
                return result;
            }
            Format::OpenMetrics => {
                self.last = Some(row.clone());
                String::new()
            }
        };
        self.written += 1;
        self.emit(&text)
    }

    /// Writes the end, with a total if the format has one, and returns the output.
    ///
    /// Tables and JSON show the total beside the rows. JSON lines and CSV do not, because a sum
    /// over a column would count everything twice. OpenMetrics shows the total, or the last row
    /// without one.
    ///
    /// # Errors
    /// The output's error.
    pub fn finish(mut self, total: Option<&Row>) -> io::Result<W> {
        let text = match self.format {
            Format::Table => match total {
                Some(total) => self.table.total(total, &self.columns, self.options.style),
                None => String::new(),
            },
            Format::Json => records::json_end(
                self.written,
                total,
                &self.columns,
                &self.options,
                self.lost.as_deref(),
            ),
            Format::JsonLines => String::new(),
            Format::Csv if self.written == 0 => records::csv_header(&self.columns)?,
            Format::Csv => String::new(),
            Format::OpenMetrics => self.exposition(total)?,
        };
        self.emit(&text)?;
        Ok(self.out)
    }

    fn exposition(&self, total: Option<&Row>) -> io::Result<String> {
        let mut exposition = Exposition::new();
        exposition.page_size(self.options.page_size);
        if let Some(row) = total.or(self.last.as_ref()) {
            for field in &self.columns {
                exposition.field(row, field);
            }
        }
        if let Some(lost) = &self.lost {
            exposition.lost(lost);
        }
        exposition.text()
    }

    fn emit(&mut self, text: &str) -> io::Result<()> {
        if !text.is_empty() {
            self.out.write_all(text.as_bytes())?;
            self.out.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Measured, field};
    use cachewise_units::PageSize;

    use super::*;
    use crate::style::Style;

    pub(super) fn options() -> RowOptions {
        RowOptions {
            timestamp: "2026-01-02T03:04:05Z".into(),
            hostname: "box".into(),
            page_size: PageSize::new(4 << 10).unwrap(),
            style: Style::plain(80),
            room: None,
            header_every: None,
        }
    }

    pub(super) fn row(pages: u64, misses: u64) -> Row {
        let mut row = Row::default();
        row.labels.time = Measured::Exact("2026-01-02T03:04:06Z".into());
        row.ledger.set(Counter::ReadRequestedPages, pages);
        row.ledger.set(Counter::ReadMissedPages, misses);
        row.ledger.derive_hits();
        row.system.cached_bytes = Measured::Exact(512 << 20);
        row.elapsed = std::time::Duration::from_secs(1);
        row
    }

    pub(super) fn columns(names: &str) -> Vec<&'static Field> {
        names.split(',').map(|name| field(name).unwrap()).collect()
    }

    pub(super) fn written(
        format: Format,
        names: &str,
        rows: &[Row],
        total: Option<&Row>,
        options: RowOptions,
    ) -> String {
        let mut writer = RowWriter::new(Vec::new(), format, &columns(names), options);
        for row in rows {
            writer.write(row).unwrap();
        }
        String::from_utf8(writer.finish(total).unwrap()).unwrap()
    }

    #[test]
    fn openmetrics_shows_total_or_last_row() {
        let (rows, total) = ([row(1, 0), row(2, 0)], row(3, 0));
        let text = |total| written(Format::OpenMetrics, "REQUESTED", &rows, total, options());
        assert!(
            text(None).contains("\ncachewise_read_requested_pages_total 2\n"),
            "the last row"
        );
        assert!(
            text(Some(&total)).contains("\ncachewise_read_requested_pages_total 3\n"),
            "the total"
        );
        assert_eq!(
            text(None).matches("# EOF").count(),
            1,
            "one exposition, however many rows"
        );
    }

    #[test]
    fn documents_end_with_what_was_lost() {
        let end = |format, lost: &[Lost]| {
            let mut writer = RowWriter::new(Vec::new(), format, &columns("REQUESTED"), options());
            writer.write(&row(1, 0)).unwrap();
            writer.set_lost(lost);
            String::from_utf8(writer.finish(None).unwrap()).unwrap()
        };
        let lost = [Lost::new("rows", 7), Lost::new("names", 1)];
        let json: serde_json::Value = serde_json::from_str(&end(Format::Json, &lost)).unwrap();
        assert_eq!(json["lost"][0]["id"], "rows");
        assert_eq!(json["lost"][1]["count"], 1);
        let none: serde_json::Value = serde_json::from_str(&end(Format::Json, &[])).unwrap();
        assert_eq!(none["lost"], serde_json::json!([]), "also that nothing was");
        let text = end(Format::OpenMetrics, &lost);
        assert!(text.contains("\ncachewise_lost_events_total 8\n"), "{text}");
    }

    #[test]
    fn a_stream_without_rows_is_still_well_formed() {
        let empty = |format| written(format, "REQUESTED,REUSE%", &[], None, options());
        assert_eq!(empty(Format::Table), "", "nothing to see");
        assert_eq!(empty(Format::JsonLines), "", "no lines");
        assert_eq!(
            empty(Format::Csv),
            "read_requested_pages,reuse_ratio,reasons,reason_codes\n",
            "the header alone"
        );
        assert!(
            empty(Format::OpenMetrics).ends_with("# EOF\n"),
            "an exposition"
        );
        let json: serde_json::Value = serde_json::from_str(&empty(Format::Json)).unwrap();
        assert_eq!(json["rows"], serde_json::json!([]), "an empty list");
    }

    #[test]
    fn closed_pipe_is_reported_as_broken_pipe() {
        #[derive(Debug)]
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for format in [Format::Table, Format::Json, Format::JsonLines, Format::Csv] {
            let mut writer = RowWriter::new(Closed, format, &columns("REQUESTED"), options());
            let error = writer.write(&row(1, 0)).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::BrokenPipe,
                "{format}: the kind is kept"
            );
        }
    }
}
