//! [`once`]: one run of the command under the probe.

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_cli::child::{self, Course};
use cachewise_control::Group;
use cachewise_kstat::Kernel;
use cachewise_model::{Exit, Interval};
use cachewise_probe::shield::{self, Shield};
use cachewise_probe::{Detail, Options, Probe, Scope};
use cachewise_sys::{Traced, Usage, children_usage};
use cachewise_units::{Bytes, Pages};

use super::arguments::Try;
use super::interruption::Interruption;
use super::policy::{Traces, TrialPolicy};
use super::room::wait_for_room;
use crate::commands::shield::dropping::Dropping;
use crate::commands::shield::shielded_files::ShieldedFiles;
use crate::{account, machine};

/// How the command runs.
#[derive(Debug, Default)]
pub struct Manner<'a> {
    /// Its calls are traced, with these changes.
    pub policy: Option<TrialPolicy>,
    /// It runs in this control group.
    pub group: Option<&'a Group>,
    /// Pages are dropped behind its processes of this name.
    pub shield: Option<&'a str>,
    /// Its errors are shown.
    pub shows_errors: bool,
}

/// One run.
#[derive(Debug)]
pub struct Once {
    /// The counts.
    pub interval: Interval,
    /// The traced calls.
    pub traces: Traces,
    /// The pages that a shield dropped.
    pub shielded: Option<Shielded>,
    /// Descendants that outlived the command, and were ended.
    pub killed: usize,
}

/// The work of a shield in one run.
#[derive(Debug, Clone, Copy)]
pub struct Shielded {
    /// Pages that the shielded processes inserted.
    pub inserted: Pages,
    /// Pages that were dropped.
    pub dropped: Pages,
    /// CPU time of the shield.
    pub cpu: Duration,
}

/// Starts to drop pages behind the processes of this name that the command starts.
fn start_shield(name: &str, kernel: &Kernel) -> Result<Dropping> {
    let options = shield::Options {
        children: true,
        name: Some(name.to_owned()),
        ..shield::Options::default()
    };
    let shield = Shield::attach(&options)
        .map_err(|error| anyhow::anyhow!(machine::why_no_probe(error)))
        .context("cannot shield")?;
    Dropping::start(shield, kernel.clone(), false, ShieldedFiles::default())
}

/// Runs the command once.
pub fn once(
    arguments: &Try,
    manner: &Manner<'_>,
    kernel: &Kernel,
    interruption: &Interruption,
) -> Result<Once> {
    let mut command = prepared(arguments, manner)?;
    let options = Options {
        cgroup_v1: machine::uses_cgroup_v1(kernel),
        mounted_only: true,
        times: true,
        ..Options::new(Scope::Children, Detail::Rows)
    };
    let mut probe = Probe::attach(&options)
        .map_err(|error| anyhow::anyhow!(machine::why_no_probe(error)))
        .context("cannot count what the command reads")?;
    let dropping = manner.shield.map(|name| start_shield(name, kernel));
    let dropping = dropping.transpose()?;
    let source = machine::source(kernel, machine::backend(&probe, kernel));
    let mut interval = Interval::new(Arc::new(source), String::new());
    let run = interval.run_mut();
    run.begin = machine::timestamp();
    let words = arguments.command.iter();
    run.command = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let before = children_usage();
    let begin = Instant::now();
    let mut traces = Traces::default();
    let (exit, end, killed) = match traced(arguments, manner, &mut command)? {
        Some((traced, policy)) => {
            interruption.set_command(Some(traced.id()));
            let end = traced.wait(|task, call| traces.apply(policy, task, call));
            interruption.set_command(None);
            let end = end.context("cannot trace the command")?;
            (child::exit(end.status), end.at, end.killed)
        }
        None => {
            let started = cachewise_sys::spawn_untouched(&mut command);
            let mut child = started.map_err(|error| refused(arguments, &error))?;
            interruption.set_command(Some(child.id()));
            let status = child.wait();
            interruption.set_command(None);
            let status = status.context("cannot learn how the command ended")?;
            (child::exit(status), Instant::now(), 0)
        }
    };
    let shielded = match dropping {
        Some(dropping) => {
            let outcome = dropping.finish(true)?;
            Some(Shielded {
                inserted: outcome.figures.totals.inserted,
                dropped: outcome.figures.totals.dropped,
                cpu: outcome.figures.cpu,
            })
        }
        None => None,
    };
    let course = Course {
        wall: end.duration_since(begin),
        exit,
        peak_dirty: Bytes::default(),
        usage: Some(since(children_usage(), before)),
        io: None,
    };
    interval.time = machine::timestamp();
    interval.elapsed = course.wall;
    interval.run_mut().exit = exit;
    let snapshot = probe.snapshot().context("what was counted is lost")?;
    account::fill(&mut interval, &snapshot, &course, kernel);
    drop(probe);
    if let Some(tables) = interval.source.backend.kernel_memory_bytes.known() {
        wait_for_room(kernel, Bytes(tables));
    }
    Ok(Once {
        interval,
        traces,
        shielded,
        killed,
    })
}

/// Starts the command under trace, if that is wanted. `None` with a command to start without: it is not wanted, or this
/// machine forbids it and nothing depends on it.
fn traced(
    arguments: &Try,
    manner: &Manner<'_>,
    command: &mut Command,
) -> Result<Option<(Traced, TrialPolicy)>> {
    let Some(policy) = manner.policy else {
        return Ok(None);
    };
    match Traced::start(command) {
        Ok(traced) => Ok(Some((traced, policy))),
        Err(error)
            if error.kind() == ErrorKind::PermissionDenied && policy == TrialPolicy::default() =>
        {
            *command = prepared(arguments, manner)?;
            Ok(None)
        }
        Err(error) => Err(refused(arguments, &error)).context("cannot trace the command"),
    }
}

fn prepared(arguments: &Try, manner: &Manner<'_>) -> Result<Command> {
    let [program, words @ ..] = arguments.command.as_slice() else {
        bail!("nothing to run");
    };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    match arguments.show_output {
        // Standard output is ours.
        true => command.stdout(std::io::stderr()),
        false => command.stdout(Stdio::null()),
    };
    if !arguments.show_output && !manner.shows_errors {
        command.stderr(Stdio::null());
    }
    if let Some(group) = manner.group {
        group.admit(&mut command)?;
    }
    Ok(command)
}

fn refused(arguments: &Try, error: &std::io::Error) -> anyhow::Error {
    let program = arguments.command.first();
    let program = program.map(|program| program.to_string_lossy().into_owned());
    anyhow::anyhow!("cannot run {}: {error}", program.unwrap_or_default())
}

fn since(now: Usage, before: Usage) -> Usage {
    Usage {
        user: now.user.saturating_sub(before.user),
        system: now.system.saturating_sub(before.system),
        device_read: now.device_read.saturating_sub(before.device_read),
        device_written: now.device_written.saturating_sub(before.device_written),
        major_faults: now.major_faults.saturating_sub(before.major_faults),
        minor_faults: now.minor_faults.saturating_sub(before.minor_faults),
    }
}

/// Whether a command ended as it should.
pub fn is_success(exit: Exit) -> bool {
    exit == Exit::Code(0)
}
