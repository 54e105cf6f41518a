//! What is wrong in the time that has just passed.

use std::collections::VecDeque;
use std::sync::Arc;

use cachewise_model::{Finding, Report, Stretch, diagnose};

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
        whole.time,
        setup.hostname.clone(),
        setup.page,
        String::new(),
    );
    report.wall = whole.elapsed;
    report.backend = setup.backend.clone();
    report.lost = whole.lost;
    report.totals = whole.ledger;
    report.device_read_bytes = whole.device_read_bytes;
    report.device_write_bytes = whole.device_write_bytes;
    report.files = whole.files;
    report.processes = whole.processes;
    report.cgroups = whole.cgroups;
    (diagnose(&report), seconds)
}
