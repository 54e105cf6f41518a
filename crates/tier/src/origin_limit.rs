//! [`OriginLimit`]: as many concurrent reads of the origin as it can bear, by its own response times.
//!
//! A read falls back to the origin where servers fail, and then all machines may do so at once. An origin with more
//! requests than it can serve answers each of them later. The limit grows while response times stay near the least that
//! was seen, and shrinks where they exceed twice that, as in Netflix's concurrency-limits (Gradient2): it settles where
//! the queue at the origin is about as long as the square root of the limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent reads in the beginning, before response times are known.
const FIRST: usize = 8;
/// The limit does not shrink below this.
const LEAST: usize = 4;
/// Median response times up to this are no sign of an overloaded origin.
const FAST: Duration = Duration::from_millis(20);
/// Response times of that multiple of the least are taken for normal.
const TOLERANCE: f64 = 2.0;
/// Windows after which the least response time is measured anew, with a quarter of the limit: an origin that has become
/// slower for another reason than our reads is learnt by that.
const MEASURED_EVERY: u32 = 64;
/// Minimum of responses in a window.
const WINDOW: usize = 8;

/// The limit of concurrent reads of an origin.
#[derive(Debug)]
pub(crate) struct OriginLimit {
    most: usize,
    permits: Arc<Semaphore>,
    state: Mutex<LimitState>,
}

#[derive(Debug)]
struct LimitState {
    limit: usize,
    /// Permits that there are, in use or not.
    permits: usize,
    /// Reads under way.
    under_way: usize,
    /// Response times in this window, in seconds.
    window: Vec<f64>,
    /// The most reads under way in this window.
    peak: usize,
    /// The least median of a window, in seconds.
    least: Option<f64>,
    /// Windows since that was measured.
    windows: u32,
    /// The limit to go on with after a measurement.
    after: usize,
    /// Whether the limit has never shrunk: it doubles with each window until then.
    is_starting: bool,
}

impl OriginLimit {
    pub(crate) fn new(most: usize) -> Self {
        let first = FIRST.min(most);
        Self {
            most,
            permits: Arc::new(Semaphore::new(first)),
            state: Mutex::new(LimitState {
                limit: first,
                permits: first,
                under_way: 0,
                window: Vec::with_capacity(most.min(64)),
                peak: 0,
                least: None,
                windows: 0,
                after: first,
                is_starting: true,
            }),
        }
    }

    /// Waits for the permission of one read.
    pub(crate) async fn begin(self: &Arc<Self>) -> Option<OriginRead> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let mut state = self.state();
        state.under_way += 1;
        state.peak = state.peak.max(state.under_way);
        drop(state);
        Some(OriginRead {
            limit: Arc::clone(self),
            permit: Some(permit),
        })
    }

    /// Returns the present limit.
    pub(crate) fn get(&self) -> usize {
        self.state().limit
    }

    /// Records the response time of a read.
    pub(crate) fn took(&self, took: Duration) {
        let mut state = self.state();
        state.window.push(took.as_secs_f64());
        if state.window.len() < state.limit.max(WINDOW) {
            return;
        }
        let limit = state.next(self.most);
        state.limit = limit;
        // Permits of reads under way are taken back when these end.
        while state.permits < limit {
            state.permits += 1;
            self.permits.add_permits(1);
        }
        let surplus = state.permits.saturating_sub(limit);
        state.permits -= self.permits.forget_permits(surplus);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimitState {
    /// Ends a window and returns the next limit.
    fn next(&mut self, most: usize) -> usize {
        let mut window = std::mem::take(&mut self.window);
        window.sort_unstable_by(f64::total_cmp);
        let median = window.get(window.len() / 2).copied().unwrap_or_default();
        let peak = std::mem::replace(&mut self.peak, self.under_way);
        self.windows += 1;
        match self.windows {
            // The reads of before end, one window more lets those that had to wait for them end, and the next one is measured.
            ..MEASURED_EVERY => {}
            MEASURED_EVERY => {
                self.after = self.limit;
                return (self.limit / 4).clamp(LEAST.min(most), most);
            }
            _ if self.windows == MEASURED_EVERY + 1 => {
                if self.under_way > self.limit {
                    self.windows -= 1;
                }
                return self.limit;
            }
            _ if self.windows == MEASURED_EVERY + 2 => return self.limit,
            _ => {
                self.windows = 0;
                self.least = Some(median);
                return self.after;
            }
        }
        let least = self.least.map_or(median, |least| least.min(median));
        self.least = Some(least);
        let normal = TOLERANCE * least.max(FAST.as_secs_f64() / TOLERANCE);
        let gradient = (normal / median.max(f64::MIN_POSITIVE)).clamp(0.5, 1.0);
        let limit = self.limit as f64;
        if gradient < 1.0 {
            self.is_starting = false;
        } else if peak * 2 < self.limit {
            // Fewer reads than permitted say nothing about more of them.
            return self.limit;
        }
        let more = match self.is_starting {
            true => limit,
            false => limit.sqrt(),
        };
        // Lossless: between two small numbers.
        let next = limit.mul_add(gradient, more).round() as usize;
        next.clamp(LEAST.min(most), most)
    }
}

/// A read of the origin that is under way.
#[derive(Debug)]
pub(crate) struct OriginRead {
    limit: Arc<OriginLimit>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for OriginRead {
    fn drop(&mut self) {
        let mut state = self.limit.state();
        state.under_way -= 1;
        if state.permits > state.limit
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            state.permits -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    /// An origin that serves some requests at a time, each in 50 ms; returns how long `reads` take with this many
    /// readers, and the limit at the end.
    async fn read(servers: usize, readers: usize, reads: usize) -> (Duration, usize) {
        let limit = Arc::new(OriginLimit::new(32));
        let origin = Arc::new(Semaphore::new(servers));
        let begun = Instant::now();
        let tasks: Vec<_> = (0..readers)
            .map(|_| {
                let (limit, origin) = (Arc::clone(&limit), Arc::clone(&origin));
                tokio::spawn(async move {
                    for _ in 0..reads / readers {
                        let read = limit.begin().await;
                        let begun = Instant::now();
                        let served = origin.acquire().await;
                        sleep(Duration::from_millis(50)).await;
                        drop(served);
                        limit.took(begun.elapsed());
                        drop(read);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no reader fails");
        }
        (begun.elapsed(), limit.get())
    }

    #[tokio::test(start_paused = true)]
    async fn origin_that_serves_all_reads_gets_as_many_as_permitted() {
        let (_, limit) = read(1_000, 64, 6_400).await;
        assert_eq!(limit, 32);
    }

    #[tokio::test(start_paused = true)]
    async fn origin_that_serves_few_reads_gets_few_at_a_time_and_stays_busy() {
        let (took, limit) = read(8, 64, 12_800).await;
        assert!((8..=24).contains(&limit), "{limit}");
        let least = Duration::from_millis(50) * (12_800 / 8);
        assert!(took < least + least / 10, "{took:?} of at least {least:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn few_readers_leave_the_limit_alone() {
        let (_, limit) = read(1_000, 2, 600).await;
        assert_eq!(limit, FIRST);
    }

    #[test]
    fn limit_shrinks_while_answers_are_late_and_grows_again() {
        let limit = Arc::new(OriginLimit::new(32));
        let window = |limit: &OriginLimit, milliseconds| {
            limit.state().peak = 32;
            for _ in 0..limit.get().max(WINDOW) {
                limit.took(Duration::from_millis(milliseconds));
            }
            limit.get()
        };
        assert_eq!([30, 30].map(|took| window(&limit, took)), [16, 32]);
        let late: Vec<usize> = (0..20).map(|_| window(&limit, 400)).collect();
        assert!(late.last() <= Some(&5), "{late:?}");
        let well: Vec<usize> = (0..20).map(|_| window(&limit, 30)).collect();
        assert_eq!(well.last(), Some(&32), "{well:?}");
    }
}
