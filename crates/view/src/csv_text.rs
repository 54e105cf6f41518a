//! Lines of CSV: the library quotes, this module gives empty cells their reasons.

use std::io;

use cachewise_model::{Datum, Measured, Reason, Value};

use crate::json::plain;

/// One record as a line.
///
/// # Errors
/// The library's error; writing to memory does not fail.
pub(crate) fn line(cells: impl Iterator<Item = String>) -> io::Result<String> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer
        .write_record(cells.map(String::into_bytes))
        .map_err(io::Error::other)?;
    let bytes = writer
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Appends a cell to a line, in quotes where it needs them, as the library does: a list may have a million lines.
///
/// A line of one empty cell alone, which the library quotes, is not made by this.
pub(crate) fn push_text(line: &mut String, cell: &str) {
    let is_special = |byte| matches!(byte, b',' | b'"' | b'\r' | b'\n');
    if !cell.bytes().any(is_special) {
        return line.push_str(cell);
    }
    line.push('"');
    for (place, part) in cell.split('"').enumerate() {
        if place > 0 {
            line.push_str("\"\"");
        }
        line.push_str(part);
    }
    line.push('"');
}

/// Appends a value as a cell, as [`cell`] has it.
pub(crate) fn push_value(line: &mut String, value: &Value) {
    let Some(datum) = value.as_ref().known() else {
        return;
    };
    match datum {
        Datum::Count(number) | Datum::Id(number) => push_number(line, *number),
        Datum::Pages(pages) => push_number(line, pages.0),
        Datum::Bytes(bytes) => push_number(line, bytes.0),
        Datum::Text(text) | Datum::Time(text) => push_text(line, text),
        Datum::Path(path) => match path.to_str() {
            Some(path) => push_text(line, path),
            None => push_text(line, &plain(datum)),
        },
        // The shares of most files, without the search for the shortest digits.
        Datum::Ratio(ratio) if ratio.part() == 0 => line.push('0'),
        Datum::Ratio(ratio) if ratio.part() == ratio.whole() => line.push('1'),
        _ => push_text(line, &plain(datum)),
    }
}

fn push_number(line: &mut String, number: u64) {
    line.push_str(itoa::Buffer::new().format(number));
}

/// A value as a cell; empty if missing.
pub(crate) fn cell(value: &Value) -> String {
    value.as_ref().known().map(plain).unwrap_or_default()
}

/// The last columns: reasons for empty and estimated cells, in words and by their codes.
pub(crate) const REASONS: [&str; 2] = ["reasons", "reason_codes"];

/// The cells of these columns: `id: reason; id: estimated: how`, and the same with codes.
pub(crate) struct Reasons([String; 2]);

impl Reasons {
    pub(crate) fn of<'a>(values: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut reasons = Reasons::none();
        values.for_each(|(id, value)| reasons.add_value(id, value));
        reasons
    }

    /// No cell is empty or estimated so far.
    pub(crate) fn none() -> Self {
        Reasons([String::new(), String::new()])
    }

    /// Takes the reason of one value in.
    pub(crate) fn add_value(&mut self, id: &str, value: &Value) {
        match value {
            Measured::Missing(missing) => self.missing(id, missing.reason()),
            Measured::Estimated(_, how) => self.add(
                &format!("{id}: estimated: {how}"),
                &format!("{id}: estimated: {}", how.code()),
            ),
            Measured::Exact(Datum::Path(path)) if path.to_str().is_none() => {
                let escaped = format!("{id}: escaped");
                self.add(&escaped, &escaped);
            }
            Measured::Exact(_) => {}
        }
    }

    /// Appends both cells to a line.
    pub(crate) fn push(&self, line: &mut String) {
        for cell in &self.0 {
            line.push(',');
            push_text(line, cell);
        }
    }

    pub(crate) fn of_missing<'a>(missing: impl Iterator<Item = (&'a str, Reason)>) -> Self {
        let mut reasons = Reasons::none();
        missing.for_each(|(id, reason)| reasons.missing(id, reason));
        reasons
    }

    fn missing(&mut self, id: &str, reason: Reason) {
        for (cell, text) in self.0.iter_mut().zip([reason.words(), reason.code()]) {
            if !cell.is_empty() {
                cell.push_str("; ");
            }
            cell.push_str(id);
            cell.push_str(": ");
            cell.push_str(text);
        }
    }

    pub(crate) fn add(&mut self, words: &str, code: &str) {
        for (cell, text) in self.0.iter_mut().zip([words, code]) {
            if !cell.is_empty() && !text.is_empty() {
                cell.push_str("; ");
            }
            cell.push_str(text);
        }
    }

    pub(crate) fn cells(self) -> [String; 2] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use cachewise_units::Ratio;

    use super::*;

    #[test]
    fn single_empty_cell_is_a_record() {
        assert_eq!(
            line([String::new()].into_iter()).unwrap(),
            "\"\"\n",
            "not an empty line"
        );
        let cells = ["a,b", "c\"d", "e\nf"].map(str::to_owned);
        let text = line(cells.into_iter()).unwrap();
        assert_eq!(
            text, "\"a,b\",\"c\"\"d\",\"e\nf\"\n",
            "commas, quotes and line feeds"
        );
    }

    #[test]
    fn appended_cells_are_those_of_the_library() {
        let texts = [
            "",
            "a",
            "a,b",
            "c\"d",
            "\"",
            "e\nf",
            "g\rh",
            "a b; c: d",
            "é",
        ];
        let texts = texts.map(|text| Measured::Exact(Datum::Text(text.to_owned())));
        let ratio = |part| Measured::Exact(Datum::Ratio(Ratio::of(part, 7).unwrap()));
        let values = [0, 1, 3, 7].map(ratio);
        let numbers = [0, 1, u64::MAX].map(|number| Measured::Exact(Datum::Count(number)));
        let all: Vec<Value> = texts.into_iter().chain(values).chain(numbers).collect();
        let mut own = String::new();
        for value in &all {
            push_value(&mut own, value);
            own.push(',');
        }
        own.pop();
        own.push('\n');
        assert_eq!(own, line(all.iter().map(cell)).unwrap());
    }

    #[test]
    fn reasons_mention_escaped_paths() {
        let path = Measured::Exact(Datum::Path(OsStr::from_bytes(b"/\xff").into()));
        assert_eq!(
            cell(&path),
            r"/\xff",
            "bytes that are not UTF-8 are escaped"
        );
        assert_eq!(
            Reasons::of([("path", &path)].into_iter()).cells(),
            ["path: escaped", "path: escaped"],
            "with the reason"
        );
    }
}
