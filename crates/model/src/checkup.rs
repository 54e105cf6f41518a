//! A checkup: what a machine offers for looking at its caches, and what is wrong on it. The result of
//! `doctor`.

use cachewise_units::PageSize;

use crate::finding::Severity;
use crate::report::Report;

/// How it is with one thing that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It is there, and works.
    Ok,
    /// It works in part, or something speaks against it.
    Limited,
    /// It is not there, or not allowed.
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

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it belongs to: `kernel`, `probe`, `rights`, `memory`, `devices`, `tools`.
    pub area: &'static str,
    /// Its name in machine formats.
    pub id: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What that means for the one who asks; empty where nothing needs to be said.
    pub meaning: String,
    /// How to get it, where that helps.
    pub next_step: Option<String>,
    /// Numbers are worse without it: that it is missing is a warning.
    pub is_needed: bool,
}

impl Check {
    /// It is there.
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

    /// It is as this says.
    #[must_use]
    pub fn is(mut self, state: State) -> Check {
        self.state = state;
        self
    }

    /// With what it means.
    #[must_use]
    pub fn means(mut self, meaning: impl Into<String>) -> Check {
        self.meaning = meaning.into();
        self
    }

    /// With how to get it.
    #[must_use]
    pub fn by(mut self, next_step: impl Into<String>) -> Check {
        self.next_step = Some(next_step.into());
        self
    }

    /// Numbers are worse without it.
    #[must_use]
    pub fn needed(mut self) -> Check {
        self.is_needed = true;
        self
    }
}

/// What a machine offers, and what is wrong on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkup {
    /// When it was made, RFC 3339.
    pub timestamp: String,
    /// The machine's name.
    pub hostname: String,
    /// The page size by which pages become bytes.
    pub page_size: PageSize,
    /// The kernel's release.
    pub kernel: String,
    /// What it offers.
    pub checks: Vec<Check>,
    /// What was seen while it was watched, with what is wrong; nothing where it was not.
    pub watched: Option<Report>,
}

impl Checkup {
    /// How many warnings there are: findings that cost time or memory, and needed things that are missing.
    #[must_use]
    pub fn warnings(&self) -> usize {
        let checks = self.checks.iter();
        let missing = checks.filter(|check| check.is_needed && check.state == State::Missing);
        let findings = self.watched.iter().flat_map(|report| &report.findings);
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
    fn warnings_are_what_costs_something() {
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
        let mut report = sample::every_rule_fires();
        report.findings = crate::diagnose(&report);
        let costly = report
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Warn)
            .count();
        checkup.watched = Some(report);
        assert_eq!(checkup.warnings(), 1 + costly, "notes are no warnings");
    }
}
