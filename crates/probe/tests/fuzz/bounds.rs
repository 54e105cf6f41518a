//! Figures with the range that each must lie in, and the differences from it.

use std::collections::{BTreeMap, BTreeSet};

use cachewise_model::{Counter, Ledger};

/// The counters that are compared, file by file.
pub const COMPARED: [Counter; 27] = [
    Counter::ReadRequests,
    Counter::ReadRequestedPages,
    Counter::ReadRequestedBytes,
    Counter::ReadHitPages,
    Counter::ReadMissedPages,
    Counter::ReadaheadPages,
    Counter::ReadaheadHitPages,
    Counter::ReadUnservedPages,
    Counter::ReadUnservedBytes,
    Counter::ReadFailedRequests,
    Counter::PrefetchPages,
    Counter::FaultRequests,
    Counter::FaultMissPages,
    Counter::FaultReadaheadPages,
    Counter::WriteRequests,
    Counter::WritePages,
    Counter::WriteBytes,
    Counter::WriteNewPages,
    Counter::WriteUnservedBytes,
    Counter::WriteFailedRequests,
    Counter::DirectReadRequests,
    Counter::DirectReadBytes,
    Counter::DirectReadFailedRequests,
    Counter::DirectWriteRequests,
    Counter::DirectWriteBytes,
    Counter::DirectWriteFailedRequests,
    Counter::EvictedOtherPages,
];

/// Smallest and largest figure that is right.
pub type Bounds = (u64, u64);

/// Bounds that are not compared stay so.
const FREE: Bounds = (0, u64::MAX);

/// One figure that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The file, the process, or both.
    pub of: String,
    /// The counter, or the invariant.
    pub what: &'static str,
    /// The smallest and the largest right number.
    pub expected: Bounds,
    /// The probe's number.
    pub counted: u64,
}

impl Difference {
    /// The difference between a figure and its bounds, if there is one.
    pub fn find(of: &str, what: &'static str, expected: Bounds, counted: u64) -> Option<Self> {
        (!(expected.0..=expected.1).contains(&counted)).then(|| Difference {
            of: of.to_owned(),
            what,
            expected,
            counted,
        })
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference {
            of,
            what,
            expected: (low, high),
            counted,
        } = self;
        write!(formatter, "{of}: {what}: expected {low}")?;
        match *high {
            high if high == *low => {}
            u64::MAX => write!(formatter, " or more")?,
            high => write!(formatter, " to {high}")?,
        }
        write!(formatter, ", counted {counted}")
    }
}

/// The figures of a row that are compared, each 0 until something is expected.
#[derive(Debug, Default, Clone)]
pub struct Figures {
    bounds: BTreeMap<Counter, Bounds>,
    /// Those whose mark a documented gap explains.
    marks: BTreeSet<Counter>,
}

impl Figures {
    /// Expects `number` more.
    pub fn add(&mut self, counter: Counter, number: u64) {
        self.between(counter, number, number);
    }

    /// Expects `low` to `high` more.
    pub fn between(&mut self, counter: Counter, low: u64, high: u64) {
        let bounds = self.bounds.entry(counter).or_default();
        if *bounds == FREE {
            return;
        }
        *bounds = (bounds.0 + low, bounds.1.saturating_add(high));
    }

    /// The bounds of the sum of figures; `None`: one of them is not compared.
    pub fn sum_of(&self, counters: &[Counter]) -> Option<Bounds> {
        let bounds = |counter| self.bounds.get(counter).copied().unwrap_or_default();
        counters.iter().map(bounds).try_fold((0, 0), |sum, one| {
            (one != FREE).then_some((sum.0 + one.0, sum.1 + one.1))
        })
    }

    /// Any number.
    pub fn free(&mut self, counters: &[Counter]) {
        for counter in counters {
            self.bounds.insert(*counter, FREE);
        }
    }

    /// Expects marks on figures, which may be right all the same.
    pub fn allow_marks(&mut self, counters: &[Counter]) {
        self.marks.extend(counters);
    }

    /// The wrong figures of a row.
    pub fn compare(
        &self,
        of: &str,
        ledger: &Ledger,
        counters: &[Counter],
        tally: &mut Tally,
    ) -> Vec<Difference> {
        let mut differences = Vec::new();
        let bounds = |counter| self.bounds.get(counter).copied().unwrap_or_default();
        // A row that nothing was done to says nothing about how much is marked.
        let is_used = counters.iter().any(|counter| bounds(counter).1 > 0);
        for counter in counters {
            let expected = bounds(counter);
            // A figure that says that it is inexact, or not known, is no lie.
            let counted = ledger.get(*counter).exact();
            let is_explained = counted.is_none() && self.marks.contains(counter);
            if is_used && expected != FREE && !is_explained {
                tally.count(counter.id(), counted.is_none());
            }
            if let Some(counted) = counted {
                differences.extend(Difference::find(of, counter.id(), expected, counted));
            }
        }
        differences
    }
}

/// Comparisons made and not made, by figure.
#[derive(Debug, Default, Clone)]
pub struct Tally(BTreeMap<&'static str, (u64, u64)>);

impl Tally {
    /// Counts a comparison; `marked`: the figure says that it is inexact, so it was not compared.
    pub fn count(&mut self, what: &'static str, marked: bool) {
        let (all, not_made) = self.0.entry(what).or_default();
        *all += 1;
        *not_made += u64::from(marked);
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Tally) {
        for (what, (all, marked)) in &other.0 {
            let sums = self.0.entry(what).or_default();
            *sums = (sums.0 + all, sums.1 + marked);
        }
    }

    /// Each figure with all its comparisons, and those that were not made.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        self.0
            .iter()
            .map(|(what, (all, marked))| (*what, *all, *marked))
    }

    /// All comparisons.
    pub fn comparisons(&self) -> u64 {
        self.0.values().map(|(all, _)| all).sum()
    }
}
