//! [`Started`]: when the first and the latest bytes of an answer came.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Told by an engine when bytes of an answer are there.
#[derive(Debug, Default)]
pub struct Started(Mutex<Option<[Instant; 2]>>);

impl Started {
    /// Says that bytes came.
    pub fn now(&self) {
        let now = Instant::now();
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, _] = times.unwrap_or([now; 2]);
        *times = Some([first, now]);
    }

    /// Returns when the first byte came.
    pub(crate) fn get(&self) -> Option<Instant> {
        self.times().map(|[first, _]| first)
    }

    /// Returns when the latest bytes came.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.times().map(|[_, latest]| latest)
    }

    fn times(&self) -> Option<[Instant; 2]> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
