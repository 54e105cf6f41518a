//! How files are shown: streamed as they come, or the first few of an order, with the total below.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_model::{Field, Labels, Measured, Row, Subject};
use cachewise_residency::{Counts, map};
use cachewise_sys::page_size;
use cachewise_units::ByteRange;
use cachewise_view::{Format, RowOptions, RowWriter};

use super::found::{Found, residency, strip};
use super::order::{First, Order};
use crate::cli::Output;
use crate::machine;
use crate::output::{Sink, Stream, tell};
use crate::progress::Progress;

/// Rows of a table of more than what was named, unless --top says otherwise.
const TOP: usize = 20;

/// Stretches of a strip of where the resident pages are.
const STRIP: u64 = 32;

/// Failures that are told one by one; of the rest only their number.
const TOLD: u64 = 10;

/// What all files come to.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Those that could be looked at, shown or not.
    pub files: u64,
    /// Those of them whose residency nobody tells us.
    pub unknown: u64,
    /// What could not be looked at.
    pub failed: u64,
    pub size: u64,
    pub counts: Counts,
    /// Pages that were resident before something was done.
    pub before: Option<u64>,
}

impl Answer {
    const NOTHING: Answer = Answer {
        files: 0,
        unknown: 0,
        failed: 0,
        size: 0,
        counts: Counts::ZERO,
        before: None,
    };
}

/// Counts what comes, and tells of what cannot be looked at.
pub struct Counting {
    pub answer: Answer,
    vanished: u64,
    progress: Progress,
}

impl Counting {
    fn new() -> Counting {
        Counting {
            answer: Answer::NOTHING,
            vanished: 0,
            progress: Progress::new("files"),
        }
    }

    /// Leaves it to something else to show how far the work is.
    pub fn quietly(&mut self) {
        self.progress = Progress::silent();
    }

    /// Counts a file.
    pub fn add(&mut self, size: u64, counts: Result<Counts, &'static str>) {
        self.answer.files += 1;
        self.answer.size += size;
        match counts {
            Ok(counts) => self.answer.counts += counts,
            Err(_) => self.answer.unknown += 1,
        }
        self.progress.at(self.answer.files);
    }

    /// Takes in what could not be looked at.
    pub fn failed(&mut self, error: &str) {
        self.answer.failed += 1;
        if self.answer.failed <= TOLD {
            self.progress.end();
            tell(error);
        }
    }

    /// Takes in a file that was gone when its turn came: nobody would miss it in a list of what there is.
    pub fn vanished(&mut self) {
        self.vanished += 1;
    }

    /// Tells what is not in the sums.
    pub fn finish(mut self) -> Answer {
        self.progress.end();
        let Answer {
            files,
            unknown,
            failed,
            ..
        } = self.answer;
        if failed > TOLD {
            tell(&format!("and {} more", failed - TOLD));
        }
        if self.vanished > 0 {
            tell(&format!(
                "note: {} files were gone when their turn came",
                self.vanished
            ));
        }
        if unknown > 0 {
            tell(&format!(
                "note: of {unknown} of {files} files residency is unknown, and they are in no sum: \
                 --columns note,path shows why"
            ));
        }
        self.answer
    }
}

/// Where rows go, and which.
pub struct Show {
    sink: Option<Sink>,
    name: String,
    format: Format,
    room: Option<usize>,
    /// `None`: as they come.
    order: Option<Order>,
    most: Option<usize>,
    plan: Plan,
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
    /// The user asked for that order.
    pub order_is_chosen: bool,
    /// The user asked for so many rows; 0 is all.
    pub top: Option<usize>,
    pub only_cached: bool,
    pub maps: bool,
    pub strips: bool,
    pub repeated: bool,
}

impl Show {
    /// Opens the output.
    pub fn open(output: &Output, plan: Plan) -> Result<Show> {
        let sink = Sink::open(output, Stream::Stdout)?;
        let is_table = sink.format == Format::Table;
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
            sink: Some(sink),
            order: is_ordered.then_some(plan.order),
            most,
            plan,
        })
    }

    /// Says whether the order in which files come is the one in which they are shown.
    pub fn keeps_order(&self) -> bool {
        self.order.is_none()
    }

    /// Counts files that are shown in another way.
    pub fn count(&self) -> Counting {
        Counting::new()
    }

    /// Writes something that is no rows.
    pub fn raw(&mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let sink = self.sink.take().context("the output is closed")?;
        let mut out = BufWriter::new(sink);
        write(&mut out)
            .and_then(|()| out.flush())
            .with_context(|| format!("cannot write to {}", self.name))
    }

    /// Adds a line below a table.
    pub fn line(&mut self, text: &str) -> Result<()> {
        match &mut self.sink {
            Some(sink) if self.format == Format::Table => {
                writeln!(sink, "{text}").with_context(|| format!("cannot write to {}", self.name))
            }
            _ => {
                tell(text);
                Ok(())
            }
        }
    }

    /// Begins a list.
    pub fn begin(&mut self) -> Result<Listing<'_>> {
        let sink = self.sink.take().context("the output is closed")?;
        let options = RowOptions {
            timestamp: machine::timestamp(),
            hostname: Kernel::new().hostname().unwrap_or_else(|_| "?".into()),
            page_size: page_size(),
            style: sink.style,
            room: self.room,
            header_every: None,
        };
        if self.plan.repeated && sink.is_terminal && sink.format == Format::Table {
            clear_screen(&options.timestamp);
        }
        let writer = RowWriter::new(sink, self.format, &self.plan.columns, options);
        Ok(Listing {
            first: self.order.map(|order| First::new(order, self.most)),
            show: self,
            writer,
            counting: Counting::new(),
            candidates: 0,
        })
    }
}

/// A list that is being made.
pub struct Listing<'a> {
    show: &'a mut Show,
    writer: RowWriter<Sink>,
    /// `None`: rows are written as they come.
    first: Option<First>,
    counting: Counting,
    /// How many could have been shown.
    candidates: u64,
}

impl Listing<'_> {
    /// Takes a file in; it is made only if it is to be shown.
    pub fn file(
        &mut self,
        size: u64,
        counts: Result<Counts, &'static str>,
        make: impl FnOnce() -> Found,
    ) -> Result<()> {
        self.counting.add(size, counts);
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
    pub fn changed(&mut self, found: Found, rank: fn(u64, u64) -> u64) -> Result<()> {
        self.counting.add(found.size, found.counts);
        if let (Some(Ok(before)), Ok(after)) = (found.before, found.counts) {
            *self.counting.answer.before.get_or_insert(0) += before;
            let rank = rank(before, after.cached.0);
            if let Some(first) = &mut self.first {
                self.candidates += 1;
                first.offer(Some(rank.into()), || found);
                return Ok(());
            }
        } else if let Some(first) = &mut self.first {
            self.candidates += 1;
            first.offer(None, || found);
            return Ok(());
        }
        self.write(found)
    }

    /// Takes in what could not be looked at.
    pub fn failed(&mut self, error: &str) {
        self.counting.failed(error);
    }

    /// Counts on their own what is not listed.
    pub fn counting(&mut self) -> &mut Counting {
        &mut self.counting
    }

    /// Takes in a row that is no file.
    pub fn row(&mut self, row: &Row) -> Result<()> {
        self.writer
            .write(row)
            .with_context(|| format!("cannot write to {}", self.show.name))
    }

    /// Writes what is left to be written, and the total.
    pub fn finish(mut self) -> Result<Answer> {
        self.counting.progress.end();
        let mut hidden = 0;
        if let Some(first) = self.first.take() {
            let mut found: Vec<Found> = first.into_sorted().collect();
            for found in &mut found {
                if std::mem::take(&mut found.is_to_be_asked) {
                    found.ask();
                }
            }
            hidden = self.candidates - found.len() as u64;
            if !self.show.plan.maps {
                found.iter().for_each(|found| self.writer.fit(&found.row()));
            }
            for found in found {
                self.write(found)?;
            }
        }
        // Below a table without rows there is nothing to sum up.
        let is_empty = self.show.format == Format::Table && self.counting.answer.files == 0;
        let total = (!is_empty).then(|| total(&self.counting.answer));
        let Show { sink, name, .. } = self.show;
        *sink = Some(
            self.writer
                .finish(total.as_ref())
                .with_context(|| format!("cannot write to {name}"))?,
        );
        if hidden > 0 && self.show.format == Format::Table {
            tell(&format!(
                "note: {hidden} more files are not shown; -n 0 shows all"
            ));
        }
        Ok(self.counting.finish())
    }

    fn write(&mut self, mut found: Found) -> Result<()> {
        if self.show.plan.maps {
            return self.write_ranges(&found);
        }
        if self.show.plan.strips && found.counts.is_ok() {
            let made = cachewise_residency::open(found.reached_by())
                .and_then(|file| strip(std::os::fd::AsFd::as_fd(&file), STRIP));
            match made {
                Ok(strip) => found.strip = Some(strip),
                Err(error) => self.failed(&error.to_string()),
            }
        }
        if found.is_to_be_asked {
            found.ask();
        }
        self.row(&found.row())
    }

    fn write_ranges(&mut self, found: &Found) -> Result<()> {
        let mapped = cachewise_residency::open(found.reached_by())
            .and_then(|file| map(&file, ByteRange::starting_at(0)));
        let mapped = match mapped {
            Ok(mapped) => mapped,
            // That it is unknown was counted with the file.
            Err(error) if error.unknown().is_some() => return self.row(&found.row()),
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
            self.row(&row)?;
        }
        Ok(())
    }
}

/// The total of all, shown or not.
fn total(answer: &Answer) -> Row {
    let mut row = sum_row(
        Path::new("(all)"),
        answer.files,
        answer.size,
        &answer.counts,
    );
    if answer.unknown > 0 {
        row.labels.note = Measured::Exact(format!("without {} unknown", answer.unknown));
    }
    if let Some(before) = answer.before {
        row.subject.resident_before_pages = Measured::Exact(before);
        row.subject.resident_after_pages = Measured::Exact(answer.counts.cached.0);
    }
    row
}

/// A row that sums up files.
pub fn sum_row(path: &Path, files: u64, size: u64, counts: &Counts) -> Row {
    let mut row = Row::of_file();
    row.labels = Labels {
        path: Measured::Exact(path.to_owned()),
        ..Labels::default()
    };
    row.subject = Subject {
        file_size_bytes: Measured::Exact(size),
        ..row.subject
    };
    row.residency = residency(&Ok(*counts));
    row.residency.files = Measured::Exact(files);
    row
}

/// A fresh screen with the time on top.
fn clear_screen(timestamp: &str) {
    // Home, and what is below cleared: no flicker. If the terminal is gone, writing rows will say so.
    let _ = writeln!(std::io::stdout(), "\x1b[H\x1b[J{timestamp}");
}
