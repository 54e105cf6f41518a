//! [`Breaker`]: whether a node is asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::BreakerState;
use crate::Settings;

/// Whether a node is asked.
///
/// It opens after a number of consecutive failures within a window, if the node has not answered
/// for twice its deadline. A node that still answers is busy, and requests to other nodes would
/// make them busy too. An open breaker skips the node. When its time is over, one probe goes to the
/// node while the block takes another route, so no reader waits for a probe. If the probe fails,
/// the breaker opens for twice as long.
///
/// It counts consecutive failures, not their share: deadlines and hedges handle a node that answers
/// most of the time.
#[derive(Debug)]
pub(super) struct Breaker {
    misses: u32,
    window: Duration,
    first_open: Duration,
    longest_open: Duration,
    quiet: Duration,
    state: Mutex<BreakerInner>,
}

#[derive(Debug)]
struct BreakerInner {
    state: Phase,
    /// When it answered last.
    answered: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed {
        failed: u32,
        since: Option<Instant>,
    },
    Open {
        until: Instant,
        length: Duration,
    },
    /// `until`: a probe whose outcome is never reported does not exclude the node for ever.
    Probing {
        until: Instant,
        length: Duration,
    },
}

/// Whether to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Ask,
    /// Yes, once, and without waiting for it.
    Probe,
    /// No.
    Skip,
}

impl Breaker {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            misses: settings.breaker_misses,
            window: settings.breaker_window,
            first_open: settings.breaker_open,
            longest_open: settings.breaker_open_max,
            quiet: settings.deadline.saturating_mul(2),
            state: Mutex::new(BreakerInner {
                state: CLOSED,
                answered: None,
            }),
        }
    }

    /// Returns whether to ask now. After [`Admission::Probe`] the caller must report the outcome.
    pub(super) fn admit(&self, now: Instant) -> Admission {
        let state = &mut self.known().state;
        match *state {
            Phase::Closed { .. } => Admission::Ask,
            Phase::Open { until, length } | Phase::Probing { until, length } if now >= until => {
                *state = Phase::Probing {
                    until: later(now, length),
                    length,
                };
                Admission::Probe
            }
            Phase::Open { .. } | Phase::Probing { .. } => Admission::Skip,
        }
    }

    /// Notes that the node answered.
    pub(super) fn succeeded(&self, now: Instant) {
        *self.known() = BreakerInner {
            state: CLOSED,
            answered: Some(now),
        };
    }

    /// Notes that it did not. Says whether that opened the breaker.
    pub(super) fn failed(&self, now: Instant) -> bool {
        let mut known = self.known();
        let quiet = known
            .answered
            .is_none_or(|answered| now.duration_since(answered) >= self.quiet);
        let state = &mut known.state;
        match *state {
            Phase::Closed { failed, since } => {
                let recent = since.is_some_and(|since| now.duration_since(since) <= self.window);
                let (failed, since) = if recent {
                    (failed.saturating_add(1), since)
                } else {
                    (1, Some(now))
                };
                *state = Phase::Closed { failed, since };
                if failed < self.misses || !quiet {
                    return false;
                }
                let length = self.first_open;
                *state = Phase::Open {
                    until: later(now, length),
                    length,
                };
                true
            }
            Phase::Probing { length, .. } => {
                let length = length.saturating_mul(2).min(self.longest_open);
                *state = Phase::Open {
                    until: later(now, length),
                    length,
                };
                true
            }
            // An answer that was still under way when it opened says nothing new.
            Phase::Open { .. } => false,
        }
    }

    /// Returns what it is now.
    pub(super) fn get(&self) -> BreakerState {
        match self.known().state {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::Probing { .. } => BreakerState::Probing,
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BreakerInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CLOSED: Phase = Phase::Closed {
    failed: 0,
    since: None,
};

fn later(now: Instant, length: Duration) -> Instant {
    now.checked_add(length).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(&Settings::default())
    }

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn three_misses_in_a_row_open_it_and_one_probe_closes_it() {
        let breaker = breaker();
        let now = Instant::now();
        assert!(!breaker.failed(now) && !breaker.failed(now));
        assert_eq!(breaker.admit(now), Admission::Ask, "two are not enough");
        assert!(breaker.failed(now), "the third opens it");
        assert_eq!(breaker.admit(now + 499 * MS), Admission::Skip);
        let later = now + 500 * MS;
        assert_eq!(breaker.admit(later), Admission::Probe, "its time is over");
        assert_eq!(breaker.admit(later), Admission::Skip, "one probe at a time");
        breaker.succeeded(later);
        assert_eq!(breaker.admit(later), Admission::Ask);
        assert!(
            (0..10).all(|_| !breaker.failed(later + 39 * MS)),
            "it spoke just now"
        );
        assert!(breaker.failed(later + 40 * MS), "it is quiet");
    }

    #[tokio::test(start_paused = true)]
    async fn misses_far_apart_or_between_answers_leave_it_closed() {
        let breaker = breaker();
        let mut now = Instant::now();
        for _ in 0..10 {
            assert!(!breaker.failed(now), "one a second is not three in one");
            now += 1_001 * MS;
        }
        for _ in 0..10 {
            breaker.succeeded(now);
            now += 50 * MS;
            assert!(
                !breaker.failed(now) && !breaker.failed(now),
                "two, then an answer"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_failed_probe_doubles_the_time_up_to_a_bound() {
        let breaker = breaker();
        let mut now = Instant::now();
        while !breaker.failed(now) {}
        for length in [500, 1_000, 2_000, 4_000, 5_000, 5_000] {
            assert!(!breaker.failed(now), "what was under way says nothing new");
            assert_eq!(breaker.admit(now + (length - 1) * MS), Admission::Skip);
            now += length * MS;
            assert_eq!(breaker.admit(now), Admission::Probe, "after {length} ms");
            assert!(breaker.failed(now), "the probe failed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_nobody_reports_is_not_the_last() {
        let breaker = breaker();
        let now = Instant::now();
        while !breaker.failed(now) {}
        let now = now + 500 * MS;
        assert_eq!(breaker.admit(now), Admission::Probe);
        assert_eq!(breaker.get(), BreakerState::Probing);
        assert_eq!(breaker.admit(now + 500 * MS), Admission::Probe);
    }
}
