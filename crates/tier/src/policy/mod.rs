//! How a slow node is dealt with, whatever the engine.

mod remote;

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use remote::{Found, Remote};

/// Told by an engine when the first byte of an answer is there.
#[derive(Debug, Default)]
pub struct Started(AtomicBool);

impl Started {
    /// Says that it is.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether it is.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
