//! Progress on standard error: only on a terminal, and only of what takes longer than half a second.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cachewise_units::Bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done sooner is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// The clock is asked once in so many steps.
const STEPS: u64 = 256;

/// How often a meter is read.
const TICK: Duration = Duration::from_millis(100);

/// A count that goes up.
pub struct Progress {
    noun: &'static str,
    /// `None` where nobody would see it.
    since: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Counts things of this name.
    pub fn new(noun: &'static str) -> Progress {
        Progress {
            noun,
            since: std::io::stderr().is_terminal().then(Instant::now),
            bar: None,
        }
    }

    /// Counts nothing: something else tells.
    pub fn silent() -> Progress {
        Progress {
            noun: "",
            since: None,
            bar: None,
        }
    }

    /// So many are done.
    pub fn at(&mut self, done: u64) {
        let Some(since) = self.since.filter(|_| done.is_multiple_of(STEPS)) else {
            return;
        };
        if self.bar.is_none() && since.elapsed() >= PATIENCE {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = format!("{{spinner}} {{human_pos}} {} in {{elapsed}}", self.noun);
            if let Ok(style) = ProgressStyle::with_template(&style) {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Clears the line.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Files and bytes that several threads work on: a bar, where it is known how many bytes there are to be.
///
/// A thread of its own reads it, so that a file that takes long is seen to take long.
pub struct Meter {
    counts: Arc<Counts>,
    bar: ProgressBar,
    /// The thread, and what ends it when dropped; `None` where nobody would see it.
    drawn: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

#[derive(Default)]
struct Counts {
    files: AtomicU64,
    planned: AtomicU64,
    done: AtomicU64,
}

impl Meter {
    /// Begins to measure.
    pub fn new() -> Meter {
        let counts = Arc::new(Counts::default());
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        let meter = Meter {
            counts: Arc::clone(&counts),
            bar: bar.clone(),
            drawn: Mutex::new(None),
        };
        if std::io::stderr().is_terminal() {
            let (sender, ended) = channel::<()>();
            let draw = move || {
                let mut wait = PATIENCE;
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
                    counts.show(&bar);
                    if wait == PATIENCE {
                        bar.set_draw_target(ProgressDrawTarget::stderr());
                        wait = TICK;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("progress".into());
            // Without it nothing is lost but the view.
            *meter.drawn() = thread.spawn(draw).ok().map(|thread| (sender, thread));
        }
        meter
    }

    /// So many bytes more are to be worked on.
    pub fn plan(&self, bytes: Bytes) {
        self.counts.planned.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// So many bytes more are done.
    pub fn advance(&self, bytes: Bytes) {
        self.counts.done.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// One more file is done.
    pub fn file(&self) {
        self.counts.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes something else to the terminal, with the bar out of its way.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        let is_seen = self.drawn().is_some();
        match is_seen {
            true => self.bar.suspend(write),
            false => write(),
        }
    }

    /// Clears the line, for good.
    pub fn end(&self) {
        let Some((sender, thread)) = self.drawn().take() else {
            return;
        };
        drop(sender);
        // If it panicked, it draws no more either.
        let _ = thread.join();
        self.bar.finish_and_clear();
    }

    fn drawn(&self) -> MutexGuard<'_, Option<(Sender<()>, JoinHandle<()>)>> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn show(&self, bar: &ProgressBar) {
        let files = self.files.load(Ordering::Relaxed);
        let planned = self.planned.load(Ordering::Relaxed);
        // The bar draws with each of these: the look comes last, when the numbers are there.
        bar.set_length(planned);
        bar.set_position(self.done.load(Ordering::Relaxed));
        bar.set_message(match files {
            1 => "1 file".to_owned(),
            _ => format!("{files} files"),
        });
        let template = match planned {
            0 => "{spinner} {msg} in {elapsed}",
            _ => "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {msg} in {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.tick();
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.end();
    }
}
