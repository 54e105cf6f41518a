//! The result: miss ratios by memory size.

use cachewise_units::Pages;

use crate::access::Rate;

/// The share of avoidable fetched pages that [`Curve::enough`] avoids.
pub const ENOUGH: f64 = 0.95;

/// The height of the curve above which [`Curve::knee`] looks for a bend: a curve that falls in a straight line has none.
pub const BEND: f64 = 0.1;

/// A memory size and what would be missed in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The memory that pages of files have.
    pub memory: Pages,
    /// The caller requested this size.
    pub is_given: bool,
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
    /// Pages that are fetched although memory has no limit: the first use of each.
    pub fetched: Pages,
    /// The fetched pages of a memory without limit, by requested pages.
    pub floor: Option<f64>,
    /// Different pages in use.
    pub footprint: Pages,
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
        self.points
            .iter()
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
        self.points.iter().find(enough).copied()
    }

    /// The fetched pages by requested pages of the smallest size, if memory makes a difference.
    fn highest(&self) -> Option<f64> {
        let highest = self.points.first()?.fetched_ratio?;
        (highest > self.floor?).then_some(highest)
    }
}
