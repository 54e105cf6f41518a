//! Time that the machine slept: the difference of two monotonic clocks, of which one stops during sleep.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Both at one moment.
pub struct Clock {
    /// Goes on while the machine sleeps.
    boot: Duration,
    /// Does not.
    awake: Duration,
}

/// Two readings one after the other differ by less.
const NOTHING: Duration = Duration::from_millis(10);

impl Clock {
    pub fn now() -> Clock {
        let at = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        Clock {
            awake: at(ClockId::Monotonic),
            boot: at(ClockId::Boottime),
        }
    }

    /// How long it slept since this was last asked.
    pub fn slept(&mut self) -> Duration {
        let now = Clock::now();
        let slept = now.asleep(self);
        *self = now;
        slept
    }

    fn asleep(&self, then: &Clock) -> Duration {
        let passed = self.boot.saturating_sub(then.boot);
        let awake = self.awake.saturating_sub(then.awake);
        let slept = passed.saturating_sub(awake);
        if slept < NOTHING {
            return Duration::ZERO;
        }
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_the_clocks_is_sleep() {
        let at = |boot, awake| Clock {
            boot: Duration::from_secs(boot),
            awake: Duration::from_secs(awake),
        };
        assert_eq!(
            at(3_700, 110).asleep(&at(100, 100)),
            Duration::from_secs(3_590),
            "an hour passed, of which it was awake for ten seconds"
        );
        assert_eq!(
            Clock::now().slept(),
            Duration::ZERO,
            "nothing between two readings"
        );
    }
}
