//! A checkup: capabilities and findings of a machine. The result of `doctor`.

use cachewise_units::PageSize;

use crate::finding::Severity;
use crate::findings::Diagnosis;
use crate::interval::Interval;

/// State of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Present, and works.
    Ok,
    /// Works in part, or with a drawback.
    Limited,
    /// Missing, or not permitted.
    Missing,
}

impl State {
    /// The name in machine formats, and for people.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// A check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its area: `kernel`, `probe`, `rights`, `memory`, `devices`, `tools`.
    pub area: &'static str,
    /// Its name in machine formats.
    pub id: String,
    /// Its state.
    pub state: State,
    /// The observation.
    pub found: String,
    /// The meaning for the user; empty if there is nothing to add.
    pub meaning: String,
    /// The fix, if there is one.
    pub next_step: Option<String>,
    /// Numbers are worse without it: its absence is a warning.
    pub is_needed: bool,
}

impl Check {
    /// A check that passed.
    #[must_use]
    pub fn ok(area: &'static str, id: impl Into<String>, found: impl Into<String>) -> Check {
        Check {
            area,
            id: id.into(),
            state: State::Ok,
            found: found.into(),
            meaning: String::new(),
            next_step: None,
            is_needed: false,
        }
    }

    /// Sets the state.
    #[must_use]
    pub fn is(mut self, state: State) -> Check {
        self.state = state;
        self
    }

    /// Sets the meaning.
    #[must_use]
    pub fn means(mut self, meaning: impl Into<String>) -> Check {
        self.meaning = meaning.into();
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn by(mut self, next_step: impl Into<String>) -> Check {
        self.next_step = Some(next_step.into());
        self
    }

    /// Marks it as needed for good numbers.
    #[must_use]
    pub fn needed(mut self) -> Check {
        self.is_needed = true;
        self
    }
}

/// Capabilities and findings of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkup {
    /// Time of the checkup, RFC 3339.
    pub timestamp: String,
    /// The machine's name.
    pub hostname: String,
    /// The page size for conversion to bytes.
    pub page_size: PageSize,
    /// The kernel's release.
    pub kernel: String,
    /// The checks.
    pub checks: Vec<Check>,
    /// The watched interval, with findings; `None` without a watch.
    pub watched: Option<(Interval, Diagnosis)>,
}

impl Checkup {
    /// Number of warnings: findings that cost time or memory, and needed capabilities that are
    /// missing.
    #[must_use]
    pub fn warnings(&self) -> usize {
        let checks = self.checks.iter();
        let missing = checks.filter(|check| check.is_needed && check.state == State::Missing);
        let diagnosis = self.watched.iter().map(|(_, diagnosis)| diagnosis);
        let findings = diagnosis.flat_map(|diagnosis| &diagnosis.findings);
        missing.count()
            + findings
                .filter(|finding| finding.severity == Severity::Warn)
                .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;

    #[test]
    fn warnings_count_costly_findings_and_missing_needs() {
        let mut checkup = Checkup {
            timestamp: "t".into(),
            hostname: "h".into(),
            page_size: PageSize::new(4 << 10).unwrap(),
            kernel: "k".into(),
            checks: vec![
                Check::ok("kernel", "release", "6.18"),
                Check::ok("tools", "ncdu", "none").is(State::Missing),
            ],
            watched: None,
        };
        assert_eq!(checkup.warnings(), 0, "one can do without ncdu");
        let probe = Check::ok("probe", "attach", "refused").is(State::Missing);
        checkup.checks.push(probe.needed());
        assert_eq!(checkup.warnings(), 1, "without the probe all is estimates");
        let interval = sample::every_rule_fires();
        let diagnosis = Diagnosis::of(&interval);
        let costly = diagnosis
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Warn)
            .count();
        checkup.watched = Some((interval, diagnosis));
        assert_eq!(checkup.warnings(), 1 + costly, "notes are no warnings");
    }
}
