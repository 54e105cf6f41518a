//! Time to measure with: that in which this thread ran. Where others have the CPU for most of the time, a wall clock
//! would end a measurement before it has begun.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Maximum ratio of wall time to the budget, on a busy machine.
const WALL_FACTOR: u32 = 5;

/// The CPU time that this thread has used so far.
#[must_use]
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// Some time of this thread; sent to another one it means nothing.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    cpu: Duration,
    wall: Instant,
}

impl Budget {
    /// So much from now on.
    #[must_use]
    pub fn for_duration(time: Duration) -> Budget {
        Budget {
            cpu: cpu_time() + time,
            wall: Instant::now() + time * WALL_FACTOR,
        }
    }

    /// Whether there is some left.
    #[must_use]
    pub fn is_left(&self) -> bool {
        cpu_time() < self.cpu && Instant::now() < self.wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_uses_no_budget_and_work_uses_all() {
        let budget = Budget::for_duration(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(budget.is_left(), "nothing was done");
        let mut number = 1u64;
        while budget.is_left() {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(!budget.is_left(), "used up");
        assert!(
            !Budget::for_duration(Duration::ZERO).is_left(),
            "of nothing nothing is left"
        );
    }
}
