//! Which numbers a recording has, by name: what one version wrote, another finds by its names. A number
//! that a recording does not have is missing, with that as the reason.

use cachewise_model::{Counter, System};

/// Ids of counters, and the names that earlier versions gave them.
const FORMER_IDS: [(&str, &str); 4] = [
    ("read_requested_pages", "read_pages"),
    ("read_requested_bytes", "read_bytes"),
    ("read_missed_pages", "read_miss_pages"),
    ("readahead_hit_pages", "readahead_used_pages"),
];

/// A kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Machine,
    Process,
    File,
    Cgroup,
    Device,
    Lost,
}

impl Which {
    pub(crate) const ALL: [Which; 6] = [
        Which::Machine,
        Which::Process,
        Which::File,
        Which::Cgroup,
        Which::Device,
        Which::Lost,
    ];

    fn name(self) -> &'static str {
        match self {
            Which::Machine => "machine",
            Which::Process => "process",
            Which::File => "file",
            Which::Cgroup => "cgroup",
            Which::Device => "device",
            Which::Lost => "lost",
        }
    }

    /// The first columns of a row, by which it is the same one from sample to sample.
    pub(crate) const fn key(self) -> usize {
        match self {
            Which::Machine => 0,
            Which::Process => 2,
            Which::File => 3,
            Which::Cgroup | Which::Device | Which::Lost => 1,
        }
    }

    /// The columns of its own; the order is that in which `cells` writes them.
    const fn own(self) -> &'static [&'static str] {
        match self {
            Which::Machine => &[
                "time_milliseconds",
                "elapsed_nanoseconds",
                "suspended_nanoseconds",
                "device_read_bytes",
                "device_write_bytes",
            ],
            Which::Process => &[
                "pid",
                "started",
                "ppid",
                "command",
                "cgroup",
                "exit",
                "cpu_nanoseconds",
                "device_read_bytes",
                "device_write_bytes",
            ],
            Which::File => &[
                "device",
                "inode",
                "path",
                "deleted",
                "filesystem",
                "file_size_bytes",
                "resident_before_pages",
                "resident_after_pages",
                "direct",
            ],
            Which::Cgroup => &["path", "unit"],
            Which::Device => &[
                "device",
                "path",
                "filesystem",
                "device_read_bytes",
                "device_write_bytes",
            ],
            Which::Lost => &["id", "count", "meaning"],
        }
    }

    const fn has_ledger(self) -> bool {
        !matches!(self, Which::Lost)
    }

    const fn has_system(self) -> bool {
        matches!(self, Which::Machine | Which::Cgroup)
    }

    /// All columns, in the order of `cells`. Numbers of the system are in microseconds where they are
    /// times, whatever their id says.
    pub(crate) fn columns(self) -> impl Iterator<Item = &'static str> {
        let ledger = self.has_ledger().then_some(Counter::ALL);
        let system = self.has_system().then_some(System::IDS);
        let counters = ledger.unwrap_or_default().iter();
        (self.own().iter().copied())
            .chain(counters.map(|counter| counter.id()))
            .chain(system.unwrap_or_default().iter().copied())
    }
}

/// The tables as this version writes them.
pub(crate) fn written() -> Vec<(String, Vec<String>)> {
    let columns = |which: Which| which.columns().map(str::to_owned).collect();
    Which::ALL
        .map(|which| (which.name().to_owned(), columns(which)))
        .into()
}

/// A table as a recording has it.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// None: a later version's.
    pub which: Option<Which>,
    /// How many columns its rows have.
    pub width: usize,
    /// Where our columns are among them.
    pub places: Vec<Option<usize>>,
}

impl Table {
    pub(crate) fn found(name: &str, columns: &[String]) -> Table {
        let which = Which::ALL.into_iter().find(|which| which.name() == name);
        let position = |name: &str| columns.iter().position(|column| column == name);
        let place = |ours: &str| {
            position(ours).or_else(|| {
                let (_, former) = FORMER_IDS.iter().find(|(id, _)| *id == ours)?;
                position(former)
            })
        };
        Table {
            which,
            width: columns.len(),
            places: which.map_or(Vec::new(), |which| which.columns().map(place).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_column_has_two_names() {
        for which in Which::ALL {
            let columns: Vec<&str> = which.columns().collect();
            let different: HashSet<&&str> = columns.iter().collect();
            assert_eq!(different.len(), columns.len(), "{which:?}: each name once");
            assert!(which.key() <= columns.len(), "{which:?} has its key");
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        let table = Table::found("lost", &["new".into(), "meaning".into(), "id".into()]);
        assert_eq!(table.places, [Some(2), None, Some(1)], "wherever they are");
        assert!(Table::found("new", &[]).which.is_none(), "a later table");
    }
}
