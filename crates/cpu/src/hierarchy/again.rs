//! Measuring again: what was disturbed, and where a level ends.

use crate::measure::budget::Budget;
use crate::measure::chase::Arena;
use crate::measure::estimate::Trust;
use crate::measure::plateau::{self, plateaus};
use crate::measure::sweep::{Curve, SweepOptions, turn};

use super::levels::cached;

/// Measures the sizes again at which rounds do not agree, until the time is over: a neighbour may have been busy.
pub(super) fn again(
    curves: &mut [Curve],
    options: &SweepOptions,
    arena: &mut Arena,
    budget: Budget,
) {
    for curve in curves {
        let order = curve.order;
        for point in &mut curve.points {
            let agree = point
                .cached()
                .is_some_and(|found| found.trust() == Trust::Good);
            if !agree && point.size <= options.fine_up_to && budget.is_left() {
                turn(point, order, options, arena, 1);
            }
        }
    }
}

/// Puts more sizes where a level of some hundred pages ends: whole pages, as a first level has a whole number of.
pub(super) fn refine(curve: &mut Curve, options: &SweepOptions, arena: &mut Arena, budget: Budget) {
    const MOST_PAGES: usize = 1024;
    const MORE: usize = 5;
    for level in plateaus(&cached(&curve.points), plateau::FLAT) {
        let Some(capacity) = level.capacity else {
            continue;
        };
        let above = curve
            .points
            .partition_point(|point| (point.size as f64) < capacity);
        let Some((below, above)) = above
            .checked_sub(1)
            .and_then(|below| Some((curve.points.get(below)?.size, curve.points.get(above)?.size)))
        else {
            continue;
        };
        let (first, last) = (below.div_ceil(options.page), above / options.page);
        if last > MOST_PAGES {
            continue;
        }
        // Both may lie within one large page.
        let step = (last.saturating_sub(first) / MORE).max(1);
        for pages in (first..=last).step_by(step) {
            let size = pages * options.page;
            let place = curve.points.partition_point(|point| point.size < size);
            if curve
                .points
                .get(place)
                .is_none_or(|point| point.size != size)
            {
                let mut fresh = Curve::new(curve.order, &[size]).points;
                for point in &mut fresh {
                    for round in 0..options.rounds {
                        if round > 0 && !budget.is_left() {
                            break;
                        }
                        turn(point, curve.order, options, arena, 1);
                    }
                }
                curve.points.splice(place..place, fresh);
            }
        }
    }
}
