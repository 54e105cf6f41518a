//! `cpu lab`: experiments, with their controls and checks.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_cpu::lab::{Case, EXPERIMENTS, Effect, Experiment, Outcome};
use cachewise_cpu::measure::estimate::{Estimate, Trust};
use cachewise_model::Unit;
use cachewise_view::{Sheet, SheetCell, SheetColumns, Style, figure};
use serde_json::{Map, Value as Json, json};

use super::columns::LAB;
use super::quota::Quota;
use super::{CommandOutput, check_format, write};
use crate::commands::arguments::CpuLab;
use cachewise_cli::output::{NO, Stream, tell};
use cachewise_cli::sinks::Sinks;

/// An experiment, with its outcome or the reason why it could not run.
type Done = (Experiment, Result<Outcome, String>);

/// Runs the experiments.
pub fn lab(arguments: &CpuLab) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    check_format(&sinks)?;
    let chosen = chosen(&arguments.names)?;
    if arguments.list {
        write(sinks, None, |_| CommandOutput {
            text: listed(&chosen),
            sheet: Sheet::new(&LAB),
            members: Map::from_iter([(
                "experiments".to_owned(),
                chosen.iter().map(named).collect(),
            )]),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let quota = Quota::now();
    let mut done: Vec<Done> = Vec::new();
    for experiment in chosen {
        if sinks.have_terminal() {
            tell(&format!("{}: {}", experiment.name, experiment.about));
        }
        done.push((experiment, experiment.run()));
    }
    let failed = done.iter().any(|(_, outcome)| match outcome {
        Ok(outcome) => outcome.checks.iter().any(|check| !check.holds),
        Err(_) => true,
    });
    let note = quota.note();
    let columns = arguments.columns.as_ref();
    write(sinks, columns, |style| CommandOutput {
        text: text(&done, note.as_deref(), columns, style),
        sheet: sheet(&done),
        members: members(&done, note.as_deref()),
    })?;
    Ok(match arguments.check && failed {
        true => ExitCode::from(NO),
        false => ExitCode::SUCCESS,
    })
}

fn chosen(names: &[String]) -> Result<Vec<Experiment>> {
    if names.is_empty() {
        return Ok(EXPERIMENTS.to_vec());
    }
    let mut chosen = Vec::new();
    for name in names {
        let Some(found) = EXPERIMENTS.iter().find(|one| one.name == name) else {
            let all: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
            bail!("unknown experiment {name:?}: use one of {}", all.join(", "));
        };
        chosen.push(*found);
    }
    Ok(chosen)
}

fn listed(experiments: &[Experiment]) -> String {
    let width = experiments
        .iter()
        .map(|one| one.name.len())
        .max()
        .unwrap_or(0);
    let line = |one: &Experiment| format!("{:width$}  {}\n", one.name, one.about);
    experiments.iter().map(line).collect()
}

fn text(done: &[Done], note: Option<&str>, columns: Option<&SheetColumns>, style: Style) -> String {
    let mut text = String::new();
    for (experiment, outcome) in done {
        // Writing to a string cannot fail.
        let head = format!("{}: {}", experiment.name, experiment.about);
        let _ = writeln!(text, "{}", style.bold(&head));
        match outcome {
            Ok(outcome) => {
                text += &rows(experiment, outcome).chosen(columns).table(style);
                effects(&mut text, outcome);
                for check in &outcome.checks {
                    let mark = if check.holds {
                        "holds"
                    } else {
                        "DOES NOT HOLD"
                    };
                    let _ = writeln!(text, "{mark}: {}", check.what);
                }
                for reason in &outcome.not_tried {
                    let _ = writeln!(text, "not tried: {reason}");
                }
            }
            Err(reason) => {
                let _ = writeln!(text, "not done: {reason}");
            }
        }
        let _ = writeln!(
            text,
            "why: {}\ndo:  {}\n",
            experiment.why, experiment.advice
        );
    }
    if let Some(note) = note {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn effects(text: &mut String, outcome: &Outcome) {
    for effect in &outcome.effects {
        let Estimate { value, low, high } = effect.ratio;
        let control = if effect.is_control { ", control" } else { "" };
        let contended = match effect.trust() {
            Trust::Contended => ", contended",
            Trust::Good | Trust::Fair => "",
        };
        let [value, low, high] = [value, low, high].map(|ratio| figure(Unit::Factor, ratio));
        let figure = format!("{value} ({low} to {high})");
        let _ = writeln!(
            text,
            "{figure:>26} times: {}{control}{contended}",
            effect.name
        );
    }
}

fn rows(experiment: &Experiment, outcome: &Outcome) -> Sheet {
    let mut sheet = Sheet::new(&LAB);
    sheet
        .rows
        .extend(outcome.cases.iter().map(|case| row(experiment, case)));
    sheet
}

fn row(experiment: &Experiment, case: &Case) -> Vec<SheetCell> {
    let seconds = |ns: f64| SheetCell::latency(super::seconds(ns));
    let control = if case.is_control { " (control)" } else { "" };
    vec![
        SheetCell::text(experiment.name),
        SheetCell::with_text(case.name.clone(), format!("{}{control}", case.name)),
        SheetCell::flag(case.is_control),
        seconds(case.ns.value),
        seconds(case.ns.low),
        seconds(case.ns.high),
        SheetCell::text(case.unit),
    ]
}

fn sheet(done: &[Done]) -> Sheet {
    let mut all = Sheet::new(&LAB);
    for (experiment, outcome) in done {
        if let Ok(outcome) = outcome {
            all.rows.extend(rows(experiment, outcome).rows);
        }
    }
    all
}

fn named(experiment: &Experiment) -> Json {
    json!({ "name": experiment.name, "about": experiment.about })
}

fn members(done: &[Done], note: Option<&str>) -> Map<String, Json> {
    let experiments = done.iter().map(|(experiment, outcome)| {
        let reason = outcome.as_ref().err();
        let effect = |effect: &Effect| {
            json!({
                "name": effect.name,
                "ratio": effect.ratio.value,
                "ratio_low": effect.ratio.low,
                "ratio_high": effect.ratio.high,
                "trust": effect.trust().id(),
                "control": effect.is_control,
            })
        };
        let outcome = outcome.as_ref().ok();
        let cases = outcome.map(|outcome| rows(experiment, outcome).json());
        let effects = outcome.map(|outcome| outcome.effects.iter().map(effect).collect::<Json>());
        let checks = outcome.map(|outcome| {
            let checks = outcome.checks.iter();
            checks
                .map(|check| json!({ "holds": check.holds, "what": check.what }))
                .collect::<Json>()
        });
        json!({
            "name": experiment.name,
            "about": experiment.about,
            "cases": cases,
            "effects": effects,
            "checks": checks,
            "not_tried": outcome.map(|outcome| outcome.not_tried.clone()),
            "reason": reason,
            "why": experiment.why,
            "advice": experiment.advice,
        })
    });
    Map::from_iter([
        ("experiments".to_owned(), experiments.collect()),
        ("notes".to_owned(), note.into_iter().collect()),
    ])
}
