//! `warm`, `evict`, `lock`, `snapshot`: acting on the page cache, and what really changed by it.
//!
//! # Layout
//! - `pool`: files of paths and trees, worked on by several threads
//! - `listed`: the same, with a row for each
//! - `room`: memory for what is locked
//! - `warm`, `evict`, `lock`, `follow`, `snapshot`: the commands; `dump`: the file that `follow` keeps
//! - this file: what they share

mod dump;
mod evict;
mod follow;
mod listed;
mod lock;
mod pool;
mod room;
mod snapshot;
mod warm;

use std::process::ExitCode;

use cachewise_residency::Progress;

use crate::interrupt::Interrupt;
use crate::output::{self, tell};
use crate::progress::Meter;

pub use evict::evict;
pub use lock::lock;
pub use snapshot::snapshot;
pub use warm::warm;

/// How it ended: by a signal, in part, or well.
fn status(interrupt: &Interrupt, is_failed: bool) -> ExitCode {
    match interrupt.status() {
        Some(status) => {
            tell("interrupted: what is said above was done, the rest was left alone");
            status
        }
        None => output::status(is_failed),
    }
}

/// Moves the meter by what the library tells.
fn moving(meter: &Meter) -> impl Fn(Progress) + Sync + '_ {
    |progress| match progress {
        Progress::Planned(bytes) => meter.plan(bytes),
        Progress::Done(bytes) => meter.advance(bytes),
    }
}

/// A number and its noun.
fn number(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
