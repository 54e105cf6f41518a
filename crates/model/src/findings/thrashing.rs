//! Thrashing: tasks wait for pages that were evicted a moment ago.
//!
//! Refaults alone may cost little, and a memory stall alone may be one large allocation. Both
//! together mean that memory is too small for the work.

use cachewise_units::Bytes;

use super::pressure::{is_at_limit, limit_text, of_their_own, refaults, refaults_of};
use super::trial;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::CgroupRow;
use crate::value::Value;

pub(super) const ID: &str = "thrashing";

/// As for `working_set`.
const WORTH_REFAULTS: Bytes = Bytes(4 << 20);
/// One in this many parts of the time, some task waited for memory.
const STALL_PART: u128 = 20;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let worth = WORTH_REFAULTS.pages_ceil(interval.page()).0;
    let mut found: Vec<Finding> = of_their_own(interval, worth, refaults_of)
        .into_iter()
        .filter_map(|group| of_group(group, interval))
        .collect();
    found.truncate(super::heaviest::NAMED);
    let machine = refaults(&interval.system).exact();
    if found.is_empty() && machine.is_some_and(|pages| pages >= worth) {
        found.extend(of_machine(interval));
    }
    found
}

/// Whether it is long enough to be felt.
fn is_long(stall: Count, interval: &Interval) -> bool {
    let elapsed = interval.elapsed.as_micros();
    elapsed > 0
        && stall
            .exact()
            .is_some_and(|stall| u128::from(stall) * STALL_PART >= elapsed)
}

fn of_group(group: &CgroupRow, interval: &Interval) -> Option<Finding> {
    let own = group.system.psi_memory_some_seconds;
    // Version 1 does not report it for groups. Then the machine's is used, if most of the machine's
    // refaults are this group's.
    let stall = match own.missing() {
        None => own,
        Some(_) => {
            let all = refaults(&interval.system).exact()?;
            if refaults_of(group).exact()?.saturating_mul(2) < all {
                return None;
            }
            interval.system.psi_memory_some_seconds
        }
    };
    if !is_long(stall, interval) {
        return None;
    }
    let name = group.path.as_ref().exact()?;
    let limited = interval
        .limited_group(name)
        .filter(|group| is_at_limit(group));
    let next_step = match limited {
        Some(limited) => format!(
            "raise {}, or process less data at a time; cachewise top shows the files that are \
             refaulted",
            limit_text(limited)
        ),
        None => format!(
            "no limit of control group {name} is reached: cachewise top shows the processes that fill \
             the page cache of the machine"
        ),
    };
    let mut figures = figures(refaults_of(group), stall, interval);
    let shown = limited.unwrap_or(group);
    figures.push(("memory_used_bytes", shown.system.memory_used_bytes.bytes()));
    if shown.system.memory_limit_bytes.known().is_some() {
        figures.push((
            "memory_limit_bytes",
            shown.system.memory_limit_bytes.bytes(),
        ));
    }
    Some(Finding {
        trial: limited.and_then(|limited| trial::more_memory(limited.system.memory_limit_bytes)),
        ..finding(figures, next_step, Some(name.into()))
    })
}

fn of_machine(interval: &Interval) -> Option<Finding> {
    let stall = interval.system.psi_memory_some_seconds;
    if !is_long(stall, interval) {
        return None;
    }
    let mut figures = figures(refaults(&interval.system), stall, interval);
    let available = interval.surroundings().memory_available_bytes;
    figures.push(("memory_available_bytes", available.bytes()));
    let next_step = String::from(
        "cachewise top shows the process that inserts most: limit its control group, read data that is \
         used once with POSIX_FADV_NOREUSE, or add memory",
    );
    Some(finding(figures, next_step, None))
}

fn finding(
    figures: Vec<(&'static str, Value)>,
    next_step: String,
    subject: Option<std::path::PathBuf>,
) -> Finding {
    let kind = match subject {
        Some(_) => SubjectKind::Group,
        None => SubjectKind::Machine,
    };
    Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from("thrashing: tasks wait for pages that were evicted a moment ago"),
        figures,
        next_step,
        subject,
        kind,
        ..Finding::default()
    }
}

fn figures(refaults: Count, stall: Count, interval: &Interval) -> Vec<(&'static str, Value)> {
    let elapsed = u64::try_from(interval.elapsed.as_micros()).unwrap_or(u64::MAX);
    let part = stall
        .map(|stall| stall.min(elapsed))
        .ratio_of(Measured::Exact(elapsed));
    vec![
        ("refault_pages", refaults.pages()),
        (
            "memory_stall_seconds",
            Value::seconds(stall.map(|stall| stall as f64 / 1e6)),
        ),
        ("memory_stall_ratio", Value::ratio(part)),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::findings::sample;

    /// Five seconds, one of them stalled.
    fn machine(groups: &[(&str, u64)]) -> Interval {
        let mut interval = sample::run();
        interval.elapsed = Duration::from_secs(5);
        interval.system.psi_memory_some_seconds = Measured::Exact(1_000_000);
        interval.system.file_refault_pages = Measured::Exact(0);
        interval.cgroups = groups
            .iter()
            .map(|(name, pages)| sample::group(name, *pages))
            .collect();
        interval
    }

    #[test]
    fn thrashing_group_is_reported_without_its_ancestors() {
        let found = check(&machine(&[
            ("/", 90_000),
            ("/a", 80_000),
            ("/a/b", 70_000),
            ("/a/c", 10_000),
        ]));
        let subjects: Vec<_> = found
            .iter()
            .filter_map(|one| one.subject.as_deref())
            .collect();
        assert_eq!(
            subjects,
            [Path::new("/a/b"), Path::new("/a/c")],
            "where it happens, not where it is summed up"
        );
        assert!(
            found[0].next_step.contains("/a/b") && found[0].next_step.contains("64.0 MiB"),
            "what to raise: {}",
            found[0].next_step
        );
    }

    #[test]
    fn thrashing_without_groups_is_reported_for_the_machine() {
        let mut interval = machine(&[]);
        interval.system.file_refault_pages = Measured::Exact(50_000);
        let found = check(&interval);
        assert_eq!(found.len(), 1, "the machine as a whole");
        assert_eq!(found[0].subject, None, "of nobody in particular");
        interval.system.psi_memory_some_seconds = Measured::Exact(1_000);
        assert_eq!(check(&interval), [], "no task waited for them");
    }

    #[test]
    fn refaults_or_stalls_alone_are_ignored() {
        let mut interval = machine(&[("/a", 10)]);
        assert_eq!(check(&interval), [], "waiting, but for no refault");
        interval = machine(&[("/a", 90_000)]);
        interval.cgroups[0].system.psi_memory_some_seconds = Measured::Exact(10);
        assert_eq!(
            check(&interval),
            [],
            "the group itself knows that it did not wait"
        );
        interval.elapsed = Duration::ZERO;
        assert_eq!(check(&interval), [], "no time, no part of it");
    }

    #[test]
    fn machine_pressure_is_attributed_to_the_refaulting_group() {
        let mut interval = machine(&[("/a", 90_000), ("/b", 5_000)]);
        interval.system.file_refault_pages = Measured::Exact(95_000);
        let found = check(&interval);
        let subjects: Vec<_> = found
            .iter()
            .filter_map(|one| one.subject.as_deref())
            .collect();
        assert_eq!(
            subjects,
            [Path::new("/a")],
            "and not on who shares the machine"
        );
    }
}
