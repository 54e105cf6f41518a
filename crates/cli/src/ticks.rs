//! Fixed-interval ticker, interruptible: the clock of `stat`, `top -b`, `doctor` and `tier stat`.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::signals::Caught;

/// Ticks at an even pace, whatever is done in between.
#[derive(Debug)]
pub struct Ticks<'a> {
    interrupts: &'a Receiver<Caught>,
    due: Instant,
}

impl Ticks<'_> {
    /// The first interval begins now.
    pub fn new(interrupts: &Receiver<Caught>) -> Ticks<'_> {
        Ticks {
            interrupts,
            due: Instant::now(),
        }
    }

    /// Waits until `interval` after the previous tick; returns whether an end was requested meanwhile.
    ///
    /// # Errors
    /// The sender of requests is gone.
    pub fn next(&mut self, interval: Duration) -> Result<bool> {
        let now = Instant::now();
        self.due += interval;
        if self.due < now {
            // A machine that slept, or an interval shorter than what is done in it: no rush to catch up.
            self.due = now;
        }
        match self.interrupts.recv_timeout(self.due - now) {
            Ok(_) => Ok(true),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals ended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn ticks_do_not_drift_and_do_not_catch_up() {
        let (sender, interrupts) = channel();
        let mut ticks = Ticks::new(&interrupts);
        let begin = ticks.due;
        let interval = Duration::from_millis(40);
        assert!(!ticks.next(interval).unwrap(), "nobody asked for an end");
        assert!(begin.elapsed() >= interval, "an interval has passed");
        std::thread::sleep(interval * 3);
        let late = Instant::now();
        ticks.next(interval).unwrap();
        assert!(
            ticks.due >= late,
            "intervals that were missed do not come one after the other"
        );
        let due = ticks.due;
        ticks.next(interval).unwrap();
        assert!(
            ticks.due == due + interval || Instant::now() > due + interval * 2,
            "the next is an interval after the one before, and not after what was done"
        );
        drop(sender);
        assert!(ticks.next(interval).is_err(), "nobody can ask any more");
    }
}
