//! Events: one text for each tick, for live views, and the charts' points.

use cachewise_model::{Diagnosis, Exactness, Interval, Lost, Row, field};
use cachewise_view::{columns_json, findings_json, lost_json};
use serde_json::{Value as Json, json};

use crate::columns::{TABLES, Table, greatest};

/// The media type of a stream of events.
pub(crate) const CONTENT_TYPE: &str = "text/event-stream";

/// Rows of each table in an event.
const MOST_ROWS: usize = 100;

/// The fields that the charts, and the figures above them, show.
const POINT: [&str; 23] = [
    "time",
    "elapsed_seconds",
    "read_requested_pages",
    "read_hit_pages",
    "read_missed_pages",
    "read_cached_pages",
    "reuse_ratio",
    "readahead_hit_pages",
    "direct_bytes",
    "direct_read_bytes",
    "dirtied_pages",
    "device_read_bytes",
    "device_write_bytes",
    "memory_total_bytes",
    "available_bytes",
    "cached_bytes",
    "buffers_bytes",
    "shmem_bytes",
    "dirty_bytes",
    "writeback_bytes",
    "psi_cpu_some_ratio",
    "psi_memory_some_ratio",
    "psi_io_some_ratio",
];

/// A point of the charts.
pub(crate) fn point(tick: &Interval) -> Json {
    let fields: Vec<_> = POINT.iter().filter_map(|id| field(id)).collect();
    columns_json(&tick.row(), &fields)
}

/// A tick as an event. Exactness and losses are those since the start.
pub(crate) fn event(
    tick: &Interval,
    point: &str,
    findings: &Diagnosis,
    exactness: Exactness,
    lost: &[Lost],
) -> String {
    let mut rest = json!({
        "reasons": {},
        "reason_codes": {},
        "exactness": { "id": exactness.id(), "text": exactness.text() },
        "lost": lost_json(lost),
    });
    for table in TABLES {
        match table.rows_of(tick) {
            Ok(of) => rest[table.id] = rows(table, of),
            Err(missing) => {
                rest[table.id] = Json::Null;
                rest["reasons"][table.id] = missing.reason().words().into();
                rest["reason_codes"][table.id] = missing.reason().code().into();
            }
        }
    }
    for (name, member) in findings_json(findings) {
        match member {
            Json::Object(reasons) if rest[&name].is_object() => {
                for (of, reason) in reasons {
                    rest[&name][of] = reason;
                }
            }
            member => rest[name] = member,
        }
    }
    // JSON has no line feeds outside its strings, and none in them.
    format!(
        "event: tick\ndata: {}\n\n",
        with_member(&rest, "point", point)
    )
}

/// An object with one member more, which is JSON already.
pub(crate) fn with_member(object: &Json, name: &str, value: &str) -> String {
    let object = object.to_string();
    let members = object.strip_suffix('}').unwrap_or(&object);
    format!("{members},\"{name}\":{value}}}")
}

/// That there are no numbers, and why.
pub(crate) fn error_event(error: &str) -> String {
    format!("event: problem\ndata: {}\n\n", json!({ "error": error }))
}

fn rows(table: &Table, rows: Vec<Row>) -> Json {
    let fields = table.fields();
    let rows = greatest(rows.into_iter(), &table.order(), MOST_ROWS);
    rows.iter().map(|row| columns_json(row, &fields)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_made_of_fields() {
        for id in POINT {
            assert!(field(id).is_some(), "{id} is a field");
        }
    }

    #[test]
    fn an_error_cannot_break_out_of_its_line() {
        let event = error_event("a\n\ndata: b");
        assert_eq!(event.lines().count(), 3, "two lines and the end: {event:?}");
    }
}
