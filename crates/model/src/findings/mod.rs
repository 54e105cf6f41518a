//! The rules: from the numbers of a report to its findings.
//!
//! A rule uses only exact numbers, unless it says otherwise. It ignores small amounts: a finding
//! must be worth reading. A next step names only existing commands.
//!
//! # Layout
//! - [`RULES`], [`diagnose`], [`Diagnosis`]: the table, and its use. [`blind`]: the rules without input.
//! - one module per rule, each with its thresholds and the reasons for them.
//! - `waits`: the rules about waits for other things than pages.
//! - `pressure`: shared parts of the rules about scarce memory.
//! - `named`: names of subjects.
//! - `blame`: the processes that evicted pages of files which others use.
//! - `fold`: one finding for each subject, from the findings of all rules.
//! - `trial`: the line of `cachewise try` for a fix.
//! - `heaviest`: a rule that fires for many files names the heaviest.
//! - `sample`: reports for the rules' tests.

use std::fmt;

use crate::counter::Counter;
use crate::finding::Finding;
use crate::interval::Interval;
use crate::measured::Measured;
use crate::reason::Reason;

mod blame;
mod cached_twice;
mod cold_metadata;
mod cold_start;
mod device_busy;
mod direct_io;
mod dirty_backlog;
mod evicted_by_other;
mod fault_readahead;
mod fault_storm;
mod fold;
mod group_limit;
mod heaviest;
mod named;
mod partial_writes;
mod pressure;
mod random_small_reads;
mod readahead_wasted;
mod reread_from_disk;
#[cfg(test)]
pub(crate) mod sample;
mod thrashing;
mod tiny_reads;
mod trial;
mod unaligned;
mod waits;
mod who_misses;
mod working_set;

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, which its findings have.
    pub id: &'static str,
    /// A sentence about its subject.
    pub help: &'static str,
    /// Counters without which it cannot fire; empty if the kernel's own numbers suffice.
    pub needs: &'static [Counter],
    /// How to verify that the fix helped.
    pub verify: &'static str,
    /// Checks a report.
    pub check: fn(&Interval) -> Vec<Finding>,
}

/// Every rule.
pub static RULES: &[Rule] = &[
    Rule {
        id: thrashing::ID,
        help: "Tasks that wait for pages that were evicted a moment ago",
        needs: &[],
        verify: "cachewise doctor --seconds 30: refault pages and memory stall fall",
        check: thrashing::check,
    },
    Rule {
        id: group_limit::ID,
        help: "Control groups at their memory limit",
        needs: &[],
        verify: "cachewise doctor --seconds 30: refault pages fall, and the limit is reached less often",
        check: group_limit::check,
    },
    Rule {
        id: evicted_by_other::ID,
        help: "Programs that evict pages which others use again",
        needs: &[Counter::ReadMissedPages, Counter::RefaultPages],
        verify: "run it again: refault pages of the file fall",
        check: evicted_by_other::check,
    },
    Rule {
        id: who_misses::ID,
        help: "Processes whose reads mostly come from the device, on a whole machine",
        needs: &[Counter::ReadRequestedPages, Counter::ReadMissedPages],
        verify: "cachewise top: MISSED of the process falls",
        check: who_misses::check,
    },
    Rule {
        id: direct_io::ID,
        help: "Reads that bypass the page cache (O_DIRECT)",
        needs: &[Counter::DirectReadBytes],
        verify: "run it again: direct read falls, and the second run hits",
        check: direct_io::check,
    },
    Rule {
        id: reread_from_disk::ID,
        help: "Files that were fetched more than once in the same run",
        needs: &[Counter::ReadMissedPages],
        verify: "run it again: fetched pages come close to the pages of the file",
        check: reread_from_disk::check,
    },
    Rule {
        id: working_set::ID,
        help: "Files in use whose pages reclaim evicts",
        needs: &[Counter::RefaultPages],
        verify: "run it again: refault pages fall",
        check: working_set::check,
    },
    Rule {
        id: random_small_reads::ID,
        help: "Small reads that mostly miss",
        needs: &[Counter::ReadRequestedPages, Counter::ReadMissedPages],
        verify: "run it again: read missed pages or the time fall",
        check: random_small_reads::check,
    },
    Rule {
        id: readahead_wasted::ID,
        help: "Readahead of pages that are never read",
        needs: &[Counter::ReadaheadPages, Counter::ReadaheadWastedPages],
        verify: "run it again: unused pages fall",
        check: readahead_wasted::check,
    },
    Rule {
        id: fault_readahead::ID,
        help: "Readahead of page faults for pages that are not touched",
        needs: &[
            Counter::FaultRequests,
            Counter::FaultMissPages,
            Counter::FaultReadaheadPages,
        ],
        verify: "run it again: fault readahead pages fall",
        check: fault_readahead::check,
    },
    Rule {
        id: fault_storm::ID,
        help: "Many page faults on file mappings that miss",
        needs: &[Counter::FaultMissPages],
        verify: "run it again: fault miss pages fall",
        check: fault_storm::check,
    },
    Rule {
        id: dirty_backlog::ID,
        help: "Writes that come up to the limits of dirty memory",
        needs: &[Counter::DirtiedPages],
        verify: "run it again: dirty bytes stay below the background limit",
        check: dirty_backlog::check,
    },
    Rule {
        id: tiny_reads::ID,
        help: "Read requests that are far smaller than a page",
        needs: &[Counter::ReadRequestedBytes, Counter::ReadRequests],
        verify: "run it again: read requests fall, read average rises",
        check: tiny_reads::check,
    },
    Rule {
        id: cold_start::ID,
        help: "A run that found its files not in the page cache",
        needs: &[Counter::ReadRequestedPages, Counter::ReadMissedPages],
        verify: "run it again while the files are resident: cold pages fall",
        check: cold_start::check,
    },
    Rule {
        id: cold_metadata::ID,
        help: "A run that fetched directories and inodes rather than contents of files",
        needs: &[Counter::MetadataPages],
        verify: "run it again: metadata pages fall",
        check: cold_metadata::check,
    },
    Rule {
        id: waits::SYNC,
        help: "Writers that wait for the device at each fsync",
        needs: &[Counter::WaitedSync],
        verify: "run it again: waited sync seconds fall",
        check: waits::sync,
    },
    Rule {
        id: waits::THROTTLE,
        help: "Writers that wait because too much memory is dirty",
        needs: &[Counter::WaitedThrottle],
        verify: "run it again: waited throttle seconds fall",
        check: waits::throttle,
    },
    Rule {
        id: waits::RECLAIM,
        help: "Tasks that wait for memory that they reclaim themselves",
        needs: &[Counter::WaitedReclaim],
        verify: "run it again: waited reclaim seconds fall",
        check: waits::reclaim,
    },
    Rule {
        id: device_busy::ID,
        help: "Devices that other programs keep busy while tasks wait for them",
        needs: &[Counter::WaitedDirect, Counter::WaitedMissed],
        verify: "run it again: waited seconds fall",
        check: device_busy::check,
    },
    Rule {
        id: waits::SWAP,
        help: "Tasks that wait for memory that was swapped out",
        needs: &[Counter::WaitedSwap],
        verify: "run it again: waited swap seconds fall",
        check: waits::swap,
    },
    Rule {
        id: partial_writes::ID,
        help: "Writes of parts of pages that are read before they are changed",
        needs: &[
            Counter::WriteNewPages,
            Counter::WritePages,
            Counter::WriteBytes,
        ],
        verify: "run it again: device read bytes fall",
        check: partial_writes::check,
    },
    Rule {
        id: cached_twice::ID,
        help: "Files whose data a process keeps in its own memory beside the page cache",
        needs: &[Counter::ReadRequestedPages],
        verify: "cachewise files FILE: its resident bytes fall",
        check: cached_twice::check,
    },
];

/// The findings of an interval, and the rules that had no input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// The findings.
    pub findings: Vec<Finding>,
    /// Rules without input.
    pub blind: Option<Blind>,
}

impl Diagnosis {
    /// Runs every rule.
    #[must_use]
    pub fn of(interval: &Interval) -> Diagnosis {
        Diagnosis {
            findings: diagnose(interval),
            blind: blind(interval),
        }
    }

    /// Names the subjects again, after labels or names of the interval changed.
    pub fn name_subjects(&mut self, interval: &Interval) {
        named::name(interval, &mut self.findings);
    }
}

/// Runs every rule, and folds the evidence of each subject into one finding. Warnings come first,
/// those with the most fetched bytes before others.
#[must_use]
pub fn diagnose(interval: &Interval) -> Vec<Finding> {
    let mut found = fold::fold(interval, found(interval));
    named::name(interval, &mut found);
    found
}

/// The findings of each rule by itself.
fn found(interval: &Interval) -> Vec<Finding> {
    let of_rule = |rule: &Rule| {
        let found = (rule.check)(interval).into_iter();
        let verify = rule.verify;
        found.map(move |finding| Finding {
            // A finding may have its own.
            verify: match finding.verify.is_empty() {
                true => trial::verify(&finding, verify, interval),
                false => finding.verify.clone(),
            },
            ..finding
        })
    };
    RULES.iter().flat_map(of_rule).collect()
}

/// Rules without input, because their counters are missing: no finding of theirs means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blind {
    /// Their names.
    pub rules: Vec<&'static str>,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (blind, all) = (self.rules.len(), RULES.len());
        write!(f, "{blind} of {all} rules could not look: {}", self.reason)
    }
}

/// The rules without input in this report, if any.
#[must_use]
pub fn blind(interval: &Interval) -> Option<Blind> {
    let why = |counter: &Counter| match interval.ledger.get(*counter) {
        Measured::Exact(_) => None,
        Measured::Estimated(..) => Some(Reason::OnlyEstimated),
        Measured::Missing(missing) => Some(missing.reason()),
    };
    let mut blind = RULES
        .iter()
        .filter_map(|rule| Some((rule.id, rule.needs.iter().find_map(why)?)));
    let (first, reason) = blind.next()?;
    let rules = std::iter::once(first).chain(blind.map(|(id, _)| id));
    Some(Blind {
        rules: rules.collect(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::heaviest::NAMED;
    use super::*;
    use crate::ledger::Ledger;
    use crate::measured::Missing;
    use crate::system::System;
    use crate::unit::Unit;
    use crate::value::{Datum, Value};

    #[test]
    fn rule_names_are_unique() {
        let ids: HashSet<&str> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), RULES.len(), "no two rules share a name");
        assert_eq!(RULES.len(), 22, "every rule file is in the table");
    }

    #[test]
    fn empty_report_has_no_findings() {
        assert_eq!(
            diagnose(&sample::run()),
            [],
            "nothing happened, nothing is wrong"
        );
    }

    #[test]
    fn rules_fire_for_every_page_size() {
        for size in [4 << 10, 16 << 10, 64 << 10] {
            let size = cachewise_units::PageSize::new(size).expect("a power of two");
            let mut interval = sample::every_rule_fires();
            sample::set_page_size(&mut interval, size);
            let fired = diagnose(&interval);
            assert!(!fired.is_empty(), "{size}: the same run is no healthier");
            let mut healthy = sample::run();
            sample::set_page_size(&mut healthy, size);
            assert_eq!(
                diagnose(&healthy),
                [],
                "{size}: and a healthy one no sicker"
            );
        }
    }

    #[test]
    fn rules_ignore_missing_and_estimated_counters() {
        let interval = sample::every_rule_fires();
        let fired: HashSet<&str> = diagnose(&interval)
            .iter()
            .flat_map(Finding::rules)
            .collect();
        for rule in RULES {
            assert!(
                fired.contains(rule.id),
                "{} fires on the sample made for it",
                rule.id
            );
        }

        let mut blind = interval.clone();
        let mut estimated = interval;
        let blindfold = |ledger: &mut crate::Ledger| {
            for counter in Counter::ALL {
                ledger.set_missing(*counter, Missing::NotOffered(Reason::NeedsProbe));
            }
        };
        let guess = |ledger: &mut crate::Ledger| {
            for counter in Counter::ALL {
                ledger.set_estimated(*counter, ledger[*counter], Reason::ByVmstat);
            }
        };
        blindfold(&mut blind.ledger);
        guess(&mut estimated.ledger);
        blind
            .files
            .iter_mut()
            .for_each(|file| blindfold(&mut file.ledger));
        estimated
            .files
            .iter_mut()
            .for_each(|file| guess(&mut file.ledger));
        let nothing = System::all_missing(Missing::NotOffered(Reason::NotMeasured));
        let guessed = |system: &System| {
            let numbers = system.numbers();
            System::from_numbers(numbers.map(|number| match number.exact() {
                Some(number) => Measured::Estimated(number, Reason::ByVmstat),
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
        for device in &mut blind.devices {
            blindfold(&mut device.ledger);
        }
        for process in &mut estimated.processes {
            guess(&mut process.ledger);
        }
        for device in &mut estimated.devices {
            guess(&mut device.ledger);
        }
        assert_eq!(diagnose(&blind), [], "missing counters prove nothing");
        assert_eq!(diagnose(&estimated), [], "nor do estimated ones");
    }

    #[test]
    fn blind_lists_rules_without_their_counters() {
        let whole = sample::every_rule_fires();
        assert_eq!(blind(&whole), None, "everything was counted exactly");
        let without = |counters: &[Counter]| {
            let mut interval = whole.clone();
            let missing = |ledger: &mut Ledger| {
                for counter in counters {
                    ledger.set_missing(*counter, Missing::NotOffered(Reason::NeedsProbe));
                }
            };
            missing(&mut interval.ledger);
            interval
                .files
                .iter_mut()
                .for_each(|row| missing(&mut row.ledger));
            interval
                .processes
                .iter_mut()
                .for_each(|row| missing(&mut row.ledger));
            interval
                .devices
                .iter_mut()
                .for_each(|row| missing(&mut row.ledger));
            interval
        };
        for rule in RULES {
            for counter in rule.needs {
                let interval = without(&[*counter]);
                assert_eq!(
                    (rule.check)(&interval),
                    [],
                    "{} finds nothing without {}",
                    rule.id,
                    counter.id()
                );
                let blind = blind(&interval).expect("and that is said");
                assert!(blind.rules.contains(&rule.id), "{}: {blind}", rule.id);
            }
        }
        let interval = without(Counter::ALL);
        let blind = blind(&interval).expect("most rules need counters");
        assert_eq!(
            blind.to_string(),
            "20 of 22 rules could not look: only the probe can count it",
            "one sentence for people"
        );
        for rule in RULES {
            assert_eq!(
                (rule.check)(&interval).is_empty(),
                blind.rules.contains(&rule.id),
                "{} looks, or is said not to",
                rule.id
            );
        }
    }

    #[test]
    fn figures_are_named_like_fields_and_steps_are_set() {
        for finding in found(&sample::every_rule_fires()) {
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
    fn heaviest_files_are_named_and_the_rest_counted() {
        let mut interval = sample::run();
        for place in 1..=5u64 {
            let mut file = sample::file(&format!("/data/{place}"), 1 << 20);
            file.ledger.set(Counter::DirectReadBytes, place << 30);
            interval.files.push(file);
        }
        let findings = direct_io::check(&interval);
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
