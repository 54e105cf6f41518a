//! A list that is being made: files come in, rows and the total go out.

use std::io::Write;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use cachewise_cli::output::{Sink, tell};
use cachewise_model::{Field, Measured, Reason, Row};
use cachewise_residency::{Counts, Inode, map};
use cachewise_units::ByteRange;
use cachewise_view::{Format, RowOptions, RowWriter, RowWriters};

use super::sums::{brief, ended, total};
use super::{Show, Stream};
use crate::commands::files::batched::Batched;
use crate::commands::files::counting::{Answer, Counting};
use crate::commands::files::fuse::is_not_opened;
use crate::commands::files::listed_file::{Identity, ListedFile, residency, strip};
use crate::commands::files::order::{First, Order};
use crate::interrupt::Stop;
use crate::machine;

/// Number of ranges in a strip of `--histogram`, and on a narrow screen.
const STRIP: u64 = 32;
const NARROW_STRIP: u64 = 16;
const NARROW: usize = 80;

/// A list that is being made.
pub struct Listing<'a> {
    show: &'a mut Show,
    tables: RowWriters<Batched>,
    documents: RowWriters<Batched>,
    /// Files or directories that were to be written.
    for_tables: usize,
    /// `None`: rows are written as they come.
    first: Option<First>,
    /// Whether device and inode of files are shown.
    identifies: bool,
    /// When it was begun, if rows are to tell.
    time: Option<String>,
    counting: Counting,
    /// The row of the file before, for the next.
    row: Option<Box<Row>>,
    /// How many could have been shown.
    candidates: u64,
    /// How many of what are not shown.
    hidden: Option<(u64, (&'static str, &'static str))>,
}

impl Show {
    /// Begins a list.
    pub fn begin(&mut self) -> Result<Listing<'_>> {
        let timestamp = machine::timestamp();
        let tables = self.table_writers(&timestamp)?;
        let documents = match self.stream.take() {
            Some(stream) => stream.writers,
            None => {
                let sinks = std::mem::take(&mut self.documents);
                let writers = sinks.into_iter().map(|sink| self.writer(sink, &timestamp));
                RowWriters::new(writers.collect::<Vec<_>>())
            }
        };
        let has = |ids: &[&str]| {
            let mut columns = self.plan.columns.iter();
            columns.any(|field| ids.contains(&field.id))
        };
        Ok(Listing {
            first: self.order.map(|order| First::new(order, self.most)),
            identifies: has(&["device", "inode", "links"]),
            // Lines of JSON have their own.
            time: (has(&["time"]) || self.plan.repeated).then_some(timestamp),
            counting: self.count(),
            row: None,
            show: self,
            tables,
            documents,
            for_tables: 0,
            candidates: 0,
            hidden: None,
        })
    }

    fn table_writers(&mut self, timestamp: &str) -> Result<RowWriters<Batched>> {
        let mut sinks = std::mem::take(&mut self.tables);
        if self.plan.repeated {
            for sink in &mut sinks {
                // Home, and what is below cleared: no flicker.
                let clear = if sink.is_terminal { "\x1b[H\x1b[J" } else { "" };
                writeln!(sink, "{clear}{timestamp}")
                    .with_context(|| format!("cannot write to {}", self.name))?;
            }
        }
        let writers = sinks.into_iter().map(|sink| self.writer(sink, timestamp));
        Ok(RowWriters::new(writers.collect::<Vec<_>>()))
    }

    fn writer(&self, sink: Sink, timestamp: &str) -> RowWriter<Batched> {
        let options = RowOptions {
            timestamp: timestamp.to_owned(),
            room: self.room.filter(|_| sink.is_terminal),
            ..sink.row_options()
        };
        let (format, columns) = (sink.format, self.columns(sink.format));
        let out = Batched::new(sink, self.plan.repeated);
        RowWriter::new(out, format, &columns, options)
    }

    fn columns(&self, format: Format) -> Vec<&'static Field> {
        let mut columns = self.plan.columns.clone();
        if self.plan.repeated && matches!(format, Format::Csv | Format::Json) {
            // Rows of different looks stand in one document.
            columns.splice(0..0, cachewise_model::field("time"));
        }
        if format == Format::OpenMetrics {
            // A series that is not there has no room for a reason; a sum of a part has to say so.
            columns.extend(cachewise_model::field("unknown_files"));
        }
        columns
    }
}

impl Listing<'_> {
    /// Takes a file in; it is made only if it is to be shown.
    pub fn file(
        &mut self,
        size: u64,
        counts: Result<Counts, Reason>,
        make: impl FnOnce() -> ListedFile,
    ) -> Result<()> {
        self.counting.add(size, counts);
        self.again(size, counts, make)
    }

    /// Shows a file that has been counted, under another of its names.
    pub fn again(
        &mut self,
        size: u64,
        counts: Result<Counts, Reason>,
        make: impl FnOnce() -> ListedFile,
    ) -> Result<()> {
        if self.show.plan.only_cached && !counts.is_ok_and(|counts| counts.cached.0 > 0) {
            return Ok(());
        }
        self.candidates += 1;
        match &mut self.first {
            Some(first) => {
                first.offer(first.order().rank(size, &counts), make);
                Ok(())
            }
            None => self.write(make()),
        }
    }

    /// Takes in a file to which something was done, and its place by the pages before and after.
    pub fn changed(&mut self, found: ListedFile, rank: fn(u64, u64) -> u64) -> Result<()> {
        self.counting.add(found.size, found.counts);
        let after = found.counts.map(|counts| counts.cached.0);
        if let Some(before) = found.before {
            let change = self.counting.answer.change.get_or_insert_default();
            change.add(before, after);
        }
        match &mut self.first {
            Some(first) => {
                self.candidates += 1;
                let known = found.before.and_then(Result::ok).zip(after.ok());
                first.offer(
                    known.map(|(before, after)| rank(before, after).into()),
                    || found,
                );
                Ok(())
            }
            None => self.write(found),
        }
    }

    /// Whether the list is to end.
    pub fn stop(&self) -> &Stop {
        &self.show.stop
    }

    /// Reports a path that could not be read.
    pub fn failed(&mut self, error: &str) {
        self.counting.failed(error);
    }

    /// Counts on their own what is not listed.
    pub fn counting(&mut self) -> &mut Counting {
        &mut self.counting
    }

    /// Takes in rows that are no files, and how many more there are.
    pub fn rows(&mut self, rows: Vec<Row>, hidden: usize) -> Result<()> {
        self.counting.all_came();
        self.hidden = Some((hidden as u64, ("directory is", "directories are")));
        rows.iter().for_each(|row| self.tables.fit(row));
        for mut row in rows {
            self.for_tables += 1;
            self.row(&mut row, None)?;
        }
        Ok(())
    }

    /// The order of `--sort`, and the maximum number of rows.
    pub fn chosen_order(&self) -> Option<(Order, Option<usize>)> {
        self.show.chosen_order()
    }

    /// Writes a row; tables may get a shorter one.
    fn row(&mut self, row: &mut Row, mut brief: Option<Row>) -> Result<()> {
        for row in std::iter::once(&mut *row).chain(&mut brief) {
            if let Some(time) = &self.time {
                row.labels.time = Measured::Exact(time.clone());
            }
            if let Some(labels) = &self.show.plan.labels {
                labels.apply_to_row(row);
            }
        }
        let (tables, documents) = (&mut self.tables, &mut self.documents);
        let most = self.show.most_in_tables;
        let has_room = most.is_none_or(|most| self.for_tables <= most);
        self.counting
            .aside(|| {
                let shown = match has_room {
                    true => tables.write(brief.as_ref().unwrap_or(row)),
                    false => Ok(()),
                };
                shown.and(documents.write(row))
            })
            .with_context(|| format!("cannot write to {}", self.show.name))
    }

    /// Writes what is left to be written, and the total.
    pub fn finish(mut self) -> Result<Answer> {
        self.counting.all_came();
        if self.show.stop.is_asked() {
            self.counting.answer.partial = Some(Reason::Interrupted);
        }
        let mut hidden = self.hidden.unwrap_or((0, ("file is", "files are")));
        if let Some(first) = self.first.take().filter(|_| self.hidden.is_none()) {
            let mut kept = first.into_sorted();
            for file in &mut kept {
                match self.show.stop.is_asked() {
                    false => file.ask(),
                    true => file.leave_unasked(),
                }
            }
            let most = self.show.most_in_tables.unwrap_or(usize::MAX);
            hidden.0 = self.candidates - kept.len().min(most) as u64;
            if !self.show.plan.maps && !self.tables.is_empty() {
                for file in kept.iter().take(most) {
                    self.tables.fit(&brief(&file.listed()));
                }
            }
            // One at a time: all of them may be many.
            for file in kept {
                self.write(file.listed())?;
            }
        }
        let mut total = total(&self.counting.answer);
        if let Some(time) = &self.time {
            total.labels.time = Measured::Exact(time.clone());
        }
        let show = &mut *self.show;
        let cannot_write = || format!("cannot write to {}", show.name);
        // Below a table without rows there is nothing to sum up.
        let below = (self.counting.answer.files > 0).then_some(&total);
        show.tables = ended(self.tables, below).with_context(cannot_write)?;
        if show.plan.repeated && !self.documents.is_empty() {
            show.stream = Some(Stream {
                writers: self.documents,
                total,
            });
        } else {
            show.documents = ended(self.documents, Some(&total)).with_context(cannot_write)?;
        }
        let (hidden, (one, many)) = hidden;
        if hidden > 0 && show.has_table {
            let noun = if hidden == 1 { one } else { many };
            tell(&format!(
                "note: {} more {noun} not shown; -n 0 shows all",
                cachewise_units::grouped(hidden)
            ));
        }
        let answer = self.counting.finish();
        show.notes = self.counting.notes;
        show.notes.next();
        Ok(answer)
    }

    fn write(&mut self, mut found: ListedFile) -> Result<()> {
        self.for_tables += 1;
        if self.show.plan.maps {
            return self.write_ranges(&found);
        }
        if self.show.plan.strips && found.counts.is_ok() {
            let parts = match self.show.room {
                Some(room) if room < NARROW => NARROW_STRIP,
                _ => STRIP,
            };
            let made = cachewise_residency::open(found.reached_by())
                .and_then(|file| strip(file.as_fd(), parts));
            match made {
                Ok(strip) => found.strip = Some(strip),
                // It was counted without being opened, and where its pages are is not known.
                Err(error) if is_not_opened(&error) => {}
                Err(error) => self.failed(&error.to_string()),
            }
        }
        if found.is_to_be_asked {
            found.ask();
        }
        if self.identifies && found.identity.is_none() {
            let inode = Inode::at(found.reached_by());
            found.identity = inode.ok().as_ref().map(Identity::from);
        }
        if !self.identifies {
            found.identity = None;
        }
        let brief = (!self.tables.is_empty()).then(|| brief(&found));
        let mut row = self.row.take().unwrap_or_else(|| Box::new(Row::of_file()));
        found.fill(&mut row);
        let written = self.row(&mut row, brief);
        self.row = Some(row);
        written
    }

    fn write_ranges(&mut self, found: &ListedFile) -> Result<()> {
        let mapped = cachewise_residency::open(found.reached_by())
            .and_then(|file| map(&file, ByteRange::starting_at(0)));
        let mapped = match mapped {
            Ok(mapped) => mapped,
            // That it is unknown was counted with the file.
            Err(error) if error.unknown().is_some() => {
                return self.row(&mut found.row(), Some(brief(found)));
            }
            Err(error) => {
                self.failed(&error.to_string());
                return Ok(());
            }
        };
        for range in mapped.ranges {
            let mut row = found.row();
            row.residency = residency(&Ok(Counts {
                total: range.len(),
                cached: range.len(),
                states: None,
            }));
            row.residency.first_page = Measured::Exact(range.start);
            row.residency.last_page = Measured::Exact(range.end - 1);
            self.row(&mut row, None)?;
        }
        Ok(())
    }
}
