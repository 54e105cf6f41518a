//! Latency by size: from what fits into the first level to what fits into none.
//!
//! The whole is done in rounds that take turns over all sizes and orders, each with another order of visits, so that
//! a neighbour who is busy for a while spoils a round of some sizes and not all rounds of one. Of each round the
//! tenth percentile of short samples counts where caches are measured: what was interrupted is slower, nothing makes
//! a load faster. Where most loads go to memory it is the median: what hits a cache by luck makes those faster.

use std::time::Duration;

use super::budget::Budget;
use super::chase::{Arena, Circle, PageKind};
use super::clock::cycle_ns;
use super::estimate::{Estimate, quantile};
use super::order::{Order, visits};

/// The smallest size: half of the smallest first level that there is.
const SMALLEST: usize = 4 << 10;

/// How long a sample is to take: short beside a time slice of a neighbour.
const SAMPLE: Duration = Duration::from_micros(60);

/// Above this a sample is at least a window of pages long, so that going to the next one has its share in each.
const LARGE: usize = 4 << 20;

/// How to sweep.
#[derive(Debug, Clone, Copy)]
pub struct SweepOptions {
    /// The largest size in bytes.
    pub largest: usize,
    /// Sizes up to this lie closer together: the caches.
    pub fine_up_to: usize,
    /// The size of a cache line.
    pub line: usize,
    /// The machine's base page.
    pub page: usize,
    /// Small or huge pages.
    pub pages: PageKind,
    /// Turns.
    pub rounds: usize,
    /// The time for one size in one order in one round, linking apart.
    pub turn: Duration,
}

/// One size.
#[derive(Debug, Clone)]
pub struct Point {
    /// In bytes.
    pub size: usize,
    /// Latency of each round in nanoseconds: the tenth percentile of its samples.
    pub low: Vec<f64>,
    /// The same: the median of its samples.
    pub median: Vec<f64>,
    /// Duration of a core cycle beside each round.
    pub cycle_ns: Vec<f64>,
}

impl Point {
    /// The latency, for sizes that fit into a cache.
    #[must_use]
    pub fn cached(&self) -> Option<Estimate> {
        // The lowest round: the others were disturbed in the whole.
        let found = Estimate::median_of(&self.low)?;
        Some(Estimate {
            value: found.low,
            ..found
        })
    }

    /// The latency, for sizes that fit into none.
    #[must_use]
    pub fn uncached(&self) -> Option<Estimate> {
        Estimate::median_of(&self.median)
    }

    /// The same in cycles, by what a cycle took beside each round.
    #[must_use]
    pub fn cycles(&self, ns: f64) -> Option<f64> {
        quantile(&self.cycle_ns, 0.5).map(|cycle| ns / cycle)
    }
}

/// Latency by size, in one order of visits.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The order.
    pub order: Order,
    /// From the smallest to the largest.
    pub points: Vec<Point>,
}

/// The sizes: four an octave among the caches, two beyond.
#[must_use]
pub fn sizes(options: &SweepOptions) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut exponent = 0u32;
    loop {
        let size = SMALLEST as f64 * 2f64.powf(f64::from(exponent) / 4.0);
        let size = (size as usize / options.line).max(1) * options.line;
        if size > options.largest {
            return sizes;
        }
        if size <= options.fine_up_to || exponent.is_multiple_of(2) {
            sizes.push(size);
        }
        exponent += 1;
    }
}

impl Curve {
    /// Without a figure yet.
    #[must_use]
    pub fn new(order: Order, sizes: &[usize]) -> Curve {
        let point = |size: &usize| Point {
            size: *size,
            low: Vec::new(),
            median: Vec::new(),
            cycle_ns: Vec::new(),
        };
        Curve {
            order,
            points: sizes.iter().map(point).collect(),
        }
    }
}

/// Sweeps the sizes that may fit into a cache, in all curves; each gets a figure more in each round. After the first
/// round it ends with the budget.
pub fn sweep(curves: &mut [Curve], options: &SweepOptions, arena: &mut Arena, budget: Budget) {
    let most = curves.iter().map(|curve| curve.points.len()).max();
    for round in 0..options.rounds {
        for place in 0..most.unwrap_or(0) {
            for curve in &mut *curves {
                let order = curve.order;
                let point = curve.points.get_mut(place);
                let point = point.filter(|point| point.size <= options.fine_up_to);
                if let Some(point) = point.filter(|_| round == 0 || budget.is_left()) {
                    turn(point, order, options, arena, 1);
                }
            }
        }
    }
}

/// Sweeps the sizes that fit into no cache. Each is linked once: that takes longer than to measure it, and the next
/// turn is elsewhere in it anyway.
pub fn sweep_memory(curves: &mut [Curve], options: &SweepOptions, arena: &mut Arena) {
    for curve in curves {
        let order = curve.order;
        for point in curve
            .points
            .iter_mut()
            .filter(|point| point.size > options.fine_up_to)
        {
            turn(point, order, options, arena, options.rounds);
        }
    }
}

/// Measures one size in one order: this number of turns on one circle.
pub fn turn(
    point: &mut Point,
    order: Order,
    options: &SweepOptions,
    arena: &mut Arena,
    turns: usize,
) {
    let SweepOptions { line, page, .. } = *options;
    let seed = (point.low.len() as u64) << 32 | point.size as u64;
    let Some(mut circle) = arena.link(visits(order, point.size, line, page, seed)) else {
        return;
    };
    let least = match point.size {
        size if size > LARGE => (super::order::WINDOW_PAGES * page / line) as u64,
        _ => 0,
    };
    for _ in 0..turns {
        let samples = samples(&mut circle, least, options.turn);
        if let Some((low, median)) = quantile(&samples, 0.1).zip(quantile(&samples, 0.5)) {
            point.low.push(low);
            point.median.push(median);
            point.cycle_ns.extend(cycle_ns());
        }
    }
}

/// Takes as many samples as there is time for, at least five. Time used by other processes does not
/// count: under load there would be few samples, and each would follow an interruption.
pub fn samples(circle: &mut Circle<'_>, least: u64, time: Duration) -> Vec<f64> {
    const FEWEST: usize = 5;
    // The first goes to finding out how many loads a sample is.
    let first = circle.sample(1000).max(0.05);
    let loads = ((SAMPLE.as_secs_f64() * 1e9 / first) as u64)
        .max(least)
        .max(64);
    let budget = Budget::for_duration(time);
    let mut samples = Vec::new();
    while samples.len() < FEWEST || budget.is_left() {
        samples.push(circle.sample(loads));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SweepOptions {
        SweepOptions {
            largest: 1 << 20,
            fine_up_to: 64 << 10,
            line: 64,
            page: 4096,
            pages: PageKind::Small,
            rounds: 2,
            turn: Duration::from_micros(200),
        }
    }

    #[test]
    fn sizes_lie_closer_among_the_caches() {
        let sizes = sizes(&options());
        assert_eq!(sizes.first(), Some(&SMALLEST), "from the smallest");
        assert_eq!(sizes.last(), Some(&(1 << 20)), "to the largest");
        assert!(
            sizes.iter().all(|size| size.is_multiple_of(64)),
            "whole lines"
        );
        let in_octave = |from: usize| {
            let octave = sizes.iter().filter(|size| (from..2 * from).contains(*size));
            octave.count()
        };
        assert_eq!(
            (in_octave(16 << 10), in_octave(256 << 10)),
            (4, 2),
            "four, then two"
        );
    }

    #[test]
    fn every_size_has_a_figure_of_every_round() {
        let options = options();
        let mut arena = Arena::new(options.largest, options.pages).unwrap();
        let sizes = sizes(&options);
        let orders = [Order::PageLocal, Order::Random];
        let mut curves = orders.map(|order| Curve::new(order, &sizes));
        let budget = Budget::for_duration(Duration::from_secs(60));
        sweep(&mut curves, &options, &mut arena, budget);
        sweep_memory(&mut curves, &options, &mut arena);
        for point in curves.iter().flat_map(|curve| &curve.points) {
            assert_eq!(point.low.len(), 2, "{} B: a figure a round", point.size);
            let (low, median) = (point.cached().unwrap(), point.uncached().unwrap());
            assert!(
                low.value > 0.0 && low.value <= median.high,
                "{} B: {low:?} {median:?}",
                point.size
            );
        }
    }
}
