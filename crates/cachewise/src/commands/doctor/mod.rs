//! `doctor`: what can be measured on this machine, and its cache problems with fixes.
//!
//! # Layout
//! - `probes`: ways to count, each tested; `rights`: capabilities and limits
//! - `explain`: the page about a finding
//! - `memory`: memory management and devices; `tools`: other programs
//! - this file: the sequence of checks, and watching

pub mod arguments;
mod explain;
mod memory;
mod probes;
mod rights;
pub mod tools;

use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::Result;
use cachewise_kstat::Kernel;
use cachewise_model::{Checkup, Diagnosis, Interval, Sum, System};
use cachewise_probe::{Detail, Options, Probe, Scope};
use cachewise_view::write_checkup;

use crate::watch::Watch;
use crate::{copies, machine};
use arguments::Doctor;
use cachewise_cli::output::{Stream, is_broken_pipe, tell};
use cachewise_cli::signals::{self, Caught};
use cachewise_cli::sinks::Sinks;
use cachewise_cli::ticks::Ticks;

/// Interval of snapshots while watching: a process that lives for a moment has its own row, and tables do not fill up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Checks the machine, watches it, and prints the result.
pub fn doctor(arguments: &Doctor) -> Result<ExitCode> {
    if arguments.setcap {
        return rights::print_setcap();
    }
    if let Some(id) = &arguments.explain {
        return explain::explain(id);
    }
    let kernel = Kernel::new();
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let mut checks = probes::kernel(&kernel);
    // One probe for the checks and for watching: attaching takes longer than all else.
    let options = Watch::options(&Options {
        cgroup_v1: machine::uses_cgroup_v1(&kernel),
        ..Options::new(Scope::System, Detail::Rows)
    });
    let attached = Probe::attach(&options);
    checks.extend(probes::ways(&attached, &kernel));
    checks.extend(rights::checks(&kernel));
    checks.extend(memory::checks(&kernel));
    checks.extend(tools::checks());
    let mut checkup = Checkup {
        timestamp: machine::timestamp(),
        hostname: machine::hostname(&kernel),
        page_size: cachewise_sys::page_size(),
        kernel: machine::release(&kernel),
        checks,
        watched: None,
    };
    if arguments.seconds > Duration::ZERO && !arguments.capabilities {
        if sinks.have_terminal() {
            tell(&format!(
                "watching for {:.1} s; --capabilities leaves that out",
                arguments.seconds.as_secs_f64()
            ));
        }
        let watched = Watch::attached(attached, &options, kernel.clone())?;
        checkup.watched = Some(watch(watched, arguments.seconds, &interrupts, &kernel)?);
    }
    let columns = arguments.columns.as_ref();
    let written = sinks.write(|sink| {
        let (format, style) = (sink.format, sink.style);
        Ok(write_checkup(sink, format, &checkup, style, columns)?)
    });
    match written {
        Err(error) if !is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    let found = arguments.check && checkup.warnings() > 0;
    Ok(ExitCode::from(u8::from(found)))
}

/// Watches for so long, or until interrupted.
fn watch(
    mut watch: Watch,
    time: Duration,
    interrupts: &std::sync::mpsc::Receiver<Caught>,
    kernel: &Kernel,
) -> Result<(Interval, Diagnosis)> {
    let end = Instant::now() + time;
    let mut ticks = Ticks::new(interrupts);
    let mut sum: Option<Sum> = None;
    // Dirty pages vary: the maximum shows whether writers were throttled at any time.
    let mut dirtiest: Option<System> = None;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let over = ticks.next(left.min(LOOK_EVERY))? || left <= LOOK_EVERY;
        let interval = watch.interval()?;
        let dirty = |system: &System| system.dirty_bytes.plus(system.writeback_bytes).known();
        if dirtiest
            .as_ref()
            .is_none_or(|most| dirty(&interval.system) > dirty(most))
        {
            dirtiest = Some(interval.system.clone());
        }
        match &mut sum {
            Some(sum) => sum.add(interval),
            None => sum = Some(Sum::of(interval)),
        }
        if let Some(sum) = sum.take_if(|_| over) {
            let mut sum = sum.into_whole();
            if let Some(most) = dirtiest {
                sum.system.dirty_bytes = most.dirty_bytes;
                sum.system.writeback_bytes = most.writeback_bytes;
            }
            // The probe counts the reads of the comparison no more.
            drop(watch);
            if sum.parts_missing().is_none() {
                copies::fill(&mut sum, kernel, kernel.process_ids()?);
            }
            let diagnosis = Diagnosis::of(&sum);
            return Ok((sum, diagnosis));
        }
    }
}
