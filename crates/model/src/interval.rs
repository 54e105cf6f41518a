//! Activity of the machine in one interval: live views show it, recordings keep it, and exporters
//! sum it up.
//!
//! All counts are those of the interval alone, so that intervals can be summed: the sum over a
//! process's intervals equals a run over the same time, to the page. Gauges are those at its end.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachewise_units::PageSize;

use crate::copies::Copies;
use crate::eviction::Eviction;
use crate::exit::Exit;
use crate::ledger::Ledger;
use crate::lost::Lost;
use crate::measured::{Missing, NOT_MEASURED};
use crate::names_of_groups::NamesOfGroups;
use crate::parts::{CgroupRow, DeviceRow, FileRow, ProcessRow};
use crate::reason::Reason;
use crate::row::{Row, Subject};
use crate::run::{Run, Surroundings};
use crate::source::{Backend, Source};
use crate::sparse::SparseFields;
use crate::stacks::Stacks;
use crate::system::System;
use crate::{Count, Measured};

/// The facts of a run, of an interval without one.
static NO_RUN: Run = Run::new();

/// An interval: what was counted, by whom, and what was lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The machine, and how it was counted.
    pub source: Arc<Source>,
    /// Its end, RFC 3339.
    pub time: String,
    /// Its length, by a monotonic clock that includes suspend.
    pub elapsed: Duration,
    /// All requests to the page cache: the sum over `uses`.
    pub ledger: Ledger,
    /// The machine's own numbers.
    pub system: System,
    /// Bytes read from storage devices, for any purpose.
    pub device_read_bytes: Count,
    /// Bytes written to storage devices.
    pub device_write_bytes: Count,
    /// Processes that have used the page cache since the watch began, and are alive or ended in
    /// this interval.
    pub processes: Vec<ProcessRow>,
    /// Files used in this interval.
    pub files: Vec<FileRow>,
    /// Control groups.
    pub cgroups: Vec<CgroupRow>,
    /// Storage devices, and file systems without one.
    pub devices: Vec<DeviceRow>,
    /// Use of files by processes.
    pub uses: Vec<ProcessFileUse>,
    /// Evicted pages of the files, by cause and process.
    pub evictions: Vec<Eviction>,
    /// Files whose data processes have in their own memory too; empty where it was not looked for.
    pub copies: Vec<Copies>,
    /// Code that waited for storage or evicted pages; `None` where it was not requested.
    pub stacks: Option<Stacks>,
    /// Lost or imprecise counts of this interval.
    pub lost: Vec<Lost>,
    /// The command or process that was watched; `None` if it was the machine or a part of it.
    pub run: Option<Box<Run>>,
}

/// Use of one file by one process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessFileUse {
    /// Index in [`Interval::processes`]; `None` for events of the file that belong to no process.
    pub process: Option<usize>,
    /// Index in [`Interval::files`].
    pub file: usize,
    /// The counts.
    pub ledger: Ledger,
}

impl Interval {
    /// An interval without measurements that ends at this time.
    #[must_use]
    pub fn new(source: Arc<Source>, time: String) -> Self {
        Interval {
            source,
            time,
            elapsed: Duration::ZERO,
            ledger: Ledger::default(),
            system: System::all_missing(NOT_MEASURED),
            device_read_bytes: Measured::Missing(NOT_MEASURED),
            device_write_bytes: Measured::Missing(NOT_MEASURED),
            processes: Vec::new(),
            files: Vec::new(),
            cgroups: Vec::new(),
            devices: Vec::new(),
            uses: Vec::new(),
            evictions: Vec::new(),
            copies: Vec::new(),
            stacks: None,
            lost: Vec::new(),
            run: None,
        }
    }

    /// The facts of the run; without values if no command or process was watched.
    #[must_use]
    pub fn run(&self) -> &Run {
        self.run.as_deref().unwrap_or(&NO_RUN)
    }

    /// The facts of the run, to fill in.
    pub fn run_mut(&mut self) -> &mut Run {
        self.run.get_or_insert_default()
    }

    /// How it was counted, to fill in.
    pub fn backend_mut(&mut self) -> &mut Backend {
        &mut Arc::make_mut(&mut self.source).backend
    }

    /// The page size for sums of bytes.
    #[must_use]
    pub fn page(&self) -> PageSize {
        self.source.page()
    }

    /// The sums as a row of a run: with CPU time and exit, and without the machine's own numbers.
    #[must_use]
    pub fn total_row(&self) -> Row {
        let run = self.run();
        let (time, exit) = match self.run {
            Some(_) => (&run.begin, run.exit),
            None => (&self.time, Exit::Running),
        };
        let mut row = self.row();
        row.system = SparseFields::default();
        row.labels.time = Measured::Exact(time.clone());
        row.labels.exit = Measured::Exact(exit.to_string());
        row.subject.cpu_seconds = run
            .cpu_user_seconds
            .zip(run.cpu_system_seconds, |user, system| user + system);
        row
    }

    /// The state and limits of the machine at the end: as a run found them, or from the machine's
    /// own numbers and the limit on the control group that cost most, because pages were reclaimed
    /// and refaulted.
    #[must_use]
    pub fn surroundings(&self) -> Cow<'_, Surroundings> {
        if let Some(run) = &self.run {
            return Cow::Borrowed(&run.surroundings);
        }
        let system = &self.system;
        let in_the_way = self
            .cgroups
            .iter()
            .filter(|group| group.system.memory_limit_reached.exact() > Some(0))
            .max_by_key(|group| group.system.file_refault_pages.exact());
        let limit = in_the_way.map(|group| &group.system);
        let none = Measured::not_offered(Reason::NoLimitReached);
        Cow::Owned(Surroundings {
            memory_total_bytes: system.memory_total_bytes,
            memory_available_bytes: system.available_bytes,
            cgroup_limit_bytes: limit.map_or(none, |limit| limit.memory_limit_bytes),
            cgroup_limit_path: in_the_way
                .map_or(Measured::not_offered(Reason::NoLimitReached), |group| {
                    group.path.clone().map(PathBuf::from)
                }),
            cgroup_limit_reached: limit.map_or(none, |limit| limit.memory_limit_reached),
            // The amount that the kernel compares with its limits.
            dirty_bytes: system.dirty_bytes.plus(system.writeback_bytes),
            dirty_limit_bytes: system.dirty_limit_bytes,
            dirty_background_bytes: system.dirty_background_bytes,
        })
    }

    /// The whole machine as a row.
    #[must_use]
    pub fn row(&self) -> Row {
        self.of_this(Row {
            ledger: self.ledger.clone(),
            subject: Subject {
                device_read_bytes: self.device_read_bytes,
                device_write_bytes: self.device_write_bytes,
                lost_events: match self.parts_missing() {
                    Some(missing) => Measured::Missing(missing),
                    None => Measured::Exact(Lost::sum(&self.lost)),
                },
                ..Subject::default()
            },
            system: self.system.clone().into(),
            ..Row::default()
        })
    }

    /// The reason why processes and files are unknown, if they are: without exact counts there are
    /// no rows, which does not mean that there was no activity.
    #[must_use]
    pub fn parts_missing(&self) -> Option<Missing> {
        self.ledger.all_unknown()
    }

    /// The row of a part, with the values that all rows of this interval share: time, length and
    /// page size.
    #[must_use]
    pub fn of_this(&self, mut row: Row) -> Row {
        row.labels.time = Measured::Exact(self.time.clone());
        row.elapsed = self.elapsed;
        row.page_size = self.source.page_size;
        row
    }

    /// The row of a part of a run: it has no time and length of its own.
    #[must_use]
    pub fn of_run(&self, mut row: Row) -> Row {
        row.page_size = self.source.page_size;
        row
    }

    /// The processes as rows, with the names of their control groups.
    pub fn process_rows(&self) -> impl Iterator<Item = Row> {
        let names = NamesOfGroups::of(&self.cgroups);
        let processes = self.processes.iter();
        processes.map(move |part| self.of_this(names.row(part)))
    }

    /// The files as rows.
    pub fn file_rows(&self) -> impl Iterator<Item = Row> {
        self.files.iter().map(|part| self.of_this(part.row()))
    }

    /// The control groups as rows.
    pub fn cgroup_rows(&self) -> impl Iterator<Item = Row> {
        self.cgroups.iter().map(|part| self.of_this(part.row()))
    }

    /// The devices as rows.
    pub fn device_rows(&self) -> impl Iterator<Item = Row> {
        self.devices.iter().map(|part| self.of_this(part.row()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::field;

    #[test]
    fn losses_add_up_by_kind_and_the_totals_have_their_sum() {
        let mut lost = vec![Lost::new("rows", 2)];
        Lost::add(&mut lost, &[Lost::new("names", 1), Lost::new("rows", 5)]);
        assert_eq!(lost, [Lost::new("rows", 7), Lost::new("names", 1)]);
        let mut interval = Interval::new(Arc::default(), "t".into());
        interval.lost = lost;
        let field = field("lost_events").unwrap();
        let sum = field.of(&interval.total_row());
        assert_eq!(sum, Measured::Exact(8).count(), "all kinds");
        interval.ledger = Ledger::all_missing(Missing::NotOffered(Reason::NeedsProbe));
        assert!(
            field.of(&interval.total_row()).missing().is_some(),
            "without a probe 0 would say that nothing is missing"
        );
    }

    #[test]
    fn a_new_interval_claims_nothing() {
        let mut interval = Interval::new(Arc::default(), "t".into());
        interval.run_mut().command = vec!["dd".into()];
        assert!(
            interval.device_read_bytes.missing().is_some(),
            "not measured is not zero"
        );
        let cpu = field("CPU").map(|field| field.of(&interval.total_row()));
        assert_eq!(
            cpu.and_then(|cpu| cpu.missing()),
            Some(NOT_MEASURED),
            "the sum of two unmeasured times is unmeasured"
        );
    }
}
