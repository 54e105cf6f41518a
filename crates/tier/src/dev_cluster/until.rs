//! [`Until`]: waiting with a deadline that can be interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::DevClusterError;

/// Until when to wait for something.
pub(super) struct Until<'a> {
    pub(super) deadline: Instant,
    pub(super) patience: Duration,
    pub(super) interrupted: &'a AtomicBool,
}

impl Until<'_> {
    /// Looks every few milliseconds until there is something.
    pub(super) fn there<T>(
        &self,
        what: &str,
        mut look: impl FnMut() -> Result<Option<T>, DevClusterError>,
    ) -> Result<T, DevClusterError> {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if self.interrupted.load(Ordering::Acquire) {
                return Err(DevClusterError::Interrupted);
            }
            if Instant::now() >= self.deadline {
                return Err(DevClusterError::Late {
                    what: what.to_owned(),
                    patience: self.patience,
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
