//! Tasks that wait for storage or memory, and not for pages that they read: fsync, dirty throttling, direct reclaim,
//! swap.

use std::time::Duration;

use super::pressure::{REACHED_OFTEN, limit_text};
use super::trial;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::Measured;
use crate::parts::CgroupRow;
use crate::value::Value;

pub(super) const SYNC: &str = "fsync_waits";
pub(super) const THROTTLE: &str = "dirty_throttling";
pub(super) const RECLAIM: &str = "direct_reclaim";
pub(super) const SWAP: &str = "swap_waits";

/// Waits below this are no finding.
const LEAST: Duration = Duration::from_millis(100);
/// Nor are those below one in this many seconds of the interval.
const SHARE: u32 = 10;

/// The time that tasks waited, if it is worth a finding.
fn waited(interval: &Interval, counter: Counter) -> Option<Duration> {
    let waited = interval.ledger.time(&[counter]).exact()?;
    let is_much = waited >= LEAST && waited.saturating_mul(SHARE) >= interval.elapsed;
    is_much.then_some(waited)
}

fn seconds(time: Duration) -> Value {
    Value::seconds(Measured::Exact(time.as_secs_f64()))
}

/// The group whose limit makes tasks wait: it is reached again and again, and most of the waits are below it.
fn limited(interval: &Interval, counter: Counter) -> Option<&CgroupRow> {
    let waited = |group: &&CgroupRow| group.ledger[counter];
    let group = interval.cgroups.iter().max_by_key(waited)?;
    if waited(&group).saturating_mul(2) < interval.ledger[counter] {
        return None;
    }
    let limited = interval.limited_group(group.path.as_ref().known()?)?;
    let reached = limited.system.memory_limit_reached.known();
    (reached >= Some(REACHED_OFTEN)).then_some(limited)
}

/// A finding on the group whose limit makes tasks wait, or else on the machine.
fn of_group_or_machine(
    interval: &Interval,
    counter: Counter,
    id: &'static str,
    title: &str,
    (figures, next_step): (Vec<(&'static str, Value)>, &str),
) -> Vec<Finding> {
    let found = of_machine(interval, counter, id, title, figures, next_step);
    let Some(group) = limited(interval, counter) else {
        return found;
    };
    let system = &group.system;
    let of_group = |machine: Finding| Finding {
        figures: vec![
            machine.figures[0].clone(),
            ("memory_limit_bytes", system.memory_limit_bytes.bytes()),
            ("memory_limit_reached", system.memory_limit_reached.count()),
        ],
        next_step: format!(
            "raise {}, or process less data at a time",
            limit_text(group)
        ),
        trial: trial::more_memory(system.memory_limit_bytes),
        subject: group.path.clone().known().map(Into::into),
        kind: SubjectKind::Group,
        ..machine
    };
    found.into_iter().map(of_group).collect()
}

/// A finding on the machine or the run as a whole.
fn of_machine(
    interval: &Interval,
    counter: Counter,
    id: &'static str,
    title: &str,
    figures: Vec<(&'static str, Value)>,
    next_step: &str,
) -> Vec<Finding> {
    let Some(waited) = waited(interval, counter) else {
        return Vec::new();
    };
    let own = std::iter::once((counter.id(), seconds(waited)));
    vec![Finding {
        id,
        severity: Severity::Warn,
        title: title.to_owned(),
        figures: own.chain(figures).collect(),
        next_step: next_step.to_owned(),
        ..Finding::default()
    }]
}

/// The file with the longest waits for fsync, with the writes that they are for.
pub(super) fn sync(interval: &Interval) -> Vec<Finding> {
    let Some(waited) = waited(interval, Counter::WaitedSync) else {
        return Vec::new();
    };
    let time = |place: &usize| interval.files[*place].ledger[Counter::WaitedSync];
    let heaviest = (0..interval.files.len()).max_by_key(time);
    let heaviest = heaviest.filter(|place| time(place) > 0);
    let mut figures = vec![(Counter::WaitedSync.id(), seconds(waited))];
    let ledger = match heaviest {
        Some(place) => &interval.files[place].ledger,
        None => &interval.ledger,
    };
    let writes = ledger.get(Counter::WriteRequests);
    figures.push(("write_requests", writes.count()));
    figures.push(("write_bytes", ledger.get(Counter::WriteBytes).bytes()));
    let path = heaviest.and_then(|place| interval.files[place].path.clone().known());
    vec![Finding {
        id: SYNC,
        severity: Severity::Warn,
        title: String::from("writers wait for the device at each fsync"),
        figures,
        next_step: String::from(
            "sync once for many writes: a transaction or a batch for all of them; fdatasync instead of fsync where the \
             file does not grow",
        ),
        kind: match path {
            Some(_) => SubjectKind::File,
            None => SubjectKind::Machine,
        },
        subject: path,
        ..Finding::default()
    }]
}

/// Writers that the kernel makes wait.
pub(super) fn throttle(interval: &Interval) -> Vec<Finding> {
    let around = interval.surroundings();
    let figures = vec![
        (
            "dirtied_pages",
            interval.ledger.get(Counter::DirtiedPages).pages(),
        ),
        ("dirty_limit_bytes", around.dirty_limit_bytes.bytes()),
    ];
    of_machine(
        interval,
        Counter::WaitedThrottle,
        THROTTLE,
        "writers wait because too much memory is dirty",
        figures,
        "write back as you go: sync_file_range or fdatasync every few MiB; for bursts that memory can take, raise the \
         limit: sysctl vm.dirty_bytes, vm.dirty_background_bytes",
    )
}

/// Tasks that look for free memory themselves.
pub(super) fn reclaim(interval: &Interval) -> Vec<Finding> {
    let figures = vec![("evicted_pages", interval.ledger.evicted_pages().pages())];
    let step =
        "start background reclaim earlier: sysctl vm.watermark_scale_factor=100; or add memory";
    of_group_or_machine(
        interval,
        Counter::WaitedReclaim,
        RECLAIM,
        "tasks wait for memory that they reclaim themselves",
        (figures, step),
    )
}

/// Tasks that wait for their own memory.
pub(super) fn swap(interval: &Interval) -> Vec<Finding> {
    let available = interval.surroundings().memory_available_bytes;
    let figures = vec![("memory_available_bytes", available.bytes())];
    let step = "run fewer programs at a time, or add memory; page cache is evicted before other memory with \
         sysctl vm.swappiness=10";
    of_group_or_machine(
        interval,
        Counter::WaitedSwap,
        SWAP,
        "tasks wait for memory that was swapped out",
        (figures, step),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;

    type Check = fn(&Interval) -> Vec<Finding>;

    const SECOND: u64 = 1_000_000_000;

    fn run(counts: &[(Counter, u64)]) -> Interval {
        let mut interval = with_file(1 << 20, counts);
        interval.elapsed = Duration::from_secs(4);
        interval
    }

    #[test]
    fn fsync_of_many_small_writes_is_a_finding_on_the_file() {
        let counts = [
            (Counter::WaitedSync, 2 * SECOND),
            (Counter::WriteRequests, 1000),
            (Counter::WriteBytes, 4_096_000),
        ];
        let findings = sync(&run(&counts));
        assert_eq!(findings[0].subject.as_deref(), Some("/data".as_ref()));
        assert_eq!(findings[0].figures[0].0, "waited_sync_seconds");
    }

    #[test]
    fn waits_at_the_limit_of_a_group_are_a_finding_on_the_group() {
        let rules: [(Counter, Check); 2] = [
            (Counter::WaitedReclaim, reclaim),
            (Counter::WaitedSwap, swap),
        ];
        for (counter, check) in rules {
            let mut interval = run(&[(counter, SECOND)]);
            let mut group = crate::findings::sample::group("/db", 0);
            group.ledger.set(counter, SECOND);
            group.system.memory_limit_bytes = Measured::Exact(64 << 20);
            group.system.memory_limit_reached = Measured::Exact(500);
            interval.cgroups.push(group);
            let found = check(&interval);
            assert_eq!(found.len(), 1, "one subject");
            assert_eq!(found[0].subject.as_deref(), Some("/db".as_ref()));
            let step = &found[0].next_step;
            assert!(step.contains("/db") && !step.contains("sysctl"), "{step}");
            interval.cgroups[0].ledger.set(counter, SECOND / 3);
            assert_eq!(check(&interval)[0].subject, None, "others wait more");
            interval.cgroups[0].ledger.set(counter, SECOND);
            interval.cgroups[0].system.memory_limit_reached = Measured::Exact(1);
            let step = &check(&interval)[0].next_step;
            assert!(
                step.contains("sysctl"),
                "filling a group once is no cause: {step}"
            );
        }
    }

    #[test]
    fn waits_below_a_tenth_of_the_run_are_no_finding() {
        let rules: [(Counter, Check); 4] = [
            (Counter::WaitedSync, sync),
            (Counter::WaitedThrottle, throttle),
            (Counter::WaitedReclaim, reclaim),
            (Counter::WaitedSwap, swap),
        ];
        for (counter, check) in rules {
            assert_eq!(check(&run(&[(counter, SECOND)])).len(), 1, "a quarter");
            assert_eq!(check(&run(&[(counter, SECOND / 3)])), [], "a twelfth");
            let mut short = run(&[(counter, SECOND / 20)]);
            short.elapsed = Duration::from_millis(60);
            assert_eq!(check(&short), [], "a twentieth of a second");
        }
    }
}
