//! A control group at its memory limit: each inserted page evicts another one.

use cachewise_units::Bytes;

use super::pressure::{REACHED_OFTEN, is_at_limit, limit_text, of_their_own, refaults_of};
use super::trial;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::parts::CgroupRow;

pub(super) const ID: &str = "group_limit";

/// The bound of `working_set`: fewer refaults are chance.
const WORTH_REFAULTS: Bytes = Bytes(4 << 20);

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let reached = |group: &CgroupRow| group.system.memory_limit_reached;
    let mut found: Vec<Finding> = interval
        .groups_of_tasks()
        .filter(|group| group.system.oom_kills.exact() > Some(0))
        .chain(of_their_own(interval, REACHED_OFTEN, reached))
        .filter_map(|group| of_group(group, interval))
        .collect();
    found.dedup();
    found.truncate(super::heaviest::NAMED);
    found
}

fn of_group(group: &CgroupRow, interval: &Interval) -> Option<Finding> {
    let system = &group.system;
    system.memory_limit_bytes.known()?;
    let name = group.path.as_ref().exact()?;
    let killed = system.oom_kills.exact() > Some(0);
    let came_back = refaults_of(group);
    let worth = WORTH_REFAULTS.pages_ceil(interval.page()).0;
    let title = if killed {
        "a control group is out of memory: a process was killed"
    } else if is_at_limit(group) && came_back.exact() >= Some(worth) {
        "a control group is at its memory limit: pages are evicted and refaulted"
    } else {
        // A stream that passes through a full group costs nothing.
        return None;
    };
    Some(Finding {
        id: ID,
        severity: Severity::Warn,
        title: title.to_owned(),
        figures: vec![
            ("memory_used_bytes", system.memory_used_bytes.bytes()),
            ("memory_limit_bytes", system.memory_limit_bytes.bytes()),
            ("cached_bytes", system.cached_bytes.bytes()),
            ("memory_limit_reached", system.memory_limit_reached.count()),
            ("refault_pages", came_back.pages()),
            ("oom_kills", system.oom_kills.count()),
        ],
        next_step: format!(
            "raise {}, or process less data at a time; cachewise top shows the files that fill it",
            limit_text(group)
        ),
        trial: trial::more_memory(system.memory_limit_bytes),
        subject: Some(name.into()),
        kind: SubjectKind::Group,
        ..Finding::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;
    use crate::measured::Measured;
    use crate::reason::Reason;

    fn machine(refaults: u64, reached: u64, used: u64) -> Interval {
        let mut interval = sample::run();
        let mut group = sample::group("/db", refaults);
        group.system.memory_limit_reached = Measured::Exact(reached);
        group.system.memory_used_bytes = Measured::Exact(used);
        interval.cgroups.push(group);
        interval
    }

    #[test]
    fn refaults_at_the_limit_are_a_warning() {
        let found = check(&machine(50_000, 500, 64 << 20));
        assert_eq!(found[0].severity, Severity::Warn, "it costs I/O");
        assert!(
            found[0].next_step.contains("raise"),
            "{}",
            found[0].next_step
        );
        assert_eq!(
            check(&machine(0, 500, 64 << 20)),
            [],
            "a stream passes through: nothing to fix"
        );
    }

    #[test]
    fn group_that_only_lost_pages_of_the_same_files_is_none_of_a_run() {
        let mut interval = machine(50_000, 500, 64 << 20);
        let lost = &mut interval.cgroups[0].ledger;
        lost.set(crate::Counter::FaultRequests, 0);
        lost.set(crate::Counter::EvictedReclaimPages, 50_000);
        assert_eq!(check(&interval), [], "no task of the run was in it");
        interval.run = None;
        assert_eq!(check(&interval).len(), 1, "it is a group of the machine");
    }

    #[test]
    fn refaults_of_the_probe_count_where_they_are_more() {
        let mut interval = machine(0, 500, 64 << 20);
        interval.cgroups[0]
            .ledger
            .set(crate::Counter::RefaultPages, 50_000);
        assert_eq!(check(&interval).len(), 1, "the kernel counted none of them");
    }

    #[test]
    fn estimated_limit_is_marked() {
        let mut interval = machine(50_000, 500, 64 << 20);
        let system = &mut interval.cgroups[0].system;
        *system = system.with_estimated_gauges(Reason::ReadBefore);
        interval.cgroups[0].memory_limit_path =
            Measured::Exact("/sys/fs/cgroup/db/memory.high".into());
        let found = check(&interval);
        assert_eq!(
            found[0].figures[1],
            (
                "memory_limit_bytes",
                Measured::Estimated(64 << 20, Reason::ReadBefore).bytes()
            ),
            "its own limit, as it was read last"
        );
        assert!(
            found[0]
                .next_step
                .contains("in /sys/fs/cgroup/db/memory.high, now ~64.0 MiB"),
            "the file to change, with the mark: {}",
            found[0].next_step
        );
    }

    #[test]
    fn limit_reached_once_is_ignored() {
        assert_eq!(
            check(&machine(50_000, 500, 32 << 20)),
            [],
            "half of it is free"
        );
        assert_eq!(
            check(&machine(50_000, 500, 48 << 20)).len(),
            1,
            "reclaim has just made room for a readahead window"
        );
        assert_eq!(
            check(&machine(50_000, 1, 64 << 20)),
            [],
            "it was filled up once"
        );
        let mut interval = machine(50_000, 500, 64 << 20);
        interval.cgroups[0].system.memory_limit_bytes = Measured::not_offered(Reason::NoOwnLimit);
        assert_eq!(check(&interval), [], "no limit, nothing at it");
    }

    #[test]
    fn oom_kill_is_reported_even_with_free_memory_afterwards() {
        let mut interval = machine(0, 1, 1 << 20);
        interval.cgroups[0].system.oom_kills = Measured::Exact(1);
        let found = check(&interval);
        assert_eq!(found.len(), 1, "once");
        assert_eq!(found[0].severity, Severity::Warn, "somebody died");
    }
}
