//! [`Contention`]: load of other programs during a measurement.

use std::time::Instant;

use cachewise_kstat::{Kernel, Resource};
use serde::{Deserialize, Serialize};

/// Load of other programs. `None` is a value that this kernel does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// Tasks that ran or waited for a disk, averaged over the minute before.
    pub load: Option<f64>,
    /// Share of the time in which a task waited for a CPU.
    pub cpu_wait_ratio: Option<f64>,
    /// Share of CPU time that the hypervisor gave to other guests.
    pub steal_ratio: Option<f64>,
}

/// The start of a run.
#[derive(Debug)]
pub(crate) struct Begun {
    at: Instant,
    load: Option<f64>,
    waited: Option<f64>,
    ticks: Option<(u64, u64)>,
}

/// Above this, figures in time mean little.
const MUCH: f64 = 0.2;
const MUCH_STEAL: f64 = 0.05;

impl Begun {
    pub(crate) fn now(kernel: &Kernel) -> Begun {
        Begun {
            at: Instant::now(),
            load: load(kernel),
            waited: waited(kernel),
            ticks: ticks(kernel),
        }
    }

    pub(crate) fn end(self, kernel: &Kernel) -> Contention {
        let elapsed = self.at.elapsed().as_secs_f64().max(1e-3);
        let waited = self.waited.zip(waited(kernel));
        let ticks = self.ticks.zip(ticks(kernel));
        Contention {
            load: self.load,
            cpu_wait_ratio: waited
                .map(|(before, after)| ((after - before) / elapsed).clamp(0.0, 1.0)),
            steal_ratio: ticks.and_then(|((stolen, all), (stolen_now, all_now))| {
                let passed = all_now.checked_sub(all).filter(|passed| *passed > 0)?;
                Some(stolen_now.saturating_sub(stolen) as f64 / passed as f64)
            }),
        }
    }
}

impl Contention {
    /// The reason why figures in time mean little, if they do.
    #[must_use]
    pub fn warning(&self, processors: usize) -> Option<String> {
        let load = self.load.filter(|load| *load > processors as f64);
        let wait = self.cpu_wait_ratio.filter(|ratio| *ratio > MUCH);
        let steal = self.steal_ratio.filter(|ratio| *ratio > MUCH_STEAL);
        let reasons: Vec<String> = [
            load.map(|load| format!("a load of {load:.1} on {processors} processors")),
            wait.map(|ratio| {
                format!(
                    "tasks waited for a processor {:.0} % of the time",
                    ratio * 100.0
                )
            }),
            steal.map(|ratio| {
                format!(
                    "{:.0} % of the time stolen by the hypervisor",
                    ratio * 100.0
                )
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }
}

fn load(kernel: &Kernel) -> Option<f64> {
    let text = std::fs::read_to_string(kernel.proc("loadavg")).ok()?;
    text.split(' ').next()?.parse().ok()
}

fn waited(kernel: &Kernel) -> Option<f64> {
    let pressure = kernel.pressure(Resource::Cpu).ok()??;
    Some(pressure.some?.total.as_secs_f64())
}

/// Stolen and total CPU time.
fn ticks(kernel: &Kernel) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(kernel.proc("stat")).ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    // Guest time, after the eighth, is already part of user time.
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .take(8)
        .map_while(|tick| tick.parse().ok())
        .collect();
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_appears_only_above_the_thresholds() {
        let quiet = Contention {
            load: Some(1.9),
            cpu_wait_ratio: Some(0.1),
            steal_ratio: Some(0.0),
        };
        assert_eq!(quiet.warning(2), None, "one of two processors is free");
        assert_eq!(Contention::default().warning(2), None, "nothing is known");
        let busy = Contention {
            load: Some(9.0),
            ..quiet
        };
        assert_eq!(
            busy.warning(2).as_deref(),
            Some("a load of 9.0 on 2 processors"),
            "why"
        );
        let stolen = Contention {
            steal_ratio: Some(0.3),
            ..quiet
        };
        assert!(
            stolen
                .warning(2)
                .unwrap()
                .contains("30 % of the time stolen"),
            "why"
        );
        let machine = Begun::now(&Kernel::new()).end(&Kernel::new());
        assert!(
            machine.load.is_some(),
            "every kernel reports it: {machine:?}"
        );
    }
}
