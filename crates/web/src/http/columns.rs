//! What the tables of the page and the events show.

use std::cmp::Ordering;

use cachewise_model::{Datum, Field, Missing, Row, Stretch, Value, field};

/// A table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) columns: &'static [Column],
    /// The column by which it is sorted at first.
    pub(super) order: &'static str,
    rows: fn(&Stretch) -> Vec<Row>,
    /// Only who counts knows which rows there are.
    is_counted: bool,
}

/// A column: a field of the model's table, and what people call it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) id: &'static str,
    pub(super) header: &'static str,
}

const fn column(id: &'static str, header: &'static str) -> Column {
    Column { id, header }
}

const ASKED: Column = column("read_pages", "Asked");
const HIT: Column = column("reuse_ratio", "Hit %");
const MISSED: Column = column("read_miss_pages", "Missed");
const AHEAD: Column = column("readahead_used_pages", "Read ahead");
const DIRECT: Column = column("direct_bytes", "Direct");
const FETCHED: Column = column("fetched_bytes", "Fetched");
const FAULTS: Column = column("fault_requests", "Faults");
const DIRTIED: Column = column("dirtied_pages", "Dirtied");

pub(super) static PROCESSES: Table = Table {
    id: "processes",
    title: "Processes",
    columns: &[
        column("pid", "PID"),
        column("command", "Command"),
        ASKED,
        HIT,
        MISSED,
        AHEAD,
        DIRECT,
        FETCHED,
        FAULTS,
        DIRTIED,
        column("cgroup", "Control group"),
    ],
    order: "read_pages",
    rows: |stretch| stretch.process_rows().collect(),
    is_counted: true,
};

pub(super) static CGROUPS: Table = Table {
    id: "cgroups",
    title: "Control groups",
    columns: &[
        column("cgroup", "Control group"),
        column("unit", "Unit"),
        column("memory_used_bytes", "Memory"),
        ASKED,
        HIT,
        MISSED,
        AHEAD,
        DIRECT,
        FETCHED,
        FAULTS,
        DIRTIED,
    ],
    order: "read_pages",
    rows: |stretch| stretch.cgroup_rows().collect(),
    is_counted: false,
};

pub(super) static FILES: Table = Table {
    id: "files",
    title: "Files",
    columns: &[
        column("path", "Path"),
        ASKED,
        HIT,
        MISSED,
        AHEAD,
        DIRECT,
        FETCHED,
        FAULTS,
        DIRTIED,
        column("filesystem", "File system"),
    ],
    order: "read_pages",
    rows: |stretch| stretch.file_rows().collect(),
    is_counted: true,
};

pub(super) static DEVICES: Table = Table {
    id: "devices",
    title: "Devices",
    columns: &[
        column("device", "Number"),
        column("path", "Device"),
        column("filesystem", "File system"),
        column("device_read_bytes", "Read"),
        column("device_write_bytes", "Written"),
        ASKED,
        HIT,
        MISSED,
        DIRECT,
        FETCHED,
    ],
    order: "device_read_bytes",
    rows: |stretch| stretch.device_rows().collect(),
    is_counted: false,
};

pub(super) static TABLES: [&Table; 4] = [&PROCESSES, &CGROUPS, &FILES, &DEVICES];

impl Table {
    /// Its rows in a stretch; why nobody knows which there are, if so.
    pub(super) fn of(&self, stretch: &Stretch) -> Result<Vec<Row>, Missing> {
        match stretch.parts_missing().filter(|_| self.is_counted) {
            Some(missing) => Err(missing),
            None => Ok((self.rows)(stretch)),
        }
    }

    pub(super) fn fields(&self) -> Vec<&'static Field> {
        let ids = self.columns.iter().map(|column| column.id);
        ids.filter_map(field).collect()
    }
}

/// The rows with the greatest values of a field first, at most so many; what is not known comes last.
pub(super) fn greatest(rows: impl Iterator<Item = Row>, by: &Field, most: usize) -> Vec<Row> {
    let mut keyed: Vec<(Option<f64>, Row)> = rows.map(|row| (number(&by.of(&row)), row)).collect();
    keyed.sort_by(|(a, _), (b, _)| match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    keyed.into_iter().take(most).map(|(_, row)| row).collect()
}

/// A value as a number, to sort and to divide by.
pub(super) fn number(value: &Value) -> Option<f64> {
    Some(match value.as_ref().known()? {
        Datum::Count(number) | Datum::Id(number) => *number as f64,
        Datum::Pages(pages) => pages.0 as f64,
        Datum::Bytes(bytes) => bytes.0 as f64,
        Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => *number,
        Datum::Ratio(ratio) => ratio.get(),
        Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Measured};

    use super::*;

    #[test]
    fn columns_are_fields() {
        for table in TABLES {
            assert_eq!(
                table.fields().len(),
                table.columns.len(),
                "{}: each column is a field",
                table.id
            );
            assert!(
                field(table.order).is_some(),
                "{}: so is its order",
                table.id
            );
        }
    }

    #[test]
    fn the_unknown_comes_last() {
        let row = |pages: Option<u64>| {
            let mut row = Row::default();
            match pages {
                Some(pages) => row.ledger.set(Counter::ReadPages, pages),
                None => row.ledger.set_missing(
                    Counter::ReadPages,
                    cachewise_model::Missing::Unknown("lost"),
                ),
            }
            row.labels.pid = Measured::Exact(pages.unwrap_or(99) as u32);
            row
        };
        let rows = [row(None), row(Some(1)), row(Some(3)), row(Some(2))];
        let by = field("read_pages").expect("it is a field");
        let pids: Vec<_> = greatest(rows.into_iter(), by, 3)
            .iter()
            .map(|row| row.labels.pid.known())
            .collect();
        assert_eq!(pids, [Some(3), Some(2), Some(1)], "the first three");
    }
}
