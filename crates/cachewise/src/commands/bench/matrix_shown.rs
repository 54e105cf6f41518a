//! Output of `bench matrix`: tables and rows.

use std::fmt::Write;

use cachewise_bench::matrix::{Measure, Plan, Sample, Skipped, Trial, Verdicts};
use cachewise_cli::output::printable;
use cachewise_control::Setting;
use cachewise_model::{Missing, NOT_APPLICABLE, Reason, Unit};
use cachewise_units::escaped;
use cachewise_view::{Sheet, SheetCell, SheetColumn, SheetColumns, Style, figure, share};

/// A row is an arm with a workload.
pub const MATRIX_COLUMNS: [SheetColumn; 11] = [
    SheetColumn::new("measure", "MEASURE", false, "The compared figure").if_chosen(),
    SheetColumn::new("workload", "WORKLOAD", false, "The workload"),
    SheetColumn::new("arm", "ARM", false, "The arm"),
    SheetColumn::new("mean", "MEAN", true, "Mean of the runs"),
    SheetColumn::new(
        "variation_ratio",
        "CV",
        true,
        "Standard deviation of the runs divided by the mean",
    ),
    SheetColumn::new("runs", "N", true, "Number of runs"),
    SheetColumn::new(
        "change_ratio",
        "CHANGE%",
        true,
        "Change of the mean, relative to the baseline's",
    )
    .if_chosen(),
    SheetColumn::new(
        "low_ratio",
        "CHANGE-FROM",
        true,
        "Lower end of the 95 % interval of the change",
    )
    .if_chosen(),
    SheetColumn::new(
        "high_ratio",
        "CHANGE-TO",
        true,
        "Upper end of the 95 % interval of the change",
    )
    .if_chosen(),
    SheetColumn::new(
        "p_adjusted",
        "P",
        true,
        "Chance of this difference if there is none, adjusted for all comparisons",
    )
    .if_chosen(),
    SheetColumn::new("verdict", "VERDICT", false, "The verdict in words"),
];

/// A row is a run of a dry run.
const TRIALS: [SheetColumn; 4] = [
    SheetColumn::new("run", "RUN", true, "Number of the run"),
    SheetColumn::new("repeat", "REPEAT", true, "Number of the repeat"),
    SheetColumn::new("workload", "WORKLOAD", false, "The workload"),
    SheetColumn::new("arm", "ARM", false, "The arm"),
];

/// A row is a setting.
const SETTINGS: [SheetColumn; 4] = [
    SheetColumn::new("setting", "SETTING", false, "Name of the setting"),
    SheetColumn::new("value", "VALUE", false, "Its current value"),
    SheetColumn::new("about", "ABOUT", false, "Its purpose"),
    SheetColumn::new("values", "VALUES", false, "Its valid values"),
];

const NO_RUN: Missing = Missing::NotOffered(Reason::NothingCompared);

/// For people: a table for each figure, the leading one first.
pub fn text(verdicts: &Verdicts, columns: Option<&SheetColumns>, style: Style) -> String {
    let mut text = String::new();
    for measure in Measure::ALL {
        let title = format!("{measure}, beside {:?}", verdicts.baseline);
        let table = sheet(verdicts, Some(measure)).chosen(columns).table(style);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}\n{table}", style.bold(&printable(&title)));
    }
    for skipped in &verdicts.skipped {
        let line = format!("skipped: {}: {}", skipped.arm, skipped.reason);
        let _ = writeln!(text, "{}", printable(&line));
    }
    for warning in &verdicts.warnings {
        let _ = writeln!(text, "warning: {}", printable(warning));
    }
    let (done, planned, seed) = (verdicts.done, verdicts.planned, verdicts.seed);
    text + &format!("{done} of {planned} runs, seed {seed}\n")
}

/// A row for each arm with each workload, of one figure or of all.
pub fn sheet(verdicts: &Verdicts, measure: Option<Measure>) -> Sheet {
    let mut sheet = Sheet::new(&MATRIX_COLUMNS);
    let samples = verdicts.samples.iter();
    let samples = samples.filter(|sample| measure.is_none_or(|measure| sample.measure == measure));
    sheet
        .rows
        .extend(samples.map(|sample| row(verdicts, sample)));
    sheet
}

fn row(verdicts: &Verdicts, sample: &Sample) -> Vec<SheetCell> {
    let compared = verdicts.compared(sample);
    let change = |ratio: Option<f64>| {
        SheetCell::or_missing(ratio, NO_RUN, |ratio| {
            SheetCell::with_text(ratio, share(ratio))
        })
    };
    let interval = compared.and_then(|compared| compared.interval_ratio);
    let p = compared.and_then(|compared| compared.p_adjusted);
    vec![
        SheetCell::text(sample.measure.to_string()),
        SheetCell::text(sample.workload.clone()),
        SheetCell::text(sample.arm.clone()),
        SheetCell::or_missing(sample.mean, NO_RUN, |mean| {
            SheetCell::with_text(mean, sample.measure.shown(mean))
        }),
        change(sample.variation_ratio),
        SheetCell::count(sample.values.len() as u64),
        change(compared.and_then(|compared| compared.change_ratio)),
        change(interval.map(|(low, _)| low)),
        change(interval.map(|(_, high)| high)),
        SheetCell::or_missing(p, NO_RUN, |p| {
            SheetCell::with_text(p, figure(Unit::Seconds, p))
        }),
        match verdicts.verdict(sample) {
            "-" => SheetCell::missing(NOT_APPLICABLE),
            verdict => SheetCell::text(verdict),
        },
    ]
}

/// The arms and the runs, for people.
pub fn dry_run_text(plan: &Plan, trials: &[Trial], skipped: &[Skipped]) -> String {
    let mut text = String::new();
    for arm in &plan.arms {
        let settings = arm.settings.iter();
        let settings: Vec<String> = settings
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let reason = skipped.iter().find(|skipped| skipped.arm == arm.name);
        let what = match (reason, settings.is_empty()) {
            (Some(skipped), _) => format!("skipped: {}", skipped.reason),
            (None, true) => "changes nothing".to_owned(),
            (None, false) => settings.join(", "),
        };
        let _ = writeln!(text, "arm {}: {what}", escaped(&arm.name));
    }
    for (number, trial) in trials.iter().enumerate() {
        let (workload, arm) = (escaped(&trial.workload), escaped(&trial.arm));
        let (run, repeat) = (number + 1, trial.repeat + 1);
        let _ = writeln!(text, "run {run}: repeat {repeat}, {workload} with {arm}");
    }
    let runs = trials.len();
    text + &format!("{runs} runs, seed {}; nothing was touched\n", plan.seed)
}

/// The runs as CSV.
///
/// # Errors
/// The library cannot write its input.
pub fn trials_csv(trials: &[Trial]) -> std::io::Result<String> {
    let mut sheet = Sheet::new(&TRIALS);
    sheet
        .rows
        .extend(trials.iter().enumerate().map(|(number, trial)| {
            vec![
                SheetCell::count(number as u64 + 1),
                SheetCell::count(u64::from(trial.repeat) + 1),
                SheetCell::text(trial.workload.clone()),
                SheetCell::text(trial.arm.clone()),
            ]
        }));
    sheet.csv()
}

/// The settings with their current values.
pub fn settings(values: &[(&Setting, String)]) -> Sheet {
    let mut sheet = Sheet::new(&SETTINGS);
    sheet.rows.extend(values.iter().map(|(setting, now)| {
        vec![
            SheetCell::text(setting.name),
            SheetCell::text(now.clone()),
            SheetCell::text(setting.about),
            SheetCell::text(setting.kind.to_string()),
        ]
    }));
    sheet
}
