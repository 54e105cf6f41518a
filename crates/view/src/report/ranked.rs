//! A table of the busiest rows: sorted, cut to the requested number, without empty columns.

use std::cmp::Reverse;

use cachewise_model::{
    Counter, Datum, Field, Kind, Ledger, Measured, Missing, Part, Row, TablePlace,
};
use cachewise_units::{PageSize, Pages};

use super::options::ReportOptions;
use crate::cell::wrapped;
use crate::layout::{Column, Grid};
use crate::number::{grouped, value_text};
use crate::style::Tables;

/// Columns shown always; others only if a row has a value in them: for a counter more than zero,
/// for a gauge, for example residency before the run, also zero.
const ALWAYS: [&str; 3] = ["read_requested_pages", "reuse_ratio", "read_missed_pages"];

/// Columns omitted first if a line is too narrow for the names.
const SPARED: [&str; 9] = [
    "dirtied_pages",
    "fault_miss_pages",
    "file_size_bytes",
    "readahead_hit_pages",
    "device_read_bytes",
    "ppid",
    "fetched_bytes",
    "write_bytes",
    "fault_requests",
];

/// Columns omitted if a line would not even hold a cut name; the hit rate stays.
const SPARED_LAST: [&str; 12] = [
    "psi_memory_some_ratio",
    "psi_io_some_ratio",
    "cached_bytes",
    "memory_used_bytes",
    "resident_before_pages",
    "cpu_seconds",
    "exit_status",
    "evicted_pages",
    "resident_after_pages",
    "direct_bytes",
    "read_requested_pages",
    "read_missed_pages",
];

/// A name cut to less than this is hard to recognize.
const NAME_WIDTH: usize = 28;

/// Draws rows, each with its name in the last column.
pub(super) fn table(
    title: &str,
    (part, place): (Part, TablePlace),
    mut rows: Vec<(Row, String)>,
    page_size: PageSize,
    options: ReportOptions<'_>,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(row, _)| Reverse(busyness(&row.ledger, page_size)));
    let further = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let mut grid = Grid::default();
    for field in chosen(part, place, &rows, options) {
        let cells = rows.iter().map(|(row, _)| value_text(&field.of(row)));
        grid.add(Column::of(field), cells.collect());
    }
    let line = options.style.table_width();
    let header = part.name().map_or("", |field| field.header);
    let names = rows.iter().map(|(_, name)| name.clone()).collect();
    let spared: (&[&str], &[&str]) = match options.columns {
        Some(_) => (&[], &[]),
        None => (&SPARED, &SPARED_LAST),
    };
    grid.names((header, names), NAME_WIDTH, spared, line);
    let mut text = format!(
        "{}\n{}",
        options.style.bold(title),
        grid.text(options.style)
    );
    let further = (further > 0).then(|| format!("and {} more", grouped(further as u64)));
    let elsewhere: Vec<String> = further.into_iter().chain(grid.left_out()).collect();
    if !elsewhere.is_empty() {
        let elsewhere = format!("{}: --json has all", elsewhere.join("; "));
        text += &format!("{}\n", wrapped(&elsewhere, options.style.width));
    }
    text
}

/// Bytes of all kinds: requested pages, faults as a page each, direct I/O, writes.
fn busyness(ledger: &Ledger, page_size: PageSize) -> u64 {
    let known = |counter| ledger.get(counter).known().unwrap_or(0);
    let pages = known(Counter::ReadRequestedPages).saturating_add(known(Counter::FaultRequests));
    [
        Counter::DirectReadBytes,
        Counter::DirectWriteBytes,
        Counter::WriteBytes,
    ]
    .into_iter()
    .map(known)
    .fold(Pages(pages).bytes(page_size).0, u64::saturating_add)
}

/// The columns beside the name: the chosen ones; for a terminal or a ticket those in which something happened, for
/// a pipe or a file all.
fn chosen(
    part: Part,
    place: TablePlace,
    rows: &[(Row, String)],
    options: ReportOptions<'_>,
) -> Vec<&'static Field> {
    let asked = options.columns.map(|columns| {
        let name = part.name().map(|field| field.id);
        let columns = columns
            .iter()
            .copied()
            .filter(|field| Some(field.id) != name);
        let have = |field: &&Field| rows.iter().any(|(row, _)| field.is_of(row));
        columns.filter(have).collect::<Vec<_>>()
    });
    if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
        return asked;
    }
    let usual = part.columns(place).into_iter().map(|shown| shown.field);
    let is_whole = options.style.tables == Tables::Whole;
    usual
        .filter(|field| {
            let something = || rows.iter().any(|(row, _)| is_something(field, row));
            is_whole || ALWAYS.contains(&field.id) || something()
        })
        .collect()
}

fn is_something(field: &Field, row: &Row) -> bool {
    match field.of(row) {
        Measured::Missing(Missing::NotOffered(_)) => false,
        Measured::Exact(datum) if field.kind == Kind::Counter => match datum {
            Datum::Count(number) => number > 0,
            Datum::Pages(pages) => !pages.is_zero(),
            Datum::Bytes(bytes) => !bytes.is_zero(),
            _ => true,
        },
        _ => true,
    }
}
