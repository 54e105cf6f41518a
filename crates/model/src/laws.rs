//! The laws that the numbers of a report obey, checked on the numbers themselves.
//!
//! They are printed with every report: a tool that counts exactly can show that it adds up, and one
//! whose sums are off should be the first to say so.

use crate::counter::Counter;
use crate::exactness::Exactness;
use crate::interval::Interval;
use crate::law::{Law, Verdict};
use crate::ledger::Ledger;
use crate::lost::Lost;
use crate::measured::{Count, Measured};
use crate::reason::Reason;

/// The counters of a row that have to agree with each other.
const OF_READS: [Counter; 5] = [
    Counter::ReadRequestedPages,
    Counter::ReadHitPages,
    Counter::ReadMissedPages,
    Counter::ReadUnservedPages,
    Counter::ReadaheadHitPages,
];

/// Whether a row contradicts itself: requested pages are counted from system calls, hits and misses from the
/// page cache's events, and unserved pages from results. Requested pages are the sum of the other three, and
/// readahead hits are a part of the hits. A row of which one is not offered contradicts nothing.
#[must_use]
pub fn contradicts_itself(ledger: &Ledger) -> bool {
    if !OF_READS.iter().all(|counter| ledger.is_offered(*counter)) {
        return false;
    }
    let hits = ledger[Counter::ReadHitPages];
    let sum = hits
        .saturating_add(ledger[Counter::ReadMissedPages])
        .saturating_add(ledger[Counter::ReadUnservedPages]);
    sum != ledger[Counter::ReadRequestedPages] || ledger[Counter::ReadaheadHitPages] > hits
}

/// Marks the read counters of a row that contradicts itself as estimates; returns whether it does.
pub fn mark_contradiction(ledger: &mut Ledger) -> bool {
    let found = contradicts_itself(ledger);
    if found {
        for counter in OF_READS {
            ledger.set_estimated(counter, ledger[counter], Reason::RequestsContradict);
        }
    }
    found
}

/// The laws of a report, in the order in which they are printed: those of its sums, then those of its rows.
#[must_use]
pub fn laws(interval: &Interval) -> Vec<Law> {
    let totals = &interval.ledger;
    let misses = totals.get(Counter::ReadMissedPages);
    let asked = totals.get(Counter::ReadRequestedPages);
    let first_uses = totals.get(Counter::ReadaheadHitPages);
    let mut parts = vec![("hits", totals.hits()), ("misses", misses)];
    let unserved = totals.get(Counter::ReadUnservedPages);
    if unserved != Measured::Exact(0) {
        parts.push(("unserved", unserved));
    }
    let mut laws = vec![
        Law::of_totals("hits_and_misses", parts, ("requested pages", asked)),
        Law::of_totals(
            "reuse_and_readahead",
            vec![
                ("from cache", totals.read_cached_pages()),
                ("read ahead", first_uses),
            ],
            ("hits", totals.hits()),
        ),
    ];
    let rows = interval.files.iter().map(|file| &file.ledger);
    let rows: Vec<&Ledger> = rows
        .chain(interval.processes.iter().map(|process| &process.ledger))
        .chain(interval.cgroups.iter().map(|group| &group.ledger))
        .collect();
    let sound = rows.iter().filter(|row| !contradicts_itself(row)).count();
    // Said only where it is broken: of rows that all add up there is nothing to see.
    if sound < rows.len() {
        laws.push(Law::of_totals(
            "rows",
            vec![(
                "rows without a contradiction",
                Measured::Exact(sound as u64),
            )],
            ("rows", Measured::Exact(rows.len() as u64)),
        ));
    }
    if !interval.files.is_empty() {
        let sum = interval.files.iter().map(|file| &file.ledger).sum();
        laws.push(sum_law("files", "in all files", &sum, asked));
    }
    if !interval.processes.is_empty() {
        let sum = interval
            .processes
            .iter()
            .map(|process| &process.ledger)
            .sum();
        laws.push(sum_law("processes", "in all processes", &sum, asked));
    }
    laws.extend(interval.run().row_laws.iter().cloned());
    laws
}

impl Interval {
    /// Exactness of its numbers: never exact where a law does not hold.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        let exactness = Exactness::new(self.source.backend.exact, &self.lost);
        let is_broken = |law: &Law| law.verdict() == Verdict::Broken;
        match exactness {
            Exactness::Exact if laws(self).iter().any(is_broken) => Exactness::Contradicted,
            exactness => exactness,
        }
    }

    /// Marks the rows of the interval that contradict themselves, and its sum; counts the files, processes and groups
    /// among them as `contradictions`.
    pub fn mark_contradictions(&mut self) {
        let files = self.files.iter_mut().map(|row| &mut row.ledger);
        let processes = self.processes.iter_mut().map(|row| &mut row.ledger);
        let groups = self.cgroups.iter_mut().map(|row| &mut row.ledger);
        let rows = files.chain(processes).chain(groups);
        let marked = rows
            .map(mark_contradiction)
            .filter(|is_marked| *is_marked)
            .count();
        for used in &mut self.uses {
            mark_contradiction(&mut used.ledger);
        }
        for device in &mut self.devices {
            mark_contradiction(&mut device.ledger);
        }
        let is_sum_marked = mark_contradiction(&mut self.ledger);
        let number = (marked as u64).max(is_sum_marked.into());
        if number > 0 {
            Lost::add(&mut self.lost, &[Lost::new("contradictions", number)]);
        }
    }
}

fn sum_law(id: &'static str, name: &'static str, sum: &Ledger, asked: Count) -> Law {
    let sum = sum.get(Counter::ReadRequestedPages);
    Law::of_totals(id, vec![(name, sum)], ("requested pages", asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;
    use crate::measured::Missing;

    fn verdict(interval: &Interval, id: &str) -> Verdict {
        laws(interval)
            .iter()
            .find(|law| law.id == id)
            .unwrap()
            .verdict()
    }

    #[test]
    fn a_cold_read_obeys_all_laws() {
        let mut interval = sample::run();
        let mut file = sample::file("/data", 512 << 20);
        file.ledger.set(Counter::ReadRequestedPages, 131_072);
        file.ledger.set(Counter::ReadMissedPages, 512);
        file.ledger.set(Counter::ReadHitPages, 130_560);
        file.ledger.set(Counter::ReadaheadHitPages, 130_560);
        interval.ledger = file.ledger.clone();
        interval.files.push(file);
        assert_eq!(laws(&interval).len(), 3, "no processes, no law about them");
        for law in laws(&interval) {
            assert_eq!(law.verdict(), Verdict::Holds, "{} holds", law.id);
        }
    }

    #[test]
    fn more_misses_than_pages_show() {
        let mut interval = sample::run();
        interval.ledger.set(Counter::ReadRequestedPages, 1);
        interval.ledger.set(Counter::ReadMissedPages, 2);
        assert_eq!(
            verdict(&interval, "hits_and_misses"),
            Verdict::Broken,
            "a subtraction that stops at zero must not hide the fault"
        );
    }

    #[test]
    fn unserved_pages_are_a_part_of_the_requested_ones() {
        let mut interval = sample::run();
        interval.ledger.set(Counter::ReadRequestedPages, 64);
        interval.ledger.set(Counter::ReadHitPages, 30);
        interval.ledger.set(Counter::ReadMissedPages, 2);
        assert_eq!(verdict(&interval, "hits_and_misses"), Verdict::Broken);
        assert!(contradicts_itself(&interval.ledger));
        interval.ledger.set(Counter::ReadUnservedPages, 32);
        assert_eq!(verdict(&interval, "hits_and_misses"), Verdict::Holds);
        assert!(!contradicts_itself(&interval.ledger));
    }

    #[test]
    fn a_wrong_count_of_either_side_marks_its_row_and_no_other() {
        let right = || {
            let mut file = sample::file("/right", 4096 * 9);
            file.ledger.set(Counter::ReadRequestedPages, 9);
            file.ledger.set(Counter::ReadHitPages, 5);
            file.ledger.set(Counter::ReadMissedPages, 3);
            file.ledger.set(Counter::ReadUnservedPages, 1);
            file.ledger.set(Counter::ReadaheadHitPages, 2);
            file
        };
        assert!(!contradicts_itself(&right().ledger));
        for counter in OF_READS {
            for wrong in [right().ledger[counter] + 7, 0] {
                let mut file = right();
                file.ledger.set(counter, wrong);
                if counter == Counter::ReadaheadHitPages && wrong == 0 {
                    continue; // none of the hits is a first read
                }
                let mut interval = sample::run();
                interval.files = vec![file, right()];
                interval.ledger = interval.files.iter().map(|file| &file.ledger).sum();
                assert_eq!(
                    verdict(&interval, "rows"),
                    Verdict::Broken,
                    "{}",
                    counter.id()
                );
                assert!(mark_contradiction(&mut interval.files[0].ledger));
                assert!(!mark_contradiction(&mut interval.files[1].ledger));
                assert_eq!(
                    interval.files[0].ledger.get(counter),
                    Measured::Estimated(wrong, Reason::RequestsContradict),
                    "the number stays, with its mark"
                );
                assert_eq!(verdict(&interval, "rows"), Verdict::Broken, "marked or not");
            }
        }
    }

    fn empty() -> Interval {
        Interval::new(std::sync::Arc::default(), "t".into())
    }

    #[test]
    fn a_wrong_row_of_an_interval_is_marked_and_counted() {
        let mut wrong = sample::file("/wrong", 4096 * 9);
        wrong.ledger.set(Counter::ReadRequestedPages, 9);
        wrong.ledger.set(Counter::ReadHitPages, 8);
        let mut right = sample::file("/right", 4096);
        right.ledger.set(Counter::ReadRequestedPages, 1);
        right.ledger.set(Counter::ReadMissedPages, 1);
        let mut interval = Interval {
            ledger: [&wrong.ledger, &right.ledger].into_iter().sum(),
            files: vec![wrong, right],
            ..empty()
        };
        interval.mark_contradictions();
        let marks: Vec<_> = interval
            .files
            .iter()
            .map(|row| row.ledger.is_exact())
            .collect();
        assert_eq!(marks, [false, true]);
        assert!(
            !interval.ledger.is_exact(),
            "the sum has the wrong row in it"
        );
        assert_eq!(interval.lost, [Lost::new("contradictions", 1)]);
        let mut sum = empty();
        sum.ledger.set(Counter::ReadHitPages, 1);
        sum.mark_contradictions();
        assert_eq!(sum.lost.len(), 1, "a sum without rows too");
        interval.files.remove(0);
        interval.ledger = interval.files[0].ledger.clone();
        interval.lost.clear();
        interval.mark_contradictions();
        assert_eq!(interval.lost, [], "nothing is wrong");
    }

    #[test]
    fn rows_whose_errors_cancel_out_in_the_sum_are_found() {
        let mut interval = sample::run();
        let mut wrong = sample::file("/wrong", 4096);
        wrong.ledger.set(Counter::ReadRequestedPages, 1);
        wrong.ledger.set(Counter::ReadMissedPages, 4);
        let mut other = sample::file("/other", 4096 * 9);
        other.ledger.set(Counter::ReadRequestedPages, 9);
        other.ledger.set(Counter::ReadHitPages, 6);
        interval.ledger = [&wrong.ledger, &other.ledger].into_iter().sum();
        interval.files = vec![wrong, other];
        assert_eq!(verdict(&interval, "hits_and_misses"), Verdict::Holds);
        assert_eq!(verdict(&interval, "rows"), Verdict::Broken);
    }

    #[test]
    fn a_lost_row_shows() {
        let mut interval = sample::run();
        interval.ledger.set(Counter::ReadRequestedPages, 5);
        interval.files.push(sample::file("/data", 4096));
        assert_eq!(
            verdict(&interval, "files"),
            Verdict::Broken,
            "5 pages are not in any file"
        );
    }

    #[test]
    fn what_is_not_exact_is_not_proven() {
        let mut interval = sample::run();
        interval.ledger.set_missing(
            Counter::ReadMissedPages,
            Missing::NotOffered(Reason::NeedsProbe),
        );
        assert_eq!(
            verdict(&interval, "hits_and_misses"),
            Verdict::Unknown(Reason::NeedsProbe),
            "neither true nor false without the misses"
        );
        interval
            .ledger
            .set_estimated(Counter::ReadMissedPages, 0, Reason::ByVmstat);
        assert_eq!(
            verdict(&interval, "hits_and_misses"),
            Verdict::Unknown(Reason::ByVmstat),
            "an estimate proves nothing either"
        );
    }
}
