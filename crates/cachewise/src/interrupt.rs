//! Walks that end at Ctrl-C with what was done until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use cachewise_cli::interrupt::Interrupt;
use cachewise_residency::Walk;

/// Whether work is to end early: because of a signal, or never.
#[derive(Clone, Debug, Default)]
pub struct Stop(Option<Arc<AtomicBool>>);

impl Stop {
    /// At the first ending signal.
    pub fn at(interrupt: &Interrupt) -> Stop {
        Stop(Some(interrupt.shared()))
    }

    /// Whether it came.
    pub fn is_asked(&self) -> bool {
        let flag = self.0.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Acquire))
    }

    /// The same walk, which ends then.
    pub fn ends(&self, walk: Walk) -> Walk {
        match &self.0 {
            Some(flag) => walk.cancelled_by(Arc::clone(flag)),
            None => walk,
        }
    }
}
