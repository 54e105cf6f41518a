//! Exit status and progress of commands that act on files.

use std::process::ExitCode;

use cachewise_cli::output::{self, tell};
use cachewise_residency::Progress;

use crate::interrupt::Interrupt;
use crate::progress::Meter;

/// The exit status: that of the signal that interrupted the command, failure, or success.
pub fn status(interrupt: &Interrupt, is_failed: bool) -> ExitCode {
    match interrupt.status() {
        Some(status) => {
            tell("interrupted: the work shown above was done, the rest was not");
            status
        }
        None => output::status(is_failed),
    }
}

/// Moves the meter by the progress of the library.
pub fn moving(meter: &Meter) -> impl Fn(Progress) + Sync + '_ {
    |progress| match progress {
        Progress::Planned(bytes) => meter.plan(bytes),
        Progress::Done(bytes) => meter.advance(bytes),
    }
}
