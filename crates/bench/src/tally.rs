//! [`Tally`]: a thread's counters of its own operations.

use hdrhistogram::Histogram;

use crate::{Latency, Percentiles};

/// Outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All pages were cached.
    Hit,
    /// The operation waited.
    Miss,
    /// Unknown.
    Unknown,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Returned bytes.
    pub bytes: u64,
    /// Cached bytes among them, as far as known.
    pub cached: u64,
    pub outcome: Outcome,
}

/// The maximum latency in the histogram, in nanoseconds: ten minutes.
const LONGEST: u64 = 600_000_000_000;

/// Significant digits of a latency: within 1 %, and small enough for a CPU's cache.
const DIGITS: u8 = 2;

/// Counts since the last reset.
#[derive(Debug)]
pub(crate) struct Tally {
    pub operations: u64,
    pub bytes: u64,
    pub cached: u64,
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

/// The bounds are valid.
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
            cached: 0,
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
        self.cached += done.cached;
        match done.outcome {
            Outcome::Hit => self.hits += 1,
            Outcome::Miss => self.misses += 1,
            Outcome::Unknown => {}
        }
    }

    /// Also counts the latency of an operation.
    #[inline]
    pub fn count_timed(&mut self, done: Done, nanoseconds: u64) {
        self.count(done);
        if let Some(times) = &mut self.times {
            let histogram = match done.outcome {
                Outcome::Hit => &mut times.hits,
                Outcome::Miss => &mut times.misses,
                Outcome::Unknown => &mut times.unknown,
            };
            histogram.saturating_record(nanoseconds);
        }
    }

    /// Turns this many hits into misses.
    pub fn were_misses(&mut self, count: u64) {
        let count = count.min(self.hits);
        self.hits -= count;
        self.misses += count;
    }

    /// Adds another tally, and resets that one.
    pub fn take(&mut self, other: &mut Tally) {
        self.operations += std::mem::take(&mut other.operations);
        self.bytes += std::mem::take(&mut other.bytes);
        self.cached += std::mem::take(&mut other.cached);
        self.hits += std::mem::take(&mut other.hits);
        self.misses += std::mem::take(&mut other.misses);
        if let (Some(to), Some(from)) = (&mut self.times, &mut other.times) {
            for (to, from) in [
                (&mut to.hits, &mut from.hits),
                (&mut to.misses, &mut from.misses),
                (&mut to.unknown, &mut from.unknown),
            ] {
                // Equal bounds, so all values fit.
                let _ = to.add(&*from);
                from.clear();
            }
        }
    }

    /// Resets it.
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
    // A histogram returns the upper end of a bucket, which may exceed the maximum.
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
    fn latency_separates_hits_and_misses() {
        let mut tally = Tally::new(true);
        for nanoseconds in 1..=100 {
            let done = Done {
                bytes: 10,
                cached: 10,
                outcome: Outcome::Hit,
            };
            tally.count_timed(done, nanoseconds);
            let done = Done {
                cached: 0,
                outcome: Outcome::Miss,
                ..done
            };
            tally.count_timed(done, nanoseconds * 1000);
        }
        let mut total = Tally::new(true);
        total.take(&mut tally);
        assert_eq!(
            (tally.operations, total.operations),
            (0, 200),
            "the source is reset"
        );
        assert_eq!(
            (total.bytes, total.cached),
            (2000, 1000),
            "bytes are summed"
        );
        let latency = total.latency().unwrap();
        let (hits, misses) = (latency.hits.unwrap(), latency.misses.unwrap());
        assert_eq!(hits.p50, 50e-9, "half of the hits");
        assert!(
            (hits.p999, hits.max) == (100e-9, 100e-9),
            "at most the maximum: {hits:?}"
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
    fn were_misses_turns_hits_into_misses() {
        let mut tally = Tally::new(false);
        tally.count(Done {
            bytes: 1,
            cached: 1,
            outcome: Outcome::Hit,
        });
        tally.were_misses(5);
        assert_eq!(
            (tally.hits, tally.misses),
            (0, 1),
            "at most the number of hits"
        );
        assert!(tally.latency().is_none(), "no latencies were recorded");
    }
}
