//! The result: miss ratios by memory size.

use cachewise_units::Pages;

use crate::access::Rate;

/// The share of avoidable fetched pages that [`Curve::enough`] avoids.
pub const ENOUGH: f64 = 0.95;

/// The height of the curve above which [`Curve::knee`] looks for a bend: a curve that falls in a straight line has none.
pub const BEND: f64 = 0.1;

/// The difference of missed or fetched pages by requested pages between sizes nearby above which a few pages of room decide.
pub const STEEP: f64 = 0.1;

/// A memory size and what would be missed in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The memory that pages of files have.
    pub memory: Pages,
    /// The caller requested this size.
    pub is_given: bool,
    /// It is a size of the grid: [`Curve::knee`] and [`Curve::enough`] are of these, whatever the caller requested.
    pub is_in_grid: bool,
    /// Requested pages that are not there: a device has to deliver them, with those that it reads ahead.
    pub missed: Pages,
    /// Pages that devices have to deliver.
    pub fetched: Pages,
    /// Missed pages by requested pages; `None`: nothing was requested.
    pub miss_ratio: Option<f64>,
    /// Fetched pages by requested pages, above 1 where readahead fetches in vain.
    pub fetched_ratio: Option<f64>,
    /// Fetched pages by requested pages under exact LRU without readahead, for comparison: the kernel's two lists keep pages
    /// of loops longer.
    pub lru_miss_ratio: Option<f64>,
}

/// Miss ratios by memory size.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// In ascending order of memory.
    pub points: Vec<Point>,
    /// Pages that were requested.
    pub requested: Pages,
    /// Requested pages that are not there although memory has no limit: the first use of each, unless it was read ahead.
    pub missed: Pages,
    /// Pages that are fetched although memory has no limit: the first use of each, and those that readahead fetches with it.
    pub fetched: Pages,
    /// The fetched pages of a memory without limit, by requested pages: above 1 where readahead fetches in vain.
    pub floor: Option<f64>,
    /// Different pages in use.
    pub footprint: Pages,
    /// The largest window of readahead. In a smaller memory the kernel evicts pages that it read ahead before they are read, and
    /// gives up windows: what it fetches varies from run to run.
    pub largest_window: Pages,
    /// The sample at the end.
    pub rate: Rate,
}

impl Curve {
    /// The point where the curve bends: farthest below the straight line between its ends (Kneedle), both axes scaled to
    /// 1. `None` if it is less than [`BEND`] below.
    #[must_use]
    pub fn knee(&self) -> Option<Point> {
        let (highest, floor) = (self.highest()?, self.floor?);
        let footprint = self.footprint.0 as f64;
        let drop = |point: &Point| {
            let avoided = (highest - point.fetched_ratio?) / (highest - floor);
            Some(avoided - point.memory.0 as f64 / footprint)
        };
        self.grid()
            .filter_map(|point| Some((*point, drop(point)?)))
            .filter(|(_, drop)| *drop >= BEND)
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .map(|(point, _)| point)
    }

    /// The smallest size that avoids [`ENOUGH`] of the fetched pages that memory can avoid.
    #[must_use]
    pub fn enough(&self) -> Option<Point> {
        let (highest, floor) = (self.highest()?, self.floor?);
        let most = floor + (highest - floor) * (1.0 - ENOUGH);
        let enough = |point: &&Point| point.fetched_ratio.is_some_and(|ratio| ratio <= most);
        self.grid().find(enough).copied()
    }

    /// The next smaller and the next larger size where the curve is so steep that a few pages of room decide: they differ by
    /// more than [`STEEP`]. Sizes that are nearer than `unsure` do not count, up to an eighth of the size; beyond the largest one all pages fit.
    #[must_use]
    pub fn steep_at(&self, point: &Point, unsure: Pages) -> Option<[Point; 2]> {
        // Blocks of a sample are spread over the pages with a deviation of about two of them.
        let blocks = match self.rate.is_whole() {
            true => 0.0,
            false => 2.0 * (1u64 << self.rate.shift()) as f64 / self.rate.share(),
        };
        let memory = point.memory.0;
        // Not farther than the next size of the grid.
        let unsure = unsure
            .0
            .max(blocks.round() as u64)
            .clamp(1, (memory / 8).max(1));
        let smaller = |other: &&Point| other.memory.0.saturating_add(unsure) <= memory;
        let larger = |other: &&Point| other.memory.0 >= memory.saturating_add(unsure);
        let smaller = self.points.iter().rev().find(smaller).unwrap_or(point);
        let larger = self.points.iter().find(larger);
        let larger = larger.or(self.points.last()).unwrap_or(point);
        let apart = |ratio: fn(&Point) -> Option<f64>| {
            ratio(smaller)
                .zip(ratio(larger))
                .is_some_and(|(smaller, larger)| (smaller - larger).abs() > STEEP)
        };
        let is_steep = apart(|point| point.miss_ratio) || apart(|point| point.fetched_ratio);
        is_steep.then_some([*smaller, *larger])
    }

    /// Returns whether windows of readahead fit into this size.
    #[must_use]
    pub fn has_room_for_windows(&self, point: &Point) -> bool {
        point.memory >= self.largest_window
    }

    /// The sizes of the grid, in ascending order.
    fn grid(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.is_in_grid)
    }

    /// The fetched pages by requested pages of the smallest size, if memory makes a difference: the smallest that windows of
    /// readahead fit into, as below it the curve is uncertain.
    fn highest(&self) -> Option<f64> {
        let has_room = |point: &&Point| self.has_room_for_windows(point);
        let smallest = self.grid().find(has_room).or(self.grid().next());
        let highest = smallest?.fetched_ratio?;
        (highest > self.floor?).then_some(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(sizes: &[(u64, f64)]) -> Curve {
        let point = |&(memory, ratio)| Point {
            memory: Pages(memory),
            is_given: false,
            is_in_grid: true,
            missed: Pages(0),
            fetched: Pages(0),
            miss_ratio: Some(ratio),
            fetched_ratio: Some(ratio),
            lru_miss_ratio: None,
        };
        Curve {
            points: sizes.iter().map(point).collect(),
            requested: Pages(1000),
            missed: Pages(0),
            fetched: Pages(0),
            floor: Some(0.0),
            footprint: Pages(1000),
            largest_window: Pages(0),
            rate: Rate::ALL,
        }
    }

    #[test]
    fn requested_sizes_change_neither_knee_nor_enough() {
        let mut curve = curve(&[(256, 4.0), (512, 0.5), (1000, 0.0)]);
        let found = |curve: &Curve| {
            let of = |point: Option<Point>| point.map(|point| point.memory.0);
            (of(curve.knee()), of(curve.enough()))
        };
        assert_eq!(found(&curve), (Some(512), Some(1000)));
        let given = Point {
            memory: Pages(1),
            is_given: true,
            is_in_grid: false,
            fetched_ratio: Some(100.0),
            ..curve.points[0]
        };
        curve.points.insert(0, given);
        assert_eq!(found(&curve), (Some(512), Some(1000)));
    }

    #[test]
    fn sizes_below_the_windows_of_readahead_make_no_smaller_size_enough() {
        let mut curve = curve(&[(100, 9.0), (500, 1.0), (600, 0.3), (1000, 0.0)]);
        let enough = |curve: &Curve| curve.enough().map(|point| point.memory.0);
        assert_eq!(enough(&curve), Some(600), "of the nine in vain");
        curve.largest_window = Pages(400);
        assert_eq!(enough(&curve), Some(1000));
    }

    #[test]
    fn size_near_a_cliff_has_the_range_of_the_sizes_nearby() {
        let curve = curve(&[
            (800, 1.0),
            (900, 1.0),
            (1000, 0.2),
            (1010, 0.2),
            (1100, 0.2),
        ]);
        let range = |number: usize| {
            let range = curve.steep_at(&curve.points[number], Pages(64));
            range.map(|range| range.map(|point| point.memory.0))
        };
        assert_eq!(range(0), None, "the cliff is farther away");
        assert_eq!(range(1), Some([800, 1000]));
        assert_eq!(range(2), Some([900, 1100]));
        assert_eq!(range(3), Some([900, 1100]), "1000 is too near to say more");
        assert_eq!(range(4), None);
    }
}
