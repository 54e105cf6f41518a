//! Values as JSON, with the reasons for missing ones.
//!
//! A missing value is `null`, and `reason_codes` has its id with the reason's code. An estimated
//! value is a number; `estimated` has its id, and `reason_codes` the method. `reasons` has the same in
//! words. A name that is not UTF-8 is escaped, and `escaped` has its id.

use cachewise_model::{
    Datum, FIELDS, Field, Measured, NOT_APPLICABLE, Reason, Row, Value, escaped,
};
use serde_json::{Map, Value as Json};

/// A JSON object of values in insertion order.
#[derive(Debug, Default)]
pub(crate) struct Object {
    members: Map<String, Json>,
    reasons: Map<String, Json>,
    codes: Map<String, Json>,
    estimated: Vec<Json>,
    escaped: Vec<Json>,
}

impl Object {
    pub(crate) fn new() -> Self {
        Object::default()
    }

    /// Adds plain JSON.
    pub(crate) fn set(mut self, id: &str, json: impl Into<Json>) -> Self {
        self.members.insert(id.to_owned(), json.into());
        self
    }

    /// Adds a value with its quality.
    pub(crate) fn value(mut self, id: &str, value: &Value) -> Self {
        let json = match value {
            Measured::Exact(datum) => number_or_name(datum),
            Measured::Estimated(datum, how) => {
                self.estimated.push(id.into());
                self = self.reason(id, *how, how.words());
                number_or_name(datum)
            }
            Measured::Missing(missing) => {
                let reason = missing.reason();
                self = self.reason(id, reason, reason.words());
                Json::Null
            }
        };
        if let Some(Datum::Path(path)) = value.as_ref().known()
            && path.to_str().is_none()
        {
            self.escaped.push(id.into());
        }
        self.members.insert(id.to_owned(), json);
        self
    }

    /// Adds the reason for a member, with these words.
    pub(crate) fn reason(mut self, id: &str, reason: Reason, words: impl Into<Json>) -> Self {
        self.reasons.insert(id.to_owned(), words.into());
        self.codes.insert(id.to_owned(), reason.code().into());
        self
    }

    /// Adds a reason as members of its own: its words under this name, and its code.
    pub(crate) fn because(self, name: &str, reason: Option<Reason>) -> Self {
        self.set(name, reason.map(Reason::words))
            .set(&format!("{name}_code"), reason.map(Reason::code))
    }

    /// Adds these columns of a row.
    pub(crate) fn columns(self, row: &Row, columns: &[&Field]) -> Self {
        columns
            .iter()
            .fold(self, |object, field| object.value(field.id, &field.of(row)))
    }

    /// Adds every field of this kind of row.
    pub(crate) fn everything(self, row: &Row) -> Self {
        FIELDS
            .iter()
            .fold(self, |object, field| match field.of(row) {
                Measured::Missing(NOT_APPLICABLE) => object,
                value => object.value(field.id, &value),
            })
    }

    /// Adds the members of another object, and merges its reasons.
    pub(crate) fn merge(mut self, mut members: Map<String, Json>) -> Self {
        for (name, all) in [
            ("reasons", &mut self.reasons),
            ("reason_codes", &mut self.codes),
        ] {
            if let Some(Json::Object(of_members)) = members.remove(name) {
                all.extend(of_members);
            }
        }
        self.members.extend(members);
        self
    }

    /// The object, with the non-empty lists of qualities at its end.
    pub(crate) fn finish(mut self) -> Json {
        if !self.estimated.is_empty() {
            self.members
                .insert("estimated".to_owned(), self.estimated.into());
        }
        if !self.escaped.is_empty() {
            self.members
                .insert("escaped".to_owned(), self.escaped.into());
        }
        if !self.reasons.is_empty() {
            self.members
                .insert("reasons".to_owned(), self.reasons.into());
            self.members
                .insert("reason_codes".to_owned(), self.codes.into());
        }
        Json::Object(self.members)
    }
}

pub(crate) fn number_or_name(datum: &Datum) -> Json {
    match datum {
        Datum::Count(number) | Datum::Id(number) => (*number).into(),
        Datum::Pages(pages) => pages.0.into(),
        Datum::Bytes(bytes) => bytes.0.into(),
        Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => (*number).into(),
        Datum::Ratio(ratio) => ratio.get().into(),
        Datum::Text(text) | Datum::Time(text) => text.as_str().into(),
        Datum::Path(_) => plain(datum).into(),
    }
}

/// A datum in machine formats: integers of the base unit, ratios 0 to 1, names unchanged if they
/// are UTF-8 (JSON and CSV escape control characters themselves).
pub(crate) fn plain(datum: &Datum) -> String {
    match datum {
        Datum::Count(number) | Datum::Id(number) => number.to_string(),
        Datum::Pages(pages) => pages.0.to_string(),
        Datum::Bytes(bytes) => bytes.0.to_string(),
        Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => {
            number.to_string()
        }
        Datum::Ratio(ratio) => ratio.get().to_string(),
        Datum::Text(text) | Datum::Time(text) => text.clone(),
        Datum::Path(path) => path
            .to_str()
            .map_or_else(|| escaped(path.as_os_str()).into_owned(), str::to_owned),
    }
}

/// A row as JSON: every field of its kind, with the reasons for missing values.
#[must_use]
pub fn row_json(row: &Row) -> Json {
    Object::new().everything(row).finish()
}

/// These fields of a row as JSON.
#[must_use]
pub fn columns_json(row: &Row, columns: &[&Field]) -> Json {
    Object::new().columns(row, columns).finish()
}

/// JSON on one line, or indented, with a final line feed.
pub(crate) fn to_text(json: &Json, indented: bool) -> String {
    if indented {
        format!("{json:#}\n")
    } else {
        format!("{json}\n")
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use cachewise_units::{Bytes, Ratio};

    use super::*;

    #[test]
    fn value_adds_reasons_estimated_and_escaped() {
        let broken = PathBuf::from(OsStr::from_bytes(b"/tmp/\xff"));
        let object = Object::new()
            .value("exact_bytes", &Measured::Exact(Datum::Bytes(Bytes(4096))))
            .value(
                "guessed",
                &Measured::Estimated(Datum::Count(3), Reason::ByVmstat),
            )
            .value("hidden", &Measured::unknown(Reason::LostEvents))
            .value(
                "half_ratio",
                &Value::ratio(Measured::Exact(Ratio::of(1, 2).unwrap())),
            )
            .value("path", &Measured::Exact(Datum::Path(broken)))
            .finish();
        assert_eq!(
            object.to_string(),
            r#"{"exact_bytes":4096,"guessed":3,"hidden":null,"half_ratio":0.5,"path":"/tmp/\\xff","#
                .to_owned()
                + r#""estimated":["guessed"],"escaped":["path"],"#
                + r#""reasons":{"guessed":"the machine's vmstat","hidden":"events were lost"},"#
                + r#""reason_codes":{"guessed":"by_vmstat","hidden":"lost_events"}}"#,
            "numbers, null with a reason, and the lists at the end"
        );
    }

    #[test]
    fn exact_values_have_no_quality_lists() {
        let object = Object::new()
            .value("n", &Measured::Exact(Datum::Count(1)))
            .finish();
        assert_eq!(object.to_string(), r#"{"n":1}"#, "no empty lists");
    }

    #[test]
    fn names_are_not_shortened() {
        let object = Object::new()
            .value("path", &Value::text("a\nb\u{1b}"))
            .finish();
        let back: Json = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(
            back["path"], "a\nb\u{1b}",
            "JSON's own escapes bring it back"
        );
    }

    #[test]
    fn infinite_number_is_null() {
        let object = Object::new()
            .value("s", &Value::seconds(Measured::Exact(f64::NAN)))
            .finish();
        assert_eq!(object.to_string(), r#"{"s":null}"#, "JSON has no NaN");
    }

    #[test]
    fn everything_omits_fields_of_other_rows() {
        let object = Object::new().everything(&Row::default()).finish();
        assert_eq!(object["read_requested_pages"], 0, "counters are there");
        assert!(
            object.get("pid").is_none(),
            "a row about no process has no pid, not even null"
        );
        assert_eq!(
            object["reuse_ratio"],
            Json::Null,
            "a ratio of nothing is null"
        );
        assert_eq!(
            object["reasons"]["reuse_ratio"], "nothing was requested",
            "with the reason"
        );
        assert_eq!(
            object["reason_codes"]["reuse_ratio"], "nothing_requested",
            "for programs"
        );
    }
}
