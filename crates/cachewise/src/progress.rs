//! Progress on standard error: only on a terminal, and only of what takes longer than half a second.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cachewise_units::Bytes;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done sooner is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often a meter is read.
const TICK: Duration = Duration::from_millis(100);

/// Files that are looked at, or worked on by several threads: a bar, where it is known how many bytes there are
/// to be.
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
            _ => format!("{} files", HumanCount(files)),
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
