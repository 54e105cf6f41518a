//! Statistics of two arms: whether they differ, by how much, and with which certainty.

use crate::random::Random;

/// Chances below this count as a difference.
pub const SIGNIFICANT: f64 = 0.05;

const RESAMPLES: usize = 10_000;

/// The mean; `None` for no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The variance of a sample; `None` for fewer than two values.
#[must_use]
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// The coefficient of variation: standard deviation divided by mean. `None` if the mean is 0.
#[must_use]
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    Some(variance(values)?.sqrt() / mean.abs())
}

/// Result of Welch's test of two means, which does not assume equal variances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// The difference in standard errors.
    pub t: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// The chance of this or a larger difference if there is none.
    pub p: f64,
}

/// Tests whether two samples have different means; `None` for fewer than two values.
#[must_use]
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    let (part_a, part_b) = (variance(a)? / a.len() as f64, variance(b)? / b.len() as f64);
    let error = part_a + part_b;
    if error == 0.0 {
        // All values are equal: the answer is certain.
        let differs = mean_a != mean_b;
        return Some(Welch {
            t: if differs {
                f64::INFINITY.copysign(mean_b - mean_a)
            } else {
                0.0
            },
            df: (a.len() + b.len() - 2) as f64,
            p: if differs { 0.0 } else { 1.0 },
        });
    }
    let t = (mean_b - mean_a) / error.sqrt();
    let df = error.powi(2)
        / (part_a.powi(2) / (a.len() - 1) as f64 + part_b.powi(2) / (b.len() - 1) as f64);
    Some(Welch {
        t,
        df,
        p: two_sided(t, df),
    })
}

/// The chance of a |t| at least this large.
fn two_sided(t: f64, df: f64) -> f64 {
    beta(df / 2.0, 0.5, df / (df + t * t)).clamp(0.0, 1.0)
}

/// The regularised incomplete beta function, by its continued fraction.
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The side where it converges quickly; the other by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

/// Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const CLOSE: f64 = 1e-14;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change = c * d;
            result *= change;
        }
        if (change - 1.0).abs() < CLOSE {
            break;
        }
    }
    result
}

/// The logarithm of the gamma function, by Lanczos's approximation.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let terms = TERMS.iter().enumerate().skip(1);
    let sum = TERMS[0] + terms.map(|(i, term)| term / (x + i as f64)).sum::<f64>();
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The t for which a |t| at least as large has this chance.
fn critical(chance: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        match two_sided(middle, df) > chance {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// The share of draws beyond each end of an interval. For few values, plain percentiles are too
/// narrow, because they never exceed the values that occurred: for five values of each arm they
/// cover the truth in 88 of 100 cases instead of 95. The interval is therefore as wide as Student's
/// t requires (Hesterberg's expanded percentile interval, 2015).
fn tail(a: &[f64], b: &[f64]) -> f64 {
    let least = a.len().min(b.len()).max(2) as f64;
    let df = welch(a, b).map_or(1.0, |welch| welch.df).max(1.0);
    let wider = (least / (least - 1.0)).sqrt() * critical(SIGNIFICANT, df);
    // With this many degrees of freedom it is the normal distribution.
    two_sided(wider, 1e7) / 2.0
}

/// The 95 % interval of the change from the mean of `a` to that of `b`, as a share of the mean of
/// `a`, from means of resampled values. `None` if that mean is 0 or a sample is empty.
#[must_use]
pub fn bootstrap(a: &[f64], b: &[f64], seed: u64) -> Option<(f64, f64)> {
    mean(a).filter(|mean| *mean != 0.0)?;
    mean(b)?;
    let mut random = Random::new(seed, 0);
    let mut drawn = |values: &[f64]| {
        let one = |_| values[random.below(values.len() as u64) as usize];
        (0..values.len()).map(one).sum::<f64>() / values.len() as f64
    };
    let mut changes: Vec<f64> = (0..RESAMPLES)
        .map(|_| (drawn(a), drawn(b)))
        .filter(|(a, _)| *a != 0.0)
        .map(|(a, b)| b / a - 1.0)
        .collect();
    changes.sort_by(f64::total_cmp);
    let (last, beyond) = (changes.len().checked_sub(1)?, tail(a, b));
    let at = |part: f64| changes[((last as f64 * part).round() as usize).min(last)];
    Some((at(beyond), at(1.0 - beyond)))
}

/// Adjusts the chances of several tests (Holm): among twenty tests, one is below 0.05 by chance
/// alone.
#[must_use]
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![0.0; chances.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least
            .max(chances[index] * (chances.len() - rank) as f64)
            .min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64, what: &str) {
        assert!(
            (found - wanted).abs() < 1e-6,
            "{what}: {found}, not {wanted}"
        );
    }

    #[test]
    fn gamma_matches_factorials() {
        for (x, factorial) in [(1.0, 1.0_f64), (2.0, 1.0), (5.0, 24.0), (11.0, 3_628_800.0)] {
            close(ln_gamma(x), factorial.ln(), "of a whole number");
        }
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), "of a half");
    }

    #[test]
    fn two_sided_matches_closed_forms() {
        // With 1 and 2 degrees of freedom there is a closed form.
        for t in [0.0, 0.3, 1.0, 4.0, 40.0] {
            close(
                two_sided(t, 1.0),
                1.0 - t.atan() * 2.0 / std::f64::consts::PI,
                "1 degree",
            );
            close(
                two_sided(t, 2.0),
                1.0 - t / (2.0 + t * t).sqrt(),
                "2 degrees",
            );
        }
        for (df, t, p) in [
            (4.0, 2.776_445_105, 0.05),
            (9.0, 3.249_835_542, 0.01),
            (10.0, 2.228_138_852, 0.05),
            (30.0, 2.042_272_456, 0.05),
            (120.0, 2.617_421_145, 0.01),
        ] {
            close(two_sided(t, df), p, "a critical value");
            close(two_sided(-t, df), p, "on the other side");
        }
    }

    #[test]
    fn welch_matches_a_worked_example() {
        // Means 3 and 6, variances 2.5 and 10: t = 3 / sqrt(2.5), df = 6.25 / 1.0625.
        let found = welch(&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 4.0, 6.0, 8.0, 10.0]).unwrap();
        close(found.t, 3.0 / 2.5_f64.sqrt(), "t");
        close(found.df, 6.25 / 1.0625, "degrees of freedom");
        // From numerical integration of the density.
        assert!((found.p - 0.107_531).abs() < 1e-4, "p: {found:?}");
        let other = welch(&[2.0, 4.0, 6.0, 8.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        close(other.p, found.p, "in either order");
        close(other.t, -found.t, "but for the sign");
    }

    /// Values of `scipy.stats` 1.17: `ttest_ind(b, a, equal_var=False)` and `2 * t.sf(t, df)`.
    #[test]
    fn welch_matches_scipy() {
        let near = |found: f64, wanted: f64, what: &str| {
            let error = (found / wanted - 1.0).abs();
            assert!(error < 1e-9, "{what}: {found:e}, not {wanted:e}");
        };
        for (t, df, p) in [
            (1e-9, 6.0, 0.999_999_999_234_534_4),
            (0.01, 4.2, 0.992_478_402_428_735_9),
            (1.0, 1000.5, 0.317_552_297_220_234_7),
            (2.0, 3.7, 0.121_817_201_905_233_98),
            (3.3, 17.25, 0.004_164_442_018_390_452),
            (12.5, 5.1, 5.087_266_000_144_156e-5),
            (50.0, 4.0, 9.574_453_656_969_69e-7),
            (200.0, 8.0, 4.371_851_443_213_925e-16),
        ] {
            near(two_sided(t, df), p, "of t");
            if p > 1e-6 && p < 0.99 {
                near(critical(p, df), t, "and back");
            }
        }
        let cases: [(&[f64], &[f64], [f64; 3]); 5] = [
            (
                &[1.17, 1.22, 1.19, 1.31, 1.16],
                &[1.35, 1.29, 1.41, 1.33, 1.38],
                [
                    4.180_088_146_807_19,
                    7.474_454_029_601_102,
                    0.003_578_230_374_120_162_8,
                ],
            ),
            (
                &[187.0, 102.0, 297.0, 240.0, 150.0, 199.0, 171.0, 205.0],
                &[207.0, 27.0, 414.0, 380.0, 95.0, 188.0, 240.0, 130.0],
                [
                    0.315_167_358_673_427_66,
                    9.576_820_240_462_805,
                    0.759_394_290_379_720_7,
                ],
            ),
            (
                &[357.747, 340.1, 371.9, 362.4, 349.8],
                &[31.022, 30.7, 31.4, 31.0, 30.9],
                [
                    -60.031_770_844_705_13,
                    4.003_546_821_176_572,
                    4.562_298_293_086_161e-7,
                ],
            ),
            (
                &[10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98],
                &[10.01, 10.12, 9.93, 10.0, 10.07],
                [
                    0.638_089_991_058_497,
                    8.193_767_823_087_603,
                    0.540_834_279_911_042,
                ],
            ),
            (
                &[1e9, 1.0001e9, 0.9999e9, 1.00005e9, 0.99995e9],
                &[1.0003e9, 1.0001e9, 1.0004e9, 1.0002e9, 1.0005e9],
                [
                    3.794_733_192_202_055_5,
                    5.882_352_941_176_471,
                    0.009_364_721_842_922_46,
                ],
            ),
        ];
        for (a, b, [t, df, p]) in cases {
            let found = welch(a, b).unwrap();
            near(found.t, t, "t");
            near(found.df, df, "degrees of freedom");
            near(found.p, p, "p");
        }
    }

    #[test]
    fn welch_is_certain_for_samples_without_variance() {
        let same = welch(&[2.0; 5], &[2.0; 5]).unwrap();
        assert_eq!(same.p, 1.0, "no difference: {same:?}");
        let other = welch(&[2.0; 5], &[3.0; 5]).unwrap();
        assert_eq!(other.p, 0.0, "a difference: {other:?}");
        assert_eq!(
            welch(&[1.0], &[1.0, 2.0]),
            None,
            "of one value nothing is known"
        );
        assert_eq!(variation(&[0.0, 0.0]), None, "a part of nothing");
        assert_eq!(mean(&[]), None, "of nothing");
    }

    #[test]
    fn bootstrap_interval_contains_the_change() {
        let a = [100.0, 101.0, 99.0, 100.5, 99.5];
        let b = [110.0, 111.0, 109.0, 110.5, 109.5];
        let (low, high) = bootstrap(&a, &b, 1).unwrap();
        assert!(
            low > 0.08 && low < 0.10 && high > 0.10 && high < 0.12,
            "{low} {high}"
        );
        assert_eq!(
            bootstrap(&a, &b, 1),
            Some((low, high)),
            "the same with the same seed"
        );
        let (low, high) = bootstrap(&a, &a, 1).unwrap();
        assert!(
            low < 0.0 && high > 0.0,
            "no change is among the likely ones: {low} {high}"
        );
        assert_eq!(bootstrap(&[0.0; 5], &a, 1), None, "nothing is a part of 0");
        assert_eq!(bootstrap(&[], &a, 1), None, "nor of nothing");
    }

    #[test]
    fn bootstrap_coverage_is_near_95_percent() {
        let mut random = Random::new(7, 0);
        for count in [5, 10, 30] {
            // Sums of twelve uniform numbers are close to normal.
            let mut sample = |mean: f64| -> Vec<f64> {
                let mut one = || mean + (0..12).map(|_| random.part()).sum::<f64>() - 6.0;
                (0..count).map(|_| one()).collect()
            };
            let mut covered = 0;
            for seed in 0..100 {
                let (a, b) = (sample(20.0), sample(22.0));
                let (low, high) = bootstrap(&a, &b, seed).unwrap();
                covered += usize::from(low <= 0.1 && 0.1 <= high);
            }
            assert!(
                (90..=100).contains(&covered),
                "{covered} of 100 with {count} values each"
            );
        }
    }

    #[test]
    fn holm_raises_chances_of_several_tests() {
        let adjusted = holm(&[0.01, 0.04, 0.03]);
        for (found, wanted) in adjusted.into_iter().zip([0.03, 0.06, 0.06]) {
            close(found, wanted, "by hand");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0], "a chance is at most 1");
        assert!(holm(&[]).is_empty(), "of none");
    }

    #[test]
    fn variation_is_relative_to_the_mean() {
        close(
            variation(&[90.0, 100.0, 110.0]).unwrap(),
            0.1,
            "ten of a hundred",
        );
    }
}
