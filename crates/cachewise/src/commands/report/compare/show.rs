//! The changes between two reports, as text and for programs.

use std::io::Write;

use anyhow::{Result, bail};
use cachewise_cli::output::{Sink, printable};
use cachewise_kstat::Kernel;
use cachewise_model::{SCHEMA_VERSION, shell_quoted};
use cachewise_units::counted;
use cachewise_view::{Format, SheetColumn, SheetColumns, Style};
use serde_json::{Value as Json, json};

use super::document::{ARM, FILE, ORDER, PROCESS, TOTALS};
use super::side::Side;
use crate::comparison::{self, Change};
use crate::machine;

/// The changes between two reports.
#[derive(Debug)]
pub struct Comparison {
    pub old: Side,
    pub new: Side,
    pub changes: Vec<Change>,
    /// Maximum files and processes in the table.
    pub top: usize,
    /// The chosen columns of tables and of CSV.
    pub columns: Option<SheetColumns>,
}

/// Columns of changes between two reports.
pub const COLUMNS: [SheetColumn; 15] = comparison::columns("SUBJECT", "OLD", "NEW");

/// Columns of tables where none were chosen.
const USUAL: [&str; 6] = [
    "field",
    "old_mean",
    "new_mean",
    "change_factor",
    "verdict",
    "name",
];

/// Refuses a format that has no place for a comparison.
///
/// # Errors
/// Names the formats that have one.
pub fn check_format(format: Format) -> Result<()> {
    match format {
        Format::OpenMetrics => {
            bail!("a comparison is written as table, json, jsonl, csv or markdown, not as {format}")
        }
        _ => Ok(()),
    }
}

impl Comparison {
    /// Writes it.
    pub fn write(&self, sink: &mut Sink) -> Result<()> {
        let text = match sink.format {
            Format::Table => self.text(sink.style),
            Format::Json => format!("{:#}\n", self.json()),
            Format::JsonLines => format!("{}\n", self.json()),
            Format::Csv => comparison::sheet(&self.changes, &COLUMNS)
                .chosen(self.columns.as_ref())
                .csv()?,
            Format::OpenMetrics => check_format(sink.format).map(|()| String::new())?,
        };
        sink.write_all(text.as_bytes())?;
        Ok(())
    }

    fn of(&self, kind: &str) -> Vec<&Change> {
        let changes = self.changes.iter();
        changes.filter(|change| change.kind == kind).collect()
    }

    fn text(&self, style: Style) -> String {
        let usual = SheetColumns::with_ids(&USUAL, &COLUMNS);
        let columns = self.columns.as_ref().unwrap_or(&usual);
        let titled = |title: &str, changes: &[&Change]| {
            let sheet = comparison::sheet(changes.iter().copied(), &COLUMNS).chosen(Some(columns));
            format!("{}\n{}", style.bold(title), sheet.table(style))
        };
        let mut parts = vec![self.head(style)];
        let totals = self.of(TOTALS);
        if !totals.is_empty() {
            parts.push(titled("totals", &totals));
        }
        let arms = self.of(ARM);
        if !arms.is_empty() {
            parts.push(titled("arms", &arms));
        }
        for (kind, title) in [
            (FILE, "files, by bytes fetched"),
            (PROCESS, "processes, by bytes fetched"),
        ] {
            let changes = self.of(kind);
            if !changes.is_empty() {
                parts.push(titled(title, &first(&changes, self.top)));
            }
        }
        parts.join("\n")
    }

    /// The verdict, then what is compared.
    fn head(&self, style: Style) -> String {
        let fetched = self.of(TOTALS);
        let fetched = fetched.iter().find(|change| change.figure.id == ORDER);
        let verdict = match (fetched, self.changes.as_slice()) {
            (_, []) => "nothing changed".to_owned(),
            (None, [_]) => "1 figure changed".to_owned(),
            (None, changes) => format!(
                "{} figures changed; bytes fetched are the same",
                changes.len()
            ),
            (Some(fetched), _) => format!(
                "{} -> {} fetched ({}), {}",
                fetched.old_text(),
                fetched.new_text(),
                fetched.factor_text(),
                fetched.compared.verdict
            ),
        };
        let mut lines = vec![style.bold(&printable(&verdict))];
        for (title, side) in [("old", &self.old), ("new", &self.new)] {
            let words = side.command().iter();
            let words: Vec<String> = words.map(|word| shell_quoted(word.as_ref())).collect();
            let command = match words.is_empty() {
                true => String::new(),
                false => format!(" of {}", words.join(" ")),
            };
            let line = format!(
                "{title}: {}, {}{command}",
                side.name,
                counted(side.count() as u64, "report")
            );
            lines.push(printable(&line));
        }
        if self.old.command() != self.new.command() {
            lines.push("note: the commands differ".to_owned());
        }
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Json {
        let side = |side: &Side| json!({ "file": side.name, "reports": side.count(), "command": side.command() });
        json!({
            "schema_version": SCHEMA_VERSION,
            "timestamp": machine::timestamp().to_string(),
            "hostname": machine::hostname(&Kernel::new()),
            "page_size_bytes": self.old.page_size(),
            "old": side(&self.old),
            "new": side(&self.new),
            "changes": self.changes.iter().map(Change::json).collect::<Json>(),
        })
    }
}

/// The changes of the first subjects.
fn first<'a>(changes: &[&'a Change], subjects: usize) -> Vec<&'a Change> {
    let mut names: Vec<&str> = Vec::new();
    let changes = changes.iter().copied();
    let first = changes.take_while(|change| {
        if !names.contains(&change.name.as_str()) {
            names.push(&change.name);
        }
        names.len() <= subjects
    });
    first.collect()
}
