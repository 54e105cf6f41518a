//! `bench`: measures reads and writes.
//!
//! # Layout
//! - `line_writer`: the lines of cache-bench; `measurement_events`, `measurement_output`: tables, JSON and the rest; `bar`:
//!   progress on a terminal
//! - `matrix`, `matrix_arguments`, `matrix_shown`: settings times workloads
//! - `demo`: the two demonstrations
//! - this file: the measurements, one after the other

pub mod arguments;
mod bar;
mod demo;
mod line_writer;
mod matrix;
mod matrix_arguments;
mod matrix_shown;
mod measurement_events;
mod measurement_output;

use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_bench::{Event, Made, Workload, make, run};
use cachewise_units::escaped;

use crate::interrupt::Interrupt;
use arguments::{Bench, BenchCommand, Demo, Measure};
pub use bar::Bar;
use cachewise_cli::output::tell;
use line_writer::LineWriter;
pub use matrix_shown::MATRIX_COLUMNS;
use measurement_events::MeasurementEvents;
use measurement_output::MeasurementOutput;

/// Runs the subcommand.
pub fn bench(arguments: &Bench) -> Result<ExitCode> {
    match &arguments.command {
        Some(BenchCommand::Demo(Demo::Dd(demo))) => demo::dd(demo),
        Some(BenchCommand::Demo(Demo::Direct(demo))) => demo::direct(demo),
        Some(BenchCommand::Matrix(arguments)) => matrix::matrix(arguments),
        Some(BenchCommand::Restore(arguments)) => matrix::restore(arguments),
        None if arguments.measure.write.is_some() => write(&arguments.measure),
        None => measure(&arguments.measure),
    }
}

/// `-w`: makes a file without measuring.
fn write(arguments: &Measure) -> Result<ExitCode> {
    let size = arguments.write.unwrap_or_default();
    let path = &arguments.file;
    let interrupt = Interrupt::catch()?;
    let mut lines = LineWriter::open(arguments)?;
    lines.writing(size)?;
    let mut bar = Bar::new();
    let made = make(
        path,
        size,
        arguments.compress_pct,
        &mut |done| bar.show("writing", done.0, size.0),
        interrupt.flag(),
    );
    bar.end();
    match made {
        Ok(made) => made.keep(),
        Err(cachewise_bench::Error::Interrupted) => {
            tell(&format!("interrupted: {} was removed", escaped(path)));
            return Ok(interrupt.status().unwrap_or(ExitCode::FAILURE));
        }
        Err(error) => return Err(error.into()),
    }
    lines.written()?;
    Ok(ExitCode::SUCCESS)
}

/// Measures all workloads, one after the other.
fn measure(arguments: &Measure) -> Result<ExitCode> {
    if arguments.keeps_what_it_reads() && arguments.read.or(arguments.bytes).is_none() {
        bail!(
            "-b 1 keeps all data that is read: limit it with -r MIB or --bytes BYTES, or use --bloat BYTES with \
             --bloat-rate"
        );
    }
    let workloads = arguments.workloads();
    if arguments.depth > 1 && workloads.iter().all(|workload| workload.depth == 1) {
        bail!(
            "--depth: only --engine io-uring has several requests in flight: add it, or leave --depth out"
        );
    }
    // All are checked before the first starts, so that a slip in the last one does not cost an
    // hour.
    for workload in &workloads {
        workload.check().map_err(|error| hinted(error, arguments))?;
    }
    let interrupt = Interrupt::catch()?;
    let mut watcher: Box<dyn MeasurementEvents> = match arguments.is_cache_bench() {
        true => Box::new(LineWriter::open(arguments)?),
        false => Box::new(MeasurementOutput::open(arguments, &workloads)?),
    };
    // One file for all workloads.
    let made = file_for_all(arguments, &workloads, &interrupt)?;
    let mut failed = None;
    for workload in &workloads {
        watcher.begin(workload)?;
        let mut bar = Bar::new();
        let mut cannot_show = None;
        let mut watch = |event: &Event<'_>| {
            bar.event(workload, event);
            let told = bar.aside(|| watcher.event(workload, event));
            if let Err(error) = told {
                cannot_show.get_or_insert(error);
            }
        };
        let result = run(workload, &mut watch, interrupt.flag());
        bar.end();
        if let Some(error) = cannot_show {
            failed = Some(error);
            break;
        }
        match result {
            Ok(summary) => {
                for warning in &summary.warnings {
                    tell(&format!("note: {warning}"));
                }
                watcher.end(&summary)?;
            }
            Err(cachewise_bench::Error::Interrupted) => {}
            Err(error) => {
                failed = Some(hinted(error, arguments));
                break;
            }
        }
        if interrupt.status().is_some() {
            break;
        }
    }
    let finished = watcher.finish();
    if let Some(made) = made
        && arguments.keep
    {
        made.keep();
    }
    if let Some(error) = failed {
        return Err(error);
    }
    finished?;
    Ok(match interrupt.status() {
        Some(status) => {
            tell("interrupted: the results so far are above");
            status
        }
        None => ExitCode::SUCCESS,
    })
}

/// Makes the file of `--size` if it is missing.
fn file_for_all(
    arguments: &Measure,
    workloads: &[Workload],
    interrupt: &Interrupt,
) -> Result<Option<Made>> {
    let Some(size) = arguments.size else {
        return Ok(None);
    };
    // Workloads that overwrite the file make it themselves.
    let is_written = workloads.iter().any(|workload| {
        workload.engine == cachewise_bench::Engine::Write
            || workload.fill == cachewise_bench::Fill::Write
    });
    if is_written && !arguments.keep || arguments.file.exists() {
        return Ok(None);
    }
    if let Some(chunk) = arguments.chunk.iter().find(|chunk| **chunk > size) {
        bail!(
            "size: {size} is less than one chunk of {chunk}: use a smaller chunk or a larger file"
        );
    }
    let mut bar = Bar::new();
    let made = make(
        &arguments.file,
        size,
        arguments.compress_pct,
        &mut |done| bar.show("writing the file", done.0, size.0),
        interrupt.flag(),
    );
    bar.end();
    Ok(Some(made?))
}

/// The error, with the command-line options that fix it.
fn hinted(error: cachewise_bench::Error, arguments: &Measure) -> anyhow::Error {
    match &error {
        cachewise_bench::Error::Invalid { what: "bytes", .. }
            if arguments.read.is_none() && arguments.bytes.is_none() =>
        {
            anyhow::anyhow!(
                "no amount to read: use -r MIB, --bytes BYTES or --seconds TIME; -w MIB writes a file"
            )
        }
        cachewise_bench::Error::File { source, path, .. }
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            anyhow::anyhow!(
                "{} does not exist: name another file with -f, write it with -w MIB, or make it with --size",
                escaped(path)
            )
        }
        cachewise_bench::Error::Control(_) => {
            anyhow::Error::from(error).context("--memory-max is not possible here")
        }
        _ => error.into(),
    }
}
