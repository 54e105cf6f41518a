//! [`Verdicts`]: each arm compared with the first, workload by workload.

use std::fmt;

use serde::Serialize;

use super::{Compared, Done, Plan, Skipped, stats};

/// Compared figures, the leading one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Bytes read from devices per useful byte: repeats within a few per cent.
    DeviceBytesPerUsefulByte,
    /// Useful bytes per second: repeats badly on a busy machine.
    UsefulBytesPerSecond,
}

impl Measure {
    /// All of them, in order.
    pub const ALL: [Measure; 2] = [
        Measure::DeviceBytesPerUsefulByte,
        Measure::UsefulBytesPerSecond,
    ];

    /// Its value in a run; `None` if unknown.
    #[must_use]
    pub fn value_in(self, done: &Done) -> Option<f64> {
        let figures = &done.summary.figures;
        match self {
            Measure::DeviceBytesPerUsefulByte => figures.amplification(),
            Measure::UsefulBytesPerSecond => {
                (figures.seconds > 0.0).then(|| figures.useful_bytes as f64 / figures.seconds)
            }
        }
    }

    /// A value for people.
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
    /// The figure.
    pub measure: Measure,
    /// Each run's value.
    pub values: Vec<f64>,
    /// Their mean; `null` without values.
    pub mean: Option<f64>,
    /// Their standard deviation divided by the mean.
    pub variation_ratio: Option<f64>,
}

/// An arm compared with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The workload.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The figure.
    pub measure: Measure,
    /// The comparison.
    #[serde(flatten)]
    pub compared: Compared,
}

/// The results of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdicts {
    /// The baseline arm.
    pub baseline: String,
    /// The seed of order and offsets.
    pub seed: u64,
    /// Number of repeats.
    pub repeats: u32,
    /// Number of finished trials.
    pub done: usize,
    /// Number of planned trials.
    pub planned: usize,
    /// Arms that this machine does not support.
    pub skipped: Vec<Skipped>,
    /// The runs.
    pub samples: Vec<Sample>,
    /// The comparisons with the baseline.
    pub comparisons: Vec<Comparison>,
    /// Reasons to trust the results less.
    pub warnings: Vec<String>,
}

impl Verdicts {
    /// Compares the finished trials.
    #[must_use]
    pub fn from_trials(
        plan: &Plan,
        done: &[Done],
        skipped: Vec<Skipped>,
        processors: usize,
    ) -> Verdicts {
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
            let mut compared: Vec<(usize, usize)> = Vec::new();
            for workload in plan.workloads.keys() {
                let base = samples.len();
                for arm in &arms {
                    let of_arm = done
                        .iter()
                        .filter(|done| done.trial.arm == *arm && done.trial.workload == *workload);
                    let values: Vec<f64> =
                        of_arm.filter_map(|done| measure.value_in(done)).collect();
                    if *arm != baseline && !is_skipped(&baseline) {
                        compared.push((base, samples.len()));
                    }
                    samples.push(Sample {
                        workload: workload.clone(),
                        arm: (*arm).to_owned(),
                        measure,
                        mean: stats::mean(&values),
                        variation_ratio: stats::variation(&values),
                        values,
                    });
                }
            }
            let of = |place: usize| samples.get(place);
            let pairs: Vec<(&Sample, &Sample)> = compared
                .into_iter()
                .filter_map(|(base, sample)| of(base).zip(of(sample)))
                .collect();
            let values: Vec<(&[f64], &[f64])> = pairs
                .iter()
                .map(|(base, sample)| (base.values.as_slice(), sample.values.as_slice()))
                .collect();
            let all = Compared::all(&values, plan.seed);
            let of_measure = pairs
                .iter()
                .zip(all)
                .map(|((_, sample), compared)| Comparison {
                    workload: sample.workload.clone(),
                    arm: sample.arm.clone(),
                    measure,
                    compared,
                });
            comparisons.extend(of_measure);
        }
        let planned = plan
            .trials()
            .iter()
            .filter(|trial| !is_skipped(&trial.arm))
            .count();
        let mut warnings = warnings(done, planned, processors);
        if is_skipped(&baseline) {
            warnings.push(format!(
                "the first arm, {baseline:?}, is not supported here: nothing is compared; put another arm first"
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
    /// The verdict on an arm in words: `baseline` for the first one.
    #[must_use]
    pub fn verdict(&self, sample: &Sample) -> &str {
        match self.compared(sample) {
            Some(compared) => &compared.verdict,
            None if sample.arm == self.baseline => "baseline",
            None => "-",
        }
    }

    /// The comparison of an arm with the baseline.
    #[must_use]
    pub fn compared(&self, sample: &Sample) -> Option<&Compared> {
        let compared = self.comparisons.iter().find(|one| {
            one.measure == sample.measure
                && one.arm == sample.arm
                && one.workload == sample.workload
        });
        compared.map(|one| &one.compared)
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

    /// Two arms and a real run of a small file, with made-up figures.
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

    /// The same noise for both.
    fn noise(repeat: u32) -> u64 {
        u64::from(repeat * 7 % 5) * 1000
    }

    #[test]
    fn identical_arms_have_no_significance() {
        let (plan, done) = matrix(
            |_, repeat| 1_200_000 + noise(repeat),
            |_, repeat| 1.0 + f64::from(repeat * 3 % 4),
        );
        let verdicts = Verdicts::from_trials(&plan, &done, Vec::new(), 8);
        assert_eq!(verdicts.comparisons.len(), 2, "both measures: {verdicts:?}");
        for one in &verdicts.comparisons {
            assert!(!one.compared.is_significant, "{one:?}");
            assert!(
                one.compared.verdict.contains("no significance"),
                "in words: {one:?}"
            );
        }
        let verdicts_of = |sample: &Sample| verdicts.verdict(sample) == "baseline";
        assert_eq!(
            verdicts
                .samples
                .iter()
                .filter(|sample| verdicts_of(sample))
                .count(),
            2,
            "the first arm, once a measure: {verdicts:?}"
        );
        assert_eq!((verdicts.done, verdicts.planned), (12, 12));
        assert!(
            verdicts.warnings.is_empty(),
            "a quiet machine: {verdicts:?}"
        );
    }

    #[test]
    fn counters_differ_significantly_while_speed_does_not() {
        let (plan, done) = matrix(
            |arm, repeat| if arm == "b" { 1_320_000 } else { 1_200_000 } + noise(repeat),
            |_, repeat| 1.0 + f64::from(repeat * 3 % 4),
        );
        let verdicts = Verdicts::from_trials(&plan, &done, Vec::new(), 2);
        let [device, speed] = &verdicts.comparisons[..] else {
            panic!("two measures: {verdicts:?}");
        };
        let (low, high) = device.compared.interval_ratio.unwrap();
        assert!(
            device.compared.is_significant && low > 0.09 && high < 0.11,
            "10 % more: {device:?}"
        );
        assert!(
            device.compared.verdict.contains("(p < 0.0001)"),
            "never 0: {device:?}"
        );
        assert!(
            !speed.compared.is_significant,
            "the speed is noise: {speed:?}"
        );
        assert!(
            verdicts.warnings[0].contains("contended in 6 of 12"),
            "{verdicts:?}"
        );

        let half = Verdicts::from_trials(&plan, &done[..1], Vec::new(), 8);
        assert!(
            half.comparisons[0].compared.verdict.contains("too few"),
            "{half:?}"
        );
        assert!(
            half.warnings[0].contains("1 of 12 runs are done"),
            "{half:?}"
        );
        let skipped = vec![Skipped {
            arm: "b".to_owned(),
            reason: "not supported".to_owned(),
        }];
        let without = Verdicts::from_trials(&plan, &done, skipped, 8);
        let without_first = Verdicts::from_trials(
            &plan,
            &done,
            vec![Skipped {
                arm: "a".to_owned(),
                reason: "not supported".to_owned(),
            }],
            8,
        );
        let of_others = without_first.samples.iter();
        assert!(
            of_others.clone().count() > 0
                && of_others
                    .clone()
                    .all(|sample| without_first.verdict(sample) == "-"),
            "no other baseline: {without_first:?}"
        );
        let warned = without_first.warnings.iter();
        assert!(
            warned
                .clone()
                .any(|text| text.contains("nothing is compared")),
            "{without_first:?}"
        );
        assert!(
            without.comparisons.is_empty(),
            "nothing to compare: {without:?}"
        );
        assert_eq!(without.skipped[0].reason, "not supported", "and why");
    }

    #[test]
    fn page_escapes_names() {
        let (mut plan, done) = matrix(|_, _| 1, |_, _| 1.0);
        plan.arms[0].name = "<script>alert(1)</script>".to_owned();
        let page = crate::matrix::page(
            &Verdicts::from_trials(&plan, &done, Vec::new(), 8),
            "a & \"b\"",
        );
        assert!(!page.contains("<script"), "nothing is run");
        assert!(
            page.contains("&lt;script&gt;") && page.contains("a &amp; &quot;b&quot;"),
            "shown unchanged"
        );
    }
}
