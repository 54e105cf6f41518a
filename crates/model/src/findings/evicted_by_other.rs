//! Files that are fetched again because another program took their memory: a stream that reads data once, or a
//! program that allocates.

use super::blame::{Blame, blames, program, refaults};
use super::heaviest::NAMED;
use super::named::with_others;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::value::{Datum, Value};

pub(super) const ID: &str = "evicted_by_other";

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let mut findings: Vec<Finding> = blames(interval)
        .iter()
        .filter_map(|blame| of_blame(interval, blame))
        .collect();
    findings.truncate(NAMED);
    findings
}

/// The blame that a finding of this rule is about.
pub(super) fn blame_of<'a>(interval: &'a Interval, finding: &Finding) -> Option<Blame<'a>> {
    let mut blames = blames(interval).into_iter();
    (finding.id == ID).then(|| blames.find(|blame| blame.pid == finding.pid))?
}

fn of_blame(interval: &Interval, blame: &Blame<'_>) -> Option<Finding> {
    let pid = blame.pid?;
    let name = blame
        .command
        .map_or_else(|| "?".to_owned(), |name| crate::escaped(name).into_owned());
    let paths = blame.victims.iter().filter_map(|place| {
        let path = interval.files[*place].path.as_ref().known()?;
        Some(cachewise_units::shell_quoted(path))
    });
    let paths: Vec<String> = paths.take(NAMED).collect();
    let first = paths.first().map_or("files", String::as_str);
    let (does, fix) = match blame.is_stream {
        true => (
            "reads data once",
            format!(
                "drop its pages behind it: cachewise shield -p {pid} while it runs, cachewise shield -- COMMAND next time; \
                 or a control group of its own with a memory limit, or POSIX_FADV_DONTNEED after each read"
            ),
        ),
        false => (
            "needs memory",
            "add memory or raise the limit that both share, or give one of them a control group of its own".to_owned(),
        ),
    };
    let mut figures = vec![
        ("evicted_pages", blame.evicted.pages()),
        ("refault_pages", refaults(interval, blame).pages()),
        (
            "evicted_files",
            Value::Exact(Datum::Count(blame.victims.len() as u64)),
        ),
    ];
    if !blame.rows.is_empty() {
        figures.push(("inserted_pages", blame.inserted().pages()));
    }
    let pids = with_others(pid, blame.processes.max(blame.rows.len()) as u64);
    let lost = match paths.len() {
        0 | 1 => String::new(),
        _ => format!("; files that lose pages: {}", paths.join(", ")),
    };
    Some(Finding {
        id: ID,
        severity: Severity::Warn,
        title: format!("{name} ({pids}) {does} and evicts pages of {first}, which are read again"),
        figures,
        next_step: format!("{fix}{lost}"),
        kind: SubjectKind::Process,
        pid: Some(pid),
        trial: blame.is_stream.then(|| trial_of(blame)).flatten(),
        ..Finding::default()
    })
}

/// The fix as `cachewise try` takes it, which shields processes by their name.
fn trial_of(blame: &Blame<'_>) -> Option<String> {
    let name = program(blame.command)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then(|| format!("shield={name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Counter;
    use crate::eviction::{Culprit, Eviction};
    use crate::eviction_cause::EvictionCause;
    use crate::findings::sample;
    use crate::interval::ProcessFileUse;
    use crate::measured::Measured;
    use crate::reason::Reason;

    const PAGES: u64 = 10_000;

    /// tar (7) streams, and evicts the index that the database (8) reads.
    fn machine(cause: EvictionCause, own: bool) -> Interval {
        use Counter::{EvictedReclaimPages, ReadRequestedPages, ReadaheadPages, RefaultPages};
        let counts = [
            (RefaultPages, PAGES),
            (EvictedReclaimPages, PAGES),
            (ReadRequestedPages, PAGES),
        ];
        let mut interval = sample::with_file(64 << 20, &counts);
        interval.run = None;
        let mut tar = sample::process(7, &[(ReadaheadPages, 4 * PAGES)]);
        tar.command = Measured::Exact("/usr/bin/tar -cf - /srv".into());
        let mut database = sample::process(8, &[(ReadaheadPages, PAGES), (RefaultPages, PAGES)]);
        database.command = Measured::Exact("db".into());
        let ledger = database.ledger.clone();
        interval.processes = vec![tar, database];
        interval.uses = vec![ProcessFileUse {
            process: Some(1),
            file: 0,
            ledger,
        }];
        interval.evictions = vec![Eviction {
            file: 0,
            charged: Measured::Exact("/db".into()),
            cause,
            culprit: cause.has_culprit().then(|| Culprit {
                pid: Measured::Exact(7),
                started: 1,
                command: Measured::Exact("tar".into()),
                cgroup: Measured::Exact("/".into()),
            }),
            own,
            pages: PAGES,
        }];
        interval
    }

    #[test]
    fn stream_that_evicts_files_in_use_is_named_with_its_victim() {
        let found = check(&machine(EvictionCause::GroupLimit, false));
        assert_eq!(found.len(), 1, "one culprit");
        assert_eq!(
            found[0].title,
            "tar (7) reads data once and evicts pages of /data, which are read again"
        );
        assert!(
            found[0].next_step.contains("cachewise shield -p 7"),
            "{}",
            found[0].next_step
        );
        assert_eq!(
            found[0].figures[0],
            ("evicted_pages", Measured::Exact(PAGES).pages())
        );
        assert_eq!(found[0].trial.as_deref(), Some("shield=tar"));
    }

    #[test]
    fn program_that_reuses_its_data_is_no_stream() {
        let mut interval = machine(EvictionCause::DirectReclaim, false);
        interval.processes[0]
            .ledger
            .set(Counter::RefaultPages, 2 * PAGES);
        let found = check(&interval);
        assert!(
            found[0].title.contains("needs memory"),
            "{}",
            found[0].title
        );
        assert_eq!(found[0].trial, None, "its pages are used again");
        interval.uses.clear();
        assert_eq!(
            check(&interval),
            [],
            "it may be one of the database's own processes"
        );
    }

    #[test]
    fn own_evictions_proactive_reclaim_and_dropped_pages_blame_no_one() {
        assert_eq!(
            check(&machine(EvictionCause::GroupLimit, true)),
            [],
            "it reads the file itself"
        );
        for cause in [
            EvictionCause::ProactiveReclaim,
            EvictionCause::Damon,
            EvictionCause::DropCaches,
            EvictionCause::Advice,
        ] {
            assert_eq!(
                check(&machine(cause, false)),
                [],
                "{cause:?} is no need of memory"
            );
        }
        let mut interval = machine(EvictionCause::GroupLimit, false);
        interval.processes[1].command = Measured::Exact("tar -tf".into());
        assert_eq!(check(&interval), [], "the same program reads the file");
        let mut interval = machine(EvictionCause::GroupLimit, false);
        interval.files[0].ledger.set(Counter::RefaultPages, 100);
        assert_eq!(check(&interval), [], "the pages are not read again");
    }

    #[test]
    fn processes_of_one_program_share_the_blame() {
        let mut interval = machine(EvictionCause::GroupLimit, false);
        for number in [2, 3] {
            let mut tar = interval.processes[0].clone();
            tar.pid = Some(20 + number);
            tar.started = Measured::Exact(u64::from(number));
            interval.processes.push(tar);
            let mut eviction = interval.evictions[0].clone();
            if let Some(culprit) = &mut eviction.culprit {
                culprit.pid = Measured::Exact(20 + number);
                culprit.started = u64::from(number);
            }
            eviction.pages = PAGES / 3;
            interval.evictions.push(eviction);
        }
        interval.evictions[0].pages = PAGES / 3 + 1;
        let found = check(&interval);
        assert_eq!(
            found[0].title,
            "tar (7 and 2 other processes) reads data once and evicts pages of /data, which are read again"
        );
        let figure = |place: usize| found[0].figures[place].1.clone();
        assert_eq!(figure(0), Measured::Exact(PAGES).pages(), "the sum");
        assert_eq!(
            figure(3),
            Measured::Exact(12 * PAGES).pages(),
            "of all three"
        );
        for eviction in &mut interval.evictions[1..] {
            if let Some(culprit) = &mut eviction.culprit {
                culprit.cgroup = Measured::Exact(format!("/{}", culprit.started));
            }
        }
        assert_eq!(
            check(&interval),
            [],
            "each in a group of its own: none evicts half"
        );
    }

    #[test]
    fn background_reclaim_is_shared_by_inserts_and_marked() {
        let mut interval = machine(EvictionCause::Kswapd, false);
        let found = check(&interval);
        assert_eq!(
            found[0].figures[0],
            (
                "evicted_pages",
                Measured::Estimated(PAGES, Reason::SharedByInserts).pages()
            ),
            "the kernel names no process"
        );
        interval.processes[1]
            .ledger
            .set(Counter::ReadaheadPages, 3 * PAGES);
        assert_eq!(check(&interval), [], "two processes filled the memory");
    }
}
