//! A finding: the problem, its figures, and the fix.

use std::path::PathBuf;

use crate::value::Value;

/// Importance of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Time or memory is being lost.
    Warn,
    /// Useful for reading the numbers.
    Info,
}

impl Severity {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Severity::Warn => "warn",
            Severity::Info => "info",
        }
    }
}

/// A finding of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule's name.
    pub id: &'static str,
    /// Its importance.
    pub severity: Severity,
    /// One line, without the subject.
    pub title: String,
    /// The figures behind it, named like fields: `snake_case` with the unit as suffix.
    pub figures: Vec<(&'static str, Value)>,
    /// The command or code change that fixes it.
    pub next_step: String,
    /// The file concerned, if there is one.
    pub subject: Option<PathBuf>,
}
