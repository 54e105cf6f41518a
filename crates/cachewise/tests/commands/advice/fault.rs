//! A scenario with a fault: the finding that must name it, and the amount that its fix lowers.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use super::kit::*;
use crate::support::*;

/// The subject that a finding must name.
pub enum Subject<'a> {
    /// A file.
    File(&'a Path),
    /// A control group.
    Group(&'a Group),
    /// A file of this directory, which one depends on the program.
    In(&'a Path),
    /// A process of this program, which the cause names.
    Process(&'a str),
    /// The run or the machine as a whole.
    Whole,
}

/// An amount that a fix lowers, counted with and without it.
pub enum Amount<'a> {
    /// Pages of a file read from the device.
    Fetched(&'a Path),
    /// Pages of all files below a directory read from the device.
    FetchedBelow(&'a Path),
    /// A column of a file.
    OfFile(&'a Path, &'static str),
    /// A column of the run.
    Total(&'static str),
    /// A part of the time of tasks, in microseconds.
    Time(&'static str),
}

/// A program with a known fault, and its fix.
pub struct Fault<'a> {
    /// The program and what it does wrong.
    pub scenario: &'a str,
    /// The rules that may name the cause: one, or those that name the same cause by different evidence.
    pub rules: &'a [&'static str],
    /// The subject.
    pub subject: Subject<'a>,
    /// A figure of the finding, and the least that it is.
    pub figure: (&'static str, u64),
    /// Parts of the fix that the finding names.
    pub fix: &'a [&'a str],
    /// The amount that the fix lowers.
    pub amount: Amount<'a>,
    /// To one in this many, or less.
    pub factor: u64,
    /// Files that are resident when the fix is applied: locked in memory, so that no reclaim disturbs it.
    pub warm: &'a [&'a Path],
}

/// Rules that name a group without room for its working set.
pub const GROUP: &[&str] = &["group_limit", "working_set", "thrashing"];

impl Fault<'_> {
    /// Runs the program, checks the finding, and runs it with the fix applied. Gives the finding.
    pub fn check(&self, faulty: impl Fn() -> Report, fixed: impl Fn() -> Report) -> Value {
        let before = undisturbed(|| {
            let report = whole(faulty())?;
            let is_named = report.json["findings"]
                .get(0)
                .is_some_and(|first| self.names(first));
            // The kernel ends a program that swaps if the device takes its pages too slowly: another fault.
            let is_killed = !report.json["exit"]["signal"].is_null();
            let is_disturbed = is_killed || is_program_cold(&report) || is_starved(&report);
            if is_disturbed && !is_named {
                warm_programs(&report);
                return None;
            }
            Some(report)
        });
        let amount = self.amount.of(&before);
        let finding = self.found(&before);
        let _pinned: Vec<_> = self
            .warm
            .iter()
            .map(|file| pin(file, pages_of(file)))
            .collect();
        let after = undisturbed(|| {
            let report = whole(fixed())?;
            let left = self.amount.of(&report);
            let found = self.about(&report);
            if found.is_empty() && left.saturating_mul(self.factor) <= amount {
                return Some(left);
            }
            assert!(
                is_disturbed(&report) || is_program_cold(&report),
                "{}: the fix leaves {left} of {amount}: {found:?}, {}",
                self.scenario,
                report.json["verdict"]
            );
            warm_programs(&report);
            None
        });
        self.note(&[&finding["id"], &finding["subject"]], &[amount, after]);
        finding
    }

    /// The finding, which is the first of the report and the one about its subject.
    fn found(&self, report: &Report) -> Value {
        let all = report.json["findings"].as_array().expect("a list");
        let Some(first) = all.first().filter(|first| self.names(first)) else {
            self.note(&[&all.first().unwrap_or(&Value::Null)["id"]], &[]);
            panic!(
                "{}: the cause is {:?}, and not {all:?}; {}",
                self.scenario, self.rules, report.json["verdict"]
            );
        };
        let about = self.about(report);
        assert_eq!(about.len(), 1, "{}: one finding: {about:?}", self.scenario);
        let (figure, least) = self.figure;
        assert!(
            number(&first["figures"], figure) >= least,
            "{}: {figure} of {least} or more: {first}",
            self.scenario
        );
        for part in self.fix {
            assert!(
                step(first).contains(part),
                "{}: the fix is {part:?}: {first}",
                self.scenario
            );
        }
        let verify = first["verify"].as_str().unwrap_or_default();
        assert!(!verify.is_empty(), "how to verify it: {first}");
        first.clone()
    }

    /// Whether a finding names the cause and the subject.
    fn names(&self, finding: &Value) -> bool {
        self.rules.iter().any(|rule| finding["id"] == *rule) && self.subject.is(finding)
    }

    /// The findings with evidence of the cause, about the subject.
    fn about<'r>(&self, report: &'r Report) -> Vec<&'r Value> {
        let all = report.json["findings"].as_array().expect("a list");
        let is_cause = |rule: &Value| self.rules.iter().any(|cause| rule == cause);
        all.iter()
            .filter(|finding| {
                let rules = finding["rules"].as_array().expect("a finding has rules");
                rules.iter().any(is_cause) && self.subject.is(finding)
            })
            .collect()
    }

    /// Adds a row to the table of scenarios that `CACHEWISE_TABLE` names.
    fn note(&self, named: &[&Value], amounts: &[u64]) {
        let named: Vec<&str> = named.iter().filter_map(|name| name.as_str()).collect();
        let amounts: Vec<String> = amounts.iter().map(u64::to_string).collect();
        note(&[
            "fault",
            self.scenario,
            self.rules[0],
            &named.join(" "),
            self.amount.name(),
            &amounts.join(" -> "),
        ]);
    }
}

/// Adds a row to the table of scenarios that `CACHEWISE_TABLE` names, if it names one.
pub fn note(cells: &[&str]) {
    let Some(path) = std::env::var_os("CACHEWISE_TABLE") else {
        return;
    };
    let row = format!("| {} |\n", cells.join(" | "));
    let table = File::options().create(true).append(true).open(path);
    let written = table.and_then(|mut table| table.write_all(row.as_bytes()));
    written.expect("the table can be written");
}

impl Subject<'_> {
    fn is(&self, finding: &Value) -> bool {
        let (kind, subject) = (&finding["subject_kind"], finding["subject"].as_str());
        match self {
            Subject::File(path) => kind == "file" && subject == path.to_str(),
            Subject::In(directory) => {
                kind == "file" && subject.is_some_and(|path| Path::new(path).starts_with(directory))
            }
            Subject::Group(group) => {
                let name = group.path().file_name().expect("it has a name");
                kind == "group" && subject.map(Path::new).and_then(Path::file_name) == Some(name)
            }
            Subject::Process(program) => {
                let cause = finding["cause"].as_str().unwrap_or_default();
                kind == "process" && cause.starts_with(&format!("{program} ("))
            }
            Subject::Whole => kind == "machine",
        }
    }
}

impl Amount<'_> {
    fn of(&self, report: &Report) -> u64 {
        match self {
            Amount::Fetched(file) => fetched(report, file),
            Amount::FetchedBelow(directory) => {
                let files = report.files().iter();
                let below = files.filter(|file| {
                    let path = file["path"].as_str().unwrap_or_default();
                    Path::new(path).starts_with(directory)
                });
                below.map(fetched_of_row).sum()
            }
            Amount::OfFile(file, column) => number(report.file(file), column),
            Amount::Total(column) => number(&report.json["totals"], column),
            Amount::Time(part) => {
                let seconds = report.json["times"][part].as_f64();
                (seconds.expect("times are measured") * 1e6) as u64
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Amount::Fetched(_) | Amount::FetchedBelow(_) => "fetched_pages",
            Amount::OfFile(_, name) | Amount::Total(name) | Amount::Time(name) => name,
        }
    }
}

/// The report, unless the probe lost events: then it has no findings.
pub fn whole(report: Report) -> Option<Report> {
    let lost = report.json["lost"].as_array();
    lost.is_some_and(Vec::is_empty).then_some(report)
}

/// Whether programs and their libraries were read from the device, because they were reclaimed before: then they are a cause
/// beside that of the scenario.
fn is_program_cold(report: &Report) -> bool {
    let is_own = |file: &&Value| {
        let path = file["path"].as_str().unwrap_or_default();
        path.contains("cachewise-e2e-")
    };
    let others = report.files().iter().filter(|file| !is_own(file));
    let pages: u64 = others.map(fetched_of_row).sum();
    pages * page_size() >= MIB
}

/// Reads the files of programs that were read from the device. A page belongs to the group that reads it first: those that
/// a small group has read would be evicted by its limit each time.
fn warm_programs(report: &Report) {
    for file in report.files() {
        let path = Path::new(file["path"].as_str().unwrap_or_default());
        let is_own = path.starts_with("/usr") || path.starts_with("/root");
        if !is_own || fetched_of_row(file) == 0 {
            continue;
        }
        // One that has gone since needs no pages.
        let Ok(mut file) = File::open(path) else {
            continue;
        };
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let _ = io::copy(&mut file, &mut io::sink());
    }
}

/// Whether tasks waited for a CPU for more than half of the run, by the kernel's account: then waits for storage are a
/// smaller share of it than the rules ask for.
fn is_starved(report: &Report) -> bool {
    let seconds = |value: &Value| value.as_f64().unwrap_or(0.0);
    let times = &report.json["times"];
    seconds(&times["run_queue_seconds"]) * 2.0 >= seconds(&report.json["wall_seconds"])
}

/// Whether reclaim by others than the program took pages during the run: then amounts with the fix prove nothing.
pub fn is_disturbed(report: &Report) -> bool {
    let evictions = report.json["evictions"].as_array().expect("a list");
    evictions.iter().any(|eviction| {
        let cause = eviction["cause"].as_str().unwrap_or_default();
        ["kswapd", "direct_reclaim", "proactive_reclaim", "damon"].contains(&cause)
    })
}
