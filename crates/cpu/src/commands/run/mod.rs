//! `cpu run`: how a program uses the CPU's caches.
//!
//! # Layout
//! - `counted`: by the hardware, with samples; `simulated`: by callgrind, where there are no counters
//! - `show`: tables, text, documents
//! - this file: which of them, and what they have in common

mod counted;
mod show;
mod simulated;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_cpu::program::sampling::{Samples, Tally};
use cachewise_cpu::program::{CostLocation, Counters, Rate};
use cachewise_kstat::Kernel;
use cachewise_model::Exit;
use cachewise_units::escaped;

use super::{CommandOutput, check_format, startable, write};
use crate::commands::arguments::CpuRun;
use cachewise_cli::child::{self, StartError};
use cachewise_cli::child::{not_started, status_of};
use cachewise_cli::output::{Stream, explain, tell};
use cachewise_cli::sinks::Sinks;
use counted::{counted, followed};
use show::{members, rates, text};
use simulated::simulated;

/// The lines that something happens on, by where they are known from.
enum Lines {
    /// Misses of data, all of them.
    Simulated {
        places: Vec<CostLocation>,
        misses: u64,
    },
    /// Some of the events.
    Sampled {
        places: Vec<CostLocation<Tally>>,
        samples: Box<Samples>,
    },
    /// They are not known.
    None,
}

/// Source of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The hardware.
    Counters,
    /// The kernel: there are no hardware counters, and the requested event needs none.
    Kernel,
    /// callgrind, which simulates the caches.
    Callgrind,
}

impl How {
    /// The name in machine formats.
    const fn id(self) -> &'static str {
        match self {
            How::Counters => "counters",
            How::Kernel => "kernel",
            How::Callgrind => "callgrind",
        }
    }
}

/// Result of a run.
struct Usage {
    /// The program, and how it ended.
    head: String,
    exit: Exit,
    how: How,
    rates: Vec<Rate>,
    lines: Lines,
    notes: Vec<String>,
}

/// Runs or follows a program and reports.
pub fn run(arguments: &CpuRun) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stderr)?;
    check_format(&sinks)?;
    let (usage, status) = match (arguments.pid, arguments.command.first()) {
        (Some(pid), _) => (followed(pid, arguments)?, 0),
        (None, Some(program)) => {
            if let Err(error) = startable(program) {
                return Ok(not_started(program, &error));
            }
            let mut counters = Counters::for_children();
            let none = counters.none();
            let usage = match none {
                None if !arguments.simulate => counted(arguments, &mut counters)?,
                // An event requested by name is not simulated: its absence is the answer.
                _ if arguments.sample.is_some() => counted(arguments, &mut counters)?,
                _ => simulated(arguments, none.map(|reason| reason.to_string()))?,
            };
            let status = status_of(usage.exit);
            (usage, status)
        }
        (None, None) => bail!("nothing to run: add a command, as in `cachewise cpu run -- ls`"),
    };
    let columns = arguments.columns.as_ref();
    let told = write(sinks, columns, |style| CommandOutput {
        text: text(&usage, columns, style),
        sheet: rates(&usage.rates),
        members: members(&usage),
    });
    match told {
        // The program's own status is worth more than ours.
        Err(error) if status != 0 => tell(&explain(&error)),
        told => told?,
    }
    Ok(ExitCode::from(status))
}

/// Has it run to its end; how it ended.
fn course(command: &[OsString]) -> Result<Exit> {
    match child::run(&Kernel::new(), || child::command(command), || ()) {
        Ok(course) => Ok(course.exit),
        Err(StartError::Start(error)) => {
            bail!("cannot run {}: {error}", command[0].to_string_lossy())
        }
        Err(StartError::Other(error)) => Err(error),
    }
}

/// The first ones, then why some figures are missing, each reason once.
fn notes_of(rates: &[Rate], first: &str) -> Vec<String> {
    let mut notes: Vec<String> = first.lines().map(str::to_owned).collect();
    let mut reasons: Vec<(&String, Vec<&str>)> = Vec::new();
    for rate in rates {
        if let Err(reason) = &rate.counts {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(rate.name),
                None => reasons.push((reason, vec![rate.name])),
            }
        }
    }
    notes.extend(
        reasons
            .into_iter()
            .map(|(reason, names)| format!("{}: {reason}", names.join(", "))),
    );
    notes
}

/// The fix for missing debug information of the first location, if recompiling helps.
fn no_debug_note<C>(places: &[CostLocation<C>]) -> Option<String> {
    let first = places.first().filter(|place| place.line.is_none())?;
    // Only a file can be recompiled.
    first.object.starts_with('/').then(|| {
        format!(
            "no debug information in {}, so there are no lines of it: compile with -g (Rust: [profile.release] \
             debug = true), and do not strip",
            escaped(&first.object)
        )
    })
}
