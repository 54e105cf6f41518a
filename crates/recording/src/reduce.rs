//! The most active processes and files of an interval, and one row for all others, so that sums
//! stay exact.

use std::cmp::Reverse;
use std::collections::HashMap;

use cachewise_model::{
    Count, Counter, Culprit, Eviction, Exit, FileNumber, FileRow, Interval, Ledger, Measured,
    Missing, ProcessRow, Reason,
};
use cachewise_units::{Bytes, PageSize};

const MANY: Missing = Missing::NotOffered(Reason::SummedUp);

/// More control groups, or devices, are not kept by name; then the least active have no row.
const MOST_GROUPS: usize = 1024;

/// Stacks of each event that are kept at least.
const FEWEST_STACKS: usize = 64;

/// Keeps the `top` most active processes and files, each list the most active first, and sums up
/// the others in one more row. Keeps the `top` heaviest stacks of each event, and 64 at least. Drops idle rows and the pairs of process and file.
pub fn reduce(interval: &mut Interval, top: usize) {
    interval.uses.clear();
    interval.processes.retain(|row| {
        let nothing = |count: Count| count.known().unwrap_or(0) == 0;
        !row.ledger.is_zero()
            || row.cpu_seconds.known().unwrap_or(0.0) > 0.0
            || !nothing(row.device_read_bytes)
            || !nothing(row.device_write_bytes)
    });
    let of_process = |row: &ProcessRow| {
        let cpu = row.cpu_seconds.known().unwrap_or(0.0);
        (activity(&row.ledger), (cpu * 1e9) as u64)
    };
    cut(
        &mut interval.processes,
        top,
        of_process,
        add_process,
        no_process,
    );
    let files: Vec<Option<FileNumber>> = interval
        .files
        .iter()
        .map(|file| file.number.clone())
        .collect();
    cut(
        &mut interval.files,
        top,
        |row| activity(&row.ledger),
        |sum, row| sum.ledger += &row.ledger,
        no_file,
    );
    cut_evictions(interval, &files, top);
    let page = interval.page().get();
    if let Some(stacks) = &mut interval.stacks {
        stacks.reduce(top.max(FEWEST_STACKS), page);
    }
    for_groups(&mut interval.cgroups, |row| activity(&row.ledger));
    for_groups(&mut interval.devices, |row| activity(&row.ledger));
}

/// Returns the activity in a ledger: pages that were requested or moved.
pub(crate) fn activity(ledger: &Ledger) -> u64 {
    let direct = ledger[Counter::DirectReadBytes].saturating_add(ledger[Counter::DirectWriteBytes]);
    let direct = Bytes(direct).pages_ceil(PageSize::SMALLEST).0;
    let evicted = ledger[Counter::EvictedReclaimPages] + ledger[Counter::EvictedOtherPages];
    let inserted: u64 = Counter::INSERTS
        .iter()
        .map(|counter| ledger[*counter])
        .sum();
    ledger[Counter::ReadRequestedPages]
        .saturating_add(ledger[Counter::WritePages])
        .saturating_add(ledger[Counter::FaultRequests])
        .saturating_add(direct)
        .saturating_add(evicted)
        .saturating_add(inserted)
}

fn cut<T, K: Ord>(
    rows: &mut Vec<T>,
    top: usize,
    activity: impl Fn(&T) -> K,
    add: impl Fn(&mut T, &T),
    none: impl Fn() -> T,
) where
    T: Others,
{
    rows.sort_by_cached_key(|row| Reverse(activity(row)));
    // The probe's own row for overflow belongs to no single process or file either.
    let (named, mut others): (Vec<T>, Vec<T>) = std::mem::take(rows)
        .into_iter()
        .partition(|row| !row.is_others());
    *rows = named;
    if rows.len() > top {
        others.extend(rows.drain(top..));
    }
    if !others.is_empty() {
        let mut sum = none();
        others.iter().for_each(|row| add(&mut sum, row));
        rows.push(sum);
    }
}

/// Keeps the `top` largest evictions, and sums up the others by file and cause. `before` are the numbers of the files to
/// whose places the evictions refer.
fn cut_evictions(interval: &mut Interval, before: &[Option<FileNumber>], top: usize) {
    let places: HashMap<&FileNumber, usize> = interval
        .files
        .iter()
        .enumerate()
        .filter_map(|(place, file)| Some((file.number.as_ref()?, place)))
        .collect();
    let others = interval.files.iter().position(FileRow::is_all_others);
    let place = |file: usize| {
        let number = before.get(file)?.as_ref();
        number
            .and_then(|number| places.get(number).copied())
            .or(others)
    };
    let mut rows = std::mem::take(&mut interval.evictions);
    rows.sort_by_key(|eviction| Reverse(eviction.pages));
    let mut kept: Vec<Eviction> = Vec::new();
    for (rank, mut row) in rows.into_iter().enumerate() {
        let Some(file) = place(row.file) else {
            continue;
        };
        row.file = file;
        if rank >= top {
            row.charged = Measured::Missing(MANY);
            row.culprit = row.culprit.map(|_| no_culprit());
            row.own = false;
        }
        match kept.iter_mut().find(|other| other.is_like(&row)) {
            Some(other) => {
                other.pages += row.pages;
                other.own |= row.own;
            }
            None => kept.push(row),
        }
    }
    interval.evictions = kept;
}

fn no_culprit() -> Culprit {
    Culprit {
        pid: Measured::Missing(MANY),
        started: 0,
        command: Measured::Missing(MANY),
        cgroup: Measured::Missing(MANY),
    }
}

fn for_groups<T>(rows: &mut Vec<T>, activity: impl Fn(&T) -> u64) {
    if rows.len() > MOST_GROUPS {
        rows.sort_by_cached_key(|row| Reverse(activity(row)));
        rows.truncate(MOST_GROUPS);
    }
}

trait Others {
    fn is_others(&self) -> bool;
}

impl Others for ProcessRow {
    fn is_others(&self) -> bool {
        self.is_all_others()
    }
}

impl Others for FileRow {
    fn is_others(&self) -> bool {
        self.is_all_others()
    }
}

fn add_process(sum: &mut ProcessRow, row: &ProcessRow) {
    sum.ledger += &row.ledger;
    sum.cpu_seconds = sum.cpu_seconds.zip(row.cpu_seconds, |sum, more| sum + more);
    sum.device_read_bytes = sum.device_read_bytes.plus(row.device_read_bytes);
    sum.device_write_bytes = sum.device_write_bytes.plus(row.device_write_bytes);
}

fn no_process() -> ProcessRow {
    ProcessRow {
        pid: None,
        started: Measured::Missing(MANY),
        ppid: Measured::Missing(MANY),
        command: Measured::Missing(MANY),
        cgroup: Measured::Missing(MANY),
        exit: Exit::Unknown(Reason::SummedUp),
        cpu_seconds: Measured::Exact(0.0),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        ledger: Ledger::default(),
    }
}

fn no_file() -> FileRow {
    FileRow {
        path: Measured::Missing(MANY),
        label: Measured::Missing(cachewise_model::NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::Missing(MANY),
        number: None,
        size_bytes: Measured::Missing(MANY),
        resident_before_pages: Measured::Missing(MANY),
        resident_after_pages: Measured::Missing(MANY),
        ledger: Ledger::default(),
        direct: false,
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::EvictionCause;

    use super::*;

    fn process(pid: u32, pages: u64) -> ProcessRow {
        let mut row = no_process();
        (row.pid, row.command) = (Some(pid), Measured::Exact(format!("p{pid}")));
        row.ledger.set(Counter::ReadRequestedPages, pages);
        row.cpu_seconds = Measured::Exact(0.25);
        row
    }

    #[test]
    fn the_most_active_stay_and_the_sum_is_the_same() {
        let mut interval = crate::example();
        interval.processes = (1..=9)
            .map(|pid| process(pid, u64::from(pid) * 10))
            .collect();
        interval.processes.push(ProcessRow {
            cpu_seconds: Measured::Exact(0.0),
            ..process(99, 0)
        });
        let sum: Ledger = interval.processes.iter().map(|row| &row.ledger).sum();
        reduce(&mut interval, 3);
        let pids: Vec<Option<u32>> = interval.processes.iter().map(|row| row.pid).collect();
        assert_eq!(
            pids,
            [Some(9), Some(8), Some(7), None],
            "the most active first, then all others"
        );
        let others = &interval.processes[3];
        assert!(others.is_all_others(), "the last is nobody in particular");
        assert_eq!(
            others.ledger[Counter::ReadRequestedPages],
            210,
            "six of them"
        );
        assert_eq!(others.cpu_seconds, Measured::Exact(1.5), "their time too");
        let after: Ledger = interval.processes.iter().map(|row| &row.ledger).sum();
        assert_eq!(after, sum, "nothing is lost");
    }

    #[test]
    fn few_have_no_row_for_others() {
        let mut interval = crate::example();
        interval.processes = vec![process(1, 1), process(2, 2)];
        reduce(&mut interval, 2);
        assert_eq!(interval.processes.len(), 2, "there are no others");
    }

    #[test]
    fn a_row_of_what_found_no_room_is_among_the_others() {
        let mut interval = crate::example();
        interval.processes = vec![
            ProcessRow {
                pid: None,
                ..process(0, 1_000)
            },
            process(2, 2),
            process(3, 3),
        ];
        reduce(&mut interval, 1);
        let rows: Vec<(Option<u32>, u64)> = interval
            .processes
            .iter()
            .map(|row| (row.pid, row.ledger[Counter::ReadRequestedPages]))
            .collect();
        assert_eq!(rows, [(Some(3), 3), (None, 1_002)], "one row for both");
    }

    #[test]
    fn evictions_follow_their_files_and_keep_their_sum() {
        let mut interval = crate::example();
        let file = |inode: u64, pages: u64| {
            let mut row = no_file();
            row.number = Some(FileNumber {
                device: "8:1".into(),
                inode,
            });
            row.path = Measured::Exact(format!("/f{inode}").into());
            row.ledger.set(Counter::ReadRequestedPages, pages);
            row
        };
        interval.files = vec![file(1, 1), file(2, 2), file(3, 9)];
        let eviction = |file: usize, culprit: u64, pages: u64| Eviction {
            file,
            charged: Measured::Exact("/db".into()),
            cause: EvictionCause::GroupLimit,
            culprit: Some(Culprit {
                started: culprit,
                ..no_culprit()
            }),
            own: true,
            pages,
        };
        interval.evictions = vec![
            eviction(0, 7, 5),
            eviction(1, 7, 6),
            eviction(2, 7, 40),
            eviction(2, 8, 1),
            eviction(2, 9, 2),
        ];
        reduce(&mut interval, 1);
        let rows: Vec<(usize, u64, u64)> = interval
            .evictions
            .iter()
            .map(|row| {
                (
                    row.file,
                    row.culprit.as_ref().map_or(0, |who| who.started),
                    row.pages,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [(0, 7, 40), (1, 0, 11), (0, 0, 3)],
            "the largest, then the two files without a row of their own, then the rest of the first"
        );
    }
}
