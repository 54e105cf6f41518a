//! Lines of CSV: the library quotes, this module gives empty cells their reasons.

use std::io;

use cachewise_model::{Datum, Measured, Value};

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

/// Reasons for empty and estimated cells: `id: reason; id: estimated: how`.
pub(crate) fn reasons<'a>(values: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let reasons: Vec<String> = values
        .filter_map(|(id, value)| match value {
            Measured::Missing(missing) => Some(format!("{id}: {}", missing.reason())),
            Measured::Estimated(_, how) => Some(format!("{id}: estimated: {how}")),
            Measured::Exact(Datum::Path(path)) if path.to_str().is_none() => {
                Some(format!("{id}: escaped"))
            }
            Measured::Exact(_) => None,
        })
        .collect();
    reasons.join("; ")
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
            reasons([("path", &path)].into_iter()),
            "path: escaped",
            "with the reason"
        );
    }
}
