//! `size`: how much memory does this need? A curve of miss ratios by memory size, from accesses.
//!
//! # Layout
//! - `memory`: the limit that holds, and the memory beside the page cache
//! - `policy`: the simulated policy of eviction
//! - `price`: the wait for a page from a device
//! - `budget`: the CPU time that the simulation may take
//! - `simulation`: the thread that simulates; `report`: its result for people and programs

pub mod arguments;
mod budget;
mod memory;
mod policy;
mod price;
mod report;
mod simulation;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_cli::child::{self, StartError, not_started, status_of};
use cachewise_cli::interrupt::Interrupt;
use cachewise_cli::output::{FAILED, Stream, Whole, explain, is_broken_pipe, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_kstat::{Cgroup, Kernel};
use cachewise_model::{Counter, FIELDS, Row, SIZE_COLUMNS};
use cachewise_probe::{Detail, Options, Probe, Scope};
use cachewise_units::{Period, escaped};
use cachewise_view::Format;

use crate::account;
use crate::columns::fields;
use crate::commands::top::look_of;
use crate::machine::{self, Followed};
use crate::selection::Selected;
use arguments::Size;
use memory::SimulatedMemory;
use price::Price;
use report::SizeReport;
use simulation::Simulation;

/// How often the end of a process that is watched is looked for.
const POLL: Duration = Duration::from_millis(100);

/// Watches and shows the curve.
pub fn size(arguments: &Size) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let stream = match arguments.command[..] {
        [] => Stream::Stdout,
        _ => Stream::Stderr,
    };
    let sinks = Sinks::open_whole(&arguments.output, stream)?;
    let svg = match &arguments.svg {
        Some(path) => {
            let cannot = || format!("cannot create the plot {}", escaped(path));
            Some(Whole::begin(path).with_context(cannot)?)
        }
        None => None,
    };
    let selected = arguments.selection.select(&kernel)?;
    let followed = selected.followed()?;
    let group = group(arguments, &selected, &kernel)?;
    let room = match arguments.all {
        true => SimulatedMemory::of_machine(&kernel)?,
        false => SimulatedMemory::of_group(&kernel, group.as_ref())?,
    };
    // A command gets its signals itself.
    let interrupt = match arguments.command[..] {
        [] => Some(Interrupt::catch()?),
        _ => None,
    };
    let mut probe = attach(arguments, &selected, &kernel)?;
    let watcher = Simulation::start(
        probe.accesses()?,
        room,
        &arguments.memory,
        arguments.warm_up.map(Period::get),
        arguments.policy.policy(&kernel)?,
        arguments.full_sample,
    )?;
    let ended = match match &interrupt {
        Some(interrupt) => ControlFlow::Continue(watch(arguments, followed.as_ref(), interrupt)?),
        None => run(arguments, &kernel, &mut probe)?,
    } {
        ControlFlow::Continue(ended) => ended,
        ControlFlow::Break(status) => return Ok(status),
    };
    let seen = watcher.finish()?;
    let mut notes: Vec<String> = probe.notes().into_iter().map(str::to_owned).collect();
    let snapshot = probe.snapshot()?;
    // The probe is detached before the result is written: it costs other programs time.
    drop(probe);
    let faults = snapshot.total[Counter::FaultRequests];
    if faults > 0 {
        notes.push(format!(
            "mapped files: {faults} page faults; touches of mapped pages are not seen, so that the curve is a lower bound of \
             what is read"
        ));
    }
    let mut lost = account::lost(&snapshot);
    // The curve needs neither rows nor names; a row that was lost is in the total.
    lost.retain(|lost| !["rows", "names"].contains(&lost.id));
    let shown = SizeReport::of(&seen, Price::of(&snapshot.total), notes, lost);
    let columns = |format| match &arguments.columns {
        Some(columns) => columns.0.clone(),
        None if format == Format::Table => fields(&SIZE_COLUMNS),
        None => {
            let row = Row::of_sizing();
            FIELDS.iter().filter(|field| field.is_of(&row)).collect()
        }
    };
    let blocks = !look_of(arguments.output.color, false).ascii;
    let written = shown.write(sinks, columns, blocks).and_then(|()| {
        let Some(svg) = svg else {
            return Ok(());
        };
        let text = shown.svg().context("cannot draw the plot")?;
        svg.write(text.as_bytes()).context("cannot write the plot")
    });
    let is_lossy = !shown.lost.is_empty();
    finish(written, ended, is_lossy)
}

/// The control group whose memory counts; `None`: that of the machine.
fn group(arguments: &Size, selected: &Selected, kernel: &Kernel) -> Result<Option<Cgroup>> {
    if arguments.all {
        return Ok(None);
    }
    if let Some(group) = &selected.cgroup {
        return Ok(Some(group.clone()));
    }
    let pid = selected.pids.first().copied();
    let pid = pid.unwrap_or_else(std::process::id);
    kernel
        .cgroup_of(pid)
        .with_context(|| format!("cannot read the control group of process {pid}"))
}

fn attach(arguments: &Size, selected: &Selected, kernel: &Kernel) -> Result<Probe> {
    let otherwise = match arguments.command.is_empty() {
        true => Scope::System,
        false => Scope::Children,
    };
    let options = Options {
        mounted_only: true,
        accesses: true,
        // Times are kept by process and file.
        times: true,
        ..selected.options(kernel, otherwise, Detail::Rows)?
    };
    match Probe::attach(&options) {
        Ok(probe) => Ok(probe),
        Err(cachewise_probe::Error::NoProcess(pid)) => {
            bail!("process {pid} ended before it could be watched")
        }
        Err(error @ cachewise_probe::Error::PidNamespace) => Err(error.into()),
        Err(error) => bail!(
            "accesses cannot be watched: {}",
            machine::why_no_probe(error)
        ),
    }
}

/// Runs the command; breaks with the status if it cannot be started.
fn run(
    arguments: &Size,
    kernel: &Kernel,
    probe: &mut Probe,
) -> Result<ControlFlow<ExitCode, ExitCode>> {
    match child::run(
        kernel,
        || child::command(&arguments.command),
        || probe.end_thread(),
    ) {
        Ok(course) => Ok(ControlFlow::Continue(ExitCode::from(status_of(
            course.exit,
        )))),
        Err(StartError::Start(error)) => {
            let program = arguments.command.first().cloned().unwrap_or_default();
            Ok(ControlFlow::Break(not_started(&program, &error)))
        }
        Err(StartError::Other(error)) => Err(error),
    }
}

/// Waits until the time is over, the process ends or the user has seen enough; returns the status to end with.
fn watch(arguments: &Size, followed: Option<&Followed>, interrupt: &Interrupt) -> Result<ExitCode> {
    let end = arguments
        .duration
        .map(|duration| Instant::now() + duration.get());
    loop {
        let left = end.map_or(POLL, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() || followed.is_some_and(Followed::has_ended) {
            return Ok(ExitCode::SUCCESS);
        }
        if interrupt.wait_for(left.min(POLL))? {
            return Ok(interrupt.status().unwrap_or(ExitCode::FAILURE));
        }
    }
}

/// The status of a command is ours, whatever became of its curve.
fn finish(written: Result<()>, ended: ExitCode, is_lossy: bool) -> Result<ExitCode> {
    match written {
        Ok(()) if is_lossy && ended == ExitCode::SUCCESS => Ok(ExitCode::from(FAILED)),
        Ok(()) => Ok(ended),
        Err(error) if is_broken_pipe(&error) => Ok(ended),
        Err(error) if ended == ExitCode::SUCCESS => Err(error),
        Err(error) => {
            tell(&explain(&error));
            Ok(ended)
        }
    }
}
