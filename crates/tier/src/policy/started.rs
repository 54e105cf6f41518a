//! [`Started`]: when the first byte of an answer came.

use std::sync::OnceLock;

use tokio::time::Instant;

/// Told by an engine when the first byte of an answer is there.
#[derive(Debug, Default)]
pub struct Started(OnceLock<Instant>);

impl Started {
    /// Says that it is.
    pub fn now(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Returns when it was.
    pub(crate) fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
