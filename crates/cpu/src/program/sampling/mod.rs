//! Sampling of events by instruction address: every N events the kernel records the address.
//!
//! Cache misses need hardware counters; page faults and CPU time come from the kernel, in the same records. An address
//! becomes a source line by the mappings of its process at that time, so libraries, relocated programs, child processes
//! and programs started by exec(3) are distinguished. If the mapping is unknown (generated code, deleted files) the
//! location is unknown and is counted as unknown.
//!
//! # Layout
//! - `event`: the events; `open`: opening one on each CPU, with the least possible skid
//! - `record`: records of the kernel; `collect`: emptying its buffers meanwhile, and adding up
//! - `space`: mappings of processes; `object`: the mapped files, and their lines
//! - this file: beginning, end and result
//!
//! # Kernel
//! 4.1 and later: earlier kernels do not report the size of the ring buffer. From 5.12 on files are identified by build ID,
//! before by inode; from 6.0 on the kernel counts lost records.

mod collect;
mod event;
mod object;
mod open;
mod record;
mod space;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

pub use event::{EVENTS, Event, Unit};
pub use open::Skid;

use super::NoCounter;
use super::source::{Cost, CostLocation, ranked};
use crate::mapping::{Mapping, mappings_of};
use crate::{CpuList, Error};
use collect::{Collected, collect};
use object::Code;
use open::{Opened, Whose};
use space::Spaces;

/// Samples, and how many events they stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many samples.
    pub samples: u64,
    /// In the unit of the event.
    pub events: u64,
}

impl Tally {
    const fn from_samples(samples: u64, period: u64) -> Tally {
        let events = samples.saturating_mul(period);
        Tally { samples, events }
    }
}

impl Cost for Tally {
    fn add(&mut self, other: &Tally) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
    }

    fn weight(&self) -> u64 {
        self.events
    }
}

/// Sampling in progress.
#[derive(Debug)]
pub struct Sampling {
    event: &'static Event,
    period: u64,
    skid: Skid,
    left_out: usize,
    without: CpuList,
    unmapped: Option<String>,
    /// Written to, it ends.
    stop: Arc<OwnedFd>,
    collector: Option<JoinHandle<Collected>>,
}

impl Sampling {
    /// Samples the programs that this thread starts next, from when they are executed, and what they start.
    ///
    /// # Errors
    /// If the event cannot be had here.
    pub fn of_children(event: &'static Event, period: Option<u64>) -> Result<Sampling, NoCounter> {
        Sampling::start(event, period, &Whose::Children, || {
            (Spaces::default(), None)
        })
    }

    /// Samples these threads of a process from now on, and what they start.
    ///
    /// # Errors
    /// If the event cannot be had here, or of this process.
    pub fn of_process(
        event: &'static Event,
        period: Option<u64>,
        pid: u32,
        threads: Vec<u32>,
    ) -> Result<Sampling, NoCounter> {
        let count = threads.len();
        let ids = threads.clone();
        Sampling::start(event, period, &Whose::Threads(threads), || {
            // After sampling has begun: a file that is mapped meanwhile is listed twice instead of missed.
            let mut spaces = Spaces::default();
            let (mapped, why) = match mappings_of_any(pid, &ids) {
                Ok(mapped) => (mapped, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            spaces.running(pid, &mapped, count);
            (spaces, why)
        })
    }

    fn start(
        event: &'static Event,
        period: Option<u64>,
        whose: &Whose,
        spaces: impl FnOnce() -> (Spaces, Option<String>),
    ) -> Result<Sampling, NoCounter> {
        let period = period.unwrap_or(event.period).max(event.shortest);
        let Opened {
            rings,
            others,
            skid,
            counts_lost,
            left_out,
            without,
        } = open::open(event, period, whose)?;
        let (spaces, unmapped) = spaces();
        let failed = |errno: rustix::io::Errno| NoCounter::Failed(errno.raw_os_error());
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?);
        let ending = Arc::clone(&stop);
        let collect = move || collect(rings, others, counts_lost, spaces, &ending);
        let collector = cachewise_sys::start_thread("samples", collect)?;
        Ok(Sampling {
            event,
            period,
            skid,
            left_out,
            without,
            unmapped,
            stop,
            collector: Some(collector),
        })
    }

    fn end(&mut self) -> Option<std::thread::Result<Collected>> {
        let collector = self.collector.take()?;
        // A counter of eight bytes takes them.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        Some(collector.join())
    }

    /// Ends it.
    #[must_use]
    pub fn finish(mut self) -> Samples {
        let collected = match self.end() {
            Some(Ok(collected)) => collected,
            // A mistake of ours: "no samples" would be another one.
            Some(Err(panicked)) => std::panic::resume_unwind(panicked),
            None => Collected::default(),
        };
        let taken = collected
            .sites
            .values()
            .fold(collected.beyond, |sum, samples| {
                sum.saturating_add(*samples)
            });
        Samples {
            event: self.event,
            period: self.period,
            skid: self.skid,
            left_out: self.left_out,
            without: std::mem::take(&mut self.without),
            unmapped: self.unmapped.take(),
            taken: Tally::from_samples(taken, self.period),
            collected,
        }
    }
}

/// Mappings of a process, read from its first thread, or from another thread if that has ended, as it then has none.
fn mappings_of_any(pid: u32, threads: &[u32]) -> Result<Vec<Mapping>, Error> {
    let mapped = mappings_of(pid)?;
    if !mapped.is_empty() {
        return Ok(mapped);
    }
    let others = threads.iter().map(|thread| mappings_of(*thread));
    let found = others.flatten().find(|mapped| !mapped.is_empty());
    Ok(found.unwrap_or_default())
}

impl Drop for Sampling {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Samples of a program.
#[derive(Debug)]
pub struct Samples {
    /// The sampled event.
    pub event: &'static Event,
    /// Events per sample.
    pub period: u64,
    /// How far addresses may be from where it happened.
    pub skid: Skid,
    /// Threads that were not sampled, as this process may not open more files.
    pub left_out: usize,
    /// CPUs that have no such counter: what ran there was not sampled.
    pub without: CpuList,
    /// Why it is not known what the process had mapped before; nothing if it is.
    pub unmapped: Option<String>,
    /// All samples together.
    pub taken: Tally,
    collected: Collected,
}

impl Samples {
    /// How many events there were by the counter, whether sampled or not; nothing if it cannot be read.
    #[must_use]
    pub const fn happened(&self) -> Option<u64> {
        self.collected.happened
    }

    /// Records that were lost, as the buffers were full: samples, mostly.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.collected.lost
    }

    /// How often the kernel stopped sampling for a while, as it took too much time.
    #[must_use]
    pub const fn throttled(&self) -> u64 {
        self.collected.throttled
    }

    /// Records that are not understood.
    #[must_use]
    pub const fn garbled(&self) -> u64 {
        self.collected.garbled
    }

    /// Samples in locations beyond the maximum number of distinct locations.
    #[must_use]
    pub const fn beyond(&self) -> Tally {
        Tally::from_samples(self.collected.beyond, self.period)
    }

    /// The part of the time in which the counter had a place in the hardware, 0 to 1.
    #[must_use]
    pub const fn counted_ratio(&self) -> Option<f64> {
        self.collected.counted_ratio
    }

    /// The locations with the most events, most events first: by line, else by function, else by file. Samples without a
    /// location are summed up as `?`.
    ///
    /// # Cost
    /// Reads the debug information of each file that a sample is in.
    #[must_use]
    pub fn hottest(&self, most: usize) -> Vec<CostLocation<Tally>> {
        let objects = &self.collected.spaces.objects;
        let mut code: HashMap<usize, (String, Option<Code>)> = HashMap::new();
        let named = self
            .collected
            .sites
            .iter()
            .map(|((object, offset), samples)| {
                let tally = Tally::from_samples(*samples, self.period);
                let Some(object) = object else {
                    return ((None, None, "?".to_owned()), tally);
                };
                let (name, code) = code
                    .entry(*object)
                    .or_insert_with(|| (objects.name(*object), objects.code(*object)));
                let place = code.as_ref().map(|code| code.place(*offset));
                let (function, line) = place.unwrap_or_default();
                ((function, line, name.clone()), tally)
            });
        ranked(named, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_from_any_thread() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        // One that has ended has nothing mapped, and is there until it is waited for.
        let is_empty = |_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            mappings_of(ended).is_ok_and(|mapped| mapped.is_empty())
        };
        let has_ended = (0..1000).any(is_empty);
        let none = mappings_of_any(ended, &[ended]);
        let other = mappings_of_any(ended, &[ended, std::process::id()]);
        child.wait().unwrap();
        assert!(has_ended, "`true` ends");
        assert_eq!(none.ok(), Some(Vec::new()), "nobody has any");
        assert!(
            other.is_ok_and(|mapped| mapped.iter().any(|one| one.is_code)),
            "the other has"
        );
        assert!(mappings_of_any(ended, &[]).is_err(), "it is gone");
    }
}
