//! CPU time of the work and of other programs.

use std::fs;
use std::time::{Duration, Instant};

use cachewise_sys::children_usage;
use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// Owner of the CPU time of a block.
#[derive(Clone, Copy)]
pub enum Clock {
    Thread,
    Children,
}

impl Clock {
    pub fn now(self) -> Duration {
        match self {
            Clock::Thread => {
                let time = clock_gettime(ClockId::ThreadCPUTime);
                Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
            }
            Clock::Children => {
                let usage = children_usage();
                usage.user + usage.system
            }
        }
    }
}

pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// CPU time so far.
pub struct Machine {
    at: Instant,
    busy: Duration,
    stolen: Duration,
    own: Duration,
}

impl Machine {
    pub fn now() -> Outcome<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let ticks: Vec<u64> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(1)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let &[user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks.as_slice()
        else {
            return Err("/proc/stat has fewer columns than it should".into());
        };
        let time = |ticks: u64| {
            Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        };
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Machine {
            at: Instant::now(),
            busy: time(user + nice + system + irq + softirq),
            stolen: time(stolen),
            own: Duration::new(own.tv_sec.unsigned_abs(), own.tv_nsec as u32)
                + Clock::Children.now(),
        })
    }

    /// CPUs that others kept busy, and that the hypervisor gave away.
    pub fn since(&self, before: &Machine) -> (f64, f64) {
        let wall = (self.at - before.at).as_secs_f64();
        let busy = (self.busy - before.busy).as_secs_f64() - (self.own - before.own).as_secs_f64();
        (
            busy.max(0.0) / wall,
            (self.stolen - before.stolen).as_secs_f64() / wall,
        )
    }
}
