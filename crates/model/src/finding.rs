//! A finding: what is wrong, the figures that show it, and what to do about it.

use std::path::PathBuf;

use crate::value::Value;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Time or memory is being lost.
    Warn,
    /// Good to know when reading the numbers.
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

/// What a rule has to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule's name.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// One line, without the subject.
    pub title: String,
    /// The figures behind it, named like fields: `snake_case` with the unit as suffix.
    pub figures: Vec<(&'static str, Value)>,
    /// The command or the code change that mends it.
    pub next_step: String,
    /// The file that it is about, if it is about one.
    pub subject: Option<PathBuf>,
}
