//! `run`: a program under the probe, and the report of it.
//!
//! # Layout
//! - `child`: starting the program, or following one, until it ends
//! - `account`: from what the probe counted to a report
//! - `estimate`: the same from procfs, where there is no probe
//! - `room`: kernel memory for the rows, checked beforehand
//! - `surroundings`: the machine and its limits, for the findings

pub mod account;
pub mod child;
mod estimate;
mod room;
mod surroundings;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Exit, Report, diagnose, redact_arguments};
use cachewise_probe::{Detail, Options, Probe, Scope};
use cachewise_units::Interval;
use cachewise_view::{Format, ReportOptions, write_report};

use crate::cli::{self, Run};
use crate::machine;
use crate::output::{FAILED, Sink, Stream, explain, is_broken_pipe, tell};
use crate::signals::BY_SIGNAL;
use child::StartError;

/// The shell's exit statuses for a command that could not be started.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Runs or follows a program and reports.
pub fn run(arguments: Run) -> Result<ExitCode> {
    if let Err(error) = arguments.check() {
        return Ok(cli::answer(&error));
    }
    let kernel = Kernel::new();
    let sink = Sink::open_whole(&arguments.output, Stream::Stderr)?;
    let scope = match arguments.pid {
        Some(pid) if !kernel.process_exists(pid) => bail!("process {pid} does not exist"),
        Some(pid) => Scope::Process(pid),
        None => Scope::Children,
    };
    let options = Options {
        cgroup_v1: machine::uses_cgroup_v1(&kernel),
        max_rows: arguments.max_rows,
        mounted_only: true,
        ..Options::new(scope, Detail::Rows)
    };
    room::check(&options, &kernel)?;
    let mut report = Report::new(
        machine::timestamp(),
        machine::hostname(&kernel),
        cachewise_sys::page_size(),
        machine::release(&kernel),
    );
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => {
            report.backend = machine::backend(&probe, &kernel);
            Some(probe)
        }
        Err(cachewise_probe::Error::NoProcess(pid)) => {
            bail!("process {pid} ended before it could be followed")
        }
        // An estimate would be of another process.
        Err(error @ cachewise_probe::Error::PidNamespace) => return Err(error.into()),
        Err(error) => {
            let note = machine::why_estimates(error);
            // CSV and OpenMetrics have no place for it, and on their own stream it would spoil them.
            let has_notes = matches!(
                sink.format,
                Format::Table | Format::Json | Format::JsonLines
            );
            if !has_notes && !sink.is_stderr() {
                tell(&format!("note: {note}"));
            }
            report.backend = machine::estimates(note);
            None
        }
    };
    let course = match arguments.pid {
        None => {
            report.command = arguments
                .command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            if arguments.redact_args {
                redact_arguments(&mut report.command);
            }
            let end_threads = || probe.as_mut().is_some_and(Probe::end_thread);
            match child::run(&kernel, &arguments.command, end_threads) {
                Ok(course) => course,
                Err(StartError::Start(error)) => {
                    return Ok(not_started(&arguments.command[0], &error));
                }
                Err(StartError::Other(error)) => return Err(error),
            }
        }
        Some(pid) => {
            report.followed = Some(pid);
            child::follow(
                &kernel,
                pid,
                arguments.duration.map(Interval::get),
                probe.is_none(),
            )?
        }
    };
    report.wall = course.wall;
    report.exit = course.exit;
    match &mut probe {
        Some(probe) => match probe.snapshot() {
            Ok(snapshot) => account::fill(&mut report, &snapshot, &course, &kernel),
            Err(error) => {
                // The command has run: its exit status is not to be lost with the counts.
                let error = explain(&anyhow::Error::from(error));
                let note = format!("these are estimates: what was counted is lost, {error}");
                report.backend = machine::estimates(note);
                estimate::fill(&mut report, &course);
            }
        },
        None => estimate::fill(&mut report, &course),
    }
    report.surroundings = surroundings::of(&report, &course, &kernel);
    // The probe goes before the report is written: nobody should pay for it while a pager waits.
    drop(probe);
    report.findings = diagnose(&report);
    finish(sink, &report, arguments.top)
}

/// Writes the report; the command's own exit status is ours.
fn finish(mut sink: Sink, report: &Report, top: usize) -> Result<ExitCode> {
    let options = ReportOptions {
        style: sink.style,
        top,
    };
    let format = sink.format;
    let status = exit_status(report);
    match write_report(&mut sink, format, report, options)
        .with_context(|| format!("cannot write the report to {}", sink.name()))
        .and_then(|()| sink.keep())
    {
        Ok(()) => Ok(ExitCode::from(status)),
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::from(status)),
        Err(error) if status == 0 => Err(error),
        Err(error) => {
            tell(&explain(&error));
            Ok(ExitCode::from(status))
        }
    }
}

fn exit_status(report: &Report) -> u8 {
    if report.followed.is_some() {
        return 0;
    }
    status_of(report.exit)
}

/// The status with which we end where a command ended so.
pub fn status_of(exit: Exit) -> u8 {
    let status = match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => BY_SIGNAL + signal,
        Exit::Running | Exit::Unknown(_) => FAILED.into(),
    };
    // The kernel keeps eight bits of it.
    (status & 0xff) as u8
}

/// Says why a command was not started; the status is that of shells.
pub fn not_started(command: &std::ffi::OsStr, error: &std::io::Error) -> ExitCode {
    let (status, hint) = match error.kind() {
        std::io::ErrorKind::NotFound => (NOT_FOUND, "is it in PATH, and its interpreter there?"),
        std::io::ErrorKind::WouldBlock => (
            FAILED,
            "the limit on processes is reached: raise pids.max of the control group or `ulimit -u`",
        ),
        _ => (
            NOT_EXECUTABLE,
            "is it a program, and executable for this user?",
        ),
    };
    tell(&format!(
        "cannot run {}: {error}; {hint}",
        command.to_string_lossy()
    ));
    ExitCode::from(status)
}
