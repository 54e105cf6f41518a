//! Options of the guard.

use cachewise_units::Bytes;

use super::kept::Kept;
use super::means::Means;

/// GuardOptions of a guard.
#[derive(Clone, Copy, Debug)]
pub struct GuardOptions {
    /// The kind of memory to keep.
    pub kept: Kept,
    /// Reclaim starts below this mark,
    pub mark: Bytes,
    /// and stops at this target.
    pub target: Bytes,
    /// Maximum to reclaim from a group at a time.
    pub step: Bytes,
    /// A smaller group is left alone.
    pub leave: Bytes,
    /// Maximum share of the time, 0 to 1, in which tasks may wait for memory while reclaim gains
    /// little.
    pub most_stall: f64,
    /// The means of reclaim; `None` for the best of each group.
    pub means: Option<Means>,
    /// Groups come and go: none is needed at the start, nor left.
    pub follows: bool,
    /// Reclaim a step, also above the mark, while tasks wait for memory more than this share of the time, 0 to 1.
    pub stall: Option<f64>,
    /// Write nothing.
    pub dry_run: bool,
}
