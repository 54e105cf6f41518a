//! A running measurement: threads, intervals, the end.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cachewise_units::Bytes;
use quanta::Clock;

use super::event::Event;
use super::thread::{failed, thread_work};
use crate::bloat::Bloater;
use crate::counters::{Counted, Counters};
use crate::engine::Map;
use crate::tally::Tally;
use crate::target::Target;
use crate::work::Shared;
use crate::{Engine, Error, Figures, HitSource, Workload};

/// Interval of checks for cancellation.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Interval of progress events.
const TICK: Duration = Duration::from_millis(200);

/// A running measurement.
pub(super) struct Measurement<'a> {
    pub(super) workload: &'a Workload,
    pub(super) hit_source: HitSource,
    pub(super) counters: &'a Counters<'a>,
    pub(super) watch: &'a mut dyn FnMut(&Event<'_>),
    pub(super) cancel: &'a AtomicBool,
    pub(super) bloater: &'a mut Option<Bloater>,
}

/// Outcome of a wait.
enum Waited {
    /// The time is up.
    Time,
    /// All threads have ended.
    Done,
    /// The caller cancelled.
    Cancelled,
}

impl Measurement<'_> {
    /// Runs the threads; returns the results, and whether they were interrupted.
    pub(super) fn measured(mut self, target: &Target) -> Result<(Figures, bool), Error> {
        let workload = self.workload;
        let fail = |source: io::Error| failed(workload, source);
        let map = match workload.engine.is_mapped() {
            true => Some(Map::new(target.fd(), target.size.0, workload.advice).map_err(fail)?),
            false => None,
        };
        // Calibrating the clock takes a while: keep it out of the measurement.
        let clock = (!workload.no_latency).then(Clock::new);
        let shared = Shared::new();
        let slots: Vec<Mutex<Tally>> =
            std::iter::repeat_with(|| Mutex::new(Tally::new(!workload.no_latency)))
                .take(workload.threads)
                .collect();
        let (ended, ends) = channel();
        std::thread::scope(|scope| {
            // In every case, threads end before the scope.
            let _stop = StopOnDrop(&shared.stop);
            for (thread, slot) in slots.iter().enumerate() {
                let (ended, map, clock, shared) =
                    (ended.clone(), map.as_ref(), clock.as_ref(), &shared);
                let work = move || {
                    let result = thread_work(workload, target, map, thread, slot, shared, clock);
                    shared.ready.fetch_add(1, Ordering::Release);
                    // The receiver is gone only after another thread's failure.
                    let _ = ended.send(result);
                };
                let name = format!("bench-{thread}");
                cachewise_sys::start_thread_in(scope, &name, work).map_err(fail)?;
            }
            drop(ended);
            self.course(&shared, &slots, &ends)
        })
    }

    fn course(
        &mut self,
        shared: &Shared,
        slots: &[Mutex<Tally>],
        ends: &Receiver<io::Result<()>>,
    ) -> Result<(Figures, bool), Error> {
        let workload = self.workload;
        let mut total = Tally::new(!workload.no_latency);
        if !workload.warm_up.is_zero() {
            let began = shared.begin(slots, None, Instant::now);
            match self.wait(ends, began + workload.warm_up, None, 0)? {
                Waited::Time => {}
                Waited::Done | Waited::Cancelled => return Err(Error::Interrupted),
            }
        }
        if let Some(bloater) = self.bloater.as_mut() {
            bloater.begin();
        }
        let bytes = workload.bytes.map(|bytes| bytes.0);
        let look = || (self.counters.look_first(), Instant::now());
        let (first, began) = shared.begin(slots, bytes, look);
        let first = first?;
        (self.watch)(&Event::Started);
        let end = workload.seconds.map(|time| began + time);
        let (mut last, mut last_at) = (first.clone(), began);
        let mut interrupted = false;
        loop {
            let tick = last_at + workload.interval;
            let until = end.map_or(tick, |end| end.min(tick));
            let waited = self.wait(ends, until, Some((began, shared, slots)), total.bytes)?;
            let is_last = match waited {
                Waited::Time => end.is_some_and(|end| end <= until),
                Waited::Done => true,
                Waited::Cancelled => {
                    interrupted = true;
                    true
                }
            };
            if is_last {
                shared.stop.store(true, Ordering::Relaxed);
                // Running operations belong to the measurement: wait for them.
                while let Ok(result) = ends.recv() {
                    result.map_err(|source| failed(workload, source))?;
                }
            }
            let mut part = Tally::new(!workload.no_latency);
            shared.take(slots, &mut part);
            let (now, now_at) = (self.counters.look()?, Instant::now());
            let figures = self.figures(&now, &last, now_at - last_at, &part);
            total.take(&mut part);
            // An end just after an interval's end is no interval of its own.
            if figures.operations > 0 || !is_last {
                (self.watch)(&Event::Interval {
                    figures: &figures,
                    bytes: Bytes(total.bytes),
                    elapsed: now_at - began,
                });
            }
            if is_last {
                return Ok((
                    self.figures(&now, &first, now_at - began, &total),
                    interrupted,
                ));
            }
            (last, last_at) = (now, now_at);
        }
    }

    fn figures(&self, now: &Counted, then: &Counted, time: Duration, tally: &Tally) -> Figures {
        let bloat = self.bloater.as_ref().map(Bloater::has);
        now.since(then, time, tally, self.hit_source, bloat)
    }

    /// Waits until then, or until an earlier event.
    fn wait(
        &mut self,
        ends: &Receiver<io::Result<()>>,
        until: Instant,
        measured: Option<(Instant, &Shared, &[Mutex<Tally>])>,
        bytes: u64,
    ) -> Result<Waited, Error> {
        let mut ticked = Instant::now();
        loop {
            let now = Instant::now();
            if now >= until {
                return Ok(Waited::Time);
            }
            match ends.recv_timeout(CHECK_INTERVAL.min(until - now)) {
                Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(source)) => return Err(failed(self.workload, source)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Waited::Done),
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(Waited::Cancelled);
            }
            let mut so_far = bytes;
            let is_due = ticked.elapsed() >= TICK;
            let asks = self.bloater.is_some() || is_due;
            if let (true, Some((began, shared, _))) = (asks, measured) {
                // From the remaining bytes, which needs no thread's attention.
                if let (Some(all), left) =
                    (self.workload.bytes, shared.left.load(Ordering::Relaxed))
                {
                    so_far = so_far.max(all.0.saturating_sub(left.max(0).cast_unsigned()));
                }
                if let Some(bloater) = self.bloater.as_mut() {
                    bloater.ask(so_far);
                    bloater.is_alive();
                }
                if is_due {
                    ticked = now;
                    (self.watch)(&Event::Tick {
                        elapsed: began.elapsed(),
                        bytes: Bytes(so_far),
                    });
                }
            }
        }
    }
}

/// Tells threads to stop on drop.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn hit_source(workload: &Workload, target: &Target) -> HitSource {
    match workload.engine {
        Engine::Nowait | Engine::IoUring if target.is_told => HitSource::Exact,
        Engine::Nowait | Engine::IoUring => HitSource::Nowait,
        // Without latencies, an operation with several faults counts as several.
        Engine::MmapCopy | Engine::MmapTouch
            if !workload.no_latency
                || !workload.unaligned && workload.chunk.0 <= cachewise_sys::page_size().get() =>
        {
            HitSource::Faults
        }
        Engine::Pread if !workload.no_latency => HitSource::Device,
        _ => HitSource::None,
    }
}
