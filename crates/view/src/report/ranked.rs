//! A table of the busiest: sorted, cut to the number asked for, with the columns that say something.

use std::cmp::Reverse;

use cachewise_model::{Counter, Datum, Field, Kind, Ledger, Measured, Missing, Row, Unit, field};
use cachewise_units::{PageSize, Pages};

use super::ReportOptions;
use super::grid::Grid;
use crate::cell::{Side, cell, grouped, shortened, width};

/// Shown always; the others only where one of the rows has something in them. For a counter that is
/// more than zero; for a state, such as residency before the run, zero is something too.
const ALWAYS: [&str; 3] = ["read_pages", "reuse_ratio", "read_miss_pages"];

/// The columns that go first where a line is too narrow for the names.
const SPARED: [&str; 8] = [
    "dirtied_pages",
    "fault_miss_pages",
    "file_size_bytes",
    "readahead_used_pages",
    "device_read_bytes",
    "ppid",
    "write_bytes",
    "fault_requests",
];

/// A name that is cut to less than this is no longer a name.
const NAME_WIDTH: usize = 28;

/// Draws rows, each with its name, which goes last.
pub(super) fn table(
    title: &str,
    name_header: &str,
    mut rows: Vec<(Row, String)>,
    columns: &[&str],
    page_size: PageSize,
    options: ReportOptions,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(row, _)| Reverse(busyness(&row.ledger, page_size)));
    let further = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let columns = fitting(worth_showing(columns, &rows), &rows, options.style.width);
    let room = options.style.width.saturating_sub(taken(&columns, &rows));
    let mut heads: Vec<(&str, Side)> = columns
        .iter()
        .map(|field| (field.header, side(field)))
        .collect();
    heads.push((name_header, Side::Left));
    let mut grid = Grid::new(&heads, "");
    for (row, name) in &rows {
        let cells = columns.iter().map(|field| cell(&field.of(row)));
        grid.line(
            cells
                .chain([shortened(name, room.max(NAME_WIDTH))])
                .collect(),
        );
    }
    let mut text = format!(
        "{}\n{}",
        options.style.bold(title),
        grid.text(options.style)
    );
    if further > 0 {
        text += &format!("and {} more: --json has all\n", grouped(further as u64));
    }
    text
}

/// Bytes that went to and fro: pages asked for, faults as a page each, direct I/O, writes.
fn busyness(ledger: &Ledger, page_size: PageSize) -> u64 {
    let known = |counter| ledger.get(counter).known().unwrap_or(0);
    let pages = known(Counter::ReadPages).saturating_add(known(Counter::FaultRequests));
    [
        Counter::DirectReadBytes,
        Counter::DirectWriteBytes,
        Counter::WriteBytes,
    ]
    .into_iter()
    .map(known)
    .fold(Pages(pages).bytes(page_size).0, u64::saturating_add)
}

fn worth_showing(columns: &[&str], rows: &[(Row, String)]) -> Vec<&'static Field> {
    columns
        .iter()
        .filter_map(|id| field(id))
        .filter(|field| {
            ALWAYS.contains(&field.id) || rows.iter().any(|(row, _)| is_something(field, row))
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

fn side(field: &Field) -> Side {
    if field.unit == Unit::Text {
        Side::Left
    } else {
        Side::Right
    }
}

/// Leaves out columns that can be spared until the names have room.
fn fitting(
    mut columns: Vec<&'static Field>,
    rows: &[(Row, String)],
    line_width: usize,
) -> Vec<&'static Field> {
    let longest = rows.iter().map(|(_, name)| width(name)).max().unwrap_or(0);
    let needed = longest.min(NAME_WIDTH);
    for spared in SPARED {
        if taken(&columns, rows) + needed <= line_width {
            break;
        }
        columns.retain(|field| field.id != spared);
    }
    columns
}

/// How many columns of a line the numbers take, with what is between them.
fn taken(columns: &[&Field], rows: &[(Row, String)]) -> usize {
    let widest = |field: &Field| {
        let cells = rows.iter().map(|(row, _)| width(&cell(&field.of(row))));
        cells.max().unwrap_or(0).max(width(field.header))
    };
    columns.iter().map(|field| widest(field) + 2).sum()
}
