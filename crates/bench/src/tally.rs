//! [`Tally`]: what a thread counts of its own operations.

use hdrhistogram::Histogram;

use crate::{Latency, Percentiles};

/// Whether an operation found what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// All of it.
    Hit,
    /// Something had to be waited for.
    Miss,
    /// Nobody can tell.
    Unknown,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// What came.
    pub bytes: u64,
    /// What of that was there, as far as that is told.
    pub there: u64,
    pub found: Found,
}

/// The longest that is told apart, in nanoseconds: ten minutes.
const LONGEST: u64 = 600_000_000_000;

/// Digits of a latency that count: within 1 %, and small enough for a CPU's cache.
const DIGITS: u8 = 2;

/// What was counted since it was last taken.
#[derive(Debug)]
pub(crate) struct Tally {
    pub operations: u64,
    pub bytes: u64,
    pub there: u64,
    pub hits: u64,
    pub misses: u64,
    times: Option<Times>,
}

#[derive(Debug)]
struct Times {
    hits: Histogram<u64>,
    misses: Histogram<u64>,
    unknown: Histogram<u64>,
}

/// Bounds that are in order by themselves.
fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, LONGEST, DIGITS) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("the bounds are constants, and in order"),
    }
}

impl Tally {
    pub fn new(is_timed: bool) -> Tally {
        Tally {
            operations: 0,
            bytes: 0,
            there: 0,
            hits: 0,
            misses: 0,
            times: is_timed.then(|| Times {
                hits: histogram(),
                misses: histogram(),
                unknown: histogram(),
            }),
        }
    }

    #[inline]
    pub fn count(&mut self, done: Done) {
        self.operations += 1;
        self.bytes += done.bytes;
        self.there += done.there;
        match done.found {
            Found::Hit => self.hits += 1,
            Found::Miss => self.misses += 1,
            Found::Unknown => {}
        }
    }

    /// Counts the time of an operation, too.
    #[inline]
    pub fn count_timed(&mut self, done: Done, nanoseconds: u64) {
        self.count(done);
        if let Some(times) = &mut self.times {
            let histogram = match done.found {
                Found::Hit => &mut times.hits,
                Found::Miss => &mut times.misses,
                Found::Unknown => &mut times.unknown,
            };
            histogram.saturating_record(nanoseconds);
        }
    }

    /// So many that were taken for hits were none.
    pub fn were_misses(&mut self, count: u64) {
        let count = count.min(self.hits);
        self.hits -= count;
        self.misses += count;
    }

    /// Adds what another has counted, and sets that to nothing.
    pub fn take(&mut self, other: &mut Tally) {
        self.operations += std::mem::take(&mut other.operations);
        self.bytes += std::mem::take(&mut other.bytes);
        self.there += std::mem::take(&mut other.there);
        self.hits += std::mem::take(&mut other.hits);
        self.misses += std::mem::take(&mut other.misses);
        if let (Some(to), Some(from)) = (&mut self.times, &mut other.times) {
            for (to, from) in [
                (&mut to.hits, &mut from.hits),
                (&mut to.misses, &mut from.misses),
                (&mut to.unknown, &mut from.unknown),
            ] {
                // Of the same bounds, so there is room for all.
                let _ = to.add(&*from);
                from.clear();
            }
        }
    }

    /// Sets it to nothing.
    pub fn clear(&mut self) {
        let mut nothing = Tally::new(false);
        nothing.take(self);
        if let Some(times) = &mut self.times {
            times.hits.clear();
            times.misses.clear();
            times.unknown.clear();
        }
    }

    pub fn latency(&self) -> Option<Latency> {
        let times = self.times.as_ref()?;
        let mut all = times.hits.clone();
        let _ = all.add(&times.misses);
        let _ = all.add(&times.unknown);
        Some(Latency {
            all: percentiles(&all),
            hits: percentiles(&times.hits),
            misses: percentiles(&times.misses),
        })
    }
}

fn percentiles(times: &Histogram<u64>) -> Option<Percentiles> {
    if times.is_empty() {
        return None;
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let max = times.max();
    // A histogram gives the upper end of a step, which may lie beyond the longest there was.
    let at = |part: f64| seconds(times.value_at_quantile(part).min(max));
    Some(Percentiles {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: seconds(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_and_misses_have_percentiles_of_their_own() {
        let mut tally = Tally::new(true);
        for nanoseconds in 1..=100 {
            let done = Done {
                bytes: 10,
                there: 10,
                found: Found::Hit,
            };
            tally.count_timed(done, nanoseconds);
            let done = Done {
                there: 0,
                found: Found::Miss,
                ..done
            };
            tally.count_timed(done, nanoseconds * 1000);
        }
        let mut total = Tally::new(true);
        total.take(&mut tally);
        assert_eq!(
            (tally.operations, total.operations),
            (0, 200),
            "taken is gone"
        );
        assert_eq!((total.bytes, total.there), (2000, 1000), "bytes are summed");
        let latency = total.latency().unwrap();
        let (hits, misses) = (latency.hits.unwrap(), latency.misses.unwrap());
        assert_eq!(hits.p50, 50e-9, "half of the hits");
        assert!(
            (hits.p999, hits.max) == (100e-9, 100e-9),
            "no more than the longest: {hits:?}"
        );
        assert!(
            (misses.p90 / 90e-6 - 1.0).abs() < 0.01,
            "within 1 %: {misses:?}"
        );
        assert_eq!(latency.all.unwrap().max, misses.max, "all have them both");
        assert!(
            tally.latency().unwrap().all.is_none(),
            "none are not 0 seconds"
        );
    }

    #[test]
    fn what_was_taken_for_a_hit_can_be_put_right() {
        let mut tally = Tally::new(false);
        tally.count(Done {
            bytes: 1,
            there: 1,
            found: Found::Hit,
        });
        tally.were_misses(5);
        assert_eq!(
            (tally.hits, tally.misses),
            (0, 1),
            "no more than there were"
        );
        assert!(tally.latency().is_none(), "no times were taken");
    }
}
