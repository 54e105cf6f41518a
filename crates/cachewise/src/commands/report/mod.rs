//! `report`: summary of a recording.
//!
//! # Layout
//! - `compare`: the changes between two reports
//! - `when`: times as users write them
//! - `pick`: a part of the machine
//! - `step`: sample by sample, on the terminal
//! - this file: selection and output

pub mod arguments;
mod compare;
mod ending;
mod pick;
mod range;
mod step;
mod when;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_model::{Field, Interval, Lost, Row, Statistics, redact_arguments};
use cachewise_recording::{ErrorKind, Range, Reader, Sample, TargetFile, check_target, summarize};
use cachewise_view::{
    Format, RowOptions, RowWriter, RowWriters, SummaryOptions, lost_text, write_summary,
};
use cachewise_web::ReportSamples;

use crate::options::OpenStackFiles;
use arguments::{Of, Report};
use cachewise_cli::output::{Sink, Stream, tell, write_whole};
use cachewise_cli::sinks::Sinks;
pub use compare::COMPARED_COLUMNS;
use ending::{finish, judged, nothing_in};
use pick::Picked;
use range::range;

/// Number of rows after which the header is repeated, on a terminal.
const HEADER_EVERY: usize = 40;

/// The error, with what reads a JSON report.
fn explained(error: cachewise_recording::Error) -> anyhow::Error {
    match error.kind {
        ErrorKind::Json => anyhow::anyhow!("{error}; --compare OLD NEW compares two JSON reports"),
        _ => error.into(),
    }
}

/// Shows a recording.
pub fn report(arguments: &Report) -> Result<ExitCode> {
    if let Some([old, new]) = arguments.compare.as_deref() {
        return compare::compare(arguments, old, new);
    }
    let fields = arguments.fields().map_err(anyhow::Error::msg)?;
    if arguments.tui {
        step::check_terminal()?;
    }
    let mut reader = Reader::open(arguments.file()).map_err(explained)?;
    let range = range(arguments)?;
    if arguments.tui {
        return step::step(arguments, range);
    }
    if arguments.series {
        return series(arguments, &mut reader, range, &fields);
    }
    let stack_files = arguments.stack_files.open()?;
    if let Some(page) = &arguments.html {
        return html(arguments, &mut reader, range, page, stack_files);
    }
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let mut picked = Picked::of(&arguments.selection);
    let keep = |sample: &mut Sample, _: Option<&_>| {
        if let Some(picked) = &mut picked {
            picked.keep(&mut sample.interval);
        }
        Ok::<(), anyhow::Error>(())
    };
    let summary = summarize(&mut reader, range, keep)?;
    let Some(mut summary) = summary else {
        return nothing_in(arguments, &reader.told());
    };
    check(picked.as_ref(), arguments, &mut summary)?;
    if arguments.redact_args {
        redact_arguments(&mut summary.command);
    }
    if let Some(labels) = arguments.labels.read()? {
        labels.apply(&mut summary.total);
        summary.diagnosis.name_subjects(&summary.total);
    }
    write_stacks(stack_files, arguments, &summary)?;
    judged(
        write(sinks, arguments, &summary, &fields),
        arguments,
        &summary,
    )
}

/// Fails if nothing was selected; names the part in the report.
fn check(picked: Option<&Picked>, arguments: &Report, summary: &mut Statistics) -> Result<()> {
    if let Some(picked) = picked {
        picked.check()?;
        summary.scope = pick::part(&arguments.selection, &summary.scope);
    }
    Ok(())
}

/// The files of stacks, of a recording that has stacks.
fn write_stacks(files: OpenStackFiles, arguments: &Report, summary: &Statistics) -> Result<()> {
    if arguments.stack_files.is_wanted() && summary.total.stacks.is_none() {
        bail!(
            "{} has no stacks: record them with cachewise record --stacks",
            arguments.file().display()
        );
    }
    files.write(&summary.total)
}

/// Figures over everything.
fn write(
    sinks: Sinks,
    arguments: &Report,
    summary: &Statistics,
    fields: &[&'static Field],
) -> Result<()> {
    sinks.write(|sink| {
        let options = SummaryOptions {
            style: sink.style,
            top: arguments.top,
            columns: arguments.columns.as_ref().map(|_| fields.to_vec()),
        };
        let format = sink.format;
        Ok(write_summary(sink, format, summary, &options)?)
    })
}

/// Every sample.
fn series(
    arguments: &Report,
    reader: &mut Reader,
    range: Range,
    fields: &[&'static Field],
) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let name = sinks.names();
    let cannot_write = || format!("cannot write to {name}");
    let mut sinks = Some(sinks);
    let mut writer: Option<RowWriters<Sink>> = None;
    let (mut lost, mut counted): (Vec<Lost>, bool) = (Vec::new(), false);
    let labels = arguments.labels.read()?;
    let mut picked = Picked::of(&arguments.selection);
    while let Some(mut sample) = reader.next()? {
        if !range.has(&sample) {
            continue;
        }
        if let Some(picked) = &mut picked {
            picked.keep(&mut sample.interval);
        }
        if let Some(labels) = &labels {
            labels.apply(&mut sample.interval);
        }
        if let Some(sinks) = sinks.take() {
            let interval = &sample.interval;
            let fits = arguments.columns.is_none();
            writer = Some(sinks.writers(|sink| series_writer(sink, interval, fields, fits)));
        }
        let Some(writer) = &mut writer else { continue };
        Lost::add(&mut lost, &sample.interval.lost);
        counted |= sample.interval.parts_missing().is_none();
        for row in rows(&sample, arguments.of) {
            if let Err(error) = writer.write(&row) {
                return finish(Err(error).with_context(cannot_write), &[]);
            }
        }
    }
    let problems = reader.told();
    let Some(mut writer) = writer else {
        return nothing_in(arguments, &problems);
    };
    if let Some(picked) = &picked {
        picked.check()?;
    }
    for lost in &lost {
        tell(&lost_text(lost));
    }
    if counted {
        writer.set_lost(&lost);
    }
    let finished = writer.finish(None).with_context(cannot_write);
    let finished = finished.and_then(|sinks| Sinks::from(sinks).keep());
    finish(finished, &problems)
}

/// A writer of rows of the recorded machine, whose first sample is this one.
fn series_writer(
    sink: Sink,
    first: &Interval,
    fields: &[&'static Field],
    fits: bool,
) -> RowWriter<Sink> {
    let is_watched = sink.is_terminal && sink.format == Format::Table;
    let page_size = first.source.page_size;
    let options = RowOptions {
        timestamp: first.time.clone(),
        hostname: first.source.hostname.clone(),
        page_size: page_size.unwrap_or_else(cachewise_sys::page_size),
        style: sink.style,
        room: (is_watched && fits).then_some(sink.style.width),
        header_every: is_watched.then_some(HEADER_EVERY),
    };
    let format = sink.format;
    RowWriter::new(sink, format, fields, options)
}

fn rows(sample: &Sample, of: Of) -> Vec<Row> {
    let interval = &sample.interval;
    match of {
        Of::Machine => vec![interval.row()],
        Of::Processes => interval.process_rows().collect(),
        Of::Files => interval.file_rows().collect(),
        Of::Cgroups => interval.cgroup_rows().collect(),
        Of::Devices => interval.device_rows().collect(),
    }
}

/// The page of a recording.
fn html(
    arguments: &Report,
    reader: &mut Reader,
    range: Range,
    page: &Path,
    stack_files: OpenStackFiles,
) -> Result<ExitCode> {
    if matches!(check_target(page), Ok(TargetFile::Recording)) {
        bail!(
            "cannot write the page to {}: it is a recording; name another file",
            page.display()
        );
    }
    let mut samples = ReportSamples::default();
    let mut picked = Picked::of(&arguments.selection);
    let summary = summarize(reader, range, |sample, gap| {
        if let Some(picked) = &mut picked {
            picked.keep(&mut sample.interval);
        }
        samples.add(
            &sample.interval,
            gap.is_some_and(|gap| gap.kind.loses_counts()),
        );
        Ok::<(), anyhow::Error>(())
    })?;
    let Some(mut summary) = summary else {
        return nothing_in(arguments, &reader.told());
    };
    check(picked.as_ref(), arguments, &mut summary)?;
    if arguments.redact_args {
        redact_arguments(&mut summary.command);
    }
    if let Some(labels) = arguments.labels.read()? {
        labels.apply(&mut summary.total);
        summary.diagnosis.name_subjects(&summary.total);
    }
    write_stacks(stack_files, arguments, &summary)?;
    let text = cachewise_web::report_page(&summary, &samples, env!("CARGO_PKG_VERSION"));
    if page == Path::new("-") {
        let written = std::io::stdout().write_all(text.as_bytes());
        let written = written.context("cannot write to standard output");
        return judged(written, arguments, &summary);
    }
    write_whole(page, text.as_bytes())
        .with_context(|| format!("cannot write the page {}", page.display()))?;
    tell(&format!(
        "{}: {} samples; open it in a browser",
        page.display(),
        summary.samples,
    ));
    judged(Ok(()), arguments, &summary)
}
