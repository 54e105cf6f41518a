//! A thread that takes accesses from the probe and simulates memories with them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cachewise_curve::{Access, Curve, Estimator, Given, Kind, Policy, Reader};
use cachewise_probe::{AccessKind, Accesses, Error};
use cachewise_units::{Bytes, PageSize, Pages};

use super::budget::Budget;
use super::memory::SimulatedMemory;

/// The ring is emptied this often, or when a quarter of it is full.
const INTERVAL: Duration = Duration::from_millis(10);

/// The memory around is looked at this often: a short program has some too.
const LOOK: Duration = Duration::from_millis(500);

/// If more accesses than this wait, more comes than is simulated in time: 32 MiB. A short program, or one that shares its
/// CPUs with others, is simulated after its end, without a sample.
const MOST_WAITING: usize = 1 << 19;

/// Accesses that are simulated before the ring is emptied and the cost looked at again.
const AT_ONCE: usize = 512;

/// A sample of fewer pages is not made smaller for its cost.
const ENOUGH_PAGES: usize = 4096;

/// A simulation that runs beside the watched processes.
pub struct Simulation {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen>>,
}

/// The result.
pub struct Seen {
    pub curve: Curve,
    /// The policy of eviction that was simulated.
    pub policy: Policy,
    /// Time that was counted.
    pub elapsed: Duration,
    /// Accesses that found the ring full.
    pub lost: u64,
    /// The memory around, as it was at its largest.
    pub room: SimulatedMemory,
    /// Requested sizes that have no room for a page of a file beside the other memory.
    pub too_small: Vec<Bytes>,
    /// The warm-up was not over: all was counted.
    pub is_cold: bool,
}

struct Work {
    accesses: Accesses,
    /// Accesses that were taken from the ring and not yet simulated.
    waiting: VecDeque<cachewise_probe::Access>,
    estimator: Estimator,
    policy: Policy,
    /// Whether the sample stays as large as memory allows, whatever CPU time it takes.
    is_full: bool,
    /// Requested sizes, with the memory that each is of.
    given: Vec<(Given, Bytes)>,
    room: SimulatedMemory,
    page: PageSize,
    began: Instant,
    looked: Instant,
    warm_up: Option<Duration>,
    /// Requested before the start of counting.
    before: u64,
}

impl Simulation {
    /// Starts to simulate the sizes of `memory` and those of the grid; `is_full`: whatever CPU time that takes.
    pub fn start(
        accesses: Accesses,
        mut room: SimulatedMemory,
        memory: &[Bytes],
        warm_up: Option<Duration>,
        policy: Policy,
        is_full: bool,
    ) -> Result<Simulation> {
        let page = cachewise_sys::page_size();
        let mut estimator = Estimator::with_policy(page, Estimator::MAX_PAGES, policy);
        room.refresh();
        let limit = room.limit.as_ref().map(|(bytes, _)| *bytes);
        let given = limit
            .iter()
            .chain(memory)
            .map(|bytes| (estimator.memory(room.cache_in(*bytes, page)), *bytes))
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let now = Instant::now();
        let work = Work {
            accesses,
            waiting: VecDeque::new(),
            estimator,
            policy,
            is_full,
            given,
            room,
            page,
            began: now,
            looked: now,
            warm_up,
            before: 0,
        };
        let stopped = Arc::clone(&stop);
        let thread = cachewise_sys::start_thread("simulate", move || work.run(&stopped))
            .context("cannot start the thread that simulates memories")?;
        Ok(Simulation { stop, thread })
    }

    /// Simulates what has come so far, and ends.
    pub fn finish(self) -> Result<Seen> {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .map_err(|_| anyhow!("the simulation ended early"))?
    }
}

impl Work {
    fn run(mut self, stop: &AtomicBool) -> Result<Seen> {
        let mut batch = Vec::new();
        let mut budget = Budget::begin();
        loop {
            // Asked before the ring is emptied: what came until then is in it.
            let is_last = stop.load(Ordering::Acquire);
            if !is_last && self.waiting.is_empty() {
                self.accesses.wait(INTERVAL);
            }
            self.take(&mut batch)?;
            if self.waiting.len() > MOST_WAITING {
                self.estimator.lower_rate();
                let rate = self.estimator.rate();
                let is_sampled = |access: &cachewise_probe::Access| {
                    let end = access.first + access.pages;
                    (access.first..end).any(|page| rate.has(access.file, page))
                };
                self.waiting.retain(is_sampled);
            }
            self.simulate(AT_ONCE);
            self.spare(&mut budget);
            self.follow_rate()?;
            self.look_at_the_clock()?;
            if is_last {
                while !self.waiting.is_empty() {
                    self.simulate(AT_ONCE);
                    self.spare(&mut budget);
                }
                return self.seen();
            }
        }
    }

    /// Empties the ring.
    fn take(&mut self, batch: &mut Vec<cachewise_probe::Access>) -> Result<(), Error> {
        loop {
            self.accesses.read(batch)?;
            self.waiting.extend(batch.iter().copied());
            if batch.len() < Accesses::BATCH || self.waiting.len() > 2 * MOST_WAITING {
                return Ok(());
            }
        }
    }

    /// Simulates the next accesses, `most` of them at most.
    fn simulate(&mut self, most: usize) {
        let now = most.min(self.waiting.len());
        for access in self.waiting.drain(..now) {
            if let Some(access) = simulated(&access) {
                self.estimator.access(&access);
            }
        }
    }

    /// Makes the sample smaller if it costs too much and is large enough.
    fn spare(&mut self, budget: &mut Budget) {
        if !self.is_full && budget.is_exceeded() && self.estimator.pages() >= ENOUGH_PAGES {
            self.estimator.lower_rate();
            budget.renew();
        }
    }

    /// The kernel samples as the simulation does.
    fn follow_rate(&mut self) -> Result<(), Error> {
        let rate = self.estimator.rate();
        self.accesses.set_sample(rate.threshold(), rate.shift())
    }

    fn look_at_the_clock(&mut self) -> Result<(), Error> {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.fit();
        }
        if self
            .warm_up
            .is_some_and(|time| self.began.elapsed() >= time)
        {
            self.warm_up = None;
            self.simulate(usize::MAX);
            self.began = Instant::now();
            self.before = self.accesses.requested()?.0;
            self.estimator.start();
        }
        Ok(())
    }

    /// Programs may have taken more memory for themselves.
    fn fit(&mut self) {
        self.room.refresh();
        for (given, memory) in &self.given {
            let cache = self.room.cache_in(*memory, self.page);
            self.estimator.resize(*given, Pages(cache.0.max(1)));
        }
    }

    fn seen(mut self) -> Result<Seen> {
        self.fit();
        let given = self.given.iter().map(|(_, memory)| *memory);
        let too_small = given.filter(|memory| self.room.cache_in(*memory, self.page) == Pages(0));
        let too_small = too_small.collect();
        let requested = self.accesses.requested()?.0 - self.before;
        Ok(Seen {
            curve: self.estimator.curve(Some(requested)),
            policy: self.policy,
            elapsed: self.began.elapsed(),
            lost: self.accesses.lost()?,
            room: self.room,
            too_small,
            is_cold: self.warm_up.is_some(),
        })
    }
}

fn simulated(access: &cachewise_probe::Access) -> Option<Access> {
    Some(Access {
        file: access.file,
        first: access.first,
        pages: access.pages,
        kind: match access.kind {
            AccessKind::Read => Kind::Read,
            AccessKind::Fault => Kind::Fault,
            AccessKind::Write => Kind::Write,
            AccessKind::ReadAhead => Kind::ReadAhead,
            AccessKind::Remove => Kind::Remove,
            AccessKind::Resident => Kind::Resident,
            // They were not requested.
            AccessKind::Around => return None,
        },
        reader: access.reader.map(|reader| Reader {
            id: reader.id,
            file_pages: reader.file_pages,
            window: reader.window,
            largest_folio: reader.largest_folio,
            follows: reader.follows,
            continues: reader.continues,
        }),
    })
}
