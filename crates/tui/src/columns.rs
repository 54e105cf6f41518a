//! Columns of a view, their widths, and the order in which they are omitted.

use cachewise_model::{Field, Part, TablePlace, Unit, field};

use crate::view_kind::ViewKind;

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its field.
    pub field: &'static Field,
    /// Its width; the last column takes the rest, and at least this.
    pub width: usize,
    /// Columns of higher rank are omitted first.
    pub rank: u8,
}

/// Minimum width of a name while other columns can be omitted.
const NAME: usize = 14;

/// Minimum useful width of a path.
const PATH: usize = 24;

/// Wide enough for any number.
const NUMBER: usize = 6;

impl ViewKind {
    /// The part of the model that these rows show.
    const fn part(self) -> Part {
        match self {
            ViewKind::Process => Part::Process,
            ViewKind::File => Part::File,
            ViewKind::Cgroup => Part::Cgroup,
            ViewKind::Device => Part::Device,
        }
    }

    /// The columns of a view of these rows; the last one is the name.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        let shown = self.part().columns(TablePlace::Screen).into_iter();
        let name = self.part().name().map(|field| column(field, 0));
        shown
            .map(|shown| column(shown.field, shown.rank))
            .chain(name)
            .collect()
    }

    /// The columns of a process's files, with their residency.
    #[must_use]
    pub fn columns_of_details(self) -> Vec<Column> {
        let mut columns = self.columns();
        if let (ViewKind::File, Some(resident)) = (self, field("resident_ratio")) {
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

/// The columns that fit, including the marker in front; the name always stays.
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

    fn heads(kind: ViewKind, room: usize) -> String {
        let columns = fitting(&kind.columns(), room);
        let heads: Vec<&str> = columns.iter().map(|column| column.field.header).collect();
        heads.join(" ")
    }

    #[test]
    fn every_column_is_a_field_of_the_model() {
        for (kind, count) in [
            (ViewKind::Process, 17),
            (ViewKind::File, 15),
            (ViewKind::Cgroup, 18),
            (ViewKind::Device, 18),
        ] {
            assert_eq!(kind.columns().len(), count, "{kind:?}: no id is mistyped");
        }
        assert_eq!(
            ViewKind::File.columns_of_details().len(),
            16,
            "with residency"
        );
    }

    #[test]
    fn narrow_terminals_keep_the_most_important_columns() {
        assert_eq!(heads(ViewKind::Process, 10), "COMMAND", "the name stays");
        assert_eq!(
            heads(ViewKind::Process, 40),
            "PID REUSE% MISSED COMMAND",
            "the process and its misses"
        );
        assert_eq!(
            heads(ViewKind::Process, 80),
            "PID REQUESTED CACHED REUSE% MISSED AHEAD DIRECT FETCHED COMMAND",
            "the columns of the case study, and bytes fetched"
        );
        for kind in [ViewKind::Process, ViewKind::File] {
            let heads = heads(kind, 160);
            assert_eq!(
                heads.split_whitespace().count(),
                kind.columns().len(),
                "everything: {heads}"
            );
        }
        for kind in [ViewKind::Cgroup, ViewKind::Device] {
            let heads = heads(kind, 160);
            let left_out = kind.columns().len() - heads.split_whitespace().count();
            assert!(
                left_out <= 2 && heads.contains(" FETCHED "),
                "nearly everything: {heads}"
            );
        }
    }
}
