//! Cost of address translation: one line in each of many pages, against as many adjacent lines.
//!
//! Both fill the caches alike, so that the difference is the cost of translation.

use std::time::Duration;

use super::budget::Budget;
use super::chase::Arena;
use super::estimate::{Estimate, quantile};
use super::order::{Order, Shuffled, visits};
use super::plateau::{Plateau, plateaus, rises_through};
use super::sweep::{SweepOptions, samples};

/// From fewer pages than any first TLB has entries.
const FEWEST: usize = 16;

/// To more than any second TLB has; beyond, tables of pages leave the caches too.
const MOST: usize = 12 << 10;

/// The cost is flat within this: beyond the last TLB it depends on where the tables of pages are cached.
const FLAT: f64 = 1.3;

/// Largest number of loads in a sample.
const SAMPLE_LOADS: usize = 4096;

/// Three numbers of pages an octave.
const AN_OCTAVE: f64 = 3.0;

/// The time for each number of pages, in one round, either way.
const TURN: Duration = Duration::from_micros(1500);

/// Translation cost for a number of pages.
#[derive(Debug, Clone)]
pub struct Pages {
    /// How many.
    pub pages: usize,
    /// The nanoseconds that a load takes longer than close together.
    pub cost: Estimate,
    /// The nanoseconds of a load close together.
    pub dense: f64,
}

/// A step in the cost of translation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TlbStep {
    /// The most pages that were seen below it, and the fewest above it.
    pub pages: (usize, usize),
    /// Additional nanoseconds of a load beyond the step.
    pub cost: Estimate,
}

/// Measures it, up to as many pages as the arena has; after the first round it ends with the budget.
pub fn translation(arena: &mut Arena, options: &SweepOptions, budget: Budget) -> Vec<Pages> {
    let SweepOptions { line, page, .. } = *options;
    let most = (arena.len() / page).min(MOST);
    let mut counts: Vec<usize> = (0..)
        .map(|place| (FEWEST as f64 * 2f64.powf(f64::from(place) / AN_OCTAVE)) as usize)
        .take_while(|count| *count <= most)
        .collect();
    counts.dedup();
    let mut found: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); counts.len()];
    for round in 0..options.rounds {
        if round > 0 && !budget.is_left() {
            break;
        }
        for (count, (sparse, dense)) in counts.iter().zip(&mut found) {
            let seed = (round as u64) << 32 | *count as u64;
            let loads = (*count).min(SAMPLE_LOADS) as u64;
            let pages = Shuffled::new(*count as u64, seed);
            // The line within the page changes too, or all of them would meet in one set of the cache.
            let lines = (page / line) as u64;
            let one_each = (0..*count as u64).map(|place| {
                let at = pages.at(place);
                let within = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                at as usize * page + (within % lines) as usize * line
            });
            let taken = arena
                .link(one_each)
                .and_then(|mut circle| quantile(&samples(&mut circle, loads, TURN), 0.1));
            sparse.extend(taken);
            let close = visits(Order::PageLocal, count * line, line, page, seed);
            let taken = arena
                .link(close)
                .and_then(|mut circle| quantile(&samples(&mut circle, loads, TURN), 0.1));
            dense.extend(taken);
        }
    }
    let rows = counts
        .iter()
        .zip(found)
        .filter_map(|(pages, (sparse, dense))| {
            let dense = quantile(&dense, 0.0)?;
            let more: Vec<f64> = sparse.iter().map(|ns| (ns - dense).max(0.0)).collect();
            let cost = Estimate::median_of(&more)?;
            Some(Pages {
                pages: *pages,
                cost: Estimate {
                    value: cost.low,
                    ..cost
                },
                dense,
            })
        });
    rows.collect()
}

/// The steps: where the cost goes from one level to the next.
#[must_use]
pub fn steps(rows: &[Pages]) -> Vec<TlbStep> {
    // On top of a load from the first level, so that the ratio of nothing to something is a number.
    let Some(base) = rows.first().map(|row| row.dense) else {
        return Vec::new();
    };
    let points: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| (row.pages as f64, base + row.cost.value))
        .collect();
    let mut levels = plateaus(&points, FLAT);
    levels.extend(levels.last().and_then(|last| beyond(last, &points)));
    for place in 1..levels.len() {
        let middle = (levels[place - 1].level * levels[place].level).sqrt();
        levels[place - 1].capacity = rises_through(&points, middle);
    }
    let pairs = levels.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        let capacity = before.capacity?;
        let below = rows.iter().rev().find(|row| row.pages as f64 <= capacity)?;
        let above = rows.iter().find(|row| row.pages as f64 >= capacity)?;
        let on = |level: &Plateau| {
            let (from, to) = (level.from, level.to);
            let inside = rows
                .iter()
                .filter(move |row| (from..=to).contains(&(row.pages as f64)));
            inside.map(|row| row.cost.value).collect::<Vec<f64>>()
        };
        let before = quantile(&on(before), 0.5)?;
        let costs: Vec<f64> = on(after).iter().map(|cost| cost - before).collect();
        Some(TlbStep {
            pages: (below.pages, above.pages),
            // Where a level of the caches ends, either way of going costs more in its own way.
            cost: Estimate {
                value: quantile(&costs, 0.5)?,
                low: quantile(&costs, 0.25)?,
                high: quantile(&costs, 0.75)?,
            },
        })
    });
    pairs.collect()
}

/// Returns the range beyond the last level, if it is much higher: there the page tables themselves
/// pass through the caches, so that the cost keeps rising and has no level of its own.
fn beyond(last: &Plateau, points: &[(f64, f64)]) -> Option<Plateau> {
    const MUCH: f64 = 2.0;
    let rest: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(pages, _)| *pages > last.to)
        .collect();
    let costs: Vec<f64> = rest.iter().map(|(_, cost)| *cost).collect();
    let level = quantile(&costs, 0.5).filter(|level| *level > MUCH * last.level)?;
    Some(Plateau {
        from: rest.first()?.0,
        to: rest.last()?.0,
        level,
        capacity: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cost: impl Fn(usize) -> f64) -> Vec<Pages> {
        let counts = (0..33).map(|place| (16.0 * 2f64.powf(f64::from(place) / 3.0)) as usize);
        let row = |pages| Pages {
            pages,
            cost: Estimate {
                value: cost(pages),
                low: cost(pages),
                high: cost(pages),
            },
            dense: 0.9,
        };
        counts.map(row).collect()
    }

    #[test]
    fn two_tlbs_are_two_steps() {
        let steps = steps(&rows(|pages| match pages {
            0..=96 => 0.0,
            97..=4096 => 1.6,
            _ => 30.0,
        }));
        assert_eq!(steps.len(), 2, "{steps:?}");
        let (below, above) = steps[0].pages;
        assert!(
            below <= 96 && above > 96,
            "around 96 entries: {:?}",
            steps[0]
        );
        assert!(
            (steps[0].cost.value - 1.6).abs() < 0.01,
            "what the second TLB costs"
        );
        assert!(
            steps[1].pages.0 <= 4096 && steps[1].pages.1 > 4096,
            "{:?}",
            steps[1]
        );
    }

    #[test]
    fn a_cost_that_goes_on_to_rise_is_a_step_too() {
        let steps = steps(&rows(|pages| match pages {
            0..=72 => 0.0,
            73..=3072 => 2.0,
            _ => 2.0 + pages as f64 / 200.0,
        }));
        assert_eq!(steps.len(), 2, "{steps:?}");
        let (below, above) = steps[1].pages;
        assert!(
            below <= 3072 && above > 2048,
            "near where it begins: {:?}",
            steps[1]
        );
    }

    #[test]
    fn no_cost_is_no_step() {
        assert_eq!(steps(&rows(|_| 0.1)), [], "flat");
        assert_eq!(steps(&[]), [], "nothing was measured");
    }
}
