//! Default columns of tables, and the order of their rows.
//!
//! Screens, reports, recordings and pages use these, so that all show the same numbers in the same
//! order.
//!
//! # Layout
//! - [`STAT_COLUMNS`]: of the machine over time.
//! - [`Part`], [`TablePlace`], [`Shown`]: of processes, files, control groups and devices.
//! - [`ORDER`]: the order of their rows.

use crate::field::Field;
use crate::lookup::field;

/// Default columns of a table over time: those of the case study, exact.
pub const STAT_COLUMNS: [&str; 11] = [
    "time",
    "read_requested_pages",
    "read_missed_pages",
    "read_hit_pages",
    "reuse_ratio",
    "readahead_hit_pages",
    "direct_bytes",
    "dirtied_pages",
    "evicted_pages",
    "buffers_bytes",
    "cached_bytes",
];

/// Default sort keys of rows, largest first; ties are broken by the next key.
///
/// Fetched bytes load the disk, whether they were missed, read ahead or read by direct I/O. Rows that
/// only waited come next, and then reads from memory.
pub const ORDER: [&str; 3] = ["fetched_bytes", "waited_seconds", "read_requested_pages"];

/// Object of a table's rows, other than the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Processes.
    Process,
    /// Files.
    File,
    /// Control groups.
    Cgroup,
    /// Devices.
    Device,
}

/// Where a table is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TablePlace {
    /// A screen of the machine or of a recording.
    Screen,
    /// The summary of a recording.
    Recording,
    /// The report of a run.
    Run,
    /// A live page of the machine.
    Page,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Its field.
    pub field: &'static Field,
    /// Columns of higher rank are omitted first.
    pub rank: u8,
    /// Whether the column is shown unless others are chosen.
    pub is_default: bool,
}

/// A field's id, and its rank.
type Ranked = (&'static str, u8);

/// A field's id, its rank, and its places.
type Entry = (&'static str, u8, &'static [TablePlace]);

const EVERYWHERE: &[TablePlace] = &[TablePlace::Recording, TablePlace::Run, TablePlace::Page];
const OVER_TIME: &[TablePlace] = &[TablePlace::Recording, TablePlace::Page];
const PAGE: &[TablePlace] = &[TablePlace::Page];
const RECORDING: &[TablePlace] = &[TablePlace::Recording];
const RUN: &[TablePlace] = &[TablePlace::Run];
const NOT_RECORDED: &[TablePlace] = &[TablePlace::Run, TablePlace::Page];

/// Columns of all parts but on screens: the counters.
const LEDGER: [Entry; 12] = [
    ("read_requested_pages", 2, EVERYWHERE),
    ("reuse_ratio", 1, EVERYWHERE),
    ("read_missed_pages", 0, EVERYWHERE),
    ("readahead_hit_pages", 6, EVERYWHERE),
    ("direct_bytes", 3, EVERYWHERE),
    // A run has the bytes read from devices.
    ("fetched_bytes", 4, OVER_TIME),
    ("waited_seconds", 5, PAGE),
    ("fault_requests", 7, EVERYWHERE),
    ("fault_miss_pages", 12, RUN),
    ("write_bytes", 9, EVERYWHERE),
    ("dirtied_pages", 8, NOT_RECORDED),
    ("evicted_pages", 10, EVERYWHERE),
];

/// Default columns of a screen, with their ranks: the parts of reads, what they cost, and the waits for it.
const READS: [Ranked; 7] = [
    ("read_requested_pages", 3),
    ("read_cached_pages", 5),
    ("readahead_hit_pages", 6),
    ("read_missed_pages", 2),
    ("direct_bytes", 4),
    ("fetched_bytes", 0),
    ("waited_seconds", 1),
];

/// Columns of all parts that a screen offers beside them.
const OFFERED: [Ranked; 7] = [
    ("reuse_ratio", 7),
    ("fault_requests", 8),
    ("write_bytes", 9),
    ("dirtied_pages", 9),
    ("evicted_pages", 10),
    ("refault_pages", 11),
    ("readahead_wasted_pages", 12),
];

impl Part {
    /// Every part.
    pub const ALL: [Part; 4] = [Part::Process, Part::File, Part::Cgroup, Part::Device];

    /// The columns of a table of these rows, in order, without the name.
    #[must_use]
    pub fn columns(self, place: TablePlace) -> Vec<Shown> {
        if place == TablePlace::Screen {
            return self.columns_of_screens();
        }
        let (before, after) = self.beside_the_ledger();
        let entries = before.iter().chain(&LEDGER).chain(after);
        entries
            .filter(|(_, _, places)| places.contains(&place))
            .filter_map(|(id, rank, _)| shown(id, *rank, true))
            .collect()
    }

    /// The columns that a screen offers: the default ones and others.
    fn columns_of_screens(self) -> Vec<Shown> {
        let (before, after): (&[Ranked], &[Ranked]) = match self {
            Part::Process => (&[("pid", 1)], &[("cpu_seconds", 13), ("group_name", 14)]),
            Part::File => (&[], &[("file_size_bytes", 13)]),
            Part::Cgroup => (
                &[],
                &[
                    ("memory_used_bytes", 12),
                    ("psi_memory_some_ratio", 14),
                    ("psi_io_some_ratio", 13),
                    ("group_name", 15),
                ],
            ),
            Part::Device => (
                &[
                    ("device", 7),
                    ("device_read_bytes", 2),
                    ("device_write_bytes", 3),
                ],
                &[("filesystem", 10)],
            ),
        };
        let default = before.iter().chain(&READS).map(|entry| (entry, true));
        // A device's name says little without its file system.
        let is_default = self == Part::Device;
        let after = after.iter().map(|entry| (entry, is_default));
        let offered = OFFERED.iter().map(|entry| (entry, false));
        default
            .chain(offered)
            .chain(after)
            .filter_map(|((id, rank), is_default)| shown(id, *rank, is_default))
            .collect()
    }

    /// The column of the name, which is the last one.
    #[must_use]
    pub fn name(self) -> Option<&'static Field> {
        field(match self {
            Part::Process => "command",
            Part::File | Part::Device => "path",
            Part::Cgroup => "cgroup",
        })
    }

    /// Columns that only these rows have: before and after the counters.
    fn beside_the_ledger(self) -> (&'static [Entry], &'static [Entry]) {
        match self {
            Part::Process => (
                &[("pid", 1, EVERYWHERE), ("ppid", 14, RUN)],
                &[
                    ("cpu_seconds", 13, EVERYWHERE),
                    ("device_read_bytes", 13, RUN),
                    ("exit_status", 13, RUN),
                    ("group_name", 14, PAGE),
                    ("cgroup", 15, PAGE),
                ],
            ),
            Part::File => (
                &[],
                &[
                    ("resident_before_pages", 13, RUN),
                    ("resident_after_pages", 13, RUN),
                    ("file_size_bytes", 4, EVERYWHERE),
                    ("filesystem", 14, PAGE),
                ],
            ),
            Part::Cgroup => (
                &[("memory_used_bytes", 4, OVER_TIME)],
                &[
                    ("cached_bytes", 12, RECORDING),
                    ("psi_memory_some_ratio", 14, OVER_TIME),
                    ("psi_io_some_ratio", 13, OVER_TIME),
                    ("group_name", 15, EVERYWHERE),
                ],
            ),
            Part::Device => (
                &[
                    ("device", 5, OVER_TIME),
                    ("device_read_bytes", 4, OVER_TIME),
                    ("device_write_bytes", 4, OVER_TIME),
                ],
                &[("filesystem", 10, PAGE)],
            ),
        }
    }
}

fn shown(id: &str, rank: u8, is_default: bool) -> Option<Shown> {
    let field = field(id)?;
    Some(Shown {
        field,
        rank,
        is_default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    fn headers(part: Part, place: TablePlace) -> String {
        let columns = part.columns(place).into_iter();
        let columns = columns.filter(|shown| shown.is_default);
        let headers: Vec<&str> = columns.map(|shown| shown.field.header).collect();
        headers.join(" ")
    }

    #[test]
    fn stat_columns_are_those_of_the_case_study() {
        let headers: Vec<&str> = STAT_COLUMNS
            .iter()
            .map(|id| field(id).map_or("", |field| field.header))
            .collect();
        assert_eq!(
            headers.join(" "),
            "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES EVICTED BUFFERS PAGE-CACHE",
            "in their order"
        );
        for field in STAT_COLUMNS.iter().filter_map(|id| field(id)) {
            assert!(
                field.is_of(&Row::of_system()),
                "`{}` is shown of the system unless others are asked for",
                field.id
            );
        }
    }

    #[test]
    fn column_ids_exist_and_are_unique() {
        for part in Part::ALL {
            let (before, after) = part.beside_the_ledger();
            let entries: Vec<&Entry> = before.iter().chain(&LEDGER).chain(after).collect();
            for (id, _, places) in &entries {
                assert!(field(id).is_some(), "`{id}` is in the table");
                assert!(!places.is_empty(), "`{id}` is shown somewhere");
                let same = entries.iter().filter(|(other, ..)| other == id).count();
                assert_eq!(same, 1, "`{id}` is one column of {part:?}");
            }
            let offered = part.columns(TablePlace::Screen);
            for id in offered.iter().map(|shown| shown.field.id) {
                let same = offered.iter().filter(|other| other.field.id == id).count();
                assert_eq!(same, 1, "`{id}` is one column on a screen of {part:?}");
            }
            let (before, after): (usize, usize) = match part {
                Part::Process => (1, 2),
                Part::File => (0, 1),
                Part::Cgroup => (0, 4),
                Part::Device => (3, 1),
            };
            assert_eq!(
                offered.len(),
                before + READS.len() + OFFERED.len() + after,
                "{part:?}: no id is mistyped"
            );
            assert!(part.name().is_some(), "{part:?} have names");
        }
        assert!(
            ORDER.iter().all(|id| field(id).is_some()),
            "what rows are sorted by is in the table"
        );
    }

    #[test]
    fn places_differ_only_in_omitted_columns() {
        assert_eq!(
            headers(Part::Process, TablePlace::Screen),
            "PID REQUESTED CACHED AHEAD MISSED DIRECT FETCHED WAITED",
            "a screen has the parts of reads, and what they cost"
        );
        assert_eq!(
            headers(Part::File, TablePlace::Recording),
            "REQUESTED REUSE% MISSED AHEAD DIRECT FETCHED FAULTS WRITTEN EVICTED SIZE",
            "a recording what is asked for most"
        );
        assert_eq!(
            headers(Part::Process, TablePlace::Run),
            "PID PPID REQUESTED REUSE% MISSED AHEAD DIRECT FAULTS FLT-MISS WRITTEN DIRTIES EVICTED CPU DEV-READ EXIT",
            "a run has a beginning and an end"
        );
        assert_eq!(
            headers(Part::Process, TablePlace::Page),
            "PID REQUESTED REUSE% MISSED AHEAD DIRECT FETCHED WAITED FAULTS WRITTEN DIRTIES EVICTED CPU NAME CGROUP",
            "a page has room, but no second line of heads"
        );
    }

    #[test]
    fn sort_keys_are_on_the_narrowest_screens() {
        for part in Part::ALL {
            let columns = part.columns(TablePlace::Screen);
            let rank = |id| columns.iter().find(|shown| shown.field.id == id);
            for id in ORDER {
                assert!(
                    rank(id).is_some_and(|shown| shown.rank < 5),
                    "{part:?}: who is sorted by `{id}` wants to see it"
                );
            }
        }
    }
}
