//! `--stacks`: a thread that unwinds stacks while the program runs, and the files that are made of them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use cachewise_cli::output::Whole;
use cachewise_kstat::Kernel;
use cachewise_model::{Interval, Lost};
use cachewise_probe::{Error, Probe, StackRecord, Stacks};
use cachewise_stacks::Collector;
use cachewise_units::escaped;
use cachewise_view::{flame_svg, folded_stacks};

use super::arguments::Run;

/// The ring is emptied this often at least. New code wakes the thread at once, and so does a ring that fills up.
const INTERVAL: Duration = Duration::from_millis(20);

/// The ring and what came out of it.
struct Work {
    ring: Stacks,
    collector: Collector,
    records: Vec<StackRecord>,
}

impl Work {
    fn run(mut self, stop: &AtomicBool) -> Result<Work, Error> {
        loop {
            // Asked before the ring is emptied: what came until then is in it.
            let is_last = stop.load(Ordering::Acquire);
            if !is_last {
                self.ring.wait(INTERVAL);
            }
            self.empty()?;
            if is_last {
                return Ok(self);
            }
        }
    }

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

/// Takes stacks from a probe.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Work, Error>>>,
    /// The state of the thread, once it has ended.
    work: Option<Work>,
}

impl Watcher {
    pub fn start(probe: &Probe) -> Result<Watcher> {
        let work = Work {
            ring: probe.stacks()?,
            collector: Collector::new(Kernel::new()),
            records: Vec::new(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = cachewise_sys::start_thread("stacks", move || work.run(&stopped))
            .context("cannot start the thread that unwinds stacks")?;
        Ok(Watcher {
            stop,
            thread: Some(thread),
            work: None,
        })
    }

    /// Ends the thread, and returns whether there was one: for a program that cannot be started while it counts towards a
    /// limit on processes. Stacks are unwound at the end then, and those of processes that have ended are unknown.
    pub fn end_thread(&mut self) -> bool {
        let Some(thread) = self.thread.take() else {
            return false;
        };
        self.stop.store(true, Ordering::Release);
        self.work = thread.join().ok().and_then(Result::ok);
        true
    }

    /// Takes what has come so far; the probe may be detached then.
    pub fn finish(mut self, probe: &Probe) -> Result<Collector> {
        self.stop.store(true, Ordering::Release);
        let ended = || anyhow!("the thread that unwinds stacks ended early");
        let mut work = match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| ended())??,
            None => self.work.take().ok_or_else(ended)?,
        };
        work.empty()?;
        work.collector.take_rest(&probe.stack_rest()?);
        Ok(work.collector)
    }
}

/// Names the functions, and enters the stacks in the report.
pub fn fill(interval: &mut Interval, collector: Collector) {
    let (stacks, lost) = collector.finish();
    interval.run_mut().stacks = Some(stacks);
    if lost > 0 {
        Lost::add(&mut interval.lost, &[Lost::new("stacks", lost)]);
    }
}

/// The files that are made of stacks, opened before anything is measured.
#[derive(Default)]
pub struct Files {
    folded: Option<Whole>,
    flame_graph: Option<Whole>,
}

impl Files {
    pub fn open(arguments: &Run) -> Result<Files> {
        let open = |path: &Path| {
            let cannot = || format!("cannot create the file {}", escaped(path));
            Whole::begin(path).with_context(cannot)
        };
        Ok(Files {
            folded: arguments.folded.as_deref().map(open).transpose()?,
            flame_graph: arguments.flamegraph.as_deref().map(open).transpose()?,
        })
    }

    pub fn write(self, interval: &Interval, arguments: &Run) -> Result<()> {
        let Some(stacks) = &interval.run().stacks else {
            return Ok(());
        };
        let (weight, page) = (arguments.stack_weight.get(), interval.page().get());
        if let Some(file) = self.folded {
            let text = folded_stacks(stacks, weight, page);
            file.write(text.as_bytes())
                .context("cannot write the folded stacks")?;
        }
        if let Some(file) = self.flame_graph {
            let text = flame_svg(stacks, weight, page);
            file.write(text.as_bytes())
                .context("cannot write the flame graph")?;
        }
        Ok(())
    }
}
