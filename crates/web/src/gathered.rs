//! [`Gathered`]: sums since the start, ticks for live views, and a window for findings.
//!
//! A scrape takes an interval of its own, so that its counters are the kernel's at that moment. A tick sums
//! everything since the tick before, whatever the number of scrapes in between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachewise_model::{
    Count, Counter, Diagnosis, EvictionCause, Exactness, Exit, Interval, Lost, ProcessFileUse,
    ProcessRow, Row, Stacks, Sum,
};
use serde_json::Value as Json;
use tokio::sync::broadcast;

use crate::documents;
use crate::events;
use crate::history::{History, append, of_machine};
use crate::metrics::{Culprits, Devices, Groups};
use crate::options::Options;
use crate::source::{Machine, Watching};

/// Ticks that are kept whole, for tables over a longer time and findings.
const WINDOW: Duration = Duration::from_secs(60);
/// Older ticks of the window are merged into parts of this length.
const PART: Duration = Duration::from_secs(1);
/// Putting a minute together costs some milliseconds.
const FINDINGS_LAST: Duration = Duration::from_secs(5);
/// Rows of a kind that a kept tick has: those that did most.
const MOST_ROWS: usize = 1000;
/// A request before the first tick gets an interval of at least this length.
const FIRST: Duration = Duration::from_millis(100);
/// Stacks of each event that are kept whole.
const MOST_STACKS: usize = 64;
/// Uses of files by processes that a kept tick has, and a second of the window: those that did most.
const MOST_USES: usize = 1000;

/// The counters and findings that requests read.
pub(crate) struct Gathered {
    pub(crate) machine: Arc<Machine>,
    pub(crate) options: Arc<Options>,
    /// Sums since the start, of the machine.
    pub(crate) totals: Option<Interval>,
    /// Devices with metrics of their own.
    pub(crate) devices: Devices,
    /// Control groups with metrics of their own.
    pub(crate) groups: Groups,
    /// Evicted pages since the start, by the number of the cause.
    pub(crate) evicted: [u64; EvictionCause::ALL.len()],
    /// The same by the control group of the process that evicts.
    pub(crate) culprits: Culprits,
    /// Stacks since the start, where they are watched.
    pub(crate) stacks: Option<Stacks>,
    pending: Option<Interval>,
    window: VecDeque<Interval>,
    /// The past of the charts.
    pub(crate) history: History,
    events: broadcast::Sender<Arc<str>>,
    diagnosis: Diagnosis,
    begun: Instant,
    diagnosed: Option<Instant>,
    /// Time that taking intervals took.
    pub(crate) watched: Duration,
    /// The error of the last interval, if it failed.
    pub(crate) failed: Option<String>,
}

impl Gathered {
    pub(crate) fn new(
        machine: Arc<Machine>,
        options: Arc<Options>,
        events: broadcast::Sender<Arc<str>>,
    ) -> Gathered {
        Gathered {
            machine,
            groups: Groups::new(options.top_groups),
            devices: Devices::new(options.top_groups),
            culprits: Culprits::new(options.top_groups),
            options,
            evicted: [0; EvictionCause::ALL.len()],
            totals: None,
            stacks: None,
            pending: None,
            watched: Duration::ZERO,
            window: VecDeque::new(),
            history: History::default(),
            events,
            diagnosis: Diagnosis::default(),
            begun: Instant::now(),
            diagnosed: None,
            failed: None,
        }
    }

    /// Takes an interval and adds it to the totals, the groups and the pending tick.
    pub(crate) fn take(&mut self, watching: &mut dyn Watching) -> Result<(), String> {
        let begin = Instant::now();
        let interval = watching.interval();
        self.watched += begin.elapsed();
        let mut interval = match interval {
            Ok(interval) => interval,
            Err(error) => {
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        self.failed = None;
        self.options.names.mask(&mut interval);
        if let Some(later) = interval.stacks.take() {
            let stacks = self.stacks.get_or_insert_default();
            stacks.append(later);
            stacks.reduce(MOST_STACKS, interval.page().get());
        }
        for eviction in &interval.evictions {
            self.evicted[eviction.cause as usize] += eviction.pages;
        }
        self.culprits.add(&interval.evictions);
        interval.files.truncate(MOST_ROWS);
        interval.uses.retain(|used| used.file < MOST_ROWS);
        keep_uses(&mut interval.uses);
        interval
            .evictions
            .retain(|eviction| eviction.file < MOST_ROWS);
        interval.evictions.truncate(MOST_ROWS);
        self.groups.add(&interval.cgroups);
        self.devices.add(&interval.devices);
        append(&mut self.totals, of_machine(&interval));
        append(&mut self.pending, interval);
        Ok(())
    }

    pub(crate) fn tick(&mut self, watching: &mut dyn Watching) {
        if let Err(error) = self.take(watching) {
            let _ = self.events.send(events::error_event(&error).into());
            return;
        }
        let Some(tick) = self.pending.take() else {
            return;
        };
        self.history.add(&tick);
        self.keep(tick);
        let mut length: Duration = self.window.iter().map(|tick| tick.elapsed).sum();
        while length > WINDOW && self.window.len() > 1 {
            length -= self
                .window
                .pop_front()
                .map_or(Duration::ZERO, |old| old.elapsed);
        }
        if self.events.receiver_count() > 0 {
            let findings = self.findings().clone();
            if let Some(tick) = self.window.back() {
                // The last client may have gone just now.
                let event = events::event(tick, &findings, self.exactness(), self.lost());
                let _ = self.events.send(event.into());
            }
        }
    }

    /// Adds a tick to the window. Only the newest one is kept as it came.
    fn keep(&mut self, tick: Interval) {
        if let Some(mut last) = self.window.pop_back() {
            forget_idle(&mut last);
            match self.window.back_mut() {
                Some(part) if part.elapsed + last.elapsed <= PART => {
                    part.append(last);
                    keep_uses(&mut part.uses);
                }
                _ => self.window.push_back(last),
            }
        }
        self.window.push_back(tick);
    }

    /// As [`Gathered::over`], but before the first tick it makes one that is short.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn over_or_begin(
        &mut self,
        time: Duration,
        watching: &mut dyn Watching,
    ) -> Result<Interval, String> {
        if self.window.is_empty() {
            // Rates over an instant say nothing.
            std::thread::sleep(FIRST.saturating_sub(self.begun.elapsed()));
            self.tick(watching);
        }
        self.over(time).ok_or_else(|| {
            let why = self.failed.clone();
            why.unwrap_or_else(|| "nothing was measured yet".into())
        })
    }

    /// The ticks of this long a time put together, the last one at least; nothing before the first.
    pub(crate) fn over(&self, time: Duration) -> Option<Interval> {
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
        let mut sum = Sum::of(wanted.next()?.clone());
        wanted.for_each(|tick| sum.add(tick.clone()));
        Some(sum.into_whole())
    }

    /// Returns the findings of the last minute, renewed every few seconds.
    pub(crate) fn findings(&mut self) -> &Diagnosis {
        if self
            .diagnosed
            .is_none_or(|at| at.elapsed() >= FINDINGS_LAST)
        {
            self.diagnosis = self.diagnose();
            self.diagnosed = Some(Instant::now());
        }
        &self.diagnosis
    }

    /// How far the numbers since the start can be trusted: what was lost once stays said.
    pub(crate) fn exactness(&self) -> Exactness {
        Exactness::new(self.machine.source.backend.exact, self.lost())
    }

    /// Losses since the start.
    pub(crate) fn lost(&self) -> &[Lost] {
        self.totals.as_ref().map_or(&[], |totals| &totals.lost)
    }

    /// The ticks of the last minute, oldest first: the newest as it came, older ones by the second.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Interval> {
        self.window.iter()
    }

    /// The last minute in one; see [`Gathered::over_or_begin`].
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn minute_or_begin(
        &mut self,
        watching: &mut dyn Watching,
    ) -> Result<Interval, String> {
        self.over_or_begin(WINDOW, watching)
    }

    /// When the newest tick ended.
    pub(crate) fn time(&self) -> Option<&str> {
        self.window.back().map(|tick| tick.time.as_str())
    }

    /// The sums since the start as a row of the one table.
    pub(crate) fn total_row(&self) -> Row {
        self.totals.as_ref().map(Interval::row).unwrap_or_default()
    }

    fn diagnose(&self) -> Diagnosis {
        let window = self.over(WINDOW);
        window.map_or_else(Diagnosis::default, |window| Diagnosis::of(&window))
    }

    /// The members that every document begins with.
    pub(crate) fn head(&self, time: &str) -> Json {
        documents::head(&self.machine.source, time)
    }
}

/// Takes out the processes that only were there: a later tick has them too. Every tick has all that ever
/// used the page cache and are alive, and thousands of them for hundreds of ticks would be gigabytes.
fn forget_idle(tick: &mut Interval) {
    let did = |count: Count| count.known().is_none_or(|count| count > 0);
    let is_kept = |process: &ProcessRow| {
        process.exit != Exit::Running
            || !process.ledger.is_zero()
            || did(process.device_read_bytes)
            || did(process.device_write_bytes)
            || process.cpu_seconds.known().is_none_or(|time| time > 0.0)
    };
    let mut kept = 0;
    let places: Vec<Option<usize>> = tick
        .processes
        .iter()
        .map(|process| {
            let place = is_kept(process).then_some(kept);
            kept += usize::from(place.is_some());
            place
        })
        .collect();
    tick.processes.retain(is_kept);
    tick.processes.shrink_to_fit();
    for used in &mut tick.uses {
        let place = used.process.and_then(|place| places.get(place));
        used.process = place.copied().flatten();
    }
}

/// Keeps the uses that fetched or requested most.
fn keep_uses(uses: &mut Vec<ProcessFileUse>) {
    if uses.len() > MOST_USES {
        let did = |used: &ProcessFileUse| {
            let count = |counter| used.ledger.counts()[counter as usize];
            let missed = count(Counter::ReadMissedPages);
            (
                missed,
                count(Counter::DirectReadBytes),
                count(Counter::ReadRequestedPages),
            )
        };
        uses.select_nth_unstable_by_key(MOST_USES, |used| std::cmp::Reverse(did(used)));
        uses.truncate(MOST_USES);
    }
    uses.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Ledger, Measured};

    use super::*;
    use crate::sample::{self, tick};

    fn process(pid: u32, pages: u64) -> ProcessRow {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, pages);
        ProcessRow {
            pid: Some(pid),
            started: Measured::Exact(1),
            ppid: Measured::Exact(1),
            command: Measured::Exact("x".into()),
            cgroup: Measured::Exact("/".into()),
            exit: Exit::Running,
            cpu_seconds: Measured::Exact(0.0),
            device_read_bytes: Measured::Exact(0),
            device_write_bytes: Measured::Exact(0),
            ledger,
        }
    }

    fn gathered() -> Gathered {
        let (events, _) = broadcast::channel(1);
        let (machine, options) = (sample::machine(), sample::options());
        Gathered::new(Arc::new(machine), Arc::new(options), events)
    }

    #[test]
    fn the_window_keeps_what_was_done_and_not_each_time_who_was_there() {
        let mut gathered = gathered();
        for _ in 0..50 {
            let idle = (10..1000).map(|pid| process(pid, 0));
            let rows = std::iter::once(process(1, 2)).chain(idle);
            gathered.keep(tick(100, rows.collect()));
        }
        assert!(
            gathered.window.len() <= 6,
            "short ticks are put together: {}",
            gathered.window.len()
        );
        let rows: usize = gathered
            .window
            .iter()
            .map(|part| part.processes.len())
            .sum();
        assert!(
            rows < 1000,
            "idle ones are in the newest tick alone: {rows}"
        );
        let last = gathered.over(Duration::from_millis(100)).expect("a tick");
        assert_eq!(last.elapsed.as_millis(), 100, "the newest is as it came");
        let all = gathered.over(WINDOW).expect("ticks");
        assert_eq!(all.elapsed.as_secs(), 5, "all of the time is there");
        assert_eq!(all.processes.len(), 991, "and everybody");
        let busy = all.processes.iter().find(|process| process.pid == Some(1));
        assert_eq!(
            busy.map(|busy| busy.ledger[Counter::ReadRequestedPages]),
            Some(100),
            "with all that was done"
        );
    }

    #[test]
    fn uses_stay_with_their_process_when_idle_ones_are_forgotten() {
        let mut gathered = gathered();
        let mut first = tick(1000, vec![process(1, 0), process(2, 7), process(3, 0)]);
        first.uses = [0, 1]
            .map(|place| ProcessFileUse {
                process: Some(place),
                file: 0,
                ledger: Ledger::default(),
            })
            .into();
        gathered.keep(first);
        gathered.keep(tick(1000, Vec::new()));
        let kept = &gathered.window[0];
        let pids = kept.uses.iter().map(|used| {
            let process = used.process.map(|place| &kept.processes[place]);
            process.and_then(|process| process.pid)
        });
        assert_eq!(pids.collect::<Vec<_>>(), [None, Some(2)]);
    }
}
