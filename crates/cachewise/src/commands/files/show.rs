//! Output of files: streamed as they come, or the first rows of an order, with the total below.

use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result};
use cachewise_model::{Field, Labels, Measured, Reason, Row, Subject};
use cachewise_residency::{Counts, Inode, map};
use cachewise_units::ByteRange;
use cachewise_view::{Format, RowOptions, RowWriter};

use super::batched::Batched;
use super::counting::{Answer, Counting};
use super::fuse::is_not_opened;
use super::listed_file::{Identity, ListedFile, residency, strip, sum};
use super::notes::Notes;
use super::order::{First, Order};
use crate::interrupt::Stop;
use crate::machine;
use crate::options::FileLabels;
use crate::options::Output;
use cachewise_cli::output::{self, Sink, tell};

/// Default of `--top` for tables of directories and of the whole machine.
const TOP: usize = 20;

/// Number of ranges in a strip of `--histogram`, and on a narrow screen.
const STRIP: u64 = 32;
const NARROW_STRIP: u64 = 16;
const NARROW: usize = 80;

/// Where rows go, and which.
pub struct Show {
    sink: Option<Sink>,
    /// The output of a document without rows, which ends the list.
    raw: Option<Sink>,
    name: String,
    format: Format,
    room: Option<usize>,
    /// `None`: as they come.
    order: Option<Order>,
    most: Option<usize>,
    plan: Plan,
    /// Notes that were printed for this list before.
    notes: Notes,
    /// A repeated list in a machine format: its repetitions are one document.
    stream: Option<Stream>,
    stop: Stop,
}

/// A document with several repetitions, and the total of the last one.
struct Stream {
    writer: RowWriter<Batched>,
    total: Row,
}

/// Which rows are shown, and how.
#[derive(Debug)]
pub struct Plan {
    pub columns: Vec<&'static Field>,
    /// They were chosen by the user: all are shown, whether there is room or not.
    pub columns_are_chosen: bool,
    /// Every file was named, so every one is wanted: not just the first few.
    pub all_are_named: bool,
    pub order: Order,
    /// Whether `--sort` or `--reverse` was given.
    pub order_is_chosen: bool,
    /// Maximum number of rows; 0 shows all.
    pub top: Option<usize>,
    pub only_cached: bool,
    pub maps: bool,
    pub strips: bool,
    pub repeated: bool,
    pub labels: Option<FileLabels>,
}

impl Show {
    /// Opens the output.
    pub fn open(output: &Output, mut plan: Plan) -> Result<Show> {
        let sink = match plan.repeated {
            true => Sink::open(output, output::Stream::Stdout)?,
            false => Sink::open_whole(output, output::Stream::Stdout)?,
        };
        let is_table = sink.format == Format::Table;
        if plan.repeated && matches!(sink.format, Format::Csv | Format::Json) {
            // Rows of different looks stand in one document.
            plan.columns.splice(0..0, cachewise_model::field("time"));
        }
        if sink.format == Format::OpenMetrics {
            // A series that is not there has no room for a reason; a sum of a part has to say so.
            plan.columns.extend(cachewise_model::field("unknown_files"));
        }
        // Whatever is under a directory is too much for a table.
        let is_cut = is_table && !plan.all_are_named;
        let most = match plan.top {
            Some(0) => None,
            Some(top) => Some(top),
            None => is_cut.then_some(TOP),
        };
        let is_ordered = plan.order_is_chosen || most.is_some() || is_cut;
        Ok(Show {
            name: sink.name().to_owned(),
            format: sink.format,
            room: (is_table && sink.is_terminal && !plan.columns_are_chosen)
                .then_some(sink.style.width),
            // A screen that is drawn anew has to have all notes anew.
            notes: Notes::new(plan.repeated && !(is_table && sink.is_terminal)),
            sink: Some(sink),
            raw: None,
            order: is_ordered.then_some(plan.order),
            most,
            plan,
            stream: None,
            stop: Stop::default(),
        })
    }

    /// Says whether the order in which files come is the one in which they are shown.
    pub fn keeps_order(&self) -> bool {
        self.order.is_none()
    }

    /// Has the list end early, with what was found until then.
    pub fn end_early(&mut self, stop: Stop) {
        self.stop = stop;
    }

    /// Whether the list is to end.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The order of `--sort`, and the maximum number of rows.
    pub fn chosen_order(&self) -> Option<(Order, Option<usize>)> {
        self.order.map(|order| (order, self.most))
    }

    /// Counts files that are shown in another way.
    pub fn count(&mut self) -> Counting {
        Counting::new(std::mem::take(&mut self.notes))
    }

    /// Tells something of the whole list.
    pub fn note(&mut self, text: &str) {
        self.notes.tell(text);
    }

    /// Writes something that is no rows.
    pub fn raw(&mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let sink = self.sink.take().context("the output is closed")?;
        let mut out = BufWriter::new(sink);
        let written = write(&mut out).and_then(|()| {
            let ended = out.into_inner();
            ended.map_err(std::io::IntoInnerError::into_error)
        });
        self.raw = Some(written.with_context(|| format!("cannot write to {}", self.name))?);
        Ok(())
    }

    /// Replaces the output file with the complete one. Without this call, the old file stays.
    pub fn keep(&mut self) -> Result<()> {
        let sink = self.sink.take().or(self.raw.take());
        sink.map_or(Ok(()), Sink::keep)
    }

    /// Adds a line below a table.
    pub fn line(&mut self, text: &str) -> Result<()> {
        match &mut self.sink {
            Some(sink) if self.format == Format::Table => {
                writeln!(sink, "{text}").with_context(|| format!("cannot write to {}", self.name))
            }
            // A repeated document has no line about each repetition.
            _ if self.plan.repeated => Ok(()),
            _ => {
                tell(text);
                Ok(())
            }
        }
    }

    /// Begins a list.
    pub fn begin(&mut self) -> Result<Listing<'_>> {
        let timestamp = machine::timestamp();
        let writer = match self.stream.take() {
            Some(stream) => stream.writer,
            None => self.writer(&timestamp)?,
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
            show: self,
            writer,
            candidates: 0,
            hidden: None,
        })
    }

    fn writer(&mut self, timestamp: &str) -> Result<RowWriter<Batched>> {
        let mut sink = self.sink.take().context("the output is closed")?;
        if self.plan.repeated && self.format == Format::Table {
            // Home, and what is below cleared: no flicker.
            let clear = if sink.is_terminal { "\x1b[H\x1b[J" } else { "" };
            writeln!(sink, "{clear}{timestamp}")
                .with_context(|| format!("cannot write to {}", self.name))?;
        }
        let options = RowOptions {
            timestamp: timestamp.to_owned(),
            room: self.room,
            ..sink.row_options()
        };
        let out = Batched::new(sink, self.plan.repeated);
        Ok(RowWriter::new(
            out,
            self.format,
            &self.plan.columns,
            options,
        ))
    }

    /// Ends a document with several repetitions.
    pub fn close(&mut self) -> Result<()> {
        if let Some(Stream { writer, total }) = self.stream.take() {
            let finished = writer.finish(Some(&total)).and_then(Batched::end);
            finished.with_context(|| format!("cannot write to {}", self.name))?;
        }
        Ok(())
    }
}

/// A list that is being made.
pub struct Listing<'a> {
    show: &'a mut Show,
    writer: RowWriter<Batched>,
    /// `None`: rows are written as they come.
    first: Option<First>,
    /// Whether device and inode of files are shown.
    identifies: bool,
    /// When it was begun, if rows are to tell.
    time: Option<String>,
    counting: Counting,
    /// How many could have been shown.
    candidates: u64,
    /// How many of what are not shown.
    hidden: Option<(u64, (&'static str, &'static str))>,
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
        rows.iter().for_each(|row| self.writer.fit(row));
        rows.into_iter().try_for_each(|row| self.row(row))
    }

    /// The order of `--sort`, and the maximum number of rows.
    pub fn chosen_order(&self) -> Option<(Order, Option<usize>)> {
        self.show.chosen_order()
    }

    fn row(&mut self, mut row: Row) -> Result<()> {
        if let Some(time) = &self.time {
            row.labels.time = Measured::Exact(time.clone());
        }
        if let Some(labels) = &self.show.plan.labels {
            labels.apply_to_row(&mut row);
        }
        let writer = &mut self.writer;
        self.counting
            .aside(|| writer.write(&row))
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
            let mut found: Vec<ListedFile> = first.into_sorted().collect();
            for found in &mut found {
                let is_to_be_asked = std::mem::take(&mut found.is_to_be_asked);
                if is_to_be_asked && !self.show.stop.is_asked() {
                    found.ask();
                }
            }
            hidden.0 = self.candidates - found.len() as u64;
            if !self.show.plan.maps {
                for found in &mut found {
                    self.abbreviate(found);
                    self.writer.fit(&found.row());
                }
            }
            for found in found {
                self.write(found)?;
            }
        }
        let mut total = total(&self.counting.answer);
        if let Some(time) = &self.time {
            total.labels.time = Measured::Exact(time.clone());
        }
        let Show {
            sink,
            name,
            format,
            plan,
            stream,
            notes,
            ..
        } = self.show;
        if plan.repeated && *format != Format::Table {
            *stream = Some(Stream {
                writer: self.writer,
                total,
            });
        } else {
            // Below a table without rows there is nothing to sum up.
            let is_empty = *format == Format::Table && self.counting.answer.files == 0;
            let total = (!is_empty).then_some(&total);
            let finished = self.writer.finish(total).and_then(Batched::end);
            *sink = Some(finished.with_context(|| format!("cannot write to {name}"))?);
        }
        let (hidden, (one, many)) = hidden;
        if hidden > 0 && *format == Format::Table {
            let noun = if hidden == 1 { one } else { many };
            tell(&format!(
                "note: {hidden} more {noun} not shown; -n 0 shows all"
            ));
        }
        let answer = self.counting.finish();
        *notes = self.counting.notes;
        notes.next();
        Ok(answer)
    }

    /// Shortens notes for tables; the reason for unknown numbers is printed once below the table.
    fn abbreviate(&self, found: &mut ListedFile) {
        if self.show.format != Format::Table {
            return;
        }
        if found.counts.is_err() && found.note.is_none() {
            found.note = Some("unknown".to_owned());
        }
        if let Some(brief) = found.brief.take() {
            found.note = Some(brief);
        }
    }

    fn write(&mut self, mut found: ListedFile) -> Result<()> {
        self.abbreviate(&mut found);
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
        self.row(found.row())
    }

    fn write_ranges(&mut self, found: &ListedFile) -> Result<()> {
        let mapped = cachewise_residency::open(found.reached_by())
            .and_then(|file| map(&file, ByteRange::starting_at(0)));
        let mapped = match mapped {
            Ok(mapped) => mapped,
            // That it is unknown was counted with the file.
            Err(error) if error.unknown().is_some() => return self.row(found.row()),
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
            self.row(row)?;
        }
        Ok(())
    }
}

/// The total of all, shown or not.
fn total(answer: &Answer) -> Row {
    let mut row = sum_row(
        Path::new("(all)"),
        answer.files,
        answer.unknown,
        answer.size,
        &answer.counts,
    );
    if let Some(why) = answer.partial {
        row.residency = row.residency.estimated(why);
    }
    if answer.unknown > 0 {
        row.labels.note = Measured::Exact(format!("without {} unknown", answer.unknown));
    }
    if let Some(change) = &answer.change {
        row.subject.resident_before_pages = change.before.measured();
        row.subject.resident_after_pages = change.after.measured();
    }
    row
}

/// A row that sums up files, of which some may be unknown.
pub fn sum_row(path: &Path, files: u64, unknown: u64, size: u64, counts: &Counts) -> Row {
    let mut row = Row::of_file();
    row.labels = Labels {
        path: Measured::Exact(path.to_owned()),
        ..Labels::default()
    };
    row.subject = Subject {
        file_size_bytes: Measured::Exact(size),
        ..row.subject
    };
    row.residency = sum(files, unknown, counts);
    row
}
