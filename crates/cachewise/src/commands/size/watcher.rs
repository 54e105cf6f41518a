//! A thread that takes accesses from the probe and simulates memories with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cachewise_curve::{Access, Curve, Estimator, Given, Kind, Policy, Reader};
use cachewise_probe::{AccessKind, Accesses, Error};
use cachewise_units::{Bytes, PageSize, Pages};

use super::room::Room;

/// The ring is emptied this often, or when a quarter of it is full.
const INTERVAL: Duration = Duration::from_millis(50);

/// The memory around is looked at this often: a short program has some too.
const LOOK: Duration = Duration::from_millis(500);

/// This number of full batches in turn fills half of the ring: more comes than is simulated in time.
const TOO_MANY: usize = 8;

/// A simulation that runs beside the watched processes.
pub struct Watcher {
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
    pub room: Room,
    /// The warm-up was not over: all was counted.
    pub is_cold: bool,
}

struct Work {
    accesses: Accesses,
    estimator: Estimator,
    policy: Policy,
    /// Requested sizes, with the memory that each is of.
    given: Vec<(Given, Bytes)>,
    room: Room,
    page: PageSize,
    began: Instant,
    looked: Instant,
    warm_up: Option<Duration>,
    /// Requested before the start of counting.
    before: u64,
}

impl Watcher {
    /// Starts to simulate the sizes of `memory` and those of the grid.
    pub fn start(
        accesses: Accesses,
        mut room: Room,
        memory: &[Bytes],
        warm_up: Option<Duration>,
        policy: Policy,
    ) -> Result<Watcher> {
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
            estimator,
            policy,
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
        Ok(Watcher { stop, thread })
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
        loop {
            // Asked before the ring is emptied: what came until then is in it.
            let is_last = stop.load(Ordering::Acquire);
            if !is_last {
                self.accesses.wait(INTERVAL);
            }
            let mut full = 0;
            loop {
                self.accesses.read(&mut batch)?;
                for access in &batch {
                    self.estimator.access(&simulated(access));
                }
                self.follow_rate()?;
                self.look_at_the_clock()?;
                if batch.len() < Accesses::BATCH {
                    break;
                }
                full += 1;
                if full == TOO_MANY {
                    full = 0;
                    self.estimator.lower_rate();
                }
            }
            if is_last {
                return self.seen();
            }
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
        let requested = self.accesses.requested()?.0 - self.before;
        Ok(Seen {
            curve: self.estimator.curve(Some(requested)),
            policy: self.policy,
            elapsed: self.began.elapsed(),
            lost: self.accesses.lost()?,
            room: self.room,
            is_cold: self.warm_up.is_some(),
        })
    }
}

fn simulated(access: &cachewise_probe::Access) -> Access {
    Access {
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
        },
        reader: access.reader.map(|reader| Reader {
            id: reader.id,
            file_pages: reader.file_pages,
            window: reader.window,
            largest_folio: reader.largest_folio,
            follows: reader.follows,
            continues: reader.continues,
        }),
    }
}
