//! Rows of `top`, interval by interval.

use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_model::{
    Field, Interval, Kind as FieldKind, Lost, Measured, ORDER, Row, Sum, Unit, field,
};
use cachewise_probe::Options;
use cachewise_tui::{ViewKind, arranged};
use cachewise_view::{Format, RowOptions, RowWriter, RowWriters, labelled_metrics, lost_text};

use super::arguments::Top;
use super::grouped::grouped;
use super::rows::row_of_unknowns;
use crate::machine::Followed;
use crate::watch::Watch;
use cachewise_cli::output::{Sink, Stream, is_broken_pipe, tell};
use cachewise_cli::signals::{self, Caught};
use cachewise_cli::sinks::Sinks;
use cachewise_cli::ticks::Ticks;

/// Rows between two headers on a terminal.
const HEADER_EVERY: usize = 40;

/// Default number of groups with metrics of their own (`--top`).
const GROUPS: usize = 20;

/// Writes rows until the count is reached, the process ends, or the user interrupts.
pub fn batch(
    arguments: &Top,
    fields: Vec<&'static Field>,
    followed: Option<Followed>,
    options: &Options,
    kernel: Kernel,
) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let labels = arguments.labels.read()?;
    let mut watch = Watch::open(options, kernel)?.labelled(labels);
    for note in &watch.backend().notes {
        tell(&format!("note: {note}"));
    }
    if !watch.backend().exact {
        tell("note: only the probe counts by process and file: `-` and null mean unknown, not 0");
    }
    let name = sinks.names();
    let (metrics, rows): (Vec<Sink>, Vec<Sink>) = sinks
        .into_iter()
        .partition(|sink| sink.format == Format::OpenMetrics);
    let rows = rows.into_iter().map(|sink| {
        let fits = sink.is_terminal && arguments.columns.is_none();
        let options = RowOptions {
            room: fits.then_some(sink.style.width),
            header_every: sink.is_terminal.then_some(HEADER_EVERY),
            ..sink.row_options()
        };
        let format = sink.format;
        RowWriter::new(sink, format, &fields, options)
    });
    let mut out = Out {
        rows: RowWriters::new(rows),
        metrics,
        sum: None,
    };
    let mut ticks = Ticks::new(&interrupts);
    let mut lost: Vec<Lost> = Vec::new();
    for shown in 1.. {
        let interrupted = ticks.next(arguments.pace().get())?;
        // Checked before the interval, which contains the last activity of the process.
        let ended = followed.as_ref().is_some_and(Followed::has_ended);
        let interval = watch.interval()?;
        tell_lost(&interval.lost);
        Lost::add(&mut lost, &interval.lost);
        let counted = interval.parts_missing().is_none();
        let is_last = interrupted || ended || arguments.count == Some(shown);
        let written = out.interval(interval, arguments);
        let written = match is_last {
            false => written,
            true => {
                let ended = out.finish(arguments, &fields, counted.then_some(&lost[..]));
                return written
                    .and(ended)
                    .map_or_else(|error| failed(error, &name), |()| Ok(ExitCode::SUCCESS));
            }
        };
        if let Err(error) = written {
            return failed(error, &name);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The end after an error of an output; a reader that has seen enough is none.
fn failed(error: std::io::Error, name: &str) -> Result<ExitCode> {
    let error = anyhow::Error::from(error);
    match is_broken_pipe(&error) {
        true => Ok(ExitCode::SUCCESS),
        false => Err(error).with_context(|| format!("cannot write to {name}")),
    }
}

struct Out {
    rows: RowWriters<Sink>,
    metrics: Vec<Sink>,
    /// Sum of all intervals: an exposition is written once, at the end.
    sum: Option<Box<Sum>>,
}

impl Out {
    fn interval(&mut self, interval: Interval, arguments: &Top) -> std::io::Result<()> {
        let mut written = Ok(());
        if !self.rows.is_empty() {
            for row in rows(&interval, arguments) {
                written = written.and(self.rows.write(&row));
            }
        }
        if !self.metrics.is_empty() {
            match &mut self.sum {
                Some(sum) => sum.add(interval),
                None => self.sum = Some(Box::new(Sum::of(interval))),
            }
        }
        written
    }

    fn finish(
        mut self,
        arguments: &Top,
        fields: &[&'static Field],
        lost: Option<&[Lost]>,
    ) -> std::io::Result<()> {
        if let Some(lost) = lost {
            self.rows.set_lost(lost);
        }
        let written = self.rows.finish(None).map(|_| ());
        let Some(sum) = self.sum else {
            return written;
        };
        let kind = arguments.view.kind();
        let whole = sum.whole();
        let mut rows = sorted(whole, arguments);
        rows.extend(unseen(whole, kind));
        let most = arguments.top.map_or(GROUPS, |top| top as usize);
        let groups = grouped(kind, rows, most);
        let page = cachewise_sys::page_size();
        // Without a probe 0 would say that nothing is missing.
        let losses = whole.parts_missing().is_none().then_some(&whole.lost[..]);
        let text = labelled_metrics(&groups, &metrics(kind, fields), page, losses)?;
        self.metrics.into_iter().fold(written, |written, mut sink| {
            let own = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
            written.and(own)
        })
    }
}

/// A gauge of one file or program would be misleading in a sum, so sums leave gauges out.
fn metrics(kind: ViewKind, fields: &[&'static Field]) -> Vec<&'static Field> {
    let summed = matches!(kind, ViewKind::Process | ViewKind::File);
    let fields = fields.iter().copied();
    fields
        .filter(|field| {
            let follows = matches!(field.unit, Unit::Ratio);
            !summed || field.kind == FieldKind::Counter || follows
        })
        .collect()
}

fn sorted(interval: &Interval, arguments: &Top) -> Vec<Row> {
    let kind = arguments.view.kind();
    let sort = arguments.sort.map(|sort| sort.0);
    let by = sort.or_else(|| field(ORDER[0]));
    let rows = arranged(kind, interval, by, arguments.filter.as_ref());
    let time = Measured::Exact(interval.time.clone());
    rows.into_iter()
        .map(|mut row| {
            row.labels.time = time.clone();
            row
        })
        .collect()
}

fn rows(interval: &Interval, arguments: &Top) -> Vec<Row> {
    let kind = arguments.view.kind();
    let mut rows = sorted(interval, arguments);
    if let Some(row) = unseen(interval, kind) {
        return vec![row];
    }
    if let Some(top) = arguments.top {
        rows.truncate(usize::try_from(top).unwrap_or(usize::MAX));
    }
    rows
}

/// The row of unknown values without the probe: no rows at all would mean no activity.
fn unseen(interval: &Interval, kind: ViewKind) -> Option<Row> {
    let missing = interval.parts_missing()?;
    let is_counted = matches!(kind, ViewKind::Process | ViewKind::File);
    is_counted.then(|| {
        let mut row = row_of_unknowns(kind, interval, missing);
        row.labels.time = Measured::Exact(interval.time.clone());
        row
    })
}

fn tell_lost(lost: &[Lost]) {
    for lost in lost {
        tell(&lost_text(lost));
    }
}
