//! Which columns a view has, how wide they are, and which go first where there is little room.

use cachewise_model::{Field, Part, Place, Unit, field};

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

impl Kind {
    /// What such rows are about, as the model knows it.
    const fn part(self) -> Part {
        match self {
            Kind::Process => Part::Process,
            Kind::File => Part::File,
            Kind::Cgroup => Part::Cgroup,
            Kind::Device => Part::Device,
        }
    }

    /// The columns of a view of such rows. The last one is the name.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        let shown = self.part().columns(Place::Screen).into_iter();
        let name = self.part().name().map(|field| column(field, 0));
        shown
            .map(|shown| column(shown.field, shown.rank))
            .chain(name)
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
            (Kind::Process, 17),
            (Kind::File, 15),
            (Kind::Cgroup, 18),
            (Kind::Device, 18),
        ] {
            assert_eq!(kind.columns().len(), count, "{kind:?}: no id is mistyped");
        }
        assert_eq!(
            Kind::File.columns_of_details().len(),
            16,
            "with what is resident"
        );
    }

    #[test]
    fn narrow_terminals_keep_what_tells_most() {
        assert_eq!(heads(Kind::Process, 10), "COMMAND", "the name stays");
        assert_eq!(
            heads(Kind::Process, 40),
            "PID REUSE% MISSED COMMAND",
            "who misses, and how much of it"
        );
        assert_eq!(
            heads(Kind::Process, 80),
            "PID REQUESTED HITS REUSE% MISSED AHEAD DIRECT FETCHED COMMAND",
            "the columns of the case study, and who makes the disk work"
        );
        for kind in [Kind::Process, Kind::File] {
            let heads = heads(kind, 160);
            assert_eq!(
                heads.split_whitespace().count(),
                kind.columns().len(),
                "everything: {heads}"
            );
        }
        for kind in [Kind::Cgroup, Kind::Device] {
            let heads = heads(kind, 160);
            let left_out = kind.columns().len() - heads.split_whitespace().count();
            assert!(
                left_out <= 2 && heads.contains(" FETCHED "),
                "nearly everything: {heads}"
            );
        }
    }
}
