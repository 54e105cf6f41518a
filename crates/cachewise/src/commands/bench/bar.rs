//! [`Bar`]: progress bar of a measurement, only on a terminal and only for long work.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use cachewise_bench::{Event, Workload};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::on_stderr;

/// Work that ends sooner gets no bar.
const SHOW_AFTER: Duration = Duration::from_millis(500);

/// Parts of a bar; all of them mean done.
const PARTS: u64 = 10_000;

/// A bar, or none without a terminal.
pub struct Bar {
    bar: Option<ProgressBar>,
    began: Instant,
    is_drawn: bool,
    what: &'static str,
}

impl Bar {
    pub fn new() -> Bar {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::hidden());
            let template = "{msg} {bar:30} {percent} %, {elapsed} gone, {eta} left";
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Bar {
            bar,
            began: Instant::now(),
            is_drawn: false,
            what: "",
        }
    }

    /// Shows the share of `total` that is done.
    pub fn show(&mut self, what: &'static str, done: u64, total: u64) {
        let Some(bar) = &self.bar else {
            return;
        };
        if self.what != what {
            self.what = what;
            bar.set_message(what);
            bar.reset();
        }
        if !self.is_drawn && self.began.elapsed() >= SHOW_AFTER {
            self.is_drawn = true;
            bar.set_draw_target(on_stderr());
        }
        let parts = u128::from(done.min(total)) * u128::from(PARTS) / u128::from(total.max(1));
        bar.set_position(parts as u64);
    }

    /// Advances the bar on an event.
    pub fn event(&mut self, workload: &Workload, event: &Event<'_>) {
        match event {
            Event::Preparing { what, done, total } => self.show(what.word(), done.0, total.0),
            _ => {
                if let Some(part) = part(workload, event) {
                    self.show("measuring", (part * PARTS as f64) as u64, PARTS);
                }
            }
        }
    }

    /// Advances the bar on an event of one of several runs, `over` of which are done; it shows the
    /// time that all still need.
    pub fn event_of(&mut self, over: usize, all: usize, workload: &Workload, event: &Event<'_>) {
        if let Some(part) = part(workload, event) {
            let parts = (over as f64 + part) * PARTS as f64;
            self.show("measuring", parts as u64, PARTS * all as u64);
        }
    }

    /// Writes other text to the terminal, with the bar hidden meanwhile.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) if self.is_drawn => bar.suspend(write),
            _ => write(),
        }
    }

    /// Removes the bar.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Share of a run that is done.
fn part(workload: &Workload, event: &Event<'_>) -> Option<f64> {
    let (Event::Tick { elapsed, bytes } | Event::Interval { elapsed, bytes, .. }) = event else {
        return None;
    };
    // The limit that ends it first.
    let of_time = workload
        .seconds
        .map_or(0.0, |time| elapsed.as_secs_f64() / time.as_secs_f64());
    let of_bytes = workload
        .bytes
        .map_or(0.0, |all| bytes.0 as f64 / all.0 as f64);
    Some(of_time.max(of_bytes).min(1.0))
}
