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
    /// Whether it is one of the columns that are shown.
    pub is_chosen: bool,
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

    /// The columns that a view of these rows offers; the last one is the name, which is always shown.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        let shown = self.part().columns(TablePlace::Screen).into_iter();
        let name = self.part().name().map(|field| column(field, 0, true));
        shown
            .map(|shown| column(shown.field, shown.rank, shown.is_default))
            .chain(name)
            .collect()
    }

    /// The fields of the columns that are shown unless others are chosen.
    #[must_use]
    pub fn default_fields(self) -> Vec<&'static Field> {
        chosen(&self.columns())
    }

    /// The columns of a process's files, with their residency.
    #[must_use]
    pub fn columns_of_details(self) -> Vec<Column> {
        let mut columns = self.columns();
        if let (ViewKind::File, Some(resident)) = (self, field("resident_ratio")) {
            let size = columns
                .iter_mut()
                .find(|column| column.field.id == "file_size_bytes");
            if let Some(size) = size {
                size.is_chosen = true;
            }
            columns.insert(columns.len().saturating_sub(2), column(resident, 1, true));
        }
        columns
    }
}

/// The fields of the columns that are chosen.
pub(crate) fn chosen(columns: &[Column]) -> Vec<&'static Field> {
    let columns = columns.iter().filter(|column| column.is_chosen);
    columns.map(|column| column.field).collect()
}

fn column(field: &'static Field, rank: u8, is_chosen: bool) -> Column {
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
        is_chosen,
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
        let columns = kind.columns().into_iter();
        let columns: Vec<Column> = columns.filter(|column| column.is_chosen).collect();
        let columns = fitting(&columns, room);
        let heads: Vec<&str> = columns.iter().map(|column| column.field.header).collect();
        heads.join(" ")
    }

    #[test]
    fn details_add_the_residency_of_files() {
        let columns = ViewKind::File.columns_of_details();
        assert_eq!(columns.len(), ViewKind::File.columns().len() + 1);
        assert!(columns.iter().any(|column| column.field.header == "RES%"));
    }

    #[test]
    fn narrow_terminals_keep_the_most_important_columns() {
        assert_eq!(heads(ViewKind::Process, 10), "COMMAND", "the name stays");
        assert_eq!(
            heads(ViewKind::Process, 40),
            "PID FETCHED WAITED COMMAND",
            "the process and its cost"
        );
        assert_eq!(
            heads(ViewKind::Process, 80),
            "PID REQUESTED CACHED AHEAD MISSED DIRECT FETCHED WAITED COMMAND",
            "all parts of reads"
        );
        for kind in [ViewKind::File, ViewKind::Cgroup] {
            assert!(
                heads(kind, 100)
                    .starts_with("REQUESTED CACHED AHEAD MISSED DIRECT FETCHED WAITED "),
                "the same columns: {}",
                heads(kind, 100)
            );
        }
        assert!(heads(ViewKind::Device, 160).starts_with("DEVICE DEV-READ DEV-WRITE REQUESTED "));
    }
}
