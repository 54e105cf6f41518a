//! [`Limiter`]: bytes per second, shared by several threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cachewise_units::Bytes;

/// A limit to how fast bytes are read, which any number of threads share by reference.
///
/// Each reservation starts right after the last one, of whichever thread; unused time is not saved
/// up, so there are no bursts.
#[derive(Debug)]
pub struct Limiter {
    per_second: u64,
    /// When the next bytes may be read.
    next: Mutex<Option<Instant>>,
}

/// Reads per second: each read takes about this part of a second, so that the rate is smooth.
pub(crate) const STEPS_PER_SECOND: u64 = 8;

/// How long a thread sleeps at most before it looks whether it should stop.
const NAP: Duration = Duration::from_millis(50);

impl Limiter {
    /// Makes a limit in bytes per second; `None` for 0, at which nothing would ever be read.
    #[must_use]
    pub fn new(per_second: Bytes) -> Option<Self> {
        (per_second > Bytes::ZERO).then(|| Self {
            per_second: per_second.0,
            next: Mutex::new(None),
        })
    }

    /// Returns the limit, in bytes per second.
    #[must_use]
    pub fn per_second(&self) -> Bytes {
        Bytes(self.per_second)
    }

    /// Waits until this number of bytes may be read; returns `false` if it was cancelled before.
    ///
    /// # Cost
    /// Two locks of a mutex when there is no need to wait; cancelling takes up to 50 ms.
    pub fn wait(&self, bytes: Bytes, cancel: Option<&AtomicBool>) -> bool {
        let is_cancelled = || cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        let now = Instant::now();
        let start = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let start = next.map_or(now, |next| next.max(now));
            // A time beyond what can be written will not be lived to see.
            *next = start.checked_add(self.time_for(bytes)).or(Some(start));
            start
        };
        loop {
            if is_cancelled() {
                return false;
            }
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Returns what to read at a time.
    pub(crate) fn step(&self, most: u64) -> u64 {
        let page = cachewise_sys::page_size();
        let eighth = Bytes(self.per_second / STEPS_PER_SECOND)
            .pages_floor(page)
            .bytes(page)
            .0;
        eighth.clamp(page.get().min(most), most)
    }

    fn time_for(&self, bytes: Bytes) -> Duration {
        let nanoseconds = u128::from(bytes.0) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let limiter = Limiter::new(Bytes(1000)).unwrap();
        assert_eq!(
            limiter.time_for(Bytes(1500)),
            Duration::from_millis(1500),
            "in proportion"
        );
        assert_eq!(
            limiter.time_for(Bytes(u64::MAX)).as_nanos(),
            u128::from(u64::MAX),
            "and never wraps"
        );
        assert!(
            Limiter::new(Bytes::ZERO).is_none(),
            "at no bytes a second nothing would end"
        );
    }

    #[test]
    fn reservations_of_all_threads_follow_each_other() {
        let limiter = Limiter::new(Bytes(1 << 40)).unwrap();
        let before = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        assert!(limiter.wait(Bytes(1 << 30), None), "nobody cancels");
                    }
                });
            }
        });
        let next = limiter.next.lock().unwrap().unwrap();
        let reserved = limiter.time_for(Bytes(40 << 30));
        assert!(next >= before + reserved, "40 GiB at 1 TiB a second");
        // Each waits for those before it; the last one's own time is still to come.
        assert!(
            Instant::now() + limiter.time_for(Bytes(1 << 30)) >= next,
            "and nobody went ahead"
        );
    }

    #[test]
    fn waiting_can_be_cancelled() {
        let limiter = Limiter::new(Bytes(1)).unwrap();
        assert!(limiter.wait(Bytes(1 << 40), None), "the first goes ahead");
        let cancel = AtomicBool::new(true);
        assert!(
            !limiter.wait(Bytes(1), Some(&cancel)),
            "35,000 years are not waited for"
        );
    }

    #[test]
    fn steps_are_whole_pages_and_small_where_it_is_slow() {
        let page = cachewise_sys::page_size().get();
        let step = |rate| Limiter::new(Bytes(rate)).unwrap().step(64 * page);
        assert_eq!(step(1), page, "never less than a page");
        assert_eq!(step(80 * page + 5), 10 * page, "an eighth of a second");
        assert_eq!(step(u64::MAX), 64 * page, "never more than the most");
    }
}
