//! `try`: runs a command with the fixes that findings propose, against without.
//!
//! # Layout
//! - `fix`: fixes as they are typed; `policy`: those that change files as the command opens them
//! - `once`: one run under the probe; `first_run`: what follows from the first one
//! - `rounds`: all runs; `answer`: the comparison
//! - `interruption`: signals

mod answer;
pub mod arguments;
mod first_run;
mod fix;
mod interruption;
mod once;
mod policy;
mod room;
mod rounds;

use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_cli::output::{Stream, is_broken_pipe, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_control::{Journal, Unsure, sweep};
use cachewise_kstat::Kernel;
use cachewise_units::escaped;

use crate::commands::guard::{directory, recovered};
use crate::machine;
use crate::repeatable::prepare;
use answer::TrialAnswer;
use arguments::Try;
use first_run::FirstRun;
use interruption::Interruption;
use once::{Manner, once};
use policy::TrialPolicy;
use rounds::Rounds;

/// Runs the command without a fix and with each, and compares.
pub fn try_fixes(arguments: &Try) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    sinks
        .iter()
        .try_for_each(|sink| answer::check_format(sink.format))?;
    machine::check_capabilities().context("cannot count what the command reads")?;
    let state = directory(arguments.state.as_deref());
    let recovery = recovered(&state, Unsure::Leave)?;
    for (path, error) in sweep(&kernel, &recovery.ended)?.failed {
        tell(&format!(
            "note: cannot remove the group {} of an earlier run: {error}",
            escaped(&path)
        ));
    }
    let journal = Journal::open(&state, "try")?;
    let interruption = Interruption::catch()?;
    if let Some(command) = &arguments.prepare {
        prepare(command)?;
    }
    let manner = Manner {
        policy: Some(TrialPolicy::default()),
        shows_errors: true,
        ..Manner::default()
    };
    let run = once(arguments, &manner, &kernel, &interruption)?;
    if let Some(status) = interruption.status() {
        return Ok(status);
    }
    let first = FirstRun::of(&run, arguments, &kernel)?;
    let all = u64::from(arguments.rounds) * (arguments.fixes.len() as u64 + 1);
    tell(&format!(
        "{} files; {all} runs, the first one took {}",
        first.files.len(),
        cachewise_view::length(run.interval.elapsed)
    ));
    let mut rounds = Rounds {
        arguments,
        kernel: &kernel,
        first: &first,
        interruption: &interruption,
        journal,
    };
    let mut bar = crate::commands::bench::Bar::new();
    let arms = rounds.run(|done| bar.show("runs", done, all));
    bar.end();
    let arms = arms?;
    let answer = TrialAnswer::of(arguments, &first, &arms);
    match sinks.write(|sink| answer.write(sink)) {
        Err(error) if !is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    Ok(interruption.status().unwrap_or(ExitCode::SUCCESS))
}
