//! `shield`: drops pages behind programs that read files once, so that they do not evict the pages of others.
//!
//! # Layout
//! - `dropping`: the thread that drops pages; `opening`, `open_files`: opens the files of programs once more
//! - `shielded_files`: files to which the dropping is limited
//! - `rooms`: memory that programs could use; `outcome`, `report`: the result; `metrics`: the same as metrics, also while
//!   it runs

pub mod arguments;
pub mod dropping;
mod metrics;
mod open_files;
mod opening;
pub mod outcome;
mod report;
mod rooms;
pub mod shielded_files;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_cli::child::{self, StartError, not_started, status_of};
use cachewise_cli::output::{Stream, explain, is_broken_pipe, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_kstat::Kernel;
use cachewise_probe::shield::{Options, Shield};
use cachewise_probe::{Detail, Scope};
use cachewise_units::Pages;

use crate::interrupt::Interrupt;
use crate::machine::{self, Followed};
use crate::selection::Selected;
use arguments::Shield as Arguments;
use dropping::Dropping;
use metrics::Live;
use report::ShieldReport;
use shielded_files::ShieldedFiles;

/// Interval at which the end of the shielded programs is looked for.
const POLL: Duration = Duration::from_millis(100);

/// Shields until the programs end, the user has seen enough or the time is over.
pub fn shield(arguments: &Arguments) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let stream = match arguments.command.is_empty() {
        true => Stream::Stdout,
        false => Stream::Stderr,
    };
    let sinks = Sinks::open_whole(&arguments.output, stream)?;
    let named = ShieldedFiles::of(&arguments.list)?;
    let selected = arguments.selection.select(&kernel)?;
    let followed = selected.followed()?;
    // A command gets its signals itself.
    let interrupt = match arguments.command[..] {
        [] => Some(Interrupt::catch()?),
        _ => None,
    };
    let shield = attach(arguments, &selected, &kernel)?;
    let held = machine::kernel_memory(&kernel);
    let dropping = Dropping::start(shield, kernel.clone(), arguments.writes, named)?;
    let begin = Instant::now();
    let (status, programs_ended) = match &interrupt {
        Some(interrupt) => {
            let mut live = Live::new(arguments.metric_files(), arguments.interval);
            let tick = || {
                if let Some(live) = &mut live {
                    live.write(&dropping.figures());
                }
            };
            watch(arguments, followed.as_ref(), &selected, interrupt, tick)?
        }
        None => match child::run(&kernel, || child::command(&arguments.command), || ()) {
            Ok(course) => (ExitCode::from(status_of(course.exit)), true),
            Err(StartError::Start(error)) => {
                return Ok(not_started(&arguments.command[0], &error));
            }
            Err(StartError::Other(error)) => return Err(error),
        },
    };
    let elapsed = begin.elapsed();
    let outcome = dropping
        .finish(programs_ended)
        .context("pages could not be dropped any more");
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) if arguments.command.is_empty() => return Err(error),
        Err(error) => {
            // The command has run: its exit status is not to be lost.
            tell(&explain(&error));
            return Ok(status);
        }
    };
    let shown = ShieldReport::new(arguments, &selected, outcome, elapsed, held);
    match shown.write(sinks) {
        Err(error) if is_broken_pipe(&error) => {}
        Err(error) if status == ExitCode::SUCCESS => return Err(error),
        Err(error) => tell(&explain(&error)),
        Ok(()) => {}
    }
    Ok(status)
}

fn attach(arguments: &Arguments, selected: &Selected, kernel: &Kernel) -> Result<Shield> {
    let probe = selected.options(kernel, Scope::Children, Detail::Totals)?;
    let page = cachewise_sys::page_size();
    let options = Options {
        pids: selected.pids.clone(),
        children: !arguments.command.is_empty(),
        name: None,
        cgroup: probe.cgroup,
        cgroup_v1: probe.cgroup_v1,
        streams_from: arguments
            .auto
            .then(|| Pages(arguments.stream.0 / page.get())),
    };
    match Shield::attach(&options) {
        Ok(shield) => Ok(shield),
        Err(cachewise_probe::Error::NoProcess(pid)) => {
            bail!("process {pid} ended before it could be shielded")
        }
        Err(error) => bail!(
            "cannot shield: pages that others use cannot be told apart: {}",
            machine::why_no_probe(error)
        ),
    }
}

/// Waits for the end, with a call of `tick` at each look; returns the status to end with, and whether the programs have ended.
fn watch(
    arguments: &Arguments,
    followed: Option<&Followed>,
    selected: &Selected,
    interrupt: &Interrupt,
    mut tick: impl FnMut(),
) -> Result<(ExitCode, bool)> {
    let end = arguments
        .duration
        .map(|duration| Instant::now() + duration.get());
    loop {
        tick();
        let left = end.map_or(POLL, |end| end.saturating_duration_since(Instant::now()));
        if followed.is_some_and(Followed::has_ended) {
            return Ok((ExitCode::SUCCESS, true));
        }
        if let Some(group) = &selected.cgroup
            && !group.path.exists()
        {
            tell(&format!("control group {} is gone", group.name));
            return Ok((ExitCode::SUCCESS, true));
        }
        if left.is_zero() {
            return Ok((ExitCode::SUCCESS, false));
        }
        if interrupt.wait_for(left.min(POLL))? {
            let status = interrupt.status().unwrap_or(ExitCode::FAILURE);
            return Ok((status, false));
        }
    }
}
