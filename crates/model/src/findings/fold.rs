//! One finding for each subject: evidence of the same cause is folded into the finding that names it.
//!
//! Access patterns come first: where a file's own reads explain the memory that its group lacks, a
//! larger limit is not the fix. Then groups, whose limit explains the files that are fetched again,
//! and then files and processes.

use std::cmp::Reverse;
use std::time::Duration;

use super::{
    blame, cold_start, dirty_backlog, evicted_by_other, fault_readahead, group_limit,
    random_small_reads, readahead_wasted, reread_from_disk, thrashing, waits, who_misses,
    working_set,
};
use crate::counter::Counter;
use crate::finding::{Finding, Folded, SubjectKind};
use crate::group_memory::holds;
use crate::interval::Interval;
use crate::ledger::Ledger;
use crate::parts::CgroupRow;

/// Causes in the way that a file is read: they explain a lack of memory.
const PATTERNS: [&str; 3] = [
    fault_readahead::ID,
    readahead_wasted::ID,
    random_small_reads::ID,
];
/// Causes in memory.
const MEMORY: [&str; 3] = [thrashing::ID, group_limit::ID, working_set::ID];

/// The findings, each with the evidence of others that it explains, by severity and cost.
pub(super) fn fold(interval: &Interval, mut found: Vec<Finding>) -> Vec<Finding> {
    for finding in &mut found {
        let ledgers = ledgers(interval, finding);
        // Some rules know of reads that no counter has.
        finding.cost_bytes = finding.cost_bytes.max(bytes(interval, &ledgers));
        finding.cost_seconds = seconds(&ledgers);
    }
    found.sort_by_key(|finding| (finding.severity, rank(interval, finding)));
    let mut heads: Vec<Finding> = Vec::new();
    for finding in found {
        match heads
            .iter_mut()
            .find(|head| explains(interval, head, &finding))
        {
            Some(head) => {
                // A stream costs what its victims fetch, not what it reads itself.
                if head.id != evicted_by_other::ID {
                    head.cost_bytes = head.cost_bytes.max(finding.cost_bytes);
                    head.cost_seconds = longer(head.cost_seconds, finding.cost_seconds);
                }
                head.also.push(Folded {
                    id: finding.id,
                    title: finding.title,
                    subject: finding.subject,
                });
            }
            None => heads.push(finding),
        }
    }
    heads.sort_by(|one, other| {
        let seconds = |finding: &Finding| finding.cost_seconds.unwrap_or(0.0);
        let order = one.severity.cmp(&other.severity);
        order
            .then(seconds(other).total_cmp(&seconds(one)))
            .then(Reverse(one.cost_bytes).cmp(&Reverse(other.cost_bytes)))
    });
    heads
}

/// Whether the cause is in the way that a file is read. Readahead that is evicted before it is read, and read again,
/// is an effect of scarce memory.
fn is_pattern(interval: &Interval, finding: &Finding) -> bool {
    let is_effect = finding.id == readahead_wasted::ID
        && file_of(interval, finding)
            .is_some_and(|place| readahead_wasted::is_memory_short(&interval.files[place]));
    PATTERNS.contains(&finding.id) && !is_effect
}

fn rank(interval: &Interval, finding: &Finding) -> u8 {
    match finding.id {
        evicted_by_other::ID if is_stream(interval, finding) => 0,
        _ if is_pattern(interval, finding) => 1,
        id if MEMORY.contains(&id) => 2,
        reread_from_disk::ID => 4,
        cold_start::ID => 5,
        who_misses::ID => 6,
        _ => 3,
    }
}

fn explains(interval: &Interval, head: &Finding, finding: &Finding) -> bool {
    let same_kind = head.kind == finding.kind;
    if same_kind && head.subject.is_some() && head.subject == finding.subject {
        return true;
    }
    match (head.id, finding.id) {
        (evicted_by_other::ID, _) => explains_loss(interval, head, finding),
        (memory, evicted_by_other::ID) => MEMORY.contains(&memory),
        (_, memory) if MEMORY.contains(&memory) && is_pattern(interval, head) => {
            explains_memory(interval, head, finding)
        }
        (memory, reread_from_disk::ID | readahead_wasted::ID) if MEMORY.contains(&memory) => {
            is_reclaimed(interval, finding) && reads(interval, head, finding)
        }
        (dirty_backlog::ID, waits::THROTTLE) => true,
        // The machine as a whole, where one of its groups is the cause.
        (memory, other) if MEMORY.contains(&memory) && MEMORY.contains(&other) => {
            finding.subject.is_none() || share_limit(interval, head, finding)
        }
        (_, who_misses::ID) => reads_for(interval, head, finding),
        _ => false,
    }
}

/// Whether one is about a control group and the other about one above it, and the same limit holds for both.
fn share_limit(interval: &Interval, head: &Finding, finding: &Finding) -> bool {
    let (Some(one), Some(other)) = (group_of(head), group_of(finding)) else {
        return false;
    };
    let limit = |group| {
        let limited = interval.limited_group(group)?;
        limited.path.as_ref().known()
    };
    (holds(one, other) || holds(other, one)) && limit(one).is_some() && limit(one) == limit(other)
}

fn is_stream(interval: &Interval, finding: &Finding) -> bool {
    evicted_by_other::blame_of(interval, finding).is_some_and(|blame| blame.is_stream)
}

/// Whether the finding is about pages that were fetched again because the process of `head` evicted them, or about that
/// process.
fn explains_loss(interval: &Interval, head: &Finding, finding: &Finding) -> bool {
    let blame = evicted_by_other::blame_of(interval, head);
    if finding.kind == SubjectKind::Process {
        let mut rows = blame.iter().flat_map(|blame| &blame.rows);
        return finding.pid == head.pid || rows.any(|row| row.pid == finding.pid);
    }
    let Some(blame) = blame.filter(|blame| blame.is_stream) else {
        return false;
    };
    if let Some(file) = file_of(interval, finding) {
        let ledger = &interval.files[file].ledger;
        let again = ledger[Counter::RefaultPages].saturating_mul(2);
        return blame.victims.contains(&file) && again >= pages(ledger);
    }
    if !MEMORY.contains(&finding.id) {
        return false;
    }
    let whole = match group_of(finding) {
        Some(group) => groups_below(interval, group)
            .map(|row| row.ledger[Counter::RefaultPages])
            .sum(),
        None => interval.ledger[Counter::RefaultPages],
    };
    let came_back = blame::refaults(interval, &blame).known();
    came_back.is_some_and(|pages| pages.saturating_mul(2) >= whole)
}

fn groups_below<'a>(interval: &'a Interval, group: &str) -> impl Iterator<Item = &'a CgroupRow> {
    let rows = interval.cgroups.iter();
    rows.filter(move |row| {
        let name = row.path.as_ref().known();
        name.is_some_and(|name| holds(group, name))
    })
}

/// Whether most pages fetched in the group, or on the machine, are of the file.
fn explains_memory(interval: &Interval, head: &Finding, finding: &Finding) -> bool {
    let Some(place) = file_of(interval, head) else {
        return false;
    };
    let fetched = pages(&interval.files[place].ledger);
    let whole = match group_of(finding) {
        Some(group) => {
            let readers = interval.reader_groups(place);
            if !readers.iter().any(|reader| holds(group, reader)) {
                return false;
            }
            groups_below(interval, group)
                .map(|row| pages(&row.ledger))
                .sum()
        }
        None => pages(&interval.ledger),
    };
    fetched > 0 && fetched.saturating_mul(2) >= whole
}

/// Whether reclaim evicted the pages of a file, and not a program.
fn is_reclaimed(interval: &Interval, finding: &Finding) -> bool {
    file_of(interval, finding).is_some_and(|place| {
        let ledger = &interval.files[place].ledger;
        ledger[Counter::EvictedReclaimPages] >= ledger[Counter::EvictedOtherPages]
    })
}

/// Whether the group of `head` reads the file of `finding`; the machine reads all files.
fn reads(interval: &Interval, head: &Finding, finding: &Finding) -> bool {
    match (group_of(head), file_of(interval, finding)) {
        (None, _) => true,
        (Some(group), Some(place)) => {
            let readers = interval.reader_groups(place);
            readers.iter().any(|reader| holds(group, reader))
        }
        (Some(_), None) => false,
    }
}

/// Whether most pages fetched for the process are of the file or group of `head`.
fn reads_for(interval: &Interval, head: &Finding, finding: &Finding) -> bool {
    let place = interval
        .processes
        .iter()
        .position(|process| process.pid.is_some() && process.pid == finding.pid);
    let Some(place) = place else {
        return false;
    };
    let process = &interval.processes[place];
    if let Some(group) = group_of(head) {
        let own = process.cgroup.as_ref().known();
        return own.is_some_and(|own| holds(group, own));
    }
    let Some(file) = file_of(interval, head) else {
        return false;
    };
    let uses = interval.uses.iter();
    let of_file: u64 = uses
        .filter(|used| used.process == Some(place) && used.file == file)
        .map(|used| pages(&used.ledger))
        .sum();
    of_file > 0 && of_file.saturating_mul(2) >= pages(&process.ledger)
}

/// The ledgers of the subject; of a group those of all groups below it, of a cold start those of all cold files.
fn ledgers<'a>(interval: &'a Interval, finding: &Finding) -> Vec<&'a Ledger> {
    if let Some(blame) = evicted_by_other::blame_of(interval, finding) {
        let victims = blame.victims.iter();
        return victims
            .map(|place| &interval.files[*place].ledger)
            .collect();
    }
    match finding.kind {
        SubjectKind::File if finding.id == cold_start::ID => {
            let cold = cold_start::cold_files(interval).into_iter();
            cold.map(|(_, file)| &file.ledger).collect()
        }
        SubjectKind::File => {
            let place = file_of(interval, finding);
            place
                .map(|place| &interval.files[place].ledger)
                .into_iter()
                .collect()
        }
        SubjectKind::Group => {
            let Some(group) = group_of(finding) else {
                return Vec::new();
            };
            groups_below(interval, group)
                .map(|row| &row.ledger)
                .collect()
        }
        SubjectKind::Process => {
            let mut processes = interval.processes.iter();
            let process = processes.find(|process| process.pid == finding.pid);
            process.map(|process| &process.ledger).into_iter().collect()
        }
        SubjectKind::Device => {
            let devices = interval.devices.iter();
            let subject = finding.subject.as_deref();
            let device =
                devices.filter(|device| device.path.as_ref().known().map(AsRef::as_ref) == subject);
            device.map(|device| &device.ledger).collect()
        }
        SubjectKind::Machine => vec![&interval.ledger],
    }
}

/// Bytes that were fetched from devices.
fn bytes(interval: &Interval, ledgers: &[&Ledger]) -> Option<u64> {
    let page = interval.source.page_size;
    let of = |ledger: &&Ledger| ledger.fetched_bytes(page).known();
    let known: Vec<u64> = ledgers.iter().filter_map(of).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

/// Seconds that tasks waited for storage and memory.
fn seconds(ledgers: &[&Ledger]) -> Option<f64> {
    let of = |ledger: &&Ledger| ledger.time(&Counter::STORAGE_WAITS).exact();
    let known: Vec<Duration> = ledgers.iter().filter_map(of).collect();
    (!known.is_empty()).then(|| known.iter().sum::<Duration>().as_secs_f64())
}

fn longer(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

fn group_of(finding: &Finding) -> Option<&str> {
    let subject = finding.subject.as_ref()?;
    (finding.kind == SubjectKind::Group).then_some(())?;
    subject.to_str()
}

fn file_of(interval: &Interval, finding: &Finding) -> Option<usize> {
    (finding.kind == SubjectKind::File).then_some(())?;
    let subject = finding.subject.as_ref()?;
    interval
        .files
        .iter()
        .position(|file| file.path.as_ref().known() == Some(subject))
}

fn pages(ledger: &Ledger) -> u64 {
    ledger.fetched_pages().known().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::diagnose;
    use super::*;
    use crate::findings::sample;
    use crate::measured::Measured;

    /// A group that thrashes over one file, read in order or with these counts.
    fn thrashing(counts: &[(Counter, u64)]) -> Interval {
        use Counter::*;
        let reads = [
            (ReadRequests, 2_000),
            (ReadRequestedPages, 500_000),
            (ReadRequestedBytes, 500_000 << 12),
            (ReadMissedPages, 5_000),
            (ReadaheadPages, 495_000),
            (ReadaheadHitPages, 495_000),
            (EvictedReclaimPages, 480_000),
            (RefaultPages, 400_000),
        ];
        let counts: Vec<_> = reads.iter().chain(counts).copied().collect();
        let mut interval = sample::with_file(96 << 20, &counts);
        let mut group = sample::group("/db", 400_000);
        group.ledger = interval.ledger.clone();
        interval.cgroups.push(group);
        interval.processes.push(sample::process(7, &counts));
        interval.processes[0].cgroup = Measured::Exact("/db".into());
        interval.run = None;
        interval.elapsed = Duration::from_secs(5);
        interval.system.psi_memory_some_seconds = Measured::Exact(1_000_000);
        interval.system.file_refault_pages = Measured::Exact(400_000);
        interval
    }

    #[test]
    fn group_has_one_finding_with_all_evidence() {
        let found = diagnose(&thrashing(&[]));
        assert_eq!(found.len(), 1, "one cause: {found:#?}");
        assert_eq!(found[0].subject.as_deref(), Some(Path::new("/db")));
        let mut also: Vec<&str> = found[0].rules().collect();
        also.sort_unstable();
        assert_eq!(
            also,
            [
                "group_limit",
                "reread_from_disk",
                "thrashing",
                "who_misses",
                "working_set"
            ],
            "the rules that found it"
        );
        assert_eq!(found[0].cost_bytes, Some(500_000 << 12), "its bytes");
        assert!(!found[0].verify.is_empty(), "how to verify the fix");
    }

    #[test]
    fn groups_under_one_limit_have_one_finding() {
        let mut interval = thrashing(&[]);
        interval.processes[0].cgroup = Measured::Exact("/shop/db".into());
        interval.cgroups[0].path = Measured::Exact("/shop/db".into());
        let mut above = sample::group("/shop", 400_000);
        above.system.memory_limit_bytes = interval.cgroups[0].system.memory_limit_bytes;
        interval.cgroups[0].system.memory_limit_bytes =
            Measured::not_offered(crate::Reason::NoOwnLimit);
        interval.cgroups.push(above);
        let found = diagnose(&interval);
        assert_eq!(found.len(), 1, "one cause: {found:#?}");
    }

    #[test]
    fn access_pattern_explains_the_memory_of_its_group() {
        use Counter::*;
        let found = diagnose(&thrashing(&[
            (ReadaheadHitPages, 0),
            (ReadaheadWastedPages, 400_000),
            // The refaults may be of the other evicted pages.
            (EvictedReclaimPages, 900_000),
        ]));
        assert_eq!(found.len(), 1, "no second cause: {found:#?}");
        assert_eq!(found[0].id, "readahead_wasted", "not a limit to raise");
        assert!(
            found[0].rules().any(|id| id == "thrashing"),
            "the evidence stays"
        );
    }

    #[test]
    fn readahead_evicted_unread_is_an_effect_of_the_limit() {
        use Counter::*;
        let found = diagnose(&thrashing(&[
            (ReadaheadHitPages, 0),
            (ReadaheadWastedPages, 400_000),
            (RefaultPages, 490_000),
            (EvictedReclaimPages, 500_000),
            (EvictedOtherPages, 0),
        ]));
        assert_eq!(found.len(), 1, "one cause: {found:#?}");
        assert_eq!(
            found[0].subject.as_deref(),
            Some(Path::new("/db")),
            "the group"
        );
        assert!(
            found[0].rules().any(|id| id == "readahead_wasted"),
            "the evidence stays"
        );
    }

    #[test]
    fn findings_are_ranked_by_fetched_bytes() {
        let mut interval = sample::run();
        for (name, requests) in [("/small", 300_000u64), ("/large", 900_000)] {
            let mut file = sample::file(name, 8 << 30);
            for counter in [
                Counter::ReadRequests,
                Counter::ReadRequestedPages,
                Counter::ReadMissedPages,
            ] {
                file.ledger.set(counter, requests);
            }
            file.ledger.set(Counter::ReadRequestedBytes, requests << 12);
            interval.files.push(file);
        }
        let found = diagnose(&interval);
        let subjects: Vec<_> = found
            .iter()
            .filter_map(|one| one.subject.as_deref())
            .collect();
        assert_eq!(subjects, [Path::new("/large"), Path::new("/small")]);
    }

    #[test]
    fn dropped_file_is_not_explained_by_memory() {
        use Counter::*;
        let found = diagnose(&thrashing(&[
            (EvictedOtherPages, 490_000),
            (EvictedReclaimPages, 0),
        ]));
        assert!(
            found.iter().any(|one| one.id == "reread_from_disk"),
            "a program drops it: {found:#?}"
        );
    }
}
