//! Rows for programs: JSON, JSON lines, CSV.
//!
//! The JSON document is written piece by piece, so that a stream of a week needs no memory.

use std::io;

use cachewise_model::{Field, Lost, Reason, Row, SCHEMA_VERSION};
use serde_json::Value as Json;

use super::options::RowOptions;
use crate::csv_text::{self, Reasons};
use crate::json::Object;
use crate::report::lost_json;

/// The field that has the losses of a row.
const LOST: &str = "lost_events";

/// Members at the start of every document.
fn head(timestamp: &str, options: &RowOptions) -> Object {
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("timestamp", timestamp)
        .set("hostname", options.hostname.as_str())
        .set("page_size_bytes", options.page_size.get())
}

/// The document up to its rows, still open.
fn json_start(options: &RowOptions) -> String {
    let head = head(&options.timestamp, options).finish().to_string();
    let members = head.strip_suffix('}').unwrap_or(&head);
    format!("{members},\"rows\":[")
}

/// Losses of the row's interval, where no column shows them: counters beside them are too low.
fn loss(row: &Row, columns: &[&Field]) -> Option<String> {
    if columns.iter().any(|field| field.id == LOST) {
        return None;
    }
    let lost = row.subject.lost_events.known().filter(|lost| *lost > 0)?;
    Some(format!("{lost} events were not counted, or in a sum only"))
}

fn with_loss(object: Object, row: &Row, columns: &[&Field]) -> Object {
    match loss(row, columns) {
        Some(loss) => object.reason(LOST, Reason::LostEvents, loss),
        None => object,
    }
}

fn object(row: &Row, columns: &[&Field]) -> Json {
    let object = Object::new().columns(row, columns);
    with_loss(object, row, columns).finish()
}

/// One row of the document, with its separator.
pub(super) fn json_row(
    written: usize,
    row: &Row,
    columns: &[&Field],
    options: &RowOptions,
) -> String {
    let before = if written == 0 {
        json_start(options)
    } else {
        String::from(",")
    };
    format!("{before}\n{}", object(row, columns))
}

/// The end of the document.
pub(super) fn json_end(
    written: usize,
    total: Option<&Row>,
    columns: &[&Field],
    options: &RowOptions,
    lost: Option<&[Lost]>,
) -> String {
    let before = if written == 0 {
        json_start(options)
    } else {
        String::new()
    };
    let total = total.map(|total| format!(",\n\"total\":{}", object(total, columns)));
    let lost = lost.map(|lost| format!(",\n\"lost\":{}", lost_json(lost)));
    let [total, lost] = [total, lost].map(Option::unwrap_or_default);
    format!("{before}\n]{total}{lost}}}\n")
}

/// A row as a document of its own, complete with its head.
pub(super) fn json_line(row: &Row, columns: &[&Field], options: &RowOptions) -> String {
    let taken = row
        .labels
        .time
        .as_ref()
        .known()
        .map_or(&options.timestamp, |time| time);
    let object = head(taken, options).columns(row, columns);
    format!("{}\n", with_loss(object, row, columns).finish())
}

/// The header of a CSV: the ids, and the columns for reasons.
pub(super) fn csv_header(columns: &[&Field]) -> io::Result<String> {
    csv_text::line(
        columns
            .iter()
            .map(|field| field.id.to_owned())
            .chain(csv_text::REASONS.map(str::to_owned)),
    )
}

/// Appends one row of a CSV, with the header before the first.
pub(super) fn csv_row(
    text: &mut String,
    written: usize,
    row: &Row,
    columns: &[&Field],
) -> io::Result<()> {
    if written == 0 {
        text.push_str(&csv_header(columns)?);
    }
    let mut reasons = Reasons::none();
    for (place, field) in columns.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        let value = field.of(row);
        csv_text::push_value(text, &value);
        reasons.add_value(field.id, &value);
    }
    if let Some(loss) = loss(row, columns) {
        let code = Reason::LostEvents.code();
        reasons.add(&format!("{LOST}: {loss}"), &format!("{LOST}: {code}"));
    }
    reasons.push(text);
    text.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Measured, Missing};

    use super::super::tests::{options, row, written};
    use super::*;
    use crate::format::Format;

    fn blind() -> Row {
        let mut row = row(7, 0);
        row.ledger.set_missing(
            Counter::ReadMissedPages,
            Missing::NotOffered(Reason::NeedsProbe),
        );
        row.ledger
            .set_estimated(Counter::ReadRequestedPages, 7, Reason::ByVmstat);
        row
    }

    #[test]
    fn json_document_has_head_rows_and_total() {
        let rows = [row(4, 1), blind()];
        let text = written(
            Format::Json,
            "TIME,REQUESTED,MISSED",
            &rows,
            Some(&row(11, 1)),
            options(),
        );
        let expected = r#"{"schema_version":1,"timestamp":"2026-01-02T03:04:05Z","hostname":"box","page_size_bytes":4096,"rows":[
{"time":"2026-01-02T03:04:06Z","read_requested_pages":4,"read_missed_pages":1},
{"time":"2026-01-02T03:04:06Z","read_requested_pages":7,"read_missed_pages":null,"estimated":["read_requested_pages"],"reasons":{"read_requested_pages":"the machine's vmstat","read_missed_pages":"only the probe can count it"},"reason_codes":{"read_requested_pages":"by_vmstat","read_missed_pages":"needs_probe"}}
],
"total":{"time":"2026-01-02T03:04:06Z","read_requested_pages":11,"read_missed_pages":1}}
"#;
        assert_eq!(text, expected, "one row a line");
        let back: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(
            back["rows"][1]["read_missed_pages"],
            Json::Null,
            "it parses back"
        );
        assert_eq!(
            back["rows"][1]["reasons"]["read_missed_pages"], "only the probe can count it",
            "with its reason"
        );
    }

    #[test]
    fn json_document_without_total_is_closed() {
        let text = written(Format::Json, "REQUESTED", &[row(4, 1)], None, options());
        let back: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(back["rows"][0]["read_requested_pages"], 4, "it parses");
        assert!(back.get("total").is_none(), "and has no total");
    }

    #[test]
    fn rows_with_losses_say_so_where_no_column_does() {
        let mut lossy = row(4, 1);
        lossy.subject.lost_events = Measured::Exact(7);
        let rows = [lossy, row(5, 2)];
        let of = |format, columns| written(format, columns, &rows, None, options());
        let loss = "7 events were not counted, or in a sum only";
        let csv = of(Format::Csv, "REQUESTED");
        assert_eq!(
            csv,
            format!(
                "read_requested_pages,reasons,reason_codes\n4,\"lost_events: {loss}\",lost_events: lost_events\n5,,\n"
            ),
            "the row that lost something"
        );
        for format in [Format::Json, Format::JsonLines] {
            let text = of(format, "REQUESTED");
            let reason = format!("\"reasons\":{{\"lost_events\":\"{loss}\"}}");
            assert_eq!(text.matches(&reason).count(), 1, "{format}: {text}");
        }
        let csv = of(Format::Csv, "REQUESTED,LOST");
        assert!(
            csv.contains("\n4,7,,\n"),
            "a column of its own says it: {csv}"
        );
    }

    #[test]
    fn each_json_line_stands_alone() {
        let rows = [row(4, 1), row(5, 2)];
        let text = written(
            Format::JsonLines,
            "REQUESTED",
            &rows,
            Some(&row(9, 3)),
            options(),
        );
        let expected = r#"{"schema_version":1,"timestamp":"2026-01-02T03:04:06Z","hostname":"box","page_size_bytes":4096,"read_requested_pages":4}
{"schema_version":1,"timestamp":"2026-01-02T03:04:06Z","hostname":"box","page_size_bytes":4096,"read_requested_pages":5}
"#;
        assert_eq!(
            text, expected,
            "the row's own time, and no total to be counted twice"
        );
    }

    #[test]
    fn csv_has_ids_empty_cells_and_reasons() {
        let mut named = blind();
        named.labels.path = Measured::Exact("/tmp/a,\"b\".txt".into());
        let rows = [row(4, 1), named];
        let text = written(
            Format::Csv,
            "REQUESTED,MISSED,PATH",
            &rows,
            Some(&row(9, 3)),
            options(),
        );
        let expected = "\
read_requested_pages,read_missed_pages,path,reasons,reason_codes
4,1,,path: not part of this kind of row,path: not_applicable
7,,\"/tmp/a,\"\"b\"\".txt\",read_requested_pages: estimated: the machine's vmstat; read_missed_pages: only the probe can count it,read_requested_pages: estimated: by_vmstat; read_missed_pages: needs_probe
";
        assert_eq!(text, expected, "integers, nothing for missing, and why");
    }
}
