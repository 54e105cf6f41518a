//! One process, command, file, control group or device in an interval: its files, its readers, and its past.

use std::collections::{BTreeMap, HashSet};

use cachewise_model::{
    Eviction, FileRow, Interval, Ledger, Measured, ProcessRow, Reason, Row, field,
};
use cachewise_view::{columns_json, evictions_json};
use serde_json::{Value as Json, json};

use crate::columns::{CGROUPS, DEVICES, FILES, PROCESSES, Table};
use crate::events::{self, Limit};
use crate::subject_id::SubjectId;

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
pub(crate) fn members<'a>(
    parts: impl Iterator<Item = &'a Interval>,
    id: &SubjectId,
    whole: &Interval,
    limit: Limit,
) -> Json {
    let fields: Vec<_> = POINT.iter().filter_map(|id| field(id)).collect();
    let past: Vec<Json> = parts
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
    let own = found.own.clone().map(|(table, row, members)| {
        let row = whole.of_this(row);
        events::row_of(table, &row, members)
    });
    json!({
        "subject": id.to_string(),
        "elapsed_seconds": whole.elapsed.as_secs_f64(),
        "row": own,
        "processes": found.processes(id, whole, limit),
        "files": found.files(whole, limit),
        "evictions": found.evictions(id, whole),
        "points": past,
    })
}

/// The rows of an interval that belong to a subject.
struct Found {
    /// Its own row, if it has one, and how many processes are in it.
    own: Option<(&'static Table, Row, usize)>,
    ledger: Ledger,
    /// Indexes of processes and of files that it is, or that belong to it.
    processes: HashSet<usize>,
    files: HashSet<usize>,
}

impl Found {
    fn of(id: &SubjectId, interval: &Interval) -> Found {
        let mut found = Found {
            own: None,
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
                    found.own = Some((&CGROUPS, own.row(), 1));
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
                    found.own = Some((&DEVICES, own.row(), 1));
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
        self.own = Some((&PROCESSES, sum.row(), self.processes.len()));
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
        self.own = Some((&FILES, sum.row(), 1));
    }

    /// Its processes; of a file or device, the processes that used it, with what they did there.
    fn processes(&self, id: &SubjectId, interval: &Interval, limit: Limit) -> Json {
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
        events::rows(&PROCESSES, rows.collect(), limit)
    }

    /// The files that its processes used, with what they did there.
    fn files(&self, interval: &Interval, limit: Limit) -> Json {
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
        events::rows(&FILES, rows.collect(), limit)
    }

    /// Evicted pages: of a file or device its own, of a control group those charged to it, of a process those that it
    /// evicted.
    fn evictions(&self, id: &SubjectId, interval: &Interval) -> Json {
        let culprits: HashSet<_> = (self.processes.iter())
            .map(|place| &interval.processes[*place])
            .filter_map(|process| Some((process.pid?, process.started.known()?)))
            .collect();
        let is_own = |eviction: &Eviction| match id {
            SubjectId::Cgroup(_) => {
                let charged = eviction.charged.as_ref().known();
                charged.is_some_and(|group| id.has_group(group))
            }
            SubjectId::Process(..) | SubjectId::Command(_) => {
                let culprit = eviction.culprit.as_ref();
                let id = culprit.and_then(|culprit| Some((culprit.pid.known()?, culprit.started)));
                id.is_some_and(|id| culprits.contains(&id))
            }
            _ => self.files.contains(&eviction.file),
        };
        let own: Vec<Eviction> = interval
            .evictions
            .iter()
            .filter(|one| is_own(one))
            .cloned()
            .collect();
        if own.is_empty() {
            return json!([]);
        }
        let own = Interval {
            files: interval.files.clone(),
            evictions: by_command(own),
            ..Interval::new(interval.source.clone(), interval.time.clone())
        };
        let mut rows = evictions_json(&own);
        rows.truncate(MOST_EVICTIONS);
        rows.into()
    }
}

/// Evictions of the same file for the same cause by processes of the same command as one, which has no process id.
fn by_command(evictions: Vec<Eviction>) -> Vec<Eviction> {
    let mut sums: Vec<Eviction> = Vec::new();
    for eviction in evictions {
        let command = |of: &Eviction| of.culprit.as_ref().map(|culprit| culprit.command.clone());
        let like = sums.iter_mut().find(|sum| {
            (sum.file, sum.cause) == (eviction.file, eviction.cause)
                && command(sum) == command(&eviction)
        });
        let Some(sum) = like else {
            sums.push(eviction);
            continue;
        };
        sum.pages += eviction.pages;
        sum.own |= eviction.own;
        if sum.charged != eviction.charged {
            sum.charged = Measured::not_offered(Reason::SummedUp);
        }
        if let (Some(culprit), Some(other)) = (&mut sum.culprit, eviction.culprit)
            && (culprit.pid, culprit.started) != (other.pid, other.started)
        {
            culprit.pid = Measured::not_offered(Reason::SummedUp);
            if culprit.cgroup != other.cgroup {
                culprit.cgroup = Measured::not_offered(Reason::SummedUp);
            }
        }
    }
    sums
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
