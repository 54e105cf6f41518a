//! The tables of the page and of the events: their rows, columns and order.

use std::cmp::Ordering;

use cachewise_model::{
    Datum, Field, Interval, Missing, ORDER, Part, Row, TablePlace, Unit, Value, field,
};

/// A table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) part: Part,
    /// The last sort key, for rows with equal or unknown activity.
    last: Option<&'static str>,
    rows: fn(&Interval) -> Vec<Row>,
    /// Whether the rows are known only to a backend that counts.
    is_counted: bool,
}

pub(crate) static PROCESSES: Table = Table {
    id: "processes",
    title: "Processes",
    part: Part::Process,
    last: None,
    rows: |interval| interval.process_rows().collect(),
    is_counted: true,
};

pub(crate) static CGROUPS: Table = Table {
    id: "cgroups",
    title: "Control groups",
    part: Part::Cgroup,
    last: Some("memory_used_bytes"),
    rows: |interval| interval.cgroup_rows().collect(),
    is_counted: false,
};

pub(crate) static FILES: Table = Table {
    id: "files",
    title: "Files",
    part: Part::File,
    last: None,
    rows: |interval| interval.file_rows().collect(),
    is_counted: true,
};

pub(crate) static DEVICES: Table = Table {
    id: "devices",
    title: "Devices",
    part: Part::Device,
    last: Some("device_read_bytes"),
    rows: |interval| interval.device_rows().collect(),
    is_counted: false,
};

pub(crate) static TABLES: [&Table; 4] = [&PROCESSES, &CGROUPS, &FILES, &DEVICES];

impl Table {
    /// Returns its rows of an interval, or the reason if they are unknown.
    pub(crate) fn rows_of(&self, interval: &Interval) -> Result<Vec<Row>, Missing> {
        match interval.parts_missing().filter(|_| self.is_counted) {
            Some(missing) => Err(missing),
            None => Ok((self.rows)(interval)),
        }
    }

    /// Returns its columns, the identifying ones first.
    pub(crate) fn fields(&self) -> Vec<&'static Field> {
        let shown = self.part.columns(TablePlace::Page).into_iter();
        let mut fields: Vec<&Field> = shown.map(|shown| shown.field).collect();
        let is_name = |field: &&Field| matches!(field.unit, Unit::Id | Unit::Text);
        let names = fields.iter().take_while(|field| is_name(field)).count();
        if let Some(name) = self.part.name() {
            fields.insert(names, name);
        }
        fields
    }

    /// Returns the title of a column.
    pub(crate) fn header(&self, field: &Field) -> &'static str {
        match (field.id, self.part) {
            ("path", Part::Device) => "Device",
            (id, _) => HEADERS
                .iter()
                .find_map(|(of, header)| (*of == id).then_some(*header))
                .unwrap_or(field.header),
        }
    }

    /// Returns the default sort keys, the most important first.
    pub(crate) fn order(&self) -> Vec<&'static Field> {
        let ids = ORDER.into_iter().chain(self.last);
        ids.filter_map(field).collect()
    }
}

/// Columns by the names that people have for them.
const HEADERS: [(&str, &str); 25] = [
    ("pid", "PID"),
    ("command", "Command"),
    ("path", "Path"),
    ("device", "Number"),
    ("read_requested_pages", "Asked"),
    ("reuse_ratio", "Hit %"),
    ("read_missed_pages", "Missed"),
    ("readahead_hit_pages", "Read ahead"),
    ("direct_bytes", "Direct"),
    ("fetched_bytes", "Fetched"),
    ("waited_seconds", "Waited"),
    ("fault_requests", "Faults"),
    ("write_bytes", "Written"),
    ("dirtied_pages", "Dirtied"),
    ("evicted_pages", "Evicted"),
    ("cpu_seconds", "CPU"),
    ("cgroup", "Control group"),
    ("group_name", "Name"),
    ("filesystem", "File system"),
    ("memory_used_bytes", "Memory"),
    ("psi_memory_some_ratio", "Memory wait"),
    ("psi_io_some_ratio", "I/O wait"),
    ("file_size_bytes", "Size"),
    ("device_read_bytes", "From device"),
    ("device_write_bytes", "To device"),
];

/// Returns at most `most` rows, those with the greatest values of the first field. The next field
/// breaks ties, and unknown values come last.
pub(crate) fn greatest(rows: impl Iterator<Item = Row>, by: &[&Field], most: usize) -> Vec<Row> {
    greatest_of(rows, by, most, |row| row)
}

/// Returns those of `all` whose rows [`greatest`] would return.
pub(crate) fn greatest_of<T>(
    all: impl Iterator<Item = T>,
    by: &[&Field],
    most: usize,
    row: impl Fn(&T) -> &Row,
) -> Vec<T> {
    let keys = |of: &T| by.iter().map(|by| number(&by.of(row(of)))).collect();
    let mut keyed: Vec<(Vec<Option<f64>>, T)> = all.map(|of| (keys(&of), of)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let mut each = a.iter().zip(b).map(|pair| match pair {
            (Some(a), Some(b)) => b.total_cmp(a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        });
        each.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    keyed.into_iter().take(most).map(|(_, of)| of).collect()
}

/// A value as a number, to sort and to divide by.
pub(crate) fn number(value: &Value) -> Option<f64> {
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
    use cachewise_model::{Counter, Measured, Reason};

    use super::*;

    #[test]
    fn who_it_is_stands_first_and_all_have_names_for_people() {
        let first = |table: &Table| {
            let fields = table.fields();
            [table.header(fields[0]), table.header(fields[1])]
        };
        assert_eq!(first(&PROCESSES), ["PID", "Command"], "of processes");
        assert_eq!(first(&CGROUPS), ["Control group", "Memory"], "of groups");
        assert_eq!(first(&FILES), ["Path", "Asked"], "of files");
        assert_eq!(first(&DEVICES), ["Number", "Device"], "of devices");
        for table in TABLES {
            for field in table.fields() {
                assert!(
                    field.id == "path" || HEADERS.iter().any(|(id, _)| *id == field.id),
                    "{}: `{}` has a name here",
                    table.id,
                    field.id
                );
                let same = table.fields();
                let same = same
                    .iter()
                    .filter(|other| table.header(other) == table.header(field));
                assert_eq!(
                    same.count(),
                    1,
                    "{}: `{}` is one column",
                    table.id,
                    field.id
                );
            }
            let shown = table.fields();
            assert!(
                table
                    .order()
                    .iter()
                    .all(|by| shown.iter().any(|field| field.id == by.id)),
                "{}: what it is sorted by can be seen",
                table.id
            );
        }
    }

    #[test]
    fn of_two_that_miss_the_same_who_makes_the_disk_read_is_first() {
        let row = |pid: u32, direct: u64, asked: u64| {
            let mut row = Row::default();
            row.ledger.set(Counter::DirectReadBytes, direct);
            row.ledger.set(Counter::ReadRequestedPages, asked);
            row.labels.pid = Measured::Exact(pid);
            row
        };
        let rows = [row(1, 0, 9), row(2, 0, 10), row(3, 4096, 0)];
        let pids: Vec<_> = greatest(rows.into_iter(), &PROCESSES.order(), 2)
            .iter()
            .map(|row| row.labels.pid.known())
            .collect();
        assert_eq!(pids, [Some(3), Some(2)], "as in `top`");
    }

    #[test]
    fn the_unknown_comes_last() {
        let row = |pages: Option<u64>| {
            let mut row = Row::default();
            match pages {
                Some(pages) => row.ledger.set(Counter::ReadRequestedPages, pages),
                None => row.ledger.set_missing(
                    Counter::ReadRequestedPages,
                    cachewise_model::Missing::Unknown(Reason::LostEvents),
                ),
            }
            row.labels.pid = Measured::Exact(pages.unwrap_or(99) as u32);
            row
        };
        let rows = [row(None), row(Some(1)), row(Some(3)), row(Some(2))];
        let by = field("read_requested_pages").expect("it is a field");
        let pids: Vec<_> = greatest(rows.into_iter(), &[by], 3)
            .iter()
            .map(|row| row.labels.pid.known())
            .collect();
        assert_eq!(pids, [Some(3), Some(2), Some(1)], "the first three");
    }
}
