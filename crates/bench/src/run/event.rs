//! Events of a measurement, for those who watch it.

use std::time::Duration;

use cachewise_units::Bytes;

use crate::Figures;

/// Steps before a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// A missing file is made.
    Making,
    /// The file's pages are brought into the requested state.
    Filling,
    /// The bloating process takes memory.
    Growing,
}

impl Preparation {
    /// Its name for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Preparation::Making => "writing the file",
            Preparation::Filling => "preparing the page cache",
            Preparation::Growing => "taking memory",
        }
    }
}

/// Events of a measurement.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A preparation step, with its progress. `total` is 0 if unknown.
    Preparing {
        /// The step.
        what: Preparation,
        /// Bytes, or milliseconds of a warm-up.
        done: Bytes,
        /// The same unit.
        total: Bytes,
    },
    /// The measurement starts.
    Started,
    /// An interval has ended: its figures, without latencies of the total.
    Interval {
        /// Figures of the interval.
        figures: &'a Figures,
        /// Useful bytes so far.
        bytes: Bytes,
        /// Time so far.
        elapsed: Duration,
    },
    /// Progress between intervals, a few times a second.
    Tick {
        /// Time so far.
        elapsed: Duration,
        /// Useful bytes so far.
        bytes: Bytes,
    },
}
