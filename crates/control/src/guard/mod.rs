//! [`Guard`]: keeps memory available by reclaiming from chosen groups.
//!
//! It takes one step when it is asked to, and never sleeps for longer than that takes: who has the clock and the
//! signals decides when the next one is.

mod event;
mod means;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachewise_kstat::{Cgroup, CgroupFiles, ErrorKind, Hierarchy, Kernel, Resource};
use cachewise_units::Bytes;
use serde::Serialize;

use crate::{Error, Journal, Restored};

pub use event::{Action, Event};
pub use means::Means;

/// What is kept above the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// `MemAvailable`: what can be had without swapping. Clean page cache counts, so dropping that changes nothing.
    Available,
    /// `MemFree`: what nobody uses, not even as cache.
    Free,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Available => "available",
            Self::Free => "free",
        })
    }
}

/// What a guard is to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is kept.
    pub kept: Kept,
    /// Below this, memory is reclaimed,
    pub mark: Bytes,
    /// until there is so much.
    pub target: Bytes,
    /// At most so much of a group at a time.
    pub step: Bytes,
    /// A group that has no more than this is left alone.
    pub leave: Bytes,
    /// More of the time than this nobody may wait for memory while little comes of it, 0 to 1.
    pub most_stall: f64,
    /// By what memory is reclaimed; the best that there is, if it is not said.
    pub means: Option<Means>,
    /// Nothing is written.
    pub dry_run: bool,
}

/// A group, and what can be done to it.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The group.
    pub group: Cgroup,
    /// By what its memory is reclaimed.
    pub means: Means,
}

/// Keeps memory available. Limits that it has set are put back when it is dropped.
#[derive(Debug)]
pub struct Guard {
    kernel: Kernel,
    hierarchy: Hierarchy,
    options: Options,
    watched: Vec<Watched>,
    journal: Journal,
    /// How long it waits when reclaim does not help; longer each time.
    patience: Duration,
    resting_until: Option<Instant>,
    /// Since when there has been enough.
    enough_since: Option<Instant>,
}

const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// Limits stay for so long after there is enough, or they would go up and down.
const HOLD: Duration = Duration::from_secs(10);
/// Less than one part in so many of what was wanted is nothing.
const LITTLE: u64 = 8;

impl Guard {
    /// Looks at what can be done to the groups.
    ///
    /// # Errors
    /// [`Error::Invalid`] for marks that cannot be, [`Error::Unsupported`] for a group to which nothing can be done,
    /// with the reason.
    pub fn new(
        kernel: &Kernel,
        groups: Vec<Cgroup>,
        options: Options,
        journal: Journal,
    ) -> Result<Self, Error> {
        let hierarchy = kernel.cgroup_hierarchy()?;
        let total = kernel.meminfo()?.total;
        let wrong = |what: String, problem: String| Err(Error::Invalid { what, problem });
        if options.mark > options.target {
            let what = format!("the target of {}", options.target);
            return wrong(what, format!("it is below the mark of {}", options.mark));
        }
        if options.target >= total {
            let what = format!("{} of {} memory", options.target, options.kept);
            return wrong(what, format!("the machine has {total} in all"));
        }
        if options.step.is_zero() || options.mark.is_zero() {
            let what = "a mark or a step of 0".to_owned();
            return wrong(what, "nothing would ever be done".to_owned());
        }
        if groups.is_empty() {
            let problem =
                "name one from which memory may be taken, such as system.slice".to_owned();
            return wrong("no control group".to_owned(), problem);
        }
        let watched = groups
            .into_iter()
            .map(|group| {
                let means = Means::of(&hierarchy, &group, &options)?;
                Ok(Watched { group, means })
            })
            .collect::<Result<_, Error>>()?;
        let guard = Self {
            kernel: kernel.clone(),
            hierarchy,
            options,
            watched,
            journal,
            patience: SHORTEST_REST,
            resting_until: None,
            enough_since: None,
        };
        guard.kept()?;
        Ok(guard)
    }

    /// Returns the groups that it may take memory from, and by what.
    #[must_use]
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// Returns how much there is of what is kept.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel does not tell.
    pub fn kept(&self) -> Result<Bytes, Error> {
        let memory = self.kernel.meminfo()?;
        match self.options.kept {
            Kept::Free => Ok(memory.free),
            Kept::Available => memory.available.ok_or_else(|| Error::Unsupported {
                what: "keep memory available".to_owned(),
                reason: "this kernel has no MemAvailable (Linux 3.14); keep free memory instead"
                    .to_owned(),
            }),
        }
    }

    /// Returns how long nothing can happen that needs a step: the more there is above the mark, the longer.
    ///
    /// # Errors
    /// As [`Guard::kept`].
    pub fn pause(&self) -> Result<Duration, Error> {
        const SHORTEST: Duration = Duration::from_millis(100);
        const LONGEST: Duration = Duration::from_secs(3);
        /// Nothing takes memory faster than this in a second.
        const FASTEST: f64 = 4e9;
        if let Some(until) = self.resting_until {
            return Ok(until
                .saturating_duration_since(Instant::now())
                .clamp(SHORTEST, LONGEST));
        }
        let spare = self.kept()?.saturating_sub(self.options.mark);
        Ok(Duration::from_secs_f64(spare.0 as f64 / FASTEST).clamp(SHORTEST, LONGEST))
    }

    /// Looks how much there is, and does what has to be done once. `cancel` ends it early.
    ///
    /// # Errors
    /// What reading and writing say. A group that is gone is no error, unless it was the last.
    pub fn step(&mut self, cancel: &AtomicBool) -> Result<Vec<Event>, Error> {
        let kept = self.kept()?;
        if kept >= self.options.mark {
            return self.rest(kept);
        }
        self.enough_since = None;
        if self
            .resting_until
            .is_some_and(|until| Instant::now() < until)
        {
            return Ok(Vec::new());
        }
        self.resting_until = None;
        self.take(kept, cancel)
    }

    /// There is enough: limits that have held for long enough go.
    fn rest(&mut self, kept: Bytes) -> Result<Vec<Event>, Error> {
        self.resting_until = None;
        if kept < self.options.target {
            self.enough_since = None;
            return Ok(Vec::new());
        }
        self.patience = SHORTEST_REST;
        if self.enough_since.get_or_insert_with(Instant::now).elapsed() < HOLD {
            return Ok(Vec::new());
        }
        let restored = self.journal.restore()?;
        self.told(restored)
    }

    fn take(&mut self, kept: Bytes, cancel: &AtomicBool) -> Result<Vec<Event>, Error> {
        let wanted = self
            .options
            .target
            .saturating_sub(kept)
            .min(self.options.step);
        let mut events = Vec::new();
        if self.options.kept == Kept::Available && self.kernel.meminfo()?.swap_free.is_zero() {
            // What could be taken is clean cache, which is available already: it would be dropped for nothing.
            let reason = "there is no free swap, so only page cache could be dropped, which counts as available \
                          already: add swap, or keep memory that is not even cache (`--of free`)"
                .to_owned();
            events.push(self.back_off(reason)?);
            return Ok(events);
        }
        let Some((watched, spare)) = self.richest(&mut events)? else {
            let reason = format!(
                "no group has more than the {} that it is left",
                self.options.leave
            );
            events.push(self.back_off(reason)?);
            return Ok(events);
        };
        if let Some((path, value)) = watched.foreign(&self.journal)? {
            self.leave_out(&watched, "has a limit of somebody else's now")?;
            events.push(self.event(Action::Left { path, value })?);
            return Ok(events);
        }
        let wanted = wanted.min(spare);
        let (cgroup, means) = (watched.group.name.clone(), watched.means);
        if self.options.dry_run {
            let wanted_bytes = wanted.0;
            events.push(self.event(Action::WouldReclaim {
                cgroup,
                means,
                wanted_bytes,
            })?);
            // Nothing came of it, so it would be said again at once.
            self.resting_until = Some(Instant::now() + SHORTEST_REST);
            return Ok(events);
        }
        let (began, waited) = (Instant::now(), self.waited()?);
        let enough = Bytes(kept.0.saturating_add(wanted.0));
        let (kernel, options) = (&self.kernel, self.options);
        let is_over = || {
            let memory = kernel.meminfo();
            let now = memory.ok().and_then(|memory| match options.kept {
                Kept::Free => Some(memory.free),
                Kept::Available => memory.available,
            });
            // Who cannot know any more stops.
            now.is_none_or(|now| now >= enough) || cancel.load(Ordering::Acquire)
        };
        let reclaimed = watched.take(&self.hierarchy, wanted, &mut self.journal, &is_over);
        let reclaimed = match reclaimed {
            Ok(reclaimed) => reclaimed,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                events.push(self.gone(&watched)?);
                return Ok(events);
            }
            Err(error) => return Err(error),
        };
        let gained = self.kept()?.saturating_sub(kept);
        let stall = match (waited, self.waited()?) {
            (Some(before), Some(after)) => {
                let elapsed = began.elapsed().as_secs_f64().max(1e-6);
                Some((after.saturating_sub(before).as_secs_f64() / elapsed).min(1.0))
            }
            _ => None,
        };
        events.push(self.event(Action::Reclaimed {
            cgroup,
            means,
            wanted_bytes: wanted.0,
            reclaimed_bytes: reclaimed.0,
            gained_bytes: gained.0,
            stall_ratio: stall,
        })?);
        if means == Means::SoftLimit {
            let reason =
                "a soft limit is heeded when the whole machine runs out of memory, not before"
                    .to_owned();
            events.push(self.back_off(reason)?);
            return Ok(events);
        }
        match self.is_vain(wanted, reclaimed, gained, stall) {
            Some(reason) => events.push(self.back_off(reason)?),
            None => self.patience = SHORTEST_REST,
        }
        Ok(events)
    }

    /// Why more of the same would do harm or nothing; `None` where it helps.
    fn is_vain(
        &self,
        wanted: Bytes,
        reclaimed: Bytes,
        gained: Bytes,
        stall: Option<f64>,
    ) -> Option<String> {
        if stall.is_some_and(|stall| stall > self.options.most_stall) && gained.0 < wanted.0 / 2 {
            return Some(format!(
                "others waited for memory for {:.0} % of the time, and only {gained} of {wanted} came of it: what is \
                 taken is read in again at once",
                stall.unwrap_or_default() * 100.0
            ));
        }
        if reclaimed.0 < wanted.0 / LITTLE {
            return Some(format!(
                "only {reclaimed} of {wanted} could be taken: the rest is in use, locked, or has no swap to go to"
            ));
        }
        if gained.0 < wanted.0 / LITTLE {
            return Some(match self.options.kept {
                Kept::Available => format!(
                    "taking {reclaimed} made only {gained} more available: clean page cache counts as available \
                     already (`--of free` keeps memory that is not even cache)"
                ),
                Kept::Free => format!(
                    "taking {reclaimed} made only {gained} more free: others took it at once"
                ),
            });
        }
        None
    }

    /// The group that has most to give, and how much that is; those that are gone are left out from now on.
    fn richest(&mut self, events: &mut Vec<Event>) -> Result<Option<(Watched, Bytes)>, Error> {
        let mut best: Option<(Watched, Bytes)> = None;
        for watched in self.watched.clone() {
            let used = CgroupFiles::once(&watched.group.path).memory_used(&self.hierarchy)?;
            let Some(used) = used else {
                events.push(self.gone(&watched)?);
                continue;
            };
            let spare = used.saturating_sub(self.options.leave);
            if !spare.is_zero() && best.as_ref().is_none_or(|(_, most)| spare > *most) {
                best = Some((watched, spare));
            }
        }
        Ok(best)
    }

    fn gone(&mut self, watched: &Watched) -> Result<Event, Error> {
        self.leave_out(watched, "is gone")?;
        let cgroup = watched.group.name.clone();
        self.event(Action::Gone { cgroup })
    }

    /// Asks this group for nothing any more.
    fn leave_out(&mut self, watched: &Watched, why: &str) -> Result<(), Error> {
        self.watched
            .retain(|other| other.group.path != watched.group.path);
        match self.watched.is_empty() {
            true => Err(Error::Invalid {
                what: watched.group.name.clone(),
                problem: format!(
                    "the last of the control groups {why}: there is nothing left to take memory from"
                ),
            }),
            false => Ok(()),
        }
    }

    fn back_off(&mut self, reason: String) -> Result<Event, Error> {
        let rest = self.patience;
        self.resting_until = Some(Instant::now() + rest);
        self.patience = (rest * 2).min(LONGEST_REST);
        self.event(Action::BackedOff {
            seconds: rest.as_secs_f64(),
            reason,
        })
    }

    fn waited(&self) -> Result<Option<Duration>, Error> {
        let pressure = self.kernel.pressure(Resource::Memory)?;
        Ok(pressure
            .and_then(|pressure| pressure.some)
            .map(|some| some.total))
    }

    fn event(&self, action: Action) -> Result<Event, Error> {
        Ok(Event {
            action,
            kept: self.options.kept,
            kept_bytes: self.kept()?.0,
            mark_bytes: self.options.mark.0,
        })
    }

    fn told(&self, restored: Restored) -> Result<Vec<Event>, Error> {
        let text = |path: &std::path::Path| path.display().to_string();
        let released = restored.restored.into_iter().map(|entry| Action::Released {
            path: text(&entry.path),
            value: entry.before,
        });
        let left = restored
            .left
            .into_iter()
            .map(|(entry, value)| Action::Left {
                path: text(&entry.path),
                value,
            });
        let events = released
            .chain(left)
            .map(|action| self.event(action))
            .collect();
        match restored.failed.into_iter().next() {
            Some((_, error)) => Err(error),
            None => events,
        }
    }

    /// Puts every limit back that it has set, and says so.
    ///
    /// # Errors
    /// The first that could not be put back; it stays in the state file.
    pub fn end(mut self) -> Result<Vec<Event>, Error> {
        let restored = self.journal.restore()?;
        self.told(restored)
    }
}
