//! [`Watch`]: following long work, and stopping it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use cachewise_units::Bytes;

/// How long work is followed and stopped. The default neither follows nor stops.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a> {
    /// The work ends early once this is set, with what was done until then.
    pub cancel: Option<&'a AtomicBool>,
    /// Told of progress by every thread that works.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
}

/// A step of long work. Both kinds add up, over all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So much more is to be done, now that it is known.
    Planned(Bytes),
    /// So much more has been done.
    Done(Bytes),
}

impl Watch<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel
            .is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    pub(crate) fn tell(&self, progress: Progress) {
        if let Some(tell) = self.progress {
            tell(progress);
        }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("cancel", &self.cancel)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}
