//! [`Level`]: one level of the hierarchy, as measured.

use crate::Cache;
use crate::measure::estimate::Estimate;

/// Memory is swept at least up to here, as sysfs may not tell of the last cache, and at most up to there.
pub(super) const LARGEST: (u64, u64) = (256 << 20, 1 << 30);

/// Where a level's latency was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LatencySource {
    /// On a level of the curve.
    Curve,
    /// At the sizes of sysfs, as the curve has no level there.
    SysfsSize,
    /// Not read: the level exceeds the largest measured size.
    NotReached,
}

/// One level.
#[derive(Debug, Clone)]
pub struct Level {
    /// `L1d`, `L2`, `memory`; `level 2` without a cache in sysfs.
    pub name: String,
    /// The cache in sysfs.
    pub told: Option<Cache>,
    /// Cores and hardware threads that share it, from sysfs.
    pub shared_by: Option<(usize, usize)>,
    /// Measured size in bytes.
    pub capacity: Option<Estimate>,
    /// Where the latency was read.
    pub seen: LatencySource,
    /// The latency in nanoseconds, page by page.
    pub local: Option<Estimate>,
    /// The latency in nanoseconds, all over the place.
    pub random: Option<Estimate>,
}
