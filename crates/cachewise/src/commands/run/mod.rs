//! `run`: a program under the probe, and the report of it.
//!
//! # Layout
//! - `checks`: rows against independent counts, with -v
//! - `estimate`: the same from procfs, where there is no probe
//! - `room`: kernel memory for the rows, checked beforehand
//! - `surroundings`: the machine and its limits, for the findings

pub mod arguments;
mod checks;
mod estimate;
mod room;
mod surroundings;
mod verify;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use cachewise_cli::child::{self, StartError, not_started, status_of};
use cachewise_kstat::Kernel;
use cachewise_model::{Backend, Diagnosis, Exit, Interval, redact_arguments};
use cachewise_probe::{Detail, Options, Probe, Scope};
use cachewise_units::Period;
use cachewise_view::{Format, ReportOptions, write_report};

use crate::blame::Blame;
use crate::options::fail_if;
use crate::selection::Selected;
use crate::watch::devices::Devices;
use crate::watch::groups::Groups;
use crate::watch::stacks::StackWatcher;
use crate::with_snapshot::WithSnapshot;
use crate::{account, copies, machine};
use arguments::Run;
use cachewise_cli::output::{Stream, explain, is_broken_pipe, tell};
use cachewise_cli::sinks::Sinks;

/// Runs or follows a program and reports.
pub fn run(arguments: Run) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stderr)?;
    let stack_files = arguments.stack_files.open()?;
    let labels = arguments.labels.read()?;
    let selected = Selected {
        pids: arguments.selection.select(&kernel)?.roots(&kernel)?,
        ..Selected::default()
    };
    let options = Options {
        max_rows: arguments.max_rows,
        mounted_only: true,
        outside: arguments.verbose,
        times: true,
        changes: arguments.verify,
        stacks: arguments.wants_stacks(),
        accesses: arguments.with_snapshot.is_some(),
        fault_around: arguments.with_snapshot.is_some(),
        ..selected.options(&kernel, Scope::Children, Detail::Rows)?
    };
    room::check(&options, &kernel)?;
    let source = machine::source(&kernel, Backend::default());
    let mut interval = Interval::new(Arc::new(source), String::new());
    interval.run_mut().begin = machine::timestamp();
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => {
            *interval.backend_mut() = machine::backend(&probe, &kernel);
            Some(probe)
        }
        Err(cachewise_probe::Error::NoProcess(pid)) => {
            bail!("process {pid} ended before it could be followed")
        }
        // An estimate would be of another process.
        Err(error @ cachewise_probe::Error::PidNamespace) => return Err(error.into()),
        Err(error) if arguments.wants_stacks() => {
            bail!("--stacks needs the probe: {}", machine::why_no_probe(error))
        }
        Err(error) => {
            let note = machine::why_estimates(error);
            // CSV and OpenMetrics have no place for it, and on their own stream it would spoil them.
            let has_notes =
                |format| matches!(format, Format::Table | Format::Json | Format::JsonLines);
            if sinks
                .iter()
                .all(|sink| !has_notes(sink.format) && !sink.is_stderr())
            {
                tell(&format!("note: {note}"));
            }
            *interval.backend_mut() = machine::estimates(note);
            None
        }
    };
    let mut watcher = match &probe {
        Some(probe) if arguments.wants_stacks() => Some(StackWatcher::start(probe)?),
        _ => None,
    };
    let mut groups = probe.is_some().then(|| Groups::open(&kernel));
    let mut with_snapshot = match &arguments.with_snapshot {
        Some(file) => Some(WithSnapshot::start(file, probe.as_ref())?),
        None => None,
    };
    let before = checks::Before::now(&kernel);
    let mut devices = Devices::open(&kernel);
    let course = match selected.pids.first() {
        None => {
            interval.run_mut().command = arguments
                .command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            if arguments.redact_args {
                redact_arguments(&mut interval.run_mut().command);
            }
            let end_threads = || {
                watcher.iter_mut().for_each(StackWatcher::end_thread);
                with_snapshot.iter_mut().for_each(WithSnapshot::end_thread);
                probe.iter_mut().for_each(Probe::end_thread);
            };
            let command = || child::command(&arguments.command);
            match child::run(&kernel, command, end_threads) {
                Ok(course) => course,
                Err(StartError::Start(error)) => {
                    return Ok(not_started(&arguments.command[0], &error));
                }
                Err(StartError::Other(error)) => return Err(error),
            }
        }
        Some(pid) => {
            interval.run_mut().followed = Some(*pid);
            child::follow(
                &kernel,
                &selected.pids,
                arguments.duration.map(Period::get),
                probe.is_none(),
            )?
        }
    };
    interval.time = machine::timestamp();
    interval.elapsed = course.wall;
    interval.run_mut().exit = course.exit;
    let mut changes = Vec::new();
    match &mut probe {
        Some(probe) => match probe.snapshot() {
            Ok(snapshot) => {
                changes.clone_from(&snapshot.changes);
                if let Some(with_snapshot) = with_snapshot.take() {
                    with_snapshot.finish(Some(&snapshot));
                }
                let rows = account::fill(&mut interval, &snapshot, &course, &kernel);
                interval.devices = devices.rows(&kernel, &interval.files);
                if let Some(groups) = &mut groups {
                    groups.fill(
                        &mut interval,
                        &kernel,
                        account::group_ledgers(&snapshot, &Blame::of(&snapshot)),
                    );
                }
                let running = left_running(&interval);
                interval.backend_mut().notes.extend(running);
                if arguments.verbose {
                    let counted = checks::Counted {
                        rows,
                        first: snapshot,
                        later: probe.snapshot().ok(),
                    };
                    checks::fill(&mut interval, &counted, &before, &kernel);
                }
            }
            Err(error) => {
                // The command has run: its exit status is not to be lost with the counts.
                let error = explain(&anyhow::Error::from(error));
                let note = format!("these are estimates: what was counted is lost, {error}");
                *interval.backend_mut() = machine::estimates(note);
                estimate::fill(&mut interval, &course);
            }
        },
        None => estimate::fill(&mut interval, &course),
    }
    if let Some(with_snapshot) = with_snapshot {
        with_snapshot.finish(None);
    }
    interval.run_mut().surroundings = surroundings::of(&interval, &course, &kernel);
    let last_stacks = match (watcher, &probe) {
        (Some(watcher), Some(probe)) => Some(watcher.finish(probe)?),
        _ => None,
    };
    if let Some(labels) = &labels {
        labels.apply(&mut interval);
    }
    // The probe is detached before the report is written: it would cost other programs time while a pager waits.
    drop(probe);
    if let Some(stacks) = last_stacks {
        stacks.fill(&mut interval);
    }
    if arguments.verify {
        interval.run_mut().verification =
            Some(verify::verify(&arguments, &interval, &changes, &kernel));
    }
    if interval.run().followed.is_some() && interval.parts_missing().is_none() {
        let running = copies::running(&interval);
        let pids: BTreeSet<u32> = running
            .into_iter()
            .chain(selected.pids.iter().copied())
            .collect();
        copies::fill(&mut interval, &kernel, pids);
    }
    let diagnosis = Diagnosis::of(&interval);
    let written = stack_files.write(&interval);
    let status = finish(sinks, &interval, &diagnosis, &arguments)?;
    match written {
        // The report and the command's own status are not to be lost with it.
        Err(error) if exit_status(&interval) != 0 => tell(&explain(&error)),
        written => written?,
    }
    Ok(status)
}

/// A note on processes that outlive the command: the report ends before their later reads and writes.
fn left_running(interval: &Interval) -> Option<String> {
    if interval.run().followed.is_some() {
        return None;
    }
    let running = interval
        .processes
        .iter()
        .filter(|process| process.exit == Exit::Running);
    // The row of all others has no process of its own.
    let pids: Vec<String> = running
        .filter_map(|process| Some(process.pid?.to_string()))
        .collect();
    let first = pids.first()?;
    let subject = match pids.len() {
        1 => "1 process of this run is".to_owned(),
        many => format!("{many} processes of this run are"),
    };
    /// Process ids that the note lists.
    const NAMED: usize = 3;
    let more = if pids.len() > NAMED { ", ..." } else { "" };
    Some(format!(
        "{subject} still running (pid {}{more}): reads and writes after the end of the command are not counted; \
         cachewise run -p {first} follows it",
        pids[..pids.len().min(NAMED)].join(", ")
    ))
}

/// Writes the report, then judges the conditions. The command's own failure is our exit status.
fn finish(
    sinks: Sinks,
    interval: &Interval,
    diagnosis: &Diagnosis,
    arguments: &Run,
) -> Result<ExitCode> {
    let own = exit_status(interval);
    let columns = arguments.columns.as_ref();
    let written = sinks.write(|sink| {
        let options = ReportOptions {
            style: sink.style,
            top: arguments.top,
            all_checks: arguments.verbose,
            columns: columns.map(|columns| &columns.0[..]),
        };
        let format = sink.format;
        Ok(write_report(sink, format, interval, diagnosis, options)?)
    });
    match written {
        Err(error) if !is_broken_pipe(&error) && own == 0 => return Err(error),
        Err(error) if !is_broken_pipe(&error) => tell(&explain(&error)),
        _ => {}
    }
    let judged = fail_if::judge(&arguments.fail_if, &interval.total_row());
    Ok(ExitCode::from(if own == 0 { judged } else { own }))
}

fn exit_status(interval: &Interval) -> u8 {
    if interval.run().followed.is_some() {
        return 0;
    }
    status_of(interval.run().exit)
}
