//! A working set larger than its memory: pages are evicted and refaulted.
//!
//! Evictions alone are no finding: reclaim always takes the pages of a large stream, which costs
//! nothing.

use std::collections::HashMap;

use cachewise_units::{Bytes, escaped, grouped, shell_quoted};

use super::pressure::{bytes_text, larger, limit_text};
use super::trial;
use crate::counter::Counter;
use crate::eviction_cause::EvictionCause;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::{Count, Measured, Missing};
use crate::parts::CgroupRow;
use crate::run::Surroundings;
use crate::value::Value;

pub(super) const ID: &str = "working_set";

/// Fewer refaults occur after any idle time of a busy machine.
const WORTH_REFAULTS: Bytes = Bytes(4 << 20);
/// One in this many inserted pages was a refault: then memory is scarce.
const REFAULT_PART: u64 = 10;
/// With a quarter of memory available there was no need to reclaim: something reclaims proactively.
const NOT_SHORT_PART: u64 = 4;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let totals = &interval.ledger;
    let inserted = totals.inserted_pages();
    // Pages dropped on purpose and read again do not show that memory is small. The kernel counts
    // refaults of reclaimed pages only.
    let dropped = totals[Counter::EvictedOtherPages];
    let counted = totals
        .get(Counter::RefaultPages)
        .map(|pages| pages.saturating_sub(dropped));
    let (Some(_), Some(inserted_pages)) = (counted.exact(), inserted.exact()) else {
        return Vec::new();
    };
    let limited = limited(interval);
    let refaults = larger(counted, refaults_of_kernel(interval, limited));
    let worth = WORTH_REFAULTS.pages_ceil(interval.page()).0;
    let is_refaulting = refaults.exact().is_some_and(|pages| {
        pages >= worth && pages.saturating_mul(REFAULT_PART) >= inserted_pages
    });
    if !is_refaulting || is_untouched(interval) {
        return Vec::new();
    }
    let (title, next_step) = cause(interval, limited);
    let mut figures = vec![
        ("refault_pages", refaults.pages()),
        (
            "evicted_reclaim_pages",
            totals.value(Counter::EvictedReclaimPages),
        ),
        ("inserted_pages", inserted.pages()),
    ];
    figures.extend(memory(interval, limited));
    let subject = limited.and_then(|group| group.path.clone().known().map(Into::into));
    let kind = match subject {
        Some(_) => SubjectKind::Group,
        None => SubjectKind::Machine,
    };
    vec![Finding {
        id: ID,
        severity: Severity::Warn,
        title: title.to_owned(),
        figures,
        trial: limited.and_then(|group| trial::more_memory(group.system.memory_limit_bytes)),
        next_step,
        subject,
        kind,
        ..Finding::default()
    }]
}

/// Whether most pages of the interval came in by readahead of faults, and were not touched: they need
/// no memory.
fn is_untouched(interval: &Interval) -> bool {
    let files = interval.files.iter();
    let untouched = files.filter(|file| super::fault_readahead::is_untouched(file, interval));
    let pages: u64 = untouched
        .filter_map(|file| file.ledger.fetched_pages().known())
        .sum();
    Some(pages.saturating_mul(2)) >= interval.ledger.fetched_pages().known() && pages > 0
}

/// The group whose limit causes the evictions: it was reached, and most refaults are of this group.
fn limited(interval: &Interval) -> Option<&CgroupRow> {
    let machine = interval.system.file_refault_pages.known();
    let refaults = |group: &&CgroupRow| group.system.file_refault_pages.known();
    let is_active = |group: &CgroupRow| {
        let name = group.path.as_ref().known();
        interval.run.is_none()
            || name.is_some_and(|above| {
                let rows = interval.groups_of_tasks();
                let mut names = rows.filter_map(|row| row.path.as_ref().known());
                names.any(|name| crate::group_memory::holds(above, name))
            })
    };
    interval
        .all_groups()
        .filter(|group| group.system.memory_limit_bytes.known().is_some())
        .filter(|group| group.system.memory_limit_reached.known() > Some(0) && is_active(group))
        .filter(|group| {
            interval.run.is_some()
                || refaults(group) > Some(0)
                    && refaults(group).map(|pages| pages.saturating_mul(2)) >= machine
        })
        .max_by_key(|group| (refaults(group), group.path.clone().known()))
}

/// Refaults that the kernel counted: those of the limited group, or of the machine.
fn refaults_of_kernel(interval: &Interval, limited: Option<&CgroupRow>) -> Count {
    match (limited, &interval.run) {
        (Some(group), _) => group.system.file_refault_pages,
        (None, None) => interval.system.file_refault_pages,
        // Those of the machine, or of a group without a limit, may be those of other programs.
        (None, Some(_)) => Measured::Exact(0),
    }
}

/// The memory that the pages had to fit into.
fn memory(interval: &Interval, limited: Option<&CgroupRow>) -> Vec<(&'static str, Value)> {
    let around = interval.surroundings();
    let mut figures = vec![
        ("memory_total_bytes", around.memory_total_bytes.bytes()),
        (
            "memory_available_bytes",
            around.memory_available_bytes.bytes(),
        ),
    ];
    match limited {
        Some(group) => {
            let system = &group.system;
            figures.extend([
                ("memory_used_bytes", system.memory_used_bytes.bytes()),
                ("cgroup_limit_bytes", system.memory_limit_bytes.bytes()),
                ("cgroup_limit_reached", system.memory_limit_reached.count()),
            ]);
        }
        None if interval.run.is_some() => {
            figures.push(("cgroup_limit_bytes", around.cgroup_limit_bytes.bytes()));
            if around.cgroup_limit_bytes.known().is_some() {
                figures.push(("cgroup_limit_reached", around.cgroup_limit_reached.count()));
            }
        }
        None => {}
    }
    figures
}

/// Memory is too small.
const SHORT: &str = "the working set does not fit into memory: pages are evicted and refaulted";
/// It is not.
const PROACTIVE: &str = "pages in use are evicted although memory is free, and refaulted";

/// The cause and the fix.
fn cause(interval: &Interval, limited: Option<&CgroupRow>) -> (&'static str, String) {
    let around = interval.surroundings();
    let limit = match limited {
        Some(group) => Some(limit_text(group)),
        None if interval.run.is_some() => limit_of_run(&around),
        None => None,
    };
    if let Some(limit) = limit {
        let step = format!("raise {limit}, or work on the data in parts that fit into it");
        return (SHORT, step);
    }
    let may_be_limited = match interval.run {
        Some(_) => matches!(
            around.cgroup_limit_bytes.missing(),
            Some(Missing::Unknown(_))
        ),
        None => interval
            .cgroups
            .iter()
            .any(|group| group.system.memory_limit_reached.known() > Some(0)),
    };
    match (
        around.memory_available_bytes.exact(),
        around.memory_total_bytes.exact(),
    ) {
        (Some(available), Some(total)) if available > total / NOT_SHORT_PART && !may_be_limited => {
            let step = format!(
                "memory is not short ({} available), {}",
                Bytes(available),
                proactive_step(interval)
            );
            (PROACTIVE, step)
        }
        _ if may_be_limited => {
            let step = "a control group reached its memory limit: cachewise top shows its memory and refaults; \
                raise the limit, or work on the data in parts that fit into it";
            (SHORT, step.to_owned())
        }
        _ => {
            let step = "work on the data in parts that fit into memory, read data that is used once with \
                POSIX_FADV_NOREUSE or drop it with POSIX_FADV_DONTNEED, or add memory";
            (SHORT, step.to_owned())
        }
    }
}

/// The fix where memory is free: it names what evicted most pages ahead of need.
fn proactive_step(interval: &Interval) -> String {
    const DAMON: &str = "/sys/kernel/mm/damon/admin, /sys/module/damon_reclaim/parameters/enabled";
    let mut sums: HashMap<(EvictionCause, Option<String>), u64> = HashMap::new();
    let evictions = interval.evictions.iter();
    for eviction in evictions.filter(|eviction| eviction.cause.is_proactive()) {
        let culprit = eviction.culprit.as_ref();
        let command = culprit.and_then(|culprit| culprit.command.clone().known());
        *sums.entry((eviction.cause, command)).or_default() += eviction.pages;
    }
    let most = sums
        .into_iter()
        .max_by(|(one, pages), (other, more)| (pages, other).cmp(&(more, one)));
    match most {
        Some(((EvictionCause::Damon, _), pages)) => format!(
            "and DAMON evicted {} pages: turn its scheme off, or let it evict colder pages only ({DAMON})",
            grouped(pages)
        ),
        Some(((_, Some(command)), pages)) => format!(
            "and {} evicted {} pages by writes to memory.reclaim or memory.force_empty: let it reclaim less",
            escaped(&command),
            grouped(pages)
        ),
        _ => format!(
            "so something reclaims ahead of need: look for DAMON ({DAMON}) and for writers of memory.reclaim"
        ),
    }
}

/// The limit that a run found on its control group, unless it cannot have caused the evictions: it
/// exceeds all memory, or was never reached.
fn limit_of_run(around: &Surroundings) -> Option<String> {
    let limit = around.cgroup_limit_bytes;
    let total = around.memory_total_bytes.known();
    let bytes = limit.known()?;
    if total.is_some_and(|total| bytes >= total) || around.cgroup_limit_reached.known() == Some(0) {
        return None;
    }
    let path = around.cgroup_limit_path.as_ref().known();
    let path = path.map_or(String::new(), |path| {
        format!(" in {}", shell_quoted(path.as_ref()))
    });
    Some(format!(
        "the memory limit of the control group{path}, now {}",
        bytes_text(limit)
    ))
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
    fn eviction_without_refaults_is_ignored() {
        assert_eq!(check(&run(500_000, 300_000, 0)), [], "nothing to fix");
    }

    #[test]
    fn refaults_of_the_kernel_count_where_they_are_more() {
        let mut interval = run(500_000, 300_000, 0);
        let mut group = crate::findings::sample::group("/db", 100_000);
        group.memory_limit_path =
            Measured::Exact("/sys/fs/cgroup/memory/db/memory.limit_in_bytes".into());
        interval.cgroups.push(group);
        let findings = check(&interval);
        assert_eq!(findings.len(), 1, "pages evicted before the run came back");
        assert_eq!(
            findings[0].figures[0],
            ("refault_pages", Measured::Exact(100_000).pages()),
            "as the kernel counted them"
        );
        assert!(
            findings[0]
                .next_step
                .contains("memory.limit_in_bytes, now 64.0 MiB"),
            "the file of this version: {}",
            findings[0].next_step
        );
    }

    #[test]
    fn group_without_a_limit_may_have_refaults_of_other_programs() {
        let mut interval = run(6_000, 0, 0);
        let mut shared = crate::findings::sample::group("/user", 5_000);
        shared.system.memory_limit_bytes = Measured::not_offered(crate::Reason::NoOwnLimit);
        interval.cgroups.push(shared);
        assert_eq!(check(&interval), [], "the run had none itself");
    }

    /// A machine of which this group thrashed, idle now: its gauges were read a while ago.
    fn recording(reached: u64) -> Interval {
        let mut interval = run(500_000, 300_000, 200_000);
        interval.system.available_bytes = Measured::Exact(4 << 30);
        interval.system.memory_total_bytes = Measured::Exact(8 << 30);
        interval.run = None;
        interval.system.file_refault_pages = Measured::Exact(110_000);
        let mut busy = crate::findings::sample::group("/busy", 100_000);
        busy.system.memory_limit_bytes = Measured::Exact(200 << 20);
        busy.system.memory_limit_reached = Measured::Exact(reached);
        busy.system = busy.system.with_estimated_gauges(crate::Reason::ReadBefore);
        interval.cgroups = vec![busy, crate::findings::sample::group("/other", 10)];
        interval
    }

    #[test]
    fn estimated_limit_is_not_dropped() {
        let findings = check(&recording(103_964));
        let step = &findings[0].next_step;
        assert!(
            step.contains("group /busy, now ~200.0 MiB") && !step.contains("DAMON"),
            "its own limit, with the mark of an estimate: {step}"
        );
        assert_eq!(
            findings[0].figures.last(),
            Some(&("cgroup_limit_reached", Measured::Exact(103_964).count())),
            "and its own figures"
        );
        assert_eq!(
            findings[0].subject.as_deref(),
            Some(std::path::Path::new("/busy")),
            "the group is the subject"
        );
    }

    #[test]
    fn reached_limit_of_another_group_forbids_the_claim_of_proactive_reclaim() {
        let mut interval = recording(0);
        interval.cgroups[1].system.memory_limit_reached = Measured::Exact(3);
        let step = &check(&interval)[0].next_step;
        assert!(!step.contains("DAMON"), "a limit was reached: {step}");
        interval.cgroups.truncate(1);
        let step = &check(&interval)[0].next_step;
        assert!(step.contains("DAMON"), "no limit was reached: {step}");
    }

    #[test]
    fn next_step_names_what_evicts_ahead_of_need() {
        use crate::eviction::{Culprit, Eviction};
        let mut interval = recording(0);
        interval.cgroups.clear();
        let eviction = |cause: EvictionCause, command: Option<&str>, pages| Eviction {
            file: 0,
            charged: Measured::Exact("/db".into()),
            cause,
            culprit: command.map(|command| Culprit {
                pid: Measured::Exact(7),
                started: 1,
                command: Measured::Exact(command.into()),
                cgroup: Measured::Exact("/".into()),
            }),
            own: false,
            pages,
        };
        let proactive = EvictionCause::ProactiveReclaim;
        interval.evictions = vec![
            eviction(EvictionCause::Kswapd, None, 9_000),
            eviction(proactive, Some("senpai"), 200),
            eviction(EvictionCause::Damon, None, 300),
        ];
        let step = |interval: &Interval| check(interval)[0].next_step.clone();
        let shown = step(&interval);
        assert!(shown.contains("DAMON evicted 300 pages"), "{shown}");
        interval.evictions[1].pages = 301;
        let shown = step(&interval);
        assert!(
            shown.contains("senpai evicted 301 pages by writes to memory.reclaim"),
            "{shown}"
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
