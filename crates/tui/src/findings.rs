//! What is wrong in the time that has just passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Blind, Finding, Lost, Report, Stretch, Sum, blind};

use crate::app::Setup;

/// What was found in some time.
#[derive(Debug, Default)]
pub struct Found {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Which rules could not look.
    pub blind: Option<Blind>,
    /// What was not counted as it should be.
    pub lost: Vec<Lost>,
    /// In how much time; in none there was nothing yet to find it in.
    pub over: Duration,
}

/// What is to be found in these stretches.
#[must_use]
pub fn of(recent: &VecDeque<Arc<Stretch>>, setup: &Setup) -> Found {
    let mut stretches = recent.iter();
    let Some(first) = stretches.next() else {
        return Found::default();
    };
    let mut sum = Sum::of(Stretch::clone(first));
    for stretch in stretches {
        sum.add(Stretch::clone(stretch));
    }
    let whole = sum.into_whole();
    let mut report = Report::new(
        whole.time.clone(),
        setup.hostname.clone(),
        setup.page,
        String::new(),
    );
    report.backend = setup.backend.clone();
    let report = report.of_stretch(&whole);
    Found {
        blind: blind(&report),
        findings: report.findings,
        over: whole.elapsed,
        lost: whole.lost,
    }
}
