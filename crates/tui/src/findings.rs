//! What is wrong in the time that has just passed.

use std::collections::VecDeque;
use std::sync::Arc;

use cachewise_model::{Blind, Finding, Report, Stretch, blind};

use crate::app::Setup;

/// What the rules make of some time.
#[derive(Debug, Default)]
pub struct Found {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Which rules could not look.
    pub blind: Option<Blind>,
    /// In how many seconds; none before the first stretch.
    pub seconds: Option<f64>,
}

/// The findings over these stretches.
#[must_use]
pub fn of(recent: &VecDeque<Arc<Stretch>>, setup: &Setup) -> Found {
    let mut stretches = recent.iter();
    let Some(first) = stretches.next() else {
        return Found::default();
    };
    let mut whole = Stretch::clone(first);
    for stretch in stretches {
        whole.append(Stretch::clone(stretch));
    }
    let seconds = whole.elapsed.as_secs_f64();
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
        seconds: Some(seconds),
    }
}
