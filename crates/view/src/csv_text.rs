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
        let mut reasons = Reasons([String::new(), String::new()]);
        for (id, value) in values {
            match value {
                Measured::Missing(missing) => reasons.missing(id, missing.reason()),
                Measured::Estimated(_, how) => reasons.add(
                    &format!("{id}: estimated: {how}"),
                    &format!("{id}: estimated: {}", how.code()),
                ),
                Measured::Exact(Datum::Path(path)) if path.to_str().is_none() => {
                    let escaped = format!("{id}: escaped");
                    reasons.add(&escaped, &escaped);
                }
                Measured::Exact(_) => {}
            }
        }
        reasons
    }

    pub(crate) fn of_missing<'a>(missing: impl Iterator<Item = (&'a str, Reason)>) -> Self {
        let mut reasons = Reasons([String::new(), String::new()]);
        missing.for_each(|(id, reason)| reasons.missing(id, reason));
        reasons
    }

    fn missing(&mut self, id: &str, reason: Reason) {
        self.add(
            &format!("{id}: {reason}"),
            &format!("{id}: {}", reason.code()),
        );
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
