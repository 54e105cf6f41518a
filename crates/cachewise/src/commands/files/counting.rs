//! Sums over all files, and notes on files that are excluded from them.

use std::collections::BTreeMap;

use cachewise_model::{Measured, Reason};
use cachewise_residency::Counts;

use super::notes::Notes;
use crate::progress::Meter;
use cachewise_cli::output::Failures;

/// Sums over all files.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Those that could be looked at, shown or not.
    pub files: u64,
    /// Those of them whose residency is unknown.
    pub unknown: u64,
    /// Paths that could not be read.
    pub failed: u64,
    pub size: u64,
    pub counts: Counts,
    /// Change by the command; `None` if it only reads.
    pub change: Option<Change>,
    /// Why there are more files than these.
    pub partial: Option<Reason>,
}

impl Answer {
    const NOTHING: Answer = Answer {
        files: 0,
        unknown: 0,
        failed: 0,
        size: 0,
        counts: Counts::ZERO,
        change: None,
        partial: None,
    };
}

/// Pages that were resident before and after something was done.
#[derive(Debug, Clone, Default)]
pub struct Change {
    pub before: Sum,
    pub after: Sum,
    /// How many there are fewer, of the files of which both are known.
    pub went: u64,
}

impl Change {
    /// Takes in a file.
    pub fn add(&mut self, before: Result<u64, Reason>, after: Result<u64, Reason>) {
        self.before.add(before);
        self.after.add(after);
        if let (Ok(before), Ok(after)) = (before, after) {
            self.went += before.saturating_sub(after);
        }
    }
}

/// A sum of what is known.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    pub pages: u64,
    /// Why the first of the others is not.
    unknown: Option<Reason>,
}

impl Sum {
    fn add(&mut self, pages: Result<u64, Reason>) {
        match pages {
            Ok(pages) => self.pages += pages,
            Err(reason) => {
                self.unknown.get_or_insert(reason);
            }
        }
    }

    /// The sum for a total: an estimate if some files are unknown, and unknown if all are.
    pub fn measured(&self) -> Measured<u64> {
        match self.unknown {
            None => Measured::Exact(self.pages),
            // Next to what is not known, a sum of 0 would read as none.
            Some(reason) if self.pages == 0 => Measured::unknown(reason),
            Some(reason) => Measured::Estimated(self.pages, reason),
        }
    }
}

/// Counts files, and reports those that cannot be read.
pub struct Counting {
    pub answer: Answer,
    vanished: u64,
    /// How many are unknown for which reason.
    reasons: BTreeMap<&'static str, u64>,
    failures: Failures,
    pub notes: Notes,
    /// `None` where something else shows how far the work is.
    meter: Option<Meter>,
}

impl Counting {
    pub fn new(notes: Notes) -> Counting {
        Counting {
            answer: Answer::NOTHING,
            vanished: 0,
            reasons: BTreeMap::new(),
            failures: Failures::default(),
            notes,
            meter: Some(Meter::new()),
        }
    }

    /// Leaves it to something else to show how far the work is.
    pub fn quietly(&mut self) {
        self.meter = None;
    }

    /// Counts a file.
    pub fn add(&mut self, size: u64, counts: Result<Counts, Reason>) {
        self.answer.files += 1;
        // Sparse files may have 8 EiB each.
        self.answer.size = self.answer.size.saturating_add(size);
        match counts {
            Ok(counts) => self.answer.counts += counts,
            Err(reason) => {
                self.answer.unknown += 1;
                *self.reasons.entry(reason.words()).or_default() += 1;
            }
        }
        if let Some(meter) = &self.meter {
            meter.file();
        }
    }

    /// Reports a path that could not be read.
    pub fn failed(&mut self, error: &str) {
        let notes = &mut self.notes;
        self.failures.add(error, |error| match &self.meter {
            Some(meter) => meter.aside(|| notes.tell(error)),
            None => notes.tell(error),
        });
    }

    /// Writes something to what may be the terminal, with the line of progress out of its way.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.meter {
            Some(meter) => meter.aside(write),
            None => write(),
        }
    }

    /// Leaves it at that: those that are unknown so far were expected to be.
    pub fn expect_unknown(&mut self) {
        self.answer.unknown = 0;
        self.reasons.clear();
    }

    /// Counts a file that was removed before it was examined; a list of present files does not miss it.
    pub fn vanished(&mut self) {
        self.vanished += 1;
    }

    /// Nothing more is waited for: the line of progress makes room for what is shown.
    pub fn all_came(&mut self) {
        self.meter = None;
    }

    /// Tells what is not in the sums.
    pub fn finish(&mut self) -> Answer {
        self.all_came();
        let notes = &mut self.notes;
        self.answer.failed = self.failures.end(|more| notes.tell(more));
        let Answer { files, unknown, .. } = self.answer;
        match self.vanished {
            0 => {}
            1 => self
                .notes
                .tell("note: 1 file was removed before it was examined"),
            many => self.notes.tell(&format!(
                "note: {many} files were removed before they were examined"
            )),
        }
        if unknown > 0 {
            let reasons: Vec<String> = match self.reasons.len() {
                1 => self.reasons.keys().map(ToString::to_string).collect(),
                _ => self
                    .reasons
                    .iter()
                    .map(|(reason, count)| format!("{count}: {reason}"))
                    .collect(),
            };
            self.notes.tell(&format!(
                "note: residency is unknown of {unknown} of {files} files, excluded from all sums: {}",
                reasons.join("; ")
            ));
        }
        self.answer.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Result<u64, Reason>;
    const HIDDEN: Reason = Reason::NotReported;

    #[test]
    fn a_sum_says_what_it_is_of() {
        let of = |changes: &[(Told, Told)]| {
            let mut sum = Change::default();
            for (before, after) in changes {
                sum.add(*before, *after);
            }
            (sum.before.measured(), sum.after.measured(), sum.went)
        };
        assert_eq!(
            of(&[(Ok(3), Ok(1)), (Ok(2), Ok(0))]),
            (Measured::Exact(5), Measured::Exact(1), 4),
            "all is known"
        );
        assert_eq!(
            of(&[(Ok(3), Ok(1)), (Err(HIDDEN), Ok(7))]),
            (Measured::Estimated(3, HIDDEN), Measured::Exact(8), 2),
            "what came of the second is known, and not what it was"
        );
        assert_eq!(
            of(&[(Err(HIDDEN), Err(HIDDEN)), (Ok(0), Ok(0))]),
            (Measured::unknown(HIDDEN), Measured::unknown(HIDDEN), 0),
            "nothing beside the unknown is not nothing"
        );
    }
}
