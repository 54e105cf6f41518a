//! A control group at its memory limit: each inserted page evicts another one.

use cachewise_units::Bytes;

use super::pressure::{is_at_limit, of_their_own, refaults};
use crate::finding::{Finding, Severity};
use crate::interval::Interval;
use crate::parts::CgroupRow;

pub(super) const ID: &str = "group_limit";

/// Filling a group hits its limit once; working at the limit hits it all the time.
const WORTH_TIMES: u64 = 10;
/// The bound of `working_set`: fewer refaults are chance.
const WORTH_REFAULTS: Bytes = Bytes(4 << 20);

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let reached = |group: &CgroupRow| group.system.memory_limit_reached;
    let mut found: Vec<Finding> = interval
        .cgroups
        .iter()
        .filter(|group| group.system.oom_kills.exact() > Some(0))
        .chain(of_their_own(interval, WORTH_TIMES, reached))
        .filter_map(|group| of_group(group, interval))
        .collect();
    found.dedup();
    found.truncate(super::heaviest::NAMED);
    found
}

fn of_group(group: &CgroupRow, interval: &Interval) -> Option<Finding> {
    let system = &group.system;
    let limit = system.memory_limit_bytes.known()?;
    let name = group.path.as_ref().exact()?;
    let killed = system.oom_kills.exact() > Some(0);
    if !killed && !is_at_limit(group) {
        return None;
    }
    let came_back = refaults(system);
    let worth = WORTH_REFAULTS.pages_ceil(interval.page()).0;
    let costs = came_back.exact() >= Some(worth);
    let (severity, title) = match (killed, costs) {
        (true, _) => (
            Severity::Warn,
            "a control group is out of memory: a process was killed",
        ),
        (false, true) => (
            Severity::Warn,
            "a control group is at its memory limit, and what is put out comes back",
        ),
        (false, false) => (
            Severity::Info,
            "a control group is at its memory limit: each new page puts out another",
        ),
    };
    Some(Finding {
        id: ID,
        severity,
        title: title.to_owned(),
        figures: vec![
            ("memory_used_bytes", system.memory_used_bytes.bytes()),
            ("memory_limit_bytes", system.memory_limit_bytes.bytes()),
            ("cached_bytes", system.cached_bytes.bytes()),
            ("memory_limit_reached", system.memory_limit_reached.count()),
            ("refault_pages", came_back.pages()),
            ("oom_kills", system.oom_kills.count()),
        ],
        next_step: if severity == Severity::Warn {
            format!(
                "raise the memory limit of control group {name}, now {}, or have its processes work on less \
                 at a time; cachewise top shows what fills it",
                Bytes(limit)
            )
        } else {
            format!(
                "nothing, as long as little comes back; what is read once need not fill control group {name}: \
                 POSIX_FADV_NOREUSE, POSIX_FADV_DONTNEED"
            )
        },
        subject: Some(name.into()),
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
    fn refaults_make_it_a_warning() {
        let found = check(&machine(50_000, 500, 64 << 20));
        assert_eq!(found[0].severity, Severity::Warn, "it costs I/O");
        assert!(
            found[0].next_step.contains("raise"),
            "{}",
            found[0].next_step
        );
        let found = check(&machine(0, 500, 64 << 20));
        assert_eq!(found[0].severity, Severity::Info, "a stream passes through");
    }

    #[test]
    fn limit_reached_once_is_ignored() {
        assert_eq!(
            check(&machine(50_000, 500, 32 << 20)),
            [],
            "half of it is free"
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
