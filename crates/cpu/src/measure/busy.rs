//! Load of CPUs by all processes, from the counters of the kernel.

use std::time::Duration;

use crate::CpuList;

/// The time that some CPUs have been busy, or taken by the hypervisor, since the machine started.
///
/// # Units
/// The kernel counts in ticks, mostly of 10 ms: less than several ticks is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy(Duration);

impl Busy {
    /// Reads the counters of these CPUs; `None` if the kernel has none.
    #[must_use]
    pub fn now(cpus: &CpuList) -> Option<Busy> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        parse(&text, cpus, rustix::param::clock_ticks_per_second())
    }

    /// Since an earlier time.
    #[must_use]
    pub const fn since(self, earlier: Busy) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

fn parse(text: &str, cpus: &CpuList, ticks_per_second: u64) -> Option<Busy> {
    let mut ticks = 0u64;
    let mut seen = 0;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let id = words.next().and_then(|name| name.strip_prefix("cpu"));
        // The line without a number is that of all CPUs.
        let Some(id) = id.and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        if !cpus.has(id) {
            continue;
        }
        seen += 1;
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is part of user.
        for (place, word) in words.take(8).enumerate() {
            if !matches!(place, 3 | 4) {
                ticks = ticks.saturating_add(word.parse().ok()?);
            }
        }
    }
    let is_all = seen == cpus.len() && seen > 0;
    is_all.then(|| {
        Busy(Duration::from_secs_f64(
            ticks as f64 / ticks_per_second.max(1) as f64,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
cpu  300 10 100 5000 50 5 5 20 100 0
cpu0 100 10 50 2500 25 5 0 20 100 0
cpu1 200 0 50 2500 25 0 5 0 0 0
intr 12345 0 0
";

    #[test]
    fn idle_time_is_not_busy() {
        let of = |cpus: &[u32]| parse(TEXT, &CpuList::new(cpus.iter().copied()), 100);
        assert_eq!(
            of(&[0]),
            Some(Busy(Duration::from_millis(1850))),
            "with what was stolen"
        );
        assert_eq!(
            of(&[0, 1]),
            Some(Busy(Duration::from_millis(4400))),
            "of both"
        );
        assert_eq!(of(&[2]), None, "of one that is not there nothing is known");
        assert_eq!(of(&[]), None, "nor of none");
    }

    #[test]
    fn this_machine_tells_it() {
        let cpus = crate::measure::pin::allowed().unwrap();
        let Some(before) = Busy::now(&cpus) else {
            println!("skipped: busy CPUs: no /proc/stat here that tells of {cpus}");
            return;
        };
        let after = Busy::now(&cpus).unwrap();
        assert!(
            after.since(before) < Duration::from_secs(3600),
            "it goes on from there"
        );
    }
}
