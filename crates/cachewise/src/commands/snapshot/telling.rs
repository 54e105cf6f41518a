//! Messages about single files.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cachewise_cli::output::{Failures, tell};

use crate::progress::Meter;

/// Tells what could not be done to files, with the bar out of its way.
pub struct Telling<'a> {
    failures: Mutex<Failures>,
    meter: &'a Meter,
}

impl<'a> Telling<'a> {
    pub fn new(meter: &'a Meter) -> Self {
        Telling {
            failures: Mutex::default(),
            meter,
        }
    }

    pub fn tell(&self, text: &str) {
        locked(&self.failures).add(text, |text| self.meter.aside(|| tell(text)));
    }

    /// Ends it, and returns how many there were.
    pub fn end(self) -> u64 {
        self.meter.end();
        locked(&self.failures).end(tell)
    }
}

/// The value, also after a panic: it stays valid.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
