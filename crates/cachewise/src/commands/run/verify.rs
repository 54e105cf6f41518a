//! `--verify`: the command once more, with its files in the page cache.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use cachewise_cli::child::{self, StartError};
use cachewise_kstat::Kernel;
use cachewise_model::{Counter, Exit, Interval, TimeUse, Verification};
use cachewise_probe::{Change, Detail, Options, Probe, Scope};
use cachewise_units::escaped;

use super::arguments::Run;
use crate::repeatable::{is_unlinked, prepare, written};
use crate::{account, machine};

/// Files that a message names.
const NAMED: usize = 3;

/// Repeats the run, unless the command may not do the same again.
pub fn verify(
    arguments: &Run,
    interval: &Interval,
    changes: &[Change],
    kernel: &Kernel,
) -> Verification {
    let Some(times) = TimeUse::of(interval) else {
        return Verification::Refused("the times of this run are unknown".to_owned());
    };
    let repeatable = match interval.run().exit {
        Exit::Code(0) => may_repeat(arguments, interval, changes),
        exit => Err(format!("the command failed ({exit})")),
    };
    if let Err(reason) = repeatable {
        return Verification::Refused(reason);
    }
    match repeat(arguments, kernel) {
        Ok((warm, missed_pages)) => Verification::Done {
            predicted_seconds: times.warm().seconds(),
            measured_seconds: warm.wall,
            cold_seconds: warm.cold(),
            missed_pages,
        },
        Err(error) => Verification::Refused(format!("{error:#}")),
    }
}

/// Whether the command would do the same again; or why not.
fn may_repeat(arguments: &Run, interval: &Interval, changes: &[Change]) -> Result<(), String> {
    if arguments.yes || arguments.prepare.is_some() {
        return Ok(());
    }
    let written: Vec<String> = written(interval)
        .into_iter()
        .filter_map(|file| file.path.as_ref().known())
        .map(|path| escaped(path.as_os_str()).into_owned())
        .collect();
    let mut done: Vec<String> = changes
        .iter()
        .map(|change| change.words().to_owned())
        .collect();
    if !written.is_empty() {
        let more = if written.len() > NAMED { ", ..." } else { "" };
        let named = written[..written.len().min(NAMED)].join(", ");
        done.insert(0, format!("wrote {named}{more}"));
    }
    if done.is_empty() && is_unlinked(interval) {
        done.push("truncated or removed files".to_owned());
    }
    match done.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the command {}: restore its files with --prepare COMMAND, or add --yes",
            done.join(", ")
        )),
    }
}

/// Runs the command without its output, under a probe as before; returns its times and the pages that it missed.
fn repeat(arguments: &Run, kernel: &Kernel) -> Result<(TimeUse, u64)> {
    if let Some(command) = &arguments.prepare {
        prepare(command)?;
    }
    let options = Options {
        cgroup_v1: machine::uses_cgroup_v1(kernel),
        max_rows: arguments.max_rows,
        mounted_only: true,
        times: true,
        ..Options::new(Scope::Children, Detail::Rows)
    };
    let mut probe = Probe::attach(&options).context("cannot measure the command again")?;
    let command = || {
        let mut command = child::command(&arguments.command);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        command
    };
    let course = match child::run(kernel, command, || ()) {
        Ok(course) => course,
        Err(StartError::Start(error)) => {
            return Err(error).context("cannot run the command again");
        }
        Err(StartError::Other(error)) => return Err(error),
    };
    if course.exit != Exit::Code(0) {
        bail!("the command failed when it ran again ({})", course.exit);
    }
    let source = machine::source(kernel, machine::backend(&probe, kernel));
    let mut interval = Interval::new(source.into(), machine::timestamp());
    interval.elapsed = course.wall;
    let snapshot = probe.snapshot().context("what was counted is lost")?;
    account::fill(&mut interval, &snapshot, &course, kernel);
    let times = TimeUse::of(&interval).context("the times of the second run are unknown")?;
    let ledger = &interval.ledger;
    let missed = ledger[Counter::ReadMissedPages] + ledger[Counter::FaultMissPages];
    Ok((times, missed))
}
