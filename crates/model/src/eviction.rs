//! Evicted pages by file, cause, and the process that evicted them.

use crate::eviction_cause::EvictionCause;
use crate::measured::Measured;

/// Evicted pages of one file, for one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Index in [`Interval::files`](crate::Interval::files).
    pub file: usize,
    /// The control group that the pages were charged to.
    pub charged: Measured<String>,
    /// The cause.
    pub cause: EvictionCause,
    /// The process that evicted them; `None` for kernel threads, as in background reclaim.
    pub culprit: Option<Culprit>,
    /// Whether the culprit is known to use the file itself: its requests for it were counted.
    pub own: bool,
    /// The number of pages.
    pub pages: u64,
}

/// A process that evicted pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// Its process id.
    pub pid: Measured<u32>,
    /// Its start in nanoseconds since boot.
    pub started: u64,
    /// The program's name.
    pub command: Measured<String>,
    /// Its control group.
    pub cgroup: Measured<String>,
}

/// Identity of an eviction, by which those of consecutive intervals are summed.
pub(crate) type EvictionKey = (
    usize,
    EvictionCause,
    Option<String>,
    Option<(Option<u32>, u64, Option<String>)>,
);

impl Eviction {
    /// Returns whether both are evictions of one file, by one process, for one cause, of pages of one control group.
    #[must_use]
    pub fn is_like(&self, other: &Eviction) -> bool {
        self.key() == other.key()
    }

    /// The identity by which an eviction of the next interval adds to this one.
    pub(crate) fn key(&self) -> EvictionKey {
        let culprit = self.culprit.as_ref().map(|culprit| {
            let cgroup = culprit.cgroup.clone().known();
            (culprit.pid.known(), culprit.started, cgroup)
        });
        (self.file, self.cause, self.charged.clone().known(), culprit)
    }
}
