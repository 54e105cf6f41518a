//! The result of `shield`: dropped and kept pages, by reason and file.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use cachewise_cli::output::{Sink, printable};
use cachewise_cli::sinks::Sinks;
use cachewise_kstat::Kernel;
use cachewise_model::{Count, Measured, SCHEMA_VERSION, shell_quoted};
use cachewise_probe::shield::Kept;
use cachewise_units::{Bytes, Pages, counted, escaped};
use cachewise_view::{Format, Sheet, SheetCell, SheetColumn};
use serde_json::{Value as Json, json};

use super::arguments::Shield;
use super::metrics;
use super::outcome::Outcome;
use crate::machine;
use crate::selection::Selected;

/// The result, with what was shielded.
pub struct ShieldReport<'a> {
    arguments: &'a Shield,
    subject: String,
    outcome: Outcome,
    elapsed: Duration,
    kernel_memory: Count,
}

/// Id and words of a reason.
fn words(kept: Kept) -> (&'static str, &'static str) {
    match kept {
        Kept::Other => ("used_by_others", "kept: used by another process"),
        Kept::Again => ("used_again", "kept: the program came back to the file"),
        Kept::Ahead => ("ahead", "kept: read ahead, not used so far"),
        Kept::Written => (
            "written",
            "kept: written by the program (--writes drops them)",
        ),
        Kept::Dirty => ("dirty", "kept: dirty"),
        Kept::Writeback => ("writeback", "kept: under writeback"),
        Kept::Locked => ("locked", "kept: locked by the kernel"),
        Kept::Mlocked => ("mlocked", "kept: locked in memory by a process"),
        Kept::Mapped => ("mapped", "kept: mapped"),
        Kept::InUse => ("in_use", "kept: in use by the kernel"),
        Kept::Mixed => (
            "mixed",
            "kept: in a folio with pages that were resident before",
        ),
    }
}

impl<'a> ShieldReport<'a> {
    /// The result of a shield that has ended.
    pub fn new(
        arguments: &'a Shield,
        selected: &Selected,
        outcome: Outcome,
        elapsed: Duration,
        kernel_memory: Count,
    ) -> ShieldReport<'a> {
        let words = arguments.command.iter();
        let words: Vec<String> = words.map(|word| shell_quoted(word.as_ref())).collect();
        let subject = match (&words[..], &selected.name) {
            ([], Some(name)) => name.clone(),
            ([], None) => "every process that streams".to_owned(),
            _ => words.join(" "),
        };
        ShieldReport {
            arguments,
            subject,
            outcome,
            elapsed,
            kernel_memory,
        }
    }

    /// Writes it to all targets.
    pub fn write(&self, sinks: Sinks) -> Result<()> {
        sinks.write(|sink| {
            let text = match sink.format {
                Format::Table => self.text(sink),
                Format::Json => format!("{:#}\n", self.json()),
                Format::JsonLines => format!("{}\n", self.json()),
                Format::Csv => self.pages().csv()?,
                Format::OpenMetrics => self.openmetrics()?,
            };
            sink.write_all(text.as_bytes())?;
            Ok(())
        })
    }

    fn bytes(pages: Pages) -> Bytes {
        pages.bytes(cachewise_sys::page_size())
    }

    /// One line that says what was done.
    fn verdict(&self) -> String {
        let totals = &self.outcome.figures.totals;
        format!(
            "dropped {} of {} behind {}; at most {} of it were resident at once",
            Self::bytes(totals.dropped),
            Self::bytes(totals.inserted),
            self.subject,
            Self::bytes(self.outcome.figures.most_resident)
        )
    }

    /// The fates of the pages: id, words and number.
    fn fates(&self) -> Vec<(&'static str, &'static str, u64)> {
        let outcome = &self.outcome;
        let totals = &outcome.figures.totals;
        let mut rows = vec![
            ("inserted", "inserted by the program", totals.inserted.0),
            ("dropped", "dropped behind it", totals.dropped.0),
            (
                "reclaimed",
                "reclaimed by the kernel or cut off before",
                totals.left.0,
            ),
        ];
        for kept in Kept::ALL {
            let (id, words) = words(kept);
            rows.push((id, words, outcome.kept.get(&kept).copied().unwrap_or(0)));
        }
        rows.extend([
            (
                "no_stream",
                "kept: of files that no process streamed through",
                totals.no_stream().0,
            ),
            (
                "not_opened",
                "kept: the file could not be opened",
                outcome.not_opened,
            ),
            (
                "not_named",
                "kept: of files that --files-from does not list",
                outcome.not_named,
            ),
            (
                "fuse",
                "kept: on FUSE, whose files are not opened",
                totals.never_open.0,
            ),
            (
                "untracked",
                "kept: the table of pages was full",
                totals.untracked.0,
            ),
        ]);
        rows
    }

    fn pages(&self) -> Sheet {
        static COLUMNS: [SheetColumn; 4] = [
            SheetColumn::new("fate", "", false, "Fate of the pages"),
            SheetColumn::new("fate_text", "PAGES THAT WERE", false, "The same in words"),
            SheetColumn::new("pages", "PAGES", true, "Number of pages"),
            SheetColumn::new("bytes", "BYTES", true, "Their size"),
        ];
        let mut sheet = Sheet::new(&COLUMNS);
        for (id, words, pages) in self.fates() {
            let bytes = Self::bytes(Pages(pages));
            sheet.rows.push(vec![
                SheetCell::text(id),
                SheetCell::text(words),
                SheetCell::count(pages),
                SheetCell::bytes(bytes),
            ]);
        }
        sheet
    }

    fn files(&self) -> Sheet {
        static COLUMNS: [SheetColumn; 4] = [
            SheetColumn::new("inserted_pages", "INSERTED-PG", true, "Inserted pages"),
            SheetColumn::new("dropped_pages", "DROPPED-PG", true, "Dropped pages"),
            SheetColumn::new("stopped", "STOPPED", false, "Not dropped any more"),
            SheetColumn::new("path", "FILE", false, "The file"),
        ];
        let mut sheet = Sheet::new(&COLUMNS);
        let most = match self.arguments.top {
            0 => usize::MAX,
            most => most,
        };
        for found in self.outcome.files.iter().take(most) {
            let file = &found.file;
            let path = match &found.path {
                Some(path) => escaped(path).into_owned(),
                None => format!(
                    "inode {} on device {}:{}",
                    file.inode, file.device.0, file.device.1
                ),
            };
            sheet.rows.push(vec![
                SheetCell::count(file.inserted.0),
                SheetCell::count(file.dropped.0),
                SheetCell::with_text(
                    file.is_stopped,
                    if file.is_stopped { "came back" } else { "" },
                ),
                SheetCell::text(path),
            ]);
        }
        sheet
    }

    fn notes(&self) -> Vec<String> {
        let outcome = &self.outcome;
        let totals = &outcome.figures.totals;
        let mut notes = Vec::new();
        if totals.needed.0 > 0 {
            notes.push(format!(
                "{} dropped pages were read again by other processes",
                totals.needed.0
            ));
        }
        if totals.returned.0 > 0 {
            notes.push(format!(
                "the program read {} dropped pages again, {} of them soon enough to have been resident without the shield",
                totals.returned.0, totals.returned_near.0
            ));
        }
        if totals.evicted.0 > 0 {
            notes.push(format!(
                "{} pages of other files were reclaimed to make room for the program",
                totals.evicted.0
            ));
        }
        if let Some(error) = &outcome.error {
            notes.push(format!("some pages could not be dropped: {error}"));
        }
        let advice = &outcome.figures.advice;
        let share = outcome.figures.cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(0.001);
        notes.push(format!(
            "the shield took {} of CPU time ({} of one CPU), {}{} of it to drop pages ({})",
            cachewise_view::seconds(outcome.figures.cpu.as_secs_f64()),
            cachewise_view::share(share),
            if advice.is_estimate() { "~" } else { "" },
            cachewise_view::seconds(advice.cpu().as_secs_f64()),
            counted(outcome.calls, "call"),
        ));
        notes
    }

    fn text(&self, sink: &Sink) -> String {
        let mut text = sink.style.bold(&printable(&self.verdict())) + "\n\n";
        let mut pages = self.pages();
        pages.rows.retain(|row| !row[2].as_text().eq("0"));
        text += &pages.table(sink.style);
        let files = self.files();
        if !files.rows.is_empty() {
            text += "\n";
            text += &files.table(sink.style);
        }
        text += "\n";
        for note in self.notes() {
            text += &format!("note: {}\n", printable(&note));
        }
        text
    }

    fn openmetrics(&self) -> Result<String> {
        let fates = self.fates();
        let fates = fates.iter().map(|(id, _, pages)| (*id, *pages));
        metrics::exposition(&self.outcome.figures, fates)
    }

    fn json(&self) -> Json {
        let outcome = &self.outcome;
        let totals = &outcome.figures.totals;
        let fates = self.fates();
        let fates = fates
            .iter()
            .map(|(id, _, pages)| (format!("{id}_pages"), json!(pages)));
        let words = self.arguments.command.iter();
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let memory = match self.kernel_memory {
            Measured::Exact(bytes) => json!(bytes),
            _ => Json::Null,
        };
        // With --auto each process is shielded for itself: there is no program for which others are evicted.
        let evicted = (!self.arguments.auto).then_some(totals.evicted.0);
        json!({
            "schema_version": SCHEMA_VERSION,
            "timestamp": machine::timestamp().to_string(),
            "hostname": machine::hostname(&Kernel::new()),
            "page_size_bytes": cachewise_sys::page_size().get(),
            "subject": self.subject,
            "command": words,
            "elapsed_seconds": self.elapsed.as_secs_f64(),
            "verdict": self.verdict(),
            "pages": fates.collect::<serde_json::Map<_, _>>(),
            "most_resident_pages": outcome.figures.most_resident.0,
            "returned_pages": totals.returned.0,
            "returned_near_pages": totals.returned_near.0,
            "needed_by_others_pages": totals.needed.0,
            "evicted_others_pages": evicted,
            "written_back_pages": outcome.written_back,
            "cpu_seconds": outcome.figures.cpu.as_secs_f64(),
            "advice_cpu_seconds": outcome.figures.advice.cpu().as_secs_f64(),
            "advice_cpu_is_estimated": outcome.figures.advice.is_estimate(),
            "advice_calls": outcome.calls,
            "kernel_memory_bytes": memory,
            "files": self.files().json(),
            "notes": self.notes(),
        })
    }
}
