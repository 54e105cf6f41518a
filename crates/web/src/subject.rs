//! One process, command, file, control group or device in the last minute: its files, its readers, and its past.

use std::collections::{BTreeMap, HashSet};

use cachewise_model::{FileRow, Interval, Ledger, ProcessRow, Row, field};
use cachewise_view::{columns_json, evictions_json};
use serde_json::{Value as Json, json};

use crate::columns::{CGROUPS, DEVICES, FILES, PROCESSES, Table};
use crate::events;
use crate::gathered::Gathered;
use crate::subject_id::SubjectId;

/// Rows of each table.
const MOST_ROWS: usize = 100;
/// Rows of evictions.
const MOST_EVICTIONS: usize = 20;
/// The fields of a point of its past.
const POINT: [&str; 8] = [
    "time",
    "elapsed_seconds",
    "read_requested_pages",
    "read_cached_pages",
    "readahead_hit_pages",
    "read_missed_pages",
    "direct_read_bytes",
    "fetched_bytes",
];

/// The members of the answer about a subject, without the document's head.
pub(crate) fn members(gathered: &Gathered, id: &SubjectId, whole: &Interval) -> Json {
    let fields: Vec<_> = POINT.iter().filter_map(|id| field(id)).collect();
    let past: Vec<Json> = gathered
        .parts()
        .map(|part| {
            let ledger = Found::of(id, part).ledger;
            let row = part.of_this(Row {
                ledger,
                ..Row::default()
            });
            columns_json(&row, &fields)
        })
        .collect();
    let found = Found::of(id, whole);
    json!({
        "subject": id.to_string(),
        "elapsed_seconds": whole.elapsed.as_secs_f64(),
        "row": found.own,
        "processes": found.processes(id, whole),
        "files": found.files(whole),
        "evictions": found.evictions(whole),
        "points": past,
    })
}

/// The rows of an interval that belong to a subject.
struct Found {
    /// Its own row, if it has one.
    own: Json,
    ledger: Ledger,
    /// Indexes of processes and of files that it is, or that belong to it.
    processes: HashSet<usize>,
    files: HashSet<usize>,
}

impl Found {
    fn of(id: &SubjectId, interval: &Interval) -> Found {
        let mut found = Found {
            own: Json::Null,
            ledger: Ledger::default(),
            processes: HashSet::new(),
            files: HashSet::new(),
        };
        match id {
            SubjectId::Process(..) | SubjectId::Command(_) => found.take_processes(id, interval),
            SubjectId::File(_) | SubjectId::Inode(_) => found.take_files(id, interval),
            SubjectId::Cgroup(path) => {
                found.processes = indexes(&interval.processes, |process| {
                    let cgroup = process.cgroup.as_ref().known();
                    cgroup.is_some_and(|cgroup| id.has_group(cgroup))
                });
                let own = interval
                    .cgroups
                    .iter()
                    .find(|group| group.path.as_ref().known() == Some(path));
                if let Some(own) = own {
                    found.ledger = own.ledger.clone();
                    found.own = own_row(&CGROUPS, interval, own.row(), 1);
                }
            }
            SubjectId::Device(device) => {
                let own = interval.devices.iter().find(|own| {
                    let path = own.path.as_ref().known();
                    own.device == *device
                        || path.is_some_and(|path| path.as_os_str() == device.as_str())
                });
                if let Some(own) = own {
                    found.files = indexes(&interval.files, |file| {
                        let number = file.number.as_ref();
                        number.is_some_and(|number| number.device == own.device)
                    });
                    found.ledger = own.ledger.clone();
                    found.own = own_row(&DEVICES, interval, own.row(), 1);
                }
            }
        }
        found
    }

    fn take_processes(&mut self, id: &SubjectId, interval: &Interval) {
        self.processes = indexes(&interval.processes, |process| match id {
            SubjectId::Process(pid, started) => {
                process.pid == Some(*pid)
                    && started.is_none_or(|started| process.started.known() == Some(started))
            }
            id => {
                let command = process.command.as_ref().known();
                command.is_some_and(|command| id.is_command(command)) && process.pid.is_some()
            }
        });
        let mut rows = self
            .processes
            .iter()
            .map(|place| &interval.processes[*place]);
        let Some(first) = rows.next() else { return };
        let mut sum = first.clone();
        for row in rows {
            sum.append(row.clone());
        }
        self.ledger = sum.ledger.clone();
        self.own = own_row(&PROCESSES, interval, sum.row(), self.processes.len());
    }

    fn take_files(&mut self, id: &SubjectId, interval: &Interval) {
        self.files = indexes(&interval.files, |file| id.is_file(file));
        let mut rows = self.files.iter().map(|place| &interval.files[*place]);
        let Some(first) = rows.next() else { return };
        let mut sum = first.clone();
        for row in rows {
            sum.append(row.clone());
        }
        self.ledger = sum.ledger.clone();
        self.own = own_row(&FILES, interval, sum.row(), 1);
    }

    /// Its processes; of a file or device, the processes that used it, with what they did there.
    fn processes(&self, id: &SubjectId, interval: &Interval) -> Json {
        let rows: Vec<ProcessRow> = match id {
            SubjectId::File(_) | SubjectId::Inode(_) | SubjectId::Device(_) => {
                let uses = interval
                    .uses
                    .iter()
                    .filter(|used| self.files.contains(&used.file));
                let uses = uses.filter_map(|used| Some((used.process?, &used.ledger)));
                let readers = sums(uses).into_iter().filter_map(|(place, ledger)| {
                    Some(ProcessRow {
                        ledger,
                        ..interval.processes.get(place)?.clone()
                    })
                });
                readers.collect()
            }
            _ => {
                let own = self
                    .processes
                    .iter()
                    .map(|place| &interval.processes[*place]);
                own.cloned().collect()
            }
        };
        let rows = rows.iter().map(|row| interval.of_this(row.row()));
        events::rows(&PROCESSES, rows.collect(), MOST_ROWS)
    }

    /// The files that its processes used, with what they did there.
    fn files(&self, interval: &Interval) -> Json {
        let rows: Vec<FileRow> = match self.processes.is_empty() {
            true => {
                let own = self.files.iter().map(|place| &interval.files[*place]);
                own.cloned().collect()
            }
            false => {
                let is_own = |process: Option<usize>| {
                    process.is_some_and(|process| self.processes.contains(&process))
                };
                let uses = interval.uses.iter().filter(|used| is_own(used.process));
                let used = sums(uses.map(|used| (used.file, &used.ledger)));
                let used = used.into_iter().filter_map(|(place, ledger)| {
                    Some(FileRow {
                        ledger,
                        ..interval.files.get(place)?.clone()
                    })
                });
                used.collect()
            }
        };
        let rows = rows.iter().map(|row| interval.of_this(row.row()));
        events::rows(&FILES, rows.collect(), MOST_ROWS)
    }

    /// Pages of its files that were evicted, and by whom.
    fn evictions(&self, interval: &Interval) -> Json {
        let mut own = Interval {
            files: interval.files.clone(),
            evictions: interval.evictions.clone(),
            ..Interval::new(interval.source.clone(), interval.time.clone())
        };
        own.evictions
            .retain(|eviction| self.files.contains(&eviction.file));
        let mut rows = evictions_json(&own);
        rows.truncate(MOST_EVICTIONS);
        rows.into()
    }
}

fn own_row(table: &Table, interval: &Interval, row: Row, members: usize) -> Json {
    let row = interval.of_this(row);
    events::row_of(table, &row, members)
}

fn indexes<T>(rows: &[T], is: impl Fn(&T) -> bool) -> HashSet<usize> {
    let rows = rows.iter().enumerate();
    rows.filter(|(_, row)| is(row))
        .map(|(place, _)| place)
        .collect()
}

fn sums<'a>(uses: impl Iterator<Item = (usize, &'a Ledger)>) -> BTreeMap<usize, Ledger> {
    uses.fold(BTreeMap::new(), |mut sums, (place, ledger)| {
        *sums.entry(place).or_default() += ledger;
        sums
    })
}
