//! `cpu sharing`: false sharing in a program, with the proofs for it.
//!
//! # Layout
//! - `runs`: repeated runs of the program; `line`: watching a line of it; `recording`: perf c2c
//! - `show`: output
//! - this file: the choice of proofs

mod line;
mod recording;
mod runs;
mod show;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use cachewise_cpu::Topology;
use cachewise_cpu::measure::pin::allowed;
use cachewise_cpu::sharing::{
    Answer, Arm, CannotPreload, Comparison, Cpus, Heap, ONE_CPU, PADDED_HEAP, Padding, Proof,
    Round, Touch, verdict,
};
use cachewise_kstat::Kernel;

use super::quota::Quota;
use super::{CommandOutput, check_format, line_of, startable, write};
use crate::commands::arguments::CpuSharing;
use cachewise_cli::child::not_started;
use cachewise_cli::output::{NO, Stream, tell};
use cachewise_cli::signals;
use cachewise_cli::sinks::Sinks;
use runs::Runner;

/// Lines of most machines, where sysfs does not tell.
const USUAL_LINE: u64 = 64;

/// The part of the CPU time that has to be padded programs', or nothing is compared.
const MOST: f64 = 0.8;

/// Result of `cpu sharing`.
struct Sharing {
    /// The program or the process.
    head: String,
    proofs: Vec<Proof>,
    runs: Comparison,
    touches: Vec<Touched>,
    notes: Vec<String>,
}

/// Accesses of one thread to bytes of a line.
struct Touched {
    /// The address of the line's first byte.
    line: u64,
    touch: Touch,
    /// The thread's name, where that was to be had.
    name: Option<String>,
    /// The proof that saw it.
    by: &'static str,
}

/// Looks for it and reports.
pub fn sharing(arguments: &CpuSharing) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stderr)?;
    check_format(&sinks)?;
    let topology = Topology::read(&arguments.sys)?;
    let line_size = topology.caches.iter().find_map(|cache| cache.line);
    let line_size = line_size.map_or(USUAL_LINE, |line| line.0);
    let mut sharing = Sharing {
        head: String::new(),
        proofs: Vec::new(),
        runs: Comparison::default(),
        touches: Vec::new(),
        notes: Vec::new(),
    };
    let quota = Quota::now();
    match (arguments.pid, arguments.command.first()) {
        (Some(pid), _) => {
            if !Kernel::new().process_exists(pid) {
                bail!("process {pid} does not exist");
            }
            sharing.head = format!("process {pid}");
            let wanted = line::WatchTarget::from_arguments(arguments, line_size);
            let seen =
                wanted.map(|wanted| line::watch(pid, &wanted, arguments.duration.get(), || false));
            if let Some(seen) = seen {
                sharing.add_lines(seen?);
            }
        }
        (None, Some(program)) => {
            sharing.head = line_of(&arguments.command);
            let path = match startable(program) {
                Ok(path) => path,
                Err(error) => return Ok(not_started(program, &error)),
            };
            let runner = Runner::new(&arguments.command)?;
            let said = |text: String| {
                if sinks.have_terminal() {
                    tell(&text);
                }
            };
            // First, though shown last: an unknown symbol is reported after one run instead of after all.
            let watched = line::WatchTarget::from_arguments(arguments, line_size)
                .map(|wanted| runner.watched(&wanted, arguments.duration.get()))
                .transpose()?;
            let recorded = recording::record(&runner, line_size)?;
            let is_known = recorded.proof.answer != Answer::Unknown;
            sharing.proofs.push(recorded.proof);
            sharing.touches.extend(recorded.touches);
            if !is_known {
                compare(
                    &runner,
                    &path,
                    &topology,
                    arguments.rounds,
                    &mut sharing,
                    said,
                )?;
            }
            if let Some(lines) = watched {
                sharing.add_lines(lines);
            }
        }
        (None, None) => {
            bail!("nothing to run: add a command, as in `cachewise cpu sharing -- ./program`")
        }
    }
    sharing.notes.extend(quota.note());
    let found = verdict(&sharing.proofs) == Answer::Found;
    let columns = arguments.columns.as_ref();
    write(sinks, columns, |style| CommandOutput {
        text: show::text(&sharing, columns, style),
        sheet: show::proofs(&sharing),
        members: show::members(&sharing),
    })?;
    Ok(match arguments.check && found {
        true => ExitCode::from(NO),
        false => ExitCode::SUCCESS,
    })
}

impl Sharing {
    fn add_lines(&mut self, lines: line::Lines) {
        self.proofs.extend(lines.proofs);
        self.touches.extend(lines.touches);
        self.notes.extend(lines.notes);
    }

    /// A proof that could not be tried.
    fn cannot(&mut self, name: &'static str, reason: impl Into<String>) {
        self.proofs.push(Proof {
            name,
            answer: Answer::Unknown,
            ratio: None,
            says: reason.into(),
        });
    }
}

/// One CPU against all, and plain against padded.
fn compare(
    runner: &Runner<'_>,
    program: &Path,
    topology: &Topology,
    rounds: u32,
    sharing: &mut Sharing,
    said: impl Fn(String),
) -> Result<()> {
    let cpus = allowed()?;
    let Some(one) = cpus.first().filter(|_| cpus.len() > 1) else {
        let reason = format!("two CPUs are needed, and this process may use only CPU {cpus}");
        // Its threads never run at the same time: runs would compare nothing.
        sharing.cannot(ONE_CPU, reason.clone());
        sharing.cannot(PADDED_HEAP, reason);
        return Ok(());
    };
    sharing.runs.cpus = cpus.len();
    sharing.runs.is_one_core = topology.cores_of(&cpus) == 1;
    let pin = |cpus| match cpus {
        Cpus::One => Some(one),
        Cpus::All => None,
    };
    // Not measured: it loads the program into memory, and shows whether it succeeds at all.
    runner.succeed(&runner.first()?, "the first run")?;
    let padding = Padding::new()?;
    let _kept = signals::Leftover::at(padding.place());
    let environment = padding.environment();
    let taken = takes_padding(runner, program, &padding)?;
    sharing.runs.asks_little = taken == Ok(Often(false));
    let refused = taken.err();
    for round in 1..=rounds {
        said(format!("round {round} of {rounds}"));
        let mut done = Round::default();
        let arms = Arm::ALL
            .into_iter()
            .filter(|arm| arm.heap == Heap::Plain || refused.is_none());
        let mut arms: Vec<Arm> = arms.collect();
        // The order rotates, as being always first or last would be an advantage.
        let turned = round as usize % arms.len();
        arms.rotate_left(turned);
        for arm in arms {
            let variables = match arm.heap {
                Heap::Plain => &[][..],
                Heap::Padded => &environment[..],
            };
            let ended = runner.once(variables, pin(arm.cpus))?;
            runner.succeed(&ended, "a run")?;
            done.add(arm, ended.run);
        }
        sharing.runs.rounds.push(done);
    }
    sharing.proofs.push(sharing.runs.one_cpu());
    match refused {
        Some(reason) => sharing.cannot(PADDED_HEAP, reason),
        None => sharing.proofs.push(sharing.runs.padded_heap()),
    }
    Ok(())
}

/// Whether a program calls the padding allocator more often than a C library does for itself.
#[derive(PartialEq, Eq)]
struct Often(bool);

/// How the program takes the padding allocator, or why it does not.
fn takes_padding(
    runner: &Runner<'_>,
    program: &Path,
    padding: &Padding,
) -> Result<Result<Often, String>> {
    if let Some(reason) = CannotPreload::foreseen(program) {
        return Ok(Err(reason.to_string()));
    }
    let ended = runner.once(&padding.environment(), None)?;
    let padded = padding.padded()?;
    if padded.programs == 0 {
        return Ok(Err(CannotPreload::for_program(program).to_string()));
    }
    if !ended.has_succeeded() {
        return Ok(Err(format!(
            "with a padded heap the program ended with {}",
            ended.exit
        )));
    }
    // Its children may be linked statically, end without a report, or use another allocator.
    let all = ended.run.cpu.as_secs_f64();
    let is_most = |part: Duration| part.as_secs_f64() >= MOST * all;
    let of_all = |part: Duration| {
        format!(
            "in programs that took {:.2} of {all:.2} s of CPU time",
            part.as_secs_f64()
        )
    };
    Ok(if !is_most(padded.cpu) {
        Err(format!(
            "the padded allocator was loaded only {}: other child processes are linked statically, clear their \
             environment, or end without a report",
            of_all(padded.cpu)
        ))
    } else if !is_most(padded.used) {
        Err(format!(
            "the padded allocator was used only {}: other programs have their own heap, such as a linked allocator or \
             that of Java",
            of_all(padded.used)
        ))
    } else {
        Ok(Often(is_most(padded.often)))
    })
}
