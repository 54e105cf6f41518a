//! The part of `fastant` that foyer uses, on the clock of `std`.
//!
//! The published crate calibrates the time stamp counter before `main`: it spins 20 ms or more at each start of a program
//! that links it, whether or not the program reads that clock. foyer reads it only where a throttle of its device is set.

#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A moment: nanoseconds since this clock was first read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Now.
    #[must_use]
    pub fn now() -> Instant {
        static FIRST: OnceLock<std::time::Instant> = OnceLock::new();
        let first = FIRST.get_or_init(std::time::Instant::now);
        Instant(u64::try_from(first.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time since an earlier moment; zero if it is a later one.
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time since this moment.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }
}

/// A moment that threads share.
#[derive(Debug)]
pub struct Atomic(AtomicU64);

impl Atomic {
    /// Holds a moment.
    #[must_use]
    pub fn new(moment: Instant) -> Atomic {
        Atomic(AtomicU64::new(moment.0))
    }

    /// Returns the moment.
    pub fn load(&self, order: Ordering) -> Instant {
        Instant(self.0.load(order))
    }

    /// Replaces the moment.
    pub fn store(&self, moment: Instant, order: Ordering) {
        self.0.store(moment.0, order);
    }
}
