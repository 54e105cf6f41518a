//! `bench matrix` and `bench restore`: settings times workloads, and restored settings.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_bench::matrix::{Files, Plan, Results, Skipped, Trial, Verdicts, execute, page};
use cachewise_control::{
    Journal, SETTINGS, Setting, SettingLocation, SettingTarget, Unsure, running, sweep,
};
use cachewise_kstat::Kernel;
use cachewise_model::SCHEMA_VERSION;
use cachewise_units::escaped;
use cachewise_view::{Format, SheetColumns};
use serde_json::{Value, json};

use super::bar::Bar;
use super::matrix_arguments::{Matrix, Restore};
use super::matrix_shown;
use crate::commands::guard::{directory, recovered, report_restored};
use crate::interrupt::Interrupt;
use crate::machine;
use cachewise_cli::host::document;
use cachewise_cli::output::{self, Stream, Whole, explain, tell};
use cachewise_cli::sinks::Sinks;

/// Runs every trial that is not done yet, and reports.
pub fn matrix(arguments: &Matrix) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let Some(file) = &arguments.file else {
        return settings(arguments, &kernel);
    };
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    check_format(&sinks)?;
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", escaped(file)))?;
    let plan = Plan::parse(&text).with_context(|| format!("cannot use {}", escaped(file)))?;
    let skipped = plan.skipped(&kernel)?;
    let trials: Vec<Trial> = plan
        .trials()
        .into_iter()
        .filter(|trial| skipped.iter().all(|skipped| skipped.arm != trial.arm))
        .collect();
    if arguments.dry_run {
        return dry_run(sinks, &plan, &trials, &skipped);
    }
    let columns = arguments.columns.as_ref();
    let html = page_of(arguments)?;
    plan.check_files()
        .with_context(|| format!("cannot use {}", escaped(file)))?;
    let state = directory(arguments.state.as_deref());
    let recovery = recovered(&state, Unsure::Leave)?;
    // A killed run may have left its group, too.
    for (path, error) in sweep(&kernel, &recovery.ended)?.failed {
        tell(&format!(
            "note: cannot remove the group {} of an earlier run: {error}",
            escaped(&path)
        ));
    }
    let results = arguments
        .results
        .clone()
        .unwrap_or_else(|| file.with_extension("results.jsonl"));
    let mut results = Results::open(&results, &plan, &kernel.release()?)?;
    let interrupt = Interrupt::catch()?;
    let mut journal = Journal::open(&state, "bench matrix")?;
    for skipped in &skipped {
        tell(&format!(
            "note: skipped: {}: {}",
            skipped.arm, skipped.reason
        ));
    }
    let is_all_done = trials.iter().all(|trial| results.has(trial));
    let _files = match is_all_done {
        true => Files::default(),
        false => made(&plan, &interrupt)?,
    };
    let mut bar = Bar::new();
    for (number, trial) in trials.iter().enumerate() {
        if results.has(trial) {
            continue;
        }
        if interrupt.status().is_some() {
            break;
        }
        let prefix = format!("run {} of {}", number + 1, trials.len());
        let workload = plan
            .arm(&trial.arm)
            .and_then(|arm| plan.workload(arm, &trial.workload, trial.repeat));
        let mut watch = |event: &cachewise_bench::Event<'_>| {
            if let Some(workload) = &workload {
                bar.event_of(number, trials.len(), workload, event);
            }
        };
        let result = execute(
            &plan,
            trial,
            &kernel,
            &mut journal,
            &mut watch,
            interrupt.flag(),
        );
        match result {
            // An interrupted run does not count.
            Ok((done, _)) if done.summary.interrupted => break,
            Err(cachewise_bench::Error::Interrupted) => break,
            Ok((done, restored)) => {
                if !restored.left.is_empty() || !restored.failed.is_empty() {
                    bar.aside(|| report_restored(&restored));
                }
                results.add(done)?;
            }
            Err(error) => {
                bar.end();
                tell(&format!(
                    "{prefix}, {} with {}: {}",
                    trial.workload,
                    trial.arm,
                    explain(&error.into())
                ));
                if !results.done().is_empty() {
                    let verdicts =
                        Verdicts::from_trials(&plan, results.done(), skipped, processors());
                    report(sinks, columns, html, file, &verdicts)?;
                }
                bail!(
                    "some runs failed; fix the cause and start the same command again to continue"
                );
            }
        }
    }
    bar.end();
    let verdicts = Verdicts::from_trials(&plan, results.done(), skipped, processors());
    report(sinks, columns, html, file, &verdicts)?;
    Ok(interrupt.status().unwrap_or(ExitCode::SUCCESS))
}

/// Opens the page of `--html` first, so that an unwritable page is not reported hours later.
fn page_of(arguments: &Matrix) -> Result<Option<(Whole, &Path)>> {
    let begin = |path: &'_ PathBuf| {
        Whole::begin(path).with_context(|| format!("cannot write {}", escaped(path)))
    };
    let html = arguments.html.as_ref();
    html.map(|path| Ok((begin(path)?, path.as_path())))
        .transpose()
}

/// Makes the files of the workloads; stops if the user interrupts.
fn made(plan: &Plan, interrupt: &Interrupt) -> Result<Files> {
    let mut bar = Bar::new();
    let made = Files::make(
        plan,
        &mut |_, done, size| bar.show("writing", done.0, size.0),
        interrupt.flag(),
    );
    bar.end();
    match made {
        Err(cachewise_bench::Error::Interrupted) => Ok(Files::default()),
        made => Ok(made?),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Prints the runs without doing them.
fn dry_run(sinks: Sinks, plan: &Plan, trials: &[Trial], skipped: &[Skipped]) -> Result<ExitCode> {
    sinks.write(|sink| {
        let text = match sink.format {
            Format::Table => matrix_shown::dry_run_text(plan, trials, skipped),
            Format::Csv => matrix_shown::trials_csv(trials)?,
            format => json_text(
                format,
                json!({
                    "schema_version": SCHEMA_VERSION,
                    "dry_run": true,
                    "plan": plan,
                    "skipped": skipped,
                    "trials": trials,
                }),
            ),
        };
        Ok(sink.write_all(text.as_bytes())?)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A document, indented or on one line.
fn json_text(format: Format, document: Value) -> String {
    match format {
        Format::JsonLines => format!("{document}\n"),
        _ => format!("{document:#}\n"),
    }
}

/// Refuses a format that has no place for a matrix, before anything is done.
fn check_format(sinks: &Sinks) -> Result<()> {
    if sinks.have(Format::OpenMetrics) {
        bail!("a matrix is written as table, json, jsonl, csv or markdown, not as openmetrics");
    }
    Ok(())
}

fn report(
    sinks: Sinks,
    columns: Option<&SheetColumns>,
    html: Option<(Whole, &Path)>,
    file: &Path,
    verdicts: &Verdicts,
) -> Result<()> {
    let mut document = serde_json::to_value(verdicts).context("cannot write the report as JSON")?;
    document["schema_version"] = json!(SCHEMA_VERSION);
    document["timestamp"] = json!(machine::timestamp().to_string());
    document["hostname"] = json!(machine::hostname(&Kernel::new()));
    document["page_size_bytes"] = json!(cachewise_sys::page_size().get());
    sinks.write(|sink| {
        let text = match sink.format {
            Format::Table => matrix_shown::text(verdicts, columns, sink.style),
            Format::Csv => matrix_shown::sheet(verdicts, None).chosen(columns).csv()?,
            format => json_text(format, document.clone()),
        };
        Ok(sink.write_all(text.as_bytes())?)
    })?;
    if let Some((html, path)) = html {
        let title = format!("cachewise bench matrix: {}", file.display());
        html.write(page(verdicts, &title).as_bytes())
            .with_context(|| format!("cannot write {}", escaped(path)))?;
    }
    Ok(())
}

/// Lists every setting with its valid values and its current value.
fn settings(arguments: &Matrix, kernel: &Kernel) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    check_format(&sinks)?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let target = SettingTarget {
        kernel,
        file: Some(&here),
    };
    let now = |setting: &Setting| match (setting.place, setting.read(target)) {
        (SettingLocation::Group, _) => "set on the workload's group".to_owned(),
        (_, Ok(value)) => value.unwrap_or_else(|| "?".to_owned()),
        (_, Err(cachewise_control::Error::Unsupported { .. })) => {
            format!("- (needs {})", setting.since)
        }
        (_, Err(error)) => format!("? ({error})"),
    };
    let values: Vec<(&Setting, String)> = SETTINGS
        .iter()
        .map(|setting| (setting, now(setting)))
        .collect();
    sinks.write(|sink| {
        let text = match sink.format {
            Format::Table => values
                .iter()
                .map(|(setting, now)| {
                    let (name, about, kind) = (setting.name, setting.about, setting.kind);
                    format!("{name} = {now}\n    {about}; {kind}\n")
                })
                .collect(),
            Format::Csv => matrix_shown::settings(&values).csv()?,
            format => {
                let rows = matrix_shown::settings(&values).json();
                json_text(
                    format,
                    document([("settings".to_owned(), rows)].into_iter().collect()),
                )
            }
        };
        Ok(sink.write_all(text.as_bytes())?)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the process at the other end of standard input has ended.
fn wait_for_end_of_input(state: &Path) -> Result<()> {
    /// The kernel closes the pipe of a process before it has ended.
    const LONGEST: Duration = Duration::from_secs(10);
    // Asked before the end of the input: afterwards it may have another one.
    let parent = rustix::process::getppid();
    io::copy(&mut io::stdin().lock(), &mut io::sink()).context("cannot read standard input")?;
    let began = Instant::now();
    while parent.is_some() && rustix::process::getppid() == parent && began.elapsed() < LONGEST {
        if running(state)?.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Restores the settings that killed runs left, and removes their groups.
pub fn restore(arguments: &Restore) -> Result<ExitCode> {
    let state = directory(arguments.state.as_deref());
    if arguments.when_input_ends {
        wait_for_end_of_input(&state)?;
    }
    let unsure = match arguments.force {
        true => Unsure::PutBack,
        false => Unsure::Leave,
    };
    let recovery = recovered(&state, unsure)?;
    let swept = sweep(&Kernel::new(), &recovery.ended)?;
    let running = running(&state)?;
    for run in &running {
        tell(&format!(
            "`cachewise {}` still runs, and restores its settings when it ends ({})",
            run.by,
            escaped(&run.path)
        ));
    }
    for path in &swept.removed {
        tell(&format!("removed the control group {}", escaped(path)));
    }
    for (_, error) in &swept.failed {
        tell(&error.to_string());
    }
    let is_failed = recovery.failed > 0 || !swept.failed.is_empty();
    if !is_failed && running.is_empty() {
        tell(&format!("no settings to restore in {}", escaped(&state)));
    }
    Ok(output::status(is_failed))
}
