//! [`Guard`]: keeps memory available by reclaiming from chosen groups.
//!
//! It makes one step per call and never sleeps longer than a step takes: the caller owns the clock
//! and the signals, and decides when the next step is due.

mod event;
mod kept;
mod means;
mod options;
mod watched;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachewise_kstat::{Cgroup, CgroupFiles, ErrorKind, Hierarchy, Kernel, Resource};
use cachewise_units::Bytes;

use crate::{Error, Journal, Restored};

pub use event::{GuardAction, GuardEvent};
pub use kept::Kept;
pub use means::Means;
pub use options::GuardOptions;
pub use watched::Watched;

/// Keeps memory available. Restores its limits on drop.
#[derive(Debug)]
pub struct Guard {
    kernel: Kernel,
    hierarchy: Hierarchy,
    options: GuardOptions,
    watched: Vec<Watched>,
    journal: Journal,
    /// The current wait after a vain reclaim; doubled each time.
    back_off_time: Duration,
    resting_until: Option<Instant>,
    /// Start of the time above the target.
    enough_since: Option<Instant>,
    /// Groups without means of reclaim: each is reported once.
    refused: HashSet<PathBuf>,
    /// The time that tasks had waited for memory at the last step.
    stalled: Option<(Instant, Duration)>,
}

const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// Time to hold limits above the target, so that they do not oscillate.
const HOLD: Duration = Duration::from_secs(10);
/// A gain below one part in this many of the request counts as nothing.
const LITTLE: u64 = 8;

impl Guard {
    /// Finds the means of each group.
    ///
    /// # Errors
    /// [`Error::Invalid`] for impossible marks, [`Error::Unsupported`] for a group without means,
    /// with the reason.
    pub fn new(
        kernel: &Kernel,
        groups: Vec<Cgroup>,
        options: GuardOptions,
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
            return wrong(what, "guard would never act".to_owned());
        }
        if groups.is_empty() && !options.follows {
            let problem = "name a group to reclaim from, for example system.slice".to_owned();
            return wrong("no control group".to_owned(), problem);
        }
        let watched = groups
            .into_iter()
            .map(|group| Watched::choose(&hierarchy, group, &options))
            .collect::<Result<_, Error>>()?;
        let guard = Self {
            kernel: kernel.clone(),
            hierarchy,
            options,
            watched,
            journal,
            back_off_time: SHORTEST_REST,
            resting_until: None,
            enough_since: None,
            refused: HashSet::new(),
            stalled: None,
        };
        guard.kept()?;
        if options.stall.is_some() && guard.waited()?.is_none() {
            return Err(Error::Unsupported {
                what: "reclaim while tasks wait for memory".to_owned(),
                reason: "this kernel has no /proc/pressure/memory: boot it with psi=1".to_owned(),
            });
        }
        Ok(guard)
    }

    /// Returns the groups with their means of reclaim.
    #[must_use]
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// Takes the groups that are there now: those that have come are watched, those that went are not.
    ///
    /// # Errors
    /// Reading failed; or the last group is gone, unless groups are followed.
    pub fn follow(&mut self, groups: Vec<Cgroup>) -> Result<Vec<GuardEvent>, Error> {
        let mut events = Vec::new();
        self.refused
            .retain(|path| groups.iter().any(|group| group.path == *path));
        for group in groups {
            let is_watched = |watched: &Watched| watched.group.path == group.path;
            if self.watched.iter().any(is_watched) || self.refused.contains(&group.path) {
                continue;
            }
            let (path, cgroup) = (group.path.clone(), group.name.clone());
            match Watched::choose(&self.hierarchy, group, &self.options) {
                Ok(watched) => {
                    let means = watched.means;
                    self.watched.push(watched);
                    events.push(self.event(GuardAction::Joined { cgroup, means })?);
                }
                // It went while it was looked at.
                Err(_) if !path.exists() => {}
                Err(error) => {
                    self.refused.insert(path);
                    let reason = error.to_string();
                    events.push(self.event(GuardAction::Refused { cgroup, reason })?);
                }
            }
        }
        Ok(events)
    }

    /// Leaves out the groups that are gone.
    fn leave_gone(&mut self) -> Result<Vec<GuardEvent>, Error> {
        let is_gone = |watched: &&Watched| !watched.group.path.exists();
        let gone: Vec<Watched> = self.watched.iter().filter(is_gone).cloned().collect();
        gone.iter().map(|watched| self.gone(watched)).collect()
    }

    /// The share of the time since the last step in which tasks waited for memory, if that is too much.
    fn stall(&mut self) -> Result<Option<f64>, Error> {
        /// A shorter time says little.
        const SHORTEST: Duration = Duration::from_millis(100);
        let Some(most) = self.options.stall else {
            return Ok(None);
        };
        let (now, Some(waited)) = (Instant::now(), self.waited()?) else {
            return Ok(None);
        };
        let Some((then, before)) = self.stalled else {
            self.stalled = Some((now, waited));
            return Ok(None);
        };
        let elapsed = now - then;
        if elapsed < SHORTEST {
            return Ok(None);
        }
        self.stalled = Some((now, waited));
        let ratio = waited.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64();
        Ok((ratio > most).then_some(ratio.min(1.0)))
    }

    /// Returns the amount of the kept memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel does not report it.
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

    /// Returns the time until the next step is due: longer the more memory there is above the mark.
    ///
    /// # Errors
    /// As [`Guard::kept`].
    pub fn pause(&self) -> Result<Duration, Error> {
        const SHORTEST: Duration = Duration::from_millis(100);
        let longest = match self.options.stall {
            Some(_) => Duration::from_secs(1),
            None => Duration::from_secs(3),
        };
        /// No load allocates faster than this, in bytes per second.
        const FASTEST: f64 = 4e9;
        if let Some(until) = self.resting_until {
            return Ok(until
                .saturating_duration_since(Instant::now())
                .clamp(SHORTEST, longest));
        }
        let spare = self.kept()?.saturating_sub(self.options.mark);
        Ok(Duration::from_secs_f64(spare.0 as f64 / FASTEST).clamp(SHORTEST, longest))
    }

    /// Reads the amount of memory, and makes one step. `cancel` ends it early.
    ///
    /// # Errors
    /// Reading or writing failed, or the last group is gone.
    pub fn step(&mut self, cancel: &AtomicBool) -> Result<Vec<GuardEvent>, Error> {
        let kept = self.kept()?;
        let mut events = self.leave_gone()?;
        let stall = self.stall()?;
        if kept >= self.options.mark && stall.is_none() {
            events.extend(self.rest(kept)?);
            return Ok(events);
        }
        self.enough_since = None;
        if self
            .resting_until
            .is_some_and(|until| Instant::now() < until)
        {
            return Ok(events);
        }
        self.resting_until = None;
        if let Some(stall_ratio) = stall {
            events.push(self.event(GuardAction::Stalled { stall_ratio })?);
        }
        if !self.watched.is_empty() {
            events.extend(self.take(kept, stall.is_some(), cancel)?);
        }
        Ok(events)
    }

    /// Above the target: restores limits that have held long enough.
    fn rest(&mut self, kept: Bytes) -> Result<Vec<GuardEvent>, Error> {
        self.resting_until = None;
        if kept < self.options.target {
            self.enough_since = None;
            return Ok(Vec::new());
        }
        self.back_off_time = SHORTEST_REST;
        if self.enough_since.get_or_insert_with(Instant::now).elapsed() < HOLD {
            return Ok(Vec::new());
        }
        let restored = self.journal.restore()?;
        self.told(restored)
    }

    /// Reclaims a step; with `is_stalled`, whatever is kept.
    fn take(
        &mut self,
        kept: Bytes,
        is_stalled: bool,
        cancel: &AtomicBool,
    ) -> Result<Vec<GuardEvent>, Error> {
        let wanted = match is_stalled {
            true => self.options.step,
            false => {
                let missing = self.options.target.saturating_sub(kept);
                missing.min(self.options.step)
            }
        };
        let mut events = Vec::new();
        if !is_stalled
            && self.options.kept == Kept::Available
            && self.kernel.meminfo()?.swap_free.is_zero()
        {
            // Only clean cache could be reclaimed, which is available already: dropping it would
            // gain nothing.
            let reason =
                "no free swap, so only page cache could be dropped, which counts as available \
                          already: add swap, or keep memory free of cache too (`--of free`)"
                    .to_owned();
            events.push(self.back_off(reason)?);
            return Ok(events);
        }
        let Some((watched, spare)) = self.richest(&mut events)? else {
            let reason = format!(
                "no group has more than the {} of --leave",
                self.options.leave
            );
            events.push(self.back_off(reason)?);
            return Ok(events);
        };
        if let Some((path, value)) = watched.foreign(&self.journal)? {
            self.leave_out(&watched, "has a limit that another program has set")?;
            events.push(self.event(GuardAction::Left { path, value })?);
            return Ok(events);
        }
        let wanted = wanted.min(spare);
        let (cgroup, means) = (watched.group.name.clone(), watched.means);
        if self.options.dry_run {
            let wanted_bytes = wanted.0;
            events.push(self.event(GuardAction::WouldReclaim {
                cgroup,
                means,
                wanted_bytes,
            })?);
            // A step without gain would repeat at once.
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
            // Without a reading, it stops.
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
        events.push(self.event(GuardAction::Reclaimed {
            cgroup,
            means,
            wanted_bytes: wanted.0,
            reclaimed_bytes: reclaimed.0,
            gained_bytes: gained.0,
            stall_ratio: stall,
        })?);
        if means == Means::SoftLimit {
            let reason = "a soft limit takes effect only when the whole machine runs out of memory"
                .to_owned();
            events.push(self.back_off(reason)?);
            return Ok(events);
        }
        // Tasks that wait have less to evict themselves, whether more is available or not.
        let gained = if is_stalled { reclaimed } else { gained };
        match self.is_vain(wanted, reclaimed, gained, stall) {
            Some(reason) => events.push(self.back_off(reason)?),
            None => self.back_off_time = SHORTEST_REST,
        }
        Ok(events)
    }

    /// Reason why more reclaim would do harm or gain nothing; `None` if it helps.
    fn is_vain(
        &self,
        wanted: Bytes,
        reclaimed: Bytes,
        gained: Bytes,
        stall: Option<f64>,
    ) -> Option<String> {
        if stall.is_some_and(|stall| stall > self.options.most_stall) && gained.0 < wanted.0 / 2 {
            return Some(format!(
                "other tasks waited for memory {:.0} % of the time for a gain of only {gained} of {wanted}: what is \
                 taken is read in again at once",
                stall.unwrap_or_default() * 100.0
            ));
        }
        if reclaimed.0 < wanted.0 / LITTLE {
            return Some(format!(
                "only {reclaimed} of {wanted} could be reclaimed: the rest is in use, locked, or has no swap to go to"
            ));
        }
        if gained.0 < wanted.0 / LITTLE {
            return Some(match self.options.kept {
                Kept::Available => format!(
                    "reclaiming {reclaimed} made only {gained} more available: clean page cache counts as available \
                     already (`--of free` keeps memory free of cache too)"
                ),
                Kept::Free => format!(
                    "reclaiming {reclaimed} made only {gained} more free: other programs allocated it at once"
                ),
            });
        }
        None
    }

    /// The group with most reclaimable memory, and the amount; groups that are gone are left out
    /// from now on.
    fn richest(&mut self, events: &mut Vec<GuardEvent>) -> Result<Option<(Watched, Bytes)>, Error> {
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

    fn gone(&mut self, watched: &Watched) -> Result<GuardEvent, Error> {
        self.leave_out(watched, "is gone")?;
        let cgroup = watched.group.name.clone();
        self.event(GuardAction::Gone { cgroup })
    }

    /// Excludes this group from now on.
    fn leave_out(&mut self, watched: &Watched, why: &str) -> Result<(), Error> {
        self.watched
            .retain(|other| other.group.path != watched.group.path);
        match self.watched.is_empty() && !self.options.follows {
            true => Err(Error::Invalid {
                what: watched.group.name.clone(),
                problem: format!(
                    "the last of the control groups {why}: no group is left to reclaim from"
                ),
            }),
            false => Ok(()),
        }
    }

    fn back_off(&mut self, reason: String) -> Result<GuardEvent, Error> {
        let rest = self.back_off_time;
        self.resting_until = Some(Instant::now() + rest);
        self.back_off_time = (rest * 2).min(LONGEST_REST);
        self.event(GuardAction::BackedOff {
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

    fn event(&self, action: GuardAction) -> Result<GuardEvent, Error> {
        Ok(GuardEvent {
            action,
            kept: self.options.kept,
            kept_bytes: self.kept()?.0,
            mark_bytes: self.options.mark.0,
        })
    }

    fn told(&self, restored: Restored) -> Result<Vec<GuardEvent>, Error> {
        let text = |path: &std::path::Path| path.display().to_string();
        let released = restored
            .restored
            .into_iter()
            .map(|entry| GuardAction::Released {
                path: text(&entry.path),
                value: entry.before,
            });
        let left = restored
            .left
            .into_iter()
            .map(|(entry, value)| GuardAction::Left {
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

    /// Restores every limit that it has set, and returns the events.
    ///
    /// # Errors
    /// The first limit that could not be restored; it stays in the state file.
    pub fn end(mut self) -> Result<Vec<GuardEvent>, Error> {
        let restored = self.journal.restore()?;
        self.told(restored)
    }
}
