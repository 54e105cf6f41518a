//! Events: one text for each tick, for live views, and the charts' points.

use cachewise_model::{Diagnosis, Exactness, Interval, Lost, Row, field};
use cachewise_view::{columns_json, findings_json, lost_json};
use serde_json::{Value as Json, json};

use crate::columns::{TABLES, Table, greatest_of};
use crate::folded::{folded, rest};
use crate::subject_id::SubjectId;

/// The media type of a stream of events.
pub(crate) const CONTENT_TYPE: &str = "text/event-stream";

/// How many rows a table has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) rows: usize,
    pub(crate) beyond: Beyond,
}

impl Limit {
    /// The limit of an event.
    pub(crate) const EVENT: Limit = Limit {
        rows: 100,
        beyond: Beyond::Omitted,
    };
}

/// The rows beyond the greatest ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// They are left out: another request returns them.
    Omitted,
    /// They are one row: there is nothing to request.
    Summed,
}

/// The fields that the charts, and the figures above them, show.
const POINT: [&str; 28] = [
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
    "anon_bytes",
    "swap_used_bytes",
    "dirty_bytes",
    "writeback_bytes",
    "evicted_reclaim_pages",
    "file_refault_pages",
    "psi_cpu_some_ratio",
    "psi_memory_some_ratio",
    "psi_io_some_ratio",
    "lost_events",
];

/// Fields of rows that no column shows.
const IDENTITY: [&str; 2] = ["exit_status", "read_cached_pages"];

/// A point of the charts.
pub(crate) fn point(tick: &Interval) -> Json {
    let fields: Vec<_> = POINT.iter().filter_map(|id| field(id)).collect();
    columns_json(&tick.row(), &fields)
}

/// A tick as an event. Exactness and losses are those since the start.
pub(crate) fn event(
    tick: &Interval,
    findings: &Diagnosis,
    exactness: Exactness,
    lost: &[Lost],
) -> String {
    // JSON has no line feeds outside its strings, and none in them.
    let tick = document(tick, findings, exactness, lost, Limit::EVENT);
    format!("event: tick\ndata: {tick}\n\n")
}

/// A tick as a document.
pub(crate) fn document(
    tick: &Interval,
    findings: &Diagnosis,
    exactness: Exactness,
    lost: &[Lost],
    limit: Limit,
) -> Json {
    let mut json = json!({
        "reasons": {},
        "reason_codes": {},
        "exactness": { "id": exactness.id(), "text": exactness.text() },
        "lost": lost_json(lost),
        "point": point(tick),
    });
    tables(tick, &mut json, limit);
    for (name, member) in findings_json(findings) {
        match member {
            Json::Object(reasons) if json[&name].is_object() => {
                for (of, reason) in reasons {
                    json[&name][of] = reason;
                }
            }
            member => json[name] = member,
        }
    }
    json
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

/// Sets the tables of an interval as members of an object, those that are unknown with their reasons.
pub(crate) fn tables(interval: &Interval, object: &mut Json, limit: Limit) {
    for table in TABLES {
        match table.rows_of(interval) {
            Ok(of) => object[table.id] = rows(table, of, limit),
            Err(missing) => {
                object[table.id] = Json::Null;
                object["reasons"][table.id] = missing.reason().words().into();
                object["reason_codes"][table.id] = missing.reason().code().into();
            }
        }
    }
}

/// The greatest rows of a table; processes that have ended are one row for each command.
pub(crate) fn rows(table: &Table, rows: Vec<Row>, limit: Limit) -> Json {
    let folded = folded(table.part, rows);
    let wanted = match limit.beyond {
        Beyond::Omitted => limit.rows,
        Beyond::Summed => usize::MAX,
    };
    let mut rows = greatest_of(folded.into_iter(), &table.order(), wanted, |folded| {
        &folded.row
    });
    if rows.len() > limit.rows {
        let others = rows.split_off(limit.rows);
        rows.extend(rest(table.part, others));
    }
    let rows = rows.iter();
    rows.map(|folded| row_of(table, &folded.row, folded.members))
        .collect()
}

/// A row of a table, with its subject and how many processes it sums up.
pub(crate) fn row_of(table: &Table, row: &Row, members: usize) -> Json {
    let mut fields = table.fields();
    let identity = IDENTITY.iter().filter_map(|id| field(id));
    fields.extend(identity.filter(|field| field.is_of(row)));
    let mut json = columns_json(row, &fields);
    if members > 1 {
        json["members"] = members.into();
    }
    if let Some(subject) = SubjectId::of_row(table.part, row, members) {
        json["subject"] = subject.to_string().into();
    }
    json
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
