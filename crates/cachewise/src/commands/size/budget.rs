//! CPU time that the simulation may take beside the watched programs.

use std::time::{Duration, Instant};

use cachewise_sys::Scheduled;

/// The share of a CPU's time that the simulation may take.
const SHARE: f64 = 0.05;

/// CPU time that it may take beyond that before the sample becomes smaller.
const CREDIT: Duration = Duration::from_millis(10);

/// CPU time by which the share is judged at least: less is not measured well.
const LEAST: Duration = Duration::from_millis(2);

/// A bucket that CPU time fills and time empties.
#[derive(Debug)]
pub struct Budget {
    /// CPU time beyond the share, in seconds.
    debt: f64,
    looked: Instant,
    seen: Scheduled,
}

impl Budget {
    /// Begins to count the CPU time of the calling thread.
    pub fn begin() -> Budget {
        Budget {
            debt: 0.0,
            looked: Instant::now(),
            seen: cachewise_sys::thread_scheduled().unwrap_or_default(),
        }
    }

    /// Returns whether this thread has taken more than its share, with credit, since the start or the last renewal.
    pub fn is_exceeded(&mut self) -> bool {
        match cachewise_sys::thread_scheduled() {
            Some(now) => self.add(now, self.looked.elapsed()),
            None => false,
        }
    }

    fn add(&mut self, now: Scheduled, elapsed: Duration) -> bool {
        let ran = now.ran.saturating_sub(self.seen.ran);
        if ran < LEAST && elapsed < CREDIT {
            return self.debt > CREDIT.as_secs_f64();
        }
        let waited = now.waited.saturating_sub(self.seen.waited);
        // Programs that share the CPUs with others get as much less of them as this thread does.
        let got = match (ran + waited).as_secs_f64() {
            0.0 => 1.0,
            wanted => ran.as_secs_f64() / wanted,
        };
        self.looked += elapsed;
        self.seen = now;
        let allowed = elapsed.as_secs_f64() * got * SHARE;
        self.debt = (self.debt + ran.as_secs_f64() - allowed).max(0.0);
        self.debt > CREDIT.as_secs_f64()
    }

    /// Forgives what was taken.
    pub fn renew(&mut self) {
        self.debt = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of a budget where a thread runs and waits for these milliseconds of each hundred.
    fn answers(ran: u64, waited: u64) -> Vec<bool> {
        let mut budget = Budget {
            debt: 0.0,
            looked: Instant::now(),
            seen: Scheduled::default(),
        };
        (1..=4)
            .map(|number| {
                let now = Scheduled {
                    ran: Duration::from_millis(ran * number),
                    waited: Duration::from_millis(waited * number),
                };
                budget.add(now, Duration::from_millis(100))
            })
            .collect()
    }

    #[test]
    fn share_of_a_quiet_machine_is_allowed() {
        assert_eq!(answers(4, 0), [false; 4]);
    }

    #[test]
    fn more_is_allowed_up_to_the_credit() {
        assert_eq!(answers(9, 0), [false, false, true, true]);
    }

    #[test]
    fn busy_machine_leaves_programs_less_and_so_the_simulation() {
        assert_eq!(answers(4, 36), [false, false, true, true]);
    }
}
