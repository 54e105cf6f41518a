//! The columns of a recording, by name, so that other versions find them. A column that a recording
//! lacks is missing, with that as its reason.

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
pub(crate) enum RowKind {
    Machine,
    Process,
    File,
    Cgroup,
    Device,
    Lost,
    Eviction,
    Stack,
}

impl RowKind {
    pub(crate) const ALL: [RowKind; 8] = [
        RowKind::Machine,
        RowKind::Process,
        RowKind::File,
        RowKind::Cgroup,
        RowKind::Device,
        RowKind::Lost,
        RowKind::Eviction,
        RowKind::Stack,
    ];

    fn name(self) -> &'static str {
        match self {
            RowKind::Machine => "machine",
            RowKind::Process => "process",
            RowKind::File => "file",
            RowKind::Cgroup => "cgroup",
            RowKind::Device => "device",
            RowKind::Lost => "lost",
            RowKind::Eviction => "eviction",
            RowKind::Stack => "stack",
        }
    }

    /// The first columns of a row, by which it is the same one from sample to sample.
    pub(crate) const fn key(self) -> usize {
        match self {
            RowKind::Machine => 0,
            RowKind::Process => 2,
            RowKind::File => 3,
            RowKind::Cgroup | RowKind::Device | RowKind::Lost => 1,
            RowKind::Eviction => 5,
            RowKind::Stack => 4,
        }
    }

    /// The columns of its own; the order is that in which `cells` writes them.
    const fn own(self) -> &'static [&'static str] {
        match self {
            RowKind::Machine => &[
                "time_milliseconds",
                "elapsed_nanoseconds",
                "suspended_nanoseconds",
                "device_read_bytes",
                "device_write_bytes",
                "has_stacks",
            ],
            RowKind::Process => &[
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
            RowKind::File => &[
                "device",
                "inode",
                "path",
                "deleted",
                "filesystem",
                "file_size_bytes",
                "resident_before_pages",
                "resident_after_pages",
                "direct",
                "label",
            ],
            RowKind::Cgroup => &["path", "unit", "container", "container_id", "pod"],
            RowKind::Device => &[
                "device",
                "path",
                "filesystem",
                "device_read_bytes",
                "device_write_bytes",
                "busy_nanoseconds",
            ],
            RowKind::Lost => &["id", "count", "meaning"],
            RowKind::Eviction => &[
                "file",
                "cause",
                "charged_cgroup",
                "culprit",
                "culprit_cgroup",
                "culprit_pid",
                "culprit_command",
                "culprit_uses_file",
                "evicted_pages",
            ],
            RowKind::Stack => &[
                "event",
                "command",
                "cut",
                "calls",
                "pages",
                "bytes",
                "waited_nanoseconds",
            ],
        }
    }

    const fn has_ledger(self) -> bool {
        !matches!(self, RowKind::Lost | RowKind::Eviction | RowKind::Stack)
    }

    const fn has_system(self) -> bool {
        matches!(self, RowKind::Machine | RowKind::Cgroup)
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
    let columns = |which: RowKind| which.columns().map(str::to_owned).collect();
    RowKind::ALL
        .map(|which| (which.name().to_owned(), columns(which)))
        .into()
}

/// A table as a recording has it.
#[derive(Debug, Clone)]
pub(crate) struct TableLayout {
    /// None: a later version's.
    pub which: Option<RowKind>,
    /// How many columns its rows have.
    pub width: usize,
    /// Where our columns are among them.
    pub places: Vec<Option<usize>>,
}

impl TableLayout {
    pub(crate) fn found(name: &str, columns: &[String]) -> TableLayout {
        let which = RowKind::ALL.into_iter().find(|which| which.name() == name);
        let position = |name: &str| columns.iter().position(|column| column == name);
        let place = |ours: &str| {
            position(ours).or_else(|| {
                let (_, former) = FORMER_IDS.iter().find(|(id, _)| *id == ours)?;
                position(former)
            })
        };
        TableLayout {
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
        for which in RowKind::ALL {
            let columns: Vec<&str> = which.columns().collect();
            let different: HashSet<&&str> = columns.iter().collect();
            assert_eq!(different.len(), columns.len(), "{which:?}: each name once");
            assert!(which.key() <= columns.len(), "{which:?} has its key");
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        let table = TableLayout::found("lost", &["new".into(), "meaning".into(), "id".into()]);
        assert_eq!(table.places, [Some(2), None, Some(1)], "wherever they are");
        assert!(
            TableLayout::found("new", &[]).which.is_none(),
            "a later table"
        );
    }
}
