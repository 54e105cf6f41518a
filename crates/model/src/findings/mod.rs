//! The rules: from the numbers of a report to what should be changed.
//!
//! A rule fires on exact numbers only; where one takes less it says so. It says nothing about small
//! amounts: a finding must be worth the reading. A next step names only commands that exist today.
//!
//! # Layout
//! - [`RULES`], [`diagnose`]: the table, and running it.
//! - one module per rule, each with its thresholds and the reasons for them.
//! - `pressure`: what the rules about scarce memory share.
//! - `heaviest`: a rule that fires for many files names the heaviest.
//! - `sample`: reports for the rules' tests.

use std::cmp::Reverse;

use crate::finding::Finding;
use crate::report::Report;
use crate::value::{Datum, Value};

mod cold_metadata;
mod cold_start;
mod direct_io;
mod dirty_backlog;
mod fault_storm;
mod group_limit;
mod pressure;
mod random_small_reads;
mod readahead_wasted;
mod reread_from_disk;
#[cfg(test)]
pub(crate) mod sample;
mod thrashing;
mod tiny_reads;
mod who_misses;
mod working_set;

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name; its findings carry it.
    pub id: &'static str,
    /// One sentence about what it looks for.
    pub help: &'static str,
    /// Looks at a report.
    pub check: fn(&Report) -> Vec<Finding>,
}

/// Every rule.
pub static RULES: &[Rule] = &[
    Rule {
        id: thrashing::ID,
        help: "Tasks that wait for pages that were taken a moment ago",
        check: thrashing::check,
    },
    Rule {
        id: group_limit::ID,
        help: "Control groups at their memory limit",
        check: group_limit::check,
    },
    Rule {
        id: who_misses::ID,
        help: "Processes whose reads mostly come from the device, on a whole machine",
        check: who_misses::check,
    },
    Rule {
        id: direct_io::ID,
        help: "Reads that go around the page cache (O_DIRECT)",
        check: direct_io::check,
    },
    Rule {
        id: reread_from_disk::ID,
        help: "Files that were brought in more than once in the same run",
        check: reread_from_disk::check,
    },
    Rule {
        id: working_set::ID,
        help: "Files in use that memory reclaim takes out of the page cache",
        check: working_set::check,
    },
    Rule {
        id: random_small_reads::ID,
        help: "Small reads that mostly miss",
        check: random_small_reads::check,
    },
    Rule {
        id: readahead_wasted::ID,
        help: "Read-ahead that brings in what is never read",
        check: readahead_wasted::check,
    },
    Rule {
        id: fault_storm::ID,
        help: "Many page faults on file mappings that miss",
        check: fault_storm::check,
    },
    Rule {
        id: dirty_backlog::ID,
        help: "Writes that come up to the limits of dirty memory",
        check: dirty_backlog::check,
    },
    Rule {
        id: tiny_reads::ID,
        help: "Read requests that are far smaller than a page",
        check: tiny_reads::check,
    },
    Rule {
        id: cold_start::ID,
        help: "A run that found its files not in the page cache",
        check: cold_start::check,
    },
    Rule {
        id: cold_metadata::ID,
        help: "A run that fetched directories and inodes rather than contents of files",
        check: cold_metadata::check,
    },
];

/// Runs every rule; warnings come first, otherwise in the order of [`RULES`].
#[must_use]
pub fn diagnose(report: &Report) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.check)(report)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// How many files a rule names. The table of files has the rest.
const NAMED: usize = 3;

/// Keeps the findings of the greatest weight; the last one says how many files more there are.
fn heaviest(mut found: Vec<(u64, Finding)>) -> Vec<Finding> {
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::counter::Counter;
    use crate::measured::{Measured, Missing};
    use crate::system::System;
    use crate::unit::Unit;

    #[test]
    fn rules_have_names_of_their_own() {
        let ids: HashSet<&str> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), RULES.len(), "no two rules share a name");
        assert_eq!(RULES.len(), 13, "every rule file is in the table");
    }

    #[test]
    fn an_empty_report_is_healthy() {
        assert_eq!(
            diagnose(&sample::report()),
            [],
            "nothing happened, nothing is wrong"
        );
    }

    #[test]
    fn nothing_fires_on_what_is_not_known() {
        let report = sample::every_rule_fires();
        let fired: HashSet<&str> = diagnose(&report).iter().map(|finding| finding.id).collect();
        for rule in RULES {
            assert!(
                fired.contains(rule.id),
                "{} fires on the sample made for it",
                rule.id
            );
        }

        let mut blind = report.clone();
        let mut estimated = report;
        let blindfold = |ledger: &mut crate::Ledger| {
            for counter in Counter::ALL {
                ledger.set_missing(*counter, Missing::NotOffered("no BPF"));
            }
        };
        let guess = |ledger: &mut crate::Ledger| {
            for counter in Counter::ALL {
                ledger.set_estimated(*counter, ledger[*counter], "a guess");
            }
        };
        blindfold(&mut blind.totals);
        guess(&mut estimated.totals);
        blind
            .files
            .iter_mut()
            .for_each(|file| blindfold(&mut file.ledger));
        estimated
            .files
            .iter_mut()
            .for_each(|file| guess(&mut file.ledger));
        let nothing = System::all_missing(Missing::NotOffered("not read"));
        let guessed = |system: &System| {
            let numbers = system.numbers();
            System::from_numbers(numbers.map(|number| match number.exact() {
                Some(number) => Measured::Estimated(number, "a guess"),
                None => number,
            }))
        };
        blind.system = nothing.clone();
        estimated.system = guessed(&estimated.system);
        for group in &mut blind.cgroups {
            group.system = nothing.clone();
        }
        for group in &mut estimated.cgroups {
            group.system = guessed(&group.system);
        }
        for process in &mut blind.processes {
            blindfold(&mut process.ledger);
        }
        for process in &mut estimated.processes {
            guess(&mut process.ledger);
        }
        assert_eq!(diagnose(&blind), [], "missing counters prove nothing");
        assert_eq!(diagnose(&estimated), [], "nor do estimated ones");
    }

    #[test]
    fn figures_are_named_like_fields_and_steps_are_given() {
        for finding in diagnose(&sample::every_rule_fires()) {
            assert!(
                !finding.next_step.is_empty(),
                "{}: there is a next step",
                finding.id
            );
            assert!(
                !finding.figures.is_empty(),
                "{}: there are figures",
                finding.id
            );
            for (name, value) in &finding.figures {
                let Some(datum) = value.as_ref().known() else {
                    continue;
                };
                if let Some(suffix) = datum.unit().suffix() {
                    assert!(
                        name.ends_with(suffix),
                        "{}: `{name}` ends in its unit",
                        finding.id
                    );
                }
                assert_ne!(
                    datum.unit(),
                    Unit::Text,
                    "{}: `{name}` is a number",
                    finding.id
                );
            }
            for command in ["guard", "bench"] {
                assert!(
                    !finding.next_step.contains(&format!("cachewise {command}")),
                    "{}: `cachewise {command}` does not exist yet",
                    finding.id
                );
            }
        }
    }

    #[test]
    fn many_files_are_cut_to_the_heaviest() {
        let mut report = sample::report();
        for place in 1..=5u64 {
            let mut file = sample::file(&format!("/data/{place}"), 1 << 20);
            file.ledger.set(Counter::DirectReadBytes, place << 30);
            report.files.push(file);
        }
        let findings = direct_io::check(&report);
        assert_eq!(findings.len(), NAMED, "a list of hundreds helps nobody");
        assert_eq!(
            findings[0].subject.as_deref(),
            Some(std::path::Path::new("/data/5")),
            "the heaviest comes first"
        );
        assert!(
            findings[2]
                .figures
                .contains(&("further_files", Value::Exact(Datum::Count(2)))),
            "the rest is counted"
        );
    }
}
