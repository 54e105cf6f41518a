//! A finding: the problem, its figures, and the fix.

use std::path::PathBuf;

use cachewise_units::escaped;

use crate::value::Value;

/// Importance of a finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Time or memory is being lost.
    Warn,
    /// Useful for reading the numbers.
    #[default]
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

/// Kind of a finding's subject.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// The machine, or a run as a whole.
    #[default]
    Machine,
    /// A file.
    File,
    /// A control group.
    Group,
    /// A process.
    Process,
    /// A storage device.
    Device,
}

impl SubjectKind {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            SubjectKind::Machine => "machine",
            SubjectKind::File => "file",
            SubjectKind::Group => "group",
            SubjectKind::Process => "process",
            SubjectKind::Device => "device",
        }
    }
}

/// The finding of a subject: its cause, evidence and fix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finding {
    /// Name of the rule that found the cause.
    pub id: &'static str,
    /// Its importance.
    pub severity: Severity,
    /// The cause, in one line without the subject.
    pub title: String,
    /// The evidence, named like fields: `snake_case` with the unit as suffix.
    pub figures: Vec<(&'static str, Value)>,
    /// The fix: a command, or a change of the code.
    pub next_step: String,
    /// The file, control group or device concerned, if there is one.
    pub subject: Option<PathBuf>,
    /// Kind of the subject.
    pub kind: SubjectKind,
    /// The name that people use for it: the label of a file, the unit or container of a group or process.
    pub name: Option<String>,
    /// The process concerned, if there is one.
    pub pid: Option<u32>,
    /// The fix as `cachewise try` takes it, if it can be tried.
    pub trial: Option<String>,
    /// How to verify the fix.
    pub verify: String,
    /// Bytes fetched from devices for the subject; `None` if unknown.
    pub cost_bytes: Option<u64>,
    /// Seconds that tasks waited for storage and memory on the subject; `None` if times were not measured.
    pub cost_seconds: Option<f64>,
    /// Further evidence of the same cause.
    pub also: Vec<Folded>,
}

impl Finding {
    /// Names of all rules with evidence of the cause.
    pub fn rules(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.id).chain(self.also.iter().map(|folded| folded.id))
    }

    /// The subject with its name, for people; escaped.
    #[must_use]
    pub fn subject_text(&self) -> Option<String> {
        let subject = self.subject.as_deref().map(escaped);
        let name = self.name.as_deref().map(escaped);
        match (subject, name) {
            (Some(path), Some(label)) if self.kind == SubjectKind::File => {
                Some(format!("{label} ({path})"))
            }
            (Some(path), Some(name)) if name != path => Some(format!("{path} ({name})")),
            (Some(path), _) => Some(path.into_owned()),
            (None, name) => name.map(|name| format!("in {name}")),
        }
    }

    /// The address of the page that explains it.
    #[must_use]
    pub fn page(&self) -> String {
        format!(
            "{}/blob/main/docs/findings/{}.md",
            env!("CARGO_PKG_REPOSITORY"),
            self.id
        )
    }
}

/// Evidence of another rule for the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// Name of the rule.
    pub id: &'static str,
    /// Its sentence.
    pub title: String,
    /// The file or control group concerned, if there is one.
    pub subject: Option<PathBuf>,
}
