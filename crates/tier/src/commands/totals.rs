//! The totals of a cache over all tiers: one row, in every format.

use std::fmt::Write as _;

use cachewise_model::{Missing, Reason};
use cachewise_tier::Totals;
use cachewise_units::Bytes;
use cachewise_view::{Sheet, SheetCell, SheetColumn};
use serde_json::Value as Json;

/// The columns of the totals. The text format shows the nonzero ones as sentences.
pub const COLUMNS: [SheetColumn; 25] = [
    column("reads_total", "Requested reads"),
    column("failed_reads_total", "Reads that failed"),
    column("read_bytes_total", "Bytes that reads returned"),
    column(
        "joined_reads_total",
        "Reads of a block that was already being fetched",
    ),
    column(
        "hedges_total",
        "Hedged requests: sent to a second node because the first was slow",
    ),
    column(
        "hedges_won_total",
        "Hedged requests that returned the block first",
    ),
    column(
        "hedges_refused_total",
        "Hedged requests not sent, because their budget was used up",
    ),
    column(
        "deadline_misses_total",
        "Blocks that no node returned within the deadline",
    ),
    column(
        "breaker_skips_total",
        "Blocks that were not requested from a node: all breakers were open",
    ),
    column("fills_total", "Blocks written to the engine"),
    column("dropped_fills_total", "Blocks not written to the engine"),
    column(
        "dropped_disk_writes_total",
        "Blocks not written to the local disk",
    ),
    column(
        "leases_total",
        "Leases taken: blocks read from the origin for all machines",
    ),
    column(
        "lease_waits_total",
        "Blocks that another machine was reading from the origin, waited for",
    ),
    column(
        "lease_waits_in_vain_total",
        "Waits for another machine that ended without the block",
    ),
    column(
        "copies_total",
        "Copies of blocks made, as servers were busy with the same blocks",
    ),
    column("copy_hits_total", "Blocks that a copy returned"),
    column(
        "other_zone_hits_total",
        "Blocks that a node outside of the zone of this machine returned",
    ),
    column(
        "shared_names_total",
        "Lists and objects taken from the engine instead of the origin",
    ),
    column(
        "origin_breaker_opened_total",
        "Times that a part of the origin was found to answer nothing but errors",
    ),
    column(
        "origin_refused_total",
        "Requests to the origin that failed at once, as it answers nothing but errors",
    ),
    column(
        "origin_probes_total",
        "Requests that tested whether the origin answers again",
    ),
    column(
        "origin_limit_reads",
        "Present maximum of concurrent reads of the origin",
    ),
    column(
        "hedge_after_seconds",
        "Present delay before a hedged request",
    ),
    column(
        "deadline_seconds",
        "Present deadline for the first byte from a node",
    ),
];

const fn column(id: &'static str, help: &'static str) -> SheetColumn {
    SheetColumn::new(id, "", true, help)
}

const NEVER: Missing = Missing::NotOffered(Reason::NoHedging);
const NO_ENGINE: Missing = Missing::NotOffered(Reason::NoEngine);

/// Returns the one row.
pub fn sheet(totals: &Totals) -> Sheet {
    let (number, seconds) = (SheetCell::count, SheetCell::latency);
    let mut sheet = Sheet::new(&COLUMNS);
    sheet.rows.push(vec![
        number(totals.reads),
        number(totals.failed_reads),
        SheetCell::bytes(Bytes(totals.bytes)),
        number(totals.joined),
        number(totals.hedges),
        number(totals.hedges_won),
        number(totals.hedges_refused),
        number(totals.deadline_misses),
        number(totals.breaker_skips),
        number(totals.fills),
        number(totals.dropped_fills),
        number(totals.dropped_disk_writes),
        number(totals.leases),
        number(totals.lease_waits),
        number(totals.lease_waits_in_vain),
        number(totals.copies),
        number(totals.copy_hits),
        number(totals.other_zone_hits),
        number(totals.names_shared),
        number(totals.origin_breaker_opened),
        number(totals.origin_refused),
        number(totals.origin_probes),
        number(totals.origin_limit),
        SheetCell::or_missing(totals.hedge_after_seconds, NEVER, seconds),
        SheetCell::or_missing(totals.deadline_seconds, NO_ENGINE, seconds),
    ]);
    sheet
}

/// A line for each that is not nothing.
pub fn text(totals: &Totals) -> String {
    let sheet = sheet(totals);
    let cells = sheet.rows.iter().flatten().zip(&COLUMNS);
    let mut text = String::new();
    for (cell, column) in cells {
        if cell.is_something() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {}", column.help, cell.as_text());
        }
    }
    text
}

/// As an object of JSON.
pub fn json(totals: &Totals) -> Json {
    match sheet(totals).json() {
        Json::Array(mut rows) => rows.pop().unwrap_or(Json::Null),
        other => other,
    }
}
