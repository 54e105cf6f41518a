//! Progress on standard error: only on a terminal, and only of what takes longer than half a second.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cachewise_units::Bytes;
use console::Term;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// Minimum duration of work that gets a progress bar.
const BAR_DELAY: Duration = Duration::from_millis(500);

/// How often a meter is read.
const TICK: Duration = Duration::from_millis(100);

/// Columns of `^C`, which a terminal echoes after the bar; `^Z` has the same width.
const TYPED: u16 = 2;

/// The target of progress bars: standard error, without the last columns, as an echoed `^C` would wrap the line and leave
/// the bar on the screen.
pub fn on_stderr() -> ProgressDrawTarget {
    ProgressDrawTarget::term_like(Box::new(Narrow(Term::buffered_stderr())))
}

/// A terminal that passes for one with less room.
#[derive(Debug)]
struct Narrow(Term);

impl TermLike for Narrow {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(TYPED + 1).max(1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Progress of work on files by several threads: a bar, if the number of bytes is known.
///
/// A separate thread reads it, so that the bar moves while a large file is read.
pub struct Meter {
    counts: Arc<Counts>,
    bar: ProgressBar,
    /// Without a terminal nothing is drawn, and each row of a list asks for that.
    is_on_terminal: bool,
    /// The thread, and the channel that ends it when dropped; `None` without a terminal.
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
            is_on_terminal: io::stderr().is_terminal(),
            drawn: Mutex::new(None),
        };
        if meter.is_on_terminal {
            let (sender, ended) = channel::<()>();
            let draw = move || {
                let mut wait = BAR_DELAY;
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
                    counts.show(&bar);
                    if wait == BAR_DELAY {
                        bar.set_draw_target(on_stderr());
                        wait = TICK;
                    }
                }
            };
            // Without it nothing is lost but the view.
            let thread = cachewise_sys::start_thread("progress", draw).ok();
            *meter.drawn() = thread.map(|thread| (sender, thread));
        }
        meter
    }

    /// Adds bytes to the planned work.
    pub fn plan(&self, bytes: Bytes) {
        self.counts.planned.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// Adds bytes to the finished work.
    pub fn advance(&self, bytes: Bytes) {
        self.counts.done.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// One more file is done.
    pub fn file(&self) {
        self.counts.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes something else to the terminal, with the bar out of its way.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match self.is_on_terminal && self.drawn().is_some() {
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
