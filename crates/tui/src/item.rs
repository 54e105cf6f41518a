//! From an interval to the rows of a view.

use std::path::{Path, PathBuf};

use cachewise_model::{
    FileNumber, FileRow, GroupNames, Interval, Labels, Ledger, Measured, Missing, NamesOfGroups,
    ProcessRow, Reason, Residency, Row,
};

use crate::machine::{FileName, ProcessName};
use crate::view_kind::ViewKind;

/// Identity of a row's object, across intervals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A process.
    Process(ProcessName),
    /// A file; two unknown files are equal.
    File {
        /// Its number.
        number: FileNumber,
        /// Its path, if known.
        path: Option<PathBuf>,
    },
    /// All processes, or files, without a row of their own.
    AllOthers(ViewKind),
    /// A directory, in a tree of files.
    Directory(PathBuf),
    /// A control group by its path; `None` for those that are gone.
    Cgroup(Option<String>),
    /// A device by its number.
    Device(String),
    /// Processes of this command that have ended.
    Ended(String),
    /// Processes with this name in common.
    Group(Grouping, String),
    /// Events of a file that belong to no process.
    Unattributed,
}

/// The name that the processes of a group share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// The program's name.
    Command,
    /// The systemd unit.
    Unit,
    /// The container.
    Container,
}

impl Grouping {
    /// The grouping after this one; `None` is a plain list.
    #[must_use]
    pub const fn after(grouping: Option<Grouping>) -> Option<Grouping> {
        match grouping {
            None => Some(Grouping::Command),
            Some(Grouping::Command) => Some(Grouping::Unit),
            Some(Grouping::Unit) => Some(Grouping::Container),
            Some(Grouping::Container) => None,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Grouping::Command => "command",
            Grouping::Unit => "unit",
            Grouping::Container => "container",
        }
    }
}

/// A row with the identity of its object.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its identity.
    pub key: Key,
    /// Its numbers.
    pub row: Row,
    /// The file's name is gone.
    pub deleted: bool,
}

impl Item {
    /// Whether it is a process that has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let exit = self.row.labels.exit.as_ref().known();
        exit.is_some_and(|exit| exit != "running")
    }

    /// The file that can be warmed or evicted.
    #[must_use]
    pub fn file(&self) -> Option<FileName> {
        match &self.key {
            Key::File {
                number,
                path: Some(path),
            } if !self.deleted && matches!(self.row.labels.path, Measured::Exact(_)) => {
                Some(FileName {
                    path: path.clone(),
                    number: number.clone(),
                })
            }
            _ => None,
        }
    }
}

fn process_key(process: &ProcessRow) -> Key {
    let started = process.started.known();
    match process.pid {
        Some(pid) => Key::Process(ProcessName { pid, started }),
        None => Key::AllOthers(ViewKind::Process),
    }
}

fn file_key(file: &FileRow) -> Key {
    match &file.number {
        Some(number) => Key::File {
            number: number.clone(),
            path: file.path.as_ref().known().cloned(),
        },
        None => Key::AllOthers(ViewKind::File),
    }
}

fn process(process: &ProcessRow, names: &NamesOfGroups<'_>, interval: &Interval) -> Item {
    let row = interval.of_this(names.row(process));
    Item {
        key: process_key(process),
        row,
        deleted: false,
    }
}

fn file(file: &FileRow, interval: &Interval) -> Item {
    Item {
        key: file_key(file),
        row: interval.of_this(file.row()),
        deleted: file.deleted,
    }
}

/// The rows of a view.
#[must_use]
pub fn items(kind: ViewKind, interval: &Interval) -> Vec<Item> {
    match kind {
        ViewKind::Process => {
            let names = NamesOfGroups::of(&interval.cgroups);
            let rows = interval.processes.iter();
            rows.map(|row| process(row, &names, interval)).collect()
        }
        ViewKind::File => interval
            .files
            .iter()
            .map(|row| file(row, interval))
            .collect(),
        ViewKind::Cgroup => {
            let rows = interval.cgroups.iter();
            rows.map(|group| Item {
                key: Key::Cgroup(group.path.as_ref().known().cloned()),
                row: interval.of_this(group.row()),
                deleted: false,
            })
            .collect()
        }
        ViewKind::Device => {
            let rows = interval.devices.iter();
            rows.map(|device| Item {
                key: Key::Device(device.device.clone()),
                row: interval.of_this(device.row()),
                deleted: false,
            })
            .collect()
        }
    }
}

/// The parts of an object: a process's files, a file's readers, a group's processes, a device's
/// files.
#[must_use]
pub fn parts(of: &Key, interval: &Interval) -> (ViewKind, Vec<Item>) {
    match of {
        Key::Process(_) | Key::AllOthers(ViewKind::Process) => {
            let place = interval
                .processes
                .iter()
                .position(|process| process_key(process) == *of);
            let files = interval
                .uses
                .iter()
                .filter(|used| place.is_some() && used.process == place)
                .filter_map(|used| {
                    let mut item = file(interval.files.get(used.file)?, interval);
                    item.row.ledger = used.ledger.clone();
                    Some(item)
                });
            (ViewKind::File, files.collect())
        }
        Key::File { .. } | Key::AllOthers(ViewKind::File) => {
            let place = interval.files.iter().position(|file| file_key(file) == *of);
            let names = NamesOfGroups::of(&interval.cgroups);
            let readers = interval
                .uses
                .iter()
                .filter(|used| Some(used.file) == place)
                .map(|used| {
                    let who = used.process.and_then(|who| interval.processes.get(who));
                    match who {
                        Some(who) => {
                            let mut item = process(who, &names, interval);
                            item.row.ledger = used.ledger.clone();
                            item
                        }
                        None => unattributed(&used.ledger, interval),
                    }
                });
            (ViewKind::Process, readers.collect())
        }
        Key::Directory(directory) => {
            let files = interval.files.iter().filter(|file| {
                let path = file.path.as_ref().known();
                path.is_some_and(|path| path.starts_with(directory))
            });
            (
                ViewKind::File,
                files.map(|row| file(row, interval)).collect(),
            )
        }
        Key::Cgroup(group) => {
            let names = NamesOfGroups::of(&interval.cgroups);
            let is_in = |process: &&ProcessRow| match (group, process.cgroup.as_ref().known()) {
                (Some(group), Some(own)) => Path::new(own).starts_with(group),
                (group, own) => group.is_none() && own.is_none(),
            };
            let rows = interval.processes.iter().filter(is_in);
            let items = rows.map(|row| process(row, &names, interval));
            (ViewKind::Process, items.collect())
        }
        Key::Device(device) => {
            let is_on = |number: &FileNumber| number.device == *device;
            let files = interval
                .files
                .iter()
                .filter(|file| file.number.as_ref().is_some_and(is_on));
            (
                ViewKind::File,
                files.map(|row| file(row, interval)).collect(),
            )
        }
        Key::AllOthers(_) | Key::Ended(_) | Key::Group(..) | Key::Unattributed => {
            (ViewKind::File, Vec::new())
        }
    }
}

/// The events of a file that belong to no process.
fn unattributed(ledger: &Ledger, interval: &Interval) -> Item {
    Item {
        key: Key::Unattributed,
        row: interval.of_this(Row {
            labels: Labels {
                pid: Measured::not_offered(Reason::NoSingleProcess),
                command: Measured::Exact("(no single process)".into()),
                group: GroupNames::all_missing(Missing::NotOffered(Reason::NoSingleProcess)),
                ..Labels::default()
            },
            ledger: ledger.clone(),
            ..Row::default()
        }),
        deleted: false,
    }
}

/// A row that contains only sums, as in trees.
#[must_use]
pub(crate) fn sums(like: &Row) -> Row {
    Row {
        ledger: Ledger::default(),
        residency: Residency::default(),
        elapsed: like.elapsed,
        page_size: like.page_size,
        ..Row::default()
    }
}
