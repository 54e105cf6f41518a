//! Which columns a view has, how wide they are, and which go first where there is little room.

use cachewise_model::{Field, Unit, field};

use crate::listing::Kind;

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What it shows.
    pub field: &'static Field,
    /// How wide it is; the last one takes what is left, and at least this.
    pub width: usize,
    /// The higher, the sooner it goes.
    pub rank: u8,
}

/// A name is cut, but not to less than this, as long as other columns can go.
const NAME: usize = 14;

/// Of a path less says nothing.
const PATH: usize = 24;

/// Wide enough for any number that is shown.
const NUMBER: usize = 6;

/// A field's id and its rank.
type Ranked = (&'static str, u8);

/// The counters of the ledger, in their order.
const LEDGER: [Ranked; 12] = [
    ("read_pages", 2),
    ("read_hit_pages", 5),
    ("read_miss_pages", 0),
    ("reuse_ratio", 1),
    ("readahead_used_pages", 6),
    ("readahead_wasted_pages", 12),
    ("fault_requests", 7),
    ("direct_bytes", 3),
    ("dirtied_pages", 8),
    ("write_bytes", 9),
    ("evicted_pages", 10),
    ("refault_pages", 11),
];

impl Kind {
    /// The columns of a view of such rows. The last one is the name.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        let (before, after): (&[Ranked], &[Ranked]) = match self {
            Kind::Process => (
                &[("pid", 1)],
                &[("cpu_seconds", 13), ("unit", 14), ("command", 0)],
            ),
            Kind::File => (&[], &[("file_size_bytes", 4), ("path", 0)]),
            Kind::Cgroup => (
                &[("memory_used_bytes", 4)],
                &[
                    ("psi_memory_some_ratio", 14),
                    ("psi_io_some_ratio", 13),
                    ("unit", 15),
                    ("cgroup", 0),
                ],
            ),
            Kind::Device => (
                &[("device_read_bytes", 4), ("device_write_bytes", 4)],
                &[("filesystem", 13), ("device", 5), ("path", 0)],
            ),
        };
        let ids = before.iter().chain(&LEDGER).chain(after);
        ids.filter_map(|(id, rank)| Some(column(field(id)?, *rank)))
            .collect()
    }

    /// The columns of the files of a process: what of them is resident, too.
    #[must_use]
    pub fn columns_of_details(self) -> Vec<Column> {
        let mut columns = self.columns();
        if let (Kind::File, Some(resident)) = (self, field("resident_ratio")) {
            columns.insert(columns.len().saturating_sub(2), column(resident, 1));
        }
        columns
    }
}

fn column(field: &'static Field, rank: u8) -> Column {
    let least = match field.unit {
        Unit::Text => match field.id {
            "filesystem" | "device" => 8,
            "path" | "cgroup" => PATH,
            _ => NAME,
        },
        Unit::Id => 7,
        _ => NUMBER,
    };
    Column {
        field,
        width: least.max(field.header.len()),
        rank,
    }
}

/// The columns that have room, the marker in front included; the name stays always.
#[must_use]
pub fn fitting(columns: &[Column], room: usize) -> Vec<Column> {
    let mut shown = columns.to_vec();
    let taken = |shown: &[Column]| shown.iter().map(|column| column.width + 1).sum::<usize>();
    while taken(&shown) > room && shown.len() > 1 {
        let most = shown[..shown.len() - 1]
            .iter()
            .enumerate()
            .max_by_key(|(place, column)| (column.rank, *place));
        match most {
            Some((place, _)) => shown.remove(place),
            None => break,
        };
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(kind: Kind, room: usize) -> String {
        let columns = fitting(&kind.columns(), room);
        let heads: Vec<&str> = columns.iter().map(|column| column.field.header).collect();
        heads.join(" ")
    }

    #[test]
    fn every_column_is_of_the_one_table() {
        for (kind, count) in [
            (Kind::Process, 16),
            (Kind::File, 14),
            (Kind::Cgroup, 17),
            (Kind::Device, 17),
        ] {
            assert_eq!(kind.columns().len(), count, "{kind:?}: no id is mistyped");
        }
        assert_eq!(
            Kind::File.columns_of_details().len(),
            15,
            "with what is resident"
        );
    }

    #[test]
    fn narrow_terminals_keep_what_tells_most() {
        assert_eq!(heads(Kind::Process, 10), "COMMAND", "the name stays");
        assert_eq!(
            heads(Kind::Process, 40),
            "PID MISSES HIT% COMMAND",
            "who misses, and how much of it"
        );
        assert_eq!(
            heads(Kind::Process, 80),
            "PID TOTAL HITS MISSES HIT% READAHEAD FAULTS DIRECT COMMAND",
            "the columns of the case study"
        );
        assert!(
            heads(Kind::Process, 160).contains("REFAULTS CPU UNIT COMMAND"),
            "everything: {}",
            heads(Kind::Process, 160)
        );
    }
}
