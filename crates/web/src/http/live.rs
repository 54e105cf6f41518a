//! Events: what each tick brought, for live views.
//!
//! An event is made once for all clients. A client that lags behind by more than a few is let go, as is one
//! that does not read: it comes back by itself, and gets the past from the history.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cachewise_model::{Exactness, Lost, Row, Stretch, field};
use cachewise_view::{columns_json, lost_json};
use futures_util::stream::unfold;
use serde_json::{Value as Json, json};

use super::columns::{TABLES, Table, greatest};
use super::connection::ended;
use super::{Site, api};
use crate::gather::Findings;

pub(super) const CONTENT_TYPE: &str = "text/event-stream";

/// Rows of each table in an event.
const MOST_ROWS: usize = 100;

/// What the charts and the figures above them show.
const POINT: [&str; 22] = [
    "time",
    "elapsed_seconds",
    "read_requested_pages",
    "read_hit_pages",
    "read_missed_pages",
    "read_cached_pages",
    "reuse_ratio",
    "readahead_hit_pages",
    "direct_bytes",
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
pub(crate) fn point(tick: &Stretch) -> Json {
    let fields: Vec<_> = POINT.iter().filter_map(|id| field(id)).collect();
    columns_json(&tick.row(), &fields)
}

/// A tick as an event. Exactness and losses are those since the start.
pub(crate) fn event(
    tick: &Stretch,
    point: &str,
    findings: &Findings,
    exactness: Exactness,
    lost: &[Lost],
) -> String {
    let mut rest = json!({
        "reasons": {},
        "exactness": { "id": exactness.id(), "text": exactness.text() },
        "lost": lost_json(lost),
    });
    for table in TABLES {
        match table.of(tick) {
            Ok(of) => rest[table.id] = rows(table, of),
            Err(missing) => {
                rest[table.id] = Json::Null;
                rest["reasons"][table.id] = missing.reason().into();
            }
        }
    }
    for (name, member) in findings.members() {
        match member {
            Json::Object(reasons) if name == "reasons" => {
                for (of, reason) in reasons {
                    rest["reasons"][of] = reason;
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
pub(super) fn with_member(object: &Json, name: &str, value: &str) -> String {
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

/// Gives a place back.
struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream.
pub(super) async fn events(State(site): State<Site>) -> Response {
    let held = Held(site.streams.clone());
    if site.streams.fetch_add(1, Ordering::Relaxed) >= site.options.limits.streams {
        return api::problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many clients have live views open".into(),
        );
    }
    let start = (site.asking.events(), site.ending.clone(), held);
    let hello = Bytes::from_static(b"retry: 2000\n\n");
    let events = unfold((Some(hello), start), |(hello, mut state)| async move {
        if let Some(hello) = hello {
            return Some((Ok::<_, Infallible>(hello), (None, state)));
        }
        let (events, ending, _) = &mut state;
        let event = tokio::select! {
            () = ended(ending) => return None,
            event = events.recv() => event,
        };
        // Lagging behind ends it too.
        let event = Bytes::from_owner(Event(event.ok()?));
        Some((Ok(event), (None, state)))
    });
    let kind = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    (kind, Body::from_stream(events)).into_response()
}

/// One text for all clients.
struct Event(Arc<str>);

impl AsRef<[u8]> for Event {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
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
