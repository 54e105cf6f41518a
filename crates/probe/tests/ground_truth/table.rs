//! Expected and measured counts, case by case, and the tables of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cachewise_model::{Count, Counter, Ledger, contradicts_itself};

use crate::oracle::{Expected, Folios, State};
use crate::problem::{Context, Result};

/// Name of a case in the tables.
#[derive(Debug, Clone)]
pub struct Label {
    place: &'static str,
    call: String,
    size: String,
    order: &'static str,
    state: &'static str,
    folios: &'static str,
}

impl Label {
    /// A case of a call, or of whatever else is looked at, on a file system.
    pub fn new(place: &'static str, call: impl Into<String>) -> Self {
        Label {
            place,
            call: call.into(),
            size: "-".into(),
            order: "-",
            state: "-",
            folios: "-",
        }
    }

    /// The size of a request.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = match bytes {
            _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
            _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
            _ => format!("{bytes} B"),
        };
        self
    }

    /// Sequential, random, and so on.
    pub fn order(mut self, order: &'static str) -> Self {
        self.order = order;
        self
    }

    /// How the file was prepared.
    pub fn prepared(mut self, state: State, folios: Folios) -> Self {
        self.state = state.name();
        self.folios = folios.name();
        self
    }

    /// A state that is not one of the three.
    pub fn state(mut self, state: &'static str) -> Self {
        self.state = state;
        self
    }

    /// All of it in one line.
    pub fn line(&self) -> String {
        let Label {
            place,
            call,
            size,
            order,
            state,
            folios,
        } = self;
        [*place, call, size, order, state, folios]
            .into_iter()
            .filter(|part| *part != "-")
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// One number that was expected and counted.
#[derive(Debug, Clone)]
struct Check {
    what: &'static str,
    /// Smallest and largest number that is right: the same, but where a margin is written down.
    expected: (u64, u64),
    counted: u64,
    /// In the tables; the others only show when they are wrong.
    shown: bool,
    /// Why there is a margin.
    why: &'static str,
}

impl Check {
    fn is_right(&self) -> bool {
        (self.expected.0..=self.expected.1).contains(&self.counted)
    }
}

/// The numbers of a case.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    checks: Vec<Check>,
}

impl Comparison {
    /// Nothing compared yet.
    pub fn new() -> Self {
        Comparison::default()
    }

    /// A number of which there is only one right value.
    pub fn exact(mut self, what: &'static str, expected: u64, counted: u64) -> Self {
        let expected = (expected, expected);
        self.checks.push(Check {
            what,
            expected,
            counted,
            shown: true,
            why: "",
        });
        self
    }

    /// The same, shown only when it is wrong.
    pub fn silently(mut self, what: &'static str, expected: u64, counted: u64) -> Self {
        let expected = (expected, expected);
        self.checks.push(Check {
            what,
            expected,
            counted,
            shown: false,
            why: "",
        });
        self
    }

    /// A number for which the definitions leave a margin, and why they do.
    pub fn within(
        mut self,
        what: &'static str,
        expected: (u64, u64),
        counted: u64,
        why: &'static str,
    ) -> Self {
        self.checks.push(Check {
            what,
            expected,
            counted,
            shown: true,
            why,
        });
        self
    }

    /// Counters that a case must not touch.
    pub fn nothing_else(mut self, ledger: &Ledger, counters: &[Counter]) -> Self {
        for counter in counters {
            self = self.silently(counter.id(), 0, ledger[*counter]);
        }
        self
    }

    /// The expected counts of one reader, and no other counts.
    pub fn of_reads(expected: &Expected, inserted: u64, ledger: &Ledger) -> Self {
        let reuse = expected.hits.saturating_sub(expected.used);
        let ahead = inserted.saturating_sub(expected.misses);
        Comparison::new()
            .exact("requests", expected.requests, ledger[Counter::ReadRequests])
            .exact("pages", expected.pages, ledger[Counter::ReadRequestedPages])
            .silently("bytes", expected.bytes, ledger[Counter::ReadRequestedBytes])
            .exact("hits", expected.hits, known(ledger.hits()))
            .exact("misses", expected.misses, ledger[Counter::ReadMissedPages])
            .silently(
                "unserved",
                expected.unserved,
                ledger[Counter::ReadUnservedPages],
            )
            .silently(
                "unserved bytes",
                expected.unserved_bytes,
                ledger[Counter::ReadUnservedBytes],
            )
            .silently(
                "failed",
                expected.failed,
                ledger[Counter::ReadFailedRequests],
            )
            .exact("read-ahead", ahead, ledger[Counter::ReadaheadPages])
            .exact("used", expected.used, ledger[Counter::ReadaheadHitPages])
            .silently("reuse", reuse, known(ledger.read_cached_pages()))
            .silently("inserted", inserted, inserted_pages(ledger, inserted))
            .silently("contradicts itself", 0, contradicts_itself(ledger).into())
            .nothing_else(ledger, &NOT_READS)
            .nothing_else(ledger, &FAULTS)
    }

    /// The same for touches of a mapping.
    pub fn of_faults(expected: &Expected, inserted: u64, ledger: &Ledger) -> Self {
        let ahead = inserted.saturating_sub(expected.fault_misses);
        let hits = expected.faults.saturating_sub(expected.fault_misses);
        Comparison::new()
            .exact("faults", expected.faults, ledger[Counter::FaultRequests])
            .exact("hits", hits, known(ledger.fault_hits()))
            .exact(
                "misses",
                expected.fault_misses,
                ledger[Counter::FaultMissPages],
            )
            .exact("read-ahead", ahead, ledger[Counter::FaultReadaheadPages])
            .silently("inserted", inserted, inserted_pages(ledger, inserted))
            .nothing_else(ledger, &NOT_READS)
            .nothing_else(ledger, &READS)
    }

    /// The numbers that are wrong, in words; empty if all is well.
    pub fn wrong(&self) -> Vec<String> {
        let wrong = self.checks.iter().filter(|check| !check.is_right());
        wrong
            .map(|check| {
                let mut text = format!(
                    "{}: expected {}, counted {}",
                    check.what,
                    span(check.expected),
                    check.counted
                );
                if !check.why.is_empty() {
                    let _ = write!(text, " (margin: {})", check.why);
                }
                text
            })
            .collect()
    }
}

/// Counters of reads.
pub const READS: [Counter; 12] = [
    Counter::ReadHitPages,
    Counter::ReadUnservedPages,
    Counter::ReadUnservedBytes,
    Counter::ReadFailedRequests,
    Counter::ReadRequests,
    Counter::ReadRequestedPages,
    Counter::ReadRequestedBytes,
    Counter::ReadMissedPages,
    Counter::ReadaheadPages,
    Counter::ReadaheadCancelledPages,
    Counter::EventlessRequests,
    Counter::PrefetchPages,
];

/// Counters of faults.
pub const FAULTS: [Counter; 3] = [
    Counter::FaultRequests,
    Counter::FaultMissPages,
    Counter::FaultReadaheadPages,
];

/// Counters of direct I/O.
pub const DIRECT: [Counter; 4] = [
    Counter::DirectReadRequests,
    Counter::DirectReadBytes,
    Counter::DirectWriteRequests,
    Counter::DirectWriteBytes,
];

/// Counters of buffered writes.
pub const WRITES: [Counter; 5] = [
    Counter::WriteRequests,
    Counter::WritePages,
    Counter::WriteBytes,
    Counter::WriteNewPages,
    Counter::DirtiedPages,
];

/// Counters that neither reads nor faults of a file may touch.
const NOT_READS: [Counter; 13] = [
    Counter::PrefetchPages,
    Counter::ReadaheadCancelledPages,
    Counter::WriteRequests,
    Counter::WritePages,
    Counter::WriteBytes,
    Counter::WriteNewPages,
    Counter::DirtiedPages,
    Counter::DirectReadRequests,
    Counter::DirectReadBytes,
    Counter::DirectWriteRequests,
    Counter::DirectWriteBytes,
    Counter::MetadataPages,
    Counter::OtherPages,
];

/// A derived number of an exact ledger; one that is missing is as wrong as can be.
pub fn known(count: cachewise_model::Count) -> u64 {
    count.known().unwrap_or(u64::MAX)
}

/// The pages that came in. By a back-end that does not see faults that sum is not known, and must say so.
fn inserted_pages(ledger: &Ledger, expected: u64) -> u64 {
    match ledger.get(Counter::FaultMissPages) {
        Count::Missing(_) if ledger.inserted_pages().known().is_none() => expected,
        _ => known(ledger.inserted_pages()),
    }
}

/// "5", or "5 to 7" with a margin.
fn span(expected: (u64, u64)) -> String {
    if expected.0 == expected.1 {
        expected.0.to_string()
    } else {
        format!("{} to {}", expected.0, expected.1)
    }
}

/// All cases of a run.
#[derive(Debug, Default)]
pub struct Report {
    cases: Vec<(Label, Comparison)>,
    notes: Vec<String>,
}

impl Report {
    /// Puts a case in.
    pub fn add(&mut self, label: Label, comparison: Comparison) {
        self.cases.push((label, comparison));
    }

    /// Puts a remark in: a case that was repeated, one that was left out.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Whether anything was compared at all.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// The table for people: file system by call by state, sizes, orders and folios added up.
    pub fn print(&self) {
        let mut groups: Vec<Group> = Vec::new();
        let mut places = BTreeMap::new();
        for (label, comparison) in &self.cases {
            let key = (label.place, label.call.as_str(), label.state);
            let place = *places.entry(key).or_insert_with(|| {
                groups.push(Group::new(label));
                groups.len() - 1
            });
            groups[place].add(comparison);
        }
        println!("\nground truth, cases of one kind added up (all cases: CACHEWISE_TABLE=FILE.md)");
        println!(
            "{:<7} {:<28} {:<6} {:>5}  expected, and counted where it differs",
            "fs", "call", "state", "cases"
        );
        for group in &groups {
            println!(
                "{:<7} {:<28} {:<6} {:>5}  {}",
                group.label.place,
                group.label.call,
                group.label.state,
                group.cases,
                group.text()
            );
        }
        for note in &self.notes {
            println!("note: {note}");
        }
        let wrong = self
            .cases
            .iter()
            .filter(|(_, case)| !case.wrong().is_empty())
            .count();
        println!(
            "ground truth: {} cases, {} as expected, {wrong} not",
            self.cases.len(),
            self.cases.len() - wrong
        );
    }

    /// Writes every case as a row of a markdown table.
    pub fn write_markdown(&self, path: &Path) -> Result<()> {
        let mut text = String::from(
            "| file system | call | size | order | state | folios | expected | counted |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for (label, comparison) in &self.cases {
            let Label {
                place,
                call,
                size,
                order,
                state,
                folios,
            } = label;
            let shown = || {
                comparison
                    .checks
                    .iter()
                    .filter(|check| check.shown || !check.is_right())
            };
            let join = |numbers: Vec<String>| numbers.join(", ");
            let expected = join(
                shown()
                    .map(|check| format!("{} {}", check.what, span(check.expected)))
                    .collect(),
            );
            let counted = join(
                shown()
                    .map(|check| {
                        let wrong = if check.is_right() { "" } else { " **≠**" };
                        format!("{} {}{wrong}", check.what, check.counted)
                    })
                    .collect(),
            );
            let _ = writeln!(
                text,
                "| {place} | {call} | {size} | {order} | {state} | {folios} | {expected} | {counted} |"
            );
        }
        fs::write(path, text).context(format_args!("write {}", path.display()))
    }
}

/// Cases that differ only in size, order and folios.
struct Group {
    label: Label,
    cases: usize,
    checks: Vec<Check>,
}

impl Group {
    fn new(label: &Label) -> Self {
        Group {
            label: label.clone(),
            cases: 0,
            checks: Vec::new(),
        }
    }

    fn add(&mut self, comparison: &Comparison) {
        self.cases += 1;
        for check in comparison
            .checks
            .iter()
            .filter(|check| check.shown || !check.is_right())
        {
            match self.checks.iter_mut().find(|sum| sum.what == check.what) {
                Some(sum) => {
                    sum.expected.0 = sum.expected.0.saturating_add(check.expected.0);
                    sum.expected.1 = sum.expected.1.saturating_add(check.expected.1);
                    sum.counted = sum.counted.saturating_add(check.counted);
                }
                None => self.checks.push(check.clone()),
            }
        }
    }

    fn text(&self) -> String {
        let numbers = self.checks.iter().map(|check| {
            if check.expected == (check.counted, check.counted) {
                format!("{} {}", check.what, check.counted)
            } else {
                let mark = if check.is_right() { "" } else { " !" };
                format!(
                    "{} {} counted {}{mark}",
                    check.what,
                    span(check.expected),
                    check.counted
                )
            }
        });
        numbers.collect::<Vec<_>>().join(", ")
    }
}
