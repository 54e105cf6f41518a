//! `order` and `cat`: reading in the order that costs the least I/O.

mod simulated;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_model::{Field, Measured, Row};
use cachewise_residency::Found as Met;
use cachewise_residency::order::{Class, History, Mode, Plan, Scanner, Survey, plan, survey};
use cachewise_units::ByteRange;
use cachewise_view::{RowOptions, RowWriter};

use crate::cli::{Cat, OrderFiles, Unit};
use crate::columns::fields;
use crate::files::plan as plan_walk;
use crate::output::{Failures, Sink, Stream, status, tell};

/// Prints files, or ranges of them, in the order in which to read them.
pub fn order(arguments: &OrderFiles) -> Result<ExitCode> {
    let mut failures = Failures::default();
    let paths = expanded(arguments, &mut failures)?;
    let survey = survey(&paths, None);
    for error in &survey.skipped {
        failures.add(&error.to_string(), tell);
    }
    let failed = failures.end(tell);
    if let Some(memory) = arguments.simulate {
        simulated::show(arguments, &survey, memory)?;
        return Ok(status(failed > 0));
    }
    let plan = plan(&survey.snapshot, &History::default(), &arguments.options());
    if arguments.explain {
        explain(&plan);
    }
    let sink = Sink::open(&arguments.output, Stream::Stdout)?;
    let name = sink.name().to_owned();
    let is_plain = arguments.output.output.is_none() && !arguments.output.json;
    if is_plain {
        write_plain(sink, arguments, &survey, &plan)
    } else {
        write_rows(sink, arguments, &survey, &plan)
    }
    .with_context(|| format!("cannot write to {name}"))?;
    Ok(status(failed > 0))
}

/// The files that were given, and those under directories, in the order of their paths.
fn expanded(arguments: &OrderFiles, failures: &mut Failures) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in &arguments.paths {
        // What is no directory is named for itself: the survey says what is wrong with it.
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let begin = all.len();
        plan_walk(&arguments.select, &[path])?.run(|met| {
            match met {
                Met::File(entry) => all.push(entry.path()),
                Met::Skipped(error) => failures.add(&error.to_string(), tell),
            }
            ControlFlow::Continue(())
        });
        all[begin..].sort_unstable();
    }
    Ok(all)
}

fn write_plain(sink: Sink, arguments: &OrderFiles, survey: &Survey, plan: &Plan) -> io::Result<()> {
    let mut out = io::BufWriter::new(sink);
    let end = if arguments.null { b'\0' } else { b'\n' };
    match arguments.unit {
        Unit::File => {
            for file in survey.snapshot.hottest_first(&History::default()) {
                out.write_all(survey.paths[file].as_os_str().as_bytes())?;
                out.write_all(&[end])?;
            }
        }
        Unit::Range => {
            for run in plan.runs() {
                out.write_all(survey.paths[run.file].as_os_str().as_bytes())?;
                let (start, len) = (run.range.start, run.range.len);
                write!(out, "\t{start}\t{len}\t{}", class(run.class))?;
                out.write_all(&[end])?;
            }
        }
    }
    out.flush()
}

fn write_rows(sink: Sink, arguments: &OrderFiles, survey: &Survey, plan: &Plan) -> io::Result<()> {
    const FILE: [&str; 3] = ["file_size_bytes", "resident_bytes", "path"];
    const RANGE: [&str; 4] = ["offset", "length", "note", "path"];
    let columns = fields(match arguments.unit {
        Unit::File => &FILE[..],
        Unit::Range => &RANGE,
    });
    let mut writer = row_writer(sink, &columns);
    let row_of = |file: usize| {
        let mut row = Row::of_file();
        row.labels.path = Measured::Exact(survey.paths[file].to_path_buf());
        row
    };
    match arguments.unit {
        Unit::File => {
            for file in survey.snapshot.hottest_first(&History::default()) {
                let state = &survey.snapshot.files[file];
                let mut row = row_of(file);
                row.subject.file_size_bytes = Measured::Exact(state.size.0);
                row.residency.resident_bytes = match state.resident_in(ByteRange::starting_at(0)) {
                    Some(bytes) => Measured::Exact(bytes.0),
                    None => Measured::unknown("nobody can say what is resident"),
                };
                writer.write(&row)?;
            }
        }
        Unit::Range => {
            for run in plan.runs() {
                let mut row = row_of(run.file);
                row.residency.offset = Measured::Exact(run.range.start);
                row.residency.length = Measured::Exact(run.range.len);
                row.labels.note = Measured::Exact(class(run.class).into());
                writer.write(&row)?;
            }
        }
    }
    writer.finish(None).map(drop)
}

/// A writer of rows, with another header where columns get wider.
fn row_writer(sink: Sink, columns: &[&'static Field]) -> RowWriter<Sink> {
    let options = RowOptions {
        header_every: Some(usize::MAX),
        ..sink.row_options()
    };
    let format = sink.format;
    RowWriter::new(sink, format, columns, options)
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Hit => "resident",
        Class::Partial => "partial",
        Class::Unknown => "unknown",
        Class::Miss => "absent",
    }
}

/// What the order saves, and what none could.
fn explain(plan: &Plan) {
    let told = plan.prediction;
    tell(&format!(
        "{} to read, {} of it resident: in this order {} need not be read from a device",
        told.total, told.resident, told.planned_hits
    ));
    tell(&format!(
        "no order reads less than {}, which is not in the cache",
        told.bound
    ));
    if let Some(why) = plan.declined {
        tell(&format!(
            "the order stays that in which they were given: {why}"
        ));
    }
}

/// Writes files to standard output, one after the other.
pub fn cat(arguments: &Cat) -> Result<ExitCode> {
    let mut scanner = Scanner::new(&arguments.paths)
        .mode(Mode::Fixed)
        .keep(arguments.keep.into())
        .each_link();
    let mut out = io::stdout().lock();
    let mut failed = 0u64;
    let mut scan = scanner.scan();
    for block in scan.by_ref() {
        match block {
            Ok(block) => {
                out.write_all(block.bytes())
                    .context("cannot write to standard output")?;
            }
            Err(error) => {
                failed += 1;
                tell(&error.to_string());
            }
        }
    }
    let report = scan.finish();
    for error in &report.skipped {
        failed += 1;
        tell(&error.to_string());
    }
    out.flush().context("cannot write to standard output")?;
    Ok(status(failed > 0))
}
