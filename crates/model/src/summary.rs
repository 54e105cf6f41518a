//! A recording, or a part of one, in numbers.
//!
//! # Layout
//! - [`Summary`]: the whole. [`Spread`]: how one field behaved; [`Stall`]: time lost to waiting.
//! - [`Gap`]: time that is not there, or in one piece.

use std::time::Duration;

use cachewise_units::PageSize;

use crate::exactness::Exactness;
use crate::field::{Field, Kind};
use crate::finding::Finding;
use crate::findings::Blind;
use crate::measured::Measured;
use crate::report::Backend;
use crate::stretch::Stretch;
use crate::value::Value;

/// What a recording says.
#[derive(Debug, Clone)]
pub struct Summary {
    /// When the first sample's stretch began, RFC 3339.
    pub begin: String,
    /// When the last one ended.
    pub end: String,
    /// The machine's name.
    pub hostname: String,
    /// The page size by which pages become bytes.
    pub page_size: PageSize,
    /// The kernel's release.
    pub kernel: String,
    /// What counted.
    pub backend: Backend,
    /// What of the machine was watched, in words; empty for all of it.
    pub scope: String,
    /// The command that was run meanwhile.
    pub command: Vec<String>,
    /// From sample to sample, as it was asked for.
    pub interval: Duration,
    /// How many samples there are.
    pub samples: u64,
    /// How often recording was begun or gone on with.
    pub sessions: u64,
    /// The whole time as one stretch: counts summed, gauges at the end. Its parts are the most active ones.
    pub total: Stretch,
    /// Each number of the machine.
    pub spreads: Vec<Spread>,
    /// Time lost to waiting.
    pub stalls: Vec<Stall>,
    /// Time that is not there, or in one piece.
    pub gaps: Vec<Gap>,
    /// Gaps beside those.
    pub more_gaps: u64,
    /// What is wrong, by the rules that hold for a whole machine over some time.
    pub findings: Vec<Finding>,
    /// Which rules could not look.
    pub blind: Option<Blind>,
    /// What could not be read, in sentences.
    pub problems: Vec<String>,
}

impl Summary {
    /// How far its numbers can be trusted.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        Exactness::new(self.backend.exact, &self.total.lost)
    }
}

/// How one field behaved over time.
#[derive(Debug, Clone)]
pub struct Spread {
    /// Which.
    pub field: &'static Field,
    /// Over the samples that have it: of a counter what was added each second, of a gauge as it was.
    pub figures: Measured<Figures>,
    /// In how many samples it is known.
    pub known: u64,
    /// Of a counter its sum, of a ratio that of the sums, of a gauge the last one.
    pub total: Value,
}

impl Spread {
    /// Whether the figures are of one second.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        self.field.kind == Kind::Counter
    }
}

/// In the field's own unit; where values are rates, that a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The least.
    pub min: f64,
    /// Of a rate the whole over the whole time, of a ratio that of the sums, of a gauge the mean of the
    /// samples.
    pub mean: f64,
    /// Half of the samples are not above it.
    pub p50: f64,
    /// Nine in ten.
    pub p90: f64,
    /// 99 in a hundred.
    pub p99: f64,
    /// The most.
    pub max: f64,
}

/// Time in which tasks waited for one thing (PSI).
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// `cpu`, `memory`, `io`.
    pub resource: &'static str,
    /// `some`: at least one task waited; `full`: all did.
    pub kind: &'static str,
    /// In all.
    pub seconds: Measured<f64>,
    /// Of the whole time, 0 to 1.
    pub ratio: Measured<f64>,
    /// The most in one sample, as a part of it.
    pub worst_ratio: Measured<f64>,
    /// When that sample ended, RFC 3339.
    pub worst_time: Measured<String>,
}

/// Time that is not there, or in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// When it began, RFC 3339; not known where nothing before it can be read.
    pub begin: Measured<String>,
    /// When it ended; not known where nothing after it can be read.
    pub end: Measured<String>,
    /// How long it was.
    pub length: Measured<Duration>,
    /// Why.
    pub kind: GapKind,
}

/// Why time is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// Nobody recorded: one stopped, another went on. Nothing is known of this time.
    NotRecorded,
    /// Samples of this time cannot be read.
    Unreadable,
    /// The machine slept; counts of the time around it are in one sample.
    Suspended,
    /// The recorder was not let run, or not fast enough; counts are in one sample.
    Late,
    /// Somebody set the clock: times before and after do not compare. The length is by how much.
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

    /// What it is, for people.
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
