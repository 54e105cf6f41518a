//! A rule that fires for many files names the heaviest.

use std::cmp::Reverse;

use crate::finding::Finding;
use crate::value::{Datum, Value};

/// Number of files that a rule names. The table of files has the rest.
pub const NAMED: usize = 3;

/// Keeps the heaviest findings; the last one has the number of further files.
pub fn heaviest(mut found: Vec<(u64, Finding)>) -> Vec<Finding> {
    found.sort_by_key(|(weight, _)| Reverse(*weight));
    let further = found.len().saturating_sub(NAMED) as u64;
    let mut findings: Vec<Finding> = found
        .into_iter()
        .take(NAMED)
        .map(|(_, finding)| finding)
        .collect();
    if let (Some(last), true) = (findings.last_mut(), further > 0) {
        last.figures
            .push(("further_files", Value::Exact(Datum::Count(further))));
    }
    findings
}
