//! From stretches to what is given out: sums since the start, ticks for live views, a window for findings.
//!
//! A scrape takes a stretch of its own, so that its counters are the kernel's at that moment. A tick is what
//! came together since the tick before, however many scrapes were in between.
//!
//! # Layout
//! - [`Gatherer`]: the thread that watches. [`Asking`]: the way to ask it.
//! - [`Gathered`]: what it has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use cachewise_model::{Finding, Report, Row, Stretch};
use serde_json::{Value as Json, json};
use tokio::sync::{broadcast, oneshot};

use crate::http::live;
use crate::metrics::Groups;
use crate::options::Options;
use crate::source::{Machine, Watching};

/// Requests that may wait.
const WAITING: usize = 64;
/// Events that a client may lag behind.
const EVENTS: usize = 16;
/// Ticks that are kept whole, for tables over a longer time and findings.
const WINDOW: Duration = Duration::from_secs(60);
/// Putting a minute together costs some milliseconds.
const FINDINGS_LAST: Duration = Duration::from_secs(5);
/// Rows of a kind that a kept tick has: those that did most.
const MOST_ROWS: usize = 1000;
/// Points of the charts' past.
const MOST_POINTS: usize = 900;

type Request = Box<dyn FnOnce(&mut Gathered, &mut dyn Watching) + Send>;

/// What was gathered.
pub(crate) struct Gathered {
    pub(crate) machine: Arc<Machine>,
    pub(crate) options: Arc<Options>,
    /// Sums since the start, without parts.
    pub(crate) totals: Option<Stretch>,
    /// Devices, with sums since the start.
    pub(crate) devices: Option<Stretch>,
    /// Control groups with metrics of their own.
    pub(crate) groups: Groups,
    pending: Option<Stretch>,
    window: VecDeque<Arc<Stretch>>,
    points: VecDeque<Json>,
    events: broadcast::Sender<Arc<str>>,
    findings: Vec<Finding>,
    diagnosed: Option<Instant>,
    /// Why the last stretch could not be had.
    pub(crate) failed: Option<String>,
}

/// The way to ask the thread that watches.
#[derive(Clone)]
pub struct Asking {
    requests: SyncSender<Request>,
    events: broadcast::Sender<Arc<str>>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

impl Asking {
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Gathered, &mut dyn Watching) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = oneshot::channel();
        let request: Request = Box::new(move |gathered, watching| {
            if !sender.is_closed() {
                // Who asked may have gone meanwhile.
                let _ = sender.send(what(gathered, watching));
            }
        });
        self.requests
            .try_send(request)
            .map_err(|_| "too many requests wait: try again".to_owned())?;
        receiver
            .await
            .map_err(|_| "the thread that watches has ended".to_owned())
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<Arc<str>> {
        self.events.subscribe()
    }
}

/// The thread that watches: answers requests, and ticks.
pub struct Gatherer {
    gathered: Gathered,
    requests: Receiver<Request>,
}

impl std::fmt::Debug for Gatherer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gatherer").finish_non_exhaustive()
    }
}

impl Gatherer {
    /// Sets it up; nothing is watched before [`Gatherer::run`].
    #[must_use]
    pub fn new(machine: Arc<Machine>, options: Arc<Options>) -> (Gatherer, Asking) {
        let (sender, requests) = sync_channel(WAITING);
        let (events, _) = broadcast::channel(EVENTS);
        let groups = Groups::new(options.top_groups);
        let asking = Asking {
            requests: sender,
            events: events.clone(),
        };
        let gathered = Gathered {
            machine,
            options,
            totals: None,
            devices: None,
            groups,
            pending: None,
            window: VecDeque::new(),
            points: VecDeque::new(),
            events,
            findings: Vec::new(),
            diagnosed: None,
            failed: None,
        };
        (Gatherer { gathered, requests }, asking)
    }

    /// Watches until nobody can ask any more.
    pub fn run(mut self, watching: &mut dyn Watching) {
        let interval = self.gathered.options.interval;
        let mut due = Instant::now() + interval;
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            match self.requests.recv_timeout(wait) {
                Ok(request) => request(&mut self.gathered, watching),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= due {
                self.gathered.tick(watching);
                // A machine that slept: no rush to catch up.
                due = (due + interval).max(Instant::now());
            }
        }
    }
}

impl Gathered {
    /// Takes a stretch and adds it to everything.
    pub(crate) fn take(&mut self, watching: &mut dyn Watching) -> Result<(), String> {
        let mut stretch = match watching.stretch() {
            Ok(stretch) => stretch,
            Err(error) => {
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        self.failed = None;
        self.options.names.mask(&mut stretch);
        stretch.uses.clear();
        stretch.files.truncate(MOST_ROWS);
        self.groups.add(&stretch.cgroups);
        let devices = std::mem::take(&mut stretch.devices);
        append(
            &mut self.devices,
            Stretch {
                devices: devices.clone(),
                ..without_parts(&stretch)
            },
        );
        append(&mut self.totals, without_parts(&stretch));
        stretch.devices = devices;
        append(&mut self.pending, stretch);
        Ok(())
    }

    fn tick(&mut self, watching: &mut dyn Watching) {
        if let Err(error) = self.take(watching) {
            let _ = self.events.send(live::error_event(&error).into());
            return;
        }
        let Some(tick) = self.pending.take() else {
            return;
        };
        let tick = Arc::new(tick);
        self.window.push_back(tick.clone());
        let mut length: Duration = self.window.iter().map(|tick| tick.elapsed).sum();
        while length > WINDOW && self.window.len() > 1 {
            length -= self
                .window
                .pop_front()
                .map_or(Duration::ZERO, |old| old.elapsed);
        }
        self.points.push_back(live::point(&tick));
        if self.points.len() > MOST_POINTS {
            self.points.pop_front();
        }
        if self.events.receiver_count() > 0 {
            let event = live::event(&tick, self.findings());
            // The last client may have gone just now.
            let _ = self.events.send(event.into());
        }
    }

    /// The ticks of this long a time put together, the last one at least; nothing before the first.
    pub(crate) fn over(&self, time: Duration) -> Option<Stretch> {
        let mut wanted = Vec::new();
        let mut length = Duration::ZERO;
        for tick in self.window.iter().rev() {
            // A tick takes a little longer than its interval.
            if !wanted.is_empty() && length + tick.elapsed.mul_f64(0.5) > time {
                break;
            }
            length += tick.elapsed;
            wanted.push(tick);
        }
        let mut wanted = wanted.into_iter().rev();
        let mut sum = Stretch::clone(wanted.next()?);
        wanted.for_each(|tick| sum.append(Stretch::clone(tick)));
        Some(sum)
    }

    /// What is wrong, in the last minute.
    pub(crate) fn findings(&mut self) -> &[Finding] {
        if self
            .diagnosed
            .is_none_or(|at| at.elapsed() >= FINDINGS_LAST)
        {
            self.findings = self.diagnose();
            self.diagnosed = Some(Instant::now());
        }
        &self.findings
    }

    /// The charts' past.
    pub(crate) fn points(&self) -> Json {
        self.points.iter().cloned().collect()
    }

    /// The sums since the start as a row of the one table.
    pub(crate) fn total_row(&self) -> Row {
        self.totals.as_ref().map(Stretch::row).unwrap_or_default()
    }

    fn diagnose(&self) -> Vec<Finding> {
        let Some(window) = self.over(WINDOW) else {
            return Vec::new();
        };
        let report = Report::new(
            window.time.clone(),
            self.machine.hostname.clone(),
            self.machine.page_size,
            self.machine.kernel_release.clone(),
        );
        report.of_stretch(&window).findings
    }

    /// The members that every document begins with.
    pub(crate) fn head(&self, time: &str) -> Json {
        json!({
            "schema_version": cachewise_model::SCHEMA_VERSION,
            "timestamp": time,
            "hostname": self.machine.hostname,
            "page_size_bytes": self.machine.page_size.get(),
        })
    }
}

/// The machine's numbers of a stretch.
fn without_parts(stretch: &Stretch) -> Stretch {
    Stretch {
        time: stretch.time.clone(),
        elapsed: stretch.elapsed,
        ledger: stretch.ledger.clone(),
        system: stretch.system.clone(),
        device_read_bytes: stretch.device_read_bytes,
        device_write_bytes: stretch.device_write_bytes,
        processes: Vec::new(),
        files: Vec::new(),
        cgroups: Vec::new(),
        devices: Vec::new(),
        uses: Vec::new(),
        lost: stretch.lost.clone(),
    }
}

fn append(sum: &mut Option<Stretch>, later: Stretch) {
    match sum {
        Some(sum) => sum.append(later),
        None => *sum = Some(later),
    }
}
