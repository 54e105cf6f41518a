//! `bench`: reading and writing on purpose, and what that cost.
//!
//! # Layout
//! - `lines`: the lines of cache-bench; `shown`: tables, JSON and the rest; `bar`: progress on a terminal
//! - `matrix`: settings times workloads
//! - `demo`: the two demonstrations
//! - this file: the measurements, one after the other

mod bar;
mod demo;
mod lines;
mod matrix;
mod shown;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_bench::{Event, Made, Summary, Workload, make, run};
use cachewise_units::{Bytes, escaped};

use crate::cli::{Bench, BenchCommand, Demo, Measure};
use crate::interrupt::Interrupt;
use crate::output::tell;
use bar::Bar;
use lines::Lines;
use shown::Shown;

/// Does what was typed.
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

/// What is told of a measurement under way, and of its end.
trait Watcher {
    /// It is about to begin.
    fn begin(&mut self, workload: &Workload) -> Result<()>;
    /// Something happens in it.
    fn event(&mut self, workload: &Workload, event: &Event<'_>) -> Result<()>;
    /// It is over.
    fn end(&mut self, summary: &Summary) -> Result<()>;
    /// All are over.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// `-w`: makes a file, and nothing else.
fn write(arguments: &Measure) -> Result<ExitCode> {
    let size = arguments.write.unwrap_or_default();
    let path = &arguments.file;
    let interrupt = Interrupt::catch()?;
    let mut lines = Lines::open(arguments)?;
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
            tell(&format!("interrupted: {} is gone again", escaped(path)));
            return Ok(interrupt.status().unwrap_or(ExitCode::FAILURE));
        }
        Err(error) => return Err(error.into()),
    }
    lines.written()?;
    Ok(ExitCode::SUCCESS)
}

/// Measures all that was asked for, one after the other.
fn measure(arguments: &Measure) -> Result<ExitCode> {
    if arguments.keeps_what_it_reads() && arguments.read.or(arguments.bytes).is_none() {
        bail!(
            "-b 1 keeps all that is read: say how much that may be, -r MIB or --bytes BYTES; or take --bloat BYTES, with \
             --bloat-rate"
        );
    }
    let workloads = arguments.workloads();
    // All of them before the first begins: an hour is not to be lost to the last one's slip.
    for workload in &workloads {
        workload.check().map_err(|error| hinted(error, arguments))?;
    }
    let interrupt = Interrupt::catch()?;
    let mut watcher: Box<dyn Watcher> = match arguments.is_cache_bench() {
        true => Box::new(Lines::open(arguments)?),
        false => Box::new(Shown::open(arguments, &workloads)?),
    };
    // Once for all, where there are several.
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
            tell("interrupted: what was measured until then is above");
            status
        }
        None => ExitCode::SUCCESS,
    })
}

/// Makes the file that `--size` asks for, unless it is there.
fn file_for_all(
    arguments: &Measure,
    workloads: &[Workload],
    interrupt: &Interrupt,
) -> Result<Option<Made>> {
    let Some(size) = arguments.size else {
        return Ok(None);
    };
    // What writes over the file has it made for itself.
    let is_written = workloads.iter().any(|workload| {
        workload.engine == cachewise_bench::Engine::Write
            || workload.fill == cachewise_bench::Fill::Write
    });
    if is_written && !arguments.keep || arguments.file.exists() {
        return Ok(None);
    }
    if let Some(chunk) = arguments.chunk.iter().find(|chunk| **chunk > size) {
        bail!(
            "size: {size} is less than one chunk of {chunk}: take a smaller chunk or a larger file"
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

/// An error with the options that it is about, as they are typed here.
fn hinted(error: cachewise_bench::Error, arguments: &Measure) -> anyhow::Error {
    match &error {
        cachewise_bench::Error::Invalid { what: "bytes", .. }
            if arguments.read.is_none() && arguments.bytes.is_none() =>
        {
            anyhow::anyhow!(
                "how much is to be read? -r MIB or --bytes BYTES, or --seconds TIME; -w MIB writes a file"
            )
        }
        cachewise_bench::Error::File { source, path, .. }
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            anyhow::anyhow!(
                "{} is not there: name another with -f, write it with -w MIB, or have it made for this with --size",
                escaped(path)
            )
        }
        cachewise_bench::Error::Control(_) => {
            anyhow::Error::from(error).context("--memory-max cannot be had here")
        }
        _ => error.into(),
    }
}

/// How many mebibytes, as cache-bench prints them.
fn mebibytes(bytes: Bytes) -> f64 {
    const MIB: f64 = 1_048_576.0;
    bytes.0 as f64 / MIB
}

/// An output that cannot be written to.
fn cannot_write<T>(result: std::io::Result<T>, name: &str) -> Result<T> {
    result.with_context(|| format!("cannot write to {name}"))
}
