//! A working set larger than its memory: pages are evicted and refaulted.

use cachewise_units::Bytes;

use crate::counter::Counter;
use crate::finding::{Finding, Severity};
use crate::interval::Interval;
use crate::run::Surroundings;
use cachewise_units::shell_quoted;

pub(super) const ID: &str = "working_set";

/// Fewer refaults occur after any idle time of a busy machine.
const WORTH_REFAULTS: Bytes = Bytes(4 << 20);
/// Reclaim always takes some pages of a large stream; that is its work.
const WORTH_RECLAIM: Bytes = Bytes(64 << 20);
/// One in this many inserted pages was a refault: then memory is scarce.
const REFAULT_PART: u64 = 10;
/// One in this many inserted pages was evicted while the program still ran.
const RECLAIM_PART: u64 = 4;
/// With a quarter of memory available there was no need to reclaim: something reclaims proactively.
const NOT_SHORT_PART: u64 = 4;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let totals = &interval.ledger;
    let (refaults, reclaimed) = (
        totals.get(Counter::RefaultPages),
        totals.get(Counter::EvictedReclaimPages),
    );
    let inserted = totals.inserted_pages();
    let (Some(back), Some(out), Some(inserted_pages)) =
        (refaults.exact(), reclaimed.exact(), inserted.exact())
    else {
        return Vec::new();
    };
    let page = interval.page();
    // Pages dropped on purpose and read again do not show that memory is small.
    let dropped = totals[Counter::EvictedOtherPages];
    let back = back.saturating_sub(dropped);
    let refaulting =
        back >= WORTH_REFAULTS.pages_ceil(page).0 && back * REFAULT_PART >= inserted_pages;
    let reclaiming =
        out >= WORTH_RECLAIM.pages_ceil(page).0 && out * RECLAIM_PART >= inserted_pages;
    let (severity, title) = match (refaulting, reclaiming) {
        (true, _) => (
            Severity::Warn,
            "the working set does not fit: pages were put out and fetched again",
        ),
        (false, true) => (
            Severity::Info,
            "memory reclaim put out pages of the files in use",
        ),
        (false, false) => return Vec::new(),
    };
    let around = interval.surroundings();
    let mut figures = vec![
        ("refault_pages", refaults.pages()),
        ("evicted_reclaim_pages", reclaimed.pages()),
        ("inserted_pages", inserted.pages()),
        ("memory_total_bytes", around.memory_total_bytes.bytes()),
        (
            "memory_available_bytes",
            around.memory_available_bytes.bytes(),
        ),
        ("cgroup_limit_bytes", around.cgroup_limit_bytes.bytes()),
    ];
    if around.cgroup_limit_bytes.known().is_some() {
        figures.push(("cgroup_limit_reached", around.cgroup_limit_reached.count()));
    }
    vec![Finding {
        id: ID,
        severity,
        title: title.to_owned(),
        figures,
        next_step: next_step(interval),
        subject: None,
    }]
}

fn next_step(interval: &Interval) -> String {
    let around = interval.surroundings();
    if let Some(limit) = limit_in_the_way(&around) {
        let path = around.cgroup_limit_path.as_ref().known();
        let path = path.map_or(String::new(), |path| {
            format!(" in {}", shell_quoted(path.as_ref()))
        });
        return format!(
            "raise the memory limit of the control group{path}, now {}, or work on the data in parts \
             that fit into it",
            Bytes(limit)
        );
    }
    match (
        around.memory_available_bytes.exact(),
        around.memory_total_bytes.exact(),
    ) {
        (Some(available), Some(total)) if available > total / NOT_SHORT_PART => format!(
            "memory is not short ({} available), so something reclaims ahead of need: look for \
             DAMON (/sys/kernel/mm/damon/admin, /sys/module/damon_reclaim/parameters/enabled) and \
             for writers of memory.reclaim",
            Bytes(available)
        ),
        _ => String::from(
            "work on the data in parts that fit into memory, read what is used once with \
             POSIX_FADV_NOREUSE or drop it with POSIX_FADV_DONTNEED, or add memory",
        ),
    }
}

/// The limit of the control group, unless it cannot have caused the evictions: it exceeds all
/// memory, or was never hit.
fn limit_in_the_way(around: &Surroundings) -> Option<u64> {
    let total = around.memory_total_bytes.exact();
    around
        .cgroup_limit_bytes
        .exact()
        .filter(|limit| total.is_none_or(|total| *limit < total))
        .filter(|_| around.cgroup_limit_reached.exact() != Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;
    use crate::measured::Measured;

    fn run(inserted: u64, reclaimed: u64, refaults: u64) -> Interval {
        use Counter::{EvictedReclaimPages, ReadaheadPages, RefaultPages};
        let counts = [
            (ReadaheadPages, inserted),
            (EvictedReclaimPages, reclaimed),
            (RefaultPages, refaults),
        ];
        with_file(1 << 30, &counts)
    }

    #[test]
    fn refaults_are_a_warning() {
        let findings = check(&run(500_000, 300_000, 200_000));
        assert_eq!(
            findings[0].severity,
            Severity::Warn,
            "the same pages were fetched twice"
        );
    }

    #[test]
    fn dropped_pages_are_not_a_lack_of_memory() {
        let mut interval = run(500_000, 0, 200_000);
        interval.ledger.set(Counter::EvictedOtherPages, 200_000);
        assert_eq!(check(&interval), [], "POSIX_FADV_DONTNEED, and read again");
    }

    #[test]
    fn eviction_alone_is_info() {
        let findings = check(&run(500_000, 300_000, 0));
        assert_eq!(
            findings[0].severity,
            Severity::Info,
            "nothing was fetched again yet"
        );
    }

    #[test]
    fn next_step_names_the_limit() {
        let mut interval = run(500_000, 300_000, 200_000);
        let step = |interval: &Interval| check(interval)[0].next_step.clone();
        assert!(
            step(&interval).contains("DAMON"),
            "half of the memory is free: no shortage"
        );
        interval.run_mut().surroundings.memory_available_bytes = Measured::Exact(100 << 20);
        assert!(step(&interval).contains("add memory"), "memory is short");
        interval.run_mut().surroundings.cgroup_limit_bytes = Measured::Exact(256 << 20);
        assert!(
            step(&interval).contains("control group, now 256.0 MiB"),
            "the limit is what limits"
        );
        let around = &mut interval.run_mut().surroundings;
        around.cgroup_limit_path = Measured::Exact("/sys/fs/cgroup/a b/memory.max".into());
        around.cgroup_limit_reached = Measured::Exact(3);
        assert!(
            step(&interval).contains("in '/sys/fs/cgroup/a b/memory.max', now"),
            "the file to change is named, for a shell"
        );
        assert_eq!(
            check(&interval)[0].figures.last(),
            Some(&("cgroup_limit_reached", Measured::Exact(3).count())),
            "with the proof that it is in the way"
        );
        interval.run_mut().surroundings.cgroup_limit_reached = Measured::Exact(0);
        assert!(
            step(&interval).contains("add memory"),
            "a limit never reached is not it"
        );
        interval.run_mut().surroundings.cgroup_limit_reached = Measured::Exact(3);
        interval.run_mut().surroundings.cgroup_limit_bytes = Measured::Exact(1 << 40);
        assert!(
            step(&interval).contains("add memory"),
            "nor is one above all memory"
        );
    }

    #[test]
    fn some_reclaim_is_ignored() {
        assert_eq!(check(&run(500_000, 1_000, 500)), [], "a little of each");
        assert_eq!(
            check(&run(10_000_000, 100_000, 2_000)),
            [],
            "a little of much"
        );
        assert_eq!(check(&run(500_000, 0, 0)), [], "none at all");
    }
}
