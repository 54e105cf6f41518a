//! Findings of the last minute.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Blind, Finding, Interval, Lost, Report, Sum, blind};

use crate::setup::Setup;

/// Findings of a period.
#[derive(Debug, Default)]
pub struct RecentFindings {
    /// The findings.
    pub findings: Vec<Finding>,
    /// Rules without input.
    pub blind: Option<Blind>,
    /// Lost or imprecise counts.
    pub lost: Vec<Lost>,
    /// Length of the period; zero before the first interval.
    pub over: Duration,
}

/// The findings of these intervals.
#[must_use]
pub fn over(recent: &VecDeque<Arc<Interval>>, setup: &Setup) -> RecentFindings {
    let mut intervals = recent.iter();
    let Some(first) = intervals.next() else {
        return RecentFindings::default();
    };
    let mut sum = Sum::of(Interval::clone(first));
    for interval in intervals {
        sum.add(Interval::clone(interval));
    }
    let whole = sum.into_whole();
    let mut report = Report::new(
        whole.time.clone(),
        setup.hostname.clone(),
        setup.page,
        String::new(),
    );
    report.backend = setup.backend.clone();
    let report = report.of_interval(&whole);
    RecentFindings {
        blind: blind(&report),
        findings: report.findings,
        over: whole.elapsed,
        lost: whole.lost,
    }
}
