//! [`Verdicts`]: each arm compared with the first, workload by workload.

use std::fmt::{self, Write};

use serde::Serialize;

use super::{Done, Plan, Skipped, stats};

/// What is compared, the one that leads first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Bytes read from devices for each useful byte: repeats within a few per cent.
    DeviceBytesPerUsefulByte,
    /// Useful bytes a second: repeats badly on a machine that does other things too.
    UsefulBytesPerSecond,
}

impl Measure {
    /// All of them, in order.
    pub const ALL: [Measure; 2] = [
        Measure::DeviceBytesPerUsefulByte,
        Measure::UsefulBytesPerSecond,
    ];

    /// Its value in a run; `None` where nobody told.
    #[must_use]
    pub fn of(self, done: &Done) -> Option<f64> {
        let figures = &done.summary.figures;
        match self {
            Measure::DeviceBytesPerUsefulByte => figures.amplification(),
            Measure::UsefulBytesPerSecond => {
                (figures.seconds > 0.0).then(|| figures.useful_bytes as f64 / figures.seconds)
            }
        }
    }

    /// A value as people read it.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        match self {
            Measure::DeviceBytesPerUsefulByte => format!("{value:.3}"),
            Measure::UsefulBytesPerSecond => format!("{:.1} MiB/s", value / f64::from(1 << 20)),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Measure::DeviceBytesPerUsefulByte => "device bytes per useful byte",
            Measure::UsefulBytesPerSecond => "throughput",
        })
    }
}

/// The runs of one arm with one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// The workload.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// What is measured.
    pub measure: Measure,
    /// Each run's value.
    pub values: Vec<f64>,
    /// Their mean; `null` of none.
    pub mean: Option<f64>,
    /// Their standard deviation as a part of it.
    pub variation_ratio: Option<f64>,
}

/// An arm beside the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The workload.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// What is measured.
    pub measure: Measure,
    /// The change of the mean, as a part of the first arm's; `null` where that is 0.
    pub change_ratio: Option<f64>,
    /// Within what it lies in 95 of 100 cases, by the bootstrap.
    pub interval_ratio: Option<(f64, f64)>,
    /// The chance of such a difference where there is none, by Welch's test.
    pub p: Option<f64>,
    /// The same, with all comparisons of this measure taken into account (Holm).
    pub p_adjusted: Option<f64>,
    /// Whether there is a difference.
    pub is_significant: bool,
    /// In words.
    pub verdict: String,
}

/// All that a matrix says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdicts {
    /// The arm that others are compared with.
    pub baseline: String,
    /// The seed of order and places.
    pub seed: u64,
    /// How often everything was to be done.
    pub repeats: u32,
    /// How many runs there are of how many.
    pub done: usize,
    /// Of so many.
    pub planned: usize,
    /// Arms that this machine cannot have.
    pub skipped: Vec<Skipped>,
    /// The runs.
    pub samples: Vec<Sample>,
    /// The arms beside the first.
    pub comparisons: Vec<Comparison>,
    /// What makes all this mean less than it seems to.
    pub warnings: Vec<String>,
}

impl Verdicts {
    /// Compares what there is.
    #[must_use]
    pub fn of(plan: &Plan, done: &[Done], skipped: Vec<Skipped>, processors: usize) -> Verdicts {
        let baseline = plan
            .arms
            .first()
            .map(|arm| arm.name.clone())
            .unwrap_or_default();
        let is_skipped = |name: &str| skipped.iter().any(|skipped| skipped.arm == name);
        let arms = plan.arms.iter().filter(|arm| !is_skipped(&arm.name));
        let arms: Vec<&str> = arms.map(|arm| arm.name.as_str()).collect();
        let mut samples = Vec::new();
        let mut comparisons = Vec::new();
        for measure in Measure::ALL {
            let first = comparisons.len();
            for workload in plan.workloads.keys() {
                let values = |arm: &str| -> Vec<f64> {
                    let of_arm = done
                        .iter()
                        .filter(|done| done.trial.arm == arm && done.trial.workload == *workload);
                    of_arm.filter_map(|done| measure.of(done)).collect()
                };
                let base = values(&baseline);
                for arm in &arms {
                    let values = values(arm);
                    samples.push(Sample {
                        workload: workload.clone(),
                        arm: (*arm).to_owned(),
                        measure,
                        mean: stats::mean(&values),
                        variation_ratio: stats::variation(&values),
                        values: values.clone(),
                    });
                    if *arm == baseline || is_skipped(&baseline) {
                        continue;
                    }
                    let means = stats::mean(&base).zip(stats::mean(&values));
                    comparisons.push(Comparison {
                        workload: workload.clone(),
                        arm: (*arm).to_owned(),
                        measure,
                        change_ratio: means.filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a - 1.0),
                        interval_ratio: stats::bootstrap(&base, &values, plan.seed),
                        p: stats::welch(&base, &values).map(|welch| welch.p),
                        p_adjusted: None,
                        is_significant: false,
                        verdict: String::new(),
                    });
                }
            }
            judge(&mut comparisons[first..]);
        }
        let planned = plan
            .trials()
            .iter()
            .filter(|trial| !is_skipped(&trial.arm))
            .count();
        let mut warnings = warnings(done, planned, processors);
        if is_skipped(&baseline) {
            warnings.push(format!(
                "{baseline:?}, with which others are compared, cannot be had here: nothing is compared; write another arm first"
            ));
        }
        Verdicts {
            baseline,
            seed: plan.seed,
            repeats: plan.repeats,
            done: done.len(),
            planned,
            skipped,
            samples,
            comparisons,
            warnings,
        }
    }
}

/// Says of each whether there is a difference: where Welch's test finds one, with all of them taken into account, and
/// no change is not among the likely ones.
fn judge(comparisons: &mut [Comparison]) {
    let known: Vec<usize> = (0..comparisons.len())
        .filter(|i| comparisons[*i].p.is_some())
        .collect();
    let chances: Vec<f64> = known.iter().filter_map(|i| comparisons[*i].p).collect();
    for (index, adjusted) in known.into_iter().zip(stats::holm(&chances)) {
        comparisons[index].p_adjusted = Some(adjusted);
    }
    for one in comparisons {
        let excludes_none = one
            .interval_ratio
            .is_none_or(|(low, high)| low > 0.0 || high < 0.0);
        one.is_significant =
            one.p_adjusted.is_some_and(|p| p < stats::SIGNIFICANT) && excludes_none;
        one.verdict = match (one.p_adjusted, one.is_significant, one.interval_ratio) {
            (None, ..) => "too few runs to say anything".to_owned(),
            (Some(p), false, _) => format!("no significance ({})", chance(p)),
            (Some(p), true, Some((low, high))) => {
                format!(
                    "[{:+.2}, {:+.2}] % ({})",
                    low * 100.0,
                    high * 100.0,
                    chance(p)
                )
            }
            (Some(p), true, None) => format!("differs, of a baseline of 0 ({})", chance(p)),
        };
    }
}

/// No chance is 0, however small it is.
fn chance(p: f64) -> String {
    match p {
        _ if p < 1e-4 => "p < 0.0001".to_owned(),
        _ if p < stats::SIGNIFICANT => format!("p = {p:.4}"),
        _ => format!("p = {p:.3}"),
    }
}

fn warnings(done: &[Done], planned: usize, processors: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let busy: Vec<String> = done
        .iter()
        .filter_map(|done| done.contention.warning(processors))
        .collect();
    if let Some(first) = busy.first() {
        warnings.push(format!(
            "the machine was contended in {} of {} runs ({first}, for one): figures in time mean little, counters hold",
            busy.len(),
            done.len()
        ));
    }
    if done.len() < planned {
        warnings.push(format!(
            "{} of {planned} runs are done: start it again to go on",
            done.len()
        ));
    }
    let mut told: Vec<&String> = done
        .iter()
        .flat_map(|done| &done.summary.warnings)
        .collect();
    told.sort();
    told.dedup();
    warnings.extend(told.into_iter().cloned());
    warnings
}

impl Verdicts {
    /// What is said of an arm.
    #[must_use]
    pub fn verdict(&self, sample: &Sample) -> &str {
        let compared = self.comparisons.iter().find(|one| {
            one.measure == sample.measure
                && one.arm == sample.arm
                && one.workload == sample.workload
        });
        match compared {
            Some(one) => &one.verdict,
            None if sample.arm == self.baseline => "baseline",
            None => "-",
        }
    }
}

impl fmt::Display for Verdicts {
    /// Tables for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let arm = widest(&mut self.samples.iter().map(|sample| sample.arm.chars().count())).max(3);
        let workload = widest(
            &mut self
                .samples
                .iter()
                .map(|sample| sample.workload.chars().count()),
        )
        .max(8);
        for measure in Measure::ALL {
            writeln!(f, "{measure}, beside {:?}", self.baseline)?;
            writeln!(
                f,
                "  {:workload$}  {:arm$}  {:>12}  {:>7}  {:>2}  VERDICT",
                "WORKLOAD", "ARM", "MEAN", "CV", "N"
            )?;
            for sample in self
                .samples
                .iter()
                .filter(|sample| sample.measure == measure)
            {
                let mean = sample
                    .mean
                    .map_or_else(|| "?".to_owned(), |mean| measure.shown(mean));
                let mut cv = String::from("-");
                if let Some(ratio) = sample.variation_ratio {
                    cv.clear();
                    write!(cv, "{:.1} %", ratio * 100.0)?;
                }
                let verdict = self.verdict(sample);
                let line = format!(
                    "  {:workload$}  {:arm$}  {mean:>12}  {cv:>7}  {:>2}  {verdict}",
                    sample.workload,
                    sample.arm,
                    sample.values.len()
                );
                writeln!(f, "{}", line.trim_end())?;
            }
            writeln!(f)?;
        }
        for skipped in &self.skipped {
            writeln!(f, "skipped: {}: {}", skipped.arm, skipped.reason)?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        write!(
            f,
            "{} of {} runs, seed {}",
            self.done, self.planned, self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use cachewise_units::Bytes;

    use super::*;
    use crate::matrix::{Arm, Contention, Trial};
    use crate::{Workload, run};

    const RUNS: u32 = 6;

    /// Two arms and a real run of a small file, of which the figures are changed.
    fn matrix(
        device: impl Fn(&str, u32) -> u64,
        seconds: impl Fn(&str, u32) -> f64,
    ) -> (Plan, Vec<Done>) {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload {
            file: directory.path().join("data"),
            size: Some(Bytes(1 << 20)),
            bytes: Some(Bytes(1 << 20)),
            ..Workload::default()
        };
        let summary = run(&workload, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        let arm = |name: &str| Arm {
            name: name.to_owned(),
            settings: std::collections::BTreeMap::new(),
        };
        let plan = Plan {
            repeats: RUNS,
            seed: 1,
            arms: vec![arm("a"), arm("b")],
            workloads: [("read".to_owned(), workload)].into(),
        };
        let done = plan.trials().into_iter().map(|trial: Trial| {
            let mut summary = summary.clone();
            summary.figures.useful_bytes = 1 << 20;
            summary.figures.device_read_bytes = Some(device(&trial.arm, trial.repeat));
            summary.figures.seconds = seconds(&trial.arm, trial.repeat);
            let contention = Contention {
                load: Some(f64::from(trial.repeat)),
                ..Contention::default()
            };
            Done {
                trial,
                contention,
                summary,
            }
        });
        let done = done.collect();
        (plan, done)
    }

    /// Noise that is the same for both.
    fn noise(repeat: u32) -> u64 {
        u64::from(repeat * 7 % 5) * 1000
    }

    #[test]
    fn an_arm_beside_itself_has_no_significance() {
        let (plan, done) = matrix(
            |_, repeat| 1_200_000 + noise(repeat),
            |_, repeat| 1.0 + f64::from(repeat * 3 % 4),
        );
        let verdicts = Verdicts::of(&plan, &done, Vec::new(), 8);
        assert_eq!(verdicts.comparisons.len(), 2, "both measures: {verdicts:?}");
        for one in &verdicts.comparisons {
            assert!(!one.is_significant, "{one:?}");
            assert!(one.verdict.contains("no significance"), "in words: {one:?}");
        }
        let text = verdicts.to_string();
        assert!(
            text.starts_with("device bytes per useful byte"),
            "it leads: {text}"
        );
        assert!(
            text.contains("baseline") && text.contains("12 of 12 runs"),
            "{text}"
        );
        assert!(
            verdicts.warnings.is_empty(),
            "a quiet machine: {verdicts:?}"
        );
    }

    #[test]
    fn a_difference_in_counters_is_found_where_the_speed_tells_none() {
        let (plan, done) = matrix(
            |arm, repeat| if arm == "b" { 1_320_000 } else { 1_200_000 } + noise(repeat),
            |_, repeat| 1.0 + f64::from(repeat * 3 % 4),
        );
        let verdicts = Verdicts::of(&plan, &done, Vec::new(), 2);
        let [device, speed] = &verdicts.comparisons[..] else {
            panic!("two measures: {verdicts:?}");
        };
        let (low, high) = device.interval_ratio.unwrap();
        assert!(
            device.is_significant && low > 0.09 && high < 0.11,
            "10 % more: {device:?}"
        );
        assert!(
            device.verdict.contains("(p < 0.0001)"),
            "never 0: {device:?}"
        );
        assert!(!speed.is_significant, "the speed is noise: {speed:?}");
        assert!(
            verdicts.warnings[0].contains("contended in 6 of 12"),
            "{verdicts:?}"
        );

        let half = Verdicts::of(&plan, &done[..1], Vec::new(), 8);
        assert!(half.comparisons[0].verdict.contains("too few"), "{half:?}");
        assert!(
            half.warnings[0].contains("1 of 12 runs are done"),
            "{half:?}"
        );
        let skipped = vec![Skipped {
            arm: "b".to_owned(),
            reason: "it is not there".to_owned(),
        }];
        let without = Verdicts::of(&plan, &done, skipped, 8);
        let without_first = Verdicts::of(
            &plan,
            &done,
            vec![Skipped {
                arm: "a".to_owned(),
                reason: "it is not there".to_owned(),
            }],
            8,
        );
        let text = without_first.to_string();
        assert!(
            text.contains("nothing is compared") && !text.contains("baseline"),
            "others are no baseline: {text}"
        );
        assert!(
            without.comparisons.is_empty(),
            "nothing to compare: {without:?}"
        );
        assert!(
            without.to_string().contains("skipped: b: it is not there"),
            "and why"
        );
    }

    #[test]
    fn names_from_a_file_are_text_on_the_page() {
        let (mut plan, done) = matrix(|_, _| 1, |_, _| 1.0);
        plan.arms[0].name = "<script>alert(1)</script>".to_owned();
        let page = crate::matrix::page(&Verdicts::of(&plan, &done, Vec::new(), 8), "a & \"b\"");
        assert!(!page.contains("<script"), "nothing is run");
        assert!(
            page.contains("&lt;script&gt;") && page.contains("a &amp; &quot;b&quot;"),
            "shown as it is"
        );
    }
}
