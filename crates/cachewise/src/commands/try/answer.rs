//! The answer of `try`: each fix compared with none, as text and for programs.

use std::io::Write;

use anyhow::{Result, bail};
use cachewise_cli::output::{Sink, printable};
use cachewise_kstat::Kernel;
use cachewise_model::{Exactness, Field, SCHEMA_VERSION, field, shell_quoted};
use cachewise_units::Bytes;
use cachewise_view::{Format, SheetColumns};
use serde_json::{Value as Json, json};

use super::arguments::{COLUMNS, Try};
use super::first_run::FirstRun;
use super::fix::{Action, Fix};
use super::rounds::Arm;
use crate::comparison::{self, Change, Figure};
use crate::machine;

/// Compared fields, the leading one first.
const FIELDS: [&str; 15] = [
    "device_read_bytes",
    "read_missed_pages",
    "readahead_pages",
    "fault_miss_pages",
    "fault_readahead_pages",
    "refault_pages",
    "direct_bytes",
    "evicted_pages",
    "waited_missed_seconds",
    "waited_refault_seconds",
    "waited_in_flight_seconds",
    "waited_fault_seconds",
    "waited_direct_seconds",
    "cpu_seconds",
    "elapsed_seconds",
];

/// Columns of the table where none were chosen.
const USUAL: [&str; 6] = [
    "name",
    "field",
    "old_mean",
    "new_mean",
    "change_factor",
    "verdict",
];

/// Fields of the verdict.
const FETCHED: &str = "device_read_bytes";
const ELAPSED: &str = "elapsed_seconds";

/// Part of the names of the groups of `memory=`.
const GROUP: &str = "cachewise-try-";

/// Resamples of intervals are the same each time.
const SEED: u64 = 1;

/// The answer.
#[derive(Debug)]
pub struct TrialAnswer<'a> {
    arguments: &'a Try,
    first: &'a FirstRun,
    /// Rounds that were done.
    rounds: usize,
    /// By figure and fix.
    changes: Vec<Change>,
    notes: Vec<String>,
}

impl<'a> TrialAnswer<'a> {
    /// Compares each arm with the first one, which has no fix.
    pub fn of(arguments: &'a Try, first: &'a FirstRun, arms: &[Arm]) -> TrialAnswer<'a> {
        let (without, with) = match arms {
            [without, with @ ..] => (without, with),
            [] => (&Arm::default(), &[][..]),
        };
        let mut changes = Vec::new();
        for field in FIELDS.iter().filter_map(|id| field(id)) {
            let old = values(field, without);
            let pairs = arguments
                .fixes
                .iter()
                .zip(with)
                .map(|(fix, arm)| ("fix", fix.name.clone(), old.clone(), values(field, arm)));
            let figure = Figure::new(field.id, field.unit);
            changes.extend(comparison::changes(&figure, pairs.collect(), SEED));
        }
        let notes = arguments.fixes.iter().zip(with);
        let mut notes: Vec<String> = notes.filter_map(|(fix, arm)| note(fix, arm)).collect();
        let all: usize = arms.iter().map(|arm| arm.runs.len()).sum();
        let inexact = arms.iter().flat_map(|arm| &arm.runs);
        let inexact = inexact
            .filter(|run| run.interval.exactness() != Exactness::Exact)
            .count();
        if inexact > 0 {
            notes.push(format!("{inexact} of {all} runs were not counted exactly"));
        }
        TrialAnswer {
            arguments,
            first,
            rounds: without.runs.len(),
            changes,
            notes,
        }
    }

    /// Writes it.
    pub fn write(&self, sink: &mut Sink) -> Result<()> {
        let text = match sink.format {
            Format::Table => self.text(sink),
            Format::Json => format!("{:#}\n", self.json()),
            Format::JsonLines => format!("{}\n", self.json()),
            Format::Csv => comparison::sheet(&self.changes, &COLUMNS)
                .chosen(self.arguments.columns.as_ref())
                .csv()?,
            Format::OpenMetrics => check_format(sink.format).map(|()| String::new())?,
        };
        sink.write_all(text.as_bytes())?;
        Ok(())
    }

    fn change(&self, fix: &str, id: &str) -> Option<&Change> {
        let mut changes = self.changes.iter();
        changes.find(|change| change.name == fix && change.figure.id == id)
    }

    /// One line for each fix.
    fn verdict(&self, fix: &str) -> String {
        let part = |id: &str, words: &str| {
            let change = self.change(fix, id)?;
            let (old, new, factor) = (change.old_text(), change.new_text(), change.factor_text());
            let doubt = match change.compared.is_significant {
                true => "",
                false => ", not significant",
            };
            Some(match id {
                ELAPSED => format!("{words} {factor} ({old} -> {new}{doubt})"),
                _ => format!("{old} -> {new} {words} ({factor}{doubt})"),
            })
        };
        let parts: Vec<String> = [part(FETCHED, "from devices"), part(ELAPSED, "wall")]
            .into_iter()
            .flatten()
            .collect();
        format!("{fix}: {}", parts.join(", "))
    }

    fn text(&self, sink: &Sink) -> String {
        let words = self.arguments.command.iter();
        let words: Vec<String> = words.map(|word| shell_quoted(word.as_ref())).collect();
        let mut lines = vec![sink.style.bold(&printable(&words.join(" ")))];
        if self.rounds == 0 {
            lines.push("no round was finished".to_owned());
            return lines.join("\n") + "\n";
        }
        lines.extend(
            self.arguments
                .fixes
                .iter()
                .map(|fix| printable(&self.verdict(&fix.name))),
        );
        lines.push(String::new());
        let mut text = lines.join("\n") + "\n";
        let usual = SheetColumns::with_ids(&USUAL, &COLUMNS);
        let columns = self.arguments.columns.as_ref().unwrap_or(&usual);
        let sheet = comparison::sheet(self.shown(), &COLUMNS);
        text += &sheet.chosen(Some(columns)).table(sink.style);
        let start = self.arguments.start.id();
        text += &format!(
            "\nmeans of {} {start} runs each, with the 95 % interval of the change\n",
            self.rounds
        );
        for note in &self.notes {
            text += &format!("note: {}\n", printable(note));
        }
        text
    }

    /// The changes of the table.
    fn shown(&self) -> impl Iterator<Item = &Change> {
        // A figure that is 0 in all runs says nothing.
        let is_something = |id: &str| {
            let mut changes = self.changes.iter().filter(|change| change.figure.id == id);
            changes.any(|change| {
                change
                    .old
                    .iter()
                    .chain(&change.new)
                    .any(|value| *value != 0.0)
            })
        };
        self.arguments.fixes.iter().flat_map(move |fix| {
            let changes = self.changes.iter().filter(|change| change.name == fix.name);
            changes.filter(move |change| is_something(&change.figure.id))
        })
    }

    fn json(&self) -> Json {
        let words = self.arguments.command.iter();
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let fixes = self.arguments.fixes.iter().map(|fix| {
            let changes = self.changes.iter().filter(|change| change.name == fix.name);
            json!({
                "fix": fix.name,
                "verdict": self.verdict(&fix.name),
                "changes": changes.map(Change::json).collect::<Json>(),
            })
        });
        json!({
            "schema_version": SCHEMA_VERSION,
            "timestamp": machine::timestamp().to_string(),
            "hostname": machine::hostname(&Kernel::new()),
            "page_size_bytes": cachewise_sys::page_size().get(),
            "command": words,
            "start": self.arguments.start.id(),
            "rounds": self.rounds,
            "files": self.first.files.len(),
            "fixes": fixes.collect::<Json>(),
            "notes": self.notes,
        })
    }
}

/// Refuses a format that has no place for the answer, before the command runs.
///
/// # Errors
/// Names the formats that have one.
pub fn check_format(format: Format) -> Result<()> {
    match format {
        Format::OpenMetrics => {
            bail!("`try` answers as table, json, jsonl, csv or markdown, not as {format}")
        }
        _ => Ok(()),
    }
}

fn values(field: &Field, arm: &Arm) -> Vec<f64> {
    let rows = arm.runs.iter().map(|run| run.interval.total_row());
    rows.filter_map(|row| field.of(&row).known()?.number())
        .collect()
}

/// A note on the reach of a fix, and on its cost beside the run.
fn note(fix: &Fix, arm: &Arm) -> Option<String> {
    let name = &fix.name;
    if let Some((bytes, seconds)) = arm.warmed.last() {
        return Some(format!(
            "{name}: prefetching read {} in {} before the last run, which is not in its figures",
            Bytes(bytes.0),
            cachewise_view::seconds(*seconds)
        ));
    }
    if let Action::Shield(program) = &fix.action {
        let shielded = arm.runs.last()?.shielded?;
        if shielded.inserted.0 == 0 {
            return Some(format!(
                "{name}: no process of the command that is called {program} inserted pages"
            ));
        }
        let page = cachewise_sys::page_size();
        return Some(format!(
            "{name}: dropped {} of {} in the last run, and took {} of CPU time, which is not in its figures",
            shielded.dropped.bytes(page),
            shielded.inserted.bytes(page),
            cachewise_view::seconds(shielded.cpu.as_secs_f64())
        ));
    }
    if let Action::Memory(_) = fix.action {
        let processes = &arm.runs.last()?.interval.processes;
        let mut groups = processes
            .iter()
            .filter_map(|process| process.cgroup.as_ref().known());
        let other = groups.find(|group| !group.contains(GROUP))?;
        return Some(format!(
            "{name}: the command moved itself to the control group {other}, where this limit does not hold"
        ));
    }
    if !fix.is_traced() {
        return None;
    }
    let last = &arm.runs.last()?.traces;
    let refused = last.refused.iter().next();
    Some(match (last.applied, refused) {
        (0, None) => format!("{name}: the command opened and mapped no file that it applies to"),
        (applied, None) => format!("{name}: applied {applied} times in the last run"),
        (applied, Some((reason, count))) => {
            format!(
                "{name}: applied {applied} times in the last run, refused {count} times: {reason}"
            )
        }
    })
}
