//! The answer to the question what the page cache cost a run, in seconds.

use crate::counter::Counter;
use crate::times::{TimeUse, Warm};

/// A share of the run below which a wait is no problem.
const LITTLE: f64 = 0.05;
/// Seconds below which a wait is no problem in any run: too short to be noticed.
const UNNOTICED: f64 = 0.01;

impl TimeUse {
    /// The answer as part of a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let (cold, warm) = (self.cold(), self.warm());
        let whole = self.whole();
        let of = match warm {
            Warm::Seconds(_) => "",
            Warm::About(_) => " of its tasks",
        };
        let mut text = format!(
            "{} of {} s{of} waiting for cold data",
            seconds(cold),
            seconds(whole)
        );
        let is_problem = |waited: f64| is_problem(waited, whole);
        if is_problem(cold) {
            let evicted = self.waited(&[Counter::WaitedRefault]);
            let without = match evicted > cold / 2.0 {
                true => "without evictions",
                false => "warm",
            };
            text += &format!(
                "; {without}, this would take about {} s",
                seconds(warm.seconds())
            );
        }
        let others = self.waits.iter().filter(|(counter, waited)| {
            let is_storage = Counter::STORAGE_WAITS.contains(counter);
            is_storage && !Counter::COLD_WAITS.contains(counter) && is_problem(*waited)
        });
        for (counter, waited) in others {
            text += &format!("; {} s waiting for {}", seconds(*waited), counter.awaited());
        }
        if !is_problem(self.waited(&Counter::STORAGE_WAITS) + self.fetch_cpu) {
            text += &self.largest();
        }
        text
    }

    /// Whether the run waited so long for cold data that a warm cache makes it faster.
    pub(crate) fn waits_for_cold_data(&self) -> bool {
        is_problem(self.cold(), self.whole())
    }

    /// Whether the run waited long for direct I/O, and not for cold data.
    pub(crate) fn waits_for_direct_io(&self) -> bool {
        let direct = self.waited(&[Counter::WaitedDirect]);
        is_problem(direct, self.whole()) && !self.waits_for_cold_data()
    }

    /// The seconds that waits are parts of: those of the run, or of all its tasks where several ran at once.
    fn whole(&self) -> f64 {
        match self.warm() {
            Warm::Seconds(_) => self.wall,
            Warm::About(_) => self.busy(),
        }
    }

    /// The largest part of the time of tasks, other than waits for their own children.
    fn largest(&self) -> String {
        let children = self.waited(&[Counter::WaitedChildren]);
        let waits = self.waits.iter().copied();
        let waits = waits.filter(|(counter, _)| *counter != Counter::WaitedChildren);
        let largest = waits.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let share = |part: f64| 100.0 * part / (self.tasks - children).max(part);
        match largest {
            Some((counter, waited)) if waited > self.cpu => {
                format!("; {:.0} % waiting for {}", share(waited), counter.awaited())
            }
            _ if self.cpu > 0.0 => format!("; {:.0} % CPU", share(self.cpu)),
            _ => String::new(),
        }
    }
}

fn is_problem(waited: f64, whole: f64) -> bool {
    waited >= (LITTLE * whole).max(UNNOTICED)
}

/// Seconds in as many digits as matter.
fn seconds(seconds: f64) -> String {
    match seconds {
        10.0.. => format!("{seconds:.1}"),
        1.0.. => format!("{seconds:.2}"),
        _ => format!("{seconds:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(wall: f64, cpu: f64, waits: &[(Counter, f64)]) -> String {
        let waited: f64 = waits.iter().map(|(_, seconds)| seconds).sum();
        let all = Counter::WAITS.into_iter().map(|counter| {
            let own = waits.iter().find(|(of, _)| *of == counter);
            (counter, own.map_or(0.0, |(_, seconds)| *seconds))
        });
        let use_of_time = TimeUse {
            wall,
            tasks: cpu + waited,
            cpu,
            fetch_cpu: 0.0,
            cold_run_queue: 0.0,
            waits: all.collect(),
        };
        use_of_time.verdict()
    }

    #[test]
    fn verdict_of_a_cold_run_predicts_the_warm_one() {
        assert_eq!(
            answer(3.1, 1.9, &[(Counter::WaitedMissed, 1.2)]),
            "1.20 of 3.10 s waiting for cold data; warm, this would take about 1.90 s"
        );
        assert_eq!(
            answer(20.0, 2.0, &[(Counter::WaitedRefault, 18.0)]),
            "18.0 of 20.0 s waiting for cold data; without evictions, this would take about 2.00 s"
        );
    }

    #[test]
    fn verdict_of_parallel_tasks_is_of_their_time() {
        assert_eq!(
            answer(2.0, 2.0, &[(Counter::WaitedFault, 6.0)]),
            "6.00 of 8.00 s of its tasks waiting for cold data; warm, this would take about 0.500 s"
        );
    }

    #[test]
    fn verdict_names_the_largest_part_where_storage_is_no_problem() {
        assert_eq!(
            answer(
                3.08,
                2.99,
                &[(Counter::WaitedMissed, 0.02), (Counter::RunQueue, 0.07)]
            ),
            "0.020 of 3.08 s waiting for cold data; 97 % CPU"
        );
        assert_eq!(
            answer(
                4.0,
                0.1,
                &[(Counter::WaitedPeer, 3.9), (Counter::WaitedChildren, 4.0)]
            ),
            "0.000 of 4.00 s waiting for cold data; 98 % waiting for other programs"
        );
    }

    #[test]
    fn verdict_of_a_short_wait_predicts_nothing() {
        assert_eq!(
            answer(0.062, 0.057, &[(Counter::WaitedMetadata, 0.005)]),
            "0.005 of 0.062 s waiting for cold data; 92 % CPU"
        );
    }

    #[test]
    fn verdict_names_waits_that_a_warm_cache_leaves() {
        assert_eq!(
            answer(2.0, 0.5, &[(Counter::WaitedSync, 1.5)]),
            "0.000 of 2.00 s waiting for cold data; 1.50 s waiting for fsync and its like"
        );
    }
}
