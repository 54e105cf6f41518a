//! Statistics of a recording, or of a part of one.
//!
//! # Layout
//! - [`Statistics`]: the whole. [`Spread`]: statistics of one field; [`Stall`]: time lost waiting.
//! - [`Gap`]: time without samples, or in one sample.

use std::time::Duration;

use crate::exactness::Exactness;
use crate::field::Field;
use crate::findings::Diagnosis;
use crate::interval::Interval;
use crate::kind::Kind;
use crate::measured::Measured;
use crate::value::Value;

/// Statistics of a recording: its sum as one interval, and what only a series of samples has.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Start of the first sample's interval, RFC 3339.
    pub begin: String,
    /// The watched part of the machine, in words; empty for all of it.
    pub scope: String,
    /// The command that ran meanwhile.
    pub command: Vec<String>,
    /// The requested time between samples.
    pub interval: Duration,
    /// Number of samples.
    pub samples: u64,
    /// Number of times that recording was started or resumed.
    pub sessions: u64,
    /// The whole time as one interval: counts summed, gauges at the end. Its parts are the most
    /// active ones.
    pub total: Interval,
    /// Statistics of each field of the machine.
    pub spreads: Vec<Spread>,
    /// Time lost waiting.
    pub stalls: Vec<Stall>,
    /// Time without samples, or in one sample.
    pub gaps: Vec<Gap>,
    /// Number of further gaps.
    pub more_gaps: u64,
    /// Findings over the whole time.
    pub diagnosis: Diagnosis,
    /// Unreadable parts, in sentences.
    pub problems: Vec<String>,
}

impl Statistics {
    /// Exactness of its numbers.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        Exactness::new(self.total.source.backend.exact, &self.total.lost)
    }
}

/// Statistics of one field.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The field.
    pub field: &'static Field,
    /// Over the samples that have it: the rate of a counter, the value of a gauge.
    pub figures: Measured<Figures>,
    /// Number of samples in which it is known.
    pub known: u64,
    /// The sum of a counter, the ratio of the sums, the last value of a gauge.
    pub total: Value,
}

impl Spread {
    /// Whether the figures are per second.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        self.field.kind == Kind::Counter
    }
}

/// In the field's unit, per second for rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The minimum.
    pub min: f64,
    /// The rate over the whole time, the ratio of the sums, or the mean of a gauge's samples.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

/// Time in which tasks waited for one resource (PSI).
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// `cpu`, `memory`, `io`.
    pub resource: &'static str,
    /// `some`: at least one task waited; `full`: all did.
    pub kind: &'static str,
    /// The total.
    pub seconds: Measured<f64>,
    /// The share of the whole time, 0 to 1.
    pub ratio: Measured<f64>,
    /// The maximum share in one sample.
    pub worst_ratio: Measured<f64>,
    /// The end of that sample, RFC 3339.
    pub worst_time: Measured<String>,
}

/// Time without samples, or in one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Its start, RFC 3339; unknown if no earlier sample can be read.
    pub begin: Measured<String>,
    /// Its end; unknown if no later sample can be read.
    pub end: Measured<String>,
    /// Its length.
    pub length: Measured<Duration>,
    /// Its cause.
    pub kind: GapKind,
}

/// Cause of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// Not recorded: one recorder stopped, another resumed. Counts of this time are unknown.
    NotRecorded,
    /// Samples of this time cannot be read.
    Unreadable,
    /// The machine was suspended; one sample has the counts around that time.
    Suspended,
    /// The recorder could not run in time; one sample has the counts.
    Late,
    /// The clock was set: times before and after do not compare. The length is the change.
    ClockSet,
}

impl GapKind {
    /// Its name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            GapKind::NotRecorded => "not_recorded",
            GapKind::Unreadable => "unreadable",
            GapKind::Suspended => "suspended",
            GapKind::Late => "late",
            GapKind::ClockSet => "clock_set",
        }
    }

    /// Its description for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            GapKind::NotRecorded => "nobody recorded",
            GapKind::Unreadable => "samples that cannot be read",
            GapKind::Suspended => "the machine slept; its counts are in one sample",
            GapKind::Late => "the recorder could not run in time; its counts are in one sample",
            GapKind::ClockSet => "the clock was set by so much",
        }
    }

    /// Whether counts of this time are missing.
    #[must_use]
    pub const fn loses_counts(self) -> bool {
        matches!(self, GapKind::NotRecorded | GapKind::Unreadable)
    }
}
