//! `order`: files and ranges in the order in which reading them costs the least I/O.

pub mod arguments;
mod rows;
mod simulated;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_model::{Measured, Reason, Row};
use cachewise_residency::order::{History, Plan, PlanStep, RangeClass, Survey, plan, survey_until};
use cachewise_residency::{Error, WalkItem};
use cachewise_units::{ByteRange, Bytes, escaped};

use crate::columns::fields;
use crate::commands::files::{Counting, Notes, plan as plan_walk, skipped};
use crate::interrupt::{Interrupt, Stop};
use arguments::{OrderFiles, Unit};
use cachewise_cli::output::{Sink, Stream, status, tell};
use cachewise_cli::sinks::Sinks;
use rows::row_writer;

/// Prints files, or ranges of them, in the order in which to read them.
pub fn order(mut arguments: OrderFiles) -> Result<ExitCode> {
    arguments
        .list
        .add_to(&mut arguments.paths, arguments.null)?;
    let arguments = &arguments;
    if arguments.shuffle.is_some() && arguments.unit == Unit::File && arguments.simulate.is_none() {
        bail!("--shuffle needs ranges: add --unit range");
    }
    let mut counting = Counting::new(Notes::new(false));
    counting.quietly();
    let interrupt = Interrupt::catch()?;
    let paths = expanded(arguments, &interrupt, &mut counting)?;
    let survey = survey_until(&paths, None, interrupt.flag());
    for error in &survey.skipped {
        skipped(&arguments.paths, error, &mut counting);
    }
    let is_failed = counting.finish().failed > 0;
    if let Some(memory) = arguments.simulate {
        if let Some(status) = interrupt.status() {
            tell("interrupted: nothing was simulated, as not all files were examined");
            return Ok(status);
        }
        // By their sizes, whatever is resident.
        simulated::show(arguments, &survey, memory)?;
        return Ok(status(is_failed));
    }
    for note in unknown(&survey.unknown, &survey.paths.len().to_string()) {
        tell(&format!("{note} They keep the order given."));
    }
    let plan = plan(&survey.snapshot, &History::default(), &arguments.options());
    if arguments.explain {
        explain(&plan);
    }
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let name = sinks.names();
    let is_default = arguments.output.output.is_empty() && !arguments.output.json;
    let is_plain = is_default && arguments.columns.is_none();
    let written = |sink| match is_plain {
        true => write_plain(sink, arguments, &survey, &plan),
        false => write_rows(sink, arguments, &survey, &plan),
    };
    let sinks = sinks.into_iter().map(written);
    let sinks: Vec<Sink> = sinks
        .collect::<io::Result<_>>()
        .with_context(|| format!("cannot write to {name}"))?;
    if let Some(status) = interrupt.status() {
        // A file takes its place when it is complete.
        let files = sinks.iter().map(Sink::name);
        let files = files.filter(|name| *name != Stream::Stdout.name());
        let kept: String = files
            .map(|name| format!("; {name} was not written"))
            .collect();
        tell(&format!(
            "interrupted: the order covers the {} files of {} that were examined so far{kept}",
            survey.paths.len(),
            paths.len()
        ));
        return Ok(status);
    }
    Sinks::from(sinks).keep()?;
    Ok(status(is_failed || !survey.unknown.is_empty()))
}

/// The files that were given, and those under directories, in the order of their paths.
fn expanded(
    arguments: &OrderFiles,
    interrupt: &Interrupt,
    counting: &mut Counting,
) -> Result<Vec<PathBuf>> {
    let stop = Stop::at(interrupt);
    let mut all = Vec::new();
    for path in &arguments.paths {
        // Everything but a directory stays as named: the survey reports its errors.
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let begin = all.len();
        stop.ends(plan_walk(&arguments.select, &[path])?)
            .run(|met| {
                match met {
                    WalkItem::File(entry) => all.push(entry.path()),
                    WalkItem::Skipped(error) => skipped(&arguments.paths, error, counting),
                }
                ControlFlow::Continue(())
            });
        all[begin..].sort_unstable();
    }
    Ok(all)
}

fn write_plain(
    sink: Sink,
    arguments: &OrderFiles,
    survey: &Survey,
    plan: &Plan,
) -> io::Result<Sink> {
    // Programs get the bytes of a name; a terminal gets text that it does not act on.
    let escapes = sink.is_terminal && !arguments.null;
    let name = |file: usize| match &survey.paths[file] {
        path if escapes => Cow::Owned(escaped(&**path).into_owned().into_bytes()),
        path => Cow::Borrowed(path.as_os_str().as_bytes()),
    };
    let mut out = io::BufWriter::new(sink);
    let end = if arguments.null { b'\0' } else { b'\n' };
    match arguments.unit {
        Unit::File => {
            for file in files(survey, plan) {
                out.write_all(&name(file))?;
                out.write_all(&[end])?;
            }
        }
        Unit::Range => {
            for run in ranges(plan) {
                out.write_all(&name(run.file))?;
                let (start, len) = (run.range.start, run.range.len);
                write!(out, "\t{start}\t{len}\t{}", class(run.class))?;
                out.write_all(&[end])?;
            }
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

fn write_rows(
    sink: Sink,
    arguments: &OrderFiles,
    survey: &Survey,
    plan: &Plan,
) -> io::Result<Sink> {
    const FILE: [&str; 3] = ["file_size_bytes", "resident_bytes", "path"];
    const RANGE: [&str; 4] = ["offset", "length", "note", "path"];
    let columns = match (&arguments.columns, arguments.unit) {
        (Some(columns), _) => columns.0.clone(),
        (None, Unit::File) => fields(&FILE),
        (None, Unit::Range) => fields(&RANGE),
    };
    let mut writer = row_writer(sink, &columns);
    let row_of = |file: usize| {
        let mut row = Row::of_file();
        row.labels.path = Measured::Exact(survey.paths[file].to_path_buf());
        row
    };
    match arguments.unit {
        Unit::File => {
            for file in files(survey, plan) {
                let state = &survey.snapshot.files[file];
                let mut row = row_of(file);
                row.subject.file_size_bytes = Measured::Exact(state.size.0);
                row.residency.resident_bytes = match state.resident_in(ByteRange::starting_at(0)) {
                    Some(bytes) => Measured::Exact(bytes.0),
                    None => Measured::unknown(Reason::PlanResidencyUnknown),
                };
                writer.write(&row)?;
            }
        }
        Unit::Range => {
            for run in ranges(plan) {
                let mut row = row_of(run.file);
                row.residency.offset = Measured::Exact(run.range.start);
                row.residency.length = Measured::Exact(run.range.len);
                row.labels.note = Measured::Exact(class(run.class).into());
                writer.write(&row)?;
            }
        }
    }
    writer.finish(None)
}

fn class(class: RangeClass) -> &'static str {
    match class {
        RangeClass::Hit => "resident",
        RangeClass::Partial => "partial",
        RangeClass::Unknown => "unknown",
        RangeClass::Miss => "absent",
    }
}

/// The files, each once: in the order given if the plan keeps it.
fn files(survey: &Survey, plan: &Plan) -> Vec<usize> {
    if plan.declined.is_none() {
        return survey.snapshot.hottest_first(&History::default());
    }
    let mut files: Vec<usize> = plan.runs().map(|step| step.file).collect();
    files.dedup();
    files
}

/// The ranges to read, without those of empty files.
fn ranges(plan: &Plan) -> impl Iterator<Item = PlanStep> {
    plan.runs().filter(|run| !run.range.is_empty())
}

/// Prints the I/O that the order saves, and the lower bound of all orders.
fn explain(plan: &Plan) {
    let told = plan.prediction;
    let (total, resident, hits) = (told.total, told.resident, told.planned_hits);
    match told.unknown {
        Bytes::ZERO => {
            tell(&format!(
                "{total} to read, {resident} of it resident: in this order {hits} need not be read from a device"
            ));
            tell(&format!(
                "no order reads less than {}, which is not in the cache",
                told.bound
            ));
        }
        unknown if unknown == total => tell(&format!(
            "{total} to read; ? of it resident, so the savings of an order are unknown"
        )),
        unknown => {
            tell(&format!(
                "{total} to read, {resident} of it resident, {unknown} unknown: in this order at least {hits} need not \
                 be read from a device"
            ));
            tell(&format!(
                "no order reads less than {}, which is known not to be in the cache",
                told.bound
            ));
        }
    }
    if let Some(why) = plan.declined {
        tell(&format!("files keep the order given: {why}"));
    }
}

/// A line per reason of unknown residency: the number of files, the reason, and the fix.
fn unknown(errors: &[Error], of: &str) -> Vec<String> {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for error in errors {
        let reason = match error.unknown() {
            Some(why) => format!("{why}; {}", why.advice()),
            None => error.to_string(),
        };
        *reasons.entry(reason).or_default() += 1;
    }
    let line =
        |(reason, files)| format!("residency is unknown of {files} of {of} files: {reason}.");
    reasons.into_iter().map(line).collect()
}
