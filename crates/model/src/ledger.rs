//! Counters of requests to the page cache, in one row, and values derived from them.
//!
//! A ledger belongs to whatever it was summed over: a process on a file, a file, a process, a
//! control group, the machine. The laws hold for each of them:
//! `hits + misses + unserved = requested pages`, `reuse + readahead hits = hits`, and the pages inserted are
//! the sum of the classes that insert pages.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Index};

use crate::counter::Counter;
use crate::measured::{Count, Measured, Missing};
use crate::reason::Reason;
use crate::value::{Datum, Value};

/// The quality of one counter, where it is not exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Estimated(Reason),
    Missing(Missing),
}

impl Mark {
    /// The worse of two: missing beats estimated, and the first reason stays.
    fn worse(self, other: Mark) -> Mark {
        match (self, other) {
            (Mark::Estimated(_), Mark::Missing(_)) => other,
            _ => self,
        }
    }
}

/// The kernel reads a program's head for execve(2) and the like: the event names the page, and nothing
/// says how much of it was wanted.
const BYTES_NOT_TOLD: Missing = Missing::Unknown(Reason::BytesNotReported);

/// The counters of one thing, each with its quality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    counts: [u64; Counter::COUNT],
    /// Only counters that are not exact, in counter order: a ledger from the probe, of which there
    /// are thousands, carries an empty list.
    marks: Vec<(Counter, Mark)>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::from_counts([0; Counter::COUNT])
    }
}

impl Ledger {
    /// A ledger of exact counts, in the order of [`Counter::ALL`].
    #[must_use]
    pub const fn from_counts(counts: [u64; Counter::COUNT]) -> Self {
        Ledger {
            counts,
            marks: Vec::new(),
        }
    }

    /// A ledger that knows nothing yet: every counter missing for one reason, until it is set.
    #[must_use]
    pub fn all_missing(missing: Missing) -> Self {
        let marks = Counter::ALL.iter();
        Ledger {
            // In counter order, as the table has them.
            marks: marks
                .map(|counter| (*counter, Mark::Missing(missing)))
                .collect(),
            ..Ledger::default()
        }
    }

    /// The bare numbers; a missing counter reads as whatever was last counted.
    #[must_use]
    pub const fn counts(&self) -> &[u64; Counter::COUNT] {
        &self.counts
    }

    /// One counter with its quality.
    ///
    /// No read call touches pages without asking for bytes: pages with no bytes at all were read by
    /// the kernel for itself, and their bytes are unknown. In a sum the bytes are those of the calls.
    #[must_use]
    pub fn get(&self, counter: Counter) -> Count {
        match self.booked(counter) {
            Measured::Exact(0)
                if counter == Counter::ReadRequestedBytes
                    && self.counts[Counter::ReadRequestedPages.index()] > 0 =>
            {
                Measured::Missing(BYTES_NOT_TOLD)
            }
            booked => booked,
        }
    }

    /// Whether every counter is exact.
    pub(crate) fn has_no_marks(&self) -> bool {
        self.marks.is_empty()
    }

    /// One counter as it was put in, without what follows from the others: what a recording keeps, so that
    /// ledgers read back add up as these do.
    #[must_use]
    pub fn booked(&self, counter: Counter) -> Count {
        let number = self.counts[counter.index()];
        match self.mark(counter) {
            None => Measured::Exact(number),
            Some(Mark::Estimated(how)) => Measured::Estimated(number, how),
            Some(Mark::Missing(missing)) => Measured::Missing(missing),
        }
    }

    /// Puts a counter in as [`Ledger::booked`] gave it.
    pub fn book(&mut self, counter: Counter, count: Count) {
        match count {
            Measured::Exact(number) => self.set(counter, number),
            Measured::Estimated(number, how) => self.set_estimated(counter, number, how),
            Measured::Missing(missing) => {
                self.set(counter, 0);
                self.set_missing(counter, missing);
            }
        }
    }

    /// One counter as a value in its own unit.
    #[must_use]
    pub fn value(&self, counter: Counter) -> Value {
        self.get(counter)
            .map(|number| Datum::of(counter.unit(), number))
    }

    /// Puts an exact number in, whatever was there.
    pub fn set(&mut self, counter: Counter, number: u64) {
        self.counts[counter.index()] = number;
        self.marks.retain(|(marked, _)| *marked != counter);
    }

    /// Puts an estimate in, with how it came about.
    pub fn set_estimated(&mut self, counter: Counter, number: u64, how: Reason) {
        self.set(counter, number);
        self.worsen(counter, Mark::Estimated(how));
    }

    /// Says that a counter is not there, and why; a reason that it already has stays.
    pub fn set_missing(&mut self, counter: Counter, missing: Missing) {
        self.worsen(counter, Mark::Missing(missing));
    }

    /// Whether a counter is known at all, exactly or estimated.
    #[must_use]
    pub fn is_offered(&self, counter: Counter) -> bool {
        self.booked(counter).missing().is_none()
    }

    /// Why no counter is exact, if so and if one is missing.
    #[must_use]
    pub fn all_unknown(&self) -> Option<Missing> {
        let mut reason = None;
        for counter in Counter::ALL {
            match self.get(*counter) {
                Measured::Exact(_) => return None,
                Measured::Missing(missing) => reason = reason.or(Some(missing)),
                Measured::Estimated(..) => {}
            }
        }
        reason
    }

    /// Whether every counter is exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.marks.is_empty()
    }

    /// Whether nothing was counted and nothing is unknown or estimated; counters that are not offered do not
    /// count against it.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
            && self
                .marks
                .iter()
                .all(|(_, mark)| matches!(mark, Mark::Missing(Missing::NotOffered(_))))
    }

    /// The difference to `earlier`; a counter that went backwards gives 0.
    #[must_use]
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        self.merge(earlier, u64::saturating_sub)
    }

    fn mark(&self, counter: Counter) -> Option<Mark> {
        let place = self
            .marks
            .binary_search_by_key(&counter, |(marked, _)| *marked)
            .ok()?;
        Some(self.marks[place].1)
    }

    fn worsen(&mut self, counter: Counter, mark: Mark) {
        match self
            .marks
            .binary_search_by_key(&counter, |(marked, _)| *marked)
        {
            Ok(place) => self.marks[place].1 = self.marks[place].1.worse(mark),
            Err(place) => self.marks.insert(place, (counter, mark)),
        }
    }

    fn merge(&self, other: &Ledger, calculate: fn(u64, u64) -> u64) -> Ledger {
        let mut merged = self.clone();
        for (mine, theirs) in merged.counts.iter_mut().zip(other.counts) {
            *mine = calculate(*mine, theirs);
        }
        for (counter, mark) in &other.marks {
            merged.worsen(*counter, *mark);
        }
        merged
    }
}

impl Index<Counter> for Ledger {
    type Output = u64;

    /// The bare number. For anything that is shown use [`Ledger::get`], which says if it is missing.
    fn index(&self, counter: Counter) -> &u64 {
        &self.counts[counter.index()]
    }
}

impl AddAssign<&Ledger> for Ledger {
    fn add_assign(&mut self, other: &Ledger) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(theirs);
        }
        for (counter, mark) in &other.marks {
            self.worsen(*counter, *mark);
        }
    }
}

impl AddAssign for Ledger {
    fn add_assign(&mut self, other: Ledger) {
        *self += &other;
    }
}

impl Add for Ledger {
    type Output = Ledger;

    fn add(mut self, other: Ledger) -> Ledger {
        self += &other;
        self
    }
}

impl<'a> Add<&'a Ledger> for &Ledger {
    type Output = Ledger;

    fn add(self, other: &'a Ledger) -> Ledger {
        self.merge(other, u64::saturating_add)
    }
}

impl Sum for Ledger {
    fn sum<I: Iterator<Item = Ledger>>(ledgers: I) -> Ledger {
        ledgers.fold(Ledger::default(), Add::add)
    }
}

impl<'a> Sum<&'a Ledger> for Ledger {
    fn sum<I: Iterator<Item = &'a Ledger>>(ledgers: I) -> Ledger {
        ledgers.fold(Ledger::default(), |mut sum, ledger| {
            sum += ledger;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each counter holds its own index + 1, so that a swapped pair shows.
    fn numbered() -> Ledger {
        Ledger::from_counts(std::array::from_fn(|place| place as u64 + 1))
    }

    #[test]
    fn sums_and_differences() {
        let sum: Ledger = [numbered(), numbered()].iter().sum();
        assert_eq!(sum[Counter::ReadRequests], 2, "sums go counter by counter");
        assert_eq!(
            sum.since(&numbered()),
            numbered(),
            "taking one away leaves the other"
        );
        assert!(
            numbered().since(&sum).is_zero(),
            "a counter that went backwards gives zero"
        );
    }

    #[test]
    fn missing_dominates_sums_and_derived_values() {
        let mut blind = numbered();
        blind.set_missing(
            Counter::ReadMissedPages,
            Missing::NotOffered(Reason::NeedsProbe),
        );
        let sum = &numbered() + &blind;
        assert_eq!(
            sum.get(Counter::ReadMissedPages),
            Measured::not_offered(Reason::NeedsProbe),
            "a sum with a missing part is missing"
        );
        assert_eq!(
            sum.fetched_bytes(None),
            Measured::not_offered(Reason::NeedsProbe),
            "fetched bytes need the misses"
        );
        assert_eq!(
            sum.get(Counter::ReadRequestedPages),
            Measured::Exact(4),
            "other counters stay exact"
        );
        assert_eq!(
            numbered().since(&blind).inserted_pages(),
            Measured::not_offered(Reason::NeedsProbe),
            "the reason travels through differences too"
        );
    }

    #[test]
    fn bytes_that_nobody_told_are_not_zero_bytes() {
        let mut loaded = Ledger::default();
        assert_eq!(
            loaded.get(Counter::ReadRequestedBytes),
            Measured::Exact(0),
            "nothing was read, which is 0 bytes"
        );
        loaded.set(Counter::ReadRequests, 2);
        loaded.set(Counter::ReadRequestedPages, 2);
        assert_eq!(
            loaded.get(Counter::ReadRequestedBytes),
            Measured::Missing(BYTES_NOT_TOLD),
            "two pages were, and nobody knows how much of them"
        );
        assert!(
            loaded.average_read().missing().is_some(),
            "so the average is not 0 bytes either"
        );
        let mut read = Ledger::default();
        read.set(Counter::ReadRequestedPages, 1);
        read.set(Counter::ReadRequestedBytes, 832);
        assert_eq!(
            (&loaded + &read).get(Counter::ReadRequestedBytes),
            Measured::Exact(832),
            "a sum has what was asked for by calls, as the counter says"
        );
        loaded.set_estimated(Counter::ReadRequestedBytes, 0, Reason::OwnReadCalls);
        assert_eq!(
            loaded.get(Counter::ReadRequestedBytes),
            Measured::Estimated(0, Reason::OwnReadCalls),
            "another source is taken at its word"
        );
    }

    #[test]
    fn what_is_kept_of_a_ledger_adds_up_as_it_did() {
        let mut ledger = numbered();
        ledger.set(Counter::ReadRequestedBytes, 0);
        ledger.set_estimated(Counter::DirtiedPages, 5, Reason::ByVmstat);
        ledger.set(Counter::OtherPages, 0);
        ledger.set_missing(Counter::OtherPages, Missing::Unknown(Reason::LostEvents));
        let mut back = Ledger::default();
        for counter in Counter::ALL {
            back.book(*counter, ledger.booked(*counter));
        }
        assert_eq!(back, ledger, "there and back");
        assert_eq!(
            (&back + &numbered())
                .get(Counter::ReadRequestedBytes)
                .exact(),
            Some(numbered()[Counter::ReadRequestedBytes]),
            "bytes that nobody told do not hide those that were"
        );
    }

    #[test]
    fn a_fallback_fills_in_what_it_has() {
        let mut ledger = Ledger::all_missing(Missing::NotOffered(Reason::NeedsProbe));
        ledger.set_estimated(Counter::ReadRequestedBytes, 4096, Reason::OwnReadCalls);
        ledger.set(Counter::ReadRequests, 1);
        assert_eq!(
            ledger.get(Counter::ReadRequestedBytes),
            Measured::Estimated(4096, Reason::OwnReadCalls),
            "an estimate replaces the missing mark"
        );
        assert_eq!(
            ledger.get(Counter::ReadRequests),
            Measured::Exact(1),
            "an exact one too"
        );
        assert_eq!(
            ledger.inserted_pages(),
            Measured::not_offered(Reason::NeedsProbe),
            "what was not filled in stays missing"
        );
        assert!(
            !ledger.is_zero(),
            "a ledger that does not know is not an empty one"
        );
    }
}
