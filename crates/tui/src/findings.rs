//! Findings of the last minute, and their verdict.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Diagnosis, Interval, Lost, Severity, Sum};
use cachewise_view::{evicted_by, headline_text};

/// Time between two verdicts: each sums up all rows of a minute.
pub(crate) const VERDICTS: Duration = Duration::from_secs(5);

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

/// The verdict of a period, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The findings in one sentence.
    pub text: String,
    /// Whether one of them is a problem.
    pub has_problems: bool,
}

impl Headline {
    /// The verdict of these intervals. Takes as long as summing up all their rows.
    #[must_use]
    pub fn of(recent: &[Arc<Interval>]) -> Headline {
        let diagnosis = over(recent).diagnosis;
        let mut severities = diagnosis.findings.iter().map(|finding| finding.severity);
        Headline {
            text: headline_text(&diagnosis),
            has_problems: severities.any(|severity| severity == Severity::Warn),
        }
    }
}

/// The findings of these intervals.
#[must_use]
pub fn over<'a>(recent: impl IntoIterator<Item = &'a Arc<Interval>>) -> RecentFindings {
    let mut intervals = recent.into_iter();
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
