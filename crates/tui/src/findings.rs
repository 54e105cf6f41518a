//! Findings of the last minute.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Diagnosis, Interval, Lost, Sum};
use cachewise_view::evicted_by;

/// Findings of a period.
#[derive(Debug, Default)]
pub struct RecentFindings {
    /// The findings, and the rules without input.
    pub diagnosis: Diagnosis,
    /// A line for each process that evicted pages, and cause.
    pub evicted_by: Vec<String>,
    /// Lost or imprecise counts.
    pub lost: Vec<Lost>,
    /// Length of the period; zero before the first interval.
    pub over: Duration,
}

/// The findings of these intervals.
#[must_use]
pub fn over(recent: &VecDeque<Arc<Interval>>) -> RecentFindings {
    let mut intervals = recent.iter();
    let Some(first) = intervals.next() else {
        return RecentFindings::default();
    };
    let mut sum = Sum::of(Interval::clone(first));
    for interval in intervals {
        sum.add(Interval::clone(interval));
    }
    let whole = sum.into_whole();
    RecentFindings {
        diagnosis: Diagnosis::of(&whole),
        evicted_by: evicted_by(&whole),
        over: whole.elapsed,
        lost: whole.lost,
    }
}
