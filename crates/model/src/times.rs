//! Times of tasks: the parts that they add up to, and the time that a run would take with a warm cache.

use std::time::Duration;

use crate::counter::Counter;
use crate::interval::Interval;
use crate::ledger::Ledger;
use crate::measured::Measured;

impl Counter {
    /// Every time. Those of [`Counter::WAITS`] and the CPU time do not overlap, and add up to [`Counter::TaskSeconds`].
    pub const TIMES: [Counter; 21] = [
        Counter::WaitedMissed,
        Counter::WaitedRefault,
        Counter::WaitedInFlight,
        Counter::WaitedFault,
        Counter::WaitedDirect,
        Counter::WaitedSync,
        Counter::WaitedMetadata,
        Counter::WaitedFilesystem,
        Counter::WaitedThrottle,
        Counter::WaitedReclaim,
        Counter::WaitedSwap,
        Counter::WaitedAsync,
        Counter::WaitedChildren,
        Counter::WaitedLock,
        Counter::WaitedPeer,
        Counter::Slept,
        Counter::WaitedOther,
        Counter::RunQueue,
        Counter::FetchCpu,
        Counter::TaskSeconds,
        Counter::ColdRunQueue,
    ];

    /// Times off the CPU.
    pub const WAITS: [Counter; 18] = *Counter::TIMES.first_chunk().unwrap();

    /// Waits for storage and memory.
    pub const STORAGE_WAITS: [Counter; 11] = *Counter::TIMES.first_chunk().unwrap();

    /// Times that are not measured of the whole machine: waits for anything but storage, memory and CPUs.
    pub const OF_RUNS: [Counter; 6] = [
        Counter::WaitedChildren,
        Counter::WaitedLock,
        Counter::WaitedPeer,
        Counter::Slept,
        Counter::WaitedOther,
        Counter::TaskSeconds,
    ];

    /// Waits that a warm cache saves.
    pub const COLD_WAITS: [Counter; 5] = [
        Counter::WaitedMissed,
        Counter::WaitedRefault,
        Counter::WaitedInFlight,
        Counter::WaitedFault,
        Counter::WaitedMetadata,
    ];
}

impl Counter {
    /// The name of a time as part of a sentence, for [`Counter::WAITS`]: `waiting for ...`.
    #[must_use]
    pub const fn awaited(self) -> &'static str {
        match self {
            Counter::WaitedMissed => "missed pages",
            Counter::WaitedRefault => "evicted pages",
            Counter::WaitedInFlight => "pages in flight",
            Counter::WaitedFault => "page faults",
            Counter::WaitedDirect => "direct I/O",
            Counter::WaitedSync => "fsync and its like",
            Counter::WaitedMetadata => "metadata",
            Counter::WaitedFilesystem => "locks and journals of file systems",
            Counter::WaitedThrottle => "dirty throttling",
            Counter::WaitedReclaim => "direct reclaim",
            Counter::WaitedSwap => "swap",
            Counter::WaitedAsync => "asynchronous I/O",
            Counter::WaitedChildren => "child processes",
            Counter::WaitedLock => "locks",
            Counter::WaitedPeer => "other programs",
            Counter::Slept => "a timer",
            Counter::RunQueue => "a CPU",
            _ => "anything else",
        }
    }
}

impl Ledger {
    /// The sum of these times.
    #[must_use]
    pub fn time(&self, of: &[Counter]) -> Measured<Duration> {
        let times = of.iter().map(|counter| self.get(*counter));
        times
            .fold(Measured::Exact(0), Measured::plus)
            .map(Duration::from_nanos)
    }
}

/// The use of time by the tasks of a run, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeUse {
    /// From the start to the end of the run.
    pub wall: f64,
    /// Sum of the times that its tasks existed.
    pub tasks: f64,
    /// On a CPU, as the kernel accounts it.
    pub cpu: f64,
    /// The part of it that brought pages in.
    pub fetch_cpu: f64,
    /// The part of the waits for a CPU that follows waits for cold data.
    pub cold_run_queue: f64,
    /// Off the CPU, in the order of [`Counter::WAITS`].
    pub waits: Vec<(Counter, f64)>,
}

/// The time that a run would take with a warm cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warm {
    /// Its tasks worked one after the other: each wait is time of the run.
    Seconds(f64),
    /// Several tasks worked at a time: an estimate, by the share of waits in their work.
    About(f64),
}

impl Warm {
    /// In seconds.
    #[must_use]
    pub const fn seconds(self) -> f64 {
        match self {
            Warm::Seconds(seconds) | Warm::About(seconds) => seconds,
        }
    }
}

/// Work beyond the length of the run by this factor was done by several tasks at a time.
const ONE_AT_A_TIME: f64 = 1.05;

impl TimeUse {
    /// The use of time in an interval of a run; `None` if times were not measured.
    #[must_use]
    pub fn of(interval: &Interval) -> Option<TimeUse> {
        let seconds = |counter| {
            let time = interval.ledger.time(&[counter]).exact();
            time.map(|time| time.as_secs_f64())
        };
        let waits = Counter::WAITS
            .into_iter()
            .map(|counter| Some((counter, seconds(counter)?)));
        let cpu = interval.processes.iter();
        Some(TimeUse {
            wall: interval.elapsed.as_secs_f64(),
            tasks: seconds(Counter::TaskSeconds).filter(|tasks| *tasks > 0.0)?,
            cpu: cpu
                .map(|process| process.cpu_seconds.known())
                .sum::<Option<f64>>()?,
            fetch_cpu: seconds(Counter::FetchCpu)?,
            cold_run_queue: seconds(Counter::ColdRunQueue)?,
            waits: waits.collect::<Option<_>>()?,
        })
    }

    /// The sum of these waits.
    #[must_use]
    pub fn waited(&self, of: &[Counter]) -> f64 {
        let waits = self.waits.iter();
        waits
            .filter(|(counter, _)| of.contains(counter))
            .map(|(_, seconds)| seconds)
            .sum()
    }

    /// The time of tasks that is in no part; below zero if the parts overlap.
    #[must_use]
    pub fn unexplained(&self) -> f64 {
        self.tasks - self.cpu - self.waited(&Counter::WAITS)
    }

    /// Waits for cold data, the waits for a CPU that follow them, and the CPU time of bringing the data in.
    #[must_use]
    pub fn cold(&self) -> f64 {
        self.waited(&Counter::COLD_WAITS) + self.cold_run_queue + self.fetch_cpu
    }

    /// The time of tasks that worked or waited for storage, memory or a CPU.
    pub(crate) fn busy(&self) -> f64 {
        self.cpu + self.waited(&Counter::STORAGE_WAITS) + self.waited(&[Counter::RunQueue])
    }

    /// The time that the run would take if all that it read were in the page cache.
    #[must_use]
    pub fn warm(&self) -> Warm {
        let busy = self.busy();
        if busy <= self.wall * ONE_AT_A_TIME {
            return Warm::Seconds((self.wall - self.cold()).max(0.0));
        }
        Warm::About(self.wall * (1.0 - self.cold() / busy).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_run_saves_waits_with_the_cpu_time_and_the_run_queue_that_follow() {
        let times = TimeUse {
            wall: 1.0,
            tasks: 1.0,
            cpu: 0.25,
            fetch_cpu: 0.125,
            cold_run_queue: 0.0625,
            waits: vec![(Counter::WaitedMissed, 0.5), (Counter::RunQueue, 0.25)],
        };
        assert_eq!(times.warm(), Warm::Seconds(0.3125));
    }
}
