//! The levels in a curve of latencies, found and not assumed.
//!
//! A level is a range of sizes with nearly the same latency. The search fits the best rising curve
//! to the points (latency does not fall with size; a fall is noise), and takes the longest range
//! that stays within some per cent, then the longest of the rest, and so on.

/// A level of latency stays within this.
pub const FLAT: f64 = 1.15;

/// A range shorter than this many octaves is a slope that happens to be flat.
const SHORTEST: f64 = 0.7;

/// Levels closer to each other than this are one.
const APART: f64 = 1.4;

/// One level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plateau {
    /// The smallest size on it.
    pub from: f64,
    /// The largest.
    pub to: f64,
    /// Its latency.
    pub level: f64,
    /// Where it ends: half-way up to the next one. `None` of the last.
    pub capacity: Option<f64>,
}

/// The levels of a curve of sizes and latencies, which are above 0; sizes rise. A level stays within `flat`.
#[must_use]
pub fn plateaus(points: &[(f64, f64)], flat: f64) -> Vec<Plateau> {
    let fit = rising(points);
    let mut found = Vec::new();
    longest(points, &fit, flat, (0, points.len()), &mut found);
    found.sort_unstable();
    let mut levels: Vec<Plateau> = Vec::new();
    for (first, last) in found {
        let middle = fit[first + (last - first) / 2];
        match levels.last_mut() {
            Some(before) if middle / before.level < APART => before.to = points[last].0,
            _ => levels.push(Plateau {
                from: points[first].0,
                to: points[last].0,
                level: middle,
                capacity: None,
            }),
        }
    }
    for place in 1..levels.len() {
        let (before, after) = (levels[place - 1], levels[place]);
        let middle = (before.level * after.level).sqrt();
        levels[place - 1].capacity = crossing(points, &fit, middle);
    }
    levels
}

/// The size at which the best rising curve through points crosses a latency; nothing if it does not.
#[must_use]
pub fn rises_through(points: &[(f64, f64)], latency: f64) -> Option<f64> {
    crossing(points, &rising(points), latency)
}

/// The size at which the curve crosses a latency, between two points by their logarithms.
fn crossing(points: &[(f64, f64)], fit: &[f64], latency: f64) -> Option<f64> {
    let above = fit.iter().position(|value| *value >= latency)?;
    let below = above.checked_sub(1)?;
    let (low, high) = (fit[below].ln(), fit[above].ln());
    let part = (latency.ln() - low) / (high - low);
    let (from, to) = (points[below].0.ln(), points[above].0.ln());
    Some((from + part * (to - from)).exp())
}

/// The best curve through the points that never falls, by squares of logarithms: pools of neighbours that would
/// fall take their mean.
fn rising(points: &[(f64, f64)]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (_, latency) in points {
        let mut pool = (latency.ln(), 1);
        while let Some(&(mean, count)) = pools.last()
            && mean > pool.0
        {
            pools.pop();
            let both = count + pool.1;
            pool = (
                (mean * count as f64 + pool.0 * pool.1 as f64) / both as f64,
                both,
            );
        }
        pools.push(pool);
    }
    let values = pools
        .iter()
        .flat_map(|(mean, count)| std::iter::repeat_n(mean.exp(), *count));
    values.collect()
}

/// Finds the longest flat range between two indexes, then those left and right of it.
fn longest(
    points: &[(f64, f64)],
    fit: &[f64],
    flat: f64,
    (from, to): (usize, usize),
    found: &mut Vec<(usize, usize)>,
) {
    let octaves = |first: usize, last: usize| (points[last].0 / points[first].0).log2();
    let mut best: Option<(usize, usize)> = None;
    for first in from..to {
        let level = (first..to).take_while(|last| fit[*last] <= fit[first] * flat);
        let Some(last) = level.last() else { continue };
        if best.is_none_or(|(from, to)| octaves(first, last) > octaves(from, to)) {
            best = Some((first, last));
        }
    }
    let Some((first, last)) = best.filter(|(first, last)| octaves(*first, *last) >= SHORTEST)
    else {
        return;
    };
    found.push((first, last));
    longest(points, fit, flat, (from, first), found);
    longest(points, fit, flat, (last + 1, to), found);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four points an octave from 4 KiB to 256 MiB, with a disturbance of some per cent.
    fn curve(latency: impl Fn(f64) -> f64, noise: f64) -> Vec<(f64, f64)> {
        (0..=64)
            .map(|place| {
                let size = 4096.0 * 2f64.powf(f64::from(place) / 4.0);
                let wave = f64::from(place * 7919 % 13) / 6.0 - 1.0;
                (size, latency(size) * (1.0 + noise * wave))
            })
            .collect()
    }

    fn four(size: f64) -> f64 {
        match size / 1024.0 {
            kib if kib <= 48.0 => 0.92,
            kib if kib <= 1024.0 => 3.2,
            kib if kib <= 24.0 * 1024.0 => 9.3,
            // A slope of an octave, as contention makes it.
            kib if kib <= 48.0 * 1024.0 => 9.3 * (kib / 24576.0).powf(3.4),
            _ => 98.0,
        }
    }

    #[test]
    fn four_levels_are_found_through_noise() {
        for noise in [0.0, 0.03, 0.06] {
            let levels = plateaus(&curve(four, noise), FLAT);
            let latencies: Vec<f64> = levels.iter().map(|level| level.level).collect();
            assert_eq!(levels.len(), 4, "noise {noise}: {latencies:?}");
            for (found, real) in latencies.iter().zip([0.92, 3.2, 9.3, 98.0]) {
                assert!(
                    (found / real - 1.0).abs() < 0.1,
                    "noise {noise}: {found} for {real}"
                );
            }
            let first = levels[0].capacity.unwrap() / 1024.0;
            assert!(
                (45.0..57.0).contains(&first),
                "between two points around 48 KiB: {first}"
            );
            assert_eq!(levels[3].capacity, None, "memory has no end here");
        }
    }

    #[test]
    fn a_slope_is_no_level() {
        let levels = plateaus(&curve(|size| size / 4096.0, 0.02), FLAT);
        assert_eq!(levels, [], "it is nowhere flat");
    }

    #[test]
    fn a_flat_curve_is_one_level() {
        let levels = plateaus(&curve(|_| 5.0, 0.05), FLAT);
        assert_eq!(levels.len(), 1, "{levels:?}");
        assert_eq!(plateaus(&[], FLAT), [], "nothing is in nothing");
    }

    #[test]
    fn one_point_that_was_disturbed_changes_little() {
        let mut points = curve(four, 0.02);
        points[30].1 *= 5.0;
        let levels = plateaus(&points, FLAT);
        assert!(levels.len() >= 3, "the rest is still there: {levels:?}");
        assert!((levels[0].level / 0.92 - 1.0).abs() < 0.1, "{levels:?}");
    }
}
