//! What is wrong in the time that has just passed.

use std::collections::VecDeque;
use std::sync::Arc;

use cachewise_model::{Finding, Report, Stretch};

use crate::app::Setup;

/// The findings over these stretches, and how many seconds they are.
#[must_use]
pub fn of(recent: &VecDeque<Arc<Stretch>>, setup: &Setup) -> (Vec<Finding>, f64) {
    let mut stretches = recent.iter();
    let Some(first) = stretches.next() else {
        return (Vec::new(), 0.0);
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
    (report.of_stretch(&whole).findings, seconds)
}
