//! From an interval of the whole machine to a report with findings.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::findings::diagnose;
use crate::interval::Interval;
use crate::measured::Measured;
use crate::reason::Reason;
use crate::report::{Report, Surroundings};

impl Report {
    /// Turns it into a report of the whole machine in an interval, with the findings of
    /// [`diagnose`](crate::diagnose). The interval may be a sum of several ([`Interval::append`]):
    /// findings need seconds rather than moments.
    #[must_use]
    pub fn of_interval(mut self, interval: &Interval) -> Report {
        self.is_of_machine = true;
        self.timestamp.clone_from(&interval.time);
        self.wall = interval.elapsed;
        self.exit = Exit::Running;
        self.totals = interval.ledger.clone();
        self.device_read_bytes = interval.device_read_bytes;
        self.device_write_bytes = interval.device_write_bytes;
        self.files.clone_from(&interval.files);
        self.processes.clone_from(&interval.processes);
        self.cgroups.clone_from(&interval.cgroups);
        self.lost.clone_from(&interval.lost);
        self.system = interval.system.clone();
        self.surroundings = surroundings(interval);
        self.findings = diagnose(&self);
        self
    }
}

/// The limit on a control group that cost most: pages were reclaimed and refaulted.
fn surroundings(interval: &Interval) -> Surroundings {
    let system = &interval.system;
    let in_the_way = interval
        .cgroups
        .iter()
        .filter(|group| group.system.memory_limit_reached.exact() > Some(0))
        .max_by_key(|group| group.system.file_refault_pages.exact());
    let limit = in_the_way.map(|group| &group.system);
    let none = Measured::not_offered(Reason::NoLimitReached);
    Surroundings {
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
    }
}
