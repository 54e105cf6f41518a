//! [`Compared`]: whether two samples of a figure differ, by how much, and with which certainty.

use serde::Serialize;

use super::stats;

/// A sample compared with that of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The change of the mean, relative to the baseline's; `null` if that is 0.
    pub change_ratio: Option<f64>,
    /// The 95 % interval of the change, from the bootstrap.
    pub interval_ratio: Option<(f64, f64)>,
    /// The chance of this difference if there is none, from Welch's test.
    pub p: Option<f64>,
    /// The same, adjusted for all comparisons of this figure (Holm).
    pub p_adjusted: Option<f64>,
    /// Whether the difference is significant.
    pub is_significant: bool,
    /// The verdict for people.
    pub verdict: String,
}

impl Compared {
    /// Compares pairs of samples of one figure, the baseline's first. A difference is significant if Welch's test,
    /// adjusted for all of them, finds it, and the interval excludes 0. The seed decides the resamples of the interval.
    #[must_use]
    pub fn all(pairs: &[(&[f64], &[f64])], seed: u64) -> Vec<Compared> {
        let chances: Vec<Option<f64>> = pairs
            .iter()
            .map(|(base, values)| stats::welch(base, values).map(|welch| welch.p))
            .collect();
        let known: Vec<f64> = chances.iter().copied().flatten().collect();
        let mut adjusted = stats::holm(&known).into_iter();
        let compared = pairs.iter().zip(chances).map(|((base, values), p)| {
            let means = stats::mean(base).zip(stats::mean(values));
            let p_adjusted = p.and_then(|_| adjusted.next());
            // One value has no variance to resample.
            let is_known = base.len() > 1 && values.len() > 1;
            let interval_ratio = is_known
                .then(|| stats::bootstrap(base, values, seed))
                .flatten();
            let excludes_none = interval_ratio.is_none_or(|(low, high)| low > 0.0 || high < 0.0);
            let mut compared = Compared {
                change_ratio: means.filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a - 1.0),
                interval_ratio,
                p,
                p_adjusted,
                is_significant: p_adjusted.is_some_and(|p| p < stats::SIGNIFICANT) && excludes_none,
                verdict: String::new(),
            };
            compared.verdict = compared.in_words();
            compared
        });
        compared.collect()
    }

    fn in_words(&self) -> String {
        match (self.p_adjusted, self.is_significant, self.interval_ratio) {
            (None, ..) => "too few runs to say anything".to_owned(),
            (Some(p), false, _) => format!("no significance ({})", chance(p)),
            (Some(p), true, Some((low, high))) => format!(
                "[{:+.2}, {:+.2}] % ({})",
                low * 100.0,
                high * 100.0,
                chance(p)
            ),
            (Some(p), true, None) => format!("differs, of a baseline of 0 ({})", chance(p)),
        }
    }
}

/// A chance is never shown as 0.
fn chance(p: f64) -> String {
    match p {
        _ if p < 1e-4 => "p < 0.0001".to_owned(),
        _ if p < stats::SIGNIFICANT => format!("p = {p:.4}"),
        _ => format!("p = {p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_each_has_no_verdict() {
        let one = &Compared::all(&[(&[4.0], &[2.0])], 1)[0];
        assert_eq!(one.change_ratio, Some(-0.5), "the change is known");
        assert!(!one.is_significant && one.p.is_none(), "{one:?}");
        assert_eq!(one.verdict, "too few runs to say anything");
    }

    #[test]
    fn chances_are_adjusted_for_all_pairs_that_have_one() {
        let (base, other) = ([10.0, 11.0, 12.0], [13.0, 12.0, 14.0]);
        let alone = &Compared::all(&[(&base, &other)], 1)[0];
        let pairs: [(&[f64], &[f64]); 3] = [(&base, &other), (&[1.0], &[2.0]), (&base, &base)];
        let beside = Compared::all(&pairs, 1);
        assert_eq!(alone.p, beside[0].p, "the test is the same");
        assert_eq!(
            beside[0].p_adjusted,
            alone.p.map(|p| p * 2.0),
            "two of three pairs have a chance"
        );
        assert_eq!(beside[1].p_adjusted, None, "one value each");
    }

    #[test]
    fn baseline_of_0_has_a_verdict_without_a_ratio() {
        let one = &Compared::all(&[(&[0.0, 0.0], &[5.0, 5.0])], 1)[0];
        assert_eq!((one.change_ratio, one.interval_ratio), (None, None));
        assert!(one.is_significant, "it is certain: {one:?}");
        assert!(one.verdict.starts_with("differs, of a baseline of 0"));
    }
}
