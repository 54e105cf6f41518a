//! Progress on standard error: only on a terminal, and only of what takes longer than half a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done sooner is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// The clock is asked once in so many steps.
const STEPS: u64 = 256;

/// A count that goes up, or a bar where the end is known.
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
