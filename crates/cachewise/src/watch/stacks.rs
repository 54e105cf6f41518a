//! Stacks of a probe: a thread that unwinds them while programs run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use cachewise_kstat::Kernel;
use cachewise_model::{Interval, Lost, Stacks as NamedStacks};
use cachewise_probe::{Error, Probe, RingWaiter, StackRecord, Stacks};
use cachewise_stacks::{Collector, Namer};

use super::names::NamingThread;

/// The ring is emptied this often at least. New code wakes the thread at once, and so does a ring that fills up.
const INTERVAL: Duration = Duration::from_millis(20);

/// The ring and what came out of it.
struct Work {
    ring: Stacks,
    collector: Collector,
    records: Vec<StackRecord>,
}

impl Work {
    fn empty(&mut self) -> Result<(), Error> {
        loop {
            self.ring.read(&mut self.records)?;
            for record in &self.records {
                self.collector.take(record);
            }
            if self.records.len() < Stacks::BATCH {
                return Ok(());
            }
        }
    }
}

fn locked(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes stacks from a probe.
pub struct StackWatcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    work: Arc<Mutex<Work>>,
    /// Names the stacks of a watch; a run names its own at its end.
    names: Option<NamingThread>,
}

impl StackWatcher {
    pub fn start(probe: &Probe) -> Result<StackWatcher> {
        let ring = probe.stacks()?;
        let waiter = ring.waiter()?;
        let work = Arc::new(Mutex::new(Work {
            ring,
            collector: Collector::new(Kernel::new()),
            records: Vec::new(),
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&work));
        let thread = cachewise_sys::start_thread("stacks", move || run(&waiter, &shared, &stopped))
            .context("cannot start the thread that unwinds stacks")?;
        Ok(StackWatcher {
            stop,
            thread: Some(thread),
            work,
            names: None,
        })
    }

    /// Ends the thread: for a program that cannot be started while it counts towards a limit on processes. Stacks are
    /// unwound at the end then, and those of processes that have ended are unknown.
    pub fn end_thread(&mut self) {
        let _ = self.join();
    }

    fn join(&mut self) -> Option<Result<()>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Release);
        let ended = thread.join().map_err(|_| ended_early());
        Some(ended.and_then(|result| result.map_err(anyhow::Error::from)))
    }

    /// Enters the stacks that were named since the last call in an interval, and has those named that came since: they are
    /// in the next interval, or with `wait` in this one.
    pub fn fill(&mut self, interval: &mut Interval, probe: &Probe, wait: bool) -> Result<()> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(ended_early());
        }
        let names = self.names.get_or_insert_with(NamingThread::start);
        let named = names.take(wait);
        let mut stacks = taken(interval, named).unwrap_or_default();
        let mut work = locked(&self.work);
        work.empty()?;
        work.collector.take_rest(&probe.stack_rest()?);
        if !names.is_busy() {
            let (unnamed, lost) = work.collector.drain();
            // While the others are named, stacks are taken.
            drop(work);
            let named = names.give(unnamed);
            let named = match named {
                Some(named) => Some(named),
                None => taken(interval, names.take(wait)),
            };
            stacks.append(named.unwrap_or_default());
            note_lost(interval, lost);
        }
        interval.stacks = Some(stacks);
        Ok(())
    }

    /// Takes what has come so far; the probe may be detached then.
    pub fn finish(mut self, probe: &Probe) -> Result<LastStacks> {
        self.join().transpose()?;
        let mut work = locked(&self.work);
        work.empty()?;
        let rest = probe.stack_rest()?;
        work.collector.take_rest(&rest);
        work.collector.take_last(&rest);
        drop(work);
        Ok(LastStacks(self))
    }
}

impl Drop for StackWatcher {
    fn drop(&mut self) {
        // Its error is of no use any more.
        let _ = self.join();
    }
}

/// All stacks of a run, without names of functions.
pub struct LastStacks(StackWatcher);

impl LastStacks {
    /// Names the functions, and enters the stacks in the report.
    pub fn fill(self, interval: &mut Interval) {
        let (unnamed, lost) = locked(&self.0.work).collector.drain();
        interval.stacks = Some(Namer::new(Kernel::new()).name(unnamed));
        note_lost(interval, lost);
    }
}

fn run(waiter: &RingWaiter, work: &Mutex<Work>, stop: &AtomicBool) -> Result<(), Error> {
    while !stop.load(Ordering::Acquire) {
        waiter.wait(INTERVAL);
        locked(work).empty()?;
    }
    Ok(())
}

/// Named stacks; those that a thread took with it are lost.
fn taken(interval: &mut Interval, named: Result<Option<NamedStacks>, u64>) -> Option<NamedStacks> {
    named.unwrap_or_else(|lost| {
        note_lost(interval, lost);
        None
    })
}

fn note_lost(interval: &mut Interval, lost: u64) {
    if lost > 0 {
        Lost::add(&mut interval.lost, &[Lost::new("stacks", lost)]);
    }
}

fn ended_early() -> anyhow::Error {
    anyhow!("the thread that unwinds stacks ended early")
}
