//! The processes that evicted pages of files which others use.
//!
//! The kernel's event of an eviction names the process that needed the memory. Background reclaim names none; its
//! evictions count here only where one process inserted most of the pages meanwhile, and then as an estimate.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use cachewise_units::Bytes;

use crate::counter::Counter;
use crate::eviction::{Culprit, Eviction};
use crate::eviction_cause::EvictionCause;
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::ProcessRow;
use crate::reason::Reason;

/// Fewer refaults can happen by chance; the rule `working_set` has the same bound.
const WORTH: Bytes = Bytes(4 << 20);
/// One in this many refaults among the pages that a process inserted: it uses its data again, and is no stream.
const REUSE_PART: u64 = 4;

/// The processes of a program in a control group, and the files that lost most of their pages to them.
#[derive(Debug)]
pub(super) struct Blame<'a> {
    party: Party<'a>,
    /// The process that evicted or inserted most.
    pub(super) pid: Option<u32>,
    pub(super) command: Option<&'a str>,
    /// The number of processes.
    pub(super) processes: usize,
    /// Rows of those that have one.
    pub(super) rows: Vec<&'a ProcessRow>,
    /// Indexes of the files, the one with the most evicted pages first.
    pub(super) victims: Vec<usize>,
    pub(super) evicted: Count,
    /// Whether they read data once.
    pub(super) is_stream: bool,
}

impl Default for Blame<'_> {
    fn default() -> Self {
        Blame {
            party: (None, None, None),
            pid: None,
            command: None,
            processes: 0,
            rows: Vec::new(),
            victims: Vec::new(),
            evicted: Measured::Exact(0),
            is_stream: false,
        }
    }
}

impl<'a> Blame<'a> {
    /// Adds the processes that another file lost its pages to.
    fn add(&mut self, other: &Blame<'a>) {
        self.processes = self.processes.max(other.processes);
        for row in &other.rows {
            if !self.rows.iter().any(|own| std::ptr::eq(*own, *row)) {
                self.rows.push(row);
            }
        }
    }

    /// Pages that the processes inserted.
    pub(super) fn inserted(&self) -> Count {
        let rows = self.rows.iter().map(|row| row.ledger.inserted_pages());
        rows.fold(Measured::Exact(0), Count::plus)
    }
}

/// The processes that evicted most of the reclaimed pages of files which they do not use, the worst first.
pub(super) fn blames(interval: &Interval) -> Vec<Blame<'_>> {
    // A stream is known by what it inserts.
    if interval.ledger.inserted_pages().exact().is_none() {
        return Vec::new();
    }
    let worth = WORTH.pages_ceil(interval.page()).0;
    let mut of_file: HashMap<usize, Vec<&Eviction>> = HashMap::new();
    for eviction in interval
        .evictions
        .iter()
        .filter(|one| is_of_need(one.cause))
    {
        of_file.entry(eviction.file).or_default().push(eviction);
    }
    let mut blames: Vec<(u64, Blame<'_>)> = Vec::new();
    let mut victims: Vec<(usize, u64)> = of_file
        .iter()
        .map(|(place, evictions)| (*place, evictions.iter().map(|one| one.pages).sum()))
        .filter(|(place, pages)| {
            let came_back = interval
                .files
                .get(*place)
                .and_then(|file| file.ledger.get(Counter::RefaultPages).exact());
            *pages >= worth && came_back >= Some(worth)
        })
        .collect();
    victims.sort_by_key(|(place, pages)| (Reverse(*pages), *place));
    for (place, all) in victims {
        let Some((culprit, pages)) = main_culprit(interval, place, &of_file[&place], all) else {
            continue;
        };
        let number = pages.known().unwrap_or(0);
        match blames
            .iter_mut()
            .find(|(_, blame)| blame.party == culprit.party)
        {
            Some((sum, blame)) => {
                *sum += number;
                blame.victims.push(place);
                blame.add(&culprit);
                blame.evicted = blame.evicted.plus(pages);
            }
            None => {
                let blame = Blame {
                    victims: vec![place],
                    evicted: pages,
                    ..culprit
                };
                blames.push((number, blame));
            }
        }
    }
    blames.sort_by_key(|(pages, _)| Reverse(*pages));
    let mut blames: Vec<Blame<'_>> = blames.into_iter().map(|(_, blame)| blame).collect();
    for blame in &mut blames {
        blame.is_stream = is_stream(blame);
    }
    // Which process uses which file is unknown in recordings: then the processes of one program look alike.
    blames.retain(|blame| blame.is_stream || !interval.uses.is_empty());
    blames
}

/// Whether memory was needed, and not asked to be free.
fn is_of_need(cause: EvictionCause) -> bool {
    cause.is_reclaim() && !cause.is_proactive()
}

/// A program in a control group, all of whose processes share the blame; or a process of unknown program.
type Party<'a> = (Option<&'a str>, Option<&'a str>, Option<u64>);

/// Processes by their start, with the pages that they evicted.
type Processes<'a> = HashMap<u64, (&'a Culprit, u64)>;

fn party<'a>(command: Option<&'a str>, group: Option<&'a str>, started: Option<u64>) -> Party<'a> {
    match program(command) {
        Some(program) => (Some(program), group, None),
        None => (None, group, started),
    }
}

fn party_of<'a>(row: &'a ProcessRow) -> Party<'a> {
    let text = |text: &'a Measured<String>| text.as_ref().known().map(String::as_str);
    party(text(&row.command), text(&row.cgroup), row.started.known())
}

/// The processes of a program that evicted most of the pages of a file, if the program does not use the file.
fn main_culprit<'a>(
    interval: &'a Interval,
    place: usize,
    evictions: &[&'a Eviction],
    all: u64,
) -> Option<(Blame<'a>, Count)> {
    let mut sums: HashMap<Party<'a>, (Processes<'a>, u64)> = HashMap::new();
    let others = evictions.iter().filter(|eviction| !eviction.own);
    for (culprit, pages) in others.filter_map(|one| Some((one.culprit.as_ref()?, one.pages))) {
        let text = |text: &'a Measured<String>| text.as_ref().known().map(String::as_str);
        let party = party(
            text(&culprit.command),
            text(&culprit.cgroup),
            Some(culprit.started),
        );
        let (processes, sum) = sums.entry(party).or_default();
        processes.entry(culprit.started).or_insert((culprit, 0)).1 += pages;
        *sum += pages;
    }
    // Of two with the same number always the same one.
    let most = sums
        .into_iter()
        .max_by_key(|(party, (_, pages))| (*pages, Reverse(*party)));
    let blame = match most {
        Some((party, (processes, pages))) if pages.saturating_mul(2) >= all => {
            let ids: HashSet<(Option<u32>, u64)> = processes
                .values()
                .map(|(culprit, _)| (culprit.pid.exact(), culprit.started))
                .collect();
            let (culprit, _) = processes
                .into_values()
                .max_by_key(|(culprit, pages)| (*pages, Reverse(culprit.started)))?;
            let rows = interval.processes.iter();
            let is_one = |row: &&ProcessRow| {
                let started = row.started.known();
                row.pid.is_some()
                    && started.is_some_and(|started| ids.contains(&(row.pid, started)))
            };
            let blame = Blame {
                party,
                pid: Some(culprit.pid.exact()?),
                command: culprit.command.as_ref().exact().map(String::as_str),
                processes: ids.len(),
                rows: rows.filter(is_one).collect(),
                ..Blame::default()
            };
            (blame, Measured::Exact(pages))
        }
        _ => {
            let pages: u64 = evictions
                .iter()
                .filter(|one| one.cause == EvictionCause::Kswapd)
                .map(|one| one.pages)
                .sum();
            let blame = (pages.saturating_mul(2) >= all).then(|| main_inserter(interval))??;
            (blame, Measured::Estimated(pages, Reason::SharedByInserts))
        }
    };
    (!uses(interval, &blame.0, place)).then_some(blame)
}

/// The processes of a program that inserted at least three quarters of all pages, where uses of files are known.
fn main_inserter(interval: &Interval) -> Option<Blame<'_>> {
    if interval.uses.is_empty() {
        return None;
    }
    let inserted = |row: &ProcessRow| row.ledger.inserted_pages().known().unwrap_or(0);
    let all: u64 = interval.processes.iter().map(inserted).sum();
    let mut parties: HashMap<Party<'_>, (u64, Vec<&ProcessRow>)> = HashMap::new();
    for row in interval.processes.iter().filter(|row| inserted(row) > 0) {
        let (sum, rows) = parties.entry(party_of(row)).or_default();
        *sum += inserted(row);
        rows.push(row);
    }
    let most = parties
        .into_iter()
        .max_by_key(|(party, (pages, _))| (*pages, Reverse(*party)));
    let (party, (_, rows)) =
        most.filter(|(_, (pages, _))| pages.saturating_mul(4) >= all.saturating_mul(3))?;
    let first = rows
        .iter()
        .max_by_key(|row| (inserted(row), Reverse(row.pid)))?;
    Some(Blame {
        party,
        pid: Some(first.pid?),
        command: first.command.as_ref().exact().map(String::as_str),
        processes: rows.len(),
        rows,
        ..Blame::default()
    })
}

/// Whether the process, or another of the same program, used the file.
fn uses(interval: &Interval, blame: &Blame<'_>, file: usize) -> bool {
    let of_file = interval.uses.iter().filter(|used| used.file == file);
    let mut users = of_file.filter_map(|used| interval.processes.get(used.process?));
    users.any(|user| {
        let command = user.command.as_ref().known().map(String::as_str);
        user.pid == blame.pid
            || (blame.command.is_some() && program(command) == program(blame.command))
    })
}

/// The program of a command line, without its directory.
pub(super) fn program(command: Option<&str>) -> Option<&str> {
    let word = command?.split(' ').next()?;
    word.rsplit('/').next()
}

/// Whether the processes inserted the pages for which others were evicted, and rarely used them again after an eviction.
fn is_stream(blame: &Blame<'_>) -> bool {
    let evicted = blame.evicted;
    let inserted = blame.inserted().exact().unwrap_or(0);
    let refaults = blame
        .rows
        .iter()
        .map(|row| row.ledger.get(Counter::RefaultPages));
    let again = refaults
        .fold(Measured::Exact(0), Count::plus)
        .exact()
        .unwrap_or(u64::MAX);
    inserted.saturating_mul(2) >= evicted.known().unwrap_or(u64::MAX)
        && again.saturating_mul(REUSE_PART) < inserted
}

/// Pages of the victims that were fetched again.
pub(super) fn refaults(interval: &Interval, blame: &Blame<'_>) -> Count {
    let files = blame.victims.iter().map(|place| &interval.files[*place]);
    files.fold(Measured::Exact(0), |sum, file| {
        sum.plus(file.ledger.get(Counter::RefaultPages))
    })
}
