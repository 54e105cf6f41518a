//! [`HedgeTime`]: when a second node is asked, and when all are given up; [`Budget`]: how often.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::Settings;

/// For how long answers are gathered before their 99th percentile is taken, at least.
const WINDOW: Duration = Duration::from_secs(1);

/// How many answers there must be for that.
const ENOUGH: u64 = 200;

/// Longest time after a late answer in which nodes count as busy.
const LONGEST_LATE: Duration = Duration::from_secs(3);

/// When a second node is asked: at the live 99th percentile of the first bytes of all nodes,
/// between two bounds.
///
/// Answers that never came are not in it: a node that hangs must not make the others' hedges late.
#[derive(Debug)]
pub(super) struct HedgeTime {
    least: Duration,
    most: Duration,
    deadline: Duration,
    whole: Duration,
    window: Mutex<Window>,
    /// The percentile in microseconds; 0 is not known yet.
    p99: AtomicU64,
    /// The longest recent answer beyond the deadline, and until when it counts as recent.
    late: Mutex<Option<(Instant, Duration)>>,
}

#[derive(Debug)]
struct Window {
    histogram: Histogram<u64>,
    since: Instant,
}

impl HedgeTime {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            least: settings.hedge_min,
            most: settings.hedge,
            deadline: settings.deadline,
            whole: settings.whole,
            window: Mutex::new(Window {
                histogram: Histogram::new_with_bounds(1, 60_000_000, 2)
                    .or_else(|_| Histogram::new(2))
                    .unwrap_or_else(|_| unreachable!("two digits are allowed")),
                since: Instant::now(),
            }),
            p99: AtomicU64::new(0),
            late: Mutex::default(),
        }
    }

    /// Returns how long to wait for the first node; `None` is: for as long as it takes.
    pub(super) fn get(&self) -> Option<Duration> {
        let after = self.p99().map_or(self.most, |p99| {
            p99.clamp(self.least.min(self.most), self.most)
        });
        (!self.most.is_zero()).then_some(after)
    }

    /// Returns how long to wait for a first byte at all. Where the answers of all nodes take long,
    /// as this machine or all of theirs are busy, that is longer: what is given up would go to the
    /// origin, and bring it down with them. One node that hangs does not make it longer.
    pub(super) fn deadline(&self) -> Duration {
        let twice = self.p99().unwrap_or_default().saturating_mul(2);
        twice.clamp(self.deadline, self.whole.max(self.deadline))
    }

    /// Returns the time of the longest answer that came recently, if that is longer than the deadline: then nodes are busy,
    /// as when many clients start at once. A node that hangs gives none. Only the first answer of a node, those about a
    /// missing block, and those whose bytes keep coming are waited for that long.
    pub(super) fn busy(&self) -> Option<Duration> {
        let late = *self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.filter(|(until, _)| Instant::now() < *until)
            .map(|(_, took)| took)
    }

    fn p99(&self) -> Option<Duration> {
        let p99 = self.p99.load(Ordering::Relaxed);
        (p99 > 0).then(|| Duration::from_micros(p99))
    }

    /// Notes the first and the last byte of an answer that was waited for beyond the deadline, as times after `begun`.
    pub(super) fn record_patient(&self, begun: Instant, first: Duration, last: Duration) {
        if first > self.deadline() {
            self.record_late(begun, first, last);
        }
        self.record(first, begun + first);
    }

    /// Notes that an answer came after `took`, and its last byte so far after `last`.
    pub(super) fn record_late(&self, begun: Instant, took: Duration, last: Duration) {
        let end = begun + last;
        // Answers that take seconds come seconds apart.
        let until = end + last.saturating_mul(2).clamp(WINDOW, LONGEST_LATE);
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = late.filter(|(until, _)| end < *until);
        *late = Some(match recent {
            Some((before, longest)) => (until.max(before), longest.max(took)),
            None => (until, took),
        });
    }

    /// Notes how long the first byte of an answer took.
    pub(super) fn record(&self, took: Duration, now: Instant) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window
            .histogram
            .saturating_record(microseconds(took).max(1));
        if now.duration_since(window.since) < WINDOW || window.histogram.len() < ENOUGH {
            return;
        }
        let p99 = window.histogram.value_at_quantile(0.99);
        self.p99.store(p99, Ordering::Relaxed);
        window.histogram.reset();
        window.since = now;
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The cost of one hedge, in the units of [`Budget`].
const HEDGE: i64 = 1_000_000;

/// A bucket that each request fills by a share of a hedge, and each hedge empties by one. When all
/// nodes are slow, hedges would double the load on them: they end with the budget.
#[derive(Debug)]
pub(super) struct Budget {
    share: i64,
    full: i64,
    level: AtomicI64,
}

impl Budget {
    pub(super) fn new(settings: &Settings) -> Self {
        let full = i64::from(settings.hedge_burst).saturating_mul(HEDGE);
        Self {
            // From 0 to 1, as `Settings::check` requires.
            share: (settings.hedge_share.clamp(0.0, 1.0) * HEDGE as f64) as i64,
            full,
            level: AtomicI64::new(full),
        }
    }

    /// Notes a request.
    pub(super) fn request(&self) {
        self.change(|level| Some(level.saturating_add(self.share).min(self.full)));
    }

    /// Takes a hedge out, if there is one.
    pub(super) fn take(&self) -> bool {
        self.change(|level| (level >= HEDGE).then(|| level - HEDGE))
    }

    fn change(&self, change: impl Fn(i64) -> Option<i64>) -> bool {
        self.level
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_hedge_follows_the_live_percentile_between_its_bounds() {
        let hedge = HedgeTime::new(&Settings::default());
        let at_start = Some(Duration::from_millis(10));
        assert_eq!(hedge.get(), at_start, "nothing is known: the upper bound");
        let mut feed = {
            let mut now = Instant::now();
            move |hedge: &HedgeTime, took: Duration| {
                for _ in 0..1_000 {
                    now += Duration::from_millis(2);
                    hedge.record(took, now);
                }
            }
        };
        feed(&hedge, Duration::from_micros(200));
        assert_eq!(
            hedge.get(),
            Some(Duration::from_millis(3)),
            "the lower bound"
        );
        feed(&hedge, Duration::from_millis(5));
        let between = hedge.get().expect("hedges are on");
        let five = Duration::from_millis(5);
        assert!(
            between >= five && between < five.mul_f64(1.02),
            "{between:?}"
        );
        assert_eq!(hedge.deadline(), Duration::from_millis(20), "as it is set");
        feed(&hedge, Duration::from_millis(30));
        assert_eq!(hedge.get(), at_start, "the upper bound");
        let longer = hedge.deadline();
        assert!(
            longer >= Duration::from_millis(60),
            "all are slow: {longer:?}"
        );
        feed(&hedge, Duration::from_millis(80));
        assert_eq!(
            hedge.deadline(),
            Duration::from_millis(100),
            "but not without end"
        );
    }

    #[test]
    fn hedges_can_be_off() {
        let settings = Settings {
            hedge: Duration::ZERO,
            ..Settings::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime can be made");
        let hedge = runtime.block_on(async { HedgeTime::new(&settings) });
        assert_eq!(hedge.get(), None);
    }

    #[test]
    fn a_burst_is_paid_from_what_was_saved_and_then_by_requests() {
        let budget = Budget::new(&Settings::default());
        let burst = (0..1_000).filter(|_| budget.take()).count();
        assert_eq!(burst, 32, "what was saved");
        let mut hedges = 0;
        for _ in 0..1_000 {
            budget.request();
            hedges += u32::from(budget.take());
        }
        assert_eq!(hedges, 50, "one for each twenty requests");
        (0..10_000).for_each(|_| budget.request());
        let burst = (0..1_000).filter(|_| budget.take()).count();
        assert_eq!(burst, 32, "no more than that is saved");
    }
}
